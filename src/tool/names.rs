//! How a path is written for the model and read back, and which names are near one that does not exist.

use std::ffi::OsString;
use std::fmt::Write;
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// Entries of a folder that are looked at for near names.
const ENTRIES: usize = 2_000;
/// Longest name that is compared, in characters; the file system's own limit is 255 bytes.
const NAME: usize = 255;

/// The path as text. Bytes that are no UTF-8 and control characters become `\xHH`, `\n`, `\r` or `\t`, and then a
/// backslash is doubled; every other path stays as it is. [`literal`] reads it back.
pub(crate) fn show(path: &Path) -> String {
    match path.to_str() {
        Some(text) if !text.contains(char::is_control) => text.to_owned(),
        _ => escaped(path.as_os_str().as_bytes()),
    }
}

fn escaped(bytes: &[u8]) -> String {
    let mut out = String::new();
    for chunk in bytes.utf8_chunks() {
        for char in chunk.valid().chars() {
            match char {
                '\n' => out.push_str("\\n"),
                '\r' => out.push_str("\\r"),
                '\t' => out.push_str("\\t"),
                '\\' => out.push_str("\\\\"),
                _ if char.is_control() => hex(char.to_string().as_bytes(), &mut out),
                _ => out.push(char),
            }
        }
        hex(chunk.invalid(), &mut out);
    }
    out
}

fn hex(bytes: &[u8], out: &mut String) {
    for byte in bytes {
        write!(out, "\\x{byte:02X}").ok();
    }
}

/// The path that [`show`] wrote with escapes; `None` for a text without valid escapes.
pub(crate) fn literal(text: &str) -> Option<PathBuf> {
    let mut bytes = Vec::new();
    let mut chars = text.chars();
    let mut seen = false;
    while let Some(char) = chars.next() {
        if char != '\\' {
            bytes.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes());
            continue;
        }
        seen = true;
        bytes.push(match chars.next()? {
            'n' => b'\n',
            'r' => b'\r',
            't' => b'\t',
            '\\' => b'\\',
            'x' => {
                let digits: String = chars.by_ref().take(2).collect();
                u8::from_str_radix(&digits, 16).ok()?
            }
            _ => return None,
        });
    }
    seen.then(|| PathBuf::from(OsString::from_vec(bytes)))
}

/// Names in the same folder that may have been meant, best first, at most three.
pub(crate) fn near(path: &Path) -> Vec<PathBuf> {
    let (Some(folder), Some(wanted)) = (path.parent(), path.file_name()) else { return Vec::new() };
    let wanted = wanted.to_string_lossy().to_lowercase();
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().take(ENTRIES);
    let mut found: Vec<(usize, PathBuf)> = entries
        .filter_map(|entry| {
            let name = entry.file_name().to_string_lossy().to_lowercase();
            Some((distance(&wanted, &name)?, entry.path()))
        })
        .collect();
    found.sort();
    found.into_iter().take(3).map(|(_, path)| path).collect()
}

/// Edits between two names; `None` when they have too little in common. The same stem counts as near.
fn distance(wanted: &str, name: &str) -> Option<usize> {
    let stem = |name: &str| Path::new(name).file_stem().map(ToOwned::to_owned);
    let limit = (wanted.chars().count() / 3).max(1);
    match edits(wanted, name) {
        edits if edits <= limit => Some(edits),
        _ if stem(wanted) == stem(name) => Some(limit + 1),
        _ => None,
    }
}

/// Levenshtein's distance, row by row.
fn edits(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().take(NAME).collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (line, from) in a.chars().take(NAME).enumerate() {
        let mut corner = line;
        let mut left = line + 1;
        let mut next = vec![left];
        for (to, above) in b.iter().zip(row.iter().skip(1)) {
            left = (corner + usize::from(from != *to)).min(left + 1).min(above + 1);
            corner = *above;
            next.push(left);
        }
        row = next;
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn o_search_02_odd_names_are_shown_and_read_back() {
        let check = |bytes: &[u8], want: &str| {
            let path = PathBuf::from(OsString::from_vec(bytes.to_vec()));
            assert_eq!(show(&path), want);
            if want.contains('\\') && want.as_bytes() != bytes {
                assert_eq!(literal(want), Some(path));
            }
        };
        check(b"we[i]rd (1).txt", "we[i]rd (1).txt");
        check(b"-dash.txt", "-dash.txt");
        check(b"nl\n.txt", "nl\\n.txt");
        check(b"\xFF.txt", "\\xFF.txt");
        check(b"a\\b", "a\\b");
        check(b"a\\b\x1b[2J", "a\\\\b\\x1B[2J");
        check("é\u{85}".as_bytes(), "é\\xC2\\x85");
        assert_eq!(literal("plain"), None);
        assert_eq!(literal("bad \\q"), None);
        assert_eq!(literal("end \\"), None);
    }

    #[test]
    fn edits_are_counted() {
        let check = |a, b, want| assert_eq!(edits(a, b), want, "{a} {b}");
        check("kitten", "sitting", 3);
        check("", "abc", 3);
        check("abc", "", 3);
        check("main.rs", "mian.rs", 2);
        check("same", "same", 0);
    }

    proptest! {
        #[test]
        fn escapes_are_read_back(bytes in prop::collection::vec(1u8.., 1..20)) {
            let path = PathBuf::from(OsString::from_vec(bytes));
            let shown = show(&path);
            prop_assert!(!shown.contains(char::is_control));
            prop_assert!(shown == path.to_string_lossy() || literal(&shown) == Some(path));
        }
    }
}

//! What an agent has seen of each file, so that nothing is overwritten that it does not know.

use std::collections::HashMap;
use std::fmt::Write;
use std::hash::{DefaultHasher, Hasher};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use ring::digest::{Context, SHA256};

/// Lines whose hashes are kept for one file; a longer file only says that it changed, not where.
const LINES: usize = 200_000;

/// The identity of a file's bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fingerprint {
    /// SHA-256 in hexadecimal.
    pub(crate) hash: String,
    /// One hash a line, valid in this process alone; empty when there are too many.
    lines: Vec<u64>,
}

impl Fingerprint {
    /// Of bytes that are all there.
    pub(crate) fn of(bytes: &[u8]) -> Self {
        let mut hashing = Hashing::default();
        hashing.update(bytes);
        hashing.finish()
    }

    /// How many lines differ, as the range of this content's lines (from 0) outside of which nothing changed since
    /// `seen`; an empty range is a place where lines were taken out.
    fn changed_since(&self, seen: &Self) -> Option<Range<usize>> {
        let (new, old) = (&self.lines, &seen.lines);
        if new.is_empty() || old.is_empty() {
            return None;
        }
        let same = new.iter().zip(old).take_while(|(a, b)| a == b).count();
        let most = new.len().min(old.len()) - same;
        let tail = new.iter().rev().zip(old.iter().rev()).take(most).take_while(|(a, b)| a == b).count();
        Some(same..new.len() - tail)
    }
}

/// Makes a [`Fingerprint`] from bytes as they come.
pub(crate) struct Hashing {
    whole: Context,
    line: Option<DefaultHasher>,
    lines: Vec<u64>,
    count: usize,
}

impl Default for Hashing {
    fn default() -> Self {
        Self { whole: Context::new(&SHA256), line: None, lines: Vec::new(), count: 0 }
    }
}

impl Hashing {
    /// Takes the next bytes.
    pub(crate) fn update(&mut self, bytes: &[u8]) {
        self.whole.update(bytes);
        let mut rest = bytes;
        while !rest.is_empty() {
            let end = memchr::memchr(b'\n', rest).map(|at| at + 1);
            let (line, after) = rest.split_at(end.unwrap_or(rest.len()));
            if self.count < LINES {
                self.line.get_or_insert_default().write(line);
            }
            if end.is_some() {
                self.end_line();
                self.count += 1;
            }
            rest = after;
        }
    }

    /// All bytes were taken.
    pub(crate) fn finish(mut self) -> Fingerprint {
        self.end_line();
        if self.count >= LINES {
            self.lines = Vec::new();
        }
        let mut hash = String::with_capacity(64);
        for byte in self.whole.finish().as_ref() {
            write!(hash, "{byte:02x}").ok();
        }
        Fingerprint { hash, lines: self.lines }
    }

    fn end_line(&mut self) {
        if let Some(line) = self.line.take() {
            self.lines.push(line.finish());
        }
    }
}

/// What an agent knows of a file's present content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It never read it.
    Unread,
    /// What it saw is what there is.
    Current,
    /// It changed since; the lines (from 0) outside of which nothing did, where that is known.
    Changed(Option<Range<usize>>),
}

/// One agent's files by real path.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    // Tools of one round may run beside each other.
    seen: Mutex<HashMap<PathBuf, Fingerprint>>,
}

impl Ledger {
    /// The agent saw this content, or wrote it.
    pub(crate) fn saw(&self, path: &Path, content: Fingerprint) {
        self.with(|seen| seen.insert(path.to_owned(), content));
    }

    /// As [`Self::saw`], from a log, which holds no more than the hash.
    pub(crate) fn remember(&self, path: &Path, hash: &str) {
        self.with(|seen| match seen.get(path) {
            Some(known) if known.hash == hash => {}
            _ => {
                let content = Fingerprint { hash: hash.to_owned(), lines: Vec::new() };
                seen.insert(path.to_owned(), content);
            }
        });
    }

    /// Nothing read before is in the model's sight any more.
    pub(crate) fn forget(&self) {
        self.with(HashMap::clear);
    }

    /// How the present content stands to what was seen.
    pub(crate) fn standing(&self, path: &Path, present: &Fingerprint) -> Standing {
        self.with(|seen| match seen.get(path) {
            None => Standing::Unread,
            Some(known) if known.hash == present.hash => Standing::Current,
            Some(known) => Standing::Changed(present.changed_since(known)),
        })
    }

    fn with<T>(&self, work: impl FnOnce(&mut HashMap<PathBuf, Fingerprint>) -> T) -> T {
        work(&mut self.seen.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn o_edit_07_what_changed_is_found_by_content() {
        let check = |old: &str, new: &str, want: Standing| {
            let ledger = Ledger::default();
            let path = Path::new("/a");
            ledger.saw(path, Fingerprint::of(old.as_bytes()));
            assert_eq!(ledger.standing(path, &Fingerprint::of(new.as_bytes())), want, "{old:?} {new:?}");
        };
        check("a\nb\n", "a\nb\n", Standing::Current);
        check("a\nb\n", "a\nb\nc\n", Standing::Changed(Some(2..3)));
        check("a\nb\n", "a\nX\n", Standing::Changed(Some(1..2)));
        check("a\nb\nc\n", "a\nc\n", Standing::Changed(Some(1..1)));
        check("a\na\n", "a\na\na\n", Standing::Changed(Some(2..3)));
        check("a", "a\n", Standing::Changed(Some(0..1)));
        check("", "a\n", Standing::Changed(None));
    }

    #[test]
    fn a_log_restores_hashes_but_does_not_forget_lines() {
        let ledger = Ledger::default();
        let (path, content) = (Path::new("/a"), Fingerprint::of(b"a\nb\n"));
        assert_eq!(ledger.standing(path, &content), Standing::Unread);
        ledger.remember(path, &content.hash);
        assert_eq!(ledger.standing(path, &content), Standing::Current);
        assert_eq!(ledger.standing(path, &Fingerprint::of(b"a\n")), Standing::Changed(None));
        ledger.saw(path, content.clone());
        ledger.remember(path, &content.hash);
        assert_eq!(ledger.standing(path, &Fingerprint::of(b"a\n")), Standing::Changed(Some(1..1)));
        ledger.forget();
        assert_eq!(ledger.standing(path, &content), Standing::Unread);
    }

    #[test]
    fn pieces_hash_as_the_whole() {
        let text = b"one\ntwo\n\nthree";
        for size in 1..text.len() {
            let mut hashing = Hashing::default();
            text.chunks(size).for_each(|piece| hashing.update(piece));
            assert_eq!(hashing.finish(), Fingerprint::of(text), "pieces of {size}");
        }
    }
}

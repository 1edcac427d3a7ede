//! Text for the model: numbered lines, cuts that say what they cut, and terminal output without its controls.

use std::fmt::Write;
use std::path::Path;

use super::names;

/// One line as every tool shows it.
pub(super) fn numbered(number: usize, line: &str, out: &mut String) {
    writeln!(out, "{number:>6}\t{line}").ok();
}

/// A path as the model should use it: relative to the working folder where it lies in it.
pub(super) fn relative(path: &Path, cwd: &Path) -> String {
    match path.strip_prefix(cwd) {
        Ok(rest) if rest.as_os_str().is_empty() => ".".to_owned(),
        Ok(rest) => names::show(rest),
        Err(_) => names::show(path),
    }
}

/// `1 file`, `2 files`.
pub(super) fn count(number: usize, noun: &str) -> String {
    let plural = match (number, noun.strip_suffix('y')) {
        (1, _) => noun.to_owned(),
        (_, Some(stem)) => format!("{stem}ies"),
        (_, None) if noun.ends_with("ch") || noun.ends_with('s') => format!("{noun}es"),
        (_, None) => format!("{noun}s"),
    };
    format!("{} {plural}", thousands(number as u64))
}

/// `1,234,567`.
pub(super) fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// The first characters of a text, and the rest.
pub(super) fn head(text: &str, chars: usize) -> (&str, &str) {
    let at = text.char_indices().nth(chars).map_or(text.len(), |(at, _)| at);
    text.split_at(at)
}

/// What comes before, and the last characters of a text.
pub(super) fn tail(text: &str, chars: usize) -> (&str, &str) {
    let at = chars
        .checked_sub(1)
        .map_or(text.len(), |back| text.char_indices().nth_back(back).map_or(0, |(at, _)| at));
    text.split_at(at)
}

/// What a terminal would show of this output, without colours, titles and cursor moves: escape sequences (ECMA-48)
/// and control characters are dropped, and a line that was written over by carriage returns keeps its last state.
pub(super) fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut line_start = 0;
    let mut rest = text;
    while let Some(char) = rest.chars().next() {
        let after = rest.get(char.len_utf8()..).unwrap_or_default();
        rest = match char {
            '\u{1b}' => skip_escape(after),
            '\u{9b}' => skip_control_sequence(after),
            '\r' => {
                // The end of a line may be marked by several of them; only what follows tells.
                let next = after.trim_start_matches('\r');
                if !next.is_empty() && !next.starts_with('\n') {
                    out.truncate(line_start);
                }
                next
            }
            '\n' => {
                out.push('\n');
                line_start = out.len();
                after
            }
            '\t' => {
                out.push('\t');
                after
            }
            _ => {
                if !char.is_control() {
                    out.push(char);
                }
                after
            }
        };
    }
    out
}

/// What follows an escape sequence whose ESC was just read.
fn skip_escape(text: &str) -> &str {
    match text.chars().next() {
        Some('[') => skip_control_sequence(text.get(1..).unwrap_or_default()),
        // Strings: operating system commands, device control, privacy messages.
        Some(']' | 'P' | 'X' | '^' | '_') => skip_string(text.get(1..).unwrap_or_default()),
        Some(' '..='/') => {
            let end = text.trim_start_matches(|char| matches!(char, ' '..='/'));
            end.strip_prefix(|char| matches!(char, '0'..='~')).unwrap_or(end)
        }
        Some('0'..='~') => text.get(1..).unwrap_or_default(),
        _ => text,
    }
}

fn skip_control_sequence(text: &str) -> &str {
    let end = text.trim_start_matches(|char| matches!(char, ' '..='?'));
    end.strip_prefix(|char| matches!(char, '@'..='~')).unwrap_or(end)
}

/// Up to BEL or ST. A string that does not end on its line is no string, so its text stays.
fn skip_string(text: &str) -> &str {
    let line = text.split('\n').next().unwrap_or_default();
    let bell = line.find('\u{7}').map(|at| at + 1);
    let terminator = line.find("\u{1b}\\").map(|at| at + 2);
    let end = match (bell, terminator) {
        (Some(a), Some(b)) => a.min(b),
        (Some(end), None) | (None, Some(end)) => end,
        (None, None) => 0,
    };
    text.get(end..).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn o_tui_01_escapes_are_dropped_and_text_stays() {
        let check = |text: &str, want: &str| assert_eq!(plain(text), want, "{text:?}");
        check("plain\ttext\n", "plain\ttext\n");
        check("\x1b[31mred\x1b[0m \x1b[1;38;5;4mblue\x1b[m", "red blue");
        check(
            "A\x1b]52;c;ZXZpbA==\x07B\x1b]0;owned\x07C\x1b[2J\x1b[10AD\x1b[6nE\x1bcF\x1bPq\x1b\\G",
            "ABCDEFG",
        );
        check("\x1b]unterminated\nnext", "unterminated\nnext");
        check("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link");
        check("\x1b(Bx\x1b=y\x1b", "xy");
        check("\u{9b}31mC1", "C1");
        check("a\x08\0b\x07", "ab");
        check("10%\r50%\r100%\ndone\r\n", "100%\ndone\n");
        check("x\r\r\ny\r", "x\ny");
        check("é\x1b[é", "éé");
    }

    #[test]
    fn cuts_fall_between_characters() {
        assert_eq!(head("a\u{7a7a}b", 2), ("a\u{7a7a}", "b"));
        assert_eq!(head("ab", 5), ("ab", ""));
        assert_eq!(tail("a\u{7a7a}b", 2), ("a", "\u{7a7a}b"));
        assert_eq!(tail("ab", 5), ("", "ab"));
        assert_eq!(tail("ab", 0), ("ab", ""));
    }

    #[test]
    fn numbers_are_grouped_and_nouns_agree() {
        let check = |number, noun, want: &str| assert_eq!(count(number, noun), want);
        check(1, "file", "1 file");
        check(0, "match", "0 matches");
        check(1_234_567, "entry", "1,234,567 entries");
        check(999, "process", "999 processes");
        check(1_000, "line", "1,000 lines");
    }

    proptest! {
        #[test]
        fn nothing_that_drives_a_terminal_is_left(text: String) {
            prop_assert!(!plain(&text).contains(|char: char| char.is_control() && !matches!(char, '\n' | '\t')));
        }
    }
}

//! What was typed while a turn ran: keys in, finished lines out, the rest a draft for the next prompt.

/// Text that grows by keys which nobody sees echoed.
#[derive(Debug, Default)]
pub(super) struct Draft {
    text: String,
    /// Bytes of a character that is not complete yet.
    part: Vec<u8>,
    escape: Escape,
    /// Between the marks of a paste: everything is text.
    pasting: bool,
}

/// How far into an escape sequence the keys are.
#[derive(Debug, Default, PartialEq, Eq)]
enum Escape {
    #[default]
    None,
    Begun,
    /// After `ESC [`: the parameters so far.
    Sequence(Vec<u8>),
    /// After `ESC O`: one more byte.
    Single,
}

impl Draft {
    /// Takes keys; gives the lines that were finished by Enter.
    pub(super) fn feed(&mut self, keys: &[u8]) -> Vec<String> {
        keys.iter().filter_map(|key| self.key(*key)).collect()
    }

    /// What is not finished, and leaves nothing behind.
    pub(super) fn take(&mut self) -> String {
        std::mem::take(self).text
    }

    fn key(&mut self, key: u8) -> Option<String> {
        match std::mem::take(&mut self.escape) {
            Escape::None => return self.plain(key),
            Escape::Begun => match key {
                b'[' => self.escape = Escape::Sequence(Vec::new()),
                b'O' => self.escape = Escape::Single,
                // Alt+Enter: a line break.
                b'\r' | b'\n' => self.text.push('\n'),
                _ => {}
            },
            Escape::Sequence(mut parameters) => match (key, parameters.as_slice()) {
                (b'~', b"200") => self.pasting = true,
                (b'~', b"201") => self.pasting = false,
                (0x40..=0x7e, _) => {}
                _ => {
                    parameters.push(key);
                    self.escape = Escape::Sequence(parameters);
                }
            },
            Escape::Single => {}
        }
        None
    }

    fn plain(&mut self, key: u8) -> Option<String> {
        match key {
            0x1b => self.escape = Escape::Begun,
            b'\r' | b'\n' if self.pasting => self.text.push('\n'),
            b'\r' | b'\n' if self.text.ends_with('\\') => {
                self.text.pop();
                self.text.push('\n');
            }
            b'\r' | b'\n' => return Some(std::mem::take(&mut self.text)),
            b'\t' => self.text.push('\t'),
            _ if self.pasting && key < 0x20 => {}
            0x08 | 0x7f => drop(self.text.pop()),
            // Ctrl+U and Ctrl+W, as in any line.
            0x15 => self.text.clear(),
            0x17 => {
                let kept = self.text.trim_end().rfind(char::is_whitespace).map_or(0, |at| at + 1);
                self.text.truncate(self.text.ceil_char_boundary(kept));
            }
            0..0x20 => {}
            _ => self.character(key),
        }
        None
    }

    fn character(&mut self, byte: u8) {
        self.part.push(byte);
        match std::str::from_utf8(&self.part) {
            Ok(text) => self.text.push_str(text),
            // Incomplete: the next byte may complete it.
            Err(error) if error.error_len().is_none() => return,
            Err(_) => {}
        }
        self.part.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(keys: &str, lines: &[&str], rest: &str) {
        for size in [1, 3, 7, keys.len().max(1)] {
            let mut draft = Draft::default();
            let mut found = Vec::new();
            for piece in keys.as_bytes().chunks(size) {
                found.extend(draft.feed(piece));
            }
            assert_eq!(found, lines, "{keys:?} in pieces of {size}");
            assert_eq!(draft.take(), rest, "{keys:?} in pieces of {size}");
        }
    }

    #[test]
    fn keys_become_lines() {
        check("one\rtwo\nthr", &["one", "two"], "thr");
        check("你好é👍\r", &["你好é👍"], "");
        check("ab\x7fc\x15xy z\x17w", &[], "xy w");
        check("a\\\rb\r", &["a\nb"], "");
        check("\x1b[A\x1bOP\x1b[1;5Cx\x04\x03", &[], "x");
    }

    #[test]
    fn o_tui_03_a_paste_is_one_text() {
        check("see: \x1b[200~line1\nline2\r\x08line3\\\r\x1b[201~\r", &["see: line1\nline2\nline3\\\n"], "");
    }
}

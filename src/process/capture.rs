//! Bounded memory for a child's output: its head, its tail, a count of the rest, and text decoded piece by piece.

use std::collections::VecDeque;

/// Keeps the first and the last bytes of a stream.
#[derive(Debug)]
pub struct Capture {
    head: Vec<u8>,
    head_cap: usize,
    tail: VecDeque<u8>,
    tail_cap: usize,
    total: u64,
}

impl Capture {
    /// Caps in bytes.
    #[must_use]
    pub fn new(head_cap: usize, tail_cap: usize) -> Self {
        Self { head: Vec::new(), head_cap, tail: VecDeque::new(), tail_cap, total: 0 }
    }

    /// Takes the next bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let room = self.head_cap - self.head.len();
        let (first, rest) = bytes.split_at_checked(room).unwrap_or((bytes, &[]));
        self.head.extend_from_slice(first);
        let (_, rest) = rest.split_at(rest.len().saturating_sub(self.tail_cap));
        let surplus = (self.tail.len() + rest.len()).saturating_sub(self.tail_cap);
        self.tail.drain(..surplus);
        self.tail.extend(rest);
    }

    /// Bytes taken, kept or not.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Bytes that are lost between head and tail.
    pub fn left_out(&self) -> u64 {
        self.total - (self.head.len() + self.tail.len()) as u64
    }

    /// Head and tail; nothing lies between them when [`Self::left_out`] is 0.
    pub fn parts(&self) -> (&[u8], Vec<u8>) {
        let (front, back) = self.tail.as_slices();
        (&self.head, [front, back].concat())
    }

    /// What is kept, with a line that counts what is not.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        let (head, tail) = self.parts();
        let marker = match self.left_out() {
            0 => String::new(),
            bytes => format!("\n[{bytes} bytes left out]\n"),
        };
        [head, marker.as_bytes(), &tail].concat()
    }

    /// As [`Self::bytes`], as text; characters cut at the gap are dropped, other bad bytes become U+FFFD.
    #[must_use]
    pub fn text(&self) -> String {
        let (head, tail) = self.texts();
        match self.left_out() {
            0 => head,
            bytes => format!("{head}\n[{bytes} bytes left out]\n{tail}"),
        }
    }

    /// Head and tail as text; the tail is empty when nothing was left out.
    #[must_use]
    pub fn texts(&self) -> (String, String) {
        let (head, tail) = self.parts();
        if self.left_out() == 0 {
            return (String::from_utf8_lossy(&[head, &tail].concat()).into_owned(), String::new());
        }
        let mut decoder = Utf8Stream::default();
        let head = decoder.push(head);
        let start = tail.iter().take(3).take_while(|byte| is_continuation(**byte)).count();
        let tail = String::from_utf8_lossy(tail.get(start..).unwrap_or_default()).into_owned();
        (head, tail)
    }
}

fn is_continuation(byte: u8) -> bool {
    byte & 0b1100_0000 == 0b1000_0000
}

/// Decodes UTF-8 that arrives in pieces; a character may lie across any number of them.
#[derive(Debug, Default)]
pub struct Utf8Stream {
    open: Vec<u8>,
}

impl Utf8Stream {
    /// The text that is complete by now; bad bytes become U+FFFD.
    pub fn push(&mut self, bytes: &[u8]) -> String {
        self.open.extend_from_slice(bytes);
        let mut text = String::with_capacity(self.open.len());
        let mut used = 0;
        for chunk in self.open.utf8_chunks() {
            text.push_str(chunk.valid());
            used += chunk.valid().len();
            let at_end = used + chunk.invalid().len() == self.open.len();
            if at_end && may_continue(chunk.invalid()) {
                break;
            }
            if !chunk.invalid().is_empty() {
                text.push(char::REPLACEMENT_CHARACTER);
                used += chunk.invalid().len();
            }
        }
        self.open.drain(..used);
        text
    }

    /// What an unfinished character at the end is worth.
    pub fn finish(&mut self) -> &'static str {
        if std::mem::take(&mut self.open).is_empty() { "" } else { "\u{FFFD}" }
    }
}

/// Whether these bytes are the start of a character whose rest is still to come.
fn may_continue(bytes: &[u8]) -> bool {
    match std::str::from_utf8(bytes) {
        Ok(_) => false,
        Err(error) => error.valid_up_to() == 0 && error.error_len().is_none(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn head_and_tail_are_kept_and_the_rest_is_counted() {
        let check = |pieces: &[&str], want: &str| {
            let mut capture = Capture::new(4, 4);
            for piece in pieces {
                capture.push(piece.as_bytes());
            }
            assert_eq!(capture.text(), want, "{pieces:?}");
            assert_eq!(capture.total(), pieces.concat().len() as u64);
        };
        check(&[], "");
        check(&["ab", "cdefg"], "abcdefg");
        check(&["abcdefgh"], "abcdefgh");
        check(&["abcdefghi"], "abcd\n[1 bytes left out]\nfghi");
        check(&["abcd", "e", "fg", "hijkl"], "abcd\n[4 bytes left out]\nijkl");
        check(&["abcd", "0123456789"], "abcd\n[6 bytes left out]\n6789");
        // A character at either side of the gap is not halved.
        check(&["abc\u{7a7a}", "01\u{7a7a}89"], "abc\n[5 bytes left out]\n89");
    }

    proptest! {
        #[test]
        fn o_shell_04_pieces_decode_as_the_whole(bytes: Vec<u8>, cuts: Vec<prop::sample::Index>) {
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let mut stream = Utf8Stream::default();
            let mut text: String = cuts.windows(2).map(|cut| stream.push(&bytes[cut[0]..cut[1]])).collect();
            text.push_str(stream.finish());
            prop_assert_eq!(text, String::from_utf8_lossy(&bytes));
        }

        #[test]
        fn o_shell_04_pieces_of_text_decode_as_the_whole(text: String) {
            let mut stream = Utf8Stream::default();
            let decoded: String = text.as_bytes().chunks(1).map(|byte| stream.push(byte)).collect();
            prop_assert_eq!(decoded, text);
        }
    }
}

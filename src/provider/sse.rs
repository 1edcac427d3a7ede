//! Bytes of an event stream to events, by the WHATWG standard and at any cut.
//!
//! Written here because the crates at hand are no readers of the standard: `sse-stream` 0.2 turns a field without
//! a colon, an unknown or a repeated field and a bad `retry` into errors that lose the rest of the chunk, drops an
//! unterminated last event and knows no bound; the standard asks to skip or to keep each of these.

use std::collections::VecDeque;

/// Largest event in bytes; beyond it the stream is given up.
pub(crate) const MAX_EVENT: usize = 16 * 1024 * 1024;

const BOM: &[u8] = b"\xEF\xBB\xBF";

/// One event with data; `id` and `retry` have no meaning for a reply and are skipped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SseEvent {
    /// The `event` field, empty if there was none.
    pub(crate) name: String,
    /// The `data` lines, joined by `\n`.
    pub(crate) data: String,
}

/// An event grew beyond [`MAX_EVENT`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooLarge;

/// Takes bytes as they come, gives events as soon as their blank line is there.
#[derive(Debug, Default)]
pub(crate) struct SseParser {
    /// An unfinished line from earlier chunks.
    line: Vec<u8>,
    /// The last byte was a CR that ended a line: an LF right after it belongs to it. A line ends at its CR, so
    /// that an event never waits for the LF.
    after_cr: bool,
    /// The first line, which may begin with a byte order mark, is over.
    begun: bool,
    name: String,
    data: Option<String>,
    ready: VecDeque<SseEvent>,
}

impl SseParser {
    /// Reads one chunk; an empty one is fine.
    pub(crate) fn push(&mut self, mut bytes: &[u8]) -> Result<(), TooLarge> {
        if self.after_cr && !bytes.is_empty() {
            self.after_cr = false;
            bytes = bytes.strip_prefix(b"\n").unwrap_or(bytes);
        }
        while let Some(end) = bytes.iter().position(|b| matches!(b, b'\n' | b'\r')) {
            let (line, rest) = bytes.split_at(end);
            self.fits(line.len())?;
            if self.line.is_empty() {
                self.take_line(line);
            } else {
                let mut whole = std::mem::take(&mut self.line);
                whole.extend_from_slice(line);
                self.take_line(&whole);
                whole.clear();
                self.line = whole;
            }
            bytes = match rest {
                [b'\r', b'\n', rest @ ..] | [b'\n', rest @ ..] => rest,
                [b'\r', rest @ ..] => {
                    self.after_cr = rest.is_empty();
                    rest
                }
                _ => &[],
            };
        }
        self.fits(bytes.len())?;
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    /// The next whole event.
    pub(crate) fn pop(&mut self) -> Option<SseEvent> {
        self.ready.pop_front()
    }

    /// A clean end of the stream: what stands unterminated counts as an event. Whether it is whole is for the
    /// reader of its data to find out.
    pub(crate) fn finish(&mut self) {
        let last = std::mem::take(&mut self.line);
        if !last.is_empty() {
            self.take_line(&last);
        }
        self.take_line(b"");
    }

    fn fits(&self, more: usize) -> Result<(), TooLarge> {
        let held = self.line.len() + self.data.as_ref().map_or(0, String::len);
        if held + more > MAX_EVENT { Err(TooLarge) } else { Ok(()) }
    }

    fn take_line(&mut self, line: &[u8]) {
        let line = if self.begun { line } else { line.strip_prefix(BOM).unwrap_or(line) };
        self.begun = true;
        if line.is_empty() {
            let name = std::mem::take(&mut self.name);
            if let Some(data) = self.data.take() {
                self.ready.push_back(SseEvent { name, data });
            }
            return;
        }
        let (field, value) = match line.iter().position(|b| *b == b':') {
            Some(colon) => {
                let (field, value) = line.split_at(colon);
                let value = value.strip_prefix(b":").unwrap_or(value);
                (field, value.strip_prefix(b" ").unwrap_or(value))
            }
            None => (line, &[][..]),
        };
        match field {
            b"data" => {
                let value = String::from_utf8_lossy(value);
                match &mut self.data {
                    Some(data) => {
                        data.push('\n');
                        data.push_str(&value);
                    }
                    None => self.data = Some(value.into_owned()),
                }
            }
            b"event" => self.name = String::from_utf8_lossy(value).into_owned(),
            // Comments have an empty field name; `id`, `retry` and unknown fields say nothing about a reply.
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn event(name: &str, data: &str) -> SseEvent {
        SseEvent { name: name.to_owned(), data: data.to_owned() }
    }

    fn parse<'a>(chunks: impl IntoIterator<Item = &'a [u8]>) -> Vec<SseEvent> {
        let mut parser = SseParser::default();
        let mut out = Vec::new();
        for chunk in chunks {
            parser.push(chunk).unwrap();
            out.extend(std::iter::from_fn(|| parser.pop()));
        }
        parser.finish();
        out.extend(std::iter::from_fn(|| parser.pop()));
        out
    }

    fn check(bytes: &[u8], want: &[SseEvent]) {
        assert_eq!(parse([bytes]), want, "in one piece: {:?}", String::from_utf8_lossy(bytes));
        assert_eq!(parse(bytes.chunks(1)), want, "byte by byte: {:?}", String::from_utf8_lossy(bytes));
    }

    #[test]
    fn framing_by_the_standard() {
        let hello = [event("", "héllo 你")];
        check("data: héllo 你\n\n".as_bytes(), &hello);
        check("data: héllo 你\r\n\r\n".as_bytes(), &hello);
        check("data: héllo 你\r\r".as_bytes(), &hello);
        check("data:héllo 你\n\n".as_bytes(), &hello);
        check("\u{feff}data:héllo 你\n\n".as_bytes(), &hello);
        check("id: 1\nretry: soon\n: note\nfoo: bar\nid: 2\ndata: héllo 你\n\n".as_bytes(), &hello);
        check(b"event: a\nevent: b\ndata: x\n\n", &[event("b", "x")]);
        check(b"data: 1\ndata\ndata:  3\n\n", &[event("", "1\n\n 3")]);
        check(b"event: lonely\n\ndata: x\n\n", &[event("", "x")]);
        check(b"\n\n: only a comment\n\n", &[]);
        check(b"data: x\r\n\r\ndata: y\n\rdata: z\r\r\n", &[event("", "x"), event("", "y"), event("", "z")]);
        check(b"data: \xff\n\n", &[event("", "\u{fffd}")]);
        check(b"data: no end", &[event("", "no end")]);
        check(b"data: one line end\n", &[event("", "one line end")]);
    }

    #[test]
    fn an_event_is_not_held_back_for_the_lf_of_its_last_crlf() {
        let mut parser = SseParser::default();
        parser.push(b"data: x\r\n\r").unwrap();
        assert_eq!(parser.pop(), Some(event("", "x")));
        parser.push(b"").unwrap();
        parser.push(b"\ndata: y\r").unwrap();
        assert_eq!(parser.pop(), None);
        parser.push(b"\n\r\n").unwrap();
        assert_eq!(parser.pop(), Some(event("", "y")));
    }

    #[test]
    fn an_event_has_a_bound() {
        let mut parser = SseParser::default();
        let piece = vec![b'x'; 1024 * 1024];
        parser.push(b"data: ").unwrap();
        let taken = (0..20).take_while(|_| parser.push(&piece).is_ok()).count();
        assert_eq!(taken, 15);
    }

    proptest! {
        #[test]
        fn any_cut_gives_the_same(
            lines in prop::collection::vec(("(data|event|id|:|da)", ":? ?", "[a-zé你\u{fffd} :]{0,6}", 0usize..3, any::<bool>()), 0..12),
            cuts in prop::collection::vec(1usize..9, 1..40),
        ) {
            let mut bytes = Vec::new();
            for (field, colon, value, end, blank) in &lines {
                let end = ["\n", "\r\n", "\r"][*end];
                bytes.extend_from_slice(format!("{field}{colon}{value}{end}").as_bytes());
                if *blank {
                    bytes.extend_from_slice(end.as_bytes());
                }
            }
            let mut rest = &bytes[..];
            let mut chunks = Vec::new();
            for size in cuts.iter().cycle() {
                if rest.is_empty() {
                    break;
                }
                let (chunk, after) = rest.split_at((*size).min(rest.len()));
                chunks.push(chunk);
                rest = after;
            }
            prop_assert_eq!(parse(chunks), parse([&bytes[..]]));
        }
    }
}

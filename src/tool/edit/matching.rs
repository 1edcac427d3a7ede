//! Finds the text of an edit in a file's bytes and replaces it; every byte outside a match stays as it is.

use std::ops::Range;

use memchr::{memchr, memchr_iter, memmem, memrchr};

/// Matches of an ambiguous text that are told by line.
const TOLD: usize = 20;
/// Matches of an ambiguous text that are counted.
const COUNTED: usize = 10_000;

/// One replacement.
#[derive(Debug, Clone, Copy)]
pub(super) struct Replacement<'a> {
    pub(super) old: &'a str,
    pub(super) new: &'a str,
    pub(super) scope: Scope,
}

/// How many matches are replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    /// The only one; several are an error.
    Only,
    /// Each.
    All,
}

/// How closely a text matched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Closeness {
    /// Byte for byte.
    Exact,
    /// `\r\n` and `\n` being the same.
    LineEnds,
    /// As before, and without blanks at the ends of lines.
    TrailingBlanks,
}

/// A file's bytes after an edit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Applied {
    pub(super) bytes: Vec<u8>,
    /// What was replaced, in the old bytes and the new, in order.
    pub(super) changes: Vec<Change>,
    pub(super) closeness: Closeness,
}

/// One replaced place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) old: Range<usize>,
    pub(super) new: Range<usize>,
}

/// Why an edit was not applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Mismatch {
    NotFound,
    /// Found more than once; the lines (from 1) of the first ones, and how many there are.
    Several {
        lines: Vec<usize>,
        count: usize,
    },
    /// The result would be the same bytes.
    Same,
}

/// Applies an edit: the closest way of matching that finds anything decides.
pub(super) fn apply(content: &[u8], edit: Replacement<'_>) -> Result<Applied, Mismatch> {
    for closeness in [Closeness::Exact, Closeness::LineEnds, Closeness::TrailingBlanks] {
        // A text of several lines that is replaced everywhere means each of them, whatever the ends of its lines.
        let every_ending = edit.scope == Scope::All && edit.old.contains('\n') && !edit.old.contains('\r');
        if closeness == Closeness::Exact && every_ending {
            continue;
        }
        let spans = find(content, edit.old, closeness, edit.scope);
        if spans.is_empty() {
            continue;
        }
        if edit.scope == Scope::Only && spans.len() > 1 {
            let starts = spans.iter().take(TOLD).map(|span| line_of(content, span.start));
            return Err(Mismatch::Several { lines: starts.collect(), count: spans.len() });
        }
        let applied = replace(content, &spans, edit, closeness);
        return if applied.bytes == content { Err(Mismatch::Same) } else { Ok(applied) };
    }
    Err(Mismatch::NotFound)
}

/// The line (from 1) of a position.
pub(super) fn line_of(content: &[u8], at: usize) -> usize {
    memchr_iter(b'\n', content.get(..at).unwrap_or_default()).count() + 1
}

fn find(content: &[u8], old: &str, closeness: Closeness, scope: Scope) -> Vec<Range<usize>> {
    let mut spans = match closeness {
        Closeness::Exact => positions(content, old.as_bytes(), scope)
            .map(|start| start..start + old.len())
            .collect::<Vec<_>>(),
        Closeness::LineEnds | Closeness::TrailingBlanks => {
            let wanted = Loose::new(old.as_bytes(), closeness);
            // Blank lines alone would match almost anywhere.
            if wanted.text.iter().all(u8::is_ascii_whitespace) {
                return Vec::new();
            }
            let loose = Loose::new(content, closeness);
            let ends_line = closeness == Closeness::TrailingBlanks && old.ends_with([' ', '\t', '\r']);
            let at_end = |end: usize| matches!(loose.text.get(end), None | Some(b'\n'));
            positions(&loose.text, &wanted.text, scope)
                .map(|start| start..start + wanted.text.len())
                .filter(|span| !ends_line || at_end(span.end))
                .map(|span| loose.original(span))
                .collect()
        }
    };
    if !old.contains('\r') {
        // A match that begins with a line's end takes the whole of it.
        for span in &mut spans {
            let before = span.start.checked_sub(1);
            let at = |index: usize| content.get(index).copied();
            if at(span.start) == Some(b'\n') && before.and_then(at) == Some(b'\r') {
                span.start -= 1;
            }
        }
    }
    spans
}

/// Where a text lies; places that overlap count apart where it must be the only one.
fn positions<'a>(content: &'a [u8], wanted: &'a [u8], scope: Scope) -> impl Iterator<Item = usize> + 'a {
    let finder = memmem::Finder::new(wanted).into_owned();
    let (step, most) = match scope {
        Scope::Only => (1, COUNTED),
        Scope::All => (wanted.len().max(1), usize::MAX),
    };
    let mut from = 0;
    std::iter::from_fn(move || {
        let found = from + finder.find(content.get(from..)?)?;
        from = found + step;
        Some(found)
    })
    .take(most)
}

/// A text without what a loose match overlooks, and the way back to the original positions.
struct Loose {
    text: Vec<u8>,
    /// Where (in `text`) bytes were taken out, and how many in all up to there.
    gaps: Vec<(usize, usize)>,
}

impl Loose {
    fn new(content: &[u8], closeness: Closeness) -> Self {
        let mut loose = Self { text: Vec::with_capacity(content.len()), gaps: Vec::new() };
        let mut out = 0;
        for line in content.split_inclusive(|byte| *byte == b'\n') {
            let (body, end) = match line.split_last() {
                Some((b'\n', body)) => (body, &b"\n"[..]),
                _ => (line, &b""[..]),
            };
            let kept = match closeness {
                Closeness::TrailingBlanks => trim_end(body, b" \t\r"),
                _ if end.is_empty() => body,
                _ => body.strip_suffix(b"\r").unwrap_or(body),
            };
            loose.text.extend_from_slice(kept);
            if kept.len() < body.len() {
                out += body.len() - kept.len();
                loose.gaps.push((loose.text.len(), out));
            }
            loose.text.extend_from_slice(end);
        }
        loose
    }

    fn original(&self, span: Range<usize>) -> Range<usize> {
        // What was taken out right before the first byte or right after the last one is not part of the match.
        let end = span.end.checked_sub(1).map_or(0, |last| self.position(last) + 1);
        self.position(span.start)..end
    }

    fn position(&self, at: usize) -> usize {
        let before = self.gaps.partition_point(|(gap, _)| *gap <= at);
        at + before.checked_sub(1).and_then(|last| self.gaps.get(last)).map_or(0, |(_, out)| *out)
    }
}

fn trim_end<'a>(bytes: &'a [u8], blanks: &[u8]) -> &'a [u8] {
    let keep = bytes.iter().rposition(|byte| !blanks.contains(byte)).map_or(0, |last| last + 1);
    bytes.get(..keep).unwrap_or_default()
}

fn replace(content: &[u8], spans: &[Range<usize>], edit: Replacement<'_>, closeness: Closeness) -> Applied {
    // Who writes a carriage return and matches it means it.
    let literal = closeness == Closeness::Exact && (edit.old.contains('\r') || edit.new.contains('\r'));
    let lines = edit.new.replace("\r\n", "\n");
    let mut bytes = Vec::with_capacity(content.len() + edit.new.len());
    let mut changes = Vec::new();
    let mut done = 0;
    for span in spans {
        bytes.extend_from_slice(content.get(done..span.start).unwrap_or_default());
        let start = bytes.len();
        if literal {
            bytes.extend_from_slice(edit.new.as_bytes());
        } else {
            match line_end(content, span) {
                LineEnd::Lf => bytes.extend_from_slice(lines.as_bytes()),
                LineEnd::CrLf => bytes.extend_from_slice(lines.replace('\n', "\r\n").as_bytes()),
            }
        }
        changes.push(Change { old: span.clone(), new: start..bytes.len() });
        done = span.end;
    }
    bytes.extend_from_slice(content.get(done..).unwrap_or_default());
    Applied { bytes, changes, closeness }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum LineEnd {
    Lf,
    CrLf,
}

/// How lines end at this place: in the match itself, else after it, else before it.
fn line_end(content: &[u8], span: &Range<usize>) -> LineEnd {
    let kind = |at: usize| {
        let before = at.checked_sub(1).and_then(|before| content.get(before));
        if before == Some(&b'\r') { LineEnd::CrLf } else { LineEnd::Lf }
    };
    let inside = content.get(span.clone()).unwrap_or_default();
    let kinds: Vec<LineEnd> = memchr_iter(b'\n', inside).map(|at| kind(span.start + at)).collect();
    if let Some(first) = kinds.first() {
        let same = kinds.iter().filter(|kind| *kind == first).count();
        let other = if *first == LineEnd::Lf { LineEnd::CrLf } else { LineEnd::Lf };
        return if same * 2 >= kinds.len() { *first } else { other };
    }
    let after = memchr(b'\n', content.get(span.end..).unwrap_or_default()).map(|at| span.end + at);
    let before = || memrchr(b'\n', content.get(..span.start).unwrap_or_default());
    after.or_else(before).map_or(LineEnd::Lf, kind)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn edit<'a>(old: &'a str, new: &'a str, scope: Scope) -> Replacement<'a> {
        Replacement { old, new, scope }
    }

    #[test]
    fn edits_change_what_they_match_and_nothing_else() {
        use Closeness::{Exact, LineEnds, TrailingBlanks};
        let check = |content: &[u8], old, new, want: &[u8], closeness| {
            let applied = apply(content, edit(old, new, Scope::Only)).unwrap();
            assert_eq!(String::from_utf8_lossy(&applied.bytes), String::from_utf8_lossy(want), "{old:?}");
            assert_eq!((applied.bytes.as_slice(), applied.closeness), (want, closeness), "{old:?}");
        };
        check(b"a b c", "b", "x", b"a x c", Exact);
        check(b"abc", "b", "", b"ac", Exact);
        // O-EDIT-01: the ends of other lines stay, new ones follow the place.
        check(b"p\r\nq\nr\r\ns\n", "q", "Q", b"p\r\nQ\nr\r\ns\n", Exact);
        check(b"x\r\ny\r\nz", "y", "y1\ny2", b"x\r\ny1\r\ny2\r\nz", Exact);
        check(b"x\r\ny\nz", "y", "y1\ny2", b"x\r\ny1\ny2\nz", Exact);
        check(b"x\r\ny", "y", "y1\ny2", b"x\r\ny1\r\ny2", Exact);
        check(b"y", "y", "y1\ny2", b"y1\ny2", Exact);
        // O-EDIT-02
        check(
            b"fn a() {\r\n  one();\r\n  two();\r\n}\r\n",
            "  one();\n  two();",
            "  one();\n  three();",
            b"fn a() {\r\n  one();\r\n  three();\r\n}\r\n",
            LineEnds,
        );
        check(b"a\nb\n", "a\r\nb", "a\r\nc", b"a\nc\n", LineEnds);
        check(b"a\r\nb\nc\r\n", "a\nb\nc", "x\ny", b"x\r\ny\r\n", LineEnds);
        check(b"a\r\nb\r\n", "\nb", "\nc", b"a\r\nc\r\n", Exact);
        check(b"a\r\nb\r\nc", "b\n", "", b"a\r\nc", LineEnds);
        check(b"a\r\nb\r\nc", "\nb\n", "\n", b"a\r\nc", LineEnds);
        // A carriage return that is written and found is meant.
        check(b"a\r\nb\r\n", "a\r\nb", "a\nb", b"a\nb\r\n", Exact);
        check(b"a\nb\n", "a\nb", "a\r\nb", b"a\r\nb\n", Exact);
        // O-EDIT-03: a replacement is no template.
        check(b"x", "x", "$& $1 $0 ${0} $$ \\1 {}", b"$& $1 $0 ${0} $$ \\1 {}", Exact);
        // O-EDIT-04
        let latin = b"limit = 10\n# na\xEFve \xA9 text\r\n\xFF\xFEraw\n";
        check(latin, "limit = 10", "limit = 20", b"limit = 20\n# na\xEFve \xA9 text\r\n\xFF\xFEraw\n", Exact);
        // O-EDIT-05
        let marked = b"\xEF\xBB\xBFusing A;\r\nusing \xC3\xA9;\r\n";
        check(marked, "using A;", "using B;", b"\xEF\xBB\xBFusing B;\r\nusing \xC3\xA9;\r\n", Exact);
        check(marked, "using A;\nusing é;", "x\ny", b"\xEF\xBB\xBFx\r\ny\r\n", LineEnds);
        // Blanks at the ends of lines.
        check(b"a  \nb\t\nc\n", "a\nb\nc", "A\nb\nc", b"A\nb\nc\n", TrailingBlanks);
        check(b"a\nb\nc\n", "a \nb  ", "A\nB", b"A\nB\nc\n", TrailingBlanks);
        check(b"x\na  \nb  \ny", "a\nb\n", "c\n", b"x\nc\ny", TrailingBlanks);
        check(b"x  \na \nb", "\na\nb", "\nc", b"x  \nc", TrailingBlanks);
        check(b"a\n  \nb\r\n", "a\n\nb", "a\nb", b"a\nb\r\n", TrailingBlanks);
    }

    #[test]
    fn what_cannot_be_applied_says_why() {
        let check = |content: &[u8], old, new, want| {
            assert_eq!(apply(content, edit(old, new, Scope::Only)).unwrap_err(), want, "{old:?}");
        };
        let several = |lines: &[usize]| Mismatch::Several { lines: lines.to_vec(), count: lines.len() };
        check(b"a\nb\na\n", "a", "x", several(&[1, 3]));
        check(b"aaa", "aa", "x", several(&[1, 1]));
        check(b"a\r\nb\r\na\r\nb\r\n", "a\nb", "x", several(&[1, 3]));
        check(b"abc", "x", "y", Mismatch::NotFound);
        check(b"foobar", "foo ", "x", Mismatch::NotFound);
        check(b"x\ny", "  \n", "z", Mismatch::NotFound);
        check(b"", "x", "y", Mismatch::NotFound);
        check(b"a\r\nb", "a\nb", "a\r\nb", Mismatch::Same);
        let exact_wins = apply(b"a\nb\n--\na\r\nb\r\n", edit("a\nb", "x", Scope::Only)).unwrap();
        assert_eq!(exact_wins.bytes, b"x\n--\na\r\nb\r\n");
    }

    #[test]
    fn every_match_is_replaced_when_asked() {
        let check = |content: &[u8], old, new, want: &[u8]| {
            assert_eq!(apply(content, edit(old, new, Scope::All)).unwrap().bytes, want, "{old:?}");
        };
        check(
            b"say(\"bye\");\nsay(\"bye\");\n",
            "say(\"bye\");",
            "say(\"$& $1 $0 ${0} $$ end\");",
            b"say(\"$& $1 $0 ${0} $$ end\");\nsay(\"$& $1 $0 ${0} $$ end\");\n",
        );
        check(b"aaaa", "aa", "b", b"bb");
        check(b"a\nb\n--\na\r\nb\r\n", "a\nb", "x\ny", b"x\ny\n--\nx\r\ny\r\n");
        check(b"a a", "a", "aa", b"aa aa");
    }

    /// Bytes that make line ends, marks, blanks and broken characters likely.
    fn content() -> impl Strategy<Value = Vec<u8>> {
        let piece = prop::sample::select(vec![
            &b"\n"[..],
            b"\r\n",
            b"\r",
            b" ",
            b"\t",
            b"a",
            b"ab",
            b"\xC3\xA9",
            b"\xFF",
            b"\xEF\xBB\xBF",
            b"\0",
            b"$1",
        ]);
        prop::collection::vec(piece, 0..60).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]
        #[test]
        fn an_edit_and_its_undo_give_the_same_bytes(
            content in content(),
            from: prop::sample::Index,
            length in 1usize..12,
            new in "[ab\n\r\t$ é]{0,8}",
            loosen: bool,
            all: bool,
        ) {
            let from = from.index(content.len() + 1);
            let piece = &content[from..(from + length).min(content.len())];
            let mut old = String::from_utf8_lossy(piece).into_owned();
            if loosen {
                old = old.replace("\r\n", "\n").replace(" \n", "\n");
            }
            prop_assume!(!old.is_empty());
            let scope = if all { Scope::All } else { Scope::Only };
            let Ok(applied) = apply(&content, edit(&old, &new, scope)) else { return Ok(()) };
            let mut undone = Vec::new();
            let mut done = 0;
            for change in &applied.changes {
                undone.extend_from_slice(&applied.bytes[done..change.new.start]);
                undone.extend_from_slice(&content[change.old.clone()]);
                done = change.new.end;
            }
            undone.extend_from_slice(&applied.bytes[done..]);
            prop_assert_eq!(undone, content);
        }

        #[test]
        fn what_read_shows_can_be_matched(lines in prop::collection::vec("[ab]{1,3}", 1..6), crlf: Vec<bool>) {
            let mut content = Vec::new();
            for (index, line) in lines.iter().enumerate() {
                content.extend_from_slice(line.as_bytes());
                let end = if crlf.get(index) == Some(&true) { "\r\n" } else { "\n" };
                content.extend_from_slice(end.as_bytes());
            }
            let shown = lines.join("\n");
            prop_assert_eq!(apply(&content, edit(&shown, "new", Scope::Only)).unwrap().changes.len(), 1);
        }
    }
}

//! One file searched: the matcher, and the lines it finds as they will be shown.

use std::fmt::Write;
use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;

use grep_matcher::{LineTerminator, Matcher};
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkMatch};
use tokio_util::sync::CancellationToken;

use super::super::{ToolError, file, output};
use super::{Input, Mode};

/// Longest line shown, in characters.
const WIDTH: usize = 500;
/// Characters shown before a match in a longer line.
const LEAD: usize = 150;
/// Bytes of result lines held for one file.
const HELD: usize = 8 * 1024 * 1024;
/// Largest line, or whole file with `multiline`, in bytes.
const HEAP: usize = 64 * 1024 * 1024;
/// Largest number of context lines.
const CONTEXT: usize = 10_000;

/// A search as it was asked for.
#[derive(Debug)]
pub(super) struct Search {
    matcher: RegexMatcher,
    searcher: SearcherBuilder,
    mode: Mode,
    numbers: bool,
}

/// What one file gave.
#[derive(Debug)]
pub(super) enum Searched {
    Nothing,
    Binary,
    Failed,
    /// Result lines, as far as they are held, and their number.
    Found {
        lines: Vec<String>,
        total: usize,
    },
}

impl Search {
    pub(super) fn new(input: &Input) -> Result<Self, ToolError> {
        let mut builder = RegexMatcherBuilder::new();
        builder.case_insensitive(input.ignore_case.0).multi_line(true);
        if input.multiline.0 {
            builder.dot_matches_new_line(true);
        } else {
            // `$` matches before `\r\n` as well, which Read does not show.
            builder.crlf(true);
        }
        let matcher = builder.build(&input.pattern).map_err(|error| explain(&input.pattern, &error))?;
        let content = input.output_mode == Mode::Content;
        let lines = |own: Option<super::Whole>| {
            own.or(input.around).map_or(0, super::Whole::index).min(CONTEXT) * usize::from(content)
        };
        let mut searcher = SearcherBuilder::new();
        searcher
            .binary_detection(BinaryDetection::quit(0))
            .heap_limit(Some(HEAP))
            .multi_line(input.multiline.0)
            .line_number(content && input.numbers.0)
            .before_context(lines(input.before))
            .after_context(lines(input.after));
        if !input.multiline.0 {
            searcher.line_terminator(LineTerminator::crlf());
        }
        if input.output_mode == Mode::FilesWithMatches {
            searcher.max_matches(Some(1));
        }
        Ok(Self { matcher, searcher, mode: input.output_mode, numbers: input.numbers.0 })
    }

    /// One a thread: it owns buffers.
    pub(super) fn searcher(&self) -> Searcher {
        self.searcher.build()
    }

    /// Searches a regular file. `shown` stands before each result.
    pub(super) fn file(
        &self,
        searcher: &mut Searcher,
        path: &Path,
        shown: &str,
        cancel: &CancellationToken,
    ) -> Searched {
        let Ok((file, metadata)) = file::open_real(path, OpenOptions::new().read(true)) else {
            return Searched::Failed;
        };
        if !metadata.is_file() {
            return Searched::Failed;
        }
        let mut lines =
            Lines { search: self, shown, found: Vec::new(), held: 0, total: 0, matches: 0, binary: false };
        let result = searcher.search_reader(&self.matcher, Watched { file, cancel }, &mut lines);
        match (result, lines.matches) {
            _ if lines.binary => Searched::Binary,
            (Err(_), 0) => Searched::Failed,
            (_, 0) => Searched::Nothing,
            (_, matches) => match self.mode {
                Mode::Content => Searched::Found { lines: lines.found, total: lines.total },
                Mode::FilesWithMatches => Searched::Found { lines: vec![shown.to_owned()], total: 1 },
                Mode::Count => Searched::Found { lines: vec![format!("{shown}:{matches}")], total: 1 },
            },
        }
    }
}

fn explain(pattern: &str, error: &grep_regex::Error) -> ToolError {
    let text = error.to_string();
    let hint = if text.contains("look-around") || text.contains("backreference") {
        "Look-around and back-references are not supported; search for a simpler pattern and filter what it finds."
    } else if text.contains("\\n") && text.contains("not allowed") {
        "Set multiline to match across lines."
    } else if text.contains("size limit") || text.contains("too big") {
        "The pattern becomes too large; use smaller repetitions."
    } else {
        "To search for literal text, put a backslash before each of . * + ? ( ) [ ] { } | ^ $."
    };
    ToolError::InvalidInput(format!("pattern {pattern:?} is no valid regular expression: {text}\n{hint}"))
}

/// Ends a search in the middle of a file when the turn ends.
struct Watched<'a> {
    file: File,
    cancel: &'a CancellationToken,
}

impl io::Read for Watched<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.cancel.is_cancelled() {
            return Err(io::Error::other("interrupted"));
        }
        self.file.read(buffer)
    }
}

/// Collects the result lines of one file.
struct Lines<'a> {
    search: &'a Search,
    shown: &'a str,
    found: Vec<String>,
    held: usize,
    total: usize,
    matches: usize,
    binary: bool,
}

impl Lines<'_> {
    fn push(&mut self, line: String) {
        self.total += 1;
        if self.held < HELD {
            self.held += line.len();
            self.found.push(line);
        }
    }

    fn add(&mut self, sign: char, number: Option<u64>, bytes: &[u8]) {
        if self.held >= HELD {
            self.total += 1;
            return;
        }
        let mut line = format!("{}{sign}", self.shown);
        if let Some(number) = number.filter(|_| self.search.numbers) {
            write!(line, "{number}{sign}").ok();
        }
        self.search.shorten(bytes, &mut line);
        self.push(line);
    }
}

impl Search {
    /// A line as it is shown; of a long one the part around its first match.
    fn shorten(&self, bytes: &[u8], out: &mut String) {
        let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
        let bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
        if bytes.len() <= WIDTH {
            out.push_str(&String::from_utf8_lossy(bytes));
            return;
        }
        let found = self.matcher.find(bytes).ok().flatten().map_or(0, |found| found.start());
        let (before, after) = bytes.split_at_checked(found).unwrap_or((bytes, &[]));
        let before = String::from_utf8_lossy(before);
        // Four bytes a character at most, so the rest of a huge line need not be decoded.
        let (window, far) = after.split_at(after.len().min(WIDTH * 4));
        let after = String::from_utf8_lossy(window);
        let (left, lead) = output::tail(&before, LEAD);
        let (text, right) = output::head(&after, WIDTH - lead.chars().count());
        let note = |count: usize| format!("[{} more characters]", output::thousands(count as u64));
        if !left.is_empty() {
            out.push_str(&note(left.chars().count()));
        }
        out.push_str(lead);
        out.push_str(text);
        let rest = right.chars().count() + far.iter().filter(|byte| **byte & 0xC0 != 0x80).count();
        if rest > 0 {
            out.push_str(&note(rest));
        }
    }
}

impl Sink for Lines<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> io::Result<bool> {
        self.matches += 1;
        if self.search.mode == Mode::Content {
            for (index, line) in (0..).zip(found.lines()) {
                self.add(':', found.line_number().map(|first| first + index), line);
            }
        }
        Ok(true)
    }

    fn context(&mut self, _: &Searcher, context: &SinkContext<'_>) -> io::Result<bool> {
        self.add('-', context.line_number(), context.bytes());
        Ok(true)
    }

    fn context_break(&mut self, _: &Searcher) -> io::Result<bool> {
        self.push("--".to_owned());
        Ok(true)
    }

    fn binary_data(&mut self, _: &Searcher, _: u64) -> io::Result<bool> {
        self.binary = true;
        Ok(false)
    }
}

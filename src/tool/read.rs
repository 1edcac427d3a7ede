//! The Read tool: lines of a text file by number, streamed, with caps that always leave a way to go on.

use std::fmt::Write;
use std::fs::{File, Metadata};
use std::io::{self, BufRead, BufReader, Read as _};

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::ledger::{Fingerprint, Hashing};
use super::number::Whole;
use super::{ToolCx, ToolError, ToolOutput, TypedTool, Workspace, blocking, file, names, output};
use crate::protocol::{Access, Target};

/// Lines without a limit.
const LINES: u64 = 2_000;
/// Cap of one result, in bytes.
const CAP: usize = 256 * 1024;
/// Cap of one line, in characters.
const LINE: usize = 2_000;
/// Bytes of a line that are held: its characters have at most four each.
const LINE_BYTES: usize = LINE * 4;
/// How much of the file decides whether it is text, in bytes.
const SNIFFED: u64 = 8 * 1024;

/// Reads a range of a file's lines.
#[derive(Debug)]
pub(super) struct Read;

#[derive(Debug, Clone, Deserialize, JsonSchema)]
pub(super) struct Input {
    /// File to read; relative paths start at the working folder.
    #[serde(alias = "path")]
    file_path: String,
    /// First line, from 1.
    #[schemars(extend("default" = 1))]
    offset: Option<Whole>,
    /// Number of lines.
    #[schemars(extend("default" = LINES))]
    limit: Option<Whole>,
}

#[async_trait]
impl TypedTool for Read {
    type Input = Input;
    const NAME: &'static str = "Read";
    const DESCRIPTION: &'static str = include_str!("read.md");

    fn access(&self, input: &Input, workspace: &Workspace) -> Result<Access, ToolError> {
        Ok(Access::Read(vec![workspace.resolve(&input.file_path)?]))
    }

    async fn run(&self, input: Input, cx: ToolCx<'_>) -> Result<ToolOutput, ToolError> {
        let target = cx.workspace.resolve(&input.file_path)?;
        let range = Range::new(input.offset, input.limit)?;
        let cancel = cx.cancel.clone();
        let (target, page) = blocking(cx.cancel, move || {
            let page = read(&target, range, &cancel)?;
            Ok((target, page))
        })
        .await?;
        let effects = page.content.map(|content| cx.workspace.saw(&target, content, &page.metadata));
        Ok(ToolOutput {
            details: json!({"path": names::show(&target.shown), "lines": page.shown, "first": range.first}),
            effects: effects.into_iter().collect(),
            ..ToolOutput::text(page.text)
        })
    }
}

/// Lines from `first` (from 1), `count` of them.
#[derive(Debug, Clone, Copy)]
struct Range {
    first: u64,
    count: u64,
}

impl Range {
    fn new(offset: Option<Whole>, limit: Option<Whole>) -> Result<Self, ToolError> {
        let first = offset.map_or(1, |offset| offset.0.max(1));
        match limit.map_or(LINES, |limit| limit.0) {
            0 => Err(ToolError::InvalidInput("limit must be 1 or more".to_owned())),
            count => Ok(Self { first, count }),
        }
    }
}

/// What one call shows.
#[derive(Debug)]
struct Page {
    text: String,
    shown: u64,
    /// Known when the file is small enough to be changed.
    content: Option<Fingerprint>,
    metadata: Metadata,
}

fn read(target: &Target, range: Range, cancel: &CancellationToken) -> Result<Page, ToolError> {
    let (mut file, metadata) = file::open(target)?;
    let broken = |error: io::Error| {
        if cancel.is_cancelled() {
            ToolError::Cancelled
        } else {
            ToolError::Failed(format!("{} cannot be read: {error}.", names::show(&target.shown)))
        }
    };
    let mut start = Vec::new();
    io::Read::by_ref(&mut file).take(SNIFFED).read_to_end(&mut start).map_err(broken)?;
    if let Some(what) = not_text(&start) {
        let size = output::thousands(metadata.len());
        return Err(ToolError::Failed(format!("{} is {what}, {size} bytes.", names::show(&target.shown))));
    }
    let hashing = (metadata.len() <= file::LARGEST).then(Hashing::default);
    let source = io::Cursor::new(start).chain(file);
    let mut lines =
        Lines { source: BufReader::with_capacity(64 * 1024, Watched { source, hashing, cancel }), number: 0 };
    let found = lines.page(range).map_err(broken)?;
    let (total, content) = lines.finish().map_err(broken)?;
    let text = found.text(target, range, total)?;
    Ok(Page { text, shown: found.shown, content, metadata })
}

/// Passes bytes on, hashes them, and stops when the turn does.
struct Watched<'a> {
    source: io::Chain<io::Cursor<Vec<u8>>, File>,
    hashing: Option<Hashing>,
    cancel: &'a CancellationToken,
}

impl io::Read for Watched<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.cancel.is_cancelled() {
            return Err(io::Error::other("interrupted"));
        }
        let count = self.source.read(buffer)?;
        if let Some(hashing) = &mut self.hashing {
            hashing.update(buffer.get(..count).unwrap_or_default());
        }
        Ok(count)
    }
}

struct Lines<'a> {
    source: BufReader<Watched<'a>>,
    /// Lines passed so far.
    number: u64,
}

/// One line, cut to what is shown.
struct Line {
    bytes: Vec<u8>,
    /// Characters in the rest.
    more: u64,
}

/// The lines of a page before notes.
#[derive(Debug, Default)]
struct Found {
    lines: String,
    shown: u64,
    /// Numbers of lines that were cut, and how many characters the first of them has in all.
    cut: Vec<u64>,
    longest: u64,
    lossy: bool,
    full: bool,
    last: u64,
}

impl Lines<'_> {
    fn page(&mut self, range: Range) -> io::Result<Found> {
        let mut found = Found::default();
        while self.number + 1 < range.first && self.next(0)?.is_some() {}
        if self.number + 1 < range.first {
            return Ok(found);
        }
        while found.shown < range.count {
            if found.lines.len() > CAP - LINE_BYTES - 64 {
                found.full = true;
                break;
            }
            let Some(line) = self.next(LINE_BYTES)? else { break };
            found.add(self.number, &line);
        }
        found.last = self.number;
        Ok(found)
    }

    /// The next line, at most `keep` bytes of it. Lines end at `\n` only.
    fn next(&mut self, keep: usize) -> io::Result<Option<Line>> {
        let mut line = Line { bytes: Vec::new(), more: 0 };
        let mut any = false;
        loop {
            let buffer = self.source.fill_buf()?;
            if buffer.is_empty() {
                break;
            }
            any = true;
            let end = memchr::memchr(b'\n', buffer);
            let (piece, _) = buffer.split_at(end.unwrap_or(buffer.len()));
            let (kept, rest) = piece.split_at(piece.len().min(keep - line.bytes.len().min(keep)));
            line.bytes.extend_from_slice(kept);
            if keep > 0 {
                line.more += rest.iter().filter(|byte| **byte & 0xC0 != 0x80).count() as u64;
            }
            let used = piece.len() + usize::from(end.is_some());
            self.source.consume(used);
            if end.is_some() {
                break;
            }
        }
        if !any {
            return Ok(None);
        }
        self.number += 1;
        if self.number == 1 && line.bytes.starts_with(b"\xEF\xBB\xBF") {
            line.bytes.drain(..3);
        }
        Ok(Some(line))
    }

    /// Reads the rest for its hash; gives the number of lines when that is known.
    fn finish(mut self) -> io::Result<(Option<u64>, Option<Fingerprint>)> {
        if self.source.get_ref().hashing.is_none() {
            return Ok((None, None));
        }
        let mut last = None;
        loop {
            let buffer = self.source.fill_buf()?;
            let Some(byte) = buffer.last() else { break };
            last = Some(*byte);
            self.number += memchr::memchr_iter(b'\n', buffer).count() as u64;
            let used = buffer.len();
            self.source.consume(used);
        }
        self.number += u64::from(last.is_some_and(|byte| byte != b'\n'));
        Ok((Some(self.number), self.source.into_inner().hashing.map(Hashing::finish)))
    }
}

impl Found {
    fn add(&mut self, number: u64, line: &Line) {
        let bytes = line.bytes.strip_suffix(b"\r").filter(|_| line.more == 0).unwrap_or(&line.bytes);
        let text = String::from_utf8_lossy(bytes);
        // A character cut at the end of what is held is no fault of the file.
        self.lossy |= text.contains(char::REPLACEMENT_CHARACTER)
            && line.more == 0
            && std::str::from_utf8(bytes).is_err();
        let (shown, rest) = output::head(&text, LINE);
        let more = line.more + rest.chars().count() as u64;
        let number_shown = usize::try_from(number).unwrap_or(usize::MAX);
        if more == 0 {
            output::numbered(number_shown, shown, &mut self.lines);
        } else {
            let shown = format!("{shown} [{} more characters]", output::thousands(more));
            output::numbered(number_shown, &shown, &mut self.lines);
            self.cut.push(number);
            self.longest = self.longest.max(more + LINE as u64);
        }
        self.shown += 1;
    }

    fn text(&self, target: &Target, range: Range, total: Option<u64>) -> Result<String, ToolError> {
        let name = names::show(&target.shown);
        if self.shown == 0 {
            return match total {
                Some(0) => Ok(format!("[{name} is empty.]")),
                Some(lines) => Err(ToolError::Failed(format!(
                    "{name} has {}; offset {} is beyond its end.",
                    output::count(usize::try_from(lines).unwrap_or(usize::MAX), "line"),
                    range.first
                ))),
                None => {
                    Err(ToolError::Failed(format!("offset {} is beyond the end of {name}.", range.first)))
                }
            };
        }
        let mut text = self.lines.clone();
        if let Some(first) = self.cut.first() {
            let quoted = format!("'{}'", name.replace('\'', r"'\''"));
            let which = match self.cut.len() {
                1 => format!("Line {first} was"),
                count => format!("{count} lines, the first of them {first}, were"),
            };
            writeln!(
                text,
                "[{which} cut at {LINE} characters of at most {}. See another part with Bash: \
                 sed -n '{first}p' {quoted} | cut -c{}-{}]",
                output::thousands(self.longest),
                LINE + 1,
                LINE + 8_000
            )
            .ok();
        }
        if self.lossy {
            text.push_str("[The file is not all UTF-8; other bytes are shown as \u{FFFD}.]\n");
        }
        if total.is_none_or(|total| self.last < total) && (self.full || self.shown == range.count) {
            let of = total.map_or(String::new(), |total| format!(" of {total}"));
            let why = if self.full { format!(", {} KiB being the limit", CAP / 1024) } else { String::new() };
            writeln!(
                text,
                "[Lines {} to {}{of} are shown{why}. Go on with offset {}.]",
                range.first,
                self.last,
                self.last + 1
            )
            .ok();
        }
        Ok(text)
    }
}

/// What the file is when it is no text, by its first bytes.
fn not_text(start: &[u8]) -> Option<String> {
    const KINDS: &[(&[u8], &str)] = &[
        (b"\x89PNG", "a PNG image"),
        (b"\xFF\xD8\xFF", "a JPEG image"),
        (b"GIF8", "a GIF image"),
        (b"RIFF", "a RIFF file (WebP, WAV or AVI)"),
        (b"%PDF-", "a PDF document; extract its text with Bash (pdftotext)"),
        (b"PK\x03\x04", "a ZIP archive or office document; list it with Bash (unzip -l)"),
        (b"\x1F\x8B", "gzip data; read it with Bash (zcat)"),
        (b"\x7FELF", "an ELF binary"),
        (b"SQLite format 3", "an SQLite database; query it with Bash (sqlite3)"),
    ];
    if start.starts_with(b"\xFF\xFE") || start.starts_with(b"\xFE\xFF") {
        let convert = "UTF-16 text. Convert it with Bash: iconv -f UTF-16 -t UTF-8";
        return Some(convert.to_owned());
    }
    let known = KINDS.iter().find(|(magic, _)| start.starts_with(magic)).map(|(_, what)| *what);
    let binary = start.contains(&0) || (known.is_some() && std::str::from_utf8(start).is_err());
    match known {
        Some(what) if binary || start.starts_with(b"%PDF-") => Some(what.to_owned()),
        _ => binary.then(|| "binary data, not text. Look at it with Bash (file, xxd, strings)".to_owned()),
    }
}

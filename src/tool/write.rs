//! The Write tool: a whole file, created or replaced.

use std::fmt::Write as _;
use std::ops::Range;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;

use super::file::Before;
use super::ledger::{Fingerprint, Standing};
use super::{ToolCx, ToolError, ToolOutput, TypedTool, Workspace, blocking, diff, file, names, output};
use crate::protocol::{Access, Target};

const MARK: &[u8] = b"\xEF\xBB\xBF";

/// Writes a file.
#[derive(Debug)]
pub(super) struct Write;

#[derive(Debug, Clone, Deserialize, JsonSchema)]
pub(super) struct Input {
    /// File to write.
    #[serde(alias = "path")]
    file_path: String,
    /// All of its new text.
    content: String,
}

#[async_trait]
impl TypedTool for Write {
    type Input = Input;
    const NAME: &'static str = "Write";
    const DESCRIPTION: &'static str = include_str!("write.md");

    fn access(&self, input: &Input, workspace: &Workspace) -> Result<Access, ToolError> {
        Ok(Access::Write(vec![workspace.resolve(&input.file_path)?]))
    }

    async fn run(&self, input: Input, cx: ToolCx<'_>) -> Result<ToolOutput, ToolError> {
        let target = cx.workspace.resolve(&input.file_path)?;
        write(target, input.content, cx).await
    }
}

/// Writes the whole content of a file; also for an Edit that creates one.
pub(super) async fn write(target: Target, content: String, cx: ToolCx<'_>) -> Result<ToolOutput, ToolError> {
    let reading = target.clone();
    let before = blocking(cx.cancel, move || {
        let before = file::read_to_change(&reading)?;
        Ok(before.map(|before| (Fingerprint::of(&before.bytes), before)))
    })
    .await?;
    if let Some((present, before)) = &before {
        known(&target, present, before, cx.workspace)?;
    }
    let before = before.map(|(_, before)| before);
    let name = output::relative(&target.shown, cx.workspace.cwd());
    let writing = target.clone();
    // Past this point the call is finished even if the turn is interrupted: a half-told write helps nobody.
    let (text, file_diff, present, metadata) = blocking(cx.cancel, move || {
        let (bytes, kept) = in_the_style_of(before.as_ref(), content);
        let metadata = file::replace(&writing, before.as_ref(), &bytes)?;
        let file_diff = diff::unified(&name, before.as_ref().map(|before| before.bytes.as_slice()), &bytes);
        let lines = bytes.split_inclusive(|byte| *byte == b'\n').count();
        let done = if before.is_some() { "Updated" } else { "Created" };
        let text = format!("{done} {name} ({}).{kept}", output::count(lines, "line"));
        Ok((text, file_diff, Fingerprint::of(&bytes), metadata))
    })
    .await?;
    let effect = cx.workspace.saw(&target, present, &metadata);
    let details = file_diff.details(&names::show(&target.shown));
    Ok(ToolOutput { details, effects: vec![effect], ..ToolOutput::text(text) })
}

/// Whether the agent knows what it is about to replace.
fn known(
    target: &Target,
    present: &Fingerprint,
    before: &Before,
    workspace: &Workspace,
) -> Result<(), ToolError> {
    let name = names::show(&target.shown);
    match workspace.standing(target, present) {
        Standing::Current => Ok(()),
        Standing::Unread if before.bytes.is_empty() => Ok(()),
        Standing::Unread => Err(unread(&name)),
        Standing::Changed(lines) => Err(changed(&name, lines, &before.bytes)),
    }
}

/// The refusal to change a file that was never read.
pub(super) fn unread(name: &str) -> ToolError {
    ToolError::Failed(format!("{name} exists and has not been read yet. Read it first, then change it."))
}

/// The refusal to change what somebody else changed, with the new lines.
pub(super) fn changed(name: &str, lines: Option<Range<usize>>, content: &[u8]) -> ToolError {
    /// Changed lines shown.
    const SHOWN: usize = 20;
    let mut text = format!("{name} has changed since you read it. Nothing was written.");
    match lines {
        None => text.push_str(" Read it again, then repeat the change."),
        Some(lines) if lines.is_empty() => {
            write!(text, " Lines were taken out before line {}. Read it again there.", lines.start + 1).ok();
        }
        Some(lines) => {
            write!(text, " Lines {} to {} are new or different", lines.start + 1, lines.end).ok();
            text.push_str(if lines.len() > SHOWN { ", the first of them:\n" } else { ":\n" });
            let all = content.split_inclusive(|byte| *byte == b'\n').enumerate();
            for (index, line) in all.skip(lines.start).take(lines.len().min(SHOWN)) {
                let line = String::from_utf8_lossy(line);
                output::numbered(index + 1, output::head(line.trim_end(), 200).0, &mut text);
            }
            write!(text, "Read it again (offset {}), then repeat the change.", lines.start + 1).ok();
        }
    }
    ToolError::Failed(text)
}

/// The bytes to write: a byte order mark and line ends that are all CRLF survive a rewrite that names neither, since
/// Read shows neither. Also says what was kept.
fn in_the_style_of(before: Option<&Before>, content: String) -> (Vec<u8>, String) {
    let old = before.map_or(&[][..], |before| &before.bytes);
    let mut kept = Vec::new();
    let mut text = content;
    let ends = memchr::memchr_iter(b'\n', old).count();
    let crlf = ends > 0 && memchr::memmem::find_iter(old, b"\r\n").count() == ends;
    if crlf && text.contains('\n') && !text.contains('\r') {
        text = text.replace('\n', "\r\n");
        kept.push("CRLF line ends");
    }
    let mut bytes = text.into_bytes();
    if old.starts_with(MARK) && !bytes.starts_with(MARK) {
        bytes.splice(..0, MARK.iter().copied());
        kept.push("byte order mark");
    }
    let note =
        if kept.is_empty() { String::new() } else { format!(" Its {} were kept.", kept.join(" and ")) };
    (bytes, note)
}

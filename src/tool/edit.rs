//! The Edit tool: one text for another in a file that was read, byte for byte outside the match.

mod matching;
mod nearest;

use std::fs::Metadata;
use std::ops::Range;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;

use self::matching::{Applied, Closeness, Mismatch, Replacement, Scope};
use super::file::Before;
use super::ledger::{Fingerprint, Standing};
use super::number::Flag;
use super::{
    ToolCx, ToolError, ToolOutput, TypedTool, Workspace, blocking, diff, file, names, output, write,
};
use crate::protocol::{Access, Target};

/// Unchanged lines shown around a change.
const CONTEXT: usize = 3;
/// Lines shown of a change.
const SHOWN: usize = 60;
/// Longest line shown, in characters.
const WIDTH: usize = 500;

/// Replaces text in a file.
#[derive(Debug)]
pub(super) struct Edit;

#[derive(Debug, Clone, Deserialize, JsonSchema)]
pub(super) struct Input {
    /// File to change.
    #[serde(alias = "path")]
    file_path: String,
    /// Text to replace.
    old_string: String,
    /// Text that takes its place.
    new_string: String,
    /// Replace every match.
    #[serde(default)]
    replace_all: Flag,
}

#[async_trait]
impl TypedTool for Edit {
    type Input = Input;
    const NAME: &'static str = "Edit";
    const DESCRIPTION: &'static str = include_str!("edit.md");

    fn access(&self, input: &Input, workspace: &Workspace) -> Result<Access, ToolError> {
        Ok(Access::Write(vec![workspace.resolve(&input.file_path)?]))
    }

    async fn run(&self, input: Input, cx: ToolCx<'_>) -> Result<ToolOutput, ToolError> {
        if input.old_string == input.new_string {
            return Err(ToolError::InvalidInput("old_string and new_string are the same".to_owned()));
        }
        let target = cx.workspace.resolve(&input.file_path)?;
        let reading = target.clone();
        let found = blocking(cx.cancel, move || {
            let before = file::read_to_change(&reading)?;
            Ok(before.map(|before| (Fingerprint::of(&before.bytes), before)))
        })
        .await?;
        let Some((present, before)) = found else {
            if input.old_string.is_empty() {
                return write::write(target, input.new_string, cx).await;
            }
            return Err(file::missing(&target));
        };
        if input.old_string.is_empty() {
            if before.bytes.is_empty() {
                return write::write(target, input.new_string, cx).await;
            }
            let what = "old_string is empty, and the file is not. Name the text to replace, or use Write";
            return Err(ToolError::InvalidInput(what.to_owned()));
        }
        let place = Place {
            standing: cx.workspace.standing(&target, &present),
            shown: names::show(&target.shown),
            name: output::relative(&target.shown, cx.workspace.cwd()),
            target: target.clone(),
        };
        let details = place.shown.clone();
        let done = blocking(cx.cancel, move || edit(&place, &before, &input)).await?;
        let effect = cx.workspace.saw(&target, done.content, &done.metadata);
        Ok(ToolOutput {
            details: done.diff.details(&details),
            effects: vec![effect],
            ..ToolOutput::text(done.text)
        })
    }
}

/// The file of an edit and what the agent knows of it.
struct Place {
    target: Target,
    standing: Standing,
    /// Absolute.
    shown: String,
    /// As short as can be.
    name: String,
}

struct Done {
    text: String,
    diff: diff::FileDiff,
    content: Fingerprint,
    metadata: Metadata,
}

fn edit(place: &Place, before: &Before, input: &Input) -> Result<Done, ToolError> {
    if place.standing == Standing::Unread {
        return Err(write::unread(&place.shown));
    }
    let scope = if input.replace_all.0 { Scope::All } else { Scope::Only };
    let wanted = Replacement { old: &input.old_string, new: &input.new_string, scope };
    let applied = matching::apply(&before.bytes, wanted)
        .map_err(|mismatch| refused(place, before, &input.old_string, mismatch))?;
    let merged = match &place.standing {
        Standing::Changed(lines) => merge(place, before, &applied, lines.clone())?,
        Standing::Unread | Standing::Current => String::new(),
    };
    let metadata = file::replace(&place.target, Some(before), &applied.bytes)?;
    Ok(Done {
        text: format!("{}{merged}\n{}", summary(place, &applied), region(&applied)),
        diff: diff::unified(&place.name, Some(&before.bytes), &applied.bytes),
        content: Fingerprint::of(&applied.bytes),
        metadata,
    })
}

fn refused(place: &Place, before: &Before, old: &str, mismatch: Mismatch) -> ToolError {
    let name = &place.shown;
    ToolError::Failed(match mismatch {
        Mismatch::NotFound
            if before.bytes.starts_with(b"\xFF\xFE") || before.bytes.starts_with(b"\xFE\xFF") =>
        {
            format!("{name} is UTF-16 text, which Edit cannot change. Convert it with Bash (iconv).")
        }
        Mismatch::NotFound => {
            let stale = if matches!(place.standing, Standing::Changed(_)) {
                " The file has changed since you read it."
            } else {
                ""
            };
            let near = nearest::nearest(&before.bytes, old);
            format!("old_string was not found in {name}. Nothing was changed.{stale}{near}")
        }
        Mismatch::Several { lines, count } => {
            let shown = lines.len();
            let lines: Vec<String> = lines.iter().map(ToString::to_string).collect();
            let more = if count > shown { " and further down" } else { "" };
            format!(
                "old_string is there {count} times in {name}, at lines {}{more}. Nothing was changed. \
                 Add lines around it to make it unique, or set replace_all.",
                lines.join(", ")
            )
        }
        Mismatch::Same => format!("The edit would change nothing in {name}."),
    })
}

/// An outside change that does not touch the edited lines stays beside the edit.
fn merge(
    place: &Place,
    before: &Before,
    applied: &Applied,
    lines: Option<Range<usize>>,
) -> Result<String, ToolError> {
    let Some(changed) = lines else {
        return Err(write::changed(&place.shown, None, &before.bytes));
    };
    for change in &applied.changes {
        let first = matching::line_of(&before.bytes, change.old.start) - 1;
        let last = matching::line_of(&before.bytes, change.old.end.saturating_sub(1).max(change.old.start));
        let apart = if changed.is_empty() {
            changed.start <= first || last <= changed.start
        } else {
            last <= changed.start || changed.end <= first
        };
        if !apart {
            return Err(write::changed(&place.shown, Some(changed), &before.bytes));
        }
    }
    Ok(if changed.is_empty() {
        format!(" Since you read it, lines were taken out before line {}.", changed.start + 1)
    } else {
        format!(
            " Since you read it, lines {} to {} changed as well; that change was kept.",
            changed.start + 1,
            changed.end
        )
    })
}

fn summary(place: &Place, applied: &Applied) -> String {
    let count = match applied.changes.len() {
        1 => String::new(),
        count => format!(", {}", output::count(count, "match")),
    };
    let how = match applied.closeness {
        Closeness::Exact | Closeness::LineEnds => "",
        Closeness::TrailingBlanks => " Blanks at the ends of lines were overlooked.",
    };
    format!("Edited {}{count}.{how}", place.name)
}

/// The first changed lines as they are now, with their numbers.
fn region(applied: &Applied) -> String {
    let Some(change) = applied.changes.first() else { return String::new() };
    let first = matching::line_of(&applied.bytes, change.new.start);
    let last = matching::line_of(&applied.bytes, change.new.end);
    let start = first.saturating_sub(CONTEXT).max(1);
    let wanted = (last + CONTEXT + 1 - start).min(SHOWN);
    let lines = applied.bytes.split_inclusive(|byte| *byte == b'\n').enumerate().skip(start - 1).take(wanted);
    let mut out = String::new();
    for (index, line) in lines {
        let line = String::from_utf8_lossy(line);
        output::numbered(index + 1, output::head(line.trim_end_matches(['\r', '\n']), WIDTH).0, &mut out);
    }
    out
}

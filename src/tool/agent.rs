//! The Agent tool: a job for a child agent, whose last words are the result.

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::{ChildJob, ChildReport, ToolCx, ToolError, ToolOutput, TypedTool, Workspace};
use crate::protocol::Access;

/// Cap of the child's last words, in bytes; their end is kept.
const CAP: usize = 32 * 1024;

/// Starts child agents.
#[derive(Debug)]
pub(super) struct Agent;

#[derive(Debug, Clone, Deserialize, JsonSchema)]
pub(super) struct Input {
    /// The job in three to five words.
    description: String,
    /// The job in full.
    prompt: String,
    /// Names of the only tools it may use.
    tool_names: Option<Vec<String>>,
}

#[async_trait]
impl TypedTool for Agent {
    type Input = Input;
    const NAME: &'static str = "Agent";
    const DESCRIPTION: &'static str = include_str!("agent.md");

    fn access(&self, _: &Input, _: &Workspace) -> Result<Access, ToolError> {
        Ok(Access::Session)
    }

    async fn run(&self, input: Input, cx: ToolCx<'_>) -> Result<ToolOutput, ToolError> {
        if input.description.trim().is_empty() || input.prompt.trim().is_empty() {
            return Err(ToolError::InvalidInput("description and prompt must say something".to_owned()));
        }
        let job = ChildJob {
            call: cx.call.to_owned(),
            description: input.description.clone(),
            prompt: input.prompt,
            tool_names: input.tool_names,
        };
        let report = cx.spawn.run_child(job).await;
        tell(input.description.trim(), report)
    }
}

fn tell(description: &str, report: ChildReport) -> Result<ToolOutput, ToolError> {
    match report {
        ChildReport::Done { text } if text.trim().is_empty() => Err(ToolError::Failed(format!(
            "[Agent: {description}] It ended without a last message. Ask again and say what to report."
        ))),
        ChildReport::Done { text } => {
            let output = ToolOutput::text(format!("[Agent: {description}]\n{}", end_of(&text)));
            Ok(ToolOutput { details: json!({"description": description}), ..output })
        }
        ChildReport::Failed { reason, text } if text.trim().is_empty() => {
            Err(ToolError::Failed(format!("[Agent: {description}] It did not finish: {reason}")))
        }
        ChildReport::Failed { reason, text } => Err(ToolError::Failed(format!(
            "[Agent: {description}] It did not finish: {reason}\nIts last message so far:\n{}",
            end_of(&text)
        ))),
        ChildReport::Refused { reason } => {
            Err(ToolError::Failed(format!("[Agent: {description}] It was not started: {reason}")))
        }
    }
}

/// The last bytes of a text, cut between characters.
fn end_of(text: &str) -> String {
    let start = text.ceil_char_boundary(text.len().saturating_sub(CAP));
    match text.split_at_checked(start) {
        Some((cut, end)) if !cut.is_empty() => format!("[the first {} bytes are left out]\n{end}", cut.len()),
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::text_of;

    #[test]
    fn the_report_of_a_child_becomes_a_result() {
        let check = |report, want: Result<&str, &str>| {
            let told = tell("look", report).map(|output| text_of(&output.content));
            assert_eq!(told.map_err(|error| error.to_string()), want.map(Into::into).map_err(Into::into));
        };
        let text = |text: &str| text.to_owned();
        check(ChildReport::Done { text: text("found") }, Ok("[Agent: look]\nfound"));
        let empty = "[Agent: look] It ended without a last message. Ask again and say what to report.";
        check(ChildReport::Done { text: text(" \n") }, Err(empty));
        check(
            ChildReport::Failed { reason: text("max_turns"), text: text("half") },
            Err("[Agent: look] It did not finish: max_turns\nIts last message so far:\nhalf"),
        );
        check(
            ChildReport::Failed { reason: text("aborted"), text: String::new() },
            Err("[Agent: look] It did not finish: aborted"),
        );
        check(
            ChildReport::Refused { reason: text("too deep") },
            Err("[Agent: look] It was not started: too deep"),
        );
    }

    #[test]
    fn the_end_of_long_words_is_kept_between_characters() {
        let text = format!("{}b", "\u{7a7a}".repeat(CAP / 3 + 1));
        let kept = end_of(&text);
        let (note, rest) = kept.split_once('\n').unwrap();
        assert_eq!(note, "[the first 3 bytes are left out]");
        assert!(rest.len() <= CAP && rest.ends_with('b') && !rest.contains('\u{fffd}'));
        assert_eq!(end_of("short"), "short");
    }
}

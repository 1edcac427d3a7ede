//! A permission question on the line terminal.

use super::editor::{Asked, Editor};
use super::page::print;
use crate::app::visible::{clipped, visible, visible_line};
use crate::protocol::{Decision, PermissionRequest, Scope, ToolCall};

/// Shows what is asked.
pub(super) fn show(request: &PermissionRequest) {
    let who =
        if request.agent.is_root() { String::new() } else { format!(" (child agent {})", request.agent) };
    print(&format!("? {}{who}\n  {}\n", summary(request), visible_line(&request.reason)));
    let change = request.diff.clone().or_else(|| change(&request.call));
    if let Some(change) = change {
        let change = clipped(change.trim_end(), 4_000);
        print(&format!("    {}\n", visible(&change).replace('\n', "\n    ")));
    }
    if let Some(offer) = request.offers.first() {
        print(&format!("  always = allow {} for this session\n", visible_line(&offer.rule)));
    }
}

/// Waits for the answer; `None` means that the user wants the turn to stop.
pub(super) async fn ask(editor: &mut Editor, request: &PermissionRequest) -> Option<Decision> {
    let offer = request.offers.first();
    let choices = if offer.is_some() {
        "y / always / n, or say what to do instead"
    } else {
        "y / n, or say what to do instead"
    };
    loop {
        let line = match editor.question(&format!("  {choices}: ")).await {
            Asked::Line(line) => line,
            Asked::Interrupt | Asked::End => return None,
        };
        let words = line.trim();
        return Some(match (words.to_lowercase().as_str(), offer) {
            ("", _) => continue,
            ("y" | "yes", _) => Decision::allow(),
            ("a" | "always", Some(offer)) => {
                Decision::Allow { input: None, save: Some((offer.clone(), Scope::Session)) }
            }
            ("n" | "no", _) => Decision::Deny { feedback: None, end_turn: false },
            _ => Decision::deny(words),
        });
    }
}

/// What a call would change, from its input alone: nobody should say yes to a bare name.
fn change(call: &ToolCall) -> Option<String> {
    let marked = |field: &str, mark: &str| -> Option<String> {
        let text = call.input.get(field)?.as_str()?;
        let lines: Vec<String> = text.lines().map(|line| format!("{mark} {line}")).collect();
        Some(lines.join("\n") + "\n")
    };
    match call.name.as_str() {
        "Edit" => Some(marked("old_string", "-")? + &marked("new_string", "+")?),
        "Write" => marked("content", "+"),
        _ => None,
    }
}

/// All that would run: a command is shown whole, whatever its length.
fn summary(request: &PermissionRequest) -> String {
    match request.call.input.get("command").and_then(|command| command.as_str()) {
        // Indented, so that no line of it can pass for one of ours.
        Some(command) => {
            format!("{} {}", visible_line(&request.call.name), visible(command).replace('\n', "\n      "))
        }
        None => crate::app::summary(&request.call),
    }
}

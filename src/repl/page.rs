//! What the line session writes: the streamed answer, calls and their results, one after the other.

use std::collections::HashSet;
use std::io::Write as _;
use std::time::Duration;

use crate::app::visible::{clipped, visible, visible_line};
use crate::protocol::{DeltaKind, Envelope, Event};

/// Writes to the terminal; one that is gone ends the session by its signals, not here.
pub(super) fn print(text: &str) {
    let mut out = std::io::stdout().lock();
    drop(out.write_all(text.as_bytes()).and_then(|()| out.flush()));
}

/// Lines of one result that are shown.
const SHOWN: usize = 6;

/// What is on the page so far, as far as the next line depends on it.
#[derive(Debug, Default)]
pub(super) struct Page {
    /// The cursor stands behind text.
    open: bool,
    /// The commands that run, by the id of their call.
    commands: HashSet<String>,
}

impl Page {
    pub(super) fn end_line(&mut self) {
        if std::mem::take(&mut self.open) {
            print("\n");
        }
    }

    pub(super) fn line(&mut self, text: &str) {
        self.end_line();
        print(&format!("{text}\n"));
    }

    /// The first and the last lines of a text, each behind this mark.
    fn excerpt(&mut self, text: &str, mark: &str) {
        let lines: Vec<&str> = text.trim().lines().collect();
        let left_out = lines.len().saturating_sub(SHOWN);
        let (first, last) = lines.split_at(lines.len().min(SHOWN / 3));
        for line in first {
            self.line(&format!("{mark}{}", clipped(&visible_line(line), 300)));
        }
        if left_out > 0 {
            self.line(&format!("{mark}[{left_out} more lines]"));
        }
        for line in last.iter().skip(left_out) {
            self.line(&format!("{mark}{}", clipped(&visible_line(line), 300)));
        }
    }

    pub(super) fn show(&mut self, envelope: &Envelope) {
        let indent = "  ".repeat(envelope.agent.depth());
        match &envelope.event {
            Event::Delta { kind: DeltaKind::Text, text } if envelope.agent.is_root() => {
                print(&visible(text));
                self.open = !text.ends_with('\n');
            }
            Event::DeltaReset if self.open => self.line("\n[the reply is asked for again]"),
            Event::ToolStarted { call } => {
                if call.name == "Bash" {
                    self.commands.insert(call.id.clone());
                }
                self.line(&format!("{indent}● {}", crate::app::summary(call)));
            }
            Event::ToolFinished { result } => {
                let is_command = self.commands.remove(&result.call);
                if result.is_error || is_command {
                    let mark = if result.is_error { "!" } else { "│" };
                    let text = crate::protocol::text_of(&result.content);
                    self.excerpt(&text, &format!("{indent}  {mark} "));
                } else if let Some(diff) = result.details.get("diff").and_then(|diff| diff.as_str()) {
                    self.line(visible(&clipped(diff.trim_end(), 4_000)).trim_end());
                }
            }
            Event::Retrying { attempt, after_ms, reason } => {
                let seconds = Duration::from_millis(*after_ms).as_secs_f64();
                let reason = clipped(&visible_line(reason), 300);
                self.line(&format!("{indent}retrying ({attempt}) in {seconds:.1} s: {reason}"));
            }
            Event::Notice { text } => self.line(&format!("{indent}{}", visible(text))),
            _ => {}
        }
    }
}

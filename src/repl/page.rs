//! What the line session writes: the streamed answer, calls and their results, one after the other.

use std::io::Write as _;
use std::time::Duration;

use crate::app::visible::{clipped, visible, visible_line};
use crate::protocol::{DeltaKind, Envelope, Event};

/// Writes to the terminal; one that is gone ends the session by its signals, not here.
pub(super) fn print(text: &str) {
    let mut out = std::io::stdout().lock();
    drop(out.write_all(text.as_bytes()).and_then(|()| out.flush()));
}

/// What is on the page so far, as far as the next line depends on it.
#[derive(Debug, Default)]
pub(super) struct Page {
    /// The cursor stands behind text.
    open: bool,
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

    pub(super) fn show(&mut self, envelope: &Envelope) {
        let indent = "  ".repeat(envelope.agent.depth());
        match &envelope.event {
            Event::Delta { kind: DeltaKind::Text, text } if envelope.agent.is_root() => {
                print(&visible(text));
                self.open = !text.ends_with('\n');
            }
            Event::DeltaReset if self.open => self.line("\n[the reply is asked for again]"),
            Event::ToolStarted { call } => self.line(&format!("{indent}● {}", crate::app::summary(call))),
            Event::ToolFinished { result } => {
                if result.is_error {
                    let text = crate::protocol::text_of(&result.content);
                    self.line(&format!("{indent}  ! {}", clipped(&visible_line(text.trim()), 300)));
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

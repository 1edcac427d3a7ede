//! What a headless run shows on stderr: progress for people, and the last words.

use std::io::IsTerminal as _;
use std::time::Duration;

use super::answer::Tally;
use crate::app::say;
use crate::app::visible::{clipped, visible, visible_line};
use crate::protocol::{Envelope, Event, TurnOutcome};

/// The terminal of a run, if it has one.
#[derive(Debug)]
pub(super) struct Screen {
    /// stderr is a terminal: progress is shown.
    lively: bool,
}

impl Screen {
    pub(super) fn new() -> Self {
        Self { lively: std::io::stderr().is_terminal() }
    }

    /// Calls, waits, notices.
    pub(super) fn show(&self, envelope: &Envelope) {
        let indent = "  ".repeat(envelope.agent.depth());
        match &envelope.event {
            Event::ToolStarted { call } if self.lively => {
                say(&format!("{indent}● {}", crate::app::summary(call)));
            }
            Event::ToolFinished { result } if self.lively && result.is_error => {
                let text = crate::protocol::text_of(&result.content);
                say(&format!("{indent}  ! {}", clipped(&visible_line(text.trim()), 200)));
            }
            Event::Retrying { attempt, after_ms, reason } => {
                let seconds = Duration::from_millis(*after_ms).as_secs_f64();
                let reason = clipped(&visible_line(reason), 300);
                say(&format!("{indent}retrying ({attempt}) in {seconds:.1} s: {reason}"));
            }
            Event::Notice { text } => say(&format!("{indent}{}", visible(text))),
            _ => {}
        }
    }

    /// How it ended, and what was refused.
    pub(super) fn last_words(outcome: &TurnOutcome, tally: &Tally) {
        let sentence = outcome.sentence();
        if !sentence.is_empty() {
            say(&visible(&sentence));
        }
        if !tally.denials.is_empty() {
            say(&format!("{} call(s) did not run for want of leave:", tally.denials.len()));
            for denial in &tally.denials {
                let call = clipped(&visible_line(&crate::app::summary(&denial.call)), 120);
                say(&format!("  {call}: {}", visible_line(&denial.reason)));
            }
        }
    }
}

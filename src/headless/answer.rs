//! What a run came to so far: the answer, the calls that were refused, rounds and times.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::app::Status;
use crate::protocol::{Envelope, Event, Role, Source, ToolCall, Usage};

/// A call that did not run for want of leave.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Denied {
    pub(super) call: ToolCall,
    pub(super) reason: String,
}

/// Counts what passes by.
#[derive(Debug)]
pub(super) struct Tally {
    pieces: Vec<String>,
    /// The next assistant text goes on where the last one was cut.
    goes_on: bool,
    calls: HashMap<String, ToolCall>,
    pub(super) denials: Vec<Denied>,
    pub(super) rounds: u32,
    /// How the session stood before: what it had used is not of this run.
    before: Status,
    began: Instant,
    waiting: Option<Instant>,
    api: Duration,
}

impl Tally {
    pub(super) fn new(before: Status) -> Self {
        Self {
            pieces: Vec::new(),
            goes_on: false,
            calls: HashMap::new(),
            denials: Vec::new(),
            rounds: 0,
            before,
            began: Instant::now(),
            waiting: None,
            api: Duration::ZERO,
        }
    }

    pub(super) fn note(&mut self, envelope: &Envelope) {
        match &envelope.event {
            Event::MessageAdded { message } => {
                for call in message.calls() {
                    self.calls.insert(call.id.clone(), call);
                }
                if !envelope.agent.is_root() {
                    return;
                }
                if message.role == Role::Assistant {
                    self.rounds += 1;
                    self.api += self.waiting.take().map_or(Duration::ZERO, |since| since.elapsed());
                    if !std::mem::take(&mut self.goes_on) {
                        self.pieces.clear();
                    }
                    let text = message.text();
                    if !text.trim().is_empty() {
                        self.pieces.push(text);
                    }
                } else {
                    self.goes_on = message.source == Source::Host;
                    self.waiting = Some(Instant::now());
                }
            }
            Event::ToolStarted { call } => {
                self.calls.insert(call.id.clone(), call.clone());
            }
            Event::ToolFinished { result } => {
                if let Some(denied) = result.details.get("permission_denied") {
                    let reason = denied.get("reason").and_then(|r| r.as_str()).unwrap_or_default().to_owned();
                    if let Some(call) = self.calls.get(&result.call).cloned() {
                        self.denials.push(Denied { call, reason });
                    }
                }
                if envelope.agent.is_root() {
                    self.waiting = Some(Instant::now());
                }
            }
            _ => {}
        }
    }

    /// The last assistant text, put together where a limit had cut it.
    pub(super) fn answer(&self) -> String {
        self.pieces.concat()
    }

    /// Tokens of this run.
    pub(super) fn usage(&self, now: &Status) -> Usage {
        let (now, before) = (now.usage, self.before.usage);
        Usage {
            input: now.input.saturating_sub(before.input),
            output: now.output.saturating_sub(before.output),
            cache_read: now.cache_read.saturating_sub(before.cache_read),
            cache_write: now.cache_write.saturating_sub(before.cache_write),
        }
    }

    /// US dollars of this run, where the price is known.
    pub(super) fn cost(&self, now: &Status) -> Option<f64> {
        now.cost.map(|cost| (cost - self.before.cost.unwrap_or(0.0)).max(0.0))
    }

    pub(super) fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// Time spent waiting for the model.
    pub(super) fn api(&self) -> Duration {
        self.api
    }
}

//! Machine-readable output in the shapes of Claude Code's `json` and `stream-json`.

use serde_json::{Value, json};
use uuid::Uuid;

use super::Format;
use super::answer::Tally;
use crate::app::{Handle, Status};
use crate::protocol::{AgentPath, Envelope, Event, Message, Role, TurnOutcome, Usage};

/// Turns events into lines of one format; text has none.
#[derive(Debug)]
pub(super) struct Writer {
    format: Format,
    session: String,
}

impl Writer {
    pub(super) fn new(handle: &Handle, format: Format) -> Self {
        Self { format, session: handle.info.session.clone() }
    }

    /// The line that opens a stream.
    pub(super) fn init(&self, handle: &Handle) -> Vec<String> {
        let status = handle.status();
        self.stream(|| {
            json!({
                "type": "system",
                "subtype": "init",
                "cwd": handle.info.cwd.to_string_lossy(),
                "tools": handle.info.tools,
                "mcp_servers": [],
                "model": status.model.0,
                "permissionMode": status.mode.name(),
                "slash_commands": [],
                "agents": [],
                "skills": [],
                "plugins": [],
                "output_style": "default",
                "apiKeySource": handle.info.key_source,
                "reagent_version": env!("CARGO_PKG_VERSION"),
            })
        })
    }

    /// The line of one event, if it has one.
    pub(super) fn event(&self, envelope: &Envelope, tally: &Tally) -> Vec<String> {
        match &envelope.event {
            Event::MessageAdded { message } if message.role == Role::Assistant => {
                self.stream(|| assistant(message, &envelope.agent))
            }
            Event::MessageAdded { message } if message.source != crate::protocol::Source::User => {
                let text = message.text();
                self.stream(|| json!({"type": "system", "subtype": "reagent.injected", "source": message.source, "text": text}))
            }
            Event::ToolFinished { result } => {
                let mut lines = self.stream(|| {
                    json!({
                        "type": "user",
                        "message": {"role": "user", "content": [result.block()]},
                        "parent_tool_use_id": parent(&envelope.agent),
                        "tool_use_result": result.details,
                    })
                });
                if result.details.get("permission_denied").is_some()
                    && let Some(denied) = tally.denials.last().filter(|d| d.call.id == result.call)
                {
                    lines.extend(self.stream(|| {
                        json!({
                            "type": "system",
                            "subtype": "permission_denied",
                            "tool_name": denied.call.name,
                            "tool_use_id": denied.call.id,
                            "message": denied.reason,
                        })
                    }));
                }
                lines
            }
            Event::Retrying { attempt, after_ms, reason } => self.stream(|| {
                json!({
                    "type": "system",
                    "subtype": "api_retry",
                    "attempt": attempt,
                    "retry_delay_ms": after_ms,
                    "error": reason,
                })
            }),
            Event::Notice { text } => {
                self.stream(|| json!({"type": "system", "subtype": "reagent.notice", "content": text}))
            }
            Event::Compacted { tier, .. } => {
                self.stream(|| json!({"type": "system", "subtype": "reagent.compacted", "tier": tier}))
            }
            Event::StateChanged { change } => {
                self.stream(|| json!({"type": "system", "subtype": "reagent.state", "change": change}))
            }
            Event::TurnFinished { outcome } if !envelope.agent.is_root() => self.stream(|| {
                let agent = parent(&envelope.agent);
                json!({"type": "system", "subtype": "reagent.agent_finished", "parent_tool_use_id": agent, "outcome": outcome})
            }),
            _ => Vec::new(),
        }
    }

    /// The result record: the only line of `json`, the last of `stream-json`.
    pub(super) fn result(&self, outcome: &TurnOutcome, tally: &Tally, status: &Status) -> Vec<String> {
        if self.format == Format::Text {
            return Vec::new();
        }
        let done = *outcome == TurnOutcome::Completed;
        let subtype = match outcome {
            TurnOutcome::Completed => "success",
            TurnOutcome::MaxTurns { .. } => "error_max_turns",
            TurnOutcome::Budget { .. } => "error_max_budget_usd",
            TurnOutcome::Aborted
            | TurnOutcome::Stuck { .. }
            | TurnOutcome::Refusal { .. }
            | TurnOutcome::Error { .. } => "error_during_execution",
        };
        let denials: Vec<Value> = tally
            .denials
            .iter()
            .map(|d| json!({"tool_name": d.call.name, "tool_use_id": d.call.id, "tool_input": d.call.input}))
            .collect();
        let mut record = json!({
            "type": "result",
            "subtype": subtype,
            "is_error": !done,
            "duration_ms": millis(tally.elapsed()),
            "duration_api_ms": millis(tally.api()),
            "num_turns": tally.rounds,
            "result": if done { tally.answer() } else { outcome.sentence() },
            "terminal_reason": outcome.word(),
            "session_id": self.session,
            "total_cost_usd": status.cost.unwrap_or(0.0),
            "usage": usage(&status.usage),
            "modelUsage": {&*status.model.0: usage(&status.usage)},
            "permission_denials": denials,
            "uuid": Uuid::new_v4().to_string(),
        });
        if let (false, Some(map)) = (done, record.as_object_mut()) {
            map.insert("errors".to_owned(), json!([outcome.sentence()]));
            let partial = tally.answer();
            if !partial.is_empty() {
                map.insert("partial_result".to_owned(), partial.into());
            }
        }
        vec![record.to_string()]
    }

    /// One line of a stream, with what every line carries.
    fn stream(&self, make: impl FnOnce() -> Value) -> Vec<String> {
        if self.format != Format::StreamJson {
            return Vec::new();
        }
        let mut value = make();
        if let Some(map) = value.as_object_mut() {
            map.insert("session_id".to_owned(), self.session.clone().into());
            map.insert("uuid".to_owned(), Uuid::new_v4().to_string().into());
        }
        vec![value.to_string()]
    }
}

fn assistant(message: &Message, agent: &AgentPath) -> Value {
    let model = message.origin.as_ref().map(|origin| origin.0.as_str());
    json!({
        "type": "assistant",
        "message": {
            "id": message.id.0,
            "type": "message",
            "role": "assistant",
            "model": model,
            "content": message.blocks,
        },
        "parent_tool_use_id": parent(agent),
    })
}

fn parent(agent: &AgentPath) -> Option<&str> {
    agent.0.last().map(String::as_str)
}

fn usage(usage: &Usage) -> Value {
    json!({
        "input_tokens": usage.input,
        "cache_creation_input_tokens": usage.cache_write,
        "cache_read_input_tokens": usage.cache_read,
        "output_tokens": usage.output,
    })
}

fn millis(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

//! Machine-readable output in the shapes of Claude Code's `json` and `stream-json`.

use std::collections::HashMap;

use serde_json::{Value, json};
use uuid::Uuid;

use super::answer::Tally;
use super::{Exit, Format};
use crate::app::{Handle, SessionInfo, Status};
use crate::protocol::{
    AgentPath, DeltaKind, Envelope, Event, Message, Role, Source, StateChange, TurnOutcome, Usage,
};

/// Turns events into lines of one format; text has none.
#[derive(Debug)]
pub(super) struct Writer {
    format: Format,
    session: String,
    retries: u32,
    /// What the newest model call of each agent used, until its message comes.
    used: HashMap<AgentPath, Usage>,
    last_stop: Option<&'static str>,
}

impl Writer {
    pub(super) fn new(info: &SessionInfo, format: Format) -> Self {
        Self {
            format,
            session: info.session.clone(),
            retries: info.retries,
            used: HashMap::new(),
            last_stop: None,
        }
    }

    /// The line that opens a stream.
    pub(super) fn init(&self, handle: &Handle) -> Option<String> {
        let status = handle.status();
        let commands: Vec<&str> = crate::app::commands::COMMANDS.iter().map(|c| c.name).collect();
        self.stream(|| {
            json!({
                "type": "system",
                "subtype": "init",
                "cwd": handle.info.cwd.to_string_lossy(),
                "tools": handle.info.tools,
                "mcp_servers": [],
                "model": status.name,
                "permissionMode": status.mode.name(),
                "slash_commands": commands,
                "agents": [],
                "skills": [],
                "plugins": [],
                "output_style": "default",
                "apiKeySource": handle.info.key_source,
                "reagent_version": env!("CARGO_PKG_VERSION"),
            })
        })
    }

    /// The lines of one event, if it has any.
    pub(super) fn event(&mut self, envelope: &Envelope, tally: &Tally) -> Vec<String> {
        let agent = &envelope.agent;
        let parent = agent.0.last();
        let line = match &envelope.event {
            Event::MessageAdded { message } if message.role == Role::Assistant => {
                let usage = self.used.remove(agent).unwrap_or_default();
                let stop = if message.calls().next().is_some() { "tool_use" } else { "end_turn" };
                if agent.is_root() {
                    self.last_stop = Some(stop);
                }
                self.stream(|| assistant(message, parent, stop, &usage))
            }
            Event::MessageAdded { message } if message.source != Source::User => {
                let text = message.text();
                self.stream(|| json!({"type": "system", "subtype": "reagent.injected", "source": message.source, "text": text}))
            }
            Event::ToolFinished { result } => {
                let line = self.stream(|| {
                    json!({
                        "type": "user",
                        "message": {"role": "user", "content": [result.block()]},
                        "parent_tool_use_id": parent,
                        "tool_use_result": result.details,
                    })
                });
                let denied = tally.denials.last().filter(|denied| denied.call.id == result.call);
                let denied = denied.filter(|_| result.details.get("permission_denied").is_some());
                let denied = denied.and_then(|denied| {
                    self.stream(|| {
                        json!({
                            "type": "system",
                            "subtype": "permission_denied",
                            "tool_name": denied.call.name,
                            "tool_use_id": denied.call.id,
                            "message": denied.reason,
                        })
                    })
                });
                return line.into_iter().chain(denied).collect();
            }
            Event::Retrying { attempt, after_ms, reason } => self.stream(|| {
                json!({
                    "type": "system",
                    "subtype": "api_retry",
                    // The wire counts repetitions, the event attempts.
                    "attempt": attempt.saturating_sub(1),
                    "max_retries": self.retries,
                    "retry_delay_ms": after_ms,
                    "error_status": null,
                    "error": reason,
                })
            }),
            Event::Notice { text } => {
                self.stream(|| json!({"type": "system", "subtype": "reagent.notice", "content": text}))
            }
            Event::Compacted { tier, .. } => {
                self.stream(|| json!({"type": "system", "subtype": "reagent.compacted", "tier": tier}))
            }
            Event::StateChanged { change: StateChange::Used { usage, .. } } => {
                self.used.insert(agent.clone(), *usage);
                None
            }
            Event::StateChanged { change } => {
                self.stream(|| json!({"type": "system", "subtype": "reagent.state", "change": change}))
            }
            Event::Delta { kind, text } if self.format == Format::StreamJsonPieces => self.stream(|| {
                let delta = match kind {
                    DeltaKind::Text => json!({"type": "text_delta", "text": text}),
                    DeltaKind::Thinking => json!({"type": "thinking_delta", "thinking": text}),
                };
                json!({
                    "type": "stream_event",
                    "event": {"type": "content_block_delta", "index": 0, "delta": delta},
                    "parent_tool_use_id": parent,
                })
            }),
            Event::DeltaReset if self.format == Format::StreamJsonPieces => self.stream(|| {
                json!({"type": "system", "subtype": "reagent.delta_reset", "parent_tool_use_id": parent})
            }),
            Event::TurnFinished { outcome } if !agent.is_root() => self.stream(|| {
                json!({"type": "system", "subtype": "reagent.agent_finished", "parent_tool_use_id": parent, "outcome": outcome})
            }),
            Event::SessionStarted { .. }
            | Event::TurnStarted
            | Event::MessageAdded { .. }
            | Event::ToolStarted { .. }
            | Event::ToolProgress { .. }
            | Event::PermissionAsked { .. }
            | Event::UsageUpdated { .. }
            | Event::Delta { .. }
            | Event::DeltaReset
            | Event::TurnFinished { .. }
            | Event::Unknown(_) => None,
        };
        line.into_iter().collect()
    }

    /// The result record: the only line of `json`, the last of `stream-json`.
    pub(super) fn result(&self, outcome: &TurnOutcome, tally: &Tally, status: &Status) -> String {
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
        let (used, cost) = (tally.usage(status), tally.cost(status));
        let mut record = json!({
            "type": "result",
            "subtype": subtype,
            "is_error": !done,
            "duration_ms": millis(tally.elapsed()),
            "duration_api_ms": millis(tally.api()),
            "num_turns": tally.rounds,
            "result": if done { tally.answer() } else { outcome.sentence() },
            "stop_reason": self.last_stop,
            "terminal_reason": outcome.word(),
            "session_id": self.session,
            "total_cost_usd": cost,
            "usage": usage(&used),
            "modelUsage": {&status.name: {
                "inputTokens": used.input,
                "outputTokens": used.output,
                "cacheReadInputTokens": used.cache_read,
                "cacheCreationInputTokens": used.cache_write,
                "costUSD": cost,
                "contextWindow": status.window,
            }},
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
        record.to_string()
    }

    /// One line of a stream, with what every line carries.
    fn stream(&self, make: impl FnOnce() -> Value) -> Option<String> {
        match self.format {
            Format::Text | Format::Json => None,
            Format::StreamJson | Format::StreamJsonPieces => {
                let mut value = make();
                if let Some(map) = value.as_object_mut() {
                    map.insert("session_id".to_owned(), self.session.clone().into());
                    map.insert("uuid".to_owned(), Uuid::new_v4().to_string().into());
                }
                Some(value.to_string())
            }
        }
    }
}

/// The result record of a run that did not start.
pub(super) fn not_started(exit: Exit, message: &str) -> Value {
    json!({
        "type": "result",
        "subtype": "error_during_execution",
        "is_error": true,
        "duration_ms": 0,
        "duration_api_ms": 0,
        "num_turns": 0,
        "result": message,
        "errors": [message],
        "stop_reason": null,
        "terminal_reason": if exit == Exit::NoModel { "no_model" } else { "not_started" },
        "session_id": "",
        "total_cost_usd": 0.0,
        "usage": usage(&Usage::default()),
        "modelUsage": {},
        "permission_denials": [],
        "uuid": Uuid::new_v4().to_string(),
    })
}

fn assistant(message: &Message, parent: Option<&String>, stop: &str, used: &Usage) -> Value {
    let model =
        message.origin.as_ref().map(|origin| origin.0.split_once('/').map_or(&*origin.0, |(_, name)| name));
    json!({
        "type": "assistant",
        "message": {
            "id": message.id.0,
            "type": "message",
            "role": "assistant",
            "model": model,
            "content": message.blocks,
            "stop_reason": stop,
            "stop_sequence": null,
            "usage": usage(used),
        },
        "parent_tool_use_id": parent,
    })
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

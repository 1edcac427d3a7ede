//! Bounds of a turn: rounds, cost, tokens, time, and the same thing happening again and again.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use super::AgentState;
use crate::protocol::{ToolCall, ToolResult, TurnOutcome};

/// The same call failing the same way this many times ends the turn.
const SAME_FAILURES: u32 = 3;
/// This many calls running that each repeat an earlier call with an earlier result end the turn.
const STALE_CALLS: u32 = 20;

/// What one turn may use. `None` is no bound.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Limits {
    /// Rounds.
    pub rounds: Option<u32>,
    /// US dollars of the session.
    pub cost: Option<f64>,
    /// Tokens of the session, input and output.
    pub tokens: Option<u64>,
    /// Wall time of the turn.
    pub time: Option<Duration>,
}

/// How much of the limits one turn has used.
#[derive(Debug)]
pub(super) struct Meter {
    limits: Limits,
    rounds: u32,
    began: Instant,
    repetition: Repetition,
}

impl Meter {
    pub(super) fn new(limits: Limits) -> Self {
        Self { limits, rounds: 0, began: Instant::now(), repetition: Repetition::default() }
    }

    pub(super) fn rounds(&self) -> u32 {
        self.rounds
    }

    /// Opens the next round, or says why there is none.
    pub(super) fn next_round(&mut self, state: &AgentState) -> Result<u32, TurnOutcome> {
        if let Some(limit) = self.limits.rounds.filter(|limit| self.rounds >= *limit) {
            return Err(TurnOutcome::MaxTurns { limit });
        }
        let budget = |reason: String| Err(TurnOutcome::Budget { reason });
        if let (Some(limit), Some(spent)) = (self.limits.cost, state.cost)
            && spent >= limit
        {
            return budget(format!("the budget of ${limit} is spent (${spent:.4})"));
        }
        if let Some(limit) = self.limits.tokens
            && state.usage.total() >= limit
        {
            return budget(format!("the limit of {limit} tokens is used up ({})", state.usage.total()));
        }
        if let Some(limit) = self.limits.time
            && self.began.elapsed() >= limit
        {
            return budget(format!("the time limit of {} s is over", limit.as_secs()));
        }
        self.rounds += 1;
        Ok(self.rounds)
    }

    /// What is left for a child agent; a child's own rounds are bounded apart.
    pub(super) fn left(&self, state: &AgentState) -> Limits {
        Limits {
            rounds: None,
            cost: self.limits.cost.map(|limit| (limit - state.cost.unwrap_or(0.0)).max(0.0)),
            tokens: self.limits.tokens.map(|limit| limit.saturating_sub(state.usage.total())),
            time: self.limits.time.map(|limit| limit.saturating_sub(self.began.elapsed())),
        }
    }

    /// Takes note of a finished call; says so when the turn goes in circles.
    pub(super) fn note(&mut self, call: &ToolCall, result: &ToolResult) -> Option<TurnOutcome> {
        self.repetition.note(call, result).map(|reason| TurnOutcome::Stuck { reason })
    }
}

/// Finds circles: only a result that this turn has not seen before counts as progress.
#[derive(Debug, Default)]
struct Repetition {
    seen: HashSet<(u64, u64)>,
    failures: HashMap<(u64, u64), u32>,
    stale: u32,
}

impl Repetition {
    fn note(&mut self, call: &ToolCall, result: &ToolResult) -> Option<String> {
        let key = (hash_call(call), hash_result(result));
        let fresh = self.seen.insert(key);
        if result.is_error {
            let times = self.failures.entry(key).or_insert(0);
            *times += 1;
            if *times >= SAME_FAILURES {
                return Some(format!(
                    "the same {} call failed the same way {times} times running",
                    call.name
                ));
            }
        } else if fresh {
            self.failures.clear();
        }
        if fresh {
            self.stale = 0;
            return None;
        }
        self.stale += 1;
        (self.stale >= STALE_CALLS).then(|| {
            format!("the last {} calls only repeated earlier ones with the same results", self.stale)
        })
    }
}

fn hash_call(call: &ToolCall) -> u64 {
    let mut hasher = DefaultHasher::new();
    call.name.hash(&mut hasher);
    hash_value(&call.input, &mut hasher);
    hasher.finish()
}

fn hash_result(result: &ToolResult) -> u64 {
    let mut hasher = DefaultHasher::new();
    result.is_error.hash(&mut hasher);
    for block in &result.content {
        // Durations differ where nothing else does.
        if let crate::protocol::Block::Text { text } = block {
            strip_durations(text).hash(&mut hasher);
        } else {
            format!("{block:?}").hash(&mut hasher);
        }
    }
    hasher.finish()
}

/// Text without the ` after 0.3 s` that tools put behind an exit code.
fn strip_durations(text: &str) -> String {
    text.lines()
        .map(|line| match line.rsplit_once(" after ") {
            Some((head, tail)) if line.starts_with('[') && tail.ends_with("s]") => head,
            _ => line,
        })
        .collect::<Vec<_>>()
        .join("\n")
}

/// The order of keys, and blanks around strings, make no other call.
fn hash_value(value: &Value, hasher: &mut DefaultHasher) {
    match value {
        Value::Object(map) => {
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_by_key(|(key, _)| key.as_str());
            entries.len().hash(hasher);
            for (key, value) in entries {
                key.hash(hasher);
                hash_value(value, hasher);
            }
        }
        Value::Array(items) => {
            items.len().hash(hasher);
            for item in items {
                hash_value(item, hasher);
            }
        }
        Value::String(text) => text.trim().hash(hasher),
        other => other.to_string().hash(hasher),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Block;
    use serde_json::json;

    fn run(steps: impl Iterator<Item = (Value, String, bool)>) -> Option<usize> {
        let mut repetition = Repetition::default();
        for (n, (input, text, is_error)) in steps.enumerate() {
            let call = ToolCall { id: n.to_string(), name: "Bash".into(), input };
            let result = ToolResult {
                call: n.to_string(),
                content: vec![Block::text(text)],
                is_error,
                details: Value::Null,
            };
            if repetition.note(&call, &result).is_some() {
                return Some(n + 1);
            }
        }
        None
    }

    #[test]
    fn o_loop_07_circles_end_and_polling_does_not() {
        let same = (0..100).map(|_| (json!({"a": 1}), "x".to_owned(), false));
        assert_eq!(run(same), Some(21));
        let two = (0..100).map(|n| (json!({"a": n % 2}), "x".to_owned(), false));
        assert_eq!(run(two), Some(22));
        let order = (0..100).map(|n| {
            let input = if n % 2 == 0 { json!({"a": "1", "b": 2}) } else { json!({"b": 2, "a": " 1 "}) };
            (input, "x".to_owned(), false)
        });
        assert_eq!(run(order), Some(21));
        let polling = (0..100).map(|n| (json!({"a": 1}), format!("{n}"), false));
        assert_eq!(run(polling), None);
    }

    #[test]
    fn the_same_failure_three_times_running_is_stuck_unless_something_new_succeeded() {
        let failing = (0..10).map(|_| (json!({"a": 1}), "no".to_owned(), true));
        assert_eq!(run(failing), Some(3));
        let timed = (0..10).map(|n| (json!({"a": 1}), format!("no\n[exit code 1 after 0.{n} s]"), true));
        assert_eq!(run(timed), Some(3));
        // A test that fails the same way between edits is work, not a circle.
        let edits = (0..20).map(|n| {
            if n % 2 == 0 {
                (json!({"test": 1}), "red".to_owned(), true)
            } else {
                (json!({"edit": n}), "ok".to_owned(), false)
            }
        });
        assert_eq!(run(edits), None);
        // Reading the same file between does not help.
        let reading = (0..20).map(|n| {
            if n % 2 == 0 {
                (json!({"edit": 1}), "no".to_owned(), true)
            } else {
                (json!({"read": 1}), "ok".to_owned(), false)
            }
        });
        assert_eq!(run(reading), Some(7));
    }
}

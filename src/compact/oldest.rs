//! The emergency cut: the oldest whole rounds go, the user's newest words and the newest rounds stay.

use std::sync::Arc;

use super::Compactor;
use crate::protocol::transcript::estimate;
use crate::protocol::{Block, Edit, Message, MessageId, Role, Source};

/// Folds the oldest whole rounds into a marker until about half of the conversation is left.
#[derive(Debug, Clone, Copy, Default)]
pub struct DropOldest;

/// Rounds at the end that always stay.
const KEEP_ROUNDS: usize = 2;

impl Compactor for DropOldest {
    fn overflowed(&mut self, messages: &[Arc<Message>], marker: MessageId) -> Vec<Edit> {
        let Some(prompt) = messages.iter().rposition(|m| m.role == Role::User && m.source == Source::User)
        else {
            return Vec::new();
        };
        let rounds: Vec<usize> = starts(messages, prompt + 1);
        let newest = rounds.len().checked_sub(KEEP_ROUNDS).and_then(|at| rounds.get(at)).copied();
        let total: u64 = messages.iter().map(|m| estimate(m)).sum();
        let before: u64 = messages.iter().take(prompt).map(|m| estimate(m)).sum();
        let mut edits = Vec::new();
        // Older turns first; rounds of the running turn only if those are not enough.
        if prompt > 0 {
            edits.extend(fold(messages, 0, whole(messages, prompt, before.min(total / 2)), &marker));
        }
        if before < total / 2
            && let Some(newest) = newest.filter(|at| *at > prompt + 1)
        {
            let mut second = marker.clone();
            second.0.push_str("-b");
            edits.extend(fold(messages, prompt + 1, newest, &second));
        }
        edits
    }
}

/// Where rounds begin: at assistant messages from `from` on.
fn starts(messages: &[Arc<Message>], from: usize) -> Vec<usize> {
    let is_start = |(at, m): (usize, &Arc<Message>)| (m.role == Role::Assistant).then_some(at);
    messages.iter().enumerate().skip(from).filter_map(is_start).collect()
}

/// The first cut at or after `target` tokens that leaves no result without its call, at most `limit`.
fn whole(messages: &[Arc<Message>], limit: usize, target: u64) -> usize {
    let mut sum = 0;
    for (at, message) in messages.iter().enumerate().take(limit) {
        if sum >= target && message.source != Source::Tool {
            return at;
        }
        sum += estimate(message);
    }
    limit
}

fn fold(messages: &[Arc<Message>], from: usize, to: usize, marker: &MessageId) -> Option<Edit> {
    let gone = messages.get(from..to)?;
    let (first, last) = (gone.first()?, gone.last()?);
    let rounds = gone.iter().filter(|m| m.role == Role::Assistant).count();
    let text = format!(
        "[{} messages ({rounds} rounds) were left out here because the conversation did not fit the model's window. \
         Read again what you need.]",
        gone.len()
    );
    let with = Message {
        id: marker.clone(),
        role: Role::User,
        source: Source::Host,
        origin: None,
        blocks: vec![Block::text(text)],
    };
    let freed: u64 = gone.iter().map(|m| estimate(m)).sum();
    (freed > estimate(&with)).then(|| Edit::Fold { first: first.id.clone(), last: last.id.clone(), with })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::transcript::View;
    use crate::protocol::{Event, ModelId, ToolResult};
    use serde_json::{Value, json};

    /// A view of `turns` prompts with `rounds` tool rounds each, results of about 250 tokens.
    fn view(turns: usize, rounds: usize) -> View {
        let mut view = View::default();
        let mut add = |event| view.apply(0, &event);
        for turn in 0..turns {
            let message = |id: String, role, source, block| Event::MessageAdded {
                message: Message {
                    id: MessageId(id),
                    role,
                    source,
                    origin: (role == Role::Assistant).then(|| ModelId::new("p", "m")),
                    blocks: vec![block],
                },
            };
            add(message(format!("u{turn}"), Role::User, Source::User, Block::text(format!("prompt {turn}"))));
            for round in 0..rounds {
                let id = format!("{turn}-{round}");
                let call = Block::ToolUse { id: id.clone(), name: "Read".into(), input: json!({}) };
                add(message(format!("a{id}"), Role::Assistant, Source::Model, call));
                let content = vec![Block::text("x".repeat(1_000))];
                add(Event::ToolFinished {
                    result: ToolResult { call: id, content, is_error: false, details: Value::Null },
                });
            }
        }
        view
    }

    #[test]
    fn halves_the_conversation_and_keeps_prompt_and_pairs() {
        for (turns, rounds) in [(1, 8), (4, 3), (2, 10), (1, 3)] {
            let mut view = view(turns, rounds);
            let before: u64 = view.messages().iter().map(|m| estimate(m)).sum();
            let edits = DropOldest.overflowed(view.messages(), MessageId("cut".into()));
            assert!(!edits.is_empty(), "{turns} turns of {rounds}");
            view.apply(9, &Event::Compacted { tier: 0, edits });
            let messages = view.messages();
            let after: u64 = messages.iter().map(|m| estimate(m)).sum();
            assert!(after < before, "{turns} turns of {rounds}");
            assert!(messages.iter().any(|m| m.text() == format!("prompt {}", turns - 1)));
            for (at, message) in messages.iter().enumerate().filter(|(_, m)| m.source == Source::Tool) {
                let owner = &messages[at - 1];
                assert_eq!(owner.calls().count(), message.blocks.len());
            }
        }
    }

    #[test]
    fn what_saves_nothing_is_not_done() {
        for (turns, rounds) in [(1, 0), (3, 0), (1, 2)] {
            let view = view(turns, rounds);
            assert_eq!(DropOldest.overflowed(view.messages(), MessageId("cut".into())), Vec::new());
        }
    }
}

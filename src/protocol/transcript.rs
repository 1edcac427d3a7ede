//! The fold of a log into what the model sees, live and on resume alike.

mod repair;

use std::collections::HashSet;
use std::sync::Arc;

use super::event::{Edit, Event, StateChange};
use super::message::{Block, Message, MessageId, Role, Source, ToolCall, ToolResult};

pub use repair::{Needs, repaired};

/// The conversation of one agent as its log tells it.
///
/// The base list only grows; edits are laid over it, so taking one back is exact.
#[derive(Debug, Clone, Default)]
pub struct View {
    base: Vec<Arc<Message>>,
    edits: Vec<(u64, Vec<Edit>)>,
    /// The base with the edits applied; `None` while there are none.
    shown: Option<Vec<Arc<Message>>>,
    started: HashSet<String>,
}

/// A call without a result.
#[derive(Debug, Clone, PartialEq)]
pub struct OpenCall {
    /// The call.
    pub call: ToolCall,
    /// Whether it had begun to run.
    pub started: bool,
}

impl View {
    /// What the model sees.
    pub fn messages(&self) -> &[Arc<Message>] {
        self.shown.as_deref().unwrap_or(&self.base)
    }

    /// Takes in one event; `seq` is its place in the log.
    pub fn apply(&mut self, seq: u64, event: &Event) {
        match event {
            Event::MessageAdded { message } => self.push(Arc::new(message.clone())),
            Event::ToolStarted { call } => {
                self.started.insert(call.id.clone());
            }
            Event::ToolFinished { result } => self.add_result(result),
            Event::Compacted { edits, .. } => self.edit(seq, edits),
            Event::StateChanged { change: StateChange::Cleared } => *self = Self::default(),
            Event::SessionStarted { .. }
            | Event::TurnStarted
            | Event::StateChanged { .. }
            | Event::Delta { .. }
            | Event::DeltaReset
            | Event::ToolProgress { .. }
            | Event::PermissionAsked { .. }
            | Event::Retrying { .. }
            | Event::UsageUpdated { .. }
            | Event::Notice { .. }
            | Event::TurnFinished { .. }
            | Event::Unknown(_) => {}
        }
    }

    /// The calls of the last assistant message that have no result yet.
    pub fn open_calls(&self) -> Vec<OpenCall> {
        let Some(at) = self.base.iter().rposition(|m| m.role == Role::Assistant) else {
            return Vec::new();
        };
        let answered: HashSet<&str> = self
            .base
            .iter()
            .skip(at + 1)
            .flat_map(|m| &m.blocks)
            .filter_map(|block| match block {
                Block::ToolResult { tool_use_id, .. } => Some(tool_use_id.as_str()),
                _ => None,
            })
            .collect();
        self.base
            .get(at)
            .into_iter()
            .flat_map(|m| m.calls())
            .filter(|call| !answered.contains(call.id.as_str()))
            .map(|call| OpenCall { started: self.started.contains(&call.id), call })
            .collect()
    }

    /// The text of the newest assistant message that has any.
    pub fn last_assistant_text(&self) -> Option<String> {
        self.base
            .iter()
            .rev()
            .filter(|m| m.role == Role::Assistant)
            .map(|m| m.text())
            .find(|text| !text.trim().is_empty())
    }

    fn push(&mut self, message: Arc<Message>) {
        if let Some(shown) = &mut self.shown {
            shown.push(Arc::clone(&message));
        }
        self.base.push(message);
    }

    /// Results of one assistant message share the message right after it, in call order.
    fn add_result(&mut self, result: &ToolResult) {
        self.started.remove(&result.call);
        let owner = self.base.iter().rposition(|m| {
            m.role == Role::Assistant
                && m.blocks.iter().any(|b| matches!(b, Block::ToolUse { id, .. } if *id == result.call))
        });
        let Some(owner) = owner.and_then(|at| self.base.get(at).map(|m| (at, Arc::clone(m)))) else {
            return;
        };
        let (at, owner) = owner;
        let order: Vec<String> = owner.calls().map(|call| call.id).collect();
        let place = |block: &Block| match block {
            Block::ToolResult { tool_use_id, .. } => order.iter().position(|id| id == tool_use_id),
            _ => None,
        };
        let id = owner.id.results();
        if let Some(message) = self.base.get_mut(at + 1).filter(|m| m.id == id) {
            let block = result.block();
            if message.blocks.iter().any(|b| place(b) == place(&block)) {
                return; // each call is answered exactly once
            }
            let message = Arc::make_mut(message);
            message.blocks.push(block);
            message.blocks.sort_by_key(place);
            let fresh = self.base.get(at + 1).cloned();
            if let (Some(shown), Some(fresh)) = (&mut self.shown, fresh)
                && let Some(slot) = shown.iter_mut().rfind(|m| m.id == id)
            {
                *slot = fresh;
            }
        } else {
            let message = Arc::new(Message {
                id,
                role: Role::User,
                source: Source::Tool,
                origin: None,
                blocks: vec![result.block()],
            });
            if let Some(shown) = &mut self.shown
                && let Some(place) = shown.iter().rposition(|m| m.id == owner.id)
            {
                shown.insert(place + 1, Arc::clone(&message));
            }
            self.base.insert(at + 1, message);
        }
    }

    fn edit(&mut self, seq: u64, edits: &[Edit]) {
        let unfolds: HashSet<u64> = edits
            .iter()
            .filter_map(|edit| match edit {
                Edit::Unfold { seq } => Some(*seq),
                _ => None,
            })
            .collect();
        self.edits.push((seq, edits.to_vec()));
        if unfolds.is_empty() {
            let shown = self.shown.get_or_insert_with(|| self.base.clone());
            for edit in edits {
                lay(shown, edit);
            }
        } else {
            self.edits.retain(|(seq, _)| !unfolds.contains(seq));
            let mut shown = self.base.clone();
            for edit in self.edits.iter().flat_map(|(_, edits)| edits) {
                lay(&mut shown, edit);
            }
            self.shown = Some(shown);
        }
    }
}

/// Applies one edit; one that names what is not there changes nothing.
fn lay(shown: &mut Vec<Arc<Message>>, edit: &Edit) {
    let find = |shown: &[Arc<Message>], id: &MessageId| shown.iter().position(|m| m.id == *id);
    match edit {
        Edit::ReplaceBlock { message, index, with } => {
            if let Some(at) = find(shown, message)
                && let Some(slot) = shown.get_mut(at)
                && let Some(block) = Arc::make_mut(slot).blocks.get_mut(*index)
            {
                *block = with.clone();
            }
        }
        Edit::Fold { first, last, with } => {
            if let (Some(from), Some(to)) = (find(shown, first), find(shown, last))
                && from <= to
            {
                shown.splice(from..=to, [Arc::new(with.clone())]);
            }
        }
        Edit::Unfold { .. } => {}
    }
}

/// Rough number of tokens of a text: four Latin characters, or one of a wide script, each.
#[must_use]
pub fn estimate_text(text: &str) -> u64 {
    let (mut narrow, mut wide) = (0_u64, 0_u64);
    for c in text.chars() {
        if c < '\u{2e80}' {
            narrow += 1;
        } else {
            wide += 1;
        }
    }
    narrow.div_ceil(4) + wide
}

/// Rough number of tokens of a message, its frame included.
#[must_use]
pub fn estimate(message: &Message) -> u64 {
    fn of(block: &Block) -> u64 {
        match block {
            Block::Text { text } => estimate_text(text),
            Block::Thinking { thinking, .. } => estimate_text(thinking),
            // What a picture of the usual largest size costs at Anthropic (1568 px a side).
            Block::Image { .. } => 1_600,
            Block::ToolUse { name, input, .. } => {
                12 + estimate_text(name) + estimate_text(&input.to_string())
            }
            Block::ToolResult { content, .. } => 12 + content.iter().map(of).sum::<u64>(),
            Block::Other(value) => estimate_text(&value.to_string()),
        }
    }
    4 + message.blocks.iter().map(of).sum::<u64>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn message(id: &str, role: Role, blocks: Vec<Block>) -> Event {
        let source = if role == Role::User { Source::User } else { Source::Model };
        Event::MessageAdded {
            message: Message { id: MessageId(id.to_owned()), role, source, origin: None, blocks },
        }
    }

    fn call(id: &str) -> Block {
        Block::ToolUse { id: id.to_owned(), name: "Read".to_owned(), input: json!({}) }
    }

    fn result(id: &str, text: &str) -> Event {
        Event::ToolFinished {
            result: ToolResult {
                call: id.to_owned(),
                content: vec![Block::text(text)],
                is_error: false,
                details: Value::Null,
            },
        }
    }

    fn fold(events: &[Event]) -> View {
        let mut view = View::default();
        for (seq, event) in (0..).zip(events) {
            view.apply(seq, event);
        }
        view
    }

    fn ids(view: &View) -> Vec<String> {
        view.messages().iter().map(|m| m.id.to_string()).collect()
    }

    #[test]
    fn results_stand_after_their_message_in_call_order_whatever_the_finishing_order() {
        let view = fold(&[
            message("u", Role::User, vec![Block::text("go")]),
            message("a", Role::Assistant, vec![call("1"), call("2")]),
            result("2", "two"),
            result("1", "one"),
            result("1", "one again"),
            message("u2", Role::User, vec![Block::text("next")]),
        ]);
        assert_eq!(ids(&view), ["u", "a", "a.r", "u2"]);
        let blocks = &view.messages()[2].blocks;
        assert_eq!(blocks.len(), 2);
        assert!(matches!(&blocks[0], Block::ToolResult { tool_use_id, content, .. }
            if tool_use_id == "1" && content == &[Block::text("one")]));
        assert!(view.open_calls().is_empty());
    }

    #[test]
    fn open_calls_tell_what_had_begun() {
        let started = Event::ToolStarted {
            call: ToolCall { id: "1".to_owned(), name: "Read".to_owned(), input: json!({}) },
        };
        let view = fold(&[
            message("u", Role::User, vec![Block::text("go")]),
            message("a", Role::Assistant, vec![call("1"), call("2")]),
            started,
        ]);
        let open: Vec<_> = view.open_calls().into_iter().map(|o| (o.call.id, o.started)).collect();
        assert_eq!(open, [("1".to_owned(), true), ("2".to_owned(), false)]);
    }

    #[test]
    fn a_fold_can_be_taken_back_exactly() {
        let marker = Message {
            id: MessageId("f".to_owned()),
            role: Role::User,
            source: Source::Host,
            origin: None,
            blocks: vec![Block::text("left out")],
        };
        let mut events = vec![
            message("u", Role::User, vec![Block::text("go")]),
            message("a", Role::Assistant, vec![call("1")]),
            result("1", "one"),
            message("b", Role::Assistant, vec![Block::text("done")]),
        ];
        let before = fold(&events);
        events.push(Event::Compacted {
            tier: 2,
            edits: vec![Edit::Fold {
                first: MessageId("a".to_owned()),
                last: MessageId("a.r".to_owned()),
                with: marker,
            }],
        });
        let folded = fold(&events);
        assert_eq!(ids(&folded), ["u", "f", "b"]);
        events.push(Event::Compacted { tier: 2, edits: vec![Edit::Unfold { seq: 4 }] });
        assert_eq!(fold(&events).messages(), before.messages());
    }
}

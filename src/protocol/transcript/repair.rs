//! Makes any history legal for a provider, so that one bad message cannot poison a session.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use serde_json::{Value, json};

use crate::protocol::{Block, Message, MessageId, ModelId, Role, Source};

/// What a provider takes.
#[derive(Debug, Clone, Copy)]
pub struct Needs<'a> {
    /// Whose thinking and own blocks may be sent.
    pub target: &'a ModelId,
    /// Thinking without a signature is refused.
    pub signed_thinking: bool,
    /// An assistant message may hold thinking alone.
    pub thinking_alone: bool,
}

/// The history as it may be sent: every call paired with its result right after it, no empty block or
/// message, roles in turn beginning and ending with the user, ids legal and single, and nothing of a
/// foreign provider. A legal history comes back as it is.
#[must_use]
pub fn repaired(messages: &[Arc<Message>], needs: Needs<'_>) -> Vec<Arc<Message>> {
    let mut out: Vec<Arc<Message>> = Vec::with_capacity(messages.len() + 1);
    let mut ids = Ids::default();
    let mut at = 0;
    while let Some(message) = messages.get(at) {
        at += 1;
        match message.role {
            Role::User => {
                // Results have been taken by the assistant message before; a result here answers nothing.
                let kept = keep(message, |block| {
                    !matches!(
                        block,
                        Block::ToolResult { .. } | Block::Thinking { .. } | Block::ToolUse { .. }
                    ) && !is_empty(block)
                });
                if let Some(message) = kept {
                    push(&mut out, message);
                }
            }
            Role::Assistant => {
                let ours = message
                    .origin
                    .as_ref()
                    .is_some_and(|origin| origin.provider() == needs.target.provider());
                let kept = keep(message, |block| match block {
                    Block::Thinking { signature, .. } => {
                        ours && (signature.is_some() || !needs.signed_thinking) && !is_empty(block)
                    }
                    Block::Other(_) => ours,
                    Block::ToolResult { .. } => false,
                    Block::Text { .. } | Block::Image { .. } | Block::ToolUse { .. } => !is_empty(block),
                });
                let Some(kept) = kept else { continue };
                if !kept.blocks.iter().any(|b| visible(b, needs)) {
                    continue;
                }
                let (kept, renamed) = ids.legal(kept);
                push(&mut out, kept);
                if renamed.is_empty() {
                    continue;
                }
                let next = messages.get(at).filter(|m| m.role == Role::User);
                if next.is_some() {
                    at += 1;
                }
                push(&mut out, paired(message, next, &renamed));
            }
        }
    }
    if out.first().is_none_or(|m| m.role == Role::Assistant) {
        out.insert(0, host("start", "(The beginning of this conversation is not available.)"));
    }
    if out.last().is_some_and(|m| m.role == Role::Assistant) {
        out.push(host("end", "Please continue."));
    }
    out
}

fn visible(block: &Block, needs: Needs<'_>) -> bool {
    match block {
        Block::Thinking { .. } => needs.thinking_alone,
        Block::Text { .. }
        | Block::Image { .. }
        | Block::ToolUse { .. }
        | Block::ToolResult { .. }
        | Block::Other(_) => true,
    }
}

/// The message with only the blocks that pass; shares the original when all do.
fn keep(message: &Arc<Message>, pass: impl Fn(&Block) -> bool) -> Option<Arc<Message>> {
    if message.blocks.iter().all(&pass) {
        return (!message.blocks.is_empty()).then(|| Arc::clone(message));
    }
    let blocks: Vec<Block> = message.blocks.iter().filter(|b| pass(b)).cloned().collect();
    if blocks.is_empty() {
        return None;
    }
    Some(Arc::new(Message { blocks, ..Message::clone(message) }))
}

fn is_empty(block: &Block) -> bool {
    match block {
        Block::Text { text } => text.trim().is_empty(),
        Block::Thinking { thinking, signature } => thinking.is_empty() && signature.is_none(),
        Block::Image { data, .. } => data.is_empty(),
        Block::ToolUse { .. } | Block::ToolResult { .. } | Block::Other(_) => false,
    }
}

/// What stands for a result that is not there.
const LOST: &str = "The result of this call was lost; whether it ran is unknown.";

/// The message after an assistant message with calls: one result for each, then whatever else was said.
fn paired(owner: &Message, next: Option<&Arc<Message>>, renamed: &[(String, String)]) -> Arc<Message> {
    let mut found: HashMap<&str, VecDeque<(&Vec<Block>, bool)>> = HashMap::new();
    let mut rest = Vec::new();
    for block in next.into_iter().flat_map(|m| &m.blocks) {
        match block {
            Block::ToolResult { tool_use_id, content, is_error } => {
                found.entry(tool_use_id).or_default().push_back((content, *is_error));
            }
            Block::Thinking { .. } | Block::ToolUse { .. } => {}
            other if is_empty(other) => {}
            other => rest.push(other.clone()),
        }
    }
    // Two calls of one id take its results in their order.
    let mut blocks: Vec<Block> = renamed
        .iter()
        .map(|(was, id)| {
            let (content, is_error) = match found.get_mut(was.as_str()).and_then(VecDeque::pop_front) {
                Some((content, is_error)) => (spoken(content), is_error),
                None => (vec![Block::text(LOST)], true),
            };
            Block::ToolResult { tool_use_id: id.clone(), content, is_error }
        })
        .collect();
    blocks.extend(rest);
    if let Some(next) = next
        && next.blocks == blocks
    {
        return Arc::clone(next);
    }
    Arc::new(Message {
        id: next.map_or_else(|| owner.id.results(), |m| m.id.clone()),
        role: Role::User,
        source: next.map_or(Source::Tool, |m| m.source),
        origin: None,
        blocks,
    })
}

/// A result must say something.
fn spoken(content: &[Block]) -> Vec<Block> {
    let kept: Vec<Block> = content.iter().filter(|b| !is_empty(b)).cloned().collect();
    if kept.is_empty() { vec![Block::text("(no output)")] } else { kept }
}

/// Joins a message to the one before if the same role speaks.
fn push(out: &mut Vec<Arc<Message>>, message: Arc<Message>) {
    let Some(last) = out.last_mut().filter(|m| m.role == message.role) else {
        out.push(message);
        return;
    };
    if message.role == Role::Assistant {
        // Calls of the first would lose their results' place, and origins may differ: keep them apart.
        out.push(host("between", "Please continue."));
        out.push(message);
        return;
    }
    Arc::make_mut(last).blocks.extend(message.blocks.iter().cloned());
}

fn host(id: &str, text: &str) -> Arc<Message> {
    Arc::new(Message {
        id: MessageId(format!("repair-{id}")),
        role: Role::User,
        source: Source::Host,
        origin: None,
        blocks: vec![Block::text(text)],
    })
}

#[derive(Default)]
struct Ids {
    seen: HashSet<String>,
}

impl Ids {
    /// Gives every call a legal id that no other has, a legal name and an object as input; also the old and the new
    /// id of each, in call order.
    fn legal(&mut self, message: Arc<Message>) -> (Arc<Message>, Vec<(String, String)>) {
        let mut renamed = Vec::new();
        let mut fixed = Vec::new();
        for (index, block) in message.blocks.iter().enumerate() {
            let Block::ToolUse { id, name, input } = block else {
                continue;
            };
            let mut fresh = legal(id, "call");
            let mut n = 1;
            while self.seen.contains(&fresh) {
                n += 1;
                fresh = format!("{}_{n}", clip(&legal(id, "call"), 56));
            }
            self.seen.insert(fresh.clone());
            let good_name = legal(name, "unknown");
            renamed.push((id.clone(), fresh.clone()));
            if fresh == *id && good_name == *name && input.is_object() {
                continue;
            }
            let input = if input.is_object() { input.clone() } else { wrapped(input) };
            fixed.push((index, Block::ToolUse { id: fresh, name: good_name, input }));
        }
        if fixed.is_empty() {
            return (message, renamed);
        }
        let mut message = Message::clone(&message);
        for (index, block) in fixed {
            if let Some(slot) = message.blocks.get_mut(index) {
                *slot = block;
            }
        }
        (Arc::new(message), renamed)
    }
}

fn wrapped(input: &Value) -> Value {
    match input {
        Value::Null => json!({}),
        other => json!({ "value": other }),
    }
}

/// Only letters, digits, `_` and `-`, 1 to 64 of them: what both providers take as an id or a name.
fn legal(text: &str, empty: &str) -> String {
    let clean: String = text
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || c == '_' || c == '-' { c } else { '_' })
        .take(64)
        .collect();
    if clean.is_empty() { empty.to_owned() } else { clean }
}

fn clip(text: &str, chars: usize) -> String {
    text.chars().take(chars).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn msg(role: Role, blocks: Vec<Block>) -> Arc<Message> {
        Arc::new(Message {
            id: MessageId("m".to_owned()),
            role,
            source: if role == Role::User { Source::User } else { Source::Model },
            origin: (role == Role::Assistant).then(|| ModelId::new("p", "m")),
            blocks,
        })
    }

    fn call(id: &str) -> Block {
        Block::ToolUse { id: id.to_owned(), name: "Read".to_owned(), input: json!({}) }
    }

    fn result(id: &str, text: &str) -> Block {
        Block::ToolResult { tool_use_id: id.to_owned(), content: vec![Block::text(text)], is_error: false }
    }

    fn repair(messages: &[Arc<Message>]) -> Vec<(Role, Vec<Block>)> {
        let target = ModelId::new("p", "m");
        let needs = Needs { target: &target, signed_thinking: true, thinking_alone: true };
        let once = repaired(messages, needs);
        assert_eq!(repaired(&once, needs), once, "repairing twice changes nothing more");
        once.iter().map(|m| (m.role, m.blocks.clone())).collect()
    }

    #[test]
    fn a_legal_history_is_shared_not_copied() {
        let history = [
            msg(Role::User, vec![Block::text("go")]),
            msg(Role::Assistant, vec![call("1")]),
            msg(Role::User, vec![result("1", "x")]),
        ];
        let target = ModelId::new("p", "m");
        let needs = Needs { target: &target, signed_thinking: true, thinking_alone: true };
        let out = repaired(&history, needs);
        assert!(out.iter().zip(&history).all(|(a, b)| Arc::ptr_eq(a, b)));
    }

    #[test]
    fn lost_doubled_and_stray_results_are_put_right() {
        let out = repair(&[
            msg(Role::User, vec![Block::text("go"), result("0", "stray")]),
            msg(Role::Assistant, vec![call("1"), call("2")]),
            msg(
                Role::User,
                vec![Block::text("note"), result("2", "b"), result("2", "again"), result("9", "stray")],
            ),
        ]);
        assert_eq!(out[0].1, [Block::text("go")]);
        assert!(
            matches!(&out[2].1[0], Block::ToolResult { tool_use_id, is_error: true, .. } if tool_use_id == "1")
        );
        assert_eq!(out[2].1[1..], [result("2", "b"), Block::text("note")]);
    }

    #[test]
    fn empty_turns_vanish_and_roles_stay_in_turn() {
        let out = repair(&[
            msg(Role::Assistant, vec![Block::text("hello")]),
            msg(Role::User, vec![Block::text("a")]),
            msg(Role::Assistant, vec![Block::text(" \n")]),
            msg(Role::User, vec![Block::text("b")]),
            msg(Role::Assistant, vec![Block::text("c")]),
        ]);
        let roles: Vec<Role> = out.iter().map(|(role, _)| *role).collect();
        assert_eq!(roles, [Role::User, Role::Assistant, Role::User, Role::Assistant, Role::User]);
        assert_eq!(out[2].1, [Block::text("a"), Block::text("b")]);
    }

    #[test]
    fn ids_become_legal_and_single_with_their_results() {
        let out = repair(&[
            msg(Role::User, vec![Block::text("go")]),
            msg(Role::Assistant, vec![call("a b")]),
            msg(Role::User, vec![result("a b", "1")]),
            msg(Role::Assistant, vec![call("a b")]),
            msg(Role::User, vec![result("a b", "2")]),
        ]);
        assert_eq!(out[2].1, [result("a_b", "1")]);
        assert_eq!(out[4].1, [result("a_b_2", "2")]);
    }

    #[test]
    fn two_calls_of_one_id_keep_their_own_results() {
        let out = repair(&[
            msg(Role::User, vec![Block::text("go")]),
            msg(Role::Assistant, vec![call("x"), call("x"), call("x")]),
            msg(Role::User, vec![result("x", "1"), result("x", "2")]),
        ]);
        assert_eq!(out[1].1, [call("x"), call("x_2"), call("x_3")]);
        assert_eq!(out[2].1[..2], [result("x", "1"), result("x_2", "2")]);
        assert!(matches!(&out[2].1[2], Block::ToolResult { is_error: true, .. }));
    }

    #[test]
    fn foreign_and_unsigned_thinking_stays_home() {
        let thinking = |signature: Option<&str>| Block::Thinking {
            thinking: "hm".to_owned(),
            signature: signature.map(str::to_owned),
        };
        let mut foreign = Message::clone(&msg(Role::Assistant, vec![thinking(Some("s")), Block::text("x")]));
        foreign.origin = Some(ModelId::new("other", "m"));
        let out = repair(&[
            msg(Role::User, vec![Block::text("go")]),
            Arc::new(foreign),
            msg(Role::User, vec![Block::text("go")]),
            msg(Role::Assistant, vec![thinking(None), thinking(Some("s")), Block::text("y")]),
            msg(Role::User, vec![Block::text("go")]),
        ]);
        assert_eq!(out[1].1, [Block::text("x")]);
        assert_eq!(out[3].1, [thinking(Some("s")), Block::text("y")]);
    }
}

//! Puts a stream of model events together into blocks, and says which calls may not run.

use std::collections::HashSet;

use serde_json::{Map, Value};

use crate::protocol::{Block, StopReason, ToolCall, Usage};
use crate::provider::ModelEvent;

/// A reply as it stands when its stream ended, however it ended.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Reply {
    pub(super) blocks: Vec<Block>,
    /// Calls that must not run, with the reason for the model.
    pub(super) broken: Vec<(String, String)>,
    pub(super) stop: Ending,
    pub(super) usage: Usage,
}

/// How the stream of a reply ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Ending {
    /// By itself.
    Stopped(StopReason),
    /// The connection broke or an error came; the first cause.
    Cut(String),
    /// The user interrupted.
    Interrupted,
}

impl Reply {
    pub(super) fn calls(&self) -> Vec<ToolCall> {
        self.blocks
            .iter()
            .filter_map(|block| match block {
                Block::ToolUse { id, name, input } => {
                    Some(ToolCall { id: id.clone(), name: name.clone(), input: input.clone() })
                }
                _ => None,
            })
            .collect()
    }

    pub(super) fn text(&self) -> String {
        crate::protocol::text_of(&self.blocks)
    }
}

#[derive(Debug)]
enum Piece {
    Text(String),
    Thinking { text: String, signature: Option<String> },
    Call { key: usize, id: String, name: String, json: String, ended: bool },
    Own(Block),
}

/// Collects the events of one attempt.
#[derive(Debug, Default)]
pub(super) struct Assembler {
    pieces: Vec<Piece>,
    usage: Usage,
}

impl Assembler {
    pub(super) fn usage(&self) -> Usage {
        self.usage
    }

    /// Whether anything came that would be lost by asking again.
    pub(super) fn has_content(&self) -> bool {
        self.pieces.iter().any(|piece| match piece {
            Piece::Text(text) => !text.trim().is_empty(),
            Piece::Call { .. } => true,
            Piece::Thinking { .. } | Piece::Own(_) => false,
        })
    }

    /// Takes in one event; gives the stop reason if it was the last.
    pub(super) fn take(&mut self, event: ModelEvent) -> Option<StopReason> {
        match event {
            ModelEvent::Text(text) => match self.pieces.last_mut() {
                Some(Piece::Text(so_far)) => so_far.push_str(&text),
                _ => self.pieces.push(Piece::Text(text)),
            },
            ModelEvent::Thinking(text) => match self.pieces.last_mut() {
                Some(Piece::Thinking { text: so_far, signature: None }) => so_far.push_str(&text),
                _ => self.pieces.push(Piece::Thinking { text, signature: None }),
            },
            ModelEvent::Signature(sign) => match self.pieces.last_mut() {
                Some(Piece::Thinking { signature, .. }) => signature.get_or_insert_default().push_str(&sign),
                _ => self.pieces.push(Piece::Thinking { text: String::new(), signature: Some(sign) }),
            },
            ModelEvent::ToolStart { key, id, name } => {
                self.pieces.push(Piece::Call { key, id, name, json: String::new(), ended: false });
            }
            ModelEvent::ToolName { key, name: late } => {
                if let Some(Piece::Call { name, .. }) = self.call(key) {
                    *name = late;
                }
            }
            ModelEvent::ToolArgs { key, json: more } => {
                if let Some(Piece::Call { json, .. }) = self.call(key) {
                    json.push_str(&more);
                }
            }
            ModelEvent::ToolEnd { key } => {
                if let Some(Piece::Call { ended, .. }) = self.call(key) {
                    *ended = true;
                }
            }
            ModelEvent::Block(block) => self.pieces.push(Piece::Own(block)),
            ModelEvent::Usage(usage) => self.usage = usage,
            ModelEvent::Stop(reason) => return Some(reason),
        }
        None
    }

    fn rename_doubled(&mut self, taken: &HashSet<String>) {
        let mut own: HashSet<String> = HashSet::new();
        for piece in &mut self.pieces {
            let Piece::Call { id, .. } = piece else { continue };
            let stem = if id.is_empty() { "call".to_owned() } else { id.clone() };
            let mut n = 1;
            while id.is_empty() || taken.contains(id) || own.contains(id) {
                n += 1;
                *id = format!("{stem}_{n}");
            }
            own.insert(id.clone());
        }
    }

    fn call(&mut self, key: usize) -> Option<&mut Piece> {
        self.pieces.iter_mut().rev().find(|piece| matches!(piece, Piece::Call { key: k, .. } if *k == key))
    }

    /// Closes the reply. Calls that are not whole, or whose arguments are no object, are marked broken.
    ///
    /// `taken` are the ids of all earlier calls: a service that gives one twice gets it renamed, since results,
    /// questions and child agents are told apart by it.
    pub(super) fn finish(mut self, stop: Ending, taken: &HashSet<String>) -> Reply {
        self.rename_doubled(taken);
        let mut blocks = Vec::with_capacity(self.pieces.len());
        let mut broken = Vec::new();
        for piece in self.pieces {
            match piece {
                Piece::Text(text) if text.trim().is_empty() => {}
                Piece::Text(text) => blocks.push(Block::Text { text }),
                Piece::Thinking { text, signature } => {
                    blocks.push(Block::Thinking { thinking: text, signature });
                }
                Piece::Own(block) => blocks.push(block),
                Piece::Call { id, name, json, ended, .. } => {
                    let input = match arguments(&json, ended, &stop) {
                        Ok(input) if name.is_empty() => {
                            broken.push((id.clone(), "This call names no tool; it was not run.".to_owned()));
                            input
                        }
                        Ok(input) => input,
                        Err(reason) => {
                            broken.push((id.clone(), reason));
                            Map::new()
                        }
                    };
                    blocks.push(Block::ToolUse { id, name, input: Value::Object(input) });
                }
            }
        }
        Reply { blocks, broken, stop, usage: self.usage }
    }
}

/// The arguments as an object, or why the call may not run.
fn arguments(json: &str, ended: bool, stop: &Ending) -> Result<Map<String, Value>, String> {
    let strict = serde_json::from_str::<Value>(json);
    let cut = match stop {
        Ending::Stopped(StopReason::MaxTokens | StopReason::ContextExceeded) => {
            Some("the reply reached the output limit before this call was complete")
        }
        Ending::Cut(_) if !ended => Some("the connection broke before this call was complete"),
        Ending::Interrupted => Some("the reply was interrupted before this call was complete"),
        Ending::Stopped(StopReason::Refusal) => Some("the reply was stopped before this call was complete"),
        Ending::Cut(_) | Ending::Stopped(_) => None,
    };
    if let (Ok(Value::Object(map)), true) = (&strict, cut.is_none() || !json.trim().is_empty()) {
        // An object that parses has its last brace, so nothing of it was cut.
        return Ok(map.clone());
    }
    if let Some(cut) = cut {
        return Err(format!(
            "Not run: {cut} ({} characters of arguments arrived). Send it again in smaller pieces.",
            json.chars().count()
        ));
    }
    if json.trim().is_empty() {
        return Ok(Map::new()); // how both providers send a call without arguments
    }
    if let Some(Value::Object(map)) = mended(json) {
        return Ok(map);
    }
    let why = match strict {
        Ok(other) => format!("they are {}, not an object", kind(&other)),
        Err(error) => error.to_string(),
    };
    let shown: String = json.chars().take(300).collect();
    Err(format!("Not run: the arguments of this call are no JSON object: {why}. They begin with: {shown}"))
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// One repair of form, never of content: a code fence around, JSON in a string, raw control characters in
/// strings, commas before a closing bracket. Nothing is closed that was left open.
fn mended(json: &str) -> Option<Value> {
    let bare = json.trim();
    let bare = bare
        .strip_prefix("```json")
        .or_else(|| bare.strip_prefix("```"))
        .and_then(|rest| rest.strip_suffix("```"))
        .unwrap_or(bare);
    if let Ok(Value::String(inner)) = serde_json::from_str::<Value>(bare) {
        return serde_json::from_str(&inner).ok();
    }
    serde_json::from_str(&tidied(bare)).ok()
}

fn tidied(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    let (mut in_string, mut escaped) = (false, false);
    for c in json.chars() {
        if in_string {
            match c {
                '\n' if !escaped => out.push_str("\\n"),
                '\r' if !escaped => out.push_str("\\r"),
                '\t' if !escaped => out.push_str("\\t"),
                c => out.push(c),
            }
            (in_string, escaped) = (c != '"' || escaped, c == '\\' && !escaped);
            continue;
        }
        match c {
            '"' => in_string = true,
            '}' | ']' => {
                let kept = out.trim_end().trim_end_matches(',').len();
                if out.trim_end().ends_with(',') {
                    out.truncate(kept);
                }
            }
            _ => {}
        }
        out.push(c);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn reply(args: &str, ended: bool, stop: Ending) -> (Value, Option<String>) {
        let mut assembler = Assembler::default();
        assembler.take(ModelEvent::ToolStart { key: 0, id: "c".into(), name: "Write".into() });
        assembler.take(ModelEvent::ToolArgs { key: 0, json: args.into() });
        if ended {
            assembler.take(ModelEvent::ToolEnd { key: 0 });
        }
        let reply = assembler.finish(stop, &HashSet::new());
        (reply.calls()[0].input.clone(), reply.broken.first().map(|(_, why)| why.clone()))
    }

    #[test]
    fn forms_are_mended_and_contents_never() {
        let stop = || Ending::Stopped(StopReason::ToolUse);
        let good = [
            ("", json!({})),
            ("{\"a\":1}", json!({"a": 1})),
            ("```json\n{\"a\":1}\n```", json!({"a": 1})),
            ("\"{\\\"a\\\":1}\"", json!({"a": 1})),
            ("{\"a\":\"x\ny\t\\\"z\"}", json!({"a": "x\ny\t\"z"})),
            ("{\"a\":[1,2,],}", json!({"a": [1, 2]})),
            ("{\"a\":\"b,}\",}", json!({"a": "b,}"})),
        ];
        for (args, input) in good {
            assert_eq!(reply(args, true, stop()), (input, None), "{args}");
        }
        for args in ["{\"a\":1", "{\"a\":\"x", "[1]", "7", "{a:1}", "nonsense"] {
            let (input, why) = reply(args, true, stop());
            assert_eq!(input, json!({}));
            assert!(why.unwrap().contains("no JSON object"), "{args}");
        }
    }

    #[test]
    fn o_loop_04_a_cut_call_is_named_as_cut() {
        let (_, why) =
            reply("{\"path\":\"out.txt\",\"content\":\"li", false, Ending::Stopped(StopReason::MaxTokens));
        assert!(why.unwrap().contains("output limit"));
        let (_, why) = reply("", true, Ending::Stopped(StopReason::MaxTokens));
        assert!(why.unwrap().contains("output limit"));
        let (_, why) = reply("{\"a\":1", false, Ending::Cut("reset".into()));
        assert!(why.unwrap().contains("connection broke"));
    }

    #[test]
    fn a_doubled_id_is_renamed() {
        let mut assembler = Assembler::default();
        for (key, id) in ["a", "b", "a", ""].into_iter().enumerate() {
            assembler.take(ModelEvent::ToolStart { key, id: id.into(), name: "Read".into() });
            assembler.take(ModelEvent::ToolEnd { key });
        }
        let taken = HashSet::from(["b".to_owned(), "a_2".to_owned()]);
        let reply = assembler.finish(Ending::Stopped(StopReason::ToolUse), &taken);
        let ids: Vec<String> = reply.calls().into_iter().map(|call| call.id).collect();
        assert_eq!(ids, ["a", "b_2", "a_3", "call_2"]);
    }

    #[test]
    fn pieces_of_one_kind_join_and_order_stays() {
        let mut assembler = Assembler::default();
        for event in [
            ModelEvent::Thinking("a".into()),
            ModelEvent::Thinking("b".into()),
            ModelEvent::Signature("s".into()),
            ModelEvent::Text("x".into()),
            ModelEvent::Text("y".into()),
        ] {
            assert_eq!(assembler.take(event), None);
        }
        let reply = assembler.finish(Ending::Stopped(StopReason::EndTurn), &HashSet::new());
        let thinking = Block::Thinking { thinking: "ab".into(), signature: Some("s".into()) };
        assert_eq!(reply.blocks, [thinking, Block::text("xy")]);
    }
}

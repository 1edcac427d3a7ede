//! Chunks of Chat Completions, one by one, as model events; any field may be missing, null, empty or odd.

use std::borrow::Cow;
use std::collections::VecDeque;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::calls::{CallDelta, Calls, Cut, FunctionDelta, Whole};
use super::loose::Loose;
use crate::protocol::{Block, StopReason, Usage};
use crate::provider::ModelEvent;
use crate::provider::failure::ErrorReply;
use crate::provider::reply::{Decode, Flow};
use crate::provider::sse::SseEvent;
use crate::provider::text_calls::{Piece, TextCalls};

/// Type of the block that remembers how a server words its reasoning: `field` and `reasoning_details`.
pub(super) const REASONING_FIELDS: &str = "chat_reasoning";

/// Type of the block that holds what a call brought beside its name and arguments: `id` and `extra_content`.
pub(super) const CALL_FIELDS: &str = "chat_call";

/// Reads one reply.
#[derive(Debug)]
pub(super) struct Decoder {
    calls: Calls,
    text_calls: Option<TextCalls>,
    pieces: Vec<Piece>,
    /// Calls found in the text; they join the others at the end.
    written: Vec<Whole>,
    /// The reasoning comes as `reasoning`, not as `reasoning_content`.
    short_name: bool,
    details: Vec<Value>,
    refused: bool,
    stop: Option<StopReason>,
}

#[derive(Debug, Deserialize)]
struct Chunk<'a> {
    #[serde(borrow, default)]
    choices: Option<Vec<Choice<'a>>>,
    #[serde(default)]
    usage: Option<Value>,
    #[serde(default)]
    error: Option<Value>,
    #[serde(borrow, default)]
    object: Loose<'a>,
    #[serde(borrow, default)]
    r#type: Loose<'a>,
    #[serde(default)]
    response: Option<Value>,
}

impl Chunk<'_> {
    /// Whether this is an error, in the words of this protocol or of its younger sister, Responses.
    fn is_error(&self) -> bool {
        let kind = self.r#type.text().unwrap_or_default();
        self.error.is_some()
            || self.object.text() == Some("error")
            || kind == "error"
            || kind.ends_with(".failed")
    }
}

#[derive(Debug, Deserialize)]
struct Choice<'a> {
    #[serde(borrow, default)]
    index: Loose<'a>,
    #[serde(borrow, default)]
    delta: Option<Delta<'a>>,
    /// In place of `delta` in an answer of one piece.
    #[serde(borrow, default)]
    message: Option<Delta<'a>>,
    #[serde(borrow, default)]
    finish_reason: Loose<'a>,
    #[serde(default)]
    error: Option<Value>,
}

#[derive(Debug, Deserialize)]
struct Delta<'a> {
    #[serde(borrow, default)]
    content: Loose<'a>,
    #[serde(borrow, default)]
    reasoning_content: Loose<'a>,
    #[serde(borrow, default)]
    reasoning: Loose<'a>,
    #[serde(default)]
    reasoning_details: Option<Value>,
    #[serde(borrow, default)]
    refusal: Loose<'a>,
    #[serde(borrow, default)]
    tool_calls: Option<Vec<CallDelta<'a>>>,
    #[serde(borrow, default)]
    function_call: Option<FunctionDelta<'a>>,
}

impl Decode for Decoder {
    fn event(&mut self, event: &SseEvent, out: &mut VecDeque<ModelEvent>) -> Result<Flow, ErrorReply> {
        let data = event.data.trim();
        if data == "[DONE]" {
            return Ok(Flow::End);
        }
        if data.is_empty() {
            return Ok(Flow::More);
        }
        match serde_json::from_str::<Chunk<'_>>(data) {
            Ok(chunk) => self.chunk(chunk, data, out),
            Err(_) if event.name == "error" => Err(ErrorReply::read(data.as_bytes())),
            Err(_) => Ok(Flow::Unreadable),
        }
    }

    fn whole(&mut self, body: &[u8], out: &mut VecDeque<ModelEvent>) -> Result<Flow, ErrorReply> {
        let Ok(text) = std::str::from_utf8(body) else { return Ok(Flow::Unreadable) };
        match serde_json::from_str::<Chunk<'_>>(text) {
            Ok(chunk) if chunk.choices.is_none() && !chunk.is_error() => Ok(Flow::Unreadable),
            Ok(chunk) => self.chunk(chunk, text, out),
            Err(_) => match serde_json::from_str::<Value>(text).ok().as_ref().and_then(ErrorReply::from_json)
            {
                Some(reply) => Err(reply),
                None => Ok(Flow::Unreadable),
            },
        }
    }

    fn is_complete(&self) -> bool {
        self.stop.is_some()
    }

    fn close(&mut self, out: &mut VecDeque<ModelEvent>) {
        if let Some(text_calls) = &mut self.text_calls {
            text_calls.finish(&mut self.pieces);
            self.show(out);
        }
        for whole in self.written.drain(..) {
            self.calls.add(whole);
        }
        let stop = self.stop.unwrap_or(StopReason::EndTurn);
        let cut = if stop == StopReason::MaxTokens { Cut::ByLimit } else { Cut::No };
        self.calls.close(cut, out);
        if self.short_name || !self.details.is_empty() {
            let mut fields = Map::new();
            fields.insert("type".to_owned(), json!(REASONING_FIELDS));
            if self.short_name {
                fields.insert("field".to_owned(), json!("reasoning"));
            }
            if !self.details.is_empty() {
                let details = joined_details(std::mem::take(&mut self.details));
                fields.insert("reasoning_details".to_owned(), Value::Array(details));
            }
            out.push_back(ModelEvent::Block(Block::Other(Value::Object(fields))));
        }
        for (id, extra) in self.calls.extras() {
            let fields = json!({ "type": CALL_FIELDS, "id": id, "extra_content": extra });
            out.push_back(ModelEvent::Block(Block::Other(fields)));
        }
        let stop = match stop {
            StopReason::EndTurn if self.refused => StopReason::Refusal,
            // Servers say `stop` after calls, and `tool_calls` after none.
            StopReason::EndTurn | StopReason::ToolUse if self.calls.is_empty() => StopReason::EndTurn,
            StopReason::EndTurn | StopReason::ToolUse => StopReason::ToolUse,
            other => other,
        };
        out.push_back(ModelEvent::Stop(stop));
    }
}

impl Decoder {
    /// `text_calls` is there if calls written as text shall be found.
    pub(super) fn new(text_calls: Option<TextCalls>) -> Self {
        Self {
            calls: Calls::default(),
            text_calls,
            pieces: Vec::new(),
            written: Vec::new(),
            short_name: false,
            details: Vec::new(),
            refused: false,
            stop: None,
        }
    }

    fn chunk(
        &mut self,
        chunk: Chunk<'_>,
        data: &str,
        out: &mut VecDeque<ModelEvent>,
    ) -> Result<Flow, ErrorReply> {
        if chunk.is_error() {
            let inner = chunk.response.as_ref().and_then(ErrorReply::from_json);
            return Err(inner.unwrap_or_else(|| ErrorReply::read(data.as_bytes())));
        }
        // Only one answer was asked for.
        let first =
            chunk.choices.into_iter().flatten().find(|choice| choice.index.number().unwrap_or(0) == 0);
        if let Some(choice) = first {
            if let Some(error) = choice.error.filter(|error| !error.is_null()) {
                return Err(ErrorReply::from_json(&json!({ "error": error })).unwrap_or_default());
            }
            if let Some(delta) = choice.delta.or(choice.message) {
                self.delta(delta, out);
            }
            if let Some(reason) = choice.finish_reason.text() {
                self.stop = Some(stop_reason(reason)?);
            }
        }
        if let Some(usage) = chunk.usage.as_ref().and_then(usage) {
            out.push_back(ModelEvent::Usage(usage));
        }
        Ok(Flow::More)
    }

    fn delta(&mut self, delta: Delta<'_>, out: &mut VecDeque<ModelEvent>) {
        // Some servers send the same reasoning under both names.
        let long = delta.reasoning_content.into_prose();
        self.short_name |= long.is_none() && delta.reasoning.text().is_some();
        if let Some(text) = long.or_else(|| delta.reasoning.into_prose()) {
            out.push_back(ModelEvent::Thinking(text.into_owned()));
        }
        if let Some(Value::Array(details)) = delta.reasoning_details {
            self.details.extend(details);
        }
        if let Some(text) = delta.content.into_prose() {
            self.content(text, out);
        }
        if let Some(text) = delta.refusal.into_prose() {
            self.refused = true;
            out.push_back(ModelEvent::Text(text.into_owned()));
        }
        if let Some(function) = delta.function_call {
            self.calls.take(vec![CallDelta::of_function(function)], out);
        }
        if let Some(calls) = delta.tool_calls {
            self.calls.take(calls, out);
        }
    }

    fn content(&mut self, text: Cow<'_, str>, out: &mut VecDeque<ModelEvent>) {
        match &mut self.text_calls {
            None => out.push_back(ModelEvent::Text(text.into_owned())),
            Some(text_calls) => {
                text_calls.push(&text, &mut self.pieces);
                self.show(out);
            }
        }
    }

    /// Text goes out at once; a call waits for the end, where it is seen whether the server told of it too.
    fn show(&mut self, out: &mut VecDeque<ModelEvent>) {
        for piece in self.pieces.drain(..) {
            match piece {
                Piece::Text(text) => out.push_back(ModelEvent::Text(text)),
                Piece::Call { name, arguments } => self.written.push(Whole { name, arguments }),
            }
        }
    }
}

/// Pieces of one detail come apart and are put together by their index; text fields of it grow.
fn joined_details(pieces: Vec<Value>) -> Vec<Value> {
    let mut whole: Vec<Value> = Vec::new();
    for piece in pieces {
        let same = |other: &Value| {
            other.get("index").is_some()
                && other.get("index") == piece.get("index")
                && other.get("type") == piece.get("type")
        };
        let Some(Value::Object(found)) = whole.iter_mut().find(|other| same(other)) else {
            whole.push(piece);
            continue;
        };
        let Value::Object(fields) = piece else { continue };
        for (name, value) in fields {
            let grows = matches!(name.as_str(), "text" | "summary" | "data");
            match (found.get_mut(&name), value) {
                (Some(Value::String(text)), Value::String(more)) if grows => text.push_str(&more),
                (_, Value::Null) => {}
                (_, value) => {
                    found.insert(name, value);
                }
            }
        }
    }
    whole
}

fn stop_reason(reason: &str) -> Result<StopReason, ErrorReply> {
    Ok(match reason {
        "tool_calls" | "function_call" | "tool_use" => StopReason::ToolUse,
        "length" | "max_tokens" | "MAX_TOKENS" => StopReason::MaxTokens,
        "content_filter" | "safety" | "SAFETY" => StopReason::Refusal,
        "model_context_window_exceeded" => StopReason::ContextExceeded,
        // The server broke off: the answer is not complete.
        "error" | "insufficient_system_resource" | "network_error" => {
            let message = format!("the answer broke off (finish_reason: {reason})");
            return Err(ErrorReply { message, kind: "server_error".to_owned(), code: String::new() });
        }
        _ => StopReason::EndTurn,
    })
}

fn usage(value: &Value) -> Option<Usage> {
    let fields = value.as_object().filter(|fields| !fields.is_empty())?;
    let count = |name: &str| fields.get(name).and_then(Value::as_u64);
    let input = count("prompt_tokens").or_else(|| count("input_tokens")).unwrap_or(0);
    let output = count("completion_tokens").or_else(|| count("output_tokens")).unwrap_or(0);
    let cached = value
        .pointer("/prompt_tokens_details/cached_tokens")
        .and_then(Value::as_u64)
        .or_else(|| count("prompt_cache_hit_tokens"))
        .unwrap_or(0)
        .min(input);
    Some(Usage { input: input - cached, output, cache_read: cached, cache_write: 0 })
}

//! Events of the Messages API, one by one, as model events.

use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};

use serde::Deserialize;
use serde_json::Value;

use crate::protocol::{Block, StopReason, Usage};
use crate::provider::ModelEvent;
use crate::provider::failure::ErrorReply;
use crate::provider::reply::{Decode, Flow, fresh_call_id};
use crate::provider::sse::SseEvent;

/// Reads one reply.
#[derive(Debug, Default)]
pub(super) struct Decoder {
    open: BTreeMap<usize, Open>,
    usage: Usage,
    stop: Option<StopReason>,
}

/// A content block that has begun.
#[derive(Debug)]
enum Open {
    Text,
    /// The signature may come in pieces.
    Thinking {
        signature: String,
    },
    /// Its input as it stood in the start, for servers that send it whole there.
    Call {
        input: Value,
        pieces: bool,
    },
    /// Kept as it came; a streamed input is put back in.
    Own {
        block: Value,
        input: String,
    },
}

/// All fields of all events; which of them count depends on `type`.
#[derive(Debug, Deserialize)]
struct Event<'a> {
    #[serde(borrow, default)]
    r#type: Option<Cow<'a, str>>,
    #[serde(default)]
    index: Option<usize>,
    #[serde(borrow, default)]
    delta: Option<Delta<'a>>,
    #[serde(default)]
    content_block: Option<Value>,
    #[serde(default)]
    message: Option<Value>,
    #[serde(default)]
    usage: Option<Value>,
    #[serde(default)]
    error: Option<Value>,
}

#[derive(Debug, Deserialize)]
struct Delta<'a> {
    #[serde(borrow, default)]
    r#type: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    text: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    thinking: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    signature: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    partial_json: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    stop_reason: Option<Cow<'a, str>>,
}

impl Decode for Decoder {
    fn event(&mut self, event: &SseEvent, out: &mut VecDeque<ModelEvent>) -> Result<Flow, ErrorReply> {
        let Ok(parsed) = serde_json::from_str::<Event<'_>>(&event.data) else {
            // An error may be plain text.
            return if event.name == "error" {
                Err(ErrorReply::read(event.data.as_bytes()))
            } else {
                Ok(Flow::Unreadable)
            };
        };
        let kind = parsed.r#type.as_deref().unwrap_or(&event.name);
        if kind == "error" || parsed.error.as_ref().is_some_and(|error| !error.is_null()) {
            return Err(ErrorReply::read(event.data.as_bytes()));
        }
        let index = parsed.index.unwrap_or(0);
        match kind {
            "content_block_delta" => {
                if let Some(delta) = parsed.delta {
                    self.delta(index, delta, out);
                }
            }
            "content_block_start" => self.start(index, parsed.content_block.unwrap_or_default(), out),
            "content_block_stop" => self.stop_block(index, out),
            "message_start" => self.count(parsed.message.as_ref().and_then(|m| m.get("usage")), out),
            "message_delta" => {
                self.count(parsed.usage.as_ref(), out);
                if let Some(reason) = parsed.delta.and_then(|delta| delta.stop_reason) {
                    self.stop = Some(stop_reason(&reason));
                }
            }
            "message_stop" => return Ok(Flow::End),
            // `ping`, and whatever a later version adds.
            _ => {}
        }
        Ok(Flow::More)
    }

    fn whole(&mut self, body: &[u8], out: &mut VecDeque<ModelEvent>) -> Result<Flow, ErrorReply> {
        let Ok(mut message) = serde_json::from_slice::<Value>(body) else { return Ok(Flow::Unreadable) };
        if message.get("error").is_some_and(|error| !error.is_null()) {
            return Err(ErrorReply::read(body));
        }
        let Some(Value::Array(blocks)) = message.get_mut("content").map(Value::take) else {
            return Ok(Flow::Unreadable);
        };
        for (index, block) in blocks.into_iter().enumerate() {
            self.start(index, block, out);
            self.stop_block(index, out);
        }
        self.count(message.get("usage"), out);
        self.stop = message.get("stop_reason").and_then(Value::as_str).map(stop_reason);
        Ok(Flow::End)
    }

    fn is_complete(&self) -> bool {
        self.stop.is_some() && self.open.is_empty()
    }

    fn close(&mut self, out: &mut VecDeque<ModelEvent>) {
        while let Some((index, _)) = self.open.first_key_value() {
            self.stop_block(*index, out);
        }
        out.push_back(ModelEvent::Stop(self.stop.unwrap_or(StopReason::EndTurn)));
    }
}

impl Decoder {
    fn start(&mut self, index: usize, mut block: Value, out: &mut VecDeque<ModelEvent>) {
        let text = |block: &mut Value, name: &str| match block.get_mut(name).map(Value::take) {
            Some(Value::String(text)) => text,
            _ => String::new(),
        };
        let kind = block.get("type").and_then(Value::as_str).unwrap_or_default();
        let open = match kind {
            "text" => {
                push_text(text(&mut block, "text"), out);
                Open::Text
            }
            "thinking" => {
                // Even without a word: newer models send a signature alone, and it must be sent back.
                out.push_back(ModelEvent::Thinking(text(&mut block, "thinking")));
                Open::Thinking { signature: text(&mut block, "signature") }
            }
            "tool_use" => {
                let id =
                    Some(text(&mut block, "id")).filter(|id| !id.is_empty()).unwrap_or_else(fresh_call_id);
                out.push_back(ModelEvent::ToolStart { key: index, id, name: text(&mut block, "name") });
                Open::Call {
                    input: block.get_mut("input").map(Value::take).unwrap_or_default(),
                    pieces: false,
                }
            }
            _ => Open::Own { block, input: String::new() },
        };
        if self.open.contains_key(&index) {
            self.stop_block(index, out);
        }
        self.open.insert(index, open);
    }

    fn delta(&mut self, index: usize, delta: Delta<'_>, out: &mut VecDeque<ModelEvent>) {
        let open = self.open.get_mut(&index);
        if let Some(json) = delta.partial_json {
            match open {
                Some(Open::Call { pieces, .. }) if !json.is_empty() => {
                    *pieces = true;
                    out.push_back(ModelEvent::ToolArgs { key: index, json: json.into_owned() });
                }
                Some(Open::Own { input, .. }) => input.push_str(&json),
                Some(Open::Call { .. } | Open::Text | Open::Thinking { .. }) | None => {}
            }
        } else if let Some(piece) = delta.signature {
            if let Some(Open::Thinking { signature }) = open {
                signature.push_str(&piece);
            }
        } else if let Some(piece) = delta.thinking {
            out.push_back(ModelEvent::Thinking(piece.into_owned()));
        } else if let Some(piece) = delta.text
            && delta.r#type.is_none_or(|kind| kind == "text_delta")
        {
            push_text(piece.into_owned(), out);
        }
    }

    fn stop_block(&mut self, index: usize, out: &mut VecDeque<ModelEvent>) {
        match self.open.remove(&index) {
            None | Some(Open::Text) => {}
            Some(Open::Thinking { signature }) => {
                if !signature.is_empty() {
                    out.push_back(ModelEvent::Signature(signature));
                }
            }
            Some(Open::Call { input, pieces }) => {
                if !pieces && input.as_object().is_some_and(|fields| !fields.is_empty()) {
                    out.push_back(ModelEvent::ToolArgs { key: index, json: input.to_string() });
                }
                out.push_back(ModelEvent::ToolEnd { key: index });
            }
            Some(Open::Own { mut block, input }) => {
                if let (Some(fields), Ok(input)) = (block.as_object_mut(), serde_json::from_str(&input)) {
                    fields.insert("input".to_owned(), input);
                }
                if block.is_object() {
                    out.push_back(ModelEvent::Block(Block::Other(block)));
                }
            }
        }
    }

    /// Takes over the counts that are given; the later ones are the whole sums.
    fn count(&mut self, usage: Option<&Value>, out: &mut VecDeque<ModelEvent>) {
        let Some(usage) = usage.filter(|usage| usage.is_object()) else { return };
        for (name, count) in [
            ("input_tokens", &mut self.usage.input),
            ("output_tokens", &mut self.usage.output),
            ("cache_read_input_tokens", &mut self.usage.cache_read),
            ("cache_creation_input_tokens", &mut self.usage.cache_write),
        ] {
            if let Some(given) = usage.get(name).and_then(Value::as_u64) {
                *count = given;
            }
        }
        out.push_back(ModelEvent::Usage(self.usage));
    }
}

fn push_text(text: String, out: &mut VecDeque<ModelEvent>) {
    if !text.is_empty() {
        out.push_back(ModelEvent::Text(text));
    }
}

fn stop_reason(reason: &str) -> StopReason {
    match reason {
        "tool_use" => StopReason::ToolUse,
        "max_tokens" => StopReason::MaxTokens,
        "stop_sequence" => StopReason::StopSequence,
        "refusal" => StopReason::Refusal,
        "pause_turn" => StopReason::PauseTurn,
        "model_context_window_exceeded" => StopReason::ContextExceeded,
        _ => StopReason::EndTurn,
    }
}

//! Turns the content of a `Reply` into the event stream of either protocol.

use serde_json::{Value, json};

use super::Protocol;
use super::errors;
use super::reply::{Part, Shape};

/// One server-sent event, or one raw segment.
#[derive(Debug)]
pub(super) struct Event {
    pub(super) bytes: Vec<u8>,
    pub(super) role: Role,
}

/// What an event is for, as faults and pauses count it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// Carries content.
    Chunk,
    /// Opens or closes something inside the answer.
    Frame,
    /// Belongs to the end of the answer.
    Closing,
}

/// What the events need to know about the request.
pub(super) struct Context<'a> {
    pub(super) model: &'a str,
    /// Position of the reply in the script.
    pub(super) number: usize,
    /// Chat: `stream_options.include_usage`.
    pub(super) include_usage: bool,
}

/// The whole stream of an answer.
pub(super) fn events(protocol: Protocol, parts: &[Part], shape: &Shape, context: &Context<'_>) -> Vec<Event> {
    let mut stream = Stream { protocol, shape, events: Vec::new() };
    match protocol {
        Protocol::Messages => messages(&mut stream, parts, context),
        Protocol::Chat => chat(&mut stream, parts, context),
    }
    if shape.no_last_event {
        stream.events.pop();
    }
    stream.events
}

/// The protocol's in-stream error event.
pub(super) fn error(protocol: Protocol, message: &str, shape: &Shape) -> Vec<u8> {
    encode(protocol, &errors::event(protocol, message).to_string(), shape)
}

/// An event whose data breaks off in the middle of the JSON.
pub(super) fn malformed(protocol: Protocol, shape: &Shape) -> Vec<u8> {
    let data = match protocol {
        Protocol::Messages => r#"{"type":"content_block_delta","index":0,"delta":{"type":"#,
        Protocol::Chat => r#"{"choices":[{"index":0,"delta":{"content":"#,
    };
    encode(protocol, data, shape)
}

struct Stream<'a> {
    protocol: Protocol,
    shape: &'a Shape,
    events: Vec<Event>,
}

impl Stream<'_> {
    #[expect(clippy::needless_pass_by_value, reason = "lets callers write json!(…) without &")]
    fn push(&mut self, role: Role, data: Value) {
        self.push_text(role, &data.to_string());
    }

    fn push_text(&mut self, role: Role, data: &str) {
        let bytes = encode(self.protocol, data, self.shape);
        self.events.push(Event { bytes, role });
    }

    fn chunks_of(&self, part: &Part) -> Vec<String> {
        match part {
            Part::Chunks(count, text) => vec![text.clone(); *count],
            Part::Thinking(text) | Part::Text(text) | Part::Call { arguments: text, .. } => {
                let characters: Vec<char> = text.chars().collect();
                characters.chunks(self.shape.chunk_size).map(|chunk| chunk.iter().collect()).collect()
            }
        }
    }
}

fn encode(protocol: Protocol, data: &str, shape: &Shape) -> Vec<u8> {
    let mut text = String::new();
    if protocol == Protocol::Messages {
        // The broken event of `malformed` is meant to be a delta.
        let kind = serde_json::from_str::<Value>(data).ok();
        let kind = kind.as_ref().and_then(|data| data["type"].as_str()).unwrap_or("content_block_delta");
        text.push_str("event: ");
        text.push_str(kind);
        text.push_str(shape.line_end);
    }
    text.push_str("data: ");
    text.push_str(data);
    text.push_str(shape.line_end);
    text.push_str(shape.line_end);
    text.into_bytes()
}

fn stop_reason(parts: &[Part], shape: &Shape) -> String {
    let calls = parts.iter().any(|part| matches!(part, Part::Call { .. }));
    let default = if calls { "tool_use" } else { "end_turn" };
    shape.stop.clone().unwrap_or_else(|| default.to_owned())
}

fn call_id(id: Option<&String>, number: usize, call: usize) -> String {
    id.cloned().unwrap_or_else(|| format!("call_{number}_{call}"))
}

fn messages(stream: &mut Stream<'_>, parts: &[Part], context: &Context<'_>) {
    let usage = stream.shape.usage;
    let mut message = json!({
        "id": format!("msg_{}", context.number), "type": "message", "role": "assistant", "model": context.model,
        "content": [], "stop_reason": null, "stop_sequence": null,
    });
    if !stream.shape.no_usage {
        message["usage"] = json!({
            "input_tokens": usage.input, "cache_creation_input_tokens": usage.cache_write,
            "cache_read_input_tokens": usage.cache_read, "output_tokens": 1,
        });
    }
    stream.push(Role::Frame, json!({"type": "message_start", "message": message}));
    stream.push(Role::Frame, json!({"type": "ping"}));
    let mut calls = 0;
    for (index, part) in parts.iter().enumerate() {
        let block = match part {
            Part::Thinking(_) => json!({"type": "thinking", "thinking": "", "signature": ""}),
            Part::Text(_) | Part::Chunks(..) => json!({"type": "text", "text": ""}),
            Part::Call { id, name, .. } => {
                let id = call_id(id.as_ref(), context.number, calls);
                calls += 1;
                json!({"type": "tool_use", "id": id, "name": name, "input": {}})
            }
        };
        stream.push(
            Role::Frame,
            json!({"type": "content_block_start", "index": index, "content_block": block}),
        );
        let delta = |delta: Value| json!({"type": "content_block_delta", "index": index, "delta": delta});
        for chunk in stream.chunks_of(part) {
            let inner = match part {
                Part::Thinking(_) => json!({"type": "thinking_delta", "thinking": chunk}),
                Part::Text(_) | Part::Chunks(..) => json!({"type": "text_delta", "text": chunk}),
                Part::Call { .. } => json!({"type": "input_json_delta", "partial_json": chunk}),
            };
            stream.push(Role::Chunk, delta(inner));
        }
        if matches!(part, Part::Thinking(_)) {
            let signature = json!({"type": "signature_delta", "signature": "bW9jaw=="});
            stream.push(Role::Frame, delta(signature));
        }
        stream.push(Role::Frame, json!({"type": "content_block_stop", "index": index}));
    }
    let stop = stop_reason(parts, stream.shape);
    let mut end = json!({"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": null}});
    if !stream.shape.no_usage {
        end["usage"] = json!({"output_tokens": usage.output});
    }
    stream.push(Role::Closing, end);
    stream.push(Role::Closing, json!({"type": "message_stop"}));
}

fn chat(stream: &mut Stream<'_>, parts: &[Part], context: &Context<'_>) {
    let send_usage = context.include_usage && !stream.shape.no_usage;
    let document = |choices: Value| {
        let mut document = json!({
            "id": format!("chatcmpl-{}", context.number), "object": "chat.completion.chunk", "created": 1_700_000_000,
            "model": context.model, "choices": choices,
        });
        if send_usage {
            document["usage"] = Value::Null;
        }
        document
    };
    let delta = |delta: Value| document(json!([{"index": 0, "delta": delta, "finish_reason": null}]));
    stream.push(Role::Frame, delta(json!({"role": "assistant", "content": ""})));
    let mut calls = 0;
    for part in parts {
        if let Part::Call { id, name, arguments } = part {
            let id = call_id(id.as_ref(), context.number, calls);
            if stream.shape.no_index {
                let function = json!({"name": name, "arguments": arguments});
                let call = json!({"id": id, "type": "function", "function": function});
                stream.push(Role::Chunk, delta(json!({"tool_calls": [call]})));
            } else {
                let function = json!({"name": name, "arguments": ""});
                let call = json!({"index": calls, "id": id, "type": "function", "function": function});
                stream.push(Role::Frame, delta(json!({"tool_calls": [call]})));
                for chunk in stream.chunks_of(part) {
                    let call = json!({"index": calls, "function": {"arguments": chunk}});
                    stream.push(Role::Chunk, delta(json!({"tool_calls": [call]})));
                }
            }
            calls += 1;
            continue;
        }
        let key = if matches!(part, Part::Thinking(_)) { "reasoning_content" } else { "content" };
        for chunk in stream.chunks_of(part) {
            stream.push(Role::Chunk, delta(json!({key: chunk})));
        }
    }
    let stop = stop_reason(parts, stream.shape);
    let stop = match stop.as_str() {
        "tool_use" => "tool_calls",
        "end_turn" => "stop",
        "max_tokens" => "length",
        "refusal" => "content_filter",
        other => other,
    };
    stream.push(Role::Closing, document(json!([{"index": 0, "delta": {}, "finish_reason": stop}])));
    if send_usage {
        let usage = stream.shape.usage;
        let prompt = usage.input + usage.cache_read + usage.cache_write;
        let mut last = document(json!([]));
        last["usage"] = json!({
            "prompt_tokens": prompt, "completion_tokens": usage.output, "total_tokens": prompt + usage.output,
            "prompt_tokens_details": {"cached_tokens": usage.cache_read},
        });
        stream.push(Role::Closing, last);
    }
    stream.push_text(Role::Closing, "[DONE]");
}

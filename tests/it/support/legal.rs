//! The rules by which the real providers refuse a request with 400: pairing, ids, names, emptiness, schemas.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::Protocol;

/// `Err` has the first reason for a refusal.
pub(super) fn check(protocol: Protocol, body: &Value) -> Result<(), String> {
    if !body.is_object() {
        return Err("the body is no JSON object".to_owned());
    }
    if body["stream"] != true {
        return Err("stream: this server only streams".to_owned());
    }
    if text(&body["model"]).is_empty() {
        return Err("model: field required".to_owned());
    }
    match protocol {
        Protocol::Messages => messages_api(body),
        Protocol::Chat => chat_api(body),
    }
}

fn list<'a>(value: &'a Value, at: &str) -> Result<&'a [Value], String> {
    match value.as_array() {
        Some(items) if !items.is_empty() => Ok(items),
        _ => Err(format!("{at}: a list with at least one item is required")),
    }
}

/// Holds for tool names, and for the ids of tool calls in the Messages API.
fn is_name(value: &Value) -> bool {
    value.as_str().is_some_and(|name| {
        (1..=64).contains(&name.len())
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
    })
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

// ---- Messages API

fn messages_api(body: &Value) -> Result<(), String> {
    if body["max_tokens"].as_u64().unwrap_or(0) == 0 {
        return Err("max_tokens: a positive integer is required".to_owned());
    }
    if let Some(blocks) = body["system"].as_array()
        && blocks.iter().any(|block| text(&block["text"]).trim().is_empty())
    {
        return Err("system: text content blocks must be non-empty".to_owned());
    }
    let messages = list(&body["messages"], "messages")?;
    for (end, message) in [("first", messages.first()), ("last", messages.last())] {
        if message.is_none_or(|message| message["role"] != "user") {
            return Err(format!("messages: the {end} message must use the user role"));
        }
    }
    let mut pairing = Pairing::default();
    for (index, message) in messages.iter().enumerate() {
        pairing.message(&format!("messages.{index}"), message)?;
    }
    if cache_marks(body) > 4 {
        return Err("cache_control: at most 4 blocks may have it".to_owned());
    }
    let tools = body["tools"].as_array().map_or(&[][..], Vec::as_slice);
    // The provider's own tools have a `type` and no schema.
    let own = tools.iter().filter(|tool| tool.get("input_schema").is_some());
    check_tools(own.map(|tool| (&tool["name"], &tool["input_schema"])))
}

/// What has been called so far, and what of it the next message must answer.
#[derive(Default)]
struct Pairing<'a> {
    seen: HashSet<&'a str>,
    unanswered: Vec<&'a str>,
}

impl<'a> Pairing<'a> {
    fn message(&mut self, at: &str, message: &'a Value) -> Result<(), String> {
        let role = text(&message["role"]);
        if !matches!(role, "user" | "assistant") {
            return Err(format!("{at}.role: {role:?} is neither user nor assistant"));
        }
        let mut calls = Vec::new();
        if let Some(content) = message["content"].as_str() {
            check_text(&format!("{at}.content"), content)?;
        } else {
            let mut only_results = true;
            for (index, block) in list(&message["content"], at)?.iter().enumerate() {
                let at = format!("{at}.content.{index}");
                match text(&block["type"]) {
                    "tool_result" if !only_results => {
                        return Err(format!("{at}: tool_result blocks must come before all others"));
                    }
                    "tool_result" => self.result(&at, role, block)?,
                    kind => {
                        only_results = false;
                        if kind == "tool_use" {
                            calls.push(self.call(&at, role, block)?);
                        } else {
                            check_block(&at, kind, block)?;
                        }
                    }
                }
            }
        }
        if !self.unanswered.is_empty() {
            let ids = self.unanswered.join(", ");
            return Err(format!("{at}: tool_use without a tool_result right after it: {ids}"));
        }
        self.unanswered = calls;
        Ok(())
    }

    fn call(&mut self, at: &str, role: &str, block: &'a Value) -> Result<&'a str, String> {
        if role != "assistant" {
            return Err(format!("{at}: tool_use is for the assistant role only"));
        }
        if !is_name(&block["id"]) || !is_name(&block["name"]) {
            return Err(format!("{at}: tool_use.id and .name must match [A-Za-z0-9_-]{{1,64}}"));
        }
        if !block["input"].is_object() {
            return Err(format!("{at}: tool_use.input must be an object"));
        }
        let id = text(&block["id"]);
        if !self.seen.insert(id) {
            return Err(format!("{at}: tool_use.id {id:?} is not unique"));
        }
        Ok(id)
    }

    fn result(&mut self, at: &str, role: &str, block: &Value) -> Result<(), String> {
        let id = text(&block["tool_use_id"]);
        let open = self.unanswered.iter().position(|call| *call == id);
        let Some(open) = open.filter(|_| role == "user") else {
            return Err(format!("{at}: no tool_use {id:?} in the message before is without its result"));
        };
        self.unanswered.remove(open);
        let inner = block["content"].as_array().map_or(&[][..], Vec::as_slice);
        let mut texts = inner.iter().filter(|block| block["type"] == "text");
        if texts.any(|block| text(&block["text"]).is_empty()) {
            return Err(format!("{at}.content: text content blocks must be non-empty"));
        }
        Ok(())
    }
}

fn check_text(at: &str, content: &str) -> Result<(), String> {
    if content.trim().is_empty() {
        return Err(format!("{at}: text content must be non-empty"));
    }
    Ok(())
}

fn check_block(at: &str, kind: &str, block: &Value) -> Result<(), String> {
    match kind {
        "text" => check_text(at, text(&block["text"])),
        "thinking" if text(&block["signature"]).is_empty() => {
            Err(format!("{at}: thinking.signature: field required"))
        }
        "thinking" | "redacted_thinking" if block.get("cache_control").is_some() => {
            Err(format!("{at}: {kind}.cache_control: extra inputs are not permitted"))
        }
        "" => Err(format!("{at}.type: field required")),
        _ => Ok(()),
    }
}

/// How many blocks carry `cache_control`; what tools are called with is not looked at.
fn cache_marks(value: &Value) -> usize {
    match value {
        Value::Array(items) => items.iter().map(cache_marks).sum(),
        Value::Object(fields) => fields
            .iter()
            .map(|(key, value)| match key.as_str() {
                "cache_control" => usize::from(value.is_object()),
                "input" | "input_schema" => 0,
                _ => cache_marks(value),
            })
            .sum(),
        _ => 0,
    }
}

// ---- Chat Completions

fn chat_api(body: &Value) -> Result<(), String> {
    let messages = list(&body["messages"], "messages")?;
    let mut unanswered: Vec<&str> = Vec::new();
    for (index, message) in messages.iter().enumerate() {
        let at = format!("messages[{index}]");
        let role = text(&message["role"]);
        if role == "tool" {
            let id = text(&message["tool_call_id"]);
            let Some(open) = unanswered.iter().position(|call| *call == id) else {
                return Err(format!(
                    "{at}: no tool call {id:?} in the messages before is without its answer"
                ));
            };
            unanswered.remove(open);
            if !message["content"].is_string() && !message["content"].is_array() {
                return Err(format!("{at}.content: a string or a list of parts is required"));
            }
            continue;
        }
        all_answered(&at, &unanswered)?;
        match (role, message.get("tool_calls")) {
            ("assistant", Some(calls)) if !calls.is_null() => unanswered = chat_calls(&at, calls)?,
            ("system" | "developer" | "user" | "assistant", _) => {
                if is_empty(&message["content"]) {
                    return Err(format!("{at}.content must not be empty"));
                }
            }
            _ => return Err(format!("{at}.role: {role:?} is unknown")),
        }
    }
    all_answered("messages", &unanswered)?;
    if !messages.iter().any(|message| message["role"] == "user") {
        return Err("messages: there is no user message".to_owned());
    }
    let tools = body["tools"].as_array().map_or(&[][..], Vec::as_slice);
    check_tools(tools.iter().map(|tool| (&tool["function"]["name"], &tool["function"]["parameters"])))
}

fn all_answered(at: &str, unanswered: &[&str]) -> Result<(), String> {
    if unanswered.is_empty() {
        return Ok(());
    }
    Err(format!("{at}: tool calls without an answer: {}", unanswered.join(", ")))
}

fn is_empty(content: &Value) -> bool {
    match content {
        Value::String(text) => text.is_empty(),
        Value::Array(parts) => parts.is_empty(),
        _ => true,
    }
}

/// The ids of an assistant message's calls.
fn chat_calls<'a>(at: &str, calls: &'a Value) -> Result<Vec<&'a str>, String> {
    let at = format!("{at}.tool_calls");
    let mut ids = Vec::new();
    for call in list(calls, &at)? {
        let (id, function) = (text(&call["id"]), &call["function"]);
        if id.is_empty() || call["type"] != "function" || !is_name(&function["name"]) {
            return Err(format!("{at}: each needs an id, the type function and a legal name"));
        }
        let arguments = text(&function["arguments"]);
        if serde_json::from_str::<Map<String, Value>>(arguments).is_err() {
            return Err(format!("{at}: arguments must be a string that holds a JSON object"));
        }
        if ids.contains(&id) {
            return Err(format!("{at}: id {id:?} is not unique"));
        }
        ids.push(id);
    }
    Ok(ids)
}

// ---- both

fn check_tools<'a>(tools: impl Iterator<Item = (&'a Value, &'a Value)>) -> Result<(), String> {
    let mut names = HashSet::new();
    for (name, schema) in tools {
        if !is_name(name) {
            return Err(format!("tools: name {name} must match [A-Za-z0-9_-]{{1,64}}"));
        }
        if schema["type"] != "object" {
            return Err(format!("tools: {name}: the schema's type must be object"));
        }
        let unions = ["anyOf", "oneOf", "allOf"];
        if unions.iter().any(|union| schema.get(*union).is_some()) {
            return Err(format!("tools: {name}: no anyOf, oneOf or allOf at the top of the schema"));
        }
        if !names.insert(text(name)) {
            return Err(format!("tools: name {name} is not unique"));
        }
    }
    Ok(())
}

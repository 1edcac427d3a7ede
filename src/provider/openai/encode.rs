//! A request in the words of Chat Completions, written straight from the borrowed history.

use std::borrow::Cow;
use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;

use super::Dialect;
use super::decode::{CALL_FIELDS, REASONING_FIELDS};
use crate::config::Effort;
use crate::protocol::transcript::{Needs, repaired};
use crate::protocol::{Block, Message, Role, ToolSpec};
use crate::provider::{Failure, ModelInfo, ProviderError, Request, ThinkingStyle};

pub(super) fn body(
    info: &ModelInfo,
    request: Request<'_>,
    dialect: Dialect,
) -> Result<Vec<u8>, ProviderError> {
    let spoken = with_words(request.messages);
    let needs = Needs { target: &info.id, signed_thinking: false, thinking_alone: false };
    let messages = repaired(&spoken, needs);
    let mut wire = Vec::with_capacity(messages.len() * 2 + 1);
    if !request.system.trim().is_empty() {
        wire.push(WireMessage::new("system", Content::Text(Cow::Borrowed(request.system))));
    }
    for message in &messages {
        match message.role {
            Role::Assistant => wire.push(assistant(message)),
            Role::User => user(message, info, &mut wire),
        }
    }
    let completion = dialect.has(Dialect::COMPLETION_TOKENS);
    let body = Wire {
        model: &info.name,
        messages: wire,
        tools: request.tools.iter().map(WireTool::new).collect(),
        stream: true,
        stream_options: (!dialect.has(Dialect::NO_STREAM_OPTIONS))
            .then_some(StreamOptions { include_usage: true }),
        max_tokens: (!completion).then_some(request.max_output),
        max_completion_tokens: completion.then_some(request.max_output),
        reasoning_effort: request
            .effort
            .filter(|_| info.thinking != ThinkingStyle::None && !dialect.has(Dialect::NO_EFFORT))
            .map(|effort| effort_word(&info.name, effort)),
    };
    serde_json::to_vec(&body).map_err(|error| {
        ProviderError::new(Failure::Invalid, format!("the request cannot be written: {error}"))
    })
}

/// Leaves out answers that hold reasoning alone: this protocol cannot say them.
fn with_words(messages: &[Arc<Message>]) -> Vec<Arc<Message>> {
    let says = |block: &Block| match block {
        Block::Text { text } => !text.trim().is_empty(),
        Block::Image { .. } | Block::ToolUse { .. } | Block::ToolResult { .. } => true,
        Block::Thinking { .. } | Block::Other(_) => false,
    };
    messages.iter().filter(|m| m.role == Role::User || m.blocks.iter().any(says)).cloned().collect()
}

/// Models differ in their weakest and their strongest word.
pub(super) fn effort_word(model: &str, effort: Effort) -> &'static str {
    let name = model.rsplit('/').next().unwrap_or(model);
    // gpt-5.1 and later have `none`; gpt-5.2 and later have `xhigh`.
    let minor = name.strip_prefix("gpt-5.").and_then(|rest| rest.chars().next()?.to_digit(10));
    match effort {
        Effort::None if name.starts_with("gpt-5") && minor.is_none() => "minimal",
        Effort::None if name.starts_with('o') && !name.starts_with("openai") => "low",
        Effort::None => "none",
        Effort::Low => "low",
        Effort::Medium => "medium",
        Effort::Max if minor.is_some_and(|minor| minor >= 2) => "xhigh",
        Effort::Max if name.starts_with("deepseek") => "max",
        Effort::High | Effort::Max => "high",
    }
}

fn assistant(message: &Message) -> WireMessage<'_> {
    let mut text = Cow::Borrowed("");
    let mut reasoning = Cow::Borrowed("");
    let mut wire = WireMessage::new("assistant", Content::Null);
    let mut field = None;
    for block in &message.blocks {
        match block {
            Block::Text { text: piece } => joined(&mut text, piece, "\n"),
            Block::Thinking { thinking, .. } => joined(&mut reasoning, thinking, ""),
            Block::ToolUse { id, name, input } => {
                wire.tool_calls.push(WireCall {
                    id,
                    r#type: "function",
                    function: WireFunction { name, arguments: input.to_string() },
                    extra_content: None,
                });
            }
            Block::Image { .. } => joined(&mut text, "(a picture)", "\n"),
            Block::Other(value) => {
                let kind = value.get("type").and_then(Value::as_str).unwrap_or_default();
                if kind == REASONING_FIELDS {
                    field = value.get("field").and_then(Value::as_str);
                    wire.reasoning_details = value.get("reasoning_details");
                } else if kind == CALL_FIELDS {
                    let id = value.get("id").and_then(Value::as_str).unwrap_or_default();
                    if let Some(call) = wire.tool_calls.iter_mut().find(|call| call.id == id) {
                        call.extra_content = value.get("extra_content");
                    }
                }
            }
            Block::ToolResult { .. } => {}
        }
    }
    if !text.is_empty() {
        wire.content = Content::Text(text);
    }
    let reasoning = (!reasoning.is_empty()).then_some(reasoning);
    // A server that calls the field otherwise may refuse the usual name.
    if field == Some("reasoning") {
        wire.reasoning = reasoning;
    } else {
        wire.reasoning_content = reasoning;
    }
    wire
}

fn joined<'a>(text: &mut Cow<'a, str>, piece: &'a str, between: &str) {
    if text.is_empty() {
        *text = Cow::Borrowed(piece);
    } else {
        let text = text.to_mut();
        text.push_str(between);
        text.push_str(piece);
    }
}

/// Results become messages of their own; pictures, which those cannot hold, follow in a user message.
fn user<'a>(message: &'a Message, info: &ModelInfo, wire: &mut Vec<WireMessage<'a>>) {
    let mut parts = Vec::new();
    for block in &message.blocks {
        match block {
            Block::ToolResult { tool_use_id, content, is_error } => {
                let mut text = Cow::Borrowed(if *is_error { "Error: " } else { "" });
                let mut between = "";
                for block in content {
                    let piece = match block {
                        Block::Text { text } => text,
                        Block::Image { media_type, data } if info.images => {
                            parts.push(Part::picture(media_type, data));
                            "(a picture, shown in the next user message)"
                        }
                        Block::Image { .. } => UNSEEN,
                        Block::Other(_) => UNKNOWN,
                        Block::Thinking { .. } | Block::ToolUse { .. } | Block::ToolResult { .. } => continue,
                    };
                    joined(&mut text, piece, between);
                    between = "\n";
                }
                let mut result = WireMessage::new("tool", Content::Text(text));
                result.tool_call_id = Some(tool_use_id);
                wire.push(result);
            }
            Block::Text { text } => parts.push(Part::Text { text }),
            Block::Image { media_type, data } if info.images => parts.push(Part::picture(media_type, data)),
            Block::Image { .. } => parts.push(Part::Text { text: UNSEEN }),
            Block::Other(_) => parts.push(Part::Text { text: UNKNOWN }),
            Block::Thinking { .. } | Block::ToolUse { .. } => {}
        }
    }
    if !parts.is_empty() {
        wire.push(WireMessage::new("user", Content::of(parts)));
    }
}

const UNSEEN: &str = "(a picture that this model cannot see)";
const UNKNOWN: &str = "(content of a kind that cannot be shown here)";

#[derive(Serialize)]
struct Wire<'a> {
    model: &'a str,
    messages: Vec<WireMessage<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<WireTool<'a>>,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream_options: Option<StreamOptions>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_completion_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_effort: Option<&'static str>,
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

#[derive(Serialize)]
struct WireTool<'a> {
    r#type: &'static str,
    function: WireSpec<'a>,
}

#[derive(Serialize)]
struct WireSpec<'a> {
    name: &'a str,
    description: &'a str,
    parameters: &'a Value,
}

impl<'a> WireTool<'a> {
    fn new(spec: &'a ToolSpec) -> Self {
        let function =
            WireSpec { name: &spec.name, description: &spec.description, parameters: &spec.input_schema };
        Self { r#type: "function", function }
    }
}

#[derive(Serialize)]
struct WireMessage<'a> {
    role: &'static str,
    content: Content<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_content: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_details: Option<&'a Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<WireCall<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_call_id: Option<&'a str>,
}

impl<'a> WireMessage<'a> {
    fn new(role: &'static str, content: Content<'a>) -> Self {
        Self {
            role,
            content,
            reasoning_content: None,
            reasoning: None,
            reasoning_details: None,
            tool_calls: Vec::new(),
            tool_call_id: None,
        }
    }
}

#[derive(Serialize)]
#[serde(untagged)]
enum Content<'a> {
    Null,
    Text(Cow<'a, str>),
    Parts(Vec<Part<'a>>),
}

impl<'a> Content<'a> {
    /// A plain string where there is only text: templates of local models often take nothing else.
    fn of(parts: Vec<Part<'a>>) -> Self {
        let mut text = Cow::Borrowed("");
        for part in &parts {
            match part {
                Part::Text { text: piece } => joined(&mut text, piece, "\n\n"),
                Part::ImageUrl { .. } => return Self::Parts(parts),
            }
        }
        Self::Text(text)
    }
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Part<'a> {
    Text { text: &'a str },
    ImageUrl { image_url: ImageUrl },
}

impl Part<'_> {
    fn picture(media_type: &str, data: &str) -> Self {
        Self::ImageUrl { image_url: ImageUrl { url: format!("data:{media_type};base64,{data}") } }
    }
}

#[derive(Serialize)]
struct ImageUrl {
    url: String,
}

#[derive(Serialize)]
struct WireCall<'a> {
    id: &'a str,
    r#type: &'static str,
    function: WireFunction<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    extra_content: Option<&'a Value>,
}

#[derive(Serialize)]
struct WireFunction<'a> {
    name: &'a str,
    /// JSON text, as the protocol has it.
    arguments: String,
}

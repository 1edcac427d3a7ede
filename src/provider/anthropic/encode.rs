//! A request in the words of the Messages API, written straight from the borrowed history.

use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;

use crate::config::Effort;
use crate::protocol::transcript::{Needs, repaired};
use crate::protocol::{Block, Message, ModelId, Role, ToolSpec};
use crate::provider::{Failure, ModelInfo, ProviderError, Request, ThinkingStyle};

/// Smallest thinking budget that the API takes, in tokens.
const MIN_BUDGET: u32 = 1024;

/// Whether earlier thinking goes along.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Carry {
    Thinking,
    /// The request is made as if nobody had ever thought.
    NoThinking,
}

/// An encoded request.
#[derive(Debug)]
pub(super) struct Body {
    pub(super) bytes: Vec<u8>,
    /// It switches thinking, or carries some.
    pub(super) thinks: bool,
}

impl Body {
    pub(super) fn new(info: &ModelInfo, request: Request<'_>, carry: Carry) -> Result<Self, ProviderError> {
        let keeps = carry == Carry::Thinking;
        let needs = Needs { target: &info.id, signed_thinking: true, thinking_alone: keeps };
        let messages = match carry {
            Carry::Thinking => repaired(request.messages, needs),
            Carry::NoThinking => repaired(&without_thinking(request.messages), needs),
        };
        let thinking = match carry {
            Carry::Thinking => Thinking::choose(info, request, &messages),
            Carry::NoThinking => Thinking { max_tokens: request.max_output, ..Thinking::default() },
        };
        let mut wire: Vec<WireMessage<'_>> = messages.iter().map(|m| WireMessage::new(m, info)).collect();
        let users = wire.iter_mut().rev().filter(|m| m.role == "user").take(2);
        for block in users.filter_map(|message| message.content.last_mut()) {
            block.mark();
        }
        let carried = wire.iter().flat_map(|m| &m.content).any(|block| match block {
            WireBlock::Thinking { .. } => true,
            WireBlock::Own(value) => is_redacted(value),
            WireBlock::Text { .. }
            | WireBlock::Image { .. }
            | WireBlock::ToolUse { .. }
            | WireBlock::ToolResult { .. } => false,
        });
        let thinks = carried || thinking.switch.is_some() || thinking.effort.is_some();
        let last = request.tools.len().saturating_sub(1);
        let body = Wire {
            model: &info.name,
            max_tokens: thinking.max_tokens,
            stream: true,
            system: (!request.system.trim().is_empty())
                .then_some([WireBlock::Text { text: request.system, cache_control: Some(MARK) }]),
            tools: request
                .tools
                .iter()
                .enumerate()
                .map(|(at, spec)| WireTool::new(spec, at == last))
                .collect(),
            messages: wire,
            thinking: thinking.switch,
            output_config: thinking.effort.map(|effort| OutputConfig { effort }),
        };
        let bytes = serde_json::to_vec(&body).map_err(|error| {
            ProviderError::new(Failure::Invalid, format!("the request cannot be written: {error}"))
        })?;
        Ok(Self { bytes, thinks })
    }
}

/// How the model is told to think in one request.
#[derive(Debug, Default)]
struct Thinking {
    max_tokens: u32,
    switch: Option<Switch>,
    effort: Option<&'static str>,
}

#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Switch {
    Enabled { budget_tokens: u32 },
    Adaptive,
    Disabled,
}

/// The last assistant message when its calls have just been answered: it can't be changed any more.
#[derive(Debug, PartialEq, Eq)]
enum OpenRound {
    None,
    /// It began with thinking, so thinking has to stay on.
    Thought,
    /// It did not, so a fixed budget can't be switched on before the round is over.
    Plain,
}

impl Thinking {
    fn choose(info: &ModelInfo, request: Request<'_>, messages: &[Arc<Message>]) -> Self {
        let plain = Self { max_tokens: request.max_output, ..Self::default() };
        let open = open_round(messages);
        match info.thinking {
            ThinkingStyle::None => plain,
            ThinkingStyle::Adaptive => match request.effort {
                None => plain,
                Some(Effort::None) if open == OpenRound::Thought => plain,
                Some(Effort::None) => Self { switch: Some(Switch::Disabled), ..plain },
                Some(effort) => Self { switch: Some(Switch::Adaptive), effort: Some(effort.name()), ..plain },
            },
            ThinkingStyle::Budget | ThinkingStyle::Effort => {
                let wanted = match (open, request.effort.and_then(budget)) {
                    (OpenRound::Plain, _) | (OpenRound::None, None) => return plain,
                    (OpenRound::Thought, None) => MIN_BUDGET,
                    (OpenRound::None | OpenRound::Thought, Some(tokens)) => tokens,
                };
                // The limit counts thinking too, so the budget comes on top, as far as the model goes.
                let ceiling = info.max_output.max(request.max_output);
                let max_tokens = request.max_output.saturating_add(wanted).min(ceiling);
                let budget_tokens = wanted.min(max_tokens - max_tokens / 4);
                if budget_tokens < MIN_BUDGET {
                    return plain;
                }
                Self { max_tokens, switch: Some(Switch::Enabled { budget_tokens }), effort: None }
            }
        }
    }
}

fn budget(effort: Effort) -> Option<u32> {
    match effort {
        Effort::None => None,
        Effort::Low => Some(4096),
        Effort::Medium => Some(10_240),
        Effort::High => Some(24_576),
        Effort::Max => Some(49_152),
    }
}

fn open_round(messages: &[Arc<Message>]) -> OpenRound {
    let [.., assistant, last] = messages else { return OpenRound::None };
    if !last.blocks.iter().any(|block| matches!(block, Block::ToolResult { .. })) {
        return OpenRound::None;
    }
    match assistant.blocks.first() {
        Some(Block::Thinking { .. }) => OpenRound::Thought,
        Some(Block::Other(value)) if is_redacted(value) => OpenRound::Thought,
        _ => OpenRound::Plain,
    }
}

fn is_redacted(value: &Value) -> bool {
    value.get("type").and_then(Value::as_str) == Some("redacted_thinking")
}

fn without_thinking(messages: &[Arc<Message>]) -> Vec<Arc<Message>> {
    let thinks = |block: &Block| match block {
        Block::Thinking { .. } => true,
        Block::Other(value) => is_redacted(value),
        Block::Text { .. } | Block::Image { .. } | Block::ToolUse { .. } | Block::ToolResult { .. } => false,
    };
    messages
        .iter()
        .map(|message| {
            if message.role == Role::User || !message.blocks.iter().any(thinks) {
                return Arc::clone(message);
            }
            let blocks = message.blocks.iter().filter(|block| !thinks(block)).cloned().collect();
            Arc::new(Message { blocks, ..Message::clone(message) })
        })
        .collect()
}

#[derive(Serialize)]
struct Wire<'a> {
    model: &'a str,
    max_tokens: u32,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    system: Option<[WireBlock<'a>; 1]>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<WireTool<'a>>,
    messages: Vec<WireMessage<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking: Option<Switch>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_config: Option<OutputConfig>,
}

#[derive(Serialize)]
struct OutputConfig {
    effort: &'static str,
}

#[derive(Debug, Clone, Copy, Serialize)]
struct Mark {
    r#type: &'static str,
}

const MARK: Mark = Mark { r#type: "ephemeral" };

#[derive(Serialize)]
struct WireTool<'a> {
    name: &'a str,
    description: &'a str,
    input_schema: &'a Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<Mark>,
}

impl<'a> WireTool<'a> {
    fn new(spec: &'a ToolSpec, marked: bool) -> Self {
        Self {
            name: &spec.name,
            description: &spec.description,
            input_schema: &spec.input_schema,
            cache_control: marked.then_some(MARK),
        }
    }
}

#[derive(Serialize)]
struct WireMessage<'a> {
    role: &'static str,
    content: Vec<WireBlock<'a>>,
}

impl<'a> WireMessage<'a> {
    fn new(message: &'a Message, info: &ModelInfo) -> Self {
        let (role, content) = match message.role {
            Role::User => ("user", message.blocks.iter().filter_map(|b| said(b, info)).collect()),
            Role::Assistant => {
                let origin = message.origin.as_ref();
                (
                    "assistant",
                    message.blocks.iter().filter_map(|b| answered(b, info, origin)).collect::<Vec<_>>(),
                )
            }
        };
        let mut content = content;
        if content.is_empty() {
            content.push(WireBlock::text("(nothing that can be shown here)"));
        }
        Self { role, content }
    }
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum WireBlock<'a> {
    Text {
        text: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<Mark>,
    },
    Thinking {
        thinking: &'a str,
        signature: &'a str,
    },
    Image {
        source: ImageSource<'a>,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<Mark>,
    },
    ToolUse {
        id: &'a str,
        name: &'a str,
        input: &'a Value,
    },
    ToolResult {
        tool_use_id: &'a str,
        content: Vec<WireBlock<'a>>,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<Mark>,
    },
    #[serde(untagged)]
    Own(&'a Value),
}

#[derive(Serialize)]
struct ImageSource<'a> {
    r#type: &'static str,
    media_type: &'a str,
    data: &'a str,
}

impl<'a> WireBlock<'a> {
    fn text(text: &'a str) -> Self {
        Self::Text { text, cache_control: None }
    }

    /// Puts a cache mark on a block that may carry one.
    fn mark(&mut self) {
        match self {
            Self::Text { cache_control, .. }
            | Self::Image { cache_control, .. }
            | Self::ToolResult { cache_control, .. } => *cache_control = Some(MARK),
            Self::Thinking { .. } | Self::ToolUse { .. } | Self::Own(_) => {}
        }
    }
}

/// A block of a user message or of a result.
fn said<'a>(block: &'a Block, info: &ModelInfo) -> Option<WireBlock<'a>> {
    match block {
        Block::Text { text } => Some(WireBlock::text(text)),
        Block::Image { .. } if !info.images => {
            Some(WireBlock::text("(a picture that this model cannot see)"))
        }
        Block::Image { media_type, data } => {
            let source = ImageSource { r#type: "base64", media_type, data };
            Some(WireBlock::Image { source, cache_control: None })
        }
        Block::ToolResult { tool_use_id, content, is_error } => Some(WireBlock::ToolResult {
            tool_use_id,
            content: content.iter().filter_map(|b| said(b, info)).collect(),
            is_error: *is_error,
            cache_control: None,
        }),
        Block::Other(_) => Some(WireBlock::text("(content of a kind that cannot be shown here)")),
        Block::Thinking { .. } | Block::ToolUse { .. } => None,
    }
}

/// A block of an assistant message.
fn answered<'a>(block: &'a Block, info: &ModelInfo, origin: Option<&ModelId>) -> Option<WireBlock<'a>> {
    // A model that does not think refuses another's thinking, even with its signature.
    let thinks = info.thinking != ThinkingStyle::None || origin == Some(&info.id);
    match block {
        Block::Text { text } => Some(WireBlock::text(text)),
        Block::Thinking { thinking, signature } if thinks => {
            signature.as_ref().map(|signature| WireBlock::Thinking { thinking, signature })
        }
        Block::ToolUse { id, name, input } => Some(WireBlock::ToolUse { id, name, input }),
        Block::Other(value) if thinks || !is_redacted(value) => Some(WireBlock::Own(value)),
        Block::Image { .. } => Some(WireBlock::text("(a picture)")),
        Block::Thinking { .. } | Block::Other(_) | Block::ToolResult { .. } => None,
    }
}

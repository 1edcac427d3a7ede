//! Messages in the shape of Anthropic's Messages API, the richer of the two protocols we speak.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Names one message for good; edits, rewind and forks refer to it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MessageId(pub String);

impl MessageId {
    /// The id of the message that holds the results of this assistant message's calls.
    ///
    /// Results are not recorded as a message of their own, so the fold must be able to name theirs.
    #[must_use]
    pub fn results(&self) -> Self {
        Self(format!("{}.r", self.0))
    }
}

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Provider and model that wrote something, as `provider/model`.
///
/// Signatures and a provider's own blocks go back only to the provider named here.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ModelId(pub String);

impl ModelId {
    /// Joins the provider's name (with its host where it is not the default) and the model's.
    #[must_use]
    pub fn new(provider: &str, model: &str) -> Self {
        Self(format!("{provider}/{model}"))
    }

    /// The part before the first slash.
    #[must_use]
    pub fn provider(&self) -> &str {
        self.0.split_once('/').map_or(self.0.as_str(), |(p, _)| p)
    }
}

/// Who speaks, as the providers see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The user, a tool result, or text that the host put in.
    User,
    /// The model.
    Assistant,
}

/// Where a message really came from; finer than [`Role`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// Typed by the human.
    User,
    /// Written by the model.
    Model,
    /// Results of tool calls.
    Tool,
    /// Text from a hook.
    Hook,
    /// The body of a skill.
    Skill,
    /// Memory and instruction files.
    Memory,
    /// Mail from another agent.
    Mail,
    /// A scheduled prompt.
    Schedule,
    /// The program itself: continuation requests, markers, reminders.
    Host,
}

/// One message of the conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// Its name.
    pub id: MessageId,
    /// Who speaks.
    pub role: Role,
    /// Where it came from.
    pub source: Source,
    /// Who wrote an assistant message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<ModelId>,
    /// What it says, in order.
    pub blocks: Vec<Block>,
}

impl Message {
    /// The calls in this message, in order.
    pub fn calls(&self) -> impl Iterator<Item = ToolCall> + '_ {
        self.blocks.iter().filter_map(|block| match block {
            Block::ToolUse { id, name, input } => {
                Some(ToolCall { id: id.clone(), name: name.clone(), input: input.clone() })
            }
            _ => None,
        })
    }

    /// All its text, joined by line breaks.
    pub fn text(&self) -> String {
        text_of(&self.blocks)
    }
}

/// The text blocks of a list, joined by line breaks.
#[must_use]
pub fn text_of(blocks: &[Block]) -> String {
    let mut out = String::new();
    for block in blocks {
        if let Block::Text { text } = block {
            if !out.is_empty() {
                out.push('\n');
            }
            out.push_str(text);
        }
    }
    out
}

/// One piece of a message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Block {
    /// Visible text.
    Text {
        /// The text.
        text: String,
    },
    /// Reasoning; sent back only to the provider in the message's `origin`.
    Thinking {
        /// The reasoning text.
        thinking: String,
        /// The provider's proof that the text is its own; Anthropic refuses the block without it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signature: Option<String>,
    },
    /// A picture.
    Image {
        /// For example `image/png`.
        media_type: String,
        /// Base64 of the bytes.
        data: String,
    },
    /// A call the model asks for.
    ToolUse {
        /// The provider's id of the call, unique in the conversation.
        id: String,
        /// The tool's name.
        name: String,
        /// Its arguments, always an object.
        input: Value,
    },
    /// The answer to a call.
    ToolResult {
        /// The id of the call.
        tool_use_id: String,
        /// What the model sees.
        content: Vec<Block>,
        /// Whether the call failed.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
    },
    /// A provider's own block, kept as it came and sent back only to the provider in `origin`.
    #[serde(untagged)]
    Other(Value),
}

impl Block {
    /// A text block.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into() }
    }
}

/// A call as the loop handles it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// The provider's id of the call.
    pub id: String,
    /// The tool's name.
    pub name: String,
    /// Its arguments.
    pub input: Value,
}

/// The one result of a call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolResult {
    /// The id of the call.
    pub call: String,
    /// What the model sees.
    pub content: Vec<Block>,
    /// Whether the call failed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_error: bool,
    /// What only a user interface needs: diffs, exit codes, refusals.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub details: Value,
}

impl ToolResult {
    /// An error result with one text.
    pub fn error(call: &str, text: impl Into<String>) -> Self {
        Self { call: call.to_owned(), content: vec![Block::text(text)], is_error: true, details: Value::Null }
    }

    /// The block that goes into the conversation.
    #[must_use]
    pub fn block(&self) -> Block {
        Block::ToolResult {
            tool_use_id: self.call.clone(),
            content: self.content.clone(),
            is_error: self.is_error,
        }
    }
}

/// Why the model stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// It had no more to say.
    EndTurn,
    /// It wants calls to be run.
    ToolUse,
    /// The output limit cut it.
    MaxTokens,
    /// A stop sequence.
    StopSequence,
    /// It declined, or a content filter did.
    Refusal,
    /// The provider paused a long turn and wants the same messages again.
    PauseTurn,
    /// The window ended in the middle of the answer.
    ContextExceeded,
}

/// Tokens of one call or the sum of many.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Input tokens that no cache served.
    #[serde(default)]
    pub input: u64,
    /// Output tokens, reasoning included.
    #[serde(default)]
    pub output: u64,
    /// Input tokens read from the provider's cache.
    #[serde(default)]
    pub cache_read: u64,
    /// Input tokens written to the provider's cache.
    #[serde(default)]
    pub cache_write: u64,
}

impl Usage {
    /// All input tokens, cached or not: what fills the window.
    #[must_use]
    pub fn context(&self) -> u64 {
        self.input + self.cache_read + self.cache_write
    }

    /// Everything counted.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.context() + self.output
    }
}

impl std::ops::AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        self.input = self.input.saturating_add(other.input);
        self.output = self.output.saturating_add(other.output);
        self.cache_read = self.cache_read.saturating_add(other.cache_read);
        self.cache_write = self.cache_write.saturating_add(other.cache_write);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn unknown_blocks_survive_a_round_trip() {
        let raw = json!({"type": "redacted_thinking", "data": "xyz"});
        let block: Block = serde_json::from_value(raw.clone()).unwrap();
        assert_eq!(block, Block::Other(raw.clone()));
        assert_eq!(serde_json::to_value(&block).unwrap(), raw);
    }

    #[test]
    fn known_blocks_are_typed() {
        let block: Block = serde_json::from_value(json!({"type": "text", "text": "a"})).unwrap();
        assert_eq!(block, Block::text("a"));
    }
}

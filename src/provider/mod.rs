//! Model services behind one trait: a request goes out, a stream of model events comes back.

mod anthropic;
mod asked;
mod catalog;
mod cause;
mod connect;
#[cfg(test)]
mod exchange_tests;
mod failure;
mod http;
pub mod offline;
mod openai;
mod probe;
mod reply;
mod retry;
pub mod scripted;
mod sse;
#[cfg(test)]
mod testing;
mod text_calls;

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::stream::BoxStream;

use crate::config::Effort;
use crate::protocol::{Block, ErrorKind, Message, ModelId, StopReason, ToolSpec, Usage};

pub use catalog::{Alias, Catalog, DEFAULT_MAX_OUTPUT, DEFAULT_WINDOW};
pub use connect::connect;
pub use probe::{Candidate, LocalKind, LocalServer, find_local};
pub use retry::{given_up, next_wait, spoken};

/// A model at a service. Dropping the stream cancels the call.
#[async_trait]
pub trait ModelProvider: Send + Sync + Debug {
    /// Which model, and what it can do.
    fn info(&self) -> &ModelInfo;

    /// Makes one attempt at one call; retries are the engine's.
    async fn stream(&self, request: Request<'_>) -> Result<EventStream, ProviderError>;
}

/// The events of one attempt. Ends after [`ModelEvent::Stop`] or an error; an end without either is a cut.
pub type EventStream = BoxStream<'static, Result<ModelEvent, ProviderError>>;

/// One model call.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// The system prompt.
    pub system: &'a str,
    /// The advertised tools, in a stable order.
    pub tools: &'a [ToolSpec],
    /// The conversation; the adapter repairs it for its provider.
    pub messages: &'a [Arc<Message>],
    /// Output limit in tokens.
    pub max_output: u32,
    /// How hard to think; `None` is the provider's default.
    pub effort: Option<Effort>,
}

/// What a service sends, in its order. `key` tells the blocks of one reply apart.
#[derive(Debug, Clone, PartialEq)]
pub enum ModelEvent {
    /// A piece of the answer.
    Text(String),
    /// A piece of reasoning.
    Thinking(String),
    /// The signature that closes the reasoning before it.
    Signature(String),
    /// A call begins. A name may come empty if the service sends it later in a `ToolName`.
    ToolStart {
        /// Which call.
        key: usize,
        /// Its id.
        id: String,
        /// The tool.
        name: String,
    },
    /// The name of a call whose start had none.
    ToolName {
        /// Which call.
        key: usize,
        /// The tool.
        name: String,
    },
    /// A piece of a call's arguments.
    ToolArgs {
        /// Which call.
        key: usize,
        /// A piece of JSON text.
        json: String,
    },
    /// A call is whole.
    ToolEnd {
        /// Which call.
        key: usize,
    },
    /// A block of the provider's own, whole.
    Block(Block),
    /// Tokens so far in this call; replaces what was said before.
    Usage(Usage),
    /// The end.
    Stop(StopReason),
}

/// Facts about a model, from the catalogue or assumed.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelInfo {
    /// Who answers: provider (with its host) and model.
    pub id: ModelId,
    /// The model's name at the service.
    pub name: String,
    /// Context window in tokens.
    pub window: u64,
    /// Largest output in tokens.
    pub max_output: u32,
    /// How it is told to think.
    pub thinking: ThinkingStyle,
    /// Whether it takes pictures.
    pub images: bool,
    /// US dollars for a million tokens, if known.
    pub price: Option<Price>,
    /// Whether the catalogue knows it.
    pub known: bool,
}

/// How a model's thinking is switched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ThinkingStyle {
    /// It does not think, or not on request.
    None,
    /// Anthropic: `thinking.budget_tokens`.
    Budget,
    /// Anthropic, newer models: `thinking.type = adaptive` with `output_config.effort`.
    Adaptive,
    /// OpenAI-compatible: `reasoning_effort`.
    Effort,
}

/// US dollars for a million tokens.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Price {
    /// Fresh input.
    pub input: f64,
    /// Output.
    pub output: f64,
    /// Input read from the cache.
    pub cache_read: f64,
    /// Input written to the cache.
    pub cache_write: f64,
}

impl Price {
    /// Dollars for this usage.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "token counts stay far below 2^52")]
    pub fn cost(&self, usage: &Usage) -> f64 {
        (self.input * usage.input as f64
            + self.output * usage.output as f64
            + self.cache_read * usage.cache_read as f64
            + self.cache_write * usage.cache_write as f64)
            / 1_000_000.0
    }
}

/// Why a call failed. The message is the service's own where it gave one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ProviderError {
    /// What kind of failure, which decides what happens next.
    pub kind: Failure,
    /// For the user: the first cause, and what to do.
    pub message: String,
    /// HTTP status, if there was a response.
    pub status: Option<u16>,
    /// The service's id of the request.
    pub request_id: Option<String>,
}

/// Kinds of failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// May work next time.
    Transient {
        /// What the service asked to wait.
        retry_after: Option<Duration>,
    },
    /// Nobody answers at the address; worth a few tries only.
    Unreachable,
    /// The stream ended or broke before its end.
    Cut,
    /// The conversation does not fit.
    ContextOverflow,
    /// The key is missing or wrong.
    Auth,
    /// Nothing left to spend.
    Quota,
    /// No such model or address.
    NotFound,
    /// The service refuses this request.
    Invalid,
    /// There is no model behind this: the built-in rules do not understand.
    NoModel,
}

impl ProviderError {
    /// An error without a response.
    pub fn new(kind: Failure, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), status: None, request_id: None }
    }

    /// The kind in the words of a turn's outcome.
    #[must_use]
    pub fn outcome_kind(&self) -> ErrorKind {
        match self.kind {
            Failure::Transient { .. } | Failure::Unreachable | Failure::Cut => ErrorKind::Unavailable,
            Failure::ContextOverflow => ErrorKind::ContextOverflow,
            Failure::Auth => ErrorKind::Auth,
            Failure::Quota => ErrorKind::Quota,
            Failure::NotFound => ErrorKind::NotFound,
            Failure::Invalid => ErrorKind::Invalid,
            Failure::NoModel => ErrorKind::NoModel,
        }
    }
}

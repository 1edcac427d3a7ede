//! Plain data that every layer shares: messages, events, operations, tools; no I/O, no async, nothing of ours imported.

mod event;
mod mask;
mod message;
mod op;
mod outcome;
mod tool;
pub mod transcript;

pub use event::{
    AgentPath, DeltaKind, Edit, Envelope, Event, FORMAT, StateChange, Timestamp, Todo, TodoStatus,
};
pub use mask::Mask;
pub use message::{
    Block, Message, MessageId, ModelId, Role, Source, StopReason, ToolCall, ToolResult, Usage, text_of,
};
pub use op::{
    Decision, Mode, Op, Part, PermissionRequest, RuleOffer, Scope, UnknownMode, Verdict, VerdictKind,
};
pub use outcome::{ErrorKind, TurnOutcome};
pub use tool::{Access, Hints, Target, ToolSpec};

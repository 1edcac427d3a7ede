//! What happens in a session, in order: the lines of its log and the feed of every front end.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::message::{Block, Message, MessageId, ModelId, ToolCall, ToolResult, Usage};
use super::op::{Mode, PermissionRequest};
use super::outcome::TurnOutcome;

/// Version of the log format, written in its first line.
pub const FORMAT: u32 = 1;

/// UTC, written as RFC 3339.
pub type Timestamp = chrono::DateTime<chrono::Utc>;

/// Which agent an event belongs to: the ids of the calls that led to it; empty for the root.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct AgentPath(pub Vec<String>);

impl AgentPath {
    /// The root agent.
    #[must_use]
    pub fn root() -> Self {
        Self::default()
    }

    /// The agent that this call started.
    #[must_use]
    pub fn child(&self, call: &str) -> Self {
        let mut path = self.0.clone();
        path.push(call.to_owned());
        Self(path)
    }

    /// How many agents stand above this one.
    pub fn depth(&self) -> usize {
        self.0.len()
    }

    /// Whether this is the root agent.
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for AgentPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() { f.write_str("root") } else { f.write_str(&self.0.join("/")) }
    }
}

/// One line of a log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Envelope {
    /// Position in the log, from 0; events that are not kept carry the position of the last kept one.
    pub seq: u64,
    /// When.
    pub at: Timestamp,
    /// Whose.
    #[serde(default, skip_serializing_if = "AgentPath::is_root")]
    pub agent: AgentPath,
    /// What.
    pub event: Event,
}

/// Everything that can happen.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Event {
    /// First line of a log.
    SessionStarted {
        /// [`FORMAT`].
        format: u32,
        /// Id of the session.
        session: String,
        /// Real path of the working folder.
        cwd: String,
        /// Model at the start.
        model: ModelId,
        /// The session this one was forked from.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        forked_from: Option<String>,
    },
    /// A turn began. Kept.
    TurnStarted,
    /// A message joined the conversation. Kept.
    MessageAdded {
        /// The message.
        message: Message,
    },
    /// A call is about to run. Kept, and written before it runs.
    ToolStarted {
        /// The call, with the input as it runs.
        call: ToolCall,
    },
    /// A call has its result. Kept.
    ToolFinished {
        /// The result.
        result: ToolResult,
    },
    /// A tier changed what the model sees. Kept.
    Compacted {
        /// 1 to 4; 0 for the emergency cut after an overflow.
        tier: u8,
        /// The changes.
        edits: Vec<Edit>,
    },
    /// Something else that a resume must rebuild. Kept.
    StateChanged {
        /// The change.
        change: StateChange,
    },
    /// A piece of a streamed reply.
    Delta {
        /// Text or thinking.
        kind: DeltaKind,
        /// The piece.
        text: String,
    },
    /// What was streamed of this sample is void: it will be repeated.
    DeltaReset,
    /// Output of a running call.
    ToolProgress {
        /// Id of the call.
        call: String,
        /// New output.
        text: String,
    },
    /// Someone must decide.
    PermissionAsked {
        /// The question.
        request: PermissionRequest,
    },
    /// A model call failed and will be made again.
    Retrying {
        /// Which attempt comes next, from 2.
        attempt: u32,
        /// Wait before it, in ms.
        after_ms: u64,
        /// Why.
        reason: String,
    },
    /// Tokens and cost so far.
    UsageUpdated {
        /// Sum of the session.
        total: Usage,
        /// Tokens of the newest call that fill the window.
        context: u64,
        /// US dollars, where the price is known.
        cost: Option<f64>,
    },
    /// A sentence for the user.
    Notice {
        /// The sentence.
        text: String,
    },
    /// Ends every turn. Kept.
    TurnFinished {
        /// How.
        outcome: TurnOutcome,
    },
    /// An event of a later version; kept in the log, skipped by the fold.
    #[serde(untagged)]
    Unknown(Value),
}

impl Event {
    /// Whether it is written to the log.
    #[must_use]
    pub fn is_durable(&self) -> bool {
        match self {
            Self::SessionStarted { .. }
            | Self::TurnStarted
            | Self::MessageAdded { .. }
            | Self::ToolStarted { .. }
            | Self::ToolFinished { .. }
            | Self::Compacted { .. }
            | Self::StateChanged { .. }
            | Self::TurnFinished { .. }
            | Self::Unknown(_) => true,
            Self::Delta { .. }
            | Self::DeltaReset
            | Self::ToolProgress { .. }
            | Self::PermissionAsked { .. }
            | Self::Retrying { .. }
            | Self::UsageUpdated { .. }
            | Self::Notice { .. } => false,
        }
    }
}

/// What a streamed piece belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeltaKind {
    /// The answer.
    Text,
    /// Reasoning.
    Thinking,
}

/// One change to what the model sees; the log itself is never rewritten.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Edit {
    /// One block is shown as another.
    ReplaceBlock {
        /// In which message.
        message: MessageId,
        /// Which block, from 0.
        index: usize,
        /// What is shown instead.
        with: Block,
    },
    /// A run of messages is shown as one.
    Fold {
        /// First of the run.
        first: MessageId,
        /// Last of the run.
        last: MessageId,
        /// What is shown instead.
        with: Message,
    },
    /// Takes back the edits of an earlier `Compacted` event.
    Unfold {
        /// Its position.
        seq: u64,
    },
}

/// Changes of the agent's state, rebuilt on resume by the same fold.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum StateChange {
    /// The whole todo list.
    Todos {
        /// The items.
        todos: Vec<Todo>,
    },
    /// A file as this agent last saw it.
    FileSeen {
        /// Real path.
        path: String,
        /// Hash of the content, in hexadecimal.
        hash: String,
        /// Modification time in ns since the epoch, to spare a hash when nothing changed.
        #[serde(default)]
        mtime_ns: i64,
        /// Size in bytes.
        #[serde(default)]
        size: u64,
    },
    /// A skill is active.
    SkillActivated {
        /// Its name.
        name: String,
    },
    /// A text that no tier may take out.
    Pinned {
        /// The text.
        text: String,
    },
    /// The model was changed.
    Model {
        /// The new one.
        model: ModelId,
    },
    /// The permission mode was changed.
    Mode {
        /// The new one.
        mode: Mode,
    },
    /// An "always" for the rest of the session.
    Granted {
        /// The rule.
        rule: String,
    },
    /// Everything before this point is out of the model's sight (`/clear`).
    Cleared,
    /// Tokens that one model call used.
    Used {
        /// Its usage.
        usage: Usage,
        /// US dollars, where the price is known.
        #[serde(default)]
        cost: Option<f64>,
    },
}

/// One item of the todo list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Todo {
    /// What to do, as an order.
    pub content: String,
    /// How far it is.
    pub status: TodoStatus,
    /// What is being done, shown while it is in progress.
    #[serde(default, rename = "activeForm", skip_serializing_if = "String::is_empty")]
    pub active_form: String,
}

/// How far an item is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TodoStatus {
    /// Not begun.
    Pending,
    /// Being worked on.
    InProgress,
    /// Done.
    Completed,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_event_of_a_later_version_is_kept_as_it_came() {
        let raw = json!({"type": "from_the_future", "x": [1, 2]});
        let event: Event = serde_json::from_value(raw.clone()).unwrap();
        assert_eq!(event, Event::Unknown(raw.clone()));
        assert!(event.is_durable());
        assert_eq!(serde_json::to_value(&event).unwrap(), raw);
    }
}

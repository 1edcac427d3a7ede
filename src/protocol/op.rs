//! What a front end may ask of a session, and the questions a session asks back.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::event::AgentPath;
use super::message::{Block, MessageId, ToolCall};
use super::tool::Access;

/// An order to a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Op {
    /// Start a turn, or queue the text if one runs.
    Prompt {
        /// What the user said.
        blocks: Vec<Block>,
    },
    /// Answer a question.
    Decide {
        /// Which.
        request: u64,
        /// The answer.
        decision: Decision,
    },
    /// End the running turn.
    Interrupt,
    /// Make room now.
    Compact {
        /// What to keep in view.
        focus: Option<String>,
    },
    /// Change the permission mode.
    SetMode {
        /// To what.
        mode: Mode,
    },
    /// Change the model.
    SetModel {
        /// To what: an id or an alias.
        model: String,
    },
    /// Forget the conversation, keep the session.
    Clear,
    /// Go back to before a message.
    Rewind {
        /// Which.
        to: MessageId,
    },
}

/// The answer to a question.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Decision {
    /// Run it.
    Allow {
        /// An edited input; it is judged again.
        #[serde(default)]
        input: Option<Value>,
        /// A rule to keep from now on.
        #[serde(default)]
        save: Option<(RuleOffer, Scope)>,
    },
    /// Do not run it.
    Deny {
        /// The user's words for the model.
        #[serde(default)]
        feedback: Option<String>,
        /// Also end the turn.
        #[serde(default)]
        end_turn: bool,
    },
}

impl Decision {
    /// A plain yes, once.
    #[must_use]
    pub fn allow() -> Self {
        Self::Allow { input: None, save: None }
    }

    /// A plain no with words for the model.
    pub fn deny(feedback: impl Into<String>) -> Self {
        Self::Deny { feedback: Some(feedback.into()), end_turn: false }
    }
}

/// How much runs without a question.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Mode {
    /// Reads run, the rest asks.
    #[default]
    #[serde(rename = "default", alias = "manual")]
    Default,
    /// Edits in the workspace run too.
    #[serde(rename = "acceptEdits")]
    AcceptEdits,
    /// Only reads.
    #[serde(rename = "plan")]
    Plan,
    /// What would ask is denied.
    #[serde(rename = "dontAsk")]
    DontAsk,
    /// Everything runs.
    #[serde(rename = "bypassPermissions", alias = "bypass")]
    BypassPermissions,
}

impl Mode {
    /// The name on the command line and on the wire.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::AcceptEdits => "acceptEdits",
            Self::Plan => "plan",
            Self::DontAsk => "dontAsk",
            Self::BypassPermissions => "bypassPermissions",
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A mode name that does not exist.
#[derive(Debug, thiserror::Error)]
#[error("unknown permission mode '{0}'; use default, acceptEdits, plan, dontAsk or bypassPermissions")]
pub struct UnknownMode(String);

impl FromStr for Mode {
    type Err = UnknownMode;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "default" | "manual" => Ok(Self::Default),
            "acceptEdits" | "accept-edits" => Ok(Self::AcceptEdits),
            "plan" => Ok(Self::Plan),
            "dontAsk" | "dont-ask" => Ok(Self::DontAsk),
            "bypassPermissions" | "bypass" => Ok(Self::BypassPermissions),
            other => Err(UnknownMode(other.to_owned())),
        }
    }
}

/// A question to the user: may this call run?
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PermissionRequest {
    /// Its number, unique in the process.
    pub id: u64,
    /// Who asks.
    pub agent: AgentPath,
    /// The call.
    pub call: ToolCall,
    /// What it would touch.
    pub access: Access,
    /// The pieces that would run or be touched, each with its own verdict.
    pub parts: Vec<Part>,
    /// Why it is asked.
    pub reason: String,
    /// The flag or rule that would allow it unasked.
    #[serde(default)]
    pub hint: String,
    /// The rule that decided, if one did.
    #[serde(default)]
    pub deciding_rule: Option<String>,
    /// What an edit would change.
    #[serde(default)]
    pub diff: Option<String>,
    /// Rules that an "always" could save.
    #[serde(default)]
    pub offers: Vec<RuleOffer>,
}

/// One piece of a call: a simple command, a path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// The piece.
    pub text: String,
    /// What the policy says of it alone.
    pub verdict: VerdictKind,
}

/// A rule that could be saved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleOffer {
    /// As it would be written.
    pub rule: String,
}

/// How long a saved rule lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// This session.
    Session,
    /// This checkout, not shared.
    Local,
    /// This project, shared.
    Project,
    /// Everything this user does.
    User,
}

/// What the policy says of a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// The verdict.
    pub kind: VerdictKind,
    /// Why.
    pub reason: String,
    /// The flag or rule that would allow it; empty where nothing would.
    #[serde(default)]
    pub hint: String,
    /// The rule that decided, if one did.
    #[serde(default)]
    pub rule: Option<String>,
    /// The pieces with their own verdicts.
    #[serde(default)]
    pub parts: Vec<Part>,
    /// Rules that an "always" could save.
    #[serde(default)]
    pub offers: Vec<RuleOffer>,
}

impl Verdict {
    /// A verdict with a reason alone.
    pub fn new(kind: VerdictKind, reason: impl Into<String>) -> Self {
        Self {
            kind,
            reason: reason.into(),
            hint: String::new(),
            rule: None,
            parts: Vec::new(),
            offers: Vec::new(),
        }
    }
}

/// The three answers of a policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VerdictKind {
    /// Runs.
    Allow,
    /// Asks the user.
    Ask,
    /// Never runs.
    Deny,
}

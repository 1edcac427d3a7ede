//! How a turn ended: data in the stream, never an error of a function.

use serde::{Deserialize, Serialize};

/// How a turn ended. A turn cannot fail, it ends.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum TurnOutcome {
    /// The model had no more to do.
    Completed,
    /// The user interrupted.
    Aborted,
    /// The limit of rounds was reached.
    MaxTurns {
        /// The limit.
        limit: u32,
    },
    /// A limit of cost, tokens or time was reached.
    Budget {
        /// Which, and its value.
        reason: String,
    },
    /// The same thing happened again and again.
    Stuck {
        /// What.
        reason: String,
    },
    /// The model or its provider declined.
    Refusal {
        /// Its words, if any.
        reason: String,
    },
    /// Something went wrong that no recovery could mend.
    Error {
        /// What, and what to do.
        message: String,
        /// Kind of the error, for scripts.
        kind: ErrorKind,
    },
}

/// Kinds of errors that end a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// The service could not be reached or kept failing.
    Unavailable,
    /// The conversation does not fit the window.
    ContextOverflow,
    /// The key is missing or wrong.
    Auth,
    /// Nothing left to spend.
    Quota,
    /// No such model.
    NotFound,
    /// The service refused the request.
    Invalid,
    /// No model is set up, or the built-in one does not understand the request.
    NoModel,
    /// Ours: the disk, a hook, an internal fault.
    Internal,
}

impl TurnOutcome {
    /// The word used in trace, log and wire.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Aborted => "aborted",
            Self::MaxTurns { .. } => "max_turns",
            Self::Budget { .. } => "budget",
            Self::Stuck { .. } => "stuck",
            Self::Refusal { .. } => "refusal",
            Self::Error { .. } => "error",
        }
    }

    /// A sentence for the user on how the turn ended and how to go on; empty for a completed one.
    #[must_use]
    pub fn sentence(&self) -> String {
        match self {
            Self::Completed => String::new(),
            Self::Aborted => "Interrupted.".to_owned(),
            Self::MaxTurns { limit } => format!(
                "Stopped after {limit} rounds. Go on with `--continue`, or allow more with `--max-turns`."
            ),
            Self::Budget { reason } => {
                format!("Stopped: {reason}. Go on with `--continue` and a higher limit.")
            }
            Self::Stuck { reason } => format!("Stopped, the work is stuck: {reason}."),
            Self::Refusal { reason } if reason.is_empty() => "The model declined to answer.".to_owned(),
            Self::Refusal { reason } => format!("The model declined to answer: {reason}"),
            Self::Error { message, .. } => message.clone(),
        }
    }
}

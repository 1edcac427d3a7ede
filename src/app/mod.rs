//! The composition root: builds the parts from a `Config`, runs them behind one actor, hands out a `Handle`.

mod actor;
pub mod commands;
mod connect;
pub mod doctor;
mod host;
mod outbox;
mod recorder;
pub mod signals;
mod start;
mod stderr;
pub mod visible;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::protocol::{Envelope, Mode, ModelId, Op, ToolCall, Usage};

pub use connect::LocalModel;
pub use outbox::Events;
pub use start::{StartError, start};
pub use stderr::say;

/// All that a front end holds of a session.
#[derive(Debug)]
pub struct Handle {
    /// Orders to the session. Dropping the last sender ends it.
    pub ops: mpsc::UnboundedSender<Op>,
    /// What happens, in order.
    pub events: Events,
    /// Facts that do not change.
    pub info: SessionInfo,
    status: Arc<Mutex<Status>>,
    task: JoinHandle<()>,
}

/// Facts about a session.
#[derive(Debug, Clone)]
pub struct SessionInfo {
    /// Its id.
    pub session: String,
    /// Its log.
    pub log: PathBuf,
    /// Working folder.
    pub cwd: PathBuf,
    /// Names of the advertised tools.
    pub tools: Vec<String>,
    /// Instruction files that were read.
    pub instructions: Vec<PathBuf>,
    /// How often a failed model call is made again at most.
    pub retries: u32,
    /// Where the key came from: `user`, `none`.
    pub key_source: &'static str,
    /// What was said before, when the session goes on.
    pub history: Vec<Envelope>,
}

/// What changes and a status line shows.
#[derive(Debug, Clone)]
pub struct Status {
    /// Who answers.
    pub model: ModelId,
    /// Its name, for people and for the wire.
    pub name: String,
    /// The mode.
    pub mode: Mode,
    /// Tokens of the session.
    pub usage: Usage,
    /// Tokens in the window after the newest call.
    pub context: u64,
    /// Size of the window in tokens.
    pub window: u64,
    /// US dollars, where the price is known.
    pub cost: Option<f64>,
    /// Whether a turn runs.
    pub busy: bool,
}

impl Handle {
    /// The status as it is now.
    pub fn status(&self) -> Status {
        self.status.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sends an order; false when the session has ended.
    pub fn send(&self, op: Op) -> bool {
        self.ops.send(op).is_ok()
    }

    /// Ends the session: a running turn is interrupted, everything it started is stopped.
    pub async fn close(self) {
        let Self { ops, events, task, .. } = self;
        drop(ops);
        drop(events);
        // A panic in the actor has been reported where it happened.
        drop(task.await);
    }
}

/// One line about a call, for people: the tool and what it is about.
#[must_use]
pub fn summary(call: &ToolCall) -> String {
    const FIELDS: [&str; 7] = ["description", "file_path", "command", "pattern", "url", "query", "path"];
    let field = |name: &str| call.input.get(name).and_then(|value| value.as_str());
    let about = match call.name.as_str() {
        // What runs matters more than what the model says of it.
        "Bash" => field("command"),
        _ => FIELDS.into_iter().find_map(field),
    };
    let line = about.map_or_else(|| call.name.clone(), |about| format!("{} {about}", call.name));
    visible::clipped(&visible::visible_line(&line), 160)
}

//! What a run was asked to do: layers of settings folded into one `Config`, each value knowing its source.

mod endpoint;
mod folders;
mod model;
mod resolve;
mod service;
mod settings;

use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;

use crate::protocol::{Mask, Mode};

pub use endpoint::{Effort, Endpoint, Protocol, Retry, Secret, Timers};
pub use folders::Folders;
pub use model::ModelChoice;
pub use resolve::{Env, Flags, resolve};
pub use settings::{ConfigError, Settings};

/// Where a value came from, weakest first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// Built in.
    Default,
    /// The user's settings file.
    User(PathBuf),
    /// An environment variable.
    Env(&'static str),
    /// A flag.
    Flag(&'static str),
}

impl std::fmt::Display for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Default => f.write_str("built in"),
            Self::User(path) => write!(f, "{}", path.display()),
            Self::Env(name) => write!(f, "environment, {name}"),
            Self::Flag(name) => write!(f, "flag, {name}"),
        }
    }
}

/// A value and where it came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sourced<T> {
    /// The value.
    pub value: T,
    /// Its source.
    pub origin: Origin,
}

impl<T> Sourced<T> {
    /// Pairs them.
    pub fn new(value: T, origin: Origin) -> Self {
        Self { value, origin }
    }
}

/// Everything a session needs to start.
#[derive(Debug, Clone)]
pub struct Config {
    /// Real path of the working folder.
    pub cwd: PathBuf,
    /// Real paths of further workspace folders.
    pub add_dirs: Vec<PathBuf>,
    /// The user's folders.
    pub folders: Folders,
    /// The model.
    pub model: Sourced<ModelChoice>,
    /// The user's entries for the model catalogue; an object, or null.
    pub models: Value,
    /// How hard to think.
    pub effort: Option<Sourced<Effort>>,
    /// The permission mode.
    pub mode: Sourced<Mode>,
    /// Edits in the workspace and commands run unasked.
    pub allow_write: Sourced<bool>,
    /// Allow rules, as written.
    pub allow: Vec<Sourced<String>>,
    /// Deny rules, as written.
    pub deny: Vec<Sourced<String>>,
    /// Rounds of a turn.
    pub max_turns: Option<u32>,
    /// US dollars of the session.
    pub max_cost: Option<f64>,
    /// Tokens of the session.
    pub max_tokens: Option<u64>,
    /// Wall time of a turn.
    pub max_time: Option<Duration>,
    /// How failed calls are repeated.
    pub retry: Retry,
    /// Replaces the system prompt's own text.
    pub system_prompt: Option<String>,
    /// Added to the system prompt.
    pub append_system_prompt: Option<String>,
    /// Go on with the newest session of this project.
    pub continue_session: bool,
    /// Secrets, masked wherever text enters.
    pub mask: Mask,
    /// Things the user should know that stop nothing.
    pub warnings: Vec<String>,
    /// What else was set, for a report; keys are only said to be set.
    pub facts: Vec<Fact>,
}

/// One value for a report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fact {
    /// Its name.
    pub name: String,
    /// The value as it may be shown.
    pub value: String,
    /// Its source.
    pub origin: Origin,
}

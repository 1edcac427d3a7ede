//! Which model a run talks to, decided from names, keys and addresses alone; nothing is contacted here.

use std::path::PathBuf;

use super::{Endpoint, Protocol};

/// A model and the way to it.
#[derive(Debug, Clone)]
pub enum ModelChoice {
    /// The built-in rules; `chosen` tells whether the user asked for them or nothing else was set up.
    Offline {
        /// Whether the user asked for it.
        chosen: bool,
    },
    /// A script.
    Script(PathBuf),
    /// Whatever local server is found.
    Auto,
    /// A service.
    Service {
        /// The model's name or alias.
        name: String,
        /// Where it is.
        endpoint: Box<Endpoint>,
    },
}

impl ModelChoice {
    /// The name for a status line.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Self::Offline { .. } => "offline".to_owned(),
            Self::Script(path) => format!("script:{}", path.display()),
            Self::Auto => "auto".to_owned(),
            Self::Service { name, .. } => name.clone(),
        }
    }
}

/// The protocol that a model's name speaks of, and the name without a protocol in front.
pub(super) fn protocol_of(name: &str) -> (Option<Protocol>, &str) {
    if let Some(rest) = name.strip_prefix("anthropic/") {
        return (Some(Protocol::Anthropic), rest);
    }
    if let Some(rest) = name.strip_prefix("openai/") {
        return (Some(Protocol::OpenAi), rest);
    }
    let lower = name.to_ascii_lowercase();
    let begins = |names: &[&str]| names.iter().any(|n| lower.starts_with(n));
    let protocol = if begins(&["claude"]) || ["sonnet", "opus", "haiku"].contains(&lower.as_str()) {
        Some(Protocol::Anthropic)
    } else if begins(&["gpt", "o1", "o3", "o4", "chatgpt", "codex", "deepseek"]) {
        Some(Protocol::OpenAi)
    } else {
        None
    };
    (protocol, name)
}

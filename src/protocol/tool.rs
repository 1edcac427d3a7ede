//! What a tool says about itself and about one call, before it runs.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A tool as the model sees it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolSpec {
    /// Matches `[A-Za-z0-9_-]{1,64}`.
    pub name: String,
    /// What it does and how to use it.
    pub description: String,
    /// JSON Schema of its input; the top level is an object.
    pub input_schema: Value,
}

/// What one call would touch; the gate judges this, never the tool's name alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", content = "of", rename_all = "snake_case")]
pub enum Access {
    /// Changes only what this session holds; needs no leave.
    Session,
    /// Reads files.
    Read(Vec<Target>),
    /// Changes files.
    Write(Vec<Target>),
    /// Runs a command. In doubt, a tool says this.
    Execute(String),
    /// Talks to a host.
    Network {
        /// Its name.
        host: String,
    },
    /// Runs on a server of someone else.
    Remote {
        /// The server's name.
        server: String,
        /// What the server claims.
        hints: Hints,
    },
}

impl Access {
    /// Whether calls of this kind may run beside each other.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        matches!(self, Self::Read(_) | Self::Network { .. })
    }
}

/// A path, resolved once by the workspace; the gate judges both spellings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    /// As the model wrote it, made absolute.
    pub shown: PathBuf,
    /// With every link resolved.
    pub real: PathBuf,
}

/// Claims of a remote server about its tool; never a proof.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hints {
    /// Changes nothing.
    pub read_only: bool,
    /// May destroy something.
    pub destructive: bool,
}

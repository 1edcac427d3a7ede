//! Tools: what the model can do, one file each, behind one trait and one typed adapter.

mod agent;
mod bash;
mod diff;
mod edit;
mod file;
mod glob;
mod grep;
mod ledger;
mod names;
mod number;
mod output;
mod read;
mod typed;
mod walk;
mod workspace;
mod write;

use std::fmt::Debug;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::process::Supervisor;
use crate::protocol::{Access, AgentPath, Block, Event, Message, StateChange, ToolSpec};

pub use typed::{Typed, TypedTool};
pub use workspace::Workspace;

/// Something the model can call.
#[async_trait]
pub trait Tool: Send + Sync + Debug {
    /// Name, description and schema.
    fn spec(&self) -> &ToolSpec;

    /// What this call would touch. The gate judges it, and a round of reads runs together.
    fn access(&self, input: &Value, workspace: &Workspace) -> Result<Access, ToolError>;

    /// Does it. The token in `cx` is cancelled 100 ms before the future is dropped.
    async fn run(&self, input: Value, cx: ToolCx<'_>) -> Result<ToolOutput, ToolError>;
}

/// What a running call may use.
#[derive(Debug, Clone, Copy)]
pub struct ToolCx<'a> {
    /// Who calls.
    pub agent: &'a AgentPath,
    /// Id of the call.
    pub call: &'a str,
    /// Set when the turn is interrupted.
    pub cancel: &'a CancellationToken,
    /// Folders and what this agent has read.
    pub workspace: &'a Workspace,
    /// Live output.
    pub progress: &'a dyn Progress,
    /// Starts child agents.
    pub spawn: &'a dyn Spawner,
    /// Keeps bytes beside the session.
    pub journal: &'a dyn Journal,
}

/// Takes the live output of a running call.
pub trait Progress: Send + Sync + Debug {
    /// New output; may be dropped when nobody can keep up.
    fn output(&self, text: &str);
}

/// Runs a child agent to its end.
#[async_trait]
pub trait Spawner: Send + Sync + Debug {
    /// The child's report.
    async fn run_child(&self, job: ChildJob) -> ChildReport;
}

/// What a child agent is asked to do.
#[derive(Debug, Clone)]
pub struct ChildJob {
    /// Id of the call that starts it.
    pub call: String,
    /// A few words for people.
    pub description: String,
    /// Its first user message.
    pub prompt: String,
    /// Names of the tools it gets; `None` is all but `Agent`.
    pub tool_names: Option<Vec<String>>,
}

/// How a child agent ended.
#[derive(Debug, Clone)]
pub enum ChildReport {
    /// It finished; its last words.
    Done {
        /// The last assistant text.
        text: String,
    },
    /// It did not; the reason, and its last words so far.
    Failed {
        /// Why.
        reason: String,
        /// The last assistant text, maybe empty.
        text: String,
    },
    /// It was never started.
    Refused {
        /// Why.
        reason: String,
    },
}

/// Why an event or a file could not be kept.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{0}")]
pub struct JournalError(pub String);

/// The durable record of a session. A failure ends the turn: nothing happens that is not on disk.
#[async_trait]
pub trait Journal: Send + Sync + Debug {
    /// Writes one event and gives its place in the log; returns once the OS has it.
    async fn record(&self, agent: &AgentPath, event: &Event) -> Result<u64, JournalError>;

    /// Forces everything to the disk; called at the end of a turn.
    async fn sync(&self) -> Result<(), JournalError>;

    /// Keeps bytes beside the log under a name like this one, and gives the path.
    async fn keep(&self, name: &str, bytes: &[u8]) -> Result<PathBuf, JournalError>;
}

/// What a call gives back.
#[derive(Debug, Clone, Default)]
pub struct ToolOutput {
    /// For the model.
    pub content: Vec<Block>,
    /// For user interfaces only.
    pub details: Value,
    /// What the engine must apply.
    pub effects: Vec<Effect>,
}

impl ToolOutput {
    /// Plain text for the model.
    pub fn text(text: impl Into<String>) -> Self {
        Self { content: vec![Block::text(text)], ..Self::default() }
    }
}

/// A change that only the engine may make.
#[derive(Debug, Clone)]
pub enum Effect {
    /// A message after all results of the round.
    Inject(Message),
    /// Make room at the next round.
    Compact {
        /// What to keep in view.
        focus: Option<String>,
    },
    /// A change of the agent's state.
    State(StateChange),
}

/// Why a call failed. The model sees every variant.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ToolError {
    /// The input does not fit the schema or makes no sense.
    #[error("invalid input: {0}")]
    InvalidInput(String),
    /// It was tried and did not work; `details` are for user interfaces.
    #[error("{0}")]
    Failed(String),
    /// As `Failed`, with content and details that are worth keeping.
    #[error("failed")]
    FailedWith(Box<ToolOutput>),
    /// The turn was interrupted.
    #[error("interrupted by the user")]
    Cancelled,
}

/// The callable tools; asked anew each round, since servers come and go.
pub trait ToolPool: Send + Sync + Debug {
    /// All of them, in a stable order.
    fn tools(&self) -> Vec<Arc<dyn Tool>>;
}

/// A pool that never changes.
#[derive(Debug, Clone, Default)]
pub struct FixedPool(pub Vec<Arc<dyn Tool>>);

impl ToolPool for FixedPool {
    fn tools(&self) -> Vec<Arc<dyn Tool>> {
        self.0.clone()
    }
}

/// Runs work that blocks on a thread of its own. A cancelled turn does not start it; a panic becomes an error.
async fn blocking<T: Send + 'static>(
    cancel: &CancellationToken,
    work: impl FnOnce() -> Result<T, ToolError> + Send + 'static,
) -> Result<T, ToolError> {
    if cancel.is_cancelled() {
        return Err(ToolError::Cancelled);
    }
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => Err(ToolError::Failed(format!("the tool broke down: {error}"))),
    }
}

/// The built-in tools, in the order in which the model sees them.
#[must_use]
pub fn builtin(supervisor: Supervisor) -> Vec<Arc<dyn Tool>> {
    vec![
        Arc::new(Typed::new(read::Read)),
        Arc::new(Typed::new(write::Write)),
        Arc::new(Typed::new(edit::Edit)),
        Arc::new(Typed::new(glob::Glob)),
        Arc::new(Typed::new(grep::Grep)),
        Arc::new(Typed::new(bash::Bash::new(supervisor))),
        Arc::new(Typed::new(agent::Agent)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_specs_are_small_and_say_what_each_field_is() {
        let tools = builtin(Supervisor::new(PathBuf::from("/reagent")));
        let names: Vec<&str> = tools.iter().map(|tool| tool.spec().name.as_str()).collect();
        assert_eq!(names, ["Read", "Write", "Edit", "Glob", "Grep", "Bash", "Agent"]);
        let specs: Vec<&ToolSpec> = tools.iter().map(|tool| tool.spec()).collect();
        let size = serde_json::to_string(&specs).unwrap().len();
        assert!(size <= 8 * 1024, "{size} bytes");
        for spec in &specs {
            assert_eq!(spec.input_schema["type"], "object", "{}", spec.name);
            for (name, field) in spec.input_schema["properties"].as_object().unwrap() {
                assert!(field["type"].is_string(), "{} {name}: {field}", spec.name);
                assert!(field["description"].is_string(), "{} {name}: {field}", spec.name);
            }
        }
        insta::assert_json_snapshot!("specs", specs);
    }
}

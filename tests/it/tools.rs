//! The built-in tools on real files and processes, called as the engine calls them.

mod change;
mod find;
mod read;
mod shell;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use reagent::protocol::{AgentPath, Event, text_of};
use reagent::tool::{
    ChildJob, ChildReport, Effect, Journal, JournalError, Progress, Spawner, Tool, ToolCx, ToolError,
    ToolOutput, Workspace, builtin,
};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::process::supervisor;

/// A workspace in a fresh folder, and everything a call may use.
#[derive(Debug)]
pub(crate) struct Bench {
    pub(crate) root: PathBuf,
    pub(crate) workspace: Workspace,
    pub(crate) cancel: CancellationToken,
    pub(crate) host: Host,
    tools: Vec<Arc<dyn Tool>>,
    agent: AgentPath,
    _folder: tempfile::TempDir,
}

/// What a call gave: text for the model, whether it is an error, and details.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Reply {
    pub(crate) text: String,
    pub(crate) is_error: bool,
    pub(crate) details: Value,
}

impl Bench {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("work");
        fs::create_dir(&root).unwrap();
        let root = root.canonicalize().unwrap();
        Self {
            workspace: Workspace::new(root.clone(), Vec::new()),
            host: Host { kept: folder.path().join("kept"), ..Host::default() },
            cancel: CancellationToken::new(),
            tools: builtin(supervisor()),
            agent: AgentPath::root(),
            root,
            _folder: folder,
        }
    }

    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    }

    pub(crate) fn bytes(&self, name: &str) -> Vec<u8> {
        fs::read(self.root.join(name)).unwrap()
    }

    /// Calls a tool; access is computed first, as the gate would have it.
    pub(crate) async fn call(&self, name: &str, input: Value) -> Reply {
        match self.output(name, input).await {
            Ok(output) => Reply { text: text_of(&output.content), is_error: false, details: output.details },
            Err(ToolError::FailedWith(output)) => {
                Reply { text: text_of(&output.content), is_error: true, details: output.details }
            }
            Err(error) => Reply { text: error.to_string(), is_error: true, details: Value::Null },
        }
    }

    pub(crate) async fn output(&self, name: &str, input: Value) -> Result<ToolOutput, ToolError> {
        let tool = self.tools.iter().find(|tool| tool.spec().name == name).unwrap();
        tool.access(&input, &self.workspace)?;
        let cx = ToolCx {
            agent: &self.agent,
            call: "call_1",
            cancel: &self.cancel,
            workspace: &self.workspace,
            progress: &self.host,
            spawn: &self.host,
            journal: &self.host,
        };
        tool.run(input, cx).await
    }

    /// Calls a tool that must succeed.
    pub(crate) async fn ok(&self, name: &str, input: Value) -> String {
        let reply = self.call(name, input.clone()).await;
        assert!(!reply.is_error, "{name} {input}: {}", reply.text);
        reply.text
    }

    /// Calls a tool that must fail.
    pub(crate) async fn fails(&self, name: &str, input: Value) -> String {
        let reply = self.call(name, input.clone()).await;
        assert!(reply.is_error, "{name} {input}: {}", reply.text);
        reply.text
    }
}

/// Plays the engine: takes live output, keeps bytes, refuses children.
#[derive(Debug, Default)]
pub(crate) struct Host {
    kept: PathBuf,
    pub(crate) live: Mutex<Vec<String>>,
}

impl Progress for Host {
    fn output(&self, text: &str) {
        self.live.lock().unwrap().push(text.to_owned());
    }
}

#[async_trait]
impl Spawner for Host {
    async fn run_child(&self, job: ChildJob) -> ChildReport {
        match job.prompt.as_str() {
            "refuse" => ChildReport::Refused { reason: "too deep".to_owned() },
            prompt => ChildReport::Done { text: format!("did: {prompt}") },
        }
    }
}

#[async_trait]
impl Journal for Host {
    async fn record(&self, _: &AgentPath, _: &Event) -> Result<u64, JournalError> {
        Ok(0)
    }

    async fn sync(&self) -> Result<(), JournalError> {
        Ok(())
    }

    async fn keep(&self, name: &str, bytes: &[u8]) -> Result<PathBuf, JournalError> {
        let path = self.kept.join(Path::new(name).file_name().unwrap());
        fs::create_dir_all(&self.kept).unwrap();
        fs::write(&path, bytes).unwrap();
        Ok(path)
    }
}

#[tokio::test]
async fn agent_hands_the_job_to_the_spawner() {
    let bench = Bench::new();
    let job = |prompt: &str| serde_json::json!({"description": "Look around", "prompt": prompt});
    assert_eq!(bench.ok("Agent", job("look")).await, "[Agent: Look around]\ndid: look");
    let refused = bench.fails("Agent", job("refuse")).await;
    assert_eq!(refused, "[Agent: Look around] It was not started: too deep");
}

#[tokio::test]
async fn what_was_seen_is_journalled_and_restored() {
    let bench = Bench::new();
    bench.write("a.txt", "a\n");
    let output = bench.output("Read", serde_json::json!({"file_path": "a.txt"})).await.unwrap();
    let [Effect::State(change)] = output.effects.as_slice() else { panic!("{:?}", output.effects) };
    let resumed = Bench { workspace: bench.workspace.for_child(), ..bench };
    let edit = serde_json::json!({"file_path": "a.txt", "old_string": "a", "new_string": "b"});
    assert!(resumed.fails("Edit", edit.clone()).await.contains("has not been read yet"));
    resumed.workspace.apply(change);
    resumed.ok("Edit", edit).await;
    assert_eq!(resumed.bytes("a.txt"), b"b\n");
}

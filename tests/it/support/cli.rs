//! Runs the real binary in a project and a home of its own, with nothing of our environment but the PATH.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::process::{Child, Command};

use super::{ModelServer, Protocol};

/// No run may take longer.
const PATIENCE: Duration = Duration::from_mins(1);

/// A project folder and a home, both temporary.
#[derive(Debug)]
pub(crate) struct Project {
    root: Arc<tempfile::TempDir>,
}

impl Project {
    pub(crate) fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        for name in ["project", "home"] {
            std::fs::create_dir(root.path().join(name)).unwrap();
        }
        Self { root: Arc::new(root) }
    }

    /// A path in the project.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root.path().join("project").join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.root.path().join("home")
    }

    /// Where sessions lie.
    pub(crate) fn data(&self) -> PathBuf {
        self.home().join(".local/share/reagent")
    }

    /// The logs of all sessions, by name, which is by age.
    pub(crate) fn logs(&self) -> Vec<PathBuf> {
        let mut logs = Vec::new();
        let folders = std::fs::read_dir(self.data().join("projects")).into_iter().flatten().flatten();
        for folder in folders {
            let files = std::fs::read_dir(folder.path()).into_iter().flatten().flatten().map(|f| f.path());
            logs.extend(files.filter(|path| path.extension().is_some_and(|end| end == "jsonl")));
        }
        logs.sort();
        logs
    }

    /// The events of the only session.
    pub(crate) fn events(&self) -> Vec<Value> {
        let logs = self.logs();
        assert_eq!(logs.len(), 1, "{logs:?}");
        read_log(&logs[0])
    }

    /// A run without a model.
    pub(crate) fn bare(&self) -> Run {
        let root = Arc::clone(&self.root);
        let mut run = Run { args: Vec::new(), envs: Vec::new(), root, file_limit: None };
        run.envs.extend(std::env::var_os("PATH").map(|path| ("PATH".into(), path)));
        run
    }

    /// A run against a model server.
    pub(crate) fn run(&self, server: &ModelServer, protocol: Protocol) -> Run {
        let run = self.bare();
        match protocol {
            Protocol::Messages => {
                run.env("ANTHROPIC_BASE_URL", server.url()).env("REAGENT_MODEL", "claude-sonnet-4-5")
            }
            Protocol::Chat => {
                run.env("OPENAI_BASE_URL", format!("{}/v1", server.url())).env("REAGENT_MODEL", "gpt-4o")
            }
        }
    }
}

/// All lines of a log, each of which must be whole.
pub(crate) fn read_log(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    text.split('\n').filter(|line| !line.is_empty()).map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// One run of the binary, built up by the test.
#[derive(Debug, Clone)]
pub(crate) struct Run {
    args: Vec<String>,
    envs: Vec<(OsString, OsString)>,
    /// Lives as long as a run in it may be started.
    root: Arc<tempfile::TempDir>,
    /// Largest file in blocks of 512 bytes.
    file_limit: Option<u32>,
}

impl Run {
    pub(crate) fn env(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.envs.push((name.into(), value.into()));
        self
    }

    pub(crate) fn args(mut self, args: &[&str]) -> Self {
        self.args.extend(args.iter().map(|arg| (*arg).to_owned()));
        self
    }

    /// Lets no file grow beyond this many blocks of 512 bytes.
    pub(crate) fn limited_to(mut self, blocks: u32) -> Self {
        self.file_limit = Some(blocks);
        self
    }

    /// Starts it; a drop kills it.
    pub(crate) fn spawn(&self) -> Child {
        let binary = env!("CARGO_BIN_EXE_reagent");
        let mut command = match self.file_limit {
            None => Command::new(binary),
            Some(blocks) => {
                // SIGXFSZ is ignored so that a write fails as on a full disk.
                let script = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$0\" \"$@\"");
                let mut command = Command::new("/bin/sh");
                command.args(["-c", &script, binary]);
                command
            }
        };
        command
            .env_clear()
            .env("HOME", self.root.path().join("home"))
            .envs(self.envs.iter().map(|(name, value)| (name, value)))
            .args(&self.args)
            .current_dir(self.root.path().join("project"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap()
    }

    /// Runs one prompt to its end.
    pub(crate) async fn prompt(self, text: &str) -> Done {
        finish(self.args(&["-p", text]).spawn()).await
    }
}

/// Waits for the end.
pub(crate) async fn finish(child: Child) -> Done {
    let began = Instant::now();
    let output =
        tokio::time::timeout(PATIENCE, child.wait_with_output()).await.expect("the run ends").unwrap();
    Done {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
        took: began.elapsed(),
    }
}

/// Shown when the test fails.
#[expect(clippy::print_stderr, reason = "the test's own output")]
pub(crate) fn say(text: &str) {
    eprintln!("{text}");
}

/// What a run left behind.
#[derive(Debug)]
pub(crate) struct Done {
    /// Exit code; -1 for a signal.
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) took: Duration,
}

impl Done {
    /// Code and answer together, so that a failure shows both; stderr goes to the test's own output.
    pub(crate) fn ended(&self) -> (i32, &str) {
        say(&self.stderr);
        (self.code, self.stdout.trim_end())
    }

    /// stdout as one JSON object.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// stdout as lines of JSON.
    pub(crate) fn lines(&self) -> Vec<Value> {
        self.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// How many further attempts were announced.
    pub(crate) fn retries(&self) -> usize {
        self.stderr.lines().filter(|line| line.trim_start().starts_with("retrying (")).count()
    }
}

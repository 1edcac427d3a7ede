//! `Project`: a folder and a home of its own for the real binary, and runs of it that never last for ever.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

use super::ModelServer;

/// No run of these tests takes so long unless it hangs.
const PATIENCE: Duration = Duration::from_secs(40);

/// The key that the runs carry. Nothing but a request may ever show it.
pub(crate) const KEY: &str = "sk-planted-7f3a9c51d2e8";

/// A working folder and a home, both temporary.
#[derive(Debug)]
pub(crate) struct Project {
    dir: TempDir,
}

/// How a run ended and what it wrote.
#[derive(Debug, Clone)]
pub(crate) struct Finished {
    /// The exit code; 128 + N for a signal.
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Project {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let project = Self { dir };
        std::fs::create_dir_all(project.home()).expect("a home");
        std::fs::create_dir_all(project.work()).expect("a working folder");
        project
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.root().join("home")
    }

    pub(crate) fn work(&self) -> PathBuf {
        self.root().join("work")
    }

    /// The folder that holds both, without links in its path.
    pub(crate) fn root(&self) -> PathBuf {
        self.dir.path().canonicalize().expect("the temporary folder")
    }

    /// Writes a file of the working folder.
    pub(crate) fn write(&self, path: &str, text: &str) -> PathBuf {
        write(&self.work().join(path), text)
    }

    /// Reads a file of the working folder; empty if there is none.
    pub(crate) fn read(&self, path: &str) -> String {
        std::fs::read_to_string(self.work().join(path)).unwrap_or_default()
    }

    /// Writes the user's settings.
    pub(crate) fn settings(&self, text: &str) -> PathBuf {
        write(&self.home().join(".config/reagent/settings.json"), text)
    }

    /// Every file that was left under the home, with its bytes as text.
    pub(crate) fn left_behind(&self) -> Vec<(PathBuf, String)> {
        let mut files = Vec::new();
        collect(&self.home(), &mut files);
        files
    }

    /// The log of the only session.
    pub(crate) fn log(&self) -> Vec<Value> {
        let files = self.left_behind();
        let logs: Vec<_> =
            files.iter().filter(|(path, _)| path.extension().is_some_and(|e| e == "jsonl")).collect();
        assert_eq!(logs.len(), 1, "{:?}", files.iter().map(|(path, _)| path).collect::<Vec<_>>());
        logs[0].1.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
    }

    /// The binary in this project: no terminal, an empty stdin, and of the environment only PATH.
    pub(crate) fn reagent<S: AsRef<std::ffi::OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Command {
        let mut command = self.program(env!("CARGO_BIN_EXE_reagent").as_ref());
        command.args(args);
        command
    }

    /// A shell script in this project; `$REAGENT` is the binary.
    pub(crate) fn shell(&self, script: &str) -> Command {
        let mut command = self.program("/bin/sh".as_ref());
        command.arg("-c").arg(script).env("REAGENT", env!("CARGO_BIN_EXE_reagent"));
        command
    }

    fn program(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.home())
            .current_dir(self.work())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        command
    }
}

/// Points a run at a server.
pub(crate) trait Pointed {
    /// By the Messages protocol.
    fn messages(self, server: &ModelServer) -> Self;
    /// By the Chat Completions protocol.
    fn chat(self, server: &ModelServer) -> Self;
    /// Sets a variable.
    fn with(self, name: &str, value: &str) -> Self;
}

impl Pointed for Command {
    fn messages(self, server: &ModelServer) -> Self {
        self.with("ANTHROPIC_BASE_URL", server.url()).with("ANTHROPIC_API_KEY", KEY)
    }

    fn chat(self, server: &ModelServer) -> Self {
        self.with("OPENAI_BASE_URL", &format!("{}/v1", server.url())).with("OPENAI_API_KEY", KEY)
    }

    fn with(mut self, name: &str, value: &str) -> Self {
        self.env(name, value);
        self
    }
}

/// Runs to the end.
pub(crate) async fn finish(mut command: Command) -> Finished {
    finished(command.spawn().expect("the program starts")).await
}

/// Runs to the end with this text on stdin.
pub(crate) async fn finish_with_stdin(mut command: Command, text: &str) -> Finished {
    let mut child = command.stdin(Stdio::piped()).spawn().expect("the program starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    // One that does not read its input is no fault of this helper.
    drop(stdin.write_all(text.as_bytes()).await);
    drop(stdin);
    finished(child).await
}

/// Waits for the end of a child.
pub(crate) async fn finished(child: tokio::process::Child) -> Finished {
    let output = tokio::time::timeout(PATIENCE, child.wait_with_output())
        .await
        .expect("the run hangs")
        .expect("the child can be waited for");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Finished { code: code(output.status), stdout: text(&output.stdout), stderr: text(&output.stderr) }
}

/// The exit code as a shell would show it.
pub(crate) fn code(status: std::process::ExitStatus) -> i32 {
    use std::os::unix::process::ExitStatusExt as _;
    status.code().or_else(|| status.signal().map(|signal| 128 + signal)).expect("an end")
}

impl Finished {
    /// Stdout as lines of JSON; each must be an object.
    pub(crate) fn lines(&self) -> Vec<Value> {
        let parse = |line: &str| -> Value {
            let value = serde_json::from_str(line);
            value.unwrap_or_else(|error| panic!("{error}: {line:?}\n{}", self.stderr))
        };
        let lines: Vec<Value> = self.stdout.lines().map(parse).collect();
        assert!(lines.iter().all(Value::is_object), "{}", self.stdout);
        lines
    }

    /// The result record of a machine-readable run.
    pub(crate) fn result(&self) -> Value {
        let lines = self.lines();
        let last = lines.last().unwrap_or_else(|| panic!("nothing on stdout\n{}", self.stderr));
        assert_eq!(last["type"], "result", "{}", self.stdout);
        let results = lines.iter().filter(|line| line["type"] == "result").count();
        assert_eq!(results, 1, "{}", self.stdout);
        last.clone()
    }
}

fn write(path: &Path, text: &str) -> PathBuf {
    std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
    std::fs::write(path, text).expect("a file");
    path.to_owned()
}

fn collect(folder: &Path, into: &mut Vec<(PathBuf, String)>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, into);
        } else {
            let bytes = std::fs::read(&path).unwrap_or_default();
            into.push((path, String::from_utf8_lossy(&bytes).into_owned()));
        }
    }
}

//! `Terminal`: the real binary in a pseudo-terminal, with what a person would see and type.

use std::io::{Read as _, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};
use tokio::sync::watch;

use super::{KEY, ModelServer, Project};

/// How long something may take to show up before the test fails.
const PATIENCE: Duration = Duration::from_secs(20);

/// A session at a terminal of 100 columns and 30 lines.
pub(crate) struct Terminal {
    keys: Box<dyn Write + Send>,
    child: Box<dyn Child + Send + Sync>,
    master: Box<dyn MasterPty + Send>,
    written: Arc<Mutex<Vec<u8>>>,
    changed: watch::Receiver<usize>,
    /// How much of the visible text was seen already; in bytes.
    seen: usize,
}

impl Terminal {
    /// Starts the binary against a server that speaks Messages, and waits for the first prompt.
    pub(crate) async fn start(project: &Project, server: &ModelServer, args: &[&str]) -> Self {
        let mut terminal = Self::bare(project, server, args);
        terminal.sees("/help shows the commands.").await;
        terminal.sees("> ").await;
        terminal
    }

    /// As [`Self::start`], without waiting.
    pub(crate) fn bare(project: &Project, server: &ModelServer, args: &[&str]) -> Self {
        let size = PtySize { rows: 30, cols: 100, pixel_width: 0, pixel_height: 0 };
        let pair = native_pty_system().openpty(size).expect("a pseudo-terminal");
        let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_reagent"));
        command.env_clear();
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("HOME", project.home());
        command.env("TERM", "xterm-256color");
        command.env("ANTHROPIC_BASE_URL", server.url());
        command.env("ANTHROPIC_API_KEY", KEY);
        command.cwd(project.work());
        command.args(args);
        let child = pair.slave.spawn_command(command).expect("the program starts");
        drop(pair.slave);
        let written = Arc::new(Mutex::new(Vec::new()));
        let (change, changed) = watch::channel(0);
        let mut reader = pair.master.try_clone_reader().expect("a reader");
        let keep = Arc::clone(&written);
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = reader.read(&mut buffer) {
                let mut all = keep.lock().unwrap_or_else(PoisonError::into_inner);
                all.extend_from_slice(&buffer[..count]);
                change.send_replace(all.len());
            }
        });
        let keys = pair.master.take_writer().expect("a writer");
        Self { keys, child, master: pair.master, written, changed, seen: 0 }
    }

    /// All bytes so far.
    pub(crate) fn raw(&self) -> Vec<u8> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// All visible text so far.
    pub(crate) fn text(&self) -> String {
        visible(&self.raw())
    }

    /// The visible text that nobody has looked at yet.
    pub(crate) fn unseen(&self) -> String {
        self.text().split_off(self.seen)
    }

    /// Waits until this text shows behind what was seen before, and gives all up to its end.
    pub(crate) async fn sees(&mut self, text: &str) -> String {
        let mut changed = self.changed.clone();
        let wait = async {
            loop {
                changed.borrow_and_update();
                let mut fresh = self.unseen();
                if let Some(at) = fresh.find(text) {
                    fresh.truncate(at + text.len());
                    return fresh;
                }
                let runs = changed.changed().await.is_ok();
                assert!(runs, "the program ended without {text:?}:\n{}", self.text());
            }
        };
        match tokio::time::timeout(PATIENCE, wait).await {
            Ok(found) => {
                self.seen += found.len();
                found
            }
            Err(late) => panic!("{text:?} does not show ({late}):\n{}", self.text()),
        }
    }

    /// Types.
    pub(crate) fn send(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).expect("the terminal takes keys");
        self.keys.flush().expect("the terminal takes keys");
    }

    /// Types a line.
    pub(crate) fn line(&mut self, text: &str) {
        self.send(&format!("{text}\r"));
    }

    /// Types a line and waits for the prompt behind this answer.
    pub(crate) async fn answered(&mut self, line: &str, answer: &str) -> String {
        self.line(line);
        let shown = self.sees(answer).await;
        self.sees("\n> ").await;
        shown
    }

    /// Sends a signal to the program.
    pub(crate) fn signal(&self, signal: nix::sys::signal::Signal) {
        let pid = i32::try_from(self.child.process_id().expect("it runs")).expect("a pid");
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), signal).expect("it can be signalled");
    }

    /// The settings of the terminal, for comparison.
    pub(crate) fn settings(&self) -> String {
        format!("{:?}", self.master.get_termios())
    }

    /// Waits for the end; the exit code.
    pub(crate) async fn ended(&mut self) -> u32 {
        let mut child = self.child.clone_killer();
        let deadline = tokio::time::Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().expect("it can be waited for") {
                return status.exit_code();
            }
            if tokio::time::Instant::now() > deadline {
                drop(child.kill());
                panic!("it does not end:\n{}", self.text());
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// The text without the sequences that steer a terminal, and without carriage returns.
fn visible(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let mut out = String::new();
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match (c, chars.peek()) {
            ('\x1b', Some('[')) => {
                chars.next();
                while chars.next().is_some_and(|c| !('\x40'..='\x7e').contains(&c)) {}
            }
            ('\x1b', Some(']')) => while chars.next().is_some_and(|c| c != '\x07') {},
            ('\x1b', Some(_)) => drop(chars.next()),
            ('\x1b' | '\r', _) => {}
            (c, _) => out.push(c),
        }
    }
    out
}

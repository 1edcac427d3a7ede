//! The Bash tool: one shell command with its whole tree under the supervisor, its output capped and live.

use std::ffi::OsString;
use std::fmt::Write;
use std::io;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use nix::sys::signal::Signal;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

use super::number::Whole;
use super::{Progress, ToolCx, ToolError, ToolOutput, TypedTool, Workspace, output};
use crate::process::{Capture, Environment, Exit, Spec, Supervisor, Utf8Stream};
use crate::protocol::Access;

/// Without a timeout, and the longest one, in ms.
const TIMEOUT: u64 = 120_000;
const LONGEST: u64 = 600_000;
/// Characters for the model: from the start and from the end of a longer output.
const SHOWN: usize = 30_000;
const SHOWN_HEAD: usize = 10_000;
/// Bytes held of the output, and kept in a file when the model does not see them all.
const HEAD: usize = 4 * 1024 * 1024;
const TAIL: usize = 12 * 1024 * 1024;
/// Live output comes at most this often, and at most so much of it, in bytes.
const LIVE_EVERY: Duration = Duration::from_millis(50);
const LIVE: usize = 8 * 1024;
/// How long an ended tree is waited for; after an interruption the whole call has 100 ms.
const AFTER_TIMEOUT: Duration = Duration::from_millis(500);
const AFTER_INTERRUPT: Duration = Duration::from_millis(50);

/// Programs that would wait for a human get an answer at once.
const SET: &[(&str, &str)] = &[
    ("GIT_EDITOR", "true"),
    ("GIT_PAGER", "cat"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("PAGER", "cat"),
    ("TERM", "dumb"),
];
/// Our own keys are none of a command's business.
const WITHHELD: &[&str] = &["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "OPENAI_API_KEY"];

/// Runs shell commands.
#[derive(Debug)]
pub(super) struct Bash {
    supervisor: Supervisor,
    shell: &'static str,
}

impl Bash {
    pub(super) fn new(supervisor: Supervisor) -> Self {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let bash = std::env::split_paths(&path).any(|folder| folder.join("bash").is_file());
        Self { supervisor, shell: if bash { "bash" } else { "sh" } }
    }

    fn spec(&self, command: &str, cwd: &Path) -> Spec {
        let set = SET.iter().map(|(name, value)| (OsString::from(name), OsString::from(value)));
        let remove = WITHHELD.iter().map(OsString::from);
        let mut spec = Spec::new(self.shell, cwd).args(["-c", command]);
        spec.env = Environment { set: set.collect(), remove: remove.collect(), ..Environment::default() };
        spec
    }
}

#[derive(Debug, Clone, Deserialize, JsonSchema)]
pub(super) struct Input {
    /// The command.
    command: String,
    /// What it does, in a few words.
    #[serde(rename = "description")]
    _description: Option<String>,
    /// In ms, at most 600000.
    #[schemars(extend("default" = TIMEOUT))]
    timeout: Option<Whole>,
}

#[async_trait]
impl TypedTool for Bash {
    type Input = Input;
    const NAME: &'static str = "Bash";
    const DESCRIPTION: &'static str = include_str!("bash.md");

    fn access(&self, input: &Input, _: &Workspace) -> Result<Access, ToolError> {
        Ok(Access::Execute(input.command.clone()))
    }

    async fn run(&self, input: Input, cx: ToolCx<'_>) -> Result<ToolOutput, ToolError> {
        if input.command.trim().is_empty() || input.command.contains('\0') {
            return Err(ToolError::InvalidInput("command is empty or holds a NUL".to_owned()));
        }
        let limit = match input.timeout.map_or(TIMEOUT, |limit| limit.0) {
            0 => return Err(ToolError::InvalidInput("timeout must be 1 ms or more".to_owned())),
            limit => Duration::from_millis(limit.min(LONGEST)),
        };
        let start = Instant::now();
        let mut capture = Capture::new(HEAD, TAIL);
        let end = self.follow(&input.command, limit, &mut capture, cx).await?;
        Report { end, took: start.elapsed(), limit, capture }.tell(cx).await
    }
}

/// Why a call is over.
#[derive(Debug, Clone, Copy)]
enum End {
    Ended(Exit),
    TimedOut,
    Interrupted,
}

impl Bash {
    async fn follow(
        &self,
        command: &str,
        limit: Duration,
        capture: &mut Capture,
        cx: ToolCx<'_>,
    ) -> Result<End, ToolError> {
        let failed = |error: io::Error| match error.kind() {
            io::ErrorKind::ArgumentListTooLong => ToolError::Failed(format!(
                "The command is too long for the system ({} bytes). Write it to a file and run that.",
                output::thousands(command.len() as u64)
            )),
            _ => ToolError::Failed(format!("The command could not be run: {error}.")),
        };
        let mut running = self.supervisor.spawn(&self.spec(command, cx.workspace.cwd())).map_err(failed)?;
        // The timer below needs it as well as the reader.
        let live = Mutex::new(Live::new(cx.progress));
        let show = |bytes: Option<&[u8]>| live.lock().unwrap_or_else(PoisonError::into_inner).take(bytes);
        let end = {
            let mut ticks = interval(LIVE_EVERY);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            let following = running.follow(|_, bytes| {
                capture.push(bytes);
                show(Some(bytes));
            });
            let limit = sleep(limit);
            tokio::pin!(following, limit);
            loop {
                tokio::select! {
                    biased;
                    () = cx.cancel.cancelled() => break End::Interrupted,
                    exit = &mut following => break End::Ended(exit.map_err(failed)?),
                    () = &mut limit => break End::TimedOut,
                    _ = ticks.tick() => show(None),
                }
            }
        };
        let patience = match end {
            End::Ended(_) => None,
            End::TimedOut => Some(AFTER_TIMEOUT),
            End::Interrupted => Some(AFTER_INTERRUPT),
        };
        if let Some(patience) = patience {
            // The supervisor goes on with it, however long we wait.
            running.stop();
            timeout(patience, running.follow(|_, bytes| capture.push(bytes))).await.ok();
        }
        show(None);
        Ok(end)
    }
}

/// Output for people who watch, whole characters at a bearable pace.
struct Live<'a> {
    progress: &'a dyn Progress,
    decoder: Utf8Stream,
    pending: String,
    last: Option<Instant>,
}

impl<'a> Live<'a> {
    fn new(progress: &'a dyn Progress) -> Self {
        Self { progress, decoder: Utf8Stream::default(), pending: String::new(), last: None }
    }

    /// Takes new bytes, and shows what is due.
    fn take(&mut self, bytes: Option<&[u8]>) {
        if let Some(bytes) = bytes {
            self.pending.push_str(&self.decoder.push(bytes));
            if self.pending.len() > LIVE {
                self.pending = output::tail(&self.pending, LIVE / 4).1.to_owned();
            }
        }
        let due = bytes.is_none() || self.last.is_none_or(|last| last.elapsed() >= LIVE_EVERY);
        if due && !self.pending.is_empty() {
            self.progress.output(&std::mem::take(&mut self.pending));
            self.last = Some(Instant::now());
        }
    }
}

/// A finished call.
struct Report {
    end: End,
    took: Duration,
    limit: Duration,
    capture: Capture,
}

impl Report {
    async fn tell(self, cx: ToolCx<'_>) -> Result<ToolOutput, ToolError> {
        let (mut text, left_out) = shown(&self.capture);
        let mut kept = None;
        if let Some((tail, bytes)) = left_out {
            let name = format!("bash-{}.txt", cx.call);
            let path = cx.journal.keep(&name, &self.capture.bytes()).await;
            let whole = match (&path, self.capture.left_out()) {
                (Ok(path), 0) => format!("the whole output is in {}", path.display()),
                (Ok(path), lost) => format!(
                    "the output without {} bytes of its middle is in {}",
                    output::thousands(lost),
                    path.display()
                ),
                (Err(error), _) => format!("the output could not be kept: {error}"),
            };
            write!(text, "\n[{} bytes left out; {whole}]\n{tail}", output::thousands(bytes)).ok();
            kept = path.ok();
        }
        let mut text = text.trim_end().to_owned();
        if text.is_empty() {
            text.push_str("(no output)");
        }
        self.add_notes(&mut text);
        let exit = match self.end {
            End::Ended(exit) => exit,
            End::TimedOut | End::Interrupted => Exit::default(),
        };
        let details = json!({
            "exit_code": exit.code,
            "signal": exit.signal,
            "timed_out": matches!(self.end, End::TimedOut),
            "interrupted": matches!(self.end, End::Interrupted),
            "duration_ms": u64::try_from(self.took.as_millis()).unwrap_or(u64::MAX),
            "output_bytes": self.capture.total(),
            "kept": kept,
        });
        let output = ToolOutput { details, ..ToolOutput::text(text) };
        match exit.code {
            Some(0) => Ok(output),
            _ => Err(ToolError::FailedWith(Box::new(output))),
        }
    }

    fn add_notes(&self, text: &mut String) {
        let took = format!("{:.1} s", self.took.as_secs_f64());
        let limit = self.limit.as_secs_f64();
        match self.end {
            End::Ended(Exit { code: Some(0), .. }) if self.took < Duration::from_secs(1) => Ok(()),
            End::Ended(Exit { code: Some(0), .. }) => write!(text, "\n[exit code 0 after {took}]"),
            End::Ended(Exit { code: Some(code), .. }) => write!(text, "\n[exit code {code} after {took}]"),
            End::Ended(Exit { signal: Some(signal), .. }) => {
                let name = Signal::try_from(signal).map_or("unknown", Signal::as_str);
                write!(text, "\n[ended by signal {signal} ({name}) after {took}]")
            }
            End::Ended(_) => write!(text, "\n[ended in an unknown way after {took}]"),
            End::TimedOut => write!(
                text,
                "\n[timed out after {limit} s; the command and every process it started were ended]"
            ),
            End::Interrupted => write!(
                text,
                "\n[interrupted by the user after {took}; the command and every process it started were ended]"
            ),
        }
        .ok();
        if let End::Ended(exit) = self.end {
            if exit.left > 0 {
                let ended = output::count(exit.left, "process");
                write!(text, "\n[{ended} left running by the command: ended with it]").ok();
            }
            if exit.alive > 0 {
                write!(text, "\n[{} could not be ended]", output::count(exit.alive, "process")).ok();
            }
        }
    }
}

/// What the model sees of the output: all of it, or its start, its end, and how many bytes lie between.
fn shown(capture: &Capture) -> (String, Option<(String, u64)>) {
    let (head, tail) = capture.texts();
    let head = output::plain(&head);
    if capture.left_out() == 0 {
        if output::head(&head, SHOWN).1.is_empty() {
            return (head, None);
        }
        let (first, rest) = output::head(&head, SHOWN_HEAD);
        let (between, last) = output::tail(rest, SHOWN - SHOWN_HEAD);
        return (first.to_owned(), Some((last.to_owned(), between.len() as u64)));
    }
    let tail = output::plain(&tail);
    let first = output::head(&head, SHOWN_HEAD).0;
    let last = output::tail(&tail, SHOWN - SHOWN_HEAD).1;
    let left_out = capture.total().saturating_sub((first.len() + last.len()) as u64);
    (first.to_owned(), Some((last.to_owned(), left_out)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_output_keeps_its_start_and_its_end() {
        let check = |bytes: &[u8], caps: (usize, usize), first: usize, rest: Option<(usize, u64)>| {
            let mut capture = Capture::new(caps.0, caps.1);
            capture.push(bytes);
            let (head, tail) = shown(&capture);
            assert_eq!(head.chars().count(), first);
            assert_eq!(tail.map(|(tail, left_out)| (tail.chars().count(), left_out)), rest);
        };
        check(b"", (10, 10), 0, None);
        check(&b"x".repeat(SHOWN), (1 << 20, 1 << 20), SHOWN, None);
        check(&b"x".repeat(SHOWN + 7), (1 << 20, 1 << 20), SHOWN_HEAD, Some((SHOWN - SHOWN_HEAD, 7)));
        check(&b"x".repeat(100_000), (20_000, 20_000), SHOWN_HEAD, Some((SHOWN - SHOWN_HEAD, 70_000)));
        // O-SHELL-04: the cut falls between characters.
        let wide = "\u{7a7a}".repeat(70_000);
        check(wide.as_bytes(), (1 << 20, 1 << 20), SHOWN_HEAD, Some((SHOWN - SHOWN_HEAD, 40_000 * 3)));
    }
}

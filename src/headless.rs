//! One prompt without a person: the answer on stdout and nothing else, questions answered by policy.

mod answer;
mod json;
pub mod stdin;

use std::io::{IsTerminal as _, Write};

use tokio::signal;

use crate::app::Handle;
use crate::app::visible::{clipped, visible, visible_line};
use crate::protocol::{Block, Decision, Envelope, Event, Op, PermissionRequest, TurnOutcome};

use answer::Tally;
use json::Writer;

/// What stdout carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// The final answer.
    Text,
    /// One result object.
    Json,
    /// One object for each event, the result last.
    StreamJson,
}

/// How a run ended, as the exit code tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// 0: done.
    Done,
    /// 1: error, stuck or refused by the model.
    Failed,
    /// 2: wrong usage.
    Usage,
    /// 3: done, but a call was refused for want of leave.
    Denied,
    /// 4: the limit of rounds.
    MaxTurns,
    /// 5: a budget.
    Budget,
    /// 6: no model is set up.
    NoModel,
    /// 130: interrupted.
    Interrupted,
    /// 143: ended by SIGTERM.
    Terminated,
}

impl Exit {
    /// The number.
    #[must_use]
    pub fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::Denied => 3,
            Self::MaxTurns => 4,
            Self::Budget => 5,
            Self::NoModel => 6,
            Self::Interrupted => 130,
            Self::Terminated => 143,
        }
    }

    fn of(outcome: &TurnOutcome, tally: &Tally) -> Self {
        match outcome {
            TurnOutcome::Completed if tally.denials.is_empty() => Self::Done,
            TurnOutcome::Completed => Self::Denied,
            TurnOutcome::Aborted => Self::Interrupted,
            TurnOutcome::MaxTurns { .. } => Self::MaxTurns,
            TurnOutcome::Budget { .. } => Self::Budget,
            TurnOutcome::Error { kind: crate::protocol::ErrorKind::NoModel, .. } => Self::NoModel,
            TurnOutcome::Error { .. } | TurnOutcome::Stuck { .. } | TurnOutcome::Refusal { .. } => {
                Self::Failed
            }
        }
    }
}

/// Runs one prompt to its end.
pub async fn run(mut handle: Handle, prompt: Vec<Block>, format: Format) -> Exit {
    let mut screen = Screen::new(format);
    let mut tally = Tally::new();
    let writer = Writer::new(&handle, format);
    screen.keep(&writer.init(&handle));
    handle.send(Op::Prompt { blocks: prompt });
    let mut interrupts = Interrupts::new();
    let mut terminated = false;
    let outcome = loop {
        let envelope = tokio::select! {
            biased;
            signal = interrupts.next() => {
                match signal {
                    Signal::Interrupt if tally.interrupted => return Exit::Interrupted,
                    Signal::Terminate if terminated => return Exit::Terminated,
                    Signal::Terminate => terminated = true,
                    Signal::Interrupt => {}
                }
                tally.interrupted = true;
                handle.send(Op::Interrupt);
                continue;
            }
            envelope = handle.events.next() => envelope,
        };
        let Some(envelope) = envelope else {
            break TurnOutcome::Aborted;
        };
        tally.note(&envelope);
        screen.show(&envelope);
        if let Event::PermissionAsked { request } = &envelope.event {
            let decision = Decision::deny(nobody(request));
            handle.send(Op::Decide { request: request.id, decision });
        }
        screen.keep(&writer.event(&envelope, &tally));
        if screen.stdout_failed() {
            handle.send(Op::Interrupt);
        }
        if let (Event::TurnFinished { outcome }, true) = (&envelope.event, envelope.agent.is_root()) {
            break outcome.clone();
        }
    };
    let status = handle.status();
    screen.keep(&writer.result(&outcome, &tally, &status));
    let exit = screen.close(&outcome, &tally, terminated);
    handle.close().await;
    exit
}

/// Why a question was answered with no, and what would have made it a yes.
fn nobody(request: &PermissionRequest) -> String {
    let hint =
        if request.hint.is_empty() { String::new() } else { format!("; allow it with {}", request.hint) };
    format!("{}, and nobody is here to ask{hint}", request.reason)
}

/// What goes to the terminal and to stdout.
struct Screen {
    format: Format,
    /// stderr is a terminal: progress is shown.
    lively: bool,
    /// stdout is a terminal: foreign text is filtered.
    terminal: bool,
    failure: Option<std::io::Error>,
}

impl Screen {
    fn new(format: Format) -> Self {
        Self {
            format,
            lively: std::io::stderr().is_terminal(),
            terminal: std::io::stdout().is_terminal(),
            failure: None,
        }
    }

    fn keep(&mut self, lines: &[String]) {
        if self.failure.is_some() || lines.is_empty() {
            return;
        }
        let mut out = std::io::stdout().lock();
        let done = lines.iter().try_for_each(|line| writeln!(out, "{line}")).and_then(|()| out.flush());
        self.failure = done.err();
    }

    fn stdout_failed(&self) -> bool {
        self.failure.is_some()
    }

    /// Progress for people: calls, waits, notices.
    fn show(&self, envelope: &Envelope) {
        let indent = "  ".repeat(envelope.agent.depth());
        match &envelope.event {
            Event::ToolStarted { call } if self.lively => {
                say(&format!("{indent}● {}", crate::app::summary(call)));
            }
            Event::ToolFinished { result } if self.lively && result.is_error => {
                let text = crate::protocol::text_of(&result.content);
                say(&format!("{indent}  ! {}", clipped(&visible_line(text.trim()), 200)));
            }
            Event::Retrying { attempt, after_ms, reason } => {
                let seconds = std::time::Duration::from_millis(*after_ms).as_secs_f64();
                let reason = clipped(&visible_line(reason), 300);
                say(&format!("{indent}retrying ({attempt}) in {seconds:.1} s: {reason}"));
            }
            Event::Notice { text } => say(&format!("{indent}{}", visible(text))),
            _ => {}
        }
    }

    /// The last words, and the exit code that agrees with them.
    fn close(mut self, outcome: &TurnOutcome, tally: &Tally, terminated: bool) -> Exit {
        let exit = if terminated { Exit::Terminated } else { Exit::of(outcome, tally) };
        if self.format == Format::Text && *outcome == TurnOutcome::Completed {
            let answer = tally.answer();
            let answer = if self.terminal { visible(&answer).into_owned() } else { answer };
            self.keep(&[answer]);
        }
        let sentence = outcome.sentence();
        if !sentence.is_empty() {
            say(&visible(&sentence));
        }
        if !tally.denials.is_empty() {
            say(&format!("{} call(s) did not run for want of leave:", tally.denials.len()));
            for denial in &tally.denials {
                let call = clipped(&visible_line(&crate::app::summary(&denial.call)), 120);
                say(&format!("  {call}: {}", visible_line(&denial.reason)));
            }
        }
        match &self.failure {
            // Whoever read us has seen enough.
            Some(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Exit::Failed,
            Some(error) => {
                say(&format!("cannot write to stdout: {error}"));
                Exit::Failed
            }
            None => exit,
        }
    }
}

/// One line on stderr; a closed stderr is no reason to stop.
pub(crate) fn say(line: &str) {
    drop(writeln!(std::io::stderr().lock(), "{line}"));
}

enum Signal {
    Interrupt,
    Terminate,
}

/// SIGINT and SIGTERM (and SIGHUP) as they come.
struct Interrupts {
    #[cfg(unix)]
    terminate: Option<signal::unix::Signal>,
    #[cfg(unix)]
    hangup: Option<signal::unix::Signal>,
}

impl Interrupts {
    fn new() -> Self {
        Self {
            #[cfg(unix)]
            terminate: signal::unix::signal(signal::unix::SignalKind::terminate()).ok(),
            #[cfg(unix)]
            hangup: signal::unix::signal(signal::unix::SignalKind::hangup()).ok(),
        }
    }

    #[cfg(unix)]
    async fn next(&mut self) -> Signal {
        async fn of(signal: &mut Option<signal::unix::Signal>) {
            if let Some(signal) = signal
                && signal.recv().await.is_some()
            {
                return;
            }
            std::future::pending::<()>().await;
        }
        tokio::select! {
            result = signal::ctrl_c() => match result {
                Ok(()) => Signal::Interrupt,
                Err(_) => std::future::pending().await,
            },
            () = of(&mut self.terminate) => Signal::Terminate,
            () = of(&mut self.hangup) => Signal::Terminate,
        }
    }

    #[cfg(not(unix))]
    async fn next(&mut self) -> Signal {
        match signal::ctrl_c().await {
            Ok(()) => Signal::Interrupt,
            Err(_) => std::future::pending().await,
        }
    }
}

//! One prompt without a person: the answer on stdout and nothing else, questions answered by policy.

mod answer;
mod json;
mod output;
mod screen;
pub mod stdin;

use std::collections::VecDeque;
use std::io::{IsTerminal as _, Write as _};
use std::time::Duration;

use crate::app::signals::{Signal, Signals};
use crate::app::visible::{visible, visible_json};
use crate::app::{Handle, say};
use crate::protocol::{Block, Decision, Event, Op, PermissionRequest, TurnOutcome};

use answer::Tally;
use json::Writer;
use output::Output;
use screen::Screen;

/// How long a reader that does not read may hold up a run that was told to end.
const LAST_WRITE: Duration = Duration::from_millis(500);

/// What stdout carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// The final answer.
    Text,
    /// One result object.
    Json,
    /// One object for each event, the result last.
    StreamJson,
    /// The same, with the answer piece by piece as it arrives.
    StreamJsonPieces,
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
    let mut signals = Signals::new();
    let screen = Screen::new();
    let mut stdout = Stdout::start(format);
    let mut told = Told::default();
    let mut tally = Tally::new(handle.status());
    let mut writer = Writer::new(&handle.info, format);
    stdout.put(writer.init(&handle));
    handle.send(Op::Prompt { blocks: prompt });
    let outcome = loop {
        let envelope = tokio::select! {
            biased;
            signal = signals.next() => {
                if told.again(signal) {
                    return told.exit();
                }
                handle.send(Op::Interrupt);
                continue;
            }
            written = stdout.step() => {
                if written == Written::Never {
                    handle.send(Op::Interrupt);
                }
                continue;
            }
            envelope = handle.events.next(), if !stdout.is_behind() => envelope,
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
        stdout.put(writer.event(&envelope, &tally));
        if let (Event::TurnFinished { outcome }, true) = (&envelope.event, envelope.agent.is_root()) {
            break outcome.clone();
        }
    };
    match format {
        Format::Text if outcome == TurnOutcome::Completed => stdout.put([tally.answer()]),
        Format::Text => {}
        Format::Json | Format::StreamJson | Format::StreamJsonPieces => {
            stdout.put([writer.result(&outcome, &tally, &handle.status())]);
        }
    }
    Screen::last_words(&outcome, &tally);
    if let Some(exit) = stdout.close(&mut signals, &mut told).await {
        return exit;
    }
    handle.close().await;
    match stdout.failure() {
        // Whoever read us has seen enough.
        Some(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Exit::Failed,
        Some(error) => {
            say(&format!("cannot write to stdout: {error}"));
            Exit::Failed
        }
        None if outcome == TurnOutcome::Aborted => told.exit(),
        None => Exit::of(&outcome, &tally),
    }
}

/// Says that a run could not start, in its own format; the sentence is for stderr too.
pub fn failed(format: Format, exit: Exit, message: &str) {
    say(&format!("reagent: {}", visible(message)));
    match format {
        Format::Text => {}
        Format::Json | Format::StreamJson | Format::StreamJsonPieces => {
            let record = json::not_started(exit, message);
            // The exit code says it all the same.
            drop(writeln!(std::io::stdout(), "{}", visible_json(&record.to_string())));
        }
    }
}

/// Why a question was answered with no, and what would have made it a yes.
fn nobody(request: &PermissionRequest) -> String {
    let hint =
        if request.hint.is_empty() { String::new() } else { format!("; allow it with {}", request.hint) };
    format!("{}, and nobody is here to ask{hint}", request.reason)
}

/// What signals have said so far.
#[derive(Debug, Default)]
struct Told(Option<Signal>);

impl Told {
    /// Notes a signal; true if it is not the first.
    fn again(&mut self, signal: Signal) -> bool {
        let before = self.0.is_some();
        if self.0 != Some(Signal::Terminate) {
            self.0 = Some(signal);
        }
        before
    }

    fn exit(&self) -> Exit {
        match self.0 {
            Some(Signal::Terminate) => Exit::Terminated,
            Some(Signal::Interrupt) | None => Exit::Interrupted,
        }
    }
}

/// Lines on their way to stdout.
#[derive(Debug)]
struct Stdout {
    output: Output,
    behind: VecDeque<String>,
    filter: fn(String) -> String,
}

/// What became of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Written {
    /// It is on its way.
    Soon,
    /// Nobody can read it.
    Never,
}

impl Stdout {
    fn start(format: Format) -> Self {
        let filter: fn(String) -> String = match (std::io::stdout().is_terminal(), format) {
            (false, _) => |text| text,
            (true, Format::Text) => |text| visible(&text).into_owned(),
            (true, Format::Json | Format::StreamJson | Format::StreamJsonPieces) => {
                |text| visible_json(&text)
            }
        };
        Self { output: Output::start(), behind: VecDeque::new(), filter }
    }

    fn put(&mut self, lines: impl IntoIterator<Item = String>) {
        for line in lines {
            let mut line = (self.filter)(line);
            if !line.ends_with('\n') {
                line.push('\n');
            }
            self.behind.push_back(line);
        }
    }

    /// Lines wait: what happens next may wait too.
    fn is_behind(&self) -> bool {
        !self.behind.is_empty()
    }

    /// Hands one line over; rests while there is none. Dropping the future loses nothing.
    async fn step(&mut self) -> Written {
        if self.behind.is_empty() {
            std::future::pending::<()>().await;
        }
        let Some(room) = self.output.room().await else {
            self.behind.clear();
            return Written::Never;
        };
        if let Some(line) = self.behind.pop_front() {
            room.send(line);
        }
        Written::Soon
    }

    /// Writes the rest. A signal makes it hurry, and the second one ends it at once, with the exit code.
    async fn close(&mut self, signals: &mut Signals, told: &mut Told) -> Option<Exit> {
        let rest = async {
            while self.is_behind() {
                self.step().await;
            }
            self.output.flushed().await;
        };
        tokio::pin!(rest);
        let hurry = tokio::time::sleep(LAST_WRITE);
        tokio::pin!(hurry);
        loop {
            tokio::select! {
                biased;
                () = &mut rest => return None,
                signal = signals.next() => {
                    if told.again(signal) {
                        return Some(told.exit());
                    }
                    hurry.as_mut().reset(tokio::time::Instant::now() + LAST_WRITE);
                }
                () = &mut hurry, if told.0.is_some() => return Some(told.exit()),
            }
        }
    }

    fn failure(&self) -> Option<&std::io::Error> {
        self.output.failure()
    }
}

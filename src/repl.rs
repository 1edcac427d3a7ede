//! The line session: a prompt, a streamed answer, one status line; works in any terminal.

mod editor;
mod question;

use std::io::Write as _;
use std::time::{Duration, Instant};

use tokio::signal;

use crate::app::Handle;
use crate::app::commands::{self, Context, Reaction};
use crate::app::visible::{clipped, visible, visible_line};
use crate::protocol::{DeltaKind, Envelope, Event, Op, TurnOutcome};

use editor::{Asked, Editor};

/// A second Ctrl+C within this time leaves.
const TWICE: Duration = Duration::from_secs(1);

/// How a session was left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Left {
    /// By `/exit` or Ctrl+D.
    Orderly,
    /// By Ctrl+C twice.
    Interrupted,
}

/// Runs a session until the user leaves. `first` is sent at once.
pub async fn run(mut handle: Handle, first: Option<String>) -> std::io::Result<Left> {
    let mut editor = Editor::start(handle.info.log.with_file_name("history"))?;
    let status = handle.status();
    print(&format!(
        "reagent {} · {} · {}\n/help shows the commands.\n",
        env!("CARGO_PKG_VERSION"),
        visible_line(&status.model.0),
        visible_line(&handle.info.cwd.display().to_string()),
    ));
    if !handle.info.history.is_empty() {
        print(&format!("Going on with session {}.\n", handle.info.session));
    }
    let left = session(&mut handle, &mut editor, first).await;
    handle.close().await;
    Ok(left)
}

async fn session(handle: &mut Handle, editor: &mut Editor, mut first: Option<String>) -> Left {
    let mut interrupted: Option<Instant> = None;
    loop {
        let line = if let Some(line) = first.take() {
            line
        } else {
            drain(handle).await;
            match editor.ask("> ").await {
                Asked::Line(line) => line,
                Asked::End => return Left::Orderly,
                Asked::Interrupt => {
                    if interrupted.is_some_and(|at| at.elapsed() < TWICE) {
                        return Left::Interrupted;
                    }
                    interrupted = Some(Instant::now());
                    print("Ctrl+C again to leave.\n");
                    continue;
                }
            }
        };
        interrupted = None;
        if line.trim().is_empty() {
            continue;
        }
        let status = handle.status();
        let prompt = match commands::react(&line, Context { info: &handle.info, status: &status }) {
            None => line,
            Some(Reaction::Prompt(text)) => text,
            Some(Reaction::Exit) => return Left::Orderly,
            Some(Reaction::Say(text)) => {
                print(&format!("{}\n", visible(&text)));
                continue;
            }
            Some(Reaction::Send(op, text)) => {
                handle.send(op);
                if !text.is_empty() {
                    print(&format!("{text}\n"));
                }
                continue;
            }
        };
        handle.send(commands::prompt(&prompt));
        if let Some(left) = turn(handle, editor).await {
            return left;
        }
    }
}

/// Shows what came while no turn ran: the answer to an order, for example.
async fn drain(handle: &mut Handle) {
    let mut page = Page::default();
    while let Ok(Some(envelope)) = tokio::time::timeout(Duration::from_millis(20), handle.events.next()).await
    {
        page.show(&envelope);
    }
}

/// Shows one turn to its end.
async fn turn(handle: &mut Handle, editor: &mut Editor) -> Option<Left> {
    let mut page = Page::default();
    let mut stopping = false;
    loop {
        let envelope = tokio::select! {
            biased;
            _ = signal::ctrl_c() => {
                if stopping {
                    return Some(Left::Interrupted);
                }
                stopping = true;
                handle.send(Op::Interrupt);
                continue;
            }
            envelope = handle.events.next() => envelope,
        };
        let Some(envelope) = envelope else { return Some(Left::Orderly) };
        page.show(&envelope);
        match &envelope.event {
            Event::PermissionAsked { request } => {
                page.end_line();
                let answer = tokio::select! {
                    answer = question::ask(editor, request) => answer,
                    _ = signal::ctrl_c() => None,
                };
                if let Some(decision) = answer {
                    handle.send(Op::Decide { request: request.id, decision })
                } else {
                    stopping = true;
                    handle.send(Op::Interrupt)
                };
            }
            Event::TurnFinished { outcome } if envelope.agent.is_root() => {
                page.end_line();
                finish(handle, outcome);
                return None;
            }
            _ => {}
        }
    }
}

fn finish(handle: &Handle, outcome: &TurnOutcome) {
    let sentence = outcome.sentence();
    if !sentence.is_empty() {
        print(&format!("{}\n", visible(&sentence)));
    }
    let status = handle.status();
    let cost =
        status.cost.filter(|cost| *cost > 0.0).map_or_else(String::new, |cost| format!(" · ${cost:.4}"));
    print(&format!(
        "\x1b[2m{} · ctx ~{}% · {} tokens{cost} · {}\x1b[0m\n",
        visible_line(&status.model.0),
        commands::percent(&status),
        status.usage.total(),
        status.mode,
    ));
}

/// Writes to the terminal; one that is gone ends the session by its signals, not here.
fn print(text: &str) {
    let mut out = std::io::stdout().lock();
    drop(out.write_all(text.as_bytes()).and_then(|()| out.flush()));
}

/// What is on the page so far, as far as the next line depends on it.
#[derive(Debug, Default)]
struct Page {
    /// The cursor stands behind text.
    open: bool,
}

impl Page {
    fn end_line(&mut self) {
        if std::mem::take(&mut self.open) {
            print("\n");
        }
    }

    fn line(&mut self, text: &str) {
        self.end_line();
        print(&format!("{text}\n"));
    }

    fn show(&mut self, envelope: &Envelope) {
        let indent = "  ".repeat(envelope.agent.depth());
        match &envelope.event {
            Event::Delta { kind: DeltaKind::Text, text } if envelope.agent.is_root() => {
                print(&visible(text));
                self.open = !text.ends_with('\n');
            }
            Event::DeltaReset if self.open => self.line("\n[the reply is asked for again]"),
            Event::ToolStarted { call } => self.line(&format!("{indent}● {}", crate::app::summary(call))),
            Event::ToolFinished { result } => {
                if result.is_error {
                    let text = crate::protocol::text_of(&result.content);
                    self.line(&format!("{indent}  ! {}", clipped(&visible_line(text.trim()), 300)));
                } else if let Some(diff) = result.details.get("diff").and_then(|diff| diff.as_str()) {
                    self.line(visible(&clipped(diff.trim_end(), 4_000)).trim_end());
                }
            }
            Event::Retrying { attempt, after_ms, reason } => {
                let seconds = Duration::from_millis(*after_ms).as_secs_f64();
                let reason = clipped(&visible_line(reason), 300);
                self.line(&format!("{indent}retrying ({attempt}) in {seconds:.1} s: {reason}"));
            }
            Event::Notice { text } => self.line(&format!("{indent}{}", visible(text))),
            _ => {}
        }
    }
}

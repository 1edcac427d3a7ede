//! The line session: a prompt, a streamed answer, one status line; works in any terminal.

mod draft;
mod editor;
mod page;
mod question;
mod terminal;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::app::Handle;
use crate::app::commands::{self, Context, Reaction};
use crate::app::signals::{Signal, Signals};
use crate::app::visible::{clipped, visible, visible_line};
use crate::protocol::{Envelope, Event, Op, PermissionRequest, Source, TurnOutcome};

use draft::Draft;
use editor::{Asked, Editor};
use page::{Page, print};
use terminal::{Keys, Terminal};

/// A second Ctrl+C within this time leaves.
const TWICE: Duration = Duration::from_secs(1);
/// How long an order may take to be answered before the prompt comes back.
const ORDER: Duration = Duration::from_secs(5);

/// How a session was left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Left {
    /// By `/exit` or Ctrl+D.
    Orderly,
    /// By Ctrl+C twice.
    Interrupted,
    /// By SIGTERM or SIGHUP.
    Terminated,
}

/// Runs a session until the user leaves. `first` is sent at once.
pub async fn run(handle: Handle, first: Option<String>) -> std::io::Result<Left> {
    let terminal = Terminal::new();
    let editor = Editor::start(handle.info.log.with_file_name("history"))?;
    print(&format!(
        "reagent {} · {} · {}\n/help shows the commands.\n",
        env!("CARGO_PKG_VERSION"),
        visible_line(&handle.status().name),
        visible_line(&handle.info.cwd.display().to_string()),
    ));
    if !handle.info.history.is_empty() {
        print(&format!("Going on with session {}.\n", handle.info.session));
    }
    let mut session = Session {
        handle,
        editor,
        terminal,
        signals: Signals::new(),
        lines: first.into_iter().collect(),
        draft: Draft::default(),
        interrupted: None,
    };
    let left = session.run().await;
    let Session { handle, terminal, .. } = session;
    handle.close().await;
    // Last of all: the editor's thread may still hold the terminal.
    drop(terminal);
    Ok(left)
}

/// One user at one terminal.
struct Session {
    handle: Handle,
    editor: Editor,
    terminal: Terminal,
    signals: Signals,
    /// Lines that are finished and not yet looked at.
    lines: VecDeque<String>,
    /// What was typed while a turn ran and is not finished.
    draft: Draft,
    /// The newest Ctrl+C.
    interrupted: Option<Instant>,
}

impl Session {
    async fn run(&mut self) -> Left {
        loop {
            let line = match self.line().await {
                Ok(line) => line,
                Err(left) => return left,
            };
            if line.trim().is_empty() {
                continue;
            }
            self.interrupted = None;
            let status = self.handle.status();
            let cx = Context { info: &self.handle.info, status: &status };
            let prompt = match commands::react(&line, cx) {
                None => line,
                Some(Reaction::Prompt(text)) => text,
                Some(Reaction::Exit) => return Left::Orderly,
                Some(Reaction::Say(text)) => {
                    print(&format!("{}\n", visible(&text)));
                    continue;
                }
                Some(Reaction::Send(op, text)) => {
                    self.order(op, &text).await;
                    continue;
                }
            };
            if let Some(left) = self.turn(&prompt).await {
                return left;
            }
        }
    }

    /// The next line of the user's, or how the session is left instead.
    async fn line(&mut self) -> Result<String, Left> {
        loop {
            if let Some(line) = self.lines.pop_front() {
                return Ok(line);
            }
            self.drain().await;
            let asked = {
                let asking = self.editor.ask("> ", self.draft.take());
                tokio::pin!(asking);
                loop {
                    tokio::select! {
                        asked = &mut asking => break asked,
                        signal = self.signals.next() => match signal {
                            Signal::Terminate => return Err(Left::Terminated),
                            // From outside, not from the keyboard; the editor keeps its line.
                            Signal::Interrupt => {
                                if self.interrupted.is_some_and(|at| at.elapsed() < TWICE) {
                                    return Err(Left::Interrupted);
                                }
                                self.interrupted = Some(Instant::now());
                            }
                        },
                    }
                }
            };
            match asked {
                Asked::Line(line) => return Ok(line),
                Asked::End => return Err(Left::Orderly),
                Asked::Interrupt => {
                    if self.interrupted.is_some_and(|at| at.elapsed() < TWICE) {
                        return Err(Left::Interrupted);
                    }
                    self.interrupted = Some(Instant::now());
                    print("Ctrl+C again to leave.\n");
                }
            }
        }
    }

    /// Gives an order. One without a text of its own is answered by a notice.
    async fn order(&mut self, op: Op, text: &str) {
        self.handle.send(op);
        if !text.is_empty() {
            print(&format!("{text}\n"));
            return;
        }
        let mut page = Page::default();
        let answered = async {
            while let Some(envelope) = self.handle.events.next().await {
                page.show(&envelope);
                if matches!(envelope.event, Event::Notice { .. }) {
                    break;
                }
            }
        };
        drop(tokio::time::timeout(ORDER, answered).await);
    }

    /// Shows what came while no turn ran.
    async fn drain(&mut self) {
        let mut page = Page::default();
        while let Ok(Some(envelope)) =
            tokio::time::timeout(Duration::from_millis(20), self.handle.events.next()).await
        {
            page.show(&envelope);
        }
    }

    /// Shows turns until everything the user said is answered.
    async fn turn(&mut self, prompt: &str) -> Option<Left> {
        self.handle.send(commands::prompt(prompt));
        let mut page = Page::default();
        let mut unanswered = Unanswered { prompts: 1, opening: false };
        let mut stopping = false;
        let mut keys = self.terminal.listen();
        loop {
            let envelope = tokio::select! {
                biased;
                signal = self.signals.next() => match signal {
                    Signal::Terminate => return Some(Left::Terminated),
                    Signal::Interrupt if stopping => return Some(Left::Interrupted),
                    Signal::Interrupt => {
                        stopping = true;
                        self.interrupted = Some(Instant::now());
                        self.handle.send(Op::Interrupt);
                        continue;
                    }
                },
                Some(typed) = keys.next() => {
                    self.typed(&typed, &mut page, &mut unanswered);
                    continue;
                }
                envelope = self.handle.events.next() => envelope,
            };
            let Some(envelope) = envelope else { return Some(Left::Orderly) };
            page.show(&envelope);
            unanswered.note(&envelope);
            match &envelope.event {
                Event::TurnStarted if envelope.agent.is_root() => stopping = false,
                Event::PermissionAsked { request } => {
                    page.end_line();
                    match self.question(request, keys, &mut unanswered).await {
                        Ok(again) => keys = again,
                        Err(left) => return Some(left),
                    }
                }
                Event::TurnFinished { outcome } if envelope.agent.is_root() => {
                    page.end_line();
                    self.finish(outcome);
                    if unanswered.prompts == 0 {
                        let rest = keys.stop();
                        let lines = self.draft.feed(&rest);
                        self.lines.extend(lines);
                        return None;
                    }
                }
                _ => {}
            }
        }
    }

    /// Keys while a turn runs: a finished line joins the work, a command waits for its end.
    fn typed(&mut self, typed: &[u8], page: &mut Page, unanswered: &mut Unanswered) {
        for line in self.draft.feed(typed) {
            if line.trim().is_empty() {
                continue;
            }
            let shown = clipped(&visible_line(line.trim()), 200);
            if line.trim_start().starts_with('/') {
                page.line(&format!("[after this turn: {shown}]"));
                self.lines.push_back(line);
            } else {
                page.line(&format!("[queued: {shown}]"));
                unanswered.prompts += 1;
                self.handle.send(commands::prompt(&line));
            }
        }
    }

    /// Asks; keys that were typed before the question stood there belong to the draft.
    async fn question(
        &mut self,
        request: &PermissionRequest,
        keys: Keys,
        unanswered: &mut Unanswered,
    ) -> Result<Keys, Left> {
        question::show(request);
        let before = keys.stop();
        self.typed(&before, &mut Page::default(), unanswered);
        let answer = {
            let asking = question::ask(&mut self.editor, request);
            tokio::select! {
                answer = asking => answer,
                signal = self.signals.next() => match signal {
                    Signal::Terminate => return Err(Left::Terminated),
                    Signal::Interrupt => None,
                },
            }
        };
        if let Some(decision) = answer {
            self.handle.send(Op::Decide { request: request.id, decision });
        } else {
            self.interrupted = Some(Instant::now());
            self.handle.send(Op::Interrupt);
        }
        Ok(self.terminal.listen())
    }

    fn finish(&self, outcome: &TurnOutcome) {
        let sentence = outcome.sentence();
        if !sentence.is_empty() {
            print(&format!("{}\n", visible(&sentence)));
        }
        let status = self.handle.status();
        let cost =
            status.cost.filter(|cost| *cost > 0.0).map_or_else(String::new, |cost| format!(" · ${cost:.4}"));
        print(&format!(
            "\x1b[2m{} · ctx ~{}% · {} tokens{cost} · {}\x1b[0m\n",
            visible_line(&status.name),
            commands::percent(&status),
            status.usage.total(),
            status.mode,
        ));
    }
}

/// Prompts that no turn has taken up yet: each opens a turn or joins the one that runs.
#[derive(Debug)]
struct Unanswered {
    prompts: usize,
    /// A turn has begun and its own prompt is still to be seen.
    opening: bool,
}

impl Unanswered {
    fn note(&mut self, envelope: &Envelope) {
        if !envelope.agent.is_root() {
            return;
        }
        match &envelope.event {
            Event::TurnStarted => {
                self.opening = true;
                self.prompts = self.prompts.saturating_sub(1);
            }
            Event::MessageAdded { message }
                if message.source == Source::User && !std::mem::take(&mut self.opening) =>
            {
                self.prompts = self.prompts.saturating_sub(1);
            }
            _ => {}
        }
    }
}

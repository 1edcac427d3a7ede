//! The one task that owns the engine: orders in, turns out, one thing on the history at a time.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::Status;
use super::connect::Connector;
use super::host::AppHost;
use super::outbox::Outbox;
use super::recorder::Recorder;
use crate::engine::{Host as _, QueryEngine};
use crate::permission::Gate;
use crate::protocol::{AgentPath, Block, Decision, Event, Mode, Op, StateChange};
use crate::tool::Journal as _;

/// Everything the actor holds.
#[derive(Debug)]
pub(super) struct Actor {
    pub(super) engine: QueryEngine,
    pub(super) host: Arc<AppHost>,
    pub(super) gate: Arc<Gate>,
    pub(super) recorder: Arc<Recorder>,
    pub(super) outbox: Outbox,
    pub(super) status: Arc<Mutex<Status>>,
    pub(super) connector: Connector,
}

impl Actor {
    /// Runs until the last sender of orders is gone.
    pub(super) async fn run(mut self, mut ops: mpsc::UnboundedReceiver<Op>) {
        while let Some(op) = ops.recv().await {
            match op {
                Op::Prompt { blocks } => {
                    let mut next = Some(blocks);
                    while let Some(blocks) = next {
                        if !self.turn(blocks, &mut ops).await {
                            self.outbox.finish();
                            return;
                        }
                        // What arrived too late for the last round of the turn opens the next one.
                        next = self.host.dequeue();
                    }
                }
                other => self.idle(other).await,
            }
        }
        self.outbox.finish();
    }

    /// One turn, with orders taken meanwhile. False when nobody is left to give any.
    async fn turn(&mut self, prompt: Vec<Block>, ops: &mut mpsc::UnboundedReceiver<Op>) -> bool {
        self.busy(true);
        let cancel = CancellationToken::new();
        let mut later = Vec::new();
        let mut open = true;
        {
            let turn = self.engine.run_turn(prompt, &cancel);
            tokio::pin!(turn);
            loop {
                tokio::select! {
                    biased;
                    op = ops.recv(), if open => match op {
                        None => {
                            open = false;
                            cancel.cancel();
                        }
                        Some(Op::Interrupt) => cancel.cancel(),
                        Some(Op::Prompt { blocks }) => self.host.enqueue(blocks),
                        Some(Op::Decide { request, decision }) => {
                            decide(&self.host, &self.gate, &self.recorder, request, decision).await;
                        }
                        Some(Op::SetMode { mode }) => {
                            set_mode(&self.gate, &self.status, mode);
                            later.push(Op::SetMode { mode });
                        }
                        Some(other) => later.push(other),
                    },
                    _ = &mut turn => break,
                }
            }
        }
        self.busy(false);
        for op in later {
            self.idle(op).await;
        }
        open
    }

    /// An order while no turn runs.
    async fn idle(&mut self, op: Op) {
        match op {
            Op::Interrupt | Op::Prompt { .. } => {}
            Op::Decide { request, decision } => {
                decide(&self.host, &self.gate, &self.recorder, request, decision).await;
            }
            Op::SetMode { mode } => {
                set_mode(&self.gate, &self.status, mode);
                let noted = self.engine.note_mode(mode).await;
                self.complain(noted.err());
            }
            Op::Clear => {
                let cleared = self.engine.clear().await;
                self.complain(cleared.err());
                self.lock_status(|status| status.context = 0);
            }
            Op::SetModel { model } => match self.connector.named(&model).await {
                Ok(provider) => {
                    let info = provider.info().clone();
                    let set = self.engine.set_model(provider).await;
                    self.complain(set.err());
                    self.notice(format!("Model: {}", info.name));
                    self.lock_status(|status| {
                        status.model = info.id;
                        status.name = info.name;
                        status.window = info.window;
                    });
                }
                Err(error) => self.notice(format!("The model stays as it is: {error}")),
            },
            Op::Compact { .. } | Op::Rewind { .. } => {
                self.notice("This version cannot do that yet.".to_owned());
            }
        }
    }

    fn busy(&self, busy: bool) {
        self.lock_status(|status| status.busy = busy);
    }

    fn lock_status(&self, change: impl FnOnce(&mut Status)) {
        change(&mut self.status.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn notice(&self, text: String) {
        self.host.emit(&AgentPath::root(), Event::Notice { text });
    }

    fn complain(&self, error: Option<crate::tool::JournalError>) {
        if let Some(error) = error {
            self.notice(format!("The session could not be written: {error}"));
        }
    }
}

/// A rule to keep takes effect before the call that asked for it runs.
async fn decide(host: &AppHost, gate: &Gate, recorder: &Recorder, request: u64, decision: Decision) {
    if let Decision::Allow { save: Some((offer, _scope)), .. } = &decision
        && let Ok(rule) = offer.rule.parse()
    {
        gate.change(|policy| policy.allow.push(rule));
        let change = StateChange::Granted { rule: offer.rule.clone() };
        // The grant holds for this session even if it could not be written.
        drop(recorder.record(&AgentPath::root(), &Event::StateChanged { change }).await);
    }
    host.decide(request, decision);
}

fn set_mode(gate: &Gate, status: &Mutex<Status>, mode: Mode) {
    gate.change(|policy| policy.mode = mode);
    status.lock().unwrap_or_else(PoisonError::into_inner).mode = mode;
}

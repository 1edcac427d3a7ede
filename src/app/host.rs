//! The engine's host: events to the front end, questions to the user, queued text to the loop.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use tokio::sync::oneshot;

use super::Status;
use super::outbox::Outbox;
use crate::engine::{Host, Injection};
use crate::protocol::{AgentPath, Block, Decision, Envelope, Event, PermissionRequest, Source};

/// Connects an engine and its children to one front end.
#[derive(Debug)]
pub(super) struct AppHost {
    outbox: Outbox,
    status: Arc<Mutex<Status>>,
    queue: Mutex<VecDeque<Vec<Block>>>,
    pending: Mutex<HashMap<u64, oneshot::Sender<Decision>>>,
    /// Held while a question is open: never two at once.
    asking: tokio::sync::Mutex<()>,
}

impl AppHost {
    pub(super) fn new(outbox: Outbox, status: Arc<Mutex<Status>>) -> Self {
        Self {
            outbox,
            status,
            queue: Mutex::default(),
            pending: Mutex::default(),
            asking: tokio::sync::Mutex::default(),
        }
    }

    /// Queues what the user typed while a turn runs.
    pub(super) fn enqueue(&self, blocks: Vec<Block>) {
        hold(&self.queue).push_back(blocks);
    }

    /// The next queued prompt, when no turn runs.
    pub(super) fn dequeue(&self) -> Option<Vec<Block>> {
        hold(&self.queue).pop_front()
    }

    /// Hands an answer to the question that waits for it.
    pub(super) fn decide(&self, request: u64, decision: Decision) {
        if let Some(waiting) = hold(&self.pending).remove(&request) {
            // The question may have been dropped by an interruption in this very moment.
            drop(waiting.send(decision));
        }
    }

    fn envelope(agent: &AgentPath, event: Event) -> Envelope {
        Envelope { seq: 0, at: chrono::Utc::now(), agent: agent.clone(), event }
    }
}

fn hold<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[async_trait]
impl Host for AppHost {
    fn emit(&self, agent: &AgentPath, event: Event) {
        if let Event::UsageUpdated { total, context, cost } = &event {
            if !agent.is_root() {
                return; // a child's numbers reach the parent's when it ends
            }
            let mut status = hold(&self.status);
            status.usage = *total;
            status.context = *context;
            status.cost = *cost;
        }
        self.outbox.emit(Self::envelope(agent, event));
    }

    async fn ask(&self, request: PermissionRequest) -> Decision {
        let _turn = self.asking.lock().await;
        if self.outbox.is_deaf() {
            return Decision::deny("nobody is there to answer");
        }
        let (sender, receiver) = oneshot::channel();
        let id = request.id;
        hold(&self.pending).insert(id, sender);
        let forget = Forget { host: self, id };
        let agent = request.agent.clone();
        self.outbox.emit(Self::envelope(&agent, Event::PermissionAsked { request }));
        let decision = receiver.await.unwrap_or_else(|_| Decision::deny("the question was withdrawn"));
        drop(forget);
        decision
    }

    fn interjections(&self, agent: &AgentPath) -> Vec<Injection> {
        if !agent.is_root() {
            return Vec::new();
        }
        hold(&self.queue).drain(..).map(|blocks| Injection { source: Source::User, blocks }).collect()
    }
}

/// Takes a question back when its future is dropped.
struct Forget<'a> {
    host: &'a AppHost,
    id: u64,
}

impl Drop for Forget<'_> {
    fn drop(&mut self) {
        hold(&self.host.pending).remove(&self.id);
    }
}

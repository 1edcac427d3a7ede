//! The feed to a front end: bounded, in order; deltas that nobody has fetched yet melt into one.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::protocol::{Envelope, Event};

/// Events that wait at most; beyond it kept events wait for room and progress is dropped.
const CAPACITY: usize = 1_024;
/// A merged delta grows to this many bytes, then a new one begins.
const MERGED: usize = 64 * 1024;

/// The sending end.
#[derive(Debug, Clone)]
pub(super) struct Outbox(Arc<Shared>);

/// The receiving end. Dropping it tells the session that nobody listens.
#[derive(Debug)]
pub struct Events(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    arrived: Notify,
    taken: Notify,
}

#[derive(Debug, Default)]
struct State {
    queue: VecDeque<Envelope>,
    /// The reader is gone.
    deaf: bool,
    /// The session has ended.
    done: bool,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Makes both ends.
pub(super) fn outbox() -> (Outbox, Events) {
    let shared = Arc::new(Shared::default());
    (Outbox(Arc::clone(&shared)), Events(shared))
}

impl Outbox {
    /// Sends something that must arrive, waiting for room.
    pub(super) async fn send(&self, envelope: Envelope) {
        let mut envelope = Some(envelope);
        loop {
            let taken = self.0.taken.notified();
            {
                let mut state = self.0.state();
                if state.deaf {
                    return;
                }
                if state.queue.len() < CAPACITY {
                    state.queue.extend(envelope.take());
                    drop(state);
                    self.0.arrived.notify_one();
                    return;
                }
            }
            taken.await;
        }
    }

    /// Sends without waiting: deltas merge, progress is dropped when there is no room, the rest gets in.
    pub(super) fn emit(&self, envelope: Envelope) {
        let mut state = self.0.state();
        if state.deaf {
            return;
        }
        let full = state.queue.len() >= CAPACITY;
        match (&envelope.event, state.queue.back_mut()) {
            (
                Event::Delta { kind, text },
                Some(Envelope { agent, event: Event::Delta { kind: k, text: so_far }, .. }),
            ) if k == kind && *agent == envelope.agent && so_far.len() < MERGED => {
                so_far.push_str(text);
            }
            (
                Event::ToolProgress { call, text },
                Some(Envelope { event: Event::ToolProgress { call: c, text: so_far }, .. }),
            ) if c == call && so_far.len() < MERGED => {
                so_far.push_str(text);
            }
            (Event::ToolProgress { .. }, _) if full => return,
            _ => state.queue.push_back(envelope),
        }
        drop(state);
        self.0.arrived.notify_one();
    }

    /// Whether nobody listens any more.
    pub(super) fn is_deaf(&self) -> bool {
        self.0.state().deaf
    }

    /// Says that nothing will follow.
    pub(super) fn finish(&self) {
        self.0.state().done = true;
        self.0.arrived.notify_one();
    }
}

impl Events {
    /// The next event, or `None` when the session has ended. Cancel safe.
    pub async fn next(&mut self) -> Option<Envelope> {
        loop {
            let arrived = self.0.arrived.notified();
            {
                let mut state = self.0.state();
                if let Some(envelope) = state.queue.pop_front() {
                    drop(state);
                    self.0.taken.notify_one();
                    return Some(envelope);
                }
                if state.done {
                    return None;
                }
            }
            arrived.await;
        }
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        self.0.state().deaf = true;
        self.0.taken.notify_waiters();
        self.0.taken.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{AgentPath, DeltaKind};

    fn envelope(event: Event) -> Envelope {
        Envelope { seq: 0, at: chrono::Utc::now(), agent: AgentPath::root(), event }
    }

    fn delta(text: &str) -> Envelope {
        envelope(Event::Delta { kind: DeltaKind::Text, text: text.to_owned() })
    }

    #[tokio::test]
    async fn deltas_merge_and_order_stays() {
        let (outbox, mut events) = outbox();
        for _ in 0..20_000 {
            outbox.emit(delta("ab"));
        }
        outbox.emit(envelope(Event::DeltaReset));
        outbox.emit(delta("c"));
        outbox.finish();
        let mut text = String::new();
        let mut count = 0;
        while let Some(envelope) = events.next().await {
            count += 1;
            match envelope.event {
                Event::Delta { text: more, .. } => text.push_str(&more),
                _ => text.push('|'),
            }
        }
        assert!(text == format!("{}|c", "ab".repeat(20_000)));
        assert_eq!(count, 3);
    }

    #[tokio::test]
    async fn a_slow_reader_holds_the_writer_and_a_gone_one_frees_it() {
        let (outbox, mut events) = outbox();
        for _ in 0..CAPACITY {
            outbox.send(envelope(Event::TurnStarted)).await;
        }
        let blocked = tokio::spawn({
            let outbox = outbox.clone();
            async move { outbox.send(envelope(Event::TurnStarted)).await }
        });
        tokio::task::yield_now().await;
        assert!(!blocked.is_finished());
        events.next().await;
        blocked.await.unwrap();
        let blocked = tokio::spawn({
            let outbox = outbox.clone();
            async move { outbox.send(envelope(Event::TurnStarted)).await }
        });
        tokio::task::yield_now().await;
        drop(events);
        blocked.await.unwrap();
        assert!(outbox.is_deaf());
    }
}

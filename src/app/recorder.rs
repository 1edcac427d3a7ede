//! The session's journal as the engine sees it: first the file, then the front end.

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;

use super::outbox::Outbox;
use crate::protocol::{AgentPath, Event};
use crate::session::{Log, SessionError, Store};
use crate::tool::{Journal, JournalError};

/// Writes to the log, then shows what was written.
#[derive(Debug)]
pub(super) struct Recorder {
    pub(super) log: Arc<Log>,
    pub(super) store: Store,
    pub(super) session: String,
    pub(super) outbox: Outbox,
}

#[async_trait]
impl Journal for Recorder {
    async fn record(&self, agent: &AgentPath, event: &Event) -> Result<u64, JournalError> {
        // One write of a few kilobytes into the page cache: cheaper than a trip to another thread.
        let envelope = self.log.append(agent, event).map_err(|e| failed(&e))?;
        let seq = envelope.seq;
        self.outbox.send(envelope).await;
        Ok(seq)
    }

    async fn sync(&self) -> Result<(), JournalError> {
        let log = Arc::clone(&self.log);
        match tokio::task::spawn_blocking(move || log.sync()).await {
            Ok(done) => done.map_err(|e| failed(&e)),
            Err(error) => Err(JournalError(error.to_string())),
        }
    }

    async fn keep(&self, name: &str, bytes: &[u8]) -> Result<PathBuf, JournalError> {
        let (store, session, name, bytes) =
            (self.store.clone(), self.session.clone(), name.to_owned(), bytes.to_vec());
        match tokio::task::spawn_blocking(move || store.keep(&session, &name, &bytes)).await {
            Ok(done) => done.map_err(|e| failed(&e)),
            Err(error) => Err(JournalError(error.to_string())),
        }
    }
}

fn failed(error: &SessionError) -> JournalError {
    JournalError(error.to_string())
}

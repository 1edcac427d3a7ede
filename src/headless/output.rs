//! Stdout on a thread of its own: a reader that is slow or gone never keeps the run from hearing a signal.

use std::io::Write as _;
use std::sync::{Arc, OnceLock};

use tokio::sync::{mpsc, oneshot};

/// Pieces that may wait for the reader before the run waits too.
const WAITING: usize = 16;

/// The writing end.
#[derive(Debug)]
pub(super) struct Output {
    /// Gone once everything was handed over.
    pieces: Option<mpsc::Sender<String>>,
    /// Ends with the thread.
    ended: oneshot::Receiver<()>,
    failure: Arc<OnceLock<std::io::Error>>,
}

impl Output {
    pub(super) fn start() -> Self {
        let (pieces, mut arriving) = mpsc::channel::<String>(WAITING);
        let (end, ended) = oneshot::channel();
        let failure = Arc::new(OnceLock::new());
        let told = Arc::clone(&failure);
        let writing = std::thread::Builder::new().name("stdout".to_owned()).spawn(move || {
            let _end: oneshot::Sender<()> = end;
            let mut out = std::io::stdout().lock();
            while let Some(text) = arriving.blocking_recv() {
                if let Err(error) = out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
                    drop(told.set(error));
                    return;
                }
            }
        });
        if let Err(error) = writing {
            drop(failure.set(error));
        }
        Self { pieces: Some(pieces), ended, failure }
    }

    /// Room for one more piece; `None` when stdout cannot be written any more. Dropping the future loses nothing.
    pub(super) async fn room(&self) -> Option<mpsc::Permit<'_, String>> {
        self.pieces.as_ref()?.reserve().await.ok()
    }

    /// Waits until everything handed over is written, or never will be. Dropping the future loses nothing.
    pub(super) async fn flushed(&mut self) {
        self.pieces = None;
        // The thread sends nothing; its end is the message. A second wait finds it ended already.
        if !self.ended.is_terminated() {
            drop((&mut self.ended).await);
        }
    }

    /// Why stdout cannot be written.
    pub(super) fn failure(&self) -> Option<&std::io::Error> {
        self.failure.get()
    }
}

//! The signals that end a turn or a session; one listener for the whole life of a front end, so that none is missed.

use tokio::signal;

/// What somebody outside wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// SIGINT: stop the turn, and leave if it comes again.
    Interrupt,
    /// SIGTERM or SIGHUP: end, and soon.
    Terminate,
}

/// Signals as they come. While it lives, none of them ends the process by itself.
#[derive(Debug)]
pub struct Signals {
    #[cfg(unix)]
    interrupt: Option<signal::unix::Signal>,
    #[cfg(unix)]
    terminate: Option<signal::unix::Signal>,
    #[cfg(unix)]
    hangup: Option<signal::unix::Signal>,
}

#[cfg(unix)]
impl Signals {
    /// Begins to listen; needs the runtime.
    #[must_use]
    pub fn new() -> Self {
        use signal::unix::{SignalKind, signal};
        Self {
            interrupt: signal(SignalKind::interrupt()).ok(),
            terminate: signal(SignalKind::terminate()).ok(),
            hangup: signal(SignalKind::hangup()).ok(),
        }
    }

    /// The next one. Dropping the future loses nothing.
    pub async fn next(&mut self) -> Signal {
        async fn of(signal: &mut Option<signal::unix::Signal>) {
            if let Some(signal) = signal
                && signal.recv().await.is_some()
            {
                return;
            }
            std::future::pending::<()>().await;
        }
        tokio::select! {
            () = of(&mut self.interrupt) => Signal::Interrupt,
            () = of(&mut self.terminate) => Signal::Terminate,
            () = of(&mut self.hangup) => Signal::Terminate,
        }
    }
}

#[cfg(not(unix))]
impl Signals {
    /// Begins to listen; needs the runtime.
    #[must_use]
    pub fn new() -> Self {
        Self {}
    }

    /// The next one.
    pub async fn next(&mut self) -> Signal {
        match signal::ctrl_c().await {
            Ok(()) => Signal::Interrupt,
            Err(_) => std::future::pending().await,
        }
    }
}

impl Default for Signals {
    fn default() -> Self {
        Self::new()
    }
}

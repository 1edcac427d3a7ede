//! The terminal's own settings: saved at the start, quiet while a turn runs, put back on every way out.

use std::io::Write as _;
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::thread::JoinHandle;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::termios::{self, LocalFlags, SetArg, SpecialCharacterIndices, Termios};
use tokio::sync::mpsc;

/// The terminal as it was found. While this lives nothing is echoed but by the line editor.
#[derive(Debug)]
pub(super) struct Terminal {
    before: Option<Termios>,
}

impl Terminal {
    /// Makes the terminal quiet: keys are neither echoed into an answer nor lost, and Ctrl+C stays a signal.
    pub(super) fn new() -> Self {
        let before = termios::tcgetattr(std::io::stdin()).ok();
        if let Some(mut quiet) = before.clone() {
            quiet.local_flags.remove(LocalFlags::ECHO | LocalFlags::ICANON | LocalFlags::IEXTEN);
            // What was typed before Ctrl+C is not thrown away.
            quiet.local_flags.insert(LocalFlags::ISIG | LocalFlags::NOFLSH);
            for (slot, value) in [(SpecialCharacterIndices::VMIN, 1), (SpecialCharacterIndices::VTIME, 0)] {
                if let Some(slot) = quiet.control_chars.get_mut(slot as usize) {
                    *slot = value;
                }
            }
            set(&quiet);
        }
        Self { before }
    }

    /// Takes the keys until dropped.
    pub(super) fn listen(&self) -> Keys {
        if self.before.is_none() {
            return Keys::none();
        }
        // The editor switches the marks off when it is done.
        marks("\x1b[?2004h");
        Keys::start()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            set(before);
            marks("\x1b[?2004l");
        }
    }
}

fn set(settings: &Termios) {
    // A terminal that is gone needs no settings.
    termios::tcsetattr(std::io::stdin(), SetArg::TCSANOW, settings).unwrap_or_default();
}

/// Switches the marks around pasted text, which keep its line ends from being keys.
fn marks(sequence: &str) {
    let mut out = std::io::stdout().lock();
    drop(out.write_all(sequence.as_bytes()).and_then(|()| out.flush()));
}

/// The keys typed while a turn runs.
#[derive(Debug)]
pub(super) struct Keys {
    arriving: mpsc::UnboundedReceiver<Vec<u8>>,
    /// Its end wakes the thread.
    stop: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
}

impl Keys {
    fn none() -> Self {
        let (_, arriving) = mpsc::unbounded_channel();
        Self { arriving, stop: None, thread: None }
    }

    fn start() -> Self {
        let (keys, arriving) = mpsc::unbounded_channel();
        let (stop, stopped) = UnixStream::pair().ok().unzip();
        let thread = stopped.and_then(|stopped| {
            std::thread::Builder::new().name("keys".to_owned()).spawn(move || read(&stopped, &keys)).ok()
        });
        Self { arriving, stop, thread }
    }

    /// The next keys; `None` when there will be none.
    pub(super) async fn next(&mut self) -> Option<Vec<u8>> {
        self.arriving.recv().await
    }

    /// Stops listening, and gives what was typed and not fetched.
    pub(super) fn stop(mut self) -> Vec<u8> {
        self.join();
        let mut rest = Vec::new();
        while let Ok(keys) = self.arriving.try_recv() {
            rest.extend(keys);
        }
        rest
    }

    fn join(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        self.join();
    }
}

/// Reads the terminal until the other end of `stopped` is gone, and then only what is there already.
fn read(stopped: &UnixStream, keys: &mpsc::UnboundedSender<Vec<u8>>) {
    let stdin = std::io::stdin();
    let mut buffer = [0; 4096];
    loop {
        let mut fds =
            [PollFd::new(stdin.as_fd(), PollFlags::POLLIN), PollFd::new(stopped.as_fd(), PollFlags::POLLIN)];
        match poll(&mut fds, PollTimeout::NONE) {
            Ok(_) => {}
            Err(nix::errno::Errno::EINTR) => continue,
            Err(_) => return,
        }
        let [input, end] = fds.map(|fd| fd.revents().unwrap_or(PollFlags::empty()));
        if input.contains(PollFlags::POLLIN) {
            match nix::unistd::read(&stdin, &mut buffer) {
                Ok(count) if count > 0 => {
                    let piece = buffer.get(..count).unwrap_or_default().to_vec();
                    if keys.send(piece).is_err() {
                        return;
                    }
                }
                Err(nix::errno::Errno::EINTR) => {}
                Ok(_) | Err(_) => return,
            }
        } else if !input.is_empty() || !end.is_empty() {
            return;
        }
    }
}

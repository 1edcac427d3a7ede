//! Our side of a running command: its streams, its end, and the hold on its life.

use std::io::{self, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use nix::sys::socket::{Shutdown, shutdown};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};
use tokio::io::AsyncReadExt;
use tokio::net::UnixStream;
use tokio::net::unix::pipe::Receiver;

use super::{Base, ChildInput, Output, SUPERVISOR_ARGUMENT, Spec, Stdin, tree};

/// Bytes read at once from a stream.
const PIECE: usize = 64 * 1024;
/// How long [`Running::end`] waits for the supervisor's report; the tree ends even if it comes later.
const END: Duration = Duration::from_millis(200);

/// How a command ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Exit {
    /// Its exit code, unless a signal ended it.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// Processes that it left behind and that were ended.
    pub left: usize,
    /// Processes that could not be ended, for example those of another user.
    pub alive: usize,
}

/// One of a child's two streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// Standard output, or both.
    Stdout,
    /// Standard error.
    Stderr,
}

/// What a supervisor says on its channel, one JSON object a line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum Report {
    /// First: the command runs, as the leader of this process group.
    Started { group: i32 },
    /// Instead of everything else.
    NotStarted { errno: Option<i32>, error: String },
    /// Last.
    Ended { code: Option<i32>, signal: Option<i32>, left: usize, alive: usize },
}

impl Report {
    pub(super) fn line(&self) -> String {
        serde_json::to_string(self).unwrap_or_default() + "\n"
    }

    /// Nobody may be there to read it.
    pub(super) fn send(&self, channel: &mut impl Write) {
        channel.write_all(self.line().as_bytes()).ok();
    }
}

/// A command under its supervisor. Dropping it ends the whole tree.
#[derive(Debug)]
pub struct Running {
    /// Its standard input, when [`Stdin::Piped`].
    pub stdin: Option<ChildInput>,
    /// Its output; both streams when [`Output::Merged`].
    pub stdout: Option<Receiver>,
    /// Its errors, when [`Output::Split`].
    pub stderr: Option<Receiver>,
    link: Link,
}

pub(super) fn spawn(program: &Path, spec: &Spec) -> io::Result<Running> {
    if !spec.cwd.is_dir() {
        let message = format!("the working folder {} does not exist", spec.cwd.display());
        return Err(io::Error::new(io::ErrorKind::NotFound, message));
    }
    let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
    let (stdout, child_stdout) = io::pipe()?;
    let (stderr, child_stderr) = match spec.output {
        Output::Merged => (None, child_stdout.try_clone()?),
        Output::Split => {
            let (ours, theirs) = io::pipe()?;
            (Some(ours), theirs)
        }
    };
    let mut command = Command::new(program);
    command
        .arg0("reagent")
        .arg(SUPERVISOR_ARGUMENT)
        .arg(match spec.stdin {
            Stdin::Null => "null",
            Stdin::Piped => "piped",
        })
        .arg(&spec.program)
        .args(&spec.args)
        .current_dir(&spec.cwd)
        .stdin(OwnedFd::from(theirs))
        .stdout(child_stdout)
        .stderr(child_stderr);
    if spec.env.base == Base::Empty {
        command.env_clear();
    }
    for name in &spec.env.remove {
        command.env_remove(name);
    }
    command.envs(spec.env.set.iter().map(|(name, value)| (name, value)));
    let mut command = tokio::process::Command::from(command);
    let supervisor = command.spawn()?;
    // It holds the far ends of the pipes, which would keep them from ending.
    drop(command);
    ours.set_nonblocking(true)?;
    let channel = Arc::new(UnixStream::from_std(ours)?);
    Ok(Running {
        stdin: (spec.stdin == Stdin::Piped).then(|| ChildInput::new(Arc::clone(&channel))),
        stdout: Some(Receiver::from_owned_fd(stdout.into())?),
        stderr: stderr.map(|pipe| Receiver::from_owned_fd(pipe.into())).transpose()?,
        link: Link { channel, supervisor, unread: Vec::new(), group: None, exit: None },
    })
}

impl Running {
    /// Waits until the command and whatever it left behind have ended. May be dropped and called again.
    /// Errors: the command could not be started, or its supervisor was killed.
    pub async fn wait(&mut self) -> io::Result<Exit> {
        self.link.wait().await
    }

    /// As [`Self::wait`], and hands over all output, also what still lies in the pipes at the end. Never waits for
    /// the end of a stream. May be dropped and called again without loss.
    pub async fn follow(&mut self, mut sink: impl FnMut(Stream, &[u8])) -> io::Result<Exit> {
        let (mut out, mut err) = (vec![0; PIECE], vec![0; PIECE]);
        let exit = loop {
            let (stream, count) = tokio::select! {
                count = read(&mut self.stdout, &mut out) => (Stream::Stdout, count),
                count = read(&mut self.stderr, &mut err) => (Stream::Stderr, count),
                exit = self.link.wait() => break exit,
            };
            let (pipe, buffer) = match stream {
                Stream::Stdout => (&mut self.stdout, &out),
                Stream::Stderr => (&mut self.stderr, &err),
            };
            match buffer.get(..count) {
                Some(bytes) if !bytes.is_empty() => sink(stream, bytes),
                _ => *pipe = None,
            }
        };
        for (stream, pipe) in [(Stream::Stdout, &mut self.stdout), (Stream::Stderr, &mut self.stderr)] {
            let Some(pipe) = pipe else { continue };
            while let Ok(count @ 1..) = pipe.try_read(&mut out) {
                sink(stream, out.get(..count).unwrap_or_default());
            }
        }
        exit
    }

    /// Begins to end the tree, TERM then KILL; [`Self::wait`] and [`Self::follow`] tell when it is done.
    pub fn stop(&self) {
        self.link.hang_up(Shutdown::Write);
    }

    /// Ends the tree and waits at most 200 ms for that. `None` when it takes longer; it goes on all the same.
    pub async fn end(&mut self) -> Option<Exit> {
        self.stop();
        tokio::time::timeout(END, self.wait()).await.ok()?.ok()
    }
}

/// 0 at the end of the stream or on an error; pending when there is no stream.
async fn read(pipe: &mut Option<Receiver>, buffer: &mut [u8]) -> usize {
    match pipe {
        Some(pipe) => pipe.read(buffer).await.unwrap_or(0),
        None => std::future::pending().await,
    }
}

/// The channel to the supervisor. The supervisor ends its tree when this side closes.
#[derive(Debug)]
struct Link {
    channel: Arc<UnixStream>,
    /// Held so that the supervisor is reaped.
    supervisor: tokio::process::Child,
    unread: Vec<u8>,
    group: Option<i32>,
    exit: Option<Exit>,
}

impl Link {
    async fn wait(&mut self) -> io::Result<Exit> {
        loop {
            if let Some(exit) = self.exit {
                return Ok(exit);
            }
            while let Some(report) = self.next_report() {
                match report {
                    Report::Started { group } => self.group = Some(group),
                    Report::NotStarted { errno, error } => {
                        return Err(
                            errno.map_or_else(|| io::Error::other(error), io::Error::from_raw_os_error)
                        );
                    }
                    Report::Ended { code, signal, left, alive } => {
                        // Set first: this future may be dropped while it waits.
                        self.exit = Some(Exit { code, signal, left, alive });
                        self.supervisor.wait().await.ok();
                    }
                }
            }
            if self.exit.is_none() {
                self.read().await?;
            }
        }
    }

    fn next_report(&mut self) -> Option<Report> {
        let end = self.unread.iter().position(|byte| *byte == b'\n')?;
        let line: Vec<u8> = self.unread.drain(..=end).collect();
        serde_json::from_slice(&line).ok()
    }

    async fn read(&mut self) -> io::Result<()> {
        loop {
            self.channel.readable().await?;
            let mut buffer = [0; 512];
            match self.channel.try_read(&mut buffer) {
                Ok(0) => return Err(self.lost()),
                Ok(count) => {
                    self.unread.extend_from_slice(buffer.get(..count).unwrap_or_default());
                    return Ok(());
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => return Err(self.lost()),
            }
        }
    }

    /// Somebody killed the supervisor.
    fn lost(&mut self) -> io::Error {
        // Not reaped yet, so its number is still its own.
        if let Some(pid) = self.supervisor.id() {
            tree::kill_session(Pid::from_raw(pid.cast_signed()), self.group.map(Pid::from_raw));
        }
        io::Error::other("the supervisor of the command was killed")
    }

    fn hang_up(&self, how: Shutdown) {
        shutdown(self.channel.as_raw_fd(), how).ok();
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        // The input may hold the channel as well, so letting go of it is not enough.
        self.hang_up(Shutdown::Both);
    }
}

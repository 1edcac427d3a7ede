//! The supervisor's side: one command, its whole tree, and the channel whose end means the end of all.

use std::ffi::OsString;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{ChildStdin, Command, Stdio};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{Pid, dup2_stderr, dup2_stdout, setsid};

use super::input::Frames;
use super::running::Report;
use super::tree::Tree;

/// How long descendants may live on after the command itself.
const GRACE: Duration = Duration::from_millis(100);
/// Between TERM and KILL.
const TERM_TO_KILL: Duration = Duration::from_millis(100);
/// KILL is repeated this often, since a dying tree may still fork.
const KILL_AGAIN: Duration = Duration::from_millis(5);
/// After this the rest is given up: processes of another user, or stuck in the kernel.
const GIVE_UP: Duration = Duration::from_secs(2);

/// The whole life of a supervisor: `args` are the kind of input (`null` or `piped`), the program and its arguments.
/// Gives the exit code of the supervisor, which nobody needs; the report is on the channel.
pub fn supervise(mut args: impl Iterator<Item = OsString>) -> i32 {
    let (Some(stdin), Some(program)) = (args.next(), args.next()) else { return 2 };
    let Ok(mut channel) = channel() else { return 2 };
    match Supervision::start(&channel, &stdin, &program, args).and_then(|mut it| it.run(&mut channel)) {
        Ok(report) => {
            report.send(&mut channel);
            0
        }
        Err(error) => {
            Report::NotStarted { errno: error.raw_os_error(), error: error.to_string() }.send(&mut channel);
            125
        }
    }
}

/// Our standard input is the channel. Taken by duplication, since that needs no unsafe code.
fn channel() -> io::Result<UnixStream> {
    let channel = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    channel.peer_addr()?;
    channel.set_nonblocking(true)?;
    Ok(channel)
}

/// What the thread that waits for children sees.
enum Event {
    /// The command itself ended.
    Ended(WaitStatus),
    /// No child is left; as a subreaper, that means no descendant.
    Alone,
}

/// How far the end is.
#[derive(Clone, Copy)]
enum Stage {
    /// The command runs.
    Running,
    /// It ended by itself; others may follow until then.
    Grace(Instant),
    /// TERM was sent; KILL follows then.
    Terminating(Instant),
    /// KILL is sent again and again, until then.
    Killing(Instant),
}

struct Supervision {
    tree: Tree,
    /// The pipe wakes `poll`; the events themselves come through the channel.
    wake: PipeReader,
    events: mpsc::Receiver<Event>,
    frames: Frames,
    stdin: Option<ChildStdin>,
    listening: bool,
    status: Option<WaitStatus>,
    alone: bool,
    left: usize,
    stage: Stage,
}

impl Supervision {
    fn start(
        mut channel: &UnixStream,
        stdin: &OsString,
        program: &OsString,
        args: impl Iterator<Item = OsString>,
    ) -> io::Result<Self> {
        // No controlling terminal for the tree. Fails only for the leader of a group, which we are not.
        setsid().ok();
        #[cfg(target_os = "linux")]
        nix::sys::prctl::set_child_subreaper(true)?;
        let (wake, waker) = io::pipe()?;
        let (sender, events) = mpsc::channel();
        survive_signals()?;
        // The command leads a group of its own, so that its `kill 0` does not hit us.
        let mut child = Command::new(program)
            .args(args)
            .stdin(if stdin == "piped" { Stdio::piped() } else { Stdio::null() })
            .process_group(0)
            .spawn()?;
        // Only now, since the command would inherit the mask.
        SigSet::all().thread_block().ok();
        let command = Pid::from_raw(child.id().cast_signed());
        let stdin = child.stdin.take();
        if let Some(stdin) = &stdin {
            fcntl(stdin, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        }
        release_output()?;
        let started = Report::Started { group: command.as_raw() }.line();
        channel.write_all(started.as_bytes()).ok();
        let waiter = std::thread::Builder::new();
        if let Err(error) = waiter.spawn(move || wait_for_children(command, &sender, waker)) {
            Tree::new(command).signal(Signal::SIGKILL);
            return Err(error);
        }
        Ok(Self {
            tree: Tree::new(command),
            wake,
            events,
            frames: Frames::default(),
            stdin,
            listening: true,
            status: None,
            alone: false,
            left: 0,
            stage: Stage::Running,
        })
    }

    fn run(&mut self, channel: &mut UnixStream) -> io::Result<Report> {
        loop {
            self.take_events();
            if let Some(status) = self.status {
                if self.finished() {
                    return Ok(self.report(status));
                }
                if matches!(self.stage, Stage::Running) {
                    self.stage = Stage::Grace(Instant::now() + GRACE);
                }
            }
            if !self.advance() {
                let status = self.status.unwrap_or(WaitStatus::StillAlive);
                return Ok(self.report(status));
            }
            let (heard, writable) = self.sleep(channel)?;
            if heard {
                self.hear(channel);
            }
            if writable {
                self.feed();
            }
        }
    }

    /// Waits for the next thing to do; says whether the channel has news, and whether the command takes input.
    fn sleep(&mut self, channel: &UnixStream) -> io::Result<(bool, bool)> {
        // A command that takes no input holds back the channel's data, but not its end.
        let wanted =
            if self.listening && self.frames.is_empty() { PollFlags::POLLIN } else { PollFlags::empty() };
        let mut fds = vec![PollFd::new(self.wake.as_fd(), PollFlags::POLLIN)];
        if self.listening {
            fds.push(PollFd::new(channel.as_fd(), wanted));
        }
        if let (Some(stdin), false) = (&self.stdin, self.frames.is_empty()) {
            fds.push(PollFd::new(stdin.as_fd(), PollFlags::POLLOUT));
        }
        match poll(&mut fds, self.timeout()) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
        let ready = |index: usize| fds.get(index).and_then(PollFd::any).unwrap_or(false);
        let woken = ready(0);
        let (heard, writable) = if self.listening { (ready(1), ready(2)) } else { (false, ready(1)) };
        if woken {
            // One byte an event; more of them wake us again.
            self.wake.read_exact(&mut [0]).ok();
        }
        Ok((heard, writable))
    }

    fn timeout(&self) -> PollTimeout {
        let now = Instant::now();
        let wait = match self.stage {
            Stage::Running => return PollTimeout::NONE,
            Stage::Grace(until) | Stage::Terminating(until) => until.saturating_duration_since(now),
            Stage::Killing(_) => KILL_AGAIN,
        };
        // Without a subreaper nobody tells us that the group is empty.
        let wait = if cfg!(target_os = "linux") { wait } else { wait.min(Duration::from_millis(10)) };
        PollTimeout::try_from(wait + Duration::from_millis(1)).unwrap_or(PollTimeout::ZERO)
    }

    fn take_events(&mut self) {
        while let Ok(event) = self.events.try_recv() {
            match event {
                Event::Ended(status) => {
                    self.status = Some(status);
                    self.tree.command_ended();
                }
                Event::Alone => self.alone = true,
            }
        }
    }

    fn finished(&self) -> bool {
        self.alone && (cfg!(target_os = "linux") || !self.tree.group_lives())
    }

    /// Goes to the next stage when its time has come; `false` when nothing more can be done.
    fn advance(&mut self) -> bool {
        let now = Instant::now();
        match self.stage {
            Stage::Grace(until) if now >= until => self.terminate(),
            Stage::Terminating(until) if now >= until => {
                self.tree.signal(Signal::SIGKILL);
                self.stage = Stage::Killing(now + GIVE_UP);
            }
            Stage::Killing(until) if now >= until => return false,
            Stage::Killing(_) => {
                self.tree.signal(Signal::SIGKILL);
            }
            Stage::Running | Stage::Grace(_) | Stage::Terminating(_) => {}
        }
        true
    }

    fn terminate(&mut self) {
        let reached = self.tree.signal(Signal::SIGTERM);
        if self.status.is_some() {
            self.left = reached;
        }
        self.stage = Stage::Terminating(Instant::now() + TERM_TO_KILL);
    }

    fn hear(&mut self, channel: &mut UnixStream) {
        let mut buffer = [0; 16 * 1024];
        // With input waiting we were woken by the end of the channel alone.
        match channel.read(&mut buffer) {
            Ok(0) => self.hung_up(),
            Ok(count) => {
                self.frames.take(buffer.get(..count).unwrap_or_default());
                self.feed();
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            Err(_) => self.hung_up(),
        }
    }

    fn hung_up(&mut self) {
        self.listening = false;
        self.stdin = None;
        if matches!(self.stage, Stage::Running | Stage::Grace(_)) {
            self.terminate();
        }
    }

    /// Passes on as much input as the command takes.
    fn feed(&mut self) {
        let Some(stdin) = &mut self.stdin else { return self.frames.discard() };
        let open = self.frames.pass_on(stdin);
        if !open {
            self.stdin = None;
            self.frames.discard();
        }
    }

    fn report(&self, status: WaitStatus) -> Report {
        let (code, signal) = match status {
            WaitStatus::Exited(_, code) => (Some(code), None),
            WaitStatus::Signaled(_, signal, _) => (None, Some(signal as i32)),
            _ => (None, None),
        };
        let alive = if self.finished() { 0 } else { self.tree.members().len() };
        Report::Ended { code, signal, left: self.left, alive }
    }
}

/// Nothing but KILL may end us before our tree. Handlers, since the command would inherit ignored or blocked signals;
/// a handler is gone in a new program.
fn survive_signals() -> io::Result<()> {
    use signal_hook::consts::{SIGALRM, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
    for signal in [SIGALRM, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2] {
        signal_hook::flag::register(signal, Arc::default())?;
    }
    Ok(())
}

/// Gives up our copies of the command's output, so that its pipes end with its last process.
fn release_output() -> io::Result<()> {
    let null: OwnedFd = std::fs::OpenOptions::new().write(true).open("/dev/null")?.into();
    dup2_stdout(&null)?;
    dup2_stderr(&null)?;
    Ok(())
}

fn wait_for_children(command: Pid, events: &mpsc::Sender<Event>, mut waker: PipeWriter) {
    loop {
        let event = match waitpid(None::<Pid>, None) {
            Ok(status) if status.pid() == Some(command) => Event::Ended(status),
            Ok(_) | Err(Errno::EINTR) => continue,
            Err(_) => Event::Alone,
        };
        let last = matches!(event, Event::Alone);
        if events.send(event).is_err() || waker.write_all(&[1]).is_err() || last {
            return;
        }
    }
}

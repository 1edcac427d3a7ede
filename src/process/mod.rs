//! Runs children under a supervisor of our own, so that a whole tree ends with its call, whatever happens to us.
//!
//! `reagent __run` is the supervisor: one small process a command, dispatched before anything else in `main`. Its
//! standard input is one end of a socket pair; our end is close-on-exec, so no other child can keep it open. When
//! our end closes (cancel, exit, crash, `kill -9`), the supervisor ends every descendant of its command: TERM, and
//! KILL 100 ms later. On Linux it is the subreaper of the tree and finds processes that moved to a session of their
//! own. Elsewhere it reaches the command's process group only, and a process that left the group survives.

mod capture;
mod input;
mod running;
mod supervise;
mod tree;

use std::ffi::OsString;
use std::path::PathBuf;

pub use capture::{Capture, Utf8Stream};
pub use input::ChildInput;
pub use running::{Exit, Running, Stream};
pub use supervise::supervise;

/// First argument that makes the binary a supervisor.
pub const SUPERVISOR_ARGUMENT: &str = "__run";

/// Starts commands; cheap to clone.
#[derive(Debug, Clone)]
pub struct Supervisor {
    program: PathBuf,
}

impl Supervisor {
    /// A supervisor that runs as this binary, which must dispatch [`SUPERVISOR_ARGUMENT`] to [`supervise`].
    #[must_use]
    pub fn new(program: PathBuf) -> Self {
        Self { program }
    }

    /// The binary of this very process, also after it was replaced on disk where the system allows it.
    pub fn own() -> std::io::Result<Self> {
        let program = if cfg!(target_os = "linux") {
            PathBuf::from("/proc/self/exe")
        } else {
            std::env::current_exe()?
        };
        Ok(Self { program })
    }

    /// Starts a command. Errors: the working folder is missing, or no process could be made. A command that does
    /// not exist is reported by [`Running::wait`].
    pub fn spawn(&self, spec: &Spec) -> std::io::Result<Running> {
        running::spawn(&self.program, spec)
    }
}

/// What to run.
#[derive(Debug, Clone)]
pub struct Spec {
    /// Program, looked up in `PATH` when it has no slash.
    pub program: OsString,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// Working folder.
    pub cwd: PathBuf,
    /// Its environment.
    pub env: Environment,
    /// Its standard input.
    pub stdin: Stdin,
    /// Where its output goes.
    pub output: Output,
}

impl Spec {
    /// A command with our environment, no input, and both streams in one.
    pub fn new(program: impl Into<OsString>, cwd: impl Into<PathBuf>) -> Self {
        Self {
            program: program.into(),
            args: Vec::new(),
            cwd: cwd.into(),
            env: Environment::default(),
            stdin: Stdin::Null,
            output: Output::Merged,
        }
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<I: IntoIterator<Item = S>, S: Into<OsString>>(mut self, args: I) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }
}

/// A child's environment: what it starts from, then what is taken out, then what is set.
#[derive(Debug, Clone, Default)]
pub struct Environment {
    /// What it starts from.
    pub base: Base,
    /// Names taken out.
    pub remove: Vec<OsString>,
    /// Names and values set.
    pub set: Vec<(OsString, OsString)>,
}

/// What an environment starts from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Base {
    /// Ours.
    #[default]
    Inherited,
    /// Nothing.
    Empty,
}

/// A child's standard input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stdin {
    /// End of file at once.
    Null,
    /// [`Running::stdin`].
    Piped,
}

/// Where a child's output goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Output {
    /// Both streams into [`Running::stdout`], in true order.
    Merged,
    /// Each into its own.
    Split,
}

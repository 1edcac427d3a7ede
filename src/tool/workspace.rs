//! The one place that resolves a path, and what this agent has read.

use std::path::{Path, PathBuf};

/// The folders a session works in.
#[derive(Debug)]
pub struct Workspace {
    cwd: PathBuf,
    roots: Vec<PathBuf>,
}

impl Workspace {
    /// A workspace at `cwd` (a real path) with further roots.
    #[must_use]
    pub fn new(cwd: PathBuf, extra: Vec<PathBuf>) -> Self {
        let mut roots = vec![cwd.clone()];
        roots.extend(extra);
        Self { cwd, roots }
    }

    /// The working folder.
    pub fn cwd(&self) -> &Path {
        &self.cwd
    }

    /// The working folder and all added ones.
    pub fn roots(&self) -> &[PathBuf] {
        &self.roots
    }

    /// The same folders with nothing read yet, for a child agent.
    #[must_use]
    pub fn for_child(&self) -> Self {
        Self { cwd: self.cwd.clone(), roots: self.roots.clone() }
    }

    /// Takes in what a resume rebuilds.
    pub fn apply(&self, _change: &crate::protocol::StateChange) {}
}

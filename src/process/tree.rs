//! Finds and signals every process below the supervisor.

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;

/// The tree of one command, seen from its supervisor.
#[derive(Debug)]
pub(super) struct Tree {
    /// The process group that the command leads, as long as its number cannot belong to somebody else.
    group: Option<Pid>,
}

impl Tree {
    pub(super) fn new(command: Pid) -> Self {
        Self { group: Some(command) }
    }

    /// The command itself was reaped. Where the walk finds every process, the group has done its duty.
    pub(super) fn command_ended(&mut self) {
        if cfg!(target_os = "linux") {
            self.group = None;
        }
    }

    /// Signals everything that lives; gives how many processes that were, as far as it can be known.
    pub(super) fn signal(&self, signal: Signal) -> usize {
        let members = self.members();
        for pid in &members {
            kill(*pid, signal).ok();
            // A stopped process would not act on the signal.
            kill(*pid, Signal::SIGCONT).ok();
        }
        // Reaches what was forked since the walk, as far as it stayed in the group.
        let group = self.group.is_some_and(|group| killpg(group, signal).is_ok());
        if cfg!(target_os = "linux") { members.len() } else { usize::from(group) }
    }

    /// Whether something still lives, where only the process group can tell.
    pub(super) fn group_lives(&self) -> bool {
        self.group.is_some_and(|group| killpg(group, None).is_ok())
    }

    #[cfg(target_os = "linux")]
    #[expect(clippy::unused_self, reason = "the same shape on every system")]
    pub(super) fn members(&self) -> Vec<Pid> {
        linux::descendants(Pid::this())
    }

    #[cfg(not(target_os = "linux"))]
    #[expect(clippy::unused_self, reason = "the same shape on every system")]
    pub(super) fn members(&self) -> Vec<Pid> {
        Vec::new()
    }
}

#[cfg(target_os = "linux")]
mod linux {
    use std::collections::HashMap;
    use std::fs;

    use nix::unistd::Pid;

    /// Every living process below `root`. Since the supervisor adopts orphans, the chain of parents never breaks.
    pub(super) fn descendants(root: Pid) -> Vec<Pid> {
        let mut children: HashMap<i32, Vec<(i32, char)>> = HashMap::new();
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        for entry in entries {
            let name = entry.file_name();
            let Some(pid) = name.to_str().and_then(|name| name.parse().ok()) else { continue };
            // The name of a process may hold any byte.
            let Ok(stat) = fs::read(entry.path().join("stat")) else { continue };
            if let Some((parent, state)) = parent_and_state(&String::from_utf8_lossy(&stat)) {
                children.entry(parent).or_default().push((pid, state));
            }
        }
        let mut found = Vec::new();
        let mut open = vec![root.as_raw()];
        while let Some(parent) = open.pop() {
            for (pid, state) in children.remove(&parent).unwrap_or_default() {
                open.push(pid);
                if !matches!(state, 'Z' | 'X') {
                    found.push(Pid::from_raw(pid));
                }
            }
        }
        found
    }

    /// From a line of `/proc/PID/stat` (proc(5)): the name is in brackets and may hold brackets and blanks.
    fn parent_and_state(stat: &str) -> Option<(i32, char)> {
        let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
        let state = fields.next()?.chars().next()?;
        Some((fields.next()?.parse().ok()?, state))
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn the_name_of_a_process_does_not_mislead() {
            let check = |line: &str, want| assert_eq!(parent_and_state(line), want, "{line}");
            check("12 (sh) S 7 12 12 0", Some((7, 'S')));
            check("12 (a) b) R 1 (x) Z 9 1", Some((9, 'Z')));
            check("12 ((sd-pam)) S 800 1", Some((800, 'S')));
            check("12 sh S 7", None);
            check("", None);
        }
    }
}

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

/// Kills what a dead supervisor left: its session, as far as it can be found. What moved to a session of its own is
/// out of reach then.
#[cfg(target_os = "linux")]
pub(super) fn kill_session(supervisor: Pid, _group: Option<Pid>) {
    /// A dying tree may still fork.
    const ROUNDS: usize = 20;
    for _ in 0..ROUNDS {
        let members = linux::session(supervisor);
        for pid in &members {
            kill(*pid, Signal::SIGKILL).ok();
        }
        if members.is_empty() {
            return;
        }
    }
}

/// Kills the process group that a dead supervisor's command led.
#[cfg(not(target_os = "linux"))]
pub(super) fn kill_session(_supervisor: Pid, group: Option<Pid>) {
    if let Some(group) = group {
        killpg(group, Signal::SIGKILL).ok();
    }
}

#[cfg(target_os = "linux")]
mod linux {
    use std::collections::HashMap;
    use std::fs;

    use nix::unistd::Pid;

    /// Every living process below `root`. Since the supervisor adopts orphans, the chain of parents never breaks.
    pub(super) fn descendants(root: Pid) -> Vec<Pid> {
        let mut children: HashMap<i32, Vec<(Pid, Stat)>> = HashMap::new();
        for (pid, stat) in processes() {
            children.entry(stat.parent).or_default().push((pid, stat));
        }
        let mut found = Vec::new();
        let mut open = vec![root.as_raw()];
        while let Some(parent) = open.pop() {
            for (pid, stat) in children.remove(&parent).unwrap_or_default() {
                open.push(pid.as_raw());
                if stat.lives() {
                    found.push(pid);
                }
            }
        }
        found
    }

    /// Every living process of a session but its leader.
    pub(super) fn session(leader: Pid) -> Vec<Pid> {
        let members = processes()
            .filter(|(pid, stat)| stat.session == leader.as_raw() && *pid != leader && stat.lives());
        members.map(|(pid, _)| pid).collect()
    }

    fn processes() -> impl Iterator<Item = (Pid, Stat)> {
        fs::read_dir("/proc").into_iter().flatten().flatten().filter_map(|entry| {
            let pid = entry.file_name().to_str()?.parse().ok()?;
            // The name of a process may hold any byte.
            let stat = fs::read(entry.path().join("stat")).ok()?;
            Some((Pid::from_raw(pid), Stat::parse(&String::from_utf8_lossy(&stat))?))
        })
    }

    #[derive(Debug, PartialEq, Eq)]
    struct Stat {
        state: char,
        parent: i32,
        session: i32,
    }

    impl Stat {
        /// From `/proc/PID/stat` (proc(5)): the name is in brackets and may hold brackets and blanks.
        fn parse(stat: &str) -> Option<Self> {
            let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
            let state = fields.next()?.chars().next()?;
            let parent = fields.next()?.parse().ok()?;
            let session = fields.nth(1)?.parse().ok()?;
            Some(Self { state, parent, session })
        }

        fn lives(&self) -> bool {
            !matches!(self.state, 'Z' | 'X')
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn the_name_of_a_process_does_not_mislead() {
            let check = |line: &str, want: Option<(char, i32, i32)>| {
                let want = want.map(|(state, parent, session)| Stat { state, parent, session });
                assert_eq!(Stat::parse(line), want, "{line}");
            };
            check("12 (sh) S 7 12 13 0", Some(('S', 7, 13)));
            check("12 (a) b) R 1 (x) Z 9 1 2", Some(('Z', 9, 2)));
            check("12 ((sd-pam)) S 800 1 800 0", Some(('S', 800, 800)));
            check("12 (sh) S 7 12", None);
            check("12 sh S 7 1 1", None);
            check("", None);
        }
    }
}

//! What may run: a pure policy over calls and what they touch; no I/O, every verdict says why.

mod rules;

use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::sync::{Arc, RwLock};

use crate::protocol::{Access, Mode, RuleOffer, Target, ToolCall, Verdict, VerdictKind};

pub use rules::{Rule, RuleError};

/// Judges calls.
pub trait PermissionGate: Send + Sync + Debug {
    /// The verdict on a call that would touch this.
    fn check(&self, call: &ToolCall, access: &Access) -> Verdict;
}

/// The policy in force; swapped whole, so that all agents see a change at once.
#[derive(Debug)]
pub struct Gate(RwLock<Arc<Policy>>);

impl Gate {
    /// A gate with this policy.
    pub fn new(policy: Policy) -> Self {
        Self(RwLock::new(Arc::new(policy)))
    }

    /// The policy in force.
    pub fn policy(&self) -> Arc<Policy> {
        Arc::clone(&self.0.read().unwrap_or_else(std::sync::PoisonError::into_inner))
    }

    /// Puts a changed copy in force.
    pub fn change(&self, change: impl FnOnce(&mut Policy)) {
        let mut slot = self.0.write().unwrap_or_else(std::sync::PoisonError::into_inner);
        let mut policy = Policy::clone(&slot);
        change(&mut policy);
        *slot = Arc::new(policy);
    }
}

impl PermissionGate for Gate {
    fn check(&self, call: &ToolCall, access: &Access) -> Verdict {
        self.policy().check(call, access)
    }
}

/// Mode, rules and folders.
#[derive(Debug, Clone, Default)]
pub struct Policy {
    /// The mode.
    pub mode: Mode,
    /// `--allow-write`: edits in the workspace and commands run.
    pub allow_write: bool,
    /// Real paths of the workspace folders; the first anchors relative rules.
    pub roots: Vec<PathBuf>,
    /// Real path of the user's home, for `~/` rules.
    pub home: Option<PathBuf>,
    /// What runs without a question.
    pub allow: Vec<Rule>,
    /// What never runs.
    pub deny: Vec<Rule>,
}

impl Policy {
    /// The verdict on a call: deny rules first, then allow rules, then the mode.
    #[must_use]
    pub fn check(&self, call: &ToolCall, access: &Access) -> Verdict {
        let place = rules::Place { cwd: self.cwd(), home: self.home.as_deref() };
        if let Some(rule) = self.deny.iter().find(|rule| rule.denies(call, access, place)) {
            let mut verdict = Verdict::new(
                VerdictKind::Deny,
                format!("the rule `{rule}` forbids it; remove the rule to allow it"),
            );
            verdict.rule = Some(rule.to_string());
            return verdict;
        }
        if *access == Access::Session {
            return Verdict::new(VerdictKind::Allow, "it changes only this session");
        }
        if let Some(rule) = self.allow.iter().find(|rule| rule.allows(call, access, place)) {
            let mut verdict = Verdict::new(VerdictKind::Allow, format!("the rule `{rule}` allows it"));
            verdict.rule = Some(rule.to_string());
            return verdict;
        }
        if self.mode == Mode::BypassPermissions {
            return Verdict::new(VerdictKind::Allow, "mode bypassPermissions");
        }
        let verdict = self.by_mode(call, access);
        match (verdict.kind, self.mode) {
            (VerdictKind::Ask, Mode::DontAsk) => Verdict {
                kind: VerdictKind::Deny,
                reason: format!("{}, and mode dontAsk denies what would be asked", verdict.reason),
                ..verdict
            },
            _ => verdict,
        }
    }

    fn by_mode(&self, call: &ToolCall, access: &Access) -> Verdict {
        match access {
            Access::Session => Verdict::new(VerdictKind::Allow, "it changes only this session"),
            Access::Read(targets) => match targets.iter().find(|t| !self.inside(t)) {
                None => Verdict::new(VerdictKind::Allow, "reading in the workspace"),
                Some(out) => self.ask(
                    call,
                    format!("{} is outside the workspace", out.real.display()),
                    &format!("`--add-dir {}`", folder(&out.real).display()),
                ),
            },
            Access::Write(_) if self.mode == Mode::Plan => {
                Verdict::new(VerdictKind::Deny, "mode plan changes nothing; switch the mode to allow it")
            }
            Access::Write(targets) => match targets.iter().find(|t| !self.inside(t)) {
                None if self.allow_write || self.mode == Mode::AcceptEdits => {
                    Verdict::new(VerdictKind::Allow, "edits in the workspace are allowed")
                }
                None => self.ask(call, "it changes files".to_owned(), "`--allow-write` (or ALLOW_WRITE=1)"),
                Some(out) => self.ask(
                    call,
                    format!("{} is outside the workspace", out.real.display()),
                    &format!("`--allow-write --add-dir {}`", folder(&out.real).display()),
                ),
            },
            Access::Execute(_) if self.mode == Mode::Plan => {
                Verdict::new(VerdictKind::Deny, "mode plan runs no commands; switch the mode to allow it")
            }
            Access::Execute(_) if self.allow_write => Verdict::new(VerdictKind::Allow, "--allow-write"),
            Access::Execute(_) => self.ask(
                call,
                "it runs a command".to_owned(),
                "`--allow-write` (or ALLOW_WRITE=1), or a rule such as `--allowedTools 'Bash(cargo test)'`",
            ),
            Access::Network { host } => self.ask(
                call,
                format!("it talks to {host}"),
                &format!("`--allowedTools {}` or `--permission-mode bypassPermissions`", call.name),
            ),
            Access::Remote { server, hints } if hints.read_only && self.mode != Mode::Plan => self.ask(
                call,
                format!("it calls the server {server}, which says that the tool only reads"),
                &format!("`--allowedTools {}`", call.name),
            ),
            Access::Remote { server, .. } => self.ask(
                call,
                format!("it calls the server {server}"),
                &format!("`--allowedTools {}`", call.name),
            ),
        }
    }

    fn ask(&self, call: &ToolCall, reason: String, hint: &str) -> Verdict {
        let place = rules::Place { cwd: self.cwd(), home: self.home.as_deref() };
        let mut verdict = Verdict::new(VerdictKind::Ask, reason);
        hint.clone_into(&mut verdict.hint);
        verdict.offers =
            Rule::exact(call, place).map(|rule| RuleOffer { rule: rule.to_string() }).into_iter().collect();
        verdict
    }

    fn inside(&self, target: &Target) -> bool {
        let inside = |path: &Path| self.roots.iter().any(|root| path.starts_with(root));
        // A link inside that leads outside is outside; a link outside that leads inside is inside.
        inside(&target.real)
    }

    fn cwd(&self) -> &Path {
        self.roots.first().map_or(Path::new("/"), PathBuf::as_path)
    }
}

fn folder(path: &Path) -> &Path {
    path.parent().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn policy(mode: Mode) -> Policy {
        Policy { mode, roots: vec!["/w".into()], ..Policy::default() }
    }

    fn target(path: &str) -> Target {
        Target { shown: path.into(), real: path.into() }
    }

    fn verdict(policy: &Policy, name: &str, access: &Access) -> VerdictKind {
        let input = match access {
            Access::Execute(command) => json!({ "command": command }),
            _ => json!({"file_path": "a"}),
        };
        policy.check(&ToolCall { id: "1".into(), name: name.into(), input }, access).kind
    }

    #[test]
    fn modes() {
        use VerdictKind::{Allow, Ask, Deny};
        let accesses = [
            Access::Session,
            Access::Read(vec![target("/w/a")]),
            Access::Read(vec![target("/etc/x")]),
            Access::Write(vec![target("/w/a")]),
            Access::Write(vec![target("/etc/x")]),
            Access::Execute("ls".into()),
            Access::Network { host: "x".into() },
        ];
        let table = [
            (Mode::Default, [Allow, Allow, Ask, Ask, Ask, Ask, Ask]),
            (Mode::AcceptEdits, [Allow, Allow, Ask, Allow, Ask, Ask, Ask]),
            (Mode::Plan, [Allow, Allow, Ask, Deny, Deny, Deny, Ask]),
            (Mode::DontAsk, [Allow, Allow, Deny, Deny, Deny, Deny, Deny]),
            (Mode::BypassPermissions, [Allow; 7]),
        ];
        for (mode, expected) in table {
            let policy = policy(mode);
            let got = accesses.each_ref().map(|access| verdict(&policy, "Read", access));
            assert_eq!(got, expected, "{mode}");
        }
        let mut write = policy(Mode::Default);
        write.allow_write = true;
        let got = accesses.each_ref().map(|access| verdict(&write, "Write", access));
        assert_eq!(got, [Allow, Allow, Ask, Allow, Ask, Allow, Ask]);
    }

    #[test]
    fn a_link_out_of_the_workspace_is_outside() {
        let link = Target { shown: "/w/link".into(), real: "/etc/passwd".into() };
        assert_eq!(verdict(&policy(Mode::Default), "Read", &Access::Read(vec![link])), VerdictKind::Ask);
    }

    #[test]
    fn every_question_names_the_flag_that_would_allow_it() {
        let policy = policy(Mode::Default);
        let call = ToolCall { id: "1".into(), name: "Bash".into(), input: json!({"command": "make"}) };
        let verdict = policy.check(&call, &Access::Execute("make".into()));
        assert!(verdict.hint.contains("--allow-write"), "{verdict:?}");
        assert_eq!(verdict.offers, [RuleOffer { rule: "Bash(make)".into() }]);
    }

    #[test]
    fn a_deny_rule_beats_bypass_and_allow() {
        let mut policy = policy(Mode::BypassPermissions);
        policy.deny.push("Bash(git push:*)".parse().unwrap());
        policy.allow.push("Bash".parse().unwrap());
        assert_eq!(verdict(&policy, "Bash", &Access::Execute("true; git push -f".into())), VerdictKind::Deny);
    }
}

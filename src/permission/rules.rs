//! Rules as people write them: `Tool` or `Tool(specifier)`, read strictly and matched without guessing.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

use crate::protocol::{Access, Target, ToolCall};

/// One rule.
#[derive(Debug, Clone)]
pub struct Rule {
    tool: String,
    spec: Option<String>,
}

/// Where relative paths of a rule are anchored.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place<'a> {
    pub(crate) cwd: &'a Path,
    pub(crate) home: Option<&'a Path>,
}

/// A rule that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "cannot read the rule '{rule}': {reason}; write `Tool` or `Tool(what)`, for example `Bash(cargo test:*)`"
)]
pub struct RuleError {
    rule: String,
    reason: &'static str,
}

impl FromStr for Rule {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Self, RuleError> {
        let fail = |reason| Err(RuleError { rule: text.to_owned(), reason });
        let text = text.trim();
        let (tool, spec) = match text.split_once('(') {
            None => (text, None),
            Some((tool, rest)) => match rest.strip_suffix(')') {
                Some(spec) => (tool, Some(spec)),
                None => return fail("the closing parenthesis is missing"),
            },
        };
        if tool.is_empty() {
            return fail("the tool's name is missing");
        }
        if !tool.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '*')) {
            return fail("the tool's name has an odd character");
        }
        let spec = spec.filter(|spec| *spec != "*").map(str::to_owned);
        if spec.as_deref() == Some("") {
            return fail("nothing stands in the parentheses");
        }
        Ok(Self { tool: tool.to_owned(), spec })
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.spec {
            None => f.write_str(&self.tool),
            Some(spec) => write!(f, "{}({spec})", self.tool),
        }
    }
}

impl Rule {
    /// Splits a list as Claude Code's flags take it: by commas and blanks outside parentheses.
    pub fn list(text: &str) -> Result<Vec<Self>, RuleError> {
        let (mut depth, mut word, mut rules) = (0_usize, String::new(), Vec::new());
        for c in text.chars().chain([' ']) {
            match c {
                ',' | ' ' | '\n' | '\t' if depth == 0 => {
                    if !word.is_empty() {
                        rules.push(std::mem::take(&mut word).parse()?);
                    }
                    continue;
                }
                '(' => depth += 1,
                ')' => depth = depth.saturating_sub(1),
                _ => {}
            }
            word.push(c);
        }
        if word.trim().is_empty() {
            Ok(rules)
        } else {
            Err(RuleError { rule: word, reason: "the closing parenthesis is missing" })
        }
    }

    /// The rule that allows exactly this call again.
    pub(crate) fn exact(call: &ToolCall, place: Place<'_>) -> Option<Self> {
        let field = |name: &str| call.input.get(name).and_then(|v| v.as_str()).map(str::to_owned);
        let spec = match call.name.as_str() {
            "Bash" => Some(field("command")?),
            "Read" | "Edit" | "Write" => {
                let path = PathBuf::from(field("file_path")?);
                let path = if path.is_absolute() { path } else { place.cwd.join(path) };
                Some(format!("/{}", escaped(&path.to_string_lossy())))
            }
            _ => None,
        };
        let tool = if call.name == "Write" { "Edit" } else { call.name.as_str() };
        Some(Self { tool: tool.to_owned(), spec })
    }

    /// Whether this rule as an allow rule covers all of a call.
    pub(crate) fn allows(&self, call: &ToolCall, access: &Access, place: Place<'_>) -> bool {
        if !self.names(call, access) {
            return false;
        }
        let Some(spec) = &self.spec else { return true };
        match access {
            Access::Execute(command) => {
                // A pattern covers one simple command; anything the shell could make into more must match to the letter.
                command.trim() == spec.trim()
                    || (!has_shell_syntax(command) && command_matches(spec, command))
            }
            Access::Read(targets) | Access::Write(targets) => {
                !targets.is_empty() && targets.iter().all(|t| both(spec, place, t, |a, b| a && b))
            }
            Access::Network { host } => domain_matches(spec, host),
            Access::Session | Access::Remote { .. } => false,
        }
    }

    /// Whether this rule as a deny rule meets any part of a call.
    pub(crate) fn denies(&self, call: &ToolCall, access: &Access, place: Place<'_>) -> bool {
        if !self.names(call, access) {
            return false;
        }
        let Some(spec) = &self.spec else { return true };
        match access {
            Access::Execute(command) => {
                command_matches(spec, command) || pieces(command).any(|piece| command_matches(spec, piece))
            }
            Access::Read(targets) | Access::Write(targets) => {
                targets.iter().any(|t| both(spec, place, t, |a, b| a || b))
            }
            Access::Network { host } => domain_matches(spec, host),
            Access::Session | Access::Remote { .. } => false,
        }
    }

    /// `Edit` speaks for every tool that writes files, `Read` for every tool that reads them.
    fn names(&self, call: &ToolCall, access: &Access) -> bool {
        match self.tool.as_str() {
            "Edit" if matches!(access, Access::Write(_)) => true,
            "Read" if self.spec.is_some() => matches!(access, Access::Read(_) | Access::Write(_)),
            tool => match tool.strip_suffix('*') {
                Some(prefix) => call.name.starts_with(prefix),
                None => call.name == tool,
            },
        }
    }
}

/// The parts between the shell's separators, without leading assignments and opening brackets.
///
/// Rough on purpose: a deny rule may meet too much, never too little of what it names plainly.
fn pieces(command: &str) -> impl Iterator<Item = &str> {
    command.split([';', '|', '&', '\n', '(', ')', '`', '{', '}', '$', '<', '>', '!']).map(|piece| {
        let mut piece = piece.trim();
        loop {
            let Some((word, rest)) = piece.split_once(char::is_whitespace) else { return piece };
            let assignment = word.split_once('=').is_some_and(|(name, _)| {
                !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_')
            });
            let keyword = matches!(
                word,
                "if" | "then"
                    | "else"
                    | "elif"
                    | "do"
                    | "while"
                    | "until"
                    | "time"
                    | "command"
                    | "exec"
                    | "sudo"
                    | "env"
                    | "nohup"
            );
            if !assignment && !keyword {
                return piece;
            }
            piece = rest.trim_start();
        }
    })
}

fn has_shell_syntax(command: &str) -> bool {
    command.contains([';', '|', '&', '\n', '\r', '(', ')', '`', '$', '<', '>', '\\', '{', '}', '#', '!'])
}

/// `make`, `npm run *`, `git log:*`, `ls*`: `*` is any text; a trailing ` *` or `:*` also meets the bare command.
fn command_matches(spec: &str, command: &str) -> bool {
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let command = words(command);
    let spec = spec.strip_suffix(":*").map_or_else(|| spec.to_owned(), |prefix| format!("{prefix} *"));
    let spec = words(&spec);
    if let Some(bare) = spec.strip_suffix(" *")
        && wildcard(bare, &command)
    {
        return true;
    }
    wildcard(&spec, &command)
}

/// Matches `*` against any text, in linear space and without recursion.
fn wildcard(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(first) = parts.next() else { return text.is_empty() };
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    for part in parts {
        match rest.find(part).and_then(|at| rest.get(at + part.len()..)) {
            Some(after) => rest = after,
            None => return false,
        }
    }
    rest.ends_with(last)
}

fn domain_matches(spec: &str, host: &str) -> bool {
    let Some(domain) = spec.strip_prefix("domain:") else { return false };
    let clean = |text: &str| text.trim_end_matches('.').to_ascii_lowercase();
    let (domain, host) = (clean(domain), clean(host));
    match domain.strip_prefix("*.") {
        Some(base) => host.strip_suffix(base).is_some_and(|rest| rest.len() > 1 && rest.ends_with('.')),
        None => domain == "*" || domain == host,
    }
}

fn both(spec: &str, place: Place<'_>, target: &Target, join: impl Fn(bool, bool) -> bool) -> bool {
    let Some(matcher) = path_matcher(spec, place) else { return false };
    join(matcher.is_match(&target.shown), matcher.is_match(&target.real))
}

/// Anchors: `//abs`, `~/home`, `/x`, `./x` and `a/b` from the working folder, a bare name anywhere below it.
fn path_matcher(spec: &str, place: Place<'_>) -> Option<GlobSet> {
    let base = escaped(&place.cwd.to_string_lossy());
    let pattern = if let Some(absolute) = spec.strip_prefix("//") {
        format!("/{absolute}")
    } else if let Some(rest) = spec.strip_prefix("~/") {
        format!("{}/{rest}", escaped(&place.home?.to_string_lossy()))
    } else if let Some(rest) = spec.strip_prefix('/').or_else(|| spec.strip_prefix("./")) {
        format!("{base}/{rest}")
    } else if spec.contains('/') {
        format!("{base}/{spec}")
    } else {
        format!("{base}/**/{spec}")
    };
    let pattern = pattern.trim_end_matches('/');
    let glob = |text: &str| GlobBuilder::new(text).literal_separator(true).backslash_escape(true).build();
    let mut set = GlobSetBuilder::new();
    // A rule for a folder is a rule for what lies in it.
    set.add(glob(pattern).ok()?).add(glob(&format!("{pattern}/**")).ok()?);
    set.build().ok()
}

fn escaped(path: &str) -> String {
    globset::escape(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn bash(rule: &str, command: &str) -> (bool, bool) {
        let rule: Rule = rule.parse().unwrap();
        let call = ToolCall { id: "1".into(), name: "Bash".into(), input: json!({ "command": command }) };
        let access = Access::Execute(command.into());
        let place = Place { cwd: Path::new("/w"), home: None };
        (rule.allows(&call, &access, place), rule.denies(&call, &access, place))
    }

    #[test]
    fn allow_patterns_never_cover_what_the_shell_could_split() {
        let rule = "Bash(git *)";
        assert!(bash(rule, "git log -1").0);
        assert!(bash(rule, "git").0);
        assert!(!bash(rule, "gitk").0);
        for command in [
            "git log && touch x",
            "git log; touch x",
            "git log | tee x",
            "git log $(touch x)",
            "git log > x",
            "git log & touch x",
            "git log `x`",
            "git log\ntouch x",
        ] {
            assert!(!bash(rule, command).0, "{command}");
        }
    }

    #[test]
    fn deny_patterns_meet_every_part() {
        for command in [
            "git status && git gc --auto",
            "true; git gc",
            "(git gc)",
            "if true; then git gc; fi",
            "echo $(git gc)",
            "X=1 git gc",
            "a | git  gc",
        ] {
            assert!(bash("Bash(git gc:*)", command).1, "{command}");
        }
        assert!(!bash("Bash(git gc:*)", "git gcx").1);
    }

    #[test]
    fn paths() {
        let check = |rule: &str, path: &str| {
            let rule: Rule = rule.parse().unwrap();
            let call = ToolCall { id: "1".into(), name: "Read".into(), input: json!({}) };
            let target = Target { shown: path.into(), real: path.into() };
            let place = Place { cwd: Path::new("/w"), home: Some(Path::new("/home/me")) };
            rule.denies(&call, &Access::Read(vec![target]), place)
        };
        assert!(check("Read(./secret/**)", "/w/secret/a/b"));
        assert!(check("Read(secret)", "/w/x/secret/k"));
        assert!(check("Read(*.env)", "/w/a/prod.env"));
        assert!(check("Read(~/.ssh/**)", "/home/me/.ssh/id"));
        assert!(check("Read(//etc/**)", "/etc/passwd"));
        assert!(!check("Read(//etc/**)", "/w/etc/passwd"));
        assert!(!check("Read(./secret/**)", "/w/other"));
    }

    #[test]
    fn lists_split_outside_parentheses_only() {
        let rules = Rule::list("Bash(git log:*), Edit Read(./a b/**)").unwrap();
        let shown: Vec<String> = rules.iter().map(ToString::to_string).collect();
        assert_eq!(shown, ["Bash(git log:*)", "Edit", "Read(./a b/**)"]);
        for bad in ["Bash(", "(x)", "Bash()", "B!"] {
            assert!(Rule::list(bad).is_err(), "{bad}");
        }
    }
}

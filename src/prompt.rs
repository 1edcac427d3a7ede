//! The system prompt: identity, rules of work, environment, instructions, in an order that caches hold.

use std::path::Path;

use chrono::NaiveDate;

use crate::memory::Instructions;

/// Who the agent is and how it works.
const IDENTITY: &str = include_str!("prompt/identity.md");
/// The same for a child agent.
const CHILD: &str = include_str!("prompt/child.md");
/// What `/init` asks for.
pub const INIT: &str = include_str!("prompt/init.md");

/// What the prompt tells about the place; fixed when the session begins.
#[derive(Debug, Clone, Copy)]
pub struct Surroundings<'a> {
    /// Working folder.
    pub cwd: &'a Path,
    /// Further workspace folders.
    pub add_dirs: &'a [std::path::PathBuf],
    /// For example `linux`.
    pub os: &'a str,
    /// The day the session began.
    pub day: NaiveDate,
    /// Branch of the repository, if it is one.
    pub branch: Option<&'a str>,
}

/// What the user wants of the prompt.
#[derive(Debug, Clone, Copy, Default)]
pub struct Wishes<'a> {
    /// Instead of our identity and rules.
    pub replace: Option<&'a str>,
    /// Behind everything.
    pub append: Option<&'a str>,
}

/// The root agent's system prompt.
#[must_use]
pub fn system(place: Surroundings<'_>, instructions: &Instructions, wishes: Wishes<'_>) -> String {
    build(wishes.replace.unwrap_or(IDENTITY), place, instructions, wishes.append)
}

/// A child agent's system prompt.
#[must_use]
pub fn child_system(place: Surroundings<'_>, instructions: &Instructions) -> String {
    build(CHILD, place, instructions, None)
}

fn build(head: &str, place: Surroundings<'_>, instructions: &Instructions, append: Option<&str>) -> String {
    let mut out = String::from(head.trim());
    out.push_str("\n\n# Environment\n");
    out.push_str(&format!("Working folder: {}\n", place.cwd.display()));
    for dir in place.add_dirs {
        out.push_str(&format!("Also in the workspace: {}\n", dir.display()));
    }
    out.push_str(&format!("System: {}\nDate when the session began: {}\n", place.os, place.day));
    match place.branch {
        Some(branch) => out.push_str(&format!("Git branch when the session began: {branch}\n")),
        None => out.push_str("Not a git repository\n"),
    }
    if !instructions.files.is_empty() {
        out.push_str("\n# Instructions from the user and the project\nThey come before your own habits; where two differ, the later one counts.\n");
        for file in &instructions.files {
            out.push_str(&format!("\n## {}\n{}\n", file.path.display(), file.text));
        }
    }
    if let Some(append) = append {
        out.push_str(&format!("\n{}\n", append.trim()));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::InstructionFile;

    #[test]
    fn the_order_is_fixed_and_the_same_input_gives_the_same_bytes() {
        let place = Surroundings {
            cwd: Path::new("/w"),
            add_dirs: &["/x".into()],
            os: "linux",
            day: NaiveDate::from_ymd_opt(2026, 1, 2).unwrap(),
            branch: Some("main"),
        };
        let instructions = Instructions {
            files: vec![InstructionFile { path: "/w/AGENTS.md".into(), text: "RULE".into() }],
        };
        let wishes = Wishes { replace: Some("HEAD"), append: Some("TAIL") };
        let text = system(place, &instructions, wishes);
        assert_eq!(text, system(place, &instructions, wishes));
        let parts = ["HEAD", "Working folder: /w", "/x", "linux", "2026-01-02", "main", "RULE", "TAIL"];
        let places: Vec<usize> = parts.iter().map(|part| text.find(part).unwrap()).collect();
        assert!(places.is_sorted(), "{text}");
    }
}

//! The Glob tool: files by name, newest first.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt::Write;
use std::fs::{self, FileType};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use async_trait::async_trait;
use globset::{GlobBuilder, GlobMatcher};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::walk::{self, Rules};
use super::{ToolCx, ToolError, ToolOutput, TypedTool, Workspace, blocking, file, names, output};
use crate::protocol::{Access, Target};

/// Files listed.
const LISTED: usize = 100;

/// Lists files by pattern.
#[derive(Debug)]
pub(super) struct Glob;

#[derive(Debug, Clone, Deserialize, JsonSchema)]
pub(super) struct Input {
    /// Glob pattern, relative to path.
    pattern: String,
    /// Folder to look in. Default: the working folder.
    path: Option<String>,
}

#[async_trait]
impl TypedTool for Glob {
    type Input = Input;
    const NAME: &'static str = "Glob";
    const DESCRIPTION: &'static str = include_str!("glob.md");

    fn access(&self, input: &Input, workspace: &Workspace) -> Result<Access, ToolError> {
        Ok(Access::Read(vec![Plan::new(input, workspace)?.base]))
    }

    async fn run(&self, input: Input, cx: ToolCx<'_>) -> Result<ToolOutput, ToolError> {
        let plan = Plan::new(&input, cx.workspace)?;
        let cwd = cx.workspace.cwd().to_owned();
        // Ends the walk also when this future is dropped.
        let cancel = cx.cancel.child_token();
        let _guard = cancel.clone().drop_guard();
        blocking(cx.cancel, move || list(&plan, &cwd, &cancel)).await
    }
}

/// Where to look and for what.
#[derive(Debug)]
struct Plan {
    base: Target,
    /// The pattern below the base.
    pattern: String,
    matcher: GlobMatcher,
}

impl Plan {
    /// The folders that a pattern names in plain words belong to the base: only they are walked, and judged.
    fn new(input: &Input, workspace: &Workspace) -> Result<Self, ToolError> {
        let whole = match input.pattern.trim() {
            "" => return Err(ToolError::InvalidInput("pattern is empty".to_owned())),
            folder if folder.ends_with('/') => format!("{folder}**"),
            pattern => pattern.to_owned(),
        };
        let (folders, pattern) = split(&whole);
        let start = input.path.as_deref().filter(|path| !path.is_empty()).unwrap_or(".");
        let absolute = folders.starts_with('/') || folders.starts_with('~');
        let base = match (folders, absolute) {
            ("", _) => start.to_owned(),
            (folders, true) => folders.to_owned(),
            (folders, false) => format!("{start}/{folders}"),
        };
        let matcher = GlobBuilder::new(pattern)
            .literal_separator(true)
            .build()
            .map_err(|error| ToolError::InvalidInput(format!("pattern is no valid glob: {error}")))?
            .compile_matcher();
        Ok(Self { base: workspace.resolve(&base)?, pattern: pattern.to_owned(), matcher })
    }
}

/// The leading folders without any sign of a pattern, and the rest.
fn split(pattern: &str) -> (&str, &str) {
    let special = pattern.find(['*', '?', '[', '{', '\\']).unwrap_or(pattern.len());
    let plain = pattern.get(..special).unwrap_or_default();
    match plain.rsplit_once('/') {
        Some(("", _)) => pattern.split_at(1),
        Some((folders, _)) => (folders, pattern.get(folders.len() + 1..).unwrap_or_default()),
        None => ("", pattern),
    }
}

fn list(plan: &Plan, cwd: &Path, cancel: &CancellationToken) -> Result<ToolOutput, ToolError> {
    let base = &plan.base;
    let metadata = file::stat(base)?.ok_or_else(|| file::missing(base))?;
    if !metadata.is_dir() {
        let text = format!("{} is a file, not a folder. Give the folder in path.", names::show(&base.shown));
        return Err(ToolError::Failed(text));
    }
    let found = Mutex::new(Found::default());
    let unreadable = walk::walk(&base.real, Rules::below(&base.real), cancel, || {
        |path: &Path, kind: FileType| {
            let Ok(relative) = path.strip_prefix(&base.real) else { return };
            let listed = plan.matcher.is_match(relative) && is_file_inside(path, kind, &base.real, cwd);
            let modified = listed.then(|| modified(path));
            found.lock().unwrap_or_else(PoisonError::into_inner).add(path, modified);
        }
    })?;
    let found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    let mut text = String::new();
    for (_, path) in found.newest.clone().into_sorted_vec() {
        text.push_str(&walk::spelled(&path, &base.real, &base.shown, cwd));
        text.push('\n');
    }
    if found.matched == 0 {
        text = nothing(plan, &found, cwd, cancel)?;
    } else if found.matched > LISTED {
        writeln!(
            text,
            "[{LISTED} of {} are listed, newest first. Narrow the pattern or the path to see others.]",
            output::count(found.matched, "file")
        )
        .ok();
    }
    text.push_str(&unreadable.note(&base.real));
    let details = json!({"files": found.matched});
    Ok(ToolOutput { details, ..ToolOutput::text(text) })
}

#[derive(Debug, Default)]
struct Found {
    /// The greatest, so the oldest, is at the top.
    newest: BinaryHeap<(Reverse<SystemTime>, PathBuf)>,
    matched: usize,
    seen: usize,
}

impl Found {
    fn add(&mut self, path: &Path, matched: Option<SystemTime>) {
        self.seen += 1;
        let Some(modified) = matched else { return };
        self.matched += 1;
        self.newest.push((Reverse(modified), path.to_owned()));
        if self.newest.len() > LISTED {
            self.newest.pop();
        }
    }
}

/// A link counts as a file when it leads to one inside.
fn is_file_inside(path: &Path, kind: FileType, base: &Path, cwd: &Path) -> bool {
    if !kind.is_symlink() {
        return kind.is_file();
    }
    fs::canonicalize(path)
        .is_ok_and(|real| real.is_file() && (real.starts_with(base) || real.starts_with(cwd)))
}

fn modified(path: &Path) -> SystemTime {
    fs::metadata(path).and_then(|metadata| metadata.modified()).unwrap_or(SystemTime::UNIX_EPOCH)
}

fn nothing(plan: &Plan, found: &Found, cwd: &Path, cancel: &CancellationToken) -> Result<String, ToolError> {
    let base = &plan.base;
    let ignored = walk::ignored_note(&base.real, 0, cancel, |path| {
        path.strip_prefix(&base.real).is_ok_and(|relative| plan.matcher.is_match(relative))
    })?;
    let shallow = !plan.pattern.contains('/') && !plan.pattern.contains("**");
    let hint = if shallow {
        format!(" The pattern stays in one folder; **/{} goes through all.", plan.pattern)
    } else {
        String::new()
    };
    Ok(format!(
        "No files match {} in {} ({} there).{hint}{ignored}\n",
        plan.pattern,
        output::relative(&base.shown, cwd),
        output::count(found.seen, "file")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_folders_of_a_pattern_belong_to_the_base() {
        let check = |pattern: &str, want: (&str, &str)| assert_eq!(split(pattern), want, "{pattern}");
        check("*.rs", ("", "*.rs"));
        check("**/*.rs", ("", "**/*.rs"));
        check("src/**/*.rs", ("src", "**/*.rs"));
        check(".github/**", (".github", "**"));
        check("src/main.rs", ("src", "main.rs"));
        check("/etc/*.conf", ("/etc", "*.conf"));
        check("/*", ("/", "*"));
        check("../x/{a,b}", ("../x", "{a,b}"));
        check("we\\[i\\]rd*", ("", "we\\[i\\]rd*"));
    }
}

//! The Grep tool: file contents by regular expression, in a fixed order, a page at a time.

mod results;
mod search;

use std::fs::FileType;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use self::results::Results;
use self::search::{Search, Searched};
use super::number::{Flag, Whole};
use super::walk::{self, Rules};
use super::{ToolCx, ToolError, ToolOutput, TypedTool, Workspace, blocking, file, output};
use crate::protocol::{Access, Target};

/// Results without a limit.
const HEAD: usize = 250;

/// Searches file contents.
#[derive(Debug)]
pub(super) struct Grep;

#[derive(Debug, Clone, Deserialize, JsonSchema)]
pub(super) struct Input {
    /// Regular expression.
    pattern: String,
    /// File or folder to search. Default: the working folder.
    path: Option<String>,
    /// Only files that match this glob.
    glob: Option<String>,
    /// Only files of this type.
    #[serde(rename = "type")]
    kind: Option<String>,
    /// What to return.
    #[serde(default)]
    output_mode: Mode,
    /// Ignore case.
    #[serde(default, rename = "-i")]
    ignore_case: Flag,
    /// Show line numbers (content).
    #[serde(default = "yes", rename = "-n")]
    numbers: Flag,
    /// Lines after each match (content).
    #[serde(rename = "-A")]
    after: Option<Whole>,
    /// Lines before each match (content).
    #[serde(rename = "-B")]
    before: Option<Whole>,
    /// Lines around each match (content).
    #[serde(rename = "-C", alias = "context")]
    around: Option<Whole>,
    /// `.` matches line ends, and matches may span lines.
    #[serde(default)]
    multiline: Flag,
    /// Most lines or files to return; 0 is no limit.
    #[schemars(extend("default" = HEAD))]
    head_limit: Option<Whole>,
    /// Lines or files to skip first.
    #[schemars(extend("default" = 0))]
    offset: Option<Whole>,
}

fn yes() -> Flag {
    Flag(true)
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Mode {
    Content,
    #[default]
    FilesWithMatches,
    Count,
}

#[async_trait]
impl TypedTool for Grep {
    type Input = Input;
    const NAME: &'static str = "Grep";
    const DESCRIPTION: &'static str = include_str!("grep.md");

    fn access(&self, input: &Input, workspace: &Workspace) -> Result<Access, ToolError> {
        Ok(Access::Read(vec![workspace.resolve(start(input))?]))
    }

    async fn run(&self, input: Input, cx: ToolCx<'_>) -> Result<ToolOutput, ToolError> {
        let base = cx.workspace.resolve(start(&input))?;
        let search = Search::new(&input)?;
        let filter = Filter::new(input.glob.as_deref(), input.kind.as_deref())?;
        let cwd = cx.workspace.cwd().to_owned();
        // Ends the search also when this future is dropped.
        let cancel = cx.cancel.child_token();
        let _guard = cancel.clone().drop_guard();
        blocking(cx.cancel, move || {
            let place = Place { base, cwd, filter };
            run(&input, &search, &place, &cancel)
        })
        .await
    }
}

fn start(input: &Input) -> &str {
    input.path.as_deref().filter(|path| !path.is_empty()).unwrap_or(".")
}

/// What is searched.
struct Place {
    base: Target,
    cwd: std::path::PathBuf,
    filter: Filter,
}

impl Place {
    fn spelled(&self, path: &Path) -> String {
        walk::spelled(path, &self.base.real, &self.base.shown, &self.cwd)
    }
}

fn run(
    input: &Input,
    search: &Search,
    place: &Place,
    cancel: &CancellationToken,
) -> Result<ToolOutput, ToolError> {
    let base = &place.base;
    let page = results::Page {
        offset: input.offset.map_or(0, Whole::index),
        limit: input.head_limit.map_or(HEAD, |limit| if limit.0 == 0 { usize::MAX } else { limit.index() }),
    };
    let metadata = file::stat(base)?.ok_or_else(|| file::missing(base))?;
    let results = Mutex::new(Results::new(page));
    let add = |path: &Path, searched: Searched| {
        results.lock().unwrap_or_else(PoisonError::into_inner).add(path, searched);
    };
    let mut unreadable = walk::Unreadable::default();
    if metadata.is_dir() {
        unreadable = walk::walk(&base.real, Rules::below(&base.real), cancel, || {
            let mut searcher = search.searcher();
            let add = &add;
            move |path: &Path, kind: FileType| {
                if kind.is_file() && place.filter.takes(path, &base.real) {
                    add(path, search.file(&mut searcher, path, &place.spelled(path), cancel));
                }
            }
        })?;
    } else {
        file::regular(base, metadata.file_type())?;
        let found = search.file(&mut search.searcher(), &base.real, &place.spelled(&base.real), cancel);
        add(&base.real, found);
    }
    if cancel.is_cancelled() {
        return Err(ToolError::Cancelled);
    }
    let mut results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    for path in std::mem::take(&mut results.failed) {
        unreadable.add(path);
    }
    let mut text =
        if results.matched_files == 0 { nothing(input, &results, place, cancel)? } else { results.text()? };
    text.push_str(&unreadable.note(&base.real));
    let details = json!({"files": results.matched_files, "searched": results.searched});
    Ok(ToolOutput { details, ..ToolOutput::text(text) })
}

fn nothing(
    input: &Input,
    results: &Results,
    place: &Place,
    cancel: &CancellationToken,
) -> Result<String, ToolError> {
    let base = &place.base;
    let seen = results.searched + results.binary + results.failed.len();
    let ignored = walk::ignored_note(&base.real, seen, cancel, |path| place.filter.takes(path, &base.real))?;
    let binary = match results.binary {
        0 => String::new(),
        count => format!(", {} skipped", output::count(count, "binary file")),
    };
    let searched = output::count(results.searched, "file");
    let name = output::relative(&base.shown, &place.cwd);
    Ok(format!("No matches for {} in {name} ({searched} searched{binary}).{ignored}\n", input.pattern))
}

/// Which files are searched, by name.
#[derive(Debug)]
struct Filter {
    wanted: GlobSet,
    unwanted: GlobSet,
    kind: GlobSet,
}

impl Filter {
    fn new(globs: Option<&str>, kind: Option<&str>) -> Result<Self, ToolError> {
        let (mut wanted, mut unwanted) = (Vec::new(), Vec::new());
        for glob in globs.map(separate).unwrap_or_default() {
            match glob.strip_prefix('!') {
                Some(glob) => unwanted.push(glob.to_owned()),
                None => wanted.push(glob),
            }
        }
        let kind = kind.filter(|kind| !kind.trim().is_empty()).map(globs_of_type).unwrap_or_default();
        Ok(Self { wanted: globset(&wanted)?, unwanted: globset(&unwanted)?, kind: globset(&kind)? })
    }

    fn takes(&self, path: &Path, base: &Path) -> bool {
        let relative = path.strip_prefix(base).unwrap_or(path);
        let in_or_empty = |set: &GlobSet| set.is_empty() || set.is_match(relative);
        in_or_empty(&self.wanted) && in_or_empty(&self.kind) && !self.unwanted.is_match(relative)
    }
}

/// Globs joined by commas or blanks, as models write them; not those inside braces.
fn separate(globs: &str) -> Vec<String> {
    let mut found = vec![String::new()];
    let mut depth = 0_usize;
    for char in globs.chars() {
        match char {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            ',' | ' ' if depth == 0 => {
                found.push(String::new());
                continue;
            }
            _ => {}
        }
        if let Some(last) = found.last_mut() {
            last.push(char);
        }
    }
    found.retain(|glob| !glob.is_empty());
    found
}

/// A glob without a slash matches the name in any folder.
fn globset(globs: &[String]) -> Result<GlobSet, ToolError> {
    let invalid = |error: globset::Error| ToolError::InvalidInput(format!("glob is not valid: {error}"));
    let mut set = GlobSetBuilder::new();
    for glob in globs {
        let glob = glob.strip_prefix("./").unwrap_or(glob);
        let anchored = match glob.strip_prefix('/') {
            Some(glob) => glob.to_owned(),
            None if glob.contains('/') => glob.to_owned(),
            None => format!("**/{glob}"),
        };
        set.add(GlobBuilder::new(&anchored).literal_separator(true).build().map_err(invalid)?);
    }
    set.build().map_err(invalid)
}

/// ripgrep's types; an unknown one is taken for an extension.
fn globs_of_type(kind: &str) -> Vec<String> {
    let kind = match kind.trim().trim_start_matches('.').to_ascii_lowercase().as_str() {
        "rs" => "rust".to_owned(),
        "javascript" => "js".to_owned(),
        "c++" => "cpp".to_owned(),
        other => other.to_owned(),
    };
    let mut types = ignore::types::TypesBuilder::new();
    types.add_defaults();
    let known = types.definitions().into_iter().find(|known| known.name() == kind);
    known.map_or_else(|| vec![format!("*.{kind}")], |known| known.globs().to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs_and_types_decide_by_name() {
        let check = |glob: Option<&str>, kind: Option<&str>, path: &str, want: bool| {
            let filter = Filter::new(glob, kind).unwrap();
            assert_eq!(
                filter.takes(&Path::new("/base").join(path), Path::new("/base")),
                want,
                "{glob:?} {path}"
            );
        };
        check(None, None, "x", true);
        check(Some("*.ts"), None, "a/b.ts", true);
        check(Some("**/*.ts"), None, "b.ts", true);
        check(Some("src/*.ts"), None, "src/a/b.ts", false);
        check(Some("src/**"), None, "src/a/b.ts", true);
        check(Some("*.{ts,tsx}"), None, "b.tsx", true);
        check(Some("*.ts, *.js"), None, "b.js", true);
        check(Some("*.ts !b.ts"), None, "b.ts", false);
        check(Some("!*.min.js"), None, "a.js", true);
        check(None, Some("rust"), "a.rs", true);
        check(None, Some("rs"), "a.rs", true);
        check(None, Some("py"), "a.rs", false);
        check(None, Some("odd"), "a.odd", true);
        assert!(Filter::new(Some("a["), None).is_err());
    }
}

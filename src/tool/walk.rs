//! One walk over a tree for Glob and Grep: ripgrep's rules, hidden files included, links not followed.

use std::fs::FileType;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use ignore::gitignore::Gitignore;
use ignore::{WalkBuilder, WalkState};
use tokio_util::sync::CancellationToken;

use super::{ToolError, names, output};

/// Unreadable places that are named.
const NAMED: usize = 5;
/// How long ignored files are counted after a search that found nothing.
const COUNTING: Duration = Duration::from_millis(150);

/// Which files a walk leaves out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rules {
    /// What `.gitignore`, `.ignore` and git's own excludes name.
    Ignore,
    /// None.
    Everything,
}

impl Rules {
    /// Who names an ignored folder wants what is in it.
    pub(super) fn below(folder: &Path) -> Self {
        if is_ignored(folder) { Self::Everything } else { Self::Ignore }
    }
}

/// Places that could not be read.
#[derive(Debug, Default)]
pub(super) struct Unreadable {
    named: Vec<PathBuf>,
    count: usize,
}

impl Unreadable {
    pub(super) fn add(&mut self, path: PathBuf) {
        self.count += 1;
        self.named.push(path);
        self.named.sort();
        self.named.truncate(NAMED);
    }

    /// A sentence for the model, relative to the folder; empty when everything was read.
    pub(super) fn note(&self, folder: &Path) -> String {
        if self.count == 0 {
            return String::new();
        }
        let named: Vec<String> = self.named.iter().map(|path| output::relative(path, folder)).collect();
        let more = if self.count > self.named.len() { " and others" } else { "" };
        format!("[{} could not be read: {}{more}.]\n", output::count(self.count, "place"), named.join(", "))
    }
}

/// Visits everything below `root` but folders, on several threads in no order; `visitor` is made once a thread.
/// `.git` stays out unless `root` lies in it. Errors: the turn was interrupted.
pub(super) fn walk<V: FnMut(&Path, FileType) + Send>(
    root: &Path,
    rules: Rules,
    cancel: &CancellationToken,
    visitor: impl Fn() -> V,
) -> Result<Unreadable, ToolError> {
    let unreadable = Mutex::new(Unreadable::default());
    let walk = WalkBuilder::new(root)
        .standard_filters(rules == Rules::Ignore)
        .hidden(false)
        .follow_links(false)
        .filter_entry(|entry| entry.depth() == 0 || entry.file_name() != ".git")
        .build_parallel();
    walk.run(|| {
        let mut visit = visitor();
        let unreadable = &unreadable;
        Box::new(move |entry| {
            if cancel.is_cancelled() {
                return WalkState::Quit;
            }
            match entry {
                Ok(entry) => {
                    if let Some(kind) = entry.file_type().filter(|kind| !kind.is_dir()) {
                        visit(entry.path(), kind);
                    }
                }
                Err(error) => {
                    if let Some(path) = path_of(&error) {
                        unreadable.lock().unwrap_or_else(PoisonError::into_inner).add(path.to_owned());
                    }
                }
            }
            WalkState::Continue
        })
    });
    if cancel.is_cancelled() {
        return Err(ToolError::Cancelled);
    }
    Ok(unreadable.into_inner().unwrap_or_else(PoisonError::into_inner))
}

/// A sentence on the files that the rules kept out of a walk that saw `seen` and found nothing. `wanted` tells which
/// files count. Empty when there are none.
pub(super) fn ignored_note(
    root: &Path,
    seen: usize,
    cancel: &CancellationToken,
    wanted: impl Fn(&Path) -> bool + Sync,
) -> Result<String, ToolError> {
    let all = AtomicUsize::new(0);
    let until = Instant::now() + COUNTING;
    let stop = cancel.child_token();
    let counted = walk(root, Rules::Everything, &stop, || {
        |path: &Path, kind: FileType| {
            if kind.is_file() && wanted(path) {
                all.fetch_add(1, Ordering::Relaxed);
            }
            if Instant::now() > until {
                stop.cancel();
            }
        }
    });
    if cancel.is_cancelled() {
        return Err(ToolError::Cancelled);
    }
    let ignored = all.into_inner().saturating_sub(seen);
    Ok(match (ignored, counted.is_ok()) {
        (0, true) => String::new(),
        (0, false) => " Ignored files were not looked at; name their folder in path to do so.".to_owned(),
        (count, whole) => format!(
            " {}{} not looked at because .gitignore or the like names them; name their folder in path to do so.",
            if whole { "" } else { "At least " },
            output::count(count, "file"),
        )
        .replace(" file not", " file was not")
        .replace(" files not", " files were not"),
    })
}

fn path_of(error: &ignore::Error) -> Option<&Path> {
    match error {
        ignore::Error::WithPath { path, .. } => Some(path),
        ignore::Error::WithDepth { err, .. } | ignore::Error::WithLineNumber { err, .. } => path_of(err),
        _ => None,
    }
}

/// Whether the rules of the folders above name this one, or everything in it.
fn is_ignored(folder: &Path) -> bool {
    let root = folder.ancestors().find(|folder| folder.join(".git").exists());
    let inside = folder.join("anything");
    for above in folder.ancestors().skip(1) {
        let in_repository = root.is_some_and(|root| above.starts_with(root));
        let mut files = vec![above.join(".ignore")];
        if in_repository {
            files.push(above.join(".gitignore"));
        }
        if root == Some(above) {
            files.push(above.join(".git/info/exclude"));
        }
        for file in files.iter().filter(|file| file.is_file()) {
            let rules =
                if file.ends_with("exclude") { exclude_rules(above, file) } else { Gitignore::new(file).0 };
            let names = |path: &Path, folder| rules.matched_path_or_any_parents(path, folder).is_ignore();
            if names(folder, true) || names(&inside, false) {
                return true;
            }
        }
    }
    false
}

/// Their patterns are relative to the repository, not to the file.
fn exclude_rules(root: &Path, file: &Path) -> Gitignore {
    let mut builder = ignore::gitignore::GitignoreBuilder::new(root);
    builder.add(file);
    builder.build().unwrap_or_else(|_| Gitignore::empty())
}

/// A path below `root` in another spelling of it, as the model should use it.
pub(super) fn spelled(path: &Path, root: &Path, shown: &Path, cwd: &Path) -> String {
    match path.strip_prefix(root) {
        Ok(rest) if rest.as_os_str().is_empty() => output::relative(shown, cwd),
        Ok(rest) => output::relative(&shown.join(rest), cwd),
        Err(_) => names::show(path),
    }
}

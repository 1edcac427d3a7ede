//! The one place that resolves a path, and what this agent has read.

use std::fs::{self, Metadata};
use std::io;
use std::path::{Component, Path, PathBuf};
use std::time::UNIX_EPOCH;

use super::ledger::{Fingerprint, Ledger, Standing};
use super::{Effect, ToolError, names};
use crate::protocol::{StateChange, Target};

/// Links that are followed before a path counts as a loop, as in Linux.
const LINKS: usize = 40;

/// The folders a session works in, and the files that one agent has seen.
#[derive(Debug)]
pub struct Workspace {
    cwd: PathBuf,
    roots: Vec<PathBuf>,
    real_roots: Vec<PathBuf>,
    ledger: Ledger,
}

impl Workspace {
    /// A workspace at `cwd` (a real path) with further roots.
    #[must_use]
    pub fn new(cwd: PathBuf, extra: Vec<PathBuf>) -> Self {
        let mut roots = vec![cwd.clone()];
        roots.extend(extra.into_iter().map(|root| normalised(&cwd.join(root))));
        let real_roots = roots.iter().map(|root| fs::canonicalize(root).unwrap_or_else(|_| root.clone()));
        Self { real_roots: real_roots.collect(), cwd, roots, ledger: Ledger::default() }
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
        Self {
            cwd: self.cwd.clone(),
            roots: self.roots.clone(),
            real_roots: self.real_roots.clone(),
            ledger: Ledger::default(),
        }
    }

    /// Takes in what a resume rebuilds.
    pub fn apply(&self, change: &StateChange) {
        match change {
            StateChange::FileSeen { path, hash, .. } => self.remember(path, hash),
            StateChange::Cleared => self.ledger.forget(),
            StateChange::Todos { .. }
            | StateChange::SkillActivated { .. }
            | StateChange::Pinned { .. }
            | StateChange::Model { .. }
            | StateChange::Mode { .. }
            | StateChange::Granted { .. }
            | StateChange::Used { .. } => {}
        }
    }

    /// The agent has seen the file at this real path with this content hash, says its log.
    pub fn remember(&self, path: &str, hash: &str) {
        self.ledger.remember(&PathBuf::from(path), hash);
        if let Some(path) = names::literal(path) {
            self.ledger.remember(&path, hash);
        }
    }

    /// Resolves a path as the model wrote it: `~`, relative to the working folder, `..`, links. It need not exist.
    /// A name that a listing showed with escapes is understood. Errors: an empty path, a loop of links, a file
    /// where a folder is needed, a folder that may not be searched.
    pub fn resolve(&self, path: &str) -> Result<Target, ToolError> {
        if path.is_empty() || path.contains('\0') {
            return Err(ToolError::InvalidInput("the path is empty or holds a NUL".to_owned()));
        }
        let target = self.target(Path::new(path))?;
        if path.contains('\\') && target.real.symlink_metadata().is_err() {
            let literal = names::literal(path).and_then(|literal| self.target(&literal).ok());
            if let Some(literal) = literal.filter(|literal| literal.real.symlink_metadata().is_ok()) {
                return Ok(literal);
            }
        }
        Ok(target)
    }

    fn target(&self, path: &Path) -> Result<Target, ToolError> {
        let spelled = self.cwd.join(home(path));
        let shown = normalised(&spelled);
        match real(&spelled) {
            Ok(real) => Ok(Target { shown, real }),
            Err(error) => {
                let what = match error.kind() {
                    io::ErrorKind::NotADirectory => "a part of it is a file, not a folder".to_owned(),
                    _ => error.to_string(),
                };
                Err(ToolError::Failed(format!("{} cannot be resolved: {what}.", names::show(&shown))))
            }
        }
    }

    /// Whether both spellings of a target lie inside a root.
    pub fn contains(&self, target: &Target) -> bool {
        let real = self.real_roots.iter().any(|root| target.real.starts_with(root));
        let mut roots = self.roots.iter().chain(&self.real_roots);
        real && roots.any(|root| target.shown.starts_with(root))
    }

    /// The agent saw this content of the file, or wrote it. Gives the effect that journals it.
    pub(super) fn saw(&self, target: &Target, content: Fingerprint, metadata: &Metadata) -> Effect {
        let modified = metadata.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        let change = StateChange::FileSeen {
            path: names::show(&target.real),
            hash: content.hash.clone(),
            mtime_ns: modified.and_then(|time| i64::try_from(time.as_nanos()).ok()).unwrap_or_default(),
            size: metadata.len(),
        };
        self.ledger.saw(&target.real, content);
        Effect::State(change)
    }

    /// How the file's present content stands to what the agent saw.
    pub(super) fn standing(&self, target: &Target, present: &Fingerprint) -> Standing {
        self.ledger.standing(&target.real, present)
    }
}

fn home(path: &Path) -> PathBuf {
    match path.strip_prefix("~") {
        Ok(rest) => std::env::home_dir().map_or_else(|| path.to_owned(), |home| home.join(rest)),
        Err(_) => path.to_owned(),
    }
}

/// Without `.` and `..`, by spelling alone.
fn normalised(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                out.pop();
            }
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => out.push(component),
        }
    }
    out
}

/// Where opening this path would lead: every link followed, also one whose target does not exist yet.
fn real(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..LINKS {
        match fs::canonicalize(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            found => return found,
        }
        let Some((base, rest)) = nearest(&path)? else { return Ok(path) };
        if rest.components().any(|part| part == Component::ParentDir) {
            // `..` after a folder that does not exist has a meaning by spelling only.
            path = normalised(&path);
            continue;
        }
        let mut parts = rest.components();
        let first = parts.next().map_or_else(|| base.clone(), |part| base.join(part));
        match fs::read_link(&first) {
            Ok(link) => path = base.join(link).join(parts.as_path()),
            Err(_) => return Ok(base.join(rest)),
        }
    }
    Err(io::Error::other("it leads through too many links"))
}

/// The nearest ancestor that exists, resolved, and what lies below it.
fn nearest(path: &Path) -> io::Result<Option<(PathBuf, PathBuf)>> {
    for ancestor in path.ancestors().skip(1) {
        match fs::canonicalize(ancestor) {
            Ok(base) => {
                let rest = path.strip_prefix(ancestor).unwrap_or(Path::new(""));
                return Ok(Some((base, rest.to_owned())));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn paths_are_resolved_in_both_spellings() {
        let outside = tempfile::tempdir().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let far = outside.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("src/deep")).unwrap();
        fs::write(root.join("src/a.txt"), "").unwrap();
        fs::write(root.join("nl\n.txt"), "").unwrap();
        symlink(&far, root.join("out")).unwrap();
        symlink("src/deep", root.join("in")).unwrap();
        symlink(far.join("new.txt"), root.join("dangling")).unwrap();
        symlink("loop", root.join("loop")).unwrap();
        let workspace = Workspace::new(root.clone(), Vec::new());
        let check = |path: &str, shown: PathBuf, real: PathBuf, inside: bool| {
            let target = workspace.resolve(path).unwrap();
            assert_eq!(workspace.contains(&target), inside, "{path}");
            assert_eq!(target, Target { shown, real }, "{path}");
        };
        check("src/a.txt", root.join("src/a.txt"), root.join("src/a.txt"), true);
        check("./src/../src//a.txt", root.join("src/a.txt"), root.join("src/a.txt"), true);
        check("new/x.txt", root.join("new/x.txt"), root.join("new/x.txt"), true);
        check("new/../x.txt", root.join("x.txt"), root.join("x.txt"), true);
        check("..foo", root.join("..foo"), root.join("..foo"), true);
        check("out/x.txt", root.join("out/x.txt"), far.join("x.txt"), false);
        check("dangling", root.join("dangling"), far.join("new.txt"), false);
        // The kernel goes up from where the link leads, so the two spellings differ, and both are judged.
        check("in/../a.txt", root.join("a.txt"), root.join("src/a.txt"), true);
        check("/", "/".into(), "/".into(), false);
        check("nl\\n.txt", root.join("nl\n.txt"), root.join("nl\n.txt"), true);
        check("-dash", root.join("-dash"), root.join("-dash"), true);
        let home = std::env::home_dir().unwrap();
        assert_eq!(workspace.resolve("~/x").unwrap().shown, normalised(&home.join("x")));
        for bad in ["", "a\0b", "src/a.txt/b", "loop"] {
            workspace.resolve(bad).expect_err(bad);
        }
    }

    #[test]
    fn a_child_starts_with_nothing_read_and_a_log_restores_it() {
        let workspace = Workspace::new("/".into(), vec!["tmp".into()]);
        assert_eq!(workspace.roots(), [PathBuf::from("/"), PathBuf::from("/tmp")]);
        let content = Fingerprint::of(b"x");
        let target = Target { shown: "/nl\n".into(), real: "/nl\n".into() };
        let Effect::State(change) = workspace.saw(&target, content.clone(), &fs::metadata("/").unwrap())
        else {
            unreachable!()
        };
        let child = workspace.for_child();
        assert_eq!(child.standing(&target, &content), Standing::Unread);
        child.apply(&change);
        assert_eq!(child.standing(&target, &content), Standing::Current);
        child.apply(&StateChange::Cleared);
        assert_eq!(child.standing(&target, &content), Standing::Unread);
    }
}

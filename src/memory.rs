//! Instruction files: the user's own, then AGENTS.md and CLAUDE.md from the git root down, nearest last.

use std::path::{Path, PathBuf};

/// Bytes of all instruction files together.
const CAP: usize = 64 * 1024;
const NAMES: [&str; 2] = ["AGENTS.md", "CLAUDE.md"];

/// What the instruction files say.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Instructions {
    /// The files in order, nearest last.
    pub files: Vec<InstructionFile>,
}

/// One instruction file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstructionFile {
    /// Where it lies.
    pub path: PathBuf,
    /// What it says, maybe cut.
    pub text: String,
}

impl Instructions {
    /// Reads the files for a working folder (a real path). `own` are the user's own files.
    #[must_use]
    pub fn read(cwd: &Path, own: &[PathBuf]) -> Self {
        let top = git_root(cwd).unwrap_or_else(|| cwd.to_owned());
        let mut folders: Vec<&Path> = cwd.ancestors().take_while(|dir| dir.starts_with(&top)).collect();
        folders.reverse();
        let project = folders.iter().flat_map(|dir| NAMES.iter().map(|name| dir.join(name)));
        let mut seen: Vec<PathBuf> = Vec::new();
        let mut files: Vec<InstructionFile> = Vec::new();
        for (path, of_project) in own.iter().cloned().map(|p| (p, false)).chain(project.map(|p| (p, true))) {
            let Ok(real) = path.canonicalize() else { continue };
            // One file under two names is read once; a link out of the project is not followed.
            if seen.contains(&real) || !real.is_file() || (of_project && !real.starts_with(&top)) {
                continue;
            }
            let Ok(bytes) = read_at_most(&real, CAP + 1) else { continue };
            let text = String::from_utf8_lossy(&bytes).trim_start_matches('\u{feff}').trim().to_owned();
            seen.push(real);
            if !text.is_empty() {
                files.push(InstructionFile { path, text });
            }
        }
        cap(&mut files);
        Self { files }
    }
}

/// The nearest files matter most: they take their share of the cap first.
fn cap(files: &mut Vec<InstructionFile>) {
    let mut left = CAP;
    for file in files.iter_mut().rev() {
        if file.text.len() > left {
            let end = file.text.floor_char_boundary(left);
            file.text.truncate(end);
            if !file.text.is_empty() {
                file.text.push_str("\n[Cut here: the instruction files together exceed 64 KiB.]");
            }
            left = 0;
        } else {
            left -= file.text.len();
        }
    }
    files.retain(|file| !file.text.is_empty());
}

fn read_at_most(path: &Path, bytes: usize) -> std::io::Result<Vec<u8>> {
    use std::io::Read as _;
    let mut out = Vec::new();
    std::fs::File::open(path)?.take(bytes as u64).read_to_end(&mut out)?;
    Ok(out)
}

/// The nearest folder at or above this one that holds `.git`.
#[must_use]
pub fn git_root(cwd: &Path) -> Option<PathBuf> {
    cwd.ancestors().find(|dir| dir.join(".git").exists()).map(Path::to_owned)
}

/// The branch as `.git/HEAD` names it, or the first digits of the commit; git itself is not run.
#[must_use]
pub fn git_branch(cwd: &Path) -> Option<String> {
    let root = git_root(cwd)?;
    let dot_git = root.join(".git");
    let folder = if dot_git.is_dir() {
        dot_git
    } else {
        let text = String::from_utf8(read_at_most(&dot_git, 4_096).ok()?).ok()?;
        root.join(text.trim().strip_prefix("gitdir:")?.trim())
    };
    let head = String::from_utf8(read_at_most(&folder.join("HEAD"), 4_096).ok()?).ok()?;
    let head = head.trim();
    match head.strip_prefix("ref: refs/heads/") {
        Some(branch) => Some(branch.to_owned()),
        None => head.get(..12).map(|commit| format!("detached at {commit}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn texts(cwd: &Path, own: &[PathBuf]) -> Vec<String> {
        Instructions::read(cwd, own).files.into_iter().map(|f| f.text).collect()
    }

    #[test]
    fn from_the_git_root_down_nearest_last_and_the_users_own_first() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        write(&root, "AGENTS.md", "above the repository");
        write(&root, "repo/.git/HEAD", "ref: refs/heads/feature/x\n");
        write(&root, "repo/AGENTS.md", "root agents");
        write(&root, "repo/CLAUDE.md", "root claude");
        write(&root, "repo/a/b/CLAUDE.md", "near");
        write(&root, "own.md", "mine");
        let cwd = root.join("repo/a/b");
        assert_eq!(texts(&cwd, &[root.join("own.md")]), ["mine", "root agents", "root claude", "near"]);
        assert_eq!(git_branch(&cwd).as_deref(), Some("feature/x"));
    }

    #[cfg(unix)]
    #[test]
    fn links_are_read_once_and_never_lead_outside() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        write(&root, "secret", "outside");
        write(&root, "repo/.git/HEAD", "0123456789abcdef0123\n");
        write(&root, "repo/AGENTS.md", "rules");
        std::os::unix::fs::symlink("AGENTS.md", root.join("repo/CLAUDE.md")).unwrap();
        std::fs::create_dir(root.join("repo/sub")).unwrap();
        std::os::unix::fs::symlink(root.join("secret"), root.join("repo/sub/AGENTS.md")).unwrap();
        let cwd = root.join("repo/sub");
        assert_eq!(texts(&cwd, &[]), ["rules"]);
        assert_eq!(git_branch(&cwd).as_deref(), Some("detached at 0123456789ab"));
    }

    #[test]
    fn the_cap_cuts_the_farthest_first_between_characters() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        write(&root, ".git/HEAD", "ref: refs/heads/main\n");
        write(&root, "AGENTS.md", &"ü".repeat(40_000));
        write(&root, "sub/AGENTS.md", &"n".repeat(40_000));
        let files = texts(&root.join("sub"), &[]);
        assert_eq!(files[1].len(), 40_000);
        assert!(files[0].ends_with("exceed 64 KiB.]"));
        assert!(files[0].len() < CAP - 40_000 + 100);
    }
}

//! Where sessions lie: a folder per project under the user's data folder, found by the project's real path.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::log::SessionError;

/// The sessions of one project.
#[derive(Debug, Clone)]
pub struct Store {
    folder: PathBuf,
    project: PathBuf,
}

/// One session on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionFile {
    /// Its id.
    pub id: String,
    /// Its log.
    pub path: PathBuf,
    /// When it was last written.
    pub modified: SystemTime,
}

impl Store {
    /// The store of the project at this real path.
    pub fn new(data: &Path, project: &Path) -> Self {
        let name: String = project
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-') { c } else { '-' })
            .take(40)
            .collect();
        // The name is for people; the hash keeps projects of one name apart, the header holds the real path.
        let key = format!("{name}-{:016x}", fnv1a(project.as_os_str().as_encoded_bytes()));
        Self { folder: data.join("projects").join(key), project: project.to_owned() }
    }

    /// Makes the folder, readable by its owner alone.
    pub fn prepare(&self) -> Result<(), SessionError> {
        private_folder(&self.folder).map_err(SessionError::io(&self.folder))
    }

    /// The log of a session.
    #[must_use]
    pub fn log(&self, id: &str) -> PathBuf {
        self.folder.join(format!("{id}.jsonl"))
    }

    /// Writes bytes into the session's own folder under a free name like this one.
    pub fn keep(&self, id: &str, name: &str, bytes: &[u8]) -> Result<PathBuf, SessionError> {
        let folder = self.folder.join(id);
        private_folder(&folder).map_err(SessionError::io(&folder))?;
        let clean: String = name
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-') { c } else { '_' })
            .take(100)
            .collect();
        let (stem, ending) = clean.rsplit_once('.').unwrap_or((clean.as_str(), "txt"));
        let mut file = tempfile::Builder::new()
            .prefix(&format!("{stem}."))
            .suffix(&format!(".{ending}"))
            .rand_bytes(4)
            .tempfile_in(&folder)
            .map_err(SessionError::io(&folder))?;
        std::io::Write::write_all(&mut file, bytes).map_err(SessionError::io(&folder))?;
        let (_, path) = file.keep().map_err(|e| SessionError::Io { path: folder, source: e.error })?;
        Ok(path)
    }

    /// All sessions, the newest first.
    pub fn list(&self) -> Vec<SessionFile> {
        let Ok(entries) = std::fs::read_dir(&self.folder) else { return Vec::new() };
        let mut found: Vec<SessionFile> = entries
            .flatten()
            .filter_map(|entry| {
                let path = entry.path();
                let id = path.file_name()?.to_str()?.strip_suffix(".jsonl")?.to_owned();
                let modified = entry.metadata().ok()?.modified().ok()?;
                Some(SessionFile { id, path, modified })
            })
            .collect();
        found.sort_by(|a, b| b.modified.cmp(&a.modified).then_with(|| b.id.cmp(&a.id)));
        found
    }

    /// The newest session.
    pub fn latest(&self) -> Result<SessionFile, SessionError> {
        self.list().into_iter().next().ok_or_else(|| SessionError::None(self.project.clone()))
    }
}

/// A stable 64-bit hash (FNV-1a): the standard library's may change between versions, and folder names may not.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(unix)]
fn private_folder(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

#[cfg(not(unix))]
fn private_folder(path: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn projects_of_one_name_do_not_meet() {
        let data = Path::new("/data");
        let (a, b) = (Store::new(data, Path::new("/x/p")), Store::new(data, Path::new("/y/p")));
        assert_ne!(a.log("1"), b.log("1"));
        // Written down: a change of the hash would lose every user's sessions.
        assert_eq!(a.log("1"), Path::new("/data/projects/p-5dfc3b9c392712f5/1.jsonl"));
    }

    #[cfg(unix)]
    #[test]
    fn everything_is_private() {
        use std::os::unix::fs::PermissionsExt as _;
        let data = tempfile::tempdir().unwrap();
        let store = Store::new(data.path(), Path::new("/x/p"));
        store.prepare().unwrap();
        let kept = store.keep("1", "Bash/../x y.txt", b"all of it").unwrap();
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&store.folder), 0o700);
        assert_eq!(mode(kept.parent().unwrap()), 0o700);
        assert_eq!(mode(&kept), 0o600);
        assert_eq!(std::fs::read(&kept).unwrap(), b"all of it");
        assert!(matches!(store.latest(), Err(SessionError::None(_))));
    }
}

//! One session's file: events go in at the end, one line each, and come out by the same fold.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::protocol::{AgentPath, Envelope, Event, FORMAT};

/// Why a session cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// The file system said no.
    #[error("{path}: {source}")]
    Io {
        /// Which file.
        path: PathBuf,
        /// What it said.
        source: std::io::Error,
    },
    /// Another process writes this session.
    #[error(
        "session {session} is in use by another reagent; wait for it to end, or start a new session without --continue"
    )]
    Busy {
        /// Which session.
        session: String,
    },
    /// The file is of a later version.
    #[error(
        "{path} has format {found}, this version reads up to {FORMAT}; update reagent to continue this session"
    )]
    Format {
        /// Which file.
        path: PathBuf,
        /// The version it names.
        found: u32,
    },
    /// Nothing to continue.
    #[error("there is no session to continue in {0}; start one without --continue")]
    None(PathBuf),
    /// No event stands in the file.
    #[error("{0} holds no session header; it cannot be continued")]
    Empty(PathBuf),
}

impl SessionError {
    pub(super) fn io(path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { path, source }
    }
}

/// An open session file. The lock on it is held until it is dropped.
#[derive(Debug)]
pub struct Log {
    path: PathBuf,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    file: File,
    next: u64,
}

impl Log {
    /// Makes a new file and writes its header. The file is readable by its owner alone.
    pub fn create(path: &Path, header: &Event) -> Result<Self, SessionError> {
        let mut options = OpenOptions::new();
        options.create_new(true).append(true).read(true);
        private(&mut options);
        let file = options.open(path).map_err(SessionError::io(path))?;
        lock(&file, path)?;
        let log = Self { path: path.to_owned(), inner: Mutex::new(Inner { file, next: 0 }) };
        log.append(&AgentPath::root(), header)?;
        Ok(log)
    }

    /// Opens an existing file and reads all it holds. A torn last line is isolated on a line of its own.
    pub fn open(path: &Path) -> Result<(Self, Vec<Envelope>), SessionError> {
        let mut file =
            OpenOptions::new().append(true).read(true).open(path).map_err(SessionError::io(path))?;
        lock(&file, path)?;
        let events = read(path)?;
        let next = events.last().map_or(0, |e| e.seq + 1);
        if !ends_with_newline(&mut file).map_err(SessionError::io(path))? {
            file.write_all(b"\n").map_err(SessionError::io(path))?;
        }
        Ok((Self { path: path.to_owned(), inner: Mutex::new(Inner { file, next }) }, events))
    }

    /// Writes one event at the end and hands it to the OS; gives the envelope as written.
    pub fn append(&self, agent: &AgentPath, event: &Event) -> Result<Envelope, SessionError> {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let envelope =
            Envelope { seq: inner.next, at: chrono::Utc::now(), agent: agent.clone(), event: event.clone() };
        let mut line = serde_json::to_vec(&envelope)
            .map_err(|e| SessionError::Io { path: self.path.clone(), source: std::io::Error::other(e) })?;
        line.push(b'\n');
        // One write, so that a line is whole or torn but never mixed with another.
        inner.file.write_all(&line).map_err(SessionError::io(&self.path))?;
        inner.next += 1;
        Ok(envelope)
    }

    /// Forces the file to the disk.
    pub fn sync(&self) -> Result<(), SessionError> {
        let file = {
            let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
            inner.file.try_clone().map_err(SessionError::io(&self.path))?
        };
        file.sync_data().map_err(SessionError::io(&self.path))
    }

    /// Where the session lies.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Reads a session file. Lines that are no envelope (a torn one, say) are skipped; records end at `\n` alone.
pub fn read(path: &Path) -> Result<Vec<Envelope>, SessionError> {
    let mut reader = BufReader::new(File::open(path).map_err(SessionError::io(path))?);
    let mut events: Vec<Envelope> = Vec::new();
    let mut line = Vec::new();
    loop {
        line.clear();
        if reader.read_until(b'\n', &mut line).map_err(SessionError::io(path))? == 0 {
            break;
        }
        if let Ok(envelope) = serde_json::from_slice::<Envelope>(&line) {
            if let Event::SessionStarted { format, .. } = &envelope.event
                && *format > FORMAT
            {
                return Err(SessionError::Format { path: path.to_owned(), found: *format });
            }
            events.push(envelope);
        }
    }
    match events.first().map(|e| &e.event) {
        Some(Event::SessionStarted { .. }) => Ok(events),
        _ => Err(SessionError::Empty(path.to_owned())),
    }
}

fn ends_with_newline(file: &mut File) -> std::io::Result<bool> {
    if file.seek(SeekFrom::End(0))? == 0 {
        return Ok(true);
    }
    file.seek(SeekFrom::End(-1))?;
    let mut last = [0];
    file.read_exact(&mut last)?;
    Ok(last == *b"\n")
}

fn lock(file: &File, path: &Path) -> Result<(), SessionError> {
    match file.try_lock() {
        Ok(()) => Ok(()),
        Err(std::fs::TryLockError::WouldBlock) => {
            let session = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            Err(SessionError::Busy { session })
        }
        Err(std::fs::TryLockError::Error(source)) => Err(SessionError::Io { path: path.to_owned(), source }),
    }
}

#[cfg(unix)]
fn private(options: &mut OpenOptions) {
    use std::os::unix::fs::OpenOptionsExt as _;
    options.mode(0o600);
}

#[cfg(not(unix))]
fn private(_: &mut OpenOptions) {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{Block, Message, MessageId, ModelId, Role, Source};

    fn header() -> Event {
        Event::SessionStarted {
            format: FORMAT,
            session: "s".into(),
            cwd: "/w".into(),
            model: ModelId::new("p", "m"),
            forked_from: None,
        }
    }

    fn said(text: &str) -> Event {
        let message = Message {
            id: MessageId("m0".into()),
            role: Role::User,
            source: Source::User,
            origin: None,
            blocks: vec![Block::text(text)],
        };
        Event::MessageAdded { message }
    }

    #[test]
    fn what_goes_in_comes_out() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s.jsonl");
        let log = Log::create(&path, &header()).unwrap();
        // Separators of lines elsewhere (O-SESS-02) are data here.
        let odd = said("a\u{2028}b\u{2029}c\u{85}d\u{b}e\u{c}f\u{1c}g");
        log.append(&AgentPath::root(), &odd).unwrap();
        drop(log);
        let (log, events) = Log::open(&path).unwrap();
        assert_eq!(events.iter().map(|e| e.event.clone()).collect::<Vec<_>>(), [header(), odd]);
        assert_eq!(log.append(&AgentPath::root(), &Event::TurnStarted).unwrap().seq, 2);
    }

    #[test]
    fn o_sess_01_a_torn_line_is_isolated_and_nothing_is_glued_to_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s.jsonl");
        let log = Log::create(&path, &header()).unwrap();
        log.append(&AgentPath::root(), &said("one")).unwrap();
        log.append(&AgentPath::root(), &said("two")).unwrap();
        drop(log);
        let bytes = std::fs::read(&path).unwrap();
        std::fs::write(&path, &bytes[..bytes.len() - 17]).unwrap();
        let (log, events) = Log::open(&path).unwrap();
        assert_eq!(events.len(), 2);
        log.append(&AgentPath::root(), &said("six")).unwrap();
        drop(log);
        assert_eq!(Log::open(&path).unwrap().1.last().unwrap().event, said("six"));
    }

    #[test]
    fn o_sess_03_one_writer_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s.jsonl");
        let log = Log::create(&path, &header()).unwrap();
        assert!(matches!(Log::open(&path), Err(SessionError::Busy { .. })));
        drop(log);
        assert!(Log::open(&path).is_ok());
    }

    #[test]
    fn a_later_format_is_refused_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s.jsonl");
        let later = Event::SessionStarted {
            format: 99,
            session: "s".into(),
            cwd: "/w".into(),
            model: ModelId::new("p", "m"),
            forked_from: None,
        };
        drop(Log::create(&path, &later).unwrap());
        assert!(matches!(Log::open(&path), Err(SessionError::Format { found: 99, .. })));
    }
}

//! Opens and replaces files: the kind of a thing is checked before it is opened, and only content ever changes.

use std::fmt::Write as _;
use std::fs::{self, File, FileType, Metadata, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::Path;

use nix::fcntl::OFlag;

use super::{ToolError, names, output};
use crate::protocol::Target;

/// Largest file that is changed, in bytes: it is held in memory twice.
pub(super) const LARGEST: u64 = 64 * 1024 * 1024;

/// A change of a file on disk, from the bytes that were read.
#[derive(Debug)]
pub(super) struct Before {
    /// What it held.
    pub(super) bytes: Vec<u8>,
    /// What it was when it was opened.
    pub(super) metadata: Metadata,
}

/// Opens a regular file for reading. Errors: it does not exist (with near names), or is something else, with what to
/// do instead. A named pipe or a device is never opened.
pub(super) fn open(target: &Target) -> Result<(File, Metadata), ToolError> {
    let metadata = stat(target)?.ok_or_else(|| missing(target))?;
    regular(target, metadata.file_type())?;
    let opened = open_real(&target.real, OpenOptions::new().read(true))
        .map_err(|error| failed(target, "read", &error))?;
    // It may have been replaced between the two.
    regular(target, opened.1.file_type())?;
    Ok(opened)
}

/// Reads a file that will be changed; `None` when it does not exist.
pub(super) fn read_to_change(target: &Target) -> Result<Option<Before>, ToolError> {
    if stat(target)?.is_none() {
        return Ok(None);
    }
    let (file, metadata) = open(target)?;
    let mut bytes = Vec::with_capacity(usize::try_from(metadata.len().min(LARGEST)).unwrap_or_default());
    file.take(LARGEST + 1).read_to_end(&mut bytes).map_err(|error| failed(target, "read", &error))?;
    if bytes.len() as u64 > LARGEST {
        let (size, limit) = (output::thousands(metadata.len()), LARGEST / 1024 / 1024);
        let text = format!(
            "{} has {size} bytes, too large to change here (limit {limit} MiB). Use Bash, for example sed.",
            names::show(&target.shown)
        );
        return Err(ToolError::Failed(text));
    }
    Ok(Some(Before { bytes, metadata }))
}

/// What the target is; `None` when nothing is there.
pub(super) fn stat(target: &Target) -> Result<Option<Metadata>, ToolError> {
    match fs::metadata(&target.real) {
        Ok(metadata) => Ok(Some(metadata)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed(target, "looked at", &error)),
    }
}

/// The error for something that is not there.
pub(super) fn missing(target: &Target) -> ToolError {
    let mut text = format!("{} does not exist.", names::show(&target.shown));
    let near: Vec<String> = names::near(&target.real).iter().map(|path| names::show(path)).collect();
    let folder = target.real.parent().filter(|folder| !folder.exists());
    if !near.is_empty() {
        write!(text, " Did you mean {}?", near.join(" or ")).ok();
    } else if let Some(folder) = folder {
        let nearest = folder.ancestors().find(|folder| folder.exists()).unwrap_or(Path::new("/"));
        write!(text, " Its folder does not exist either; the nearest that does is {}.", names::show(nearest))
            .ok();
    }
    ToolError::Failed(text)
}

/// Refuses what is no regular file, with what to do instead.
pub(super) fn regular(target: &Target, kind: FileType) -> Result<(), ToolError> {
    let what = if kind.is_file() {
        return Ok(());
    } else if kind.is_dir() {
        "a folder, not a file. List it with Glob (pattern \"*\") or with ls in Bash"
    } else if kind.is_fifo() {
        "a named pipe, not a file. Reading or writing it could block for ever; use Bash with a timeout if you must"
    } else if kind.is_socket() {
        "a socket, not a file. Talk to it with a program in Bash"
    } else if kind.is_char_device() || kind.is_block_device() {
        "a device, not a file. Use Bash with a limit, for example head -c, if you must"
    } else {
        "not a regular file"
    };
    Err(ToolError::Failed(format!("{} is {what}.", names::show(&target.shown))))
}

/// The error for something that the system refused.
pub(super) fn failed(target: &Target, done: &str, error: &io::Error) -> ToolError {
    ToolError::Failed(format!("{} cannot be {done}: {error}.", names::show(&target.shown)))
}

/// Never waits for the other end of a pipe that appeared since, never takes a terminal, never follows a new link.
pub(super) fn open_real(path: &Path, options: &mut OpenOptions) -> io::Result<(File, Metadata)> {
    let flags = OFlag::O_NONBLOCK | OFlag::O_NOCTTY | OFlag::O_NOFOLLOW;
    let file = options.custom_flags(flags.bits()).open(path)?;
    let metadata = file.metadata()?;
    Ok((file, metadata))
}

/// Puts new content where the target is and gives the metadata after it. Mode, owner, links and hard links stay. A
/// reader sees the old content or the new one, except for a file with several hard links, or one whose owner or
/// folder does not let us replace it: that is written in place.
pub(super) fn replace(target: &Target, before: Option<&Before>, bytes: &[u8]) -> Result<Metadata, ToolError> {
    match before {
        Some(before) => {
            overwrite(&target.real, before, bytes).map_err(|error| failed(target, "written", &error))
        }
        None => create(&target.real, bytes).map_err(|error| failed(target, "created", &error)),
    }
}

fn create(path: &Path, bytes: &[u8]) -> io::Result<Metadata> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(folder)?;
    let mut file = beside().permissions(Permissions::from_mode(0o666)).tempfile_in(folder)?;
    file.write_all(bytes)?;
    file.as_file().sync_data()?;
    // Fails if something appeared there since.
    let file = file.persist_noclobber(path).map_err(|error| error.error)?;
    file.metadata()
}

fn overwrite(path: &Path, before: &Before, bytes: &[u8]) -> io::Result<Metadata> {
    // Tells at once whether we may write, which a rename would not ask.
    let (file, now) = open_real(path, OpenOptions::new().write(true))?;
    let same = |of: fn(&Metadata) -> i64| of(&now) == of(&before.metadata);
    if now.ino() != before.metadata.ino() || !same(Metadata::mtime) || !same(Metadata::mtime_nsec) {
        return Err(io::Error::other("it was changed at this very moment; read it again"));
    }
    if now.nlink() > 1 {
        return in_place(file, before, bytes);
    }
    match beside_and_rename(path, &now, bytes)? {
        Some(metadata) => Ok(metadata),
        None => in_place(file, before, bytes),
    }
}

/// `None` when the folder or the owner does not allow it; nothing has changed then.
fn beside_and_rename(path: &Path, now: &Metadata, bytes: &[u8]) -> io::Result<Option<Metadata>> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    let mut new = match beside().tempfile_in(folder) {
        Ok(new) => new,
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Ok(None),
        Err(error) => return Err(error),
    };
    let own = new.as_file().metadata()?;
    if (own.uid(), own.gid()) != (now.uid(), now.gid())
        && fchown(new.as_file(), Some(now.uid()), Some(now.gid())).is_err()
    {
        return Ok(None);
    }
    new.write_all(bytes)?;
    // After the owner, since a change of owner takes bits away.
    new.as_file().set_permissions(now.permissions())?;
    new.as_file().sync_data()?;
    let file = new.persist(path).map_err(|error| error.error)?;
    file.metadata().map(Some)
}

fn in_place(mut file: File, before: &Before, bytes: &[u8]) -> io::Result<Metadata> {
    let written = write_over(&mut file, bytes);
    if written.is_err() {
        // A full disk: the old bytes had room.
        write_over(&mut file, &before.bytes)?;
    }
    written?;
    file.metadata()
}

fn write_over(file: &mut File, bytes: &[u8]) -> io::Result<()> {
    io::Seek::rewind(file)?;
    file.write_all(bytes)?;
    file.set_len(bytes.len() as u64)?;
    file.sync_data()
}

/// A hidden file beside the target, gone again if anything fails.
fn beside() -> tempfile::Builder<'static, 'static> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".reagent-").suffix(".tmp");
    builder
}

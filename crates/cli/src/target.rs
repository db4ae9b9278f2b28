//! An output file that an option names. It never overwrites a drive. A regular file of the user's own is
//! replaced as a whole: after a failure it has its old content.

use crate::error::{CliError, Context};
use imbrex_disk_host::is_block_device;
use imbrex_disk_sim::is_image;
use rustix::fs::Access;
use std::fs::{self, Metadata, OpenOptions, Permissions};
use std::io::{ErrorKind, Write};
use std::os::fd::BorrowedFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// A path that may be written.
#[derive(Debug)]
pub(crate) struct Target {
    path: PathBuf,
}

impl Target {
    /// Accepts `path` unless it is a drive: one of `drives`, another image, or a block device.
    pub(crate) fn new(path: &Path, drives: &[&Path]) -> Result<Target, CliError> {
        let shown = path.display();
        let is_device = is_block_device(path).unwrap_or(false);
        let is_drive = is_device || drives.iter().any(|drive| is_same(path, drive));
        if is_drive || is_image(path).context(|| format!("cannot write {shown}"))? {
            let message = format!("cannot write {shown}: it is a drive; name another file");
            return Err(CliError::usage(message));
        }
        // Checked before the work whose result is to be written.
        let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty());
        if let Some(dir) = dir {
            fs::metadata(dir).context(|| format!("cannot write {shown}: {}", dir.display()))?;
        }
        check_writable(path, dir).context(|| format!("cannot write {shown}"))?;
        Ok(Target { path: path.to_owned() })
    }

    /// Replaces the content of the file by `text`.
    pub(crate) fn write(&self, text: &str) -> Result<(), CliError> {
        self.replace(text).context(|| format!("cannot write {}", self.path.display()))
    }

    fn replace(&self, text: &str) -> std::io::Result<()> {
        // A symbolic link stays, and leads to the new file.
        let Ok(path) = self.resolved() else { return fs::write(&self.path, text) };
        let before = fs::metadata(&path).ok();
        if before.as_ref().is_some_and(|before| !is_replaceable(before)) {
            return fs::write(&path, text);
        }
        if before.is_some() {
            // Renaming over a file needs write access to its directory only; this checks access to the file.
            OpenOptions::new().write(true).open(&path)?;
        }
        match put_whole(&path, text, before) {
            Err(error) if path.exists() && is_of_directory(&error) => fs::write(&path, text),
            put => put,
        }
    }

    /// The path with all links resolved; a new file keeps its path.
    fn resolved(&self) -> std::io::Result<PathBuf> {
        match fs::symlink_metadata(&self.path) {
            Ok(_) => fs::canonicalize(&self.path),
            Err(_) => Ok(self.path.clone()),
        }
    }
}

/// Fails if writing to `path` in `dir` would fail, as far as that can be checked without a change.
fn check_writable(path: &Path, dir: Option<&Path>) -> std::io::Result<()> {
    match fs::metadata(path) {
        Ok(found) if found.is_dir() => Err(ErrorKind::IsADirectory.into()),
        Ok(found) if found.is_file() => OpenOptions::new().write(true).open(path).map(drop),
        // A pipe is opened only to write.
        Ok(_) => Ok(()),
        // A symbolic link to a file that does not exist yet.
        Err(_) if fs::symlink_metadata(path).is_ok() => Ok(()),
        Err(_) => {
            let access = Access::WRITE_OK | Access::EXEC_OK;
            Ok(rustix::fs::access(dir.unwrap_or(Path::new(".")), access)?)
        }
    }
}

/// Whether a new file may replace it: it has one name, belongs to this user, and is neither standard
/// output nor standard error.
fn is_replaceable(found: &Metadata) -> bool {
    let is = |fd: BorrowedFd<'_>| {
        rustix::fs::fstat(fd)
            .is_ok_and(|stat| (stat.st_dev, stat.st_ino) == (found.dev(), found.ino()))
    };
    found.is_file()
        && found.nlink() == 1
        && found.uid() == rustix::process::geteuid().as_raw()
        && !is(rustix::stdio::stdout())
        && !is(rustix::stdio::stderr())
}

/// Whether the error comes from the directory or a mount, so that writing the file in place may still work.
fn is_of_directory(error: &std::io::Error) -> bool {
    use ErrorKind::{CrossesDevices, PermissionDenied, ReadOnlyFilesystem, ResourceBusy};
    matches!(error.kind(), CrossesDevices | PermissionDenied | ReadOnlyFilesystem | ResourceBusy)
}

/// Writes a new file and renames it to `path`.
fn put_whole(path: &Path, text: &str, before: Option<Metadata>) -> std::io::Result<()> {
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty());
    let mut file = tempfile::Builder::new()
        .prefix(".imbrex-")
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(dir.unwrap_or(Path::new(".")))
        // The error's own text names the temporary file, which the user does not know.
        .map_err(|error| std::io::Error::from(error.kind()))?;
    file.write_all(text.as_bytes())?;
    if let Some(before) = before {
        file.as_file().set_permissions(before.permissions())?;
    }
    file.persist(path).map(drop).map_err(|error| error.error)
}

/// Whether both lead to one file.
fn is_same(path: &Path, drive: &Path) -> bool {
    let id = |path| fs::metadata(path).map(|found| (found.dev(), found.ino())).ok();
    id(path).is_some_and(|found| id(drive) == Some(found))
}

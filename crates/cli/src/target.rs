//! A file that an option names to be written: never over a drive, and whole or as it was where it is a plain
//! file of ours.

use crate::error::{CliError, Context};
use imbrex_disk_host::is_block_device;
use imbrex_disk_sim::is_image;
use rustix::fs::Access;
use std::fs::{self, Metadata, OpenOptions, Permissions};
use std::io::{ErrorKind, Write};
use std::os::fd::BorrowedFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Where a file may be written.
#[derive(Debug)]
pub(crate) struct Target {
    path: PathBuf,
}

impl Target {
    /// `path`, unless that is a drive: one of `drives`, which are or will be open, any other image, or a block device.
    pub(crate) fn new(path: &Path, drives: &[&Path]) -> Result<Target, CliError> {
        let shown = path.display();
        let is_device = is_block_device(path).unwrap_or(false);
        let is_drive = is_device || drives.iter().any(|drive| is_same(path, drive));
        if is_drive || is_image(path).context(|| format!("cannot write {shown}"))? {
            let message = format!("cannot write {shown}: a drive lies there; name another file");
            return Err(CliError::usage(message));
        }
        // Found out before the work that is to be written down.
        let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty());
        if let Some(dir) = dir {
            fs::metadata(dir).context(|| format!("cannot write {shown}: {}", dir.display()))?;
        }
        check_writable(path, dir).context(|| format!("cannot write {shown}"))?;
        Ok(Target { path: path.to_owned() })
    }

    /// Writes `text` in place of what was there.
    pub(crate) fn write(&self, text: &str) -> Result<(), CliError> {
        self.replace(text).context(|| format!("cannot write {}", self.path.display()))
    }

    fn replace(&self, text: &str) -> std::io::Result<()> {
        // Links stay, and lead to the new file.
        let Ok(path) = self.resolved() else { return fs::write(&self.path, text) };
        let before = fs::metadata(&path).ok();
        if before.as_ref().is_some_and(|before| !is_replaceable(before)) {
            return fs::write(&path, text);
        }
        if before.is_some() {
            // To rename over it, its directory alone has to allow it.
            OpenOptions::new().write(true).open(&path)?;
        }
        match put_whole(&path, text, before) {
            Err(error) if path.exists() && is_of_directory(&error) => fs::write(&path, text),
            put => put,
        }
    }

    /// The path behind all links; that of a new file is its directory's.
    fn resolved(&self) -> std::io::Result<PathBuf> {
        match fs::symlink_metadata(&self.path) {
            Ok(_) => fs::canonicalize(&self.path),
            Err(_) => Ok(self.path.clone()),
        }
    }
}

/// Fails as writing to `path` in `dir` would, as far as that shows without a change.
fn check_writable(path: &Path, dir: Option<&Path>) -> std::io::Result<()> {
    match fs::metadata(path) {
        Ok(found) if found.is_dir() => Err(ErrorKind::IsADirectory.into()),
        Ok(found) if found.is_file() => OpenOptions::new().write(true).open(path).map(drop),
        // A pipe is opened when there is something to say.
        Ok(_) => Ok(()),
        // A link to where nothing is yet.
        Err(_) if fs::symlink_metadata(path).is_ok() => Ok(()),
        Err(_) => {
            let access = Access::WRITE_OK | Access::EXEC_OK;
            Ok(rustix::fs::access(dir.unwrap_or(Path::new(".")), access)?)
        }
    }
}

/// Whether another file may take its place: it has one name, it is ours, and nobody writes to it already.
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

/// Whether the file itself may still be written: its directory may not, or something is mounted on it.
fn is_of_directory(error: &std::io::Error) -> bool {
    use ErrorKind::{CrossesDevices, PermissionDenied, ReadOnlyFilesystem, ResourceBusy};
    matches!(error.kind(), CrossesDevices | PermissionDenied | ReadOnlyFilesystem | ResourceBusy)
}

/// Writes a new file and gives it the path.
fn put_whole(path: &Path, text: &str, before: Option<Metadata>) -> std::io::Result<()> {
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty());
    let mut file = tempfile::Builder::new()
        .prefix(".imbrex-")
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(dir.unwrap_or(Path::new(".")))
        // Its own text names the new file, of which nobody knows.
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

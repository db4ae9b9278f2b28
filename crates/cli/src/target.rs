//! A file that an option names to be written: never over a drive, and whole or as it was.

use crate::error::{CliError, Context};
use imbrex_disk_sim::is_image;
use std::fs::{self, OpenOptions, Permissions};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Where a file may be written.
#[derive(Debug)]
pub(crate) struct Target {
    path: PathBuf,
}

impl Target {
    /// `path`, unless that is a drive image: one of `drives`, which are or will be open, or any other.
    pub(crate) fn new(path: &Path, drives: &[&Path]) -> Result<Target, CliError> {
        let shown = path.display();
        let is_drive = drives.iter().any(|drive| is_same(path, drive));
        if is_drive || is_image(path).context(|| format!("cannot write {shown}"))? {
            let message = format!("cannot write {shown}: a drive lies there; name another file");
            return Err(CliError::usage(message));
        }
        Ok(Target { path: path.to_owned() })
    }

    /// Writes `text` in place of what was there.
    pub(crate) fn write(&self, text: &str) -> Result<(), CliError> {
        self.replace(text).context(|| format!("cannot write {}", self.path.display()))
    }

    fn replace(&self, text: &str) -> std::io::Result<()> {
        // Links stay, and lead to the new file.
        let path = fs::canonicalize(&self.path).unwrap_or_else(|_| self.path.clone());
        let before = fs::metadata(&path).ok();
        if before.as_ref().is_some_and(|before| !before.is_file()) {
            // A terminal or a pipe.
            return fs::write(&path, text);
        }
        if before.is_some() {
            // To rename over it, its directory alone has to allow it.
            OpenOptions::new().write(true).open(&path)?;
        }
        let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty());
        let mut file = tempfile::Builder::new()
            .prefix(".imbrex-")
            .permissions(Permissions::from_mode(0o666))
            .tempfile_in(dir.unwrap_or(Path::new(".")))?;
        file.write_all(text.as_bytes())?;
        if let Some(before) = before {
            file.as_file().set_permissions(before.permissions())?;
        }
        file.persist(&path).map(drop).map_err(|error| error.error)
    }
}

/// Whether both lead to one file.
fn is_same(path: &Path, drive: &Path) -> bool {
    let id = |path| fs::metadata(path).map(|found| (found.dev(), found.ino())).ok();
    id(path).is_some_and(|found| id(drive) == Some(found))
}

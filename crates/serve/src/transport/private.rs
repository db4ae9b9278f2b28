//! Places that only one user may change: where a socket can lie that nobody else replaces, opens or pretends to be.
//!
//! ```text
//!     /            root's, others may not write     fine
//!     /tmp         others may write, sticky         fine above: nobody renames what is another user's
//!     /tmp/mine    0700                             fine: the socket's own directory is nobody else's to write
//!     /tmp/s       in a sticky directory            refused: another user may have put it there first
//! ```

use rustix::process::geteuid;
use std::fs::Metadata;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// The bits of a mode with which a group or everybody may write.
const OTHERS_WRITE: u32 = 0o022;
const STICKY: u32 = 0o1000;

/// A place that is not this user's alone.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NotPrivate {
    /// Other users may write to a directory, and so put another socket in the place of this one.
    #[error(
        "other users may write to {} (mode {mode:o}); use a directory that only you may write to, such as one made with \
         `mkdir -m 700`, or take their permission with `chmod go-w {}`", path.display(), path.display()
    )]
    Directory {
        /// The directory.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// Other users may connect to the socket that is already there.
    #[error("other users may connect to {} (mode {mode:o}); remove it, and start the server again", path.display())]
    Socket {
        /// The socket.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// It belongs to another user.
    #[error("{} belongs to user {user}; use a place of your own", path.display())]
    Owner {
        /// The directory or socket.
        path: PathBuf,
        /// The user's number.
        user: u32,
    },
    /// The operating system refused to say.
    #[error("cannot look at {}: {source}", path.display())]
    Refused {
        /// The directory or socket.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
}

/// Refuses a path for a socket that another user could replace or connect to. There need not be a socket yet.
///
/// # Errors
/// [`NotPrivate`], with what is wrong and what to do.
pub fn check_private_socket(path: &Path) -> Result<(), NotPrivate> {
    check_directories(path)?;
    match std::fs::symlink_metadata(path) {
        Ok(found) if found.file_type().is_socket() => {
            let mode = found.mode() & 0o7777;
            if mode & OTHERS_WRITE != 0 {
                return Err(NotPrivate::Socket { path: path.to_owned(), mode });
            }
            check_owner(path, &found)
        }
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(source) => Err(NotPrivate::Refused { path: path.to_owned(), source }),
    }
}

/// The directory of `path`, and those above it.
fn check_directories(path: &Path) -> Result<(), NotPrivate> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new("."));
    let refused = |source| NotPrivate::Refused { path: parent.to_owned(), source };
    // A link could be changed later, so only the directory that it leads to counts.
    let parent = std::fs::canonicalize(parent).map_err(refused)?;
    for (above_count, directory) in parent.ancestors().enumerate() {
        let refused = |source| NotPrivate::Refused { path: directory.to_owned(), source };
        let found = std::fs::metadata(directory).map_err(refused)?;
        let mode = found.mode() & 0o7777;
        let is_sticky_above = above_count > 0 && mode & STICKY != 0;
        if mode & OTHERS_WRITE != 0 && !is_sticky_above {
            return Err(NotPrivate::Directory { path: directory.to_owned(), mode });
        }
        check_owner(directory, &found)?;
    }
    Ok(())
}

/// Root may change everything anyway.
fn check_owner(path: &Path, found: &Metadata) -> Result<(), NotPrivate> {
    match found.uid() {
        0 => Ok(()),
        user if user == geteuid().as_raw() => Ok(()),
        user => Err(NotPrivate::Owner { path: path.to_owned(), user }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::net::UnixListener;

    fn set_mode(path: &Path, mode: u32) {
        std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    /// A private directory below a sticky one is fine. Any other directory that others may write is refused, by its
    /// name.
    #[test]
    fn directories_that_others_may_write_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let (above, inner) = (dir.path().join("above"), dir.path().join("above/inner"));
        std::fs::create_dir_all(&inner).unwrap();
        let socket = inner.join("s");
        for (above_mode, inner_mode, refused) in [
            (0o755, 0o700, None),
            (0o1777, 0o755, None),
            (0o777, 0o700, Some(&above)),
            (0o775, 0o700, Some(&above)),
            (0o755, 0o720, Some(&inner)),
            (0o755, 0o1777, Some(&inner)),
        ] {
            set_mode(&above, above_mode);
            set_mode(&inner, inner_mode);
            let told = check_private_socket(&socket).err();
            let expected = refused.map(|path| std::fs::canonicalize(path).unwrap());
            let found = match &told {
                None => None,
                Some(NotPrivate::Directory { path, .. }) => Some(path.clone()),
                Some(other) => panic!("{other}"),
            };
            assert_eq!(found, expected, "{above_mode:o} {inner_mode:o}: {told:?}");
        }
        set_mode(&inner, 0o700);
    }

    #[test]
    fn a_socket_that_others_may_connect_to_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let _bound = UnixListener::bind(&path).unwrap();
        set_mode(&path, 0o600);
        check_private_socket(&path).unwrap();
        set_mode(&path, 0o660);
        let told = check_private_socket(&path).unwrap_err().to_string();
        assert!(told.contains("mode 660") && told.contains("remove it"), "{told}");
    }
}

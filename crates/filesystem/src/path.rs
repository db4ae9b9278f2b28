//! Paths: `/db/000001.log` as the key of the tree, `db/000001.log`.
//!
//! The root is the empty key. `.` and empty components vanish, and `..` goes up but stays at the
//! root, as in POSIX. A hostile name cannot leave the drive, because nothing exists outside it.

use crate::error::FsError;

/// The longest component, as in POSIX.
const COMPONENT_LEN_BYTES_MAX: usize = 255;
/// The longest key, as in POSIX.
const PATH_LEN_BYTES_MAX: usize = 4096;

/// The key of `path`.
pub(crate) fn key(path: &str) -> Result<String, FsError> {
    let bad = |reason| bad(path, reason);
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            _ if part.len() > COMPONENT_LEN_BYTES_MAX => {
                return Err(bad("a name in it is longer than 255 bytes"));
            }
            _ if part.contains('\0') => return Err(bad("it holds a NUL")),
            _ => parts.push(part),
        }
    }
    let key = parts.join("/");
    check_len(path, key.len())?;
    Ok(key)
}

/// Refuses `path` if its key, or that of a path below it, would have `len_bytes` bytes and that is
/// too long.
pub(crate) fn check_len(path: &str, len_bytes: usize) -> Result<(), FsError> {
    if len_bytes <= PATH_LEN_BYTES_MAX {
        return Ok(());
    }
    Err(bad(path, "it is longer than 4096 bytes"))
}

fn bad(path: &str, reason: &'static str) -> FsError {
    FsError::BadPath { path: path.chars().take(64).collect(), reason }
}

/// The key of a path that must not be the root.
pub(crate) fn file_key(path: &str) -> Result<String, FsError> {
    let key = key(path)?;
    if key.is_empty() {
        return Err(FsError::IsADirectory { path: "/".into() });
    }
    Ok(key)
}

/// The key of the directory that holds `key`.
pub(crate) fn parent(key: &str) -> &str {
    key.rfind('/').map_or("", |at| &key[..at])
}

/// The path of a key, for messages.
pub(crate) fn shown(key: &str) -> String {
    format!("/{key}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_become_keys() {
        for (path, expected) in [
            ("/", ""),
            ("a", "a"),
            ("/a//b/./c", "a/b/c"),
            ("a/../../b", "b"),
            ("/../..", ""),
            ("/döner/x y", "döner/x y"),
        ] {
            assert_eq!(key(path).unwrap(), expected, "{path}");
        }
        assert_eq!((parent("a/b/c"), parent("a"), parent("")), ("a/b", "", ""));
    }

    #[test]
    fn invalid_paths_are_refused() {
        let long = "x".repeat(256);
        let deep = "abcdefg/".repeat(600);
        for path in ["a\0b", &long, &deep] {
            assert!(matches!(key(path), Err(FsError::BadPath { .. })), "{path:?}");
        }
        assert!(matches!(file_key("/a/.."), Err(FsError::IsADirectory { .. })));
    }
}

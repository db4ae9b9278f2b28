//! The rules for file names.

use crate::error::FilesError;

/// The longest name of a file, in bytes.
pub(crate) const FILE_NAME_LEN_BYTES_MAX: usize = 1024;

/// What is wrong with `name`, if anything.
pub(crate) fn flaw(name: &str) -> Option<&'static str> {
    if name.is_empty() {
        Some("it is empty")
    } else if name.len() > FILE_NAME_LEN_BYTES_MAX {
        Some("it is longer than 1024 bytes")
    } else if name.contains('\0') {
        Some("it holds a NUL")
    } else {
        None
    }
}

/// Checks a name that comes from a caller.
pub(crate) fn check(name: &str) -> Result<(), FilesError> {
    match flaw(name) {
        None => Ok(()),
        Some(reason) => Err(FilesError::BadName { name: name.chars().take(64).collect(), reason }),
    }
}

//! Names: of keyspaces and checkpoints, and of the files that a checkpoint keeps.

use crate::EngineError;
use crate::version::TableId;

/// Names are part of file names and are printed: short, without surprises.
pub(crate) fn check_name(what: &'static str, name: &str) -> Result<(), EngineError> {
    let is_plain = |c: char| !c.is_control() && c != '/';
    if (1..=128).contains(&name.len()) && name.chars().all(is_plain) {
        return Ok(());
    }
    let rule = "1 to 128 bytes without control characters and slashes";
    Err(EngineError::BadName { what, name: name.chars().take(64).collect(), rule })
}

/// What the names of a checkpoint's tables begin with.
pub(crate) fn names_prefix(checkpoint: &str) -> String {
    format!("checkpoint/{checkpoint}/")
}

/// What a checkpoint calls a table.
pub(crate) fn linked_name(checkpoint: &str, table: TableId) -> String {
    names_prefix(checkpoint) + &table.file_name()
}

//! Names of keyspaces, checkpoints and tables, and of the files that a checkpoint keeps.

use crate::EngineError;
use std::fmt;

/// The number of a table. [`TableId::file_name`] makes a file name of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct TableId(pub(crate) u64);

impl TableId {
    pub(crate) fn file_name(self) -> String {
        format!("{:06}.tbl", self.0)
    }
}

impl fmt::Display for TableId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:06}", self.0)
    }
}

/// Checks a name. Names become part of file names and are printed, so they are short and plain.
pub(crate) fn check_name(what: &'static str, name: &str) -> Result<(), EngineError> {
    let is_plain = |c: char| !c.is_control() && c != '/';
    if (1..=128).contains(&name.len()) && name.chars().all(is_plain) {
        return Ok(());
    }
    let rule = "1 to 128 bytes without control characters and slashes";
    Err(EngineError::BadName { what, name: name.chars().take(64).collect(), rule })
}

/// The prefix of the names of all checkpoints' tables.
pub(crate) const CHECKPOINTS: &str = "checkpoint/";

/// The prefix of the names of a checkpoint's tables.
pub(crate) fn names_prefix(checkpoint: &str) -> String {
    format!("{CHECKPOINTS}{checkpoint}/")
}

/// The checkpoint in a name made by [`linked_name`], and the table's name in the store.
pub(crate) fn linked_table(name: &str) -> Option<(&str, &str)> {
    name.strip_prefix(CHECKPOINTS)?.split_once('/')
}

/// The name of a table within a checkpoint.
pub(crate) fn linked_name(checkpoint: &str, table: TableId) -> String {
    names_prefix(checkpoint) + &table.file_name()
}

//! The file layer: append-only files on one disk, placed by a policy, named by a durable catalog.
//!
//! ```text
//!   engine     "these bytes are table 000042, level 3, group 17"
//!   ---------------------------------------------------------------- trait Files
//!   files      name -> extents (catalog), hints -> extents (placement), dead extents -> space
//!   ---------------------------------------------------------------- trait Disk
//!   disk       blocks under one rule
//! ```

mod api;

pub use api::{
    AppRecord, Commit, FileBuffer, FileInfo, FileKind, FileReader, Files, FilesError, GroupId,
    Hints, LogWriter, Persisted, SpaceUse,
};

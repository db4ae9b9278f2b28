//! What all handles of a file system share.

use crate::journal::Journal;
use imbrex_files::Files;
use std::sync::Arc;

/// How to open a file system.
#[derive(Clone, Copy, Debug)]
pub struct FsOptions {
    /// The clock for modification times, in seconds since 1970.
    pub unix_time_s: fn() -> u64,
}

/// The state that all handles share.
#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) files: Arc<dyn Files>,
    pub(crate) journal: Journal,
    pub(crate) options: FsOptions,
}

//! Sorted runs that cursors iterate over, opening one table after another.

use crate::EngineError;
use crate::table::cache::BlockCache;
use crate::table::{SortedRun, Table};
use crate::version::{TableSlot, Version};
use bytes::Bytes;
use std::sync::Arc;

/// Tables of one run, with the cache to open them with.
#[derive(Clone, Debug)]
pub(crate) struct RunView {
    pub(crate) tables: Vec<Arc<TableSlot>>,
    pub(crate) cache: Arc<BlockCache>,
}

impl SortedRun for RunView {
    fn table_count(&self) -> usize {
        self.tables.len()
    }

    fn smallest_user_key(&self, index: usize) -> &[u8] {
        &self.tables[index].meta.smallest
    }

    fn largest_user_key(&self, index: usize) -> &[u8] {
        &self.tables[index].meta.largest
    }

    fn front(&self, index: usize) -> Option<&Bytes> {
        self.tables[index].meta.front()
    }

    fn open(&self, index: usize) -> Result<Arc<Table>, EngineError> {
        self.tables[index].open(&self.cache).cloned()
    }
}

/// A run of a version, for an iterator. If the level is crowded, it is a lane of the level's cover.
/// No table list is copied.
#[derive(Clone, Debug)]
pub(crate) struct RunOfView {
    pub(crate) version: Arc<Version>,
    pub(crate) level: usize,
    pub(crate) run: usize,
    pub(crate) cache: Arc<BlockCache>,
}

impl RunOfView {
    fn tables(&self) -> &[Arc<TableSlot>] {
        let level = &self.version.levels[self.level];
        match level.cover() {
            Some(cover) => &cover.lanes()[self.run],
            None => &level.runs[self.run].tables,
        }
    }
}

impl SortedRun for RunOfView {
    fn table_count(&self) -> usize {
        self.tables().len()
    }

    fn smallest_user_key(&self, index: usize) -> &[u8] {
        &self.tables()[index].meta.smallest
    }

    fn largest_user_key(&self, index: usize) -> &[u8] {
        &self.tables()[index].meta.largest
    }

    fn front(&self, index: usize) -> Option<&Bytes> {
        self.tables()[index].meta.front()
    }

    fn open(&self, index: usize) -> Result<Arc<Table>, EngineError> {
        self.tables()[index].open(&self.cache).cloned()
    }
}

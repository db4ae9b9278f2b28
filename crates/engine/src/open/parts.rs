//! Which part of the store each table is, from the records of the catalog: for tools that show the files
//! and zones of a drive.
//!
//! ```text
//!   records  -->  state  -->  keyspace, partition, level of each table;   the partitions and their base merge
//! ```
//!
//! It opens no table and no store.

use crate::EngineError;
use crate::metrics::{BaseMergeMetrics, PartitionShape};
use crate::open::recover::decode_records;
use crate::options::CompactionKind;
use crate::version::Version;
use crate::version::partitions::BASE_LEVEL;
use crate::version::shape::{base_merge, partition_shapes};
use crate::version::state::StoreState;

/// The tables of one keyspace.
#[derive(Clone, Debug)]
pub struct KeyspaceParts {
    /// Its name.
    pub name: String,
    /// With lazy leveling: its partitions, in key order.
    pub partitions: Option<Vec<PartitionShape>>,
    /// The base merge under way. What it waits for is not in the catalog.
    pub base_merge: Option<BaseMergeMetrics>,
    /// Its tables, from the newest data to the oldest.
    pub tables: Vec<TablePart>,
}

/// The place of a table in its keyspace.
#[derive(Clone, Debug)]
pub struct TablePart {
    /// The name of its file.
    pub file_name: String,
    /// Its level.
    pub level: u8,
    /// With lazy leveling: whether it is part of the base.
    pub is_base: bool,
    /// With lazy leveling: the partition where it begins, as an index.
    pub partition: Option<usize>,
    /// Its first key; a base merge under way may have passed it by.
    pub smallest: Vec<u8>,
    /// Its last key, or the end of its last range delete.
    pub largest: Vec<u8>,
    /// Entries, including deletes and overwritten ones.
    pub entry_count: u64,
}

/// The keyspaces that the engine's records in the catalog add up to.
///
/// `records` is the result of [`imbrex_files::Files::app_records`]. Without any, there is no store and no
/// keyspace.
///
/// # Errors
/// [`EngineError::Corrupt`], [`EngineError::Version`].
pub fn store_parts(records: &[Vec<u8>]) -> Result<Vec<KeyspaceParts>, EngineError> {
    Ok(parts_of(&decode_records(records)?))
}

/// The keyspaces of `state`, in order of their numbers.
pub(crate) fn parts_of(state: &StoreState) -> Vec<KeyspaceParts> {
    let keyspaces = state.keyspaces.values().map(|entry| {
        let is_lazy = entry.record.options.compaction == CompactionKind::Lazy;
        KeyspaceParts {
            name: entry.record.name.clone(),
            partitions: is_lazy.then(|| partition_shapes(&entry.version)),
            base_merge: base_merge(&entry.version),
            tables: table_parts(&entry.version, is_lazy),
        }
    });
    keyspaces.collect()
}

fn table_parts(version: &Version, is_lazy: bool) -> Vec<TablePart> {
    let part = |(level, _, slot): (u8, _, &std::sync::Arc<crate::version::TableSlot>)| TablePart {
        file_name: slot.meta.id.file_name(),
        level,
        is_base: is_lazy && level == BASE_LEVEL,
        partition: is_lazy.then(|| version.partitions.find(&slot.meta.smallest)),
        smallest: slot.meta.smallest.to_vec(),
        largest: slot.meta.largest.to_vec(),
        entry_count: slot.meta.entry_count,
    };
    version.places().map(part).collect()
}

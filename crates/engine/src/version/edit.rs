//! A version edit: what one commit changes about the store. `format` defines its bytes.

pub(crate) use crate::batch::KeyspaceId;

use super::partitions::BaseMerge;
use super::{RunId, TableId, TableMeta};
use crate::options::KeyspaceOptions;
use crate::totals::Totals;
use crate::wal::{log_name, log_number};
use bytes::Bytes;

/// Spreads the id of a format over all bits of a log's id. Odd, so that it has an inverse.
const FORMAT_FACTOR: u64 = 0xd6e8_feb8_6659_fd93;

/// The number of a log. A larger number is newer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct LogId(pub(crate) u64);

impl LogId {
    pub(crate) fn file_name(self) -> String {
        log_name(self.0)
    }

    /// The id that the log's frames carry. Log numbers restart when a drive is formatted, and a log
    /// may own unwritten blocks that still contain frames of the previous store. Including
    /// `format_id` keeps the two apart.
    ///
    /// Applied to the id in a frame, it returns the log's number.
    pub(crate) fn frame_id(self, format_id: u64) -> u64 {
        self.0 ^ format_id.wrapping_mul(FORMAT_FACTOR)
    }

    /// The `format_id` for which log 0 would have the id `key` in its frames.
    pub(crate) fn format_of_key(key: u64) -> u64 {
        // Newton's method: an odd number is its own inverse modulo 8, and each step doubles the bits.
        let step = |inverse: u64, _| {
            inverse.wrapping_mul(2_u64.wrapping_sub(FORMAT_FACTOR.wrapping_mul(inverse)))
        };
        key.wrapping_mul((0..5).fold(FORMAT_FACTOR, step))
    }

    /// The number in a log's file name; `None` for any other file.
    pub(crate) fn of_file_name(name: &str) -> Option<LogId> {
        log_number(name).map(LogId)
    }
}

/// Counters that only increase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counters {
    /// The next number for a table, log or group.
    pub(crate) next_id: u64,
    /// The next number for a keyspace.
    pub(crate) next_keyspace_id: u32,
    /// The largest sequence number in any table.
    pub(crate) last_seq: u64,
}

/// A keyspace as the store records it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyspaceRecord {
    pub(crate) id: KeyspaceId,
    pub(crate) name: String,
    pub(crate) options: KeyspaceOptions,
}

/// A table that is added to a level and run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TableAdd {
    pub(crate) keyspace: KeyspaceId,
    pub(crate) level: u8,
    pub(crate) run: RunId,
    pub(crate) meta: TableMeta,
}

/// A checkpoint as the store records it: an encoded snapshot of the store's state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CheckpointRecord {
    pub(crate) name: String,
    pub(crate) snapshot: Vec<u8>,
}

/// Values that are in another file than their entries (`holders`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ValuesPlaced {
    pub(crate) keyspace: KeyspaceId,
    /// The table that entries name.
    pub(crate) origin: TableId,
    /// The table whose file has the values.
    pub(crate) file: TableId,
    pub(crate) len_bytes: u64,
}

/// The changes of one commit, applied in the order of the fields.
///
/// A table that moves, or gets a later front, is removed and added again with the same id. A table that is added to
/// [`HOLDER_LEVEL`](super::holders::HOLDER_LEVEL) is in no level.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct VersionEdit {
    pub(crate) counters: Option<Counters>,
    /// The totals of the lifetime that have changed.
    pub(crate) totals: Totals,
    pub(crate) keyspaces_created: Vec<KeyspaceRecord>,
    pub(crate) tables_removed: Vec<(KeyspaceId, TableId)>,
    pub(crate) tables_added: Vec<TableAdd>,
    /// Per keyspace, the first log that may hold data that is in no table.
    pub(crate) log_floors: Vec<(KeyspaceId, LogId)>,
    /// Per keyspace, all cuts of its partitions.
    pub(crate) cuts: Vec<(KeyspaceId, Vec<Bytes>)>,
    /// Per keyspace, the base merge that is under way from now on.
    pub(crate) base_merges: Vec<(KeyspaceId, Option<BaseMerge>)>,
    /// Values of added tables that are in the files of others.
    pub(crate) values_placed: Vec<ValuesPlaced>,
    /// Origins that have other files from now on.
    pub(crate) values_moved: Vec<(KeyspaceId, TableId, TableId)>,
    /// Origins of the values that dropped entries had, with their length.
    pub(crate) values_released: Vec<(KeyspaceId, TableId, u64)>,
    pub(crate) keyspaces_dropped: Vec<KeyspaceId>,
    pub(crate) checkpoints_created: Vec<CheckpointRecord>,
    pub(crate) checkpoints_dropped: Vec<String>,
}

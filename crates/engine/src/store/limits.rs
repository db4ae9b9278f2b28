//! The lengths of memtables, logs and tables that a drive has room for.
//!
//! ```text
//!   capacity   |  1/256  a table          so that the smallest useful merge is a few hundredths
//!              |  1/128  kept for deletes
//!              |  1/32   a log            blocks, not entries: a synced put takes one
//!              |  1/32   level 1          so that a merge of level 0 with it has room
//!              |  1/16   a memtable
//!              |  1/8    all logs
//! ```
//!
//! Options are lengths that suit a large drive. A small drive gets shorter ones, or the few memtables
//! and tables that exist twice for a moment would be most of it. The shares matter below some GiB;
//! above that, the options decide. Where tables take whole zones, a log takes one as well.

use crate::options::{CompactionKind, KeyspaceOptions, Options};
use imbrex_files::SpaceUse;

/// While a log grows, space is assessed each time it has grown by this fraction of a memtable.
const LOOKS_PER_MEMTABLE: u64 = 8;

const MEMTABLES_PER_DRIVE: u64 = 16;
const LOGS_PER_DRIVE: u64 = 32;
const ALL_LOGS_PER_DRIVE: u64 = 8;
const BASE_LEVELS_PER_DRIVE: u64 = 32;
const TABLES_PER_DRIVE: u64 = 256;
const DELETES_PER_DRIVE: u64 = 128;
const MERGES_PER_DRIVE: u64 = 16;

/// Shorter tables cost the catalog more than they save the drive.
const TABLE_LEN_BYTES_MIN: u64 = 64 << 10;
const BASE_LEVEL_LEN_BYTES_MIN: u64 = 256 << 10;
const MEMTABLE_LEN_BYTES_MIN: u64 = 4096;
/// The room for deletes: a few frames of a log, and the table for them.
const DELETES_LEN_BYTES_MIN: u64 = 128 << 10;

/// A leveled merge takes one table, as many tables' worth below it as an option allows, and one at
/// each end of those.
const MERGE_TABLE_COUNT: u64 = 3;
/// The shortest piece of a set takes two tables (`set_pieces`). A quarter of a table comes from the part
/// of the reserve that compactions may use. Unit: quarters of a table.
const PIECE_QUARTERS: u64 = 7;
/// A shorter level 1 would be less than what one merge takes.
const BASE_LEVEL_TABLE_COUNT: u64 = 4;

/// The lengths that a drive has room for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// The length at which a memtable ends.
    pub(crate) memtable_len_bytes: u64,
    /// The length at which a log ends, and the memtable with it.
    pub(crate) log_len_bytes: u64,
    /// The length of all logs together from which the oldest is not kept.
    pub(crate) all_logs_len_bytes: u64,
    /// No table needs to be longer than this.
    table_len_bytes_max: u64,
    /// Level 1 is not longer than this before it is compacted, or than a few tables.
    base_level_len_bytes_max: u64,
    /// Puts keep no more than this free for a merge, however long tables are.
    merge_len_bytes_max: u64,
    /// How much stays free for deletes.
    pub(crate) deletes_len_bytes: u64,
    /// How many memtables' worth puts leave free, at least.
    pub(crate) free_memtable_count_min: u64,
}

impl Limits {
    /// The limits of a store with `options` on a drive with `space`.
    pub(crate) fn new(options: &Options, space: &SpaceUse) -> Limits {
        let (capacity_bytes, grain_bytes) = (space.capacity_bytes, space.grain_bytes);
        let share =
            |per_drive: u64, least_bytes: u64| (capacity_bytes / per_drive).max(least_bytes);
        let mut memtable_len_bytes = options.memtable_len_bytes;
        if grain_bytes == 0 {
            let memtable_max = share(MEMTABLES_PER_DRIVE, MEMTABLE_LEN_BYTES_MIN);
            memtable_len_bytes = memtable_len_bytes.min(memtable_max);
        }
        let longest = options.log_len_bytes_max.max(memtable_len_bytes);
        let log_len_bytes = match grain_bytes {
            0 => share(LOGS_PER_DRIVE, memtable_len_bytes).min(longest),
            grain_bytes => memtable_len_bytes.next_multiple_of(grain_bytes),
        };
        let unit_bytes = space.unit_bytes.max(TABLE_LEN_BYTES_MIN);
        let (table_len_bytes_max, base_level_len_bytes_max) = match grain_bytes {
            0 => {
                let base_level_max = share(BASE_LEVELS_PER_DRIVE, BASE_LEVEL_LEN_BYTES_MIN);
                (share(TABLES_PER_DRIVE, unit_bytes), base_level_max)
            }
            _ => (u64::MAX, u64::MAX),
        };
        let deletes_max = memtable_len_bytes.max(DELETES_LEN_BYTES_MIN);
        Limits {
            memtable_len_bytes,
            log_len_bytes,
            all_logs_len_bytes: longest.min(share(ALL_LOGS_PER_DRIVE, log_len_bytes)),
            table_len_bytes_max,
            base_level_len_bytes_max,
            merge_len_bytes_max: capacity_bytes / MERGES_PER_DRIVE,
            deletes_len_bytes: share(DELETES_PER_DRIVE, DELETES_LEN_BYTES_MIN).min(deletes_max),
            free_memtable_count_min: options.free_memtable_count_min,
        }
    }

    /// How much a log may grow between two assessments.
    pub(crate) fn look_len_bytes(&self) -> u64 {
        self.memtable_len_bytes / LOOKS_PER_MEMTABLE
    }

    /// The options of a keyspace, with tables and a level 1 that the drive has room for. A partition
    /// of lazy leveling is merged in pieces, so its length matters less.
    pub(crate) fn fit(&self, options: &KeyspaceOptions) -> KeyspaceOptions {
        let table_len_bytes = options.table_len_bytes.min(self.table_len_bytes_max);
        if options.compaction == CompactionKind::Lazy {
            return KeyspaceOptions { table_len_bytes, ..options.clone() };
        }
        let base_max = self
            .base_level_len_bytes_max
            .max(BASE_LEVEL_TABLE_COUNT.saturating_mul(table_len_bytes));
        let base_level_len_bytes = options.base_level_len_bytes.min(base_max);
        KeyspaceOptions { table_len_bytes, base_level_len_bytes, ..options.clone() }
    }

    /// How much the smallest useful merge of tables takes, of a keyspace with fitted `options`.
    pub(crate) fn merge_len_bytes(&self, options: &KeyspaceOptions) -> u64 {
        let table_len_bytes = options.table_len_bytes;
        let table_count = MERGE_TABLE_COUNT + u64::from(options.grandparent_table_count_max);
        let least_bytes = match options.compaction {
            CompactionKind::SetAware => table_len_bytes.saturating_mul(PIECE_QUARTERS) / 4,
            _ => 0,
        };
        let max_bytes = self.merge_len_bytes_max.max(least_bytes);
        table_len_bytes.saturating_mul(table_count).min(max_bytes)
    }
}

//! Two habits of LevelDB 1.19 that RocksDB does not have, each behind an option of the keyspace:
//! [`KeyspaceOptions::flushes_pass_levels`] and [`KeyspaceOptions::missed_tables_go_down`].
//!
//! ```text
//!   flush   L0  [ ] [ ]          a memtable that overlaps nothing passes level 0 and 1 and lies in level 2,
//!           L1     [   ] [ ]     or in level 1; a sequential load never fills level 0
//!           L2  [  ]      [ ] <- here
//!
//!   get     L0  [  x   ]         nothing here
//!           L1    [  v  ]        found here: a miss of the table in level 0, which goes down after so many
//! ```
//!
//! A miss costs a seek, as merging about 25 KB would. LevelDB calls it half of that: a table goes down
//! after a miss for each 16 KiB of its length, but not before 100.
//!
//! Source: LevelDB 1.19, `Version::PickLevelForMemTableOutput`, `Version::UpdateStats`. LevelDB also
//! counts a miss for each MiB that an iterator reads; here only point reads count. HyperLevelDB has both
//! habits, without a limit on what a flush overlaps two levels below.

use crate::compaction::busy::Busy;
use crate::compaction::plan::{Plan, Reason};
use crate::compaction::policy::leveled;
use crate::compaction::situation::Situation;
use crate::options::{CompactionKind, KeyspaceOptions};
use crate::version::{KeyRange, LEVEL_COUNT, TableMeta, Version};
use std::sync::Arc;

/// The deepest level that a flush writes to.
const FLUSH_LEVEL_MAX: u8 = 2;

/// A table of so many bytes may be missed once more.
const BYTES_PER_MISS: u64 = 16 << 10;
/// The fewest misses after which a table goes down.
const MISS_COUNT_MIN: u64 = 100;

/// Whether gets that find nothing in a table count.
pub(crate) fn counts_misses(options: &KeyspaceOptions) -> bool {
    // Gear compaction does not move single tables, because a zone has tables of one level.
    let moves_tables =
        matches!(options.compaction, CompactionKind::Leveled | CompactionKind::SetAware);
    options.missed_tables_go_down && moves_tables
}

/// Whether a flush may go below level 0. The other policies give level 0 a meaning of its own.
fn passes_levels(options: &KeyspaceOptions) -> bool {
    let has_levels = matches!(
        options.compaction,
        CompactionKind::Leveled | CompactionKind::SetAware | CompactionKind::Gear
    );
    options.flushes_pass_levels && has_levels
}

/// How many misses a table may have before it goes down.
pub(crate) fn miss_count_max(meta: &TableMeta) -> u64 {
    (meta.len_bytes / BYTES_PER_MISS).max(MISS_COUNT_MIN)
}

/// The level for a flush of a memtable with keys in `range`. All older data for these keys lie below
/// that level, and no running compaction writes to the range there.
pub(crate) fn flush_level(
    version: &Version,
    options: &KeyspaceOptions,
    busy: &Busy,
    range: &KeyRange,
) -> u8 {
    if !passes_levels(options) {
        return 0;
    }
    let is_clear = |level: u8| {
        let runs = &version.levels[usize::from(level)].runs;
        runs.iter().all(|run| run.overlapping(range).is_empty()) && !busy.writes_to(level, range)
    };
    let may_pass = |level: u8| {
        is_clear(level + 1) && leveled::is_light_on_grandparents(version, options, level, range)
    };
    if !is_clear(0) {
        return 0;
    }
    (0..FLUSH_LEVEL_MAX).take_while(|&level| may_pass(level)).last().map_or(0, |level| level + 1)
}

/// The table that gets have missed too often, into the next level.
pub(super) fn plan_missed(situation: &Situation<'_>) -> Option<Plan> {
    let (level, id) = situation.missed?;
    if usize::from(level) + 1 == LEVEL_COUNT {
        return None;
    }
    let mut tables = situation.version.levels[usize::from(level)].tables();
    let victim = Arc::clone(tables.find(|table| table.meta.id == id)?);
    let reason = Reason::Misses { level };
    let plan = leveled::plan_single(situation, level, victim, reason);
    plan.filter(|plan| situation.fits(plan))
}

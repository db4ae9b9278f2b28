//! Sets, as policies see them: the output tables of one compaction, by their group.
//!
//! Not here: where a set is stored (`placement::sets` in `files`), when outputs form one (`set_aware`),
//! how many members each has left (`version::set_counts`).

use crate::compaction::situation::Situation;
use crate::options::{CompactionKind, KeyspaceOptions};
use crate::version::TableSlot;

/// The highest level whose tables form sets.
pub(crate) const SET_LEVEL_MIN: u8 = 2;

/// Whether what one flush or merge writes to `level` is stored as a set.
pub(crate) fn is_set(options: &KeyspaceOptions, level: u8) -> bool {
    options.compaction == CompactionKind::SetAware && level >= SET_LEVEL_MIN
}

/// How many members of the table's set are dead and keep their space. None if the table is not stored
/// in a set: cleaning has moved it, or it was written to a level without sets.
pub(super) fn dead_count(situation: &Situation<'_>, table: &TableSlot) -> u32 {
    let meta = &table.meta;
    match situation.facts.is_in_set(table) {
        true => situation.version.set_counts.dead_count(meta.group, meta.group_table_count),
        false => 0,
    }
}

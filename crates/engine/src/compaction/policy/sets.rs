//! Sets, as policies see them: the output tables of one compaction, by their group.
//!
//! Not here: where a set is stored (`placement::sets` in `files`), when outputs form one (`set_aware`).

use crate::options::{CompactionKind, KeyspaceOptions};
use crate::version::Version;
use imbrex_files::GroupId;
use std::collections::BTreeMap;

/// The highest level whose tables form sets.
pub(super) const SET_LEVEL_MIN: u8 = 2;

/// Whether what one flush or merge writes to `level` is stored as a set.
pub(crate) fn is_set(options: &KeyspaceOptions, level: u8) -> bool {
    options.compaction == CompactionKind::SetAware && level >= SET_LEVEL_MIN
}

/// The number of dead members of each set that has any.
pub(super) fn dead_counts(version: &Version) -> BTreeMap<GroupId, u32> {
    let mut sets: BTreeMap<GroupId, u32> = BTreeMap::new();
    for table in version.tables() {
        let meta = &table.meta;
        let dead = sets.entry(meta.group).or_insert(meta.group_table_count);
        *dead = dead.saturating_sub(1);
    }
    sets.retain(|_, dead| *dead > 0);
    sets
}

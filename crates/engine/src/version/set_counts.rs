//! How many tables of each set a version still has.
//!
//! ```text
//!   set 7: 4 written   [a][b][c][d]    a compaction takes b and d:  2 left, 2 dead
//! ```
//!
//! A table says which flush or compaction wrote it (its group), and how many tables that wrote. The counts
//! change with each edit, so a planner that asks for dead members walks no tables.
//!
//! Invariant: the counts are those of the version's tables ([`SetCounts::check`]).

use imbrex_files::GroupId;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The number of living tables of each group that had several. Shared until it changes.
#[derive(Clone, Debug, Default)]
pub(crate) struct SetCounts {
    living: Arc<BTreeMap<GroupId, u32>>,
}

impl SetCounts {
    /// Counts the tables of a version, each by its group and by how many tables that had.
    fn of(tables: impl Iterator<Item = (GroupId, u32)>) -> SetCounts {
        let mut counts = SetCounts::default();
        tables.for_each(|(group, table_count)| counts.add(group, table_count));
        counts
    }

    /// A table of `group`, which had `table_count`, is in the version now.
    pub(super) fn add(&mut self, group: GroupId, table_count: u32) {
        if table_count > 1 {
            *Arc::make_mut(&mut self.living).entry(group).or_default() += 1;
        }
    }

    /// A table of `group` is not in the version any more.
    pub(super) fn remove(&mut self, group: GroupId, table_count: u32) {
        if table_count > 1 {
            let living = Arc::make_mut(&mut self.living);
            let count = living.get_mut(&group).expect("the table was counted when it was added");
            *count -= 1;
            if *count == 0 {
                living.remove(&group);
            }
        }
    }

    /// How many tables of `group`, of which the version has some, are in it no more.
    pub(crate) fn dead_count(&self, group: GroupId, table_count: u32) -> u32 {
        let living = self.living.get(&group).copied().unwrap_or(table_count);
        table_count.saturating_sub(living)
    }

    /// Returns the violation of the invariant, if there is one, as text.
    pub(super) fn check(&self, tables: impl Iterator<Item = (GroupId, u32)>) -> Result<(), String> {
        match SetCounts::of(tables).living == self.living {
            true => Ok(()),
            false => Err("the living members of sets are miscounted".to_owned()),
        }
    }
}

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

use super::TableMeta;
use imbrex_files::GroupId;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The number of living tables of each group that had several. Shared until it changes.
#[derive(Clone, Debug, Default)]
pub(crate) struct SetCounts {
    living: Arc<BTreeMap<GroupId, u32>>,
}

impl SetCounts {
    /// Counts the tables of a version.
    fn of<'a>(tables: impl Iterator<Item = &'a TableMeta>) -> SetCounts {
        let mut counts = SetCounts::default();
        tables.for_each(|meta| counts.add(meta));
        counts
    }

    pub(super) fn add(&mut self, meta: &TableMeta) {
        if meta.group_table_count > 1 {
            *Arc::make_mut(&mut self.living).entry(meta.group).or_default() += 1;
        }
    }

    pub(super) fn remove(&mut self, meta: &TableMeta) {
        if meta.group_table_count > 1 {
            let living = Arc::make_mut(&mut self.living);
            let count =
                living.get_mut(&meta.group).expect("the table was counted when it was added");
            *count -= 1;
            if *count == 0 {
                living.remove(&meta.group);
            }
        }
    }

    /// How many tables of the set of `meta`, a table of the version, are in it no more.
    pub(crate) fn dead_count(&self, meta: &TableMeta) -> u32 {
        let living = self.living.get(&meta.group).copied().unwrap_or(meta.group_table_count);
        meta.group_table_count.saturating_sub(living)
    }

    /// Returns the violation of the invariant, if there is one, as text.
    pub(super) fn check<'a>(
        &self,
        tables: impl Iterator<Item = &'a TableMeta>,
    ) -> Result<(), String> {
        match SetCounts::of(tables).living == self.living {
            true => Ok(()),
            false => Err("the living members of sets are miscounted".to_owned()),
        }
    }
}

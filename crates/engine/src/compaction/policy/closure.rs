//! Tables of a level of overlapping runs, chosen together with what must go along.

use crate::compaction::situation::Situation;
use crate::version::{Level, TableId, TableMeta, TableSlot};
use std::collections::BTreeSet;
use std::sync::Arc;

/// A table and the place of its run: the newest is 0.
pub(super) type Placed = (usize, Arc<TableSlot>);

/// Tables chosen from one level, closed under what must go along.
#[derive(Clone, Debug, Default)]
pub(super) struct TableClosure {
    pub(super) tables: Vec<Placed>,
    pub(super) ids: BTreeSet<TableId>,
}

impl TableClosure {
    /// Adds `table`, all tables of `level` that overlap it in the runs that `beyond` gives for a run,
    /// and so on.
    fn close(
        &mut self,
        level: &Level,
        table: Placed,
        beyond: impl Fn(usize) -> std::ops::Range<usize>,
    ) {
        let mut todo = vec![table];
        while let Some((run, table)) = todo.pop() {
            if !self.ids.insert(table.meta.id) {
                continue;
            }
            let range = table.meta.range();
            for other in beyond(run) {
                let tables = level.runs[other].overlapping(&range);
                todo.extend(tables.iter().map(|table| (other, Arc::clone(table))));
            }
            self.tables.push((run, table));
        }
    }

    /// With all newer tables that overlap it, and so on (B1 of SMRDB's compaction).
    pub(super) fn close_over_newer(&mut self, level: &Level, table: Placed) {
        self.close(level, table, |run| 0..run);
    }

    /// With all older tables that overlap it, and so on (P3).
    pub(super) fn close_over_older(&mut self, level: &Level, table: Placed) {
        self.close(level, table, |run| run + 1..level.runs.len());
    }

    pub(super) fn is_free(&self, situation: &Situation<'_>) -> bool {
        !self.tables.iter().any(|(_, table)| situation.busy.has_table(table))
    }

    /// Whether any of them lies on flash: they are written to the disk to go down.
    pub(super) fn is_on_flash(&self, situation: &Situation<'_>) -> bool {
        self.tables.iter().any(|(_, table)| situation.facts.is_on_flash(table))
    }

    pub(super) fn metas(&self) -> impl Iterator<Item = &TableMeta> {
        self.tables.iter().map(|(_, table)| &table.meta)
    }
}

pub(super) fn placed(level: &Level) -> impl Iterator<Item = Placed> + '_ {
    let runs = level.runs.iter().enumerate();
    runs.flat_map(|(run, tables)| tables.tables.iter().map(move |t| (run, Arc::clone(t))))
}

//! Tables of a level of overlapping runs, chosen together with every table that must accompany
//! them.

use crate::compaction::situation::Situation;
use crate::version::{Level, TableId, TableMeta, TableSlot};
use std::collections::BTreeSet;
use std::sync::Arc;

/// A table and the index of its run; the newest run is 0.
pub(super) type Placed = (usize, Arc<TableSlot>);

/// Tables chosen from one level, together with every table that must accompany them.
#[derive(Clone, Debug, Default)]
pub(super) struct TableClosure {
    pub(super) tables: Vec<Placed>,
    pub(super) ids: BTreeSet<TableId>,
}

impl TableClosure {
    /// Adds `table`, then the tables of `level` that overlap it in the runs `beyond(run)`, and so
    /// on transitively.
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

    /// Adds `table` with all newer tables that overlap it, transitively (B1 of `smrdb`).
    pub(super) fn close_over_newer(&mut self, level: &Level, table: Placed) {
        self.close(level, table, |run| 0..run);
    }

    /// Adds `table` with all older tables that overlap it, transitively (P3).
    pub(super) fn close_over_older(&mut self, level: &Level, table: Placed) {
        self.close(level, table, |run| run + 1..level.runs.len());
    }

    pub(super) fn is_free(&self, situation: &Situation<'_>) -> bool {
        !self.tables.iter().any(|(_, table)| situation.busy.has_table(table))
    }

    /// Whether any of the tables is stored on flash. Such a table must be written to the main drive
    /// to go down.
    pub(super) fn is_on_flash(&self) -> bool {
        self.tables.iter().any(|(_, table)| table.is_on_flash())
    }

    pub(super) fn metas(&self) -> impl Iterator<Item = &TableMeta> {
        self.tables.iter().map(|(_, table)| &table.meta)
    }
}

pub(super) fn placed(level: &Level) -> impl Iterator<Item = Placed> + '_ {
    let runs = level.runs.iter().enumerate();
    runs.flat_map(|(run, tables)| tables.tables.iter().map(move |t| (run, Arc::clone(t))))
}

//! The inputs of a keyspace's cursor: one cursor for each sorted run, and all range tombstones.

use crate::EngineError;
use crate::iter::InternalIter;
use crate::key::Seq;
use crate::read::covers::TombstoneView;
use crate::read::run::RunOfView;
use crate::store::view::SuperVersion;
use crate::table::cache::BlockCache;
use crate::table::{LevelIter, TableReadOptions};
use crate::version::TableSlot;
use std::sync::Arc;

/// The cursors and range tombstones to merge.
type Sources = (Vec<Box<dyn InternalIter>>, Vec<TombstoneView>);

/// Parts of read-ahead below this length would cost more seeks than they save memory.
const READ_AHEAD_LEN_BYTES_MIN: usize = 64 << 10;

/// What each run has of the read-ahead of all: the part of its length's square root in the sum of them.
/// With runs of lengths l and parts r, a scan of everything seeks sum(l / r) times, which is least then.
#[derive(Clone, Copy, Debug)]
struct Shares {
    total_bytes: usize,
    sum: f64,
}

impl Shares {
    fn of(view: &SuperVersion, total_bytes: usize) -> Shares {
        let mut sum = 0.0;
        for runs in &view.version.levels {
            match runs.cover() {
                Some(cover) => sum += cover.lanes().iter().map(|lane| weight(lane)).sum::<f64>(),
                None => sum += runs.runs.iter().map(|run| weight(&run.tables)).sum::<f64>(),
            }
        }
        Shares { total_bytes, sum }
    }

    /// `read` for a run of these tables.
    fn apply(self, read: &TableReadOptions, tables: &[Arc<TableSlot>]) -> TableReadOptions {
        let share = (weight(tables) / self.sum.max(1.0)).min(1.0);
        let part_bytes = (self.total_bytes as f64 * share) as usize;
        let limit_bytes = part_bytes.max(READ_AHEAD_LEN_BYTES_MIN.min(self.total_bytes));
        TableReadOptions {
            read_ahead_bytes: read.read_ahead_bytes.min(limit_bytes),
            ..read.clone()
        }
    }
}

/// The square root of about how long a run of these tables is. A cursor must not add up the lengths of
/// all tables of a drive, and those of one run are about equal.
fn weight(tables: &[Arc<TableSlot>]) -> f64 {
    let middle = tables.get(tables.len() / 2).map_or(0, |slot| slot.meta.len_bytes);
    (tables.len() as f64 * middle as f64).sqrt()
}

/// The sources of `view` for a reader at `snapshot`: memtables from the newest to the oldest, then
/// the levels from the top. They read ahead `read_ahead_bytes` at most, all together.
///
/// # Errors
/// [`EngineError::Corrupt`], [`EngineError::Files`].
pub(crate) fn sources(
    view: &SuperVersion,
    snapshot: Seq,
    cache: &Arc<BlockCache>,
    read: &TableReadOptions,
    read_ahead_bytes: usize,
) -> Result<Sources, EngineError> {
    let mut entries: Vec<Box<dyn InternalIter>> = Vec::new();
    let mut tombstones = Vec::new();
    for slot in [&view.active].into_iter().chain(&view.immutables) {
        if slot.mem.entry_count() > 0 {
            entries.push(Box::new(slot.mem.iter()));
        }
        let views = slot.mem.tombstone_views(snapshot);
        tombstones.extend(views.into_iter().map(TombstoneView::Memtable));
    }
    let lanes = view.version.tombstone_lanes(cache)?;
    tombstones.extend(lanes.iter().cloned().map(TombstoneView::Tables));
    let shares = Shares::of(view, read_ahead_bytes);
    for (level, runs) in view.version.levels.iter().enumerate() {
        let run_count = runs.cover().map_or(runs.runs.len(), |cover| cover.lanes().len());
        for run_at in 0..run_count {
            let tables = match runs.cover() {
                Some(cover) => &cover.lanes()[run_at],
                None => &runs.runs[run_at].tables,
            };
            let read = shares.apply(read, tables);
            match &tables[..] {
                [slot] => {
                    let iter = slot.open(cache)?.iter(read);
                    entries.push(Box::new(iter.starting_at_front(slot.meta.front())));
                }
                _ => {
                    let run = RunOfView {
                        version: Arc::clone(&view.version),
                        level,
                        run: run_at,
                        cache: Arc::clone(cache),
                    };
                    entries.push(Box::new(LevelIter::new(run, read)));
                }
            }
        }
    }
    Ok((entries, tombstones))
}

//! The inputs of a keyspace's cursor: one cursor for each sorted run, and all range tombstones.

use crate::EngineError;
use crate::iter::{InternalIter, IterBounds};
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

/// The least part of a first read, if there are such reads.
const FIRST_READ_LEN_BYTES_MIN: usize = 16 << 10;

/// How far a cursor reads ahead in all runs together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadAheadTotals {
    /// At most, and in memory.
    pub(crate) most_bytes: usize,
    /// After a seek.
    pub(crate) first_bytes: usize,
}

/// What each run has of the read-ahead of all.
///
/// Of the most it has the part of its length's square root in the sum of them: with runs of lengths l and
/// parts r, a scan of everything seeks sum(l / r) times, which is least then. Of the first read it has the
/// part of its length, because a short scan finds its entries in that proportion.
#[derive(Clone, Copy, Debug)]
struct Shares {
    totals: ReadAheadTotals,
    len_sum: f64,
    root_sum: f64,
}

impl Shares {
    fn of(view: &SuperVersion, totals: ReadAheadTotals) -> Shares {
        let mut shares = Shares { totals, len_sum: 0.0, root_sum: 0.0 };
        for runs in &view.version.levels {
            match runs.cover() {
                Some(cover) => cover.lanes().iter().for_each(|lane| shares.count(lane)),
                None => runs.runs.iter().for_each(|run| shares.count(&run.tables)),
            }
        }
        shares
    }

    fn count(&mut self, tables: &[Arc<TableSlot>]) {
        let len = len_of(tables);
        self.len_sum += len;
        self.root_sum += len.sqrt();
    }

    /// `read` for a run of these tables.
    fn apply(self, read: &TableReadOptions, tables: &[Arc<TableSlot>]) -> TableReadOptions {
        let len = len_of(tables);
        let part = |total_bytes: usize, of: f64, sum: f64| {
            (total_bytes as f64 * (of / sum.max(1.0)).min(1.0)) as usize
        };
        let ReadAheadTotals { most_bytes, first_bytes } = self.totals;
        let most = part(most_bytes, len.sqrt(), self.root_sum);
        let most = most.max(READ_AHEAD_LEN_BYTES_MIN.min(most_bytes)).min(read.read_ahead_bytes);
        let first = part(first_bytes, len, self.len_sum);
        let first = first.max(FIRST_READ_LEN_BYTES_MIN.min(first_bytes)).min(most);
        TableReadOptions {
            read_ahead_bytes: most,
            read_ahead_bytes_min: read.read_ahead_bytes_min.max(first),
            ..read.clone()
        }
    }
}

/// About how long a run of these tables is. A cursor must not add up the lengths of all tables of a drive,
/// and those of one run are about equal.
fn len_of(tables: &[Arc<TableSlot>]) -> f64 {
    let middle = tables.get(tables.len() / 2).map_or(0, |slot| slot.meta.len_bytes);
    tables.len() as f64 * middle as f64
}

/// Whether one of these sorted tables may have a key within `bounds`.
fn may_have_key(tables: &[Arc<TableSlot>], bounds: &IterBounds) -> bool {
    let at = match &bounds.lower {
        Some(lower) => tables.partition_point(|slot| slot.meta.ends_before(lower)),
        None => 0,
    };
    tables.get(at).is_some_and(|slot| bounds.overlap(&slot.meta.smallest, &slot.meta.largest))
}

/// The sources of `view` for a reader at `snapshot` that stays within `bounds`: memtables from the
/// newest to the oldest, then the levels from the top. A run without a table within `bounds` is left
/// out. The others read ahead as far as `totals` says.
///
/// # Errors
/// [`EngineError::Corrupt`], [`EngineError::Files`].
pub(crate) fn sources(
    view: &SuperVersion,
    snapshot: Seq,
    cache: &Arc<BlockCache>,
    read: &TableReadOptions,
    totals: ReadAheadTotals,
    bounds: &IterBounds,
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
    let shares = Shares::of(view, totals);
    for (level, runs) in view.version.levels.iter().enumerate() {
        let run_count = runs.cover().map_or(runs.runs.len(), |cover| cover.lanes().len());
        for run_at in 0..run_count {
            let tables = match runs.cover() {
                Some(cover) => &cover.lanes()[run_at],
                None => &runs.runs[run_at].tables,
            };
            if !may_have_key(tables, bounds) {
                continue;
            }
            let run = RunOfView {
                version: Arc::clone(&view.version),
                level,
                run: run_at,
                cache: Arc::clone(cache),
            };
            let iter = LevelIter::new(run, shares.apply(read, tables));
            entries.push(Box::new(iter.within(bounds)));
        }
    }
    Ok((entries, tombstones))
}

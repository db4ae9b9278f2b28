//! The inputs of a keyspace's cursor: one cursor for each sorted run, and all range tombstones.

use crate::EngineError;
use crate::iter::InternalIter;
use crate::key::Seq;
use crate::read::covers::TombstoneView;
use crate::read::run::RunOfView;
use crate::store::view::SuperVersion;
use crate::table::cache::BlockCache;
use crate::table::{LevelIter, TableReadOptions};
use std::sync::Arc;

/// The cursors and range tombstones to merge.
type Sources = (Vec<Box<dyn InternalIter>>, Vec<TombstoneView>);

/// The sources of `view` for a reader at `snapshot`: memtables from the newest to the oldest, then
/// the levels from the top.
///
/// # Errors
/// [`EngineError::Corrupt`], [`EngineError::Files`].
pub(crate) fn sources(
    view: &SuperVersion,
    snapshot: Seq,
    cache: &Arc<BlockCache>,
    read: &TableReadOptions,
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
    for (level, runs) in view.version.levels.iter().enumerate() {
        let run_count = runs.cover().map_or(runs.runs.len(), |cover| cover.lanes().len());
        for run_at in 0..run_count {
            let tables = match runs.cover() {
                Some(cover) => &cover.lanes()[run_at],
                None => &runs.runs[run_at].tables,
            };
            match &tables[..] {
                [slot] => {
                    let iter = slot.open(cache)?.iter(read.clone());
                    entries.push(Box::new(iter.starting_at_front(slot.meta.front())));
                }
                _ => {
                    let run = RunOfView {
                        version: Arc::clone(&view.version),
                        level,
                        run: run_at,
                        cache: Arc::clone(cache),
                    };
                    entries.push(Box::new(LevelIter::new(run, read.clone())));
                }
            }
        }
    }
    Ok((entries, tombstones))
}

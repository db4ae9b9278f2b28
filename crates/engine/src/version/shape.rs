//! What each partition of a version consists of, for people: one pass over all tables.
//!
//! A table belongs to the partition where it begins. What of it is dead, only a merge finds out. The keys
//! of a run are distinct, so at least the longest run of a partition is live, apart from what deletes
//! hide. A table with a front counts whole, because the file's space comes back whole.
//!
//! Not here: what the policy makes of it (`compaction::policy::lazy`).

use super::Version;
use super::partitions::BASE_LEVEL;
use crate::metrics::{BaseMergeMetrics, LevelMetrics, PartitionShape};

/// What is counted of a partition besides its shape.
#[derive(Clone, Debug, Default)]
struct Counted {
    /// The level and run of the last table, and the length of that run so far.
    run: Option<(u8, super::RunId)>,
    run_len_bytes: u64,
    longest_run_len_bytes: u64,
    delete_count: u64,
    has_range_deletes: bool,
}

/// The partitions of `version`, in key order.
pub(crate) fn partition_shapes(version: &Version) -> Vec<PartitionShape> {
    let partitions = &version.partitions;
    let empty = |at| PartitionShape {
        start: partitions.start(at).to_vec(),
        end: partitions.end(at).map(|end| end.to_vec()),
        ..PartitionShape::default()
    };
    let mut shapes: Vec<_> = (0..partitions.count()).map(empty).collect();
    let mut counts = vec![Counted::default(); shapes.len()];
    for (level, run, slot) in version.places() {
        let at = partitions.find(&slot.meta.smallest);
        let (shape, counted) = (&mut shapes[at], &mut counts[at]);
        let is_new_run = counted.run != Some((level, run));
        if is_new_run {
            (counted.run, counted.run_len_bytes) = (Some((level, run)), 0);
        }
        let meta = &slot.meta;
        counted.run_len_bytes += meta.len_bytes;
        counted.longest_run_len_bytes = counted.longest_run_len_bytes.max(counted.run_len_bytes);
        counted.delete_count += meta.delete_count;
        counted.has_range_deletes |= meta.range_tombstone_count > 0;
        shape.front_count += usize::from(meta.has_front);
        shape.flash_len_bytes += if slot.is_on_flash() { meta.len_bytes } else { 0 };
        let counts = if level == BASE_LEVEL {
            &mut shape.base
        } else {
            match shape.upper_levels.last() {
                Some(last) if last.level == level => {}
                _ => shape.upper_levels.push(LevelMetrics { level, ..LevelMetrics::default() }),
            }
            shape.upper_levels.last_mut().expect("one was pushed")
        };
        counts.level = level;
        counts.run_count += usize::from(is_new_run);
        counts.table_count += 1;
        counts.len_bytes += meta.len_bytes;
        counts.entry_count += meta.entry_count;
    }
    for (shape, counted) in shapes.iter_mut().zip(&counts) {
        shape.dead_len_bytes_max = dead_len_bytes_max(shape, counted);
    }
    shapes
}

/// The most that may be dead: all but the longest run, and what deletes hide of that. How much a range
/// delete hides is not known.
fn dead_len_bytes_max(shape: &PartitionShape, counted: &Counted) -> u64 {
    let levels = shape.upper_levels.iter().chain([&shape.base]);
    let entry_count: u64 = levels.map(|level| level.entry_count).sum();
    let len_bytes = shape.len_bytes();
    let entry_len_bytes = len_bytes / entry_count.max(1);
    let hidden_bytes = match counted.has_range_deletes {
        true => u64::MAX,
        false => counted.delete_count.saturating_mul(entry_len_bytes),
    };
    let others_bytes = len_bytes - counted.longest_run_len_bytes;
    others_bytes.saturating_add(hidden_bytes).min(len_bytes)
}

/// How far the base merge under way is, without what it waits for.
pub(crate) fn base_merge(version: &Version) -> Option<BaseMergeMetrics> {
    let merge = version.partitions.merge.as_ref()?;
    let base = version.levels[usize::from(BASE_LEVEL)].tables().map(|slot| &slot.meta);
    let is_inside = |key: &[u8]| merge.end.as_ref().is_none_or(|end| key < &end[..]);
    let (mut base_done_len_bytes, mut base_len_bytes) = (0, 0);
    for meta in base.filter(|m| !m.ends_before(&merge.start) && is_inside(&m.smallest)) {
        base_len_bytes += meta.len_bytes;
        let is_done = meta.ends_before(&merge.next);
        base_done_len_bytes += if is_done { meta.len_bytes } else { 0 };
    }
    Some(BaseMergeMetrics {
        start: merge.start.to_vec(),
        end: merge.end.as_ref().map(|end| end.to_vec()),
        next_key: merge.next.to_vec(),
        left_len_bytes: merge.left(version).map(|(_, _, slot)| slot.meta.len_bytes).sum(),
        base_done_len_bytes,
        base_len_bytes,
        wait: None,
    })
}

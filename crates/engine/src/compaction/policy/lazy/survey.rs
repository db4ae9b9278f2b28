//! What the partitions of a version consist of, for the lazy policy: one pass over all tables.
//!
//! Not here: what follows from it (`lazy`).

use crate::compaction::situation::Situation;
use crate::options::KeyspaceOptions;
use crate::version::partitions::{BASE_LEVEL, BaseMerge};
use crate::version::{RunId, Version};

/// The number of upper levels.
pub(super) const UPPER_COUNT: usize = BASE_LEVEL as usize;

/// What one partition consists of. A table belongs to the partition where it begins.
#[derive(Clone, Debug, Default)]
pub(super) struct Shape {
    /// Above the base, on the disk and on flash.
    pub(super) upper_len_bytes: u64,
    /// The part of it that is on flash, and in how many runs.
    pub(super) flash_len_bytes: u64,
    pub(super) slice_count: usize,
    pub(super) base_len_bytes: u64,
    base_entry_count: u64,
    /// Deletes in the upper levels, and whether there are range deletes.
    delete_count: u64,
    has_range_deletes: bool,
    /// The number of runs in each upper level that have tables on the disk.
    pub(super) run_counts: [usize; UPPER_COUNT],
    /// The compaction that last wrote to its base, as a number that grows with time; 0 without a base.
    merged_at: u64,
}

impl Shape {
    /// Whether the upper levels have so much that merging is cheap, whether or not space is needed.
    pub(super) fn is_heavy(&self, options: &KeyspaceOptions) -> bool {
        let least = options.base_level_len_bytes / 2;
        self.upper_len_bytes >= least.max(2 * self.base_len_bytes)
    }

    /// Whether a level has so many runs that reads suffer.
    pub(super) fn is_deep(&self, options: &KeyspaceOptions) -> bool {
        let count_max = 2 * options.l0_compact_run_count as usize;
        let is_last_full =
            self.run_counts[UPPER_COUNT - 1] >= options.l0_compact_run_count as usize;
        is_last_full || self.run_counts.iter().any(|&count| count >= count_max)
    }

    pub(super) fn len_bytes(&self) -> u64 {
        self.upper_len_bytes + self.base_len_bytes
    }

    /// Above the base, on the disk. That is what a base merge gives back, and what scans suffer from (Z9).
    pub(super) fn disk_len_bytes(&self) -> u64 {
        self.upper_len_bytes - self.flash_len_bytes
    }

    /// The most that a base merge may give back. How much a range delete covers is not known.
    pub(super) fn gain_bytes(&self) -> u64 {
        let entry_len_bytes = self.base_len_bytes / self.base_entry_count.max(1);
        let deleted_bytes = if self.has_range_deletes {
            self.base_len_bytes
        } else {
            self.delete_count.saturating_mul(entry_len_bytes).min(self.base_len_bytes)
        };
        self.disk_len_bytes() + deleted_bytes
    }

    /// How much the base merge of this partition is worth: the share of garbage in what it writes,
    /// times the time since the last one.
    pub(super) fn score(&self, now: u64) -> u128 {
        let gain_bytes = self.gain_bytes();
        let share = u128::from(gain_bytes) * 1024
            / u128::from((gain_bytes + 2 * self.base_len_bytes).max(1));
        share * u128::from(now.saturating_sub(self.merged_at) + 1)
    }
}

/// The partitions of a version.
#[derive(Debug)]
pub(super) struct Survey {
    pub(super) shapes: Vec<Shape>,
    /// The newest run above the base.
    pub(super) newest: RunId,
}

impl Survey {
    pub(super) fn of(version: &Version) -> Survey {
        let partitions = &version.partitions;
        let mut survey =
            Survey { shapes: vec![Shape::default(); partitions.count()], newest: RunId(0) };
        let mut counted = vec![[(BASE_LEVEL, RunId(0)); 2]; partitions.count()];
        for (level, run, slot) in version.places() {
            let at = partitions.find(&slot.meta.smallest);
            let shape = &mut survey.shapes[at];
            if level == BASE_LEVEL {
                shape.base_len_bytes += slot.meta.len_bytes;
                shape.base_entry_count += slot.meta.entry_count;
                shape.merged_at = shape.merged_at.max(slot.meta.group.0);
                continue;
            }
            shape.upper_len_bytes += slot.meta.len_bytes;
            shape.delete_count += slot.meta.delete_count;
            shape.has_range_deletes |= slot.meta.range_tombstone_count > 0;
            survey.newest = survey.newest.max(run);
            let is_on_flash = slot.is_on_flash();
            shape.flash_len_bytes += if is_on_flash { slot.meta.len_bytes } else { 0 };
            let last = &mut counted[at][usize::from(is_on_flash)];
            if std::mem::replace(last, (level, run)) != (level, run) {
                let run_count = &mut shape.run_counts[usize::from(level)];
                *(if is_on_flash { &mut shape.slice_count } else { run_count }) += 1;
            }
        }
        survey
    }

    /// The partitions of `merge`.
    pub(super) fn of_merge(&self, situation: &Situation<'_>, merge: &BaseMerge) -> &[Shape] {
        let partitions = &situation.version.partitions;
        let last = merge.end.as_ref().map_or(partitions.count(), |end| partitions.find(end));
        &self.shapes[partitions.find(&merge.start)..last.max(1)]
    }

    /// The base merge under way, unless nothing of it is left.
    pub(super) fn merge_under_way<'a>(&self, situation: &Situation<'a>) -> Option<&'a BaseMerge> {
        let version: &'a Version = situation.version;
        let merge = version.partitions.merge.as_ref()?;
        merge.left(version).next().map(|_| merge)
    }
}

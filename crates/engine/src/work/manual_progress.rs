//! Progress of a manual compaction on its way down the levels.
//!
//! ```text
//!   level 0   a            read: a + b          the data in the range goes down level by level; each
//!   level 1   b            then: a + b + c      level it passes joins it. The estimate is an upper
//!   level 2   c                                 bound, recomputed at each level.
//! ```

use crate::EngineError;
use crate::compaction::plan::Plan;
use crate::compaction::situation::ManualRange;
use crate::version::{LEVEL_COUNT, Version};
use crate::watch::{Progress, Watch, ask};

/// The progress of a manual compaction, and the watch that it reports to.
pub(crate) struct ManualProgress<'a, 'w> {
    watch: &'a mut Watch<'w>,
    progress: Progress,
}

impl<'a, 'w> ManualProgress<'a, 'w> {
    pub(crate) fn new(watch: &'a mut Watch<'w>) -> ManualProgress<'a, 'w> {
        ManualProgress { watch, progress: Progress::default() }
    }

    /// Notes that `level` and the levels below it are still to do.
    pub(crate) fn enter_level(&mut self, version: &Version, range: &ManualRange, level: u8) {
        let left_bytes = left_bytes(version, range, usize::from(level));
        self.progress.total_bytes = self.progress.done_bytes + left_bytes;
    }

    /// Reports that `plan` has merged `entry_count` of its entries.
    ///
    /// # Errors
    /// [`EngineError::Stopped`].
    pub(crate) fn within(&mut self, plan: &Plan, entry_count: u64) -> Result<(), EngineError> {
        let done_bytes = self.progress.done_bytes + plan.share_len_bytes(entry_count);
        self.ask(done_bytes)
    }

    /// Notes that `plan` is done.
    pub(crate) fn passed(&mut self, plan: &Plan) {
        self.progress.done_bytes += plan.len_bytes();
    }

    /// # Errors
    /// [`EngineError::Stopped`].
    pub(crate) fn waiting(&mut self) -> Result<(), EngineError> {
        self.ask(self.progress.done_bytes)
    }

    fn ask(&mut self, done_bytes: u64) -> Result<(), EngineError> {
        let total_bytes = self.progress.total_bytes.max(done_bytes);
        ask(self.watch, "compaction", Progress { done_bytes, total_bytes })
    }
}

/// How many bytes the compaction reads on its way from `level` to the last level with data.
fn left_bytes(version: &Version, range: &ManualRange, level: usize) -> u64 {
    let len_bytes: [u64; LEVEL_COUNT] = std::array::from_fn(|at| {
        let tables = version.levels[at].tables().filter(|table| range.overlaps(table));
        tables.map(|table| table.meta.len_bytes).sum()
    });
    let last = len_bytes.iter().rposition(|&len| len > 0).unwrap_or(0).max(1);
    let (mut carried_bytes, mut left_bytes) = (0, 0);
    for here_bytes in &len_bytes[level..=last.max(level)] {
        if carried_bytes > 0 {
            left_bytes += carried_bytes + here_bytes;
        }
        carried_bytes += here_bytes;
    }
    left_bytes
}

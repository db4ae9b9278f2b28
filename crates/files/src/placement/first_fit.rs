//! First fit by address: each file goes to the first free run that holds it, as ext4 roughly does.
//!
//! ```text
//!   | held |  free  | held |    free    | held |   free ...
//!             ^ a small file   ^ a larger one
//! ```
//!
//! A file that no single run holds is split over runs, in order of address. Nothing is ever moved.
//! Source: the baseline under LevelDB in the SEALDB paper (figure 2: tables scatter).

use super::{FileRequest, Placement, Urgency, admit};
use crate::api::Hints;
use crate::extent::{Extent, fill};
use crate::space::{FreeRuns, Lane, NoSpace, SpaceMap};
use imbrex_disk::{BlockRange, Blocks, Geometry, Rule};

pub(super) const NAME: &str = "first-fit";

/// The first piece of a log of unknown length: 1 MiB.
const LOG_PIECE_BLOCKS_MIN: u64 = 256;
/// The longest piece of a log: 64 MiB, so that no more than that is held idle.
const LOG_PIECE_BLOCKS_MAX: u64 = 16_384;

#[derive(Debug)]
pub(super) struct FirstFit;

impl Placement for FirstFit {
    fn name(&self) -> &'static str {
        NAME
    }

    fn suits(&self, geometry: &Geometry) -> Result<(), String> {
        match geometry.rule() {
            Rule::Anywhere => Ok(()),
            other => Err(format!(
                "the drive is {}, and first fit overwrites in place; use a conventional drive",
                other.name()
            )),
        }
    }

    fn lane(&self, _file: &FileRequest) -> Lane {
        Lane::Fresh(0)
    }

    fn plan(&self, space: &SpaceMap, files: &[FileRequest]) -> Result<Vec<Vec<Extent>>, NoSpace> {
        admit(space, files)?;
        let mut runs = space.runs().clone();
        files
            .iter()
            .map(|file| {
                let ranges = place(&mut runs, file.blocks())
                    .ok_or(NoSpace { needed: file.blocks(), free: runs.len() })?;
                Ok(fill(&ranges, file.len_bytes))
            })
            .collect()
    }

    fn plan_log(
        &self,
        space: &SpaceMap,
        hints: &Hints,
        owned: Blocks,
    ) -> Result<BlockRange, NoSpace> {
        let request = FileRequest { len_bytes: 1, hints: *hints, is_moved: false };
        let expected = Blocks::holding(hints.expected_len_bytes.unwrap_or(0)).saturating_sub(owned);
        // Doubling keeps the number of pieces, and so of catalog records, logarithmic.
        let wanted =
            expected.get().max(owned.get()).clamp(LOG_PIECE_BLOCKS_MIN, LOG_PIECE_BLOCKS_MAX);
        let mut len = Blocks::new(wanted.min(space.free_for(request.claim()).get() / 4).max(1));
        space.admit(len, request.claim())?;
        loop {
            if let Some(run) = space.runs().iter().find(|run| len <= run.len) {
                return Ok(BlockRange::new(run.start, len));
            }
            if len.get() == 1 {
                return Err(NoSpace { needed: len, free: space.free_for(request.claim()) });
            }
            len = Blocks::new(len.get() / 2);
        }
    }

    fn plan_reclaim(&self, _space: &SpaceMap, _urgency: Urgency) -> Option<BlockRange> {
        None
    }
}

fn place(runs: &mut FreeRuns, blocks: Blocks) -> Option<Vec<BlockRange>> {
    if blocks.is_zero() {
        return Some(Vec::new());
    }
    let whole = runs.iter().find(|run| blocks <= run.len);
    if let Some(run) = whole {
        let range = BlockRange::new(run.start, blocks);
        runs.take(range);
        return Some(vec![range]);
    }
    let mut left = blocks;
    let mut ranges = Vec::new();
    while !left.is_zero() {
        let run = runs.iter().next()?;
        let range = BlockRange::new(run.start, run.len.min(left));
        runs.take(range);
        left -= range.len;
        ranges.push(range);
    }
    Some(ranges)
}

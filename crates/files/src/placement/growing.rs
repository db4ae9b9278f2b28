//! Room for logs on a disk without zones: pieces that double in length, so that there are few.

use super::policy::FileRequest;
use crate::hints::{Hints, Tier};
use crate::space::{Claim, Fit, NoSpace, SpaceMap};
use imbrex_disk::{BlockRange, Blocks};

/// The first piece of a log of unknown length: 1 MiB.
const PIECE_BLOCKS_MIN: u64 = 256;
/// The longest piece of a log: 64 MiB, so that no more than that is idle.
const PIECE_BLOCKS_MAX: u64 = 16_384;

/// Chooses the next piece for a log that owns `owned` blocks.
pub(super) fn plan_log(
    space: &SpaceMap,
    hints: &Hints,
    owned: Blocks,
    fit: Fit,
) -> Result<BlockRange, NoSpace> {
    let claim = FileRequest { len_bytes: 1, hints: *hints, is_moved: false }.claim();
    plan_log_as(claim, space, hints, owned, fit)
}

/// The same for a given claim.
pub(super) fn plan_log_as(
    claim: Claim,
    space: &SpaceMap,
    hints: &Hints,
    owned: Blocks,
    fit: Fit,
) -> Result<BlockRange, NoSpace> {
    let expected = Blocks::holding(hints.expected_len_bytes.unwrap_or(0)).saturating_sub(owned);
    let wanted = match hints.tier {
        // Other logs were promised their room, so this one takes only what it is expected to need.
        Tier::Fast if !expected.is_zero() => expected.get().min(PIECE_BLOCKS_MAX),
        // Doubling keeps the number of pieces, and so of catalog records, logarithmic.
        _ => expected.get().max(owned.get()).clamp(PIECE_BLOCKS_MIN, PIECE_BLOCKS_MAX),
    };
    let mut len = Blocks::new(wanted.min(space.free_for(claim).get() / 4).max(1));
    space.admit(len, claim)?;
    loop {
        let mut needed = len;
        if let Some(run) = space.runs().find(len, fit, &Default::default()) {
            let run = BlockRange::new(run.start, len);
            needed = space.cost_of_log(run);
            if space.admit(needed, claim).is_ok() {
                return Ok(run);
            }
        }
        if len.get() == 1 {
            return Err(NoSpace { needed, free: space.free_for(claim) });
        }
        len = Blocks::new(len.get() / 2);
    }
}

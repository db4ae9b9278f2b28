//! Decides how a write to one band is done; performs nothing.

use super::layout::BandLayout;
use super::options::{ReadBack, Staging};
use super::runs::Runs;
use imbrex_disk::BlockRange;

/// How one write within one band is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Plan {
    /// It destroys nothing that is valid.
    Direct,
    /// The valid blocks after it are written again together with it.
    Rewrite,
}

/// Plans `write`, in a band whose valid blocks are `valid`.
///
/// On its first track, a write may overwrite valid blocks in place: after a power cut, each of them
/// is the old or the new one. On a later track the write itself destroys them first, so a torn
/// write would lose both.
pub(crate) fn plan_write(layout: &BandLayout, valid: &Runs, write: BlockRange) -> Plan {
    let destroys = valid.touches(layout.reach(write));
    let tears =
        layout.superblock.staging == Staging::Journaled && valid.touches(layout.own_reach(write));
    if !destroys && !tears {
        return Plan::Direct;
    }
    Plan::Rewrite
}

/// Plans a rewrite of the band for the writes `own`, which are in order and do not touch. Returns
/// the valid runs to read, without `own`, and the runs to write: both together, in order.
pub(crate) fn plan_rewrite(
    layout: &BandLayout,
    valid: &Runs,
    own: &[BlockRange],
) -> (Vec<BlockRange>, Vec<BlockRange>) {
    let band = layout.band_of(own[0].start);
    let start = match layout.superblock.read_back {
        ReadBack::ToEndOfValid => own[0].start,
        ReadBack::WholeBand => band.start,
    };
    let mut image = Runs::default();
    image.insert(BlockRange::new(start, band.end() - start));
    own.iter().for_each(|&range| image.remove(range));
    let read: Vec<BlockRange> = image.iter().flat_map(|gap| valid.within(gap)).collect();
    let mut image = Runs::default();
    read.iter().chain(own).for_each(|&run| image.insert(run));
    (read, image.iter().collect())
}

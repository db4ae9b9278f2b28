//! Decides how a write to one band is done; does nothing.

use super::layout::BandLayout;
use super::options::{ReadBack, Staging};
use super::runs::Runs;
use imbrex_disk::BlockRange;

/// How one write, within one band, is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Plan {
    /// It destroys nothing that is valid.
    Direct,
    /// What is valid behind it is written again with it.
    Rewrite,
}

/// Plans `write` in a band of which `valid` is valid.
///
/// A write may overwrite valid blocks in place on its first track: each of them is the old or the
/// new one if the power goes. On a later track the write itself destroys them first, so that a torn
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

/// What of a band must be read before `own`, in order and apart from each other, are written to it, none of which is
/// among them; and what is then written, in order: all of both.
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

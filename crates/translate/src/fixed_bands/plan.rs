//! Decides how a write to one band is done; does nothing.

use super::layout::Layout;
use super::runs::Runs;
use super::{ReadBack, Staging};
use imbrex_disk::BlockRange;

/// How one write, within one band, is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Plan {
    /// It destroys nothing that is valid.
    Direct,
    /// These runs of the band, the write's own blocks among them, are written in order.
    Rewrite {
        /// What is valid and must be read first; none of it lies in the write.
        read: Vec<BlockRange>,
        /// What is written: all of `read` and the write.
        pieces: Vec<BlockRange>,
    },
}

/// Plans `write` in a band of which `valid` is valid.
///
/// A write may overwrite valid blocks in place on its first track: each of them is the old or the
/// new one if the power goes. On a later track the write itself destroys them first, so that a torn
/// write would lose both.
pub(crate) fn plan_write(layout: &Layout, valid: &Runs, write: BlockRange) -> Plan {
    let destroys = valid.touches(layout.reach(write));
    let tears =
        layout.superblock.staging == Staging::Journaled && valid.touches(layout.own_reach(write));
    if !destroys && !tears {
        return Plan::Direct;
    }
    let band = layout.band_of(write.start);
    let start = match layout.superblock.read_back {
        ReadBack::ToEndOfValid => write.start,
        ReadBack::WholeBand => band.start,
    };
    let mut read: Vec<BlockRange> =
        valid.within(BlockRange::new(start, write.start - start)).collect();
    read.extend(valid.within(BlockRange::new(write.end(), band.end() - write.end())));
    let mut image = Runs::default();
    read.iter().for_each(|&run| image.insert(run));
    image.insert(write);
    Plan::Rewrite { read, pieces: image.iter().collect() }
}

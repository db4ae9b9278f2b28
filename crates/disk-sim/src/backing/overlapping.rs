//! Overlapping tracks: a backing on which a write destroys data on the tracks that overlap its own.
//!
//! ```text
//!     write:  1. mark what is lost   2. store the blocks   3. mark the blocks valid   4. drop the lost
//!                                  ^ killed here: the lost data is lost, the write did not happen
//!                                                       ^ killed here: destroyed blocks stay so
//! ```
//!
//! This layer lies below the write cache. Destruction therefore happens when a write reaches the
//! platter, and a torn write destroys only what its surviving blocks reach.
//!
//! Invariants
//!   P1  Blocks that a write destroys are marked before the first of its own blocks is stored: the
//!       platter never shows destroyed data as valid.
//!   P2  Blocks are marked valid only after they are stored: a marked block can be read.
//!   P3  A block without a mark reads as zeros, whatever the backing holds there.

use super::image_info::ImageInfo;
use super::{Backing, Durable};
use crate::rule::{Mark, TrackTable, Tracks};
use imbrex_disk::{BLOCK_LEN_BYTES, BlockRange, Blocks, DiskError, Lba, ZoneId, ZoneRecord};
use std::sync::Arc;

/// A platter with overlapping tracks.
#[derive(Debug)]
pub(crate) struct OverlappingBacking {
    inner: Box<dyn Backing>,
    table: Arc<TrackTable>,
}

impl OverlappingBacking {
    /// Fills `table` with the marks that `inner` has stored.
    pub(crate) fn new(
        inner: Box<dyn Backing>,
        table: Arc<TrackTable>,
    ) -> Result<OverlappingBacking, DiskError> {
        let mut tracks = table.write();
        inner.for_each_mark(&mut |range, mark| tracks.set(range, Some(mark)))?;
        drop(tracks);
        Ok(OverlappingBacking { inner, table })
    }
}

impl OverlappingBacking {
    /// Writes one part of `write`, that is, one that destroys as a unit.
    fn write_part(
        &self,
        tracks: &mut Tracks,
        part: BlockRange,
        data: &[u8],
        write: BlockRange,
        durable: Durable,
    ) -> Result<(), DiskError> {
        let reach = self.table.reach(part);
        let lost: Vec<BlockRange> =
            reach.iter().flat_map(|&reach| tracks.marked(reach, Mark::Valid)).collect();
        for &run in &lost {
            self.inner.set_marks(run, Some(Mark::Destroyed), durable)?;
            tracks.destroy(run, write);
        }
        self.inner.write(part.start, data, durable)?;
        for gap in tracks.not_marked(part, Mark::Valid) {
            self.inner.set_marks(gap, Some(Mark::Valid), durable)?;
        }
        tracks.set(part, Some(Mark::Valid));
        lost.iter().try_for_each(|&run| self.inner.zero(run))
    }
}

impl Backing for OverlappingBacking {
    fn read(&self, at: Lba, buf: &mut [u8]) -> Result<(), DiskError> {
        let range = BlockRange::new(at, Blocks::holding(buf.len() as u64));
        let tracks = self.table.read();
        tracks.check_read(range)?;
        let mut blank_from = 0;
        for (run, _) in tracks.runs_in(range) {
            let from = (run.start - at).bytes() as usize;
            let to = from + run.len.bytes() as usize;
            buf[blank_from..from].fill(0);
            self.inner.read(run.start, &mut buf[from..to])?;
            blank_from = to;
        }
        buf[blank_from..].fill(0);
        Ok(())
    }

    fn write(&self, at: Lba, data: &[u8], durable: Durable) -> Result<(), DiskError> {
        let write = BlockRange::new(at, Blocks::holding(data.len() as u64));
        let mut tracks = self.table.write();
        self.table.parts(write).try_for_each(|part| {
            let from = (part.start - at).bytes() as usize;
            let data = &data[from..from + part.len.bytes() as usize];
            self.write_part(&mut tracks, part, data, write, durable)
        })
    }

    fn overwrite_unnoticed(&self, at: Lba, block: &[u8]) -> Result<(), DiskError> {
        self.inner.write(at, block, Durable::Later)
    }

    fn zero(&self, range: BlockRange) -> Result<(), DiskError> {
        let mut tracks = self.table.write();
        let runs: Vec<BlockRange> = tracks.runs_in(range).map(|(run, _)| run).collect();
        for run in runs {
            self.inner.set_marks(run, None, Durable::Later)?;
            tracks.set(run, None);
            self.inner.zero(run)?;
        }
        Ok(())
    }

    fn set_zone(
        &self,
        zone: ZoneId,
        record: ZoneRecord,
        durable: Durable,
    ) -> Result<(), DiskError> {
        self.inner.set_zone(zone, record, durable)
    }

    fn zone(&self, zone: ZoneId) -> Result<ZoneRecord, DiskError> {
        self.inner.zone(zone)
    }

    fn for_each_mark(&self, see: &mut dyn FnMut(BlockRange, Mark)) -> Result<(), DiskError> {
        let everything = BlockRange::new(Lba::new(0), Blocks::new(u64::MAX));
        self.table.read().runs_in(everything).for_each(|(run, mark)| see(run, mark));
        Ok(())
    }

    fn flush(&self) -> Result<(), DiskError> {
        self.inner.flush()
    }

    fn has_lost(&self) -> bool {
        self.inner.has_lost()
    }

    fn for_each_block(&self, see: &mut dyn FnMut(Lba, &[u8])) -> Result<(), DiskError> {
        let tracks = self.table.read();
        self.inner.for_each_block(&mut |at, block| {
            let block_range = BlockRange::new(at, Blocks::holding(BLOCK_LEN_BYTES as u64));
            if tracks.runs_in(block_range).any(|(_, mark)| mark == Mark::Valid) {
                see(at, block);
            }
        })
    }

    fn stored_bytes(&self) -> Result<u64, DiskError> {
        self.inner.stored_bytes()
    }

    fn image(&self) -> Option<&ImageInfo> {
        self.inner.image()
    }
}

#[cfg(test)]
mod tests;

//! The catalog: the durable map from names to extents, with the application's records.
//!
//! ```text
//!   region A  | header 8 | checkpoint | edit | edit | free          |   both are the catalog
//!   region B  | header 8 | checkpoint | edit | edit | free          |
//!
//!   a new     A | header 8 | checkpoint | edit | edit ... |   still the catalog, and full
//!   checkpoint   B | header 9 | check...                         first here, then in A
//! ```
//!
//! Every commit appends one record to the log that follows the checkpoint, in both regions. One
//! flush makes both durable, and then the commit is acknowledged. When the log is full, the whole
//! namespace goes into a new checkpoint, first in one region, then in the other. One write of its
//! header completes each. The header is no longer than the shortest sector, so the switch is atomic.
//!
//! Invariants
//!   K1  An acknowledged commit is durable in both regions: in the checkpoint, or in a record of its
//!       log. Only if one region takes no more writes, it is durable in the other alone.
//!   K2  The first change after an open is a new checkpoint: nothing follows a torn record.
//!   K3  A log id names one log: stale frames of an earlier checkpoint never decode.
//!   K4  A region is overwritten only while the other one holds a whole checkpoint and every
//!       acknowledged record since. No record follows a checkpoint before both regions hold it.
//!   K5  The highest sequence number of a whole checkpoint is the catalog. A damaged region holds
//!       nothing acknowledged that a whole one lacks (K1), unless the whole one takes no writes.
//!   K6  At most [`RUN_AHEAD_BLOCKS`] of a log are written without a flush. Opening therefore misses
//!       no damage, although it does not read the rest of a region (`record-log`, E3).
//!
//! Why a power cut between any two writes is survived, and any single damaged structure at any time:
//! `docs/formats/catalog.md`.
//!
//! Not here: what edits mean for space (`layer`), and the order of concurrent commits (`commit`).

mod compare;
mod content;
mod copies;
mod format;
mod found;
mod recover;
mod single;
mod state;

pub(crate) use compare::compare_copies;
pub(crate) use format::{COUNT_END, Header, NAME_LEN_BYTES_MAX, Shape, encode_edits};
use format::{log_id, seal};
pub(crate) use recover::{CatalogImage, read_image, sequences};
pub(crate) use state::{APP_COST_BYTES, EXTENT_COST_BYTES, FILE_COST_BYTES};
pub(crate) use state::{Edit, FileId, FileRecord, InvalidEdit, NamesOf, Namespace, Pair};

use crate::region::Region;
use imbrex_disk::{
    BLOCK_LEN_BYTES, BlockRange, Blocks, Disk, DiskError, Persist, ZoneId, ZoneState,
};
use imbrex_record_log::{Encoder, RUN_AHEAD_BLOCKS};
use std::sync::Arc;

/// The writing side of the catalog. Only the leader of a group commit uses it.
#[derive(Debug)]
pub(crate) struct CatalogStore {
    disk: Arc<dyn Disk>,
    regions: [Region; 2],
    /// A region that holds the whole catalog.
    current: usize,
    header: Header,
    /// Greater than every sequence number that a region may hold.
    next_sequence: u64,
    /// The block of the current region where its log ends.
    log_end: Blocks,
    /// `None` until the first checkpoint (K2).
    log: Option<OpenLog>,
    counts: CatalogCounts,
}

#[derive(Debug)]
struct OpenLog {
    encoder: Encoder,
    ready: Vec<u8>,
    /// The regions that hold the checkpoint: both, unless one takes no writes.
    regions: Vec<usize>,
}

/// Running totals of catalog writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CatalogCounts {
    pub(crate) written_bytes: u64,
    pub(crate) records: u64,
    pub(crate) checkpoints: u64,
    /// Damaged parts that were found when the catalog was opened, and read from their copy.
    pub(crate) mended: u64,
}

impl CatalogStore {
    /// The store of the catalog that was read as `image`.
    pub(crate) fn new(disk: Arc<dyn Disk>, image: CatalogImage) -> CatalogStore {
        let CatalogImage { header, regions, current, next_sequence, log_end, flaws, .. } = image;
        let counts = CatalogCounts { mended: flaws.len() as u64, ..CatalogCounts::default() };
        CatalogStore { disk, regions, current, header, next_sequence, log_end, log: None, counts }
    }

    /// The store of a catalog that is yet to be written. It replaces what `header` counts on, which
    /// is in region `current` if there is anything.
    pub(crate) fn blank(
        disk: Arc<dyn Disk>,
        regions: [Region; 2],
        current: usize,
        header: Header,
    ) -> CatalogStore {
        let (next_sequence, log_end) = (header.sequence + 1, Blocks::ZERO);
        let counts = CatalogCounts::default();
        CatalogStore { disk, regions, current, header, next_sequence, log_end, log: None, counts }
    }

    pub(crate) fn header(&self) -> &Header {
        &self.header
    }

    /// Whether both regions hold the same checkpoint and log, because this store wrote them.
    pub(crate) fn is_mirrored(&self) -> bool {
        self.log.as_ref().is_some_and(|log| log.regions.len() == 2)
    }

    /// Lets the next change write both regions anew. `sound` holds the whole catalog.
    pub(crate) fn renew(&mut self, sound: usize) {
        self.current = sound;
        self.log = None;
    }

    /// The blocks of both regions.
    pub(crate) fn pieces(&self) -> Vec<BlockRange> {
        self.regions.iter().flat_map(Region::pieces).copied().collect()
    }

    /// The zone that blocks the first checkpoint, if any: while the drive refuses writes to it,
    /// nothing can be changed (K2).
    pub(crate) fn unwritable_zone(&self) -> Option<(ZoneId, ZoneState)> {
        self.regions[1 - self.current].unwritable_zone(&*self.disk)
    }

    pub(crate) fn counts(&self) -> CatalogCounts {
        self.counts
    }

    /// Appends `records`, each of them atomic, and makes them durable in both regions (K1). Returns
    /// `Ok(false)`, without having written anything, if there is no room or if K2 requires a
    /// checkpoint first.
    ///
    /// Cost: a write in each region, and one flush; one more for each further 1 MiB (K6).
    pub(crate) fn append(&mut self, records: &[Vec<u8>]) -> Result<bool, DiskError> {
        let Some(log) = &mut self.log else { return Ok(false) };
        let len_bytes: u64 = records.iter().map(|r| r.len() as u64).sum();
        // Overhead: frame headers and padding, which are 56 bytes in 64 KiB and less than a block;
        // and the length of each record, which adds up for many short ones.
        let len_bytes = len_bytes + 5 * records.len() as u64;
        let bound = Blocks::holding(len_bytes + len_bytes / 512) + Blocks::new(2);
        if log.regions.iter().any(|&index| self.regions[index].len() < self.log_end + bound) {
            return Ok(false);
        }
        for record in records {
            if log.encoder.push(&[record]).is_err() {
                return Ok(false);
            }
        }
        log.encoder.seal();
        log.encoder.take_ready(&mut log.ready);
        for piece in log.ready.chunks(RUN_AHEAD_BLOCKS as usize * BLOCK_LEN_BYTES) {
            for &index in &log.regions {
                let region = &self.regions[index];
                region.write(&*self.disk, self.log_end, piece, Persist::Cached)?;
            }
            self.disk.flush()?;
            self.log_end += Blocks::holding(piece.len() as u64);
        }
        log.encoder.mark_durable(log.encoder.end_blocks());
        self.counts.records += records.len() as u64;
        self.counts.written_bytes += (log.regions.len() * log.ready.len()) as u64;
        Ok(true)
    }

    /// The longest body that fits a region with its seal.
    pub(crate) fn body_len_bytes_max(&self) -> u64 {
        (self.regions[0].len().min(self.regions[1].len()) - Blocks::new(1)).bytes() - 1
    }

    /// Writes `body` as a checkpoint into both regions, and continues there (K1).
    ///
    /// Everything that the body names must be durable already.
    pub(crate) fn checkpoint(&mut self, body: Vec<u8>, next_file_id: u64) -> Result<(), DiskError> {
        let sequence = self.next_sequence;
        let header = Header {
            sequence,
            log_id: log_id(self.header.format_id, sequence),
            body_len_bytes: body.len() as u64,
            body_crc32c: crc32c::crc32c(&body),
            is_sealed: true,
            is_mirrored: true,
            next_file_id,
            predecessor: self.header.sequence,
            predecessor_end: self.log_end,
            is_unfinished: false,
            ..self.header.clone()
        };
        let body = seal(body);
        // K4: the current region stays as it is until the other one is durable.
        let (first, second) = (1 - self.current, self.current);
        self.write_checkpoint(first, &header, &body)?;
        self.current = first;
        let mut regions = vec![first];
        if self.regions[second].unwritable_zone(&*self.disk).is_none() {
            self.write_checkpoint(second, &header, &body)?;
            regions.push(second);
        }
        self.log =
            Some(OpenLog { encoder: Encoder::new(header.log_id), ready: Vec::new(), regions });
        self.log_end = Blocks::new(1) + header.body_len();
        self.counts.checkpoints += 1;
        self.next_sequence = sequence + 1;
        self.header = header;
        Ok(())
    }

    /// Replaces the content of one region, durably.
    fn write_checkpoint(
        &mut self,
        index: usize,
        header: &Header,
        body: &[u8],
    ) -> Result<(), DiskError> {
        let (disk, region) = (&*self.disk, &self.regions[index]);
        region.clear(disk, &Header { is_unfinished: true, ..header.clone() }.encode())?;
        if region.is_sequential() {
            // In order, header first: a power cut leaves a prefix, so the write pointer shows where
            // it ended.
            region.write(disk, Blocks::ZERO, &header.encode(), Persist::Cached)?;
            region.write(disk, Blocks::new(1), body, Persist::Cached)?;
            disk.flush()?;
        } else {
            region.write(disk, Blocks::new(1), body, Persist::Cached)?;
            disk.flush()?;
            region.write(disk, Blocks::ZERO, &header.encode(), Persist::Through)?;
        }
        self.counts.written_bytes += (BLOCK_LEN_BYTES + body.len()) as u64;
        Ok(())
    }
}

#[cfg(test)]
mod tests;

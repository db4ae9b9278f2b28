//! The catalog: the durable map from names to extents, with the application's records.
//!
//! ```text
//!   region A  | header 7 | checkpoint | edit | edit | edit ........ |   the one before
//!   region B  | header 8 | checkpoint | edit | edit | free          |   the catalog
//! ```
//!
//! Every commit appends one record to the log that follows the checkpoint. The record is forced to
//! the platter before the commit is acknowledged. When the log is full, the whole namespace goes
//! into a new checkpoint in the other region. One write of its header completes the checkpoint. The
//! header is no longer than the shortest sector, so the switch is atomic.
//!
//! Invariants
//!   K1  At any moment one region holds a whole checkpoint and every acknowledged record since.
//!   K2  The first change after an open is a new checkpoint: nothing follows a torn record.
//!   K3  A log id names one log: stale frames of an earlier checkpoint never decode.
//!
//! Not here: what edits mean for space (`layer`), and the order of concurrent commits (`commit`).

mod format;
mod recover;
mod state;

use format::seal;
pub(crate) use format::{COUNT_END, Header, NAME_LEN_BYTES_MAX, Shape};
pub(crate) use format::{decode_edits, encode_edits};
pub(crate) use recover::{CatalogImage, read_image, sequences};
pub(crate) use state::{APP_COST_BYTES, EXTENT_COST_BYTES, FILE_COST_BYTES};
pub(crate) use state::{Edit, FileId, FileRecord, InvalidEdit, NamesOf, Namespace, Pair};

use crate::region::Region;
use imbrex_disk::{
    BLOCK_LEN_BYTES, BlockRange, Blocks, Disk, DiskError, Persist, ZoneId, ZoneState,
};
use imbrex_record_log::Encoder;
use std::sync::Arc;

/// Part of every log id, so that a log of the catalog is never mistaken for the log of a file.
const LOG_ID_TAG: u64 = 0xca7a_0000_0000_0000;

/// The id of the log that follows checkpoint `sequence` (K3).
fn log_id(format_id: u64, sequence: u64) -> u64 {
    format_id.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32) ^ sequence ^ LOG_ID_TAG
}

/// The writing side of the catalog. Only the leader of a group commit uses it.
#[derive(Debug)]
pub(crate) struct CatalogStore {
    disk: Arc<dyn Disk>,
    regions: [Region; 2],
    current: usize,
    header: Header,
    /// `None` until the first checkpoint (K2).
    log: Option<OpenLog>,
    counts: CatalogCounts,
}

#[derive(Debug)]
struct OpenLog {
    encoder: Encoder,
    /// The position in the region of the next frame.
    next: Blocks,
    ready: Vec<u8>,
}

/// Running totals of catalog writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CatalogCounts {
    pub(crate) written_bytes: u64,
    pub(crate) records: u64,
    pub(crate) checkpoints: u64,
}

impl CatalogStore {
    /// The store of a catalog whose newest checkpoint is `header`, in region `current`.
    pub(crate) fn new(
        disk: Arc<dyn Disk>,
        regions: [Region; 2],
        current: usize,
        header: Header,
    ) -> CatalogStore {
        let counts = CatalogCounts::default();
        CatalogStore { disk, regions, current, header, log: None, counts }
    }

    pub(crate) fn header(&self) -> &Header {
        &self.header
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

    /// Appends `records`, each of them atomic, and makes them durable. Returns `Ok(false)`, without
    /// having written anything, if there is no room or if K2 requires a checkpoint first.
    pub(crate) fn append(&mut self, records: &[Vec<u8>]) -> Result<bool, DiskError> {
        let region = &self.regions[self.current];
        let Some(log) = &mut self.log else { return Ok(false) };
        let len_bytes: u64 = records.iter().map(|r| r.len() as u64).sum();
        // Overhead: frame headers and padding, which are 56 bytes in 64 KiB and less than a block;
        // and the length of each record, which adds up for many short ones.
        let len_bytes = len_bytes + 5 * records.len() as u64;
        let bound = Blocks::holding(len_bytes + len_bytes / 512) + Blocks::new(2);
        if region.len() < log.next + bound {
            return Ok(false);
        }
        for record in records {
            if log.encoder.push(&[record]).is_err() {
                return Ok(false);
            }
        }
        log.encoder.seal();
        log.encoder.take_ready(&mut log.ready);
        region.write(&*self.disk, log.next, &log.ready, Persist::Through)?;
        log.next += Blocks::holding(log.ready.len() as u64);
        log.encoder.mark_durable(log.encoder.end_blocks());
        self.counts.records += records.len() as u64;
        self.counts.written_bytes += log.ready.len() as u64;
        Ok(true)
    }

    /// The longest body that fits a region with its seal.
    pub(crate) fn body_len_bytes_max(&self) -> u64 {
        (self.regions[0].len().min(self.regions[1].len()) - Blocks::new(1)).bytes() - 1
    }

    /// Writes `body` as a checkpoint into the other region, and continues there (K1).
    ///
    /// Everything that the body names must be durable already.
    pub(crate) fn checkpoint(&mut self, body: Vec<u8>, next_file_id: u64) -> Result<(), DiskError> {
        let sequence = self.header.sequence + 1;
        let header = Header {
            sequence,
            log_id: log_id(self.header.format_id, sequence),
            body_len_bytes: body.len() as u64,
            body_crc32c: crc32c::crc32c(&body),
            is_sealed: true,
            next_file_id,
            ..self.header.clone()
        };
        let target = 1 - self.current;
        let region = &self.regions[target];
        let disk = &*self.disk;
        let body = seal(body);
        region.clear(disk)?;
        if region.is_sequential() {
            // In order, header first: a power cut leaves a prefix, so the write pointer shows where
            // it ended.
            region.write(disk, Blocks::ZERO, &header.encode(), Persist::Cached)?;
            region.write(disk, Blocks::new(1), &body, Persist::Cached)?;
            disk.flush()?;
        } else {
            region.write(disk, Blocks::new(1), &body, Persist::Cached)?;
            disk.flush()?;
            region.write(disk, Blocks::ZERO, &header.encode(), Persist::Through)?;
        }
        self.log = Some(OpenLog {
            encoder: Encoder::new(header.log_id),
            next: Blocks::new(1) + header.body_len(),
            ready: Vec::new(),
        });
        self.counts.checkpoints += 1;
        self.counts.written_bytes += (BLOCK_LEN_BYTES + body.len()) as u64;
        self.current = target;
        self.header = header;
        Ok(())
    }
}

#[cfg(test)]
mod tests;

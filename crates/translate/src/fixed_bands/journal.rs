//! The journal: which blocks are valid, and which rewrite is open.
//!
//! ```text
//!     log region:   | header: epoch | checkpoint ... end | records since then ... |  unwritten |
//!                                                          valid, dead, rewrite, done, synced
//! ```
//!
//! Two regions alternate. When one is full, the other gets a checkpoint under the next epoch, and
//! counts as soon as the end of that checkpoint is there. Until then the old region is whole, so
//! one of the two can be read at every moment.
//!
//! Invariants
//!   J1  A record is written only after the data that it describes was handed to the disk below. If
//!       no `synced` follows the record, recovery must check whether the data arrived too.
//!   J2  Before a checkpoint is written, all records before it are durable in the old region: if
//!       the checkpoint cannot be read, the old region says the same.
//!   J3  There is always room for the record of a rewrite, and for its end.
//!   J4  The header of a region is blank or sound: the region was discarded before, and a torn
//!       write leaves the block as it was. A header that rotted needs no copy: the frames after it
//!       also give the epoch.
//!   J5  At most [`RUN_AHEAD_BLOCKS`] of records follow a checkpoint without a flush. Opening
//!       therefore misses no damage, although it does not read the rest of a region (`record-log`,
//!       E3).

use super::below::{Below, Purpose, blocks_of};
use super::format::{Record, Superblock, encode_region_header};
use super::layout::{BandLayout, FRAME_LEN_BYTES, RUNS_PER_RECORD, Region};
use super::runs::Runs;
use imbrex_disk::{Activity, BLOCK_LEN_BYTES, BlockRange, Blocks, DiskError, Persist};
use imbrex_record_log::{Encoder, RUN_AHEAD_BLOCKS};

/// About how many bytes of records are kept in memory until a flush writes them.
const UNWRITTEN_LEN_BYTES_MAX: usize = 256 << 10;

/// Whether blocks became valid or dead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Valid,
    Dead,
}

/// The end of the log, to which records are appended.
#[derive(Debug)]
pub(crate) struct BandJournal {
    region: usize,
    epoch: u64,
    encoder: Encoder,
    /// How much of the log was handed to the disk below.
    written: Blocks,
    /// How much of that is durable.
    durable: Blocks,
    /// The newest change, which may still grow.
    pending: Option<(Change, BlockRange)>,
    /// Records were written since the last flush.
    is_unflushed: bool,
    /// All written records are durable, and the log does not say so yet.
    owes_synced: bool,
    buffer: Vec<u8>,
}

impl BandJournal {
    /// Writes a checkpoint of `valid` into `region` under `epoch`, durable on return; records
    /// follow it. Every earlier record is durable in the other region (J2).
    pub(crate) fn begin(
        below: &Below,
        layout: &BandLayout,
        region: usize,
        epoch: u64,
        valid: &Runs,
    ) -> Result<BandJournal, DiskError> {
        let Superblock { id, .. } = layout.superblock;
        let mut journal = BandJournal {
            region,
            epoch,
            encoder: Encoder::with_frame_len(log_id(id, epoch), FRAME_LEN_BYTES),
            written: Blocks::ZERO,
            durable: Blocks::ZERO,
            pending: None,
            is_unflushed: false,
            owes_synced: false,
            buffer: Vec::new(),
        };
        let runs: Vec<BlockRange> = valid.iter().collect();
        for part in runs.chunks(RUNS_PER_RECORD) {
            journal.push(&Record::Valid(part.to_vec()));
        }
        journal.push(&Record::CheckpointEnd { run_count: runs.len() as u64 });
        let Region { start, .. } = layout.logs[region];
        below.discard(layout.logs[region])?;
        let header = encode_region_header(id, epoch);
        below.write(start, &header, Persist::Cached, Purpose::Log)?;
        journal.write_out(below, layout, Persist::Cached)?;
        below.flush(Activity::Catalog)?;
        journal.flushed();
        Ok(journal)
    }

    /// Continues under the next epoch in the other region.
    pub(crate) fn switch_region(
        &mut self,
        below: &Below,
        layout: &BandLayout,
        valid: &Runs,
    ) -> Result<(), DiskError> {
        self.write_out(below, layout, Persist::Cached)?;
        below.flush(Activity::Catalog)?;
        *self = BandJournal::begin(below, layout, 1 - self.region, self.epoch + 1, valid)?;
        Ok(())
    }

    /// Whether the region has room only for one more rewrite (J3).
    pub(crate) fn is_full(&self, layout: &BandLayout) -> bool {
        // The open frame, and the records that may still be pending.
        let open = Blocks::new(2 * (FRAME_LEN_BYTES / BLOCK_LEN_BYTES) as u64 + 1);
        let used = Blocks::new(1 + self.encoder.end_blocks()) + open;
        used + layout.log_reserve() > layout.logs[self.region].len
    }

    #[cfg(test)]
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }

    #[cfg(test)]
    pub(crate) fn region_index(&self) -> usize {
        self.region
    }

    /// Whether unwritten records take more memory than they should.
    pub(crate) fn is_long(&self) -> bool {
        self.encoder.ready_len_bytes() > UNWRITTEN_LEN_BYTES_MAX
    }

    /// Records that `range` became valid or dead. Consecutive ranges become one record.
    pub(crate) fn note(&mut self, change: Change, range: BlockRange) {
        if let Some((pending_change, pending)) = &mut self.pending
            && *pending_change == change
            && pending.end() == range.start
        {
            pending.len += range.len;
            return;
        }
        self.settle();
        self.pending = Some((change, range));
    }

    /// Appends a record.
    pub(crate) fn push(&mut self, record: &Record) {
        self.settle();
        if std::mem::take(&mut self.owes_synced) {
            self.push_bytes(&Record::Synced);
        }
        self.push_bytes(record);
    }

    fn push_bytes(&mut self, record: &Record) {
        self.encoder.push(&[&record.encode()]).expect("a record has less than 4 GiB");
    }

    fn settle(&mut self) {
        match self.pending.take() {
            Some((Change::Valid, range)) => self.push(&Record::Valid(vec![range])),
            Some((Change::Dead, range)) => self.push(&Record::Dead(vec![range])),
            None => {}
        }
    }

    /// Whether a flush would make a record durable.
    pub(crate) fn has_undurable(&self) -> bool {
        self.pending.is_some() || self.is_unflushed || !self.is_written()
    }

    fn is_written(&self) -> bool {
        self.encoder.is_sealed() && self.encoder.ready_len_bytes() == 0
    }

    /// Hands every record to the disk below.
    pub(crate) fn write_out(
        &mut self,
        below: &Below,
        layout: &BandLayout,
        persist: Persist,
    ) -> Result<(), DiskError> {
        self.settle();
        if self.is_written() {
            return Ok(());
        }
        self.encoder.seal();
        self.encoder.take_ready(&mut self.buffer);
        let Region { start, len } = layout.logs[self.region];
        let at = start + Blocks::new(1) + self.written;
        let end = Blocks::new(1) + self.written + blocks_of(&self.buffer);
        if end > len {
            let what = format!("J3: the journal of the bands outgrew its region: {end} of {len}");
            let source = std::io::Error::from(std::io::ErrorKind::StorageFull);
            return Err(DiskError::Host { what, source });
        }
        if self.written + blocks_of(&self.buffer) > self.durable + Blocks::new(RUN_AHEAD_BLOCKS) {
            below.flush(Activity::Catalog)?; // J5
            self.flushed();
        }
        self.is_unflushed |= persist == Persist::Cached;
        self.written += blocks_of(&self.buffer);
        below.write(at, &self.buffer, persist, Purpose::Log)
    }

    /// Marks everything that was written out as durable.
    pub(crate) fn flushed(&mut self) {
        if std::mem::take(&mut self.is_unflushed) {
            self.owes_synced = true;
        }
        self.durable = self.written;
        self.encoder.mark_durable(self.written.get());
    }
}

/// A log's id identifies its drive and epoch, so frames of an earlier log are never taken for its
/// own.
pub(crate) fn log_id(id: u64, epoch: u64) -> u64 {
    id.wrapping_add(epoch.wrapping_mul(EPOCH_FACTOR))
}

/// The epoch of the log `log_id` of drive `id`; `None` if it is not a log of that drive. No drive
/// reaches so many epochs that another drive's log could be mistaken for one of its own.
pub(crate) fn epoch_of(id: u64, log_id: u64) -> Option<u64> {
    let epoch = log_id.wrapping_sub(id).wrapping_mul(EPOCH_FACTOR_INVERSE);
    (1..1 << 32).contains(&epoch).then_some(epoch)
}

/// The odd multiplier of SplitMix64: epochs of one drive get ids far apart.
const EPOCH_FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
const EPOCH_FACTOR_INVERSE: u64 = 0xf1de_83e1_9937_733d;
const _: () = assert!(EPOCH_FACTOR.wrapping_mul(EPOCH_FACTOR_INVERSE) == 1);

//! What an operator asks of a running device: its status, and a cleaning now.
//!
//! Not here: the length of the write buffer, a checkpoint now (`device`).

use super::device::BlockDriver;
use super::journal::JournalUse;
use super::step::STEP_LEN;
use imbrex_disk::{Blocks, DiskError};

/// The present state of a device, beside its [`DriverCounters`](super::DriverCounters).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DriverStatus {
    /// The capacity of the write buffer.
    pub buffer_len: Blocks,
    /// How much the write buffer holds. Shortly after its capacity was reduced, this is more.
    pub buffered: Blocks,
    /// Of that, what a data zone has as well. It is kept for reads and gives way to any write.
    pub clean: Blocks,
    /// The zones of the journal.
    pub journal_zone_count: u64,
    /// Of those, the zones that hold nothing that is needed.
    pub free_journal_zone_count: u64,
    /// The length of the journal.
    pub journal_len: Blocks,
    /// How much of the journal is the only durable copy of data in the write buffer.
    pub active_journal_len: Blocks,
    /// The zones for data.
    pub data_zone_count: u64,
    /// Of those, the zones that can take data.
    pub free_zone_count: u64,
    /// Zones that the running cleaning empties; 0 if none runs.
    pub cleaning_zone_count: u64,
    /// How much it still has to move.
    pub cleaning_left: Blocks,
    /// Whether a checkpoint is being written.
    pub is_writing_checkpoint: bool,
    /// The length of one copy of the last checkpoint, in bytes.
    pub checkpoint_len_bytes: u64,
    /// Whether a failure stopped the device: it takes no more writes until it is opened again.
    pub is_poisoned: bool,
    /// Whether the device is open for reading only. It takes no writes, so its write buffer only has what
    /// the journal held.
    pub is_read_only: bool,
}

impl BlockDriver {
    /// The present state. Cost: a look at each zone of the journal.
    pub fn status(&self) -> DriverStatus {
        let state = self.state();
        let journal = &state.journal;
        DriverStatus {
            buffer_len: state.buffer.capacity(),
            buffered: state.buffer.len(),
            clean: state.streams.kept.total(),
            journal_zone_count: journal.zones.len() as u64,
            free_journal_zone_count: journal.count(JournalUse::Free) as u64,
            journal_len: journal.zones.iter().map(|zone| zone.range.len).sum(),
            active_journal_len: journal
                .zones
                .iter()
                .map(|zone| state.copies.active(zone.zone))
                .sum(),
            data_zone_count: state.zones.pool.iter().count() as u64,
            free_zone_count: state.zones.pool.free() as u64,
            cleaning_zone_count: state.cleaning.as_ref().map_or(0, |now| now.zones.len() as u64),
            cleaning_left: state.cleaning.as_ref().map_or(Blocks::ZERO, |now| now.left),
            is_writing_checkpoint: state.writing.is_some(),
            checkpoint_len_bytes: state.superblock.checkpoint.len_bytes,
            is_poisoned: state.is_poisoned,
            is_read_only: self.is_read_only,
        }
    }

    /// A step of the running cleaning, or of a new one, whether or not the device needs the room.
    /// Returns whether that cleaning has more steps. After the last one the emptied zones are free,
    /// and all data written so far is durable.
    ///
    /// Cost: one request of the drive, of at most 4 MiB (K10). The caller decides how long the host has
    /// the drive between two steps.
    ///
    /// # Errors
    /// As [`Disk::flush`](imbrex_disk::Disk::flush). Data that cannot be read stays where it is.
    pub fn clean_step_now(&self) -> Result<bool, DiskError> {
        self.change(|state| {
            state.clean_step(false, STEP_LEN)?;
            let has_more = state.cleaning.is_some();
            if !has_more {
                state.reclaim()?;
            }
            Ok(has_more)
        })
    }
}

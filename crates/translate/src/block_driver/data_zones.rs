//! The data zones as they are written and read: which ones are open, and the checksums that go with
//! the data.
//!
//! ```text
//!     state, clean, checkpoint, superblocks
//!          |  take, write, finish, end_read
//!     DataZones    the open zones, the use of each zone (`pool`), checksums (`summaries`)
//!          |
//!     the drive
//! ```
//!
//! Checkpoints and stand-ins for superblocks take their zones here too. So one function decides
//! whether a zone that refuses its first write is passed over.
//!
//! Not here: which zone to clean (`choose`), which blocks are valid (`mapping`).

use super::pool::{Pool, PoolZone, Use};
use super::summaries::{Fetched, Summaries};
use imbrex_disk::{
    Activity, BLOCK_LEN_BYTES, Blocks, Disk, DiskError, Handles, Lba, Persist, ZoneId,
};
use std::sync::Arc;

/// Whose data a zone takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stream {
    Host = 0,
    Cleaning = 1,
}

impl Stream {
    /// What its writes serve. An eviction is to the write buffer what a flush is to a memtable.
    pub(super) fn activity(self) -> Activity {
        match self {
            Stream::Host => Activity::Flush,
            Stream::Cleaning => Activity::Cleaning,
        }
    }
}

/// The data zones of a device.
#[derive(Debug)]
pub(super) struct DataZones {
    /// The disk, for checkpoints, superblocks and the ends of zones.
    pub(super) disk: Arc<dyn Disk>,
    pub(super) disks: Handles,
    pub(super) pool: Pool,
    pub(super) summaries: Summaries,
    /// The zones being written: one for evictions, one for data that cleaning moves.
    pub(super) open: [Option<ZoneId>; 2],
}

impl DataZones {
    /// Takes a free zone; `None` if there is none.
    pub(super) fn take(&mut self, used: Use) -> Result<Option<ZoneId>, DiskError> {
        let taken = self.pool.take(&*self.disk, used)?;
        if let Some(zone) = taken {
            self.summaries.forget(zone);
        }
        Ok(taken)
    }

    /// Stops writing to a zone.
    pub(super) fn close(&mut self, zone: ZoneId) {
        self.open.iter_mut().filter(|open| **open == Some(zone)).for_each(|open| *open = None);
    }

    /// How much of the zone that a stream is writing is left.
    pub(super) fn rest_of(&self, stream: Stream) -> u64 {
        self.open[stream as usize].map_or(0, |zone| self.pool.rest(zone).1.get())
    }

    /// Handles the error of the first write to a zone that the drive turns out to have given up.
    /// Nothing is lost, and another zone will do. Returns false if `error` is something else.
    pub(super) fn passes_over(&mut self, zone: ZoneId, error: &DiskError) -> bool {
        let is_given_up =
            matches!(error, DiskError::ZoneNotWritable { .. } | DiskError::Offline { .. });
        let is_blank = self.pool.get(zone).is_some_and(|slot| slot.pointer.is_zero());
        if is_given_up && is_blank {
            self.pool.set(zone, Use::Lost);
            self.summaries.forget(zone);
            self.close(zone);
        }
        is_given_up && is_blank
    }

    /// Clears all zones of one use, and drops the checksums that their open stretches had in memory
    /// (S3).
    pub(super) fn clear_all(&mut self, from: Use) {
        for zone in self.pool.clear_all(&*self.disk, from) {
            self.summaries.forget(zone);
        }
    }

    /// Writes `data`, the host's blocks `lbas`, at the pointer of a data zone, with the summaries;
    /// returns how many summaries. The write serves `activity`.
    pub(super) fn write(
        &mut self,
        activity: Activity,
        zone: ZoneId,
        data: &[u8],
        lbas: impl Iterator<Item = Lba>,
    ) -> Result<u64, DiskError> {
        let slot = *self.pool.get(zone).expect("a zone of the pool is written");
        let bytes = self.summaries.frame(&slot, data, lbas);
        self.write_framed(&slot, &bytes, activity)?;
        Ok(((bytes.len() - data.len()) / BLOCK_LEN_BYTES) as u64)
    }

    /// Writes the summaries of zones that are left half-written, and finishes these zones on the
    /// drive. The flush in between keeps a power cut from leaving a full zone without its summary.
    pub(super) fn finish(&mut self, zones: &[ZoneId]) -> Result<(), DiskError> {
        for &zone in zones {
            let slot = *self.pool.get(zone).expect("a zone of the pool is ended");
            let bytes = self.summaries.end(&slot);
            if !bytes.is_empty() {
                self.write_framed(&slot, &bytes, Activity::Catalog)?;
            }
        }
        if !zones.is_empty() {
            self.disk.flush()?;
        }
        zones.iter().try_for_each(|&zone| self.pool.finish(&*self.disk, zone))
    }

    fn write_framed(
        &mut self,
        slot: &PoolZone,
        bytes: &[u8],
        activity: Activity,
    ) -> Result<(), DiskError> {
        self.disks.of(activity).write(slot.start + slot.pointer, bytes, Persist::Cached)?;
        self.pool.advance(slot.zone, Blocks::holding(bytes.len() as u64));
        Ok(())
    }

    /// K8: the outcome of a read, and whether a block differed from what was written. `None` if a
    /// zone that was read was begun anew meanwhile.
    pub(super) fn end_read(&mut self, fetched: Fetched) -> Option<(Result<(), DiskError>, bool)> {
        let Fetched { outcome, is_wrong, sums, zones } = fetched;
        let is_as_it_was = |&(zone, generation): &(ZoneId, u64)| {
            self.pool.get(zone).is_some_and(|slot| slot.generation == generation)
        };
        if !zones.iter().all(is_as_it_was) {
            return None;
        }
        self.summaries.keep(sums);
        Some((outcome, is_wrong))
    }
}

//! The journal zones: one is being written; the others hold data that the write buffer still needs,
//! or are free.
//!
//! ```text
//!     | entry | entry | entry |      |  sealed, 7 blocks active  |  sealed, none active  |  free  |
//!                      ^ next                                      ` free again once a checkpoint
//!                                                                    is younger than its last entry
//! ```
//!
//! The zone with the least active data is recycled first. The paper evicts the active data. Here,
//! short regions are written to the journal again and stay in the buffer if the zone has few of
//! them (`state`).
//!
//! Source: section II-A of the paper. Not here: which data is active (`buffer`), what entries
//! contain (`state`).

use super::zones::finish_zone;
use imbrex_disk::{BlockRange, Blocks, Disk, DiskError, Lba, Pba, ZoneAction, ZoneId, ZoneState};
use std::collections::BTreeMap;

/// How many neighbouring checksums form a row.
const CRC_ROW_LEN: u64 = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum JournalUse {
    /// To be reset and written from its start.
    Free,
    Open,
    Sealed,
    /// The drive has given it up; its content may still be readable.
    Lost,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct JournalZone {
    pub(super) zone: ZoneId,
    pub(super) range: BlockRange,
    pub(super) used: JournalUse,
    /// The end of a zone that was read-only when the device was opened.
    pub(super) end: Option<End>,
}

/// The end of a zone without a write pointer.
#[derive(Clone, Copy, Debug)]
pub(super) struct End {
    pub(super) at: Lba,
    /// The drive refuses to read beyond it. Otherwise one byte is read there over and over.
    pub(super) is_exact: bool,
}

/// Where entries go.
#[derive(Debug)]
pub(super) struct JournalZones {
    pub(super) zones: Vec<JournalZone>,
    /// The zone that is being written, and how much of it is written.
    open: usize,
    written: Blocks,
    /// A zone was given up and no checkpoint says so yet. If it is offline, opening assumes that
    /// its content is needed.
    pub(super) has_unrecorded_loss: bool,
    /// The checksums of the host's blocks, in rows; unused places of a row have any value. An image
    /// may have zones of any length, so memory is allocated for blocks that were noted and not for
    /// whole zones.
    crcs: BTreeMap<u64, [u32; CRC_ROW_LEN as usize]>,
}

impl JournalZones {
    /// The zones of a device; nothing is open.
    pub(super) fn new(zones: Vec<(ZoneId, BlockRange)>) -> JournalZones {
        let zone = |(zone, range)| JournalZone { zone, range, used: JournalUse::Free, end: None };
        let zones: Vec<JournalZone> = zones.into_iter().map(zone).collect();
        let (written, crcs) = (zones[0].range.len, BTreeMap::new());
        JournalZones { open: 0, written, zones, has_unrecorded_loss: false, crcs }
    }

    /// The length of the shortest zone.
    pub(super) fn zone_len(&self) -> Blocks {
        self.zones.iter().map(|zone| zone.range.len).min().unwrap_or_default()
    }

    /// Where the next entry goes, if it fits.
    pub(super) fn next(&self) -> Pba {
        Pba::new((self.zones[self.open].range.start + self.written).get())
    }

    /// How much of the zone that is being written is left.
    pub(super) fn room(&self) -> Blocks {
        match self.zones[self.open].used {
            JournalUse::Open => self.zones[self.open].range.len - self.written,
            _ => Blocks::ZERO,
        }
    }

    pub(super) fn count(&self, used: JournalUse) -> usize {
        self.zones.iter().filter(|zone| zone.used == used).count()
    }

    /// The sealed zones.
    pub(super) fn sealed(&self) -> impl Iterator<Item = &JournalZone> + '_ {
        self.zones.iter().filter(|zone| zone.used == JournalUse::Sealed)
    }

    /// Seals the open zone and continues in a free one; returns false if there is none.
    pub(super) fn begin_zone(&mut self, disk: &dyn Disk) -> Result<bool, DiskError> {
        if self.count(JournalUse::Free) == 0 {
            return Ok(false);
        }
        self.seal(disk)?;
        let (open, count) = (self.open, self.zones.len());
        for at in (1..=count).map(|step| (open + step) % count) {
            let zone = &mut self.zones[at];
            if zone.used != JournalUse::Free {
                continue;
            }
            match disk.manage_zone(zone.zone, ZoneAction::Reset) {
                Ok(()) => {}
                Err(DiskError::ZoneNotWritable { .. } | DiskError::Offline { .. }) => {
                    zone.used = JournalUse::Lost;
                    self.has_unrecorded_loss = true;
                    continue;
                }
                Err(error) => return Err(error),
            }
            zone.used = JournalUse::Open;
            self.open = at;
            self.written = Blocks::ZERO;
            return Ok(true);
        }
        Ok(false)
    }

    /// Seals the open zone. The next entry then goes elsewhere, even if no other zone can be begun.
    pub(super) fn seal(&mut self, disk: &dyn Disk) -> Result<(), DiskError> {
        let open = &mut self.zones[self.open];
        if open.used == JournalUse::Open {
            open.used = JournalUse::Sealed;
            // As with data zones, a power cut leaves at most one zone written in part. The flush
            // precedes the finish: nothing of a full zone may be missing.
            disk.flush()?;
            if self.written < open.range.len {
                finish_zone(disk, open.zone)?;
                self.written = open.range.len;
            }
        }
        Ok(())
    }

    /// Marks zones other than the open one that have gone offline, and returns them.
    pub(super) fn leave_offline(&mut self, disk: &dyn Disk) -> Vec<ZoneId> {
        let is_offline = |zone: &&mut JournalZone| {
            matches!(zone.used, JournalUse::Sealed | JournalUse::Free)
                && disk.zone(zone.zone).is_some_and(|info| info.state == ZoneState::Offline)
        };
        let found = self.zones.iter_mut().filter(is_offline);
        let found: Vec<ZoneId> = found
            .map(|zone| {
                zone.used = JournalUse::Lost;
                zone.zone
            })
            .collect();
        self.has_unrecorded_loss |= !found.is_empty();
        found
    }

    /// Records that `len` more blocks are written.
    pub(super) fn advance(&mut self, len: Blocks) {
        self.written += len;
    }

    /// Records the checksums of the host's blocks from `at`.
    pub(super) fn note_crcs(&mut self, at: Pba, crcs: impl Iterator<Item = u32>) {
        if self.zones.iter().any(|zone| zone.range.contains(Lba::new(at.get()))) {
            for (at, crc) in (at.get()..).zip(crcs) {
                let row = self.crcs.entry(at / CRC_ROW_LEN).or_insert([0; CRC_ROW_LEN as usize]);
                row[(at % CRC_ROW_LEN) as usize] = crc;
            }
        }
    }

    /// The checksum of the host's block at `at`.
    pub(super) fn crc(&self, at: Pba) -> u32 {
        let row = self.crcs.get(&(at.get() / CRC_ROW_LEN));
        row.map_or(0, |row| row[(at.get() % CRC_ROW_LEN) as usize])
    }

    /// How much memory the checksums take.
    pub(super) fn memory_bytes(&self) -> u64 {
        (8 + 4 * CRC_ROW_LEN) * self.crcs.len() as u64
    }

    /// Frees sealed zones that are no longer needed.
    pub(super) fn free(&mut self, idle: &[ZoneId]) {
        for zone in self.zones.iter_mut().filter(|zone| idle.contains(&zone.zone)) {
            zone.used = JournalUse::Free;
        }
    }
}

/// The number of the first zone after the journal.
pub(super) fn first_pool_zone(journal: &JournalZones) -> u32 {
    journal.zones.last().map_or(0, |zone| zone.zone.0 + 1)
}

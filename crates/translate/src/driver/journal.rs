//! The journal zones: one is written, the others hold what the write buffer still needs, or wait.
//!
//! ```text
//!     | entry | entry | entry |      |  sealed, 7 blocks active  |  sealed, none active  |  free  |
//!                      ^ next                                      ` free again once a checkpoint
//!                                                                    is younger than its last entry
//! ```
//!
//! Source: section II-A of the paper. Not here: which data are active (`buffer`), what is written.

use imbrex_disk::{BlockRange, Blocks, Disk, DiskError, Pba, ZoneAction, ZoneId};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum JournalUse {
    /// To be reset and written from its start.
    Free,
    Open,
    Sealed,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct JournalZone {
    pub(super) zone: ZoneId,
    pub(super) range: BlockRange,
    pub(super) used: JournalUse,
}

/// Where entries go.
#[derive(Debug)]
pub(super) struct Journal {
    pub(super) zones: Vec<JournalZone>,
    /// The zone that is written, and how much of it is.
    open: usize,
    written: Blocks,
}

impl Journal {
    /// The zones of a device; nothing is open.
    pub(super) fn new(zones: Vec<(ZoneId, BlockRange)>) -> Journal {
        let zone = |(zone, range)| JournalZone { zone, range, used: JournalUse::Free };
        let zones: Vec<JournalZone> = zones.into_iter().map(zone).collect();
        Journal { open: 0, written: zones[0].range.len, zones }
    }

    /// The length of the shortest zone.
    pub(super) fn zone_len(&self) -> Blocks {
        self.zones.iter().map(|zone| zone.range.len).min().unwrap_or_default()
    }

    /// Where the next entry goes if it fits.
    pub(super) fn next(&self) -> Pba {
        Pba::new((self.zones[self.open].range.start + self.written).get())
    }

    /// What fits the zone that is written.
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

    /// Seals what is open and goes on in a free zone; false if there is none.
    pub(super) fn turn(&mut self, disk: &dyn Disk) -> Result<bool, DiskError> {
        let after = (1..=self.zones.len()).map(|step| (self.open + step) % self.zones.len());
        let free = after.into_iter().find(|&at| self.zones[at].used == JournalUse::Free);
        let Some(free) = free else { return Ok(false) };
        if self.zones[self.open].used == JournalUse::Open {
            self.zones[self.open].used = JournalUse::Sealed;
            if self.written < self.zones[self.open].range.len {
                disk.manage_zone(self.zones[self.open].zone, ZoneAction::Finish)?;
            }
            // As with data zones: a power cut leaves one zone written in part.
            disk.flush()?;
        }
        disk.manage_zone(self.zones[free].zone, ZoneAction::Reset)?;
        self.zones[free].used = JournalUse::Open;
        self.open = free;
        self.written = Blocks::ZERO;
        Ok(true)
    }

    /// Notes that so many blocks were written.
    pub(super) fn advance(&mut self, len: Blocks) {
        self.written += len;
    }

    /// Frees sealed zones that nobody needs.
    pub(super) fn free(&mut self, idle: &[ZoneId]) {
        for zone in self.zones.iter_mut().filter(|zone| idle.contains(&zone.zone)) {
            zone.used = JournalUse::Free;
        }
    }
}

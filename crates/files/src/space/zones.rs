//! The state of one zone in the space map.

use imbrex_disk::{BlockRange, Blocks, Lba, ZoneId, ZoneKind};

/// A lane: its files share an open zone, because they are expected to die at about the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lane {
    /// Logs: each keeps its zone for itself while it is written.
    Log,
    /// New files; the policy chooses the number (a level, a stream).
    Fresh(u32),
    /// Files that are long compared to a zone: each begins one, and its rest is a last resort for
    /// others.
    Alone(u32),
    /// Files moved by cleaning, which tend to live long.
    Cold(u32),
}

impl Lane {
    /// The policy's number; logs have none.
    pub fn number(self) -> u32 {
        match self {
            Lane::Log => 0,
            Lane::Fresh(number) | Lane::Alone(number) | Lane::Cold(number) => number,
        }
    }

    /// Whether each of its files begins a zone.
    pub fn is_alone(self) -> bool {
        matches!(self, Lane::Alone(_))
    }

    /// Whether it is for files that cleaning moves.
    pub fn is_cold(self) -> bool {
        matches!(self, Lane::Cold(_))
    }
}

/// What a zone is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZoneRole {
    /// Holds a copy of the catalog.
    Catalog,
    /// Holds files.
    Data,
    /// Read-only or offline; its data may still be readable.
    Unusable,
}

/// The space of one zone.
#[derive(Clone, Debug)]
pub struct ZoneSpace {
    /// Which zone.
    pub id: ZoneId,
    /// Whether the drive keeps its write pointer.
    pub kind: ZoneKind,
    /// What it is used for.
    pub role: ZoneRole,
    /// Its first usable block.
    pub start: Lba,
    /// How many blocks of it can be written.
    pub capacity: Blocks,
    /// The next block to be handed out.
    pub next: Lba,
    /// Whether a write to it was begun since it was empty.
    pub begun: bool,
    /// The next block to be written; less than `next` while writes are in progress.
    pub written: Lba,
    /// How many blocks are held.
    pub held: Blocks,
    /// How many of them belong to files of the catalog, which can be moved.
    pub named: Blocks,
    /// The lane whose files it takes.
    pub lane: Option<Lane>,
    /// When its youngest file was begun, counted in files begun on this drive ([`SpaceMap::now`]).
    ///
    /// [`SpaceMap::now`]: super::SpaceMap::now
    pub youngest: u64,
    /// Whether nothing more goes into it until it is reset, because the policy keeps files apart.
    pub sealed: bool,
    /// Whether an open log keeps it for itself.
    pub owned: bool,
    /// Whether its log has another run, and fills this zone before it begins that run.
    pub filling: bool,
    /// Whether it is being emptied by cleaning.
    pub cleaning: bool,
    /// Whether some block in it cannot be read, and therefore not moved.
    pub pinned: bool,
    /// Whether a reset is under way.
    pub resetting: bool,
    /// Whether a finish is under way.
    pub finishing: bool,
    /// Whether a write or reset in it failed: only another reset makes it usable again.
    pub failed: bool,
    /// The first block whose planned data can no longer be written. Data before it still can.
    pub lost_from: Option<Lba>,
}

impl ZoneSpace {
    /// An empty zone for files.
    pub fn empty(id: ZoneId, kind: ZoneKind, range: BlockRange) -> ZoneSpace {
        ZoneSpace {
            id,
            kind,
            role: ZoneRole::Data,
            start: range.start,
            capacity: range.len,
            next: range.start,
            begun: false,
            written: range.start,
            held: Blocks::ZERO,
            named: Blocks::ZERO,
            lane: None,
            youngest: 0,
            sealed: false,
            owned: false,
            filling: false,
            cleaning: false,
            pinned: false,
            resetting: false,
            finishing: false,
            failed: false,
            lost_from: None,
        }
    }

    /// The end of its capacity.
    pub fn end(&self) -> Lba {
        self.start + self.capacity
    }

    /// The blocks that are left to hand out.
    pub fn room(&self) -> Blocks {
        if self.sealed { Blocks::ZERO } else { self.end() - self.next }
    }

    /// The blocks that are written or given up, and not held.
    pub fn dead(&self) -> Blocks {
        match (self.role, self.sealed) {
            (ZoneRole::Data, true) => self.capacity - self.held,
            (ZoneRole::Data, false) => self.handed_out() - self.held,
            _ => Blocks::ZERO,
        }
    }

    /// Dead blocks that stay in the way, because other blocks of the zone are held.
    pub fn dead_held(&self) -> Blocks {
        if self.held.is_zero() { Blocks::ZERO } else { self.dead() }
    }

    /// The blocks that can be written in it, now or after the reset that it awaits.
    pub fn free(&self) -> Blocks {
        if self.role != ZoneRole::Data || self.owned {
            Blocks::ZERO
        } else if self.held.is_zero() {
            self.capacity
        } else if self.failed || self.cleaning || self.finishing {
            Blocks::ZERO
        } else {
            self.room()
        }
    }

    /// Whether cleaning may empty it: everything held in it can be moved, and something is dead.
    pub fn is_cleanable(&self) -> bool {
        self.role == ZoneRole::Data
            && !self.owned
            && !self.cleaning
            && !self.pinned
            && !self.resetting
            && !self.held.is_zero()
            // A write in progress is held but not named.
            && self.held == self.named
            && (self.failed || self.written == self.next)
            && !self.dead().is_zero()
    }

    /// Whether cleaning began it and it holds only copies. The originals still live, and a cleaning
    /// that breaks off leaves it to be reset.
    pub fn holds_copies(&self) -> bool {
        matches!(self.lane, Some(Lane::Cold(_))) && !self.held.is_zero() && self.named.is_zero()
    }

    /// How many blocks were handed out since it was empty.
    pub fn handed_out(&self) -> Blocks {
        self.next - self.start
    }

    /// Returns the first violation of S1 and S2, in words.
    pub fn check(&self) -> Result<(), String> {
        let Self { id, start, written, next, .. } = self;
        if !(start <= written && written <= next && *next <= self.end()) {
            return Err(format!(
                "S1: {id}: start {start}, written {written}, next {next}, end {} are out of order",
                self.end()
            ));
        }
        if self.held > *next - *start || self.named > self.held {
            return Err(format!(
                "S2: {id}: {} named of {} held of {} handed out",
                self.named,
                self.held,
                *next - *start
            ));
        }
        Ok(())
    }

    pub(super) fn is_usable(&self) -> bool {
        self.role == ZoneRole::Data
            && !(self.owned || self.cleaning || self.resetting || self.finishing || self.failed)
    }

    /// How much can be handed out without a reset.
    pub(super) fn usable_room(&self) -> Blocks {
        if self.is_usable() { self.room() } else { Blocks::ZERO }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.is_usable() && self.next == self.start
    }

    pub(super) fn takes_more(&self) -> bool {
        let is_begun = self.start < self.next && self.next < self.end();
        self.is_usable() && is_begun && !self.sealed && !self.held.is_zero()
    }

    /// Whether it counts against the drive's limit on active zones.
    pub(super) fn is_active(&self) -> bool {
        let begun = self.start < self.next && self.written < self.end();
        self.kind == ZoneKind::SequentialRequired && (begun || self.role == ZoneRole::Catalog)
    }

    /// Whether the drive counts it now. A zone that is only planned does not count yet.
    pub(super) fn is_counted(&self) -> bool {
        let is_taken = self.begun || self.start < self.written;
        self.is_active()
            && self.written < self.end()
            && (is_taken || self.role == ZoneRole::Catalog)
    }

    /// Whether it is handed out to its end, and the planned data are being written.
    pub(super) fn is_being_filled(&self) -> bool {
        let is_under_way = self.next == self.end() && self.written < self.next;
        self.role == ZoneRole::Data && is_under_way && !self.owned && !self.failed
    }

    /// Whether the drive counts it for a long time.
    pub(super) fn keeps_its_slot(&self) -> bool {
        (self.owned && !self.filling) || self.failed || self.role != ZoneRole::Data
    }

    /// Whether a file is being written in it, which will end.
    pub(super) fn is_being_written(&self) -> bool {
        self.begun && self.written < self.next && !self.owned && !self.failed
    }

    pub(super) fn is_dead(&self) -> bool {
        self.role == ZoneRole::Data
            && !(self.owned || self.cleaning || self.resetting || self.finishing)
            && self.held.is_zero()
            && (self.start < self.next)
    }
}

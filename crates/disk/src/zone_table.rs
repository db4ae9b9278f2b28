//! Host-managed zones: write pointers, states, and the limits on open and active zones.
//!
//! ```text
//!     zone 0        zone 1        zone 2 (sequential)          zone 3
//!     conventional  conventional  data data data | unwritten   ...
//!                                                ^ write pointer = start + written
//! ```
//!
//! Invariants
//!   Z1  A refused request changes nothing: every check comes before the first change.
//!   Z2  `open` holds exactly the zones in an open state, in the order in which they were opened.
//!       `active_count` is the number of zones open or closed.
//!   Z3  `data_end[z]` bounds what a reader may see without taking a lock. It grows only after the
//!       bytes below it are stored, and is 0 for an offline zone.
//!   Z4  One writer at a time per zone: a writer that moves a pointer holds the zone's turnstile.
//!   Z5  A zone with a write under way is active. A writer of another zone may close it to make
//!       room; it is then closed, even if nothing is written yet.
//!
//! If several implicitly opened zones could be closed to make room, the one opened first is closed.
//! ZBC leaves the choice to the drive, and determinism needs one.
//!
//! What each command does in each state is a table that the tests execute: docs/guide/zones.md.
//!
//! Source: ZBC (INCITS 536), zone conditions; zone capacity below the zone size as in ZNS.

use crate::{
    BlockRange, Blocks, DiskError, Geometry, Lba, ZoneAction, ZoneId, ZoneInfo, ZoneKind, ZoneSpec,
    ZoneState,
};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How much of a read lies on written blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readable {
    /// All of it.
    Whole,
    /// Some of it lies above a write pointer: read zone by zone, with zeros from
    /// [`ZoneTable::data_end`].
    InPart,
}

/// Enough turnstiles that writers of different zones rarely share one.
const TURNSTILE_COUNT: usize = 64;

/// The part of a zone's condition that survives a power cut. To a drive without power, open and
/// closed are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZoneRecord {
    /// The condition, besides the write pointer.
    pub mark: ZoneMark,
    /// The number of written blocks: the distance of the write pointer from the start.
    pub written: Blocks,
}

impl ZoneRecord {
    /// A zone that has never been written.
    pub const EMPTY: ZoneRecord = ZoneRecord { mark: ZoneMark::Writable, written: Blocks::ZERO };

    /// A zone of `capacity` whose first `written` blocks are written sequentially.
    pub fn at_pointer(written: Blocks, capacity: Blocks) -> ZoneRecord {
        let mark = if written == capacity { ZoneMark::Full } else { ZoneMark::Writable };
        ZoneRecord { mark, written }
    }
}

/// The durable part of a zone's condition. The numbers are on disk: never renumber.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZoneMark {
    /// Empty, closed or conventional.
    Writable = 1,
    /// Written to its capacity, or finished.
    Full = 2,
    /// Given up for writes.
    ReadOnly = 3,
    /// Given up for reads and writes.
    Offline = 4,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Condition {
    NoPointer,
    Empty,
    OpenImplicit,
    OpenExplicit,
    Closed,
    Full,
    ReadOnly,
    Offline,
}

impl Condition {
    fn is_open(self) -> bool {
        matches!(self, Condition::OpenImplicit | Condition::OpenExplicit)
    }
}

#[derive(Clone, Copy, Debug)]
struct Zone {
    condition: Condition,
    written: u64,
    /// Between the two halves of a write (Z5).
    is_writing: bool,
}

impl Zone {
    fn new(condition: Condition, written: Blocks) -> Zone {
        Zone { condition, written: written.get(), is_writing: false }
    }
}

#[derive(Debug)]
struct Zones {
    zones: Vec<Zone>,
    open: Vec<u32>,
    active_count: u32,
}

/// The zones of one drive.
#[derive(Debug)]
pub struct ZoneTable {
    geometry: Geometry,
    spec: ZoneSpec,
    data_end: Box<[AtomicU64]>,
    zones: Mutex<Zones>,
    turnstiles: Box<[Mutex<()>]>,
}

impl ZoneTable {
    /// All zones empty.
    pub fn new(geometry: Geometry, spec: ZoneSpec) -> ZoneTable {
        let zone_count = geometry.zone_count() as usize;
        let table = ZoneTable {
            geometry,
            spec,
            data_end: (0..zone_count).map(|_| AtomicU64::new(0)).collect(),
            zones: Mutex::new(Zones {
                zones: vec![Zone::new(Condition::Empty, Blocks::ZERO); zone_count],
                open: Vec::new(),
                active_count: 0,
            }),
            turnstiles: (0..TURNSTILE_COUNT).map(|_| Mutex::new(())).collect(),
        };
        table.load(|_| ZoneRecord::EMPTY);
        table
    }

    /// Sets every zone to the state in its record, as after a power cycle: no zone is open.
    pub fn load(&self, mut record: impl FnMut(ZoneId) -> ZoneRecord) {
        let mut zones = self.lock();
        for index in 0..zones.zones.len() as u32 {
            self.put(&mut zones, ZoneId(index), record(ZoneId(index)));
        }
    }

    /// Sets one zone to the state in its record, not open. The caller holds its turnstile.
    pub fn reload(&self, zone: ZoneId, record: ZoneRecord) {
        self.put(&mut self.lock(), zone, record);
    }

    fn put(&self, zones: &mut Zones, zone: ZoneId, record: ZoneRecord) {
        let ZoneRecord { mark, written } = record;
        let condition = match mark {
            ZoneMark::ReadOnly => Condition::ReadOnly,
            ZoneMark::Offline => Condition::Offline,
            _ if self.is_conventional(zone) => Condition::NoPointer,
            ZoneMark::Full => Condition::Full,
            ZoneMark::Writable if written.is_zero() => Condition::Empty,
            ZoneMark::Writable => Condition::Closed,
        };
        self.leave_active(zones, zone, condition);
        if condition == Condition::Closed {
            zones.active_count += 1;
        }
        zones.zones[zone.0 as usize] = Zone::new(condition, written);
        self.publish(zone, zones.zones[zone.0 as usize]);
    }

    /// The durable part of a zone's current condition.
    pub fn record(&self, zone: ZoneId) -> ZoneRecord {
        let entry = self.lock().zones[zone.0 as usize];
        let mark = match entry.condition {
            Condition::Full => ZoneMark::Full,
            Condition::ReadOnly => ZoneMark::ReadOnly,
            Condition::Offline => ZoneMark::Offline,
            _ => ZoneMark::Writable,
        };
        ZoneRecord { mark, written: Blocks::new(entry.written) }
    }

    /// Waits for the other writers of `zone` (Z4).
    pub fn turnstile(&self, zone: ZoneId) -> MutexGuard<'_, ()> {
        pass(&self.turnstiles[zone.0 as usize % TURNSTILE_COUNT])
    }

    /// Waits for all writers (Z4).
    pub fn all_turnstiles(&self) -> Vec<MutexGuard<'_, ()>> {
        // Always in the same order, and a writer holds only one, so there is no deadlock.
        self.turnstiles.iter().map(pass).collect()
    }

    /// Whether `zone` takes writes anywhere.
    pub fn is_conventional(&self, zone: ZoneId) -> bool {
        zone.0 < self.spec.conventional_zone_count
    }

    /// The first block of `zone` that holds no data.
    pub fn data_end(&self, zone: ZoneId) -> Lba {
        Lba::new(self.data_end[zone.0 as usize].load(Ordering::Acquire))
    }

    /// Whether `range` may be read. Takes no lock if all of it is written.
    pub fn check_read(&self, range: BlockRange) -> Result<Readable, DiskError> {
        self.check_read_boundary(range)?;
        let mut readable = Readable::Whole;
        for (zone, part) in self.parts(range) {
            if part.end() > self.data_end(zone) {
                self.check_read_above(zone, range)?;
                readable = Readable::InPart;
            }
        }
        Ok(readable)
    }

    /// `range` cut at zone boundaries. The range lies on the disk.
    pub fn parts(&self, range: BlockRange) -> impl Iterator<Item = (ZoneId, BlockRange)> {
        let zone_len = self.spec.zone_len.get();
        let (mut at, end) = (range.start.get(), range.end().get());
        std::iter::from_fn(move || {
            (at < end).then(|| {
                let zone = at / zone_len;
                let part_end = end.min((zone + 1) * zone_len);
                let part = BlockRange::new(Lba::new(at), Blocks::new(part_end - at));
                at = part_end;
                (ZoneId(zone as u32), part)
            })
        })
    }

    /// Fills `buf` with the content of `range`, which lies partly above a write pointer: `read`
    /// supplies the written part, zeros fill the rest.
    ///
    /// # Errors
    /// Those of `read`.
    pub fn read_written(
        &self,
        range: BlockRange,
        buf: &mut [u8],
        mut read: impl FnMut(Lba, &mut [u8]) -> Result<(), DiskError>,
    ) -> Result<(), DiskError> {
        for (zone, part) in self.parts(range) {
            let from = (part.start - range.start).bytes() as usize;
            let part_buf = &mut buf[from..from + part.len.bytes() as usize];
            let data_end = self.data_end(zone).max(part.start).min(part.end());
            let (data, rest) = part_buf.split_at_mut((data_end - part.start).bytes() as usize);
            if !data.is_empty() {
                read(part.start, data)?;
            }
            rest.fill(0);
        }
        Ok(())
    }

    /// On a strict drive, a read of a sequential zone stays in that zone.
    fn check_read_boundary(&self, range: BlockRange) -> Result<(), DiskError> {
        let zone_of = |at: u64| ZoneId((at / self.spec.zone_len.get()) as u32);
        let (first, last) = (zone_of(range.start.get()), zone_of(range.end().get() - 1));
        // The conventional zones come first.
        if !self.spec.strict_reads || first == last || self.is_conventional(last) {
            return Ok(());
        }
        let end = self.start(ZoneId(first.0 + 1));
        Err(DiskError::ReadBoundary { zone: first, range, end })
    }

    fn check_read_above(&self, zone: ZoneId, range: BlockRange) -> Result<(), DiskError> {
        let entry = self.lock().zones[zone.0 as usize];
        let write_pointer = self.start(zone) + Blocks::new(entry.written);
        match entry.condition {
            Condition::Offline => Err(DiskError::Offline { zone }),
            Condition::Full | Condition::NoPointer => Ok(()),
            Condition::ReadOnly if self.spec.strict_reads => {
                // The zone has no pointer any more. The drive shows only which of these blocks it
                // refuses.
                let write_pointer = write_pointer.max(range.start);
                Err(DiskError::ReadAbovePointer { zone, range, write_pointer })
            }
            _ if self.spec.strict_reads => {
                Err(DiskError::ReadAbovePointer { zone, range, write_pointer })
            }
            _ => Ok(()),
        }
    }

    /// Checks a write and opens its sequential zone. The caller holds the zone's turnstile, and
    /// ends with [`ZoneTable::commit_write`] or [`ZoneTable::abandon_write`].
    pub fn begin_write(&self, range: BlockRange) -> Result<Option<ZoneId>, DiskError> {
        let first = ZoneId((range.start.get() / self.spec.zone_len.get()) as u32);
        let mut zones = self.lock();
        if self.is_conventional(first) {
            return self.check_conventional(&zones, first, range).map(|()| None);
        }
        // A write that leaves the zone is wrong in every state, so this check comes first.
        let zone_end = self.geometry.zone_range(first).expect("the range lies on the disk").end();
        if range.end() > zone_end {
            let end = self.start(first) + self.capacity(first);
            return Err(DiskError::ZoneBoundary { zone: first, range, end });
        }
        let entry = zones.zones[first.0 as usize];
        if matches!(entry.condition, Condition::Full | Condition::ReadOnly | Condition::Offline) {
            return Err(self.not_writable(first, entry, "write"));
        }
        let expected = self.start(first) + Blocks::new(entry.written);
        if range.start != expected {
            return Err(DiskError::NotAtWritePointer { zone: first, expected, got: range.start });
        }
        let end = self.start(first) + self.capacity(first);
        if range.end() > end {
            return Err(DiskError::ZoneBoundary { zone: first, range, end });
        }
        if !entry.condition.is_open() {
            self.open(&mut zones, first, Condition::OpenImplicit, "write")?;
        }
        zones.zones[first.0 as usize].is_writing = true;
        Ok(Some(first))
    }

    fn check_conventional(
        &self,
        zones: &Zones,
        first: ZoneId,
        range: BlockRange,
    ) -> Result<(), DiskError> {
        for (zone, part) in self.parts(range) {
            if !self.is_conventional(zone) {
                return Err(DiskError::ZoneBoundary { zone: first, range, end: part.start });
            }
            let entry = zones.zones[zone.0 as usize];
            if entry.condition != Condition::NoPointer {
                return Err(self.not_writable(zone, entry, "write"));
            }
        }
        Ok(())
    }

    /// Moves the pointer of `zone` to `end`. The bytes below it are stored.
    pub fn commit_write(&self, zone: ZoneId, end: Lba) {
        let mut zones = self.lock();
        let written = (end - self.start(zone)).get();
        let entry = &mut zones.zones[zone.0 as usize];
        (entry.written, entry.is_writing) = (written, false);
        if written == self.capacity(zone).get() {
            self.leave_active(&mut zones, zone, Condition::Full);
        }
        self.publish(zone, zones.zones[zone.0 as usize]);
    }

    /// Ends a write that failed: nothing was stored.
    pub fn abandon_write(&self, zone: Option<ZoneId>) {
        let Some(zone) = zone else { return };
        let mut zones = self.lock();
        let entry = &mut zones.zones[zone.0 as usize];
        entry.is_writing = false;
        if entry.condition == Condition::Closed && entry.written == 0 {
            self.leave_active(&mut zones, zone, Condition::Empty);
        }
    }

    /// Whether `action` on `zone` is allowed. `Ok(false)` if it would change nothing.
    pub fn check_action(&self, zone: ZoneId, action: ZoneAction) -> Result<bool, DiskError> {
        let zones = self.lock();
        let Some(&entry) = zones.zones.get(zone.0 as usize) else {
            let reason = format!("the disk has {} zones", zones.zones.len());
            return Err(DiskError::NoSuchZone { zone, action, reason });
        };
        if self.is_conventional(zone) {
            let reason = "the zone is conventional".to_owned();
            return Err(DiskError::NoSuchZone { zone, action, reason });
        }
        let verb = verb(action);
        match (action, entry.condition) {
            (_, Condition::ReadOnly | Condition::Offline) => {
                Err(self.not_writable(zone, entry, verb))
            }
            (ZoneAction::Open, Condition::OpenExplicit | Condition::Full)
            | (ZoneAction::Close, Condition::Closed | Condition::Empty | Condition::Full)
            | (ZoneAction::Finish, Condition::Full)
            | (ZoneAction::Reset, Condition::Empty) => Ok(false),
            // A finish passes through the open state, so it needs what an open needs.
            (ZoneAction::Open | ZoneAction::Finish, Condition::Empty | Condition::Closed) => {
                self.check_room(&zones, zone, verb).map(|_| true)
            }
            _ => Ok(true),
        }
    }

    /// Makes room among the open zones for `action` on `zone`, which [`ZoneTable::check_action`]
    /// allowed: closes an implicitly open zone if the limit requires it. A host calls this to close
    /// the same zone on a drive that does not make room by itself.
    ///
    /// # Errors
    /// [`DiskError::TooManyZones`].
    pub fn make_room(&self, zone: ZoneId, action: ZoneAction) -> Result<(), DiskError> {
        let mut zones = self.lock();
        let condition = zones.zones[zone.0 as usize].condition;
        let opens = matches!(action, ZoneAction::Open | ZoneAction::Finish);
        if opens && matches!(condition, Condition::Empty | Condition::Closed) {
            self.close_for(&mut zones, zone, verb(action))?;
        }
        Ok(())
    }

    /// Performs an action that [`ZoneTable::check_action`] allowed.
    ///
    /// # Errors
    /// [`DiskError::TooManyZones`]: a writer of another zone has taken the room since.
    pub fn apply_action(&self, zone: ZoneId, action: ZoneAction) -> Result<(), DiskError> {
        let mut zones = self.lock();
        let index = zone.0 as usize;
        match action {
            ZoneAction::Open if zones.zones[index].condition == Condition::OpenImplicit => {
                zones.zones[index].condition = Condition::OpenExplicit;
            }
            ZoneAction::Open => self.open(&mut zones, zone, Condition::OpenExplicit, "open")?,
            ZoneAction::Close if zones.zones[index].written == 0 => {
                self.leave_active(&mut zones, zone, Condition::Empty);
            }
            ZoneAction::Close => self.close(&mut zones, zone),
            ZoneAction::Finish => {
                // The zone was open only in passing, so it is finished even if the room is gone since.
                if matches!(zones.zones[index].condition, Condition::Empty | Condition::Closed)
                    && let Ok(Some(victim)) = self.check_room(&zones, zone, "finish")
                {
                    self.close(&mut zones, victim);
                }
                self.leave_active(&mut zones, zone, Condition::Full);
            }
            ZoneAction::Reset => {
                self.leave_active(&mut zones, zone, Condition::Empty);
                zones.zones[index].written = 0;
            }
        }
        self.publish(zone, zones.zones[index]);
        Ok(())
    }

    /// Gives a zone up, as a failing drive does. It stays so until the disk is formatted again.
    pub fn give_up(&self, zone: ZoneId, mark: ZoneMark) {
        let condition = match mark {
            ZoneMark::Offline => Condition::Offline,
            _ => Condition::ReadOnly,
        };
        let mut zones = self.lock();
        self.leave_active(&mut zones, zone, condition);
        self.publish(zone, zones.zones[zone.0 as usize]);
    }

    /// The report of one zone.
    pub fn info(&self, zone: ZoneId) -> Option<ZoneInfo> {
        let range = self.geometry.zone_range(zone)?;
        let entry = self.lock().zones[zone.0 as usize];
        let kind = if self.is_conventional(zone) {
            ZoneKind::Conventional
        } else {
            ZoneKind::SequentialRequired
        };
        Some(ZoneInfo {
            zone,
            kind,
            start: range.start,
            len: range.len,
            capacity: self.capacity(zone),
            state: self.state(zone, entry),
        })
    }

    fn open(
        &self,
        zones: &mut Zones,
        zone: ZoneId,
        condition: Condition,
        action: &'static str,
    ) -> Result<(), DiskError> {
        self.close_for(zones, zone, action)?;
        let entry = &mut zones.zones[zone.0 as usize];
        if entry.condition == Condition::Empty {
            zones.active_count += 1;
        }
        entry.condition = condition;
        zones.open.push(zone.0);
        assert!(zones.open.len() <= zones.active_count as usize, "Z2: an open zone is active");
        Ok(())
    }

    /// Whether `zone`, which is empty or closed, may be opened; and the zone to close for it.
    fn check_room(
        &self,
        zones: &Zones,
        zone: ZoneId,
        action: &'static str,
    ) -> Result<Option<ZoneId>, DiskError> {
        if zones.zones[zone.0 as usize].condition == Condition::Empty {
            self.check_active(zones, zone, action)?;
        }
        let Some(limit) = self.spec.open_zone_limit else { return Ok(None) };
        if zones.open.len() < limit as usize {
            return Ok(None);
        }
        let implicit = |&z: &u32| zones.zones[z as usize].condition == Condition::OpenImplicit;
        match zones.open.iter().copied().find(implicit) {
            Some(victim) => Ok(Some(ZoneId(victim))),
            None => Err(DiskError::TooManyZones { zone, action, what: "open", limit }),
        }
    }

    fn close_for(
        &self,
        zones: &mut Zones,
        zone: ZoneId,
        action: &'static str,
    ) -> Result<(), DiskError> {
        if let Some(victim) = self.check_room(zones, zone, action)? {
            self.close(zones, victim);
        }
        Ok(())
    }

    fn check_active(
        &self,
        zones: &Zones,
        zone: ZoneId,
        action: &'static str,
    ) -> Result<(), DiskError> {
        match self.spec.active_zone_limit {
            Some(limit) if zones.active_count >= limit => {
                Err(DiskError::TooManyZones { zone, action, what: "active", limit })
            }
            _ => Ok(()),
        }
    }

    /// Closes an open zone. If a write opened it implicitly and then failed, so that nothing is
    /// written, it becomes empty again.
    fn close(&self, zones: &mut Zones, zone: ZoneId) {
        let entry = zones.zones[zone.0 as usize];
        if entry.written == 0 && !entry.is_writing {
            self.leave_active(zones, zone, Condition::Empty);
            return;
        }
        zones.open.retain(|&open| open != zone.0);
        zones.zones[zone.0 as usize].condition = Condition::Closed;
    }

    fn leave_active(&self, zones: &mut Zones, zone: ZoneId, condition: Condition) {
        let entry = &mut zones.zones[zone.0 as usize];
        if entry.condition.is_open() {
            zones.open.retain(|&open| open != zone.0);
            zones.active_count -= 1;
        } else if entry.condition == Condition::Closed {
            zones.active_count -= 1;
        }
        entry.condition = condition;
    }

    fn publish(&self, zone: ZoneId, entry: Zone) {
        let start = self.start(zone);
        let data_end = match entry.condition {
            Condition::Offline => Lba::new(0),
            _ if self.is_conventional(zone) => start + self.capacity(zone),
            _ => start + Blocks::new(entry.written),
        };
        self.data_end[zone.0 as usize].store(data_end.get(), Ordering::Release);
    }

    fn state(&self, zone: ZoneId, entry: Zone) -> ZoneState {
        let write_pointer = self.start(zone) + Blocks::new(entry.written);
        match entry.condition {
            Condition::NoPointer => ZoneState::NoPointer,
            Condition::Empty => ZoneState::Empty,
            Condition::OpenImplicit => ZoneState::Open { write_pointer, explicit: false },
            Condition::OpenExplicit => ZoneState::Open { write_pointer, explicit: true },
            Condition::Closed => ZoneState::Closed { write_pointer },
            Condition::Full => ZoneState::Full,
            Condition::ReadOnly => ZoneState::ReadOnly,
            Condition::Offline => ZoneState::Offline,
        }
    }

    fn not_writable(&self, zone: ZoneId, entry: Zone, action: &'static str) -> DiskError {
        DiskError::ZoneNotWritable { zone, state: self.state(zone, entry), action }
    }

    fn start(&self, zone: ZoneId) -> Lba {
        Lba::new(u64::from(zone.0) * self.spec.zone_len.get())
    }

    fn capacity(&self, zone: ZoneId) -> Blocks {
        self.geometry.zone_capacity(zone).expect("callers name zones of this table only")
    }

    fn lock(&self) -> MutexGuard<'_, Zones> {
        self.zones.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn verb(action: ZoneAction) -> &'static str {
    match action {
        ZoneAction::Open => "open",
        ZoneAction::Close => "close",
        ZoneAction::Finish => "finish",
        ZoneAction::Reset => "reset",
    }
}

fn pass(turnstile: &Mutex<()>) -> MutexGuard<'_, ()> {
    turnstile.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;

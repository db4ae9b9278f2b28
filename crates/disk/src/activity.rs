//! Activities: what requests to a disk serve, and handles that count them apart.
//!
//! ```text
//!   files:  Handles of the drive --+-- Log --------> the writer of logs
//!                                  +-- Compaction -> the writer of tables, readers of compactions
//!                                  +-- Cleaning ---> the cleaner
//!                                        | read, write, flush
//!   drive:  read_batch_as(Cleaning, ..), write_as(..): one more index into its counters
//! ```
//!
//! A request does not name its activity: its sender has a handle of the disk for each. So no request
//! is longer, nothing is kept beside a thread, and a disk that counts nothing hands out itself.
//!
//! Invariants
//!   A1  A handle changes no request, no order and no time.
//!   A2  The counters of all activities add up to the disk's own.
//!
//! Sources: RocksDB's `IOActivity` names the activity of each request; Pebble's `DiskWriteCategory`
//! and the write hints of Linux belong to an open file, as our handles do.

use crate::{
    BlockRange, Blocks, Counters, Disk, DiskError, Geometry, Known, Lba, Pba, Persist, ReadRequest,
    ZoneAction, ZoneId, ZoneInfo,
};
use std::ops::{Index, IndexMut, Sub};
use std::sync::Arc;

/// What a request serves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Activity {
    /// Reads that a user of the store waits for.
    User,
    /// Logs, which make the user's writes durable.
    Log,
    /// Memtables that become tables.
    Flush,
    /// Merges of tables: what they read and what they write.
    Compaction,
    /// Live data moved out of the way: cleaning of zones and sets, rewrites of tracks and bands, and
    /// resets.
    Cleaning,
    /// The catalog, and the maps of translation layers.
    Catalog,
    /// Everything else: opening, checks, copies, and users that name no activity.
    #[default]
    Other,
}

impl Activity {
    /// All of them.
    pub const ALL: [Activity; 7] = [
        Activity::User,
        Activity::Log,
        Activity::Flush,
        Activity::Compaction,
        Activity::Cleaning,
        Activity::Catalog,
        Activity::Other,
    ];

    /// Its name, for people and programs; does not change.
    pub fn name(self) -> &'static str {
        match self {
            Activity::User => "user",
            Activity::Log => "log",
            Activity::Flush => "flush",
            Activity::Compaction => "compaction",
            Activity::Cleaning => "cleaning",
            Activity::Catalog => "catalog",
            Activity::Other => "other",
        }
    }
}

/// A value for each activity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ByActivity<T>([T; Activity::ALL.len()]);

impl<T> ByActivity<T> {
    /// The values that `value` returns.
    pub fn of(value: impl FnMut(Activity) -> T) -> ByActivity<T> {
        ByActivity(Activity::ALL.map(value))
    }

    /// Each activity with its value.
    pub fn iter(&self) -> impl Iterator<Item = (Activity, &T)> {
        Activity::ALL.into_iter().zip(&self.0)
    }
}

impl<T> Index<Activity> for ByActivity<T> {
    type Output = T;
    fn index(&self, activity: Activity) -> &T {
        &self.0[activity as usize]
    }
}

impl<T> IndexMut<Activity> for ByActivity<T> {
    fn index_mut(&mut self, activity: Activity) -> &mut T {
        &mut self.0[activity as usize]
    }
}

impl<T: Copy + Sub> Sub for ByActivity<T> {
    type Output = ByActivity<T::Output>;
    fn sub(self, before: ByActivity<T>) -> ByActivity<T::Output> {
        ByActivity::of(|activity| self[activity] - before[activity])
    }
}

/// The part of a disk's [`Counters`] that served one activity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ActivityCounters {
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Time the modelled disk was busy, in nanoseconds; 0 on a disk without mechanics. Data that
    /// the drive's cache holds count when they reach the platter.
    pub busy_ns: u64,
    /// Part of `busy_ns`: the head moved to another track.
    pub seek_ns: u64,
    /// Part of `busy_ns`: the head waited for the platter to turn.
    pub turn_ns: u64,
    /// Part of `busy_ns`: blocks passed below the head.
    pub transfer_ns: u64,
}

impl Sub for ActivityCounters {
    type Output = ActivityCounters;
    fn sub(self, before: ActivityCounters) -> ActivityCounters {
        ActivityCounters {
            read_bytes: self.read_bytes - before.read_bytes,
            written_bytes: self.written_bytes - before.written_bytes,
            busy_ns: self.busy_ns - before.busy_ns,
            seek_ns: self.seek_ns - before.seek_ns,
            turn_ns: self.turn_ns - before.turn_ns,
            transfer_ns: self.transfer_ns - before.transfer_ns,
        }
    }
}

/// A disk that counts what serves which activity. Its methods of [`Disk`] count as
/// [`Activity::Other`].
pub trait CountsActivities: Disk {
    /// As [`Disk::read_batch`].
    ///
    /// # Errors
    /// As there.
    fn read_batch_as(
        &self,
        activity: Activity,
        requests: &mut [ReadRequest<'_>],
    ) -> Result<(), DiskError>;

    /// As [`Disk::write`].
    ///
    /// # Errors
    /// As there.
    fn write_as(
        &self,
        activity: Activity,
        at: Lba,
        data: &[u8],
        persist: Persist,
    ) -> Result<(), DiskError>;

    /// As [`Disk::flush`].
    ///
    /// # Errors
    /// As there.
    fn flush_as(&self, activity: Activity) -> Result<(), DiskError>;

    /// As [`Disk::manage_zone`].
    ///
    /// # Errors
    /// As there.
    fn manage_zone_as(
        &self,
        activity: Activity,
        zone: ZoneId,
        action: ZoneAction,
    ) -> Result<(), DiskError>;
}

/// A disk whose requests serve one activity; what [`Disk::for_activity`] returns.
#[derive(Debug)]
pub struct ActivityHandle<D> {
    disk: Arc<D>,
    activity: Activity,
}

impl<D: CountsActivities> ActivityHandle<D> {
    /// `disk`, for requests that serve `activity`.
    pub fn new(disk: Arc<D>, activity: Activity) -> ActivityHandle<D> {
        ActivityHandle { disk, activity }
    }
}

impl<D: CountsActivities + 'static> Disk for ActivityHandle<D> {
    fn geometry(&self) -> &Geometry {
        self.disk.geometry()
    }

    fn read(&self, at: Lba, buf: &mut [u8]) -> Result<(), DiskError> {
        self.disk.read_batch_as(self.activity, &mut [ReadRequest { at, buf }])
    }

    fn read_batch(&self, requests: &mut [ReadRequest<'_>]) -> Result<(), DiskError> {
        self.disk.read_batch_as(self.activity, requests)
    }

    fn write(&self, at: Lba, data: &[u8], persist: Persist) -> Result<(), DiskError> {
        self.disk.write_as(self.activity, at, data, persist)
    }

    fn flush(&self) -> Result<(), DiskError> {
        self.disk.flush_as(self.activity)
    }

    fn discard(&self, range: BlockRange) -> Result<(), DiskError> {
        self.disk.discard(range)
    }

    fn write_zeroes(&self, range: BlockRange, persist: Persist) -> Result<(), DiskError> {
        self.disk.write_zeroes(range, persist)
    }

    fn work(&self) -> Result<bool, DiskError> {
        self.disk.work()
    }

    fn zeroes_are_cheap(&self) -> bool {
        self.disk.zeroes_are_cheap()
    }

    fn known(&self, range: BlockRange) -> (Known, Blocks) {
        self.disk.known(range)
    }

    fn zone(&self, zone: ZoneId) -> Option<ZoneInfo> {
        self.disk.zone(zone)
    }

    fn report_zones(&self) -> Vec<ZoneInfo> {
        self.disk.report_zones()
    }

    fn manage_zone(&self, zone: ZoneId, action: ZoneAction) -> Result<(), DiskError> {
        self.disk.manage_zone_as(self.activity, zone, action)
    }

    fn reset_zones(&self) -> Result<(), DiskError> {
        self.disk.reset_zones()
    }

    fn counters(&self) -> Counters {
        self.disk.counters()
    }

    fn head(&self) -> Option<Pba> {
        self.disk.head()
    }

    fn for_activity(self: Arc<Self>, activity: Activity) -> Option<Arc<dyn Disk>> {
        Arc::clone(&self.disk).for_activity(activity)
    }
}

/// The handles of one disk. Where the disk does not count by activity, each is the disk itself.
#[derive(Clone, Debug)]
pub struct Handles(ByActivity<Arc<dyn Disk>>);

impl Handles {
    /// The handles of `disk`.
    pub fn new(disk: &Arc<dyn Disk>) -> Handles {
        let handle = |activity| Arc::clone(disk).for_activity(activity);
        Handles(ByActivity::of(|activity| handle(activity).unwrap_or_else(|| Arc::clone(disk))))
    }

    /// The disk, for requests that serve `activity`.
    pub fn of(&self, activity: Activity) -> &Arc<dyn Disk> {
        &self.0[activity]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn activities_have_their_own_places_and_names() {
        let numbers = ByActivity::of(|activity| activity as usize);
        assert!(numbers.iter().all(|(activity, &number)| Activity::ALL[number] == activity));
        let mut names: Vec<&str> = Activity::ALL.iter().map(|activity| activity.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Activity::ALL.len());
    }
}

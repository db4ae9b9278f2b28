//! The disk as one process sees it: cut off when the process is killed, though the disk lives on.
//!
//! A store that is dropped closes in good order; only if nothing reaches the disk any more is the
//! drop what a `kill -9` is.

use imbrex_disk::{
    BlockRange, Counters, Disk, DiskError, Geometry, Lba, Persist, ReadRequest, ZoneAction, ZoneId,
    ZoneInfo,
};
use imbrex_disk_sim::{FaultPlan, SimDisk};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// One process's hold on the disk.
#[derive(Debug)]
pub(crate) struct Leash {
    disk: Arc<SimDisk>,
    /// The process is gone: it is one for all drives.
    is_cut: Arc<AtomicBool>,
    /// Whether it goes when a sync of this drive fails.
    dies_in_sync: AtomicBool,
    /// The disk that loses its power together with this one.
    beside: Mutex<Option<Arc<SimDisk>>>,
}

impl Leash {
    pub(crate) fn new(disk: Arc<SimDisk>) -> Leash {
        let (is_cut, dies_in_sync) = (Arc::default(), AtomicBool::new(false));
        Leash { disk, is_cut, dies_in_sync, beside: Mutex::default() }
    }

    /// The same process's hold on another disk.
    pub(crate) fn on(&self, disk: Arc<SimDisk>) -> Leash {
        Leash { is_cut: Arc::clone(&self.is_cut), ..Leash::new(disk) }
    }

    /// The next sync of this disk is the process's end; it is cached and not flushed.
    pub(crate) fn die_in_sync(&self) {
        self.disk.set_faults(FaultPlan { kill_in_sync: true, ..FaultPlan::default() });
        self.dies_in_sync.store(true, Ordering::Relaxed);
    }

    /// When this disk's power goes, that of `beside` goes at the same moment.
    pub(crate) fn tie(&self, beside: Option<Arc<SimDisk>>) {
        *self.beside.lock().unwrap_or_else(PoisonError::into_inner) = beside;
    }

    /// From now on every request fails.
    pub(crate) fn cut(&self) {
        self.is_cut.store(true, Ordering::Relaxed);
    }

    fn disk(&self) -> Result<&SimDisk, DiskError> {
        if self.is_cut.load(Ordering::Relaxed) { Err(DiskError::PowerLost) } else { Ok(&self.disk) }
    }

    /// Passes on what the disk said, and its darkness to the disk beside it.
    fn heard(&self, outcome: Result<(), DiskError>) -> Result<(), DiskError> {
        if matches!(outcome, Err(DiskError::PowerLost)) {
            let beside = self.beside.lock().unwrap_or_else(PoisonError::into_inner).take();
            beside.iter().for_each(|disk| disk.cut_power());
        }
        if self.dies_in_sync.load(Ordering::Relaxed) && matches!(outcome, Err(DiskError::Poisoned))
        {
            self.cut();
        }
        outcome
    }
}

impl Disk for Leash {
    fn geometry(&self) -> &Geometry {
        self.disk.geometry()
    }
    fn read(&self, at: Lba, buf: &mut [u8]) -> Result<(), DiskError> {
        self.heard(self.disk()?.read(at, buf))
    }
    fn read_batch(&self, requests: &mut [ReadRequest<'_>]) -> Result<(), DiskError> {
        self.heard(self.disk()?.read_batch(requests))
    }
    fn write(&self, at: Lba, data: &[u8], persist: Persist) -> Result<(), DiskError> {
        self.heard(self.disk()?.write(at, data, persist))
    }
    fn flush(&self) -> Result<(), DiskError> {
        self.heard(self.disk()?.flush())
    }
    fn discard(&self, range: BlockRange) -> Result<(), DiskError> {
        self.heard(self.disk()?.discard(range))
    }
    fn zone(&self, zone: ZoneId) -> Option<ZoneInfo> {
        self.disk.zone(zone)
    }
    fn report_zones(&self) -> Vec<ZoneInfo> {
        self.disk.report_zones()
    }
    fn manage_zone(&self, zone: ZoneId, action: ZoneAction) -> Result<(), DiskError> {
        self.heard(self.disk()?.manage_zone(zone, action))
    }
    fn counters(&self) -> Counters {
        self.disk.counters()
    }
}

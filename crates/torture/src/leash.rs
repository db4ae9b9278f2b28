//! The disk as one process sees it: cut off when the process is killed, while the disk lives on.
//!
//! A dropped store closes in good order. A drop equals a `kill -9` only if nothing reaches the disk
//! any more.

use imbrex_disk::{
    BlockRange, Counters, Disk, DiskError, Geometry, Lba, Persist, ReadRequest, ZoneAction, ZoneId,
    ZoneInfo,
};
use imbrex_disk_sim::SimDisk;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// One process's access to the disk.
#[derive(Debug)]
pub(crate) struct Leash {
    disk: Arc<SimDisk>,
    is_cut: AtomicBool,
    /// The disk that loses its power together with this one.
    beside: Mutex<Option<Arc<SimDisk>>>,
}

impl Leash {
    pub(crate) fn new(disk: Arc<SimDisk>) -> Leash {
        Leash { disk, is_cut: AtomicBool::new(false), beside: Mutex::default() }
    }

    /// When this disk loses its power, `beside` loses it at the same moment.
    pub(crate) fn tie(&self, beside: Option<Arc<SimDisk>>) {
        *self.beside.lock().unwrap_or_else(PoisonError::into_inner) = beside;
    }

    /// Makes every request fail from now on.
    pub(crate) fn cut(&self) {
        self.is_cut.store(true, Ordering::Relaxed);
    }

    fn disk(&self) -> Result<&SimDisk, DiskError> {
        if self.is_cut.load(Ordering::Relaxed) { Err(DiskError::PowerLost) } else { Ok(&self.disk) }
    }

    /// Passes on the disk's result. If the disk is without power, also cuts that of the disk next
    /// to it.
    fn heard(&self, outcome: Result<(), DiskError>) -> Result<(), DiskError> {
        if matches!(outcome, Err(DiskError::PowerLost)) {
            let beside = self.beside.lock().unwrap_or_else(PoisonError::into_inner).take();
            beside.iter().for_each(|disk| disk.cut_power());
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

//! A kill switch between one process and its disk: a killed process reaches the disk no more, while the disk lives on.
//!
//! A store that is dropped closes in good order. The drop stands for a `kill -9` only if nothing reaches the disk any
//! more.

use imbrex_disk::{
    BlockRange, Disk, DiskError, DiskLayer, Lba, Persist, ReadRequest, ZoneAction, ZoneId, ZoneInfo,
};
use imbrex_disk_sim::SimDisk;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// One process's access to the disk.
#[derive(Debug)]
pub(crate) struct KillSwitch {
    disk: Arc<SimDisk>,
    is_killed: AtomicBool,
    /// The disk that loses its power together with this one.
    beside: Mutex<Option<Arc<SimDisk>>>,
}

impl KillSwitch {
    pub(crate) fn new(disk: Arc<SimDisk>) -> KillSwitch {
        KillSwitch { disk, is_killed: AtomicBool::new(false), beside: Mutex::default() }
    }

    /// When this disk loses its power, `beside` loses it at the same moment.
    pub(crate) fn tie(&self, beside: Option<Arc<SimDisk>>) {
        *self.beside.lock().unwrap_or_else(PoisonError::into_inner) = beside;
    }

    /// Makes every request fail from now on.
    pub(crate) fn kill(&self) {
        self.is_killed.store(true, Ordering::Relaxed);
    }

    fn disk(&self) -> Result<&SimDisk, DiskError> {
        if self.is_killed.load(Ordering::Relaxed) {
            Err(DiskError::PowerLost)
        } else {
            Ok(&self.disk)
        }
    }

    /// Returns `outcome`; if the disk has lost its power, cuts that of the disk beside it.
    fn passed_on(&self, outcome: Result<(), DiskError>) -> Result<(), DiskError> {
        if matches!(outcome, Err(DiskError::PowerLost)) {
            let beside = self.beside.lock().unwrap_or_else(PoisonError::into_inner).take();
            beside.iter().for_each(|disk| disk.cut_power());
        }
        outcome
    }
}

impl DiskLayer for KillSwitch {
    fn below(&self) -> &dyn Disk {
        &*self.disk
    }

    fn pass_read(&self, at: Lba, buf: &mut [u8]) -> Result<(), DiskError> {
        self.passed_on(self.disk()?.read(at, buf))
    }
    fn pass_read_batch(&self, requests: &mut [ReadRequest<'_>]) -> Result<(), DiskError> {
        self.passed_on(self.disk()?.read_batch(requests))
    }
    fn pass_write(&self, at: Lba, data: &[u8], persist: Persist) -> Result<(), DiskError> {
        self.passed_on(self.disk()?.write(at, data, persist))
    }
    fn pass_flush(&self) -> Result<(), DiskError> {
        self.passed_on(self.disk()?.flush())
    }
    fn pass_discard(&self, range: BlockRange) -> Result<(), DiskError> {
        self.passed_on(self.disk()?.discard(range))
    }
    fn pass_report_zones(&self) -> Vec<ZoneInfo> {
        self.disk.report_zones()
    }
    fn pass_manage_zone(&self, zone: ZoneId, action: ZoneAction) -> Result<(), DiskError> {
        self.passed_on(self.disk()?.manage_zone(zone, action))
    }
}

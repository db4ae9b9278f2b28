//! Flushes of the drive, one after the other, and none after one that failed.
//!
//! ```text
//!     a flush of the host, without the lock   | fails |
//!     a flush in the same device, with it             | refused: what the first one lost is not durable |
//! ```
//!
//! A drive may lose what a failed flush was to make durable, and answer the next flush with success.
//! A host's flush waits without the driver's lock (K9), so its failure poisons the state a moment
//! later. Until then a checkpoint or a reset could rely on the next flush. It gets an error instead.
//!
//! Source: Rebello and others, Can applications recover from fsync failures? (USENIX ATC 2020), for
//! what follows a failed flush. Not here: the poison of the state (`device`).

use imbrex_disk::{
    Activity, BLOCK_LEN_BYTES, Disk, DiskError, DiskLayer, Lba, Persist, ReadRequest, ZoneInfo,
};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The drive below a block device.
#[derive(Debug)]
pub(super) struct FlushesInTurn {
    below: Arc<dyn Disk>,
    /// Held during a flush: whether one has failed.
    has_failed: Arc<Mutex<bool>>,
    written: Arc<Written>,
}

/// How much was written by all handles, in blocks.
#[derive(Debug, Default)]
pub(super) struct Written {
    all: AtomicU64,
    /// Of that, what was written before the last flush began.
    flushed: AtomicU64,
}

impl Written {
    /// All that was written.
    pub(super) fn all(&self) -> u64 {
        self.all.load(Ordering::Relaxed)
    }

    /// What the drive may still have in its cache.
    pub(super) fn unflushed(&self) -> u64 {
        self.all().saturating_sub(self.flushed.load(Ordering::Relaxed))
    }
}

impl FlushesInTurn {
    /// `below`, before any flush.
    pub(super) fn new(below: Arc<dyn Disk>) -> FlushesInTurn {
        FlushesInTurn { below, has_failed: Arc::default(), written: Arc::default() }
    }

    /// What all handles write from now on.
    pub(super) fn written(&self) -> Arc<Written> {
        Arc::clone(&self.written)
    }
}

impl DiskLayer for FlushesInTurn {
    fn below(&self) -> &dyn Disk {
        &*self.below
    }

    fn pass_read_batch(&self, requests: &mut [ReadRequest<'_>]) -> Result<(), DiskError> {
        self.below.read_batch(requests)
    }

    fn pass_write(&self, at: Lba, data: &[u8], persist: Persist) -> Result<(), DiskError> {
        self.below.write(at, data, persist)?;
        self.written.all.fetch_add((data.len() / BLOCK_LEN_BYTES) as u64, Ordering::Relaxed);
        Ok(())
    }

    fn pass_report_zones(&self) -> Vec<ZoneInfo> {
        self.below.report_zones()
    }

    fn pass_flush(&self) -> Result<(), DiskError> {
        let mut has_failed = self.has_failed.lock().unwrap_or_else(PoisonError::into_inner);
        if *has_failed {
            return Err(DiskError::Poisoned);
        }
        let written = self.written.all();
        let flushed = self.below.flush();
        *has_failed = flushed.is_err();
        if flushed.is_ok() {
            self.written.flushed.fetch_max(written, Ordering::Relaxed);
        }
        flushed
    }

    fn pass_for_activity(self: Arc<Self>, activity: Activity) -> Option<Arc<dyn Disk>> {
        let below = Arc::clone(&self.below);
        let below = Arc::clone(&below).for_activity(activity).unwrap_or(below);
        let (has_failed, written) = (Arc::clone(&self.has_failed), Arc::clone(&self.written));
        Some(Arc::new(FlushesInTurn { below, has_failed, written }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block_driver::tests::zoned;
    use imbrex_disk_sim::SimDisk;
    use std::sync::atomic::{AtomicU64, Ordering};

    /// A drive whose second flush fails and loses what it was for; the next ones succeed.
    #[derive(Debug)]
    struct Forgetful(SimDisk, AtomicU64);

    impl DiskLayer for Forgetful {
        fn below(&self) -> &dyn Disk {
            &self.0
        }

        fn pass_flush(&self) -> Result<(), DiskError> {
            match self.1.fetch_add(1, Ordering::Relaxed) {
                1 => Err(DiskError::PowerLost),
                _ => self.0.flush(),
            }
        }
    }

    #[test]
    fn no_flush_follows_one_that_failed() {
        let drive = SimDisk::builder(zoned(10, 32, 0)).memory().unwrap();
        let drive: Arc<dyn Disk> = Arc::new(Forgetful(drive, AtomicU64::new(0)));
        let disk = Arc::new(FlushesInTurn::new(Arc::clone(&drive)));
        let log = Arc::clone(&disk).pass_for_activity(Activity::Log).unwrap();
        disk.flush().unwrap();
        disk.write(Lba::new(0), &[1; BLOCK_LEN_BYTES], Persist::Cached).unwrap();
        assert!(matches!(log.flush(), Err(DiskError::PowerLost)));
        assert_eq!(disk.written().unflushed(), 1, "what a flush did not make durable");
        drive.flush().unwrap();
        assert!(matches!(disk.flush(), Err(DiskError::Poisoned)), "by another handle");
    }
}

//! Host syncs: one at a time, and none after one that failed.
//!
//! ```text
//!     flush, write through:   lock --> failed before? refuse --> the host syncs --> failed? remember --> unlock
//! ```
//!
//! A host that cannot write back its cached data reports that once per open file, to the first
//! caller that syncs, even if another caller wrote the data. From then on the host treats the data
//! as written. A successful sync therefore proves durability only if no other sync has failed since
//! the file was opened.
//!
//! Invariants
//!   H1  Between the failure of a sync and the moment when every caller can see it, no other sync
//!       returns.
//!   H2  After a failed sync nothing is acknowledged as durable any more.
//!   H3  A write that the host has no room for is refused before any sync, so that only this write
//!       is lost.
//!
//! Source: `errseq_t` and `file_check_and_advance_wb_err` of Linux. Not here: the system calls (`image`).

use super::image_info::ImageInfo;
use super::{Backing, Durable};
use crate::rule::Mark;
use imbrex_disk::{BlockRange, Blocks, DiskError, Lba, ZoneId, ZoneRecord};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// A backing on a host that may lose cached data.
#[derive(Debug)]
pub(crate) struct SyncedBacking<B> {
    inner: B,
    syncing: Mutex<()>,
    has_lost: AtomicBool,
}

impl<B: Backing> SyncedBacking<B> {
    pub(crate) fn new(inner: B) -> SyncedBacking<B> {
        SyncedBacking { inner, syncing: Mutex::new(()), has_lost: AtomicBool::new(false) }
    }

    fn sync(&self, sync: impl FnOnce() -> Result<(), DiskError>) -> Result<(), DiskError> {
        let _alone = self.syncing.lock().unwrap_or_else(PoisonError::into_inner);
        if self.has_lost() {
            return Err(DiskError::Poisoned);
        }
        sync().inspect_err(|_| self.has_lost.store(true, Ordering::Release))
    }

    fn put(
        &self,
        durable: Durable,
        put: impl Fn(Durable) -> Result<(), DiskError>,
    ) -> Result<(), DiskError> {
        // H3: write to the host's cache first, even if the data must go through it.
        put(Durable::Later)?;
        match durable {
            Durable::Later => Ok(()),
            Durable::Now => self.sync(|| put(Durable::Now)),
        }
    }
}

impl<B: Backing> Backing for SyncedBacking<B> {
    fn read(&self, at: Lba, buf: &mut [u8]) -> Result<(), DiskError> {
        self.inner.read(at, buf)
    }

    fn write(&self, at: Lba, data: &[u8], durable: Durable) -> Result<(), DiskError> {
        self.put(durable, |durable| self.inner.write(at, data, durable))
    }

    fn zero(&self, range: BlockRange) -> Result<(), DiskError> {
        self.inner.zero(range)
    }

    fn stored(&self, range: BlockRange) -> (bool, Blocks) {
        self.inner.stored(range)
    }

    fn set_zone(
        &self,
        zone: ZoneId,
        record: ZoneRecord,
        durable: Durable,
    ) -> Result<(), DiskError> {
        self.put(durable, |durable| self.inner.set_zone(zone, record, durable))
    }

    fn zone(&self, zone: ZoneId) -> Result<ZoneRecord, DiskError> {
        self.inner.zone(zone)
    }

    fn set_marks(
        &self,
        range: BlockRange,
        mark: Option<Mark>,
        durable: Durable,
    ) -> Result<(), DiskError> {
        self.put(durable, |durable| self.inner.set_marks(range, mark, durable))
    }

    fn for_each_mark(&self, see: &mut dyn FnMut(BlockRange, Mark)) -> Result<(), DiskError> {
        self.inner.for_each_mark(see)
    }

    fn flush(&self) -> Result<(), DiskError> {
        self.sync(|| self.inner.flush())
    }

    fn has_lost(&self) -> bool {
        self.has_lost.load(Ordering::Acquire)
    }

    fn for_each_block(&self, see: &mut dyn FnMut(Lba, &[u8])) -> Result<(), DiskError> {
        self.inner.for_each_block(see)
    }

    fn stored_bytes(&self) -> Result<u64, DiskError> {
        self.inner.stored_bytes()
    }

    fn image(&self) -> Option<&ImageInfo> {
        self.inner.image()
    }
}

#[cfg(test)]
mod tests;

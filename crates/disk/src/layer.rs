//! The trait [`DiskLayer`]: a disk over another disk that changes part of what the other one does.
//!
//! ```text
//!     a layer's own   pass_write, pass_discard, ...      the methods that it overrides
//!          |  all other requests
//!     the disk below  geometry, read, flush, zone, counters, ...
//! ```
//!
//! A kill switch, a recorder of traces, and a test's drive that fails on purpose differ from the
//! disk below in two or three methods. They implement those, and are a [`Disk`].
//!
//! Invariants
//!   L1  A method that [`Disk`] requires goes to the disk below, unless the layer overrides it.
//!   L2  A method for which [`Disk`] has a default keeps that default, over the layer's own
//!       methods. So no request bypasses a layer: one that overrides `pass_write` also gets the
//!       zeros of `write_zeroes`.
//!   L3  [`DiskLayer::pass_work`] and [`DiskLayer::pass_head`] are the exceptions to L2: they name no
//!       block, and go to the disk below.
//!   L4  A layer has no handles for activities, unless it makes them: its requests count as other.
//!
//! Not here: layers that translate every address (crate `translate`); they implement [`Disk`].

use crate::{
    Activity, BlockRange, Blocks, Counters, Disk, DiskError, Geometry, Known, Lba, Pba, Persist,
    ReadRequest, ZoneAction, ZoneId, ZoneInfo, write_zero_blocks,
};
use std::fmt;
use std::sync::Arc;

/// A disk over another disk; see the module. `pass_write` implements [`Disk::write`], and so on for
/// each method of [`Disk`].
pub trait DiskLayer: Send + Sync + fmt::Debug + Sized {
    /// The disk below.
    fn below(&self) -> &dyn Disk;

    /// As [`Disk::geometry`].
    fn pass_geometry(&self) -> &Geometry {
        self.below().geometry()
    }

    /// As [`Disk::read`].
    ///
    /// # Errors
    /// As there.
    fn pass_read(&self, at: Lba, buf: &mut [u8]) -> Result<(), DiskError> {
        self.below().read(at, buf)
    }

    /// As [`Disk::read_batch`]: one request after another, through [`DiskLayer::pass_read`].
    ///
    /// # Errors
    /// As there.
    fn pass_read_batch(&self, requests: &mut [ReadRequest<'_>]) -> Result<(), DiskError> {
        requests.iter_mut().try_for_each(|request| self.pass_read(request.at, request.buf))
    }

    /// As [`Disk::write`].
    ///
    /// # Errors
    /// As there.
    fn pass_write(&self, at: Lba, data: &[u8], persist: Persist) -> Result<(), DiskError> {
        self.below().write(at, data, persist)
    }

    /// As [`Disk::flush`].
    ///
    /// # Errors
    /// As there.
    fn pass_flush(&self) -> Result<(), DiskError> {
        self.below().flush()
    }

    /// As [`Disk::discard`].
    ///
    /// # Errors
    /// As there.
    fn pass_discard(&self, range: BlockRange) -> Result<(), DiskError> {
        self.below().discard(range)
    }

    /// As [`Disk::write_zeroes`]: zeros, through [`DiskLayer::pass_write`].
    ///
    /// # Errors
    /// As there.
    fn pass_write_zeroes(&self, range: BlockRange, persist: Persist) -> Result<(), DiskError> {
        write_zero_blocks(self, range, persist)
    }

    /// As [`Disk::work`].
    ///
    /// # Errors
    /// As there.
    fn pass_work(&self) -> Result<bool, DiskError> {
        self.below().work()
    }

    /// As [`Disk::zeroes_are_cheap`].
    fn pass_zeroes_are_cheap(&self) -> bool {
        false
    }

    /// As [`Disk::known`].
    fn pass_known(&self, range: BlockRange) -> (Known, Blocks) {
        (Known::Nothing, range.len)
    }

    /// As [`Disk::zone`].
    fn pass_zone(&self, zone: ZoneId) -> Option<ZoneInfo> {
        self.below().zone(zone)
    }

    /// As [`Disk::report_zones`]: one zone after another, through [`DiskLayer::pass_zone`].
    fn pass_report_zones(&self) -> Vec<ZoneInfo> {
        let count = self.pass_geometry().zone_count();
        (0..count).filter_map(|zone| self.pass_zone(ZoneId(zone))).collect()
    }

    /// As [`Disk::manage_zone`].
    ///
    /// # Errors
    /// As there.
    fn pass_manage_zone(&self, zone: ZoneId, action: ZoneAction) -> Result<(), DiskError> {
        self.below().manage_zone(zone, action)
    }

    /// As [`Disk::counters`].
    fn pass_counters(&self) -> Counters {
        self.below().counters()
    }

    /// As [`Disk::head`].
    fn pass_head(&self) -> Option<Pba> {
        self.below().head()
    }

    /// As [`Disk::for_activity`]. A layer that makes handles is one again, over a handle of the disk
    /// below.
    fn pass_for_activity(self: Arc<Self>, activity: Activity) -> Option<Arc<dyn Disk>> {
        let _ = activity;
        None
    }
}

impl<L: DiskLayer> Disk for L {
    fn geometry(&self) -> &Geometry {
        self.pass_geometry()
    }

    fn read(&self, at: Lba, buf: &mut [u8]) -> Result<(), DiskError> {
        self.pass_read(at, buf)
    }

    fn read_batch(&self, requests: &mut [ReadRequest<'_>]) -> Result<(), DiskError> {
        self.pass_read_batch(requests)
    }

    fn write(&self, at: Lba, data: &[u8], persist: Persist) -> Result<(), DiskError> {
        self.pass_write(at, data, persist)
    }

    fn flush(&self) -> Result<(), DiskError> {
        self.pass_flush()
    }

    fn discard(&self, range: BlockRange) -> Result<(), DiskError> {
        self.pass_discard(range)
    }

    fn write_zeroes(&self, range: BlockRange, persist: Persist) -> Result<(), DiskError> {
        self.pass_write_zeroes(range, persist)
    }

    fn work(&self) -> Result<bool, DiskError> {
        self.pass_work()
    }

    fn zeroes_are_cheap(&self) -> bool {
        self.pass_zeroes_are_cheap()
    }

    fn known(&self, range: BlockRange) -> (Known, Blocks) {
        self.pass_known(range)
    }

    fn zone(&self, zone: ZoneId) -> Option<ZoneInfo> {
        self.pass_zone(zone)
    }

    fn report_zones(&self) -> Vec<ZoneInfo> {
        self.pass_report_zones()
    }

    fn manage_zone(&self, zone: ZoneId, action: ZoneAction) -> Result<(), DiskError> {
        self.pass_manage_zone(zone, action)
    }

    fn counters(&self) -> Counters {
        self.pass_counters()
    }

    fn head(&self) -> Option<Pba> {
        self.pass_head()
    }

    fn for_activity(self: Arc<Self>, activity: Activity) -> Option<Arc<dyn Disk>> {
        self.pass_for_activity(activity)
    }
}

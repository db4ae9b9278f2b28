//! A drive with a flash device that takes the writes of the catalog.
//!
//! ```text
//!   write of the catalog   -> flash         no time
//!   any other              -> the drive     its time
//!   read                   -> whichever holds the block
//! ```
//!
//! Papers keep the manifest on an SSD, but the file layer keeps its catalog on the drive. The catalog
//! has a handle of the drive of its own ([`Activity::Catalog`]), which distinguishes its writes. Logs are
//! not here: the file layer puts them on a second drive.

use imbrex_disk::{
    Activity, BLOCK_LEN_BYTES, BlockRange, Blocks, Disk, DiskError, DiskLayer, Geometry,
    GeometrySpec, Lba, Persist, ReadRequest, Rule,
};
use imbrex_disk_sim::{BuildError, SimDisk};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// See the module. The counters are those of the drive.
#[derive(Debug)]
pub(super) struct FlashCatalog {
    /// The drive, or its handle for an activity.
    disk: Arc<dyn Disk>,
    flash: Arc<SimDisk>,
    /// Per block: whether flash has it.
    is_on_flash: Arc<Mutex<Vec<bool>>>,
    /// Whether writes go to flash.
    writes_to_flash: bool,
}

impl FlashCatalog {
    /// A flash device for `disk`.
    pub(super) fn new(disk: Arc<dyn Disk>) -> Result<FlashCatalog, BuildError> {
        let len = disk.geometry().len();
        let geometry = Geometry::new(GeometrySpec { len, rule: Rule::Anywhere });
        let geometry = geometry.expect("a length that a drive has is one");
        Ok(FlashCatalog {
            disk,
            flash: Arc::new(SimDisk::builder(geometry).memory()?),
            is_on_flash: Arc::new(Mutex::new(vec![false; len.get() as usize])),
            writes_to_flash: false,
        })
    }

    fn map(&self) -> MutexGuard<'_, Vec<bool>> {
        self.is_on_flash.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, range: BlockRange, is_on_flash: bool) {
        let (from, to) = (range.start.get() as usize, range.end().get() as usize);
        if let Some(blocks) = self.map().get_mut(from..to) {
            blocks.fill(is_on_flash);
        }
    }

    /// How many of `count` blocks from `at` are on the same device as the first one, and whether
    /// that is flash.
    fn stretch(&self, at: Lba, count: usize) -> (usize, bool) {
        let map = self.map();
        let mut blocks = map.iter().skip(at.get() as usize).take(count);
        let Some(&first) = blocks.next() else { return (count, false) };
        (1 + blocks.take_while(|&&other| other == first).count(), first)
    }
}

impl DiskLayer for FlashCatalog {
    fn below(&self) -> &dyn Disk {
        &*self.disk
    }

    fn pass_read(&self, at: Lba, buf: &mut [u8]) -> Result<(), DiskError> {
        let mut at = at;
        let mut rest = buf;
        while !rest.is_empty() {
            let (count, is_on_flash) = self.stretch(at, rest.len().div_ceil(BLOCK_LEN_BYTES));
            let (now, after) = rest.split_at_mut((count * BLOCK_LEN_BYTES).min(rest.len()));
            if is_on_flash {
                self.flash.read(at, now)?;
            } else {
                self.disk.read(at, now)?;
            }
            at += Blocks::new(count as u64);
            rest = after;
        }
        Ok(())
    }

    fn pass_read_batch(&self, requests: &mut [ReadRequest<'_>]) -> Result<(), DiskError> {
        let is_whole = |request: &ReadRequest<'_>| {
            let count = request.buf.len() / BLOCK_LEN_BYTES;
            self.stretch(request.at, count) == (count, false)
        };
        if requests.iter().all(is_whole) {
            return self.disk.read_batch(requests);
        }
        requests.iter_mut().try_for_each(|request| self.read(request.at, request.buf))
    }

    fn pass_write(&self, at: Lba, data: &[u8], persist: Persist) -> Result<(), DiskError> {
        if self.writes_to_flash {
            self.flash.write(at, data, persist)?;
        } else {
            self.disk.write(at, data, persist)?;
        }
        self.note(BlockRange::new(at, Blocks::holding(data.len() as u64)), self.writes_to_flash);
        Ok(())
    }

    fn pass_flush(&self) -> Result<(), DiskError> {
        self.flash.flush()?;
        self.disk.flush()
    }

    fn pass_discard(&self, range: BlockRange) -> Result<(), DiskError> {
        self.disk.discard(range)?;
        self.flash.discard(range)?;
        self.note(range, false);
        Ok(())
    }

    fn pass_for_activity(self: Arc<Self>, activity: Activity) -> Option<Arc<dyn Disk>> {
        let handle = Arc::clone(&self.disk).for_activity(activity);
        Some(Arc::new(FlashCatalog {
            disk: handle.unwrap_or_else(|| Arc::clone(&self.disk)),
            flash: Arc::clone(&self.flash),
            is_on_flash: Arc::clone(&self.is_on_flash),
            writes_to_flash: activity == Activity::Catalog,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_of_the_catalog_go_to_flash_and_reads_find_the_newest() {
        let len = Blocks::new(256);
        let geometry = Geometry::new(GeometrySpec { len, rule: Rule::Anywhere }).unwrap();
        let drive = Arc::new(SimDisk::builder(geometry).memory().unwrap());
        let disk: Arc<dyn Disk> =
            Arc::new(FlashCatalog::new(Arc::clone(&drive) as Arc<dyn Disk>).unwrap());
        let catalog = Arc::clone(&disk).for_activity(Activity::Catalog).unwrap();
        let tables = Arc::clone(&disk).for_activity(Activity::Flush).unwrap();
        let blocks = |byte: u8, count: usize| vec![byte; count * BLOCK_LEN_BYTES];
        tables.write(Lba::new(0), &blocks(1, 5), Persist::Cached).unwrap();
        catalog.write(Lba::new(4), &blocks(2, 16), Persist::Through).unwrap();
        assert_eq!(disk.counters().written_bytes, 5 * BLOCK_LEN_BYTES as u64);
        for handle in [&disk, &catalog, &tables] {
            let mut found = blocks(0, 20);
            handle.read(Lba::new(0), &mut found).unwrap();
            assert_eq!(found, [blocks(1, 4), blocks(2, 16)].concat());
            let mut found = blocks(0, 20);
            let mut requests = [ReadRequest { at: Lba::new(0), buf: &mut found }];
            handle.read_batch(&mut requests).unwrap();
            assert_eq!(found, [blocks(1, 4), blocks(2, 16)].concat());
        }
        tables.write(Lba::new(0), &blocks(3, 32), Persist::Cached).unwrap();
        let mut found = blocks(0, 32);
        catalog.read(Lba::new(0), &mut found).unwrap();
        assert_eq!(found, blocks(3, 32), "the drive again");
        catalog.flush().unwrap();
    }
}

//! A drive with a flash device that takes all short writes: logs and the catalog.
//!
//! ```text
//!   write of up to 64 KB   -> flash         no time         a log's frames, records of the catalog
//!   a longer one           -> the drive     its time        tables
//!   read                   -> whichever holds the block
//! ```
//!
//! Papers keep the write-ahead log and the manifest on an SSD, but the file layer knows one drive.
//! It writes tables in pieces of a megabyte, so the length of a write distinguishes the two. For
//! one table in sixteen, the end is short enough to be taken for a log.

use imbrex_disk::{
    BLOCK_LEN_BYTES, BlockRange, Blocks, Disk, DiskError, DiskLayer, Geometry, GeometrySpec, Lba,
    Persist, ReadRequest, Rule,
};
use imbrex_disk_sim::{BuildError, SimDisk};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The longest write that goes to flash: a frame of the log.
const SHORT_LEN_BYTES: usize = 64 << 10;

/// See the module. The counters are those of the drive.
#[derive(Debug)]
pub(super) struct FlashLogs {
    disk: Arc<dyn Disk>,
    flash: SimDisk,
    /// Per block: whether flash has it.
    is_on_flash: Mutex<Vec<bool>>,
}

impl FlashLogs {
    /// A flash device for `disk`.
    pub(super) fn new(disk: Arc<dyn Disk>) -> Result<FlashLogs, BuildError> {
        let len = disk.geometry().len();
        let geometry = Geometry::new(GeometrySpec { len, rule: Rule::Anywhere });
        let geometry = geometry.expect("a length that a drive has is one");
        let flash = SimDisk::builder(geometry).memory()?;
        let is_on_flash = Mutex::new(vec![false; len.get() as usize]);
        Ok(FlashLogs { disk, flash, is_on_flash })
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

impl DiskLayer for FlashLogs {
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
        let is_short = data.len() <= SHORT_LEN_BYTES;
        if is_short {
            self.flash.write(at, data, persist)?;
        } else {
            self.disk.write(at, data, persist)?;
        }
        self.note(BlockRange::new(at, Blocks::holding(data.len() as u64)), is_short);
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_writes_go_to_flash_and_reads_find_the_newest() {
        let len = Blocks::new(256);
        let geometry = Geometry::new(GeometrySpec { len, rule: Rule::Anywhere }).unwrap();
        let drive = Arc::new(SimDisk::builder(geometry).memory().unwrap());
        let disk = FlashLogs::new(Arc::clone(&drive) as Arc<dyn Disk>).unwrap();
        let blocks = |byte: u8, count: usize| vec![byte; count * BLOCK_LEN_BYTES];
        disk.write(Lba::new(0), &blocks(1, 17), Persist::Cached).unwrap();
        disk.write(Lba::new(4), &blocks(2, 16), Persist::Through).unwrap();
        assert_eq!(disk.counters().written_bytes, 17 * BLOCK_LEN_BYTES as u64);
        let mut found = blocks(0, 20);
        disk.read(Lba::new(0), &mut found).unwrap();
        assert_eq!(found, [blocks(1, 4), blocks(2, 16)].concat());
        let mut found = blocks(0, 20);
        disk.read_batch(&mut [ReadRequest { at: Lba::new(0), buf: &mut found }]).unwrap();
        assert_eq!(found, [blocks(1, 4), blocks(2, 16)].concat());
        disk.write(Lba::new(0), &blocks(3, 32), Persist::Cached).unwrap();
        let mut found = blocks(0, 32);
        disk.read(Lba::new(0), &mut found).unwrap();
        assert_eq!(found, blocks(3, 32), "the drive again");
        disk.flush().unwrap();
    }
}

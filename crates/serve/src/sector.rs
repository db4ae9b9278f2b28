//! A block device over any disk that takes writes anywhere: sectors above, blocks of 4 KiB below.
//!
//! ```text
//!     a write of 512-byte sectors     . . . . . x x x   x x x x x x x x   x x . . . . . .
//!     blocks of the disk              |- block 0 ----|  |- block 1 ----|  |- block 2 ---|
//!                                       read, changed       as it is        read, changed
//!                                     \_______________ one write ______________________/
//! ```
//!
//! A request that starts and ends at block boundaries is passed on unchanged. Any other write reads the blocks
//! at its ends, changes them, and writes them back.
//!
//! Invariants
//!   B1  Between the read of a block and its write back no other request changes it: with sectors shorter than
//!       a block, every change holds its blocks in a range lock.
//!   B2  A trim never affects a sector outside of it: partly covered blocks at its ends are not trimmed.
//!   B3  A write-zeroes that must keep its space is written as zeros.

use crate::failures::{Failures, Kind};
use crate::range_lock::{RangeGuard, RangeLock};
use crate::{BlockDevice, ByteRange, Content, DeviceError, Extent, Waits};
use imbrex_disk::{
    BLOCK_LEN_BYTES, BlockRange, Blocks, Disk, DiskError, Known, Lba, Persist, ReadRequest, Rule,
};
use std::sync::Arc;

const BLOCK: u64 = BLOCK_LEN_BYTES as u64;

/// The unit of a [`SectorDevice`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SectorLen {
    /// Understood by every host; a write of a partial block costs a read.
    Bytes512,
    /// The disk's own block.
    Bytes4096,
}

impl SectorLen {
    const fn bytes(self) -> u32 {
        match self {
            SectorLen::Bytes512 => 512,
            SectorLen::Bytes4096 => 4096,
        }
    }
}

/// A [`BlockDevice`] over a disk that takes writes anywhere.
#[derive(Debug)]
pub struct SectorDevice {
    disk: Arc<dyn Disk>,
    sector_len: SectorLen,
    changing: RangeLock,
    waits: Waits,
    failures: Failures,
}

/// A request, split at block boundaries.
#[derive(Clone, Copy, Debug)]
struct Cut {
    /// All blocks that the request touches.
    outer: BlockRange,
    /// The blocks that the request covers completely; may be empty.
    inner: BlockRange,
    /// The offset of the request in `outer`.
    head_bytes: usize,
}

impl SectorDevice {
    /// A device over the whole of `disk` with sectors of `sector_len`. No request is expected to wait; see
    /// [`SectorDevice::with_waits`].
    ///
    /// # Errors
    /// [`DeviceError::Rule`]: the disk does not take writes anywhere.
    pub fn new(disk: Arc<dyn Disk>, sector_len: SectorLen) -> Result<SectorDevice, DeviceError> {
        match disk.geometry().rule() {
            Rule::Anywhere => Ok(SectorDevice {
                disk,
                sector_len,
                changing: RangeLock::default(),
                waits: Waits::Nothing,
                failures: Failures::default(),
            }),
            rule => Err(DeviceError::Rule { rule: rule.name() }),
        }
    }

    /// Sets which requests wait for a mechanism. Only the caller that opened the disk knows that.
    pub fn with_waits(self, waits: Waits) -> SectorDevice {
        SectorDevice { waits, ..self }
    }

    /// Sets a callback for failures of the disk. It is called with the operation and its error at the first
    /// failed change (a write, a flush, background work), the first failed read, and the first refusal.
    pub fn telling(mut self, tell: impl Fn(&str) + Send + Sync + 'static) -> SectorDevice {
        self.failures.set_tell(tell);
        self
    }

    /// The reported failures of changes; empty if no change failed.
    pub fn failed_changes(&self) -> Vec<String> {
        self.failures.of_changes()
    }

    /// The error of a failed change of `range`.
    fn failed(&self, doing: &str, range: ByteRange) -> impl FnOnce(DiskError) -> DeviceError {
        move |source| self.failures.of(Kind::Change, format!("{doing} {range}"), source)
    }

    /// The disk below.
    pub fn disk(&self) -> &Arc<dyn Disk> {
        &self.disk
    }

    /// Locks the blocks of `cut` against other changes (B1). If a sector is a block, nothing is ever written
    /// back, and the disk itself orders requests.
    fn hold(&self, cut: &Cut) -> Option<RangeGuard<'_>> {
        let is_needed = self.sector_len == SectorLen::Bytes512;
        is_needed.then(|| self.changing.lock(cut.outer.start.get()..cut.outer.end().get()))
    }

    /// Writes `fill` over the bytes of a request that does not cover whole blocks, after reading the blocks at
    /// its ends. The caller holds `cut`.
    fn write_around(&self, cut: &Cut, fill: &[u8], persist: Persist) -> Result<(), DiskError> {
        let mut blocks = vec![0; cut.outer.len.bytes() as usize];
        let last_at = blocks.len() - BLOCK_LEN_BYTES;
        if last_at == 0 {
            self.disk.read(cut.outer.start, &mut blocks)?;
        } else {
            let (before, last) = blocks.split_at_mut(last_at);
            let mut ends = Vec::with_capacity(2);
            if cut.inner.start != cut.outer.start {
                let buf = &mut before[..BLOCK_LEN_BYTES];
                ends.push(ReadRequest { at: cut.outer.start, buf });
            }
            if cut.inner.end() != cut.outer.end() {
                let at = cut.outer.end() - Blocks::new(1);
                ends.push(ReadRequest { at, buf: last });
            }
            self.disk.read_batch(&mut ends)?;
        }
        blocks[cut.head_bytes..cut.head_bytes + fill.len()].copy_from_slice(fill);
        self.disk.write(cut.outer.start, &blocks, persist)
    }

    /// Writes zeros over the sectors of `range`, which are in one block. The caller holds that block.
    fn zero_part(&self, range: ByteRange, persist: Persist) -> Result<(), DiskError> {
        let zeros = [0; BLOCK_LEN_BYTES];
        self.write_around(&Cut::of(range), &zeros[..range.len_bytes as usize], persist)
    }

    fn zero_all(
        &self,
        range: ByteRange,
        may_trim: bool,
        persist: Persist,
    ) -> Result<(), DiskError> {
        for part in parts(range) {
            let cut = Cut::of(part);
            if cut.inner != cut.outer {
                self.zero_part(part, persist)?;
            } else if may_trim {
                self.disk.write_zeroes(cut.inner, persist)?;
            } else {
                imbrex_disk::write_zero_blocks(&*self.disk, cut.inner, persist)?;
            }
        }
        Ok(())
    }
}

impl Cut {
    fn of(range: ByteRange) -> Cut {
        let (start, end) = (range.start_bytes, range.end_bytes());
        let outer_start = start / BLOCK;
        let run = |start: u64, end: u64| {
            BlockRange::new(Lba::new(start), Blocks::new(end.saturating_sub(start)))
        };
        Cut {
            outer: run(outer_start, end.div_ceil(BLOCK)),
            inner: run(start.div_ceil(BLOCK), end / BLOCK),
            head_bytes: (start - outer_start * BLOCK) as usize,
        }
    }
}

/// Splits a range into the sectors of a partial first block, whole blocks, and the sectors of a partial last
/// block; empty parts are left out.
fn parts(range: ByteRange) -> impl Iterator<Item = ByteRange> {
    let (start, end) = (range.start_bytes, range.end_bytes());
    let head_end = start.next_multiple_of(BLOCK).min(end);
    let tail_start = (end / BLOCK * BLOCK).max(head_end);
    [(start, head_end), (head_end, tail_start), (tail_start, end)]
        .into_iter()
        .filter(|(start, end)| start < end)
        .map(|(start, end)| ByteRange::new(start, end - start))
}

impl BlockDevice for SectorDevice {
    fn len_bytes(&self) -> u64 {
        self.disk.geometry().len().bytes()
    }

    fn sector_len_bytes(&self) -> u32 {
        self.sector_len.bytes()
    }

    fn is_rotational(&self) -> bool {
        true
    }

    fn waits(&self) -> Waits {
        self.waits
    }

    fn read(&self, at_bytes: u64, buf: &mut [u8]) -> Result<(), DeviceError> {
        let range = ByteRange::new(at_bytes, buf.len() as u64);
        self.check(range)?;
        let cut = Cut::of(range);
        let read = if cut.inner == cut.outer {
            self.disk.read(cut.outer.start, buf)
        } else {
            let mut blocks = vec![0; cut.outer.len.bytes() as usize];
            self.disk.read(cut.outer.start, &mut blocks).map(|()| {
                buf.copy_from_slice(&blocks[cut.head_bytes..cut.head_bytes + buf.len()]);
            })
        };
        read.map_err(|source| self.failures.of(Kind::Read, format!("reading {range}"), source))
    }

    fn write(&self, at_bytes: u64, data: &[u8], persist: Persist) -> Result<(), DeviceError> {
        let range = ByteRange::new(at_bytes, data.len() as u64);
        self.check(range)?;
        let cut = Cut::of(range);
        let _held = self.hold(&cut);
        let written = if cut.inner == cut.outer {
            self.disk.write(cut.outer.start, data, persist)
        } else {
            self.write_around(&cut, data, persist)
        };
        written.map_err(self.failed("writing", range))
    }

    fn work(&self) -> bool {
        let what = "doing background work";
        let failed = |source| self.failures.of(Kind::Change, what.to_owned(), source);
        self.disk.work().map_err(failed).unwrap_or(false)
    }

    fn flush(&self) -> Result<(), DeviceError> {
        let failed = |source| self.failures.of(Kind::Change, "flushing".to_owned(), source);
        self.disk.flush().map_err(failed)
    }

    fn trim(&self, range: ByteRange, persist: Persist) -> Result<(), DeviceError> {
        self.check(range)?;
        let cut = Cut::of(range);
        if !cut.inner.len.is_zero() {
            let _held = self.hold(&cut);
            self.disk.discard(cut.inner).map_err(self.failed("trimming", range))?;
        }
        match persist {
            Persist::Cached => Ok(()),
            // A disk's discard is durable with its next flush, if at all.
            Persist::Through => self.flush(),
        }
    }

    fn write_zeroes(
        &self,
        range: ByteRange,
        may_trim: bool,
        persist: Persist,
    ) -> Result<(), DeviceError> {
        self.check(range)?;
        let _held = self.hold(&Cut::of(range));
        self.zero_all(range, may_trim, persist).map_err(self.failed("zeroing", range))
    }

    /// Partial blocks are read and written like any data, so only whole blocks can be cheap.
    fn zeroes_are_cheap(&self, range: ByteRange, may_trim: bool) -> bool {
        may_trim && self.disk.zeroes_are_cheap() && !Cut::of(range).inner.len.is_zero()
    }

    fn status(&self, range: ByteRange) -> Result<Extent, DeviceError> {
        self.check(range)?;
        let cut = Cut::of(range);
        let (known, len) = self.disk.known(cut.outer);
        let len_bytes = (len.bytes() - cut.head_bytes as u64).min(range.len_bytes);
        let content = match known {
            Known::Nothing => Content::Data,
            Known::Zero => Content::Zero,
            Known::Unwritten => Content::Hole,
        };
        Ok(Extent { len_bytes, content })
    }
}

#[cfg(test)]
mod tests;

//! The trait [`Disk`]: what every layer below the file layer offers.

use crate::{
    Activity, BLOCK_LEN_BYTES, BlockRange, Blocks, Counters, DiskError, Geometry, Lba, Pba,
    ZoneAction, ZoneId, ZoneInfo, ZoneState,
};
use std::sync::Arc;

/// When a write must reach the platter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Persist {
    /// At the next [`Disk::flush`]. A power cut before that may lose it.
    Cached,
    /// Before the call returns (forced unit access). Makes no promise about earlier cached writes.
    Through,
}

/// One read of a batch.
#[derive(Debug)]
pub struct ReadRequest<'a> {
    /// The first block.
    pub at: Lba,
    /// The destination, a positive multiple of `BLOCK_LEN_BYTES`.
    pub buf: &'a mut [u8],
}

/// What a disk knows about blocks without reading them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// Nothing: they must be read.
    Nothing,
    /// They were written, and read as zeros.
    Zero,
    /// They were never written, or were discarded. They take no space, and read as zeros until
    /// written.
    Unwritten,
}

/// A disk: blocks by LBA under one rule, which its geometry states.
///
/// All calls take `&self`: a disk orders concurrent requests itself. A request returns once it is
/// served; on a simulated disk the caller's clock has then advanced by the wait and the service
/// time.
///
/// Durability: a write is readable on return. It is durable after the next successful [`flush`], or
/// on return with [`Persist::Through`]. Until then a power cut may lose it or keep only some of its
/// blocks. In a sequential zone, a prefix of the written blocks survives; elsewhere unflushed
/// writes may survive in any combination. Under a raw rule, the blocks that survive have destroyed
/// what they reach. A torn write over several tracks may therefore lose, on the later tracks, both
/// the old data and the new.
///
/// [`flush`]: Disk::flush
pub trait Disk: Send + Sync + std::fmt::Debug {
    /// Length and rule; never changes.
    fn geometry(&self) -> &Geometry;

    /// Reads `buf.len()` bytes from block `at`.
    ///
    /// Blocks never written read as zeros (but see `strict_reads`). Cost: one seek and the transfer.
    ///
    /// # Errors
    /// [`DiskError::OutOfRange`], [`DiskError::NotBlocks`], [`DiskError::ReadAbovePointer`],
    /// [`DiskError::ReadBoundary`], [`DiskError::Destroyed`], [`DiskError::Medium`],
    /// [`DiskError::Offline`], [`DiskError::PowerLost`], [`DiskError::Host`]. The content of `buf` is then unspecified.
    fn read(&self, at: Lba, buf: &mut [u8]) -> Result<(), DiskError>;

    /// Reads all of `requests`, in the order that suits the disk; all are queued at once.
    ///
    /// # Errors
    /// As [`Disk::read`], for the first faulty request. The content of all buffers is then
    /// unspecified.
    fn read_batch(&self, requests: &mut [ReadRequest<'_>]) -> Result<(), DiskError> {
        requests.iter_mut().try_for_each(|r| self.read(r.at, r.buf))
    }

    /// Writes `data`, a positive multiple of `BLOCK_LEN_BYTES`, from block `at`.
    ///
    /// Under [`Rule::AtPointer`](crate::Rule::AtPointer) a sequential zone accepts a write only at
    /// its write pointer, and only if all of it fits the capacity. The write opens an empty or
    /// closed zone implicitly; if the limit requires it, another implicitly opened zone is closed.
    /// Under the raw rules a write destroys what the recording destroys: the caller must keep live
    /// data out of its reach.
    ///
    /// # Errors
    /// Nothing was written: [`DiskError::OutOfRange`], [`DiskError::NotBlocks`],
    /// [`DiskError::NotAtWritePointer`], [`DiskError::ZoneBoundary`],
    /// [`DiskError::ZoneNotWritable`], [`DiskError::TooManyZones`], [`DiskError::WouldDestroy`].
    ///
    /// Some of it may be written: [`DiskError::PowerLost`], [`DiskError::Host`]. If the host wrote
    /// the data but failed to make it durable, the disk is in the same state as after a failed
    /// [`flush`](Disk::flush).
    ///
    /// [`DiskError::Poisoned`].
    fn write(&self, at: Lba, data: &[u8], persist: Persist) -> Result<(), DiskError>;

    /// Makes every write that has returned durable.
    ///
    /// # Errors
    /// [`DiskError::PowerLost`], [`DiskError::Host`], [`DiskError::Poisoned`]. It is then unknown
    /// what is durable, and every later write and flush fails with `Poisoned`.
    fn flush(&self) -> Result<(), DiskError>;

    /// Declares the content of `range` as no longer needed. It may then read as anything.
    ///
    /// On sequential zones this does nothing: a reset frees them. A hint: not durable by itself.
    ///
    /// # Errors
    /// [`DiskError::OutOfRange`], [`DiskError::PowerLost`], [`DiskError::Host`].
    fn discard(&self, range: BlockRange) -> Result<(), DiskError>;

    /// Makes `range` read as zeros, like a write of zeros. A disk that maps its blocks may free
    /// their space instead.
    ///
    /// # Errors
    /// As [`Disk::write`].
    fn write_zeroes(&self, range: BlockRange, persist: Persist) -> Result<(), DiskError> {
        write_zero_blocks(self, range, persist)
    }

    /// Does one step of the disk's own background work, for times when the host is idle. Returns
    /// false if nothing is due.
    ///
    /// # Errors
    /// As [`Disk::write`].
    fn work(&self) -> Result<bool, DiskError> {
        Ok(false)
    }

    /// Whether [`Disk::write_zeroes`] costs less than writing the zeros.
    fn zeroes_are_cheap(&self) -> bool {
        false
    }

    /// What the disk knows about the first block of `range`, and the number of blocks, at least
    /// one, for which that is true. Costs memory accesses only, no I/O. `range` lies on the disk
    /// and is not empty.
    fn known(&self, range: BlockRange) -> (Known, Blocks) {
        (Known::Nothing, range.len)
    }

    /// The report of one zone; `None` past the last zone or on a disk without zones.
    fn zone(&self, zone: ZoneId) -> Option<ZoneInfo>;

    /// The report of all zones, in order; empty on a disk without zones.
    fn report_zones(&self) -> Vec<ZoneInfo> {
        (0..self.geometry().zone_count()).filter_map(|z| self.zone(ZoneId(z))).collect()
    }

    /// Opens, closes, finishes or resets a sequential zone.
    ///
    /// A reset is durable on return and drops unflushed writes to the zone. Close and finish are
    /// durable after the next flush. An action that finds the zone in the requested state already
    /// (open an open or full zone, close a closed, empty or full one, finish a full one, reset an
    /// empty one) succeeds and changes nothing. Open and finish of an empty or closed zone need a
    /// place among the open zones, as a write does. What each action does in each state:
    /// docs/guide/zones.md.
    ///
    /// # Errors
    /// [`DiskError::NoSuchZone`], [`DiskError::ZoneNotWritable`], [`DiskError::TooManyZones`],
    /// [`DiskError::PowerLost`], [`DiskError::Host`].
    fn manage_zone(&self, zone: ZoneId, action: ZoneAction) -> Result<(), DiskError>;

    /// Resets every zone that has been written and allows a reset. Does nothing on a disk without
    /// zones. As durable as each reset.
    ///
    /// # Errors
    /// As [`Disk::manage_zone`]; some zones may have been reset.
    fn reset_zones(&self) -> Result<(), DiskError> {
        let has_nothing = |state| {
            matches!(
                state,
                ZoneState::Empty | ZoneState::NoPointer | ZoneState::ReadOnly | ZoneState::Offline
            )
        };
        let mut zones = self.report_zones();
        zones.retain(|info| !has_nothing(info.state));
        zones.iter().try_for_each(|info| self.manage_zone(info.zone, ZoneAction::Reset))
    }

    /// What the disk has done so far.
    fn counters(&self) -> Counters;

    /// About where the head is, as an address of the drive itself; `None` if nobody knows. Only a
    /// model of the mechanics does.
    fn head(&self) -> Option<Pba> {
        None
    }

    /// The same disk, for requests that serve `activity`: what [`Counters::by_activity`] counts
    /// apart. `None` if the disk does not count by activity. Callers use [`Handles`](crate::Handles).
    fn for_activity(self: Arc<Self>, activity: Activity) -> Option<Arc<dyn Disk>> {
        let _ = activity;
        None
    }
}

/// The longest run of broken blocks that is not mistaken for the end of the written data.
const BROKEN_LEN_MAX: usize = 16;

/// An upper bound on the written part of `range`, in a zone that has turned read-only.
///
/// Such a zone has no write pointer any more, but a strict drive still refuses reads above the old
/// one. A binary search finds that point. A drive that is not strict returns a fill pattern there,
/// so all of `range` may have been written.
///
/// Cost: one read of a block for each binary digit of the length, and a few more.
///
/// # Errors
/// As [`Disk::read`], except for blocks that cannot be read: those were written.
pub fn readable_len<D: Disk + ?Sized>(disk: &D, range: BlockRange) -> Result<Blocks, DiskError> {
    let mut block = [0; BLOCK_LEN_BYTES];
    let is_refused = |index: u64| match disk.read(range.start + Blocks::new(index), &mut block) {
        Ok(()) | Err(DiskError::Medium { .. }) => Ok(false),
        Err(DiskError::ReadAbovePointer { .. }) => Ok(true),
        Err(error) => Err(error),
    };
    first_refused(range.len.get(), is_refused).map(Blocks::new)
}

/// The first of `len` blocks from which all are refused. Some blocks before it may be refused, too.
fn first_refused<E>(
    len: u64,
    mut is_refused: impl FnMut(u64) -> Result<bool, E>,
) -> Result<u64, E> {
    if len == 0 || !is_refused(len - 1)? {
        return Ok(len);
    }
    let mut low = 0;
    loop {
        let mut high = len - 1;
        while low < high {
            let middle = low + (high - low) / 2;
            if is_refused(middle)? {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        // If blocks after this one can be read, it is not the end: a broken block may be refused
        // too.
        let mut is_end = true;
        for index in (low + 1..len).take(BROKEN_LEN_MAX) {
            if !is_refused(index)? {
                (low, is_end) = (index + 1, false);
                break;
            }
        }
        if is_end {
            return Ok(low);
        }
    }
}

/// Writes zeros over `range`, in order, a megabyte at a time.
///
/// # Errors
/// As [`Disk::write`]. The pieces before the failed one are written.
pub fn write_zero_blocks<D: Disk + ?Sized>(
    disk: &D,
    range: BlockRange,
    persist: Persist,
) -> Result<(), DiskError> {
    const PIECE: Blocks = Blocks::new(256);
    let zeros = vec![0; range.len.min(PIECE).bytes() as usize];
    let mut at = range.start;
    while at < range.end() {
        let len = PIECE.min(range.end() - at);
        disk.write(at, &zeros[..len.get() as usize * BLOCK_LEN_BYTES], persist)?;
        at += len;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_the_written_data_is_found_despite_broken_blocks_before_it() {
        let found = |len: u64, end: u64, broken: &[u64]| {
            let is_refused = |index| Ok::<_, ()>(end <= index || broken.contains(&index));
            first_refused(len, is_refused).unwrap()
        };
        for len in 0..40 {
            for end in 0..=len {
                assert_eq!(found(len, end, &[]), end, "of {len}");
                for broken in (0..end.saturating_sub(1)).collect::<Vec<_>>().windows(2) {
                    assert_eq!(found(len, end, broken), end, "of {len}, broken {broken:?}");
                }
            }
        }
        assert_eq!(first_refused(9, |_| Err::<bool, _>("gone")), Err("gone"));
    }
}

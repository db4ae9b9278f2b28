//! The drive below, addressed by PBA, with counts of the layer's own transfers.

use super::layout::Region;
use imbrex_disk::{
    Activity, BLOCK_LEN_BYTES, BlockRange, Blocks, Counters, Disk, DiskError, Handles, Lba, Pba,
    Persist, ReadRequest,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// How much is inspected in one read.
pub(crate) const LOOK_LEN: Blocks = Blocks::new(256);

/// The layer's own work. Subtract two readings to get an interval.
///
/// `added_written_bytes` of [`Counters`] is the sum of `rewritten_bytes`, `staged_bytes` and
/// `log_bytes`. `added_read_bytes` is the sum of `read_back_bytes`, the reads of recovery, and the
/// reads that check whether blocks are blank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BandCounters {
    /// Writes, or their parts in one band, that went straight through.
    pub direct_writes: u64,
    /// Read-modify-writes of a band.
    pub rewrites: u64,
    /// Bytes read back for rewrites.
    pub read_back_bytes: u64,
    /// Bytes of rewrites that the host did not write: the blocks that were read back.
    pub rewritten_bytes: u64,
    /// Bytes staged before rewrites; zero with [`Staging::None`](super::Staging::None).
    pub staged_bytes: u64,
    /// Bytes of superblocks and journal.
    pub log_bytes: u64,
}

/// Why the layer writes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Purpose {
    /// The host's own bytes, straight through.
    Direct { activity: Activity },
    /// A rewrite; `host_bytes` of it are the host's.
    Rewrite { host_bytes: u64 },
    /// The staging of a rewrite.
    Stage,
    /// Superblock or journal.
    Log,
}

impl Purpose {
    fn activity(self) -> Activity {
        match self {
            Purpose::Direct { activity } => activity,
            Purpose::Rewrite { .. } | Purpose::Stage => Activity::Cleaning,
            Purpose::Log => Activity::Catalog,
        }
    }
}

/// The drive below.
#[derive(Debug)]
pub(crate) struct Below {
    disk: Arc<dyn Disk>,
    disks: Handles,
    direct_writes: AtomicU64,
    rewrites: AtomicU64,
    read_back_bytes: AtomicU64,
    recovery_read_bytes: AtomicU64,
    rewritten_bytes: AtomicU64,
    staged_bytes: AtomicU64,
    log_bytes: AtomicU64,
}

impl Below {
    pub(crate) fn new(disk: Arc<dyn Disk>) -> Below {
        Below {
            disks: Handles::new(&disk),
            disk,
            direct_writes: AtomicU64::new(0),
            rewrites: AtomicU64::new(0),
            read_back_bytes: AtomicU64::new(0),
            recovery_read_bytes: AtomicU64::new(0),
            rewritten_bytes: AtomicU64::new(0),
            staged_bytes: AtomicU64::new(0),
            log_bytes: AtomicU64::new(0),
        }
    }

    pub(crate) fn disk(&self) -> &Arc<dyn Disk> {
        &self.disk
    }

    /// Reads for the host.
    pub(crate) fn read_batch(
        &self,
        activity: Activity,
        requests: &mut [ReadRequest<'_>],
    ) -> Result<(), DiskError> {
        self.disks.of(activity).read_batch(requests)
    }

    /// Reads back for a rewrite.
    pub(crate) fn read_back(&self, requests: &mut [ReadRequest<'_>]) -> Result<(), DiskError> {
        let len: usize = requests.iter().map(|request| request.buf.len()).sum();
        self.disks.of(Activity::Cleaning).read_batch(requests)?;
        self.read_back_bytes.fetch_add(len as u64, Relaxed);
        Ok(())
    }

    /// Reads during opening. A destroyed block was never acknowledged, so it reads as zeros.
    pub(crate) fn read_for_recovery(&self, at: Pba, buf: &mut [u8]) -> Result<(), DiskError> {
        self.recovery_read_bytes.fetch_add(buf.len() as u64, Relaxed);
        match self.disk.read(Lba::new(at.get()), buf) {
            Err(DiskError::Destroyed { .. }) => {}
            other => return other,
        }
        for (index, block) in (0..).zip(buf.chunks_exact_mut(BLOCK_LEN_BYTES)) {
            match self.disk.read(Lba::new(at.get() + index), block) {
                Err(DiskError::Destroyed { .. }) => block.fill(0),
                other => other?,
            }
        }
        Ok(())
    }

    /// The first destroyed run within `buf`'s length from `at`. Blocks that cannot be read for
    /// another reason are left for the host to find.
    pub(crate) fn look(&self, at: Pba, buf: &mut [u8]) -> Result<Option<Region>, DiskError> {
        self.recovery_read_bytes.fetch_add(buf.len() as u64, Relaxed);
        match self.disk.read(Lba::new(at.get()), buf) {
            Ok(()) => Ok(None),
            // One unreadable block says nothing about the others.
            Err(DiskError::Medium { .. }) if buf.len() > BLOCK_LEN_BYTES => {
                for (index, block) in (0..).zip(buf.chunks_exact_mut(BLOCK_LEN_BYTES)) {
                    if let Some(destroyed) = self.look(at + Blocks::new(index), block)? {
                        return Ok(Some(destroyed));
                    }
                }
                Ok(None)
            }
            Err(DiskError::Medium { .. }) => Ok(None),
            Err(DiskError::Destroyed { range, .. }) => {
                Ok(Some(Region { start: Pba::new(range.start.get()), len: range.len }))
            }
            Err(error) => Err(error),
        }
    }

    /// The blocks of `region` that cannot be read or are destroyed.
    pub(crate) fn unreadable(&self, region: Region) -> Result<Vec<Pba>, DiskError> {
        let mut buf = vec![0; region.len.min(LOOK_LEN).bytes() as usize];
        let mut lost = Vec::new();
        let can_read = |at: Pba, buf: &mut [u8]| {
            self.read_back_bytes.fetch_add(buf.len() as u64, Relaxed);
            match self.disk.read(Lba::new(at.get()), buf) {
                Ok(()) => Ok(true),
                Err(DiskError::Medium { .. } | DiskError::Destroyed { .. }) => Ok(false),
                Err(error) => Err(error),
            }
        };
        let (mut at, mut left) = (region.start, region.len);
        while !left.is_zero() {
            let len = left.min(LOOK_LEN);
            if !can_read(at, &mut buf[..len.bytes() as usize])? {
                for at in (0..len.get()).map(|index| at + Blocks::new(index)) {
                    if !can_read(at, &mut buf[..BLOCK_LEN_BYTES])? {
                        lost.push(at);
                    }
                }
            }
            at += len;
            left -= len;
        }
        Ok(lost)
    }

    /// Whether all of `region` can be read and is zeros.
    pub(crate) fn is_blank(&self, region: Region) -> bool {
        let mut buf = vec![0; region.len.min(LOOK_LEN).bytes() as usize];
        let (mut at, mut left) = (region.start, region.len);
        while !left.is_zero() {
            let len = left.min(LOOK_LEN);
            let now = &mut buf[..len.bytes() as usize];
            self.recovery_read_bytes.fetch_add(now.len() as u64, Relaxed);
            let is_read = self.disk.read(Lba::new(at.get()), now).is_ok();
            if !is_read || now.iter().any(|&byte| byte != 0) {
                return false;
            }
            at += len;
            left -= len;
        }
        true
    }

    pub(crate) fn write(
        &self,
        at: Pba,
        data: &[u8],
        persist: Persist,
        purpose: Purpose,
    ) -> Result<(), DiskError> {
        let disk = self.disks.of(purpose.activity());
        disk.write(Lba::new(at.get()), data, persist)?;
        let len = data.len() as u64;
        match purpose {
            Purpose::Direct { .. } => self.direct_writes.fetch_add(1, Relaxed),
            Purpose::Rewrite { host_bytes } => {
                self.rewritten_bytes.fetch_add(len - host_bytes, Relaxed)
            }
            Purpose::Stage => self.staged_bytes.fetch_add(len, Relaxed),
            Purpose::Log => self.log_bytes.fetch_add(len, Relaxed),
        };
        Ok(())
    }

    pub(crate) fn flush(&self, activity: Activity) -> Result<(), DiskError> {
        self.disks.of(activity).flush()
    }

    pub(crate) fn discard(&self, region: Region) -> Result<(), DiskError> {
        self.disk.discard(BlockRange::new(Lba::new(region.start.get()), region.len))
    }

    pub(crate) fn count_rewrite(&self) {
        self.rewrites.fetch_add(1, Relaxed);
    }

    pub(crate) fn band_counters(&self) -> BandCounters {
        BandCounters {
            direct_writes: self.direct_writes.load(Relaxed),
            rewrites: self.rewrites.load(Relaxed),
            read_back_bytes: self.read_back_bytes.load(Relaxed),
            rewritten_bytes: self.rewritten_bytes.load(Relaxed),
            staged_bytes: self.staged_bytes.load(Relaxed),
            log_bytes: self.log_bytes.load(Relaxed),
        }
    }

    pub(crate) fn counters(&self) -> Counters {
        let own = self.band_counters();
        let mut counters = self.disk.counters();
        counters.added_read_bytes += own.read_back_bytes + self.recovery_read_bytes.load(Relaxed);
        counters.added_written_bytes += own.rewritten_bytes + own.staged_bytes + own.log_bytes;
        counters
    }

    pub(crate) fn head(&self) -> Option<Pba> {
        self.disk.head()
    }
}

/// The length of `bytes` in blocks.
pub(crate) fn blocks_of(bytes: &[u8]) -> Blocks {
    Blocks::holding(bytes.len() as u64)
}

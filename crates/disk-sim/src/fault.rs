//! Faults: what may go wrong with a simulated disk, when, and which layer must survive it.
//!
//! The fault model
//!
//! - *Power cut.* The power may fail while any write, flush, reset or finish is under way. Data
//!   that had returned and was flushed is kept. Any part of the unflushed data, including the
//!   operation under way, may be on the platter. In a sequential zone that part is a prefix in
//!   whole blocks. Elsewhere each block survives on its own, so a write of several blocks may be
//!   torn. Where tracks overlap, each block on the platter has destroyed what it reaches. A single
//!   block is a mixture of old and new only if sectors are shorter than a block
//!   ([`SimDiskBuilder::sectors`](crate::SimDiskBuilder::sectors)). A reset under way either
//!   happened or did not. Every layer that acknowledges a sync must survive a power cut.
//! - *Broken sector.* Part of a power cut, on a disk built with
//!   [`SimDiskBuilder::breaking_sectors`](crate::SimDiskBuilder::breaking_sectors). The head was in
//!   the middle of a sector, so its check bytes match neither the old nor the new content. A cut
//!   breaks at most one block, always one that an unflushed write was writing; an overwrite in
//!   place loses the old content as well. The block is a latent sector error until it is written
//!   again. In a sequential zone it is the block after the prefix. A drive that finds its write
//!   pointer from what its tracks return may place it before that block; the next write then heals
//!   the block, and the cut looks like one without this fault. This simulator places the pointer
//!   after it: the block counts as written, cannot be read, and cannot be written before the zone
//!   is reset. The host must open without help, because it lost nothing that was flushed.
//! - *I/O error.* Any request may fail once, or one kind of request permanently. A failed write has
//!   changed nothing, unless the plan lets it write a part. That part is a prefix in whole blocks
//!   in a sequential zone, so the pointer has moved; elsewhere it is any set of its blocks. Where
//!   tracks overlap, the part has destroyed what it reaches. After a failed flush it is unknown
//!   what is durable, and the disk refuses writes until it is reopened. The same holds for every
//!   other failure of the file system below an image to make data durable. The host must report the
//!   error and must not acknowledge the data.
//! - *Latent sector error.* Blocks become unreadable without notice, and a read of them fails. A
//!   write heals them when it reaches the platter (the drive relocates the sector). Until then
//!   reads are served from the cache, and a power cut that loses the write leaves the blocks
//!   unreadable. The host must name what it lost.
//! - *Bit rot.* A stored bit flips and the read succeeds. Checksums of the host must notice.
//! - *Misdirected write.* The write is acknowledged and lands elsewhere. Checksums that include the
//!   address must notice, at both places.
//! - *Killed process.* A process is killed while it waits for the platter. Its data is in the cache
//!   and unflushed, and the power stays on. The next process must not take what it reads for
//!   durable.
//! - *Short device.* The disk ends before the length it reports. Requests past the end are refused.
//!
//! Not in the model: a disk that lies about a flush, a write that returns before an earlier
//! acknowledged [`Persist::Through`](imbrex_disk::Persist::Through), damage to zone pointers.

use imbrex_clockwork::Prng;
use imbrex_disk::{BlockRange, Blocks, DiskError, Lba};
use std::collections::BTreeMap;

/// One failure of one kind of request. Counts start when the plan is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FailAt {
    /// How many requests of the kind succeed first.
    pub after: u64,
    /// Whether all later ones fail too.
    pub sticky: bool,
}

impl FailAt {
    fn hits(self, index: u64) -> bool {
        index == self.after || (self.sticky && index > self.after)
    }
}

/// A write that lands elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Misdirect {
    /// How many writes land at their address first.
    pub after: u64,
    /// How far past its address the write lands. It wraps at the end of the disk.
    pub shift: Blocks,
}

/// The faults to inject, from the moment the plan is set on a disk. Counts start at that moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FaultPlan {
    /// The number of device events (writes, flushes, resets, finishes) that complete. The power
    /// fails while the next one is under way.
    pub power_cut_after: Option<u64>,
    /// Fail a read.
    pub fail_read: Option<FailAt>,
    /// Fail a write.
    pub fail_write: Option<FailAt>,
    /// The seed that decides how much of a failed write is written, and whether to the platter or
    /// to the cache. Without a seed nothing is written.
    pub write_part: Option<u64>,
    /// Fail a flush; the disk is then poisoned.
    pub fail_flush: Option<FailAt>,
    /// The number of syncs (writes through the cache, and flushes) that complete. Later writes
    /// reach only the cache, later flushes do nothing, and both fail, because the process was
    /// killed. The disk keeps working for the next process.
    pub kill_in_sync_after: Option<u64>,
    /// Misdirect one write.
    pub misdirect_write: Option<Misdirect>,
    /// The disk ends here, whatever its geometry says.
    pub short_len: Option<Blocks>,
}

/// What a fault does to one event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It happens as asked.
    Proceed,
    /// It happens, this far past its address.
    Misdirected(Blocks),
    /// It fails. A write may have changed a part.
    Fail,
    /// The power fails while it is under way.
    PowerCut,
}

/// A plan and its progress.
#[derive(Debug, Default)]
pub(crate) struct FaultState {
    plan: FaultPlan,
    event_count: u64,
    read_count: u64,
    write_count: u64,
    flush_count: u64,
    sync_count: u64,
    hit_count: u64,
    /// Decides how much of a failed write is written, if the plan has a seed.
    part: Option<Prng>,
    /// Unreadable runs: start -> end, disjoint.
    latent: BTreeMap<u64, u64>,
}

impl FaultState {
    /// Starts a plan; latent errors stay.
    pub(crate) fn set_plan(&mut self, plan: FaultPlan) {
        let latent = std::mem::take(&mut self.latent);
        let part = plan.write_part.map(Prng::new);
        *self = FaultState { plan, part, latent, ..FaultState::default() };
    }

    /// Counts a sync and reports whether the process is killed during it.
    pub(crate) fn on_sync(&mut self) -> bool {
        let index = self.sync_count;
        self.sync_count += 1;
        self.plan.kill_in_sync_after.is_some_and(|after| after <= index)
    }

    /// Device events since the plan was set.
    pub(crate) fn event_count(&self) -> u64 {
        self.event_count
    }

    /// Requests that the plan failed, other than by cutting the power.
    pub(crate) fn hit_count(&self) -> u64 {
        self.hit_count
    }

    /// Checks `range` against the real end of the disk.
    pub(crate) fn check_len(&self, range: BlockRange) -> Result<(), DiskError> {
        match self.plan.short_len {
            Some(len) if range.end().get() > len.get() => Err(DiskError::OutOfRange { range, len }),
            _ => Ok(()),
        }
    }

    /// Counts a read and reports whether it fails.
    pub(crate) fn on_read(&mut self, range: BlockRange) -> Result<(), DiskError> {
        self.check_len(range)?;
        let index = self.read_count;
        self.read_count += 1;
        if self.plan.fail_read.is_some_and(|fail| fail.hits(index)) {
            self.hit_count += 1;
            return Err(injected("read", range));
        }
        Ok(())
    }

    /// Whether any block is unreadable.
    pub(crate) fn has_latent(&self) -> bool {
        !self.latent.is_empty()
    }

    /// Checks that `range` can be read from the platter.
    pub(crate) fn check_platter(&self, range: BlockRange) -> Result<(), DiskError> {
        match self.first_latent(range) {
            Some(at) => Err(DiskError::Medium { at }),
            None => Ok(()),
        }
    }

    /// Counts a write and returns its fate.
    pub(crate) fn on_write(&mut self) -> Fate {
        let index = self.write_count;
        self.write_count += 1;
        match self.on_event() {
            Fate::Proceed => {}
            fate => return fate,
        }
        if self.plan.fail_write.is_some_and(|fail| fail.hits(index)) {
            self.hit_count += 1;
            return Fate::Fail;
        }
        match self.plan.misdirect_write {
            Some(misdirect) if misdirect.after == index => Fate::Misdirected(misdirect.shift),
            _ => Fate::Proceed,
        }
    }

    /// The parts of `range` that a failed write has written. For a write at a pointer, one run from
    /// its start.
    pub(crate) fn written_part(&mut self, range: BlockRange, at_pointer: bool) -> Vec<BlockRange> {
        let Some(prng) = &mut self.part else { return Vec::new() };
        let start = |len: u64| BlockRange::new(range.start, Blocks::new(len));
        let block = |index: u64| BlockRange::new(range.start + Blocks::new(index), Blocks::new(1));
        // One third each: nothing, everything, a part.
        match prng.below(3) {
            0 => Vec::new(),
            1 => vec![range],
            _ if at_pointer => vec![start(prng.below(range.len.get()))],
            _ => (0..range.len.get()).filter(|_| prng.chance(1, 2)).map(block).collect(),
        }
    }

    /// Whether the written part of a failed write through the cache remains in the cache.
    pub(crate) fn stays_in_cache(&mut self) -> bool {
        self.part.as_mut().is_some_and(|prng| prng.chance(1, 2))
    }

    /// Counts a flush and returns its fate.
    pub(crate) fn on_flush(&mut self) -> Fate {
        let index = self.flush_count;
        self.flush_count += 1;
        match self.on_event() {
            Fate::Proceed if self.plan.fail_flush.is_some_and(|fail| fail.hits(index)) => {
                self.hit_count += 1;
                Fate::Fail
            }
            fate => fate,
        }
    }

    /// Counts any other device event.
    pub(crate) fn on_event(&mut self) -> Fate {
        let index = self.event_count;
        self.event_count += 1;
        match self.plan.power_cut_after {
            Some(after) if index >= after => Fate::PowerCut,
            _ => Fate::Proceed,
        }
    }

    /// Makes `range` unreadable until it is written.
    pub(crate) fn damage(&mut self, range: BlockRange) {
        self.heal(range);
        self.latent.insert(range.start.get(), range.end().get());
    }

    /// Makes `range` readable again after a write to the platter.
    pub(crate) fn heal(&mut self, range: BlockRange) {
        if self.latent.is_empty() {
            return;
        }
        let (start, end) = (range.start.get(), range.end().get());
        let touched: Vec<(u64, u64)> = self
            .latent
            .range(..end)
            .filter(|&(_, &run_end)| run_end > start)
            .map(|(&run_start, &run_end)| (run_start, run_end))
            .collect();
        for (run_start, run_end) in touched {
            self.latent.remove(&run_start);
            if run_start < start {
                self.latent.insert(run_start, start);
            }
            if end < run_end {
                self.latent.insert(end, run_end);
            }
        }
    }

    /// Whether no block of `range` can be read from the platter.
    pub(crate) fn is_unreadable(&self, range: BlockRange) -> bool {
        let mut blocks = range.start.get()..range.end().get();
        let block = |at| BlockRange::new(Lba::new(at), Blocks::new(1));
        self.has_latent() && blocks.all(|at| self.first_latent(block(at)).is_some())
    }

    fn first_latent(&self, range: BlockRange) -> Option<Lba> {
        let (start, end) = (range.start.get(), range.end().get());
        let (&run_start, _) = self.latent.range(..end).find(|&(_, &run_end)| run_end > start)?;
        Some(Lba::new(run_start.max(start)))
    }
}

/// The error of an injected failure, in the form in which the kernel would report it.
pub(crate) fn injected(what: &str, range: BlockRange) -> DiskError {
    let source = std::io::Error::from_raw_os_error(rustix::io::Errno::IO.raw_os_error());
    DiskError::Host { what: format!("{what} of blocks {range} (injected fault)"), source }
}

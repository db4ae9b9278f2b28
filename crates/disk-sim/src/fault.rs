//! Faults: what may go wrong with a simulated disk, when, and who must survive it.
//!
//! The fault model
//!
//! - *Power cut.* Power may go while any write, flush, reset or finish is on its way. What had
//!   returned and was flushed is kept. Of what was not flushed, the operation on its way included,
//!   any part may be on the platter: in a sequential zone a prefix in whole blocks, elsewhere each
//!   block on its own, so that a write of several blocks may be torn. Where tracks overlap each block
//!   that is on the platter has destroyed what it reaches. A block itself is a mixture of old and new only
//!   where sectors are shorter ([`SimDiskBuilder::sectors`](crate::SimDiskBuilder::sectors)). A reset on its
//!   way happened or did not. Every layer that acknowledges a sync must survive it.
//! - *Broken sector.* Part of a power cut, where the disk was told so
//!   ([`SimDiskBuilder::breaking_sectors`](crate::SimDiskBuilder::breaking_sectors)): the head was in the midst of a
//!   sector, whose check bytes then match neither what was there nor what was to be. At most one block a cut is lost in
//!   this way, of those that were being written: never one that no unflushed write names, but what a write in place was
//!   to replace is gone as well. It is a latent sector error until it is written again. In a sequential zone it is the
//!   block behind the prefix. A drive that finds its pointer again by what its tracks answer may let it stand before
//!   that block, so that the next write heals it, which is the cut without this fault; or behind it, which is what this
//!   one does: the block counts as written, cannot be read, and cannot be written before the zone is reset. The host
//!   must open by itself: it lost nothing that was flushed.
//! - *I/O error.* Any request may fail once, or a kind of request for good. A failed write has
//!   changed nothing, or where the plan says so it has written any part: in a sequential zone a prefix in
//!   whole blocks, so that the pointer has moved, elsewhere each block or not; where tracks overlap that part has
//!   destroyed what it reaches. A failed flush leaves unknown what is durable, and the disk refuses writes
//!   until it is reopened; so does whatever else the file system below an image fails to make durable. The host
//!   must report it and must not acknowledge.
//! - *Latent sector error.* Blocks become unreadable in silence; a read of them fails, a write
//!   heals them (the drive relocates the sector) when it reaches the platter: until then they are read from the
//!   cache, and a power cut that loses the write leaves them unreadable. The host must name what it lost.
//! - *Bit rot.* A stored bit flips and the read succeeds. Checksums of the host must notice.
//! - *Misdirected write.* The write is acknowledged and lands elsewhere. Checksums that know their
//!   address must notice, at both places.
//! - *Killed process.* Whoever waits for the platter is killed while it does: what it wrote is in the cache, nobody
//!   flushes that, and the power is there. The next process must not take what it reads for durable.
//! - *Short device.* The disk ends earlier than it says. Requests past the end are refused.
//!
//! Not in the model: a disk that lies about a flush, a write that returns before an earlier
//! acknowledged [`Persist::Through`](imbrex_disk::Persist::Through), damage to zone pointers.

use imbrex_clockwork::Prng;
use imbrex_disk::{BlockRange, Blocks, DiskError, Lba};
use std::collections::BTreeMap;

/// One failure of one kind of request, counted from when the plan was set.
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
    /// How many writes go where they should first.
    pub after: u64,
    /// How far past its address the write lands; it wraps at the end of the disk.
    pub shift: Blocks,
}

/// What shall go wrong, from the moment it is set on a disk. Counts start at that moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FaultPlan {
    /// So many device events (writes, flushes, resets, finishes) complete; the next is on its way
    /// when the power goes.
    pub power_cut_after: Option<u64>,
    /// Fail a read.
    pub fail_read: Option<FailAt>,
    /// Fail a write.
    pub fail_write: Option<FailAt>,
    /// Of writes that fail, how much is written all the same, and whether to the platter or to the cache, is drawn by
    /// this seed; without one, nothing is.
    pub write_part: Option<u64>,
    /// Fail a flush; the disk is then poisoned.
    pub fail_flush: Option<FailAt>,
    /// After so many writes through the cache and flushes the others get no further than into it, or do nothing, and
    /// fail: nobody is there any more to hear of their end. The disk goes on for the next process.
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
    /// It happens, so far past its address.
    Misdirected(Blocks),
    /// It fails. A write may have changed a part.
    Fail,
    /// The power goes while it is on its way.
    PowerCut,
}

/// A plan, and how far it is.
#[derive(Debug, Default)]
pub(crate) struct FaultState {
    plan: FaultPlan,
    event_count: u64,
    read_count: u64,
    write_count: u64,
    flush_count: u64,
    sync_count: u64,
    hit_count: u64,
    /// Draws what of failed writes is written, if anything is.
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

    /// Counts a sync and says whether nobody lives to hear of its end.
    pub(crate) fn on_sync(&mut self) -> bool {
        let index = self.sync_count;
        self.sync_count += 1;
        self.plan.kill_in_sync_after.is_some_and(|after| after <= index)
    }

    /// Device events since the plan was set.
    pub(crate) fn event_count(&self) -> u64 {
        self.event_count
    }

    /// Requests that the plan made fail, the power aside.
    pub(crate) fn hit_count(&self) -> u64 {
        self.hit_count
    }

    /// Where the disk really ends.
    pub(crate) fn check_len(&self, range: BlockRange) -> Result<(), DiskError> {
        match self.plan.short_len {
            Some(len) if range.end().get() > len.get() => Err(DiskError::OutOfRange { range, len }),
            _ => Ok(()),
        }
    }

    /// Counts a read and says whether it fails.
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

    /// Says whether `range` can be read from the platter.
    pub(crate) fn check_platter(&self, range: BlockRange) -> Result<(), DiskError> {
        match self.first_latent(range) {
            Some(at) => Err(DiskError::Medium { at }),
            None => Ok(()),
        }
    }

    /// Counts a write and says what becomes of it.
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

    /// What of a write to `range` that fails is written all the same: one run from its start on if it goes to
    /// a pointer.
    pub(crate) fn written_part(&mut self, range: BlockRange, at_pointer: bool) -> Vec<BlockRange> {
        let Some(prng) = &mut self.part else { return Vec::new() };
        let start = |len: u64| BlockRange::new(range.start, Blocks::new(len));
        let block = |index: u64| BlockRange::new(range.start + Blocks::new(index), Blocks::new(1));
        // A third each: nothing, all, a part.
        match prng.below(3) {
            0 => Vec::new(),
            1 => vec![range],
            _ if at_pointer => vec![start(prng.below(range.len.get()))],
            _ => (0..range.len.get()).filter(|_| prng.chance(1, 2)).map(block).collect(),
        }
    }

    /// Whether what a failed write through the cache has written is in the cache.
    pub(crate) fn stays_in_cache(&mut self) -> bool {
        self.part.as_mut().is_some_and(|prng| prng.chance(1, 2))
    }

    /// Counts a flush and says what becomes of it.
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

    /// Makes `range` readable again: it was written to the platter.
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

/// The error of an injected failure: as the kernel would report it.
pub(crate) fn injected(what: &str, range: BlockRange) -> DiskError {
    let source = std::io::Error::from_raw_os_error(rustix::io::Errno::IO.raw_os_error());
    DiskError::Host { what: format!("{what} of blocks {range} (injected fault)"), source }
}

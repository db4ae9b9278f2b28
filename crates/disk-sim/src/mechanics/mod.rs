//! Mechanics: how long a drive takes for a request.
//!
//! ```text
//!     start = max(now, free_at)          the arm, the platter and the cache have one queue
//!     end   = start + overhead + seek + rotation + transfer
//!     free_at = end; the caller's clock moves to end
//! ```
//!
//! Between requests the head stays busy. After a read it reads on into the *look-ahead* buffer. It
//! also *destages* cached writes to the platter, nearest first.
//!
//! Invariants
//!   E1  Time is counted in whole nanoseconds; nothing here is a float, a clock or a random number.
//!   E2  `free_at_ns` never decreases. `busy_ns` counts every moment once.
//!   E3  A write-cache extent is pending exactly while its blocks are not on the platter. Extents
//!       neither overlap nor touch.
//!   E4  A cached write is destaged no earlier than it arrived.
//!   E5  Busy time counts for the activity that caused it. The destaging of cached data counts for the
//!       activity that wrote them, whichever request waits for it.
//!
//! This module models time only. `cache.rs` decides which unflushed bytes a power cut loses.
//!
//! Sources: Ruemmler and Wilkes, "An introduction to disk drive modeling" (1994); shortest
//! positioning time first: Jacobson and Wilkes (1991).

mod dirty;
mod platter;
mod seek;

pub(crate) use platter::PlatterSpec;
pub(crate) use seek::SeekSpec;

use dirty::DirtyExtents;
use imbrex_disk::{Activity, ActivityCounters, BLOCK_LEN_BYTES, ByActivity};
use platter::Platter;
use seek::SeekCurve;
use serde::Deserialize;

/// The electronics: what a request costs besides seek and rotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ElectronicsSpec {
    /// From the host's command to the start of the work, and back.
    pub(crate) command_overhead_ns: u64,
    /// The interface's speed.
    pub(crate) interface_bytes_per_s: u64,
    /// How far the head reads on after a read.
    pub(crate) look_ahead_blocks: u64,
    /// How much written data the drive's cache holds. 0 for a drive that writes at once.
    pub(crate) write_cache_blocks: u64,
    /// The drive picks the nearest of this many oldest cached writes.
    pub(crate) destage_choice_count: u64,
    /// How long the head rests before it destages non-urgent writes.
    pub(crate) destage_idle_ns: u64,
    /// The drive picks the nearest of this many oldest queued reads.
    pub(crate) read_choice_count: u64,
    /// How long a flush takes when everything is on the platter.
    pub(crate) flush_overhead_ns: u64,
    /// How much written data stays readable in the buffer after it went to the platter. No profile says so:
    /// makers publish nothing about it.
    #[serde(skip)]
    pub(crate) kept_write_blocks: u64,
}

/// What the head reads on its own after a read.
#[derive(Clone, Copy, Debug)]
struct LookAhead {
    /// The host has received everything below this block.
    taken: u64,
    /// At `at_ns` the head begins to read `block`. Everything below it is in the buffer.
    block: u64,
    at_ns: u64,
}

/// The state of a drive in motion.
#[derive(Debug)]
pub(crate) struct Mechanics {
    platter: Platter,
    curve: SeekCurve,
    electronics: ElectronicsSpec,
    len_blocks: u64,
    track: u64,
    free_at_ns: u64,
    look_ahead: Option<LookAhead>,
    dirty: DirtyExtents,
    /// What was written last, whether it is on the platter or not.
    kept: DirtyExtents,
    seek_count: u64,
    busy_until_ns: u64,
    /// What the request that is served now serves.
    activity: Activity,
    times: ByActivity<ActivityCounters>,
}

/// A cached write goes to the platter in pieces of at most this length, so that a long run does not
/// delay a read. 1 MiB is less than a track.
const DESTAGE_PIECE_BLOCKS: u64 = 256;

impl Mechanics {
    /// A drive of `len_blocks` blocks, its head at the outermost track.
    pub(crate) fn new(
        platter: PlatterSpec,
        seek: SeekSpec,
        electronics: ElectronicsSpec,
        len_blocks: u64,
    ) -> Mechanics {
        let platter = Platter::new(platter, len_blocks);
        let curve = SeekCurve::new(seek, platter.cylinder_count());
        Mechanics {
            platter,
            curve,
            electronics,
            len_blocks,
            track: 0,
            free_at_ns: 0,
            look_ahead: None,
            dirty: DirtyExtents::default(),
            kept: DirtyExtents::default(),
            seek_count: 0,
            busy_until_ns: 0,
            activity: Activity::default(),
            times: ByActivity::default(),
        }
    }

    /// Requests that had to move the head to another track.
    pub(crate) fn seek_count(&self) -> u64 {
        self.seek_count
    }

    /// How long the drive was busy for each activity, and what the head did in that time. The rest of
    /// it is electronics: commands, and data that the host takes from the drive's memory.
    pub(crate) fn times(&self) -> &ByActivity<ActivityCounters> {
        &self.times
    }

    /// The requests from now on serve `activity`.
    pub(crate) fn serve(&mut self, activity: Activity) {
        self.activity = activity;
    }

    /// The first block of the track that the head is at.
    pub(crate) fn head_block(&self) -> u64 {
        self.platter.first_block(self.track).min(self.len_blocks.saturating_sub(1))
    }

    /// Serves one read that arrives at `now_ns`; returns when the host has the data.
    pub(crate) fn read(&mut self, now_ns: u64, block: u64, len: u64) -> u64 {
        self.catch_up(now_ns);
        let handed_over_ns = now_ns + self.handover_ns(len);
        if self.dirty.holds(block, len) || self.kept.holds(block, len) {
            return self.spend(now_ns, handed_over_ns);
        }
        let start_ns = now_ns.max(self.free_at_ns);
        let ready_ns = start_ns + self.electronics.command_overhead_ns;
        let moved_ns = self.positioned_ns(ready_ns, block, false);
        let (moved_end_ns, _) = self.platter.transfer(block, len, moved_ns, false);
        // Reading further helps only if it is no detour: a seek may arrive earlier.
        let end_ns = match self.look_ahead_hit(now_ns, block, len, moved_end_ns) {
            Some(passed_ns) => {
                self.times[self.activity].transfer_ns += passed_ns.saturating_sub(start_ns);
                passed_ns.max(handed_over_ns)
            }
            None => {
                let at_ns = self.move_head(ready_ns, block, false);
                let end_ns = self.transfer(block, len, at_ns, false);
                let taken = block + len;
                self.look_ahead = Some(LookAhead { taken, block: taken, at_ns: end_ns });
                end_ns
            }
        };
        self.free_at_ns = self.free_at_ns.max(end_ns);
        self.spend(start_ns.min(end_ns), end_ns)
    }

    /// Which of the queued reads `(block, len)` the drive serves next at `now_ns`.
    pub(crate) fn pick(&self, now_ns: u64, queue: &[(u64, u64)]) -> usize {
        let now_ns = now_ns.max(self.free_at_ns);
        let choice = queue.len().min(self.electronics.read_choice_count as usize);
        (0..choice)
            .min_by_key(|&index| {
                let (block, _) = queue[index];
                match self.look_ahead {
                    // The head is already reading there.
                    Some(ahead) if ahead.taken <= block && block <= ahead.block => now_ns,
                    _ => self.positioned_ns(now_ns, block, false),
                }
            })
            .unwrap_or(0)
    }

    /// Serves reads that were queued together; returns when the last is served.
    pub(crate) fn read_queue(&mut self, now_ns: u64, mut queue: Vec<(u64, u64)>) -> u64 {
        let mut end_ns = now_ns;
        while !queue.is_empty() {
            let (block, len) = queue.remove(self.pick(end_ns, &queue));
            end_ns = end_ns.max(self.read(end_ns, block, len));
        }
        end_ns
    }

    /// Takes one write that arrives at `now_ns`; returns when the host may go on.
    pub(crate) fn write(&mut self, now_ns: u64, block: u64, len: u64, through: bool) -> u64 {
        self.catch_up(now_ns);
        self.keep(block, len);
        if through || self.electronics.write_cache_blocks == 0 {
            return self.write_through(now_ns, block, len);
        }
        // A write longer than the cache flows through it in pieces.
        let piece_max = (self.electronics.write_cache_blocks / 4).max(1);
        let (mut at_ns, mut block, mut left) = (now_ns, block, len);
        while left > 0 {
            let piece = left.min(piece_max);
            at_ns = at_ns.max(self.make_room(at_ns, piece));
            let rest_ns = self.rest_ns();
            self.dirty.add(block, piece, self.activity);
            if self.rest_ns() < rest_ns {
                // Data destaged from here on arrived now, however long the head has rested.
                self.free_at_ns = self.free_at_ns.max(at_ns);
            }
            block += piece;
            left -= piece;
        }
        self.spend(now_ns, at_ns.max(now_ns + self.handover_ns(len)))
    }

    /// Keeps what is written, and drops what was written first.
    fn keep(&mut self, block: u64, len: u64) {
        let capacity = self.electronics.kept_write_blocks;
        if capacity == 0 {
            return;
        }
        self.kept.add(block, len, self.activity);
        while let Some(excess) = self.kept.len_blocks().checked_sub(capacity).filter(|n| *n > 0) {
            let Some((oldest, len)) = self.kept.oldest().next() else { break };
            self.kept.remove(oldest, len.min(excess));
        }
    }

    fn write_through(&mut self, now_ns: u64, block: u64, len: u64) -> u64 {
        self.dirty.remove(block, len);
        self.look_ahead = None;
        let start_ns = now_ns.max(self.free_at_ns);
        let ready_ns = start_ns + self.handover_ns(len);
        let at_ns = self.move_head(ready_ns, block, true);
        let end_ns = self.transfer(block, len, at_ns, true);
        self.free_at_ns = end_ns;
        self.spend(start_ns, end_ns)
    }

    /// Empties the write cache. Returns when all data is on the platter.
    pub(crate) fn flush(&mut self, now_ns: u64) -> u64 {
        self.catch_up(now_ns);
        let start_ns = now_ns.max(self.free_at_ns);
        while self.destage(start_ns) {}
        let end_ns = self.free_at_ns.max(start_ns) + self.electronics.flush_overhead_ns;
        self.free_at_ns = end_ns;
        self.spend(start_ns, end_ns)
    }

    /// A command that moves no data. Drops the cached data of `block ..+ len`.
    pub(crate) fn command(&mut self, now_ns: u64, block: u64, len: u64) -> u64 {
        self.catch_up(now_ns);
        self.dirty.remove(block, len);
        self.kept.remove(block, len);
        self.spend(now_ns, now_ns + self.electronics.command_overhead_ns)
    }

    /// The power went: the cache and the buffer are empty.
    pub(crate) fn power_cut(&mut self) {
        self.dirty = DirtyExtents::default();
        self.kept = DirtyExtents::default();
        self.look_ahead = None;
    }

    /// Performs what the drive does on its own until `now_ns`.
    fn catch_up(&mut self, now_ns: u64) {
        while !self.dirty.is_empty() {
            let from_ns = self.free_at_ns.saturating_add(self.rest_ns());
            if from_ns >= now_ns {
                break;
            }
            self.destage(from_ns);
        }
    }

    /// How long the head rests before it destages cached data. Forever if there is none.
    fn rest_ns(&self) -> u64 {
        match self.dirty.len_blocks() {
            0 => u64::MAX,
            len if len * 2 >= self.electronics.write_cache_blocks => 0,
            _ => self.electronics.destage_idle_ns,
        }
    }

    fn make_room(&mut self, now_ns: u64, len: u64) -> u64 {
        let capacity = self.electronics.write_cache_blocks;
        let mut room_ns = now_ns;
        while self.dirty.len_blocks() + len > capacity && self.destage(now_ns) {
            room_ns = self.free_at_ns;
        }
        room_ns
    }

    /// Moves the nearest of the oldest cached writes to the platter.
    fn destage(&mut self, from_ns: u64) -> bool {
        let start_ns = from_ns.max(self.free_at_ns);
        let nearest = self
            .dirty
            .oldest()
            .take(self.electronics.destage_choice_count as usize)
            .min_by_key(|&(block, _)| self.positioned_ns(start_ns, block, true));
        let Some((block, len)) = nearest else { return false };
        let piece = len.min(DESTAGE_PIECE_BLOCKS);
        let writer = self.dirty.activity_at(block);
        let waiting = std::mem::replace(&mut self.activity, writer);
        self.look_ahead = None;
        let at_ns = self.move_head(start_ns, block, true);
        let end_ns = self.transfer(block, piece, at_ns, true);
        self.dirty.remove(block, piece);
        self.free_at_ns = end_ns;
        self.spend(start_ns, end_ns);
        self.activity = waiting;
        true
    }

    /// When the head, free at `from_ns`, could start to transfer `block`.
    fn positioned_ns(&self, from_ns: u64, block: u64, write: bool) -> u64 {
        let arrived_ns = from_ns + self.move_ns(block, write);
        self.platter.next_pass_ns(self.platter.spot(block), arrived_ns)
    }

    /// How long the arm takes to the track of `block`.
    fn move_ns(&self, block: u64, write: bool) -> u64 {
        let spot = self.platter.spot(block);
        if spot.track == self.track {
            0
        } else if spot.track == self.track + 1 && spot.index == 0 {
            // Continuing with the next track: the skew exists for this.
            self.platter.track_switch_ns()
        } else {
            let from = self.platter.cylinder(self.track);
            let distance = from.abs_diff(self.platter.cylinder(spot.track));
            let settle_ns = if write { self.curve.write_settle_ns() } else { 0 };
            self.curve.ns(distance) + settle_ns
        }
    }

    fn move_head(&mut self, from_ns: u64, block: u64, write: bool) -> u64 {
        let at_ns = self.positioned_ns(from_ns, block, write);
        let spot = self.platter.spot(block);
        let goes_on = spot.track == self.track + 1 && spot.index == 0;
        if spot.track != self.track && !goes_on {
            self.seek_count += 1;
        }
        let move_ns = self.move_ns(block, write);
        let times = &mut self.times[self.activity];
        times.seek_ns += move_ns;
        times.turn_ns += at_ns - from_ns - move_ns;
        at_ns
    }

    /// Transfers blocks from `at_ns` on, with the head in place; returns when they have passed.
    fn transfer(&mut self, block: u64, len: u64, at_ns: u64, write: bool) -> u64 {
        let (end_ns, track) = self.platter.transfer(block, len, at_ns, write);
        self.track = track;
        self.times[self.activity].transfer_ns += end_ns - at_ns;
        end_ns
    }

    /// When the head, while it reads on by itself, has passed the request. `None` if that happens
    /// not at all or not before `bound_ns`.
    fn look_ahead_hit(&mut self, now_ns: u64, block: u64, len: u64, bound_ns: u64) -> Option<u64> {
        let reach = self.electronics.look_ahead_blocks;
        let mut ahead = self.look_ahead?;
        let limit = (ahead.taken + reach).min(self.len_blocks);
        if block < ahead.taken || block > limit {
            return None;
        }
        let mut track = self.track;
        if limit > ahead.block {
            let (full_ns, full_track) =
                self.platter.transfer(ahead.block, limit - ahead.block, ahead.at_ns, false);
            if full_ns < now_ns && limit < self.len_blocks {
                // The buffer was full before the host came back: the head stopped, and continues
                // when the next block comes around again.
                track = full_track;
                ahead.block = limit;
                ahead.at_ns = self.platter.next_pass_ns(self.platter.spot(limit), now_ns);
            }
        }
        let end = block + len;
        let mut passed_ns = now_ns;
        if end > ahead.block {
            (passed_ns, track) =
                self.platter.transfer(ahead.block, end - ahead.block, ahead.at_ns, false);
            if passed_ns > bound_ns {
                return None;
            }
            ahead.block = end;
            ahead.at_ns = passed_ns;
        }
        ahead.taken = end;
        self.look_ahead = Some(ahead);
        self.track = track;
        Some(passed_ns)
    }

    fn handover_ns(&self, len: u64) -> u64 {
        let bytes = u128::from(len) * BLOCK_LEN_BYTES as u128;
        let transfer_ns =
            bytes * 1_000_000_000 / u128::from(self.electronics.interface_bytes_per_s);
        self.electronics.command_overhead_ns + transfer_ns as u64
    }

    /// Counts `start_ns .. end_ns` as busy, each moment once (E2); returns `end_ns`.
    fn spend(&mut self, start_ns: u64, end_ns: u64) -> u64 {
        let from_ns = start_ns.max(self.busy_until_ns);
        self.times[self.activity].busy_ns += end_ns.saturating_sub(from_ns);
        self.busy_until_ns = self.busy_until_ns.max(end_ns);
        end_ns
    }
}

#[cfg(test)]
mod tests;

//! Holds: the claim on a run of blocks as a value; and the order of writes within a zone.

use super::{Lane, SpaceMap};
use crate::invariants;
use imbrex_disk::{BlockRange, Blocks, Lba};
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;

/// The shared space map. Its lock is never held during I/O.
#[derive(Debug)]
pub(crate) struct Space {
    map: Mutex<SpaceMap>,
    /// Signalled when the `written` pointer of a zone advances, when a write in it fails or is
    /// given up, and when a zone is finished.
    written: Condvar,
}

impl Space {
    pub(crate) fn new(map: SpaceMap) -> Arc<Space> {
        Arc::new(Space { map: Mutex::new(map), written: Condvar::new() })
    }

    /// Runs `use_map` under the lock. It must not drop a [`Hold`].
    pub(crate) fn with<T>(&self, use_map: impl FnOnce(&mut SpaceMap) -> T) -> T {
        let mut map = self.map.lock();
        let result = use_map(&mut map);
        if invariants::are_checked()
            && let Err(broken) = map.check()
        {
            panic!("{broken}");
        }
        result
    }

    /// Takes the blocks of a plan. The caller made the plan on `map` under the same lock.
    pub(crate) fn take(
        self: &Arc<Self>,
        map: &mut SpaceMap,
        range: BlockRange,
        lane: Lane,
        born: u64,
    ) -> Hold {
        map.take(range, lane, born);
        self.hold(range, false)
    }

    /// A hold on blocks that the map already counts as held and named.
    pub(crate) fn hold_named(self: &Arc<Self>, range: BlockRange) -> Hold {
        self.hold(range, true)
    }

    /// A hold on blocks that the map already counts as held, and that belong to no file.
    pub(crate) fn hold_nameless(self: &Arc<Self>, range: BlockRange) -> Hold {
        self.hold(range, false)
    }

    fn hold(self: &Arc<Self>, range: BlockRange, named: bool) -> Hold {
        let state = HoldState { len: range.len, named };
        Hold { space: Arc::clone(self), start: range.start, state: Mutex::new(state) }
    }

    /// Waits until everything that was placed before `range`, in its zone or within reach, is
    /// written. Returns `false` if an earlier write in the zone failed, so that this will never
    /// happen.
    ///
    /// Cannot deadlock: plans take their ranges under one lock, and wait only for older plans.
    pub(crate) fn wait_turn(&self, range: BlockRange) -> bool {
        let mut map = self.map.lock();
        loop {
            match map.is_turn_of(range) {
                Some(true) => return true,
                Some(false) => self.written.wait(&mut map),
                None => return false,
            }
        }
    }

    /// Begins the zone of `range`, whose turn has come. Returns `false` if the drive's limit on
    /// active zones is reached. Then either a zone can be finished, or this call has waited for one
    /// that was being written or finished.
    ///
    /// Cannot deadlock: a writer needs no further zone to finish this one. If there is no writer,
    /// the drive decides.
    pub(crate) fn begin_zone(&self, range: BlockRange) -> bool {
        let mut map = self.map.lock();
        if !map.has_slot_for(range) {
            if map.zone_to_finish().is_some() {
                return false;
            }
            if map.will_have_slot() {
                self.written.wait(&mut map);
                return false;
            }
        }
        map.begin_zone(range);
        true
    }

    /// Waits for a zone that another writer fills, if there is one, because its slot becomes free.
    pub(crate) fn wait_for_filling(&self) -> bool {
        let mut map = self.map.lock();
        let is_filling = map.is_filling();
        if is_filling {
            self.written.wait(&mut map);
        }
        is_filling
    }

    /// Waits until no zone is being finished. Until then a zone that nothing holds cannot be reset.
    pub(crate) fn wait_for_finishes(&self) {
        let mut map = self.map.lock();
        self.written.wait_while(&mut map, |map| map.is_finishing());
    }

    /// Wakes the writers that wait for a turn in a zone or for a slot.
    pub(crate) fn wake(&self) {
        self.written.notify_all();
    }

    /// Records that `range` was written, or that its write failed.
    pub(crate) fn end_turn(&self, range: BlockRange, done: bool) {
        self.map.lock().end_turn(range, done);
        self.written.notify_all();
    }
}

/// The claim of one file on one run of blocks. Dropping it makes the run dead or free (S4).
#[derive(Debug)]
pub(crate) struct Hold {
    space: Arc<Space>,
    start: Lba,
    state: Mutex<HoldState>,
}

#[derive(Debug)]
struct HoldState {
    len: Blocks,
    named: bool,
}

impl Hold {
    pub(crate) fn range(&self) -> BlockRange {
        BlockRange::new(self.start, self.state.lock().len)
    }

    /// Records whether a file of the catalog owns the run.
    pub(crate) fn set_named(&self, named: bool) {
        let mut state = self.state.lock();
        if state.named != named {
            state.named = named;
            let range = BlockRange::new(self.start, state.len);
            self.space.with(|map| map.set_named(range, named));
        }
    }

    /// Gives up the run before any of it was written. The next plan may have it, unless other runs
    /// were placed after it.
    pub(crate) fn give_up(&self) {
        let mut state = self.state.lock();
        let range = BlockRange::new(self.start, state.len);
        let named = state.named;
        let is_given_back = self.space.with(|map| {
            let is_last = map.is_last(range);
            if is_last {
                map.shrink(self.start, range, named);
            } else {
                map.end_turn(range, false);
            }
            is_last
        });
        if is_given_back {
            state.len = Blocks::ZERO;
        }
        self.space.wake();
    }

    /// Keeps only the first `len` blocks and gives the rest back.
    pub(crate) fn shrink(&self, len: Blocks) {
        let mut state = self.state.lock();
        assert!(len <= state.len, "a hold never grows");
        let rest = BlockRange::new(self.start + len, state.len - len);
        let named = state.named;
        state.len = len;
        self.space.with(|map| map.shrink(self.start, rest, named));
    }

    /// After a failed write: keeps only the first `len` blocks. The rest is dead until its zone is
    /// reset. Without zones the hold keeps the rest, because its content is unknown.
    pub(crate) fn cut(&self, len: Blocks) {
        let mut state = self.state.lock();
        let rest = BlockRange::new(self.start + len, state.len - len);
        self.space.with(|map| {
            if map.unzoned.is_none() {
                map.give(rest, state.named);
                state.len = len;
            }
        });
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let HoldState { len, named } = *self.state.get_mut();
        self.space.with(|map| map.give(BlockRange::new(self.start, len), named));
    }
}

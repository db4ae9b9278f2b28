//! Holds: the claim on a run of blocks as a value, and the order of writes within a zone.

use super::{Lane, SpaceMap};
use crate::invariants;
use imbrex_disk::{BlockRange, Blocks, Lba};
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;

/// The space map, shared; its lock is never held during I/O.
#[derive(Debug)]
pub(crate) struct Space {
    map: Mutex<SpaceMap>,
    /// Signalled when a zone's `written` moves on, a write in it fails or is given up, or it is finished.
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

    /// Takes what a plan chose; the caller has planned on `map` under this same lock.
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

    /// A hold on blocks that the map counts as held and named already.
    pub(crate) fn hold_named(self: &Arc<Self>, range: BlockRange) -> Hold {
        self.hold(range, true)
    }

    fn hold(self: &Arc<Self>, range: BlockRange, named: bool) -> Hold {
        let state = HoldState { len: range.len, named };
        Hold { space: Arc::clone(self), start: range.start, state: Mutex::new(state) }
    }

    /// Waits until what was placed before `range` in its zone, or in reach of it, is written; `false`
    /// if an earlier write in the zone failed, so that it never will be.
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

    /// Begins the zone of `range`, whose turn has come. `false`: the drive has as many active zones as
    /// it allows; either one can be finished, or this has waited for one that was being written or finished.
    ///
    /// Cannot deadlock: who is writing needs no further zone to be done with this one. If nobody is, the
    /// drive has the last word.
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

    /// Waits for a zone that others fill, if there is one: its place among the active ones comes free.
    pub(crate) fn wait_for_filling(&self) -> bool {
        let mut map = self.map.lock();
        let is_filling = map.is_filling();
        if is_filling {
            self.written.wait(&mut map);
        }
        is_filling
    }

    /// Waits until no zone is being finished: until then one that nothing holds cannot be reset.
    pub(crate) fn wait_for_finishes(&self) {
        let mut map = self.map.lock();
        self.written.wait_while(&mut map, |map| map.is_finishing());
    }

    /// Tells who waits for a zone's turn, or for a place among the active ones, to look again.
    pub(crate) fn wake(&self) {
        self.written.notify_all();
    }

    /// `range` was written, or its write failed.
    pub(crate) fn end_turn(&self, range: BlockRange, done: bool) {
        self.map.lock().end_turn(range, done);
        self.written.notify_all();
    }
}

/// The claim of one file on one run of blocks; dropped, the run is dead or free (S4).
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

    /// Says whether a file of the catalog owns the run.
    pub(crate) fn set_named(&self, named: bool) {
        let mut state = self.state.lock();
        if state.named != named {
            state.named = named;
            let range = BlockRange::new(self.start, state.len);
            self.space.with(|map| map.set_named(range, named));
        }
    }

    /// Gives up the run before anything of it was written: the next plan may have it, unless others were
    /// placed behind it.
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

    /// After a failed write: keeps only the first `len` blocks. The rest is dead until its zone is reset; without zones
    /// it is kept, for nobody knows what is there.
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

//! The gate before a write: a writer stalls while background work lags, and is refused where waiting cannot help.

use crate::EngineError;
use crate::store::due;
use crate::store::{Store, gate};
use crate::work::flush;
use std::sync::atomic::Ordering;

/// While compaction lags, a writer waits after so many bytes until twice as many were compacted.
const SLOWDOWN_STRIDE_BYTES: u64 = 1 << 20;

/// Waits or refuses as the gate says.
#[cold]
pub(crate) fn pass_gate(store: &Store, is_put: bool, len_bytes: u64) -> Result<(), EngineError> {
    loop {
        let now = store.gate();
        store.check_not_refused()?;
        if now & gate::READ_ONLY != 0 {
            return Err(EngineError::ReadOnly);
        }
        if now & gate::CLOSED != 0 {
            return Err(EngineError::Closed);
        }
        if now & gate::LOW_SPACE != 0 {
            store.look_for_space();
        }
        let is_short = now & gate::LOW_SPACE != 0 && !store.refresh_space();
        if is_short && store.are_logs_kept() {
            wait_for_room(store, len_bytes)?;
            continue;
        }
        if is_short && is_put {
            return Err(store.no_space());
        }
        if is_short {
            wait_for_room(store, len_bytes)?;
        }
        if now & gate::STOP != 0 && !is_short {
            wait_while_stopped(store)?;
            continue;
        }
        if now & gate::SLOWDOWN != 0 && !is_short {
            slow_down(store, len_bytes)?;
        }
        if now & gate::CROWDED != 0 && !is_short {
            delay_offloading(store);
        }
        return Ok(());
    }
}

/// Lets a delete, or who waits for logs of before, wait as long as there is hope that it finds room.
pub(crate) fn wait_for_room(store: &Store, len_bytes: u64) -> Result<(), EngineError> {
    let Err(refusal) = store.check_recoverable(len_bytes, 0) else { return Ok(()) };
    let has_room = || store.check_recoverable(len_bytes, 0).is_ok();
    let mut ready = || has_room() || store.gate() & gate::ENDS != 0 || due::is_at_rest(store);
    if store.options.background_work && store.runtime.scheduler.wait_until(&mut ready).is_ok() {
        store.check_open()?;
        store.check_not_refused()?;
        return store.check_recoverable(len_bytes, 0);
    }
    Err(refusal)
}

/// Waits for a flush or compaction. For a flush that the background does not try any more nobody
/// waits: it is tried here, and what it says of the space is the write's answer.
pub(crate) fn wait_while_stopped(store: &Store) -> Result<(), EngineError> {
    let start_ns = store.runtime.clock.now_ns();
    store.runtime.scheduler.notify();
    let ends = gate::ENDS | gate::LOW_SPACE;
    let is_over = || store.gate() & gate::STOP == 0 || store.gate() & ends != 0;
    let mut ready = || is_over() || flush::is_flush_stuck(store);
    let waited = store.runtime.scheduler.wait_until(&mut ready);
    let end_ns = store.runtime.clock.now_ns();
    store.tally.stall_stop.note(end_ns.saturating_sub(start_ns));
    waited.map_err(|_| EngineError::Stalled { what: "a flush or compaction" })?;
    if is_over() { Ok(()) } else { flush::flush_stuck(store) }
}

/// Lets a stretch of writes pass, then waits until compaction has done twice as much.
pub(crate) fn slow_down(store: &Store, len_bytes: u64) -> Result<(), EngineError> {
    let before = store.tally.slowed_bytes.fetch_add(len_bytes, Ordering::Relaxed);
    let after = before + len_bytes;
    if before / SLOWDOWN_STRIDE_BYTES == after / SLOWDOWN_STRIDE_BYTES {
        return Ok(());
    }
    let start_ns = store.runtime.clock.now_ns();
    let goal = store.tally.background_bytes.load(Ordering::Relaxed) + 2 * SLOWDOWN_STRIDE_BYTES;
    let mut ready = || {
        store.gate() & !gate::CROWDED != gate::SLOWDOWN
            || store.tally.background_bytes.load(Ordering::Relaxed) >= goal
    };
    let waited = store.runtime.scheduler.wait_until(&mut ready);
    let end_ns = store.runtime.clock.now_ns();
    store.tally.stall_slowdown.note(end_ns.saturating_sub(start_ns));
    waited.map_err(|_| EngineError::Stalled { what: "compaction" })
}

/// Holds one write up for a while.
pub(crate) fn delay_offloading(store: &Store) {
    let clock = &store.runtime.clock;
    let start_ns = clock.now_ns();
    clock.wait_until_ns(start_ns.saturating_add(store.options.offload_delay_ns));
    store.tally.stall_offload.note(clock.now_ns().saturating_sub(start_ns));
}

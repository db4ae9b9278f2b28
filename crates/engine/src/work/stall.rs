//! The gate before a write: a writer stalls while background work lags, and is refused if waiting
//! cannot help.

use crate::EngineError;
use crate::store::due;
use crate::store::{Store, gate};
use crate::work::flush;
use std::sync::atomic::Ordering;

/// While compaction lags, a writer stalls after this many bytes, until compaction has processed
/// twice as many.
const SLOWDOWN_STRIDE_BYTES: u64 = 1 << 20;

/// Stalls or refuses a write, according to the gate.
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
        let mut shortage = None;
        if now & gate::PUTS_REFUSED != 0 {
            store.look_for_space();
            shortage = store.refresh_space();
        }
        if let Some(shortage) = shortage {
            if store.are_logs_kept() {
                stall_for_room(store, len_bytes)?;
                continue;
            }
            if is_put {
                return Err(store.refusal(shortage));
            }
            return stall_for_room(store, len_bytes);
        }
        if now & gate::STOP != 0 {
            stall_stop(store)?;
            continue;
        }
        if now & gate::SLOWDOWN != 0 {
            stall_slowdown(store, len_bytes)?;
        }
        if now & gate::FLASH_CROWDED != 0 {
            stall_offload(store);
        }
        return Ok(());
    }
}

/// Stalls a delete, or any write while logs from before the opening are left, until it has room or
/// no background work can make room.
pub(crate) fn stall_for_room(store: &Store, len_bytes: u64) -> Result<(), EngineError> {
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

/// Waits for a flush or compaction. If the background no longer tries the flush, this call tries
/// it, and the result for want of space is the write's result.
pub(crate) fn stall_stop(store: &Store) -> Result<(), EngineError> {
    let start_ns = store.runtime.clock.now_ns();
    store.runtime.scheduler.notify();
    let ends = gate::ENDS | gate::PUTS_REFUSED;
    let is_over = || store.gate() & gate::STOP == 0 || store.gate() & ends != 0;
    let mut ready = || is_over() || flush::is_flush_blocked(store);
    let waited = store.runtime.scheduler.wait_until(&mut ready);
    let end_ns = store.runtime.clock.now_ns();
    store.tally.stall_stop.note(end_ns.saturating_sub(start_ns));
    waited.map_err(|_| EngineError::Stalled { what: "a flush or compaction" })?;
    if is_over() { Ok(()) } else { flush::flush_blocked(store) }
}

/// Admits writes for a stretch of bytes, then waits until compaction has processed twice as many.
pub(crate) fn stall_slowdown(store: &Store, len_bytes: u64) -> Result<(), EngineError> {
    let before = store.tally.slowed_bytes.fetch_add(len_bytes, Ordering::Relaxed);
    let after = before + len_bytes;
    if before / SLOWDOWN_STRIDE_BYTES == after / SLOWDOWN_STRIDE_BYTES {
        return Ok(());
    }
    let start_ns = store.runtime.clock.now_ns();
    let goal = store.tally.background_bytes.load(Ordering::Relaxed) + 2 * SLOWDOWN_STRIDE_BYTES;
    let mut ready = || {
        store.gate() & !gate::FLASH_CROWDED != gate::SLOWDOWN
            || store.tally.background_bytes.load(Ordering::Relaxed) >= goal
    };
    let waited = store.runtime.scheduler.wait_until(&mut ready);
    let end_ns = store.runtime.clock.now_ns();
    store.tally.stall_slowdown.note(end_ns.saturating_sub(start_ns));
    waited.map_err(|_| EngineError::Stalled { what: "compaction" })
}

/// Delays one write.
pub(crate) fn stall_offload(store: &Store) {
    let clock = &store.runtime.clock;
    let start_ns = clock.now_ns();
    clock.wait_until_ns(start_ns.saturating_add(store.options.offload_delay_ns));
    store.tally.stall_offload.note(clock.now_ns().saturating_sub(start_ns));
}

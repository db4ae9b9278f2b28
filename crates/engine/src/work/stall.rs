//! The gate before a write: a writer stalls while background work lags, and is refused if waiting
//! cannot help.

use crate::EngineError;
use crate::store::due;
use crate::store::space::{LongKeys, Shortage};
use crate::store::{Store, gate};
use crate::work::flush;
use std::sync::atomic::Ordering;

/// While compaction lags, a writer stalls until compaction has processed this many bytes; then about as
/// much may be written as the pressure allows for them.
const SLOWDOWN_STRIDE_BYTES: u64 = 2 << 20;
/// A long write waits for at most so many strides, which is less than a second of a drive's time.
const SLOWDOWN_STRIDE_COUNT_MAX: u64 = 32;
/// While values are cleaned it waits for fewer, because cleaning writes a whole output in one step.
const CLEANING_STRIDE_COUNT_MAX: u64 = 12;

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
                stall_for_deletes(store, len_bytes, LongKeys::default())?;
                continue;
            }
            if !is_put {
                return stall_for_deletes(store, len_bytes, LongKeys::default());
            }
            stall_for_puts(store, shortage)?;
            continue;
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

/// Stalls or refuses a write whose long keys the catalog may have no room for.
pub(crate) fn pass_long_keys(store: &Store, keys: LongKeys) -> Result<(), EngineError> {
    if keys == LongKeys::default() { Ok(()) } else { stall_for_deletes(store, 0, keys) }
}

/// Stalls a put until it has room or no background work can make room.
fn stall_for_puts(store: &Store, shortage: Shortage) -> Result<(), EngineError> {
    let refusal = || Err(store.refusal(shortage));
    if !store.options.background_work {
        return refusal();
    }
    stall_until(store, &|| store.refresh_space().is_none())?;
    if store.refresh_space().is_none() {
        return Ok(());
    }
    // The log takes more than the tables of its memtables, and its garbage goes with them.
    if !store.has_memory() {
        return Err(store.no_space());
    }
    flush::flush_all(store)?;
    stall_until(store, &|| store.refresh_space().is_none())?;
    if store.refresh_space().is_none() { Ok(()) } else { Err(store.no_space()) }
}

/// Stalls a delete, or any write while logs from before the opening are left, until it has room or
/// no background work can make room.
fn stall_for_deletes(store: &Store, len_bytes: u64, keys: LongKeys) -> Result<(), EngineError> {
    let check = || store.check_recoverable(len_bytes, keys);
    let Err(refusal) = check() else { return Ok(()) };
    if !store.options.background_work {
        return Err(refusal);
    }
    stall_until(store, &|| check().is_ok())?;
    if check().is_ok() || store.are_logs_kept() || !store.has_memory() {
        return check();
    }
    flush::flush_all(store)?;
    stall_until(store, &|| check().is_ok())?;
    check()
}

/// Waits until `has_room` returns true or no background work is under way or due.
fn stall_until(store: &Store, has_room: &dyn Fn() -> bool) -> Result<(), EngineError> {
    let start_ns = store.runtime.clock.now_ns();
    store.runtime.scheduler.notify();
    let mut woken_with = None;
    let mut ready = || {
        if has_room() || store.gate() & gate::ENDS != 0 || due::is_at_rest(store) {
            return true;
        }
        // Room comes back without an event, for example when a log ends (R3). A job that found none before
        // would not look again, and would wait for this writer.
        let room = Some(store.room());
        if store.plans.lock().is_idle() && woken_with != room {
            woken_with = room;
            store.runtime.scheduler.notify();
        }
        false
    };
    let waited = store.runtime.scheduler.wait_until(&mut ready);
    let end_ns = store.runtime.clock.now_ns();
    store.tally.stall_stop.note(end_ns.saturating_sub(start_ns));
    waited.map_err(|_| EngineError::Stalled { what: "space" })?;
    store.check_open()?;
    store.check_not_refused()
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

/// Waits until a flush has ended or none is due. If the background no longer tries one, this call
/// tries it, and the result for want of space is the write's result.
pub(crate) fn stall_for_flush(store: &Store) -> Result<(), EngineError> {
    let start_ns = store.runtime.clock.now_ns();
    let count = || store.tally.flush_count.load(Ordering::Relaxed);
    let count_before = count();
    store.runtime.scheduler.notify();
    let is_over =
        || count() != count_before || !due::has_flush_due(store) || store.gate() & gate::ENDS != 0;
    let mut ready = || is_over() || flush::is_flush_blocked(store);
    let waited = store.runtime.scheduler.wait_until(&mut ready);
    let end_ns = store.runtime.clock.now_ns();
    store.tally.stall_stop.note(end_ns.saturating_sub(start_ns));
    waited.map_err(|_| EngineError::Stalled { what: "a flush" })?;
    if is_over() { Ok(()) } else { flush::flush_blocked(store) }
}

/// Admits writes for a stretch of bytes, then waits until compaction has processed so many times as
/// many as the pressure asks for.
pub(crate) fn stall_slowdown(store: &Store, len_bytes: u64) -> Result<(), EngineError> {
    let ratio = store.slowdown_bytes_per_byte.load(Ordering::Relaxed).max(1);
    let weight_bytes = len_bytes.saturating_mul(ratio);
    let before = store.tally.slowed_bytes.fetch_add(weight_bytes, Ordering::Relaxed);
    let strides = (before + weight_bytes) / SLOWDOWN_STRIDE_BYTES - before / SLOWDOWN_STRIDE_BYTES;
    if strides == 0 {
        return Ok(());
    }
    let start_ns = store.runtime.clock.now_ns();
    let is_cleaning = store.is_cleaning.load(Ordering::Acquire);
    let most = if is_cleaning { CLEANING_STRIDE_COUNT_MAX } else { SLOWDOWN_STRIDE_COUNT_MAX };
    let awaited_bytes = strides.min(most) * SLOWDOWN_STRIDE_BYTES;
    let goal = store.tally.background_bytes.load(Ordering::Relaxed) + awaited_bytes;
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

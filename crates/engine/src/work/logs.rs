//! The current log: when it ends, where the next one begins, and which memtables end with it (E3).

use crate::EngineError;
use crate::batch::KeyspaceId;
use crate::store::Store;
use crate::store::keyspace::KeyspaceState;
use crate::store::writer::Writer;
use crate::version::edit::LogId;
use crate::wal::Wal;
use imbrex_files::{CommitKind, FileKind, GroupId, Hints, Tier};
use std::sync::Arc;

/// Whether a write may begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum LogRoom {
    /// There is a log with room for the write.
    Ready,
    /// Only after a flush that is due: too many memtables wait for theirs, or the drive has no room
    /// for a log before the flush removes one.
    AfterFlush,
}

/// Provides a log with room for a write of `len_bytes` and, if possible, an active memtable of
/// `keyspace` that is not full.
///
/// The log keeps room for everything that it holds in memory (W5). If it cannot grow, it ends: the
/// flush of its memtables brings its space back. The write waits for that flush if the drive has no
/// room for the next log before it.
pub(crate) fn make_room(
    store: &Store,
    writer: &mut Writer,
    keyspace: &KeyspaceState,
    len_bytes: usize,
) -> Result<LogRoom, EngineError> {
    let Some(wal) = writer.wal.clone() else { return begin_or_wait(store, writer, len_bytes) };
    let view = keyspace.view();
    let is_full = store.limits.memtable_len_bytes <= view.active.mem.len_bytes() as u64;
    let has_room = view.immutables.len() < store.options.immutable_memtable_count_max;
    drop(view);
    let wanted = wal.len_bytes_with(len_bytes);
    let is_long = wanted.is_some_and(|wanted_bytes| store.limits.log_len_bytes < wanted_bytes);
    let is_elsewhere = store.options.offloads && writer.tier != store.wanted_tier();
    let is_due = is_full || is_long || is_elsewhere;
    if is_due && has_room {
        // A log of several keyspaces ends the memtables that keep the oldest log, once all logs
        // together are too long, whichever keyspace writes.
        let is_own_due = is_full || is_elsewhere || !writer.is_log_shared;
        end(store, writer, &|other| is_own_due && other.id == keyspace.id)?;
        let room = begin_or_wait(store, writer, len_bytes)?;
        // The new log may be on flash now. If the memtable fills again before anything is flushed,
        // the next writer stalls.
        store.refresh_gate();
        return Ok(room);
    }
    if is_due {
        store.refresh_gate();
    }
    if is_long && !has_room && store.works_in_background() {
        return Ok(LogRoom::AfterFlush);
    }
    if writer.tier == Tier::Fast || wal.reserve(len_bytes) {
        return Ok(LogRoom::Ready);
    }
    let is_empty = store.all_keyspaces().iter().all(|other| other.view().active.mem.is_empty());
    if !is_empty && !has_room && store.works_in_background() {
        return Ok(LogRoom::AfterFlush);
    }
    // All memtables end, because each that stays would keep the log.
    end(store, writer, &|_| true)?;
    begin_or_wait(store, writer, len_bytes)
}

/// Begins a log with room for a write of `len_bytes`. If the drive has none, all memtables end, and
/// the write waits for their flushes, which remove the logs that are there.
fn begin_or_wait(
    store: &Store,
    writer: &mut Writer,
    len_bytes: usize,
) -> Result<LogRoom, EngineError> {
    let begun = begin(store, writer, len_bytes);
    let refusal = match begun.and_then(|()| reserve_first(store, writer, len_bytes)) {
        Ok(()) => return Ok(LogRoom::Ready),
        Err(refusal) => refusal,
    };
    let may_wait = store.works_in_background() && !store.are_logs_kept();
    if !refusal.is_no_space() || !may_wait || !store.has_memory() {
        return Err(refusal);
    }
    end(store, writer, &|_| true)?;
    Ok(LogRoom::AfterFlush)
}

/// Keeps room in a new log for a write of `len_bytes`.
fn reserve_first(store: &Store, writer: &Writer, len_bytes: usize) -> Result<(), EngineError> {
    let has_room = writer.wal.as_ref().is_some_and(|wal| wal.reserve(len_bytes));
    if has_room || writer.tier == Tier::Fast { Ok(()) } else { Err(store.no_space()) }
}

/// Ends a log on flash that has no room for a write of `len_bytes`, while the content of memory
/// still fits.
pub(crate) fn leave_full_flash(
    store: &Store,
    writer: &mut Writer,
    len_bytes: usize,
) -> Result<(), EngineError> {
    let wal = writer.wal.as_ref().filter(|_| writer.tier == Tier::Fast);
    if wal.is_none_or(|wal| wal.reserve(len_bytes)) {
        return Ok(());
    }
    end(store, writer, &|_| false)?;
    begin(store, writer, len_bytes)?;
    reserve_first(store, writer, len_bytes)
}

/// Ends the log, the memtables of the keyspaces that `which` selects, and those that keep logs
/// beyond the limit (E3). The next write begins another log: a flush needs none.
pub(crate) fn end(
    store: &Store,
    writer: &mut Writer,
    which: &dyn Fn(&KeyspaceState) -> bool,
) -> Result<(), EngineError> {
    if let Some(wal) = &writer.wal {
        let becomes_table = store.options.logs_are_tables && !writer.is_log_shared;
        let ended = if becomes_table { wal.close() } else { wal.finish() };
        ended.map_err(|error| store.failed(error))?;
        writer.finished_log_bytes += wal.len_bytes();
        store.end_log(writer.log, wal.len_bytes(), writer.next_seq);
        writer.wal = None;
        store.tally.note_logs(writer);
    }
    if writer.is_log_shared {
        // Even if no new log can be created: this one has ended.
        for keyspace in store.all_keyspaces() {
            if let Some(band) = keyspace.view().active.band() {
                band.spoil();
            }
        }
    }
    let next = writer.next_log(|| LogId(store.new_id()));
    let keeps_old_logs = log_keepers(store);
    for keyspace in store.all_keyspaces() {
        // A band holds the writes of one memtable, so both end together (B1).
        let is_due = which(&keyspace)
            || keeps_old_logs.contains(&keyspace.id)
            || store.options.logs_are_tables;
        if is_due {
            keyspace.rotate(next);
        }
    }
    store.refresh_space();
    store.runtime.scheduler.notify();
    Ok(())
}

/// Ends the current log so that it gives back the room that it has not written. Memtables stay.
/// Returns false if there is no log.
pub(crate) fn give_back_room(store: &Store) -> bool {
    let mut writer = store.writer.lock();
    let has_log = writer.wal.is_some() && store.check_going().is_ok();
    has_log && end(store, &mut writer, &|_| false).is_ok()
}

/// The keyspaces whose memtables keep the oldest log, if all logs together are too long.
pub(crate) fn log_keepers(store: &Store) -> Vec<KeyspaceId> {
    let limit = store.limits.all_logs_len_bytes;
    let Some((oldest, _)) = store.oldest_log().filter(|&(_, len_bytes)| len_bytes > limit) else {
        return Vec::new();
    };
    let keyspaces = store.all_keyspaces();
    let keeps = |k: &&Arc<KeyspaceState>| k.view().active.first_log() == Some(oldest);
    keyspaces.iter().filter(keeps).map(|keyspace| keyspace.id).collect()
}

/// Begins a log, with room for a first write of `len_bytes`.
pub(crate) fn begin(
    store: &Store,
    writer: &mut Writer,
    len_bytes: usize,
) -> Result<(), EngineError> {
    if store.are_logs_kept() {
        return Err(store.no_space());
    }
    let id = writer.next_log(|| LogId(store.new_id()));
    let name = id.file_name();
    let tier = store.wanted_tier();
    // Frames add less than one thirty-second.
    let frame_len_bytes = store.options.log_frame_len_bytes as u64;
    let first_len_bytes = len_bytes as u64 + len_bytes as u64 / 32 + frame_len_bytes;
    let hints = Hints {
        tier,
        expected_len_bytes: Some(store.limits.memtable_len_bytes.max(first_len_bytes)),
        purpose: CommitKind::Upkeep,
        // The group marks a log that a table may follow in its file: see `recover::is_finished`.
        group: store.options.logs_are_tables.then_some(GroupId(id.0)),
        ..Hints::new(FileKind::Log)
    };
    let created = store.files.create_log(&name, hints);
    let log = created.map_err(|source| store.files_failed("create a log", source))?;
    let frame_id = id.frame_id(store.files.format_id());
    let wal = Wal::new(name, log, frame_id, store.options.log_frame_len_bytes);
    writer.begin_log(id, Arc::new(wal));
    writer.tier = tier;
    store.add_log(id, writer.next_seq);
    Ok(())
}

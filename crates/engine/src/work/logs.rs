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

/// Provides a log for a write of `len_bytes` and, if possible, an active memtable of `keyspace`
/// that is not full.
pub(crate) fn make_room(
    store: &Store,
    writer: &mut Writer,
    keyspace: &KeyspaceState,
    len_bytes: usize,
) -> Result<(), EngineError> {
    if writer.wal.is_none() {
        return start_log(store, writer, len_bytes);
    }
    let view = keyspace.view();
    let is_full = store.options.memtable_len_bytes <= view.active.mem.len_bytes() as u64;
    let has_room = view.immutables.len() < store.options.immutable_memtable_count_max;
    drop(view);
    let is_elsewhere = store.options.offloads && writer.tier != store.wanted_tier();
    let is_log_due = is_elsewhere || is_shared_log_long(store, writer);
    let is_due = is_full || (has_room && is_log_due);
    if !is_due {
        return Ok(());
    }
    if has_room {
        // If only the limit for all logs is reached, `rotate` ends the memtables that keep the
        // oldest log, whichever keyspace writes.
        let is_own_due = is_full || is_elsewhere;
        rotate(store, writer, &|other| is_own_due && other.id == keyspace.id, len_bytes)?;
    }
    // The new log may be on flash now. If the memtable fills again before anything is flushed, the
    // next writer stalls.
    store.refresh_gate();
    Ok(())
}

/// Whether keyspaces share the current log and it is longer than all logs together may be: the
/// memtable of each may be far from full. It is never true before the log is as long as a memtable,
/// because a log of one keyspace ends no earlier.
pub(crate) fn is_shared_log_long(store: &Store, writer: &Writer) -> bool {
    let limit = store.options.log_len_bytes_max.max(store.options.memtable_len_bytes);
    writer.is_log_shared && writer.wal.as_ref().is_some_and(|wal| limit < wal.len_bytes())
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
    rotate(store, writer, &|_| false, len_bytes)
}

/// Ends the log, the memtables of the keyspaces that `which` selects, and those that keep logs
/// beyond the limit. Begins new ones (E3), with room for a first write of `len_bytes`.
pub(crate) fn rotate(
    store: &Store,
    writer: &mut Writer,
    which: &dyn Fn(&KeyspaceState) -> bool,
    len_bytes: usize,
) -> Result<(), EngineError> {
    if let Some(wal) = &writer.wal {
        let becomes_table = store.options.logs_are_tables && !writer.is_log_shared;
        let ended = if becomes_table { wal.close() } else { wal.finish() };
        ended.map_err(|error| store.failed(error))?;
        writer.finished_log_bytes += wal.len_bytes();
        store.end_log(writer.log, wal.len_bytes());
        writer.wal = None;
    }
    if writer.is_log_shared {
        // Even if no new log can be created: this one has ended.
        for keyspace in store.all_keyspaces() {
            if let Some(band) = keyspace.view().active.band() {
                band.spoil();
            }
        }
    }
    start_log(store, writer, len_bytes)?;
    let keeps_old_logs = log_keepers(store);
    for keyspace in store.all_keyspaces() {
        // A band holds the writes of one memtable, so both end together (B1).
        let is_due = which(&keyspace)
            || keeps_old_logs.contains(&keyspace.id)
            || store.options.logs_are_tables;
        if is_due {
            keyspace.rotate(writer.log);
        }
    }
    store.refresh_space();
    store.runtime.scheduler.notify();
    Ok(())
}

/// The keyspaces whose memtables keep the oldest log, if all logs together are too long.
pub(crate) fn log_keepers(store: &Store) -> Vec<KeyspaceId> {
    let limit = store.options.log_len_bytes_max;
    let Some((oldest, _)) = store.oldest_log().filter(|&(_, len_bytes)| len_bytes > limit) else {
        return Vec::new();
    };
    let keyspaces = store.all_keyspaces();
    let keeps = |k: &&Arc<KeyspaceState>| k.view().active.first_log() == Some(oldest);
    keyspaces.iter().filter(keeps).map(|keyspace| keyspace.id).collect()
}

pub(crate) fn start_log(
    store: &Store,
    writer: &mut Writer,
    len_bytes: usize,
) -> Result<(), EngineError> {
    if store.are_logs_kept() {
        return Err(store.no_space());
    }
    let id = LogId(store.new_id());
    let name = id.file_name();
    let tier = store.wanted_tier();
    // Frames add less than one thirty-second.
    let frame_len_bytes = store.options.log_frame_len_bytes as u64;
    let first_len_bytes = len_bytes as u64 + len_bytes as u64 / 32 + frame_len_bytes;
    let hints = Hints {
        tier,
        expected_len_bytes: Some(store.options.memtable_len_bytes.max(first_len_bytes)),
        purpose: CommitKind::Upkeep,
        // The group marks a log that a table may follow in its file: see `recover::is_finished`.
        group: store.options.logs_are_tables.then_some(GroupId(id.0)),
        ..Hints::new(FileKind::Log)
    };
    let created = store.files.create_log(&name, hints);
    let log = created.map_err(|source| store.files_failed("create a log", source))?;
    let frame_id = id.frame_id(store.files.format_id());
    let wal = Wal::new(name, log, frame_id, store.options.log_frame_len_bytes);
    writer.wal = Some(Arc::new(wal));
    writer.log = id;
    writer.look_at_bytes = 0;
    (writer.log_owner, writer.is_log_shared, writer.tier) = (None, false, tier);
    store.add_log(id, writer.next_seq);
    Ok(())
}

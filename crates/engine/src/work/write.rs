//! The write path: one writer at a time, from the gate to the memtable.
//!
//! ```text
//!   gate        stalls, refusals: before any lock is taken
//!   writer lock [ sequence numbers -> log -> memtable -> visible ]
//!   sync        after the lock, one sync for all waiting writers (`wal`)
//! ```
//!
//! Invariants
//!   E1  A write is in the log before it is in a memtable, and in the memtable before it is
//!       visible.
//!   E2  The sequence numbers in the logs have no gaps: a failed write returns its numbers.
//!   E3  A memtable begins and ends where one log ends and the next begins.

use crate::EngineError;
use crate::batch::{KeyspaceId, SingleOp, WriteBatch};
use crate::key::{Kind, Seq};
use crate::options::WriteOptions;
use crate::store::Store;
use crate::store::keyspace::KeyspaceState;
use crate::store::space::{LONG_KEY_LEN_BYTES, LongKeys};
use crate::store::writer::Writer;
use crate::wal::{Wal, WalPosition};
use crate::work::logs::{self, LogRoom};
use crate::work::stall;
use imbrex_record_log::Position;
use std::sync::Arc;

/// Writes one operation. The caller has checked the lengths.
pub(crate) fn write_one(
    store: &Store,
    keyspace: &KeyspaceState,
    kind: Kind,
    key: &[u8],
    value: &[u8],
    options: WriteOptions,
) -> Result<(), EngineError> {
    store.runtime.scheduler.yield_now();
    let len_bytes = key.len() + value.len();
    let mut writer = loop {
        if store.gate() != 0 {
            stall::pass_gate(store, kind == Kind::Put, len_bytes as u64)?;
        }
        if key.len() > LONG_KEY_LEN_BYTES || kind == Kind::RangeDelete {
            stall::pass_long_keys(store, LongKeys::of(kind, key, value))?;
        }
        let mut writer = store.writer.lock();
        // Checked under the lock: a close and the drop of a keyspace wait for the lock, but
        // poisoning does not.
        store.check_going()?;
        store.check_not_refused()?;
        match logs::make_room(store, &mut writer, keyspace, len_bytes)? {
            LogRoom::Ready => break writer,
            LogRoom::AfterFlush => drop(writer),
        }
        stall::stall_for_flush(store)?;
    };
    logs::leave_full_flash(store, &mut writer, len_bytes)?;
    keyspace.check_exists()?;
    store.check_long_write(kind == Kind::Put, len_bytes as u64)?;
    let seq = writer.next_seq;
    let op = SingleOp::new(seq, keyspace.id, kind, key, value);
    let (wal, position, content) = log(store, &writer, &op.parts())?;
    let view = keyspace.view();
    view.active.note_log(writer.log);
    if store.options.logs_are_tables && store.may_stay_in_log(keyspace, value.len()) {
        let place = content.advanced(op.value_offset(), wal.frame_len_bytes());
        view.active.note_place(writer.log, wal, seq, place);
    }
    let wal = options.sync.then(|| Arc::clone(wal));
    writer.note_owner(keyspace.id);
    view.active.insert(kind, key, seq, value);
    end_write(store, &mut writer, seq, 1, len_bytes);
    drop(view);
    drop(writer);
    wal.map_or(Ok(()), |wal| sync_to(store, &wal, position))
}

/// Writes a batch completely, or nothing of it.
pub(crate) fn write_batch(
    store: &Store,
    batch: &mut WriteBatch,
    options: WriteOptions,
) -> Result<(), EngineError> {
    store.runtime.scheduler.yield_now();
    if batch.is_empty() {
        return if options.sync { sync(store) } else { Ok(()) };
    }
    let has_put = batch.view().ops().any(|(_, op)| op.kind == Kind::Put);
    let touched = touched(store, batch)?;
    let of_each = batch.view().ops().map(|(_, op)| LongKeys::of(op.kind, op.key, op.value));
    let long_keys = of_each.fold(LongKeys::default(), LongKeys::with);
    let mut writer = loop {
        if store.gate() != 0 {
            stall::pass_gate(store, has_put, batch.len_bytes() as u64)?;
        }
        stall::pass_long_keys(store, long_keys)?;
        let mut writer = store.writer.lock();
        store.check_going()?;
        store.check_not_refused()?;
        let mut room = LogRoom::Ready;
        for keyspace in &touched {
            keyspace.check_exists()?;
            room = logs::make_room(store, &mut writer, keyspace, batch.len_bytes())?;
            if room == LogRoom::AfterFlush {
                break;
            }
        }
        if room == LogRoom::Ready {
            break writer;
        }
        drop(writer);
        stall::stall_for_flush(store)?;
    };
    logs::leave_full_flash(store, &mut writer, batch.len_bytes())?;
    store.check_long_write(has_put, batch.len_bytes() as u64)?;
    let first_seq = writer.next_seq;
    let (wal, position, content) = log(store, &writer, &[batch.encode(first_seq)])?;
    let (wal, log) = (Arc::clone(wal), writer.log);
    let mut len_bytes = 0;
    let mut last_seq = first_seq;
    for (seq, op) in batch.view().ops() {
        let keyspace = touched.iter().find(|keyspace| keyspace.id == op.keyspace);
        let keyspace = keyspace.expect("every keyspace of the batch was looked up");
        let view = keyspace.view();
        view.active.note_log(log);
        if store.options.logs_are_tables && store.may_stay_in_log(keyspace, op.value.len()) {
            let place = content.advanced(op.value_offset, wal.frame_len_bytes());
            view.active.note_place(log, &wal, seq, place);
        }
        writer.note_owner(op.keyspace);
        view.active.insert(op.kind, op.key, seq, op.value);
        len_bytes += op.key.len() + op.value.len();
        last_seq = seq;
    }
    end_write(store, &mut writer, last_seq, batch.len() as u64, len_bytes);
    drop(writer);
    if options.sync { sync_to(store, &wal, position) } else { Ok(()) }
}

/// The keyspaces that `batch` writes to.
fn touched(store: &Store, batch: &WriteBatch) -> Result<Vec<Arc<KeyspaceState>>, EngineError> {
    let mut touched: Vec<Arc<KeyspaceState>> = Vec::new();
    for (_, op) in batch.view().ops() {
        if touched.iter().all(|keyspace| keyspace.id != op.keyspace) {
            touched.push(existing(store, op.keyspace)?);
        }
    }
    Ok(touched)
}

fn existing(store: &Store, id: KeyspaceId) -> Result<Arc<KeyspaceState>, EngineError> {
    store.keyspace(id).ok_or_else(|| EngineError::NoKeyspace { name: format!("#{}", id.0) })
}

fn log<'w>(
    store: &Store,
    writer: &'w Writer,
    parts: &[&[u8]],
) -> Result<(&'w Arc<Wal>, WalPosition, Position), EngineError> {
    let wal = writer.wal.as_ref().expect("make_room left a log to write to");
    match wal.append(parts) {
        Ok((position, content)) => Ok((wal, position, content)),
        // A batch that is too long for any log is the caller's error.
        Err(error @ EngineError::BatchLen { .. }) => Err(error),
        Err(error) => Err(store.failed(error)),
    }
}

fn end_write(store: &Store, writer: &mut Writer, last_seq: Seq, op_count: u64, len_bytes: usize) {
    writer.next_seq = Seq(last_seq.0 + 1);
    let is_on_flash = writer.wal.as_ref().is_some_and(|wal| wal.is_on_flash());
    store.tally.note_write(op_count, len_bytes as u64, is_on_flash);
    store.tally.note_logs(writer);
    store.publish(last_seq);
    let log_len_bytes = writer.wal.as_ref().map_or(0, |wal| wal.len_bytes());
    if writer.look_at_bytes <= log_len_bytes {
        writer.look_at_bytes = store.look_at_growth(log_len_bytes);
    }
}

fn sync_to(store: &Store, wal: &Wal, position: WalPosition) -> Result<(), EngineError> {
    wal.sync_to(position).map_err(|error| store.failed(error))
}

/// Makes everything written so far durable.
pub(crate) fn sync(store: &Store) -> Result<(), EngineError> {
    let wal = store.writer.lock().wal.clone();
    store.check_poison()?;
    sync_wal(store, wal.as_deref())
}

/// Lets the log record that all of it is durable (W3). If this fails, for example for lack of space,
/// no write is lost.
pub(crate) fn mark_end(store: &Store) {
    let wal = store.writer.lock().wal.clone();
    if let Some(wal) = wal {
        let _ = wal.mark_end();
    }
}

/// Like [`sync`], for a caller that already holds the writer's log.
pub(crate) fn sync_wal(store: &Store, wal: Option<&Wal>) -> Result<(), EngineError> {
    wal.map_or(Ok(()), |wal| wal.sync().map_err(|error| store.failed(error)))
}

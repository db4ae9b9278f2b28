//! Entries of a keyspace, one by one or in batches.

use crate::open::Opened;
use crate::process::Held;
use crate::status::{Failure, Status, guard};
use crate::store::{Keyspace, Shared};
use crate::strings::{bytes, copy_out, give, handle, handle_mut, need_out, take};
use imbrex_engine::{WriteBatch, WriteOptions};
use std::sync::Arc;

/// Sets the value of a key. A key has 1 byte to 64 KiB, a value up to 1 GiB.
///
/// With `sync` this write and every write before it are durable on return. Without `sync` a crash may lose
/// it, but only together with every write after it.
///
/// Errors: IMBREX_STATUS_INVALID, IMBREX_STATUS_NO_SPACE, IMBREX_STATUS_POISONED, IMBREX_STATUS_IO.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn imbrex_put(
    keyspace: *const Keyspace,
    key: *const u8,
    key_len_bytes: usize,
    value: *const u8,
    value_len_bytes: usize,
    sync: bool,
) -> Status {
    guard(|| {
        // SAFETY: a handle and buffers, as the header's conventions say.
        let (keyspace, key, value) = unsafe {
            let keyspace = handle(keyspace, "the keyspace")?;
            (keyspace, bytes(key, key_len_bytes)?, bytes(value, value_len_bytes)?)
        };
        let options = WriteOptions { sync };
        keyspace.shared.writing(|_| Ok(keyspace.inner.put_with(key, value, options)?))
    })
}

/// Deletes a key; a missing key is not an error. `sync` is as in imbrex_put().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn imbrex_delete(
    keyspace: *const Keyspace,
    key: *const u8,
    key_len_bytes: usize,
    sync: bool,
) -> Status {
    guard(|| {
        // SAFETY: a handle and a buffer, as the header's conventions say.
        let (keyspace, key) =
            unsafe { (handle(keyspace, "the keyspace")?, bytes(key, key_len_bytes)?) };
        let options = WriteOptions { sync };
        keyspace.shared.writing(|_| Ok(keyspace.inner.delete_with(key, options)?))
    })
}

/// Deletes all keys from `start` on, below `end`: as much work as one delete. `sync` is as in imbrex_put().
///
/// Errors: as imbrex_put(); IMBREX_STATUS_INVALID also for an end below the start.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn imbrex_delete_range(
    keyspace: *const Keyspace,
    start: *const u8,
    start_len_bytes: usize,
    end: *const u8,
    end_len_bytes: usize,
    sync: bool,
) -> Status {
    guard(|| {
        // SAFETY: a handle and buffers, as the header's conventions say.
        let (keyspace, start, end) = unsafe {
            let keyspace = handle(keyspace, "the keyspace")?;
            (keyspace, bytes(start, start_len_bytes)?, bytes(end, end_len_bytes)?)
        };
        let options = WriteOptions { sync };
        keyspace.shared.writing(|_| Ok(keyspace.inner.delete_range_with(start..end, options)?))
    })
}

/// Merges all tables of the keyspace, which frees the space of deleted and overwritten entries, unless a
/// snapshot still sees them.
///
/// Cost: reads and writes the whole keyspace about once per level.
///
/// Errors: IMBREX_STATUS_NO_SPACE, IMBREX_STATUS_CORRUPT, IMBREX_STATUS_POISONED, IMBREX_STATUS_IO.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn imbrex_keyspace_compact(keyspace: *const Keyspace) -> Status {
    guard(|| {
        // SAFETY: a handle, as the header's conventions say.
        let keyspace = unsafe { handle(keyspace, "the keyspace")? };
        keyspace.shared.writing(|_| Ok(keyspace.inner.compact_range(None, None)?))
    })
}

/// Reads the value of a key into `buffer`.
///
/// `out_len_bytes` receives the value's length. If it exceeds `len_bytes`, `buffer` holds only the
/// beginning: call again with a longer buffer, and repeat that until the value fits, because it may change
/// between the calls.
///
/// Errors: IMBREX_STATUS_NOT_FOUND for a missing key, IMBREX_STATUS_INVALID, IMBREX_STATUS_CORRUPT,
/// IMBREX_STATUS_IO.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn imbrex_get(
    keyspace: *const Keyspace,
    key: *const u8,
    key_len_bytes: usize,
    buffer: *mut u8,
    len_bytes: usize,
    out_len_bytes: *mut usize,
) -> Status {
    guard(|| {
        need_out(out_len_bytes)?;
        // SAFETY: a handle and a buffer, as the header's conventions say.
        let (keyspace, key) =
            unsafe { (handle(keyspace, "the keyspace")?, bytes(key, key_len_bytes)?) };
        let value = keyspace.inner.get(key)?;
        let value = value.ok_or_else(|| Failure::new(Status::NotFound, "the key has no value"))?;
        // SAFETY: a buffer and an out parameter, as the header's conventions say.
        unsafe { copy_out(&value, buffer, len_bytes, out_len_bytes) }
    })
}

/// Writes to the keyspaces of one store that are applied together, in order, or not at all.
#[derive(Debug)]
pub struct Batch {
    writes: WriteBatch,
    /// The store of the keyspaces, after the first write was added.
    shared: Option<Arc<Opened<Shared>>>,
}

impl Held for Batch {
    fn opener(&self) -> Option<u32> {
        self.shared.as_ref().and_then(|shared| shared.opener())
    }
}

impl Batch {
    /// Adds a write to `keyspace` by `add`.
    fn add(
        &mut self,
        keyspace: &Keyspace,
        add: impl FnOnce(&mut WriteBatch) -> Result<(), imbrex_engine::EngineError>,
    ) -> Result<(), Failure> {
        let is_same = |shared: &Arc<_>| Arc::ptr_eq(shared, &keyspace.shared);
        if !self.shared.as_ref().is_none_or(is_same) {
            let message = "the keyspace is another store's than those in the batch";
            return Err(Failure::new(Status::Invalid, message));
        }
        add(&mut self.writes)?;
        self.shared = Some(Arc::clone(&keyspace.shared));
        Ok(())
    }
}

/// Creates an empty batch. Release it with imbrex_batch_close().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn imbrex_batch_open(out: *mut *mut Batch) -> Status {
    // SAFETY: an out parameter, as the header's conventions say.
    guard(|| unsafe { give(out, Batch { writes: WriteBatch::new(), shared: None }) })
}

/// Adds a put, as in imbrex_put().
///
/// Errors: IMBREX_STATUS_INVALID, also for a keyspace of another store; the batch is unchanged.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn imbrex_batch_put(
    batch: *mut Batch,
    keyspace: *const Keyspace,
    key: *const u8,
    key_len_bytes: usize,
    value: *const u8,
    value_len_bytes: usize,
) -> Status {
    guard(|| {
        // SAFETY: handles and buffers, as the header's conventions say.
        let (batch, keyspace, key, value) = unsafe {
            let (key, value) = (bytes(key, key_len_bytes)?, bytes(value, value_len_bytes)?);
            (handle_mut(batch, "the batch")?, handle(keyspace, "the keyspace")?, key, value)
        };
        batch.add(keyspace, |writes| writes.put(&keyspace.inner, key, value))
    })
}

/// Adds a delete, as in imbrex_delete(). Errors: as imbrex_batch_put().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn imbrex_batch_delete(
    batch: *mut Batch,
    keyspace: *const Keyspace,
    key: *const u8,
    key_len_bytes: usize,
) -> Status {
    guard(|| {
        // SAFETY: handles and a buffer, as the header's conventions say.
        let (batch, keyspace, key) = unsafe {
            let key = bytes(key, key_len_bytes)?;
            (handle_mut(batch, "the batch")?, handle(keyspace, "the keyspace")?, key)
        };
        batch.add(keyspace, |writes| writes.delete(&keyspace.inner, key))
    })
}

/// Adds a delete of a range, as in imbrex_delete_range(). Errors: as imbrex_batch_put(), and
/// IMBREX_STATUS_INVALID for an end below the start.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn imbrex_batch_delete_range(
    batch: *mut Batch,
    keyspace: *const Keyspace,
    start: *const u8,
    start_len_bytes: usize,
    end: *const u8,
    end_len_bytes: usize,
) -> Status {
    guard(|| {
        // SAFETY: handles and buffers, as the header's conventions say.
        let (batch, keyspace, start, end) = unsafe {
            let (start, end) = (bytes(start, start_len_bytes)?, bytes(end, end_len_bytes)?);
            (handle_mut(batch, "the batch")?, handle(keyspace, "the keyspace")?, start, end)
        };
        batch.add(keyspace, |writes| writes.delete_range(&keyspace.inner, start, end))
    })
}

/// Applies the batch and empties it; after a failure the batch is unchanged. `sync` is as in
/// imbrex_put().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn imbrex_batch_write(batch: *mut Batch, sync: bool) -> Status {
    guard(|| {
        // SAFETY: a handle, as the header's conventions say.
        let batch = unsafe { handle_mut(batch, "the batch")? };
        let Some(shared) = batch.shared.clone() else { return Ok(()) };
        let options = WriteOptions { sync };
        shared.writing(|db| Ok(db.write_and_clear(&mut batch.writes, options)?))?;
        batch.shared = None;
        Ok(())
    })
}

/// Releases the batch; writes that were not applied are discarded.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn imbrex_batch_close(batch: *mut Batch) -> Status {
    guard(|| {
        // SAFETY: a handle that is not used again, as the header's conventions say.
        drop(unsafe { take(batch)? });
        Ok(())
    })
}

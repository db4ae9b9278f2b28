//! Snapshots: a store as it was at one moment.

use crate::cursor::Cursor;
use crate::open::Opened;
use crate::process::Held;
use crate::status::{Failure, Status, guard};
use crate::store::{Keyspace, Shared, Store};
use crate::strings::{bytes, copy_out, give, handle, need_out, take};
use imbrex_engine::ReadOptions;
use std::sync::Arc;

/// A point in the order of the writes to a store.
#[derive(Debug)]
pub struct Snapshot {
    // Before the store, because dropping a snapshot may need the store.
    inner: imbrex_engine::Snapshot,
    shared: Arc<Opened<Shared>>,
}

impl Held for Snapshot {
    fn opener(&self) -> Option<u32> {
        self.shared.opener()
    }
}

/// Takes a snapshot of the store: reads at it see every write that has returned, and no later one, in every
/// keyspace. What only the snapshot still sees keeps its space on the drive. A snapshot ends with the
/// process. Release it with imbrex_snapshot_close().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn imbrex_snapshot_open(
    store: *const Store,
    out: *mut *mut Snapshot,
) -> Status {
    guard(|| {
        need_out(out)?;
        // SAFETY: a handle, as the header's conventions say.
        let shared = Arc::clone(unsafe { handle(store, "the store")? }.shared());
        let inner = shared.db().snapshot();
        // SAFETY: an out parameter, as the header's conventions say.
        unsafe { give(out, Snapshot { inner, shared }) }
    })
}

/// Reads the value that a key had at the snapshot into `buffer`; in other respects, as imbrex_get().
///
/// Errors: as imbrex_get(); IMBREX_STATUS_INVALID for a keyspace of another store.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn imbrex_snapshot_get(
    snapshot: *const Snapshot,
    keyspace: *const Keyspace,
    key: *const u8,
    key_len_bytes: usize,
    buffer: *mut u8,
    len_bytes: usize,
    out_len_bytes: *mut usize,
) -> Status {
    guard(|| {
        need_out(out_len_bytes)?;
        // SAFETY: handles and a buffer, as the header's conventions say.
        let (snapshot, keyspace, key) = unsafe {
            let snapshot = handle(snapshot, "the snapshot")?;
            (snapshot, handle(keyspace, "the keyspace")?, bytes(key, key_len_bytes)?)
        };
        let value = keyspace.inner.get_at(&snapshot.inner, key)?;
        let value = value.ok_or_else(|| Failure::new(Status::NotFound, "the key had no value"))?;
        // SAFETY: a buffer and an out parameter, as the header's conventions say.
        unsafe { copy_out(&value, buffer, len_bytes, out_len_bytes) }
    })
}

/// Opens a cursor over a keyspace as of the snapshot; in other respects, as imbrex_cursor_open(). The
/// cursor may outlive the snapshot.
///
/// Errors: IMBREX_STATUS_INVALID for a keyspace of another store.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn imbrex_snapshot_cursor_open(
    snapshot: *const Snapshot,
    keyspace: *const Keyspace,
    out: *mut *mut Cursor,
) -> Status {
    guard(|| {
        need_out(out)?;
        // SAFETY: handles, as the header's conventions say.
        let (snapshot, keyspace) =
            unsafe { (handle(snapshot, "the snapshot")?, handle(keyspace, "the keyspace")?) };
        let options = ReadOptions { snapshot: Some(&snapshot.inner), ..ReadOptions::default() };
        let iter = keyspace.inner.iter(options)?;
        // SAFETY: an out parameter, as the header's conventions say.
        unsafe { give(out, Cursor::new(iter, Arc::clone(&keyspace.shared))) }
    })
}

/// Releases the snapshot.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn imbrex_snapshot_close(snapshot: *mut Snapshot) -> Status {
    guard(|| {
        // SAFETY: a handle that is not used again, as the header's conventions say.
        drop(unsafe { take(snapshot)? });
        Ok(())
    })
}

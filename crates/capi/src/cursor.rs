//! Cursors: the entries of a keyspace in order of their keys' bytes.

use crate::open::Opened;
use crate::process::Held;
use crate::status::{Failure, Status, guard};
use crate::store::{Keyspace, Shared};
use crate::strings::{bytes, give, handle, handle_mut, need_out, put, take};
use imbrex_engine::{Iter, ReadOptions};
use std::sync::Arc;

/// A cursor over a keyspace as it was when the cursor was opened.
#[derive(Debug)]
pub struct Cursor {
    // Before the store: letting go of it may need it.
    iter: Iter,
    shared: Arc<Opened<Shared>>,
}

/// Where a cursor stands. Key and value are the cursor's, until the next call with it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// NULL after the last entry, and then all else is 0.
    pub key: *const u8,
    /// How long it is.
    pub key_len_bytes: usize,
    /// Not NULL where there is a key, also if it is empty.
    pub value: *const u8,
    /// How long it is.
    pub value_len_bytes: usize,
}

impl Held for Cursor {
    fn opener(&self) -> Option<u32> {
        self.shared.opener()
    }
}

impl Cursor {
    fn entry(&self) -> Entry {
        if !self.iter.valid() {
            let (key, value) = (std::ptr::null(), std::ptr::null());
            return Entry { key, key_len_bytes: 0, value, value_len_bytes: 0 };
        }
        let (key, value) = (self.iter.key(), self.iter.value());
        Entry {
            key: key.as_ptr(),
            key_len_bytes: key.len(),
            value: value.as_ptr(),
            value_len_bytes: value.len(),
        }
    }
}

/// Opens a cursor, which stands nowhere: seek first. It sees nothing that is written later, and keeps
/// what it sees from being freed. Give it back with imbrex_cursor_close().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn imbrex_cursor_open(
    keyspace: *const Keyspace,
    out: *mut *mut Cursor,
) -> Status {
    guard(|| {
        need_out(out)?;
        // SAFETY: a handle, as the header's conventions say.
        let keyspace = unsafe { handle(keyspace, "the keyspace")? };
        let iter = keyspace.inner.iter(ReadOptions::default())?;
        // SAFETY: an out parameter, as the header's conventions say.
        unsafe { give(out, Cursor { iter, shared: Arc::clone(&keyspace.shared) }) }
    })
}

/// Moves to the first entry at or after a key, or to the first of all for a key of 0 bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn imbrex_cursor_seek(
    cursor: *mut Cursor,
    key: *const u8,
    key_len_bytes: usize,
    out: *mut Entry,
) -> Status {
    guard(|| {
        need_out(out)?;
        // A copy: it may be the key that the cursor stands on.
        // SAFETY: a buffer, as the header's conventions say.
        let key = unsafe { bytes(key, key_len_bytes)? }.to_vec();
        // SAFETY: a handle and an out parameter, as the header's conventions say.
        unsafe { moved(cursor, out, |iter| Ok(iter.seek(key)?)) }
    })
}

/// Moves to the next entry. A cursor that stands nowhere stays there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn imbrex_cursor_next(cursor: *mut Cursor, out: *mut Entry) -> Status {
    guard(|| {
        need_out(out)?;
        // SAFETY: a handle and an out parameter, as the header's conventions say.
        unsafe { moved(cursor, out, |iter| Ok(iter.next()?)) }
    })
}

/// Moves a cursor as `step` does, and says where it stands then.
///
/// # Safety
/// A handle that only this call uses, and an out parameter.
unsafe fn moved(
    cursor: *mut Cursor,
    out: *mut Entry,
    step: impl FnOnce(&mut Iter) -> Result<(), Failure>,
) -> Result<(), Failure> {
    // SAFETY: the caller's promise.
    unsafe {
        let cursor = handle_mut(cursor, "the cursor")?;
        step(&mut cursor.iter)?;
        put(out, cursor.entry())
    }
}

/// Takes the cursor back, with the entry that it stands on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn imbrex_cursor_close(cursor: *mut Cursor) -> Status {
    guard(|| {
        // SAFETY: a handle that is not used again, as the header's conventions say.
        drop(unsafe { take(cursor)? });
        Ok(())
    })
}

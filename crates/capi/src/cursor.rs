//! Cursors: the entries of a keyspace in the byte order of their keys.

use crate::open::Opened;
use crate::process::Held;
use crate::status::{Failure, Status, guard};
use crate::store::{Keyspace, Shared};
use crate::strings::{bytes, give, handle, handle_mut, need_out, put, take};
use imbrex_engine::{Iter, ReadOptions};
use std::sync::Arc;

/// A cursor over a keyspace, as of the moment when the cursor was opened.
#[derive(Debug)]
pub struct Cursor {
    // Before the store, because dropping a cursor may need the store.
    iter: Iter,
    shared: Arc<Opened<Shared>>,
}

/// The entry at a cursor. Key and value belong to the cursor and are valid until the next call with it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// The key; NULL after the last entry and before the first one, with all other fields 0.
    pub key: *const u8,
    /// The length of the key.
    pub key_len_bytes: usize,
    /// The value; not NULL if there is a key, even if the value is empty.
    pub value: *const u8,
    /// The length of the value.
    pub value_len_bytes: usize,
}

impl Held for Cursor {
    fn opener(&self) -> Option<u32> {
        self.shared.opener()
    }
}

impl Cursor {
    pub(crate) fn new(iter: Iter, shared: Arc<Opened<Shared>>) -> Cursor {
        Cursor { iter, shared }
    }

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

/// Opens a cursor without a position; call imbrex_cursor_seek() first. The cursor does not see later writes,
/// and the data that it sees is not freed while it is open. Release it with imbrex_cursor_close().
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
        unsafe { give(out, Cursor::new(iter, Arc::clone(&keyspace.shared))) }
    })
}

/// Moves to the first entry at or after a key; a key of 0 bytes moves to the first entry of all.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn imbrex_cursor_seek(
    cursor: *mut Cursor,
    key: *const u8,
    key_len_bytes: usize,
    out: *mut Entry,
) -> Status {
    // SAFETY: a handle, a buffer and an out parameter, as the header's conventions say.
    unsafe { sought(cursor, (key, key_len_bytes), out, |iter, key| Ok(iter.seek(key)?)) }
}

/// Moves to the last entry at or before a key; a key of 0 bytes moves to the last entry of all.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn imbrex_cursor_seek_for_prev(
    cursor: *mut Cursor,
    key: *const u8,
    key_len_bytes: usize,
    out: *mut Entry,
) -> Status {
    let step = |iter: &mut Iter, key: Vec<u8>| match key.is_empty() {
        true => Ok(iter.seek_to_last()?),
        false => Ok(iter.seek_for_prev(key)?),
    };
    // SAFETY: a handle, a buffer and an out parameter, as the header's conventions say.
    unsafe { sought(cursor, (key, key_len_bytes), out, step) }
}

/// Moves to the previous entry. A cursor without a position stays without one. Steps in both directions may
/// be mixed; a change of direction costs a seek.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn imbrex_cursor_prev(cursor: *mut Cursor, out: *mut Entry) -> Status {
    guard(|| {
        need_out(out)?;
        // SAFETY: a handle and an out parameter, as the header's conventions say.
        unsafe { moved(cursor, out, |iter| Ok(iter.prev()?)) }
    })
}

/// Moves to the next entry. A cursor without a position stays without one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn imbrex_cursor_next(cursor: *mut Cursor, out: *mut Entry) -> Status {
    guard(|| {
        need_out(out)?;
        // SAFETY: a handle and an out parameter, as the header's conventions say.
        unsafe { moved(cursor, out, |iter| Ok(iter.next()?)) }
    })
}

/// Moves a cursor by `step`, and returns its new entry.
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

/// As [`moved`], by a step with a key.
///
/// # Safety
/// As [`moved`]; the key is a buffer.
unsafe fn sought(
    cursor: *mut Cursor,
    (key, key_len_bytes): (*const u8, usize),
    out: *mut Entry,
    step: impl FnOnce(&mut Iter, Vec<u8>) -> Result<(), Failure>,
) -> Status {
    guard(|| {
        need_out(out)?;
        // Copied, because it may be the cursor's own key.
        // SAFETY: the caller's promise.
        let key = unsafe { bytes(key, key_len_bytes)? }.to_vec();
        // SAFETY: the caller's promise.
        unsafe { moved(cursor, out, |iter| step(iter, key)) }
    })
}

/// Releases the cursor and its entry.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn imbrex_cursor_close(cursor: *mut Cursor) -> Status {
    guard(|| {
        // SAFETY: a handle that is not used again, as the header's conventions say.
        drop(unsafe { take(cursor)? });
        Ok(())
    })
}

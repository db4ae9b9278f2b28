//! What comes in: strings, buffers, handles, out parameters.

use crate::status::{Failure, Status};
use std::ffi::{CStr, c_char};

fn null(what: &str) -> Failure {
    Failure::new(Status::Invalid, format!("{what} is NULL"))
}

/// The text at `text`.
///
/// # Safety
/// NULL or a NUL-terminated string that outlives the result.
pub(crate) unsafe fn text<'a>(text: *const c_char, what: &str) -> Result<&'a str, Failure> {
    if text.is_null() {
        return Err(null(what));
    }
    // SAFETY: not NULL, and the rest is the caller's promise.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str().map_err(|_| Failure::new(Status::Invalid, format!("{what} is no UTF-8")))
}

/// The bytes at `data`.
///
/// # Safety
/// `len` bytes that outlive the result; any pointer if `len` is 0.
pub(crate) unsafe fn bytes<'a>(data: *const u8, len: usize) -> Result<&'a [u8], Failure> {
    if len == 0 {
        return Ok(&[]);
    }
    if data.is_null() {
        return Err(null("the data"));
    }
    // SAFETY: not NULL, and the rest is the caller's promise.
    Ok(unsafe { std::slice::from_raw_parts(data, len) })
}

/// The handle at `handle`.
///
/// # Safety
/// NULL, or made by [`give`] and not taken back.
pub(crate) unsafe fn handle<'a, T>(handle: *const T, what: &str) -> Result<&'a T, Failure> {
    // SAFETY: the caller's promise.
    unsafe { handle.as_ref() }.ok_or_else(|| null(what))
}

/// Writes `value` to the out parameter `out`.
///
/// # Safety
/// NULL or a place for a `T`.
pub(crate) unsafe fn put<T>(out: *mut T, value: T) -> Result<(), Failure> {
    if out.is_null() {
        return Err(null("an out parameter"));
    }
    // SAFETY: not NULL, and the rest is the caller's promise.
    unsafe { out.write(value) };
    Ok(())
}

/// Refuses an out parameter that is NULL before anything is done.
pub(crate) fn need_out<T>(out: *mut T) -> Result<(), Failure> {
    if out.is_null() { Err(null("an out parameter")) } else { Ok(()) }
}

/// Makes `value` a handle (A2).
///
/// # Safety
/// As [`put`].
pub(crate) unsafe fn give<T>(out: *mut *mut T, value: T) -> Result<(), Failure> {
    need_out(out)?;
    // SAFETY: the caller's promise.
    unsafe { put(out, Box::into_raw(Box::new(value))) }
}

/// Takes a handle back; NULL is none.
///
/// # Safety
/// NULL, or made by [`give`] and never used again.
pub(crate) unsafe fn take<T>(handle: *mut T) -> Option<Box<T>> {
    // SAFETY: `give` made it from a box (A2), and the caller promises that it is the last use.
    (!handle.is_null()).then(|| unsafe { Box::from_raw(handle) })
}

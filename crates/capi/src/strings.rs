//! Arguments from C: strings, buffers, handles, out parameters.

use crate::process::{self, Held};
use crate::status::{Failure, Status};
use std::ffi::{CStr, c_char};

pub(crate) fn null(what: &str) -> Failure {
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
    text.to_str().map_err(|_| Failure::new(Status::Invalid, format!("{what} is not UTF-8")))
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

/// The struct at `at`.
///
/// # Safety
/// NULL or a `T` that outlives the result.
pub(crate) unsafe fn structure<'a, T>(at: *const T, what: &str) -> Result<&'a T, Failure> {
    // SAFETY: the caller's promise.
    unsafe { at.as_ref() }.ok_or_else(|| null(what))
}

/// The handle at `handle`, unless another process opened it (A5).
///
/// # Safety
/// NULL, or made by [`give`] and not taken back.
pub(crate) unsafe fn handle<'a, T: Held>(handle: *const T, what: &str) -> Result<&'a T, Failure> {
    // SAFETY: the caller's promise.
    let held = unsafe { structure(handle, what)? };
    process::check(held)?;
    Ok(held)
}

/// The handle at `handle`, for a call that changes an object of one thread at a time.
///
/// # Safety
/// As [`handle`], and no other call uses it meanwhile.
pub(crate) unsafe fn handle_mut<'a, T: Held>(
    handle: *mut T,
    what: &str,
) -> Result<&'a mut T, Failure> {
    // SAFETY: the caller's promise.
    let held = unsafe { handle.as_mut() }.ok_or_else(|| null(what))?;
    process::check(held)?;
    Ok(held)
}

/// Copies as much of `from` to `buffer` as fits, and returns the whole length in `out_len_bytes`.
///
/// # Safety
/// `out_len_bytes` as [`put`]; a buffer of `len_bytes` bytes, any pointer if that is 0.
pub(crate) unsafe fn copy_out(
    from: &[u8],
    buffer: *mut u8,
    len_bytes: usize,
    out_len_bytes: *mut usize,
) -> Result<(), Failure> {
    need_out(out_len_bytes)?;
    if buffer.is_null() && len_bytes > 0 {
        return Err(null("the buffer"));
    }
    let count = from.len().min(len_bytes);
    if count > 0 {
        // SAFETY: both are that long, and data of a store does not overlap the caller's memory.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), buffer, count) };
    }
    // SAFETY: the caller's promise.
    unsafe { put(out_len_bytes, from.len()) }
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

/// Refuses a NULL out parameter before the call has any effect.
pub(crate) fn need_out<T>(out: *mut T) -> Result<(), Failure> {
    if out.is_null() { Err(null("an out parameter")) } else { Ok(()) }
}

/// Turns `value` into a handle (A2).
///
/// # Safety
/// As [`put`].
pub(crate) unsafe fn give<T>(out: *mut *mut T, value: T) -> Result<(), Failure> {
    need_out(out)?;
    // SAFETY: the caller's promise.
    unsafe { put(out, Box::into_raw(Box::new(value))) }
}

/// Takes a handle back; NULL gives `None`. A handle of another process is left alone, because dropping it
/// would write, unlock, and wait for threads that do not exist in this process (A5).
///
/// # Safety
/// NULL, or made by [`give`] and never used again.
pub(crate) unsafe fn take<T: Held>(handle: *mut T) -> Result<Option<Box<T>>, Failure> {
    // SAFETY: the caller's promise.
    let Some(held) = (unsafe { handle.as_ref() }) else { return Ok(None) };
    process::check(held)?;
    // SAFETY: `give` made it from a box (A2), and the caller promises that it is the last use.
    Ok(Some(unsafe { Box::from_raw(handle) }))
}

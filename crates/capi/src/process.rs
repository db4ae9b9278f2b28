//! The identity of the process. A forked child has copies of its parent's handles, and must not use them (A5).
//!
//! The child lacks the threads of the drive, has locks that no thread will release, and has a copy of bytes
//! that the parent has not written yet. If the child wrote them, they would be written twice. If it unlocked
//! the image, the image would be unlocked for both.

use crate::status::{Failure, Status};
use std::ffi::c_int;
use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

unsafe extern "C" {
    fn pthread_atfork(
        prepare: Option<unsafe extern "C" fn()>,
        parent: Option<unsafe extern "C" fn()>,
        child: Option<unsafe extern "C" fn()>,
    ) -> c_int;
}

/// The id of this process, after the first call of [`id`]. Asking the kernel in every call would cost more
/// than an append.
static ID: AtomicU32 = AtomicU32::new(0);

/// Runs in a child before `fork` returns there.
unsafe extern "C" fn forked() {
    ID.store(std::process::id(), Ordering::Relaxed);
}

/// The id of this process.
pub(crate) fn id() -> u32 {
    static ASKED: Once = Once::new();
    ASKED.call_once(|| {
        // SAFETY: the function and its argument may be called at any time.
        let failed = unsafe { pthread_atfork(None, None, Some(forked)) };
        assert!(failed == 0, "no memory for a handler of forks");
        ID.store(std::process::id(), Ordering::Relaxed);
    });
    ID.load(Ordering::Relaxed)
}

/// The content of a handle.
pub(crate) trait Held {
    /// The process that opened it; `None` if it is memory only.
    fn opener(&self) -> Option<u32>;
}

/// Refuses an object that another process opened.
pub(crate) fn check(held: &impl Held) -> Result<(), Failure> {
    match held.opener() {
        Some(opener) if opener != id() => {
            let message = format!(
                "refused: process {opener} opened the drive, and this is a child that it forked"
            );
            Err(Failure::new(Status::Busy, message))
        }
        _ => Ok(()),
    }
}

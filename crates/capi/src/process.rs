//! Which process this is: a child that it forks gets copies of its handles, which are none (A5).
//!
//! Such a child has no threads for the drive's work, locks that nobody gives back, and a copy of what the
//! parent has not written yet: to write that is to write it twice, to unlock the image is to unlock it
//! for both.

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

/// This process, once somebody has asked. To ask the kernel in every call would cost more than an append.
static ID: AtomicU32 = AtomicU32::new(0);

/// Runs in a child before `fork` returns there.
unsafe extern "C" fn forked() {
    ID.store(std::process::id(), Ordering::Relaxed);
}

/// This process's number.
pub(crate) fn id() -> u32 {
    static ASKED: Once = Once::new();
    ASKED.call_once(|| {
        // SAFETY: the function may be called at any time, and so may what it is given.
        let failed = unsafe { pthread_atfork(None, None, Some(forked)) };
        assert!(failed == 0, "no memory for a handler of forks");
        ID.store(std::process::id(), Ordering::Relaxed);
    });
    ID.load(Ordering::Relaxed)
}

/// What a handle holds: something that `opener` opened.
pub(crate) trait Held {
    /// The process that opened it; `None` if it is memory and nothing else.
    fn opener(&self) -> Option<u32>;
}

/// Refuses what another process opened.
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

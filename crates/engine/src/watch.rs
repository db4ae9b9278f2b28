//! Watching one long call: how far it is, and whether it should go on.
//!
//! ```text
//!   compact_range_with, check_with, wait_idle_with
//!       step, step, step ...      after each: watch(Progress) -> Continue | Break
//!                                                                   '-> EngineError::Stopped
//! ```
//!
//! Invariants
//!   W1  A call that was stopped has left nothing half done: what it committed stays, what it had
//!       only begun is as if it had never been begun.

use crate::EngineError;
use std::ops::ControlFlow;

/// How far a long call is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// What is done.
    pub done_bytes: u64,
    /// What there is to do, as far as it can be told now; 0 if it cannot.
    pub total_bytes: u64,
}

/// Looks on after every step of a long call, about every MiB; `Break` stops it there.
pub type Watch<'a> = dyn FnMut(Progress) -> ControlFlow<()> + 'a;

/// Lets everything go on.
pub(crate) fn unwatched(_: Progress) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

/// # Errors
/// [`EngineError::Stopped`] if the watch says so.
pub(crate) fn ask(
    watch: &mut Watch<'_>,
    what: &'static str,
    progress: Progress,
) -> Result<(), EngineError> {
    match watch(progress) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(EngineError::Stopped { what }),
    }
}

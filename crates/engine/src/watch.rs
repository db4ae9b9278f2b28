//! Watching a long call: how far it has got, and whether it should continue.
//!
//! ```text
//!   compact_range_with, check_with, wait_idle_with
//!       step, step, step ...      after each: watch(Progress) -> Continue | Break
//!                                                                   '-> EngineError::Stopped
//! ```
//!
//! Invariants
//!   W1  A stopped call leaves nothing half done: what it committed stays, and unfinished work is
//!       undone.

use crate::EngineError;
use std::ops::ControlFlow;

/// How far a long call has got.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Bytes done.
    pub done_bytes: u64,
    /// Bytes to do, as far as the call knows now; 0 if it does not know.
    pub total_bytes: u64,
}

/// A callback after every step of a long call, about every MiB; `Break` stops the call there.
pub type Watch<'a> = dyn FnMut(Progress) -> ControlFlow<()> + 'a;

/// A watch that never stops a call.
pub(crate) fn unwatched(_: Progress) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

/// Reports `progress` to the watch.
///
/// # Errors
/// [`EngineError::Stopped`] if the watch stops the call.
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

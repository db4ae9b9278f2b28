//! Ctrl-C during a long call: the watch of the call asks Python whether a signal came.

use parking_lot::Mutex;
use pyo3::prelude::*;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};

/// Python is asked once in so many reports of progress, because that waits for the interpreter.
const ASKED_EVERY: u64 = 16;

/// The watch of one call.
#[derive(Debug, Default)]
pub(crate) struct Interrupts {
    reports: AtomicU64,
    raised: Mutex<Option<PyErr>>,
}

impl Interrupts {
    /// Stops the call if a handler of a signal has raised something. Called detached from the interpreter.
    pub(crate) fn ask(&self) -> ControlFlow<()> {
        if !self.reports.fetch_add(1, Ordering::Relaxed).is_multiple_of(ASKED_EVERY) {
            return ControlFlow::Continue(());
        }
        match Python::attach(|py| py.check_signals()) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                *self.raised.lock() = Some(error);
                ControlFlow::Break(())
            }
        }
    }

    /// The end of the call: what was raised comes before what the call says about being stopped.
    pub(crate) fn end<T, E>(self, done: Result<T, E>) -> Result<T, crate::failure::Failure>
    where
        crate::failure::Failure: From<E>,
    {
        match self.raised.into_inner() {
            Some(error) => Err(error.into()),
            None => Ok(done?),
        }
    }
}

//! Ctrl-C during a long call: the watch of the call asks Python whether a signal came.
//!
//! Python then runs the handlers of signals inside the call. A handler that called the store would wait for locks that
//! its own thread holds, so it is refused ([`check_no_handler`]).

use crate::failure::Failure;
use imbrex::ErrorKind;
use parking_lot::Mutex;
use pyo3::prelude::*;
use std::cell::Cell;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};

/// Python is asked once in so many reports of progress, because that waits for the interpreter.
const ASKED_EVERY: u64 = 16;

thread_local! {
    /// Whether this thread runs handlers of signals inside a call.
    static IN_HANDLER: Cell<bool> = const { Cell::new(false) };
}

/// Refuses a call by a handler that runs inside another call of its thread.
pub(crate) fn check_no_handler() -> Result<(), Failure> {
    if !IN_HANDLER.get() {
        return Ok(());
    }
    let message = "refused: a signal handler runs inside a long call of this thread, which has the store; set a flag or \
                   raise an exception in the handler, and use the store after the call";
    Err(Failure::Kind(ErrorKind::InUse, message.to_owned()))
}

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
        let checked = Python::attach(|py| {
            let before = IN_HANDLER.replace(true);
            let checked = py.check_signals();
            IN_HANDLER.set(before);
            checked
        });
        match checked {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                *self.raised.lock() = Some(error);
                ControlFlow::Break(())
            }
        }
    }

    /// The end of the call: what was raised comes before what the call says about being stopped.
    pub(crate) fn end<T, E>(self, done: Result<T, E>) -> Result<T, Failure>
    where
        Failure: From<E>,
    {
        match self.raised.into_inner() {
            Some(error) => Err(error.into()),
            None => Ok(done?),
        }
    }
}

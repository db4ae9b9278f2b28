//! The identity of the process. A forked child has copies of its parent's handles, and must not use them.
//!
//! The child lacks the threads of the store, has locks that no thread will release, and has a copy of bytes that the
//! parent has not written yet. A child that closed the store would write them a second time.
//!
//! Python calls [`note_fork`] in each child that it forks, so a call compares two numbers and asks the kernel nothing.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::sync::atomic::{AtomicU32, Ordering};

/// The id of this process, since the module was imported.
static ID: AtomicU32 = AtomicU32::new(0);

/// The id of this process.
pub(crate) fn id() -> u32 {
    ID.load(Ordering::Relaxed)
}

/// Runs in each child before `os.fork` returns there.
#[pyfunction]
fn note_fork() {
    ID.store(std::process::id(), Ordering::Relaxed);
}

/// Asks Python to call [`note_fork`] in children.
pub(crate) fn watch_forks(module: &Bound<'_, PyModule>) -> PyResult<()> {
    note_fork();
    let py = module.py();
    let hooks = PyDict::new(py);
    hooks.set_item("after_in_child", wrap_pyfunction!(note_fork, module)?)?;
    py.import("os")?.call_method("register_at_fork", (), Some(&hooks))?;
    Ok(())
}

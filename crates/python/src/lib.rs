//! The Python package `imbrex`: this crate is its module `imbrex._imbrex`, and `python/imbrex` is the rest.
//!
//! ```text
//!   python/imbrex/__init__.py   what users see: open, create, simulate, bench, the classes, the exceptions
//!                _imbrex        this crate
//!                _streams.py    values and objects as files
//!                _errors.py     exceptions
//!
//!   Reader <-- Keyspace <-- Store <-- SimulatedStore      `held`: what they share, and who may use it
//!     ^----- Snapshot, Checkpoint
//! ```
//!
//! Invariants
//!   Y1  No call holds the interpreter while the store works; adding to a batch does no work.
//!   Y2  No Python object keeps a closed store's drive (`held`, H1).
//!   Y3  Bytes that other threads may change are copied before a call; bytes that nobody can change are not (`given`).
//!   Y4  A forked child is refused (`process`, `held`, H3).
//!
//! Built for the stable ABI of Python 3.11, so one library serves it and every later version.
//!
//! Not here: what a call does (`imbrex`, `imbrex-engine`, `imbrex-bench`); types for checkers (`__init__.pyi`).

mod batch;
mod bench;
mod drives;
mod entries;
mod failure;
mod given;
mod held;
mod interrupts;
mod keyspace;
mod making;
mod moments;
mod objects;
mod place;
mod process;
mod reader;
mod simulated;
mod stats;
mod store;
mod value;

use pyo3::prelude::*;

/// The compiled part of the package `imbrex`.
#[pymodule(name = "_imbrex")]
mod module {
    use super::*;
    #[pymodule_export]
    use super::{
        batch::Batch,
        bench::run_bench,
        drives::{layout_table, profiles},
        entries::Entries,
        keyspace::Keyspace,
        making::{create_store, format_drive, open_store, restore},
        moments::{Checkpoint, Snapshot},
        objects::{ObjectBatch, ObjectListing, ObjectSource, ObjectUpload, Objects},
        reader::Reader,
        simulated::{SimulatedStore, simulate_store},
        store::Store,
    };

    #[pymodule_init]
    fn begin(module: &Bound<'_, PyModule>) -> PyResult<()> {
        process::watch_forks(module)?;
        let close_all = wrap_pyfunction!(held::close_all, module)?;
        module.py().import("atexit")?.call_method1("register", (close_all,))?;
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}

//! Stores.

use crate::batch::Batch;
use crate::failure::Failure;
use crate::held::{Held, Opened};
use crate::interrupts::Interrupts;
use crate::keyspace::Keyspace;
use crate::moments::{Checkpoint, Snapshot};
use crate::place::Place;
use crate::stats::stats;
use imbrex::backup::{BackupOptions, backup_db};
use imbrex::{KeyspaceOptions, Options};
use imbrex_files::Files;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use std::path::PathBuf;
use std::sync::Arc;

/// An open store. It is its default keyspace, and has others by name.
///
/// Threads may share it; the lock of the interpreter is released while the store works. A forked child must not use it:
/// every call raises ForkedError there. One process writes a store at a time.
#[pyclass(extends = Keyspace, subclass, frozen, module = "imbrex")]
#[derive(Debug)]
pub(crate) struct Store {
    opened: Arc<Opened>,
}

impl Store {
    /// The Python object of a store that is open as `opened`, and its default keyspace.
    pub(crate) fn new(
        opened: &Arc<Opened>,
    ) -> Result<(PyClassInitializer<Store>, Arc<Held<Place>>), Failure> {
        let place = opened.hold("store", Place::now(default_keyspace(opened)?));
        let keyspace = Keyspace::new(opened, &place);
        Ok((keyspace.add_subclass(Store { opened: Arc::clone(opened) }), place))
    }

    fn keyspace_object<'py>(
        &self,
        py: Python<'py>,
        keyspace: imbrex::Keyspace,
    ) -> PyResult<Bound<'py, Keyspace>> {
        let place = self.opened.hold("keyspace", Place::now(keyspace));
        Bound::new(py, Keyspace::new(&self.opened, &place))
    }
}

/// The default keyspace of a store that is open.
pub(crate) fn default_keyspace(opened: &Opened) -> Result<imbrex::Keyspace, Failure> {
    opened.run_attached(&opened.store, |store| Ok(store.keyspace("default")?))
}

#[pymethods]
impl Store {
    /// What the drive is formatted as: the name of one of `imbrex.layouts()`.
    #[getter]
    fn layout(&self) -> PyResult<&'static str> {
        Ok(self.opened.run_attached(&self.opened.store, |store| Ok(store.layout().name()))?)
    }

    /// The path that the store was opened by, or what a simulated one is called.
    #[getter]
    fn path(&self) -> &str {
        &self.opened.name
    }

    /// Whether the store is open for reading only.
    #[getter]
    fn read_only(&self) -> bool {
        self.opened.is_read_only
    }

    /// Whether the store was closed.
    #[getter]
    fn closed(&self) -> PyResult<bool> {
        self.opened.store.check_process()?;
        Ok(self.opened.store.is_closed())
    }

    /// Makes everything durable and ends every iterator, snapshot and batch of the store. A second call does nothing.
    ///
    /// It waits for the calls of other threads. Leaving a `with` block closes as well, and so does the end of the
    /// interpreter.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.opened.close(py)
    }

    /// Makes everything written so far durable. Costs one flush of the drive's cache.
    fn sync(&self, py: Python<'_>) -> PyResult<()> {
        self.opened.run_on_store(py, |store| Ok(store.sync()?))
    }

    /// Writes what is in memory to tables, durably. The next opening has no log to replay.
    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        self.opened.run_on_store(py, |store| Ok(store.flush()?))
    }

    /// A new batch, for a `with` block or for `write()`. With `sync`, it is durable when it was written.
    #[pyo3(signature = (*, sync = false))]
    fn batch(&self, sync: bool) -> PyResult<Batch> {
        Ok(Batch::new(&self.opened, default_keyspace(&self.opened)?, sync))
    }

    /// The store as it is now, for as long as the snapshot is held.
    fn snapshot<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, Snapshot>> {
        let default = default_keyspace(&self.opened)?;
        let snapshot = self.opened.run_on_store(py, |store| Ok(store.stack().db.snapshot()))?;
        Bound::new(py, Snapshot::new(&self.opened, default, snapshot))
    }

    /// The keyspace called `name`. With `create`, it is made if there is none, durably.
    #[pyo3(signature = (name, *, create = false))]
    fn keyspace<'py>(
        &self,
        py: Python<'py>,
        name: &str,
        create: bool,
    ) -> PyResult<Bound<'py, Keyspace>> {
        let keyspace = self.opened.run_on_store(py, |store| {
            if create && !store.keyspace_names().iter().any(|known| known == name) {
                return Ok(store.create_keyspace(name, KeyspaceOptions::default())?);
            }
            Ok(store.keyspace(name)?)
        })?;
        self.keyspace_object(py, keyspace)
    }

    /// Drops the keyspace called `name` and everything in it, durably. The default keyspace stays.
    fn drop_keyspace(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        self.opened.run_on_store(py, |store| Ok(store.drop_keyspace(name)?))
    }

    /// The names of all keyspaces, in the order in which they were created; `default` is the first.
    fn keyspaces(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        self.opened.run_on_store(py, |store| Ok(store.keyspace_names()))
    }

    /// Keeps the store as it is now under `name`, durably, until `delete_checkpoint`. Tables are shared, not copied.
    fn checkpoint(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        self.opened.run_on_store(py, |store| Ok(store.checkpoint(name)?))
    }

    /// The names of all checkpoints.
    fn checkpoints(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        self.opened.run_on_store(py, |store| Ok(store.checkpoint_names()))
    }

    /// Opens a checkpoint for reading.
    fn open_checkpoint<'py>(
        &self,
        py: Python<'py>,
        name: &str,
    ) -> PyResult<Bound<'py, Checkpoint>> {
        let checkpoint = self.opened.run_on_store(py, |store| Ok(store.open_checkpoint(name)?))?;
        Bound::new(py, Checkpoint::new(&self.opened, checkpoint))
    }

    /// Deletes a checkpoint. A reader that has it open goes on reading.
    fn delete_checkpoint(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        self.opened.run_on_store(py, |store| Ok(store.delete_checkpoint(name)?))
    }

    /// Adds a copy of the store to `directory`, which is made if it does not exist: the tables that it does not have, each
    /// verified there. Returns what was done. Writes may go on; Ctrl-C stops it.
    ///
    /// `full` reads also the tables that the directory has, `keep` is how many copies to keep, and `adopt` goes on with a
    /// directory of the store that this one was restored from. `imbrex.restore` makes a store of a copy.
    #[pyo3(signature = (directory, *, full = false, keep = None, adopt = false))]
    fn backup<'py>(
        &self,
        py: Python<'py>,
        directory: PathBuf,
        full: bool,
        keep: Option<u64>,
        adopt: bool,
    ) -> PyResult<Bound<'py, PyDict>> {
        let options = BackupOptions { adopt, full, keep };
        let is_read_only = self.opened.is_read_only;
        let report = self.opened.run_on_store(py, |store| {
            if is_read_only {
                return Ok(store.backup(&directory, &options)?);
            }
            let interrupts = Interrupts::default();
            let (store_id, layout) = (store.stack().files.format_id(), store.layout());
            let mut watch = |_| interrupts.ask();
            let db = &store.stack().db;
            let done = backup_db(db, store_id, layout, &directory, &options, &mut watch);
            interrupts.end(done)
        })?;
        let told = PyDict::new(py);
        told.set_item("number", report.number)?;
        told.set_item("table_count", report.table_count)?;
        told.set_item("len_bytes", report.len_bytes)?;
        told.set_item("written_table_count", report.written_table_count)?;
        told.set_item("written_bytes", report.written_bytes)?;
        told.set_item("removed_copies", report.removed_copies)?;
        Ok(told)
    }

    /// Copies the store, as it is at one moment during the call, to a new store at `path`.
    #[pyo3(signature = (path, *, layout = None))]
    fn backup_to(&self, py: Python<'_>, path: PathBuf, layout: Option<String>) -> PyResult<()> {
        let mut options = Options::new();
        if let Some(layout) = layout {
            options = options.layout(layout);
        }
        self.opened.run_on_store(py, |store| {
            // A drive of the same length, or the copy may not fit.
            let len_bytes = store.stack().drive.geometry().len().bytes();
            Ok(store.backup_to(&path, &options.clone().capacity(len_bytes))?)
        })
    }

    /// What the store holds, what it did since it was opened, and what its drive did, as a dict of dicts. Lengths are in
    /// bytes, times in nanoseconds.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let text = self.opened.run_on_store(py, |store| Ok(stats(store)))?;
        py.import("json")?.call_method1("loads", (text,))
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyTuple>) -> PyResult<()> {
        self.close(py)
    }

    fn __repr__(&self) -> String {
        let state = match (self.opened.store.check_process(), self.opened.is_read_only) {
            (Err(_), _) => "another process's",
            (Ok(()), _) if self.opened.store.is_closed() => "closed",
            (Ok(()), true) => "open for reading",
            (Ok(()), false) => "open",
        };
        format!("<imbrex.Store {} ({state})>", self.opened.name)
    }
}

//! Keyspaces: ordered maps that can be written.

use crate::failure::Failure;
use crate::given::Given;
use crate::held::{Held, Opened};
use crate::interrupts::Interrupts;
use crate::objects::Objects;
use crate::place::Place;
use crate::reader::Reader;
use imbrex_engine::{WriteBatch, WriteOptions};
use pyo3::exceptions::{PyKeyError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};
use std::sync::Arc;

/// A keyspace of a store: an ordered map of its own. All keyspaces share one log, so a batch may span them.
///
/// A write is visible at once. It is durable after `sync()`, `flush()` or `close()`, or at once with `sync=True`.
#[pyclass(extends = Reader, subclass, frozen, module = "imbrex")]
#[derive(Debug)]
pub(crate) struct Keyspace {
    opened: Arc<Opened>,
    place: Arc<Held<Place>>,
}

impl Keyspace {
    pub(crate) fn new(
        opened: &Arc<Opened>,
        place: &Arc<Held<Place>>,
    ) -> PyClassInitializer<Keyspace> {
        let reader = PyClassInitializer::from(Reader::new(opened, place));
        reader.add_subclass(Keyspace { opened: Arc::clone(opened), place: Arc::clone(place) })
    }

    /// The front door's handle, if this is a keyspace of `opened`.
    pub(crate) fn of_store(&self, opened: &Arc<Opened>) -> Result<imbrex::Keyspace, Failure> {
        if !Arc::ptr_eq(&self.opened, opened) {
            let message =
                "the keyspace is another store's; take one from the store that makes the batch";
            return Err(Failure::argument(message));
        }
        opened.run_attached(&self.place, |place| Ok(place.keyspace.clone()))
    }

    fn run<R: Send>(
        &self,
        py: Python<'_>,
        call: impl FnOnce(&imbrex_engine::Keyspace) -> Result<R, imbrex_engine::EngineError> + Send,
    ) -> PyResult<R> {
        self.opened.run(py, &self.place, |place| Ok(call(place.keyspace.engine())?))
    }
}

/// Pairs out of a mapping, or out of an iterable of pairs.
fn pairs<'py>(of: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    match of.hasattr("keys")? && of.hasattr("items")? {
        true => of.call_method0("items"),
        false => Ok(of.clone()),
    }
}

#[pymethods]
impl Keyspace {
    /// Its name; that of a store's own is `default`.
    #[getter]
    fn keyspace_name(&self) -> PyResult<String> {
        let name =
            self.opened.run_attached(&self.place, |place| Ok(place.keyspace.name().to_owned()));
        Ok(name?)
    }

    /// Sets `key` to `value`. With `sync`, this write and every earlier one are durable on return.
    ///
    /// A key has 1 to 65,536 bytes, a value up to 1 GiB.
    #[pyo3(signature = (key, value, *, sync = false))]
    fn put(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
        sync: bool,
    ) -> PyResult<()> {
        let (key, value) = (Given::of("a key", key)?, Given::of("a value", value)?);
        let (key, value) = (key.as_ref(), value.as_ref());
        self.run(py, |keyspace| keyspace.put_with(key, value, WriteOptions { sync }))
    }

    /// Removes `key`, whether it is there or not: nothing is read. `del` looks first, as a dict does.
    #[pyo3(signature = (key, *, sync = false))]
    fn delete(&self, py: Python<'_>, key: &Bound<'_, PyAny>, sync: bool) -> PyResult<()> {
        let key = Given::of("a key", key)?;
        let key = key.as_ref();
        self.run(py, |keyspace| keyspace.delete_with(key, WriteOptions { sync }))
    }

    /// Removes the keys from `start` to before `end`. Costs as much as one `delete`, however many keys there are.
    #[pyo3(signature = (start, end, *, sync = false))]
    fn delete_range(
        &self,
        py: Python<'_>,
        start: &Bound<'_, PyAny>,
        end: &Bound<'_, PyAny>,
        sync: bool,
    ) -> PyResult<()> {
        let (start, end) = (Given::of("start", start)?, Given::of("end", end)?);
        let range = start.as_ref()..end.as_ref();
        self.run(py, |keyspace| keyspace.delete_range_with(range, WriteOptions { sync }))
    }

    /// Sets all keys of a mapping, or of an iterable of pairs, as one batch: all of them or none.
    #[pyo3(signature = (items, *, sync = false))]
    fn update(&self, py: Python<'_>, items: &Bound<'_, PyAny>, sync: bool) -> PyResult<()> {
        let keyspace = self.of_store(&self.opened)?;
        let mut batch = WriteBatch::new();
        for pair in pairs(items)?.try_iter()? {
            let Ok((key, value)) = pair?.extract::<(Bound<'_, PyAny>, Bound<'_, PyAny>)>() else {
                return Err(PyTypeError::new_err("each item must be a pair of a key and a value"));
            };
            let (key, value) = (Given::of("a key", &key)?, Given::of("a value", &value)?);
            batch.put(keyspace.engine(), key, value).map_err(Failure::from)?;
        }
        drop(keyspace);
        self.opened
            .run_on_store(py, |store| Ok(store.stack().db.write(batch, WriteOptions { sync })?))
    }

    /// Removes `key` and returns its value; without one, returns `default` or raises KeyError.
    ///
    /// It reads, then deletes. A write by another thread in between may be deleted unseen.
    #[pyo3(signature = (key, *default))]
    fn pop<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        default: &Bound<'py, PyTuple>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if default.len() > 1 {
            return Err(PyTypeError::new_err("pop takes a key and a default"));
        }
        let given = Given::of("a key", key)?;
        let bytes = given.as_ref();
        let value = self.opened.run(py, &self.place, |place| {
            let value = place.get(bytes)?;
            if value.is_some() {
                place.keyspace.engine().delete(bytes)?;
            }
            Ok(value)
        })?;
        match (value, default.len()) {
            (Some(value), _) => Ok(PyBytes::new(py, &value).into_any()),
            (None, 1) => default.get_item(0),
            (None, _) => Err(PyKeyError::new_err((key.clone().unbind(),))),
        }
    }

    /// Merges all tables in the range down to the last level, so that overwritten and deleted data give up their space.
    /// Ctrl-C stops it; what was merged stays merged.
    #[pyo3(signature = (start = None, end = None))]
    fn compact(
        &self,
        py: Python<'_>,
        start: Option<&Bound<'_, PyAny>>,
        end: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let (start, end) = (Given::bound("start", start)?, Given::bound("end", end)?);
        let (start, end) = (start.as_ref().map(AsRef::as_ref), end.as_ref().map(AsRef::as_ref));
        self.opened.run(py, &self.place, |place| {
            let interrupts = Interrupts::default();
            let engine = place.keyspace.engine();
            let done = engine.compact_range_with(start, end, &mut |_| interrupts.ask());
            interrupts.end(done)
        })
    }

    fn __setitem__(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        self.put(py, key, value, false)
    }

    fn __delitem__(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<()> {
        self.pop(py, key, &PyTuple::empty(py)).map(drop)
    }

    fn __repr__(&self) -> PyResult<String> {
        Ok(format!("<imbrex.Keyspace {:?} of {}>", self.keyspace_name()?, self.opened.name))
    }

    /// Its objects: data of any length with metadata, written and read in pieces.
    ///
    /// A keyspace of objects has no other entries. Make their store with `values_apart="64KiB"`, and keep objects in its
    /// only keyspace: compactions then leave their data where they are.
    fn objects(&self, py: Python<'_>) -> PyResult<Objects> {
        let objects = self.opened.run(py, &self.place, |place| Ok(place.keyspace.objects()?))?;
        Ok(Objects::new(&self.opened, objects))
    }

    /// Opens the value of `key` as a binary file.
    ///
    /// With mode "rb", a file to read, which can seek; the value is in memory as a whole. With "wb", a file to write: it
    /// collects what is written in memory, and closing it sets the key to that. A `with` block that raises sets nothing.
    /// A value has up to 1 GiB.
    #[pyo3(signature = (key, mode = "rb", *, sync = false))]
    fn open<'py>(
        slf: &Bound<'py, Self>,
        key: &Bound<'py, PyAny>,
        mode: &str,
        sync: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let streams = slf.py().import("imbrex._streams")?;
        streams.call_method1("open_value", (slf, key, mode, sync))
    }
}

//! Reading: what stores, keyspaces, snapshots and checkpoints have in common.

use crate::entries::{Entries, Parts};
use crate::failure::Failure;
use crate::given::Given;
use crate::held::{Held, Opened};
use crate::place::Place;
use crate::value::Value;
use bytes::Bytes;
use imbrex_engine::prefix_end;
use pyo3::exceptions::{PyKeyError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyMemoryView};
use std::sync::Arc;

/// An ordered map from bytes to bytes that can be read: a store, a keyspace, a snapshot or a checkpoint.
///
/// Keys are ordered by byte. There is no `len()`, because the store does not count its keys.
#[pyclass(subclass, frozen, module = "imbrex")]
#[derive(Debug)]
pub(crate) struct Reader {
    opened: Arc<Opened>,
    place: Arc<Held<Place>>,
}

impl Reader {
    pub(crate) fn new(opened: &Arc<Opened>, place: &Arc<Held<Place>>) -> Reader {
        Reader { opened: Arc::clone(opened), place: Arc::clone(place) }
    }

    fn value(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<Option<Bytes>> {
        let key = Given::of("a key", key)?;
        let key = key.as_ref();
        self.opened.run(py, &self.place, |place| place.get(key))
    }

    fn entries(
        &self,
        py: Python<'_>,
        range: Range<'_, '_>,
        is_reverse: bool,
        parts: Parts,
    ) -> PyResult<Entries> {
        let (lower, upper) = range.bounds()?;
        let cursor = self.opened.run(py, &self.place, |place| place.iter(lower, upper))?;
        Ok(Entries::new(&self.opened, cursor, parts, is_reverse))
    }
}

/// The keys that a caller asks for.
struct Range<'a, 'py> {
    start: Option<&'a Bound<'py, PyAny>>,
    end: Option<&'a Bound<'py, PyAny>>,
    prefix: Option<&'a Bound<'py, PyAny>>,
}

impl Range<'_, '_> {
    /// The first key, and the first one after the last.
    fn bounds(&self) -> PyResult<(Option<Bytes>, Option<Bytes>)> {
        let copied =
            |given: Option<Given<'_>>| given.map(|given| Bytes::copy_from_slice(given.as_ref()));
        let start = copied(Given::bound("start", self.start)?);
        let end = copied(Given::bound("end", self.end)?);
        let Some(prefix) = Given::bound("prefix", self.prefix)? else { return Ok((start, end)) };
        if start.is_some() || end.is_some() {
            return Err(PyTypeError::new_err("give start and end, or prefix, but not both"));
        }
        let prefix = prefix.as_ref();
        Ok((Some(Bytes::copy_from_slice(prefix)), prefix_end(prefix).map(Bytes::from)))
    }
}

#[pymethods]
impl Reader {
    /// The value of `key`, or `default` without one. About one seek of the drive if nothing is cached.
    #[pyo3(signature = (key, default = None))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let value = self.value(py, key)?;
        Ok(value.map_or(default, |value| Some(PyBytes::new(py, &value).into_any())))
    }

    /// The value of `key` as a read-only memoryview, or None: no copy is made.
    ///
    /// The view shares memory with the store's cache, and keeps a whole block of it for as long as it lives. It stays
    /// valid when the key is overwritten and when the store is closed.
    fn view<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Bound<'py, PyMemoryView>>> {
        self.value(py, key)?.map(|value| Value::view(py, value)).transpose()
    }

    /// The values of `keys`, in the same order, with None for each that is absent.
    ///
    /// Cheaper than as many calls of `get`: the keys are looked up in order, and the lock of the interpreter is
    /// released once.
    fn get_many<'py>(
        &self,
        py: Python<'py>,
        keys: &Bound<'py, PyAny>,
    ) -> PyResult<Vec<Option<Bound<'py, PyBytes>>>> {
        let keys: Vec<Given<'_>> =
            keys.try_iter()?.map(|key| Given::of("a key", &key?)).collect::<PyResult<_>>()?;
        let keys: Vec<&[u8]> = keys.iter().map(AsRef::as_ref).collect();
        let values = self.opened.run(py, &self.place, |place| place.get_many(&keys))?;
        let values = values.into_iter();
        Ok(values.map(|value| value.map(|value| PyBytes::new(py, &value))).collect())
    }

    /// Iterates over `(key, value)` in order of key, from `start` to before `end`, or over the keys that begin with
    /// `prefix`. It sees the store as it is now: later writes do not show.
    #[pyo3(signature = (start = None, end = None, *, prefix = None, reverse = false))]
    fn items(
        &self,
        py: Python<'_>,
        start: Option<&Bound<'_, PyAny>>,
        end: Option<&Bound<'_, PyAny>>,
        prefix: Option<&Bound<'_, PyAny>>,
        reverse: bool,
    ) -> PyResult<Entries> {
        self.entries(py, Range { start, end, prefix }, reverse, Parts::Items)
    }

    /// Iterates over keys, as `items` does over both.
    #[pyo3(signature = (start = None, end = None, *, prefix = None, reverse = false))]
    fn keys(
        &self,
        py: Python<'_>,
        start: Option<&Bound<'_, PyAny>>,
        end: Option<&Bound<'_, PyAny>>,
        prefix: Option<&Bound<'_, PyAny>>,
        reverse: bool,
    ) -> PyResult<Entries> {
        self.entries(py, Range { start, end, prefix }, reverse, Parts::Keys)
    }

    /// Iterates over values in order of key, as `items` does over both.
    #[pyo3(signature = (start = None, end = None, *, prefix = None, reverse = false))]
    fn values(
        &self,
        py: Python<'_>,
        start: Option<&Bound<'_, PyAny>>,
        end: Option<&Bound<'_, PyAny>>,
        prefix: Option<&Bound<'_, PyAny>>,
        reverse: bool,
    ) -> PyResult<Entries> {
        self.entries(py, Range { start, end, prefix }, reverse, Parts::Values)
    }

    /// About how many bytes of the drive the keys from `start` to before `end` take. Newest writes, which are in memory,
    /// do not count.
    fn approximate_size(
        &self,
        py: Python<'_>,
        start: &Bound<'_, PyAny>,
        end: &Bound<'_, PyAny>,
    ) -> PyResult<u64> {
        let (start, end) = (Given::of("start", start)?, Given::of("end", end)?);
        let (start, end) = (start.as_ref(), end.as_ref());
        self.opened.run(py, &self.place, |place| {
            place.keyspace.engine().approximate_size(start..end).map_err(Failure::from)
        })
    }

    fn __getitem__<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let value = self.value(py, key)?;
        let absent = || PyKeyError::new_err((key.clone().unbind(),));
        value.map(|value| PyBytes::new(py, &value)).ok_or_else(absent)
    }

    fn __contains__(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        Ok(self.value(py, key)?.is_some())
    }

    fn __iter__(&self, py: Python<'_>) -> PyResult<Entries> {
        self.keys(py, None, None, None, false)
    }

    fn __reversed__(&self, py: Python<'_>) -> PyResult<Entries> {
        self.keys(py, None, None, None, true)
    }
}

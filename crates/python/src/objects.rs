//! Objects: data of any length, in pieces.
//!
//! ```text
//!   Objects.create --> ObjectUpload  <-- _streams.ObjectWriter     the file that a caller writes
//!   Objects.open   --> ObjectSource  <-- _streams.ObjectReader     the file that a caller reads
//! ```

use crate::failure::Failure;
use crate::given::Given;
use crate::held::{Held, Opened};
use imbrex::{Listing, ObjectReader, ObjectStat, Upload};
use imbrex_engine::WriteOptions;
use parking_lot::Mutex;
use pyo3::exceptions::{PyKeyError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::collections::VecDeque;
use std::sync::Arc;

/// The most objects that a listing reads at a time.
const LISTED_MAX: usize = 1024;

/// Length and metadata of an object, as Python's `ObjectStat`.
fn stat_object<'py>(py: Python<'py>, stat: &ObjectStat) -> PyResult<Bound<'py, PyAny>> {
    let metadata = PyBytes::new(py, &stat.metadata);
    py.import("imbrex._streams")?.call_method1("ObjectStat", (stat.len_bytes, metadata))
}

/// The objects of a keyspace: data of any length under a key, with metadata.
///
/// Threads may share it. A change is visible at once, completely or not at all, and durable when the call returns,
/// unless `sync=False`.
#[pyclass(frozen, module = "imbrex")]
#[derive(Debug)]
pub(crate) struct Objects {
    opened: Arc<Opened>,
    objects: Arc<Held<imbrex::Objects>>,
}

impl Objects {
    pub(crate) fn new(opened: &Arc<Opened>, objects: imbrex::Objects) -> Objects {
        Objects { opened: Arc::clone(opened), objects: opened.hold("objects", objects) }
    }

    fn run<R: Send>(
        &self,
        py: Python<'_>,
        call: impl FnOnce(&imbrex::Objects) -> Result<R, imbrex::ObjectsError> + Send,
    ) -> PyResult<R> {
        self.opened.run(py, &self.objects, |objects| Ok(call(objects)?))
    }
}

#[pymethods]
impl Objects {
    /// Makes `data` the object under `key`. For data that are not in memory as a whole use `create`.
    #[pyo3(signature = (key, data, metadata = None, *, sync = true))]
    fn put(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        data: &Bound<'_, PyAny>,
        metadata: Option<&Bound<'_, PyAny>>,
        sync: bool,
    ) -> PyResult<()> {
        let (key, data) = (Given::of("a key", key)?, Given::of("data", data)?);
        let metadata = Given::bound("metadata", metadata)?;
        let (key, data) = (key.as_ref(), data.as_ref());
        let metadata = metadata.as_ref().map_or(&[][..], AsRef::as_ref);
        self.run(py, |objects| objects.put(key, metadata, data, WriteOptions { sync }))
    }

    /// A file to write, whose content becomes the object under `key` with `finish()`, or at the end of a `with` block. A
    /// block that raises, `abandon()`, and a file that nobody finishes make no object. Memory: 1 MiB.
    fn create<'py>(&self, key: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = key.py();
        let key = PyBytes::new(py, Given::of("a key", key)?.as_ref());
        let upload = self.run(py, |objects| Ok(objects.upload()))?;
        let upload = ObjectUpload {
            opened: Arc::clone(&self.opened),
            upload: self.opened.hold("upload", Mutex::new(upload)),
        };
        py.import("imbrex._streams")?.call_method1("ObjectWriter", (upload, key))
    }

    /// The object under `key` as a file to read, which can seek, with `size` and `metadata`. It stays as it is now, even
    /// if the object is replaced or deleted. KeyError if there is none.
    fn open<'py>(&self, key: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = key.py();
        let given = Given::of("a key", key)?;
        let bytes = given.as_ref();
        let Some(reader) = self.run(py, |objects| objects.reader(bytes))? else {
            return Err(PyKeyError::new_err((key.clone().unbind(),)));
        };
        let stat = stat_object(py, reader.stat())?;
        let source = ObjectSource {
            opened: Arc::clone(&self.opened),
            reader: self.opened.hold("object", Mutex::new(reader)),
        };
        py.import("imbrex._streams")?.call_method1("ObjectReader", (source, stat))
    }

    /// Size and metadata of the object under `key`; None if there is none. The data are not read.
    fn stat<'py>(&self, key: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let py = key.py();
        let key = Given::of("a key", key)?;
        let key = key.as_ref();
        let stat = self.run(py, |objects| objects.stat(key))?;
        stat.map(|stat| stat_object(py, &stat)).transpose()
    }

    /// Pairs of key and `ObjectStat`, in the order of keys: of keys that start with `prefix`, from `start` on. As of the
    /// moment of the call. The data are not read. With `metadata=False` the metadata are left out, which is faster.
    #[pyo3(signature = (prefix = None, *, start = None, metadata = true))]
    fn list(
        &self,
        py: Python<'_>,
        prefix: Option<&Bound<'_, PyAny>>,
        start: Option<&Bound<'_, PyAny>>,
        metadata: bool,
    ) -> PyResult<ObjectListing> {
        let (prefix, start) = (Given::bound("prefix", prefix)?, Given::bound("start", start)?);
        let prefix = prefix.as_ref().map_or(&[][..], AsRef::as_ref);
        let start = start.as_ref().map(AsRef::as_ref);
        let listing = self.run(py, |objects| objects.list(prefix, start))?;
        Ok(ObjectListing {
            opened: Arc::clone(&self.opened),
            listing: self.opened.hold("listing", Mutex::new(listing)),
            read: VecDeque::new(),
            read_count: 1,
            with_metadata: metadata,
        })
    }

    /// Deletes the object under `key`; returns whether there was one.
    #[pyo3(signature = (key, *, sync = true))]
    fn delete(&self, py: Python<'_>, key: &Bound<'_, PyAny>, sync: bool) -> PyResult<bool> {
        let key = Given::of("a key", key)?;
        let key = key.as_ref();
        self.run(py, |objects| objects.delete(key, WriteOptions { sync }))
    }

    /// A new batch: changes that take effect together.
    fn batch(&self) -> ObjectBatch {
        ObjectBatch {
            opened: Arc::clone(&self.opened),
            objects: Arc::clone(&self.objects),
            batch: self.opened.hold("batch", Mutex::new(imbrex::ObjectBatch::new())),
        }
    }

    /// Reads all objects and compares what belongs together: a dict with counts, and `findings`, a list of what is
    /// wrong. What cannot be read raises DamagedError.
    fn check<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let report = self.run(py, imbrex::Objects::check)?;
        let told = pyo3::types::PyDict::new(py);
        told.set_item("object_count", report.object_count)?;
        told.set_item("size", report.len_bytes)?;
        told.set_item("chunk_count", report.chunk_count)?;
        told.set_item("upload_count", report.upload_count)?;
        told.set_item("findings", report.findings)?;
        Ok(told.into_any())
    }
}

/// An upload, for `_streams.ObjectWriter`.
#[pyclass(frozen, module = "imbrex._imbrex")]
#[derive(Debug)]
pub(crate) struct ObjectUpload {
    opened: Arc<Opened>,
    upload: Arc<Held<Mutex<Upload>>>,
}

impl ObjectUpload {
    /// Takes the upload out, to end it.
    fn take(&self) -> Result<Upload, Failure> {
        let ended = || Failure::Closed("the upload has ended; create another one".to_owned());
        self.upload.take().map(Mutex::into_inner).ok_or_else(ended)
    }
}

#[pymethods]
impl ObjectUpload {
    fn write(&self, py: Python<'_>, data: &Bound<'_, PyAny>) -> PyResult<usize> {
        let data = Given::of("data", data)?;
        let data = data.as_ref();
        let write = |upload: &Mutex<Upload>| Ok(upload.lock().write(data)?);
        self.opened.run(py, &self.upload, write)?;
        Ok(data.len())
    }

    fn finish(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyBytes>,
        metadata: &Bound<'_, PyAny>,
        sync: bool,
    ) -> PyResult<()> {
        let metadata = Given::of("metadata", metadata)?;
        let (key, metadata) = (key.as_bytes(), metadata.as_ref());
        self.upload.check_process()?;
        self.opened
            .run_on_store(py, |_| Ok(self.take()?.finish(key, metadata, WriteOptions { sync })?))
    }

    fn abandon(&self, py: Python<'_>) -> PyResult<()> {
        if self.upload.check_process().is_err() || self.upload.is_closed() {
            return Ok(());
        }
        self.opened.run_on_store(py, |_| Ok(self.take()?.abandon()?))
    }
}

/// An object that is being read, for `_streams.ObjectReader`.
#[pyclass(frozen, module = "imbrex._imbrex")]
#[derive(Debug)]
pub(crate) struct ObjectSource {
    opened: Arc<Opened>,
    reader: Arc<Held<Mutex<ObjectReader>>>,
}

#[pymethods]
impl ObjectSource {
    /// The bytes from `offset` on, `len` of them or up to the end.
    fn read<'py>(&self, py: Python<'py>, offset: u64, len: usize) -> PyResult<Bound<'py, PyBytes>> {
        let read = |reader: &Mutex<ObjectReader>| {
            let mut reader = reader.lock();
            let first = reader.bytes_at(offset, len)?;
            let is_all =
                first.len() == len || offset + first.len() as u64 >= reader.stat().len_bytes;
            Ok(match is_all {
                true => first,
                false => reader.read_range(offset, len)?.into(),
            })
        };
        Ok(PyBytes::new(py, &self.opened.run(py, &self.reader, read)?))
    }

    fn close(&self, py: Python<'_>) {
        if self.reader.check_process().is_ok() {
            py.detach(|| drop(self.reader.take()));
        }
    }
}

/// An iterator over objects, as of the moment when it was made.
#[pyclass(module = "imbrex")]
#[derive(Debug)]
pub(crate) struct ObjectListing {
    opened: Arc<Opened>,
    listing: Arc<Held<Mutex<Listing>>>,
    read: VecDeque<Result<(bytes::Bytes, ObjectStat), Failure>>,
    /// How many the next read asks for; 0 at the end.
    read_count: usize,
    with_metadata: bool,
}

#[pymethods]
impl ObjectListing {
    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__<'py>(
        &mut self,
        py: Python<'py>,
    ) -> PyResult<Option<(Bound<'py, PyBytes>, Bound<'py, PyAny>)>> {
        if self.read.is_empty() && self.read_count > 0 {
            py.check_signals()?;
            let count = self.read_count;
            self.read = self.opened.run(py, &self.listing, |listing| {
                let mut listing = listing.lock();
                let next = listing.by_ref().take(count);
                Ok(next.map(|entry| entry.map_err(Failure::from)).collect())
            })?;
            self.read_count = match self.read.len() == count {
                true => (2 * count).min(LISTED_MAX),
                false => 0,
            };
        }
        let Some(entry) = self.read.pop_front() else { return Ok(None) };
        let (key, mut stat) = entry?;
        if !self.with_metadata {
            stat.metadata = bytes::Bytes::new();
        }
        Ok(Some((PyBytes::new(py, &key), stat_object(py, &stat)?)))
    }
}

/// Changes of objects that take effect together, in the order in which they were added: all of them or none.
///
/// As a context manager it writes itself at the end of the block, or nothing if the block raises.
#[pyclass(frozen, module = "imbrex")]
#[derive(Debug)]
pub(crate) struct ObjectBatch {
    opened: Arc<Opened>,
    objects: Arc<Held<imbrex::Objects>>,
    batch: Arc<Held<Mutex<imbrex::ObjectBatch>>>,
}

impl ObjectBatch {
    fn change(
        &self,
        py: Python<'_>,
        call: impl FnOnce(&mut imbrex::ObjectBatch) -> Result<(), imbrex::ObjectsError> + Send,
    ) -> PyResult<()> {
        self.opened.run(py, &self.batch, |batch| Ok(call(&mut batch.lock())?))
    }
}

#[pymethods]
impl ObjectBatch {
    /// Makes `data` the object under `key`. The data are in memory until the batch is written.
    #[pyo3(signature = (key, data, metadata = None))]
    fn put(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        data: &Bound<'_, PyAny>,
        metadata: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let (key, data) = (Given::of("a key", key)?, Given::of("data", data)?);
        let metadata = Given::bound("metadata", metadata)?;
        let (key, data) = (key.as_ref(), data.as_ref());
        let metadata = metadata.as_ref().map_or(&[][..], AsRef::as_ref);
        self.change(py, |batch| batch.put(key, metadata, data))
    }

    /// Makes what was written to `writer`, from `Objects.create`, the object under its key. The writer is closed.
    #[pyo3(signature = (writer, metadata = None))]
    fn finish(
        &self,
        py: Python<'_>,
        writer: &Bound<'_, PyAny>,
        metadata: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let metadata = Given::bound("metadata", metadata)?;
        let metadata = metadata.as_ref().map_or(&[][..], AsRef::as_ref);
        let wrong = |_| PyTypeError::new_err("writer must come from Objects.create");
        let parts = writer.getattr("_release").map_err(wrong)?.call0()?;
        let (upload, key): (Bound<'_, ObjectUpload>, Bound<'_, PyBytes>) = parts.extract()?;
        let (upload, key) = (upload.get(), key.as_bytes());
        upload.upload.check_process()?;
        self.opened
            .run(py, &self.batch, |batch| Ok(batch.lock().finish(key, metadata, upload.take()?)?))
    }

    /// Gives the object under `key` other metadata. NotFoundError when the batch is written, if there is none.
    fn set_metadata(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        metadata: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let (key, metadata) = (Given::of("a key", key)?, Given::of("metadata", metadata)?);
        let (key, metadata) = (key.as_ref(), metadata.as_ref());
        self.change(py, |batch| batch.set_metadata(key, metadata))
    }

    /// Gives the object under `key` the key `to`, in place of the one that has it. NotFoundError when the batch is
    /// written, if there is none.
    fn rename(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        to: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let (key, to) = (Given::of("a key", key)?, Given::of("a key", to)?);
        let (key, to) = (key.as_ref(), to.as_ref());
        self.change(py, |batch| batch.rename(key, to))
    }

    /// Deletes the object under `key`, if there is one.
    fn delete(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<()> {
        let key = Given::of("a key", key)?;
        let key = key.as_ref();
        self.change(py, |batch| batch.delete(key))
    }

    /// Applies the changes and empties the batch. If that fails, nothing was changed, and the batch is empty.
    #[pyo3(signature = (*, sync = true))]
    fn write(&self, py: Python<'_>, sync: bool) -> PyResult<()> {
        self.batch.check_process()?;
        self.opened.run(py, &self.objects, |objects| {
            let batch = self
                .opened
                .run_attached(&self.batch, |batch| Ok(std::mem::take(&mut *batch.lock())))?;
            Ok(objects.write(batch, WriteOptions { sync })?)
        })
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        self.opened.run(py, &self.batch, |batch| Ok(batch.lock().len()))
    }

    fn __bool__(&self) -> bool {
        true
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __exit__(
        &self,
        py: Python<'_>,
        exception: Option<&Bound<'_, PyAny>>,
        _value: Option<&Bound<'_, PyAny>>,
        _traceback: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        match exception {
            Some(_) => {
                self.batch.check_process()?;
                self.opened.run_on_store(py, |_| {
                    drop(self.batch.take());
                    Ok(())
                })
            }
            None => self.write(py, true),
        }
    }
}

//! Batches: writes that are applied together.

use crate::failure::Failure;
use crate::given::Given;
use crate::held::{Held, Opened};
use crate::keyspace::Keyspace;
use imbrex_engine::{WriteBatch, WriteOptions};
use parking_lot::Mutex;
use pyo3::prelude::*;
use std::sync::Arc;

/// What a batch holds.
#[derive(Debug)]
pub(crate) struct Content {
    batch: WriteBatch,
    default: imbrex::Keyspace,
}

/// Writes that are applied together: all of them or none, even across a crash.
///
/// As a context manager it writes itself at the end of the block, or nothing if the block raises.
#[pyclass(frozen, module = "imbrex")]
#[derive(Debug)]
pub(crate) struct Batch {
    opened: Arc<Opened>,
    content: Arc<Held<Mutex<Content>>>,
    sync: bool,
}

impl Batch {
    pub(crate) fn new(opened: &Arc<Opened>, default: imbrex::Keyspace, sync: bool) -> Batch {
        let content = Mutex::new(Content { batch: WriteBatch::new(), default });
        Batch { opened: Arc::clone(opened), content: opened.hold("batch", content), sync }
    }

    /// Changes the operations. The thread stays attached to the interpreter, because that takes no time, unless another
    /// thread writes the batch.
    fn change<R: Send>(
        &self,
        py: Python<'_>,
        keyspace: Option<&Bound<'_, Keyspace>>,
        call: impl FnOnce(&mut WriteBatch, &imbrex_engine::Keyspace) -> Result<R, Failure> + Send,
    ) -> PyResult<R> {
        let (opened, content) = (&*self.opened, &*self.content);
        let keyspace =
            keyspace.map(|keyspace| keyspace.get().of_store(&self.opened)).transpose()?;
        let change = || {
            opened.run_attached(content, |content| {
                let Content { batch, default } = &mut *content.lock();
                call(batch, keyspace.as_ref().unwrap_or(default).engine())
            })
        };
        let is_busy = opened.run_attached(content, |content| Ok(content.is_locked()))?;
        Ok(if is_busy { py.detach(change) } else { change() }?)
    }
}

#[pymethods]
impl Batch {
    /// Sets `key` to `value`, in `keyspace` or the default one.
    #[pyo3(signature = (key, value, *, keyspace = None))]
    fn put(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
        keyspace: Option<&Bound<'_, Keyspace>>,
    ) -> PyResult<()> {
        let (key, value) = (Given::of("a key", key)?, Given::of("a value", value)?);
        let (key, value) = (key.as_ref(), value.as_ref());
        self.change(py, keyspace, |batch, keyspace| Ok(batch.put(keyspace, key, value)?))
    }

    /// Removes `key`, whether it is there or not.
    #[pyo3(signature = (key, *, keyspace = None))]
    fn delete(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        keyspace: Option<&Bound<'_, Keyspace>>,
    ) -> PyResult<()> {
        let key = Given::of("a key", key)?;
        let key = key.as_ref();
        self.change(py, keyspace, |batch, keyspace| Ok(batch.delete(keyspace, key)?))
    }

    /// Removes the keys from `start` to before `end`.
    #[pyo3(signature = (start, end, *, keyspace = None))]
    fn delete_range(
        &self,
        py: Python<'_>,
        start: &Bound<'_, PyAny>,
        end: &Bound<'_, PyAny>,
        keyspace: Option<&Bound<'_, Keyspace>>,
    ) -> PyResult<()> {
        let (start, end) = (Given::of("start", start)?, Given::of("end", end)?);
        let (start, end) = (start.as_ref(), end.as_ref());
        self.change(py, keyspace, |batch, keyspace| Ok(batch.delete_range(keyspace, start, end)?))
    }

    /// Applies the operations and empties the batch. If that fails, nothing was written, and the batch still has them.
    #[pyo3(signature = (*, sync = None))]
    fn write(&self, py: Python<'_>, sync: Option<bool>) -> PyResult<()> {
        let options = WriteOptions { sync: sync.unwrap_or(self.sync) };
        let opened = &self.opened;
        opened.store.check_process()?;
        opened.run(py, &self.content, |content| {
            let mut content = content.lock();
            let db = opened.db()?;
            Ok(db.write_and_clear(&mut content.batch, options)?)
        })
    }

    /// Removes all operations.
    fn clear(&self, py: Python<'_>) -> PyResult<()> {
        self.change(py, None, |batch, _| {
            batch.clear();
            Ok(())
        })
    }

    fn __setitem__(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        self.put(py, key, value, None)
    }

    fn __delitem__(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<()> {
        self.delete(py, key, None)
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        self.change(py, None, |batch, _| Ok(batch.len()))
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
                drop(py.detach(|| self.content.take()));
                Ok(())
            }
            None => self.write(py, None),
        }
    }
}

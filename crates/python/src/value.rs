//! A value that Python reads where the store has it, without a copy.
//!
//! The only unsafe code of this crate: Python's buffers are pointers.

use bytes::Bytes;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyMemoryView;
use std::ffi::c_int;

/// The bytes of one value: read-only, and unchanged for as long as somebody refers to them.
#[pyclass(frozen, module = "imbrex")]
#[derive(Debug)]
pub(crate) struct Value(Bytes);

impl Value {
    /// A memoryview of `bytes`.
    pub(crate) fn view(py: Python<'_>, bytes: Bytes) -> PyResult<Bound<'_, PyMemoryView>> {
        PyMemoryView::from(Bound::new(py, Value(bytes))?.as_any())
    }
}

#[pymethods]
impl Value {
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let bytes = &slf.get().0;
        let len = isize::try_from(bytes.len())?;
        let start = bytes.as_ptr().cast_mut().cast();
        // SAFETY: Python calls this with a view to be filled in. The view keeps `slf`, which keeps the bytes and never
        // changes them, and it is marked as read-only.
        let filled = unsafe { ffi::PyBuffer_FillInfo(view, slf.as_ptr(), start, len, 1, flags) };
        match filled {
            0 => Ok(()),
            _ => Err(PyErr::fetch(slf.py())),
        }
    }
}

//! Bytes that a caller gives: any object with a buffer.
//!
//! ```text
//!   bytes, a memoryview of bytes         used where they are: nobody can change them
//!   bytearray, array, NumPy, mmap ...    copied once: another thread may change them during the call
//!   str, int, None ...                   TypeError
//! ```

use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyMemoryView, PyString};
use std::ops::Range;

/// Bytes that stay the same while other threads run.
pub(crate) enum Given<'py> {
    Whole(Bound<'py, PyBytes>),
    Part(Bound<'py, PyBytes>, Range<usize>),
}

impl AsRef<[u8]> for Given<'_> {
    fn as_ref(&self) -> &[u8] {
        match self {
            Given::Whole(bytes) => bytes.as_bytes(),
            Given::Part(bytes, part) => &bytes.as_bytes()[part.clone()],
        }
    }
}

impl<'py> Given<'py> {
    /// The bytes of `object`, which messages call `what`.
    pub(crate) fn of(what: &str, object: &Bound<'py, PyAny>) -> PyResult<Given<'py>> {
        if let Ok(bytes) = object.cast::<PyBytes>() {
            return Ok(Given::Whole(bytes.clone()));
        }
        let refused = |advice: &str| {
            let class = object.get_type();
            let name = class.name().map_or_else(|_| "?".to_owned(), |name| name.to_string());
            PyTypeError::new_err(format!("{what} must be bytes-like, not {name}{advice}"))
        };
        if object.is_instance_of::<PyString>() {
            return Err(refused("; encode it, as in 'text'.encode()"));
        }
        if let Some(part) = part_of_bytes(object) {
            return Ok(part);
        }
        let Ok(view) = PyMemoryView::from(object) else { return Err(refused("")) };
        Ok(Given::Whole(view.call_method0("tobytes")?.cast_into()?))
    }

    /// As [`Given::of`], where `None` is no bound.
    pub(crate) fn bound(
        what: &str,
        object: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Option<Given<'py>>> {
        object.map(|object| Given::of(what, object)).transpose()
    }
}

/// The bytes below a view of a bytes object.
fn part_of_bytes<'py>(object: &Bound<'py, PyAny>) -> Option<Given<'py>> {
    let view = object.cast::<PyMemoryView>().ok()?;
    let bytes: Bound<'py, PyBytes> = view.getattr("obj").ok()?.cast_into().ok()?;
    let buffer = PyBuffer::<u8>::get(object).ok().filter(|buffer| buffer.is_c_contiguous())?;
    let start = (buffer.buf_ptr() as usize).checked_sub(bytes.as_bytes().as_ptr() as usize)?;
    let part = start..start.checked_add(buffer.len_bytes())?;
    (part.end <= bytes.as_bytes().len()).then_some(Given::Part(bytes, part))
}

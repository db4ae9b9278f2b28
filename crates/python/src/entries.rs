//! Iterators over keys, values or both.
//!
//! ```text
//!   fill    detached: moves the cursor, copies entries into one chunk     1 entry, then 2, 4, ... 1024
//!   next    attached: makes Python's objects out of the chunk
//! ```
//!
//! A short scan reads little ahead, and a long one gives the interpreter away once for many entries.

use crate::failure::Failure;
use crate::held::{Held, Opened};
use imbrex_engine::Iter;
use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};
use std::sync::Arc;

/// The most entries and bytes of a chunk. One entry may be longer.
const CHUNK_ENTRIES_MAX: usize = 1024;
const CHUNK_LEN_BYTES_MAX: usize = 256 << 10;

/// What an iterator returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Parts {
    Items,
    Keys,
    Values,
}

/// Entries that were read and not returned yet.
#[derive(Debug, Default)]
struct Chunk {
    bytes: Vec<u8>,
    /// Where each key ends, and each value behind it.
    ends: Vec<(usize, usize)>,
    next: usize,
}

impl Chunk {
    fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
        self.next = 0;
    }

    fn push(&mut self, key: &[u8], value: &[u8]) {
        self.bytes.extend_from_slice(key);
        let key_end = self.bytes.len();
        self.bytes.extend_from_slice(value);
        self.ends.push((key_end, self.bytes.len()));
    }

    fn pop(&mut self) -> Option<(&[u8], &[u8])> {
        let (key_end, end) = *self.ends.get(self.next)?;
        let start = self.next.checked_sub(1).map_or(0, |last| self.ends[last].1);
        self.next += 1;
        Some((&self.bytes[start..key_end], &self.bytes[key_end..end]))
    }
}

/// An iterator over a range of keys, as of the moment when it was made: later writes do not show.
///
/// It ends when the store is closed. Threads may take turns with it, but not call it at the same time.
#[pyclass(module = "imbrex")]
#[derive(Debug)]
pub(crate) struct Entries {
    opened: Arc<Opened>,
    cursor: Arc<Held<Mutex<Iter>>>,
    parts: Parts,
    is_reverse: bool,
    chunk: Chunk,
    /// How many entries the next chunk gets; 0 before the cursor stands anywhere.
    fill_count: usize,
    is_done: bool,
    /// What follows the entries of the chunk.
    failure: Option<Failure>,
}

impl Entries {
    pub(crate) fn new(
        opened: &Arc<Opened>,
        cursor: Iter,
        parts: Parts,
        is_reverse: bool,
    ) -> Entries {
        Entries {
            opened: Arc::clone(opened),
            cursor: opened.hold("iterator", Mutex::new(cursor)),
            parts,
            is_reverse,
            chunk: Chunk::default(),
            fill_count: 0,
            is_done: false,
            failure: None,
        }
    }

    /// Reads the next entries, if there are any.
    fn fill(&mut self, py: Python<'_>) -> PyResult<()> {
        // A caller such as `list()` runs no code of Python between two entries, where Ctrl-C would be seen.
        py.check_signals()?;
        let Entries { opened, cursor, parts, is_reverse, chunk, fill_count, .. } = self;
        let (with_values, is_reverse) = (*parts != Parts::Keys, *is_reverse);
        let is_first = *fill_count == 0;
        *fill_count = (2 * *fill_count).clamp(1, CHUNK_ENTRIES_MAX);
        let count = *fill_count;
        chunk.clear();
        let filled = opened.run(py, cursor, |cursor| {
            let mut cursor = cursor.lock();
            let filled = fill(&mut cursor, chunk, is_first, is_reverse, with_values, count);
            Ok(filled)
        })?;
        match filled {
            Ok(is_done) => self.is_done = is_done,
            Err(failure) => (self.is_done, self.failure) = (true, Some(failure)),
        }
        Ok(())
    }
}

/// Moves `cursor` over `count` entries into `chunk`; returns whether it has come to the end.
fn fill(
    cursor: &mut Iter,
    chunk: &mut Chunk,
    is_first: bool,
    is_reverse: bool,
    with_values: bool,
    count: usize,
) -> Result<bool, Failure> {
    let mut is_first = is_first;
    while chunk.ends.len() < count && chunk.bytes.len() < CHUNK_LEN_BYTES_MAX {
        match (is_first, is_reverse) {
            (true, false) => cursor.seek_to_first()?,
            (true, true) => cursor.seek_to_last()?,
            (false, false) => cursor.next()?,
            (false, true) => cursor.prev()?,
        }
        is_first = false;
        if !cursor.valid() {
            return Ok(true);
        }
        chunk.push(cursor.key(), if with_values { cursor.value() } else { &[] });
    }
    Ok(false)
}

#[pymethods]
impl Entries {
    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__<'py>(&mut self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.cursor.check_process()?;
        if self.chunk.next == self.chunk.ends.len() {
            if let Some(failure) = self.failure.take() {
                return Err(failure.into());
            }
            if self.is_done {
                return Ok(None);
            }
            self.fill(py)?;
        } else if self.cursor.is_closed() {
            return Err(
                Failure::Closed(format!("the iterator of {} is closed", self.opened.name)).into()
            );
        }
        let parts = self.parts;
        let Some((key, value)) = self.chunk.pop() else {
            return self.failure.take().map_or(Ok(None), |failure| Err(failure.into()));
        };
        Ok(Some(match parts {
            Parts::Keys => PyBytes::new(py, key).into_any(),
            Parts::Values => PyBytes::new(py, value).into_any(),
            Parts::Items => {
                PyTuple::new(py, [PyBytes::new(py, key), PyBytes::new(py, value)])?.into_any()
            }
        }))
    }
}

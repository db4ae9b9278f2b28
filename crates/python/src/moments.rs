//! The store at one moment: snapshots, which last as long as they are held, and checkpoints, which the drive keeps.

use crate::failure::Failure;
use crate::held::{Held, Opened};
use crate::objects::Objects;
use crate::place::Place;
use crate::reader::Reader;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::sync::Arc;

/// The store as it was when the snapshot was made.
///
/// Compaction keeps what a snapshot sees, so a long one costs space. A `with` block, or `close()`, releases it.
#[pyclass(extends = Reader, frozen, module = "imbrex")]
#[derive(Debug)]
pub(crate) struct Snapshot {
    opened: Arc<Opened>,
    place: Arc<Held<Place>>,
    at: Arc<Held<Arc<imbrex_engine::Snapshot>>>,
}

impl Snapshot {
    pub(crate) fn new(
        opened: &Arc<Opened>,
        default: imbrex::Keyspace,
        at: imbrex_engine::Snapshot,
    ) -> PyClassInitializer<Snapshot> {
        let at = Arc::new(at);
        let place = opened.hold("snapshot", Place::at(default, Arc::clone(&at)));
        let at = opened.hold("snapshot", at);
        let reader = PyClassInitializer::from(Reader::new(opened, &place));
        reader.add_subclass(Snapshot { opened: Arc::clone(opened), place, at })
    }
}

#[pymethods]
impl Snapshot {
    /// The keyspace called `name`, as it was.
    fn keyspace(&self, py: Python<'_>, name: &str) -> PyResult<Reader> {
        let at = self.opened.run_attached(&self.at, |at| Ok(Arc::clone(at)))?;
        let keyspace = self.opened.run_on_store(py, |store| Ok(store.keyspace(name)?))?;
        let place = self.opened.hold("snapshot", Place::at(keyspace, at));
        Ok(Reader::new(&self.opened, &place))
    }

    /// Releases the snapshot. Iterators that it made, and keyspaces of it, go on.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.place.check_process()?;
        py.detach(|| {
            drop(self.place.take());
            drop(self.at.take());
        });
        Ok(())
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyTuple>) -> PyResult<()> {
        self.close(py)
    }
}

/// A checkpoint of a store, open for reading.
#[pyclass(extends = Reader, frozen, module = "imbrex")]
#[derive(Debug)]
pub(crate) struct Checkpoint {
    opened: Arc<Opened>,
    place: Arc<Held<Place>>,
    checkpoint: Arc<Held<imbrex::Checkpoint>>,
}

impl Checkpoint {
    pub(crate) fn new(
        opened: &Arc<Opened>,
        checkpoint: imbrex::Checkpoint,
    ) -> PyClassInitializer<Checkpoint> {
        let place = Place::now(checkpoint.default_keyspace().clone());
        let place = opened.hold("checkpoint", place);
        let reader = PyClassInitializer::from(Reader::new(opened, &place));
        let checkpoint = opened.hold("checkpoint", checkpoint);
        reader.add_subclass(Checkpoint { opened: Arc::clone(opened), place, checkpoint })
    }
}

#[pymethods]
impl Checkpoint {
    /// The keyspace called `name`, as it was.
    fn keyspace(&self, py: Python<'_>, name: &str) -> PyResult<Reader> {
        let open =
            |checkpoint: &imbrex::Checkpoint| checkpoint.keyspace(name).map_err(Failure::from);
        let keyspace = self.opened.run(py, &self.checkpoint, open)?;
        let place = self.opened.hold("checkpoint", Place::now(keyspace));
        Ok(Reader::new(&self.opened, &place))
    }

    /// The objects of the default keyspace, as they were.
    fn objects(&self, py: Python<'_>) -> PyResult<Objects> {
        let objects =
            self.opened.run(py, &self.checkpoint, |checkpoint| Ok(checkpoint.objects()?))?;
        Ok(Objects::new(&self.opened, objects))
    }

    /// Ends reading. The checkpoint stays on the drive.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.place.check_process()?;
        py.detach(|| {
            drop(self.place.take());
            drop(self.checkpoint.take());
        });
        Ok(())
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyTuple>) -> PyResult<()> {
        self.close(py)
    }
}

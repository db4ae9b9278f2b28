//! Failures: why a call did nothing, and the exception that Python raises for it.
//!
//! The classes of exceptions are Python's (`imbrex/_errors.py`), because some have two parents. Each kind of error has
//! the class of its name: `NoSpace` is `NoSpaceError`.

use imbrex::{Error, ErrorKind, ObjectsError};
use imbrex_engine::EngineError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

/// Why a call did nothing.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The store, or a layer below, refused or failed.
    Kind(ErrorKind, String),
    /// A handle of another process, after a fork.
    Forked(String),
    /// The handle is closed.
    Closed(String),
    /// Python raised something meanwhile, such as a `KeyboardInterrupt`.
    Raised(PyErr),
}

impl Failure {
    /// An argument that cannot be used.
    pub(crate) fn argument(message: impl Into<String>) -> Failure {
        Failure::Kind(ErrorKind::InvalidArgument, message.into())
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Kind(error.kind(), error.to_string())
    }
}

impl From<EngineError> for Failure {
    fn from(error: EngineError) -> Failure {
        Failure::from(Error::from(error))
    }
}

impl From<ObjectsError> for Failure {
    fn from(error: ObjectsError) -> Failure {
        Failure::from(Error::from(error))
    }
}

impl From<PyErr> for Failure {
    fn from(error: PyErr) -> Failure {
        Failure::Raised(error)
    }
}

impl From<Failure> for PyErr {
    fn from(failure: Failure) -> PyErr {
        let (class, message) = match failure {
            Failure::Raised(error) => return error,
            Failure::Kind(kind, message) => (format!("{kind:?}Error"), message),
            Failure::Forked(message) => ("ForkedError".to_owned(), message),
            Failure::Closed(message) => ("ClosedError".to_owned(), message),
        };
        Python::attach(|py| exception(py, &class, &message).unwrap_or_else(|error| error))
    }
}

fn exception(py: Python<'_>, class: &str, message: &str) -> PyResult<PyErr> {
    static MODULE: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
    let import = || py.import("imbrex._errors").map(Bound::unbind);
    let module = MODULE.get_or_try_init(py, import)?.bind(py);
    // A kind that is newer than the class: its parent says as much.
    let class = module.getattr(class).or_else(|_| module.getattr("Error"))?;
    Ok(PyErr::from_value(class.call1((message,))?))
}

//! Sources of traces.

use super::bundled::BundledTrace;
use super::error::TraceError;
use super::reader::{Pieces, TraceReader};
use super::synthetic::{Shape, SyntheticTrace};
use super::trace_format::TraceFormat;
use std::fmt;
use std::path::PathBuf;

/// The source of a trace, which can be read more than once.
#[derive(Clone, Debug)]
pub enum TraceSource {
    /// A file.
    File {
        /// The path.
        path: PathBuf,
        /// The format; detected if `None`.
        format: Option<TraceFormat>,
    },
    /// One that comes with the program.
    Bundled(BundledTrace),
    /// A synthetic trace, generated while it is read.
    Synthetic {
        /// Its shape.
        shape: Shape,
        /// The seed.
        seed: u64,
    },
}

impl TraceSource {
    /// Its requests, from the first.
    ///
    /// # Errors
    /// As [`TraceReader::open`].
    pub fn open(&self) -> Result<TraceReader, TraceError> {
        match self {
            TraceSource::File { path, format } => TraceReader::open(path, *format),
            TraceSource::Bundled(trace) => trace.open(),
            TraceSource::Synthetic { shape, seed } => {
                let pieces = Pieces::Synthetic(Box::new(SyntheticTrace::new(*shape, *seed)));
                Ok(TraceReader::over(pieces, None))
            }
        }
    }
}

impl fmt::Display for TraceSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TraceSource::File { path, .. } => write!(f, "trace {}", path.display()),
            TraceSource::Bundled(trace) => write!(f, "trace {}", trace.name),
            TraceSource::Synthetic { shape, .. } => write!(f, "synthetic {}", shape.name),
        }
    }
}

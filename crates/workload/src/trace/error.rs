//! Why a trace cannot be read.

use std::io;
use std::path::PathBuf;

/// A trace that cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// The file cannot be opened or read.
    #[error("trace {path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// No format that we know begins so.
    #[error(
        "trace {path}: no known format begins with {got:?}; expected a line of CSV (ours, MSR \
         Cambridge, SYSTOR '17) or vscsi records"
    )]
    Unknown {
        /// The file.
        path: PathBuf,
        /// How it begins.
        got: String,
    },
    /// A line that is none of the format's.
    #[error("trace {path}, line {line}: expected {expected}, got {got:?}")]
    Line {
        /// The file.
        path: PathBuf,
        /// Which, counted from 1.
        line: u64,
        /// What should be there.
        expected: &'static str,
        /// What is.
        got: String,
    },
    /// A record that is none of the format's.
    #[error("trace {path}, byte {offset}: expected {expected}, got {got}")]
    Record {
        /// The file.
        path: PathBuf,
        /// Where the record begins, decompressed.
        offset: u64,
        /// What should be there.
        expected: &'static str,
        /// What is.
        got: String,
    },
}

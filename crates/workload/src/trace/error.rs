//! Errors of reading a trace.

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
    /// No known format begins like this.
    #[error(
        "trace {path}: no known format begins with {got:?}; expected a line of CSV (ours, MSR \
         Cambridge, SYSTOR '17) or vscsi records"
    )]
    Unknown {
        /// The file.
        path: PathBuf,
        /// The first bytes.
        got: String,
    },
    /// A line does not match the format.
    #[error("trace {path}, line {line}: expected {expected}, got {got:?}")]
    Line {
        /// The file.
        path: PathBuf,
        /// The line number, counted from 1.
        line: u64,
        /// The expected content.
        expected: &'static str,
        /// The actual content.
        got: String,
    },
    /// A record does not match the format.
    #[error("trace {path}, byte {offset}: expected {expected}, got {got}")]
    Record {
        /// The file.
        path: PathBuf,
        /// The offset of the record in the decompressed file.
        offset: u64,
        /// The expected content.
        expected: &'static str,
        /// The actual content.
        got: String,
    },
}

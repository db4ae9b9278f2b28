//! Why the engine refused a request or failed at it.

use imbrex_files::FilesError;

/// An error of the engine; the file layer's own error, where there is one, is its source.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// A key is empty or too long.
    #[error("key of {got_bytes} bytes: keys have 1 to {max_bytes} bytes")]
    KeyLen {
        /// The key's length.
        got_bytes: usize,
        /// The longest key there may be.
        max_bytes: usize,
    },
    /// A value is too long.
    #[error("value of {got_bytes} bytes: values have at most {max_bytes}")]
    ValueLen {
        /// The value's length.
        got_bytes: usize,
        /// The longest value there may be.
        max_bytes: usize,
    },
    /// A batch is too long for one record of the log.
    #[error("batch of more than {max_bytes} bytes: write it in parts")]
    BatchLen {
        /// The longest batch there may be.
        max_bytes: usize,
    },
    /// A range ends before it starts.
    #[error("range from {} to {}: the end lies before the start", start.escape_ascii(), end.escape_ascii())]
    RangeOrder {
        /// Where the range starts.
        start: Vec<u8>,
        /// Where it ends.
        end: Vec<u8>,
    },
    /// A file of the store is damaged: what it held cannot be told.
    #[error("damaged {structure} in {file} at offset {offset}: {reason}")]
    Corrupt {
        /// Which structure: "data block", "index block", "log record", ...
        structure: &'static str,
        /// The file.
        file: String,
        /// Where in the file, in bytes.
        offset: u64,
        /// What was expected and found.
        reason: String,
    },
    /// The file layer failed.
    #[error("{what}: {source}")]
    Files {
        /// What was being done.
        what: String,
        /// The file layer's error.
        #[source]
        source: FilesError,
    },
}

//! Errors of benchmark runs.

use imbrex::stack::LayoutError;
use imbrex_disk::DiskError;
use imbrex_engine::EngineError;
use imbrex_files::FilesError;

/// An error of a benchmark run. If another layer failed, its error is the source.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BenchError {
    /// The options contradict themselves.
    #[error("{0}")]
    Options(String),
    /// Loading the records of a run failed.
    #[error("loading the records first: {0}")]
    Loading(String),
    /// The drive could not be created.
    #[error("drive {drive}: {source}")]
    Drive {
        /// The profile or the image.
        drive: String,
        /// The cause.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// An existing drive could not be opened.
    #[error("{source}")]
    Open {
        /// The front door's error.
        #[source]
        source: imbrex::Error,
    },
    /// The disk refused a request.
    #[error("{what}: {source}")]
    Disk {
        /// The attempted operation.
        what: String,
        /// The disk's error.
        #[source]
        source: DiskError,
    },
    /// The file layer failed.
    #[error("{what}: {source}")]
    Files {
        /// The attempted operation.
        what: String,
        /// The file layer's error.
        #[source]
        source: FilesError,
    },
    /// The layout does not exist, or it failed.
    #[error("{source}")]
    Layout {
        /// The layout's error.
        #[source]
        source: LayoutError,
    },
    /// A server or a foreign database cannot be reached.
    #[error("{address}: {source}")]
    Server {
        /// Its address.
        address: String,
        /// The cause.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Measurements could not be written.
    #[error("{}: {source}", path.display())]
    Output {
        /// The file.
        path: std::path::PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// A YCSB property is invalid.
    #[error(transparent)]
    Property(#[from] imbrex_workload::ycsb::properties::PropertyError),
    /// The series of arrivals is invalid.
    #[error(transparent)]
    Arrivals(#[from] imbrex_workload::arrivals::ArrivalError),
    /// A trace could not be read.
    #[error(transparent)]
    Trace(#[from] imbrex_workload::trace::TraceError),
    /// The block driver could not be created.
    #[error("making the block device: {source}")]
    Driver {
        /// The driver's error.
        #[source]
        source: imbrex_translate::DriverError,
    },
    /// A read returned another block than requested: a bug of ours.
    #[error("block {at} of the device reads back as {got}; this is a bug of the block driver")]
    WrongData {
        /// The requested block.
        at: u64,
        /// The block number found in its data.
        got: u64,
    },
    /// A read returned what the host had not written there last: a bug of ours.
    #[error(
        "block {at} of the device holds {}, not that of write {expected}; this is a bug of the block driver",
        got.map_or("no write's content".to_owned(), |got| format!("the content of write {got}"))
    )]
    WrongWrite {
        /// The block.
        at: u64,
        /// The number of the host's last write to it.
        expected: u32,
        /// The number found in its data, if there is one.
        got: Option<u32>,
    },
    /// The user stopped the run.
    #[error("stopped before the end")]
    Stopped,
    /// The store failed.
    #[error("{what}: {source}")]
    Engine {
        /// The benchmark, or the attempted operation.
        what: String,
        /// The engine's error.
        #[source]
        source: EngineError,
    },
}

impl BenchError {
    /// Wraps the error of a layout.
    pub fn layout(source: LayoutError) -> BenchError {
        BenchError::Layout { source }
    }
}

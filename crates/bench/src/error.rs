//! Why a benchmark could not be run.

use imbrex::stack::LayoutError;
use imbrex_disk::DiskError;
use imbrex_engine::EngineError;
use imbrex_files::FilesError;

/// An error of a benchmark run; the failing layer's own error, where there is one, is its source.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BenchError {
    /// The options contradict themselves.
    #[error("{0}")]
    Options(String),
    /// The records that a run needs could not be loaded.
    #[error("loading the records first: {0}")]
    Loading(String),
    /// The drive could not be made or opened.
    #[error("drive {drive}: {source}")]
    Drive {
        /// The profile or the image.
        drive: String,
        /// What is wrong with it.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The disk refused a request.
    #[error("{what}: {source}")]
    Disk {
        /// What was being done.
        what: String,
        /// The disk's error.
        #[source]
        source: DiskError,
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
    /// No such layout, or it failed.
    #[error("{source}")]
    Layout {
        /// The error of the layouts.
        #[source]
        source: LayoutError,
    },
    /// A server cannot be reached.
    #[error("{address}: {source}")]
    Server {
        /// Where it should be.
        address: String,
        /// Why not.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// What was measured could not be written.
    #[error("{}: {source}", path.display())]
    Output {
        /// The file.
        path: std::path::PathBuf,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// A property of YCSB's makes no sense.
    #[error(transparent)]
    Property(#[from] imbrex_workload::ycsb::properties::PropertyError),
    /// There is no such series of arrivals.
    #[error(transparent)]
    Arrivals(#[from] imbrex_workload::arrivals::ArrivalError),
    /// A trace could not be read.
    #[error(transparent)]
    Trace(#[from] imbrex_workload::trace::TraceError),
    /// The block driver could not be made.
    #[error("making the block device: {source}")]
    Driver {
        /// The driver's error.
        #[source]
        source: imbrex_translate::DriverError,
    },
    /// A block came back that is not the one asked for: a fault of ours.
    #[error("block {at} of the device reads back as {got}; this is a bug of the block driver")]
    WrongData {
        /// The block asked for.
        at: u64,
        /// What it says it is.
        got: u64,
    },
    /// Somebody asked for an end before it was reached.
    #[error("stopped before the end")]
    Stopped,
    /// The store failed.
    #[error("{what}: {source}")]
    Engine {
        /// Which benchmark, or what else was being done.
        what: String,
        /// The engine's error.
        #[source]
        source: EngineError,
    },
}

impl BenchError {
    /// The error of a layout.
    pub fn layout(source: LayoutError) -> BenchError {
        BenchError::Layout { source }
    }
}

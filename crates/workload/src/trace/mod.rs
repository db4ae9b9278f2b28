//! Block traces: which bytes were read or written, and when.
//!
//! ```text
//!   file, plain or .zst or .gz --> format, from the first bytes --> TraceRequest, TraceRequest, ...
//! ```
//!
//! | format | a request |
//! |---|---|
//! | ours | `time_us,op,offset_bytes,size_bytes`; op is r or w |
//! | MSR Cambridge | `Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime`; units of 100 ns |
//! | SYSTOR '17 | `Timestamp,Response,IOType,LUN,Offset,Size`; seconds with a fraction |
//! | CloudPhysics vscsi 1 and 2 | records of 32 and 40 bytes; microseconds, sectors of 512 bytes |
//!
//! Requests are read one by one, so a trace may be larger than memory.
//!
//! Invariants
//!   T1  Time starts with the first request and never goes back. A request that is out of order in
//!       the file gets the time of the request before it and is counted.
//!   T2  A line or record that cannot be parsed, or is 2^62 ns or more later than the first
//!       request, ends the reading with an error that names it. A request that is neither a read
//!       nor a write, or has no bytes, is skipped and counted.
//!
//! Sources: the README files of the MSR Cambridge and SYSTOR '17 traces; the record layout in
//! libCacheSim's vscsi reader; `docs/block_traces.md` for our format. Other traces are synthetic,
//! of a given shape ([`Shape`]), or come with the program ([`BundledTrace`]).
//!
//! Not here: replaying requests and recording them from a disk (the crate `imbrex-bench`).

mod bundled;
mod error;
mod lines;
mod reader;
mod request;
mod source;
mod synthetic;
mod trace_format;
mod vscsi;

pub use bundled::{BUNDLED, BundledTrace};
pub use error::TraceError;
pub use reader::TraceReader;
pub use request::{TraceOp, TraceRequest};
pub use source::TraceSource;
pub use synthetic::{Shape, Sizes, WriteOrder};
pub use trace_format::TraceFormat;

#[cfg(test)]
mod tests;

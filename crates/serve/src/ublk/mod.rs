//! A device as a block device of this machine's kernel, by its driver ublk: `/dev/ublkb0`, without a
//! network protocol between.
//!
//! ```text
//!   file systems, fio, dd
//!        |  /dev/ublkb0
//!   the kernel's ublk_drv        a queue or more: 64 requests each, data copied to and from our memory
//!        |  io_uring
//!   queue    a thread each       takes requests, commits results, many with one system call
//!        | request --> BlockDevice
//!        +-- lanes               what waits: flush, write through the cache
//!   server   adds the device, tells the kernel its limits
//!   ending   stops it by a process of its own, removes it
//! ```
//!
//! A lane keeps its queue free while the platter turns. Over zones that does not help: a flush holds the block
//! driver's lock to its end, and a queue's thread that has a request meanwhile waits for it.
//!
//! Reads, writes, flushes, discards, zeros, FUA. The request's meaning (`request`), what the kernel is told
//! of a device (`limits`), the lanes and the search for the kernel's control device (`control`) need no such
//! kernel and are tested everywhere; the rest is compiled with the feature `ublk` and tested in a virtual
//! machine (`cargo xtask ublk`).
//!
//! Invariants
//!   Q1  Every request of the kernel gets exactly one result, also where the device panics: the kernel
//!       waits for it without end.
//!   Q2  A buffer belongs to one request: from its arrival to its result nobody else has it.
//!   Q3  When `serve` returns, the block device is gone, no thread of it is left and all that was written
//!       is flushed.
//!   Q4  Memory: 512 KiB for each of 64 requests of at most four queues, whatever the kernel's users do.
//!
//! Source: `ublk_cmd.h` and `Documentation/block/ublk.rst` of Linux; decision 33. Not here: recovery of a
//! device whose server was killed: its users get errors, and a new server is a new device. The old one's
//! `/dev/ublkcN` and number stay until the driver is unloaded.

mod control;
#[cfg(feature = "ublk")]
mod ending;
mod lanes;
mod limits;
#[cfg(feature = "ublk")]
mod queue;
mod request;
#[cfg(feature = "ublk")]
mod server;

pub use control::{UblkError, check_kernel};
#[cfg(feature = "ublk")]
pub use ending::stop_device;
#[cfg(feature = "ublk")]
pub use server::UblkServer;

//! A device as a block device of this machine's kernel, such as `/dev/ublkb0`, by the driver ublk and without a
//! network protocol.
//!
//! ```text
//!   file systems, fio, dd
//!        |  /dev/ublkb0
//!   the kernel's ublk_drv        one or more queues of 64 requests, data copied to and from this process
//!        |  io_uring
//!   queue    one thread each     takes requests and commits results, many with one system call
//!        | request --> BlockDevice
//!        +-- lanes               up to 32 requests that wait: flush, write through the cache
//!   server   adds the device and its limits to the kernel
//!   ending   stops the device by a separate process, removes it
//! ```
//!
//! A lane keeps its queue free while the platter turns. Over zones the block driver's lock is free then too, or
//! for the next request after one step.
//!
//! Supported are reads, writes, flushes, discards, zeroes and FUA. The meaning of requests (`request`), the limits
//! of a device (`limits`), the lanes, and the check of the control device (`control`) need no such kernel and are
//! tested everywhere. The rest is compiled with the feature `ublk` and tested in a virtual machine
//! (`cargo xtask ublk`).
//!
//! Invariants
//!   Q1  Every request of the kernel gets exactly one result, even if the device panics, because the kernel waits
//!       for it without limit.
//!   Q2  From the arrival of a request to its result, its buffer belongs to this request only.
//!   Q3  When `serve` returns, the block device is removed, all its threads have ended, and all written data is
//!       flushed.
//!   Q4  Memory: 512 KiB for each of 64 requests of at most four queues, independent of the kernel's users.
//!
//! Source: `ublk_cmd.h` and `Documentation/block/ublk.rst` of Linux; decision 33. Not here: recovery of a device
//! whose server was killed. Its users get errors, and a new server creates a new device. The old `/dev/ublkcN` and
//! its number stay until the driver is unloaded.

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

//! Doors that speak a protocol: a disk as a block device that other programs connect to.
//!
//! ```text
//!   QEMU, fio, nbdcopy, a kernel's /dev/nbd0      this machine's kernel: /dev/ublkb0
//!        |  unix socket or TCP, plain or TLS           |  io_uring (feature `ublk`)
//!   nbd        connections, requests, replies       ublk   queues, requests, results
//!        +---------------------------------------------+
//!        |  trait BlockDevice: bytes, in sectors of 512 or 4096
//!   sector     reads and writes back the rest of a block where a sector is shorter
//!        |  trait Disk: blocks of 4096, written anywhere
//!   an emulated conventional drive; a translation layer over any other
//! ```
//!
//! A [`BlockDevice`] is what a door needs and no more, so that another protocol, or another device, is
//! one implementation. [`SectorDevice`] makes one of any disk that writes anywhere. Drives whose tracks
//! overlap do not: they need a translation layer (crate `translate`), which is a `Disk` again.
//!
//! Architecture invariants
//!   SV1  A request that a client can send wrong is answered with an error; a client that breaks the
//!        protocol loses its connection. The server goes on, and nobody else notices.
//!   SV2  What a client can make the server keep in memory is bounded, whatever it promises to send or
//!        refuses to read.
//!   SV3  A flush that is acknowledged covers every write acknowledged before it was sent, on any
//!        connection.
//!   SV4  Sectors that a request does not name are not changed by it, whoever writes beside them.
//!   SV5  Nothing beyond this machine is listened to unless that is asked for.
//!
//! Sources: the NBD protocol; decision 22; of ublk, decision 33. Not here: threads (`clockwork`), what survives a power cut
//! (the disk), which drive to open (`cli`).

mod counts;
mod device;
mod failures;
pub mod nbd;
mod range_lock;
mod sector;
mod stop;
#[cfg(any(test, feature = "ublk"))]
pub mod ublk;

pub use counts::Counts;
pub use device::{BlockDevice, ByteRange, Content, DeviceError, Extent, Waits};
pub use sector::{SectorDevice, SectorLen};
pub use stop::Stopper;

//! Servers: a disk as a block device for other programs, over NBD, and for this machine's kernel, over ublk.
//!
//! ```text
//!   QEMU, fio, nbdcopy, a kernel's /dev/nbd0      this machine's kernel: /dev/ublkb0
//!        |  unix socket, TCP, TLS (feature `tls`)      |  io_uring (feature `ublk`)
//!   nbd        connections, requests, replies       ublk   queues, requests, results
//!        +---------------------------------------------+
//!        |  trait BlockDevice: bytes, in sectors of 512 or 4096
//!   sector     reads and writes back the rest of a block where a sector is shorter
//!        |  trait Disk: blocks of 4096, written anywhere
//!   an emulated conventional drive; a translation layer over any other
//! ```
//!
//! [`BlockDevice`] is exactly what a server needs, so another protocol, or another device, is one more
//! implementation. [`SectorDevice`] makes a block device of any disk that takes writes anywhere. A shingled or
//! interlaced drive needs a translation layer (crate `translate`) for that, which is again a `Disk`.
//!
//! Architecture invariants
//!   SV1  A wrong request is answered with an error, and a client that breaks the protocol loses its
//!        connection. Other clients are not affected.
//!   SV2  The memory that a client can make the server use is bounded, whatever the client announces to send or
//!        refuses to read.
//!   SV3  An acknowledged flush covers every write acknowledged before the flush was sent, on any connection.
//!   SV4  A request changes only the sectors that it names, even while neighbouring sectors are written.
//!   SV5  The server listens to other machines only if the caller asks for it.
//!
//! Beside the device, an operator asks the server how it is: `control` (lines on a private socket), `http` (pages).
//!
//! Sources: the NBD protocol; decision 22 (NBD), decision 33 (ublk). Not here: threads (`clockwork`), the state
//! after a power cut (the disk), the choice of the drive (`cli`).

pub mod control;
mod counts;
mod device;
mod failures;
pub mod http;
pub mod nbd;
mod range_lock;
mod sector;
mod stop;
mod transport;
#[cfg(any(test, feature = "ublk"))]
pub mod ublk;

pub use counts::Counts;
pub use device::{BlockDevice, ByteRange, Content, DeviceError, Extent, Waits};
pub use sector::{SectorDevice, SectorLen};
pub use stop::Stopper;
pub use transport::{
    ListenError, Listener, NotPrivate, Reach, Tls, TlsError, TlsFiles, check_private_socket,
};

//! A device over NBD, the network block device protocol: what QEMU, Linux, fio and libnbd connect to.
//!
//! ```text
//!   transport --> server --> connection, one thread each
//!                              | handshake      options that both sides agree on
//!                              | requests --> answer --> BlockDevice
//!                              +-- lanes        threads for requests that wait: flush, write through
//!                 polling: how it waits         protocol: every number and layout
//! ```
//!
//! Fixed newstyle negotiation with `GO`, `INFO`, `LIST`, `EXPORT_NAME`, `ABORT`, `STARTTLS`, structured
//! replies and the context `base:allocation`; reads with holes, writes, flushes, trims, zeros, FUA.
//! Several connections share one device. TLS needs the feature `tls`.
//!
//! Source: `doc/proto.md` of the NBD reference implementation. Not here: the experimental extensions
//! (extended headers, resize), and oldstyle negotiation, which the protocol has withdrawn.

mod answer;
mod connection;
mod handshake;
mod lanes;
mod polling;
mod protocol;
mod server;

pub use server::{ServeError, Server};

use crate::BlockDevice;
use crate::transport::Tls;
use imbrex_clockwork::Clock;
use std::sync::Arc;

/// The longest read and write, announced to clients: the largest that the protocol asks a server to accept.
pub const REQUEST_LEN_BYTES_MAX: u32 = 32 << 20;

/// The longest name and description of an export.
pub const NAME_LEN_BYTES_MAX: usize = 4096;

/// The device that a server serves, and its description.
#[derive(Clone, Debug)]
pub struct Export {
    /// The name that clients ask for; the empty name always means this export too.
    pub name: String,
    /// A description for people.
    pub description: String,
    /// The device.
    pub device: Arc<dyn BlockDevice>,
    /// Refuse writes, trims and zeroes.
    pub is_read_only: bool,
}

/// The limits and the security of a server.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// The clock for time limits of handshakes and for waits.
    pub clock: Arc<dyn Clock>,
    /// The most connections at a time; further ones are rejected.
    pub connection_count_max: usize,
    /// The longest time from a connection to the end of its handshake.
    pub handshake_ns_max: u64,
    /// The certificates, if TLS is offered.
    pub tls: Option<Tls>,
}

impl ServerOptions {
    /// 64 clients, ten seconds for a handshake, no TLS.
    pub fn new(clock: Arc<dyn Clock>) -> ServerOptions {
        ServerOptions {
            clock,
            connection_count_max: 64,
            handshake_ns_max: 10_000_000_000,
            tls: None,
        }
    }
}

#[cfg(test)]
mod tests;

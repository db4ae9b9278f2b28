//! A device over NBD, the network block device protocol: what QEMU, Linux, fio and libnbd connect to.
//!
//! ```text
//!   listener --> server --> connection, one thread each
//!                              | handshake      options: what is agreed on
//!                              | requests --> answer --> BlockDevice
//!                              +-- lanes        for what waits: flush, write through
//!                 stream: socket, TLS           protocol: every number and layout
//!                 polling: how it waits
//! ```
//!
//! Fixed newstyle negotiation with `GO`, `INFO`, `LIST`, `EXPORT_NAME`, `ABORT`, `STARTTLS`, structured
//! replies and the context `base:allocation`; reads with holes, writes, flushes, trims, zeros, FUA.
//! Several connections at once see one device.
//!
//! Source: `doc/proto.md` of the NBD reference implementation. Not here: the experimental extensions
//! (extended headers, resize), oldstyle negotiation, which the protocol itself gave up.

mod answer;
mod connection;
mod handshake;
mod lanes;
mod listener;
mod polling;
mod protocol;
mod server;
mod stream;
mod tls;

pub use listener::{ListenError, Listener, Reach};
pub use server::{ServeError, Server};
pub use tls::{Tls, TlsError, TlsFiles};

use crate::BlockDevice;
use imbrex_clockwork::Clock;
use std::sync::Arc;

/// The longest read and write, told to clients: the largest that the protocol bids a server to take.
pub const REQUEST_LEN_BYTES_MAX: u32 = 32 << 20;

/// The longest name and description of an export.
pub const NAME_LEN_BYTES_MAX: usize = 4096;

/// What a server serves.
#[derive(Clone, Debug)]
pub struct Export {
    /// The name that clients ask for; the empty name is everybody's default.
    pub name: String,
    /// For people.
    pub description: String,
    /// What is behind it.
    pub device: Arc<dyn BlockDevice>,
    /// Refuse every change.
    pub is_read_only: bool,
}

/// How a server serves.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// What handshakes are timed by, and waits for clients.
    pub clock: Arc<dyn Clock>,
    /// Most clients at a time; others are turned away.
    pub connection_count_max: usize,
    /// How long a client may take from its connection to the end of the handshake.
    pub handshake_ns_max: u64,
    /// Certificates, where TLS is offered.
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

//! The server: it listens, starts a thread for every client, and stops on request.
//!
//! ```text
//!   serve():  poll --> accept --> a thread: connection.rs
//!               |`--- no request for 100 ms --> a step of the device's background work, then again
//!               +<-- Stopper --> started requests are served, waiting ones refused; flush; the end
//! ```
//!
//! Invariants
//!   P1  A client that sends nothing, or never reads, occupies its own threads and nothing else. Over TCP a client
//!       that leaves a reply unread for two minutes loses its connection.
//!   P2  When `serve` returns, all its threads have ended and all written data is flushed.

use super::answer::Answerer;
use super::connection;
use super::handshake::Agreed;
use super::{Export, NAME_LEN_BYTES_MAX, ServerOptions};
use crate::DeviceError;
use crate::counts::{Counts, Tally, count};
use crate::stop::Stopper;
use crate::transport::{Acceptor, Guests, Listener, Socket};
use std::fmt;
use std::io;
#[cfg(test)]
use std::os::unix::net::UnixStream;
use std::sync::Arc;

/// Why a server cannot start, or ended without a request to stop.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The export's name or description does not fit the protocol.
    #[error("the export's {what} has {len_bytes} bytes; at most {bound_bytes} fit")]
    TooLong {
        /// "name" or "description".
        what: &'static str,
        /// Its length.
        len_bytes: usize,
        /// The longest that fits.
        bound_bytes: usize,
    },
    /// The operating system failed at what the server itself needs.
    #[error("{what}: {source}")]
    Host {
        /// What was being done.
        what: &'static str,
        /// Why it failed.
        #[source]
        source: io::Error,
    },
    /// The last flush failed: data that clients wrote since their own last flush may be lost.
    #[error("the last flush failed: data written since a client's own last flush may be lost")]
    Flush(#[source] DeviceError),
}

/// A server of one export. See the module [`nbd`](super).
#[derive(Debug)]
pub struct Server {
    shared: Arc<Shared>,
}

/// The state that the server, its connections and its stoppers share.
pub(crate) struct Shared {
    pub(crate) export: Export,
    pub(crate) options: ServerOptions,
    pub(crate) tally: Tally,
    pub(crate) acceptor: Acceptor,
}

impl Server {
    /// Creates a server, which serves after [`Server::serve`] is called.
    ///
    /// # Errors
    /// [`ServeError::TooLong`], [`ServeError::Host`].
    pub fn new(export: Export, options: ServerOptions) -> Result<Server, ServeError> {
        for (what, text) in [("name", &export.name), ("description", &export.description)] {
            let (len_bytes, bound_bytes) = (text.len(), NAME_LEN_BYTES_MAX);
            if len_bytes > bound_bytes {
                return Err(ServeError::TooLong { what, len_bytes, bound_bytes });
            }
        }
        let acceptor = Acceptor::new().map_err(host("making a socket pair"))?;
        let shared = Shared { export, options, tally: Tally::default(), acceptor };
        Ok(Server { shared: Arc::new(shared) })
    }

    /// A handle that makes [`Server::serve`] return.
    pub fn stopper(&self) -> Stopper {
        self.shared.acceptor.stopper()
    }

    /// The counters so far.
    pub fn counts(&self) -> Counts {
        self.shared.tally.counts()
    }

    /// How many clients are connected now.
    pub fn connection_count(&self) -> usize {
        self.shared.acceptor.guest_count()
    }

    /// The messages of connections that panicked; empty unless there is a bug.
    pub fn panics(&self) -> Vec<String> {
        self.shared.acceptor.crew.panics()
    }

    /// Serves all clients of `listener` until it is stopped. Then started requests are finished, waiting requests are
    /// refused, connections are closed and the device is flushed (P2).
    ///
    /// # Errors
    /// [`ServeError::Host`]: the server can no longer listen. [`ServeError::Flush`].
    pub fn serve(&self, listener: &Listener) -> Result<(), ServeError> {
        let mut clients = Clients { shared: &self.shared, counts: self.counts() };
        let listened = self.shared.acceptor.listen(listener, &mut clients);
        let listened = listened.map_err(|(what, source)| ServeError::Host { what, source });
        self.shared.acceptor.end_all();
        let flushed = self.shared.export.device.flush();
        // Of two failures, the one that may have lost writes is returned.
        flushed.map_err(ServeError::Flush).and(listened)
    }

    /// Serves one client on a connected socket, and returns when it has left.
    #[cfg(test)]
    pub(crate) fn serve_one(&self, socket: UnixStream) {
        let socket = Arc::new(Socket::Unix(socket));
        self.shared.acceptor.enter(&socket);
        count(&self.shared.tally.connections);
        connection::serve(&self.shared, socket);
    }
}

fn host(what: &'static str) -> impl FnOnce(io::Error) -> ServeError {
    move |source| ServeError::Host { what, source }
}

impl Shared {
    pub(crate) fn is_stopping(&self) -> bool {
        self.acceptor.is_stopping()
    }

    pub(crate) fn answerer(&self, agreed: Agreed) -> Answerer<'_> {
        Answerer { export: &self.export, agreed, tally: &self.tally }
    }
}

/// The clients of one listener, and the counts when the device last had nothing to do.
struct Clients<'a> {
    shared: &'a Arc<Shared>,
    counts: Counts,
}

impl Guests for Clients<'_> {
    fn came(&mut self, socket: Socket) {
        let Shared { tally, options, acceptor, .. } = &**self.shared;
        count(&tally.connections);
        let shared = Arc::clone(self.shared);
        let serve = move |socket| connection::serve(&shared, socket);
        let turned_away = || count(&tally.turned_away);
        let socket = Arc::new(socket);
        acceptor.start("nbd connection", socket, options.connection_count_max, serve, turned_away);
    }

    /// If no request came either, the device may do background work.
    fn quiet(&mut self) -> bool {
        let now = self.shared.tally.counts();
        let before = std::mem::replace(&mut self.counts, now);
        self.counts == before && self.shared.export.device.work()
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared")
            .field("export", &self.export)
            .field("counts", &self.tally.counts())
            .field("acceptor", &self.acceptor)
            .finish_non_exhaustive()
    }
}

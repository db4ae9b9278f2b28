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
use super::listener::Listener;
use super::stream::Socket;
use super::{Export, NAME_LEN_BYTES_MAX, ServerOptions};
use crate::DeviceError;
use crate::counts::{Counts, Tally, count};
use crate::stop::{Stop, Stopper};
use imbrex_clockwork::Crew;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::fmt;
use std::io::{self, ErrorKind};
use std::net::Shutdown;
#[cfg(test)]
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

/// How long clients that never read may delay the stop.
const STOP_PATIENCE: Duration = Duration::from_secs(2);

/// The time without a request before the device does background work.
const QUIET_PAUSE: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
const NO_PAUSE: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

/// The pause before the next accept when the system has no descriptors left.
const NO_SOCKETS_PAUSE: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

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
    pub(crate) crew: Crew,
    stop: Arc<Stop>,
    /// The sockets of the open connections.
    open: Mutex<Vec<Weak<Socket>>>,
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
        let stop = Stop::new().map_err(host("making a socket pair"))?;
        let shared = Shared {
            export,
            options,
            tally: Tally::default(),
            crew: Crew::new(),
            stop,
            open: Mutex::default(),
        };
        Ok(Server { shared: Arc::new(shared) })
    }

    /// A handle that makes [`Server::serve`] return.
    pub fn stopper(&self) -> Stopper {
        self.shared.stop.stopper()
    }

    /// The counters so far.
    pub fn counts(&self) -> Counts {
        self.shared.tally.counts()
    }

    /// The messages of connections that panicked; empty unless there is a bug.
    pub fn panics(&self) -> Vec<String> {
        self.shared.crew.panics()
    }

    /// Serves all clients of `listener` until it is stopped. Then started requests are finished, waiting requests are
    /// refused, connections are closed and the device is flushed (P2).
    ///
    /// # Errors
    /// [`ServeError::Host`]: the server can no longer listen. [`ServeError::Flush`].
    pub fn serve(&self, listener: &Listener) -> Result<(), ServeError> {
        let listened = self.listen(listener);
        self.shared.stop.ask();
        self.shared.close_all();
        let flushed = self.shared.export.device.flush();
        // Of two failures, the one that may have lost writes is returned.
        flushed.map_err(ServeError::Flush).and(listened)
    }

    fn listen(&self, listener: &Listener) -> Result<(), ServeError> {
        listener.set_nonblocking().map_err(host("listening"))?;
        let (mut counts, mut is_working) = (self.counts(), false);
        while !self.shared.is_stopping() {
            let (wake, client) = (self.shared.stop.socket(), listener);
            let mut waited = [PollFd::new(wake, PollFlags::IN), PollFd::new(client, PollFlags::IN)];
            let patience = if is_working { NO_PAUSE } else { QUIET_PAUSE };
            match poll(&mut waited, Some(&patience)) {
                // No client came. If no request came either, the device may do background work.
                Ok(0) => {
                    let before = std::mem::replace(&mut counts, self.counts());
                    is_working = counts == before && self.shared.export.device.work();
                    continue;
                }
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(host("waiting for clients")(error.into())),
            }
            if self.shared.is_stopping() {
                return Ok(());
            }
            match listener.accept() {
                Ok(socket) => self.shared.begin(socket),
                // The client has left again, or there was none.
                Err(error) if is_of_one_client(&error) => {}
                // No descriptors or no memory: other clients have to leave first.
                Err(_) => {
                    let mut wake = [PollFd::new(wake, PollFlags::IN)];
                    let _ = poll(&mut wake, Some(&NO_SOCKETS_PAUSE));
                }
            }
        }
        Ok(())
    }

    /// Serves one client on a connected socket, and returns when it has left.
    #[cfg(test)]
    pub(crate) fn serve_one(&self, socket: UnixStream) {
        let socket = Arc::new(Socket::Unix(socket));
        self.shared.enter(&socket);
        count(&self.shared.tally.connections);
        connection::serve(&self.shared, socket);
    }
}

fn is_of_one_client(error: &io::Error) -> bool {
    use ErrorKind::{
        ConnectionAborted, ConnectionReset, Interrupted, PermissionDenied, WouldBlock,
    };
    matches!(
        error.kind(),
        WouldBlock | ConnectionAborted | ConnectionReset | Interrupted | PermissionDenied
    )
}

fn host(what: &'static str) -> impl FnOnce(io::Error) -> ServeError {
    move |source| ServeError::Host { what, source }
}

impl Shared {
    pub(crate) fn is_stopping(&self) -> bool {
        self.stop.is_asked()
    }

    pub(crate) fn answerer(&self, agreed: Agreed) -> Answerer<'_> {
        Answerer { export: &self.export, agreed, tally: &self.tally }
    }

    /// Starts a thread for a client, or rejects it if there are too many.
    fn begin(self: &Arc<Self>, socket: Socket) {
        count(&self.tally.connections);
        let socket = Arc::new(socket);
        let there_count = self.enter(&socket);
        let shared = Arc::clone(self);
        let connection_socket = Arc::clone(&socket);
        let is_full = there_count > self.options.connection_count_max;
        let started = !is_full
            && self
                .crew
                .start("nbd connection", move || connection::serve(&shared, connection_socket))
                .is_ok();
        if !started {
            count(&self.tally.turned_away);
            socket.shutdown(Shutdown::Both);
        }
    }

    /// Adds a client's socket; returns the number of open sockets.
    fn enter(&self, socket: &Arc<Socket>) -> usize {
        let mut open = self.open();
        open.retain(|socket| socket.strong_count() > 0);
        open.push(Arc::downgrade(socket));
        open.len()
    }

    fn open(&self) -> MutexGuard<'_, Vec<Weak<Socket>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends all connections: at once if they wait for a request, otherwise after their replies. A client that does not
    /// read in time loses its replies.
    fn close_all(&self) {
        for (how, patience) in [(Shutdown::Read, STOP_PATIENCE), (Shutdown::Both, Duration::MAX)] {
            for socket in self.open().iter().filter_map(Weak::upgrade) {
                socket.shutdown(how);
            }
            if self.crew.wait_idle(patience) {
                return;
            }
        }
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared")
            .field("export", &self.export)
            .field("counts", &self.tally.counts())
            .field("crew", &self.crew)
            .finish_non_exhaustive()
    }
}

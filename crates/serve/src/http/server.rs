//! The server: its options, the readers that it answers, and the threads of their connections.

use super::{Site, connection};
use crate::nbd::ServeError;
use crate::stop::Stopper;
use crate::transport::{Acceptor, Guests, Listener, Silent, Socket, Tls};
use imbrex_clockwork::Clock;
use std::sync::Arc;

/// The readers that a server answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Access {
    /// All readers that reach the server by an address or as `localhost` (H1).
    Local,
    /// Readers that name this token: `?token=...`, or `Authorization: Bearer ...`.
    Token(String),
}

/// The limits and the security of a server.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// The clock for time limits.
    pub clock: Arc<dyn Clock>,
    /// The most connections at a time. A further one takes the place of the one that has been silent the longest; if all
    /// are being answered, it is rejected.
    pub connection_count_max: usize,
    /// The longest time that a connection may be silent between requests.
    pub silence_ns_max: u64,
    /// The readers that it answers.
    pub access: Access,
    /// The certificates; with them the server speaks HTTPS only.
    pub tls: Option<Tls>,
}

impl ServerOptions {
    /// 64 connections, 30 seconds of silence, local readers, no TLS.
    pub fn new(clock: Arc<dyn Clock>) -> ServerOptions {
        ServerOptions {
            clock,
            connection_count_max: 64,
            silence_ns_max: 30_000_000_000,
            access: Access::Local,
            tls: None,
        }
    }
}

/// A server of one site. See the module [`http`](super).
#[derive(Debug)]
pub struct Server {
    shared: Arc<Shared>,
}

/// What the server and its connections share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) site: Arc<dyn Site>,
    pub(super) options: ServerOptions,
    pub(super) acceptor: Acceptor,
    pub(super) silent: Silent,
}

impl Server {
    /// Creates a server, which serves after [`Server::serve`] is called.
    ///
    /// # Errors
    /// [`ServeError::Host`].
    pub fn new(site: Arc<dyn Site>, options: ServerOptions) -> Result<Server, ServeError> {
        let host = |source| ServeError::Host { what: "making a socket pair", source };
        let acceptor = Acceptor::new().map_err(host)?;
        let silent = Silent::default();
        Ok(Server { shared: Arc::new(Shared { site, options, acceptor, silent }) })
    }

    /// A handle that makes [`Server::serve`] return.
    pub fn stopper(&self) -> Stopper {
        self.shared.acceptor.stopper()
    }

    /// The messages of connections that panicked; empty unless there is a bug.
    pub fn panics(&self) -> Vec<String> {
        self.shared.acceptor.crew.panics()
    }

    /// Serves everybody who comes to `listener` until it is stopped. On return all connections have ended.
    ///
    /// # Errors
    /// [`ServeError::Host`]: the server can no longer listen.
    pub fn serve(&self, listener: &Listener) -> Result<(), ServeError> {
        let mut readers = Readers(&self.shared);
        let listened = self.shared.acceptor.listen(listener, &mut readers);
        self.shared.acceptor.end_all();
        listened.map_err(|(what, source)| ServeError::Host { what, source })
    }
}

struct Readers<'a>(&'a Arc<Shared>);

impl Guests for Readers<'_> {
    fn came(&mut self, socket: Socket) {
        let shared = Arc::clone(self.0);
        let count_max = shared.options.connection_count_max;
        let serve = move |socket| connection::serve(&shared, socket);
        let Shared { acceptor, silent, .. } = &**self.0;
        silent.start(acceptor, "http connection", socket, count_max, serve);
    }
}

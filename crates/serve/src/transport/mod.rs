//! Connections of every protocol: where a server listens, who may come, and the bytes of one connection.
//!
//! ```text
//!   listener   a Unix socket or a TCP port
//!     |  accept
//!   acceptor   one thread a guest; stops on request, and then waits for all of them
//!     |
//!   stream     receiver and sender, plain or under TLS (tls)
//! ```
//!
//! Not here: what a guest says (`nbd`, `http`, `control`).

mod acceptor;
mod listener;
mod private;
mod silent;
mod stream;
mod tls;

pub use listener::{ListenError, Listener, Reach};
pub use tls::{Tls, TlsError, TlsFiles};

pub use private::{NotPrivate, check_private_socket};

pub(crate) use acceptor::{Acceptor, Guests};
pub(crate) use silent::Silent;
pub(crate) use stream::{Deadline, RECEIVE_LEN_BYTES, Receiver, Sender, Socket, halves};

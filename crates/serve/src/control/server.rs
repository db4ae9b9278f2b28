//! The server of a control socket, and its connections.

use super::{Control, REQUEST_LEN_BYTES_MAX};
use crate::nbd::ServeError;
use crate::stop::Stopper;
use crate::transport::{
    Acceptor, Deadline, Guests, Listener, Receiver, Sender, Silent, Socket, halves,
};
use imbrex_clockwork::Clock;
use rustix::net::sockopt::socket_peercred;
use rustix::process::geteuid;
use std::io;
use std::sync::Arc;

/// The limits of a control socket.
#[derive(Clone, Debug)]
pub struct ControlOptions {
    /// The clock for time limits.
    pub clock: Arc<dyn Clock>,
    /// The most connections at a time (CT4).
    pub connection_count_max: usize,
    /// How long a client may be silent, or leave a reply unread.
    pub silence_ns_max: u64,
}

impl ControlOptions {
    /// 16 connections, a minute of silence.
    pub fn new(clock: Arc<dyn Clock>) -> ControlOptions {
        ControlOptions { clock, connection_count_max: 16, silence_ns_max: 60_000_000_000 }
    }
}

/// A server of a control socket. See the module [`control`](super).
#[derive(Debug)]
pub struct ControlServer {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    control: Arc<dyn Control>,
    options: ControlOptions,
    acceptor: Acceptor,
    silent: Silent,
}

impl ControlServer {
    /// Creates a server, which serves after [`ControlServer::serve`] is called.
    ///
    /// # Errors
    /// [`ServeError::Host`].
    pub fn new(
        control: Arc<dyn Control>,
        options: ControlOptions,
    ) -> Result<ControlServer, ServeError> {
        let host = |source| ServeError::Host { what: "making a socket pair", source };
        let acceptor = Acceptor::new().map_err(host)?;
        let shared = Shared { control, options, acceptor, silent: Silent::default() };
        Ok(ControlServer { shared: Arc::new(shared) })
    }

    /// A handle that makes [`ControlServer::serve`] return.
    pub fn stopper(&self) -> Stopper {
        self.shared.acceptor.stopper()
    }

    /// The messages of connections that panicked; empty unless there is a bug.
    pub fn panics(&self) -> Vec<String> {
        self.shared.acceptor.crew.panics()
    }

    /// Answers everybody who comes to `listener` until it is stopped. On return all connections have ended.
    ///
    /// # Errors
    /// [`ServeError::Host`]: the server can no longer listen.
    pub fn serve(&self, listener: &Listener) -> Result<(), ServeError> {
        let mut clients = Clients(&self.shared);
        let listened = self.shared.acceptor.listen(listener, &mut clients);
        self.shared.acceptor.end_all();
        listened.map_err(|(what, source)| ServeError::Host { what, source })
    }
}

struct Clients<'a>(&'a Arc<Shared>);

impl Guests for Clients<'_> {
    fn came(&mut self, socket: Socket) {
        let shared = Arc::clone(self.0);
        let count_max = shared.options.connection_count_max;
        let serve = move |socket| shared.serve(socket);
        let Shared { acceptor, silent, .. } = &**self.0;
        silent.start(acceptor, "control connection", socket, count_max, serve);
    }
}

/// What a connection sent.
enum Request {
    Line(String),
    /// More than a line may have.
    TooLong,
    /// The client has left.
    End,
}

impl Shared {
    fn serve(&self, socket: Arc<Socket>) {
        let (mut receiver, sender) = halves(Arc::clone(&socket), None);
        if is_allowed(&socket) {
            // What a client does to its own connection is no error of the server.
            let _ = self.requests(&socket, &mut receiver, &sender);
        } else {
            let _ = sender
                .send(b"{\"error\":\"this socket answers the server's user and root only\"}\n");
        }
        sender.close();
    }

    fn requests(
        &self,
        socket: &Arc<Socket>,
        receiver: &mut Receiver,
        sender: &Sender,
    ) -> io::Result<()> {
        while !self.acceptor.is_stopping() {
            receiver.set_deadline(self.deadline());
            self.silent.enter(socket);
            let line = match next_line(receiver)? {
                Request::Line(line) if line.is_empty() => continue,
                Request::Line(line) => line,
                Request::End => return Ok(()),
                Request::TooLong => {
                    let told = format!(
                        "{{\"error\":\"a request has at most {REQUEST_LEN_BYTES_MAX} bytes\"}}\n"
                    );
                    return sender.send(told.as_bytes());
                }
            };
            self.silent.leave(socket);
            let mut reply = self.control.answer(&line, &|| self.acceptor.is_stopping());
            assert!(!reply.contains('\n'), "one line answers one line");
            reply.push('\n');
            // CT4: a client that does not read waits for nothing but itself.
            self.silent.enter(socket);
            sender.send(reply.as_bytes())?;
        }
        Ok(())
    }

    fn deadline(&self) -> Deadline {
        let clock = Arc::clone(&self.options.clock);
        let at_ns = clock.now_ns().saturating_add(self.options.silence_ns_max);
        Deadline { clock, at_ns }
    }
}

/// Whether the peer is this user or root (CT1).
fn is_allowed(socket: &Socket) -> bool {
    let own = geteuid();
    socket_peercred(socket).is_ok_and(|peer| peer.uid == own || peer.uid.is_root())
}

/// The next line, without its end and the space around it. What is not text has replacement characters.
fn next_line(receiver: &mut Receiver) -> io::Result<Request> {
    let mut len = 1;
    loop {
        if !receiver.fill(len)? {
            return Ok(Request::End);
        }
        let received = receiver.received();
        let end = received.iter().position(|&byte| byte == b'\n');
        match end {
            Some(end) if end <= REQUEST_LEN_BYTES_MAX => {
                let line = String::from_utf8_lossy(&received[..end]).trim().to_owned();
                receiver.take(end + 1);
                return Ok(Request::Line(line));
            }
            None if received.len() <= REQUEST_LEN_BYTES_MAX => len = received.len() + 1,
            _ => return Ok(Request::TooLong),
        }
    }
}

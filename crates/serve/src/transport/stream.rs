//! The byte stream of a connection: a socket, plain or under TLS, in two halves for different threads.
//!
//! ```text
//!   socket --> Receiver  (one thread)        socket <-- Sender  (any thread, one reply at a time)
//!                 \          TLS state behind a lock         /
//! ```
//!
//! Invariants
//!   N1  Neither half holds the TLS state while it waits for the socket.
//!   N2  The bytes of one send stay together: no other reply comes between them.
//!   N3  Bytes received before TLS began are never read as if they had come under TLS.
//!   N4  After a failed send every later send fails too.

use super::tls::Session;
use imbrex_clockwork::Clock;
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use std::io::{self, ErrorKind, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The length of the receive buffer. It bounds how many short requests are served before their replies are sent
/// together.
pub(crate) const RECEIVE_LEN_BYTES: usize = 256 << 10;

/// A connected socket.
#[derive(Debug)]
pub(crate) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Socket {
    pub(crate) fn shutdown(&self, how: Shutdown) {
        // It fails if the peer has closed the connection already.
        let _ = match self {
            Socket::Tcp(socket) => socket.shutdown(how),
            Socket::Unix(socket) => socket.shutdown(how),
        };
    }

    fn set_timeouts(&self, after: Option<Duration>) -> io::Result<()> {
        match self {
            Socket::Tcp(socket) => {
                socket.set_read_timeout(after).and_then(|()| socket.set_write_timeout(after))
            }
            Socket::Unix(socket) => {
                socket.set_read_timeout(after).and_then(|()| socket.set_write_timeout(after))
            }
        }
    }

    fn read(&self, buf: &mut [u8], flags: RecvFlags) -> io::Result<usize> {
        loop {
            match recv(self, &mut *buf, flags) {
                Err(Errno::INTR) => {}
                done => return Ok(done?.0),
            }
        }
    }

    fn write_all(&self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Socket::Tcp(socket) => { socket }.write_all(bytes),
            Socket::Unix(socket) => { socket }.write_all(bytes),
        }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Socket::Tcp(socket) => socket.as_fd(),
            Socket::Unix(socket) => socket.as_fd(),
        }
    }
}

type TlsState = Arc<Mutex<Session>>;

fn locked(state: &TlsState) -> MutexGuard<'_, Session> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The deadline for the first part of a connection.
#[derive(Clone, Debug)]
pub(crate) struct Deadline {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) at_ns: u64,
}

impl Deadline {
    fn left(&self) -> io::Result<Duration> {
        match self.at_ns.saturating_sub(self.clock.now_ns()) {
            0 => Err(ErrorKind::TimedOut.into()),
            left_ns => Ok(Duration::from_nanos(left_ns)),
        }
    }
}

/// The receiving half. Received bytes that are not taken yet are `buf[start..end]`.
#[derive(Debug)]
pub(crate) struct Receiver {
    socket: Arc<Socket>,
    tls: Option<TlsState>,
    /// Received bytes that are not decrypted yet: `sealed[sealed_start..sealed_end]`.
    sealed: Vec<u8>,
    sealed_start: usize,
    sealed_end: usize,
    buf: Vec<u8>,
    start: usize,
    end: usize,
    deadline: Option<Deadline>,
}

/// The sending half.
#[derive(Debug)]
pub(crate) struct Sender {
    socket: Arc<Socket>,
    tls: Option<TlsState>,
    /// Encrypted bytes to send. Its lock keeps a reply together (N2).
    sealed: Mutex<Vec<u8>>,
    is_broken: AtomicBool,
}

/// Splits a connection on `socket` into its two halves. The handshake must end before `deadline`.
pub(crate) fn halves(socket: Arc<Socket>, deadline: Option<Deadline>) -> (Receiver, Sender) {
    let receiver = Receiver {
        socket: Arc::clone(&socket),
        tls: None,
        sealed: Vec::new(),
        sealed_start: 0,
        sealed_end: 0,
        buf: vec![0; RECEIVE_LEN_BYTES],
        start: 0,
        end: 0,
        deadline,
    };
    let is_broken = AtomicBool::new(false);
    (receiver, Sender { socket, tls: None, sealed: Mutex::default(), is_broken })
}

impl Receiver {
    /// The received bytes that are not taken yet.
    pub(crate) fn received(&self) -> &[u8] {
        &self.buf[self.start..self.end]
    }

    /// Takes `len` received bytes.
    pub(crate) fn take(&mut self, len: usize) {
        assert!(len <= self.end - self.start, "only what was received can be taken");
        self.start += len;
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
    }

    /// Waits until `len` bytes, at most [`RECEIVE_LEN_BYTES`], are received. Returns false if the peer has closed
    /// its end before the first of them.
    pub(crate) fn fill(&mut self, len: usize) -> io::Result<bool> {
        self.fill_by(len, RecvFlags::empty())
    }

    /// Like [`Receiver::fill`], without waiting; `None` if too few bytes have arrived.
    pub(crate) fn fill_now(&mut self, len: usize) -> Option<io::Result<bool>> {
        match self.fill_by(len, RecvFlags::DONTWAIT) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => None,
            done => Some(done),
        }
    }

    fn fill_by(&mut self, len: usize, flags: RecvFlags) -> io::Result<bool> {
        assert!(len <= self.buf.len(), "longer bytes are received where they are to be");
        while self.end - self.start < len {
            if self.buf.len() - self.start < len {
                self.buf.copy_within(self.start..self.end, 0);
                (self.start, self.end) = (0, self.end - self.start);
            }
            let mut buf = std::mem::take(&mut self.buf);
            let read = self.read(&mut buf[self.end..], flags);
            self.buf = buf;
            match read? {
                0 if self.start == self.end => return Ok(false),
                0 => return Err(ErrorKind::UnexpectedEof.into()),
                read => self.end += read,
            }
        }
        Ok(true)
    }

    /// Receives exactly `len` bytes. Memory is allocated as they arrive, so an announced length costs nothing.
    pub(crate) fn read_vec(&mut self, len: usize) -> io::Result<Vec<u8>> {
        let first = len.min(self.end - self.start);
        let mut bytes = self.buf[self.start..self.start + first].to_vec();
        self.take(first);
        while bytes.len() < len {
            let have = bytes.len();
            bytes.resize(have + (len - have).min(RECEIVE_LEN_BYTES.max(have)), 0);
            let mut at = have;
            while at < bytes.len() {
                match self.read(&mut bytes[at..], RecvFlags::empty())? {
                    0 => return Err(ErrorKind::UnexpectedEof.into()),
                    read => at += read,
                }
            }
        }
        Ok(bytes)
    }

    /// Receives `len` bytes and discards them.
    pub(crate) fn skip(&mut self, mut len: u64) -> io::Result<()> {
        while len > 0 {
            if self.received().is_empty() && !self.fill(1)? {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            let piece = len.min(self.received().len() as u64);
            self.take(piece as usize);
            len -= piece;
        }
        Ok(())
    }

    /// Reads some decrypted bytes; 0 at the end.
    fn read(&mut self, buf: &mut [u8], flags: RecvFlags) -> io::Result<usize> {
        let Some(tls) = self.tls.clone() else { return self.read_socket(buf, flags) };
        loop {
            match locked(&tls).read(buf) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                done => return done,
            }
            // N1: the state is not held while the socket takes its time.
            if !self.receive_sealed(flags)? {
                return Ok(0);
            }
            self.decipher(&mut locked(&tls))?;
        }
    }

    /// Waits for encrypted bytes; false at the end.
    fn receive_sealed(&mut self, flags: RecvFlags) -> io::Result<bool> {
        if self.sealed_start < self.sealed_end {
            return Ok(true);
        }
        let mut sealed = std::mem::take(&mut self.sealed);
        sealed.resize(RECEIVE_LEN_BYTES, 0);
        let read = self.read_socket(&mut sealed, flags);
        self.sealed = sealed;
        (self.sealed_start, self.sealed_end) = (0, *read.as_ref().unwrap_or(&0));
        Ok(read? > 0)
    }

    /// Passes some received bytes to TLS, which buffers only a little unread data.
    fn decipher(&mut self, tls: &mut Session) -> io::Result<()> {
        let sealed = &self.sealed[self.sealed_start..self.sealed_end];
        self.sealed_start += tls.receive_sealed(sealed)?;
        Ok(())
    }

    fn read_socket(&self, buf: &mut [u8], flags: RecvFlags) -> io::Result<usize> {
        if let Some(deadline) = &self.deadline {
            self.socket.set_timeouts(Some(deadline.left()?))?;
        }
        self.socket.read(buf, flags)
    }

    /// Sets another deadline for what is received from now on.
    pub(crate) fn set_deadline(&mut self, deadline: Deadline) {
        self.deadline = Some(deadline);
    }

    /// Removes the deadline, because the handshake is over.
    pub(crate) fn begin_transmission(&mut self) -> io::Result<()> {
        self.deadline = None;
        self.socket.set_timeouts(None)
    }

    /// Starts TLS in both directions.
    pub(crate) fn start_tls(&mut self, sender: &mut Sender, mut tls: Session) -> io::Result<()> {
        if !self.received().is_empty() {
            // N3: these bytes were sent before the reply to the option, so they are not TLS.
            return Err(io::Error::new(ErrorKind::InvalidData, "bytes before the start of TLS"));
        }
        let mut out = Vec::new();
        let mut result = Ok(());
        while tls.is_handshaking() && result.is_ok() {
            tls.seal(&mut out)?;
            if !out.is_empty() {
                self.socket.write_all(&out)?;
                out.clear();
            } else if self.receive_sealed(RecvFlags::empty())? {
                result = self.decipher(&mut tls);
            } else {
                return Err(ErrorKind::UnexpectedEof.into());
            }
        }
        // The last message of the handshake, or the alert with the reason for its failure.
        tls.seal(&mut out)?;
        self.socket.write_all(&out)?;
        result?;
        let state = Arc::new(Mutex::new(tls));
        self.tls = Some(Arc::clone(&state));
        sender.tls = Some(state);
        Ok(())
    }
}

impl Sender {
    /// Sends all of `bytes` together (N2).
    pub(crate) fn send(&self, bytes: &[u8]) -> io::Result<()> {
        let mut sealed = self.sealed.lock().unwrap_or_else(PoisonError::into_inner);
        // N4: recorded before the lock is released.
        self.send_in_turn(&mut sealed, bytes).inspect_err(|_| self.set_broken())
    }

    fn send_in_turn(&self, sealed: &mut Vec<u8>, bytes: &[u8]) -> io::Result<()> {
        let Some(tls) = &self.tls else { return self.socket.write_all(bytes) };
        let mut left = bytes;
        loop {
            sealed.clear();
            let mut tls = locked(tls);
            let piece = tls.write(left)?;
            left = &left[piece..];
            tls.seal(sealed)?;
            // N1: the state is not held while the socket takes its time.
            drop(tls);
            self.socket.write_all(sealed)?;
            if left.is_empty() {
                return Ok(());
            }
        }
    }

    /// Whether a reply, or the connection, was lost.
    pub(crate) fn is_broken(&self) -> bool {
        self.is_broken.load(Ordering::Acquire)
    }

    /// Records that the connection is lost; the client may have opened another one.
    pub(crate) fn set_broken(&self) {
        self.is_broken.store(true, Ordering::Release);
    }

    /// Closes the connection at once, in both directions.
    pub(crate) fn give_up(&self) {
        self.set_broken();
        self.socket.shutdown(Shutdown::Both);
    }

    /// Sends TLS's close message, so that the client can distinguish a regular end from a cut, and closes.
    pub(crate) fn close(&self) {
        if let Some(tls) = &self.tls {
            locked(tls).close();
            // The peer may have closed the connection already.
            let _ = self.send(&[]);
        }
        self.socket.shutdown(Shutdown::Both);
    }
}

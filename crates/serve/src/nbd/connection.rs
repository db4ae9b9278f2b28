//! One connection: the handshake, then requests until the client or the server ends it.
//!
//! ```text
//!   receive much --> whole requests, one after the other --> replies, sent together
//!                        |
//!                        +-- requests that may wait for the platter --> lanes
//! ```
//!
//! Invariants
//!   K1  Every reply is sent before the connection waits for its client.
//!   K2  The memory of a connection is bounded: the receive buffer, one longer request with its reply, and the
//!       requests in the lanes.
//!   K3  A client can end its own connection and nothing else.
//!   K4  After the connection is known to be lost, no further request of it is started; the lanes' L3 gives the
//!       reason.

use super::REQUEST_LEN_BYTES_MAX;
use super::handshake::{Agreed, Outcome, shake_hands};
use super::lanes::Lanes;
use super::polling::Polling;
use super::protocol::{REQUEST_LEN_BYTES, Request, command, command_flag};
use super::server::Shared;
use crate::Waits;
use crate::counts::count;
use crate::transport::{Deadline, RECEIVE_LEN_BYTES, Receiver, Sender, Socket, halves};
use std::cell::RefCell;
use std::io::ErrorKind::{BrokenPipe, ConnectionReset};
use std::io::{self, ErrorKind};
use std::sync::Arc;

/// Collected replies are sent at this length, even if further requests are already received.
const REPLIES_LEN_BYTES: usize = 256 << 10;

/// Longer trims and zeroes may take long, so they run in a lane.
const LONG_LEN_BYTES: u32 = 1 << 20;

/// Serves one client until its connection ends.
pub(crate) fn serve(server: &Arc<Shared>, socket: Arc<Socket>) {
    let clock = Arc::clone(&server.options.clock);
    let at_ns = clock.now_ns().saturating_add(server.options.handshake_ns_max);
    let (mut receiver, mut sender) = halves(socket, Some(Deadline { clock, at_ns }));
    let export = &server.export;
    let hands = shake_hands(&mut receiver, &mut sender, export, server.options.tls.as_ref());
    let sender = Arc::new(sender);
    let ended = match hands {
        Ok(Outcome::Left) => Ok(()),
        Ok(Outcome::Transmission(agreed)) => receiver.begin_transmission().map(|()| {
            let lanes = Lanes::new(Arc::clone(server), agreed, Arc::clone(&sender));
            let mut connection = Connection {
                server,
                receiver,
                sender: &sender,
                agreed,
                lanes,
                replies: Vec::new(),
                request_count: 0,
                polling: Polling::new(Arc::clone(&server.options.clock)),
            };
            let ended = connection.transmission();
            if ended.is_err() && !server.is_stopping() {
                sender.set_broken();
            }
            let ended = ended.and(connection.send_replies());
            tell_end(server, &ended);
            connection.lanes.finish();
        }),
        // A client that connects and leaves does not break the protocol.
        Err(error) if matches!(error.kind(), BrokenPipe | ConnectionReset) => Ok(()),
        Err(error) => Err(error),
    };
    tell_end(server, &ended);
    sender.close();
}

/// Counts a connection that failed, unless the server itself ended it.
fn tell_end(server: &Shared, ended: &io::Result<()>) {
    if ended.is_err() && !server.is_stopping() {
        count(&server.tally.broken_off);
    }
}

struct Connection<'a> {
    server: &'a Arc<Shared>,
    receiver: Receiver,
    sender: &'a Sender,
    agreed: Agreed,
    lanes: Lanes,
    replies: Vec<u8>,
    /// Requests started since the last wait.
    request_count: u64,
    polling: Polling,
}

impl Connection<'_> {
    /// Serves requests until the client leaves or the server stops.
    fn transmission(&mut self) -> io::Result<()> {
        while !self.server.is_stopping() {
            if self.replies.len() >= REPLIES_LEN_BYTES {
                self.send_replies()?;
            }
            if self.sender.is_broken() {
                return Err(BrokenPipe.into()); // K4
            }
            let Some(request) = self.request()? else {
                // A client that leaves without DISC before it is answered has lost the connection.
                let is_unanswered = self.lanes.has_waiting() || self.sender.is_broken();
                let is_lost = is_unanswered && !self.server.is_stopping();
                return if is_lost { Err(ErrorKind::UnexpectedEof.into()) } else { Ok(()) };
            };
            if request.command == command::DISC {
                self.lanes.part();
                return Ok(());
            }
            self.serve(request)?;
        }
        Ok(())
    }

    /// The next request; `None` if the client closed its end between two requests.
    fn request(&mut self) -> io::Result<Option<Request>> {
        if !self.wait_for(REQUEST_LEN_BYTES)? {
            return Ok(None);
        }
        let header = self.receiver.received().first_chunk().expect("it was waited for");
        let request = Request::decode(header)
            .ok_or_else(|| io::Error::new(ErrorKind::InvalidData, "no request starts like that"))?;
        self.receiver.take(REQUEST_LEN_BYTES);
        self.request_count += 1;
        Ok(Some(request))
    }

    /// Waits until `len` bytes are received (K1); false at the end of all requests.
    fn wait_for(&mut self, len: usize) -> io::Result<bool> {
        if self.receiver.received().len() >= len {
            return Ok(true);
        }
        self.send_replies()?;
        let count = std::mem::take(&mut self.request_count);
        // Two closures need the receiver.
        let receiver = RefCell::new(&mut self.receiver);
        let (look, sleep) =
            (|| receiver.borrow_mut().fill_now(len), || receiver.borrow_mut().fill(len));
        self.polling.wait(count, look, sleep)
    }

    fn serve(&mut self, request: Request) -> io::Result<()> {
        let len = request.payload_len_bytes() as usize;
        let answerer = self.server.answerer(self.agreed);
        if len > REQUEST_LEN_BYTES_MAX as usize {
            self.send_replies()?;
            self.receiver.skip(len as u64)?;
            answerer.answer(&request, &[], &mut self.replies);
            return Ok(());
        }
        if self.may_wait(&request) {
            // A lane's reply may be ready before these replies would be sent.
            self.send_replies()?;
            let payload = self.receiver.read_vec(len)?;
            return self.lanes.push(request, payload);
        }
        if len > RECEIVE_LEN_BYTES {
            self.send_replies()?;
            let payload = self.receiver.read_vec(len)?;
            answerer.answer(&request, &payload, &mut self.replies);
            return Ok(());
        }
        if !self.wait_for(len)? {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        answerer.answer(&request, &self.receiver.received()[..len], &mut self.replies);
        self.receiver.take(len);
        Ok(())
    }

    /// Whether other requests should not wait for this one.
    fn may_wait(&self, request: &Request) -> bool {
        let is_long = request.len_bytes > LONG_LEN_BYTES;
        let waits = self.server.export.device.waits();
        match request.command {
            command::FLUSH => true,
            command::TRIM | command::WRITE_ZEROES if is_long => true,
            command::READ => waits == Waits::All,
            command::WRITE | command::TRIM | command::WRITE_ZEROES => {
                request.has(command_flag::FUA) || waits == Waits::All
            }
            _ => false,
        }
    }

    fn send_replies(&mut self) -> io::Result<()> {
        if self.replies.is_empty() {
            return Ok(());
        }
        let sent = self.sender.send(&self.replies);
        self.replies.clear();
        // K2: the memory of a long read is not kept for the next short reads.
        self.replies.shrink_to(2 * REPLIES_LEN_BYTES);
        sent
    }
}

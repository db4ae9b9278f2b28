//! Lanes: additional threads of a connection, for requests that wait for the platter.
//!
//! ```text
//!   connection's thread:  receives, serves requests that only copy bytes, sends replies
//!             | requests that may wait: flush, write through the cache, long zeroes and trims; see `Waits`
//!             v
//!   queue --> lane 0 .. lane 31:  serve, send the reply
//! ```
//!
//! A request that waits for a drive is a request in the drive's queue, and a drive orders what is there:
//! 32 commands by the usual standard. So that many may wait at once.
//!
//! Invariants
//!   L1  The requests in the queue and in the lanes carry and ask for at most [`LANES_LEN_BYTES_MAX`] bytes
//!       together, unless there is only one request. A client with more waits.
//!   L2  When [`Lanes::finish`] returns, every request has been answered or dropped (L3), or a lane has
//!       panicked.
//!   L3  If the connection is lost, waiting requests are dropped: the client may have sent them again on another
//!       connection, and may have written there since. After a DISC of the client they are served.
//!   L4  If the server stops, waiting requests are refused, so that the stop waits for a few requests and not for
//!       a queue.

use super::handshake::Agreed;
use super::protocol::{Request, command};
use super::server::Shared;
use crate::transport::Sender;
use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// The most lanes of one connection: as many requests as a drive queues.
pub(super) const LANE_COUNT_MAX: usize = 32;
/// So many lanes a connection may have however many threads the server has: for a flush, and for requests
/// that need not wait for it.
const LANE_COUNT_SURE: usize = 4;
/// While the server has this many threads, no connection gets more lanes than those.
const THREAD_COUNT_MAX: usize = 256;

/// The most memory for the requests of one connection.
const LANES_LEN_BYTES_MAX: u64 = 64 << 20;

/// The most requests of one connection in the lanes, however short.
const REQUEST_COUNT_MAX: usize = 64;

/// The lanes of one connection.
pub(crate) struct Lanes {
    shared: Arc<LanesShared>,
    lane_count: usize,
}

struct LanesShared {
    server: Arc<Shared>,
    agreed: Agreed,
    sender: Arc<Sender>,
    /// The client has sent DISC: it sends no more requests, and expects the earlier ones to be done.
    is_farewell: AtomicBool,
    state: Mutex<State>,
    /// Signals work for a lane, or the end.
    queued: Condvar,
    /// Signals room for another request.
    served: Condvar,
}

#[derive(Default)]
struct State {
    queue: VecDeque<(Request, Vec<u8>)>,
    idle_count: usize,
    /// The number of requests in the queue and in the lanes.
    request_count: usize,
    len_bytes: u64,
    is_over: bool,
}

fn weight_bytes(request: &Request) -> u64 {
    match request.command {
        command::READ | command::WRITE => u64::from(request.len_bytes),
        _ => 0,
    }
}

impl Lanes {
    /// Creates an empty set of lanes; a lane starts when there is work for it.
    pub(crate) fn new(server: Arc<Shared>, agreed: Agreed, sender: Arc<Sender>) -> Lanes {
        let shared = LanesShared {
            server,
            agreed,
            sender,
            is_farewell: AtomicBool::new(false),
            state: Mutex::default(),
            queued: Condvar::new(),
            served: Condvar::new(),
        };
        Lanes { shared: Arc::new(shared), lane_count: 0 }
    }

    /// Queues `request` for a lane, after waiting for room (L1).
    ///
    /// # Errors
    /// A lane has panicked. The caller must close the connection.
    pub(crate) fn push(&mut self, request: Request, payload: Vec<u8>) -> io::Result<()> {
        let weight = weight_bytes(&request);
        let mut state = self.shared.lock();
        while !state.is_over
            && state.request_count > 0
            && (state.request_count >= REQUEST_COUNT_MAX
                || state.len_bytes + weight > LANES_LEN_BYTES_MAX)
        {
            state = self.shared.served.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.is_over {
            return Err(io::Error::other("a lane has panicked"));
        }
        state.request_count += 1;
        state.len_bytes += weight;
        state.queue.push_back((request, payload));
        let is_short = state.idle_count < state.queue.len();
        drop(state);
        self.shared.queued.notify_one();
        if is_short && self.may_start_lane() {
            let shared = Arc::clone(&self.shared);
            match self.shared.server.acceptor.crew.start("nbd lane", move || shared.work()) {
                Ok(()) => self.lane_count += 1,
                // No thread can be started, and there is no lane: this thread serves the request.
                Err(_) if self.lane_count == 0 => self.shared.serve_one(self.shared.lock()),
                Err(_) => {}
            }
        }
        Ok(())
    }

    fn may_start_lane(&self) -> bool {
        let has_room = || self.shared.server.acceptor.crew.running_count() < THREAD_COUNT_MAX;
        self.lane_count < LANE_COUNT_SURE || self.lane_count < LANE_COUNT_MAX && has_room()
    }

    /// Whether requests wait for a lane.
    pub(crate) fn has_waiting(&self) -> bool {
        !self.shared.lock().queue.is_empty()
    }

    /// Records the client's DISC: all waiting requests are served, even if no reply can be sent any more (L3).
    pub(crate) fn part(&self) {
        self.shared.is_farewell.store(true, Ordering::Release);
    }

    /// Waits until all requests are served, and ends the lanes.
    pub(crate) fn finish(self) {
        let mut state = self.shared.lock();
        while !state.is_over && state.request_count > 0 {
            state = self.shared.served.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Drop for Lanes {
    fn drop(&mut self) {
        self.shared.end();
    }
}

impl LanesShared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end(&self) {
        self.lock().is_over = true;
        self.queued.notify_all();
        self.served.notify_all();
    }

    fn work(&self) {
        let mut state = self.lock();
        while !state.is_over {
            if state.queue.is_empty() {
                state.idle_count += 1;
                state = self.queued.wait(state).unwrap_or_else(PoisonError::into_inner);
                state.idle_count -= 1;
                continue;
            }
            self.serve_one(state);
            state = self.lock();
        }
    }

    fn serve_one(&self, mut state: MutexGuard<'_, State>) {
        let Some((request, payload)) = state.queue.pop_front() else { return };
        drop(state);
        // L2 holds even after a panic.
        let _done = Done { lanes: self, weight_bytes: weight_bytes(&request) };
        if self.sender.is_broken() && !self.is_farewell.load(Ordering::Acquire) {
            return; // L3
        }
        let mut reply = Vec::new();
        let answerer = self.server.answerer(self.agreed);
        if self.server.is_stopping() {
            answerer.refuse_at_end(&request, &mut reply);
        } else {
            answerer.answer(&request, &payload, &mut reply);
        }
        drop(payload);
        if self.sender.send(&reply).is_err() {
            // The stream has lost a reply or a part of one, so it cannot carry further replies.
            self.sender.give_up();
        }
    }
}

/// Subtracts a request from the totals when it is served, or when serving it panics.
struct Done<'a> {
    lanes: &'a LanesShared,
    weight_bytes: u64,
}

impl Drop for Done<'_> {
    fn drop(&mut self) {
        let mut state = self.lanes.lock();
        state.request_count -= 1;
        state.len_bytes -= self.weight_bytes;
        drop(state);
        self.lanes.served.notify_all();
        if std::thread::panicking() {
            self.lanes.end();
            self.lanes.sender.give_up();
        }
    }
}

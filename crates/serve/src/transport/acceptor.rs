//! The acceptor: it waits for guests, and ends all of them when the server stops.
//!
//! ```text
//!   listen():  poll --> accept --> Guests::came
//!               |`--- nobody for 100 ms --> Guests::quiet, then again
//!               +<-- Stopper --> end_all(): guests that wait end at once, the others after their replies
//! ```

use super::listener::Listener;
use super::stream::Socket;
use crate::stop::{Stop, Stopper};
use imbrex_clockwork::Crew;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{self, ErrorKind};
use std::net::Shutdown;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

/// How long guests that never read may delay the stop.
const STOP_PATIENCE: Duration = Duration::from_secs(2);

/// The time without a guest before the server hears of it.
const QUIET_PAUSE: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
const NO_PAUSE: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

/// The pause before the next accept when the system has no descriptors left.
const NO_SOCKETS_PAUSE: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// What a server does with those who come.
pub(crate) trait Guests {
    /// A guest connected.
    fn came(&mut self, socket: Socket);

    /// Nobody came for a while; whether to look again at once.
    fn quiet(&mut self) -> bool {
        false
    }
}

/// The threads and sockets of a server's guests.
#[derive(Debug)]
pub(crate) struct Acceptor {
    pub(crate) crew: Crew,
    stop: Arc<Stop>,
    /// The sockets of the open connections.
    open: Mutex<Vec<Weak<Socket>>>,
}

impl Acceptor {
    pub(crate) fn new() -> io::Result<Acceptor> {
        Ok(Acceptor { crew: Crew::new(), stop: Stop::new()?, open: Mutex::default() })
    }

    pub(crate) fn stopper(&self) -> Stopper {
        self.stop.stopper()
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stop.is_asked()
    }

    /// Hands everybody who comes to `guests`, until somebody asks to stop.
    ///
    /// # Errors
    /// The operating system's, if it can no longer wait; with what failed.
    pub(crate) fn listen(
        &self,
        listener: &Listener,
        guests: &mut dyn Guests,
    ) -> Result<(), (&'static str, io::Error)> {
        listener.set_nonblocking().map_err(|error| ("listening", error))?;
        let mut is_busy = false;
        while !self.is_stopping() {
            let (wake, guest) = (self.stop.socket(), listener);
            let mut waited = [PollFd::new(wake, PollFlags::IN), PollFd::new(guest, PollFlags::IN)];
            let patience = if is_busy { NO_PAUSE } else { QUIET_PAUSE };
            match poll(&mut waited, Some(&patience)) {
                Ok(0) => {
                    is_busy = guests.quiet();
                    continue;
                }
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(("waiting for clients", error.into())),
            }
            if self.is_stopping() {
                return Ok(());
            }
            match listener.accept() {
                Ok(socket) => guests.came(socket),
                // The guest has left again, or there was none.
                Err(error) if is_of_one_guest(&error) => {}
                // No descriptors or no memory: other guests have to leave first.
                Err(_) => {
                    let mut wake = [PollFd::new(wake, PollFlags::IN)];
                    let _ = poll(&mut wake, Some(&NO_SOCKETS_PAUSE));
                }
            }
        }
        Ok(())
    }

    /// Starts a thread called `name` for a guest, unless more than `count_max` are there. Otherwise the guest is turned
    /// away: `turned_away` hears of it, and then its connection is closed.
    pub(crate) fn start(
        &self,
        name: &str,
        socket: Arc<Socket>,
        count_max: usize,
        serve: impl FnOnce(Arc<Socket>) + Send + 'static,
        turned_away: impl FnOnce(),
    ) {
        let is_full = self.enter(&socket) > count_max;
        let theirs = Arc::clone(&socket);
        let is_started = !is_full && self.crew.start(name, move || serve(theirs)).is_ok();
        if !is_started {
            turned_away();
            socket.shutdown(Shutdown::Both);
        }
    }

    /// The number of open sockets.
    pub(crate) fn guest_count(&self) -> usize {
        let mut open = self.open();
        open.retain(|socket| socket.strong_count() > 0);
        open.len()
    }

    /// Hangs up on a guest, which no longer counts. Its thread ends by itself.
    pub(crate) fn hang_up(&self, guest: &Arc<Socket>) {
        self.open().retain(|socket| !std::ptr::eq(socket.as_ptr(), Arc::as_ptr(guest)));
        guest.shutdown(Shutdown::Both);
    }

    /// Adds a guest's socket; returns the number of open sockets.
    pub(crate) fn enter(&self, socket: &Arc<Socket>) -> usize {
        let mut open = self.open();
        open.retain(|socket| socket.strong_count() > 0);
        open.push(Arc::downgrade(socket));
        open.len()
    }

    /// Ends all connections: at once if they wait for a request, otherwise after their replies. A guest that does not
    /// read in time loses its replies. All threads have ended on return.
    pub(crate) fn end_all(&self) {
        self.stop.ask();
        for (how, patience) in [(Shutdown::Read, STOP_PATIENCE), (Shutdown::Both, Duration::MAX)] {
            for socket in self.open().iter().filter_map(Weak::upgrade) {
                socket.shutdown(how);
            }
            if self.crew.wait_idle(patience) {
                return;
            }
        }
    }

    fn open(&self) -> MutexGuard<'_, Vec<Weak<Socket>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_of_one_guest(error: &io::Error) -> bool {
    use ErrorKind::{
        ConnectionAborted, ConnectionReset, Interrupted, PermissionDenied, WouldBlock,
    };
    matches!(
        error.kind(),
        WouldBlock | ConnectionAborted | ConnectionReset | Interrupted | PermissionDenied
    )
}

//! The request to stop a server, from another thread, also while it waits.

use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

/// A flag, and a socket that becomes readable when it is set.
#[derive(Debug)]
pub(crate) struct Stop {
    is_asked: AtomicBool,
    /// The two ends; a byte is sent from one to the other.
    wake: (UnixStream, UnixStream),
}

impl Stop {
    pub(crate) fn new() -> io::Result<Arc<Stop>> {
        Ok(Arc::new(Stop { is_asked: AtomicBool::new(false), wake: UnixStream::pair()? }))
    }

    pub(crate) fn ask(&self) {
        if !self.is_asked.swap(true, Ordering::SeqCst) {
            // The socket buffer is empty, so one byte always fits.
            let _ = (&self.wake.0).write(&[1]);
        }
    }

    pub(crate) fn is_asked(&self) -> bool {
        self.is_asked.load(Ordering::SeqCst)
    }

    /// The socket to poll together with others.
    pub(crate) fn socket(&self) -> &UnixStream {
        &self.wake.1
    }

    pub(crate) fn stopper(self: &Arc<Stop>) -> Stopper {
        Stopper { stop: Arc::downgrade(self) }
    }
}

/// A handle that stops a server from another thread.
#[derive(Clone, Debug)]
pub struct Stopper {
    stop: Weak<Stop>,
}

impl Stopper {
    /// Makes the server's `serve` return soon. A second call has no effect.
    pub fn stop(&self) {
        if let Some(stop) = self.stop.upgrade() {
            stop.ask();
        }
    }
}

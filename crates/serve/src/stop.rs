//! How a server is told to end, from another thread and while it waits.

use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

/// A wish, and a socket that becomes readable with it.
#[derive(Debug)]
pub(crate) struct Stop {
    is_asked: AtomicBool,
    /// A byte from the one to the other.
    wake: (UnixStream, UnixStream),
}

impl Stop {
    pub(crate) fn new() -> io::Result<Arc<Stop>> {
        Ok(Arc::new(Stop { is_asked: AtomicBool::new(false), wake: UnixStream::pair()? }))
    }

    pub(crate) fn ask(&self) {
        if !self.is_asked.swap(true, Ordering::SeqCst) {
            // It takes one byte, and this is the first.
            let _ = (&self.wake.0).write(&[1]);
        }
    }

    pub(crate) fn is_asked(&self) -> bool {
        self.is_asked.load(Ordering::SeqCst)
    }

    /// What to wait for beside other things.
    pub(crate) fn socket(&self) -> &UnixStream {
        &self.wake.1
    }

    pub(crate) fn stopper(self: &Arc<Stop>) -> Stopper {
        Stopper { stop: Arc::downgrade(self) }
    }
}

/// Ends a server from another thread.
#[derive(Clone, Debug)]
pub struct Stopper {
    stop: Weak<Stop>,
}

impl Stopper {
    /// Lets the server's `serve` return, soon. Does nothing the second time.
    pub fn stop(&self) {
        if let Some(stop) = self.stop.upgrade() {
            stop.ask();
        }
    }
}

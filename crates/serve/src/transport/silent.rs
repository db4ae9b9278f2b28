//! The guests that a server waits for, the longest first: one of them makes room for a newcomer when all places are
//! taken.

use super::acceptor::Acceptor;
use super::stream::Socket;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// The connections that have sent no whole request since they came or since their last reply, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct Silent(Mutex<VecDeque<Weak<Socket>>>);

impl Silent {
    /// Starts a thread called `name` for a newcomer. If `count_max` connections are there, the one that has been silent
    /// the longest gives way; if none is silent, the newcomer is turned away.
    pub(crate) fn start(
        &self,
        acceptor: &Acceptor,
        name: &str,
        socket: Socket,
        count_max: usize,
        serve: impl FnOnce(Arc<Socket>) + Send + 'static,
    ) {
        let socket = Arc::new(socket);
        if acceptor.guest_count() >= count_max
            && let Some(silent) = self.take_oldest()
        {
            acceptor.hang_up(&silent);
        }
        // From now on: its thread may not have begun when the next newcomer comes.
        self.enter(&socket);
        acceptor.start(name, socket, count_max, serve, || ());
    }

    /// The connection waits for a request.
    pub(crate) fn enter(&self, socket: &Arc<Socket>) {
        let mut all = self.all();
        all.retain(|known| known.strong_count() > 0);
        if !all.iter().any(|known| is_of(known, socket)) {
            all.push_back(Arc::downgrade(socket));
        }
    }

    /// The connection has sent a request.
    pub(crate) fn leave(&self, socket: &Arc<Socket>) {
        self.all().retain(|known| !is_of(known, socket));
    }

    /// The connection that has been silent the longest, which is no longer one of them.
    pub(crate) fn take_oldest(&self) -> Option<Arc<Socket>> {
        let mut all = self.all();
        while let Some(oldest) = all.pop_front() {
            if let Some(oldest) = oldest.upgrade() {
                return Some(oldest);
            }
        }
        None
    }

    fn all(&self) -> MutexGuard<'_, VecDeque<Weak<Socket>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_of(known: &Weak<Socket>, socket: &Arc<Socket>) -> bool {
    std::ptr::eq(known.as_ptr(), Arc::as_ptr(socket))
}

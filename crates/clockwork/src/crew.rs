//! Threads for work that blocks, such as waiting for the peer at the other end of a socket.
//!
//! A [`Job`](crate::Job) must not wait, because a worker that waits is lost to all other jobs. A
//! connection does nothing else. So each connection gets a thread, and a [`Crew`] counts them.
//! There is no virtual crew: a peer lives in real time.
//!
//! Invariants
//!   W1  A crew ends after its threads: dropping it waits for them.
//!   W2  A panic stays in its thread; its message is kept.

use std::any::Any;
use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Threads that come and go. Dropping the crew waits until all have ended.
///
/// A thread must not hold the last handle of its own crew: it would wait for itself.
#[derive(Default)]
pub struct Crew {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    ended: Condvar,
}

#[derive(Default)]
struct State {
    running_count: usize,
    panics: Vec<String>,
}

impl Crew {
    /// A crew without threads.
    pub fn new() -> Crew {
        Crew::default()
    }

    /// Runs `work` on a thread called `name`.
    ///
    /// # Errors
    /// The operating system has no thread left; `work` is dropped.
    pub fn start(&self, name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
        self.shared.lock().running_count += 1;
        let shared = Arc::clone(&self.shared);
        let (story, thread) = (name.to_owned(), std::thread::Builder::new().name(name.to_owned()));
        let started = thread.spawn(move || {
            // The work is dropped there too: its resources are gone when the count drops.
            let outcome = catch_unwind(AssertUnwindSafe(work));
            shared.end(outcome.err().map(|payload| (story, payload)));
        });
        if started.is_err() {
            self.shared.end(None);
        }
        started.map(drop)
    }

    /// How many threads are running.
    pub fn running_count(&self) -> usize {
        self.shared.lock().running_count
    }

    /// Waits until all threads have ended, but no longer than `at_most`. Returns whether they have.
    pub fn wait_idle(&self, at_most: Duration) -> bool {
        let state = self.shared.lock();
        let waited = self.shared.ended.wait_timeout_while(state, at_most, |s| s.running_count > 0);
        waited.unwrap_or_else(PoisonError::into_inner).0.running_count == 0
    }

    /// The messages of the threads that panicked, in order: `name: message`.
    pub fn panics(&self) -> Vec<String> {
        self.shared.lock().panics.clone()
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        while state.running_count > 0 {
            state = self.shared.ended.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl fmt::Debug for Crew {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.shared.lock();
        f.debug_struct("Crew")
            .field("running_count", &state.running_count)
            .field("panics", &state.panics)
            .finish()
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end(&self, panicked: Option<(String, Box<dyn Any + Send>)>) {
        let mut state = self.lock();
        state.running_count -= 1;
        if let Some((name, payload)) = panicked {
            state.panics.push(format!("{name}: {}", crate::threads::panic_message(&*payload)));
        }
        drop(state);
        self.ended.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;

    #[test]
    fn dropping_a_crew_waits_for_its_threads() {
        let (crew, done) = (Crew::new(), Arc::new(AtomicUsize::new(0)));
        let (go, gone) = mpsc::channel::<()>();
        let shared = Arc::clone(&done);
        crew.start("waiting", move || {
            gone.recv().unwrap();
            shared.fetch_add(1, Ordering::SeqCst);
        })
        .unwrap();
        assert_eq!(crew.running_count(), 1);
        assert!(!crew.wait_idle(Duration::ZERO));
        go.send(()).unwrap();
        drop(crew);
        assert_eq!(done.load(Ordering::SeqCst), 1, "W1");
    }

    #[test]
    fn a_panic_stays_in_its_thread() {
        let crew = Crew::new();
        crew.start("unlucky", || panic!("by design")).unwrap();
        crew.start("lucky", || {}).unwrap();
        assert!(crew.wait_idle(Duration::from_secs(60)));
        assert_eq!(crew.panics(), ["unlucky: by design"], "W2");
    }
}

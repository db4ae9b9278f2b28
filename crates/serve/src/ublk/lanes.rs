//! Lanes: additional threads of a device, for requests that wait for the platter.
//!
//! Invariants
//!   L1  A pushed errand runs once, or is dropped at the end of the lanes. Errands do not panic.

use imbrex_clockwork::Crew;
use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// The most lanes of one device: as many requests as a drive queues, which orders them.
const LANE_COUNT_MAX: usize = 32;

/// Work for a lane.
pub(crate) type Errand = Box<dyn FnOnce() + Send>;

/// The queue of errands and its threads, which start when there is work for them.
#[derive(Default)]
pub(crate) struct Lanes {
    state: Mutex<State>,
    /// Signals work for a lane, or the end.
    queued: Condvar,
}

#[derive(Default)]
struct State {
    errands: VecDeque<Errand>,
    lane_count: usize,
    idle_count: usize,
    is_over: bool,
}

impl Lanes {
    /// Queues `errand` for a lane, which `crew` may have to start. If no thread can be started, this thread runs it.
    pub(crate) fn push(self: &Arc<Self>, crew: &Crew, errand: Errand) {
        let mut state = self.state();
        state.errands.push_back(errand);
        let is_short = state.idle_count < state.errands.len() && state.lane_count < LANE_COUNT_MAX;
        state.lane_count += usize::from(is_short);
        drop(state);
        self.queued.notify_one();
        if is_short {
            let lanes = Arc::clone(self);
            if crew.start("ublk lane", move || lanes.work()).is_err() {
                self.do_without();
            }
        }
    }

    /// Handles a lane that could not start: without any lane, this thread runs all errands.
    fn do_without(&self) {
        let mut state = self.state();
        state.lane_count -= 1;
        while state.lane_count == 0
            && let Some(errand) = state.errands.pop_front()
        {
            drop(state);
            errand();
            state = self.state();
        }
    }

    fn work(&self) {
        become_flusher();
        let mut state = self.state();
        while !state.is_over {
            if let Some(errand) = state.errands.pop_front() {
                drop(state);
                errand();
                state = self.state();
                continue;
            }
            state.idle_count += 1;
            state = self.queued.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.idle_count -= 1;
        }
    }

    /// Ends the lanes after their current errands.
    pub(crate) fn end(&self) {
        self.state().is_over = true;
        self.queued.notify_all();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Lanes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state();
        f.debug_struct("Lanes")
            .field("errands", &state.errands.len())
            .field("lane_count", &state.lane_count)
            .field("idle_count", &state.idle_count)
            .finish_non_exhaustive()
    }
}

/// Marks the thread for the kernel: a thread that serves a block device must not wait for memory that only writes
/// to the same device can free.
fn become_flusher() {
    #[cfg(feature = "ublk")]
    libublk::ctrl::UblkCtrl::init_queue_thread();
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn errands_run_beside_a_waiting_one() {
        let (crew, lanes) = (Crew::new(), Arc::new(Lanes::default()));
        let (done, was_done) = mpsc::channel();
        let gates: Vec<mpsc::Sender<()>> = (0..LANE_COUNT_MAX - 1)
            .map(|_| {
                let (open, gate) = mpsc::channel();
                lanes.push(&crew, Box::new(move || gate.recv().unwrap()));
                open
            })
            .collect();
        for index in 0..100 {
            let done = done.clone();
            lanes.push(&crew, Box::new(move || done.send(index).unwrap()));
        }
        let seen: Vec<i32> = was_done.iter().take(100).collect();
        assert_eq!(seen, (0..100).collect::<Vec<_>>(), "L1: by the one lane that is left");
        assert_eq!(crew.running_count(), LANE_COUNT_MAX);
        gates.into_iter().for_each(|open| open.send(()).unwrap());
        lanes.end();
        assert!(crew.wait_idle(std::time::Duration::from_secs(60)));
        assert!(crew.panics().is_empty());
    }

    #[test]
    fn without_a_thread_the_caller_runs_the_errand() {
        let lanes = Arc::new(Lanes::default());
        let (done, was_done) = mpsc::channel();
        lanes.state().errands.push_back(Box::new(move || done.send(()).unwrap()));
        lanes.state().lane_count = 1;
        lanes.do_without();
        was_done.try_recv().unwrap();
    }
}

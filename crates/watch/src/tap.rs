//! The tap: frames of one store at a pace, from whatever thread comes by.

use crate::frame::Line;
use crate::sampler::{Pace, Sampler, Subject};
use imbrex_clockwork::Clock;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// Takes a line.
pub type Sink = Box<dyn FnMut(&Line) + Send>;

/// What is watched, for its head.
#[derive(Clone, Debug)]
pub struct Title {
    /// A name for people.
    pub name: String,
    /// The layout of the store.
    pub layout: String,
    /// Whether its time is that of a modelled drive.
    pub is_virtual: bool,
}

/// Hands the frames of one store to a sink, after its head.
pub struct Tap {
    state: Mutex<State>,
}

struct State {
    title: Title,
    sampler: Sampler,
    pace: Pace,
    clock: Option<Arc<dyn Clock>>,
    is_begun: bool,
    sink: Sink,
}

impl Tap {
    /// A tap of the store `id` with a frame every `every_ns`. `clock` says what a frame costs (W2); in virtual time a
    /// frame costs nothing, and there is none.
    pub fn new(
        id: u32,
        title: Title,
        every_ns: u64,
        clock: Option<Arc<dyn Clock>>,
        sink: Sink,
    ) -> Tap {
        let (sampler, pace) = (Sampler::new(id), Pace::new(every_ns));
        Tap { state: Mutex::new(State { title, sampler, pace, clock, is_begun: false, sink }) }
    }

    /// Takes a frame if one is due at `now_ns`. Nothing, if another thread takes one.
    pub fn tick(&self, now_ns: u64, subject: Subject<'_>) {
        if let Ok(mut state) = self.state.try_lock()
            && state.pace.is_due(now_ns)
        {
            state.take(now_ns, subject);
        }
    }

    /// Takes a frame now, such as the last one.
    pub fn take(&self, now_ns: u64, subject: Subject<'_>) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).take(now_ns, subject);
    }
}

impl State {
    fn take(&mut self, now_ns: u64, subject: Subject<'_>) {
        let clock_ns = || self.clock.as_ref().map_or(0, |clock| clock.now_ns());
        let start_ns = clock_ns();
        if !self.is_begun {
            self.is_begun = true;
            let Title { name, layout, is_virtual } = &self.title;
            let head = self.sampler.head(name, layout, subject, *is_virtual);
            (self.sink)(&Line::Head(Box::new(head)));
        }
        let frame = self.sampler.frame(now_ns, subject, None);
        (self.sink)(&Line::Frame(Box::new(frame)));
        let cost_ns = clock_ns().saturating_sub(start_ns);
        self.pace.took(now_ns, now_ns.saturating_add(cost_ns));
    }
}

impl fmt::Debug for Tap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tap").finish_non_exhaustive()
    }
}

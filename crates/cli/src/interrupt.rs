//! Interruption by Ctrl-C: a flag that long work checks between two operations, so that it ends cleanly.
//!
//! The first signal sets the flag. The second kills the process, which the store survives as it survives
//! a power cut. The hangup of a terminal sets the flag and never kills: it may follow from the first
//! signal.

use crate::error::{CliError, Context};
use imbrex_clockwork::{Clock, Crew, WallClock};
use nix::sys::signal::{SigSet, Signal};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{getpid, kill_process};
use std::fmt;
use std::io::{self, Read};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A signal within this time after the first one counts as the same: `timeout` signals both the process and
/// its group.
const ONE_NS: u64 = 500_000_000;

/// Whether the user has asked the command to stop; clones share the flag.
#[derive(Clone, Default)]
pub(crate) struct Interrupt {
    asked: Arc<AtomicBool>,
    then: Arc<Mutex<Then>>,
}

/// An action that the first signal triggers.
type Then = Option<Box<dyn FnOnce() + Send>>;

impl Interrupt {
    /// Starts to listen for SIGINT, SIGTERM and SIGHUP; a SIGHUP that `nohup` has ignored stays ignored.
    /// Call it before any other thread starts.
    pub(crate) fn listen() -> Result<Interrupt, CliError> {
        let interrupt = Interrupt::default();
        let mut signals = SigSet::empty();
        signals.add(Signal::SIGINT);
        signals.add(Signal::SIGTERM);
        // A blocked signal would be delivered even if it is ignored.
        if !is_ignored(Signal::SIGHUP) {
            signals.add(Signal::SIGHUP);
        }
        signals.thread_block().context(|| "cannot listen to signals")?;
        let signalled = interrupt.clone();
        let listening = move || {
            let clock = WallClock::new();
            let mut first_ns = None;
            while let Ok(signal) = signals.wait() {
                let now_ns = clock.now_ns();
                match signal {
                    Signal::SIGHUP if signalled.is_asked() => {}
                    _ if first_ns.is_some_and(|first_ns| now_ns - first_ns < ONE_NS) => {}
                    _ => {
                        first_ns = Some(now_ns);
                        signalled.ask();
                    }
                }
            }
        };
        let crew = Crew::new();
        crew.start("signals", listening).context(|| "cannot listen to signals")?;
        // The thread listens until the process ends, and is never joined.
        std::mem::forget(crew);
        Ok(interrupt)
    }

    fn ask(&self) {
        if self.asked.swap(true, Ordering::SeqCst) {
            // `exit` would run destructors that the threads of a foreign database must not meet.
            let _ = kill_process(getpid(), rustix::process::Signal::KILL);
        }
        self.act();
    }

    /// Runs `then` at the first signal, for work that waits and cannot check the flag.
    pub(crate) fn when_asked(&self, then: impl FnOnce() + Send + 'static) {
        *self.then() = Some(Box::new(then));
        if self.is_asked() {
            self.act();
        }
    }

    fn act(&self) {
        let then = self.then().take();
        if let Some(then) = then {
            then();
        }
    }

    fn then(&self) -> MutexGuard<'_, Then> {
        self.then.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The answer to a long call that asks whether to continue.
    pub(crate) fn flow(&self) -> ControlFlow<()> {
        if self.is_asked() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    pub(crate) fn is_asked(&self) -> bool {
        self.asked.load(Ordering::SeqCst)
    }

    /// Returns an error if the user has asked the command to stop.
    pub(crate) fn check(&self) -> Result<(), CliError> {
        if self.is_asked() { Err(CliError::interrupted()) } else { Ok(()) }
    }
}

/// Lets `ms` milliseconds pass, or less if a signal comes.
pub(crate) fn pause(ms: u32) {
    let pause =
        Timespec { tv_sec: i64::from(ms / 1000), tv_nsec: i64::from(ms % 1000) * 1_000_000 };
    let _ = poll(&mut [], Some(&pause));
}

/// Whether the parent process has set `signal` to be ignored.
fn is_ignored(signal: Signal) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let bits = ignored.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok());
    bits.is_some_and(|bits| bits >> (signal as u32 - 1) & 1 == 1)
}

impl fmt::Debug for Interrupt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Interrupt").field("asked", &self.asked).finish_non_exhaustive()
    }
}

/// Standard input that ends at an interruption instead of waiting for its next byte.
#[derive(Debug)]
pub(crate) struct Stdin {
    interrupt: Interrupt,
}

impl Stdin {
    pub(crate) fn new(interrupt: Interrupt) -> Stdin {
        Stdin { interrupt }
    }
}

impl Read for Stdin {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        /// The longest delay of Ctrl-C: short for a person, long for a processor.
        const LOOK_AGAIN: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
        loop {
            if self.interrupt.is_asked() {
                return Ok(0);
            }
            let stdin = rustix::stdio::stdin();
            match poll(&mut [PollFd::new(&stdin, PollFlags::IN)], Some(&LOOK_AGAIN)) {
                Ok(0) | Err(rustix::io::Errno::INTR) => {}
                Ok(_) => return io::stdin().lock().read(buf),
                Err(errno) => return Err(errno.into()),
            }
        }
    }
}

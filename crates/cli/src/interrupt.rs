//! Ctrl-C: a flag that long work looks at between two operations, so that it can end cleanly.
//!
//! The first signal asks; the second ends the process at once, which the store survives as it
//! survives a power cut.

use crate::error::{CliError, Context, Exit};
use imbrex_clockwork::Scheduler;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{self, Read};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// Whether somebody wants us to stop; clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Interrupt {
    asked: Arc<AtomicBool>,
    /// Who may sleep while work goes on elsewhere, and should look up.
    sleepers: Arc<Mutex<Vec<Weak<dyn Scheduler>>>>,
}

impl Interrupt {
    /// Listens to SIGINT, SIGTERM and SIGHUP from now on.
    pub(crate) fn listen() -> Result<Interrupt, CliError> {
        let interrupt = Interrupt::default();
        let heard = interrupt.clone();
        // Called on a thread of its own, so that it may take locks.
        ctrlc::set_handler(move || {
            if heard.asked.swap(true, Ordering::SeqCst) {
                std::process::exit(i32::from(Exit::Interrupted as u8));
            }
            let sleepers = heard.sleepers.lock().unwrap_or_else(PoisonError::into_inner);
            sleepers.iter().filter_map(Weak::upgrade).for_each(|sleeper| sleeper.notify());
        })
        .context(|| "cannot listen to Ctrl-C")?;
        Ok(interrupt)
    }

    /// Who waits through `scheduler` is woken when somebody wants us to stop.
    pub(crate) fn wakes(&self, scheduler: &Arc<dyn Scheduler>) {
        let mut sleepers = self.sleepers.lock().unwrap_or_else(PoisonError::into_inner);
        sleepers.push(Arc::downgrade(scheduler));
    }

    /// Whether a long call is to go on.
    pub(crate) fn flow(&self) -> ControlFlow<()> {
        if self.is_asked() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    pub(crate) fn is_asked(&self) -> bool {
        self.asked.load(Ordering::SeqCst)
    }

    /// An error if somebody wants us to stop.
    pub(crate) fn check(&self) -> Result<(), CliError> {
        if self.is_asked() { Err(CliError::interrupted()) } else { Ok(()) }
    }
}

/// Standard input that ends when somebody wants us to stop, instead of waiting for its next byte.
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
        /// How long Ctrl-C may go unseen: short for a person, long for a processor.
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

//! The server: adds the device to the kernel, starts a thread for each queue, and removes the device.
//!
//! ```text
//!   serve():  add --> queues begin --> start --> /dev/ublkbN is there
//!               |`--- no request for 100 ms --> a step of the device's background work, then again
//!               +<-- Stopper, or the kernel ended a queue
//!               stop (`ending`) --> what the kernel still had to write is written --> queues end --> remove --> flush
//! ```

use super::control::{UblkError, check_kernel};
use super::ending;
use super::lanes::Lanes;
use super::limits::{IO_LEN_BYTES_MAX, KERNEL_SECTOR_LEN_BYTES, Limits};
use super::queue;
use super::request::Target;
use crate::stop::{Stop, Stopper};
use crate::{BlockDevice, Counts};
use imbrex_clockwork::Crew;
use libublk::UblkFlags;
use libublk::ctrl::{UblkCtrl, UblkCtrlBuilder};
use libublk::io::UblkDev;
use libublk::sys;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io;
use std::num::NonZero;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;

/// The name of the device in the kernel's tools.
const NAME: &str = "imbrex";

/// The number of requests of a queue.
const QUEUE_DEPTH: u16 = 64;

/// The most queues; otherwise one for each processor. More would only wait for the locks of the device.
const QUEUE_COUNT_MAX: usize = 4;

/// The entries of a ring: the requests, and the bell.
const RING_DEPTH: u16 = 2 * QUEUE_DEPTH;

/// The time without a request before the device does background work.
const QUIET_PAUSE: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
const NO_PAUSE: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

/// Serves one device to this machine's kernel. See the module [`ublk`](super).
#[derive(Debug)]
pub struct UblkServer {
    shared: Arc<Shared>,
    /// The queues need the lanes until they end, so the two have separate crews.
    queues: Crew,
    stopper: fn(u32) -> Command,
}

/// The state that the server and its threads share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) target: Target,
    pub(crate) lanes: Arc<Lanes>,
    pub(crate) crew: Crew,
    /// The error of the first queue that ended without the kernel's request.
    queue_error: Mutex<Option<io::Error>>,
    stop: Arc<Stop>,
}

impl UblkServer {
    /// Creates a server. With `is_read_only` both the kernel and the server refuse changes. `stopper` makes a command
    /// from a device's number: a process that calls [`stop_device`](super::stop_device) with it, and that survives
    /// the end of this process.
    ///
    /// # Errors
    /// [`UblkError::Kernel`]: no socket is available.
    pub fn new(
        device: Arc<dyn BlockDevice>,
        is_read_only: bool,
        stopper: fn(u32) -> Command,
    ) -> Result<UblkServer, UblkError> {
        let shared = Shared {
            target: Target::new(device, is_read_only),
            lanes: Arc::default(),
            crew: Crew::new(),
            queue_error: Mutex::default(),
            stop: Stop::new().map_err(refused("making a socket pair"))?,
        };
        Ok(UblkServer { shared: Arc::new(shared), queues: Crew::new(), stopper })
    }

    /// A handle that makes [`UblkServer::serve`] return.
    pub fn stopper(&self) -> Stopper {
        self.shared.stop.stopper()
    }

    /// The counters so far.
    pub fn counts(&self) -> Counts {
        self.shared.target.tally.counts()
    }

    /// The description of the first failed request, whose user learns only an error number.
    pub fn first_error(&self) -> Option<String> {
        self.shared.target.first_error().clone()
    }

    /// The messages of panics, of the device and of threads; empty unless there is a bug.
    pub fn panics(&self) -> Vec<String> {
        let at_requests = self.shared.target.panics().clone();
        [at_requests, self.queues.panics(), self.shared.crew.panics()].concat()
    }

    /// Creates a block device, calls `ready` with its path, and serves it until it is stopped or removed. Then the
    /// kernel writes its cached data, the block device disappears, and the device is flushed (Q3). A mounted file
    /// system loses its device then, without unwritten data.
    ///
    /// # Errors
    /// [`UblkError`].
    pub fn serve(&self, ready: impl FnOnce(&Path)) -> Result<(), UblkError> {
        let served = self.serve_kernel(ready);
        let flushed = self.shared.target.device.flush();
        // Of two failures, the one that may have lost writes is returned.
        flushed.map_err(UblkError::Flush).and(served)
    }

    fn serve_kernel(&self, ready: impl FnOnce(&Path)) -> Result<(), UblkError> {
        check_kernel()?;
        // This thread does the device's background work, for which requests may wait, and the last flush.
        UblkCtrl::init_queue_thread();
        let processor_count = std::thread::available_parallelism().map_or(1, NonZero::get);
        let control = UblkCtrlBuilder::default()
            .name(NAME)
            .nr_queues(processor_count.min(QUEUE_COUNT_MAX) as u16)
            .depth(QUEUE_DEPTH)
            .io_buf_bytes(IO_LEN_BYTES_MAX)
            .dev_flags(UblkFlags::UBLK_DEV_F_ADD_DEV)
            .build()
            .map_err(kernel("adding a ublk device"))?;
        let served = self.serve_device(&control, ready);
        let removed = ending::remove(&control);
        served.and(removed)
    }

    fn serve_device(&self, control: &UblkCtrl, ready: impl FnOnce(&Path)) -> Result<(), UblkError> {
        let limits = Limits::of(&*self.shared.target.device, self.shared.target.is_read_only);
        let told = |device: &mut UblkDev| {
            device.tgt.dev_size = limits.len_sectors * KERNEL_SECTOR_LEN_BYTES;
            device.tgt.sq_depth = RING_DEPTH;
            device.tgt.cq_depth = RING_DEPTH;
            device.tgt.params = parameters(&limits);
            Ok(())
        };
        let device = UblkDev::new(NAME.to_owned(), told, control);
        let device = Arc::new(device.map_err(kernel("opening the ublk device"))?);
        let begun = self.begin_queues(&device);
        let started = begun
            .map_err(refused("beginning a queue"))
            .and_then(|()| control.start_dev(&device).map_err(kernel("starting the ublk device")))
            .map(drop);
        if started.is_ok() {
            ready(Path::new(&control.get_bdev_path()));
            self.wait();
        }
        // This ends the queues of a device that did not start, too.
        ending::stop(control, self.stopper, &self.queues);
        // The lanes end last, because the kernel may need them until its queues have ended.
        self.shared.lanes.end();
        self.shared.crew.wait_idle(Duration::MAX);
        let failed = self.shared.queue_error.lock().unwrap_or_else(PoisonError::into_inner).take();
        started.and(failed.map_or(Ok(()), Err).map_err(refused("serving a queue")))
    }

    /// Waits until every queue has lent its buffers to the kernel, or one has failed to.
    fn begin_queues(&self, device: &Arc<UblkDev>) -> io::Result<()> {
        let (sender, begun) = mpsc::channel();
        let queue_count = device.dev_info.nr_hw_queues;
        for id in 0..queue_count {
            let (shared, device) = (Arc::clone(&self.shared), Arc::clone(device));
            let sender = sender.clone();
            self.queues.start("ublk queue", move || {
                let _end = QueueEnd(&shared.stop);
                if let Err(error) = queue::serve(&shared, &device, id, &sender) {
                    let mut first =
                        shared.queue_error.lock().unwrap_or_else(PoisonError::into_inner);
                    first.get_or_insert(error);
                }
            })?;
        }
        drop(sender);
        for _ in 0..queue_count {
            begun.recv().unwrap_or_else(|_| Err(io::Error::other("it panicked")))?;
        }
        Ok(())
    }

    /// Waits for the request to stop.
    fn wait(&self) {
        let (mut counts, mut is_working) = (self.counts(), false);
        while !self.shared.stop.is_asked() {
            let patience = if is_working { NO_PAUSE } else { QUIET_PAUSE };
            let mut waited = [PollFd::new(self.shared.stop.socket(), PollFlags::IN)];
            if poll(&mut waited, Some(&patience)) == Ok(0) {
                let before = std::mem::replace(&mut counts, self.counts());
                is_working = counts == before && self.shared.target.device.work();
            }
        }
    }
}

/// Requests the stop when a queue ends, because the kernel asks for it or because of an error or a panic.
struct QueueEnd<'a>(&'a Stop);

impl Drop for QueueEnd<'_> {
    fn drop(&mut self) {
        self.0.ask();
    }
}

fn parameters(limits: &Limits) -> sys::ublk_params {
    let attribute = |is_so: bool, bit: u32| if is_so { bit } else { 0 };
    let attrs = sys::UBLK_ATTR_VOLATILE_CACHE
        | sys::UBLK_ATTR_FUA
        | attribute(limits.is_read_only, sys::UBLK_ATTR_READ_ONLY)
        | attribute(limits.is_rotational, sys::UBLK_ATTR_ROTATIONAL);
    let basic = sys::ublk_param_basic {
        attrs,
        logical_bs_shift: limits.sector_shift,
        physical_bs_shift: limits.block_shift,
        io_opt_shift: limits.preferred_shift,
        io_min_shift: limits.block_shift,
        max_sectors: limits.io_sectors_max,
        dev_sectors: limits.len_sectors,
        ..Default::default()
    };
    let discard = sys::ublk_param_discard {
        discard_granularity: 1 << limits.block_shift,
        max_discard_sectors: limits.discard_sectors_max,
        max_write_zeroes_sectors: limits.zeroes_sectors_max,
        max_discard_segments: 1,
        ..Default::default()
    };
    let types = sys::UBLK_PARAM_TYPE_BASIC | sys::UBLK_PARAM_TYPE_DISCARD;
    sys::ublk_params { types, basic, discard, ..Default::default() }
}

/// The kernel's error number in an error of libublk.
pub(crate) fn io_error(error: libublk::UblkError) -> io::Error {
    match error {
        libublk::UblkError::IOError(error) => error,
        libublk::UblkError::OtherError(errno) | libublk::UblkError::UringIOError(errno) => {
            io::Error::from_raw_os_error(errno.abs())
        }
        error => io::Error::other(error),
    }
}

pub(crate) fn kernel(what: &'static str) -> impl Fn(libublk::UblkError) -> UblkError {
    move |error| UblkError::Kernel { what, source: io_error(error) }
}

fn refused(what: &'static str) -> impl Fn(io::Error) -> UblkError {
    move |source| UblkError::Kernel { what, source }
}

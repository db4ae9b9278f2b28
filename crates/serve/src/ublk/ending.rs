//! The end of a device: a separate process asks the kernel to stop it, then the server removes it.
//!
//! ```text
//!   server --- starts, waits for ---> stopper   "stop device N"
//!     queues <--- what the kernel had cached ---- the kernel, in the stopper's name
//! ```
//!
//! The kernel stops a device within the io_uring of the process that asks, and writes its cached data there. A
//! process does not end before its rings are idle. A server that stopped its own device and was killed meanwhile
//! would wait for ever, for writes that only the server could take. If another process asks and the server dies,
//! the writes fail, and both processes end.
//!
//! Invariant
//!   N1  The stop is repeated until the queues of the device have ended, because a user may wait for them until
//!       then.

use super::control::UblkError;
use super::server::kernel;
use imbrex_clockwork::Crew;
use libublk::ctrl::UblkCtrl;
use rustix::io::Errno;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Duration;

const STOPPING: &str = "stopping the ublk device";

/// The number of attempts by a separate process, if it can be started. Then this process asks, although a kill
/// during that would hang it.
const STOPPER_COUNT_MAX: u32 = 3;

/// The time for the queues to end before the stop is repeated.
const END_PAUSE: Duration = Duration::from_secs(1);

/// ENOTSUPP, which older drivers return. It is an internal error number of Linux without a name in user space.
const ENOTSUPP: i32 = 524;

/// Stops the kernel's ublk device `id`, and returns after the kernel has written its cached data. The calling
/// process should do nothing else: if it is interrupted, its end waits for the kernel, and another process may
/// repeat the stop.
///
/// # Errors
/// [`UblkError::Kernel`]. A missing device is not an error.
pub fn stop_device(id: u32) -> Result<(), UblkError> {
    let id = i32::try_from(id).map_err(io::Error::other);
    let id = id.map_err(|source| UblkError::Kernel { what: STOPPING, source })?;
    let stopped = UblkCtrl::new_simple(id).and_then(|control| control.kill_dev());
    unless_gone(stopped.map(drop)).map_err(kernel(STOPPING))
}

/// Repeats the stop until `queues` have ended (N1), with the command that `stopper` makes of the device's number.
pub(super) fn stop(control: &UblkCtrl, stopper: fn(u32) -> Command, queues: &Crew) {
    let mut tries = 0..STOPPER_COUNT_MAX;
    loop {
        let is_started = tries.next().is_some() && run(stopper(control.dev_info().dev_id));
        if !is_started {
            // It fails if it is interrupted; only the end of the queues counts.
            let _ = control.kill_dev();
        }
        // A buffer that a queue lends the kernel after a stop comes back with the next stop.
        if queues.wait_idle(END_PAUSE) {
            return;
        }
    }
}

/// Runs a process and waits for its end; returns whether it could be started. Its success shows in the end of the
/// queues.
fn run(mut stopper: Command) -> bool {
    // The terminal's signals are not meant for it.
    let stopper = stopper.process_group(0).stdin(Stdio::null()).stdout(Stdio::null());
    stopper.stderr(Stdio::null()).status().is_ok()
}

/// Removes a stopped device. If the block device is still open, it disappears when it is closed; older kernels can
/// only wait for that.
pub(super) fn remove(control: &UblkCtrl) -> Result<(), UblkError> {
    let removed = control
        .del_dev_async()
        .or_else(|error| if is_unknown(&error) { control.del_dev() } else { Err(error) });
    // The number may belong to another device by now, which dropping the control must not remove.
    control.disown();
    unless_gone(removed.map(drop)).map_err(kernel("removing the ublk device"))
}

/// A device that was removed already is no error.
fn unless_gone(done: Result<(), libublk::UblkError>) -> Result<(), libublk::UblkError> {
    match done {
        Err(error) if errno(&error) == Some(Errno::NODEV.raw_os_error()) => Ok(()),
        done => done,
    }
}

/// Whether the driver is older than the command.
fn is_unknown(error: &libublk::UblkError) -> bool {
    let unknown = [Errno::OPNOTSUPP.raw_os_error(), Errno::INVAL.raw_os_error(), ENOTSUPP];
    errno(error).is_some_and(|errno| unknown.contains(&errno))
}

fn errno(error: &libublk::UblkError) -> Option<i32> {
    use libublk::UblkError::{IOError, OtherError, UringIOError};
    match error {
        IOError(error) => error.raw_os_error(),
        OtherError(errno) | UringIOError(errno) => Some(errno.abs()),
        _ => None,
    }
}

//! How a device ends: the kernel is told to stop it by a process of its own, and then to forget it.
//!
//! ```text
//!   server --- starts, waits for ---> stopper   "stop device N"
//!     queues <--- what the kernel had cached ---- the kernel, in the stopper's name
//! ```
//!
//! The kernel stops a device within the io_uring of who asks, and writes there what it has cached. A process
//! does not end before its rings are idle: a server that asked and was killed would wait for writes that only
//! it could take, for ever. When the server of another process's ring dies, those writes fail, and both end.
//!
//! Invariant
//!   N1  The device is stopped again and again until its queues have ended: until then somebody may wait for
//!       them.

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

/// So often a process of its own tries, if it can be started; then this one, whatever it costs if it is killed.
const STOPPER_COUNT_MAX: u32 = 3;

/// How long queues may take to end before the device is stopped again.
const END_PAUSE: Duration = Duration::from_secs(1);

/// What Linux calls ENOTSUPP, and older drivers answer: no number for programs, so it has no name there.
const ENOTSUPP: i32 = 524;

/// Stops the kernel's ublk device `id`; returns when the kernel has written what it had for it. For a process
/// that does nothing else: where it is interrupted its end waits for the kernel, and another may ask again.
///
/// # Errors
/// [`UblkError::Kernel`]. That there is no such device is no error.
pub fn stop_device(id: u32) -> Result<(), UblkError> {
    let id = i32::try_from(id).map_err(io::Error::other);
    let id = id.map_err(|source| UblkError::Kernel { what: STOPPING, source })?;
    let stopped = UblkCtrl::new_simple(id).and_then(|control| control.kill_dev());
    unless_gone(stopped.map(drop)).map_err(kernel(STOPPING))
}

/// Stops the device until `queues` have ended (N1), by what `stopper` makes of its number.
pub(super) fn stop(control: &UblkCtrl, stopper: fn(u32) -> Command, queues: &Crew) {
    let mut tries = 0..STOPPER_COUNT_MAX;
    loop {
        let is_started = tries.next().is_some() && run(stopper(control.dev_info().dev_id));
        if !is_started {
            // It fails where it is interrupted; what counts is that the queues end.
            let _ = control.kill_dev();
        }
        // What a queue lends the kernel after it was stopped comes back with the next time.
        if queues.wait_idle(END_PAUSE) {
            return;
        }
    }
}

/// Waits for the end of a process, whose success is that the queues end; whether it could be started.
fn run(mut stopper: Command) -> bool {
    // A signal of our terminal is not for it.
    let stopper = stopper.process_group(0).stdin(Stdio::null()).stdout(Stdio::null());
    stopper.stderr(Stdio::null()).status().is_ok()
}

/// Removes a device that is stopped. Where somebody still has the block device open it goes when they close
/// it; older kernels can only wait for that.
pub(super) fn remove(control: &UblkCtrl) -> Result<(), UblkError> {
    let removed = control
        .del_dev_async()
        .or_else(|error| if is_unknown(&error) { control.del_dev() } else { Err(error) });
    // Its number may be another's by now: dropping the control must not remove that.
    control.disown();
    unless_gone(removed.map(drop)).map_err(kernel("removing the ublk device"))
}

/// Who removed the device before us did what we want.
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

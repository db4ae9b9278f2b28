//! `serve --ublk`: serves a drive to this machine's kernel, if this binary was built with ublk.

use super::ServeArgs;
use crate::error::{CliError, Exit};
use crate::session::Session;
#[cfg(feature = "ublk")]
use std::process::Command;

/// The name of [`StopArgs`]' command.
#[cfg(feature = "ublk")]
pub(crate) const STOP: &str = "ublk-stop";

/// Arguments of the hidden command with which a server stops its own device.
#[cfg(feature = "ublk")]
#[derive(clap::Args, Debug)]
pub(crate) struct StopArgs {
    /// The N of /dev/ublkbN
    id: u32,
}

#[cfg(feature = "ublk")]
impl StopArgs {
    pub(crate) fn run(&self) -> Result<(), CliError> {
        let stopped = imbrex_serve::ublk::stop_device(self.id);
        stopped.map_err(|error| CliError::of(format!("/dev/ublkb{}", self.id), &error))
    }
}

/// The command that stops the device `id`. It inherits this process's blocked signals.
#[cfg(feature = "ublk")]
fn stopper(id: u32) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.args([STOP, &id.to_string()]);
    command
}

#[cfg(not(feature = "ublk"))]
pub(super) fn serve(args: &ServeArgs, _: &mut Session) -> Result<(), CliError> {
    Err(cannot(
        args,
        "this imbrex was built without ublk; build it with `cargo build --release --package imbrex-cli \
         --features ublk`, which needs libclang (Debian: libclang-dev)",
    ))
}

#[cfg(feature = "ublk")]
pub(super) fn serve(args: &ServeArgs, session: &mut Session) -> Result<(), CliError> {
    use super::live::Live;
    use super::{tell_requests, with_failures};
    use crate::error::Context;
    use crate::output::note;
    use imbrex_disk::ByteSize;
    use imbrex_serve::ublk::{UblkError, UblkServer, check_kernel};
    use std::sync::Arc;

    let is_json = session.out.is_json()?;
    // Checked before the drive is opened, because opening may write to it.
    check_kernel().map_err(|error| cannot(args, error.to_string()))?;
    let control = args.beside.listener()?;
    let served = args.opened()?;
    let shown = args.shown();
    let len_bytes = served.device.geometry().len().bytes();
    let live = Live::default();
    let device = args.sectors(&served, &live)?;
    let server = UblkServer::new(Arc::clone(&device) as _, args.read_only, stopper);
    let server = Arc::new(server.context(|| format!("cannot serve {shown}"))?);
    let counted = Arc::clone(&server);
    let counting = served.counting(&shown, move || counted.counts());
    let beside = args.open_beside(&served, &counting, control, &live)?;
    let stopper = server.stopper();
    session.interrupt.when_asked(move || stopper.stop());
    let mut told = Ok(());
    let outcome = server.serve(|path| {
        let line = format!("serving {shown}, {}, at {}", ByteSize(len_bytes), path.display());
        // Standard output is for the JSON report alone, so the path goes to standard error.
        told = if is_json {
            note(format!("imbrex: {line}"));
            Ok(())
        } else {
            session.out.line(line).and_then(|()| session.out.line("Ctrl-C ends it"))
        };
        told = std::mem::replace(&mut told, Ok(())).and_then(|()| session.out.flush());
        if !args.beside.quiet {
            live.begin(&counting);
        }
    });
    live.end();
    beside.close();
    let counts = server.counts();
    if let Some(story) = server.first_error() {
        note(format!("imbrex: {} requests failed, the first: {story}", counts.errors));
    }
    let tell = |report: &mut _| tell_requests(report, counts, None);
    let closed = served.close(&shown, session, tell, &server.panics());
    let outcome = outcome.map_err(|error| match error {
        UblkError::Kernel { .. } => CliError::of(format!("cannot serve {shown} over ublk"), &error),
        error => CliError::of(format!("serving {shown}"), &error),
    });
    with_failures(CliError::first([closed, outcome, told]), &shown, &device.failed_changes())
}

/// Refuses ublk with the reason, and points to NBD.
fn cannot(args: &ServeArgs, why: impl std::fmt::Display) -> CliError {
    CliError::new(
        Exit::Store,
        format!(
            "cannot serve {} over ublk: {why}; --socket or --listen serve it over NBD instead",
            args.shown()
        ),
    )
}

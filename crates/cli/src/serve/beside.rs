//! What a server has beside the device: metrics, a control socket, and a watch on the host's memory.

use super::control::DeviceControl;
use super::elastic::{BufferLen, BufferWatch, PRESSURE_FILE, Pressure, PressureFile};
use super::live::Live;
use crate::door::Door;
use crate::error::{CliError, Context, Exit};
use crate::output::note;
use imbrex_clockwork::{Crew, Runtime, WallClock};
use imbrex_disk::ByteSize;
use imbrex_disk_host::return_free_memory;
use imbrex_serve::control::{ControlOptions, ControlServer};
use imbrex_serve::{Listener, check_private_socket};
use std::path::PathBuf;
use std::sync::Arc;

/// Flags of `imbrex serve` for what it has beside the device.
#[derive(clap::Args, Clone, Debug)]
pub(super) struct BesideArgs {
    /// Answer `imbrex device` at a Unix socket of this path, in a directory that only this user may write to
    #[arg(long, value_name = "PATH")]
    control: Option<PathBuf>,
    /// Let the write buffer shrink to this length while the host is short of memory
    ///
    /// If some program waited for memory for 5 % of a second, the buffer loses a quarter. After ten calm
    /// seconds it regains a sixteenth of its length.
    #[arg(long, value_name = "SIZE", conflicts_with = "memory")]
    buffer_min: Option<ByteSize>,
    /// Where to read the pressure on memory, such as a control group's memory.pressure
    #[arg(long, value_name = "FILE", default_value = PRESSURE_FILE, requires = "buffer_min")]
    pressure: PathBuf,
    /// Show no line on the terminal while serving
    #[arg(long)]
    pub(super) quiet: bool,
}

/// What a server has beside the device, while it serves.
pub(super) struct Beside {
    metrics: Option<Door>,
    control: Option<(Arc<ControlServer>, Crew)>,
    /// The thread of the watch ends with it.
    _watch: Option<Runtime>,
}

impl BesideArgs {
    /// The control socket, if the user asked for one. Taken before the drive is opened: a second server at the same
    /// path touches nothing.
    pub(super) fn listener(&self) -> Result<Option<Listener>, CliError> {
        let Some(path) = &self.control else { return Ok(None) };
        let refused = |why: &dyn std::fmt::Display| {
            CliError::new(
                Exit::Store,
                format!("cannot answer at the control socket {}: {why}", path.display()),
            )
        };
        check_private_socket(path).map_err(|error| refused(&error))?;
        Listener::unix(path).map(Some).map_err(|error| refused(&error))
    }

    /// Whether the buffer shall follow the host's memory.
    pub(super) fn is_elastic(&self) -> bool {
        self.buffer_min.is_some()
    }

    /// The least length of the buffer. The buffer has `len_bytes`.
    ///
    /// # Errors
    /// It is out of range.
    pub(super) fn buffer_min(&self, len_bytes: u64) -> Result<Option<u64>, CliError> {
        let Some(ByteSize(min_bytes)) = self.buffer_min else { return Ok(None) };
        let range = super::elastic::LEN_BYTES_MIN..=len_bytes;
        if !range.contains(&min_bytes) {
            return Err(CliError::usage(format!(
                "--buffer-min is {}; from {} to the buffer's own length, {}",
                ByteSize(min_bytes),
                ByteSize(*range.start()),
                ByteSize(len_bytes)
            )));
        }
        Ok(Some(min_bytes))
    }

    /// Begins to follow the pressure on memory, if the user asked for that, and the length that operators set. Says so
    /// if the pressure cannot be read: the buffer then keeps its length.
    fn watch_buffer(&self, buffer: &Arc<BufferLen>, live: &Live) -> Runtime {
        let is_elastic = self.is_elastic();
        let mut pressure = is_elastic.then(|| PressureFile(self.pressure.clone()));
        let live = live.clone();
        let tell = move |fault: &str| {
            live.note(&format!(
                "imbrex: warning: {fault}; the write buffer keeps its length whatever the host's memory (a kernel \
                 started with psi=1 tells the pressure)"
            ));
        };
        if let Some(Err(fault)) = pressure.as_mut().map(Pressure::stalled_us) {
            tell(&fault);
            buffer.set_unknown(fault);
            pressure = None;
        }
        let runtime = Runtime::threads(1);
        let watch = BufferWatch {
            buffer: Arc::clone(buffer),
            clock: Arc::clone(&runtime.clock),
            pressure,
            next_look_ns: 0,
            tell: Box::new(tell),
            release: return_free_memory,
        };
        runtime.scheduler.spawn(Box::new(watch));
        runtime
    }
}

fn open_control(
    device: DeviceControl,
    listener: Listener,
    live: &Live,
) -> Result<(Arc<ControlServer>, Crew), CliError> {
    let options = ControlOptions::new(Arc::new(WallClock::new()));
    let server = ControlServer::new(Arc::new(device), options);
    let server = Arc::new(server.context(|| "cannot answer at a control socket")?);
    if listener.has_replaced() {
        note(format!("imbrex: {listener}: replaced the control socket of a server that has ended"));
    }
    let (serving, live) = (Arc::clone(&server), live.clone());
    let serve = move || {
        if let Err(error) = serving.serve(&listener) {
            live.note(&format!("imbrex: warning: the control socket is no longer served: {error}"));
        }
    };
    let crew = Crew::new();
    crew.start("control", serve).context(|| "cannot start a thread for the control socket")?;
    Ok((server, crew))
}

impl Beside {
    /// Opens what the user asked for: the door for a collector that is open already, the control socket of
    /// `device`, and the watch on its buffer.
    pub(super) fn open(
        args: &BesideArgs,
        device: DeviceControl,
        metrics: Option<Door>,
        control: Option<Listener>,
        live: &Live,
    ) -> Result<Beside, CliError> {
        let changes = control.is_some() || args.is_elastic();
        let watched = device.buffer.as_ref().filter(|_| changes && !device.is_read_only);
        let watch = watched.map(|buffer| args.watch_buffer(buffer, live));
        let control = control.map(|listener| open_control(device, listener, live)).transpose()?;
        Ok(Beside { metrics, control, _watch: watch })
    }

    /// Ends all of it: requests of operators end early, and the control socket is removed.
    pub(super) fn close(self) {
        if let Some((server, crew)) = self.control {
            server.stopper().stop();
            crew.wait_idle(std::time::Duration::MAX);
            for story in server.panics() {
                note(format!(
                    "imbrex: a connection of the control socket panicked, which is a bug: {story}"
                ));
            }
        }
        if let Some(door) = self.metrics {
            door.close();
        }
    }
}

//! `serve`: serves a drive as a block device, over the network or to this machine's kernel.
//!
//! A conventional drive is served as it is. A zoned drive is served through the block driver, which turns
//! writes anywhere into writes at write pointers.

mod beside;
mod control;
mod elastic;
mod http;
mod kernel;
mod live;

#[cfg(feature = "ublk")]
pub(crate) use kernel::{STOP, StopArgs};

use self::beside::{Beside, BesideArgs};
use self::control::DeviceControl;
use self::elastic::BufferLen;
use self::live::{Counting, Live};
use crate::count::grouped;
use crate::device::note_findings;
use crate::door::{Door, DoorArgs, resolved};
use crate::error::{CliError, Context, Exit};
use crate::interrupt::Interrupt;
use crate::memory;
use crate::output::{Report, note};
use crate::session::Session;
use crate::store::DriveArgs;
use imbrex::stack::{FoundDrive, PowerCut, Unmounted, first_data};
use imbrex_bench::trace_recorder::{Recorded, Recorder};
use imbrex_clockwork::{Runtime, WallClock, entropy_u64};
use imbrex_disk::ByteSize;
use imbrex_disk::{BLOCK_LEN_BYTES, Blocks, Disk, Geometry, GeometrySpec, Rule};
use imbrex_disk_sim::SimDisk;
use imbrex_serve::nbd::{Export, ServeError, Server, ServerOptions};
use imbrex_serve::{Counts, DeviceError, SectorDevice, SectorLen, Waits};
use imbrex_serve::{ListenError, Listener, Reach, Tls, TlsFiles};
use imbrex_translate::{BlockDriver, DriverCounters, DriverError, DriverOptions};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The default capacity of the write buffer.
const BUFFER_LEN: ByteSize = ByteSize(512 << 20);

/// Arguments of `imbrex serve`.
#[derive(clap::Args, Debug)]
#[command(group = clap::ArgGroup::new("what").required(true))]
#[command(group = clap::ArgGroup::new("where").required(true))]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct ServeArgs {
    #[command(subcommand)]
    command: Option<ServeCommand>,
    /// The drive, conventional or zoned, without a store: an image (`imbrex drive create --blank`) or a
    /// block device
    #[arg(long, value_name = "DRIVE", group = "what")]
    drive: Option<PathBuf>,
    /// Serve an empty conventional drive of this size in memory instead, such as 1GiB; its content is lost
    /// at the end
    #[arg(long, value_name = "SIZE", group = "what")]
    memory: Option<ByteSize>,
    /// Make a block device on a blank zoned drive first
    #[arg(long, requires = "drive", conflicts_with_all = ["memory", "read_only"])]
    make: bool,
    /// Capacity of the write buffer, for a zoned drive [default: 512MiB]
    #[arg(long, value_name = "SIZE", conflicts_with = "memory")]
    buffer: Option<ByteSize>,
    /// Memory for the map of a zoned drive; the rest of a longer map stays on the drive [default: a quarter
    /// of the machine's]
    #[arg(long, value_name = "SIZE", conflicts_with = "memory")]
    map_memory: Option<ByteSize>,
    /// Listen at a Unix socket of this path, which only this user may connect to
    #[arg(long, value_name = "PATH", group = "where")]
    socket: Option<PathBuf>,
    /// Listen at this address, such as 127.0.0.1:10809; port 0 selects a free port
    #[arg(long, value_name = "ADDR:PORT", group = "where")]
    listen: Option<String>,
    /// Serve a block device of this machine's kernel, such as /dev/ublkb0, without NBD (Linux 6.0, root)
    ///
    /// A killed server leaves /dev/ublkcN behind, which only occupies the number. If no other such device
    /// is in use, `modprobe -r ublk_drv` removes all of them.
    #[arg(long, group = "where")]
    ublk: bool,
    /// Allow --listen at an address that other machines can reach
    #[arg(long, requires = "listen")]
    allow_remote: bool,
    /// Export name; a client may also connect without a name
    #[arg(long, value_name = "EXPORT", default_value = "", conflicts_with = "ublk")]
    name: String,
    /// Write nothing to the drive, not even to repair what a crash left, and refuse writes, trims and zeroes:
    /// for a drive that may only be read, on a full host, or beside other readers
    ///
    /// A zoned drive has no use for --buffer and --buffer-min then.
    #[arg(long)]
    read_only: bool,
    /// Sector size for clients, in bytes; a write shorter than 4096 bytes costs a read
    #[arg(long, value_name = "BYTES", default_value = "512", value_parser = ["512", "4096"])]
    sector_size: String,
    /// Maximum number of connections at a time
    #[arg(long, value_name = "COUNT", default_value_t = 64, conflicts_with = "ublk")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..))]
    connections: u16,
    /// Offer TLS with this certificate and its chain (PEM); needs a build with `--features tls`
    #[arg(long, value_name = "FILE", requires = "tls_key", conflicts_with = "ublk")]
    tls_cert: Option<PathBuf>,
    /// The certificate's private key (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Reject clients that do not use TLS
    #[arg(long, requires = "tls_cert")]
    tls_require: bool,
    /// Reject clients without a certificate signed by one of these authorities (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_require")]
    tls_client_ca: Option<PathBuf>,
    /// Record reads and writes as a trace for `imbrex replay`, in a new file; compressed if its name ends
    /// in .zst
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Answer a collector of metrics at http://ADDR:PORT/metrics
    #[arg(long, value_name = "ADDR:PORT")]
    metrics: Option<String>,
    #[command(flatten)]
    beside: BesideArgs,
    /// For tests: cut the drive's power after this many writes, flushes and zone resets
    #[arg(
        long,
        hide = true,
        value_name = "EVENTS",
        requires = "drive",
        conflicts_with = "read_only"
    )]
    cut_after: Option<u64>,
    /// Selects which unflushed writes have then reached the platter
    #[arg(long, hide = true, value_name = "SEED", default_value_t = 1, requires = "cut_after")]
    cut_seed: u64,
    /// The length of the drive's volatile cache until then
    #[arg(long, hide = true, value_name = "SIZE", default_value = "4MiB", requires = "cut_after")]
    cache: ByteSize,
}

#[derive(clap::Subcommand, Debug)]
enum ServeCommand {
    /// Show in a browser what a drive and its store do, with metrics for Prometheus at /metrics
    Http(http::HttpArgs),
}

impl ServeArgs {
    pub(crate) fn run(mut self, session: &mut Session) -> Result<(), CliError> {
        if let Some(ServeCommand::Http(args)) = self.command.take() {
            return args.run(session);
        }
        if self.ublk { kernel::serve(&self, session) } else { self.serve_network(session) }
    }

    fn serve_network(&self, session: &mut Session) -> Result<(), CliError> {
        let is_json = session.out.is_json()?;
        let tls = self.tls()?;
        let listener = self.listener()?;
        let control = self.beside.listener()?;
        let served = self.opened()?;
        let shown = self.shown();
        let len_bytes = served.device.geometry().len().bytes();
        let live = Live::default();
        let device = self.sectors(&served, &live)?;
        let export = Export {
            name: self.name.clone(),
            description: format!("{shown}, {}", ByteSize(len_bytes)),
            device: Arc::clone(&device) as _,
            is_read_only: self.read_only,
        };
        let mut options = ServerOptions::new(Arc::new(WallClock::new()));
        options.connection_count_max = usize::from(self.connections);
        options.tls = tls;
        let is_sealed = options.tls.is_some();
        let server = Server::new(export, options).context(|| format!("cannot serve {shown}"))?;
        let server = Arc::new(server);
        let (counted, connected) = (Arc::clone(&server), Arc::clone(&server));
        let counting = served
            .counting(&shown, move || counted.counts())
            .with_connections(move || connected.connection_count());
        let beside = self.open_beside(&served, &counting, control, &live)?;
        if listener.has_replaced() {
            note(format!("imbrex: {listener}: replaced the socket of a server that has ended"));
        }
        if listener.reach() == Reach::Anywhere && !self.tls_require {
            let who = if is_sealed { "even without TLS" } else { "without a password or TLS" };
            note(format!(
                "imbrex: warning: every machine that reaches {listener} may read and write the drive, {who}"
            ));
        }
        let url = self.url(&listener);
        let line = format!("serving {shown}, {}, at {url}", ByteSize(len_bytes));
        // A failure to print the address does not stop serving.
        let told = if is_json {
            // Standard output is for the JSON report alone, so the address goes to standard error.
            note(format!("imbrex: {line}"));
            Ok(())
        } else {
            session.out.line(line).and_then(|()| session.out.line("Ctrl-C ends it"))
        };
        let told = told.and_then(|()| session.out.flush());
        if !self.beside.quiet {
            live.begin(&counting);
        }
        let outcome = serve(&server, &listener, &session.interrupt);
        live.end();
        beside.close();
        let (counts, panics) = (server.counts(), server.panics());
        let tell = |report: &mut Report| {
            report.row("address", url.as_str(), url.as_str());
            tell_clients(report, counts);
        };
        let closed = served.close(&shown, session, tell, &panics);
        let outcome = outcome.context(|| format!("serving {shown}"));
        with_failures(CliError::first([closed, outcome, told]), &shown, &device.failed_changes())
    }

    /// Opens the drive, with a recorder if the user asked for one.
    fn opened(&self) -> Result<Served, CliError> {
        let Some(path) = &self.record else { return self.disk() };
        // The file is created first: if that fails, nothing is made on the drive.
        let file = File::create_new(path).context(|| cannot_record(path))?;
        let served = self.disk().and_then(|served| recorded(served, file, path));
        if served.is_err() {
            // This command created the file, and it is empty.
            _ = std::fs::remove_file(path);
        }
        served
    }

    /// The device in sectors of the size asked for; its failures are reported when they happen.
    fn sectors(&self, served: &Served, live: &Live) -> Result<Arc<SectorDevice>, CliError> {
        let sector_len =
            if self.sector_size == "4096" { SectorLen::Bytes4096 } else { SectorLen::Bytes512 };
        let shown = self.shown();
        let device = SectorDevice::new(Arc::clone(&served.device), sector_len)
            .map_err(|error| cannot_serve(&shown, &error))?;
        let live = live.clone();
        let tell = move |story: &str| {
            live.note(&format!("imbrex: warning: {shown} failed at {story}"));
        };
        Ok(Arc::new(device.with_waits(served.waits).telling(tell)))
    }

    /// The capacity of the write buffer, within the limits that it has while the server runs.
    fn buffer_len(&self) -> Result<ByteSize, CliError> {
        let len = self.buffer.unwrap_or(BUFFER_LEN);
        elastic::check_len(len).map_err(CliError::usage)?;
        Ok(len)
    }

    /// Opens what the user asked for beside the device.
    fn open_beside(
        &self,
        served: &Served,
        counting: &Counting,
        control: Option<Listener>,
        live: &Live,
    ) -> Result<Beside, CliError> {
        let metrics = self.open_metrics(counting)?;
        let buffer = match &served.driver {
            None => None,
            Some(driver) => {
                let ByteSize(len_bytes) = self.buffer_len()?;
                let min_bytes = self.beside.buffer_min(len_bytes)?;
                Some(Arc::new(BufferLen::new(Arc::clone(driver), len_bytes, min_bytes)))
            }
        };
        let device = DeviceControl {
            counting: counting.clone(),
            len_bytes: served.device.geometry().len().bytes(),
            is_read_only: self.read_only,
            buffer,
        };
        Beside::open(&self.beside, device, metrics, control, live)
    }

    /// Opens the door for a collector, if the user asked for one.
    fn open_metrics(&self, counting: &Counting) -> Result<Option<Door>, CliError> {
        let Some(address) = &self.metrics else { return Ok(None) };
        if !resolved(address)?.ip().to_canonical().is_loopback() {
            return Err(CliError::usage(format!(
                "cannot answer a collector at {address}: other machines can reach it, and metrics have no password; \
                 name an address of this machine"
            )));
        }
        let (door, url) = DoorArgs::at(address).open_quietly(Arc::new(counting.clone()))?;
        note(format!("imbrex: metrics at {url}metrics"));
        Ok(Some(door))
    }

    fn shown(&self) -> String {
        match &self.drive {
            Some(path) => path.display().to_string(),
            None => "a drive in memory".to_owned(),
        }
    }

    fn tls(&self) -> Result<Option<Tls>, CliError> {
        let (Some(certificate), Some(key)) = (&self.tls_cert, &self.tls_key) else {
            return Ok(None);
        };
        let client_authority = self.tls_client_ca.as_deref();
        let files = TlsFiles { certificate, key, client_authority, is_required: self.tls_require };
        Tls::load(&files).context(|| "cannot offer TLS").map(Some)
    }

    fn listener(&self) -> Result<Listener, CliError> {
        let reach = if self.allow_remote { Reach::Anywhere } else { Reach::Loopback };
        let bound = match (&self.socket, &self.listen) {
            (Some(path), _) => Listener::unix(path),
            (None, Some(address)) => Listener::tcp(resolved(address)?, reach),
            (None, None) => return Err(CliError::usage("name --socket or --listen")),
        };
        bound.map_err(|error| match error {
            ListenError::Remote { .. } => CliError::usage(format!(
                "cannot listen: {error}; --allow-remote permits it, and --tls-require makes it safe"
            )),
            error => CliError::of("cannot listen", &error),
        })
    }

    /// Opens the drive, and refuses one whose content a client would destroy.
    fn disk(&self) -> Result<Served, CliError> {
        if let Some(ByteSize(len_bytes)) = self.memory {
            let spec = GeometrySpec { len: Blocks::new(len_bytes / 4096), rule: Rule::Anywhere };
            let geometry = Geometry::new(spec)
                .map_err(|error| CliError::usage(format!("cannot use --memory: {error}")))?;
            let disk = SimDisk::builder(geometry).unpacked().memory();
            return disk
                .context(|| "cannot make a drive in memory")
                .map(|disk| Served::plain(Arc::new(disk), Waits::Nothing));
        }
        let path = self.drive.clone().ok_or_else(|| CliError::usage("name --drive or --memory"))?;
        self.buffer_len()?;
        let shown = path.display().to_string();
        let cut = self.cut_after.map(|after_event_count| PowerCut {
            after_event_count,
            seed: self.cut_seed,
            cache_bytes: self.cache.0,
        });
        let mut drive = DriveArgs::new(path, None).with_power_cut(cut);
        if self.read_only {
            drive = drive.never_written();
        }
        let (drives, mounted) = drive.mount(&Runtime::threads(1))?;
        let found = drives.main();
        let disk = found.disk();
        let rule = *disk.geometry().rule();
        let is_blank = mounted.as_ref().is_err_and(Unmounted::is_unformatted);
        let has_device = mounted.as_ref().is_err_and(Unmounted::is_block_device);
        match (rule, mounted) {
            (Rule::Anywhere, _) if is_blank || self.read_only => {
                let has_size = self.buffer.is_some() || self.map_memory.is_some();
                if self.make || has_size || self.beside.is_elastic() {
                    return Err(CliError::usage(format!(
                        "cannot serve {shown}: a conventional drive is served as it is; omit --make and \
                         --buffer, --buffer-min, --map-memory"
                    )));
                }
                // With --read-only an overlay, where a client's flush has nothing to do. The drive itself would
                // refuse it.
                Ok(Served::plain(drives.drives().main, waits(found)))
            }
            (Rule::AtPointer(_), _) if is_blank || has_device => self.driver(found, &shown),
            (Rule::Anywhere | Rule::AtPointer(_), mounted) => {
                let hint = match rule {
                    Rule::Anywhere => ", --read-only serves this one as it is",
                    _ => "",
                };
                let advice =
                    format!("`imbrex drive create --blank` makes a drive for clients{hint}");
                Err(match mounted {
                    Ok(_) => CliError::new(
                        Exit::Store,
                        format!(
                            "cannot serve {shown}: it holds a store, or room for one, which clients \
                             would overwrite; {advice}"
                        ),
                    ),
                    Err(error) => CliError::of(
                        format!(
                            "cannot serve {shown}: it may hold a store, which clients would overwrite \
                             ({advice})"
                        ),
                        &*error.source,
                    ),
                })
            }
            (rule, _) => Err(cannot_serve(&shown, &DeviceError::Rule { rule: rule.name() })),
        }
    }

    /// Opens the block device on a zoned drive, or makes one with `--make` on a blank drive.
    fn driver(&self, found: &FoundDrive, shown: &str) -> Result<Served, CliError> {
        let drive = found.disk();
        let ByteSize(buffer_bytes) = self.buffer_len()?;
        self.beside.buffer_min(buffer_bytes)?;
        let options = DriverOptions {
            id: entropy_u64(),
            buffer_len: Blocks::holding(buffer_bytes),
            map_memory_bytes: memory::for_map(self.map_memory)?,
            ..DriverOptions::default()
        };
        let below = || Arc::clone(&drive);
        let open = if self.read_only { BlockDriver::open_read_only } else { BlockDriver::open };
        let opened = match open(below(), &options) {
            Err(DriverError::NotFormatted) if self.make => {
                check_blank(&*drive, shown)?;
                check_blocks(found, shown)?;
                BlockDriver::format(below(), &options)
            }
            Err(DriverError::NotFormatted) => {
                let advice = if self.read_only { "" } else { "; --make makes one" };
                return Err(CliError::new(
                    Exit::Store,
                    format!("cannot serve {shown}: it holds no block device yet{advice}"),
                ));
            }
            opened => {
                if self.make && opened.is_ok() {
                    note(format!(
                        "imbrex: {shown} holds a block device already: --make made nothing"
                    ));
                }
                opened
            }
        };
        let driver = opened.context(|| format!("cannot serve {shown}"))?;
        let driver = Arc::new(driver.with_clock(Arc::new(WallClock::new())));
        note_findings(&driver, shown);
        let device = Arc::clone(&driver) as Arc<dyn Disk>;
        Ok(Served { drive, device, waits: waits(found), driver: Some(driver), recorder: None })
    }

    fn url(&self, listener: &Listener) -> String {
        let (name, scheme) = (encoded(&self.name), if self.tls_require { "nbds" } else { "nbd" });
        match listener.address() {
            Some(address) => format!("{scheme}://{address}/{name}"),
            None => format!("{scheme}+unix:///{name}?socket={}", encoded(&listener.to_string())),
        }
    }
}

/// The requests that wait for the drive and therefore run on threads of their own: none on an emulated
/// drive, all on a real one.
///
/// A write over zones goes to the block driver's memory, but may then do work of the driver's for a second.
/// The client's next reads do not wait for it, since each step of that work takes the driver's lock anew.
fn waits(drive: &FoundDrive) -> Waits {
    match drive {
        FoundDrive::Image(_) => Waits::Nothing,
        FoundDrive::Device(_) => Waits::All,
    }
}

/// Refuses to make a block device on a drive that is not blank: data that does not open may still be
/// saved.
fn check_blank(drive: &dyn Disk, shown: &str) -> Result<(), CliError> {
    let Some(what) = first_data(drive).context(|| format!("cannot read {shown}"))? else {
        return Ok(());
    };
    let message = format!(
        "cannot make a block device on {shown}: {what}, and --make needs a blank drive; `imbrex drive create \
         --blank` creates one, `imbrex drive format --blank --erase {shown}` erases this one (after an \
         interrupted --make that loses nothing)"
    );
    Err(CliError::new(Exit::Store, message))
}

/// Refuses to make a block device on a drive that can tear a block. The torn block is filled up and then
/// reads as written and damaged, which could hide flushed data before it.
fn check_blocks(drive: &FoundDrive, shown: &str) -> Result<(), CliError> {
    match drive {
        FoundDrive::Device(device) if device.tears_blocks() => Err(CliError::new(
            Exit::Store,
            format!(
                "cannot make a block device on {shown}: its sectors are shorter than {BLOCK_LEN_BYTES} bytes, so a \
                 power cut could leave a block half written and lose flushed data; use a drive with 4 KiB sectors"
            ),
        )),
        _ => Ok(()),
    }
}

/// `text`, percent-encoded for a URL.
fn encoded(text: &str) -> String {
    let mut url = String::new();
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                url.push(char::from(byte));
            }
            _ => url.push_str(&format!("%{byte:02X}")),
        }
    }
    url
}

/// The device that clients see, and the layers below it.
struct Served {
    drive: Arc<dyn Disk>,
    device: Arc<dyn Disk>,
    waits: Waits,
    driver: Option<Arc<BlockDriver>>,
    recorder: Option<Arc<Recorder>>,
}

impl Served {
    fn plain(drive: Arc<dyn Disk>, waits: Waits) -> Served {
        Served { device: Arc::clone(&drive), drive, waits, driver: None, recorder: None }
    }

    fn counting(
        &self,
        shown: &str,
        counts: impl Fn() -> Counts + Send + Sync + 'static,
    ) -> Counting {
        Counting::new(Arc::clone(&self.drive), self.driver.clone(), shown, counts)
    }

    /// Closes the device and prints the report, even if serving failed.
    fn close(
        &self,
        shown: &str,
        session: &mut Session,
        tell: impl FnOnce(&mut Report),
        panics: &[String],
    ) -> Result<(), CliError> {
        // After a checkpoint, opening has nothing to replay. A driver that refuses may not know the cause; the
        // drive may.
        let written = self.driver.as_ref().filter(|driver| !driver.status().is_read_only);
        let closed = written.map_or(Ok(()), |driver| {
            driver.checkpoint().map_err(|refused| self.drive.flush().err().unwrap_or(refused))
        });
        let mut report = Report::default();
        report.row("served", shown, shown);
        tell(&mut report);
        let busy_ns = self.drive.counters().busy_ns;
        report.row("drive busy", format!("{:.3} s", busy_ns as f64 / 1e9), busy_ns);
        if let Some(driver) = &self.driver {
            tell_driver(&mut report, &driver.driver_counters());
        }
        let recorded = self.recorder.as_ref().map(|recorder| recorder.finish()).transpose();
        if let Ok(Some(recorded)) = recorded {
            tell_recorded(&mut report, recorded);
        }
        let told = session.out.report(&report);
        recorded.context(|| "the trace is incomplete, because writing to its file failed")?;
        closed.context(|| format!("cannot close the block device on {shown}"))?;
        match panics.first() {
            Some(story) => Err(CliError::new(Exit::Store, format!("a server panicked: {story}"))),
            None => told,
        }
    }
}

/// Adds a recorder that writes the requests to `file`, which is empty.
fn recorded(mut served: Served, file: File, path: &Path) -> Result<Served, CliError> {
    let clock = Arc::new(WallClock::new());
    let recorder = Recorder::in_file(Arc::clone(&served.device), clock, file, path);
    let recorder = Arc::new(recorder.context(|| cannot_record(path))?);
    served.device = Arc::clone(&recorder) as Arc<dyn Disk>;
    served.recorder = Some(recorder);
    Ok(served)
}

fn cannot_record(path: &Path) -> String {
    format!("cannot record to {}", path.display())
}

fn tell_recorded(report: &mut Report, recorded: Recorded) {
    report.section("recorded");
    let counts = [
        ("reads", recorded.reads),
        ("writes", recorded.writes),
        ("trims and zeroes, not recorded", recorded.others),
    ];
    for (name, count) in counts {
        report.row(name, grouped(count), count);
    }
}

fn tell_driver(report: &mut Report, counters: &DriverCounters) {
    let mut number = |name: &str, count: u64| report.row(name, grouped(count), count);
    number("mapping nodes", counters.mapping_nodes);
    number("evicted runs", counters.evicted_runs);
    number("cleaned zones", counters.cleaned_zones);
    number("checkpoints", counters.checkpoints);
    number("read from second copies", counters.second_copies);
    number("broken by a power cut", counters.broken_blocks);
    let mut bytes = |name: &str, count: u64| {
        let bytes = Blocks::new(count).bytes();
        report.row(name, ByteSize(bytes).to_string(), bytes);
    };
    bytes("journaled", counters.journal_blocks);
    bytes("evicted", counters.evicted_blocks);
    bytes("moved by cleaning", counters.moved_blocks);
}

/// The end of serving, combined with the writes at which the drive failed meanwhile. Such failures are an
/// error of their own, and may explain another one.
fn with_failures(
    ended: Result<(), CliError>,
    shown: &str,
    failures: &[String],
) -> Result<(), CliError> {
    if failures.is_empty() {
        return ended;
    }
    let failed = format!("{shown} failed at {}", failures.join("; "));
    Err(match ended {
        Err(error) if error.exit() != Exit::ReaderGone => error.with_hint(failed),
        _ => CliError::new(Exit::Store, failed),
    })
}

fn cannot_serve(shown: &str, error: &DeviceError) -> CliError {
    CliError::of(format!("cannot serve {shown}"), error)
}

fn serve(server: &Server, listener: &Listener, interrupt: &Interrupt) -> Result<(), ServeError> {
    let stopper = server.stopper();
    interrupt.when_asked(move || stopper.stop());
    server.serve(listener)
}

/// Adds the connections and requests of the clients to the report.
fn tell_clients(report: &mut Report, counts: Counts) {
    let mut number = |name: &str, count: u64| report.row(name, grouped(count), count);
    number("connections", counts.connections);
    number("turned away", counts.turned_away);
    number("broken off", counts.broken_off);
    tell_requests(report, counts, Some(counts.statuses));
}

/// Adds the requests to the report. The ublk server has no block status queries.
fn tell_requests(report: &mut Report, counts: Counts, status_count: Option<u64>) {
    let mut number = |name: &str, count: u64| report.row(name, grouped(count), count);
    number("reads", counts.reads);
    number("writes", counts.writes);
    number("flushes", counts.flushes);
    number("trims", counts.trims);
    number("zeroes", counts.zeroes);
    if let Some(count) = status_count {
        number("status queries", count);
    }
    number("errors", counts.errors);
    for (name, bytes) in [("read", counts.read_bytes), ("written", counts.written_bytes)] {
        report.row(name, ByteSize(bytes).to_string(), bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_percent_encoded() {
        assert_eq!(encoded("/tmp/a b&c/s.sock"), "/tmp/a%20b%26c/s.sock");
        assert_eq!(encoded("T\u{fc}r"), "T%C3%BCr");
    }
}

//! `serve`: its services, its refusals, its end.

use crate::{command, imbrex};
use imbrex_disk::{Blocks, Disk, Lba, Persist, ZoneId};
use imbrex_translate::{BlockDriver, DriverOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;

/// A directory for blank drives and a socket.
pub(crate) struct Blank {
    dir: tempfile::TempDir,
}

impl Blank {
    pub(crate) fn new() -> Blank {
        let blank = Blank { dir: tempfile::tempdir().unwrap() };
        blank.create("d", "conventional");
        blank
    }

    pub(crate) fn create(&self, name: &str, rule: &str) {
        let path = self.path(name);
        let shape = ["--rule", rule, "--capacity", "1GiB", "--no-timing"];
        imbrex(&[&["drive", "create", "--blank", &path], &shape[..]].concat()).ok();
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.dir.path().join(name).to_str().unwrap().to_owned()
    }
}

/// A server that has printed its address.
pub(crate) struct Serving {
    pub(crate) child: Child,
    stdout: BufReader<ChildStdout>,
    url: String,
}

pub(crate) fn serve(args: &[&str]) -> Serving {
    let mut command = command();
    command.arg("serve").args(args);
    serve_by(command)
}

/// The same by any command that becomes the server.
pub(crate) fn serve_by(mut command: Command) -> Serving {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    let url = line.trim_end().rsplit_once(" at ").map(|(_, url)| url.to_owned());
    Serving { child, stdout, url: url.unwrap_or_else(|| panic!("{line:?}")) }
}

impl Serving {
    /// Ends the server with Ctrl-C; returns its report.
    pub(crate) fn stop(mut self) -> String {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        let mut report = String::new();
        self.stdout.read_to_string(&mut report).unwrap();
        assert_eq!(self.child.wait().unwrap().code(), Some(0), "{report}");
        report
    }
}

/// Reads the greeting and disconnects.
fn greeted(mut stream: impl Read + Write) {
    let mut greeting = [0; 18];
    stream.read_exact(&mut greeting).unwrap();
    assert_eq!(&greeting[..16], b"NBDMAGICIHAVEOPT");
    stream.write_all(&3_u32.to_be_bytes()).unwrap();
}

/// Writes the first block; returns the error number of the reply, or 0.
pub(crate) fn wrote_block(mut stream: impl Read + Write) -> u32 {
    greeted(&mut stream);
    // Whatever is served under no name.
    stream.write_all(b"IHAVEOPT\0\0\0\x01\0\0\0\0").unwrap();
    stream.read_exact(&mut [0; 10]).unwrap();
    let mut request = b"\x25\x60\x95\x13\0\0\0\x01".to_vec();
    request.extend([0_u8; 16]);
    request.extend(4096_u32.to_be_bytes());
    request.extend([1_u8; 4096]);
    stream.write_all(&request).unwrap();
    let mut reply = [0; 16];
    stream.read_exact(&mut reply).unwrap();
    assert_eq!(reply[..4], *b"\x67\x44\x66\x98");
    u32::from_be_bytes(reply[4..8].try_into().unwrap())
}

/// Nothing was printed at the failure. At the end a flush was refused, and no message named the failure.
#[test]
fn failures_of_the_drive_are_reported_at_once_and_at_the_end() {
    let blank = Blank::new();
    let (drive, socket) = (blank.path("d"), blank.path("s"));
    let mut serving = serve(&["--drive", &drive, "--socket", &socket, "--cut-after", "0"]);
    let mut stderr = BufReader::new(serving.child.stderr.take().unwrap());
    assert_eq!(wrote_block(UnixStream::connect(&socket).unwrap()), 5, "EIO");
    let failed = format!("{drive} failed at writing bytes 0..4096: the disk has no power");
    let mut line = String::new();
    stderr.read_line(&mut line).unwrap();
    assert!(line.starts_with(&format!("imbrex: warning: {failed}")), "{line}");
    let pid = rustix::process::Pid::from_child(&serving.child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert_eq!(serving.child.wait().unwrap().code(), Some(4));
    let mut end = String::new();
    stderr.read_to_string(&mut end).unwrap();
    assert_eq!(end.lines().count(), 1, "{end}");
    assert!(end.contains("the last flush failed") && end.contains(&failed), "{end}");
}

#[test]
fn a_collector_reads_the_counters_while_the_drive_is_served() {
    let what = ["--memory", "1MiB", "--listen", "127.0.0.1:0", "--metrics"];
    let mut serving = serve(&[&what[..], &["127.0.0.1:0"]].concat());
    let mut line = String::new();
    BufReader::new(serving.child.stderr.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.trim_end().strip_prefix("imbrex: metrics at http://").unwrap();
    let address = address.strip_suffix("/metrics").unwrap();
    let get = |path: &str| {
        let mut socket = TcpStream::connect(address).unwrap();
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        socket.write_all(request.as_bytes()).unwrap();
        let mut reply = String::new();
        socket.read_to_string(&mut reply).unwrap();
        reply
    };
    let writes =
        |count: u32| format!("imbrex_serve_writes_total{{drive=\"a drive in memory\"}} {count}\n");
    assert!(get("/metrics").contains(&writes(0)));
    let nbd = serving.url.strip_prefix("nbd://").unwrap().trim_end_matches('/');
    assert_eq!(wrote_block(TcpStream::connect(nbd).unwrap()), 0);
    let metrics = get("/metrics");
    assert!(metrics.contains(&writes(1)), "{metrics}");
    assert!(
        metrics.contains("imbrex_drive_written_bytes_total{drive=\"a drive in memory\"} 4096\n")
    );
    assert!(get("/").starts_with("HTTP/1.1 404"));
    assert!(serving.stop().contains("writes"));
    imbrex(&[&["serve"], &what[..], &["0.0.0.0:0"]].concat()).fails(2, &["other machines"]);
}

/// Its output has no reader; it serves all the same.
#[test]
fn serving_goes_on_without_a_reader_of_its_output() {
    let blank = Blank::new();
    let socket = blank.path("s");
    let mut child = command()
        .args(["serve", "--drive", &blank.path("d"), "--socket", &socket])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let mut stream = loop {
        assert_eq!(child.try_wait().unwrap(), None);
        match UnixStream::connect(&socket) {
            Ok(stream) => break stream,
            Err(_) => std::thread::yield_now(),
        }
    };
    let mut greeting = [0; 8];
    stream.read_exact(&mut greeting).unwrap();
    assert_eq!(&greeting, b"NBDMAGIC");
    drop(stream);
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    let ended = child.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(0), "{}", String::from_utf8_lossy(&ended.stderr));
}

#[test]
fn a_drive_is_served_until_ctrl_c() {
    let blank = Blank::new();
    let (drive, socket) = (blank.path("d"), blank.path("s"));
    let serving = serve(&["--drive", &drive, "--socket", &socket, "--name", "disk"]);
    assert_eq!(serving.url, format!("nbd+unix:///disk?socket={socket}"));
    greeted(UnixStream::connect(&socket).unwrap());
    let twice = imbrex(&["serve", "--drive", &drive, "--socket", &blank.path("t")]);
    twice.fails(4, &["cannot open", "in use"]);
    let same = imbrex(&["serve", "--memory", "1MiB", "--socket", &socket]);
    same.fails(4, &[&socket, "a server listens there"]);
    let report = serving.stop();
    assert!(report.contains("connections"), "{report}");
    assert!(!PathBuf::from(socket).exists());
}

/// With a free port and JSON output, the port was never printed.
#[test]
fn the_address_is_printed_beside_json() {
    let blank = Blank::new();
    let socket = blank.path("s");
    let mut child = command()
        .args(["serve", "--memory", "1MiB", "--socket", &socket, "--format", "json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let stream = loop {
        assert_eq!(child.try_wait().unwrap(), None);
        match UnixStream::connect(&socket) {
            Ok(stream) => break stream,
            Err(_) => std::thread::yield_now(),
        }
    };
    greeted(stream);
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    let ran = crate::ran(child.wait_with_output().unwrap());
    let url = format!("nbd+unix:///?socket={socket}");
    assert!(ran.stderr.contains(&format!(" at {url}\n")), "{}", ran.stderr);
    assert_eq!(ran.json()["address"], url);
}

#[test]
fn a_port_is_served_and_a_dead_servers_socket_replaced() {
    let serving = serve(&["--memory", "1MiB", "--listen", "127.0.0.1:0"]);
    let address = serving.url.strip_prefix("nbd://").unwrap().trim_end_matches('/');
    greeted(TcpStream::connect(address).unwrap());
    serving.stop();
    let blank = Blank::new();
    let socket = blank.path("s");
    drop(UnixListener::bind(&socket).unwrap());
    let mut serving = serve(&["--memory", "1MiB", "--socket", &socket]);
    greeted(UnixStream::connect(&socket).unwrap());
    let mut stderr = serving.child.stderr.take().unwrap();
    serving.stop();
    let mut warning = String::new();
    stderr.read_to_string(&mut warning).unwrap();
    assert!(warning.contains("a server that has ended"), "{warning}");
}

#[test]
fn drives_that_cannot_be_served_are_refused() {
    let blank = Blank::new();
    let (socket, store) = (blank.path("s"), blank.path("store"));
    let at = |drive: &str| imbrex(&["serve", "--drive", drive, "--socket", &socket]);
    at(&blank.path("none")).fails(4, &["none"]);
    for rule in ["shingled", "interlaced"] {
        blank.create(rule, rule);
        at(&blank.path(rule)).fails(4, &[rule, "translation layer"]);
    }
    let shape = ["--rule", "conventional", "--capacity", "1GiB", "--no-timing"];
    imbrex(&[&["drive", "create", &store], &shape[..]].concat()).ok();
    at(&store).fails(4, &["holds a store", "--blank", "--read-only"]);
    serve(&["--drive", &store, "--socket", &socket, "--read-only"]).stop();
    std::fs::write(&socket, "precious").unwrap();
    at(&blank.path("d")).fails(4, &["not a socket"]);
    assert_eq!(std::fs::read(&socket).unwrap(), b"precious");
}

#[test]
fn a_zoned_drive_is_served_through_the_block_driver() {
    let blank = Blank::new();
    let (drive, socket) = (blank.path("z"), blank.path("s"));
    let shape = ["--rule", "zoned", "--zone-len", "1MiB", "--capacity", "64MiB", "--no-timing"];
    imbrex(&[&["drive", "create", &drive, "--blank"], &shape[..]].concat()).ok();
    let args = ["serve", "--drive", &drive, "--socket", &socket, "--buffer", "1MiB"];
    imbrex(&args).fails(4, &["no block device yet", "--make"]);
    // If the record cannot be created, no block device is made. If nothing is served, no record is left.
    let taken = [&args[..], &["--make", "--record", &drive]].concat();
    imbrex(&taken).fails(4, &["cannot record to", "File exists"]);
    let record = blank.path("none.csv");
    let unmade = [&args[..], &["--record", &record]].concat();
    imbrex(&unmade).fails(4, &["no block device yet", "--make"]);
    assert!(!PathBuf::from(record).exists());
    let made = serve(&[&args[1..], &["--make"]].concat());
    greeted(UnixStream::connect(&socket).unwrap());
    let report = made.stop();
    assert!(report.contains("checkpoints"), "{report}");
    // The block device exists now: --make does not make it again.
    serve(&[&args[1..], &["--make"]].concat()).stop();
    for command in ["stats", "dump", "scan"] {
        imbrex(&[command, &drive]).fails(4, &["it holds a block device"]);
    }
    assert!(imbrex(&["drive", "info", &drive]).ok().contains("a block device"));
    let record = ["--record".to_owned(), blank.path("trace.csv")];
    let record = [&args[1..], &[&record[0], &record[1]]].concat();
    let report = serve(&record).stop();
    assert!(report.contains("recorded\n  reads "), "{report}");
    let trace = std::fs::read_to_string(blank.path("trace.csv")).unwrap();
    assert_eq!(trace, "time_us,op,offset_bytes,size_bytes\n");
    imbrex(&[&["serve"], &record[..]].concat()).fails(4, &["trace.csv", "File exists"]);
    // A power cut during its opening does not lose it.
    imbrex(&[&args[..], &["--cut-after", "0"]].concat()).fails(4, &["the disk has no power"]);
    serve(&args[1..]).stop();
    let small = blank.path("small");
    let shape = ["--rule", "zoned", "--zone-len", "4MiB", "--capacity", "64MiB", "--no-timing"];
    imbrex(&[&["drive", "create", &small, "--blank"], &shape[..]].concat()).ok();
    let args = ["serve", "--drive", &small, "--socket", &socket, "--buffer", "1MiB", "--make"];
    imbrex(&args).fails(4, &["sequential zones that can be written", "sequential zones"]);
}

/// A block device is checked and drawn without a server.
#[test]
fn a_block_device_is_checked_and_drawn() {
    let blank = Blank::new();
    let drive = blank.path("z");
    let shape = ["--rule", "zoned", "--zone-len", "1MiB", "--capacity", "64MiB", "--no-timing"];
    imbrex(&[&["drive", "create", &drive, "--blank"], &shape[..]].concat()).ok();
    let disk = imbrex_disk_sim::SimDisk::open_image(drive.as_ref(), Default::default()).unwrap();
    let options = DriverOptions { buffer_len: Blocks::holding(1 << 20), ..Default::default() };
    let device = BlockDriver::format(Arc::new(disk), &options).unwrap();
    for (at, byte) in (0..1024).step_by(8).zip(1..) {
        device.write(Lba::new(at), &[byte; 8 * 4096], Persist::Cached).unwrap();
    }
    device.flush().unwrap();
    drop(device);

    let report = imbrex(&["check", &drive]).ok();
    assert!(report.contains("every block can be read"), "{report}");
    let picture = imbrex(&["drive", "zones", &drive]).ok();
    let holds: String =
        picture.lines().filter_map(|line| line.trim().strip_prefix("holds")).collect();
    for held in ['d', 'L', 'k'] {
        assert!(holds.contains(held), "{held}: {picture}");
    }
    let json = imbrex(&["--format", "json", "drive", "zones", &drive]).ok();
    assert!(json.contains("block_device"), "{json}");

    // A block that was evicted from the buffer to a data zone.
    let image = std::fs::read(&drive).unwrap();
    let blocks: Vec<usize> = (0..image.len() - 4096)
        .step_by(4096)
        .filter(|&at| image[at..at + 4096].iter().all(|&byte| byte == 1))
        .collect();
    let mut damaged = image;
    blocks.iter().for_each(|&at| damaged[at] ^= 4);
    assert!(!blocks.is_empty());
    std::fs::write(&drive, damaged).unwrap();
    let wrong = ["32.0 KiB at byte 0 of the device cannot be read", "writing there again"];
    imbrex(&["check", &drive]).fails(5, &wrong);
    imbrex(&["stats", &drive]).fails(4, &["`imbrex check` verifies"]);
}

/// It was taken for a store with a damaged catalog, and could not be opened.
#[test]
fn a_block_device_that_has_lost_a_zone_of_superblocks_is_served() {
    use imbrex_disk::{Geometry, GeometrySpec, Rule, ZoneSpec};
    use imbrex_disk_sim::{SimDisk, ZoneFailure};
    let blank = Blank::new();
    let socket = blank.path("s");
    for (zone, conventional) in [(0, 0), (1, 0), (0, 4), (1, 4)] {
        let drive = blank.path(&format!("z{zone}-{conventional}"));
        let rule = Rule::AtPointer(ZoneSpec {
            zone_len: Blocks::new(256),
            zone_capacity: Blocks::new(256),
            conventional_zone_count: conventional,
            open_zone_limit: None,
            active_zone_limit: None,
            strict_reads: true,
        });
        let geometry = Geometry::new(GeometrySpec { len: Blocks::new(64 * 256), rule }).unwrap();
        drop(SimDisk::builder(geometry).create_image(drive.as_ref(), "", 1).unwrap());
        let open = || SimDisk::open_image(drive.as_ref(), Default::default()).unwrap();
        let options = DriverOptions { buffer_len: Blocks::holding(1 << 20), ..Default::default() };
        let device = BlockDriver::format(Arc::new(open()), &options).unwrap();
        device.write(Lba::new(5), &[5; 4096], Persist::Through).unwrap();
        drop(device);
        open().fail_zone(ZoneId(zone), ZoneFailure::Offline).unwrap();
        let report = imbrex(&["check", &drive]).ok();
        assert!(report.contains("every block can be read"), "{report}");
        assert!(imbrex(&["drive", "info", &drive]).ok().contains("a block device"));
        let json = imbrex(&["--format", "json", "drive", "zones", &drive]).ok();
        assert!(json.contains("\"checkpoint\""), "{json}");
        imbrex(&["stats", &drive]).fails(4, &["it holds a block device"]);
        let serving = serve(&["--drive", &drive, "--socket", &socket, "--buffer", "1MiB"]);
        greeted(UnixStream::connect(&socket).unwrap());
        serving.stop();
        let device = BlockDriver::open(Arc::new(open()), &options).unwrap();
        let mut read = [0; 4096];
        device.read(Lba::new(5), &mut read).unwrap();
        assert_eq!(read, [5; 4096], "zone {zone} of {conventional}");
    }
}

/// An export name that every server refuses: it ends a server that should have refused its drive.
fn too_long() -> String {
    "n".repeat(5000)
}

/// With one flipped bit in a header a store looked like a blank drive, which `--make` formats.
#[test]
fn no_block_device_is_made_on_a_written_drive() {
    let blank = Blank::new();
    let socket = blank.path("s");
    let refused = |drive: &str, code: i32, parts: &[&str]| {
        let before = std::fs::read(drive).unwrap();
        let args = ["serve", "--drive", drive, "--socket", &socket, "--buffer", "1MiB", "--make"];
        imbrex(&[&args[..], &["--name", &too_long()]].concat()).fails(code, parts);
        assert!(std::fs::read(drive).unwrap() == before, "{drive} is as it was");
    };
    let zoned = ["--rule", "zoned", "--zone-len", "1MiB", "--capacity", "64MiB", "--no-timing"];
    let conventional = ["--rule", "conventional", "--capacity", "64MiB", "--no-timing"];
    for (name, shape) in [("zoned", &zoned[..]), ("conventional", &conventional)] {
        let drive = blank.path(name);
        imbrex(&[&["drive", "create", &drive], shape].concat()).ok();
        imbrex(&["put", &drive, "a", "1"]).ok();
        for damaged_len in [1, 4096] {
            let image = std::fs::read(&drive).unwrap();
            let headers =
                (0..image.len()).step_by(512).filter(|&at| image[at..].starts_with(b"IMBXCAT\n"));
            let mut damaged = image.clone();
            for at in headers {
                damaged[at..at + damaged_len].iter_mut().for_each(|byte| *byte ^= 16);
            }
            std::fs::write(&drive, damaged).unwrap();
            // Unknown data on a conventional drive belongs to its clients.
            if damaged_len == 1 {
                refused(&drive, 5, &["may hold a store", "catalog header"]);
            } else if name == "zoned" {
                refused(&drive, 4, &["zones", "written", "--make needs a blank drive"]);
            }
            std::fs::write(&drive, image).unwrap();
        }
        assert_eq!(imbrex(&["get", &drive, "a"]).ok(), "1");
    }
    // Nor is one that holds neither.
    let drive = blank.path("written");
    imbrex(&[&["drive", "create", "--blank", &drive], &zoned[..]].concat()).ok();
    let disk = imbrex_disk_sim::SimDisk::open_image(drive.as_ref(), Default::default()).unwrap();
    let zones = imbrex_disk::Disk::report_zones(&disk);
    let first = zones.iter().find(|zone| zone.state == imbrex_disk::ZoneState::Empty).unwrap();
    let through = imbrex_disk::Persist::Through;
    imbrex_disk::Disk::write(&disk, first.start, &[7; 4096], through).unwrap();
    drop(disk);
    refused(&drive, 4, &["1 of its 64 zones are written", "--blank"]);
}

#[test]
fn listening_to_other_machines_needs_permission() {
    let listen = |address: &str, more: &[&str]| {
        imbrex(&[&["serve", "--memory", "1MiB", "--listen", address], more].concat())
    };
    listen("0.0.0.0:0", &[]).fails(2, &["other machines", "--allow-remote"]);
    listen("nonsense", &[]).fails(2, &["nonsense", "127.0.0.1:10809"]);
    serve(&["--memory", "1MiB", "--listen", "0.0.0.0:0", "--allow-remote"]).stop();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    listen(&address, &[]).fails(4, &[&address, "in use"]);
}

#[test]
fn arguments_that_make_no_sense_are_refused() {
    imbrex(&["serve"]).fails_usage();
    imbrex(&["serve", "--memory", "1MiB"]).fails_usage();
    imbrex(&["serve", "--memory", "1MiB", "--drive", "d", "--socket", "s"]).fails_usage();
    imbrex(&["serve", "--memory", "1MiB", "--socket", "s", "--tls-require"]).fails_usage();
    imbrex(&["serve", "--memory", "100", "--socket", "s"]).fails(2, &["--memory"]);
    let blank = Blank::new();
    let (drive, at, name) = (blank.path("d"), blank.path("s"), too_long());
    let conventional = ["serve", "--drive", &drive, "--socket", &at, "--name", &name];
    for flags in [&["--make"][..], &["--buffer", "1MiB"]] {
        imbrex(&[&conventional[..], flags].concat())
            .fails(2, &["omit --make and --buffer, --buffer-min"]);
    }
    let dir = tempfile::tempdir().unwrap();
    let (socket, none) = (dir.path().join("s"), dir.path().join("none"));
    let (socket, none) = (socket.to_str().unwrap(), none.to_str().unwrap());
    let tls =
        ["serve", "--memory", "1MiB", "--socket", socket, "--tls-cert", none, "--tls-key", none];
    match cfg!(feature = "tls") {
        true => imbrex(&tls).fails(4, &["cannot offer TLS", none, "PEM"]),
        false => imbrex(&tls).fails(4, &["cannot offer TLS", "build it with `--features tls`"]),
    };
}

#[test]
fn ublk_works_or_explains_how_to_get_it() {
    let blank = Blank::new();
    for args in [["--name", "disk"], ["--connections", "3"], ["--socket", "s"]] {
        let ran = imbrex(&[&["serve", "--memory", "1MiB", "--ublk"], &args[..]].concat());
        assert_eq!(ran.code, Some(2), "{}", ran.stderr);
        assert!(ran.stderr.contains("--ublk"), "{}", ran.stderr);
    }
    // A refused drive is not written: no block device is made on it.
    let drive = blank.path("z");
    let shape = ["--rule", "zoned", "--zone-len", "1MiB", "--capacity", "64MiB", "--no-timing"];
    imbrex(&[&["drive", "create", &drive, "--blank"], &shape[..]].concat()).ok();
    let before = std::fs::read(&drive).unwrap();
    let refused = imbrex(&["serve", "--drive", &drive, "--make", "--ublk"]);
    if cfg!(not(feature = "ublk")) {
        refused.fails(4, &["built without ublk", "--features ublk", "libclang", "NBD"]);
    } else if !PathBuf::from("/dev/ublk-control").exists() {
        refused.fails(4, &["no /dev/ublk-control", "modprobe ublk_drv", "Linux 6.0", "NBD"]);
    }
    assert!(std::fs::read(&drive).unwrap() == before);
}

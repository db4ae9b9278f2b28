//! `serve --read-only`: it serves what is there, and writes nothing to the drive.

use crate::imbrex;
use crate::read_only::state;
use crate::serving::{Blank, Serving, serve, serve_by};
use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const BLOCK_LEN: usize = 4096;
const EPERM: u32 = 1;

/// A client over NBD.
struct Client {
    stream: UnixStream,
    len: u64,
}

#[derive(Clone, Copy)]
enum Ask {
    Read = 0,
    Write = 1,
    Flush = 3,
    Trim = 4,
}

impl Client {
    fn new(socket: &str) -> Client {
        let mut stream = UnixStream::connect(socket).unwrap();
        stream.read_exact(&mut [0; 18]).unwrap();
        stream.write_all(&3_u32.to_be_bytes()).unwrap();
        // Whatever is served under no name.
        stream.write_all(b"IHAVEOPT\0\0\0\x01\0\0\0\0").unwrap();
        let mut told = [0; 10];
        stream.read_exact(&mut told).unwrap();
        Client { stream, len: u64::from_be_bytes(told[..8].try_into().unwrap()) }
    }

    /// Returns the error number of the reply, or 0.
    fn ask(&mut self, what: Ask, offset: u64, len: usize, data: &[u8]) -> u32 {
        let mut request = b"\x25\x60\x95\x13\0\0".to_vec();
        request.extend((what as u16).to_be_bytes());
        request.extend([0; 8]);
        request.extend(offset.to_be_bytes());
        request.extend((len as u32).to_be_bytes());
        request.extend(data);
        self.stream.write_all(&request).unwrap();
        let mut reply = [0; 16];
        self.stream.read_exact(&mut reply).unwrap();
        u32::from_be_bytes(reply[4..8].try_into().unwrap())
    }

    fn write(&mut self, at: u64, byte: u8) {
        let offset = at * BLOCK_LEN as u64;
        assert_eq!(self.ask(Ask::Write, offset, BLOCK_LEN, &[byte; BLOCK_LEN]), 0, "block {at}");
    }

    fn flush(&mut self) {
        assert_eq!(self.ask(Ask::Flush, 0, 0, &[]), 0);
    }

    fn all(&mut self) -> Vec<u8> {
        let mut all = vec![0; self.len as usize];
        for (part, offset) in all.chunks_mut(1 << 20).zip((0..).step_by(1 << 20)) {
            assert_eq!(self.ask(Ask::Read, offset, part.len(), &[]), 0, "byte {offset}");
            self.stream.read_exact(part).unwrap();
        }
        all
    }
}

/// Which state a drive is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Left {
    Closed,
    /// Killed with a full write buffer.
    Killed,
    /// Killed with every block written.
    Full,
}

/// A zoned drive with a block device in this state, and what was flushed to it.
fn device(blank: &Blank, left: Left) -> (String, Vec<u8>) {
    let (drive, socket) = (blank.path(&format!("{left:?}")), blank.path("w"));
    let shape = ["--rule", "zoned", "--zone-len", "1MiB", "--capacity", "64MiB", "--no-timing"];
    imbrex(&[&["drive", "create", &drive, "--blank"], &shape[..]].concat()).ok();
    let what = ["--drive", &drive, "--make", "--socket", &socket, "--buffer", "1MiB"];
    let mut serving = serve(&what);
    let mut client = Client::new(&socket);
    let mut expected = vec![0_u8; client.len as usize];
    let count = client.len / BLOCK_LEN as u64;
    let step = if left == Left::Full { 1 } else { 7 };
    for at in (0..count).step_by(step).chain((0..count).step_by(20)) {
        let byte = expected[at as usize * BLOCK_LEN].wrapping_add(at as u8 | 1);
        expected[at as usize * BLOCK_LEN..][..BLOCK_LEN].fill(byte);
        client.write(at, byte);
    }
    client.flush();
    match left {
        Left::Closed => _ = serving.stop(),
        Left::Killed | Left::Full => {
            serving.child.kill().unwrap();
            serving.child.wait().unwrap();
        }
    }
    (drive, expected)
}

/// How the process has `path` open: its flags, of which the last two bits say whether it may write.
fn access_of(serving: &Serving, path: &str) -> u32 {
    let process = format!("/proc/{}", serving.child.id());
    let is_it = |fd: &fs::DirEntry| fs::read_link(fd.path()).unwrap_or_default() == Path::new(path);
    let mut fds = fs::read_dir(format!("{process}/fd")).unwrap().map(Result::unwrap);
    let fd = fds.find(is_it).unwrap().file_name().into_string().unwrap();
    let info = fs::read_to_string(format!("{process}/fdinfo/{fd}")).unwrap();
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:")).unwrap();
    u32::from_str_radix(flags.trim(), 8).unwrap() & 3
}

#[test]
fn a_device_that_is_only_read_changes_nothing_on_its_drive() {
    let blank = Blank::new();
    for left in [Left::Closed, Left::Killed, Left::Full] {
        let (drive, expected) = device(&blank, left);
        fs::set_permissions(&drive, Permissions::from_mode(0o444)).unwrap();
        let before = state(drive.as_ref());
        let (socket, control) = (blank.path("s"), blank.path("c"));
        let what = ["--drive", &drive, "--read-only", "--socket", &socket, "--control", &control];
        let serving = serve(&what);
        assert_eq!(access_of(&serving, &drive), 0, "O_RDONLY");
        let mut client = Client::new(&socket);
        assert!(client.all() == expected, "{left:?}");
        assert_eq!(client.ask(Ask::Write, 0, BLOCK_LEN, &[1; BLOCK_LEN]), EPERM);
        assert_eq!(client.ask(Ask::Trim, 0, BLOCK_LEN, &[]), EPERM);
        client.flush();
        let ask = |words: &[&str]| {
            let asked = [&["device", words[0], &control], &words[1..], &["--format", "json"]];
            imbrex(&asked.concat())
        };
        for words in [&["buffer", "2MiB"][..], &["checkpoint"], &["clean"]] {
            ask(words).fails(4, &["--read-only", "nothing is written"]);
        }
        let status = ask(&["status"]).json();
        assert_eq!(
            (&status["is_read_only"], &status["buffer"]["len_bytes"]),
            (&true.into(), &().into())
        );
        let used = status["buffer"]["used_bytes"].as_u64().unwrap();
        assert!(left == Left::Closed || used > 0, "{status}");
        // Two readers share it. Both are idle for a while, in which a writer would work.
        let other = blank.path("t");
        let second = serve(&["--drive", &drive, "--read-only", "--socket", &other]);
        assert!(Client::new(&other).all() == expected, "{left:?}");
        client.stream.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
        client.stream.read_exact(&mut [0]).unwrap_err();
        client.stream.set_read_timeout(None).unwrap();
        assert!(client.all() == expected, "{left:?}");
        second.stop();
        serving.stop();
        assert!(before == state(drive.as_ref()), "{left:?}: the file has changed");

        fs::set_permissions(&drive, Permissions::from_mode(0o644)).unwrap();
        let writer = serve(&["--drive", &drive, "--socket", &socket, "--buffer", "1MiB"]);
        assert!(Client::new(&socket).all() == expected, "{left:?}");
        writer.stop();
    }
}

#[test]
fn a_full_host_stops_no_server_that_only_reads() {
    let blank = Blank::new();
    let (drive, expected) = device(&blank, Left::Killed);
    let socket = blank.path("s");
    // The shell's limit on file length stands for a full disk: writes past it fail in the same way.
    let on_full_host = |more: &str| {
        let program = env!("CARGO_BIN_EXE_imbrex");
        let serve = format!("serve --drive {drive} --socket {socket} {more}");
        let mut command = Command::new("bash");
        command.args(["-c", &format!("trap '' XFSZ; ulimit -f 0; exec {program} {serve}")]);
        command
    };
    crate::ran(on_full_host("").output().unwrap()).fails(4, &["cannot serve"]);
    let before = state(drive.as_ref());
    let serving = serve_by(on_full_host("--read-only"));
    assert!(Client::new(&socket).all() == expected);
    serving.stop();
    assert!(before == state(drive.as_ref()), "the file has changed");
}

#[test]
fn a_drive_without_zones_that_is_only_read_stays_as_it_is() {
    let blank = Blank::new();
    let (drive, socket) = (blank.path("d"), blank.path("s"));
    let serving = serve(&["--drive", &drive, "--socket", &socket]);
    let mut client = Client::new(&socket);
    client.write(3, 7);
    client.flush();
    drop(client);
    serving.stop();
    fs::set_permissions(&drive, Permissions::from_mode(0o444)).unwrap();
    let before = state(drive.as_ref());
    let serving = serve(&["--drive", &drive, "--socket", &socket, "--read-only"]);
    assert_eq!(access_of(&serving, &drive), 0, "O_RDONLY");
    let mut client = Client::new(&socket);
    let mut block = [0; BLOCK_LEN];
    assert_eq!(client.ask(Ask::Read, 3 * BLOCK_LEN as u64, BLOCK_LEN, &[]), 0);
    client.stream.read_exact(&mut block).unwrap();
    assert_eq!(block, [7; BLOCK_LEN]);
    assert_eq!(client.ask(Ask::Write, 0, BLOCK_LEN, &[1; BLOCK_LEN]), EPERM);
    client.flush();
    drop(client);
    serving.stop();
    assert!(before == state(drive.as_ref()), "the file has changed");
}

/// It would make a block device, on a drive to which nothing may be written.
#[test]
fn nothing_is_made_on_a_drive_that_is_only_read() {
    let blank = Blank::new();
    blank.create("z", "zoned");
    let (drive, socket) = (blank.path("z"), blank.path("s"));
    let before = state(drive.as_ref());
    let args = ["serve", "--drive", &drive, "--socket", &socket, "--read-only"];
    imbrex(&[&args[..], &["--make"]].concat()).fails_usage();
    let refused = imbrex(&args).fails(4, &["it holds no block device yet"]);
    assert!(!refused.contains("--make"), "{refused}");
    assert!(before == state(drive.as_ref()), "the file has changed");
}

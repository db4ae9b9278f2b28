//! The control socket of `serve`, and `device`, which asks it.

use crate::serving::{Blank, Serving, serve, wrote_block};
use crate::{Ran, imbrex};
use std::fs::Permissions;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

fn ask(control: &str, words: &[&str]) -> Ran {
    imbrex(&[&["device", words[0], control], &words[1..], &["--format", "json"]].concat())
}

/// A zoned drive, served with a control socket.
fn zoned(blank: &Blank, more: &[&str]) -> Serving {
    if !Path::new(&blank.path("z")).exists() {
        blank.create("z", "zoned");
    }
    let (drive, socket, control) = (blank.path("z"), blank.path("s"), blank.path("c"));
    let what = ["--drive", &drive, "--make", "--socket", &socket, "--control", &control];
    let what = [&what[..], &["--buffer", "8MiB"]].concat();
    serve(&[&what[..], more].concat())
}

#[test]
fn an_operator_asks_a_running_device() {
    let blank = Blank::new();
    let control = blank.path("c");
    let serving = zoned(&blank, &[]);
    assert_eq!(wrote_block(UnixStream::connect(blank.path("s")).unwrap()), 0);
    let status = ask(&control, &["status"]).json();
    assert_eq!(status["served"], blank.path("z"));
    assert_eq!(
        (&status["buffer"]["len_bytes"], &status["buffer"]["used_bytes"]),
        (&(8 << 20).into(), &4096.into())
    );
    assert_eq!(status["clients"]["connections"], 1);
    assert!(status["journal"]["zones"].as_u64() >= Some(4), "{status}");
    assert!(status["zones"]["free"].as_u64() > Some(4), "{status}");
    assert_eq!(ask(&control, &["buffer", "2MiB"]).json()["len_bytes"], 2 << 20);
    assert_eq!(ask(&control, &["status"]).json()["buffer"]["len_bytes"], 2 << 20);
    let checkpoints =
        || ask(&control, &["counters"]).json()["driver"]["checkpoints"].as_u64().unwrap();
    let before = checkpoints();
    assert!(ask(&control, &["checkpoint"]).json()["len_bytes"].as_u64() > Some(0));
    assert_eq!(checkpoints(), before + 1);
    assert_eq!(ask(&control, &["clean"]).json()["cleaned_zones"], 0, "nothing is garbage yet");
    let shown = imbrex(&["device", "status", &control]).ok();
    assert!(shown.contains("buffer\n") && shown.contains("2.00 MiB"), "{shown}");
    ask(&control, &["buffer", "1"]).fails(4, &["out of range", "1.00 MiB"]);
    // As at the start.
    let socket = blank.path("t");
    imbrex(&["serve", "--drive", &blank.path("y"), "--socket", &socket, "--buffer", "1"])
        .fails(2, &["out of range", "1.00 MiB"]);
    assert_eq!(ask(&control, &["buffer", "many"]).code, Some(2));
    serving.stop();
    assert!(!Path::new(&control).exists());
    ask(&control, &["status"]).fails(4, &[&control, "imbrex serve --control"]);
}

/// A killed server leaves its socket behind, which the next one replaces; a living server's stays its own.
#[test]
fn a_control_socket_has_one_living_server() {
    let blank = Blank::new();
    let control = blank.path("c");
    let mut killed = zoned(&blank, &[]);
    let other = ["serve", "--memory", "1MiB", "--socket", &blank.path("t"), "--control", &control];
    imbrex(&other).fails(4, &[&control, "a server listens there"]);
    killed.child.kill().unwrap();
    killed.child.wait().unwrap();
    ask(&control, &["status"]).fails(4, &[&control, "its server has ended"]);
    let mut next = zoned(&blank, &[]);
    assert_eq!(ask(&control, &["status"]).json()["served"], blank.path("z"));
    let mode = std::fs::metadata(&control).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let mut stderr = next.child.stderr.take().unwrap();
    next.stop();
    let mut told = String::new();
    stderr.read_to_string(&mut told).unwrap();
    assert!(told.contains("replaced the control socket of a server that has ended"), "{told}");
}

#[test]
fn a_place_that_others_may_write_is_refused() {
    let blank = Blank::new();
    let open = blank.path("open");
    std::fs::create_dir(&open).unwrap();
    std::fs::set_permissions(&open, Permissions::from_mode(0o777)).unwrap();
    let (socket, control) = (blank.path("s"), format!("{open}/c"));
    let at = |control: &str| {
        imbrex(&["serve", "--memory", "1MiB", "--socket", &socket, "--control", control])
    };
    at(&control).fails(4, &["other users may write to", "mode 777", "chmod go-w"]);
    assert!(!Path::new(&socket).exists(), "it did not begin");
    at(&blank.path("d")).fails(4, &["is not a socket"]);
    at(&blank.path("none/c")).fails(4, &["cannot look at"]);
}

/// A client that asks without end and never reads: another is answered, and so is a client of the device.
#[test]
fn a_deaf_client_keeps_nobody_waiting() {
    let blank = Blank::new();
    let control = blank.path("c");
    let serving = zoned(&blank, &[]);
    let mut deaf = UnixStream::connect(&control).unwrap();
    deaf.set_write_timeout(Some(Duration::from_millis(500))).unwrap();
    while deaf.write_all(&b"help\nstatus\n".repeat(1000)).is_ok() {}
    assert_eq!(ask(&control, &["status"]).json()["served"], blank.path("z"));
    assert_eq!(wrote_block(UnixStream::connect(blank.path("s")).unwrap()), 0);
    // The server is not kept from ending, either.
    serving.stop();
}

/// The buffer follows a pressure that a file pretends, and comes to no less than it may.
#[test]
fn the_buffer_shrinks_while_the_host_is_short_of_memory() {
    let blank = Blank::new();
    let (control, file) = (blank.path("c"), blank.path("pressure"));
    let pretend = |total_us: u64| {
        let text = format!("some avg10=0.00 avg60=0.00 avg300=0.00 total={total_us}\n");
        // Replaced as a whole: the server may read at any time.
        std::fs::write(format!("{file}.new"), text).unwrap();
        std::fs::rename(format!("{file}.new"), &file).unwrap();
    };
    pretend(0);
    let serving = zoned(&blank, &["--buffer-min", "5MiB", "--pressure", &file]);
    let buffer = || ask(&control, &["status"]).json()["buffer"].clone();
    assert_eq!(
        (&buffer()["wanted_bytes"], &buffer()["min_bytes"]),
        (&(8 << 20).into(), &(5 << 20).into())
    );
    let mut total_us = 0;
    loop {
        total_us += 1_000_000;
        pretend(total_us);
        let now = buffer();
        let len = now["len_bytes"].as_u64().unwrap();
        assert!((5 << 20..=8 << 20).contains(&len), "{now}");
        if len == 5 << 20 {
            assert!(now["memory_stall_percent"].as_f64() > Some(5.0), "{now}");
            break;
        }
    }
    ask(&control, &["buffer", "4MiB"]).fails(4, &["--buffer-min, 5.00 MiB"]);
    serving.stop();
}

#[test]
fn a_host_that_tells_no_pressure_is_said_so() {
    let blank = Blank::new();
    let none = blank.path("none");
    let mut serving = zoned(&blank, &["--buffer-min", "5MiB", "--pressure", &none]);
    let mut line = String::new();
    BufReader::new(serving.child.stderr.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.contains(&none) && line.contains("keeps its length"), "{line}");
    let buffer = &ask(&blank.path("c"), &["status"]).json()["buffer"];
    assert!(buffer["pressure_unknown"].as_str().unwrap().contains("cannot read"), "{buffer}");
    serving.stop();
    let (drive, socket) = (blank.path("z"), blank.path("s"));
    let min =
        |min: &str| imbrex(&["serve", "--drive", &drive, "--socket", &socket, "--buffer-min", min]);
    min("1").fails(2, &["--buffer-min is 1 B", "from 1.00 MiB"]);
    min("1GiB").fails(2, &["--buffer-min is 1.00 GiB", "512 MiB"]);
}

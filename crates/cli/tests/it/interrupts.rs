//! A signal during a record, and a second signal.

use crate::crash::{begin_load, signal, wait_until_open};
use crate::{Drive, Ran, command};
use flate2::Compression;
use flate2::write::GzEncoder;
use rustix::fs::{SeekFrom, seek};
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Stdio};

/// Whether the drive's image contains these bytes; holes are skipped.
fn holds(drive: &Drive, bytes: &[u8]) -> bool {
    let image = File::open(drive.path()).unwrap();
    let mut at = 0;
    while let Ok(start) = seek(&image, SeekFrom::Data(at)) {
        at = seek(&image, SeekFrom::Hole(start)).unwrap();
        let mut data = vec![0; (at - start) as usize];
        image.read_exact_at(&mut data, start).unwrap();
        if data.windows(bytes.len()).any(|window| window == bytes) {
            return true;
        }
    }
    false
}

/// Sends Ctrl-C while the load waits for more than `input`, of which it has stored `whole` and read the rest.
fn interrupted(drive: &Drive, args: &[&str], input: &[u8], whole: Option<&str>) -> Ran {
    let args = [&["--sync-every", "1"], args].concat();
    let (mut child, mut stdin) = begin_load(drive, &args);
    // By then it listens for signals.
    wait_until_open(&mut child, &drive.path());
    stdin.write_all(input).unwrap();
    while rustix::io::ioctl_fionread(&stdin).unwrap() > 0
        || whole.is_some_and(|whole| !holds(drive, whole.as_bytes()))
    {
        assert_eq!(child.try_wait().unwrap(), None);
        std::thread::yield_now();
    }
    signal(&child, "-INT");
    let output = child.wait_with_output().unwrap();
    drop(stdin);
    crate::ran(output)
}

#[test]
fn half_a_record_is_not_stored() {
    let drive = Drive::new();
    drive.run("put", &["a", "old"]).ok();
    let check = |args: &[&str], input: &[u8], whole: Option<&str>| {
        interrupted(&drive, args, input, whole).fails(130, &["interrupted", "closed cleanly"]);
        assert_eq!(drive.run("get", &["a"]).ok(), "old", "{args:?}");
        if let Some(whole) = whole {
            assert_eq!(drive.run("get", &[whole]).ok(), whole, "{args:?}");
        }
    };
    let tsv = ["--lines", "tsv"];
    check(&tsv, b"key\tvalue\nfirst of tsv\tfirst of tsv\na\tne", Some("first of tsv"));
    let csv = b"key,value\nfirst of csv,first of csv\na,\"ne";
    check(&["--lines", "csv"], csv, Some("first of csv"));
    for (first, rest) in [("first of digits", "\"value\": 17"), ("first of one", "\"value\": 1}")] {
        let line = format!("{{\"key\": \"{first}\", \"value\": \"{first}\"}}\n");
        check(&[], format!("{line}{{\"key\": \"a\", {rest}").as_bytes(), Some(first));
    }
    check(&tsv, b"key\tval", None);
    check(&tsv, b"", None);

    let mut gz = GzEncoder::new(Vec::new(), Compression::fast());
    gz.write_all(b"key\tvalue\nfirst of gz\tfirst of gz\na\tne").unwrap();
    gz.flush().unwrap();
    check(&tsv, gz.get_ref(), Some("first of gz"));
    let whole = gz.finish().unwrap();
    check(&tsv, &whole[..whole.len() - 4], Some("first of gz"));
    drive.run("check", &[]).ok();
}

/// Whether a signal is pending in `child`.
fn is_pending(child: &Child, number: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let pending = |line: &str| {
        let bits = line.strip_prefix("ShdPnd:")?.trim();
        Some(u64::from_str_radix(bits, 16).unwrap() >> (number - 1) & 1 == 1)
    };
    status.lines().find_map(pending).unwrap()
}

#[test]
fn a_second_signal_kills_and_a_lost_terminal_does_not() {
    const SIGHUP: u32 = 1;
    let drive = Drive::new();
    let fifo = drive.beside("fifo");
    let made = std::process::Command::new("mkfifo").arg(&fifo).status().unwrap();
    assert!(made.success());
    // It waits for a writer of the pipe, and cannot check for signals meanwhile.
    let mut child = command()
        .args(["load", drive.path_str(), fifo.to_str().unwrap()])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait_until_open(&mut child, &drive.path());
    for _ in 0..20 {
        signal(&child, "-HUP");
        while child.try_wait().unwrap().is_none() && is_pending(&child, SIGHUP) {
            std::thread::yield_now();
        }
        assert_eq!(child.try_wait().unwrap(), None);
    }
    while child.try_wait().unwrap().is_none() {
        signal(&child, "-TERM");
    }
    // A shell calls that 137.
    assert_eq!(child.wait().unwrap().signal(), Some(9));
    drive.run("check", &[]).ok();
}

/// `nohup imbrex load` ended at the hangup of its terminal.
#[test]
fn an_ignored_hangup_stays_ignored() {
    let drive = Drive::new();
    let mut child = std::process::Command::new("env")
        .args(["--ignore-signal=HUP", env!("CARGO_BIN_EXE_imbrex"), "load", drive.path_str(), "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    wait_until_open(&mut child, &drive.path());
    signal(&child, "-HUP");
    assert!(!is_pending(&child, 1), "it is gone, or about to be taken");
    stdin.write_all(b"{\"key\": \"a\", \"value\": 1}\n").unwrap();
    drop(stdin);
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!(drive.run("get", &["a"]).ok(), "1");
}

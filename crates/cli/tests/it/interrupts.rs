//! A signal in the middle of a record, and a second one.

use crate::crash::{begin_load, signal, wait_until_open};
use crate::{Drive, Ran, command};
use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::Write;
use std::process::{Child, Stdio};

/// Ctrl-C while the load waits for more than `input`, all of which it has read.
fn interrupted(drive: &Drive, args: &[&str], input: &[u8]) -> Ran {
    let (mut child, mut stdin) = begin_load(drive, args);
    // It listens to signals by then.
    wait_until_open(&mut child, &drive.path());
    stdin.write_all(input).unwrap();
    while rustix::io::ioctl_fionread(&stdin).unwrap() > 0 {
        std::thread::yield_now();
    }
    signal(&child, "-INT");
    let output = child.wait_with_output().unwrap();
    drop(stdin);
    crate::ran(output)
}

#[test]
fn half_a_record_is_none() {
    let drive = Drive::new();
    drive.run("put", &["a", "old"]).ok();
    let check = |args: &[&str], input: &[u8], whole: &[&str]| {
        interrupted(&drive, args, input).fails(130, &["interrupted", "closed cleanly"]);
        assert_eq!(drive.run("get", &["a"]).ok(), "old", "{args:?}");
        for key in whole {
            assert_eq!(drive.run("get", &[key]).ok(), *key, "{args:?}");
        }
    };
    let tsv = ["--lines", "tsv"];
    check(&tsv, b"key\tvalue\nt1\tt1\na\tne", &["t1"]);
    check(&["--lines", "csv"], b"key,value\nc1,c1\na,\"ne", &["c1"]);
    check(&[], b"{\"key\": \"j1\", \"value\": \"j1\"}\n{\"key\": \"a\", \"value\": 17", &["j1"]);
    check(&[], b"{\"key\": \"j2\", \"value\": \"j2\"}\n{\"key\": \"a\", \"value\": 1}", &["j2"]);
    check(&tsv, b"key\tval", &[]);
    check(&tsv, b"", &[]);

    let mut gz = GzEncoder::new(Vec::new(), Compression::fast());
    gz.write_all(b"key\tvalue\nz1\tz1\na\tne").unwrap();
    gz.flush().unwrap();
    check(&tsv, gz.get_ref(), &["z1"]);
    let whole = gz.finish().unwrap();
    check(&tsv, &whole[..whole.len() - 4], &["z1"]);
    drive.run("check", &[]).ok();
}

/// Whether a signal was sent that nothing in `child` has taken yet.
fn is_pending(child: &Child, number: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let pending = |line: &str| {
        let bits = line.strip_prefix("ShdPnd:")?.trim();
        Some(u64::from_str_radix(bits, 16).unwrap() >> (number - 1) & 1 == 1)
    };
    status.lines().find_map(pending).unwrap()
}

#[test]
fn a_second_signal_ends_it_at_once_but_no_lost_terminal_does() {
    const SIGHUP: u32 = 1;
    let drive = Drive::new();
    let fifo = drive.beside("fifo");
    let made = std::process::Command::new("mkfifo").arg(&fifo).status().unwrap();
    assert!(made.success());
    // It waits for somebody to write into the pipe, and looks at nothing meanwhile.
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
    assert_eq!(child.wait().unwrap().code(), Some(137));
    drive.run("check", &[]).ok();
}

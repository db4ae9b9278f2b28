//! The reader of standard output or standard error has gone.

use crate::bad_input::data_offsets;
use crate::{Drive, command, copy_sparse, json_lines};
use std::io::{PipeWriter, Write};
use std::os::unix::fs::FileExt;
use std::process::Stdio;

/// A pipe without a reader.
fn unread() -> PipeWriter {
    std::io::pipe().unwrap().1
}

#[test]
fn a_failure_counts_even_if_the_report_is_not_read() {
    let drive = Drive::new();
    drive.run_with(json_lines(2000, 0).as_bytes(), "load", &["-"]).ok();
    drive.run("compact", &[]).ok();
    let unread_check = |path: &str| {
        let output = command().args(["check", path]).stdout(unread()).output().unwrap();
        crate::ran(output)
    };
    assert_eq!(unread_check(drive.path_str()).code, Some(0));
    let copy = drive.beside("damaged");
    let path = copy.to_str().unwrap();
    let mut has_findings = false;
    for at in data_offsets(&drive.path()).into_iter().rev() {
        copy_sparse(&drive.path(), &copy);
        let file = std::fs::OpenOptions::new().read(true).write(true).open(&copy).unwrap();
        let mut byte = [0];
        file.read_exact_at(&mut byte, at + 100).unwrap();
        file.write_all_at(&[!byte[0]], at + 100).unwrap();
        let read = crate::imbrex(&["check", path]);
        if read.code == Some(5) {
            unread_check(path).fails(5, &[]);
            has_findings |= String::from_utf8_lossy(&read.stdout).contains("wrong");
        }
        if has_findings {
            break;
        }
    }
    assert!(has_findings, "a report of damage was among them");
    let output = command().args(["get", drive.path_str(), "nosuch"]).stdout(unread()).output();
    crate::ran(output.unwrap()).fails(1, &["nosuch"]);
}

#[test]
fn a_reader_that_goes_away_ends_a_scan_quietly() {
    let drive = Drive::new();
    drive.run_with(json_lines(5000, 0).as_bytes(), "load", &["-"]).ok();
    let output = command().args(["scan", drive.path_str()]).stdout(unread()).output().unwrap();
    assert_eq!((output.status.code(), &*output.stderr), (Some(0), &b""[..]));
}

#[test]
fn a_closed_standard_error_stops_nothing() {
    let drive = Drive::new();
    let mut child = command()
        .args(["load", drive.path_str(), "-", "--on-error", "skip"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(unread())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(b"no json\n{\"key\": \"a\", \"value\": 1}\n").unwrap();
    drop(stdin);
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!(drive.run("get", &["a"]).ok(), "1");
    let status = command().args(["get", drive.path_str(), "b"]).stderr(unread()).status().unwrap();
    assert_eq!(status.code(), Some(1));
}

/// The second benchmark would take days.
#[test]
fn a_benchmark_stops_after_its_reader_has_gone() {
    let args = ["bench", "--benchmarks", "fillseq:10,fillrandom:100000000000"];
    let output = command().args(args).stdout(unread()).output().unwrap();
    assert_eq!((output.status.code(), &*output.stderr), (Some(0), &b""[..]));
}

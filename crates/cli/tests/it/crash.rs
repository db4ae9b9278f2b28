//! The process dies, or is asked to stop, in the middle of a load.

use crate::{Drive, Ran, json_lines, value};
use std::io::Write;
use std::process::{Child, ChildStdin, Stdio};

/// A load that waits for more input.
fn begin_load(drive: &Drive, args: &[&str]) -> (Child, ChildStdin) {
    let mut child = crate::command()
        .args(["load", drive.path_str(), "-"])
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let stdin = child.stdin.take().unwrap();
    (child, stdin)
}

fn signal(child: &Child, name: &str) {
    let pid = child.id().to_string();
    let status = std::process::Command::new("kill").args([name, &pid]).status().unwrap();
    assert!(status.success());
}

/// Every key has its value of round 1, or of round 0 from some key on: records are loaded in order.
#[track_caller]
fn assert_a_prefix_is_new(drive: &Drive, count: usize) -> usize {
    let scanned = drive.run("scan", &[]).ok();
    let lines: Vec<_> = scanned.lines().collect();
    assert_eq!(lines.len(), count);
    let mut new_count = 0;
    for (n, line) in lines.iter().enumerate() {
        let (key, got) = line.split_once('\t').unwrap();
        assert_eq!(key, format!("key{n:06}"));
        if got == value(n, 1) {
            assert_eq!(new_count, n, "a gap: {key} is new, one before is old");
            new_count += 1;
        } else {
            assert_eq!(got, value(n, 0), "{key}");
        }
    }
    new_count
}

#[test]
fn killed_in_the_middle_of_a_load_the_store_holds_a_prefix_of_it() {
    const COUNT: usize = 20_000;
    let drive = Drive::new();
    drive.run_with(json_lines(COUNT, 0).as_bytes(), "load", &["-"]).ok();
    let text = json_lines(COUNT, 1);
    for share in [1, 5, 9] {
        let (mut child, mut stdin) = begin_load(&drive, &["--sync-every", "500"]);
        stdin.write_all(&text.as_bytes()[..text.len() * share / 10]).unwrap();
        // All of it is in the pipe or read: what is read is at least all but a pipe's 64 KiB.
        signal(&child, "-KILL");
        child.wait().unwrap();
        drop(stdin);
        assert_a_prefix_is_new(&drive, COUNT);
        drive.run("check", &[]).ok();
    }
    assert!(assert_a_prefix_is_new(&drive, COUNT) > COUNT / 2, "synced records survive");
}

#[test]
fn ctrl_c_ends_a_load_cleanly_and_keeps_what_was_read() {
    const COUNT: usize = 2_000;
    let drive = Drive::new();
    drive.run_with(json_lines(COUNT, 0).as_bytes(), "load", &["-"]).ok();
    let (child, mut stdin) = begin_load(&drive, &["--format", "json"]);
    stdin.write_all(json_lines(COUNT / 2, 1).as_bytes()).unwrap();
    // The load now waits for the rest of its input, which never comes.
    signal(&child, "-INT");
    let output = child.wait_with_output().unwrap();
    drop(stdin);
    let ran = crate::ran(output);
    let report: serde_json::Value = serde_json::from_slice(&ran.stdout).unwrap();
    let loaded = report["records"].as_u64().unwrap() as usize;
    Ran { stdout: Vec::new(), ..ran }.fails(130, &["interrupted", "closed cleanly"]);
    assert_eq!(assert_a_prefix_is_new(&drive, COUNT), loaded);
    drive.run("check", &[]).ok();
}

//! The process is killed, or asked to stop, during a load, a compaction, a check or a benchmark.

use crate::{Drive, Ran, json_lines, value};
use imbrex_clockwork::Prng;
use std::io::Write;
use std::path::Path;
use std::process::{Child, ChildStdin, Stdio};

/// A load that waits for more input.
pub(crate) fn begin_load(drive: &Drive, args: &[&str]) -> (Child, ChildStdin) {
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

pub(crate) fn signal(child: &Child, name: &str) {
    let pid = child.id().to_string();
    let status = std::process::Command::new("kill").args([name, &pid]).status().unwrap();
    assert!(status.success());
}

/// Checks that keys have values of round 1 up to some key, and of round 0 after it: records are loaded in order.
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
fn after_a_kill_the_store_holds_a_prefix_of_the_load() {
    const COUNT: usize = 20_000;
    let drive = Drive::new();
    drive.run_with(json_lines(COUNT, 0).as_bytes(), "load", &["-"]).ok();
    let text = json_lines(COUNT, 1);
    for share in [1, 5, 9] {
        let (mut child, mut stdin) = begin_load(&drive, &["--sync-every", "500"]);
        stdin.write_all(&text.as_bytes()[..text.len() * share / 10]).unwrap();
        // All input is written, so the load has read all but at most the 64 KiB in the pipe.
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
    // The load now waits for more input, which never comes.
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

/// Waits until `child` has opened the file at `path`; by then it listens for signals.
pub(crate) fn wait_until_open(child: &mut Child, path: &Path) {
    let fds = format!("/proc/{}/fd", child.id());
    let is_open = || {
        let mut fds = std::fs::read_dir(&fds).into_iter().flatten().flatten();
        // The links of /proc lead to the file itself, and a directory of `path` may be a symbolic link.
        path.canonicalize().is_ok_and(|path| {
            fds.any(|fd| std::fs::read_link(fd.path()).is_ok_and(|to| to == path))
        })
    };
    while !is_open() && child.try_wait().unwrap().is_none() {
        std::thread::yield_now();
    }
}

/// Incompressible records, so that the work on them takes a while.
fn long_lines(count: usize, round: usize) -> String {
    let mut prng = Prng::new(round as u64);
    let mut line = |n| {
        let value: String = (0..125).map(|_| format!("{:016x}", prng.next_u64())).collect();
        format!("{{\"key\": \"key{n:06}\", \"value\": \"{value}\"}}\n")
    };
    (0..count).map(&mut line).collect()
}

#[test]
fn ctrl_c_ends_a_compaction_and_a_check_cleanly() {
    const COUNT: usize = 10_000;
    let drive = Drive::new();
    for command in ["compact", "check"] {
        let mut was_interrupted = false;
        // It may end before the signal arrives, but not every time.
        for round in 0..10 {
            let lines = long_lines(COUNT, round);
            drive.run_with(lines.as_bytes(), "load", &["-"]).ok();
            let mut child = crate::command()
                .args([command, drive.path_str()])
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap();
            wait_until_open(&mut child, &drive.path());
            signal(&child, "-INT");
            let ran = crate::ran(child.wait_with_output().unwrap());
            if ran.code != Some(0) {
                ran.fails(130, &["interrupted", "closed cleanly"]);
                was_interrupted = true;
            }
            let left = drive.run("scan", &["--format", "json"]).ok();
            assert!(left.replace("\":\"", "\": \"").replace(",", ", ") == lines, "{command}");
            if was_interrupted {
                break;
            }
        }
        assert!(was_interrupted, "{command}");
        drive.run("check", &[]).ok();
    }
    drive.run("compact", &[]).ok();
    assert_eq!(drive.run("scan", &["--keys-only"]).ok().lines().count(), COUNT);
}

#[test]
fn ctrl_c_ends_a_benchmark_with_the_figures_so_far() {
    let dir = tempfile::tempdir().unwrap();
    let image = dir.path().join("bench.imbrex");
    for mode in ["virtual", "threads"] {
        let mut child = crate::command()
            .args(["bench", "--benchmarks=fillrandom,readrandom", "--num=1000000000"])
            .args([&format!("--mode={mode}"), "--capacity=64G", "--format=json", "--image"])
            .arg(&image)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        wait_until_open(&mut child, &image);
        signal(&child, "-INT");
        let ran = crate::ran(child.wait_with_output().unwrap());
        let report: serde_json::Value = serde_json::from_slice(&ran.stdout).unwrap();
        Ran { stdout: Vec::new(), ..ran }.fails(130, &["interrupted", "closed cleanly"]);
        assert_eq!(report["interrupted"], true);
        let runs = report["runs"].as_array().unwrap();
        assert_eq!(runs.len(), 1, "the second benchmark never began: {report}");
        assert_eq!(runs[0]["interrupted"], true);
        let op_count = runs[0]["ops"].as_u64().unwrap() as usize;
        let image = image.to_str().unwrap();
        crate::imbrex(&["check", image]).ok();
        let keys = crate::imbrex(&["scan", image, "--keys-only", "--format=json"]).ok();
        let key_count = keys.lines().count();
        assert!(key_count <= op_count, "{key_count} keys of {op_count} writes");
        assert!(key_count * 2 >= op_count.min(1000), "what was written stays: {key_count}");
        std::fs::remove_file(image).unwrap();
    }
}

#[test]
fn ctrl_c_ends_a_ycsb_load_with_the_figures_so_far() {
    let dir = tempfile::tempdir().unwrap();
    let image = dir.path().join("ycsb.imbrex");
    for (mode, pace) in [("virtual", "table=t"), ("threads", "arrivalgenerator=poisson")] {
        let mut child = crate::command()
            .args(["ycsb", "load", "-p", "recordcount=1000000000", "-p", "table=t", "-p", pace])
            .args(["--target=1000", &format!("--mode={mode}"), "--capacity=64G", "--image"])
            .arg(&image)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        wait_until_open(&mut child, &image);
        signal(&child, "-INT");
        let ran = crate::ran(child.wait_with_output().unwrap());
        let output = String::from_utf8(ran.stdout.clone()).unwrap();
        assert!(output.starts_with("[OVERALL], RunTime(ms), "), "{output}");
        Ran { stdout: Vec::new(), ..ran }.fails(130, &["interrupted", "closed cleanly"]);
        crate::imbrex(&["check", image.to_str().unwrap()]).ok();
        std::fs::remove_file(&image).unwrap();
    }
}

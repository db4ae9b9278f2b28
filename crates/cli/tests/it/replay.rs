//! replay: a trace on the block driver, and impossible traces and options.

use crate::imbrex;
use std::fmt::Write;
use std::path::PathBuf;

/// 400 writes of 8 KiB over 4 MiB, and as many reads.
fn trace(dir: &tempfile::TempDir) -> PathBuf {
    let mut text = "time_us,op,offset_bytes,size_bytes\n".to_owned();
    for at in 0..400_u64 {
        let place = (at * 37 % 512) * 8192;
        writeln!(text, "{},W,{place},8192\n{},R,{place},4096", at * 20_000, at * 20_000 + 9_000)
            .unwrap();
    }
    let path = dir.path().join("trace.csv");
    std::fs::write(&path, text).unwrap();
    path
}

#[test]
fn a_trace_is_replayed_the_same_twice() {
    let dir = tempfile::tempdir().unwrap();
    let path = trace(&dir);
    let args = ["replay", path.to_str().unwrap(), "--zone-len", "1MiB", "--buffer", "1MiB"];
    let [first, second] =
        [0, 1].map(|_| imbrex(&[&args[..], &["--format", "json"]].concat()).json());
    assert_eq!(first, second);
    assert_eq!(first["complete"], true);
    assert_eq!(
        (first["done"]["reads"].as_u64(), first["done"]["writes"].as_u64()),
        (Some(400), Some(400))
    );
    let text = imbrex(&args).ok();
    assert!(text.contains("Read latency\n") && text.contains("p99 ms"), "{text}");
}

/// The same requests on both drives, in one table and in JSON.
#[test]
fn a_trace_is_replayed_beside_a_conventional_drive() {
    let dir = tempfile::tempdir().unwrap();
    let path = trace(&dir);
    let args = ["replay", path.to_str().unwrap(), "--zone-len", "1MiB", "--buffer", "1MiB"];
    let args = [&args[..], &["--beside", "conventional"]].concat();
    let text = imbrex(&args).ok();
    for row in ["read p99.9, ms", "write mean, ms", "MB/s"] {
        let line =
            text.lines().rfind(|line| line.starts_with(row)).unwrap_or_else(|| panic!("{text}"));
        assert_eq!(line[row.len()..].split_whitespace().count(), 3, "{line}");
    }
    let json = imbrex(&[&args[..], &["--format", "json"]].concat()).json();
    assert!(json["conventional_drive"]["mb_s"].as_f64() > Some(0.0), "{json}");
    let p99 = |section: &str| json[section]["p99_ms"].as_f64().unwrap();
    assert!(p99("conventional_drive_read_latency") > 1.0, "{json}");
    assert_eq!(p99("read_latency"), 0.0, "all is in the write buffer: {json}");
    assert_eq!(imbrex(&[&args[..6], &["--beside", "ssd"]].concat()).code, Some(2));
    let papers =
        imbrex(&[&args[..6], &["--cleaning", "paper", "--journal", "16MiB"]].concat()).ok();
    assert!(papers.contains("evicted for the journal"), "{papers}");
}

#[test]
fn bundled_traces_are_replayed() {
    let args = ["replay", "bundled:EXT4", "--squeeze", "--zone-len", "16MiB", "--limit", "500"];
    let report = imbrex(&[&args[..], &["--format", "json"]].concat()).json();
    assert_eq!(report["trace"]["requests"].as_u64(), Some(500));
    imbrex(&["replay", "bundled:xfs", "--trace-format", "msr"]).fails(2, &["--trace-format"]);
    imbrex(&["replay", "bundled:ntfs"])
        .fails(2, &["\"ntfs\"", "bundled:vm (an hour", "bundled:btrfs"]);
}

#[test]
fn impossible_replays_are_explained() {
    let dir = tempfile::tempdir().unwrap();
    let path = trace(&dir);
    let good = path.to_str().unwrap();
    let bad = dir.path().join("bad.csv");
    let bad = bad.to_str().unwrap();
    std::fs::write(bad, "1,W,0,512\nhello\n").unwrap();
    imbrex(&["replay", "/nonexistent"]).fails(4, &["trace /nonexistent", "No such file"]);
    imbrex(&["replay", bad]).fails(3, &["line 2", "time_us,op,offset_bytes,size_bytes", "hello"]);
    std::fs::write(bad, "hello\n").unwrap();
    imbrex(&["replay", bad]).fails(3, &["no known format begins with", "--trace-format"]);
    imbrex(&["replay", good, "--fill", "99"]).fails(2, &["--fill is 99"]);
    imbrex(&["replay", good, "--zone-len", "1KiB"]).fails(2, &["--zone-len is 1024 bytes"]);
    imbrex(&["replay", good, "--drive-size", "1GiB"]).fails(2, &["larger --drive-size"]);
    imbrex(&["repro", "driver-5", "--trace", &format!("LUN0={bad}")])
        .fails(3, &["no known format"]);
    imbrex(&["repro", "driver-5", "--trace", "LUN0=/nonexistent"]).fails(4, &["/nonexistent"]);
}

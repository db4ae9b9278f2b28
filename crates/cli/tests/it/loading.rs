//! load: formats, compression, fields, malformed lines.

use crate::{Drive, imbrex, json_lines, value};
use std::io::Write;

#[track_caller]
fn assert_loaded(drive: &Drive, count: usize, round: usize) {
    let scanned = drive.run("scan", &[]).ok();
    let expected: String =
        (0..count).map(|n| format!("key{n:06}\t{}\n", value(n, round))).collect();
    assert!(scanned == expected, "{} of {} bytes", scanned.len(), expected.len());
}

#[test]
fn json_lines_plain_and_compressed() {
    let drive = Drive::new();
    let text = json_lines(1000, 0);
    let report = drive.run_with(text.as_bytes(), "load", &["-", "--format", "json"]).json();
    assert_eq!(report["records"], 1000);
    let rates = &report["rates"];
    let number = |name: &str| rates[name].as_f64().unwrap_or_else(|| panic!("{name}: {report}"));
    let with_log = number("drive_bytes_per_user_byte_with_log");
    let without_log = number("drive_bytes_per_user_byte_without_log");
    assert!(1.0 < with_log && 0.0 < without_log && without_log < with_log - 0.9, "{report}");
    assert!(rates["drive_busy"].is_null(), "the drive has no mechanics: {report}");
    assert!(number("records_per_second") > 0.0 && number("user_mb_per_second") > 0.0);
    assert_loaded(&drive, 1000, 0);

    let zst = drive.beside("records.jsonl.zst");
    std::fs::write(&zst, zstd::encode_all(json_lines(1000, 1).as_bytes(), 1).unwrap()).unwrap();
    drive.run("load", &[zst.to_str().unwrap(), "--sync-every", "100"]).ok();
    assert_loaded(&drive, 1000, 1);

    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gz.write_all(json_lines(1000, 2).as_bytes()).unwrap();
    drive.run_with(&gz.finish().unwrap(), "load", &["-"]).ok();
    assert_loaded(&drive, 1000, 2);
}

#[test]
fn a_load_reports_its_rates_by_both_clocks() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("timed.imbrex");
    let path = path.to_str().unwrap();
    imbrex(&["drive", "create", path, "--capacity", "4GiB"]).ok();
    let records = dir.path().join("records.jsonl");
    std::fs::write(&records, json_lines(1000, 0)).unwrap();
    let load = ["load", path, records.to_str().unwrap()];
    let report = imbrex(&[&load[..], &["--format", "json"]].concat()).json();
    let rates = &report["rates"];
    let busy_s = rates["drive_busy"]["total_ns"].as_f64().unwrap() / 1e9;
    let per_disk_second = rates["records_per_disk_second"].as_f64().unwrap();
    assert!((per_disk_second * busy_s - 1000.0).abs() < 1.0, "{report}");
    let text = imbrex(&load).ok();
    assert!(text.contains("drive bytes per user byte, without log  "), "{text}");
}

#[test]
fn csv_and_tsv_with_other_fields() {
    let drive = Drive::new();
    let csv = drive.beside("a.csv");
    std::fs::write(&csv, "name,x,text\na,1,\"one, two\"\n").unwrap();
    let fields = ["--key-field", "name", "--value-field", "text"];
    drive.run("load", &[&[csv.to_str().unwrap()], &fields[..]].concat()).ok();
    drive.run_with(b"b\ttwo\n", "load", &["-", "--lines", "tsv", "--no-header"]).ok();
    // Every line was refused because of fields that it need not have.
    drive
        .run_with(json_lines(1, 0).as_bytes(), "load", &["-", "--no-header"])
        .fails(2, &["--no-header is for CSV and TSV", "--lines"]);
    assert_eq!(drive.run("scan", &[]).ok(), "a\tone, two\nb\ttwo\n");
    drive
        .run("load", &[csv.to_str().unwrap()])
        .fails(3, &["no column \"key\"", "name, x, text", "--key-field"]);
}

/// The rest of the file became the value of `b`, and the load succeeded.
#[test]
fn an_open_quote_ends_the_load_with_its_line() {
    let text = b"key,value\na,1\nb,\"two\nc,3\nd,4\n";
    for more in [&[][..], &["--on-error", "skip"]] {
        let drive = Drive::new();
        let args = [&["-", "--lines", "csv"], more].concat();
        let parts = ["standard input: line 3: a quote opens", "the record before it is stored"];
        drive.run_with(text, "load", &args).fails(3, &parts);
        assert_eq!(drive.run("scan", &[]).ok(), "a\t1\n");
    }
}

#[test]
fn marks_carriage_returns_and_lines_of_every_format() {
    let drive = Drive::new();
    let load =
        |text: &str, lines| drive.run_with(text.as_bytes(), "load", &["-", "--lines", lines]);
    let json = "{\"key\":\"a\",\"value\":\"1\"}\n{\"key\":\"b\",\"value\":\"2\"}\n";
    load(&format!("\u{feff}{json}"), "json").ok();
    load("\u{feff}key,value\nc,3\n", "csv").ok();
    load("\u{feff}key\tvalue\nd\tone\re\ttwo\n", "tsv").ok();
    assert_eq!(drive.run("scan", &[]).ok(), "a\t1\nb\t2\nc\t3\nd\tone\re\n");
    let bad = format!("{json}{{\"key\":\"\\ud800\",\"value\":\"3\"}}\n");
    let told = load(&bad, "json").fails(3, &["standard input: line 3: ", "at column 15"]);
    assert!(!told.contains("line 1"), "{told}");
}

#[test]
fn load_reads_the_output_of_scan() {
    let drive = Drive::new();
    drive.run_with(json_lines(100, 0).as_bytes(), "load", &["-"]).ok();
    drive.run_with(&[0, 255, 10, 9], "put", &["--hex-keys", "ff00"]).ok();
    let printed = drive.run("scan", &["--format", "json"]).ok();
    let copy = Drive::new();
    copy.run_with(printed.as_bytes(), "load", &["-"]).ok();
    assert_eq!(
        copy.run("scan", &["--format", "hex"]).ok(),
        drive.run("scan", &["--format", "hex"]).ok()
    );
}

#[test]
fn a_bad_line_stops_the_load_or_is_skipped() {
    let drive = Drive::new();
    let long_key = "k".repeat(70_000);
    let text = format!(
        "{{\"key\": \"a\", \"value\": 1}}\nno json\n{{\"key\": \"\", \"value\": 1}}\n\
         {{\"key\": \"{long_key}\", \"value\": 1}}\n{{\"key\": \"b\", \"value\": 2}}\n"
    );
    drive
        .run_with(text.as_bytes(), "load", &["-"])
        .fails(3, &["standard input: line 2", "not a JSON object", "--on-error skip"]);
    assert_eq!(drive.run("scan", &[]).ok(), "a\t1\n", "what came before stays");

    let ran = drive.run_with(text.as_bytes(), "load", &["-", "--on-error", "skip"]);
    for part in
        ["line 2: not a JSON", "line 3: the key is empty", "line 4: the key has 70000 bytes"]
    {
        assert!(ran.stderr.contains(part), "{part}: {}", ran.stderr);
    }
    assert!(ran.ok().contains("skipped lines  3"));
    assert_eq!(drive.run("scan", &[]).ok(), "a\t1\nb\t2\n");
}

#[test]
fn a_damaged_archive_is_reported_and_its_records_are_kept() {
    let drive = Drive::new();
    let mut zst = zstd::encode_all(json_lines(5000, 0).as_bytes(), 1).unwrap();
    zst.truncate(zst.len() / 2);
    drive.run_with(&zst, "load", &["-"]).fails(3, &["cannot read standard input after line"]);
    // No zstd frame of any version begins so.
    let zst = [&[0x28_u8, 0xb5, 0x2f, 0xfd][..], &[0xff; 40]].concat();
    drive.run_with(&zst, "load", &["-"]).fails(3, &["cannot read standard input after line 0"]);
    let gz = [0x1f, 0x8b, 8, 0, 1, 2, 3];
    drive
        .run_with(&gz, "load", &["-"])
        .fails(3, &["cannot read standard input", "nothing before it was stored"]);
    drive
        .run_with(&gz, "load", &["-", "--lines", "csv"])
        .fails(3, &["cannot read standard input after line 0"]);
    // Less than a batch: all of it was lost.
    let drive = Drive::new();
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gz.write_all(json_lines(900, 0).as_bytes()).unwrap();
    let mut gz = gz.finish().unwrap();
    gz.truncate(gz.len() - 8);
    let told = drive.run_with(&gz, "load", &["-"]).fails(3, &["cannot read standard input after"]);
    assert!(told.contains("after line 900") && told.contains("the 900 records before"), "{told}");
    assert_loaded(&drive, 900, 0);
}

/// If the host cannot store more of an image, the reported records are certainly stored: those before the last sync,
/// and none without a sync.
#[test]
fn a_full_host_keeps_the_reported_records() {
    let dir = tempfile::tempdir().unwrap();
    let records = dir.path().join("records.jsonl");
    std::fs::write(&records, json_lines(120_000, 0)).unwrap();
    for (name, every, more) in
        [("unsynced", None, &[][..]), ("synced", Some(300), &["--sync-every", "300"])]
    {
        let drive = dir.path().join(name).to_str().unwrap().to_owned();
        let shape = ["--capacity", "512MiB", "--zone-len", "4MiB", "--no-timing"];
        imbrex(&[&["drive", "create", &drive], &shape[..]].concat()).ok();
        // 10 MB, in blocks of 512 bytes: less than the log, however much is flushed meanwhile.
        let limited = "ulimit -f 20000; trap '' XFSZ; exec \"$@\"";
        let ended = std::process::Command::new("sh")
            .args(["-c", limited, "sh", env!("CARGO_BIN_EXE_imbrex"), "load", &drive])
            .arg(&records)
            .args(["--format", "json"])
            .args(more)
            .output()
            .unwrap();
        let told = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(4), "{told}");
        assert!(told.contains("records are stored"), "{told}");
        let report: serde_json::Value = serde_json::from_slice(&ended.stdout).unwrap();
        let count = report["records"].as_u64().unwrap();
        let scanned = imbrex(&["scan", &drive]).ok();
        match every {
            None => assert_eq!(count, 0, "{told}"),
            Some(every) => assert!(count > 0 && count.is_multiple_of(every), "{told}"),
        }
        assert!(count <= scanned.lines().count() as u64, "{told}");
    }
}

//! put, get, delete, scan.

use crate::{Drive, command, imbrex};
use std::os::unix::ffi::OsStrExt;

#[test]
fn a_value_comes_back_byte_for_byte() {
    let drive = Drive::new();
    drive.run("put", &["k", "v\n"]).ok();
    assert_eq!(drive.run("get", &["k"]).ok(), "v\n");
    let bytes: Vec<u8> = (0..=255).collect();
    for args in [&["bytes"][..], &["bytes", "-"], &["bytes", "--file", "-"]] {
        drive.run("put", &["bytes", "before"]).ok();
        drive.run_with(&bytes, "put", args).ok();
        assert_eq!(drive.run("get", &["bytes"]).stdout, bytes, "{args:?}");
    }
    let file = drive.beside("value");
    std::fs::write(&file, b"").unwrap();
    drive.run("put", &["empty", "--file", file.to_str().unwrap()]).ok();
    assert_eq!(drive.run("get", &["empty"]).ok(), "");
    drive.run("put", &["--hex-keys", "ff00", "odd"]).ok();
    assert_eq!(drive.run("get", &["--hex-keys", "FF00"]).ok(), "odd");
    let key = std::ffi::OsStr::from_bytes(&[0xff, 0xfe]);
    let with_key = |args: &[&str]| {
        let output = command().args(args).arg(drive.path()).arg(key).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        output.stdout
    };
    drive.run("put", &["--hex-keys", "fffe", "bytes"]).ok();
    assert_eq!(with_key(&["get"]), b"bytes");
    with_key(&["delete"]);
    drive.run("get", &["--hex-keys", "fffe"]).fails(1, &["no such key"]);
}

#[test]
fn a_missing_key_is_exit_code_1() {
    let drive = Drive::new();
    drive.run("get", &["k"]).fails(1, &["\"k\"", "no such key"]);
    drive.run("put", &["k", "v"]).ok();
    let deleted = drive.run("delete", &["k", "never"]).ok();
    assert_eq!(deleted, "keys removed    1\nkeys not found  1\n");
    drive.run("get", &["k"]).fails(1, &["no such key"]);
}

#[test]
fn formats_of_an_entry() {
    let drive = Drive::new();
    drive.run("put", &["k", "v"]).ok();
    assert_eq!(drive.run("get", &["k", "--format", "hex"]).ok(), "76\n");
    assert_eq!(
        drive.run("get", &["k", "--format", "json"]).ok(),
        "{\"key\":\"k\",\"value\":\"v\"}\n"
    );
    assert_eq!(drive.run("scan", &[]).ok(), "k\tv\n");
    assert_eq!(drive.run("scan", &["--format", "hex"]).ok(), "6b\t76\n");
    assert_eq!(drive.run("scan", &["--keys-only"]).ok(), "k\n");
    drive.run("stats", &["--format", "raw"]).fails(2, &["table or json"]);
}

#[test]
fn scans_are_bounded_limited_and_reversed() {
    let drive = Drive::new();
    let lines: String = ["a", "ab", "abc", "b", "c"]
        .iter()
        .map(|key| format!("{{\"key\": \"{key}\", \"value\": 1}}\n"))
        .collect();
    drive.run_with(lines.as_bytes(), "load", &["-"]).ok();
    let keys = |args: &[&str]| {
        let text = drive.run("scan", &[&["--keys-only"], args].concat()).ok();
        text.lines().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(keys(&[]), "a ab abc b c");
    assert_eq!(keys(&["--reverse"]), "c b abc ab a");
    assert_eq!(keys(&["--prefix", "ab"]), "ab abc");
    assert_eq!(keys(&["--prefix", "ab", "--reverse", "--limit", "1"]), "abc");
    assert_eq!(keys(&["--from", "ab", "--to", "b"]), "ab abc");
    assert_eq!(keys(&["--from", "b", "--to", "b"]), "");
    assert_eq!(keys(&["--from", "d"]), "");
    assert_eq!(keys(&["--limit", "0"]), "");
    drive
        .run("scan", &["--from", "c", "--to", "b"])
        .fails(2, &["\"c\"", "is greater than", "swap"]);
}

#[test]
fn ranges_and_prefixes_are_deleted() {
    let drive = Drive::new();
    drive.run_with(crate::json_lines(30, 0).as_bytes(), "load", &["-"]).ok();
    let removed = drive.run("delete", &["--prefix", "key00000"]).ok();
    assert!(removed.contains("keys removed") && removed.contains("10"), "{removed}");
    let range = ["--from", "key000012", "--to", "key000029", "--format", "json"];
    let removed = drive.run("delete", &range).json();
    assert_eq!((&removed["keys_removed"], &removed["freed"]), (&17.into(), &0.into()), "{removed}");
    let left = drive.run("scan", &["--keys-only"]).ok();
    assert_eq!(left, "key000010\nkey000011\nkey000029\n");
    imbrex(&["delete", drive.path_str()]).fails_usage();
    // A key in the range counts once.
    let both = ["key000010", "key000029", "none", "--prefix", "key00001", "--format", "json"];
    let removed = drive.run("delete", &both).json();
    assert_eq!((&removed["keys_removed"], &removed["keys_not_found"]), (&3.into(), &1.into()));
    // Tables still hold the deleted keys; the command reported them as found.
    let again = drive.run("delete", &["--prefix", "key"]).ok();
    assert_eq!(again, "keys removed  0\n");
}

/// Two tables on top of each other are due for nothing, so no command merges them in the background.
#[test]
fn compact_says_what_it_removed_and_freed() {
    let drive = Drive::new();
    for _ in 0..2 {
        drive.run_with(crate::json_lines(30, 0).as_bytes(), "load", &["-"]).ok();
    }
    let compacted = drive.run("compact", &["--format", "json"]).json();
    assert_eq!(compacted["removed"], 30, "{compacted}");
    assert!(compacted["freed"].as_u64().unwrap() > 0, "{compacted}");
    let compacted = drive.run("compact", &["--format", "json"]).json();
    assert_eq!((&compacted["removed"], &compacted["freed"]), (&0.into(), &0.into()), "{compacted}");
}

/// It was made for another program's files: `put` made a store on it, and `imbrex run` then refused the drive.
#[test]
fn a_drive_without_a_store_gets_one_by_formatting_only() {
    let drive = Drive::new();
    let bare = drive.beside("bare.imbrex").to_str().unwrap().to_owned();
    imbrex(&["drive", "create", &bare, "--no-store", "--capacity", "4GiB", "--no-timing"]).ok();
    for args in [
        &["get", &bare, "a"][..],
        &["scan", &bare],
        &["stats", &bare],
        &["check", &bare],
        &["put", &bare, "a", "1"],
        &["delete", &bare, "a"],
        &["load", &bare, "-"],
        &["compact", &bare],
    ] {
        imbrex(args).fails(4, &["holds no store", "`imbrex run` starts", "drive format --erase"]);
    }
    imbrex(&["drive", "format", &bare]).fails(4, &["room for another database, empty", "--erase"]);
    imbrex(&["drive", "format", &bare, "--erase"]).ok();
    imbrex(&["put", &bare, "a", "1"]).ok();
    assert_eq!(imbrex(&["get", &bare, "a"]).ok(), "1");
}

#[test]
fn keyspaces_are_separate() {
    let drive = Drive::new();
    let line = b"{\"key\": \"k\", \"value\": \"of a\"}\n";
    drive.run_with(line, "load", &["-", "--keyspace", "a"]).ok();
    drive.run("get", &["k"]).fails(1, &["no such key"]);
    assert_eq!(drive.run("get", &["k", "--keyspace", "a"]).ok(), "of a");
    drive
        .run("get", &["k", "--keyspace", "b"])
        .fails(4, &["keyspace \"b\"", "the keyspaces are", "a"]);
}

#[test]
fn a_reader_that_stops_early_is_not_an_error() {
    use std::io::Read;
    let drive = Drive::new();
    drive.run_with(crate::json_lines(20_000, 0).as_bytes(), "load", &["-"]).ok();
    let mut child = crate::command()
        .args(["scan", drive.path_str()])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = [0; 10];
    child.stdout.take().unwrap().read_exact(&mut first).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    assert_eq!(output.status.code(), Some(0));
}

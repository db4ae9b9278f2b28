//! `imbrex object`: streams in and out, ranges, lists, checks.

use crate::copies::text;
use crate::{imbrex, imbrex_with};
use std::fs;

fn drive() -> (tempfile::TempDir, String) {
    let dir = tempfile::tempdir().unwrap();
    let at = text(&dir.path().join("objects.imbrex")).to_owned();
    imbrex(&["drive", "create", &at, "--capacity", "1GiB", "--values-apart", "64KiB"]).ok();
    (dir, at)
}

/// Text of which each part is different.
fn long_text(len: usize) -> Vec<u8> {
    let words = (0..).map(|at: usize| format!("{at} "));
    words.flat_map(String::into_bytes).take(len).collect()
}

#[test]
fn objects_go_in_and_out_as_streams() {
    let (dir, at) = drive();
    let film = long_text(5_000_001);
    imbrex_with(&film, &["object", "put", &at, "film", "--metadata", "text/none"]).ok();
    let file = dir.path().join("short");
    fs::write(&file, "short").unwrap();
    imbrex(&["object", "put", &at, "a/short", text(&file)]).ok();
    assert!(imbrex(&["object", "get", &at, "film"]).ok().as_bytes() == film);
    assert_eq!(imbrex(&["object", "get", &at, "film", "--metadata"]).ok(), "text/none");
    let part = imbrex(&["object", "get", &at, "film", "--offset", "1048570", "--len", "20"]).ok();
    assert_eq!(part.as_bytes(), &film[1_048_570..1_048_590]);
    assert_eq!(imbrex(&["object", "get", &at, "film", "--offset", "1GiB"]).ok(), "");
    let listed = imbrex(&["object", "list", &at]).ok();
    assert_eq!(listed.lines().count(), 2, "{listed}");
    assert!(listed.lines().next().unwrap().contains("5 B  a/short"), "{listed}");
    let listed = imbrex(&["object", "list", &at, "--prefix", "f", "--format", "json"]).json();
    assert_eq!(listed["len_bytes"], 5_000_001);
    assert_eq!(listed["metadata"], "text/none");
    assert_eq!(
        imbrex(&["object", "list", &at, "--limit", "1", "--from", "b"]).ok().lines().count(),
        1
    );
    let checked = imbrex(&["object", "check", &at, "--format", "json"]).json();
    assert_eq!((&checked["objects"], &checked["chunks"]), (&2.into(), &5.into()));
    imbrex(&["object", "delete", &at, "film", "absent"]).ok();
    imbrex(&["object", "get", &at, "film"]).fails(1, &["\"film\"", "no such object"]);
    imbrex(&["check", &at]).ok();
}

#[test]
fn what_cannot_be_an_object_is_refused() {
    let (_dir, at) = drive();
    imbrex(&["object", "put", &at, ""]).fails(3, &["name of 0 bytes"]);
    imbrex(&["object", "put", &at, "film", "/no/such/file"]).fails(4, &["/no/such/file"]);
    imbrex(&["object", "get", &at, "film", "--metadata", "--len", "1"]).fails_usage();
    imbrex(&["object", "check", &at]).ok();
    imbrex(&["put", &at, "plain", "entry"]).ok();
    let words = ["plain entries", "plain", "keyspace of their own"];
    imbrex(&["object", "list", &at]).fails(2, &words);
    imbrex_with(b"x", &["object", "put", &at, "film"]).fails(2, &words);
}

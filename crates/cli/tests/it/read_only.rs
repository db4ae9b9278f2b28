//! --read-only: beside other readers, on a full host, from a file that may not be written; never beside a writer.

use crate::bad_input::data_offsets;
use crate::crash::{begin_load, signal};
use crate::{Drive, json_lines};
use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::SystemTime;

const COUNT: usize = 3000;

/// A drive whose loader was killed.
fn killed() -> Drive {
    let drive = Drive::new();
    let (mut child, mut stdin) = begin_load(&drive, &["--sync-every", "100"]);
    stdin.write_all(json_lines(COUNT, 0).as_bytes()).unwrap();
    // The loader has read all but at most the 64 KiB in the pipe.
    signal(&child, "-KILL");
    child.wait().unwrap();
    drive
}

/// The blocks of the file that are not zero and where they are, as a checksum; and the time of the file's last change.
pub(crate) fn state(path: &Path) -> (u64, SystemTime) {
    use std::hash::{DefaultHasher, Hasher};
    let modified = fs::metadata(path).unwrap().modified().unwrap();
    let mut hasher = DefaultHasher::new();
    let file = fs::File::open(path).unwrap();
    let mut block = [0; 4096];
    for offset in data_offsets(path) {
        file.read_exact_at(&mut block, offset).unwrap();
        hasher.write_u64(offset);
        hasher.write(&block);
    }
    (hasher.finish(), modified)
}

#[test]
fn every_reader_reads_a_file_that_may_not_be_written() {
    let drive = killed();
    fs::set_permissions(drive.path(), Permissions::from_mode(0o444)).unwrap();
    let before = state(&drive.path());
    let read = |args: &[&str]| drive.run(args[0], &[&["--read-only"], &args[1..]].concat()).ok();
    let scanned = read(&["scan"]);
    assert!(scanned.lines().count() >= COUNT / 2);
    assert!(read(&["get", "key000000"]).contains("round 0 of 0"));
    assert!(read(&["check"]).contains("nothing is wrong"));
    assert!(read(&["stats"]).contains("imbrex-zones"));
    for dumped in [&["dump"][..], &["dump", "catalog"], &["dump", "versions"]] {
        assert!(!read(dumped).is_empty());
    }
    for of_drive in ["info", "zones"] {
        let args = ["drive", of_drive, drive.path_str(), "--read-only"];
        assert!(crate::imbrex(&args).ok().contains("zones"), "{of_drive}");
    }
    // What is damaged is never written to.
    assert_eq!(drive.run("scan", &["--skip-damage"]).ok(), scanned);
    assert!(before == state(&drive.path()), "the file has changed");
    drive.run("put", &["--read-only", "a", "1"]).fails_usage();

    fs::set_permissions(drive.path(), Permissions::from_mode(0o644)).unwrap();
    assert_eq!(drive.run("scan", &[]).ok(), scanned);
}

/// A scan that has the drive open: its output is more than a pipe holds, and is not read.
fn begin_scan(drive: &Drive) -> Child {
    let mut child = crate::command()
        .args(["scan", "--read-only", drive.path_str()])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = [0];
    child.stdout.as_mut().unwrap().read_exact(&mut first).unwrap();
    child
}

#[test]
fn readers_share_a_drive_and_a_writer_has_it_alone() {
    let drive = Drive::new();
    let (mut loader, mut stdin) = begin_load(&drive, &[]);
    stdin.write_all(json_lines(10_000, 0).as_bytes()).unwrap();
    let in_use = format!("is in use by process {} (imbrex load); end that use first", loader.id());
    drive.run("get", &["--read-only", "key000000"]).fails(4, &[&in_use]);
    drop(stdin);
    assert!(loader.wait().unwrap().success());

    let mut readers = [begin_scan(&drive), begin_scan(&drive)];
    assert!(drive.run("get", &["--read-only", "key000000"]).ok().contains("round 0"));
    let refused = drive.run("put", &["a", "1"]).fails(4, &["is in use by process"]);
    let is_named =
        |reader: &Child| refused.contains(&format!("process {} (imbrex scan)", reader.id()));
    assert!(readers.iter().any(is_named), "{refused}");
    for reader in &mut readers {
        drop(reader.stdout.take());
        reader.wait().unwrap();
    }
    drive.run("put", &["a", "1"]).ok();
}

#[test]
fn a_full_host_stops_no_reader() {
    let drive = killed();
    // The shell's limit on file length stands for a full disk: writes past it fail in the same way.
    let on_full_host = |args: &str| {
        let program = env!("CARGO_BIN_EXE_imbrex");
        let script = format!("trap '' XFSZ; ulimit -f 0; exec {program} {args}");
        crate::ran(Command::new("bash").args(["-c", &script]).output().unwrap())
    };
    let path = drive.path_str();
    on_full_host(&format!("get {path} key000000"))
        .fails(4, &["--read-only reads it without writing to it"]);
    let got = on_full_host(&format!("get --read-only {path} key000000"));
    assert!(got.ok().contains("round 0 of 0"));
}

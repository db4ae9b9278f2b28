//! `imbrex backup`, `restore`, `copies`: copies in a directory, killed and damaged on either side.

use crate::bad_input::data_offsets;
use crate::crash::{signal, wait_until_open};
use crate::{Drive, Ran, imbrex, imbrex_with, json_lines};
use std::cell::Cell;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::{FileExt, symlink};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

const COUNT: usize = 5000;

/// A drive with records, and the directory for its copies.
pub(crate) fn drive_and_target(count: usize) -> (Drive, PathBuf) {
    let drive = Drive::new();
    drive.run_with(json_lines(count, 1).as_bytes(), "load", &["-"]).ok();
    let target = drive.beside("copies");
    (drive, target)
}

pub(crate) fn text(path: &Path) -> &'static str {
    Box::leak(path.to_str().unwrap().to_owned().into_boxed_str())
}

pub(crate) fn content(drive: &str) -> String {
    imbrex(&["scan", drive, "--format", "json"]).ok()
}

/// A drive with an empty store, beside `drive`.
pub(crate) fn empty(drive: &Drive, name: &str) -> &'static str {
    let path = text(&drive.beside(name));
    imbrex(&["drive", "create", path, "--capacity", "4GiB", "--no-timing"]).ok();
    path
}

/// The files of the tables in a backup.
pub(crate) fn tables(target: &Path) -> Vec<PathBuf> {
    let found = fs::read_dir(target.join("tables")).into_iter().flatten();
    let mut paths: Vec<_> = found.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}

/// The states that `imbrex copies` shows.
fn states(ran: Ran) -> Vec<String> {
    let shown = String::from_utf8(ran.stdout).unwrap();
    let state = |line: &str| line.split_whitespace().last().unwrap().to_owned();
    shown.lines().skip(1).map(state).collect()
}

pub(crate) fn flip_a_bit(path: &Path, at: u64) {
    let file = OpenOptions::new().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 4], at).unwrap();
}

#[test]
fn a_backup_takes_what_is_new_and_each_copy_is_restored_as_it_was() {
    let (drive, target) = drive_and_target(COUNT);
    let to = text(&target);
    let first = drive.run("backup", &[to, "--format", "json"]).json();
    assert_eq!(first["copy"], 1, "{first}");
    assert_eq!(first["tables"], first["written_and_verified"], "{first}");
    let before = content(drive.path_str());

    drive.run("put", &["new", "value"]).ok();
    let second = drive.run("backup", &[to, "--format", "json"]).json();
    assert_eq!(second["copy"], 2, "{second}");
    assert_eq!(second["written_and_verified"]["count"], 1, "only the new table: {second}");
    assert!(second["tables"]["count"].as_u64() > Some(1), "{second}");
    let unchanged = drive.run("backup", &[to, "--format", "json"]).json();
    assert_eq!(unchanged["written_and_verified"]["count"], 0, "{unchanged}");
    assert_eq!(states(imbrex(&["copies", to])), ["complete", "complete", "complete"]);
    assert_eq!(states(imbrex(&["copies", to, "--verify"])), ["verified", "verified", "verified"]);

    let newest = empty(&drive, "newest.imbrex");
    let report = imbrex(&["restore", to, newest, "--format", "json"]).json();
    assert_eq!(report["copy"], 3, "{report}");
    assert_eq!(content(newest), content(drive.path_str()));
    let oldest = empty(&drive, "oldest.imbrex");
    imbrex(&["restore", to, oldest, "--copy", "1"]).ok();
    assert_eq!(content(oldest), before);
    imbrex(&["check", oldest]).ok();
    imbrex(&["put", oldest, "goes", "on"]).ok();
    assert_eq!(content(oldest).lines().count(), COUNT + 1);
}

#[test]
fn old_copies_and_tables_that_no_copy_needs_are_removed() {
    let (drive, target) = drive_and_target(COUNT);
    let to = text(&target);
    drive.run("backup", &[to]).ok();
    let before = tables(&target);
    drive.run_with(json_lines(COUNT, 2).as_bytes(), "load", &["-"]).ok();
    drive.run("compact", &[]).ok();
    let kept = drive.run("backup", &[to, "--keep", "1", "--format", "json"]).json();
    assert_eq!(kept["removed"]["copies"], serde_json::json!([1]), "{kept}");
    assert!(tables(&target).iter().all(|table| !before.contains(table)), "all are merged anew");
    drive.run("backup", &[to]).ok();
    imbrex(&["copies", to, "--delete", "7"]).fails(4, &["no copy 7", "2, 3"]);
    imbrex(&["copies", to, "--delete", "2"]).ok();
    assert_eq!(states(imbrex(&["copies", to, "--verify"])), ["verified"]);
}

/// Starts `imbrex ARGS` without its output.
pub(crate) fn start(args: &[&str]) -> Child {
    let mut command = crate::command();
    command.args(args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// Kills `child` when `is_time` says so; whether that ended it.
pub(crate) fn kill_when(mut child: Child, mut is_time: impl FnMut() -> bool) -> bool {
    while !is_time() && child.try_wait().unwrap().is_none() {
        std::thread::yield_now();
    }
    // It may have ended meanwhile.
    let _ = child.kill();
    child.wait().unwrap().signal().is_some()
}

/// How many rounds have killed their process before it ended.
#[derive(Default)]
pub(crate) struct Kills(Cell<usize>);

impl Kills {
    /// `count` rounds, and more until one has killed its process: on a busy machine it may end first.
    pub(crate) fn rounds(&self, count: usize) -> impl Iterator<Item = usize> + '_ {
        (0..10 * count).take_while(move |round| *round < count || self.0.get() == 0)
    }

    pub(crate) fn note(&self, is_killed: bool) {
        self.0.set(self.0.get() + usize::from(is_killed));
    }

    pub(crate) fn assert_any(&self) {
        assert!(self.0.get() > 0, "each process ended before it was killed");
    }
}

#[test]
fn a_backup_that_is_killed_leaves_both_sides_whole_and_the_next_one_continues() {
    let (drive, target) = drive_and_target(COUNT);
    let to = text(&target);
    drive.run("backup", &[to]).ok();
    let kills = Kills::default();
    for round in kills.rounds(6) {
        drive.run_with(json_lines(COUNT, round + 2).as_bytes(), "load", &["-"]).ok();
        let before = content(drive.path_str());
        let known = tables(&target).len();
        let mut copy = start(&["backup", drive.path_str(), to]);
        wait_until_open(&mut copy, &drive.path());
        // A file that is being written, or some of those that are complete.
        let is_killed = kill_when(copy, || match round % 3 {
            0 => tables(&target).iter().any(|path| path.extension() == Some("part".as_ref())),
            1 => tables(&target).len() > known,
            _ => true,
        });
        kills.note(is_killed);
        assert!(content(drive.path_str()) == before, "round {round}");
        drive.run("check", &[]).ok();
        let shown = states(imbrex(&["copies", to, "--verify"]));
        assert!(shown.iter().all(|state| state == "verified"), "round {round}: {shown:?}");
        drive.run("backup", &[to]).ok();
        assert!(tables(&target).iter().all(|path| path.extension() == Some("tbl".as_ref())));
        let restored = empty(&drive, &format!("{round}.imbrex"));
        imbrex(&["restore", to, restored]).ok();
        assert!(content(restored) == before, "round {round}");
        fs::remove_file(restored).unwrap();
    }
    kills.assert_any();
}

#[test]
fn a_restore_that_is_killed_leaves_an_empty_store_or_the_whole_copy() {
    let (drive, target) = drive_and_target(COUNT);
    let to = text(&target);
    drive.run("backup", &[to]).ok();
    let before = content(drive.path_str());
    let kills = Kills::default();
    for round in kills.rounds(6) {
        let restored = empty(&drive, &format!("{round}.imbrex"));
        let path = Path::new(restored);
        let blank = data_offsets(path).len();
        let mut restore = start(&["restore", to, restored]);
        wait_until_open(&mut restore, path);
        kills.note(kill_when(restore, || data_offsets(path).len() > blank + 90 * (round % 6)));
        let left = content(restored);
        assert!(left.is_empty() || left == before, "round {round}: {} lines", left.lines().count());
        imbrex(&["check", restored]).ok();
        if left.is_empty() {
            imbrex(&["restore", to, restored]).ok();
            assert!(content(restored) == before, "round {round}");
        }
        assert_eq!(states(imbrex(&["copies", to, "--verify"])), ["verified"]);
    }
    kills.assert_any();
}

#[test]
fn rot_in_the_directory_is_found_refused_and_mended_from_the_drive() {
    let (drive, target) = drive_and_target(COUNT);
    let to = text(&target);
    drive.run("backup", &[to]).ok();
    let table = tables(&target).remove(0);
    let sound = fs::read(&table).unwrap();
    flip_a_bit(&table, sound.len() as u64 / 2);
    imbrex(&["copies", to]).ok();
    let damaged = imbrex(&["copies", to, "--verify"]);
    assert_eq!(
        states(Ran { stdout: damaged.stdout.clone(), stderr: String::new(), ..damaged }),
        ["damaged"]
    );
    damaged.fails(5, &["1 of 1 copies are damaged", "--full"]);
    let restored = empty(&drive, "restored.imbrex");
    imbrex(&["restore", to, restored]).fails(5, &[text(&table), "nothing was written"]);
    assert_eq!(content(restored), "");
    let mended = drive.run("backup", &[to, "--full", "--format", "json"]).json();
    assert_eq!(mended["written_and_verified"]["count"], 1, "{mended}");
    assert!(fs::read(&table).unwrap() == sound);
    assert_eq!(states(imbrex(&["copies", to, "--verify"])), ["verified", "verified"]);
    imbrex(&["restore", to, restored]).ok();
    assert_eq!(content(restored), content(drive.path_str()));

    // A file that is cut off is noticed without reading it.
    OpenOptions::new().write(true).open(&table).unwrap().set_len(100).unwrap();
    imbrex(&["copies", to]).fails(5, &["2 of 2 copies"]);
    let other = empty(&drive, "other.imbrex");
    imbrex(&["restore", to, other]).fails(5, &["missing or cut off", "nothing was written"]);
    drive.run("backup", &[to]).ok();
    assert_eq!(states(imbrex(&["copies", to, "--verify"])), ["verified"; 3]);
}

/// A damaged copy of the list of tables: it is not used, and its tables stay.
#[test]
fn a_damaged_copy_is_not_restored_and_the_others_are() {
    let (drive, target) = drive_and_target(COUNT);
    let to = text(&target);
    drive.run("backup", &[to]).ok();
    drive.run("backup", &[to]).ok();
    flip_a_bit(&target.join("copy-000002"), 60);
    let restored = empty(&drive, "restored.imbrex");
    imbrex(&["restore", to, restored]).fails(5, &["copy 2", "--copy"]);
    imbrex(&["restore", to, restored, "--copy", "1"]).ok();
    assert_eq!(content(restored), content(drive.path_str()));
    imbrex(&["copies", to]).fails(5, &["1 of 2 copies"]);
    drive.run_with(json_lines(COUNT, 2).as_bytes(), "load", &["-"]).ok();
    drive.run("compact", &[]).ok();
    let count = tables(&target).len();
    let kept = drive.run("backup", &[to, "--keep", "1"]);
    assert!(kept.stderr.contains("copy 2 cannot be decoded"), "{}", kept.stderr);
    kept.ok();
    assert!(tables(&target).len() > count, "no table was removed");
    imbrex(&["copies", to, "--delete", "2"]).ok();
    assert_eq!(states(imbrex(&["copies", to, "--verify"])), ["verified", "verified"]);
}

#[test]
fn rot_on_the_drive_ends_the_backup_and_the_copies_stay() {
    let (drive, target) = drive_and_target(COUNT);
    let to = text(&target);
    drive.run("backup", &[to]).ok();
    let copied = tables(&target);
    drive.run_with(json_lines(COUNT, 2).as_bytes(), "load", &["-"]).ok();
    drive.run("compact", &[]).ok();
    // The first half of a table that is new, found on the drive by the bytes of its copy.
    let probe = drive.beside("probe");
    drive.run("backup", &[text(&probe)]).ok();
    let table = tables(&probe).remove(0);
    let head = fs::read(table).unwrap()[..4096].to_vec();
    let image = fs::File::open(drive.path()).unwrap();
    let is_head = |at: &u64| {
        let mut block = [0; 4096];
        image.read_exact_at(&mut block, *at).is_ok() && block[..] == head
    };
    let at = data_offsets(&drive.path()).into_iter().find(is_head).unwrap();
    flip_a_bit(&drive.path(), at + 2000);
    drive
        .run("backup", &[to])
        .fails(5, &["cannot back up: table", "damaged", "are whole", "imbrex salvage"]);
    assert_eq!(tables(&target), copied, "nothing is left of the damaged table");
    assert_eq!(states(imbrex(&["copies", to, "--verify"])), ["verified"]);
}

#[test]
fn a_drive_that_is_only_read_is_backed_up_with_its_logs() {
    let (drive, target) = drive_and_target(0);
    let (mut load, mut stdin) = crate::crash::begin_load(&drive, &["--sync-every", "100"]);
    std::io::Write::write_all(&mut stdin, json_lines(COUNT, 3).as_bytes()).unwrap();
    signal(&load, "-KILL");
    load.wait().unwrap();
    let image = crate::read_only::state(&drive.path());
    let before = drive.run("scan", &["--read-only", "--format", "json"]).ok();
    assert!(before.lines().count() > COUNT / 2);
    drive.run("backup", &[text(&target), "--read-only"]).ok();
    assert!(crate::read_only::state(&drive.path()) == image, "the drive was written");
    let restored = empty(&drive, "restored.imbrex");
    imbrex(&["restore", text(&target), restored]).ok();
    assert!(content(restored) == before);
}

#[test]
fn a_restored_store_continues_the_backup_if_it_is_asked_to() {
    let (drive, target) = drive_and_target(COUNT);
    let to = text(&target);
    drive.run("backup", &[to]).ok();
    let restored = empty(&drive, "restored.imbrex");
    imbrex(&["restore", to, restored]).ok();
    imbrex(&["put", restored, "more", "1"]).ok();
    imbrex(&["backup", restored, to]).fails(4, &["copies of store", "--adopt"]);
    let adopted = imbrex(&["backup", restored, to, "--adopt", "--format", "json"]).json();
    assert_eq!(adopted["written_and_verified"]["count"], 1, "{adopted}");
    drive.run("backup", &[to]).fails(4, &["copies of store"]);
    assert_eq!(states(imbrex(&["copies", to, "--verify"])), ["verified", "verified"]);
    let again = empty(&drive, "again.imbrex");
    imbrex(&["restore", to, again]).ok();
    assert_eq!(content(again), content(restored));
}

#[test]
fn a_copy_is_restored_to_another_layout_entry_by_entry() {
    let (drive, target) = drive_and_target(COUNT);
    drive.run("backup", &[text(&target)]).ok();
    let other = text(&drive.beside("other.imbrex"));
    let layout = ["--layout", "leveled-first-fit"];
    imbrex(&[&["drive", "create", other, "--capacity", "4GiB"], &layout[..]].concat()).ok();
    imbrex(&["restore", text(&target), other])
        .fails(4, &["layout imbrex-zones", "leveled-first-fit", "--any-layout"]);
    imbrex(&["restore", text(&target), other, "--any-layout"]).ok();
    assert_eq!(content(other), content(drive.path_str()));
}

#[test]
fn bad_directories_and_drives_are_refused() {
    let (drive, target) = drive_and_target(COUNT);
    let to = text(&target);
    let inside = text(&drive.path().join("copies"));
    drive.run("backup", &[inside]).fails(4, &[inside, "ot a directory"]);
    drive.run("backup", &[drive.path_str()]).fails(4, &[drive.path_str()]);
    // The directory of the drive's own image holds something else.
    let own = text(drive.path().parent().unwrap());
    drive.run("backup", &[own]).fails(4, &["d.imbrex", "no backup", "empty directory"]);
    drive.run("backup", &["/nowhere/at/all"]).fails(4, &["/nowhere/at/all", "create it first"]);
    drive.run("backup", &["/proc/copies"]).fails(4, &["/proc/copies"]);
    drive.run("backup", &[to, "--checkpoint", "none"]).fails(4, &["none", "its checkpoints are"]);
    let keep = drive.run("backup", &[to, "--keep", "0"]);
    assert!(keep.code == Some(2) && keep.stderr.contains("--keep"), "{}", keep.stderr);
    imbrex(&["copies", to]).fails(4, &[to, "No such file"]);
    let restored = empty(&drive, "restored.imbrex");
    for source in [text(&drive.beside("none")), drive.path_str(), own] {
        imbrex(&["restore", source, restored]).fails(4, &[source]);
        imbrex(&["copies", source]).fails(4, &[source]);
    }
    drive.run("backup", &[to]).ok();
    imbrex(&["restore", to, drive.path_str()]).fails(4, &["holds entries", "empty drive"]);
    imbrex(&["restore", to, text(&drive.beside("new.imbrex"))]).fails(4, &["imbrex drive create"]);
    imbrex(&["restore", to, restored, "--copy", "9"]).fails(4, &["no copy 9", "are: 1"]);
    let link = drive.beside("link");
    symlink(&target, &link).unwrap();
    drive.run("backup", &[text(&link)]).ok();
    let mark = target.join("imbrex-backup");
    let newer = fs::read_to_string(&mark).unwrap().replace("format 1", "format 2");
    fs::write(&mark, newer).unwrap();
    drive.run("backup", &[to]).fails(4, &["format version 2", "use a newer one"]);
    fs::write(&mark, "not ours").unwrap();
    imbrex(&["restore", to, restored]).fails(5, &[to, "mark"]);
    assert_eq!(content(restored), "");
}

#[test]
fn a_full_host_ends_a_backup_and_the_next_one_continues() {
    let (drive, target) = drive_and_target(COUNT);
    let to = text(&target);
    let program = env!("CARGO_BIN_EXE_imbrex");
    let limited = format!(
        "trap '' XFSZ; ulimit -f 60; exec {program} backup --read-only {} {to}",
        drive.path_str()
    );
    let output = std::process::Command::new("sh").args(["-c", &limited]).output().unwrap();
    crate::ran(output).fails(4, &["cannot write", "make room"]);
    assert!(tables(&target).iter().all(|path| path.extension() == Some("tbl".as_ref())));
    drive.run("backup", &[to]).ok();
    assert_eq!(states(imbrex(&["copies", to, "--verify"])), ["verified"]);
}

#[test]
fn two_backups_at_once_are_refused_and_readers_share() {
    let (drive, target) = drive_and_target(COUNT);
    let to = text(&target);
    drive.run("backup", &[to]).ok();
    let mark = fs::File::open(target.join("imbrex-backup")).unwrap();
    rustix::fs::flock(&mark, rustix::fs::FlockOperation::LockShared).unwrap();
    imbrex(&["copies", to]).ok();
    drive.run("backup", &[to]).fails(4, &["another process"]);
    drop(mark);
    drive.run("backup", &[to]).ok();
}

#[test]
fn checkpoints_are_made_listed_backed_up_and_deleted() {
    let (drive, target) = drive_and_target(COUNT);
    let at = drive.path_str();
    let before = content(at);
    imbrex(&["checkpoint", "make", at, "monday"]).ok();
    imbrex(&["checkpoint", "make", at, "monday"]).fails(4, &["monday", "exists already"]);
    imbrex(&["checkpoint", "make", at, ""]).fails(2, &["no name"]);
    imbrex_with(json_lines(COUNT, 2).as_bytes(), &["load", at, "-"]).ok();
    drive.run("compact", &[]).ok();
    imbrex(&["checkpoint", "make", at, "tuesday"]).ok();
    // Compaction replaced the tables of one checkpoint; the store still has those of the other.
    let shown = imbrex(&["checkpoint", "list", at]).ok();
    assert!(shown.lines().nth(1).unwrap().starts_with("monday "), "{shown}");
    let listed = imbrex(&["checkpoint", "list", at, "--format", "json", "--read-only"]).json();
    let [monday, tuesday] = [&listed["checkpoints"][0], &listed["checkpoints"][1]];
    assert_eq!([&monday["name"], &tuesday["name"]], ["monday", "tuesday"]);
    assert!(monday["bytes"].as_u64() > Some(0), "{listed}");
    assert_eq!(monday["freed_by_delete_bytes"], monday["bytes"], "{listed}");
    assert_eq!(tuesday["freed_by_delete_bytes"], 0, "{listed}");
    assert_eq!(listed["only_in_checkpoints_bytes"], monday["bytes"], "{listed}");
    let compacted = drive.run("compact", &["--format", "json"]).json();
    assert_eq!(compacted["kept_by_checkpoints"], monday["bytes"], "{compacted}");
    let stats = drive.run("stats", &[]).ok();
    assert!(stats.contains("live only for 2 checkpoints"), "{stats}");
    drive.run("check", &[]).ok();
    assert_eq!(drive.run("scan", &["--checkpoint", "monday", "--format", "json"]).ok(), before);
    let value = drive.run("get", &["key000001", "--checkpoint", "monday"]).ok();
    assert!(value.starts_with("round 1"), "{value}");
    drive.run("backup", &[text(&target), "--checkpoint", "monday"]).ok();
    let restored = empty(&drive, "restored.imbrex");
    imbrex(&["restore", text(&target), restored]).ok();
    assert_eq!(content(restored), before);
    imbrex(&["checkpoint", "delete", at, "sunday"]).fails(4, &["sunday", "monday, tuesday"]);
    imbrex(&["checkpoint", "delete", at, "monday"]).ok();
    let left = imbrex(&["checkpoint", "list", at, "--format", "json"]).json();
    assert_eq!(left["checkpoints"].as_array().map(Vec::len), Some(1), "{left}");
    assert_eq!(left["only_in_checkpoints_bytes"], 0, "{left}");
    drive.run("check", &[]).ok();
}

#[test]
fn another_drive_is_brought_up_to_the_store_in_one_commit() {
    let (drive, _) = drive_and_target(COUNT);
    let replica = empty(&drive, "replica.imbrex");
    let first = drive.run("backup", &[replica, "--format", "json"]).json();
    assert_eq!(first["tables"], first["written_and_verified"], "{first}");
    assert_eq!(content(replica), content(drive.path_str()));
    drive.run("put", &["new", "value"]).ok();
    let second = drive.run("backup", &[replica, "--format", "json"]).json();
    assert_eq!(second["written_and_verified"]["count"], 1, "{second}");
    imbrex(&["check", replica]).ok();
    let kills = Kills::default();
    for round in kills.rounds(6) {
        let old = content(replica);
        drive.run_with(json_lines(COUNT, round + 2).as_bytes(), "load", &["-"]).ok();
        drive.run("compact", &[]).ok();
        let new = content(drive.path_str());
        let used = data_offsets(Path::new(replica)).len();
        let mut copy = start(&["backup", drive.path_str(), replica]);
        wait_until_open(&mut copy, Path::new(replica));
        let share = 20 * (round % 6);
        kills.note(kill_when(copy, || data_offsets(Path::new(replica)).len() > used + share));
        let left = content(replica);
        assert!(left == old || left == new, "round {round}: {} lines", left.lines().count());
        imbrex(&["check", replica]).ok();
        assert!(content(drive.path_str()) == new, "round {round}");
        drive.run("backup", &[replica]).ok();
        assert!(content(replica) == new, "round {round}");
    }
    kills.assert_any();
    imbrex(&["check", replica]).ok();
    drive.run("check", &[]).ok();
}

#[test]
fn a_drive_that_holds_anything_else_is_no_target() {
    let (drive, _) = drive_and_target(COUNT);
    let words = ["more than an earlier copy", "empty store"];
    let replica = empty(&drive, "replica.imbrex");
    imbrex(&["put", replica, "own", "1"]).ok();
    drive.run("backup", &[replica]).fails(4, &words);
    assert_eq!(content(replica).lines().count(), 1);
    imbrex(&["delete", replica, "own"]).ok();
    drive.run("backup", &[replica]).ok();
    // A copy that has been written to is a store of its own.
    imbrex(&["put", replica, "own", "2"]).ok();
    let before = content(replica);
    drive.run("backup", &[replica]).fails(4, &words);
    assert_eq!(content(replica), before);
    let kept = empty(&drive, "kept.imbrex");
    drive.run("backup", &[kept]).ok();
    imbrex(&["checkpoint", "make", kept, "own"]).ok();
    drive.run("backup", &[kept]).fails(4, &words);
    // The original is not overwritten by its copy.
    imbrex(&["backup", kept, drive.path_str()]).fails(4, &words);
    drive.run("backup", &[drive.path_str()]).fails(4, &["in use"]);
    let other = text(&drive.beside("other.imbrex"));
    let layout = ["--layout", "leveled-first-fit"];
    imbrex(&[&["drive", "create", other, "--capacity", "4GiB"], &layout[..]].concat()).ok();
    drive.run("backup", &[other]).fails(4, &["layout leveled-first-fit", "directory"]);
    drive.run("backup", &[other, "--keep", "2"]).fails(2, &["--keep"]);
    let foreign = drive.beside("foreign");
    fs::write(&foreign, "not a drive at all".repeat(1000)).unwrap();
    drive.run("backup", &[text(&foreign)]).fails(4, &["not an Imbrex drive image"]);
}

/// A store of objects: long values are apart, and every command finds them.
#[test]
fn values_apart_are_an_option_of_a_new_store() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path().join("objects.imbrex");
    let at = text(&at);
    imbrex(&["drive", "create", at, "--capacity", "512MiB", "--values-apart", "64KiB"]).ok();
    let lines = |round: u32| {
        let line = |key: u32| {
            let value = format!("{key} {round} ").repeat(20_000);
            format!("{{\"key\":\"key{key:06}\",\"value\":\"{value}\"}}\n")
        };
        (0..200).map(line).collect::<String>()
    };
    imbrex_with(lines(1).as_bytes(), &["load", at, "-"]).ok();
    imbrex(&["compact", at]).ok();
    let stats = imbrex(&["stats", at]).ok();
    assert!(stats.contains("values apart"), "{stats}");
    imbrex_with(lines(2).as_bytes(), &["load", at, "-"]).ok();
    imbrex(&["compact", at]).ok();
    assert!(imbrex(&["get", at, "key000007"]).ok().starts_with("7 2 7 2 "));
    assert_eq!(imbrex(&["scan", at, "--format", "json"]).ok().lines().count(), 200);
    imbrex(&["check", at]).ok();
    let target = dir.path().join("copies");
    imbrex(&["backup", at, text(&target)]).ok();
    let copy = dir.path().join("copy.imbrex");
    imbrex(&["drive", "create", text(&copy), "--capacity", "512MiB"]).ok();
    imbrex(&["restore", text(&target), text(&copy)]).ok();
    assert_eq!(content(text(&copy)), content(at));
    let dumped = imbrex(&["dump", at, "versions"]).ok();
    assert!(dumped.contains("bytes of values of table"), "{dumped}");
}

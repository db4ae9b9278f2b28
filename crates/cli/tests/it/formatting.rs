//! drive format: a blank drive becomes a store; a drive with data is formatted only with --erase, and what another program
//! has put there only by its name.

use crate::{imbrex, imbrex_with, json_lines};
use std::fs;

const HOLDS: &str = "or erase this one, whose content is then lost; --erase erases it";

/// Blank drives, one of each rule.
const BLANK: [&[&str]; 4] = [
    &["--rule", "conventional", "--capacity", "64MiB"],
    &["--rule", "zoned", "--capacity", "256MiB", "--zone-len", "1MiB"],
    &["--profile", "st500dm002", "--capacity", "1GiB"],
    &["--profile", "st1000dm003", "--capacity", "1GiB"],
];

struct Dir(tempfile::TempDir);

impl Dir {
    fn new() -> Dir {
        Dir(tempfile::tempdir().unwrap())
    }

    fn blank(&self, name: &str, shape: &[&str]) -> String {
        let path = self.0.path().join(name).to_str().unwrap().to_owned();
        let create = ["drive", "create", &path, "--blank", "--no-timing"];
        imbrex(&[&create[..], shape].concat()).ok();
        path
    }
}

fn format(drive: &str, args: &[&str]) -> crate::Ran {
    imbrex(&[&["drive", "format", drive], args].concat())
}

fn load(drive: &str, more: &[&str], count: usize, round: usize) {
    let args = [&["load", drive, "-"], more].concat();
    imbrex_with(json_lines(count, round).as_bytes(), &args).ok();
}

fn count(drive: &str, more: &[&str]) -> usize {
    imbrex(&[&["scan", drive], more].concat()).ok().lines().count()
}

#[test]
fn a_drive_with_data_is_formatted_only_on_request() {
    let dir = Dir::new();
    for (number, shape) in BLANK.iter().enumerate() {
        let drive = dir.blank(&number.to_string(), shape);
        format(&drive, &[]).ok();
        load(&drive, &[], 2000, 0);
        for more in [&[][..], &["--no-store"], &["--blank"]] {
            format(&drive, more).fails(4, &[&drive, HOLDS]);
        }
        assert_eq!(count(&drive, &[]), 2000, "{shape:?}");
        format(&drive, &["--erase"]).ok();
        assert_eq!(count(&drive, &[]), 0, "{shape:?}");
        load(&drive, &[], 1000, 1);
        imbrex(&["check", &drive]).ok();
        assert_eq!(count(&drive, &[]), 1000, "{shape:?}");
        format(&drive, &["--blank", "--erase"]).ok();
        imbrex(&["get", &drive, "key000000"]).fails(4, &[&drive]);
        // Blank, so it is formatted without --erase.
        format(&drive, &["--seed", "1"]).ok();
        assert_eq!(count(&drive, &[]), 0, "{shape:?}");
    }
}

/// Only the start was checked and erased; data after it reappeared.
#[test]
fn data_at_the_end_of_a_drive_counts() {
    use std::os::unix::fs::FileExt;
    let dir = Dir::new();
    let drive = dir.blank("d", BLANK[0]);
    // The image ends as the drive does.
    let file = fs::OpenOptions::new().read(true).write(true).open(&drive).unwrap();
    let at = file.metadata().unwrap().len() - 4096;
    let mut was = [0; 4096];
    file.read_exact_at(&mut was, at).unwrap();
    assert!(was.iter().all(|&byte| byte == 0), "the last block of a blank drive is its own");
    file.write_all_at(b"anything", at).unwrap();
    format(&drive, &[]).fails(4, &["its beginning or its end", HOLDS]);
    format(&drive, &["--erase", "--blank"]).ok();
    file.read_exact_at(&mut was, at).unwrap();
    assert!(was.iter().all(|&byte| byte == 0));
    format(&drive, &[]).ok();
}

/// `loop_devices` has the same for what the system's programs make, on real devices.
#[test]
fn what_another_program_has_put_there_is_erased_only_by_its_name() {
    use std::os::unix::fs::FileExt;
    /// Where the data of such an image begin.
    const DATA_OFFSET: u64 = 1 << 20;
    let dir = Dir::new();
    let drive = dir.blank("d", BLANK[0]);
    format(&drive, &["--erase=xfs"]).fails(4, &[&drive, "it does not hold xfs"]);
    // As a client of a served drive would have left it.
    let file = fs::OpenOptions::new().write(true).open(&drive).unwrap();
    file.write_all_at(b"XFSB", DATA_OFFSET).unwrap();
    let found = "it holds a file system, xfs (found at byte 0)";
    let flag = "or erase this one by name (xfs), whose content is then lost; --erase=xfs erases it";
    for args in [&[][..], &["--erase"], &["--erase=ext4"], &["--erase=ext4,btrfs", "--blank"]] {
        format(&drive, args).fails(4, &[&drive, found, flag]);
    }
    format(&drive, &["--erase=xfs,ext4"]).fails(4, &["it does not hold ext4"]);
    format(&drive, &["--erase=XFS"]).ok();
    imbrex(&["put", &drive, "a", "1"]).ok();
    format(&drive, &[]).fails(4, &["it holds a store (layout leveled-first-fit)", HOLDS]);
}

#[test]
fn both_drives_are_checked_before_either_is_written() {
    let dir = Dir::new();
    let drive = dir.blank("d", BLANK[1]);
    let flash = dir.blank("f", &["--profile", "ssd120", "--capacity", "128MiB"]);
    let offload = ["--layout", "smrdb-offload"];
    format(&drive, &offload).fails(2, &[&drive, "name it with --flash DRIVE"]);
    format(&drive, &["--flash", &flash]).fails(2, &["no use for a flash drive", "smrdb-offload"]);
    format(&drive, &[&offload[..], &["--no-store", "--flash", &flash]].concat())
        .fails(2, &["omit --no-store"]);
    let with_flash = [&offload[..], &["--flash", &flash]].concat();
    format(&flash, &[]).ok();
    load(&flash, &[], 10, 0);
    format(&drive, &with_flash).fails(4, &[&flash, HOLDS]);
    assert_eq!(count(&flash, &[]), 10);
    format(&drive, &["--no-store"]).ok();
    format(&drive, &with_flash).fails(4, &[&drive, HOLDS]);
    format(&drive, &[&with_flash[..], &["--erase"]].concat()).ok();
    load(&drive, &["--flash", &flash], 1000, 0);
    assert_eq!(count(&drive, &["--flash", &flash]), 1000);
    imbrex(&["check", &drive, "--flash", &flash]).ok();
    imbrex(&["get", &drive, "key000000"]).fails(4, &["name it with --flash FILE"]);
}

/// The drive was erased first and refused afterwards.
#[test]
fn a_refused_drive_keeps_its_content() {
    let dir = Dir::new();
    let drive = dir.blank("d", &["--rule", "zoned", "--capacity", "512MiB", "--zone-len", "4MiB"]);
    let flash = dir.blank("f", &["--profile", "ssd120", "--capacity", "2MiB"]);
    format(&drive, &[]).ok();
    load(&drive, &[], 1000, 0);
    let long_tables = ["--erase", "--no-store", "--table-len", "8GiB"];
    format(&drive, &long_tables).fails(2, &[&drive, "a unit of"]);
    let with_flash = ["--erase", "--layout", "smrdb-offload", "--flash", &flash];
    format(&drive, &with_flash).fails(2, &[&drive, "the flash drive is too small"]);
    assert_eq!(count(&drive, &[]), 1000);

    // Four zones have no room for a store.
    let shape = ["--rule", "zoned", "--capacity", "1GiB", "--zone-len", "256MiB"];
    let tight = dir.blank("t", &shape);
    for _ in 0..2 {
        // The first refusal had left a store, which the second one found.
        let parts = [&tight, "too small for layout imbrex-zones", "use a drive of"];
        format(&tight, &[]).fails(2, &parts);
    }
    let parts = [&tight, "too small for layout leveldb-greedy", "a database needs 16"];
    format(&tight, &["--no-store", "--layout", "leveldb-greedy"]).fails(2, &parts);
}

#[test]
fn drives_that_cannot_be_formatted() {
    let dir = Dir::new();
    let missing = dir.0.path().join("none");
    format(missing.to_str().unwrap(), &["--erase"]).fails(4, &["no such file"]);
    assert!(!missing.exists());
    format(dir.0.path().to_str().unwrap(), &["--erase"]).fails(4, &["a directory"]);
    let text = dir.0.path().join("text");
    fs::write(&text, "a letter").unwrap();
    format(text.to_str().unwrap(), &["--erase"]).fails(4, &["not an Imbrex drive image"]);
    assert_eq!(fs::read(&text).unwrap(), b"a letter");
    let drive = dir.blank("d", BLANK[0]);
    format(&drive, &["--layout", "gear"]).fails(2, &[&drive, "gear"]);
    format(&drive, &["--layout", "nosuch"]).fails(2, &["nosuch"]);
    for args in
        [&["--blank", "--no-store"][..], &["--blank", "--layout", "gear"], &["--table-len", "1MiB"]]
    {
        assert_eq!(format(&drive, args).code, Some(2), "{args:?}");
    }
    // None of the refusals has changed the drive.
    format(&drive, &[]).ok();
}

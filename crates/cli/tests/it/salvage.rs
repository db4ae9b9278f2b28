//! `imbrex salvage`: a store from a drive that may have lost its catalog.

use crate::bad_input::data_offsets;
use crate::read_only::state;
use crate::{Drive, imbrex, json_lines};
use std::fs::{self, OpenOptions, Permissions};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;

/// A drive with records, and the path of a drive with an empty store.
fn source_and_target(count: usize) -> (Drive, String) {
    let drive = Drive::new();
    drive.run_with(json_lines(count, 1).as_bytes(), "load", &["-"]).ok();
    let target = drive.beside("target.imbrex").to_str().unwrap().to_owned();
    imbrex(&["drive", "create", &target, "--capacity", "4GiB", "--no-timing"]).ok();
    (drive, target)
}

/// Overwrites every header of a catalog in an image.
fn lose_catalog(image: &Path) {
    let file = OpenOptions::new().read(true).write(true).open(image).unwrap();
    let mut count = 0;
    for at in data_offsets(image) {
        let mut magic = [0; 8];
        file.read_exact_at(&mut magic, at).unwrap();
        if magic == *b"IMBXCAT\n" {
            file.write_all_at(&[0xa5; 64], at).unwrap();
            count += 1;
        }
    }
    assert!(count >= 2, "{count} headers");
}

#[test]
fn a_lost_catalog_costs_nothing() {
    let (drive, target) = source_and_target(3000);
    let before = drive.run("scan", &["--format", "json"]).ok();
    lose_catalog(&drive.path());
    drive.run("scan", &[]).fails(4, &["its catalog is damaged", "imbrex salvage"]);
    fs::set_permissions(drive.path(), Permissions::from_mode(0o444)).unwrap();
    let image = state(&drive.path());
    let report = drive.run("salvage", &[&target, "--format", "json"]).json();
    assert_eq!(report["catalog"]["used"], false, "{report}");
    assert_eq!(report["written"]["default"]["entries"], 3000, "{report}");
    assert!(state(&drive.path()) == image, "the source was written");
    assert_eq!(imbrex(&["scan", &target, "--format", "json"]).ok(), before);
}

/// The beginning of the drive reads as zeros, with both copies of the catalog: the drive seems blank.
#[test]
fn a_drive_whose_beginning_was_overwritten_is_salvaged() {
    let (drive, target) = source_and_target(3000);
    let before = drive.run("scan", &["--format", "json"]).ok();
    // After the header of the image.
    let image = OpenOptions::new().write(true).open(drive.path()).unwrap();
    for at in 1..17 {
        image.write_all_at(&vec![0; 1 << 20], at << 20).unwrap();
    }
    drive.run("scan", &[]).fails(4, &["cannot open"]);
    let report = drive.run("salvage", &[&target, "--format", "json"]).json();
    assert_eq!(report["catalog"]["used"], false, "{report}");
    assert_eq!(imbrex(&["scan", &target, "--format", "json"]).ok(), before);
}

#[test]
fn a_sound_drive_is_copied_by_its_catalog() {
    let (drive, target) = source_and_target(100);
    let report = drive.run("salvage", &[&target, "--format", "json"]).json();
    assert_eq!(report["catalog"]["used"], true, "{report}");
    assert_eq!(report["written"]["default"]["entries"], 100, "{report}");
    drive.run("salvage", &[&target]).fails(4, &["target.imbrex", "holds entries already", "--add"]);
    drive.run("salvage", &[&target, "--add", "--ignore-catalog"]).ok();
}

#[test]
fn bad_drives_and_targets_are_refused() {
    let (drive, target) = source_and_target(1);
    drive.run("salvage", &[drive.path_str()]).fails(2, &["both"]);
    let link = drive.beside("link.imbrex");
    std::os::unix::fs::symlink(drive.path(), &link).unwrap();
    drive.run("salvage", &[link.to_str().unwrap()]).fails(2, &["both"]);
    let hard = drive.beside("hard.imbrex");
    fs::hard_link(drive.path(), &hard).unwrap();
    drive.run("salvage", &[hard.to_str().unwrap(), "--add"]).fails(2, &["both"]);
    drive.run("salvage", &["/nowhere/at/all"]).fails(4, &["no such file"]);
    let foreign = drive.beside("foreign");
    let foreign = foreign.to_str().unwrap();
    for content in ["", "not a drive at all"] {
        fs::write(foreign, content.repeat(1000)).unwrap();
        imbrex(&["salvage", foreign, &target]).fails(4, &["not an Imbrex drive image"]);
        drive.run("salvage", &[foreign]).fails(4, &["not an Imbrex drive image"]);
    }
    let blank = drive.beside("blank.imbrex");
    let blank = blank.to_str().unwrap();
    imbrex(&["drive", "create", blank, "--capacity", "256MiB", "--blank"]).ok();
    imbrex(&["salvage", blank, &target]).fails(4, &["no table and no log"]);
    imbrex(&["salvage", blank, &target, "--ignore-catalog"]).fails(4, &["no table and no log"]);
}

//! Output files that options name.

use crate::{Drive, Ran, command, imbrex};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

/// `run` on a drive without a store, with a library that every program loads in place of an adapter.
fn run_program(drive: &Drive, args: &[&str], script: &str) -> (Ran, Vec<String>) {
    let bare = drive.beside("bare");
    let bare = bare.to_str().unwrap();
    let create = ["drive", "create", "--no-store", "--capacity", "4GiB", "--no-timing", bare];
    if !Path::new(bare).exists() {
        imbrex(&create).ok();
    }
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let library = maps.lines().find_map(|line| {
        let (_, name) = line.split_once('/')?;
        name.contains("libc.so").then(|| format!("/{name}"))
    });
    let library = library.unwrap();
    let temporary = tempfile::tempdir().unwrap();
    let output = command()
        .args(["run", "--drive", bare, "--database", "leveldb", "--adapter", &library])
        .args(args)
        .args(["--", "sh", "-c", script])
        .env("TMPDIR", temporary.path())
        .output()
        .unwrap();
    let left = std::fs::read_dir(temporary.path()).unwrap();
    let left = left.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
    (crate::ran(output), left.collect())
}

#[test]
fn no_drive_is_overwritten() {
    let drive = Drive::new();
    let [image, other, link] = ["image", "other", "link"].map(|name| drive.beside(name));
    let shown = image.to_str().unwrap();
    let shape = ["--zone-len", "1MiB", "--capacity", "64MiB", "--no-timing"];
    imbrex(&[&["drive", "create", shown], &shape[..]].concat()).ok();
    std::fs::copy(&image, &other).unwrap();
    std::os::unix::fs::symlink(&image, &link).unwrap();
    let before = std::fs::read(&image).unwrap();
    for target in [&image, &other, &link] {
        let target = target.to_str().unwrap();
        imbrex(&["drive", "zones", shown, "--svg", target]).fails(2, &[target, "it is a drive"]);
        let (ran, _) = run_program(&drive, &["--report", target], "exit 0");
        ran.fails(2, &[target, "it is a drive"]);
        let property = format!("exportfile={target}");
        imbrex(&["ycsb", "load", "-p", &property, "-p", "recordcount=1"]).fails(2, &[target]);
    }
    let bare = drive.beside("bare");
    let (ran, _) = run_program(&drive, &["--report", bare.to_str().unwrap()], "exit 0");
    ran.fails(2, &["bare: it is a drive"]);
    assert!(std::fs::read(&image).unwrap() == before);
    assert!(std::fs::read(&other).unwrap() == before);
}

#[test]
fn a_picture_replaces_a_file_as_a_whole_or_not_at_all() {
    let drive = Drive::new();
    let dir = drive.beside("pictures");
    std::fs::create_dir(&dir).unwrap();
    let (picture, link) = (dir.join("a.svg"), dir.join("link.svg"));
    let draw =
        |to: &Path| imbrex(&["drive", "zones", drive.path_str(), "--svg", to.to_str().unwrap()]);
    draw(&picture).ok();
    let text = std::fs::read_to_string(&picture).unwrap();
    assert!(text.contains("<svg"), "{text}");
    let mode = |path: &Path| std::fs::metadata(path).unwrap().mode() & 0o777;
    let usual = dir.join("usual");
    std::fs::write(&usual, "").unwrap();
    assert_eq!(mode(&picture), mode(&usual));
    std::fs::write(&picture, "old").unwrap();
    std::fs::set_permissions(&picture, std::fs::Permissions::from_mode(0o640)).unwrap();
    std::os::unix::fs::symlink("a.svg", &link).unwrap();
    draw(&link).ok();
    assert_eq!(std::fs::read_to_string(&picture).unwrap(), text);
    assert_eq!(mode(&picture), 0o640);
    assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
    assert!(draw(Path::new("/dev/stdout")).ok().contains("<svg"));
    // A file whose properties a new file would not keep is written in place.
    let (dangling, behind, second) = (dir.join("dangling"), dir.join("behind"), dir.join("second"));
    std::os::unix::fs::symlink("behind", &dangling).unwrap();
    draw(&dangling).ok();
    assert!(std::fs::symlink_metadata(&dangling).unwrap().is_symlink());
    assert_eq!(std::fs::read_to_string(&behind).unwrap(), text);
    std::fs::hard_link(&usual, &second).unwrap();
    draw(&usual).ok();
    assert_eq!(std::fs::read_to_string(&second).unwrap(), text);
    let printed = std::fs::File::create(&behind).unwrap();
    let args = ["drive", "zones", drive.path_str(), "--svg", behind.to_str().unwrap()];
    assert!(command().args(args).stdout(printed.try_clone().unwrap()).status().unwrap().success());
    assert_eq!(printed.metadata().unwrap().nlink(), 1, "it is the same file");
    draw(&dir.join("none/a.svg")).fails(4, &["cannot write", "none/a.svg"]);
    assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 6, "nothing else stays");
}

#[test]
fn a_program_that_fails_leaves_no_temporary_file() {
    let drive = Drive::new();
    let (ran, left) = run_program(&drive, &[], "test -f $IMBREX_REPORT && exit 3");
    assert_eq!(ran.code, Some(3), "{}", ran.stderr);
    assert!(left.is_empty(), "{left:?}");
}

//! `imbrex run`: what cannot work says why before anything runs. That it works, with RocksDB's own
//! programs, is tested by `cargo xtask adapters`.

use crate::{Drive, imbrex};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

fn run(drive: &Path, more: &[&str], program: &str) -> crate::Ran {
    let args = ["run", "--drive", drive.to_str().unwrap()];
    imbrex(&[&args, more, &["--", program, "--an-argument"]].concat())
}

fn program(path: &Path, bytes: &[u8]) -> String {
    std::fs::write(path, bytes).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path.to_str().unwrap().to_owned()
}

/// A statically linked program, as far as its headers go.
fn static_elf() -> Vec<u8> {
    let mut head = vec![0; 120];
    head[..6].copy_from_slice(b"\x7fELF\x02\x01");
    head[32] = 64;
    head[54] = 56;
    head[56] = 1;
    head[64] = 1;
    head
}

#[test]
fn a_program_that_cannot_be_hooked() {
    let drive = Drive::new();
    let bare = drive.beside("bare");
    let create = ["drive", "create", "--no-store", "--capacity", "4GiB", "--no-timing"];
    imbrex(&[&create[..], &[bare.to_str().unwrap()]].concat()).ok();
    run(&bare, &[], "no-such-program").fails(2, &["cannot find program no-such-program"]);
    run(&bare, &[], "true").fails(4, &["/true", "loads neither librocksdb, libleveldb nor"]);
    let told = ["--database", "leveldb", "--adapter", "/nowhere"];
    run(&bare, &told, "true").fails(4, &["cannot find the adapter libimbrex_leveldb.so"]);
    let told = ["--database", "hyperleveldb", "--adapter", "/nowhere"];
    let says =
        ["cannot find the adapter libimbrex_hyperleveldb.so", "where HyperLevelDB is installed"];
    run(&bare, &told, "true").fails(4, &says);
    let script = program(&drive.beside("script"), b"#!/bin/sh\nexit 0\n");
    run(&bare, &[], &script).fails(4, &[&script, "is a script"]);
    let fixed = program(&drive.beside("fixed"), &static_elf());
    run(&bare, &[], &fixed).fails(4, &[&fixed, "statically linked"]);
    let text = program(&drive.beside("text"), b"text");
    run(&bare, &[], &text).fails(4, &[&text, "no program of this system"]);
}

#[test]
fn a_drive_that_cannot_take_a_database() {
    let drive = Drive::new();
    run(&drive.beside("nowhere"), &[], "true").fails(4, &["no such file"]);
    run(&drive.path(), &[], "true").fails(4, &["another store", "--no-store"]);
    let other = ["--layout", "leveled-log"];
    run(&drive.path(), &other, "true").fails(4, &["leveled-zones", "leveled-log"]);
    run(&drive.path(), &["--layout", "leveled-zone"], "true").fails(2, &["leveled-zones"]);
}

#[test]
fn a_drive_that_holds_another_databases_files() {
    let drive = Drive::new();
    let bare = drive.beside("bare");
    let create = ["drive", "create", "--no-store", "--capacity", "4GiB", "--no-timing"];
    imbrex(&[&create[..], &[bare.to_str().unwrap()]].concat()).ok();
    let disk = imbrex_disk_sim::SimDisk::open_image(&bare, Default::default()).unwrap();
    let runtime = imbrex_clockwork::Runtime::threads(1);
    let mounted = imbrex_layouts::mount(std::sync::Arc::new(disk), &runtime).unwrap();
    let options = imbrex_filesystem::FsOptions { unix_time_s: || 0 };
    let fs = imbrex_filesystem::FileSystem::open(std::sync::Arc::new(mounted.files), options);
    let fs = fs.unwrap();
    fs.make_dir("/db").unwrap();
    fs.sync_all().unwrap();
    drop((fs, mounted.disk, mounted.drive, runtime));
    let path = bare.to_str().unwrap();
    imbrex(&["get", path, "k"]).fails(4, &["files of another database", "imbrex run"]);
    assert!(imbrex(&["check", path]).ok().contains("nothing is wrong with the files"));
    run(&bare, &[], "true").fails(4, &["loads neither"]);
}

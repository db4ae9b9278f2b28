//! `drive format` and `--read-only` on block devices of this machine's kernel: loop devices over files of its own, with
//! whatever the system's programs put on them.
//!
//! Without the right to make such devices it says so and ends.

#![expect(clippy::unwrap_used, reason = "a test, which the lint does not see without a harness")]

use std::fs::{self, File, Permissions};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Enough for every program.
const LEN_BYTES: u64 = 320 << 20;

/// What makes a content, and its name.
const MAKERS: [(&str, &[&str]); 9] = [
    ("ext2", &["mkfs.ext2", "-q", "-F"]),
    ("ext3", &["mkfs.ext3", "-q", "-F"]),
    ("ext4", &["mkfs.ext4", "-q", "-F", "-L", "data"]),
    ("xfs", &["mkfs.xfs", "-q", "-f"]),
    ("btrfs", &["mkfs.btrfs", "-q", "-f"]),
    ("vfat", &["mkfs.vfat", "-I"]),
    ("swap", &["mkswap"]),
    ("gpt", &["sfdisk", "-q", "--label", "gpt"]),
    ("dos", &["sfdisk", "-q", "--label", "dos"]),
];

fn main() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("probe");
    File::create(&file).unwrap().set_len(LEN_BYTES).unwrap();
    if Device::over(&file).is_none() {
        println!(
            "SKIPPED: no loop devices: formatting and reading real block devices was not tested; run it as root"
        );
        return;
    }
    for (name, maker) in MAKERS {
        if runs(maker[0]) {
            is_erased_only_by_its_name(dir.path(), name, maker);
        } else {
            println!(
                "SKIPPED: {name} on a real device was not tested; {} is not installed",
                maker[0]
            );
        }
    }
    if runs("sfdisk") && runs("mkfs.btrfs") {
        several_at_once(dir.path());
    }
    in_use(dir.path());
    is_read_by_many(dir.path());
    println!("loop devices: formatted only if asked, read without a write");
}

fn runs(program: &str) -> bool {
    let dirs = std::env::var("PATH").unwrap_or_default();
    let dirs = dirs.split(':').map(Path::new).chain([Path::new("/usr/sbin"), Path::new("/sbin")]);
    { dirs }.any(|dir| dir.join(program).exists())
}

fn system(program: &str) -> Command {
    let mut command = Command::new(program);
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{path}:/usr/sbin:/sbin"));
    command
}

/// A loop device over a file, until it is dropped.
struct Device(PathBuf);

impl Device {
    fn new(dir: &Path, name: &str) -> Device {
        let file = dir.join(name);
        File::create(&file).unwrap().set_len(LEN_BYTES).unwrap();
        Device::over(&file).unwrap()
    }

    fn over(file: &Path) -> Option<Device> {
        let made = system("losetup").args(["--find", "--show"]).arg(file).output().ok()?;
        let path = String::from_utf8(made.stdout).unwrap();
        made.status.success().then(|| Device(path.trim().into()))
    }

    fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }

    #[track_caller]
    fn make(&self, maker: &[&str]) {
        let mut made = system(maker[0]);
        made.args(&maker[1..]).arg(self.path()).stdin(Stdio::piped());
        let mut made = made.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        // For sfdisk: one partition.
        let _ = made.stdin.take().unwrap().write_all(b"size=32M\n");
        assert!(made.wait().unwrap().success(), "{maker:?}");
    }

    /// The name of what is on it, as blkid has it.
    fn blkid(&self) -> Option<String> {
        let found = system("blkid").args(["-p", "-o", "export"]).arg(&self.0).output().ok()?;
        let text = String::from_utf8(found.stdout).unwrap();
        let value = |key: &str| text.lines().find_map(|line| line.strip_prefix(key));
        value("PTTYPE=").or_else(|| value("TYPE=")).map(str::to_owned)
    }

    fn format(&self, args: &[&str]) -> Output {
        imbrex(&[&["drive", "format", self.path()], args].concat())
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // The kernel remembers for the next user of the number that the device was read-only.
        let _ = system("blockdev").arg("--setrw").arg(&self.0).status();
        let _ = system("losetup").arg("--detach").arg(&self.0).status();
    }
}

fn imbrex(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_imbrex")).args(args).stdin(Stdio::null()).output().unwrap()
}

#[track_caller]
fn ok(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[track_caller]
fn refused(output: &Output, parts: &[&str]) {
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(4), "{error}");
    for part in parts {
        assert!(error.contains(part), "{part:?} is missing in: {error}");
    }
}

fn is_erased_only_by_its_name(dir: &Path, name: &str, maker: &[&str]) {
    let device = Device::new(dir, name);
    device.make(maker);
    if runs("blkid") {
        assert_eq!(device.blkid().as_deref(), Some(name), "blkid has another name for it");
    }
    let before = fs::read(&device.0).unwrap();
    let found = format!(", {name} (");
    let flag = format!("--erase={name} erases it");
    refused(&device.format(&[]), &[device.path(), "it holds a", &found, &flag]);
    refused(&device.format(&["--erase"]), &[&found, "by name (", &flag]);
    refused(&device.format(&["--erase=zonefs"]), &[&found, &flag]);
    assert!(fs::read(&device.0).unwrap() == before, "{name} has changed");
    ok(&device.format(&[&*format!("--erase={name}")]));
    assert_eq!(device.blkid(), None, "{name} is still there");
    ok(&imbrex(&["put", device.path(), "apple", "red"]));
    refused(&device.format(&[]), &["it holds a store (layout ", "--erase erases it"]);
    refused(&device.format(&[&*format!("--erase={name}")]), &["it does not hold", name]);
    assert_eq!(ok(&imbrex(&["get", device.path(), "apple"])), "red");
    ok(&device.format(&["--erase"]));
}

/// A partition table is named before what its partitions had, and only its name counts.
fn several_at_once(dir: &Path) {
    let device = Device::new(dir, "several");
    device.make(MAKERS[4].1);
    device.make(&["sfdisk", "-q", "--wipe", "never", "--label", "gpt"]);
    let both =
        ["a partition table, gpt (1 partition, ", " and a file system, btrfs (", "--erase=gpt"];
    refused(&device.format(&["--erase=btrfs"]), &both);
    ok(&device.format(&["--blank", "--erase=GPT"]));
    assert_eq!(device.blkid(), None);
}

/// A device that is mounted, swapped to, or open in another process is refused, whatever is to be erased.
fn in_use(dir: &Path) {
    let device = Device::new(dir, "mounted");
    device.make(MAKERS[2].1);
    let at = dir.join("mnt");
    fs::create_dir(&at).unwrap();
    let mounted = system("mount").arg(&device.0).arg(&at).stderr(Stdio::null()).status();
    if mounted.is_ok_and(|mounted| mounted.success()) {
        let words = format!("is in use by the file system mounted at {}", at.display());
        for args in [&[][..], &["--erase"], &["--erase=ext4"]] {
            refused(&device.format(args), &[device.path(), &words]);
        }
        refused(&imbrex(&["get", "--read-only", device.path(), "a"]), &[&words]);
        assert!(system("umount").arg(&at).status().unwrap().success());
    } else {
        println!("SKIPPED: no file system can be mounted: a mounted device was not tested");
    }
    let swap = Device::new(dir, "swapped");
    swap.make(MAKERS[6].1);
    let swapped = system("swapon").arg(&swap.0).stderr(Stdio::null()).status();
    if swapped.is_ok_and(|swapped| swapped.success()) {
        refused(&swap.format(&["--erase=swap"]), &["is in use by the kernel, which swaps to it"]);
        assert!(system("swapoff").arg(&swap.0).status().unwrap().success());
    } else {
        println!("SKIPPED: no device can be swapped to: a swap area in use was not tested");
    }
}

/// Any number of readers, without a write, while no writer has the device.
fn is_read_by_many(dir: &Path) {
    let device = Device::new(dir, "read");
    ok(&device.format(&[]));
    let records: String =
        (0..9000).map(|n| format!("{{\"key\":\"{n:05}\",\"value\":\"{n:0>100}\"}}\n")).collect();
    let file = dir.join("records");
    fs::write(&file, records).unwrap();
    ok(&imbrex(&["load", device.path(), file.to_str().unwrap()]));

    // As the kernel shows it, not as it is cached.
    let image = || {
        assert!(system("blockdev").arg("--flushbufs").arg(&device.0).status().unwrap().success());
        fs::read(dir.join("read")).unwrap()
    };
    let before = image();
    let mut scan = Command::new(env!("CARGO_BIN_EXE_imbrex"))
        .args(["scan", "--read-only", device.path()])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // Its output is more than a pipe holds, so it has the device open.
    scan.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
    assert!(ok(&imbrex(&["get", "--read-only", device.path(), "00001"])).ends_with("01"));
    let reader = format!("is in use by process {} (imbrex scan)", scan.id());
    refused(&imbrex(&["put", device.path(), "a", "1"]), &[&reader]);
    refused(&device.format(&["--erase"]), &[&reader]);
    drop(scan.stdout.take());
    scan.wait().unwrap();
    assert!(image() == before, "a reader has written");

    let mut load = Command::new(env!("CARGO_BIN_EXE_imbrex"))
        .args(["load", device.path(), "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    // More than a pipe holds: after this write the loader has read some of it, and its device is open.
    let mut stdin = load.stdin.take().unwrap();
    stdin.write_all(&fs::read(&file).unwrap()).unwrap();
    let writer = format!("is in use by process {} (imbrex load)", load.id());
    refused(&imbrex(&["get", "--read-only", device.path(), "00001"]), &[&writer]);
    drop(stdin);
    assert!(load.wait().unwrap().success());

    // A device that may only be read, for root too.
    let read_only = system("blockdev").arg("--setro").arg(&device.0).status().unwrap();
    assert!(read_only.success());
    refused(
        &imbrex(&["get", device.path(), "00001"]),
        &["is read-only; open it read-only, or make it writable; --read-only reads it"],
    );
    assert!(ok(&imbrex(&["check", "--read-only", device.path()])).contains("nothing is wrong"));

    // Another user's, who may read it.
    let mode = fs::metadata(&device.0).unwrap().permissions();
    fs::set_permissions(&device.0, Permissions::from_mode(0o604)).unwrap();
    let program = dir.join("imbrex");
    // As in `it/bad_input.rs`: no test runs what its own process has just written.
    let copied = system("cp").arg(env!("CARGO_BIN_EXE_imbrex")).arg(&program).status().unwrap();
    assert!(copied.success());
    fs::set_permissions(dir, Permissions::from_mode(0o755)).unwrap();
    let as_other = |args: &[&str]| {
        let user = ["--reuid", "65534", "--regid", "65534", "--clear-groups"];
        system("setpriv").args(user).arg(&program).args(args).output().unwrap()
    };
    refused(&as_other(&["get", device.path(), "00001"]), &["is read-only; open it read-only"]);
    assert!(ok(&as_other(&["get", "--read-only", device.path(), "00001"])).ends_with("01"));
    fs::set_permissions(&device.0, mode).unwrap();
}

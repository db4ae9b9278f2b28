//! `imbrex run`: an impossible run is explained before anything starts. `cargo xtask adapters` tests that it works,
//! with RocksDB's own programs.

use crate::{Drive, imbrex};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

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
    let bare = bare(&drive);
    run(&bare, &[], "no-such-program").fails(2, &["cannot find the program no-such-program"]);
    run(&bare, &[], "true").fails(4, &["/true", "does not load librocksdb, libleveldb or"]);
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
    run(&bare, &[], &text).fails(4, &[&text, "not a program of this system"]);
}

#[test]
fn a_drive_that_cannot_take_a_database() {
    let drive = Drive::new();
    run(&drive.beside("nowhere"), &[], "true").fails(4, &["no such file"]);
    run(&drive.path(), &[], "true").fails(4, &["another store", "--no-store"]);
    let other = ["--layout", "leveled-log"];
    run(&drive.path(), &other, "true").fails(4, &["imbrex-zones", "leveled-log"]);
    run(&drive.path(), &["--layout", "leveled-zone"], "true").fails(2, &["leveled-zones"]);
}

#[test]
fn a_drive_with_the_files_of_another_database() {
    let drive = Drive::new();
    let bare = bare(&drive);
    let disk = imbrex_disk_sim::SimDisk::open_image(&bare, Default::default()).unwrap();
    let runtime = imbrex_clockwork::Runtime::threads(1);
    let mounted = imbrex::stack::mount(std::sync::Arc::new(disk), &runtime).unwrap();
    let options = imbrex_filesystem::FsOptions { unix_time_s: || 0 };
    let fs = imbrex_filesystem::FileSystem::open(std::sync::Arc::new(mounted.files), options);
    let fs = fs.unwrap();
    fs.make_dir("/db").unwrap();
    fs.sync_all().unwrap();
    drop((fs, mounted.disk, mounted.drive, runtime));
    let path = bare.to_str().unwrap();
    imbrex(&["get", path, "k"]).fails(4, &["files of another database", "imbrex run"]);
    assert!(imbrex(&["check", path]).ok().contains("nothing is wrong with the files"));
    run(&bare, &[], "true").fails(4, &["does not load librocksdb"]);
}

/// A drive without a store.
fn bare(drive: &Drive) -> PathBuf {
    let bare = drive.beside("bare");
    let create = ["drive", "create", "--no-store", "--capacity", "4GiB", "--no-timing"];
    imbrex(&[&create[..], &[bare.to_str().unwrap()]].concat()).ok();
    bare
}

/// A shell on a drive. A test of signals needs no database, so a library that the shell loads anyway stands for the
/// adapter. `handling` sets the signal handling of the command, independent of the test's own.
fn shell(bare: &Path, handling: &str, script: &str) -> Command {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let library = maps.lines().find_map(|line| {
        let (_, name) = line.split_once('/')?;
        name.contains("libc.so").then(|| format!("/{name}"))
    });
    let mut command = Command::new("env");
    command.args([handling, env!("CARGO_BIN_EXE_imbrex"), "run", "--database", "leveldb"]);
    command.arg("--drive").arg(bare).arg("--adapter").arg(library.unwrap());
    command.args(["--", "/bin/sh", "-c", script]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    command
}

/// Starts a command, and returns when it has printed a line.
fn started(mut command: Command) -> (Child, BufReader<ChildStdout>) {
    let mut child = command.spawn().unwrap();
    let mut said = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    (child, said)
}

/// Signals ended the command and left the program running, or never reached the program.
#[test]
fn a_signal_reaches_the_program() {
    let drive = Drive::new();
    let bare = bare(&drive);
    for (name, number) in [("HUP", 1), ("INT", 2), ("QUIT", 3), ("USR1", 10), ("TERM", 15)] {
        let signal = rustix::process::Signal::from_named_raw(number).unwrap();
        let handling = format!("--default-signal={name}");
        for (script, says, code) in [
            // Its input does not end before the test does.
            ("ulimit -c 0; echo ready; exec cat".to_owned(), "", 128 + number),
            (
                format!(
                    "cat <&3 & trap 'kill $!; echo {name}; exit 7' {name}; echo ready; wait; wait"
                ),
                name,
                7,
            ),
        ] {
            let script = format!("exec 3<&0; {script}");
            let (mut child, mut said) = started(shell(&bare, &handling, &script));
            rustix::process::kill_process(rustix::process::Pid::from_child(&child), signal)
                .unwrap();
            let mut rest = String::new();
            said.read_to_string(&mut rest).unwrap();
            assert_eq!(rest.trim(), says, "{name}");
            let stdin = child.stdin.take();
            assert_eq!(child.wait().unwrap().code(), Some(code), "{name}");
            drop(stdin);
        }
    }
}

/// A hangup ended `nohup imbrex run` and its program.
#[test]
fn ignored_signals_stay_ignored() {
    let drive = Drive::new();
    let bare = bare(&drive);
    let (mut child, mut said) =
        started(shell(&bare, "--ignore-signal=HUP", "kill -HUP $$; echo ready; read x; echo $x"));
    let hangup = rustix::process::Signal::HUP;
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), hangup).unwrap();
    std::io::Write::write_all(child.stdin.as_mut().unwrap(), b"alive\n").unwrap();
    let mut rest = String::new();
    said.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "alive\n");
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

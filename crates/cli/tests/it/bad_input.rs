//! Wrong arguments and damaged images. Each gives a line that says what failed, where, and what to do; never a
//! panic, never a wrong answer.

use crate::crash::{begin_load, signal};
use crate::{Drive, copy_sparse, imbrex, json_lines, value};
use imbrex_disk_sim::Profile;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;
use std::process::{Command, Stdio};

const READERS: [&[&str]; 5] = [
    &["get", "DRIVE", "k"],
    &["scan", "DRIVE"],
    &["stats", "DRIVE"],
    &["check", "DRIVE"],
    &["drive", "zones", "DRIVE"],
];

/// Every command that opens a drive reports a bad one in the same words.
#[track_caller]
fn every_reader_fails(path: &Path, code: i32, parts: &[&str]) {
    let path = path.to_str().unwrap();
    for reader in READERS {
        let args: Vec<_> =
            reader.iter().map(|arg| if *arg == "DRIVE" { path } else { arg }).collect();
        let line = imbrex(&args).fails(code, parts);
        assert!(line.contains(path), "{line}");
    }
}

#[test]
fn every_bad_path_is_refused_in_the_words_of_the_table() {
    // Another user, as whom the table opens some paths, may not reach the build's directory.
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let program = dir.path().join("imbrex");
    // A program that a process has open for writing does not start ("text file busy"), and a child of
    // another test inherits what this process has open. So another process copies.
    let copied = Command::new("cp").arg(env!("CARGO_BIN_EXE_imbrex")).arg(&program).status();
    assert!(copied.unwrap().success());
    crate::bad_paths::check_all(&crate::bad_paths::Door {
        code: |row| row.outcome.2,
        has_flags: true,
        open: &|asked| {
            let mut command = Command::new(&program);
            command.arg("get").arg(asked.path).arg("apple").stdin(Stdio::null());
            if let Some(layout) = asked.layout {
                command.args(["--layout", layout]);
            }
            if asked.is_read_only {
                command.arg("--read-only");
            }
            let ran = crate::ran(command.output().unwrap());
            if ran.code == Some(0) {
                assert_eq!(ran.stdout, b"red");
                return None;
            }
            let words = ran.stderr.strip_prefix("imbrex: ").unwrap_or(&ran.stderr);
            Some((ran.code.unwrap(), words.trim_end().to_owned()))
        },
    });
}

#[test]
fn paths_without_a_drive() {
    let drive = Drive::new();
    every_reader_fails(&drive.beside("nowhere"), 4, &["no such file"]);
    every_reader_fails(drive.dir.path(), 4, &["a directory"]);
    let text = drive.beside("text");
    fs::write(&text, "not a drive at all".repeat(1000)).unwrap();
    every_reader_fails(&text, 4, &["not an Imbrex drive image"]);
    fs::write(&text, "").unwrap();
    every_reader_fails(&text, 4, &[]);
    imbrex(&["drive", "create", drive.path_str()]).fails(4, &["exists already"]);
    imbrex(&["drive", "create", "/nowhere/d.imbrex"]).fails(4, &["/nowhere is not a directory"]);
}

#[test]
fn an_image_of_another_version_is_refused() {
    let drive = Drive::new();
    let file = OpenOptions::new().read(true).write(true).open(drive.path()).unwrap();
    let mut version = [0; 4];
    file.read_exact_at(&mut version, 8).unwrap();
    assert_eq!(u32::from_le_bytes(version), 1, "the version lies at offset 8");
    file.write_all_at(&99_u32.to_le_bytes(), 8).unwrap();
    every_reader_fails(&drive.path(), 4, &[]);
}

#[test]
fn a_truncated_image_is_refused() {
    let drive = Drive::new();
    let len = fs::metadata(drive.path()).unwrap().len();
    for cut in [1, 5000, len / 2, len - 100] {
        let copy = drive.beside("cut");
        copy_sparse(&drive.path(), &copy);
        OpenOptions::new().write(true).open(&copy).unwrap().set_len(len - cut).unwrap();
        every_reader_fails(&copy, 5, &["bytes long", "its header says", "restore"]);
    }
}

#[test]
fn a_flipped_bit_is_an_error_or_changes_nothing() {
    let drive = Drive::new();
    drive.run_with(json_lines(2000, 0).as_bytes(), "load", &["-"]).ok();
    drive.run("compact", &[]).ok();
    drive.run_with(json_lines(100, 1).as_bytes(), "load", &["-"]).ok();
    let expected = drive.run("scan", &[]).ok();
    let bytes_in_use = data_offsets(&drive.path());
    let mut noticed = 0;
    const FLIP_COUNT: usize = 60;
    for flip in 0..FLIP_COUNT {
        let copy = drive.beside("flipped");
        copy_sparse(&drive.path(), &copy);
        let at = bytes_in_use[bytes_in_use.len() * flip / FLIP_COUNT] + (flip as u64 * 997) % 4096;
        let file = OpenOptions::new().read(true).write(true).open(&copy).unwrap();
        let mut byte = [0];
        file.read_exact_at(&mut byte, at).unwrap();
        byte[0] ^= 1 << (flip % 8);
        file.write_all_at(&byte, at).unwrap();
        drop(file);
        let copy = copy.to_str().unwrap();
        let scan = imbrex(&["scan", copy]);
        assert!(!scan.stderr.contains("panicked"), "byte {at}: {}", scan.stderr);
        match scan.code {
            Some(0) => assert!(scan.ok() == expected, "byte {at}: a wrong answer"),
            Some(4 | 5) => noticed += 1,
            code => panic!("byte {at}: exit code {code:?}: {}", scan.stderr),
        }
        let check = imbrex(&["check", copy]);
        assert!(matches!(check.code, Some(0 | 4 | 5)), "byte {at}: {}", check.stderr);
        assert!(!check.stderr.contains("panicked"), "byte {at}: {}", check.stderr);
    }
    assert!(noticed > FLIP_COUNT / 10, "only {noticed} of {FLIP_COUNT} flips were noticed");
}

/// The offset of every 4 KiB of the file that are not all zeros.
pub(crate) fn data_offsets(path: &Path) -> Vec<u64> {
    use rustix::fs::{SeekFrom, seek};
    let file = fs::File::open(path).unwrap();
    let mut offsets = Vec::new();
    let mut at = 0;
    while let Ok(data) = seek(&file, SeekFrom::Data(at)) {
        let hole = seek(&file, SeekFrom::Hole(data)).unwrap();
        let mut block = [0; 4096];
        for offset in (data..hole).step_by(4096) {
            if file.read_exact_at(&mut block, offset).is_ok() && block.iter().any(|b| *b != 0) {
                offsets.push(offset);
            }
        }
        at = hole;
    }
    offsets
}

#[test]
fn a_drive_in_use_is_refused() {
    let drive = Drive::new();
    let mut holder = crate::command()
        .args(["load", drive.path_str(), "-"])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    // More than a pipe holds: after this write the holder has read some of it, and its drive is open.
    let records = json_lines(10_000, 0);
    let mut stdin = holder.stdin.take().unwrap();
    std::io::Write::write_all(&mut stdin, records.as_bytes()).unwrap();
    let holder_shown = format!("is in use by process {} (imbrex load)", holder.id());
    every_reader_fails(&drive.path(), 4, &[&holder_shown]);
    drop(stdin);
    assert!(holder.wait().unwrap().success());
}

#[test]
fn a_read_only_file_is_refused() {
    let drive = Drive::new();
    let mut permissions = fs::metadata(drive.path()).unwrap().permissions();
    permissions.set_readonly(true);
    fs::set_permissions(drive.path(), permissions).unwrap();
    // For root too, who could write the file all the same: the mode states the owner's intention.
    every_reader_fails(&drive.path(), 4, &["make the file", "; --read-only reads it without"]);
    let refused = drive.run("put", &["a", "1"]).fails(4, &["is read-only", "make the file"]);
    assert!(!refused.contains("--read-only"), "no such flag: {refused}");
}

#[test]
fn a_full_host_is_an_error_and_the_store_survives() {
    let drive = Drive::new();
    drive.run("put", &["before", "1"]).ok();
    // The shell's limit on file length stands for a full disk: writes past it fail in the same way.
    let script = format!(
        "trap '' XFSZ; ulimit -f 1; exec {} load {} -",
        env!("CARGO_BIN_EXE_imbrex"),
        drive.path_str()
    );
    let mut child = std::process::Command::new("bash")
        .args(["-c", &script])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let _ = std::io::Write::write_all(&mut stdin, json_lines(5000, 0).as_bytes());
    drop(stdin);
    crate::ran(child.wait_with_output().unwrap()).fails(4, &["imbrex: "]);
    assert_eq!(drive.run("get", &["before"]).ok(), "1");
    drive.run("check", &[]).ok();
}

#[test]
fn impossible_keys() {
    let drive = Drive::new();
    drive.run("put", &["", "v"]).fails(3, &["key of 0 bytes", "1 to 65536"]);
    let long = "k".repeat(65_537);
    drive.run("put", &[&long, "v"]).fails(3, &["key of 65537 bytes"]);
    drive.run("get", &[""]).fails(3, &["key of 0 bytes"]);
    drive.run("put", &["--hex-keys", "f", "v"]).fails(2, &["hexadecimal"]);
}

/// A second drive, so small that a test can read its whole image.
fn small(drive: &Drive) -> String {
    let path = drive.beside("small").to_str().unwrap().to_owned();
    let shape = ["--rule", "conventional", "--capacity", "64MiB", "--no-timing"];
    imbrex(&[&["drive", "create", &path], &shape[..]].concat()).ok();
    path
}

/// Each was accepted silently, ended with another exit code, or used up the machine's memory.
#[test]
fn impossible_flags() {
    let drive = Drive::new();
    let small = small(&drive);
    let bench = |args: &[&str], parts: &[&str]| {
        imbrex(&[&["bench", "--benchmarks", "fillseq", "--num", "10"], args].concat())
            .fails(2, parts);
    };
    bench(&["--value_size", "99999999999"], &["--value_size", "at most 1073741824"]);
    bench(&["--key_size", "70000"], &["--key_size", "at most 65536"]);
    bench(&["--block_size", "0"], &["--block_size sets it"]);
    bench(&["--bloom_bits", "100000"], &["--bloom_bits sets it"]);
    bench(&["--drive", "nofile"], &["nofile"]);
    let image = drive.beside("new");
    let before = fs::read(&small).unwrap();
    for more in [["--image", image.to_str().unwrap()], ["--capacity", "1GiB"], ["--rule", "zoned"]]
    {
        let args = [&["--drive", &small], &more[..]].concat();
        bench(&args, &["is an existing drive", more[0]]);
    }
    assert!(fs::read(&small).unwrap() == before && !image.exists());
    let refused = |args: &[&str], flag: &str| {
        let ran = imbrex(args);
        assert_eq!(ran.code, Some(2), "{}", ran.stderr);
        assert!(ran.stderr.contains(flag), "{}", ran.stderr);
    };
    refused(&["repro", "sealdb-8", "--jobs", "0"], "--jobs");
    imbrex(&["repro", "sealdb-8", "--scale", "1e-12"]).fails(2, &["no run was possible"]);
    let serve = ["serve", "--memory", "1MiB", "--socket", "s"];
    refused(&[&serve[..], &["--connections", "0"]].concat(), "--connections");
    refused(&[&serve[..], &["--make"]].concat(), "--make");
}

/// An overwritten catalog is not reported as unformatted, because formatting would destroy the rest.
#[test]
fn an_overwritten_catalog() {
    let drive = Drive::new();
    let small = small(&drive);
    imbrex(&["put", &small, "a", "1"]).ok();
    let image = fs::read(&small).unwrap();
    let headers: Vec<usize> =
        (0..image.len()).filter(|&at| image[at..].starts_with(b"IMBXCAT\n")).collect();
    let mut damaged = image;
    headers.iter().for_each(|&at| damaged[at..at + 4096].fill(0xee));
    fs::write(&small, damaged).unwrap();
    let line = imbrex(&["get", &small, "a"]).fails(4, &["damaged", "imbrex salvage"]);
    assert!(!line.contains("format"), "{line}");
}

#[test]
fn impossible_sizes_and_names() {
    let drive = Drive::new();
    let new = drive.beside("new");
    let new = new.to_str().unwrap();
    let ran = imbrex(&["drive", "create", new, "--capacity", "8XiB"]);
    assert_eq!(ran.code, Some(2));
    assert!(ran.stderr.contains("8XiB"), "{}", ran.stderr);
    imbrex(&["drive", "create", new, "--profile", "nosuch"]).fails(2, &["nosuch", "hc620"]);
    imbrex(&["drive", "create", new, "--capacity", "1KiB"])
        .fails(2, &["1 KiB with zones", "; use "]);
    imbrex(&["drive", "create", new, "--zone-len", "100"]).fails(2, &["zones; at most"]);
    // Rounding this length up to whole blocks overflows: it panicked.
    let told = ["is 4503599627370496; it must be at most", "the drive's length in blocks"];
    let longest = ["--capacity", "8GiB", "--zone-len", "18446744073709551615"];
    for profile in ["hc620", "st1000dm003"] {
        let zoned = ["drive", "create", new, "--rule", "zoned", "--profile", profile];
        imbrex(&[&zoned[..], &longest].concat()).fails(2, &told);
    }
    let text = Profile::by_name("hc620").unwrap().text().to_owned();
    let text = text.replace("zone_len_blocks = 65536", "zone_len_blocks = 4503599627370496");
    let profile = drive.beside("long.toml");
    fs::write(&profile, text).unwrap();
    let args = ["--capacity", "8GiB", "--profile", profile.to_str().unwrap()];
    imbrex(&[&["drive", "create", new], &args[..]].concat()).fails(2, &told);
    assert!(!Path::new(new).exists());
}

/// Tables and logs are damaged: a scan explains how to save the rest.
#[test]
fn the_undamaged_part_of_a_store_is_salvaged() {
    let drive = Drive::new();
    drive.run_with(json_lines(4000, 0).as_bytes(), "load", &["-"]).ok();
    drive.run("compact", &[]).ok();
    // More than a pipe holds.
    let (mut child, mut stdin) = begin_load(&drive, &["--sync-every", "20"]);
    stdin.write_all(json_lines(1500, 1).as_bytes()).unwrap();
    signal(&child, "-KILL");
    child.wait().unwrap();
    drop(stdin);
    let whole = drive.run("scan", &["--skip-damage"]);
    assert!(whole.stderr.is_empty(), "{}", whole.stderr);
    let whole = whole.ok();
    let in_use = data_offsets(&drive.path());
    let (mut log_count, mut table_count) = (0, 0);
    for part in 0..40 {
        let copy = drive.beside("damaged");
        copy_sparse(&drive.path(), &copy);
        let file = OpenOptions::new().write(true).open(&copy).unwrap();
        file.write_all_at(&[0xAA; 4096], in_use[in_use.len() * part / 40]).unwrap();
        drop(file);
        let copy = copy.to_str().unwrap();
        let scan = imbrex(&["scan", copy]);
        let saved = imbrex(&["scan", copy, "--skip-damage"]);
        if scan.code == Some(0) {
            assert_eq!(saved.code, Some(0), "{}", saved.stderr);
            continue;
        }
        // A drive that cannot be mounted has no files to save.
        if !scan.stderr.contains(".tbl") && !scan.stderr.contains(".log") {
            continue;
        }
        assert_eq!(saved.code, Some(5), "{}", saved.stderr);
        assert!(saved.stderr.contains("were left out; values"), "{}", saved.stderr);
        log_count += usize::from(saved.stderr.contains(".log"));
        table_count += usize::from(saved.stderr.contains(".tbl"));
        // The first is for damage that the scan meets, the other one for a store that does not open.
        let hints = ["--skip-damage", "imbrex salvage"];
        assert!(hints.iter().any(|hint| scan.stderr.contains(hint)), "{}", scan.stderr);
        let found = String::from_utf8(saved.stdout).unwrap();
        let found: Vec<&str> = found.lines().collect();
        // All keys are in one table. They are lost with its index, or most of them with a part of it.
        let is_index = ["lost: table", "damaged index partition"]
            .iter()
            .any(|what| saved.stderr.contains(what));
        assert!(
            found.len() > if is_index { 90 } else { 3000 },
            "{}: {}",
            found.len(),
            saved.stderr
        );
        for line in found {
            let n: usize = line[3..9].parse().unwrap();
            let is_one =
                [0, 1].iter().any(|&round| line == format!("key{n:06}\t{}", value(n, round)));
            assert!(is_one, "{line}");
        }
    }
    assert!(log_count > 0 && table_count > 4, "{log_count} logs, {table_count} tables");
    assert!(whole == drive.run("scan", &[]).ok());
}

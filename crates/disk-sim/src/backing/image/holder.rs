//! The process that holds the lock of an image, in words for an error message.
//!
//! The kernel lists every lock in `/proc/locks`, with the process that took it:
//!
//! ```text
//!   7: FLOCK  ADVISORY  WRITE 1234 fe:00:5767472 0 EOF
//!                             |    |     '- inode of the file
//!                             |    '- device of its file system, hexadecimal
//!                             '- process
//! ```
//!
//! Some file systems (btrfs, overlayfs) report one device in `stat` and list another here. A line with
//! the inode alone counts only if the process has this very file open, as `/proc/PID/fd` shows.
//!
//! The answer may be out of date when it is read. It is for people: no decision depends on it.
//!
//! Not here: the holder of a block device (`holder` in `disk-host`).

use std::borrow::Cow;
use std::fs::{File, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// One line of `/proc/locks` that describes a lock of a whole file.
#[derive(Debug, PartialEq, Eq)]
struct Lock {
    pid: u32,
    /// Major and minor number.
    device: (u32, u32),
    inode: u64,
}

/// Names the holder of the lock on `file`: `process 1234 (imbrex serve)`, `this process`, or
/// `another process` if the system does not show which.
pub(super) fn holder(file: &File) -> String {
    let unknown = || "another process".to_owned();
    let Ok(wanted) = file.metadata() else { return unknown() };
    match find(&wanted) {
        None => unknown(),
        Some(pid) if pid == std::process::id() => "this process".to_owned(),
        Some(pid) => match command(pid) {
            Some(command) => format!("process {pid} ({command})"),
            None => format!("process {pid}"),
        },
    }
}

fn find(wanted: &Metadata) -> Option<u32> {
    let text = std::fs::read_to_string("/proc/locks").ok()?;
    let locks = text.lines().filter_map(parse).filter(|lock| lock.inode == wanted.ino());
    let locks: Vec<Lock> = locks.collect();
    let device = (rustix::fs::major(wanted.dev()), rustix::fs::minor(wanted.dev()));
    let exact = locks.iter().find(|lock| lock.device == device);
    exact.or_else(|| locks.iter().find(|lock| has_open(lock.pid, wanted))).map(|lock| lock.pid)
}

/// The lock in a line, unless the lock is of another kind, only waited for, or taken outside of this
/// process namespace.
fn parse(line: &str) -> Option<Lock> {
    let mut words = line.split_whitespace().skip(1);
    if words.next()? != "FLOCK" {
        return None;
    }
    let pid = words.nth(2)?.parse().ok().filter(|&pid| pid > 0)?;
    let mut place = words.next()?.split(':');
    let mut hex = || u32::from_str_radix(place.next()?, 16).ok();
    let device = (hex()?, hex()?);
    Some(Lock { pid, device, inode: place.next()?.parse().ok()? })
}

/// Whether the process has the file open; false if its descriptors may not be seen.
fn has_open(pid: u32, wanted: &Metadata) -> bool {
    let open = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    open.filter_map(|entry| std::fs::metadata(entry.path()).ok())
        .any(|found| (found.dev(), found.ino()) == (wanted.dev(), wanted.ino()))
}

/// The program of a process and its subcommand, such as `imbrex serve`.
fn command(pid: u32) -> Option<String> {
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let mut words = line.split(|&byte| byte == 0).map(String::from_utf8_lossy);
    let program = words.next().filter(|program| !program.is_empty())?;
    let name = Path::new(&*program).file_name()?.to_string_lossy().escape_debug().to_string();
    let is_word =
        |word: &Cow<'_, str>| !word.is_empty() && word.bytes().all(|b| b.is_ascii_lowercase());
    Some(match words.next().filter(is_word) {
        Some(subcommand) => format!("{name} {subcommand}"),
        None => name,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_lock_that_is_held_on_a_whole_file_is_parsed() {
        let held = "7: FLOCK  ADVISORY  WRITE 1234 fe:0a:5767472 0 EOF";
        assert_eq!(parse(held), Some(Lock { pid: 1234, device: (0xfe, 10), inode: 5_767_472 }));
        for other in [
            "7: -> FLOCK  ADVISORY  WRITE 1234 fe:00:5767472 0 EOF",
            "7: FLOCK  ADVISORY  WRITE 0 fe:00:5767472 0 EOF",
            "7: OFDLCK ADVISORY  WRITE -1 fe:00:5767472 0 EOF",
            "7: FLOCK  ADVISORY  WRITE 1234",
            "",
        ] {
            assert_eq!(parse(other), None, "{other}");
        }
    }

    #[test]
    fn this_process_has_its_own_program_open_under_its_own_name() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let wanted = file.as_file().metadata().unwrap();
        assert!(has_open(std::process::id(), &wanted));
        assert!(command(std::process::id()).unwrap().contains("imbrex_disk_sim"));
    }
}

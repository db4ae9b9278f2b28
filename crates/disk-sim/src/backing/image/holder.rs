//! The process that holds the lock of an image, for an error message.
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
//! Not here: its words (`disk`), the holder of a block device (`disk-host`).

use imbrex_disk::Holder;
use std::fs::{File, Metadata};
use std::os::unix::fs::MetadataExt;

/// One line of `/proc/locks` that describes a lock of a whole file.
#[derive(Debug, PartialEq, Eq)]
struct Lock {
    pid: u32,
    /// Major and minor number.
    device: (u32, u32),
    inode: u64,
}

/// The holder of the lock on `file`.
pub(super) fn holder(file: &File) -> Holder {
    let pid = file.metadata().ok().and_then(|wanted| find(&wanted));
    let Some(pid) = pid else { return Holder::Unknown("another process") };
    let command_line = std::fs::read(format!("/proc/{pid}/cmdline"));
    Holder::process(pid, &command_line.unwrap_or_default())
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
    fn the_holder_of_a_lock_is_found() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let wanted = file.as_file().metadata().unwrap();
        assert!(has_open(std::process::id(), &wanted));
        assert_eq!(holder(file.as_file()), Holder::Unknown("another process"));
        let whole = rustix::fs::FlockOperation::NonBlockingLockExclusive;
        rustix::fs::flock(file.as_file(), whole).unwrap();
        assert_eq!(holder(file.as_file()), Holder::ThisProcess);
    }
}

//! The user of a block device that cannot be opened, in words for an error message.
//!
//! ```text
//!   /proc/self/mountinfo          a file system on it, or on one of its partitions
//!   /sys/dev/block/M:m/holders    a device on top of it (LVM, RAID, dm-crypt)
//!   /proc/PID/fd/*                a process that has it open to write
//! ```
//!
//! The descriptors of a process are shown to its owner and to root. The answer may be out of date when
//! it is read. It is for people: no decision depends on it.
//!
//! Not here: the holder of an image file (`backing::image::holder` in `disk-sim`).

use std::borrow::Cow;
use std::fs::DirEntry;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Major and minor number of a device.
type Number = (u32, u32);

/// Names the user of the device at `path`, for a sentence that begins with "is in use by".
pub(crate) fn holder(path: &Path) -> String {
    let found = std::fs::metadata(path).ok().map(|found| found.rdev());
    let known = found.and_then(|device| {
        let numbers = numbers((rustix::fs::major(device), rustix::fs::minor(device)));
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        mount(&mounts, &numbers)
            .map(|at| format!("the file system mounted at {at}"))
            .or_else(|| numbers.iter().find_map(above).map(|name| format!("the device {name}")))
            .or_else(|| processes().find(|&pid| writes(pid, device)).map(named))
    });
    known.unwrap_or_else(|| "a mounted file system, another device or another process".to_owned())
}

/// The device's own number, then those of its partitions.
fn numbers(device: Number) -> Vec<Number> {
    let partitions = entries(&sysfs(&device)).filter_map(|entry| {
        let text = std::fs::read_to_string(entry.path().join("dev")).ok()?;
        number(text.trim())
    });
    std::iter::once(device).chain(partitions).collect()
}

fn sysfs((major, minor): &Number) -> PathBuf {
    PathBuf::from(format!("/sys/dev/block/{major}:{minor}"))
}

fn entries(dir: &Path) -> impl Iterator<Item = DirEntry> + use<> {
    std::fs::read_dir(dir).into_iter().flatten().flatten()
}

/// `8:17`.
fn number(text: &str) -> Option<Number> {
    let (major, minor) = text.split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// Where one of `devices` is mounted. Columns of `mountinfo`: id, parent, device, root, mount point.
fn mount(mountinfo: &str, devices: &[Number]) -> Option<String> {
    mountinfo.lines().find_map(|line| {
        let mut words = line.split(' ').skip(2);
        let device = number(words.next()?)?;
        let at = words.nth(1)?;
        devices.contains(&device).then(|| at.to_owned())
    })
}

/// The name of a device that is made of this one.
fn above(device: &Number) -> Option<String> {
    let above = entries(&sysfs(device).join("holders")).next()?;
    Some(above.file_name().to_string_lossy().into_owned())
}

fn processes() -> impl Iterator<Item = u32> {
    entries(Path::new("/proc")).filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// Whether the process has the device open to write: programs that only read do not keep others out.
fn writes(pid: u32, device: u64) -> bool {
    entries(Path::new(&format!("/proc/{pid}/fd"))).any(|entry| {
        let is_it = std::fs::metadata(entry.path())
            .is_ok_and(|found| found.file_type().is_block_device() && found.rdev() == device);
        is_it && {
            let info = Path::new("/proc").join(pid.to_string()).join("fdinfo");
            let info = std::fs::read_to_string(info.join(entry.file_name()));
            info.is_ok_and(|info| is_to_write(&info))
        }
    })
}

/// Whether a descriptor's `flags`, in octal, allow writing: `O_WRONLY` is 1, `O_RDWR` is 2.
fn is_to_write(fdinfo: &str) -> bool {
    let flags = fdinfo.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok());
    flags.is_some_and(|flags| flags & 3 != 0)
}

fn named(pid: u32) -> String {
    if pid == std::process::id() {
        return "this process".to_owned();
    }
    match command(pid) {
        Some(command) => format!("process {pid} ({command})"),
        None => format!("process {pid}"),
    }
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
    fn a_mount_of_the_device_or_a_partition_is_found() {
        let mounts = "22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n\
                      40 22 8:17 /sub /mnt/data rw - xfs /dev/sdb1 rw\n";
        assert_eq!(mount(mounts, &[(8, 16), (8, 17)]).as_deref(), Some("/mnt/data"));
        assert_eq!(mount(mounts, &[(254, 0)]).as_deref(), Some("/"));
        assert_eq!(mount(mounts, &[(8, 1)]), None);
    }

    #[test]
    fn a_descriptor_to_read_keeps_no_opener_out() {
        assert!(is_to_write("pos:\t0\nflags:\t02140002\nmnt_id:\t25\n"));
        assert!(!is_to_write("pos:\t0\nflags:\t02140000\nmnt_id:\t25\n"));
        assert!(!is_to_write(""));
    }

    #[test]
    fn this_process_is_named_as_such_and_others_by_number() {
        assert_eq!(named(std::process::id()), "this process");
        assert!(processes().any(|pid| pid == std::process::id()));
        assert!(command(std::process::id()).unwrap().contains("imbrex_disk_host"));
        assert_eq!(named(u32::MAX), format!("process {}", u32::MAX));
    }
}

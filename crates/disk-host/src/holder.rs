//! The user of a block device that cannot be opened, for an error message.
//!
//! ```text
//!   /proc/self/mountinfo          a file system on it, or on one of its partitions
//!   /sys/dev/block/M:m/holders    a device on top of it (LVM, RAID, dm-crypt)
//!   /proc/swaps                   swap space on it, or on one of its partitions
//!   /proc/PID/fd/*                a process that has it open to write, or has locked it
//! ```
//!
//! The descriptors of a process are shown to its owner and to root.
//!
//! Not here: its words (`disk`), the holder of an image file (`disk-sim`).

use imbrex_disk::Holder;
use std::fs::DirEntry;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Major and minor number of a device.
type Number = (u32, u32);

/// The user of the device at `path`.
pub(crate) fn holder(path: &Path) -> Holder {
    let process_of = |device| processes().find(|&pid| holds(pid, device)).map(process);
    let known = claim(path).or_else(|| process_of(number_at(path)?));
    known.unwrap_or(Holder::Unknown("a mounted file system, another device or another process"))
}

/// The file system or the device that the kernel has made of the device at `path`, or of a partition
/// of it.
pub(crate) fn claim(path: &Path) -> Option<Holder> {
    let device = number_at(path)?;
    let numbers = numbers((rustix::fs::major(device), rustix::fs::minor(device)));
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let mounted = mount(&mounts, &numbers).map(Holder::Mount);
    let above = || numbers.iter().find_map(above).map(Holder::Device);
    mounted.or_else(above).or_else(|| is_swap(&numbers).then_some(Holder::Swap))
}

fn number_at(path: &Path) -> Option<u64> {
    let found = std::fs::metadata(path).ok()?;
    // A swap file is no device, and has the number 0.
    found.file_type().is_block_device().then(|| found.rdev())
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

/// Whether the kernel swaps to one of `devices`. The first column of `/proc/swaps` is a path.
fn is_swap(devices: &[Number]) -> bool {
    let swaps = std::fs::read_to_string("/proc/swaps").unwrap_or_default();
    let paths = swaps.lines().skip(1).filter_map(|line| line.split_whitespace().next());
    paths
        .filter_map(|path| number_at(Path::new(path)))
        .any(|device| devices.contains(&(rustix::fs::major(device), rustix::fs::minor(device))))
}

/// The name of a device that is made of this one.
fn above(device: &Number) -> Option<String> {
    let above = entries(&sysfs(device).join("holders")).next()?;
    Some(above.file_name().to_string_lossy().into_owned())
}

fn processes() -> impl Iterator<Item = u32> {
    entries(Path::new("/proc")).filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// Whether the process has the device open to write, or has locked it: other programs that only read
/// do not keep openers out.
fn holds(pid: u32, device: u64) -> bool {
    entries(Path::new(&format!("/proc/{pid}/fd"))).any(|entry| {
        let is_it = std::fs::metadata(entry.path())
            .is_ok_and(|found| found.file_type().is_block_device() && found.rdev() == device);
        is_it && {
            let info = Path::new("/proc").join(pid.to_string()).join("fdinfo");
            let info = std::fs::read_to_string(info.join(entry.file_name()));
            info.is_ok_and(|info| is_to_write(&info) || is_locked(&info))
        }
    })
}

/// Whether a descriptor's `flags`, in octal, allow writing: `O_WRONLY` is 1, `O_RDWR` is 2.
fn is_to_write(fdinfo: &str) -> bool {
    let flags = fdinfo.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok());
    flags.is_some_and(|flags| flags & 3 != 0)
}

/// Whether a descriptor has a lock of its own, as `lock: 1: OFDLCK ADVISORY READ -1 00:05:92 0 EOF`.
fn is_locked(fdinfo: &str) -> bool {
    let mut locks = fdinfo.lines().filter_map(|line| line.strip_prefix("lock:"));
    locks.any(|lock| lock.contains(" OFDLCK "))
}

fn process(pid: u32) -> Holder {
    let command_line = std::fs::read(format!("/proc/{pid}/cmdline"));
    Holder::process(pid, &command_line.unwrap_or_default())
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
        let reader =
            "pos:\t0\nflags:\t02140000\nlock:\t1: OFDLCK ADVISORY  READ -1 00:06:92 0 EOF\n";
        assert!(is_locked(reader) && !is_to_write(reader));
        assert!(!is_locked("lock:\t1: FLOCK  ADVISORY  READ 12 00:06:92 0 EOF\n"));
    }

    #[test]
    fn this_process_is_listed_and_known() {
        assert!(processes().any(|pid| pid == std::process::id()));
        assert_eq!(process(std::process::id()), Holder::ThisProcess);
        assert_eq!(process(u32::MAX), Holder::Process { pid: u32::MAX, command: None });
    }
}

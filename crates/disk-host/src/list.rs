//! The block devices of this machine: what each one is, and whether it could be used.
//!
//! ```text
//!   /sys/block/*          every whole device, with its queue, its partitions and what is above it
//!   /proc, mountinfo      who uses it (`holder`)
//!   /dev                  whether this process may open it
//! ```
//!
//! Invariants
//!   L1  Nothing is opened or written: everything comes from what the kernel has told already. It works
//!       without root, and on a machine without any device.
//!   L2  A device without an obstacle here can still be refused by [`crate::HostDisk::open`], which asks the
//!       drive itself.

use crate::holder;
use crate::limits::Limits;
use imbrex_disk::BLOCK_LEN_BYTES;
use rustix::fs::Access;
use std::path::{Path, PathBuf};

/// The unit of `size` in sysfs, whatever the device's own sectors are.
const SIZE_UNIT_BYTES: u64 = 512;

/// A block device of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedDevice {
    /// Its name in `/dev`.
    pub path: PathBuf,
    /// Vendor and model; empty if unknown.
    pub model: String,
    /// Its length.
    pub len_bytes: u64,
    /// `none`, `host-managed`, or another zone model of Linux.
    pub zone_model: String,
    /// The length of a zone, if it has zones.
    pub zone_len_bytes: Option<u64>,
    /// The number of its zones.
    pub zone_count: u64,
    /// Whether it says that it does not turn: flash, memory, or a virtual disk.
    pub is_solid_state: bool,
    /// Why it cannot be used now; empty if nothing is known against it.
    pub obstacles: Vec<String>,
}

/// The whole block devices of this machine, by their names. Partitions are not in the list, and neither are
/// loop and memory devices that have no length.
///
/// # Errors
/// `/sys/block` exists and cannot be read.
pub fn list_devices() -> std::io::Result<Vec<ListedDevice>> {
    list_in(Path::new("/sys/block"), Path::new("/dev"))
}

fn list_in(sysfs: &Path, dev: &Path) -> std::io::Result<Vec<ListedDevice>> {
    let entries = match std::fs::read_dir(sysfs) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut devices = Vec::new();
    for entry in entries {
        let dir = entry?.path();
        // `/` in a name is `!` in sysfs: cciss!c0d0.
        let name = dir.file_name().unwrap_or_default().to_string_lossy().replace('!', "/");
        devices.extend(listed(&dir, dev.join(name)));
    }
    devices.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(devices)
}

/// The device with the attributes in `dir`; `None` for a name that has no medium behind it.
fn listed(dir: &Path, path: PathBuf) -> Option<ListedDevice> {
    let text = |name: &str| std::fs::read_to_string(dir.join(name)).ok();
    let number = |name: &str| text(name)?.trim().parse::<u64>().ok();
    let len_bytes = number("size")?.saturating_mul(SIZE_UNIT_BYTES);
    if len_bytes == 0 {
        return None;
    }
    let limits = Limits::read(dir);
    let zoned = limits.zoned != "none";
    let zone_len_bytes = number("queue/chunk_sectors").map(|count| count * SIZE_UNIT_BYTES);
    let mut device = ListedDevice {
        path,
        model: limits.model.clone(),
        len_bytes,
        zone_model: limits.zoned.clone(),
        zone_len_bytes: zone_len_bytes.filter(|_| zoned),
        zone_count: number("queue/nr_zones").filter(|_| zoned).unwrap_or(0),
        is_solid_state: number("queue/rotational") == Some(0),
        obstacles: Vec::new(),
    };
    device.obstacles = obstacles(&device, &limits, number("ro") == Some(1));
    Some(device)
}

fn obstacles(device: &ListedDevice, limits: &Limits, is_read_only: bool) -> Vec<String> {
    let mut obstacles = Vec::new();
    if let Some(holder) = holder::claim(&device.path) {
        obstacles.push(format!("in use by {holder}"));
    }
    if is_read_only {
        obstacles.push("read-only".to_owned());
    }
    obstacles.extend(limits.obstacle());
    if device.len_bytes < BLOCK_LEN_BYTES as u64 {
        obstacles.push("shorter than a block".to_owned());
    }
    match rustix::fs::access(&device.path, Access::READ_OK | Access::WRITE_OK) {
        Ok(()) => {}
        Err(rustix::io::Errno::NOENT) => {
            obstacles.push(format!("{} does not exist", device.path.display()));
        }
        Err(_) if is_read_only => {}
        Err(_) => {
            obstacles
                .push("permission denied; run as root, or as a member of its group".to_owned());
        }
    }
    obstacles
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn device(sysfs: &Path, name: &str, attributes: &[(&str, &str)]) {
        for dir in ["queue", "device"] {
            fs::create_dir_all(sysfs.join(name).join(dir)).unwrap();
        }
        for (attribute, value) in attributes {
            fs::write(sysfs.join(name).join(attribute), format!("{value}\n")).unwrap();
        }
    }

    #[test]
    fn devices_are_described_by_what_the_kernel_says() {
        let dir = tempfile::tempdir().unwrap();
        let (sysfs, dev) = (dir.path().join("sys"), dir.path().join("dev"));
        fs::create_dir_all(&dev).unwrap();
        let smr = [
            ("size", "29296875008"),
            ("ro", "0"),
            ("queue/zoned", "host-managed"),
            ("queue/chunk_sectors", "524288"),
            ("queue/nr_zones", "55880"),
            ("queue/rotational", "1"),
            ("device/model", "HSH721414ALN6M0"),
        ];
        device(&sysfs, "sdb", &smr);
        let flash = [
            ("size", "2048"),
            ("ro", "1"),
            ("queue/zoned", "none"),
            ("queue/chunk_sectors", "256"),
            ("queue/rotational", "0"),
        ];
        device(&sysfs, "nvme0n1", &flash);
        device(&sysfs, "old", &[("size", "8"), ("queue/logical_block_size", "8192")]);
        device(&sysfs, "loop0", &[("size", "0")]);
        for name in ["sdb", "nvme0n1"] {
            fs::write(dev.join(name), "").unwrap();
        }
        let devices = list_in(&sysfs, &dev).unwrap();
        let names: Vec<_> = devices.iter().map(|d| d.path.file_name().unwrap()).collect();
        assert_eq!(names, ["nvme0n1", "old", "sdb"], "a loop device without a file is none");
        let [nvme, old, sdb] = &devices[..] else { panic!("{devices:?}") };
        assert_eq!(sdb.model, "HSH721414ALN6M0");
        assert_eq!((sdb.len_bytes, sdb.zone_count), (29_296_875_008 * 512, 55_880));
        assert_eq!((&sdb.zone_model[..], sdb.zone_len_bytes), ("host-managed", Some(256 << 20)));
        assert_eq!((sdb.is_solid_state, &sdb.obstacles), (false, &Vec::new()));
        assert_eq!((nvme.is_solid_state, nvme.zone_len_bytes, nvme.zone_count), (true, None, 0));
        assert_eq!(nvme.obstacles, ["read-only"]);
        let [sectors, missing] = &old.obstacles[..] else { panic!("{old:?}") };
        assert_eq!(sectors, "its sectors have 8192 bytes; at most 4096 are supported");
        assert!(missing.ends_with("dev/old does not exist"), "{missing}");
    }

    #[test]
    fn a_machine_without_devices_has_an_empty_list() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(list_in(&dir.path().join("sys"), dir.path()).unwrap(), []);
    }
}

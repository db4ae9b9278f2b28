//! Where test drives are kept: in memory if the machine has room, because a busy host disk takes milliseconds for
//! each flush of a drive, and the tests make many thousands.
//!
//! ```text
//!   /dev/shm/imbrex-NAME-PID      with 3 GiB of room there and 6 GiB of free memory
//!   target/NAME                   otherwise
//! ```
//!
//! Nothing is lost by it: a killed process loses as little in memory as in the host's page cache, and power cuts are
//! those of the emulated drive.

use anyhow::{Context, Result};
use nix::sys::statvfs::statvfs;
use std::path::{Path, PathBuf};

const MEMORY: &str = "/dev/shm";
const ROOM_BYTES_MIN: u64 = 3 << 30;
const FREE_MEMORY_KIB_MIN: u64 = 6 << 20;

/// An empty directory, removed when dropped.
#[derive(Debug)]
pub struct Scratch(PathBuf);

impl Scratch {
    /// Makes the directory `name`, and removes those of its name whose processes ended without removing them.
    pub fn new(root: &Path, name: &str) -> Result<Scratch> {
        let memory = Path::new(MEMORY);
        remove_orphans(memory, &prefix(name));
        let path = match has_room(memory) {
            true => memory.join(format!("{}{}", prefix(name), std::process::id())),
            false => root.join("target").join(name),
        };
        // From an earlier run that was killed.
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path)
            .with_context(|| format!("cannot make {} for test drives", path.display()))?;
        Ok(Scratch(path))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A leftover is removed by the next run.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn prefix(name: &str) -> String {
    format!("imbrex-{name}-")
}

fn has_room(memory: &Path) -> bool {
    let room = statvfs(memory).map_or(0, |fs| fs.blocks_available() * fs.fragment_size());
    let info = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    room >= ROOM_BYTES_MIN && available_kib(&info) >= FREE_MEMORY_KIB_MIN
}

/// The kernel's estimate, from the text of `/proc/meminfo`.
fn available_kib(info: &str) -> u64 {
    let line = info.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let number = line.and_then(|line| line.split_whitespace().next());
    number.and_then(|number| number.parse().ok()).unwrap_or(0)
}

fn remove_orphans(memory: &Path, prefix: &str) {
    let Ok(entries) = std::fs::read_dir(memory) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let pid = name.to_str().and_then(|name| name.strip_prefix(prefix));
        let Some(pid) = pid.and_then(|pid| pid.parse::<u32>().ok()) else { continue };
        if !Path::new("/proc").join(pid.to_string()).exists() {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_memory_is_read() {
        let info = "MemTotal:       24000000 kB\nMemAvailable:   23000000 kB\n";
        assert_eq!(available_kib(info), 23_000_000);
        assert_eq!(available_kib(""), 0);
    }

    #[test]
    fn only_directories_of_ended_processes_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        // No process has the highest number that there is.
        let names = ["imbrex-x-4294967295", "imbrex-x-1", "imbrex-y-4294967295", "imbrex-x-drive"];
        for name in names {
            std::fs::create_dir(dir.path().join(name)).unwrap();
        }
        remove_orphans(dir.path(), "imbrex-x-");
        let left = names.map(|name| dir.path().join(name).exists());
        assert_eq!(left, [false, true, true, true]);
    }

    #[test]
    fn a_scratch_directory_is_removed() {
        let root = tempfile::tempdir().unwrap();
        let scratch = Scratch::new(root.path(), "scratch-test").unwrap();
        std::fs::write(scratch.path().join("drive"), "").unwrap();
        let path = scratch.path().to_owned();
        drop(scratch);
        assert!(!path.exists());
    }
}

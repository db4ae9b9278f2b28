//! How much of the machine's memory the map of a block device may take, and the contents of emulated drives.

use crate::error::{CliError, Exit};
use imbrex_disk::ByteSize;
use std::fs;

/// The least bound: below it, the map would be written again after every few writes.
const LEAST_BYTES: u64 = 16 << 20;
/// The bound where the machine does not tell its memory.
const UNTOLD_BYTES: u64 = 1 << 30;
/// Each takes the machine's memory divided by this, the map unless the user asked for a bound.
const MACHINE_SHARE: u64 = 4;

/// The bound of the map: what the user asked for, or a share of the machine's memory.
pub(crate) fn for_map(asked: Option<ByteSize>) -> Result<u64, CliError> {
    match asked {
        None => {
            Ok(machine_bytes().map_or(UNTOLD_BYTES, |all| all / MACHINE_SHARE).max(LEAST_BYTES))
        }
        Some(ByteSize(asked)) if asked < LEAST_BYTES => Err(CliError::new(
            Exit::Usage,
            format!(
                "--map-memory is {asked} bytes; the map of a block device needs at least 16MiB, and more \
                 makes it write less"
            ),
        )),
        Some(ByteSize(asked)) => Ok(asked),
    }
}

/// Memory for the contents of emulated drives before they are compressed. It changes no figure.
pub(crate) fn for_emulated_drives() -> u64 {
    machine_bytes().map_or(0, |all| all / MACHINE_SHARE)
}

/// The memory of this machine in bytes, or what its control group allows if that is less.
fn machine_bytes() -> Option<u64> {
    let all = total_of(&fs::read_to_string("/proc/meminfo").ok()?);
    let allowed = fs::read_to_string("/sys/fs/cgroup/memory.max").ok();
    let allowed = allowed.and_then(|text| text.trim().parse().ok());
    all.into_iter().chain(allowed).min()
}

/// The total of `/proc/meminfo`.
fn total_of(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_below_the_least_is_refused() {
        assert_eq!(for_map(Some(ByteSize(LEAST_BYTES))).unwrap(), LEAST_BYTES);
        let error = for_map(Some(ByteSize(LEAST_BYTES - 1))).unwrap_err().to_string();
        assert!(error.contains("at least 16MiB"), "{error}");
        assert!(LEAST_BYTES <= for_map(None).unwrap());
    }

    #[test]
    fn the_total_is_found() {
        assert_eq!(total_of("MemTotal:       16384 kB\nMemFree: 1 kB\n"), Some(16 << 20));
        assert_eq!(total_of("MemFree: 1 kB\n"), None);
    }
}

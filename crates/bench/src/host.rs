//! What this machine spent on the run: CPU time and memory, as the system tells it.

use rustix::time::{ClockId, clock_gettime};

/// CPU time of all threads of this process so far.
///
/// No clock of the store's: it is reported beside the figures and decides nothing.
pub(crate) fn cpu_ns() -> u64 {
    let spent = clock_gettime(ClockId::ProcessCPUTime);
    let seconds = u64::try_from(spent.tv_sec).unwrap_or(0);
    seconds * 1_000_000_000 + u64::try_from(spent.tv_nsec).unwrap_or(0)
}

/// Anonymous memory of this process now; None where the system has no `/proc`.
pub(crate) fn anonymous_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

//! CPU time and memory that this machine spent on the run, as the system reports them.

use rustix::time::{ClockId, clock_gettime};

/// CPU time of all threads of this process so far.
///
/// This is not a clock of the store: it is only reported and affects no decision.
pub(crate) fn cpu_ns() -> u64 {
    let spent = clock_gettime(ClockId::ProcessCPUTime);
    let seconds = u64::try_from(spent.tv_sec).unwrap_or(0);
    seconds * 1_000_000_000 + u64::try_from(spent.tv_nsec).unwrap_or(0)
}

/// Anonymous memory of this process; `None` if the system has no `/proc`.
pub(crate) fn anonymous_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

//! The processor time of this process, in which budgets of work are counted.
//!
//! On a busy machine wall time does not show how much was done. No decision within a run may follow
//! from processor time, but a program may use it to decide whether to begin another run.

use rustix::time::{ClockId, clock_gettime};

/// The processor time in ns, user and system, that all threads of this process have used so far.
pub fn processor_ns() -> u64 {
    let used = clock_gettime(ClockId::ProcessCPUTime);
    u64::try_from(used.tv_sec * 1_000_000_000 + used.tv_nsec).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_takes_processor_time() {
        let before = processor_ns();
        let sum: u64 = std::hint::black_box((0..1_000_000_u64).map(std::hint::black_box).sum());
        assert!(sum > 0 && processor_ns() > before);
    }
}

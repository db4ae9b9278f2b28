//! The processor time of this process: what a budget of work is counted in.
//!
//! On a busy machine wall time says nothing about how much was done. Nothing that one run decides may follow
//! from processor time; a program may stop beginning runs by it.

use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds of processor time, user and system, that all threads of this process have used so far.
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

//! The number of workers for a list of works.

/// The number of workers that get work: of `jobs`, no more than there are works.
pub fn worker_count(jobs: usize, work_count: usize) -> usize {
    jobs.min(work_count).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A bench of twelve runs with `--jobs 100000` used to start 99,999 threads, or to panic if the
    /// system refused.
    #[test]
    fn no_worker_is_without_work() {
        assert_eq!(worker_count(100_000, 12), 12);
        assert_eq!(worker_count(2, 12), 2);
        assert_eq!(worker_count(0, 12), 1);
        assert_eq!(worker_count(3, 0), 1);
    }
}

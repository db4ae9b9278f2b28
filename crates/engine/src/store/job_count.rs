//! The number of background jobs that hold the store.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts jobs; a close waits until there are none.
#[derive(Debug, Default)]
pub(crate) struct JobCount(Arc<AtomicUsize>);

/// What a counted job holds.
#[derive(Debug)]
pub(crate) struct Counted<T> {
    // Fields are dropped in this order: `held` is released before a close that waits for the count
    // goes on, so that the store's drives can be opened again at once.
    held: T,
    _job: CountedJob,
}

#[derive(Debug)]
struct CountedJob(Arc<AtomicUsize>);

impl JobCount {
    /// `held`, counted until it is dropped.
    pub(crate) fn count<T>(&self, held: T) -> Counted<T> {
        self.0.fetch_add(1, Ordering::AcqRel);
        Counted { held, _job: CountedJob(Arc::clone(&self.0)) }
    }

    pub(crate) fn is_zero(&self) -> bool {
        self.0.load(Ordering::Acquire) == 0
    }
}

impl<T> Deref for Counted<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.held
    }
}

impl Drop for CountedJob {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Looks<'a>(&'a JobCount);

    impl Drop for Looks<'_> {
        fn drop(&mut self) {
            assert!(!self.0.is_zero(), "a close would not wait for this drop");
        }
    }

    #[test]
    fn a_job_counts_until_what_it_holds_is_dropped() {
        let jobs = JobCount::default();
        let (one, other) = (jobs.count(Looks(&jobs)), jobs.count(()));
        drop(other);
        assert!(!jobs.is_zero());
        drop(one);
        assert!(jobs.is_zero());
    }
}

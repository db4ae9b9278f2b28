//! How many background jobs hold the store.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts jobs; a close waits until there is none.
#[derive(Debug, Default)]
pub(crate) struct JobCount(Arc<AtomicUsize>);

/// One job. It has to be the job's last field: fields are dropped in order, and who waits for the count goes
/// on when the store's drives have been let go of, so that they can be opened again at once.
#[derive(Debug)]
pub(crate) struct CountedJob(Arc<AtomicUsize>);

impl JobCount {
    pub(crate) fn enter(&self) -> CountedJob {
        self.0.fetch_add(1, Ordering::AcqRel);
        CountedJob(Arc::clone(&self.0))
    }

    pub(crate) fn is_zero(&self) -> bool {
        self.0.load(Ordering::Acquire) == 0
    }
}

impl Drop for CountedJob {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

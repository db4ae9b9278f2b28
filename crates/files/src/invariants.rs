//! The process-wide switch for checks that walk a whole structure after every change.
//!
//! The checks cost more than the work that they verify, so a store runs without them. The torture
//! program turns them on; unit tests of this crate and of the engine always run them.

use std::sync::atomic::{AtomicBool, Ordering};

static ARE_CHECKED: AtomicBool = AtomicBool::new(cfg!(test));

/// Turns the checks on, for every store of this process, until it ends.
pub fn check_always() {
    ARE_CHECKED.store(true, Ordering::Relaxed);
}

/// Whether the checks are on. Cost: one relaxed load.
pub fn are_checked() -> bool {
    ARE_CHECKED.load(Ordering::Relaxed)
}

//! What could not be read of a store that is salvaged, and was passed over.
//!
//! ```text
//!   table    cannot be opened            all its keys
//!            an index partition          the keys between two separators
//!            a data block                the keys between two separators
//!            a value that lies in a log  one key
//!   log      a frame                     the writes up to the next record that begins in a whole one
//! ```
//!
//! Not here: who passes over them ([`crate::table`], [`crate::wal`], [`crate::open::recover`]).

use crate::EngineError;
use parking_lot::Mutex;
use std::collections::BTreeSet;

/// A sentence for each, however often it was met.
#[derive(Debug, Default)]
pub(crate) struct Losses(Mutex<BTreeSet<String>>);

impl Losses {
    /// Notes damage, and `what` was lost with it; any other error is the caller's.
    #[cold]
    pub(crate) fn pass(&self, error: EngineError, what: &str) -> Result<(), EngineError> {
        if !error.is_damage() {
            return Err(error);
        }
        self.0.lock().insert(format!("{error}; lost: {what}"));
        Ok(())
    }

    /// In words, sorted.
    pub(crate) fn sentences(&self) -> Vec<String> {
        self.0.lock().iter().cloned().collect()
    }
}

/// Keys after `lower`, if that is known, up to `upper`, for people.
pub(crate) fn keys_between(lower: Option<&[u8]>, upper: &[u8]) -> String {
    match lower {
        Some(lower) => {
            format!("what lies from key {} to {}", lower.escape_ascii(), upper.escape_ascii())
        }
        None => format!("what lies before key {}, and at it", upper.escape_ascii()),
    }
}

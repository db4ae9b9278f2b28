//! Losses: what a salvage could not read and skipped.
//!
//! ```text
//!   table    cannot be opened            all its keys
//!            an index partition          the keys between two separators
//!            a data block                the keys between two separators
//!            a value stored in a log     one key
//!   log      a frame                     the writes up to the next record that begins in a whole frame
//!            a gap in the numbers        the writes in it
//! ```
//!
//! Not here: the code that skips them ([`crate::table`], [`crate::wal`], [`crate::open::recover`]).

use crate::EngineError;
use parking_lot::Mutex;
use std::collections::BTreeSet;

/// The set of losses, one sentence each; a loss that is met twice is recorded once.
#[derive(Debug, Default)]
pub(crate) struct Losses(Mutex<BTreeSet<String>>, Mutex<BTreeSet<LostKeys>>);

/// Keys of which a part of a table or a log could not be read. A bound is absent if it is unknown.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LostKeys {
    /// The name of the file, if it is known.
    pub(crate) file: Option<String>,
    /// The keyspace of a table that could not be opened, because the store has no such table then.
    pub(crate) keyspace: Option<String>,
    /// No key is below this one.
    pub(crate) from: Option<Vec<u8>>,
    /// No key is above this one.
    pub(crate) upto: Option<Vec<u8>>,
}

impl Losses {
    /// Records damage and `what` was lost with it; returns any other error to the caller.
    #[cold]
    pub(crate) fn pass(&self, error: EngineError, what: &str) -> Result<(), EngineError> {
        if !error.is_damage() {
            return Err(error);
        }
        self.0.lock().insert(format!("{error}; lost: {what}"));
        Ok(())
    }

    /// Records a loss that a gap shows, rather than an error.
    pub(crate) fn note(&self, sentence: String) {
        self.0.lock().insert(sentence);
    }

    /// Records which keys are lost with damage that [`Losses::pass`] or [`Losses::note`] recorded.
    pub(crate) fn note_keys(&self, keys: LostKeys) {
        self.1.lock().insert(keys);
    }

    /// The lost keys, by table.
    pub(crate) fn keys(&self) -> Vec<LostKeys> {
        self.1.lock().iter().cloned().collect()
    }

    /// The losses as sentences, sorted.
    pub(crate) fn sentences(&self) -> Vec<String> {
        self.0.lock().iter().cloned().collect()
    }
}

/// The keys after `lower`, if it is known, up to and including `upper`, for people.
pub(crate) fn keys_between(lower: Option<&[u8]>, upper: &[u8]) -> String {
    match lower {
        Some(lower) => {
            format!("the keys from {} to {}", lower.escape_ascii(), upper.escape_ascii())
        }
        None => format!("the keys up to {}", upper.escape_ascii()),
    }
}

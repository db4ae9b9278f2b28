//! The door to a store: records with fields by key, whatever keeps them.

use imbrex_workload::ycsb::record::{Record, Wanted};
use std::error::Error;

/// A store of records, as one client uses it; each client has its own.
pub trait RecordStore: Send {
    /// The wanted fields of the record of `key`, or `None` if there is no such record.
    ///
    /// # Errors
    /// [`StoreError`].
    fn read(&mut self, key: &str, wanted: Wanted<'_>) -> Result<Option<Record>, StoreError>;

    /// The wanted fields of up to `count` records from `start` on, in the store's order.
    ///
    /// # Errors
    /// [`StoreError`].
    fn scan(
        &mut self,
        start: &str,
        count: u64,
        wanted: Wanted<'_>,
    ) -> Result<Vec<Record>, StoreError>;

    /// Puts a whole record, in place of the one that was there.
    ///
    /// # Errors
    /// [`StoreError`].
    fn insert(&mut self, key: &str, record: &Record) -> Result<(), StoreError>;

    /// Replaces some fields of a record; false if the store knows that there was none. A record that
    /// was not there may then exist, with those fields alone.
    ///
    /// # Errors
    /// [`StoreError`].
    fn update(&mut self, key: &str, changed: &Record) -> Result<bool, StoreError>;

    /// Deletes a record; false if the store knows that there was none.
    ///
    /// # Errors
    /// [`StoreError`].
    fn delete(&mut self, key: &str) -> Result<bool, StoreError>;

    /// What went in and out so far.
    fn traffic(&self) -> Traffic {
        Traffic::default()
    }
}

/// Bytes of keys and values that a store of ours was handed and handed out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Into the store.
    pub written_bytes: u64,
    /// Out of it.
    pub read_bytes: u64,
}

/// Why a store did not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// This operation failed; the next may not.
    #[error("{what} {key}: {source}")]
    Refused {
        /// What was asked.
        what: &'static str,
        /// Of which record.
        key: String,
        /// Why not.
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
    /// No later operation can succeed.
    #[error("{what} {key}: {source}")]
    Lost {
        /// What was asked.
        what: &'static str,
        /// Of which record.
        key: String,
        /// Why not.
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
}

impl StoreError {
    pub(crate) fn refused(
        what: &'static str,
        key: &str,
        source: impl Into<Box<dyn Error + Send + Sync>>,
    ) -> StoreError {
        StoreError::Refused { what, key: key.to_owned(), source: source.into() }
    }

    pub(crate) fn lost(
        what: &'static str,
        key: &str,
        source: impl Into<Box<dyn Error + Send + Sync>>,
    ) -> StoreError {
        StoreError::Lost { what, key: key.to_owned(), source: source.into() }
    }
}

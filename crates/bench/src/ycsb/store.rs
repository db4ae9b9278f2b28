//! The interface to a store: records with fields by key, in any kind of store.

use imbrex_workload::ycsb::record::{Record, Wanted};
use std::error::Error;

/// A store of records, as one client uses it; each client has its own.
pub trait RecordStore: Send {
    /// The wanted fields of the record of `key`, or `None` if there is no such record.
    ///
    /// # Errors
    /// [`StoreError`].
    fn read(&mut self, key: &str, wanted: Wanted<'_>) -> Result<Option<Record>, StoreError>;

    /// The wanted fields of up to `count` records from `start`, in the store's order.
    ///
    /// # Errors
    /// [`StoreError`].
    fn scan(
        &mut self,
        start: &str,
        count: u64,
        wanted: Wanted<'_>,
    ) -> Result<Vec<Record>, StoreError>;

    /// Writes a whole record, replacing an existing one.
    ///
    /// # Errors
    /// [`StoreError`].
    fn insert(&mut self, key: &str, record: &Record) -> Result<(), StoreError>;

    /// Replaces some fields of a record. Returns false if the store knows that the record did not
    /// exist. A record that did not exist may then exist with only those fields.
    ///
    /// # Errors
    /// [`StoreError`].
    fn update(&mut self, key: &str, changed: &Record) -> Result<bool, StoreError>;

    /// Deletes a record. Returns false if the store knows that it did not exist.
    ///
    /// # Errors
    /// [`StoreError`].
    fn delete(&mut self, key: &str) -> Result<bool, StoreError>;

    /// The traffic so far.
    fn traffic(&self) -> Traffic {
        Traffic::default()
    }
}

/// Bytes of keys and values that our store received and returned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Into the store.
    pub written_bytes: u64,
    /// Out of it.
    pub read_bytes: u64,
}

/// Errors of a store.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// This operation failed; later ones may succeed.
    #[error("{what} {key}: {source}")]
    Refused {
        /// The operation.
        what: &'static str,
        /// The key of the record.
        key: String,
        /// The cause.
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
    /// No later operation can succeed.
    #[error("{what} {key}: {source}")]
    Lost {
        /// The operation.
        what: &'static str,
        /// The key of the record.
        key: String,
        /// The cause.
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

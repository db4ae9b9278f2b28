//! No store at all: every operation succeeds at once. What a run on it takes is what the client itself costs, as with
//! `site.ycsb.BasicDB` of the original.

use super::store::{RecordStore, StoreError};
use imbrex_workload::ycsb::record::{Record, Wanted};

/// Keeps nothing; a read finds a record without fields, a scan finds none.
#[derive(Debug)]
pub(crate) struct BasicStore;

impl RecordStore for BasicStore {
    fn read(&mut self, _: &str, _: Wanted<'_>) -> Result<Option<Record>, StoreError> {
        Ok(Some(Record::default()))
    }

    fn scan(&mut self, _: &str, _: u64, _: Wanted<'_>) -> Result<Vec<Record>, StoreError> {
        Ok(Vec::new())
    }

    fn insert(&mut self, _: &str, _: &Record) -> Result<(), StoreError> {
        Ok(())
    }

    fn update(&mut self, _: &str, _: &Record) -> Result<bool, StoreError> {
        Ok(true)
    }

    fn delete(&mut self, _: &str) -> Result<bool, StoreError> {
        Ok(true)
    }
}

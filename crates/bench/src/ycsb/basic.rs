//! A store that does nothing: every operation succeeds at once, so a run on it measures the client
//! itself, like the original's `site.ycsb.BasicDB`.

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

//! Records in key-value stores: a record is one value, in the form of
//! `docs/formats/ycsb_record.md`.
//!
//! ```text
//!   RecordStore  read, scan, insert, update, delete
//!      EncodedStore   update of some fields    get -> merge -> put     under the lock of the key's stripe
//!                     update of all fields     put
//!   KeyValue     get, put, delete, scan: ours (own), RocksDB and LevelDB (foreign)
//! ```
//!
//! Invariants
//!   O1  When two clients update fields of one record at the same time, neither update is lost.

use super::store::{RecordStore, StoreError, Traffic};
use bytes::Bytes;
use imbrex_workload::ycsb::record::{Record, Wanted};
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Far more stripes than clients, so that clients rarely meet.
const STRIPE_COUNT: usize = 1024;

/// The locks that all clients share (O1).
#[derive(Clone, Debug)]
pub(crate) struct Stripes(Arc<[Mutex<()>]>);

impl Stripes {
    pub(crate) fn new() -> Stripes {
        Stripes((0..STRIPE_COUNT).map(|_| Mutex::new(())).collect())
    }

    fn lock(&self, key: &str) -> MutexGuard<'_, ()> {
        let hash = key.bytes().fold(0_usize, |h, byte| h.wrapping_mul(31) ^ usize::from(byte));
        // These locks protect no data, so a poisoned one is usable.
        self.0[hash % STRIPE_COUNT].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Receives an entry's key and value, and returns whether to continue.
pub(crate) type EachEntry<'a> = dyn FnMut(&[u8], &[u8]) -> ControlFlow<()> + 'a;

/// A store of keys and values, as one client uses it.
pub(crate) trait KeyValue: Send {
    /// The error of the store.
    type Error;

    /// The value of `key`.
    fn get(&self, key: &str) -> Result<Option<Bytes>, Self::Error>;

    /// Sets the value of `key`.
    fn put(&self, key: &str, value: &[u8]) -> Result<(), Self::Error>;

    /// Deletes `key` if it exists.
    fn delete(&self, key: &str) -> Result<(), Self::Error>;

    /// Passes the entries from `start` to `each`, in key order, until it breaks or the entries end.
    fn scan(&self, start: &str, each: &mut EachEntry<'_>) -> Result<(), Self::Error>;

    /// Classifies `error` by its effect on later operations.
    fn failed(what: &'static str, key: &str, error: Self::Error) -> StoreError;
}

/// Records in a key-value store.
#[derive(Debug)]
pub(crate) struct EncodedStore<K> {
    store: K,
    /// An update of this many fields replaces the whole record.
    field_count: usize,
    stripes: Stripes,
    traffic: Traffic,
}

impl<K: KeyValue> EncodedStore<K> {
    pub(crate) fn new(store: K, field_count: usize, stripes: Stripes) -> EncodedStore<K> {
        EncodedStore { store, field_count, stripes, traffic: Traffic::default() }
    }

    fn get(&mut self, what: &'static str, key: &str) -> Result<Option<Bytes>, StoreError> {
        let value = self.store.get(key).map_err(|error| K::failed(what, key, error))?;
        if let Some(value) = &value {
            self.traffic.read_bytes += (key.len() + value.len()) as u64;
        }
        Ok(value)
    }

    fn put(&mut self, what: &'static str, key: &str, record: &Record) -> Result<(), StoreError> {
        let value = record.encode();
        self.store.put(key, &value).map_err(|error| K::failed(what, key, error))?;
        self.traffic.written_bytes += (key.len() + value.len()) as u64;
        Ok(())
    }
}

fn decoded(
    what: &'static str,
    key: &str,
    value: Bytes,
    wanted: Wanted<'_>,
) -> Result<Record, StoreError> {
    Record::decode(value, wanted).map_err(|source| StoreError::refused(what, key, source))
}

impl<K: KeyValue> RecordStore for EncodedStore<K> {
    fn read(&mut self, key: &str, wanted: Wanted<'_>) -> Result<Option<Record>, StoreError> {
        let value = self.get("read", key)?;
        value.map(|value| decoded("read", key, value, wanted)).transpose()
    }

    fn scan(
        &mut self,
        start: &str,
        count: u64,
        wanted: Wanted<'_>,
    ) -> Result<Vec<Record>, StoreError> {
        let mut records = Vec::new();
        let mut refusal = None;
        let mut read_bytes = 0;
        if count == 0 {
            return Ok(records);
        }
        let mut each = |key: &[u8], value: &[u8]| {
            read_bytes += (key.len() + value.len()) as u64;
            match decoded("scan from", start, Bytes::copy_from_slice(value), wanted) {
                Ok(record) => records.push(record),
                Err(error) => refusal = Some(error),
            }
            match refusal.is_none() && (records.len() as u64) < count {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            }
        };
        let scanned = self.store.scan(start, &mut each);
        self.traffic.read_bytes += read_bytes;
        scanned.map_err(|error| K::failed("scan from", start, error))?;
        if let Some(error) = refusal {
            return Err(error);
        }
        Ok(records)
    }

    fn insert(&mut self, key: &str, record: &Record) -> Result<(), StoreError> {
        self.put("insert", key, record)
    }

    fn update(&mut self, key: &str, changed: &Record) -> Result<bool, StoreError> {
        if changed.fields().len() >= self.field_count {
            self.put("update", key, changed)?;
            return Ok(true);
        }
        let stripes = self.stripes.clone();
        let _alone = stripes.lock(key);
        let Some(value) = self.get("update", key)? else { return Ok(false) };
        let mut record = decoded("update", key, value, Wanted::All)?;
        record.merge(changed);
        self.put("update", key, &record)?;
        Ok(true)
    }

    fn delete(&mut self, key: &str) -> Result<bool, StoreError> {
        self.store.delete(key).map_err(|error| K::failed("delete", key, error))?;
        self.traffic.written_bytes += key.len() as u64;
        Ok(true)
    }

    fn traffic(&self) -> Traffic {
        self.traffic
    }
}

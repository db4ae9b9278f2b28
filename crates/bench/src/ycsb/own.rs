//! Our store in process: a record is one value, in the form of `docs/formats/ycsb_record.md`.
//!
//! ```text
//!   update of some fields    get -> merge -> put     under the lock of the key's stripe
//!   update of all fields     put
//! ```
//!
//! Invariants
//!   O1  Two clients that update fields of one record at the same time both have their way.

use super::record::{Record, Wanted, format};
use super::store::{RecordStore, StoreError, Traffic};
use bytes::Bytes;
use imbrex::{EngineError, Keyspace, ReadOptions, WriteOptions};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Far more than there are clients, so that two seldom meet.
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
        // Nothing lives behind these locks, so a poisoned one is whole.
        self.0[hash % STRIPE_COUNT].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A table of ours: a keyspace.
#[derive(Debug)]
pub(crate) struct OwnStore {
    keyspace: Keyspace,
    write: WriteOptions,
    /// An update of so many fields leaves nothing of what was there.
    field_count: usize,
    stripes: Stripes,
    traffic: Traffic,
}

impl OwnStore {
    pub(crate) fn new(
        keyspace: Keyspace,
        write: WriteOptions,
        field_count: usize,
        stripes: Stripes,
    ) -> OwnStore {
        OwnStore { keyspace, write, field_count, stripes, traffic: Traffic::default() }
    }

    fn get(&mut self, what: &'static str, key: &str) -> Result<Option<Bytes>, StoreError> {
        let value = self.keyspace.get(key).map_err(failed(what, key))?;
        if let Some(value) = &value {
            self.traffic.read_bytes += (key.len() + value.len()) as u64;
        }
        Ok(value)
    }

    fn put(&mut self, what: &'static str, key: &str, record: &Record) -> Result<(), StoreError> {
        let value = format::encode(record);
        self.keyspace.put_with(key, &value, self.write).map_err(failed(what, key))?;
        self.traffic.written_bytes += (key.len() + value.len()) as u64;
        Ok(())
    }
}

/// What a failure of the engine means for the operations after it.
fn failed(what: &'static str, key: &str) -> impl FnOnce(EngineError) -> StoreError {
    move |source| match source {
        EngineError::KeyLen { .. } | EngineError::ValueLen { .. } | EngineError::Corrupt { .. } => {
            StoreError::refused(what, key, source)
        }
        source => StoreError::lost(what, key, source),
    }
}

fn decoded(
    what: &'static str,
    key: &str,
    value: &Bytes,
    wanted: Wanted<'_>,
) -> Result<Record, StoreError> {
    format::decode(value, wanted).map_err(|source| StoreError::refused(what, key, source))
}

impl RecordStore for OwnStore {
    fn read(&mut self, key: &str, wanted: Wanted<'_>) -> Result<Option<Record>, StoreError> {
        let value = self.get("read", key)?;
        value.map(|value| decoded("read", key, &value, wanted)).transpose()
    }

    fn scan(
        &mut self,
        start: &str,
        count: u64,
        wanted: Wanted<'_>,
    ) -> Result<Vec<Record>, StoreError> {
        let mut cursor =
            self.keyspace.iter(ReadOptions::default()).map_err(failed("scan from", start))?;
        cursor.seek(start).map_err(failed("scan from", start))?;
        let mut records = Vec::new();
        while cursor.valid() && (records.len() as u64) < count {
            let (key, value) = (cursor.key(), cursor.value());
            self.traffic.read_bytes += (key.len() + value.len()) as u64;
            let value = Bytes::copy_from_slice(value);
            records.push(decoded("scan from", start, &value, wanted)?);
            if (records.len() as u64) < count {
                cursor.next().map_err(failed("scan from", start))?;
            }
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
        let mut record = decoded("update", key, &value, Wanted::All)?;
        record.merge(changed);
        self.put("update", key, &record)?;
        Ok(true)
    }

    fn delete(&mut self, key: &str) -> Result<bool, StoreError> {
        self.keyspace.delete_with(key, self.write).map_err(failed("delete", key))?;
        self.traffic.written_bytes += key.len() as u64;
        Ok(true)
    }

    fn traffic(&self) -> Traffic {
        self.traffic
    }
}

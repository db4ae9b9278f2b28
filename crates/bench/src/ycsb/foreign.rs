//! RocksDB and LevelDB in this process, through the system's own libraries.

use super::encoded::{EachEntry, KeyValue};
use super::store::StoreError;
use crate::error::BenchError;
use bytes::Bytes;
use imbrex_foreign::{ForeignDb, ForeignError, ForeignKind, ForeignOptions};
use imbrex_workload::ycsb::properties::{Properties, PropertyError};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A database to open.
#[derive(Clone, Debug)]
pub(crate) struct ForeignServer {
    kind: ForeignKind,
    path: PathBuf,
    library: Option<PathBuf>,
}

impl ForeignServer {
    /// The database that the property `db` names: `rocksdb:///PATH`, or `rocksdb` with
    /// `rocksdb.dir` as in YCSB; LevelDB likewise. `None` for any other store.
    ///
    /// # Errors
    /// [`PropertyError`]: the directory is missing.
    pub(crate) fn named(
        db: &str,
        properties: &Properties,
    ) -> Result<Option<ForeignServer>, PropertyError> {
        for kind in [ForeignKind::RocksDb, ForeignKind::LevelDb] {
            let name = kind.name();
            let is_class =
                kind == ForeignKind::RocksDb && db == "site.ycsb.db.rocksdb.RocksDBClient";
            let path = match db.strip_prefix(name).map(|rest| rest.strip_prefix("://")) {
                Some(Some(path)) if !path.is_empty() => PathBuf::from(path),
                _ if db == name || is_class => {
                    let key = format!("{name}.dir");
                    let dir = properties.get(&key).ok_or_else(|| {
                        PropertyError::Contradiction(format!(
                            "{db} needs the property {key}: the directory of its database"
                        ))
                    })?;
                    PathBuf::from(dir)
                }
                _ => continue,
            };
            let library = properties.get(&format!("{name}.library")).map(PathBuf::from);
            return Ok(Some(ForeignServer { kind, path, library }));
        }
        Ok(None)
    }

    /// Its kind and directory.
    pub(crate) fn address(&self) -> String {
        format!("{}://{}", self.kind.name(), self.path.display())
    }

    /// # Errors
    /// [`BenchError::Server`].
    pub(crate) fn open(
        &self,
        sync: bool,
        write_buffer_len_bytes: Option<u64>,
    ) -> Result<ForeignTable, BenchError> {
        let write_buffer_len_bytes =
            write_buffer_len_bytes.map(|len| usize::try_from(len).unwrap_or(usize::MAX));
        let library = self.library.as_deref();
        let options = ForeignOptions { library, write_buffer_len_bytes, sync };
        let db = ForeignDb::open(self.kind, Path::new(&self.path), &options);
        let db = db.map_err(|source| BenchError::Server {
            address: self.address(),
            source: Box::new(source),
        })?;
        Ok(ForeignTable { db: Arc::new(db) })
    }
}

/// The database, shared by all clients.
#[derive(Clone, Debug)]
pub(crate) struct ForeignTable {
    db: Arc<ForeignDb>,
}

impl KeyValue for ForeignTable {
    type Error = ForeignError;

    fn get(&self, key: &str) -> Result<Option<Bytes>, ForeignError> {
        self.db.get(key.as_bytes()).map(|value| value.map(Bytes::from))
    }

    fn put(&self, key: &str, value: &[u8]) -> Result<(), ForeignError> {
        self.db.put(key.as_bytes(), value)
    }

    fn delete(&self, key: &str) -> Result<(), ForeignError> {
        self.db.delete(key.as_bytes())
    }

    fn scan(&self, start: &str, each: &mut EachEntry<'_>) -> Result<(), ForeignError> {
        self.db.scan(start.as_bytes(), each)
    }

    fn failed(what: &'static str, key: &str, error: ForeignError) -> StoreError {
        // The libraries do not report whether later operations may succeed.
        StoreError::refused(what, key, error)
    }
}

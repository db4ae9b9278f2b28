//! RocksDB and LevelDB in process, by the C API of the system's own libraries: for measuring beside them.
//!
//! ```text
//!   ForeignDb::open --> Library: dlopen, then the functions by name, `rocksdb_` or `leveldb_` before each
//!       get, put, delete, scan --> the library; what it allocates is given back to it
//! ```
//!
//! RocksDB's C API began as LevelDB's: what is used here has the same signatures in both, in all their versions. So one
//! binding serves both, nothing of theirs is compiled, and who does not measure them needs neither.
//!
//! Invariants
//!   F1  A function is called only while its library is loaded, which it is until the process ends: LevelDB has a thread
//!       that outlives its databases and would run on where the library was.
//!   F2  What the library hands out (values, errors) is copied and given back at once; nothing of it is lent on.
//!
//! Not here: what is measured ([`ycsb`](https://docs.rs/imbrex-bench) in the crate `imbrex-bench`); putting these
//! databases on our drives, which the adapters do.

mod api;
mod error;

pub use error::ForeignError;

use api::{Api, Handle};
use std::ffi::CString;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Whose database it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForeignKind {
    /// RocksDB.
    RocksDb,
    /// LevelDB.
    LevelDb,
}

impl ForeignKind {
    /// Its name, as users write it.
    pub fn name(self) -> &'static str {
        match self {
            ForeignKind::RocksDb => "rocksdb",
            ForeignKind::LevelDb => "leveldb",
        }
    }

    /// Names under which systems have the library, the development package's first.
    fn library_names(self) -> &'static [&'static str] {
        match self {
            ForeignKind::RocksDb => &["librocksdb.so", "librocksdb.so.7.8"],
            ForeignKind::LevelDb => &["libleveldb.so", "libleveldb.so.1d", "libleveldb.so.1"],
        }
    }

    /// The package of Debian that has it.
    fn package(self) -> &'static str {
        match self {
            ForeignKind::RocksDb => "librocksdb-dev",
            ForeignKind::LevelDb => "libleveldb-dev",
        }
    }
}

/// How a database is opened; all else is the library's default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ForeignOptions<'a> {
    /// The library's file, if not the system's.
    pub library: Option<&'a Path>,
    /// Bytes of one memtable.
    pub write_buffer_len_bytes: Option<usize>,
    /// Whether each write is synced before it returns.
    pub sync: bool,
}

/// Takes an entry's key and value, and says whether it wants more.
pub type EachEntry<'a> = dyn FnMut(&[u8], &[u8]) -> ControlFlow<()> + 'a;

/// An open database; threads may share it.
#[derive(Debug)]
pub struct ForeignDb {
    db: Handle,
    read: Handle,
    write: Handle,
    api: Api,
}

impl ForeignDb {
    /// Opens the database in the directory `path`, which is made if it is not there.
    ///
    /// # Errors
    /// [`ForeignError::NoLibrary`], [`ForeignError::OtherLibrary`]; [`ForeignError::Refused`]: what the library says.
    pub fn open(
        kind: ForeignKind,
        path: &Path,
        options: &ForeignOptions<'_>,
    ) -> Result<ForeignDb, ForeignError> {
        let api = Api::load(kind, options.library)?;
        let name =
            CString::new(path.as_os_str().as_bytes()).map_err(|_| ForeignError::Refused {
                what: "open",
                reason: format!("{} has a zero byte", path.display()),
            })?;
        let opening = api.options(options.write_buffer_len_bytes)?;
        let read = api.read_options()?;
        let write = api.write_options(options.sync)?;
        let db = api.open(&opening, &name)?;
        Ok(ForeignDb { db, read, write, api })
    }

    /// The value of `key`.
    ///
    /// # Errors
    /// [`ForeignError::Refused`].
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, ForeignError> {
        self.api.get(&self.db, &self.read, key)
    }

    /// Sets the value of `key`.
    ///
    /// # Errors
    /// [`ForeignError::Refused`].
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<(), ForeignError> {
        self.api.put(&self.db, &self.write, key, value)
    }

    /// Deletes `key`, if it is there.
    ///
    /// # Errors
    /// [`ForeignError::Refused`].
    pub fn delete(&self, key: &[u8]) -> Result<(), ForeignError> {
        self.api.delete(&self.db, &self.write, key)
    }

    /// Hands the entries from `start` on to `each`, in order of key, until it breaks or there are no more.
    ///
    /// # Errors
    /// [`ForeignError::Refused`].
    pub fn scan(&self, start: &[u8], each: &mut EachEntry<'_>) -> Result<(), ForeignError> {
        self.api.scan(&self.db, &self.read, start, each)
    }
}

#[cfg(test)]
mod tests;

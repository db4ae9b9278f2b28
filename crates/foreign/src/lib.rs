//! RocksDB and LevelDB in process, through the C API of the system's own libraries: rivals to
//! measure against.
//!
//! ```text
//!   ForeignDb::open --> Library: dlopen, then the functions by name, `rocksdb_` or `leveldb_` before each
//!       get, put, delete, scan --> the library; what it allocates is given back to it
//! ```
//!
//! RocksDB's C API began as LevelDB's. The functions used here have the same signatures in both, in
//! all their versions. One binding therefore serves both, nothing of theirs is compiled, and a user
//! who does not measure them needs neither library.
//!
//! Invariants
//!   F1  A function is called only while its library is loaded, and a library stays loaded until
//!       the process ends: LevelDB has a thread that outlives its databases and would otherwise run
//!       in unmapped code.
//!   F2  Values and errors that the library allocates are copied and freed at once. No reference to
//!       them is handed out.
//!
//! Not here: the measurements ([`ycsb`](https://docs.rs/imbrex-bench) in the crate `imbrex-bench`),
//! and running these databases on our drives, which the adapters do.

mod api;
mod error;

pub use error::ForeignError;

use api::{Api, Handle};
use std::ffi::CString;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Which database.
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

    /// File names of the library on common systems, the development package's first.
    fn library_names(self) -> &'static [&'static str] {
        match self {
            ForeignKind::RocksDb => &["librocksdb.so", "librocksdb.so.7.8"],
            ForeignKind::LevelDb => &["libleveldb.so", "libleveldb.so.1d", "libleveldb.so.1"],
        }
    }

    /// The Debian package that contains it.
    fn package(self) -> &'static str {
        match self {
            ForeignKind::RocksDb => "librocksdb-dev",
            ForeignKind::LevelDb => "libleveldb-dev",
        }
    }
}

/// How to open a database. Everything else is the library's default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ForeignOptions<'a> {
    /// The library's file, if it is not the system's.
    pub library: Option<&'a Path>,
    /// Bytes of one memtable.
    pub write_buffer_len_bytes: Option<usize>,
    /// Whether each write is synced before it returns.
    pub sync: bool,
}

/// Receives an entry's key and value, and returns whether it wants more.
pub type EachEntry<'a> = dyn FnMut(&[u8], &[u8]) -> ControlFlow<()> + 'a;

/// An open database. Threads may share it.
#[derive(Debug)]
pub struct ForeignDb {
    db: Handle,
    read: Handle,
    write: Handle,
    api: Api,
}

impl ForeignDb {
    /// Opens the database in the directory `path`, which is created if missing.
    ///
    /// # Errors
    /// [`ForeignError::NoLibrary`], [`ForeignError::OtherLibrary`]; [`ForeignError::Refused`] with
    /// the library's message.
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

    /// Deletes `key`, if it exists.
    ///
    /// # Errors
    /// [`ForeignError::Refused`].
    pub fn delete(&self, key: &[u8]) -> Result<(), ForeignError> {
        self.api.delete(&self.db, &self.write, key)
    }

    /// Passes the entries from `start` on to `each`, in key order, until it breaks or none are
    /// left.
    ///
    /// # Errors
    /// [`ForeignError::Refused`].
    pub fn scan(&self, start: &[u8], each: &mut EachEntry<'_>) -> Result<(), ForeignError> {
        self.api.scan(&self.db, &self.read, start, each)
    }
}

#[cfg(test)]
mod tests;

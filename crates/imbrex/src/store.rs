//! The store: the default keyspace's calls directly, the rest by name.
//!
//! ```text
//!   Store ----- Arc --> Inner { Stack }      closes when the last handle goes
//!   Keyspace -- Arc -/
//!   Snapshot -- Arc -/
//! ```
//!
//! Invariants
//!   D1  Every handle keeps the drive open. The drive is free for another process when all are gone.
//!   D2  After [`Store::close`] every handle refuses writes, whatever thread holds it.

use crate::backup::{BackupOptions, BackupReport, backup_db};
use crate::stack::{FoundDrives, Layout, Stack};
use crate::{Entries, Error, ErrorKind, Options};
use bytes::Bytes;
use imbrex_engine::{
    Db, KeyspaceId, KeyspaceOptions, Metrics, ReadOptions, WriteBatch, WriteOptions,
};
use imbrex_files::Files;
use imbrex_objects::{Ledger, Objects};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::ops::{ControlFlow, Range, RangeBounds};
use std::path::Path;
use std::sync::Arc;

/// An open store. Cheap to clone; all clones are the same store, and all calls may come from any thread.
///
/// Keys have 1 to 65,536 bytes and are ordered by byte; values have up to 1 GiB. A store with one keyspace needs no
/// other type than this.
#[derive(Clone, Debug)]
pub struct Store {
    inner: Arc<Inner>,
    default: Keyspace,
}

/// What all handles of a store share.
#[derive(Debug)]
struct Inner {
    stack: Stack,
    /// The drives, and how they were opened, of a store that is open for reading.
    read_only: Option<(FoundDrives, Options)>,
    /// One for each keyspace whose objects were asked for.
    ledgers: Mutex<BTreeMap<KeyspaceId, Arc<Ledger>>>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.stack.files.end_cleaning();
    }
}

impl Store {
    pub(crate) fn of(stack: Stack) -> Store {
        Store::with(stack, None)
    }

    /// The store on `found`, which is open for reading, as `options` opened it.
    pub(crate) fn read_only(stack: Stack, found: FoundDrives, options: Options) -> Store {
        Store::with(stack, Some((found, options)))
    }

    fn with(stack: Stack, read_only: Option<(FoundDrives, Options)>) -> Store {
        let engine = stack.db.default_keyspace();
        let inner = Arc::new(Inner { stack, read_only, ledgers: Mutex::default() });
        Store { default: Keyspace { engine, inner: Arc::clone(&inner) }, inner }
    }

    fn db(&self) -> &Db {
        &self.inner.stack.db
    }

    /// Sets `key` to `value`. Not durable before a sync; a crash loses it only together with every later write.
    ///
    /// # Errors
    /// [`ErrorKind`]`::InvalidEntry` for an empty key, or a key or value that is too long; `NoSpace`,
    /// `ReadOnly`, `Closed`, `Poisoned`, `Io`.
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<(), Error> {
        self.default.put(key, value)
    }

    /// Like [`Store::put`], with options: [`WriteOptions::SYNC`] makes this write, and every earlier one, durable on
    /// return.
    ///
    /// # Errors
    /// As [`Store::put`].
    pub fn put_with(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        options: WriteOptions,
    ) -> Result<(), Error> {
        self.default.put_with(key, value, options)
    }

    /// The value of `key`. Cost: on a cold cache about one seek, whatever the size of the store.
    ///
    /// # Errors
    /// `InvalidEntry`, `Damaged`, `Io`.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Bytes>, Error> {
        self.default.get(key)
    }

    /// Removes `key`, if it is there. Durable as [`Store::put`].
    ///
    /// # Errors
    /// As [`Store::put`].
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<(), Error> {
        self.default.delete(key)
    }

    /// Removes all keys in `range`. Cost: one small write, however many keys there are.
    ///
    /// # Errors
    /// As [`Store::put`].
    pub fn delete_range(&self, range: Range<impl AsRef<[u8]>>) -> Result<(), Error> {
        self.default.delete_range(range)
    }

    /// The entries in `range`, in order of key; `..` is all of them, `.rev()` reads backwards.
    ///
    /// # Errors
    /// `Damaged`, `Io`; errors of later reads are items.
    pub fn range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Result<Entries, Error> {
        self.default.range(range)
    }

    /// The entries whose keys start with `prefix`.
    ///
    /// # Errors
    /// As [`Store::range`].
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Result<Entries, Error> {
        self.default.prefix(prefix)
    }

    /// An empty batch for this store.
    pub fn batch(&self) -> Batch {
        Batch { batch: WriteBatch::new(), default: self.default.engine.clone() }
    }

    /// Applies all operations of `batch`, in order, or none of them, even across a crash. Durable as [`Store::put`].
    ///
    /// # Errors
    /// `InvalidArgument`: it is another store's batch. Else as [`Store::put`].
    pub fn write(&self, batch: Batch) -> Result<(), Error> {
        self.write_with(batch, WriteOptions::default())
    }

    /// Like [`Store::write`], with options.
    ///
    /// # Errors
    /// As [`Store::put`].
    pub fn write_with(&self, batch: Batch, options: WriteOptions) -> Result<(), Error> {
        check_one_store(&self.default.engine, &batch.default)?;
        Ok(self.db().write(batch.batch, options)?)
    }

    /// The store as it is now, for as long as the snapshot is held. Compaction keeps what a snapshot sees, so a long
    /// one costs space.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot { engine: self.db().snapshot(), default: self.default.clone() }
    }

    /// Makes everything written so far durable. Cost: one flush of the drive's cache.
    ///
    /// # Errors
    /// `NoSpace`, `Poisoned`, `Io`.
    pub fn sync(&self) -> Result<(), Error> {
        Ok(self.db().sync()?)
    }

    /// Writes the memtables to tables, durably: the next opening has no log to replay.
    ///
    /// # Errors
    /// As [`Store::sync`].
    pub fn flush(&self) -> Result<(), Error> {
        Ok(self.db().flush()?)
    }

    /// Merges everything down to the last level, so that overwritten and deleted data give up their space. Cost: reads
    /// and writes about all data once a level.
    ///
    /// # Errors
    /// As [`Store::sync`].
    pub fn compact(&self) -> Result<(), Error> {
        self.default.compact()
    }

    /// The keyspace called `name`.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn keyspace(&self, name: &str) -> Result<Keyspace, Error> {
        Ok(self.keyspace_of(self.db().keyspace(name)?))
    }

    /// Creates a keyspace: an ordered map of its own, which shares the log with the others, so that a batch may span
    /// them. Durable on return.
    ///
    /// # Errors
    /// `AlreadyExists`, `InvalidArgument`, `NoSpace`, `Io`.
    pub fn create_keyspace(&self, name: &str, options: KeyspaceOptions) -> Result<Keyspace, Error> {
        Ok(self.keyspace_of(self.db().create_keyspace(name, options)?))
    }

    fn keyspace_of(&self, engine: imbrex_engine::Keyspace) -> Keyspace {
        Keyspace { engine, inner: Arc::clone(&self.inner) }
    }

    /// The objects of the default keyspace: data of any length, which are written and read in pieces. A keyspace without
    /// entries becomes one of objects with its first object.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("disk.imbrex");
    /// use std::io::{Read, Seek, SeekFrom};
    /// let store = imbrex::create(path, imbrex::Options::new().values_apart_from(64 << 10))?;
    /// let objects = store.objects()?;
    /// let mut upload = objects.upload();
    /// std::io::copy(&mut "a long film".as_bytes(), &mut upload)?;
    /// upload.finish("film", "image/none", imbrex::WriteOptions::SYNC)?;
    /// let mut film = objects.reader("film")?.expect("it was put");
    /// film.seek(SeekFrom::Start(7))?;
    /// let mut end = String::new();
    /// film.read_to_string(&mut end)?;
    /// assert_eq!(end, "film");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// `InvalidArgument`: the keyspace has plain entries. `Damaged`, `Io`.
    pub fn objects(&self) -> Result<Objects, Error> {
        self.default.objects()
    }

    /// Drops a keyspace and everything in it, durably. The default keyspace stays.
    ///
    /// # Errors
    /// `NotFound`, `InvalidArgument`, `Io`.
    pub fn drop_keyspace(&self, name: &str) -> Result<(), Error> {
        Ok(self.db().drop_keyspace(name)?)
    }

    /// The names of all keyspaces, in the order they were created; `default` is the first.
    pub fn keyspace_names(&self) -> Vec<String> {
        self.db().keyspace_names()
    }

    /// Keeps the store as it is now under `name`, durably, until [`Store::delete_checkpoint`]. Cost: a flush; tables are
    /// shared, not copied.
    ///
    /// # Errors
    /// `AlreadyExists`, `InvalidArgument`, `NoSpace`, `Io`.
    pub fn checkpoint(&self, name: &str) -> Result<(), Error> {
        Ok(self.db().checkpoint(name)?)
    }

    /// The names of all checkpoints.
    pub fn checkpoint_names(&self) -> Vec<String> {
        self.db().checkpoints()
    }

    /// Opens a checkpoint for reading.
    ///
    /// # Errors
    /// `NotFound`, `Damaged`, `Io`.
    pub fn open_checkpoint(&self, name: &str) -> Result<Checkpoint, Error> {
        let db = self.db().open_checkpoint(name)?;
        let default = self.keyspace_of(db.default_keyspace());
        Ok(Checkpoint { db, default })
    }

    /// Deletes a checkpoint. A handle that still reads it goes on reading.
    ///
    /// # Errors
    /// `NotFound`, `Io`.
    pub fn delete_checkpoint(&self, name: &str) -> Result<(), Error> {
        Ok(self.db().delete_checkpoint(name)?)
    }

    /// Copies the store, as it is at one moment during the call, to a new store at `path`, which `options` describe.
    /// Cost: a flush; reads and writes all tables once. A store that is open for reading stays as it is: it is opened a
    /// second time, with the flush in memory.
    ///
    /// # Errors
    /// As [`Options::create`] for the new store, else `NoSpace`, `Damaged`, `Io`. The new store is not complete then. With
    /// [`Options::erase`] a target without room for the copy is erased all the same: only its format is tried first.
    pub fn backup_to(&self, path: impl AsRef<Path>, options: &Options) -> Result<(), Error> {
        if let Some((found, opened)) = &self.inner.read_only {
            return opened.open_in_memory(found)?.backup_to(path, options);
        }
        let options = options.clone().or_layout(self.layout());
        options.create_files(path.as_ref(), |files| Ok(self.db().backup_to(files)?))
    }

    /// Adds a copy of the store to the directory `target`, which is made if it does not exist: the tables that it does not
    /// have, each verified there. Writes may go on; the copy is of one moment during the call.
    ///
    /// Cost: a flush; reads and writes what is new since the last copy.
    ///
    /// # Errors
    /// As [`crate::backup::backup_db`].
    pub fn backup(
        &self,
        target: impl AsRef<Path>,
        options: &BackupOptions,
    ) -> Result<BackupReport, Error> {
        if let Some((found, opened)) = &self.inner.read_only {
            return opened.open_in_memory(found)?.backup(target, options);
        }
        let (store_id, layout) = (self.inner.stack.files.format_id(), self.layout());
        let mut watch = |_| ControlFlow::Continue(());
        backup_db(self.db(), store_id, layout, target.as_ref(), options, &mut watch)
    }

    /// What the store did since it was opened, and what it holds.
    pub fn metrics(&self) -> Metrics {
        self.db().metrics()
    }

    /// What the drive is formatted as.
    pub fn layout(&self) -> Layout {
        self.inner.stack.layout
    }

    /// The parts below, for tools.
    pub fn stack(&self) -> &Stack {
        &self.inner.stack
    }

    /// Makes everything durable and ends background work. Other handles refuse writes from now on; the drive is free
    /// when the last of them is gone.
    ///
    /// Dropping the last handle does the same, but cannot report a failure.
    ///
    /// # Errors
    /// `NoSpace`, `Poisoned`, `Io`: what was not durable before may be lost.
    pub fn close(self) -> Result<(), Error> {
        let closed = self.db().clone().close();
        self.inner.stack.files.end_cleaning();
        Ok(closed?)
    }
}

/// An ordered map of keys to values in a store. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Keyspace {
    // Before the stack: a handle of the engine may need it while it goes.
    engine: imbrex_engine::Keyspace,
    inner: Arc<Inner>,
}

impl Keyspace {
    /// Its name.
    pub fn name(&self) -> &str {
        self.engine.name()
    }

    /// As [`Store::put`].
    ///
    /// # Errors
    /// As [`Store::put`]; `NotFound` if the keyspace was dropped, as for every call here.
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<(), Error> {
        Ok(self.engine.put(key, value)?)
    }

    /// As [`Store::put_with`].
    ///
    /// # Errors
    /// As [`Keyspace::put`].
    pub fn put_with(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        options: WriteOptions,
    ) -> Result<(), Error> {
        Ok(self.engine.put_with(key, value, options)?)
    }

    /// As [`Store::get`].
    ///
    /// # Errors
    /// As [`Store::get`].
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Bytes>, Error> {
        Ok(self.engine.get(key)?)
    }

    /// The values of `keys`, in the same order; cheaper than one [`Keyspace::get`] each.
    ///
    /// # Errors
    /// As [`Store::get`].
    pub fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Bytes>>, Error> {
        Ok(self.engine.multi_get(keys)?)
    }

    /// As [`Store::delete`].
    ///
    /// # Errors
    /// As [`Keyspace::put`].
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<(), Error> {
        Ok(self.engine.delete(key)?)
    }

    /// As [`Store::delete_range`].
    ///
    /// # Errors
    /// As [`Keyspace::put`].
    pub fn delete_range(&self, range: Range<impl AsRef<[u8]>>) -> Result<(), Error> {
        Ok(self.engine.delete_range(range)?)
    }

    /// As [`Store::range`].
    ///
    /// # Errors
    /// As [`Store::range`].
    pub fn range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Result<Entries, Error> {
        self.entries(ReadOptions::default().within(range))
    }

    /// As [`Store::prefix`].
    ///
    /// # Errors
    /// As [`Store::range`].
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Result<Entries, Error> {
        self.entries(ReadOptions::default().with_prefix(prefix))
    }

    /// As [`Store::compact`].
    ///
    /// # Errors
    /// As [`Store::sync`].
    pub fn compact(&self) -> Result<(), Error> {
        Ok(self.engine.compact_range(None, None)?)
    }

    /// Its objects, as [`Store::objects`]. The log of several keyspaces keeps no values apart, so objects are best in the only
    /// keyspace of their store.
    ///
    /// # Errors
    /// As [`Store::objects`].
    pub fn objects(&self) -> Result<Objects, Error> {
        let inner = Arc::clone(&self.inner);
        // The keyspaces of a checkpoint have the same numbers.
        let is_now = self.engine.shares_store_with(&inner.stack.db.default_keyspace());
        let ledger = match is_now {
            true => Arc::clone(inner.ledgers.lock().entry(*self.engine.as_ref()).or_default()),
            false => Arc::default(),
        };
        Ok(Objects::open(&self.engine, inner.stack.files.format_id(), ledger, Some(inner))?)
    }

    /// The engine's handle, for cursors and what else it has.
    pub fn engine(&self) -> &imbrex_engine::Keyspace {
        &self.engine
    }

    fn entries(&self, options: ReadOptions<'_>) -> Result<Entries, Error> {
        Ok(Entries(self.engine.iter(options)?.into()))
    }
}

/// Operations that are applied together: all of them or none.
#[derive(Clone, Debug)]
pub struct Batch {
    batch: WriteBatch,
    default: imbrex_engine::Keyspace,
}

impl Batch {
    /// Sets `key` to `value` in the default keyspace.
    ///
    /// # Errors
    /// `InvalidEntry`: the key is empty, or the key, the value or the whole batch is too long; the batch is unchanged.
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<(), Error> {
        Ok(self.batch.put(&self.default, key, value)?)
    }

    /// Removes `key` from the default keyspace.
    ///
    /// # Errors
    /// As [`Batch::put`].
    pub fn delete(&mut self, key: impl AsRef<[u8]>) -> Result<(), Error> {
        Ok(self.batch.delete(&self.default, key)?)
    }

    /// Sets `key` to `value` in `keyspace`.
    ///
    /// # Errors
    /// As [`Batch::put`]; `InvalidArgument`: the keyspace is another store's.
    pub fn put_in(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<(), Error> {
        check_one_store(&self.default, &keyspace.engine)?;
        Ok(self.batch.put(&keyspace.engine, key, value)?)
    }

    /// Removes `key` from `keyspace`.
    ///
    /// # Errors
    /// As [`Batch::put_in`].
    pub fn delete_in(&mut self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<(), Error> {
        check_one_store(&self.default, &keyspace.engine)?;
        Ok(self.batch.delete(&keyspace.engine, key)?)
    }

    /// How many operations it has.
    pub fn len(&self) -> usize {
        self.batch.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.batch.is_empty()
    }
}

/// A batch names keyspaces by numbers, which mean other keyspaces in another store.
fn check_one_store(
    own: &imbrex_engine::Keyspace,
    other: &imbrex_engine::Keyspace,
) -> Result<(), Error> {
    if own.shares_store_with(other) {
        return Ok(());
    }
    let message =
        "a batch and its keyspaces must be of the store that writes it; make it with Store::batch";
    Err(Error::new(ErrorKind::InvalidArgument, message))
}

/// The store at one moment.
#[derive(Debug)]
pub struct Snapshot {
    engine: imbrex_engine::Snapshot,
    default: Keyspace,
}

impl Snapshot {
    /// The value that `key` had in the default keyspace.
    ///
    /// # Errors
    /// As [`Store::get`].
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Bytes>, Error> {
        self.get_in(&self.default, key)
    }

    /// The entries that the default keyspace had in `range`.
    ///
    /// # Errors
    /// As [`Store::range`].
    pub fn range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Result<Entries, Error> {
        self.range_in(&self.default, range)
    }

    /// The value that `key` had in `keyspace`.
    ///
    /// # Errors
    /// As [`Store::get`]; `InvalidArgument` for a keyspace of another store.
    pub fn get_in(
        &self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
    ) -> Result<Option<Bytes>, Error> {
        Ok(keyspace.engine.get_at(&self.engine, key)?)
    }

    /// The entries that `keyspace` had in `range`.
    ///
    /// # Errors
    /// As [`Store::range`]; `InvalidArgument` for a keyspace of another store.
    pub fn range_in<K: AsRef<[u8]>>(
        &self,
        keyspace: &Keyspace,
        range: impl RangeBounds<K>,
    ) -> Result<Entries, Error> {
        let options = ReadOptions { snapshot: Some(&self.engine), ..ReadOptions::default() };
        keyspace.entries(options.within(range))
    }
}

/// A checkpoint, open for reading.
#[derive(Clone, Debug)]
pub struct Checkpoint {
    // Before the stack, which `default` keeps.
    db: Db,
    default: Keyspace,
}

impl Checkpoint {
    /// The default keyspace as it was.
    pub fn default_keyspace(&self) -> &Keyspace {
        &self.default
    }

    /// The keyspace called `name` as it was.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn keyspace(&self, name: &str) -> Result<Keyspace, Error> {
        let engine = self.db.keyspace(name)?;
        Ok(Keyspace { engine, inner: Arc::clone(&self.default.inner) })
    }

    /// The objects of the default keyspace as they were.
    ///
    /// # Errors
    /// As [`Store::objects`].
    pub fn objects(&self) -> Result<Objects, Error> {
        self.default.objects()
    }
}

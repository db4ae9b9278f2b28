//! The handle of a keyspace of objects: its header, the numbers of uploads, and the lock that writers share.

use crate::error::ObjectsError;
use crate::format::{
    CHUNKS, Chunks, Data, HEADER_KEY, Header, MANIFESTS, Manifest, UPLOADS, UploadId, chunk_key,
    chunk_of, decode_header, encode_header, upload_key, upload_of,
};
use imbrex_engine::{
    Db, EngineError, KEY_LEN_BYTES_MAX, Keyspace, ReadOptions, WriteBatch, WriteOptions,
};
use parking_lot::{Mutex, MutexGuard};
use std::any::Any;
use std::sync::Arc;

/// How many numbers of uploads one write of the header provides.
const NUMBERS_AT_ONCE: u64 = 4096;

/// How many chunks are deleted one by one. A range is one entry for all of them, but every later merge compares
/// it with what it passes.
const DELETES_MAX: u32 = 32;

/// The objects of a keyspace. Cheap to clone; all calls may come from any thread.
///
/// A keyspace of objects has no other entries.
#[derive(Clone, Debug)]
pub struct Objects {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    // Before what it may need while it goes.
    db: Db,
    keyspace: Keyspace,
    /// The id of the store.
    store: u64,
    ledger: Arc<Ledger>,
    _keep: Option<Arc<dyn Any + Send + Sync>>,
}

/// What all writers of a keyspace of objects share: a writer that changes manifests locks it (O5).
#[derive(Debug, Default)]
pub struct Ledger(Mutex<Numbers>);

/// Which numbers uploads have.
#[derive(Debug, Default)]
pub(crate) struct Numbers {
    /// Whether the header is there, and no upload of before the opening is left.
    is_ready: bool,
    next: u64,
    /// The number in the header (O3).
    recorded: u64,
}

impl Objects {
    /// The objects of `keyspace`. A keyspace without entries becomes one of objects with its first
    /// object. `store` is an id that no other store has, so that a copy of a store does not take numbers of uploads from a
    /// header that is older than its other entries.
    ///
    /// All handles of an open keyspace have one `ledger`: with a new one, the first write deletes what uploads have left
    /// that are not of it, such as those that a crash cut off. The result keeps `keep` for as long as it lives.
    ///
    /// Cost: one read.
    ///
    /// # Errors
    /// [`ObjectsError::NotObjects`], [`ObjectsError::DamagedHeader`], [`ObjectsError::Engine`].
    pub fn open(
        keyspace: &Keyspace,
        store: u64,
        ledger: Arc<Ledger>,
        keep: Option<Arc<dyn Any + Send + Sync>>,
    ) -> Result<Objects, ObjectsError> {
        let (db, keyspace) = (keyspace.db(), keyspace.clone());
        let objects =
            Objects { inner: Arc::new(Inner { db, keyspace, store, ledger, _keep: keep }) };
        objects.check_kind()?;
        Ok(objects)
    }

    /// Whether `keyspace` is one of objects, or was. Cost: one read.
    ///
    /// # Errors
    /// [`ObjectsError::Engine`].
    pub fn are_in(keyspace: &Keyspace) -> Result<bool, ObjectsError> {
        Ok(keyspace.get(HEADER_KEY)?.is_some())
    }

    /// Refuses a keyspace of plain entries, and a header of a later version.
    fn check_kind(&self) -> Result<(), ObjectsError> {
        match self.header() {
            // Reading needs no header: what can be read is read.
            Err(ObjectsError::Engine(error)) if error.is_damage() => return Ok(()),
            Ok(None) => {}
            read => return read.map(drop),
        }
        let keyspace = &self.inner.keyspace;
        let mut iter = keyspace.iter(ReadOptions::default())?;
        iter.seek_to_first()?;
        match iter.key().first() {
            None | Some(&(UPLOADS | CHUNKS | MANIFESTS)) => Ok(()),
            Some(_) => Err(ObjectsError::NotObjects {
                keyspace: keyspace.name().to_owned(),
                key: iter.key().to_vec(),
            }),
        }
    }

    fn header(&self) -> Result<Option<Header>, ObjectsError> {
        let keyspace = &self.inner.keyspace;
        let Some(header) = keyspace.get(HEADER_KEY)? else { return Ok(None) };
        let decoded = decode_header(&header).map_err(|damage| ObjectsError::DamagedHeader {
            keyspace: keyspace.name().to_owned(),
            damage,
        });
        Ok(Some(decoded?))
    }

    /// A number above those of all uploads that left anything in the keyspace. Cost: reads all manifests.
    fn number_above_all(&self) -> Result<u64, ObjectsError> {
        let keyspace = &self.inner.keyspace;
        let mut highest = 0;
        for prefix in [UPLOADS, CHUNKS] {
            let mut iter = keyspace.iter(ReadOptions::default().with_prefix([prefix]))?;
            iter.seek_to_last()?;
            let of_chunk = chunk_of(iter.key()).map(|(upload, _)| upload);
            if let Some(upload) = upload_of(iter.key()).or(of_chunk) {
                highest = highest.max(upload.0);
            }
        }
        for entry in keyspace.prefix([MANIFESTS])? {
            let (_, value) = entry?;
            if let Ok(Manifest { data: Data::Chunks(chunks), .. }) = Manifest::decode(&value) {
                highest = highest.max(chunks.upload.0);
            }
        }
        Ok(highest + 1)
    }

    pub(crate) fn db(&self) -> &Db {
        &self.inner.db
    }

    pub(crate) fn keyspace(&self) -> &Keyspace {
        &self.inner.keyspace
    }

    /// Whether `other` is the same keyspace in the same opening.
    pub(crate) fn is_same(&self, other: &Objects) -> bool {
        Arc::ptr_eq(&self.inner.ledger, &other.inner.ledger)
    }

    /// A number for an upload.
    pub(crate) fn number(&self, numbers: &mut Numbers) -> Result<UploadId, ObjectsError> {
        if numbers.next == numbers.recorded {
            let recorded = numbers.recorded + NUMBERS_AT_ONCE;
            self.write_header(recorded)?;
            numbers.recorded = recorded;
        }
        numbers.next += 1;
        Ok(UploadId(numbers.next - 1))
    }

    /// The lock of a writer that changes manifests, with the header written and old uploads ended.
    pub(crate) fn lock(&self) -> Result<MutexGuard<'_, Numbers>, ObjectsError> {
        let mut numbers = self.inner.ledger.0.lock();
        if !numbers.is_ready {
            let store = self.inner.store;
            let header = self.header()?.filter(|header| header.store == store);
            let next = match header {
                Some(header) => header.next_upload.0,
                None => self.number_above_all()?,
            };
            self.end_old_uploads()?;
            if header.is_none() {
                self.write_header(next)?;
            }
            *numbers = Numbers { is_ready: true, next, recorded: next };
        }
        Ok(numbers)
    }

    fn write_header(&self, next: u64) -> Result<(), EngineError> {
        let header = Header { store: self.inner.store, next_upload: UploadId(next) };
        self.keyspace().put(HEADER_KEY, encode_header(header))
    }

    /// Deletes what uploads have left that a crash or the end of the program cut off.
    fn end_old_uploads(&self) -> Result<(), ObjectsError> {
        for entry in self.keyspace().prefix([UPLOADS])? {
            let (key, _) = entry?;
            let Some(upload) = upload_of(&key) else { continue };
            let mut batch = WriteBatch::new();
            add_chunk_range(self.keyspace(), &mut batch, upload)?;
            batch.delete(self.keyspace(), upload_key(upload))?;
            self.db().write(batch, WriteOptions::default())?;
        }
        Ok(())
    }
}

/// The manifest of the object `name`.
pub(crate) fn decode<'a>(name: &[u8], value: &'a [u8]) -> Result<Manifest<'a>, ObjectsError> {
    Manifest::decode(value).map_err(|damage| ObjectsError::damaged(name, damage.to_string()))
}

/// Refuses an empty or too long name.
pub(crate) fn check_name(name: &[u8]) -> Result<(), ObjectsError> {
    match name.len() {
        1..KEY_LEN_BYTES_MAX => Ok(()),
        got_bytes => Err(ObjectsError::NameLen { got_bytes }),
    }
}

/// Adds deletes of all chunks of an object.
pub(crate) fn add_deletes(
    keyspace: &Keyspace,
    batch: &mut WriteBatch,
    chunks: Chunks,
) -> Result<(), EngineError> {
    if chunks.count() > DELETES_MAX {
        return add_chunk_range(keyspace, batch, chunks.upload);
    }
    (0..chunks.count())
        .try_for_each(|number| batch.delete(keyspace, chunk_key(chunks.upload, number)))
}

/// Adds one delete of whatever chunks an upload has.
pub(crate) fn add_chunk_range(
    keyspace: &Keyspace,
    batch: &mut WriteBatch,
    upload: UploadId,
) -> Result<(), EngineError> {
    let end = chunk_key(UploadId(upload.0 + 1), 0);
    batch.delete_range(keyspace, chunk_key(upload, 0), end)
}

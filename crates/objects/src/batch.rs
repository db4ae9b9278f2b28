//! Batches: changes of objects that take effect together.

use crate::error::ObjectsError;
use crate::format::{
    CHUNK_LEN_BYTES, Chunks, Data, INLINE_LEN_BYTES_MAX, METADATA_LEN_BYTES_MAX, Manifest,
    chunk_key, manifest_key, upload_key,
};
use crate::handle::{Numbers, Objects, add_deletes, check_name, decode};
use crate::upload::Upload;
use imbrex_engine::{WriteBatch, WriteOptions};
use std::collections::BTreeMap;

/// Changes of objects that take effect together, in the order in which they were added, or not at all.
#[derive(Debug, Default)]
pub struct ObjectBatch {
    changes: Vec<(Vec<u8>, Change)>,
}

#[derive(Debug)]
enum Change {
    Put { metadata: Vec<u8>, data: Vec<u8> },
    Finish { metadata: Vec<u8>, upload: Box<Upload> },
    SetMetadata { metadata: Vec<u8> },
    Rename { to: Vec<u8> },
    Delete,
}

impl ObjectBatch {
    /// An empty batch.
    pub fn new() -> ObjectBatch {
        ObjectBatch::default()
    }

    /// Makes `data` the object called `name`. The data are in memory until the batch is written; use an upload for
    /// more than a few MiB.
    ///
    /// # Errors
    /// [`ObjectsError::NameLen`], [`ObjectsError::MetadataLen`]; nothing was added then, as for each of these.
    pub fn put(
        &mut self,
        name: impl AsRef<[u8]>,
        metadata: impl AsRef<[u8]>,
        data: impl AsRef<[u8]>,
    ) -> Result<(), ObjectsError> {
        let metadata = checked_metadata(metadata.as_ref())?;
        self.add(name.as_ref(), Change::Put { metadata, data: data.as_ref().to_vec() })
    }

    /// Makes what `upload` has written the object called `name`.
    ///
    /// # Errors
    /// [`ObjectsError::NameLen`], [`ObjectsError::MetadataLen`]; the upload is abandoned then.
    pub fn finish(
        &mut self,
        name: impl AsRef<[u8]>,
        metadata: impl AsRef<[u8]>,
        upload: Upload,
    ) -> Result<(), ObjectsError> {
        let metadata = checked_metadata(metadata.as_ref())?;
        self.add(name.as_ref(), Change::Finish { metadata, upload: Box::new(upload) })
    }

    /// Gives the object called `name` other metadata. Its data stay where they are.
    ///
    /// # Errors
    /// [`ObjectsError::NameLen`], [`ObjectsError::MetadataLen`].
    pub fn set_metadata(
        &mut self,
        name: impl AsRef<[u8]>,
        metadata: impl AsRef<[u8]>,
    ) -> Result<(), ObjectsError> {
        let metadata = checked_metadata(metadata.as_ref())?;
        self.add(name.as_ref(), Change::SetMetadata { metadata })
    }

    /// Gives the object called `name` the name `to`, in place of the object that has it. The data stay where they are.
    ///
    /// # Errors
    /// [`ObjectsError::NameLen`].
    pub fn rename(
        &mut self,
        name: impl AsRef<[u8]>,
        to: impl AsRef<[u8]>,
    ) -> Result<(), ObjectsError> {
        check_name(to.as_ref())?;
        self.add(name.as_ref(), Change::Rename { to: to.as_ref().to_vec() })
    }

    /// Deletes the object called `name`, if there is one.
    ///
    /// # Errors
    /// [`ObjectsError::NameLen`].
    pub fn delete(&mut self, name: impl AsRef<[u8]>) -> Result<(), ObjectsError> {
        self.add(name.as_ref(), Change::Delete)
    }

    /// How many changes it has.
    pub fn len(&self) -> usize {
        self.changes.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    fn add(&mut self, name: &[u8], change: Change) -> Result<(), ObjectsError> {
        check_name(name)?;
        self.changes.push((name.to_vec(), change));
        Ok(())
    }
}

fn checked_metadata(metadata: &[u8]) -> Result<Vec<u8>, ObjectsError> {
    match metadata.len() {
        0..=METADATA_LEN_BYTES_MAX => Ok(metadata.to_vec()),
        got_bytes => Err(ObjectsError::MetadataLen { got_bytes }),
    }
}

/// What a commit has done.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Committed {
    /// How many objects it deleted that were there.
    pub(crate) deleted_count: usize,
}

/// A batch of the engine in the making.
struct Commit<'a> {
    objects: &'a Objects,
    numbers: &'a mut Numbers,
    /// The manifests that the batch changes, as they are after the changes so far.
    changed: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
    batch: WriteBatch,
    /// Ended when the batch is visible.
    uploads: Vec<Upload>,
    committed: Committed,
}

impl Objects {
    pub(crate) fn commit(
        &self,
        batch: ObjectBatch,
        options: WriteOptions,
    ) -> Result<Committed, ObjectsError> {
        let mut numbers = self.lock()?;
        let mut commit = Commit {
            objects: self,
            numbers: &mut numbers,
            changed: BTreeMap::new(),
            batch: WriteBatch::new(),
            uploads: Vec::new(),
            committed: Committed::default(),
        };
        for (name, change) in batch.changes {
            commit.change(name, change)?;
        }
        commit.write()?;
        commit.uploads.into_iter().for_each(Upload::end);
        let committed = commit.committed;
        drop(numbers);
        if options.sync {
            self.db().sync()?;
        }
        Ok(committed)
    }
}

impl Commit<'_> {
    fn change(&mut self, name: Vec<u8>, change: Change) -> Result<(), ObjectsError> {
        match change {
            Change::Put { metadata, data } => {
                let manifest = self.add_data(&metadata, &data)?;
                self.replace(name, Some(manifest))?;
            }
            Change::Finish { metadata, upload } => {
                let mut upload = *upload;
                let manifest = self.add_upload(&metadata, &mut upload);
                self.uploads.push(upload);
                let manifest = manifest?;
                self.replace(name, Some(manifest))?;
            }
            Change::SetMetadata { metadata } => {
                let Some(value) = self.manifest(&name)? else {
                    return Err(ObjectsError::NoObject { name });
                };
                let manifest = Manifest { metadata: &metadata, data: decode(&name, &value)?.data };
                let encoded = manifest.encode();
                self.changed.insert(name, Some(encoded));
            }
            Change::Rename { to } => {
                let Some(value) = self.manifest(&name)? else {
                    return Err(ObjectsError::NoObject { name });
                };
                if name != to {
                    self.replace(to, Some(value))?;
                    self.changed.insert(name, None);
                }
            }
            Change::Delete => {
                if self.replace(name, None)? {
                    self.committed.deleted_count += 1;
                }
            }
        }
        Ok(())
    }

    /// The manifest of `name` after the changes so far.
    fn manifest(&self, name: &[u8]) -> Result<Option<Vec<u8>>, ObjectsError> {
        if let Some(changed) = self.changed.get(name) {
            return Ok(changed.clone());
        }
        let value = self.objects.keyspace().get(manifest_key(name))?;
        Ok(value.map(|value| value.to_vec()))
    }

    /// Gives `name` another manifest, or none, and deletes the chunks of the old one; returns whether there was one.
    fn replace(&mut self, name: Vec<u8>, by: Option<Vec<u8>>) -> Result<bool, ObjectsError> {
        // A manifest that is damaged does not tell its chunks. A new one may replace it all the same; the chunks stay
        // until a check finds them.
        let old = match self.manifest(&name) {
            Err(ObjectsError::Engine(error)) if error.is_damage() => Some(Vec::new()),
            read => read?,
        };
        if let Some(Ok(Manifest { data: Data::Chunks(chunks), .. })) =
            old.as_deref().map(Manifest::decode)
        {
            add_deletes(self.objects.keyspace(), &mut self.batch, chunks)?;
        }
        self.changed.insert(name, by);
        Ok(old.is_some())
    }

    fn add_data(&mut self, metadata: &[u8], data: &[u8]) -> Result<Vec<u8>, ObjectsError> {
        if data.len() <= INLINE_LEN_BYTES_MAX {
            return Ok(Manifest { metadata, data: Data::Inline(data) }.encode());
        }
        let upload = self.objects.number(self.numbers)?;
        for (number, chunk) in (0..).zip(data.chunks(CHUNK_LEN_BYTES)) {
            self.batch.put(self.objects.keyspace(), chunk_key(upload, number), chunk)?;
        }
        let chunks = Chunks {
            upload,
            chunk_len_bytes: CHUNK_LEN_BYTES as u32,
            len_bytes: data.len() as u64,
        };
        Ok(Manifest { metadata, data: Data::Chunks(chunks) }.encode())
    }

    fn add_upload(
        &mut self,
        metadata: &[u8],
        upload: &mut Upload,
    ) -> Result<Vec<u8>, ObjectsError> {
        if !upload.is_of(self.objects) {
            return Err(ObjectsError::ForeignUpload);
        }
        upload.check_open()?;
        let Some(begun) = upload.begun() else { return self.add_data(metadata, upload.rest()) };
        let keyspace = self.objects.keyspace();
        if !upload.rest().is_empty() {
            self.batch.put(keyspace, chunk_key(begun.upload, begun.count()), upload.rest())?;
        }
        self.batch.delete(keyspace, upload_key(begun.upload))?;
        let chunks = Chunks { len_bytes: upload.len_bytes(), ..begun };
        Ok(Manifest { metadata, data: Data::Chunks(chunks) }.encode())
    }

    /// Makes all changes visible together (O1).
    fn write(&mut self) -> Result<(), ObjectsError> {
        let keyspace = self.objects.keyspace();
        for (name, manifest) in &self.changed {
            let key = manifest_key(name);
            match manifest {
                Some(manifest) => self.batch.put(keyspace, key, manifest)?,
                None => self.batch.delete(keyspace, key)?,
            }
        }
        let batch = std::mem::take(&mut self.batch);
        Ok(self.objects.db().write(batch, WriteOptions::default())?)
    }
}

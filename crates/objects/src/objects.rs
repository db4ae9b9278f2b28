//! What a caller does with objects: putting, reading, listing, deleting and checking them.

use crate::batch::ObjectBatch;
use crate::error::ObjectsError;
use crate::format::{
    CHUNK_LEN_BYTES, CHUNKS, Chunks, Data, HEADER_KEY, MANIFESTS, Manifest, UploadId, chunk_of,
    manifest_key, name_of, upload_of,
};
use crate::handle::{Objects, check_name};
use crate::reader::{ObjectReader, ObjectStat};
use crate::upload::Upload;
use bytes::Bytes;
use imbrex_engine::{Entries, ReadOptions, WriteOptions};
use std::collections::BTreeMap;
use std::ops::Bound;

/// The longest data that [`Objects::put`] writes in one batch.
const ONE_BATCH_LEN_BYTES_MAX: usize = 8 * CHUNK_LEN_BYTES;

/// What [`Objects::check`] found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectsReport {
    /// How many objects there are.
    pub object_count: u64,
    /// The length of their data.
    pub len_bytes: u64,
    /// How many chunks they have.
    pub chunk_count: u64,
    /// How many uploads have begun and not ended.
    pub upload_count: u64,
    /// What is wrong, one sentence each.
    pub findings: Vec<String>,
}

impl Objects {
    /// Begins an upload: an object whose data come in pieces, and whose name and metadata may come last. Nothing is written
    /// yet. Dropping it abandons it.
    pub fn upload(&self) -> Upload {
        Upload::new(self.clone())
    }

    /// Makes `data` the object called `name`, in place of what it was. Durable and atomic as a put of the store; with
    /// `options.sync` durable on return.
    ///
    /// # Errors
    /// [`ObjectsError::NameLen`], [`ObjectsError::MetadataLen`], [`ObjectsError::Engine`]; nothing was changed, unless
    /// only the sync failed.
    pub fn put(
        &self,
        name: impl AsRef<[u8]>,
        metadata: impl AsRef<[u8]>,
        data: impl AsRef<[u8]>,
        options: WriteOptions,
    ) -> Result<(), ObjectsError> {
        let (name, metadata, data) = (name.as_ref(), metadata.as_ref(), data.as_ref());
        let mut batch = ObjectBatch::new();
        if data.len() <= ONE_BATCH_LEN_BYTES_MAX {
            batch.put(name, metadata, data)?;
        } else {
            check_name(name)?;
            let mut upload = self.upload();
            upload.write(data)?;
            batch.finish(name, metadata, upload)?;
        }
        self.write(batch, options)
    }

    /// Deletes the object called `name`; returns whether there was one.
    ///
    /// # Errors
    /// [`ObjectsError::NameLen`], [`ObjectsError::Engine`]. A delete may still succeed when puts are refused for want of
    /// space.
    pub fn delete(
        &self,
        name: impl AsRef<[u8]>,
        options: WriteOptions,
    ) -> Result<bool, ObjectsError> {
        let mut batch = ObjectBatch::new();
        batch.delete(name)?;
        Ok(self.commit(batch, options)?.deleted_count > 0)
    }

    /// Applies all operations of `batch`, in order, or none of them, even across a crash.
    ///
    /// # Errors
    /// [`ObjectsError::NoObject`] for an object to be renamed or given other metadata; [`ObjectsError::ForeignUpload`],
    /// [`ObjectsError::Ended`], [`ObjectsError::Damaged`], [`ObjectsError::Engine`]. Nothing was changed, unless only the
    /// sync failed; the uploads of the batch are abandoned.
    pub fn write(&self, batch: ObjectBatch, options: WriteOptions) -> Result<(), ObjectsError> {
        self.commit(batch, options).map(drop)
    }

    /// The object called `name`, to be read as it is now; `None` if there is none.
    ///
    /// Cost: one look-up. While the reader is open, the store keeps what it sees.
    ///
    /// # Errors
    /// [`ObjectsError::NameLen`], [`ObjectsError::Damaged`], [`ObjectsError::Engine`].
    pub fn reader(&self, name: impl AsRef<[u8]>) -> Result<Option<ObjectReader>, ObjectsError> {
        let name = name.as_ref();
        check_name(name)?;
        // The snapshot is first, so that the chunks are those of the manifest (O4).
        let snapshot = self.db().snapshot();
        let Some(manifest) = self.keyspace().get_at(&snapshot, manifest_key(name))? else {
            return Ok(None);
        };
        Ok(Some(ObjectReader::new(self.clone(), name, manifest, snapshot)?))
    }

    /// Length and metadata of the object called `name`; `None` if there is none. Cost: one look-up.
    ///
    /// # Errors
    /// As [`Objects::reader`].
    pub fn stat(&self, name: impl AsRef<[u8]>) -> Result<Option<ObjectStat>, ObjectsError> {
        let name = name.as_ref();
        check_name(name)?;
        let value = self.keyspace().get(manifest_key(name))?;
        value.map(|value| ObjectStat::of(name, &value)).transpose()
    }

    /// The objects whose names start with `prefix`, in the order of their names, from `start` on if it is given. The data
    /// are not read.
    ///
    /// # Errors
    /// [`ObjectsError::Engine`]; errors of later reads are items.
    pub fn list(
        &self,
        prefix: impl AsRef<[u8]>,
        start: Option<&[u8]>,
    ) -> Result<Listing, ObjectsError> {
        let prefix = manifest_key(prefix.as_ref());
        let mut options = ReadOptions::default().with_prefix(&prefix);
        if let Some(start) = start.map(manifest_key).filter(|start| *start > prefix) {
            options.lower = Some(start.into());
        }
        Ok(Listing { entries: self.keyspace().iter(options)?.into() })
    }

    /// Reads every entry and compares manifests, chunks and marks with each other (O2), at one moment.
    ///
    /// Cost: reads all data once; 40 bytes of memory for each object of more than 4 KiB.
    ///
    /// # Errors
    /// [`ObjectsError::Engine`]: an entry cannot be read. What does not fit together is a finding.
    pub fn check(&self) -> Result<ObjectsReport, ObjectsError> {
        let snapshot = self.db().snapshot();
        let mut check = Check::default();
        // Manifests first, and what is behind them: their chunks have smaller keys.
        for (from, to) in [(MANIFESTS, None), (0, Some(CHUNKS)), (CHUNKS, Some(MANIFESTS))] {
            let options = ReadOptions { snapshot: Some(&snapshot), ..ReadOptions::default() };
            let (from, to) = (Bound::Included([from]), to.map(|to| Bound::Excluded([to])));
            let options = options.within((from, to.unwrap_or(Bound::Unbounded)));
            let mut iter = self.keyspace().iter(options)?;
            iter.seek_to_first()?;
            while iter.valid() {
                check.entry(iter.key(), iter.value());
                iter.next()?;
            }
        }
        Ok(check.end())
    }
}

/// Objects in the order of their names, at one moment. It ends after the first error.
#[derive(Debug)]
pub struct Listing {
    entries: Entries,
}

impl Iterator for Listing {
    type Item = Result<(Bytes, ObjectStat), ObjectsError>;

    fn next(&mut self) -> Option<Self::Item> {
        let entry = self.entries.next()?.map_err(ObjectsError::from);
        Some(entry.and_then(|(key, value)| {
            let name = key.slice_ref(name_of(&key).unwrap_or_default());
            let stat = ObjectStat::of(&name, &value)?;
            Ok((name, stat))
        }))
    }
}

/// A check under way: manifests come first, then marks, then chunks in their order.
#[derive(Default)]
struct Check {
    report: ObjectsReport,
    objects: BTreeMap<UploadId, (Chunks, u32)>,
    marks: Vec<UploadId>,
}

impl Check {
    fn entry(&mut self, key: &[u8], value: &[u8]) {
        if let Some(name) = name_of(key) {
            self.manifest(name, value);
        } else if let Some(upload) = upload_of(key) {
            self.report.upload_count += 1;
            self.marks.push(upload);
        } else if let Some((upload, number)) = chunk_of(key) {
            self.chunk(upload, number, value);
        } else if key != HEADER_KEY {
            self.find(format!("the key {} is of no object", key.escape_ascii()));
        }
    }

    fn manifest(&mut self, name: &[u8], value: &[u8]) {
        let shown = name.escape_ascii();
        match Manifest::decode(value) {
            Err(damage) => self.find(format!("object {shown}: {damage}")),
            Ok(manifest) => {
                self.report.object_count += 1;
                self.report.len_bytes += manifest.len_bytes();
                if let Data::Chunks(chunks) = manifest.data
                    && self.objects.insert(chunks.upload, (chunks, 0)).is_some()
                {
                    let what = "read both, before either is deleted or put again";
                    self.find(format!("object {shown} has the chunks of another one: {what}"));
                }
            }
        }
    }

    fn chunk(&mut self, upload: UploadId, number: u32, value: &[u8]) {
        match self.objects.get_mut(&upload) {
            Some((chunks, found)) if number < chunks.count() => {
                *found += 1;
                self.report.chunk_count += 1;
                let wanted = chunks.len_of(number);
                if value.len() as u64 != wanted {
                    let what = format!("has {} bytes and should have {wanted}", value.len());
                    self.find(format!("chunk {number} of upload {} {what}", upload.0));
                }
            }
            _ if self.marks.binary_search(&upload).is_ok() => {}
            _ => self.find(format!("chunk {number} of upload {} is of no object", upload.0)),
        }
    }

    fn find(&mut self, what: String) {
        self.report.findings.push(what);
    }

    fn end(mut self) -> ObjectsReport {
        for (upload, (chunks, found)) in std::mem::take(&mut self.objects) {
            let count = chunks.count();
            if found != count {
                self.find(format!("upload {} has {found} of {count} chunks", upload.0));
            }
        }
        self.report
    }
}

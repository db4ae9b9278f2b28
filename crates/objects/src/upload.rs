//! Uploads: the data of an object, in pieces, before it is one.

use crate::error::ObjectsError;
use crate::format::{CHUNK_LEN_BYTES, Chunks, chunk_key, upload_key};
use crate::handle::{Objects, add_chunk_range};
use imbrex_engine::{WriteBatch, WriteOptions};
use std::io;

/// The most data that chunks have numbers for: 4 PiB less a chunk.
const LEN_BYTES_MAX: u64 = u32::MAX as u64 * CHUNK_LEN_BYTES as u64;

/// The data of an object, in pieces, before it is one. Nobody sees them before
/// [`ObjectBatch::finish`](crate::ObjectBatch::finish) or [`Upload::finish`] gives them a name. Dropping an upload abandons
/// it: its space becomes free.
///
/// Memory: up to 1 MiB. What is longer is on the drive, or on its way.
#[derive(Debug)]
pub struct Upload {
    objects: Objects,
    /// The chunks that are written; all are full.
    begun: Option<Chunks>,
    /// What comes after them.
    rest: Vec<u8>,
    has_failed: bool,
    has_ended: bool,
}

impl Upload {
    pub(crate) fn new(objects: Objects) -> Upload {
        Upload { objects, begun: None, rest: Vec::new(), has_failed: false, has_ended: false }
    }

    /// Appends `data`. Not durable before the object is.
    ///
    /// # Errors
    /// [`ObjectsError::Engine`], such as a full drive; then [`ObjectsError::Ended`]: an upload whose write failed cannot go on.
    pub fn write(&mut self, data: &[u8]) -> Result<(), ObjectsError> {
        self.check_open()?;
        let done = self.append(data);
        self.has_failed = done.is_err();
        done
    }

    fn append(&mut self, mut data: &[u8]) -> Result<(), ObjectsError> {
        if self.len_bytes().saturating_add(data.len() as u64) > LEN_BYTES_MAX {
            return Err(ObjectsError::DataLen { max_bytes: LEN_BYTES_MAX });
        }
        // A full chunk waits for the byte after it, so that an object of one chunk is one batch.
        while self.rest.len() + data.len() > CHUNK_LEN_BYTES {
            if self.rest.is_empty() {
                let (chunk, after) = data.split_at(CHUNK_LEN_BYTES);
                self.write_chunk(chunk)?;
                data = after;
            } else {
                let (head, after) = data.split_at(CHUNK_LEN_BYTES - self.rest.len());
                self.rest.extend_from_slice(head);
                data = after;
                let chunk = std::mem::take(&mut self.rest);
                self.write_chunk(&chunk)?;
                self.rest = chunk;
                self.rest.clear();
            }
        }
        self.rest.extend_from_slice(data);
        Ok(())
    }

    fn write_chunk(&mut self, chunk: &[u8]) -> Result<(), ObjectsError> {
        let keyspace = self.objects.keyspace();
        let Some(begun) = &mut self.begun else {
            let upload = self.objects.number(&mut *self.objects.lock()?)?;
            let chunks = Chunks {
                upload,
                chunk_len_bytes: CHUNK_LEN_BYTES as u32,
                len_bytes: chunk.len() as u64,
            };
            // O2: the mark is there before the chunk.
            let mut batch = WriteBatch::new();
            batch.put(keyspace, upload_key(upload), [])?;
            batch.put(keyspace, chunk_key(upload, 0), chunk)?;
            self.objects.db().write(batch, WriteOptions::default())?;
            self.begun = Some(chunks);
            return Ok(());
        };
        keyspace.put(chunk_key(begun.upload, begun.count()), chunk)?;
        begun.len_bytes += chunk.len() as u64;
        Ok(())
    }

    /// How much has been written to it.
    pub fn len_bytes(&self) -> u64 {
        self.begun.map_or(0, |begun| begun.len_bytes) + self.rest.len() as u64
    }

    /// Makes what was written the object called `name`, in place of what it was; with `options.sync` durable on return.
    ///
    /// # Errors
    /// As [`Objects::write`].
    pub fn finish(
        self,
        name: impl AsRef<[u8]>,
        metadata: impl AsRef<[u8]>,
        options: WriteOptions,
    ) -> Result<(), ObjectsError> {
        let objects = self.objects.clone();
        let mut batch = crate::ObjectBatch::new();
        batch.finish(name, metadata, self)?;
        objects.write(batch, options)
    }

    /// Forgets what was written; its space becomes free.
    ///
    /// # Errors
    /// [`ObjectsError::Engine`]: the next opening frees the space.
    pub fn abandon(mut self) -> Result<(), ObjectsError> {
        self.forget()
    }

    fn forget(&mut self) -> Result<(), ObjectsError> {
        let begun = self.begun.take().filter(|_| !self.has_ended);
        self.has_ended = true;
        let Some(begun) = begun else { return Ok(()) };
        let keyspace = self.objects.keyspace();
        let mut batch = WriteBatch::new();
        add_chunk_range(keyspace, &mut batch, begun.upload)?;
        batch.delete(keyspace, upload_key(begun.upload))?;
        Ok(self.objects.db().write(batch, WriteOptions::default())?)
    }

    /// Records that an object has the chunks.
    pub(crate) fn end(mut self) {
        self.has_ended = true;
    }

    pub(crate) fn check_open(&self) -> Result<(), ObjectsError> {
        match self.has_failed || self.has_ended {
            true => Err(ObjectsError::Ended),
            false => Ok(()),
        }
    }

    pub(crate) fn is_of(&self, objects: &Objects) -> bool {
        self.objects.is_same(objects)
    }

    /// The chunks that are written, if any are.
    pub(crate) fn begun(&self) -> Option<Chunks> {
        self.begun
    }

    /// What is not written yet.
    pub(crate) fn rest(&self) -> &[u8] {
        &self.rest
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        // What cannot be freed now is freed at the next opening.
        let _freed = self.forget();
    }
}

impl io::Write for Upload {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        Upload::write(self, data).map_err(io::Error::other)?;
        Ok(data.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

//! Readers: an object, or a part of it, as it was when it was opened.

use crate::error::ObjectsError;
use crate::format::{Chunks, Data, chunk_key};
use crate::handle::{Objects, decode};
use bytes::Bytes;
use imbrex_engine::Snapshot;
use std::io;

/// What is known of an object without its data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectStat {
    /// The length of its data.
    pub len_bytes: u64,
    /// Its metadata, as they were given.
    pub metadata: Bytes,
}

impl ObjectStat {
    pub(crate) fn of(name: &[u8], value: &Bytes) -> Result<ObjectStat, ObjectsError> {
        let manifest = decode(name, value)?;
        Ok(ObjectStat {
            len_bytes: manifest.len_bytes(),
            metadata: value.slice_ref(manifest.metadata),
        })
    }
}

/// An object as it was when it was opened (O4). While a reader is open, the store keeps what it sees.
#[derive(Debug)]
pub struct ObjectReader {
    name: Vec<u8>,
    stat: ObjectStat,
    content: Content,
    position: u64,
}

#[derive(Debug)]
enum Content {
    Inline(Bytes),
    Chunks {
        objects: Objects,
        snapshot: Snapshot,
        chunks: Chunks,
        /// The last one that was read.
        last: Option<(u32, Bytes)>,
    },
}

impl ObjectReader {
    pub(crate) fn new(
        objects: Objects,
        name: &[u8],
        manifest: Bytes,
        snapshot: Snapshot,
    ) -> Result<ObjectReader, ObjectsError> {
        let stat = ObjectStat::of(name, &manifest)?;
        let content = match decode(name, &manifest)?.data {
            Data::Inline(data) => Content::Inline(manifest.slice_ref(data)),
            Data::Chunks(chunks) => Content::Chunks { objects, snapshot, chunks, last: None },
        };
        Ok(ObjectReader { name: name.to_vec(), stat, content, position: 0 })
    }

    /// Length and metadata.
    pub fn stat(&self) -> &ObjectStat {
        &self.stat
    }

    /// Bytes of the data from `offset` on, without a copy: at least one and at most `len_bytes_max`, up to the end of a
    /// chunk; none at the end of the data, or if none were asked for.
    ///
    /// Cost: one look-up, unless the last read was of the same chunk.
    ///
    /// # Errors
    /// [`ObjectsError::Damaged`], [`ObjectsError::Engine`].
    pub fn bytes_at(&mut self, offset: u64, len_bytes_max: usize) -> Result<Bytes, ObjectsError> {
        let left_bytes = self.stat.len_bytes.saturating_sub(offset);
        let len = left_bytes.min(len_bytes_max as u64) as usize;
        if len == 0 {
            return Ok(Bytes::new());
        }
        let (chunk, at) = match &mut self.content {
            Content::Inline(data) => (data.clone(), offset as usize),
            Content::Chunks { objects, snapshot, chunks, last } => {
                let chunk_len = u64::from(chunks.chunk_len_bytes);
                // The manifest's decoder has made sure that the numbers of all chunks fit.
                let number = (offset / chunk_len) as u32;
                let chunk = match last {
                    Some((kept, chunk)) if *kept == number => chunk.clone(),
                    _ => {
                        let chunk = read_chunk(&self.name, objects, snapshot, *chunks, number)?;
                        *last = Some((number, chunk.clone()));
                        chunk
                    }
                };
                (chunk, (offset % chunk_len) as usize)
            }
        };
        Ok(chunk.slice(at..(at + len).min(chunk.len())))
    }

    /// All data from `offset` to before `offset + len_bytes`, or to the end.
    ///
    /// # Errors
    /// As [`ObjectReader::bytes_at`].
    pub fn read_range(&mut self, offset: u64, len_bytes: usize) -> Result<Vec<u8>, ObjectsError> {
        let left_bytes = self.stat.len_bytes.saturating_sub(offset);
        let mut out = Vec::with_capacity(left_bytes.min(len_bytes as u64) as usize);
        while out.len() < len_bytes {
            let piece = self.bytes_at(offset + out.len() as u64, len_bytes - out.len())?;
            if piece.is_empty() {
                break;
            }
            out.extend_from_slice(&piece);
        }
        Ok(out)
    }
}

fn read_chunk(
    name: &[u8],
    objects: &Objects,
    snapshot: &Snapshot,
    chunks: Chunks,
    number: u32,
) -> Result<Bytes, ObjectsError> {
    let chunk = objects.keyspace().get_at(snapshot, chunk_key(chunks.upload, number))?;
    let chunk =
        chunk.ok_or_else(|| ObjectsError::damaged(name, format!("chunk {number} is missing")))?;
    let wanted = chunks.len_of(number);
    if chunk.len() as u64 != wanted {
        let what = format!("chunk {number} has {} bytes and should have {wanted}", chunk.len());
        return Err(ObjectsError::damaged(name, what));
    }
    Ok(chunk)
}

impl io::Read for ObjectReader {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let piece = self.bytes_at(self.position, out.len()).map_err(io::Error::other)?;
        out[..piece.len()].copy_from_slice(&piece);
        self.position += piece.len() as u64;
        Ok(piece.len())
    }
}

impl io::Seek for ObjectReader {
    fn seek(&mut self, to: io::SeekFrom) -> io::Result<u64> {
        let from = |base: u64, by: i64| {
            let before = "a position before the start of the object";
            let invalid = || io::Error::new(io::ErrorKind::InvalidInput, before);
            base.checked_add_signed(by).ok_or_else(invalid)
        };
        self.position = match to {
            io::SeekFrom::Start(position) => position,
            io::SeekFrom::End(by) => from(self.stat.len_bytes, by)?,
            io::SeekFrom::Current(by) => from(self.position, by)?,
        };
        Ok(self.position)
    }
}

//! Readers: an object, or a part of it, as it was when it was opened.

use crate::error::ObjectsError;
use crate::format::{Chunks, Data, chunk_key};
use crate::handle::{Objects, decode};
use bytes::Bytes;
use imbrex_engine::Snapshot;
use std::collections::VecDeque;
use std::io;
use std::ops::Range;

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
        /// The one that was asked for last, and those after it that were read with it.
        kept: Kept,
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
            Data::Chunks(chunks) => {
                Content::Chunks { objects, snapshot, chunks, kept: Kept::default() }
            }
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
    /// Cost: one look-up for each chunk that is not in memory. The chunks of `len_bytes_max` are read together, and more
    /// of them if the data are read in their order, up to four.
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
            Content::Chunks { objects, snapshot, chunks, kept } => {
                let chunk_len = u64::from(chunks.chunk_len_bytes);
                // The manifest's decoder has made sure that the numbers of all chunks fit.
                let number = (offset / chunk_len) as u32;
                if !kept.go_to(number) {
                    let last = ((offset + len as u64 - 1) / chunk_len) as u32;
                    let wanted = kept.wanted(number, last, chunks.count());
                    let read = read_chunks(&self.name, objects, snapshot, *chunks, wanted)?;
                    *kept = Kept { first: number, chunks: read };
                }
                let chunk = kept.chunks.front().cloned().unwrap_or_default();
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

/// The most chunks that are read together: a disk of 200 MB/s reads them in 20 ms, and seeks as long for the first.
const CHUNK_COUNT_MAX: u32 = 4;

/// Chunks in memory that follow one another.
#[derive(Debug, Default)]
struct Kept {
    /// The number of the first.
    first: u32,
    chunks: VecDeque<Bytes>,
}

impl Kept {
    fn end(&self) -> u32 {
        self.first + self.chunks.len() as u32
    }

    /// Drops the chunks before `number`; returns whether that is there.
    fn go_to(&mut self, number: u32) -> bool {
        if !(self.first..self.end()).contains(&number) {
            return false;
        }
        self.chunks.drain(..(number - self.first) as usize);
        self.first = number;
        true
    }

    /// What is read for a caller who wants `number` to `last`, of `count` chunks: all of it, or more if the one before was
    /// read last.
    fn wanted(&self, number: u32, last: u32, count: u32) -> Range<u32> {
        let goes_on = !self.chunks.is_empty() && self.end() == number;
        let end = if goes_on { count } else { last.saturating_add(1).min(count) };
        number..end.min(number.saturating_add(CHUNK_COUNT_MAX))
    }
}

/// The chunks `wanted`, of which there is at least one. If they cannot be read together, only the first is read: a chunk
/// that is damaged is no reason to refuse those before it.
fn read_chunks(
    name: &[u8],
    objects: &Objects,
    snapshot: &Snapshot,
    chunks: Chunks,
    wanted: Range<u32>,
) -> Result<VecDeque<Bytes>, ObjectsError> {
    let first = wanted.start;
    if wanted.len() > 1 {
        let keys: Vec<_> = wanted.map(|number| chunk_key(chunks.upload, number)).collect();
        if let Ok(values) = objects.keyspace().get_together_at(snapshot, &keys) {
            let found = (first..).zip(values).map_while(|(number, value)| {
                value.filter(|value| value.len() as u64 == chunks.len_of(number))
            });
            let found: VecDeque<_> = found.collect();
            if !found.is_empty() {
                return Ok(found);
            }
        }
    }
    Ok(VecDeque::from([read_chunk(name, objects, snapshot, chunks, first)?]))
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

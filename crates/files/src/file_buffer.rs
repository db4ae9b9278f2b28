//! A table-like file in memory, before it is placed and written.

use crate::hints::Hints;
use crate::spare_chunks;

/// A table-like file that is being written: all in memory until
/// [`Files::persist`](crate::Files::persist).
#[derive(Debug)]
pub struct FileBuffer {
    name: String,
    hints: Hints,
    chunks: Vec<Vec<u8>>,
    len_bytes: u64,
}

impl FileBuffer {
    /// The length of the chunks that a file is buffered and written in: long enough for a disk to
    /// stream, short enough for reads not to wait.
    pub const CHUNK_LEN_BYTES: usize = spare_chunks::CHUNK_LEN_BYTES;

    /// An empty file that will be called `name`.
    pub fn new(name: impl Into<String>, hints: Hints) -> FileBuffer {
        FileBuffer { name: name.into(), hints, chunks: Vec::new(), len_bytes: 0 }
    }

    /// Adds `data` at the end. Cost: one copy.
    pub fn append(&mut self, mut data: &[u8]) {
        self.len_bytes += data.len() as u64;
        while !data.is_empty() {
            let room = self.chunks.last().map_or(0, |c| Self::CHUNK_LEN_BYTES - c.len());
            if room == 0 {
                self.chunks.push(spare_chunks::take());
                continue;
            }
            let (now, later) = data.split_at(room.min(data.len()));
            if let Some(chunk) = self.chunks.last_mut() {
                chunk.extend_from_slice(now);
            }
            data = later;
        }
    }

    /// How many bytes were appended.
    pub fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    /// Whether nothing was appended.
    pub fn is_empty(&self) -> bool {
        self.len_bytes == 0
    }

    /// The name that the file will have.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its hints.
    pub fn hints(&self) -> &Hints {
        &self.hints
    }

    /// The same bytes under another name and with other hints: a writer may learn both only after
    /// it has the bytes.
    pub fn renamed(self, name: impl Into<String>, hints: Hints) -> FileBuffer {
        FileBuffer { name: name.into(), hints, ..self }
    }

    /// Name, hints, length and chunks, for the implementation of
    /// [`Files::persist`](crate::Files::persist).
    pub(crate) fn into_parts(self) -> (String, Hints, u64, Vec<Vec<u8>>) {
        (self.name, self.hints, self.len_bytes, self.chunks)
    }

    /// Its bytes, in chunks of [`FileBuffer::CHUNK_LEN_BYTES`]; the last one is shorter.
    pub fn chunks(&self) -> &[Vec<u8>] {
        &self.chunks
    }
}

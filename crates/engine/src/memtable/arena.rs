//! The storage of a memtable's entries: an append-only arena of chunks, addressed by 32 bits.
//!
//! ```text
//!   record, on a 4-byte boundary:  trailer u64 | value_len u32 | key_len - 1 u16 | key | value
//! ```
//!
//! Invariants
//!   A1  A record never moves and never changes. Its place is valid for the life of the arena.
//!   A2  A record is within one chunk. A value too long for that has an allocation for itself, and
//!       its record holds the index of that allocation instead.

use crate::key::{InternalKey, Trailer};
use bytes::Bytes;

/// Large enough that the unused rest at the end of a chunk (half a record on average) does not
/// matter; small enough that the memtable of a keyspace with ten keys stays small.
const CHUNK_LEN_BYTES: usize = 1 << 20;

/// The longest value that is stored in a record. Longer values have an allocation each (A2), which
/// iterators share instead of copying.
const INLINE_LEN_BYTES_MAX: usize = 32 << 10;

/// The alignment of records. With it, 32 bits address 16 GiB.
const ALIGN_BYTES: usize = 4;
const CHUNK_LEN_UNITS: u32 = (CHUNK_LEN_BYTES / ALIGN_BYTES) as u32;

const HEADER_LEN_BYTES: usize = 14;

/// Stored as the length of a value that has its own allocation.
const LARGE: u32 = u32::MAX;

const _: () = assert!(
    HEADER_LEN_BYTES + crate::batch::KEY_LEN_BYTES_MAX + INLINE_LEN_BYTES_MAX < CHUNK_LEN_BYTES
);
const _: () = assert!(crate::batch::VALUE_LEN_BYTES_MAX < LARGE as usize);

/// The position of a record, in units of [`ALIGN_BYTES`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Place(u32);

impl Place {
    pub(super) const ZERO: Place = Place(0);
}

#[derive(Debug, Default)]
pub(super) struct Arena {
    chunks: Vec<Vec<u8>>,
    large: Vec<Bytes>,
    large_len_bytes: usize,
}

/// A value as the arena stores it.
#[derive(Clone, Copy, Debug)]
pub(super) enum Value<'a> {
    Inline(&'a [u8]),
    Large(&'a Bytes),
}

impl<'a> Value<'a> {
    pub(super) fn as_slice(self) -> &'a [u8] {
        match self {
            Value::Inline(slice) => slice,
            Value::Large(bytes) => bytes,
        }
    }

    pub(super) fn to_bytes(self) -> Bytes {
        match self {
            Value::Inline(slice) => Bytes::copy_from_slice(slice),
            Value::Large(bytes) => bytes.clone(),
        }
    }
}

impl Arena {
    pub(super) fn push(&mut self, key: InternalKey<'_>, value: &[u8]) -> Place {
        let user_key = key.user_key;
        let key_len = u16::try_from(user_key.len().wrapping_sub(1))
            .expect("keys of 1 to 65536 bytes were let in at the door");
        let mut header = [0; HEADER_LEN_BYTES];
        header[..8].copy_from_slice(&key.trailer.0.to_le_bytes());
        header[12..].copy_from_slice(&key_len.to_le_bytes());
        let large;
        let (value_len, value) = if value.len() <= INLINE_LEN_BYTES_MAX {
            (value.len() as u32, value)
        } else {
            large = (self.large.len() as u32).to_le_bytes();
            self.large_len_bytes += value.len() + size_of::<Bytes>();
            self.large.push(Bytes::copy_from_slice(value));
            (LARGE, &large[..])
        };
        header[8..12].copy_from_slice(&value_len.to_le_bytes());
        let len_bytes = HEADER_LEN_BYTES + user_key.len() + value.len();
        if self.chunks.last().is_none_or(|c| CHUNK_LEN_BYTES - c.len() < len_bytes) {
            self.chunks.push(Vec::with_capacity(CHUNK_LEN_BYTES));
        }
        let chunk_index = self.chunks.len() - 1;
        let chunk = &mut self.chunks[chunk_index];
        let place = u32::try_from(chunk_index)
            .ok()
            .and_then(|index| index.checked_mul(CHUNK_LEN_UNITS))
            .and_then(|base| base.checked_add((chunk.len() / ALIGN_BYTES) as u32))
            .expect("a memtable is flushed long before it holds 16 GiB of small entries");
        chunk.extend_from_slice(&header);
        chunk.extend_from_slice(user_key);
        chunk.extend_from_slice(value);
        let aligned = chunk.len().next_multiple_of(ALIGN_BYTES).min(CHUNK_LEN_BYTES);
        chunk.resize(aligned, 0);
        Place(place)
    }

    #[inline]
    fn record(&self, place: Place) -> &[u8] {
        let chunk = &self.chunks[(place.0 / CHUNK_LEN_UNITS) as usize];
        &chunk[(place.0 % CHUNK_LEN_UNITS) as usize * ALIGN_BYTES..]
    }

    #[inline]
    pub(super) fn key(&self, place: Place) -> InternalKey<'_> {
        let (header, rest) = split_header(self.record(place));
        let key_len = usize::from(u16::from_le_bytes([header[12], header[13]])) + 1;
        InternalKey::new(&rest[..key_len], trailer(header))
    }

    #[inline]
    pub(super) fn entry(&self, place: Place) -> (InternalKey<'_>, Value<'_>) {
        let (header, rest) = split_header(self.record(place));
        let key_len = usize::from(u16::from_le_bytes([header[12], header[13]])) + 1;
        let (user_key, rest) = rest.split_at(key_len);
        let value_len = u32_le(&header[8..]);
        let value = match value_len {
            LARGE => Value::Large(&self.large[u32_le(rest) as usize]),
            len => Value::Inline(&rest[..len as usize]),
        };
        (InternalKey::new(user_key, trailer(header)), value)
    }

    /// Brings several records into the CPU cache before they are read one after another. Touching
    /// their first lines together makes the waits for memory overlap.
    pub(super) fn touch(&self, places: &[Place]) {
        let mut seen = 0;
        for &place in places {
            let record = self.record(place);
            let at = |offset: usize| record.get(offset).copied().unwrap_or(0);
            seen ^= at(0) ^ at(64) ^ at(128);
        }
        std::hint::black_box(seen);
    }

    /// The memory in use. The last chunk counts only as far as it is filled, because the rest of it
    /// has no pages yet.
    pub(super) fn len_bytes(&self) -> usize {
        let full = self.chunks.len().saturating_sub(1) * CHUNK_LEN_BYTES;
        full + self.chunks.last().map_or(0, Vec::len) + self.large_len_bytes
    }
}

#[inline]
fn split_header(record: &[u8]) -> (&[u8; HEADER_LEN_BYTES], &[u8]) {
    record.split_first_chunk().expect("A1: a place is the start of a record")
}

#[inline]
fn trailer(header: &[u8; HEADER_LEN_BYTES]) -> Trailer {
    let word = header.first_chunk().expect("the header is longer than its first word");
    Trailer(u64::from_le_bytes(*word))
}

#[inline]
fn u32_le(bytes: &[u8]) -> u32 {
    u32::from_le_bytes(*bytes.first_chunk().expect("A1: a record is written whole"))
}

//! The index: in two levels, a separator for every block, which ends the block's key range.
//!
//! ```text
//!   top index   s3 ------------- s7 ------ ...     one entry a partition, pinned while the table is open
//!               |                |
//!   partition   s0 s1 s2 s3      s4 s5 s6 s7       one entry a data block, in the block cache
//!               |  |  |  |
//!   data        b0 b1 b2 b3      b4 ...
//! ```
//!
//! Both levels have the same form. On the disk, entries are delta-coded. In memory, the parts of
//! the entries are in separate arrays, so that a search compares eight bytes per step and touches
//! few cache lines.
//!
//! Invariants
//!   T3  Separators ascend; every key of block i is at most separator i and above separator i - 1.
//!   T4  Blocks adjoin: a block starts where the previous one ends.

use super::block::{compare_keys, compare_user_keys, shared_len};
use super::format::{BlockHandle, read_u32, read_u64};
use super::varint::{put_varint, read_len, read_varint};
use crate::key::{InternalKey, Trailer};
use std::cmp::Ordering;

/// Base offset and entry count, before the entries.
const HEADER_LEN_BYTES: usize = 8 + 4;

/// Sets `out` to a short user key that is at least `last` and below `next`.
///
/// If `last` and `next` are the same user key, no key is between them. Then `out` is that key, and
/// the caller must also keep the trailer.
pub(crate) fn separator(last: &[u8], next: &[u8], out: &mut Vec<u8>) {
    out.clear();
    let shared = shared_len(last, next);
    // The first differing byte makes this prefix of `next` greater than `last`; it is shorter than
    // both keys.
    if shared + 1 < next.len() && shared + 1 < last.len() {
        out.extend_from_slice(&next[..=shared]);
    } else {
        out.extend_from_slice(last);
    }
}

/// Collects the entries of one partition, or of the top index.
#[derive(Debug)]
pub(crate) struct IndexBuilder {
    buf: Vec<u8>,
    base: u64,
    covered_len_bytes: u64,
    count: u32,
    last_separator: Vec<u8>,
    last_trailer: Trailer,
}

impl IndexBuilder {
    /// Starts an index whose first block begins at `base`.
    pub(crate) fn new(base: u64) -> IndexBuilder {
        IndexBuilder {
            buf: vec![0; HEADER_LEN_BYTES],
            base,
            covered_len_bytes: 0,
            count: 0,
            last_separator: Vec::new(),
            last_trailer: Trailer(0),
        }
    }

    /// Adds the next block, which has `len_bytes` and keys up to `separator`. A trailer other than
    /// 0 means that the next block has older versions of that user key.
    pub(crate) fn add(&mut self, separator: &[u8], trailer: Trailer, len_bytes: u64) {
        let shared = if self.count == 0 { 0 } else { shared_len(&self.last_separator, separator) };
        put_varint(&mut self.buf, shared as u64);
        put_varint(&mut self.buf, (separator.len() - shared) as u64);
        put_varint(&mut self.buf, trailer.0);
        put_varint(&mut self.buf, len_bytes);
        self.buf.extend_from_slice(&separator[shared..]);
        self.last_separator.clear();
        self.last_separator.extend_from_slice(separator);
        self.last_trailer = trailer;
        self.covered_len_bytes += len_bytes;
        self.count += 1;
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub(crate) fn len_bytes(&self) -> usize {
        self.buf.len()
    }

    /// The last separator and its trailer. They are this partition's separator in the top index.
    pub(crate) fn last(&self) -> (&[u8], Trailer) {
        (&self.last_separator, self.last_trailer)
    }

    /// Returns the encoded index. The builder restarts with the next block.
    pub(crate) fn finish(&mut self) -> Vec<u8> {
        self.buf[..8].copy_from_slice(&self.base.to_le_bytes());
        self.buf[8..HEADER_LEN_BYTES].copy_from_slice(&self.count.to_le_bytes());
        self.base += self.covered_len_bytes;
        self.covered_len_bytes = 0;
        self.count = 0;
        std::mem::replace(&mut self.buf, vec![0; HEADER_LEN_BYTES])
    }
}

/// A partition, or the top index, decoded for searches.
#[derive(Debug, Default)]
pub(crate) struct IndexPartition {
    base: u64,
    /// The number of leading bytes that all separators share.
    shared_len_bytes: usize,
    /// The next eight bytes of each separator as a number, padded with zeros.
    prefixes: Vec<u64>,
    keys: Vec<u8>,
    key_ends: Vec<u32>,
    /// The end of each block, relative to `base`.
    block_ends: Vec<u64>,
    /// Empty if all trailers are 0, which is the case unless versions of one user key span blocks.
    trailers: Vec<Trailer>,
}

/// The eight bytes of `key` after its first `skip`, as a number with the same order.
#[inline]
fn prefix_after(key: &[u8], skip: usize) -> u64 {
    let rest = key.get(skip..).unwrap_or_default();
    match rest.first_chunk() {
        Some(chunk) => u64::from_be_bytes(*chunk),
        None => {
            let mut chunk = [0; 8];
            chunk[..rest.len()].copy_from_slice(rest);
            u64::from_be_bytes(chunk)
        }
    }
}

impl IndexPartition {
    /// Decodes and verifies a partition.
    ///
    /// # Errors
    /// A description of the defect.
    pub(crate) fn decode(bytes: &[u8]) -> Result<IndexPartition, String> {
        let cut = || "an index entry is cut off".to_string();
        let base = read_u64(bytes, 0).ok_or_else(cut)?;
        let count = read_u32(bytes, 8).ok_or_else(cut)? as usize;
        let mut at = HEADER_LEN_BYTES;
        // An entry has at least four bytes, so a false count cannot cause a large allocation.
        let capacity = count.min(bytes.len() / 4);
        let mut index = IndexPartition {
            base,
            key_ends: Vec::with_capacity(capacity),
            block_ends: Vec::with_capacity(capacity),
            ..IndexPartition::default()
        };
        let mut trailers = Vec::new();
        let mut before = 0..0;
        let mut block_end = 0u64;
        for i in 0..count {
            let shared = read_len(bytes, &mut at).ok_or_else(cut)?;
            let unshared = read_len(bytes, &mut at).ok_or_else(cut)?;
            let trailer = Trailer(read_varint(bytes, &mut at).ok_or_else(cut)?);
            let len_bytes = read_varint(bytes, &mut at).ok_or_else(cut)?;
            if len_bytes == 0 {
                return Err(format!("block {i} has no bytes"));
            }
            let end = at.checked_add(unshared).ok_or_else(cut)?;
            let suffix = bytes.get(at..end).ok_or_else(cut)?;
            at = end;
            if shared > before.len() {
                return Err(format!("separator {i} shares {shared} bytes of {}", before.len()));
            }
            let start = index.keys.len();
            index.keys.extend_from_within(before.start..before.start + shared);
            index.keys.extend_from_slice(suffix);
            let key_end = u32::try_from(index.keys.len()).map_err(|e| e.to_string())?;
            index.key_ends.push(key_end);
            before = start..index.keys.len();
            block_end = block_end
                .checked_add(len_bytes)
                .filter(|end| base.checked_add(*end).is_some())
                .ok_or("a block ends beyond all offsets")?;
            index.block_ends.push(block_end);
            if trailer.0 != 0 && trailers.is_empty() {
                trailers.resize(i, Trailer(0));
            }
            if trailer.0 != 0 || !trailers.is_empty() {
                trailers.push(trailer);
            }
        }
        if at != bytes.len() {
            return Err(format!("{} bytes behind the last index entry", bytes.len() - at));
        }
        index.trailers = trailers;
        index.check_order()?;
        index.make_prefixes();
        Ok(index)
    }

    /// Checks the part of T3 that does not need the blocks.
    fn check_order(&self) -> Result<(), String> {
        for i in 1..self.len() {
            if compare_keys(self.separator(i - 1), self.separator(i)).is_ge() {
                return Err(format!("separator {i} is not above the one before"));
            }
        }
        Ok(())
    }

    fn make_prefixes(&mut self) {
        let count = self.len();
        if count == 0 {
            return;
        }
        self.shared_len_bytes = shared_len(self.user_key(0), self.user_key(count - 1));
        let skip = self.shared_len_bytes;
        self.prefixes = (0..count).map(|i| prefix_after(self.user_key(i), skip)).collect();
    }

    /// The number of blocks in the partition.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.key_ends.len()
    }

    #[inline]
    fn user_key(&self, index: usize) -> &[u8] {
        let start = if index == 0 { 0 } else { self.key_ends[index - 1] as usize };
        &self.keys[start..self.key_ends[index] as usize]
    }

    /// The separator of a block: the largest key that the block could have.
    #[inline]
    pub(crate) fn separator(&self, index: usize) -> InternalKey<'_> {
        let trailer = self.trailers.get(index).copied().unwrap_or(Trailer(0));
        InternalKey::new(self.user_key(index), trailer)
    }

    /// The position of block `index`.
    #[inline]
    pub(crate) fn handle(&self, index: usize) -> BlockHandle {
        let start = if index == 0 { 0 } else { self.block_ends[index - 1] };
        BlockHandle { offset: self.base + start, len_bytes: self.block_ends[index] - start }
    }

    /// The offset at which the last block ends.
    pub(crate) fn end(&self) -> u64 {
        self.base + self.block_ends.last().copied().unwrap_or(0)
    }

    /// The offset at which the first block starts.
    pub(crate) fn start(&self) -> u64 {
        self.base
    }

    /// The first block that could have `target` or a later key, or [`IndexPartition::len`] if there
    /// is none.
    #[inline]
    pub(crate) fn find(&self, target: InternalKey<'_>) -> usize {
        let Some(first) = self.key_ends.first() else { return 0 };
        let shared = &self.keys[..self.shared_len_bytes.min(*first as usize)];
        let head = &target.user_key[..shared.len().min(target.user_key.len())];
        if !shared.is_empty() {
            match compare_user_keys(head, shared) {
                Ordering::Less => return 0,
                Ordering::Greater => return self.len(),
                Ordering::Equal => {}
            }
        }
        let prefix = prefix_after(target.user_key, shared.len());
        let mut low = self.prefixes.partition_point(|&p| p < prefix);
        if self.prefixes.get(low) != Some(&prefix) {
            return low;
        }
        let mut high = low + self.prefixes[low..].partition_point(|&p| p == prefix);
        while low < high {
            let middle = (low + high) / 2;
            if compare_keys(self.separator(middle), target).is_lt() {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// The memory in use.
    pub(crate) fn memory_len_bytes(&self) -> usize {
        size_of::<IndexPartition>()
            + self.prefixes.capacity() * 8
            + self.keys.capacity()
            + self.key_ends.capacity() * 4
            + self.block_ends.capacity() * 8
            + self.trailers.capacity() * 8
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::{Kind, Seq};

    fn check(last: &str, next: &str, expected: &str) {
        let mut out = Vec::new();
        separator(last.as_bytes(), next.as_bytes(), &mut out);
        assert_eq!(String::from_utf8_lossy(&out), expected, "between {last} and {next}");
        assert!(out.as_slice() >= last.as_bytes());
        assert!(out.as_slice() < next.as_bytes() || last == next);
    }

    #[test]
    fn separators_are_short_and_lie_between() {
        check("apple", "banana", "b");
        check("apple", "apricot", "apr");
        check("a", "b", "a");
        check("a", "abc", "a");
        check("abc", "abd", "abc");
        check("abcdef", "abcdefgh", "abcdef");
        check("same", "same", "same");
    }

    #[test]
    fn finds_the_same_block_as_a_plain_scan() {
        let mut index = IndexBuilder::new(1000);
        let names = ["", "a", "a\0", "a\0\0\0\0\0\0\0\0", "ab", "abcdefgh", "abcdefghi", "b"];
        for (i, name) in names.iter().enumerate().skip(1) {
            index.add(name.as_bytes(), Trailer(0), i as u64);
        }
        let partition = IndexPartition::decode(&index.finish()).unwrap();
        for target in names.iter().chain(&["aa", "abcdefg", "abcdefghh", "abcdefghj", "c"]) {
            let key = InternalKey::new(target.as_bytes(), Trailer::seek(Seq(5)));
            let expected = (0..partition.len())
                .find(|&i| partition.separator(i) >= key)
                .unwrap_or(partition.len());
            assert_eq!(partition.find(key), expected, "{target:?}");
        }
        assert_eq!(partition.handle(2), BlockHandle { offset: 1003, len_bytes: 3 });
    }

    #[test]
    fn versions_of_one_key_are_told_apart_by_their_trailers() {
        let mut index = IndexBuilder::new(0);
        let trailer = |seq| Trailer::new(Seq(seq), Kind::Put);
        index.add(b"hot", trailer(90), 10);
        index.add(b"hot", trailer(50), 10);
        index.add(b"hot", Trailer(0), 10);
        let partition = IndexPartition::decode(&index.finish()).unwrap();
        let find = |seq| partition.find(InternalKey::new(b"hot", Trailer::seek(Seq(seq))));
        assert_eq!([find(95), find(90), find(89), find(50), find(49)], [0, 0, 1, 1, 2]);
    }
}

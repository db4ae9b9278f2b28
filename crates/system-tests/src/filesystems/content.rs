//! The content of test files: bytes that identify their file and position, so that foreign bytes are recognized.
//!
//! ```text
//!   sector of 512 bytes:   file's number | sector, version | numbers derived from these
//! ```
//!
//! Invariants
//!   C1  Bytes below the acknowledged length are those of the newest acknowledged version, or of a later one,
//!       and a block has one version.
//!   C2  Bytes above that length follow C1 from the start of their block up to some byte, and are zeros from
//!       there on: a file system may leave that of an append without a sync.

use crate::random::mixed;
use std::collections::BTreeMap;
use std::fmt;

const SECTOR_LEN: usize = 512;

/// The number of a file, never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FileId(pub(super) u64);

impl fmt::Display for FileId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "file {:x}", self.0)
    }
}

/// The content that a file may have.
#[derive(Clone, Debug)]
pub(super) struct Content {
    id: FileId,
    /// The block of the file system, which it writes as a whole.
    block_len: usize,
    /// The acknowledged length.
    durable_len: u64,
    /// The length ever written.
    pub(super) len: u64,
    /// For each overwritten block, the newest durable version and all later ones. Other blocks have version 1.
    versions: BTreeMap<u64, Vec<u32>>,
    next_version: u32,
    /// Whether zeros were found that were never written. Such a file is neither appended to nor synced.
    pub(super) has_holes: bool,
}

/// The state of a file that was found.
pub(super) struct Fit {
    /// The file as it is now, all of it durable.
    pub(super) content: Content,
    /// Bytes after the first one that the file system left as zeros, or never wrote.
    pub(super) zeros: u64,
    /// Bytes that were written without a sync and are missing.
    pub(super) lost: u64,
}

impl Content {
    pub(super) fn new(id: FileId, block_len: usize) -> Content {
        Content {
            id,
            block_len,
            durable_len: 0,
            len: 0,
            versions: BTreeMap::new(),
            next_version: 2,
            has_holes: false,
        }
    }

    /// The bytes to append next, which may be found from now on.
    pub(super) fn append(&mut self, len: usize) -> Vec<u8> {
        let bytes = bytes_of(self.id, self.len, 1, len);
        self.len += len as u64;
        bytes
    }

    /// The number of whole blocks, which can be overwritten.
    pub(super) fn block_count(&self) -> u64 {
        self.len / self.block_len as u64
    }

    /// New bytes for a block and their offset; they may be found from now on.
    pub(super) fn overwrite(&mut self, block: u64) -> (u64, Vec<u8>) {
        let version = self.next_version;
        self.next_version += 1;
        self.versions.entry(block).or_insert_with(|| vec![1]).push(version);
        let at = block * self.block_len as u64;
        (at, bytes_of(self.id, at, version, self.block_len))
    }

    /// Records that all of it is durable.
    pub(super) fn synced(&mut self) {
        if self.has_holes {
            return;
        }
        self.durable_len = self.len;
        for versions in self.versions.values_mut() {
            versions.drain(..versions.len() - 1);
        }
    }

    /// The number of bytes that are not acknowledged.
    pub(super) fn unsynced_len(&self) -> u64 {
        let newer: usize = self.versions.values().map(|versions| versions.len() - 1).sum();
        self.len - self.durable_len + (newer * self.block_len) as u64
    }

    /// Judges `bytes`, the whole content of a file.
    pub(super) fn fit(&self, bytes: &[u8]) -> Result<Fit, String> {
        let got = bytes.len() as u64;
        if got > self.len || got < self.durable_len {
            let Content { durable_len, len, .. } = self;
            return Err(format!("{got} bytes long; {durable_len} were synced, {len} ever written"));
        }
        let mut content = self.clone();
        let (mut good_len, mut old_blocks) = (None, 0);
        for (block, found) in (0..).zip(bytes.chunks(self.block_len)) {
            let at = block * self.block_len as u64;
            let (version, as_written) = self.fit_block(block, at, found)?;
            if let Some(versions) = content.versions.get_mut(&block) {
                old_blocks += u64::from(versions.last() != Some(&version));
                *versions = vec![version];
            }
            if as_written < found.len() {
                good_len.get_or_insert(at + as_written as u64);
            }
        }
        content.durable_len = good_len.unwrap_or(got);
        content.has_holes = good_len.is_some();
        content.len = got;
        content.versions.retain(|block, _| block * (self.block_len as u64) < got);
        let zeros = got - content.durable_len;
        let lost = self.len - got + zeros + old_blocks * self.block_len as u64;
        Ok(Fit { content, zeros, lost })
    }

    /// The version of a block, and the number of its bytes that are as written.
    fn fit_block(&self, block: u64, at: u64, found: &[u8]) -> Result<(u32, usize), String> {
        let needed = self.durable_len.saturating_sub(at).min(found.len() as u64) as usize;
        let original = [1];
        let versions = self.versions.get(&block).map_or(&original[..], Vec::as_slice);
        let mut first_wrong = 0;
        for &version in versions {
            let written = bytes_of(self.id, at, version, found.len());
            if written == found {
                return Ok((version, found.len()));
            }
            let same = written.iter().zip(found).take_while(|(a, b)| a == b).count();
            if same >= needed && found[same..].iter().all(|byte| *byte == 0) {
                return Ok((version, same));
            }
            first_wrong = first_wrong.max(same);
        }
        Err(format!(
            "at byte {}: {}; expected {}, version {versions:?}, of which {needed} bytes of this block \
             of {} were synced",
            at + first_wrong as u64,
            told(found, first_wrong),
            self.id,
            found.len(),
        ))
    }
}

/// Describes the sector of `block` that contains byte `at`.
fn told(block: &[u8], at: usize) -> String {
    let sector = block.chunks(SECTOR_LEN).nth(at / SECTOR_LEN).unwrap_or_default();
    if sector.iter().all(|byte| *byte == 0) {
        return "zeros".to_owned();
    }
    let word = |index: usize| {
        let bytes = sector.get(8 * index..8 * index + 8)?;
        Some(u64::from_le_bytes(bytes.try_into().ok()?))
    };
    if let (Some(file), Some(place)) = (word(0), word(1)) {
        let (index, version) = (place >> 32, place as u32);
        if sector == &sector_of(FileId(file), index, version)[..sector.len()] {
            return format!("sector {index} of {}, version {version}", FileId(file));
        }
    }
    let shown = &sector[at % SECTOR_LEN..sector.len().min(at % SECTOR_LEN + 16)];
    format!("bytes that no file has, {shown:02x?}")
}

fn bytes_of(id: FileId, at: u64, version: u32, len: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(len + SECTOR_LEN);
    let mut index = at / SECTOR_LEN as u64;
    let skipped = (at % SECTOR_LEN as u64) as usize;
    while bytes.len() < len {
        let from = if bytes.is_empty() { skipped } else { 0 };
        bytes.extend_from_slice(&sector_of(id, index, version)[from..]);
        index += 1;
    }
    bytes.truncate(len);
    bytes
}

fn sector_of(id: FileId, index: u64, version: u32) -> [u8; SECTOR_LEN] {
    let mut sector = [0; SECTOR_LEN];
    let place = index << 32 | u64::from(version);
    let mut state = mixed(id.0) ^ mixed(!place);
    for (number, word) in sector.chunks_exact_mut(8).enumerate() {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let value = match number {
            0 => id.0,
            1 => place,
            _ => mixed(state),
        };
        word.copy_from_slice(&value.to_le_bytes());
    }
    sector
}

#[cfg(test)]
mod tests {
    use super::*;

    fn synced(len: usize) -> (Content, Vec<u8>) {
        let mut content = Content::new(FileId(7), 4096);
        let bytes = content.append(len);
        content.synced();
        (content, bytes)
    }

    #[test]
    fn what_was_synced_must_be_there() {
        let (content, mut bytes) = synced(5000);
        assert!(content.fit(&bytes).is_ok());
        assert!(content.fit(&bytes[..4999]).is_err());
        bytes[4999] ^= 1;
        let error = content.fit(&bytes).err().unwrap();
        assert!(error.starts_with("at byte 4999: bytes that no file has"), "{error}");
        bytes[4096..].fill(0);
        let error = content.fit(&bytes).err().unwrap();
        assert!(error.starts_with("at byte 4096: zeros; expected file 7"), "{error}");
    }

    #[test]
    fn what_was_not_may_be_cut_or_zero_and_nothing_else() {
        let (mut content, mut bytes) = synced(5000);
        bytes.extend(content.append(9000));
        for len in [5000, 5001, 8192, 14_000] {
            let fit = content.fit(&bytes[..len]).unwrap();
            assert_eq!((fit.content.len, fit.zeros), (len as u64, 0));
        }
        let mut tail = bytes.clone();
        tail[6000..].fill(0);
        let fit = content.fit(&tail).unwrap();
        assert_eq!((fit.content.durable_len, fit.zeros), (6000, 8000));
        // A hole before later bytes.
        let mut hole = bytes.clone();
        hole[8192..12_288].fill(0);
        assert_eq!(content.fit(&hole).unwrap().zeros, 14_000 - 8192);
        let stale = bytes_of(FileId(8), 8192, 3, 4096);
        bytes[8192..12_288].copy_from_slice(&stale);
        let error = content.fit(&bytes).err().unwrap();
        assert!(error.starts_with("at byte 8192: sector 16 of file 8, version 3"), "{error}");
        assert!(content.fit(&[&bytes[..], &[0]].concat()).is_err());
    }

    #[test]
    fn a_block_has_the_version_that_was_synced_or_a_later_one() {
        let (mut content, mut bytes) = synced(8192);
        let old = bytes.clone();
        for version in 2..5 {
            let (at, new) = content.overwrite(1);
            assert_eq!(at, 4096);
            bytes[4096..].copy_from_slice(&new);
            assert!(content.fit(&bytes).is_ok(), "{version}");
            if version == 3 {
                content.synced();
            }
        }
        assert!(content.fit(&old).is_err(), "older than what was synced");
        let found = content.fit(&bytes).unwrap().content;
        assert_eq!(found.versions[&1], [4]);
        // Two versions in one block mean a torn write.
        bytes[6000..].copy_from_slice(&bytes_of(FileId(7), 6000, 3, 2192));
        assert!(content.fit(&bytes).is_err());
    }
}

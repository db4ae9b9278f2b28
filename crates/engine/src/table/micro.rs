//! Tables for the micro-benchmark: access to the inside, so that each operation can be timed alone.
//!
//! Keys and values are those of the peer harness: keys of 16 bytes, 8 of them zero, and values that
//! LZ4 halves.

use super::iter::TableIter;
use super::{Table, TableBuilder, TableLookup, TableOptions, TableReadOptions, key_hash};
use crate::EngineError;
use crate::iter::InternalIter;
use crate::key::{InternalKey, Kind, Seq, Trailer};
use crate::options::Compression;
use crate::table::cache::BlockCache;
use imbrex_clockwork::Prng;
use imbrex_disk::BlockRange;
use imbrex_files::{FileBuffer, FileKind, FileReader, FilesError, Hints};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

const BLOCK_LEN_BYTES: u64 = imbrex_disk::BLOCK_LEN_BYTES as u64;

/// A table in a file of the operating system, read in whole blocks.
#[derive(Debug)]
struct HostFile {
    file: File,
    len_bytes: u64,
}

impl FileReader for HostFile {
    fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    fn name(&self) -> &str {
        "micro"
    }

    fn read_at<'a>(
        &self,
        offset: u64,
        len_bytes: usize,
        scratch: &'a mut Vec<u8>,
    ) -> Result<&'a [u8], FilesError> {
        let start = offset / BLOCK_LEN_BYTES * BLOCK_LEN_BYTES;
        let end = (offset + len_bytes as u64).next_multiple_of(BLOCK_LEN_BYTES);
        let span = (end - start) as usize;
        if scratch.len() < span {
            scratch.resize(span, 0);
        }
        self.file
            .read_exact_at(&mut scratch[..span], start)
            .map_err(|e| FilesError::NotFormatted { reason: e.to_string() })?;
        let at = (offset - start) as usize;
        Ok(&scratch[at..at + len_bytes])
    }

    fn extents(&self) -> Vec<BlockRange> {
        Vec::new()
    }
}

/// One table and the parameters of its benchmark.
#[derive(Debug)]
pub struct Fixture {
    key_count: u64,
    value_len_bytes: usize,
    compression: Compression,
    pool: Vec<u8>,
    table: Option<Arc<Table>>,
}

impl Fixture {
    /// Creates the keys and values, but no table yet.
    pub fn new(key_count: u64, value_len_bytes: usize, compression: Compression) -> Fixture {
        let mut prng = Prng::new(1).derive("micro");
        let mut pool = Vec::new();
        while pool.len() < 1 << 20 {
            let piece: Vec<u8> = (0..50).map(|_| b' ' + prng.below(95) as u8).collect();
            pool.extend_from_slice(&piece);
            pool.extend_from_slice(&piece);
        }
        Fixture { key_count, value_len_bytes, compression, pool, table: None }
    }

    fn key(&self, index: u64) -> [u8; 16] {
        let step = u64::MAX / (self.key_count + 1);
        let mut key = [0; 16];
        // The spacing is slightly uneven, so that neighbours share as many bytes as random keys do.
        let jitter = index.wrapping_mul(0x9e37_79b9_7f4a_7c15) % (step / 2);
        key[..8].copy_from_slice(&(index * step + jitter).to_be_bytes());
        key
    }

    /// The length of the table's keys and values.
    pub fn raw_len_bytes(&self) -> u64 {
        self.key_count * (16 + self.value_len_bytes as u64)
    }

    /// Builds the table, discards it, and returns its length.
    pub fn build(&self) -> u64 {
        self.build_file(0).len_bytes()
    }

    /// Like [`Fixture::build`], with a byte histogram.
    pub fn build_with_histogram(&self) -> u64 {
        self.build_file(4 << 10).len_bytes()
    }

    fn build_file(&self, histogram_len_bytes: usize) -> FileBuffer {
        let file = FileBuffer::new("micro", Hints::new(FileKind::Table));
        let options = TableOptions {
            compression: self.compression,
            table_id: 1,
            histogram_len_bytes,
            ..TableOptions::default()
        };
        let mut builder = TableBuilder::new(file, options);
        let mut at = 0;
        for index in 0..self.key_count {
            if at + self.value_len_bytes > self.pool.len() {
                at = 0;
            }
            let value = &self.pool[at..at + self.value_len_bytes];
            at += self.value_len_bytes;
            builder.add(&self.key(index), Trailer::new(Seq(index), Kind::Put), value);
        }
        builder.finish().0
    }

    /// Writes the table to `path` and opens it.
    ///
    /// # Errors
    /// The errors of the file system and of the table.
    pub fn open(&mut self, path: &Path, cache_len_bytes: u64) -> std::io::Result<()> {
        let buffer = self.build_file(0);
        let mut bytes = buffer.chunks().concat();
        bytes.resize(bytes.len().next_multiple_of(BLOCK_LEN_BYTES as usize), 0);
        std::fs::write(path, &bytes)?;
        let file = HostFile { file: File::open(path)?, len_bytes: buffer.len_bytes() };
        let cache = Arc::new(BlockCache::new(cache_len_bytes));
        let table = Table::open(Arc::new(file), cache).map_err(std::io::Error::other)?;
        self.table = Some(table);
        Ok(())
    }

    fn table(&self) -> &Arc<Table> {
        self.table.as_ref().expect("the benchmark opens the table first")
    }

    /// Gets `count` existing keys and returns the sum of the value lengths.
    pub fn get(&self, count: u64, prng: &mut Prng) -> usize {
        let mut sum = 0;
        for _ in 0..count {
            let key = self.key(prng.below(self.key_count));
            match self.table().get(&key, key_hash(&key), Seq::MAX) {
                Ok(TableLookup::Value { value, .. }) => sum += value.len(),
                other => panic!("{key:?}: {other:?}"),
            }
        }
        sum
    }

    /// Gets `count` missing keys and returns how many were reported missing.
    pub fn miss(&self, count: u64, prng: &mut Prng) -> usize {
        let mut sum = 0;
        for _ in 0..count {
            let mut key = self.key(prng.below(self.key_count));
            key[15] = 1;
            let found = self.table().get(&key, key_hash(&key), Seq::MAX);
            sum += usize::from(matches!(found, Ok(TableLookup::Missing)));
        }
        sum
    }

    /// Looks up `count` hashes in the filter alone and returns how many pass.
    pub fn filter(&self, count: u64, prng: &mut Prng) -> usize {
        (0..count).filter(|_| self.table().may_contain(prng.next_u64())).count()
    }

    /// Seeks `count` times and reads `entries` entries each time.
    ///
    /// # Errors
    /// The errors of the table.
    pub fn seek(&self, count: u64, entries: u64, prng: &mut Prng) -> Result<usize, EngineError> {
        let mut sum = 0;
        for _ in 0..count {
            let mut iter = self.table().iter(TableReadOptions::default());
            let key = prng.next_u64().to_be_bytes();
            iter.seek(InternalKey::new(&key, Trailer::seek(Seq::MAX)))?;
            sum += take(&mut iter, entries)?;
        }
        Ok(sum)
    }

    /// Reads the whole table, like a user or, if `sequential`, like a compaction.
    ///
    /// # Errors
    /// The errors of the table.
    pub fn scan(&self, sequential: bool) -> Result<usize, EngineError> {
        let options = match sequential {
            true => TableReadOptions {
                fill_cache: false,
                read_ahead_bytes: 1 << 20,
                sequential,
                ..TableReadOptions::default()
            },
            false => TableReadOptions::default(),
        };
        let mut iter = self.table().iter(options);
        iter.seek_to_first()?;
        take(&mut iter, u64::MAX)
    }

    /// Reads the whole table backward.
    ///
    /// # Errors
    /// The errors of the table.
    pub fn scan_back(&self) -> Result<usize, EngineError> {
        let mut iter = self.table().iter(TableReadOptions::default());
        iter.seek_to_last()?;
        let mut sum = 0;
        while iter.valid() {
            sum += iter.key().user_key.len() + iter.value().len();
            iter.prev()?;
        }
        Ok(sum)
    }
}

fn take(iter: &mut TableIter, entries: u64) -> Result<usize, EngineError> {
    let mut sum = 0;
    let mut left = entries;
    while left > 0 && iter.valid() {
        sum += iter.key().user_key.len() + iter.value().len();
        iter.next()?;
        left -= 1;
    }
    Ok(sum)
}

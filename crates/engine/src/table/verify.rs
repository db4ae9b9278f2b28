//! Verification of a table: reads every byte, and checks every checksum and every claim.
//!
//! Besides the checksums, it checks T1 to T4, the restart points, the counts and ranges of the
//! properties, the shares of the byte histogram, and that the filter passes every key.

use super::block::{BlockCursor, compare_keys};
use super::filter::key_hash;
use super::format::{BlockHandle, FOOTER_LEN_BYTES, Footer, StoredBlock, corrupt};
use super::histogram::Histogram;
use super::index::IndexPartition;
use super::properties::TableProperties;
use super::read_ahead::ReadAhead;
use super::reader::Table;
use super::reading::{cannot_read, read_range};
use crate::EngineError;
use crate::key::{InternalKey, Kind, Seq, Trailer};
use std::ops::Range;

/// The length of each read.
const READ_LEN_BYTES: usize = 1 << 20;

/// The result of a verification.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TableReport {
    /// The number of verified data blocks.
    pub(crate) data_block_count: u64,
    /// The number of entries in them.
    pub(crate) entry_count: u64,
    /// The length of the file, all of which was read.
    pub(crate) len_bytes: u64,
    /// Damage to blocks and partitions. The verification continues after it; the counts leave
    /// damaged parts out.
    pub(crate) findings: Vec<String>,
}

impl Table {
    /// Reads the whole table and checks everything that can be checked.
    ///
    /// Cost: one sequential read of the file. From time to time, `verified_until` receives the
    /// offset reached so far; an error from it ends the verification.
    ///
    /// # Errors
    /// [`EngineError::Corrupt`] for the first violation that concerns the table as a whole,
    /// [`EngineError::Files`], and any error of `verified_until`.
    pub(crate) fn verify(
        &self,
        verified_until: &mut dyn FnMut(u64) -> Result<(), EngineError>,
    ) -> Result<TableReport, EngineError> {
        let mut walk = Walk::new(self);
        self.verify_metadata(&mut walk)?;
        if let Some(values) = &self.values {
            let log = values.read_all()?;
            values.verify(&log)?;
            walk.log = Some(log);
        }
        for index in 0..self.top_index.len() {
            if let Err(error) = walk.partition(index) {
                walk.note(error)?;
                walk.start = None;
            }
            verified_until(walk.end)?;
        }
        walk.finish()
    }

    /// Rereads the parts that have been in memory since the open, because the disk may have lost
    /// them meanwhile, and their copies.
    fn verify_metadata(&self, walk: &mut Walk<'_>) -> Result<(), EngineError> {
        let footer = &self.footer;
        let mut scratch = Vec::new();
        let parts = [
            ("copy of the range tombstones", footer.tombstones_copy()),
            ("copy of the table top index", footer.top_index_copy()),
            ("table filter", footer.filter()),
            ("table properties", footer.properties()),
            ("range tombstones", footer.tombstones()),
            ("table top index", footer.top_index()),
        ];
        for (structure, handle) in parts.into_iter().filter(|(_, h)| h.len_bytes > 0) {
            let stored =
                read_range(&*self.file, structure, handle.offset..handle.end(), &mut scratch);
            let verified = stored.and_then(|stored| {
                StoredBlock::parse(footer.table_id, handle.offset, stored)
                    .map(drop)
                    .map_err(|reason| corrupt(structure, self.name(), handle.offset, reason))
            });
            verified.or_else(|error| walk.note(error))?;
        }
        let gap = footer.gap();
        if gap.len_bytes > 0 {
            let zeros = read_range(&*self.file, "gap", gap.offset..gap.end(), &mut scratch);
            let zeros = zeros.and_then(|bytes| match bytes.iter().all(|&byte| byte == 0) {
                true => Ok(()),
                false => Err(corrupt("gap", self.name(), gap.offset, "it is not zero")),
            });
            zeros.or_else(|error| walk.note(error))?;
        }
        let at = BlockHandle {
            offset: self.len_bytes() - FOOTER_LEN_BYTES as u64,
            len_bytes: FOOTER_LEN_BYTES as u64,
        };
        let footers =
            [("table footer", at, false), ("copy of the table footer", footer.footer_copy(), true)];
        for (structure, handle, is_copy) in footers.into_iter().filter(|(_, h, _)| h.len_bytes > 0)
        {
            let bytes =
                read_range(&*self.file, structure, handle.offset..handle.end(), &mut scratch);
            let verified = bytes.and_then(|bytes| {
                let reason = match Footer::parse_either(bytes, is_copy) {
                    Ok(again) if again == *footer => return Ok(()),
                    Ok(_) => "it changed while in use".to_owned(),
                    Err(reason) => reason,
                };
                Err(corrupt(structure, self.name(), handle.offset, reason))
            });
            verified.or_else(|error| walk.note(error))?;
        }
        Ok(())
    }
}

/// A walk over all data blocks, with its findings.
struct Walk<'a> {
    table: &'a Table,
    read_ahead: ReadAhead,
    raw: Vec<u8>,
    cursor: BlockCursor,
    /// The previous entry and the previous separator. All keys that follow must be above both.
    before: Option<(Vec<u8>, Trailer)>,
    floor: Option<(Vec<u8>, Trailer)>,
    /// The end of the verified part of the file.
    end: u64,
    /// The expected start of the next partition's first block; `None` if the previous partition
    /// could not be read.
    start: Option<u64>,
    findings: Vec<String>,
    seen: TableProperties,
    /// The lengths counted for the histogram's shares, up to the current share.
    shares_len_bytes: Vec<u64>,
    /// The log with the values, if the table has one.
    log: Option<Vec<u8>>,
}

impl<'a> Walk<'a> {
    fn new(table: &'a Table) -> Walk<'a> {
        Walk {
            table,
            read_ahead: ReadAhead::new(READ_LEN_BYTES, READ_LEN_BYTES),
            raw: Vec::new(),
            cursor: BlockCursor::default(),
            before: None,
            floor: None,
            end: 0,
            start: Some(0),
            findings: Vec::new(),
            seen: TableProperties { smallest_seq: Seq::MAX, ..TableProperties::default() },
            shares_len_bytes: Vec::new(),
            log: None,
        }
    }

    fn partition(&mut self, index: usize) -> Result<(), EngineError> {
        let handle = self.table.top_index.handle(index);
        let damaged = |reason: &str| {
            Err(corrupt("index partition", self.table.name(), handle.offset, reason))
        };
        let partition = self.table.read_partition(handle, &mut Vec::new())?;
        if self.start.is_some_and(|start| partition.start() != start) {
            return damaged("T4: its first block does not start where the one before it ends");
        }
        let last = partition.separator(partition.len() - 1);
        if last != self.table.top_index.separator(index) {
            return damaged("T3: its last separator is not the one in the top index");
        }
        for block in 0..partition.len() {
            if let Err(error) = self.block(&partition, block) {
                self.note(error)?;
            }
            let separator = partition.separator(block);
            self.floor = Some((separator.user_key.to_vec(), separator.trailer));
        }
        self.end = partition.end();
        self.start = Some(self.end);
        self.seen.index_partition_count += 1;
        Ok(())
    }

    /// Records damage as a finding. Any other error ends the verification.
    fn note(&mut self, error: EngineError) -> Result<(), EngineError> {
        if !error.is_damage() {
            return Err(error);
        }
        self.findings.push(error.to_string());
        Ok(())
    }

    /// Reads a data block into `read_ahead`.
    fn read(&mut self, handle: BlockHandle) -> Result<Range<usize>, EngineError> {
        let table = self.table;
        let limit = table.footer.data_len_bytes;
        self.read_ahead
            .read(&*table.file, handle.offset, handle.len_bytes as usize, limit)
            .map_err(|e| cannot_read("data block", table.name(), handle.offset, e))
    }

    fn block(&mut self, partition: &IndexPartition, index: usize) -> Result<(), EngineError> {
        let handle = partition.handle(index);
        let table = self.table;
        let range = match self.read(handle) {
            Err(error) if error.is_damage() => {
                // The unreadable block may be one of those read ahead.
                self.read_ahead = ReadAhead::new(0, 0);
                self.read(handle)?
            }
            read => read?,
        };
        let stored = table.stored_data_block(handle.offset, self.read_ahead.bytes(range))?;
        table.raw_data_block_into(handle.offset, stored, &mut self.raw)?;
        self.entries(handle, partition.separator(index))?;
        self.seen.data_block_count += 1;
        Ok(())
    }

    fn entries(
        &mut self,
        handle: BlockHandle,
        separator: InternalKey<'_>,
    ) -> Result<(), EngineError> {
        let table = self.table;
        let damaged = |reason: &str| table.damaged_block(handle.offset, reason);
        let raw = std::mem::take(&mut self.raw);
        self.cursor.open(&raw).map_err(|e| damaged(e.0))?;
        self.cursor.check_restarts(&raw).map_err(|e| damaged(e.0))?;
        self.cursor.seek_to_first(&raw).map_err(|e| damaged(e.0))?;
        while self.cursor.valid() {
            let key = self.cursor.key(&raw);
            let above = |floor: &Option<(Vec<u8>, Trailer)>| match floor {
                Some((user_key, trailer)) => {
                    compare_keys(InternalKey::new(user_key, *trailer), key).is_lt()
                }
                None => true,
            };
            if !above(&self.before) {
                return Err(damaged("T1: an entry is not above the one before"));
            }
            if !above(&self.floor) || compare_keys(key, separator).is_gt() {
                return Err(damaged(
                    "T3: a key is outside the range that the index gives its block",
                ));
            }
            if !table.may_contain(key_hash(key.user_key)) {
                return Err(damaged("the filter excludes a key of the table"));
            }
            let entry = &raw[self.cursor.value_range()];
            let value_len_bytes = self.value_len_bytes(key, entry)?;
            count(&mut self.seen, key, value_len_bytes);
            if let Some(histogram) = &table.properties().histogram {
                let len_bytes = (key.user_key.len() + entry.len()) as u64;
                add_to_share(&mut self.shares_len_bytes, histogram, key.user_key, len_bytes);
            }
            let before = self.before.get_or_insert((Vec::new(), Trailer(0)));
            before.0.clear();
            before.0.extend_from_slice(key.user_key);
            before.1 = key.trailer;
            self.cursor.next(&raw).map_err(|e| damaged(e.0))?;
        }
        self.raw = raw;
        Ok(())
    }

    /// The length of an entry's value. A value in the log is read and checked.
    fn value_len_bytes(&self, key: InternalKey<'_>, entry: &[u8]) -> Result<u64, EngineError> {
        if key.trailer.kind() != Some(Kind::PutAt) {
            return Ok(entry.len() as u64);
        }
        let Some(values) = &self.table.values else {
            return Err(corrupt(
                "table",
                self.table.name(),
                0,
                "an entry has its value in a log, but the file has none",
            ));
        };
        let mut value = Vec::new();
        values.read(key.user_key, entry, self.log.as_deref(), &mut value)?;
        Ok(value.len() as u64)
    }

    /// Compares the findings with the properties.
    fn finish(mut self) -> Result<TableReport, EngineError> {
        let table = self.table;
        let said = table.properties();
        let seen = &mut self.seen;
        let report = TableReport {
            data_block_count: seen.data_block_count,
            entry_count: seen.entry_count,
            len_bytes: table.len_bytes(),
            findings: std::mem::take(&mut self.findings),
        };
        // With damaged parts left out, the counts cannot match.
        if !report.findings.is_empty() {
            return Ok(report);
        }
        seen.data_len_bytes = self.end;
        if let Some((last, _)) = self.before {
            seen.largest_user_key = last;
        }
        for fragment in table.range_tombstones().fragments() {
            let is_first = seen.smallest_seq == Seq::MAX;
            if is_first || fragment.start[..] < seen.smallest_user_key[..] {
                seen.smallest_user_key = fragment.start.to_vec();
            }
            if is_first || fragment.end[..] > seen.largest_user_key[..] {
                seen.largest_user_key = fragment.end.to_vec();
            }
            for &seq in fragment.seqs {
                seen.smallest_seq = seen.smallest_seq.min(seq);
                seen.largest_seq = seen.largest_seq.max(seq);
            }
        }
        seen.smallest_seq = seen.smallest_seq.min(seen.largest_seq);
        // Fragments do not show how many tombstones were written, and the data does not show how
        // the filter was built.
        seen.range_tombstone_count = said.range_tombstone_count;
        seen.filter_bits_per_key = said.filter_bits_per_key;
        seen.table_id = table.footer.table_id;
        seen.log_frame_len_bytes = said.log_frame_len_bytes;
        seen.histogram.clone_from(&said.histogram);
        let lens = |h: &Histogram| (0..h.share_count()).map(|i| h.share_len_bytes(i)).collect();
        let expected: Vec<u64> = said.histogram.as_deref().map_or_else(Vec::new, lens);
        if self.shares_len_bytes != expected {
            let offset = table.footer.properties().offset;
            let reason = "H2: the byte histogram does not match the data";
            return Err(corrupt("table properties", table.name(), offset, reason));
        }
        if *seen != *said {
            let reason = format!("the properties are {said:?}, but the table has {seen:?}");
            let offset = table.footer.properties().offset;
            return Err(corrupt("table properties", table.name(), offset, reason));
        }
        Ok(report)
    }
}

/// Adds an entry's length to the share of `histogram` that contains its key. Keys must ascend.
fn add_to_share(shares: &mut Vec<u64>, histogram: &Histogram, user_key: &[u8], len_bytes: u64) {
    if shares.is_empty() {
        shares.push(0);
    }
    while histogram.start(shares.len()).is_some_and(|start| start <= user_key) {
        shares.push(0);
    }
    if let Some(share) = shares.last_mut() {
        *share += len_bytes;
    }
}

fn count(seen: &mut TableProperties, key: InternalKey<'_>, value_len_bytes: u64) {
    if seen.entry_count == 0 {
        seen.smallest_user_key = key.user_key.to_vec();
    }
    seen.entry_count += 1;
    seen.delete_count += u64::from(key.trailer.kind() == Some(Kind::Delete));
    seen.smallest_seq = seen.smallest_seq.min(key.trailer.seq());
    seen.largest_seq = seen.largest_seq.max(key.trailer.seq());
    seen.raw_key_len_bytes += key.user_key.len() as u64;
    seen.raw_value_len_bytes += value_len_bytes;
}

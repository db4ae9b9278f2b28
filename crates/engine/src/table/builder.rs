//! The writer of a table: takes entries, returns a file buffer and the table's properties.
//!
//! Memory besides the file buffer: one raw block, one compressed block, the index (1/300 of the
//! data with 4 KiB blocks), and 8 bytes per key for the filter.

use super::block::{BlockBuilder, shared_len};
use super::filter::{Filter, key_hash};
use super::format::{BLOCK_TRAILER_LEN_BYTES, BlockHandle, Footer, block_trailer};
use super::histogram::HistogramBuilder;
use super::index::{IndexBuilder, separator};
use super::origin::{Origin, Roster};
use super::properties::TableProperties;
use super::tombstones;
use super::values::{PLACE_LEN_BYTES, ValuePlace};
use crate::key::{Kind, Seq, Trailer};
use crate::options::Compression;
use crate::range_del::RangeTombstone;
use crate::table::compression::Compressor;
use imbrex_files::FileBuffer;
use std::sync::Arc;

/// How a table is written.
#[derive(Clone, Debug)]
pub(crate) struct TableOptions {
    /// An id that no other table of the store has. It is part of every checksum.
    pub(crate) table_id: u64,
    /// The length at which a data block ends.
    pub(crate) block_len_bytes: usize,
    /// How blocks are compressed.
    pub(crate) compression: Compression,
    /// LZ4's trade of size for speed; 1 is the densest. Larger values suit tables with short lives.
    pub(crate) lz4_acceleration: u32,
    /// Filter bits per key; 0 for no filter.
    pub(crate) filter_bits_per_key: u32,
    /// The length at which an index partition ends.
    pub(crate) index_partition_len_bytes: usize,
    /// The length limit of the byte histogram; 0 for none.
    pub(crate) histogram_len_bytes: usize,
    /// The frame length of the log at the beginning of the file; 0 if there is no log.
    pub(crate) log_frame_len_bytes: usize,
}

impl Default for TableOptions {
    fn default() -> TableOptions {
        TableOptions {
            table_id: 0,
            block_len_bytes: 4 << 10,
            compression: Compression::default(),
            lz4_acceleration: 1,
            filter_bits_per_key: 10,
            index_partition_len_bytes: 4 << 10,
            histogram_len_bytes: 0,
            log_frame_len_bytes: 0,
        }
    }
}

/// Writes one table. Entries must be added in internal-key order, range tombstones in any order.
#[derive(Debug)]
pub(crate) struct TableBuilder {
    file: FileBuffer,
    options: TableOptions,
    compressor: Compressor,
    block: BlockBuilder,
    /// The user key of the last entry. The next entry must be above it and `last_trailer`.
    last_key: Vec<u8>,
    last_trailer: Trailer,
    /// The length of a written block that has no index entry yet, because its separator depends on
    /// the next key.
    unindexed_len_bytes: Option<u64>,
    separator: Vec<u8>,
    index: IndexBuilder,
    /// Finished partitions, each with its last separator and trailer.
    partitions: Vec<(Vec<u8>, Vec<u8>, Trailer)>,
    partitions_len_bytes: u64,
    hashes: Vec<u64>,
    histogram: Option<HistogramBuilder>,
    tombstones: Vec<RangeTombstone>,
    properties: TableProperties,
    origin: Option<Origin>,
    /// An encoded [`Roster`].
    roster: Option<Vec<u8>>,
    has_apart: bool,
}

impl TableBuilder {
    /// Starts a table in an empty `file`.
    pub(crate) fn new(file: FileBuffer, options: TableOptions) -> TableBuilder {
        assert!(file.is_empty(), "a table starts at offset 0 of its file");
        TableBuilder {
            file,
            compressor: Compressor::new(options.compression, options.lz4_acceleration),
            block: BlockBuilder::default(),
            last_key: Vec::new(),
            last_trailer: Trailer(u64::MAX),
            unindexed_len_bytes: None,
            separator: Vec::new(),
            index: IndexBuilder::new(0),
            partitions: Vec::new(),
            partitions_len_bytes: 0,
            hashes: Vec::new(),
            histogram: match options.histogram_len_bytes {
                0 => None,
                len_bytes => Some(HistogramBuilder::new(len_bytes)),
            },
            tombstones: Vec::new(),
            properties: TableProperties {
                table_id: options.table_id,
                filter_bits_per_key: options.filter_bits_per_key.into(),
                smallest_seq: Seq::MAX,
                log_frame_len_bytes: options.log_frame_len_bytes as u64,
                ..TableProperties::default()
            },
            origin: None,
            roster: None,
            has_apart: false,
            options,
        }
    }

    /// Adds an entry whose value is in the log before the table.
    pub(crate) fn add_at(&mut self, user_key: &[u8], seq: Seq, value: ValuePlace) {
        self.add(user_key, Trailer::new(seq, Kind::PutAt), &value.encode());
        self.properties.raw_value_len_bytes +=
            u64::from(value.len_bytes).saturating_sub(PLACE_LEN_BYTES as u64);
    }

    /// Adds an entry, which must sort after the previous one.
    pub(crate) fn add(&mut self, user_key: &[u8], trailer: Trailer, value: &[u8]) {
        let shared = shared_len(&self.last_key, user_key);
        let is_first = self.properties.entry_count == 0;
        let is_version = !is_first && shared == user_key.len() && shared == self.last_key.len();
        let ascends = match (self.last_key.get(shared), user_key.get(shared)) {
            (None, None) => is_first || trailer < self.last_trailer,
            (before, now) => before < now,
        };
        assert!(ascends, "T1: entries of a table must ascend");
        match self.unindexed_len_bytes.take() {
            Some(len_bytes) if is_version => {
                self.index.add(&self.last_key, self.last_trailer, len_bytes);
                self.end_partition_if_full();
            }
            Some(len_bytes) => {
                separator(&self.last_key, user_key, &mut self.separator);
                self.index.add(&self.separator, Trailer(0), len_bytes);
                self.end_partition_if_full();
            }
            None => {}
        }
        self.block.add(user_key, shared, trailer, value);
        if !is_version && self.options.filter_bits_per_key > 0 {
            self.hashes.push(key_hash(user_key));
        }
        if let Some(histogram) = &mut self.histogram {
            let len_bytes = (user_key.len() + value.len()) as u64;
            histogram.add(user_key, shared, is_version, len_bytes);
        }
        self.count(user_key, trailer, value, is_first);
        self.last_key.clear();
        self.last_key.extend_from_slice(user_key);
        self.last_trailer = trailer;
        if self.block.len_bytes() >= self.options.block_len_bytes {
            self.end_block();
        }
    }

    /// Adds an entry whose value is in the file of another table.
    pub(crate) fn add_apart(&mut self, user_key: &[u8], seq: Seq, entry: &[u8]) {
        self.has_apart = true;
        self.add(user_key, Trailer::new(seq, Kind::PutApart), entry);
    }

    #[inline]
    fn count(&mut self, user_key: &[u8], trailer: Trailer, value: &[u8], is_first: bool) {
        let properties = &mut self.properties;
        if is_first {
            properties.smallest_user_key = user_key.to_vec();
        }
        properties.entry_count += 1;
        properties.delete_count += u64::from(trailer.kind() == Some(Kind::Delete));
        properties.smallest_seq = properties.smallest_seq.min(trailer.seq());
        properties.largest_seq = properties.largest_seq.max(trailer.seq());
        properties.raw_key_len_bytes += user_key.len() as u64;
        properties.raw_value_len_bytes += value.len() as u64;
    }

    /// Adds a range tombstone: at `seq`, all keys in `start..end` were deleted. An empty range is
    /// ignored.
    pub(crate) fn add_range_tombstone(&mut self, start: &[u8], end: &[u8], seq: Seq) {
        if start < end {
            self.tombstones.push(RangeTombstone::new(start, end, seq));
        }
    }

    /// Records where the table comes from, and all tables of its keyspace.
    pub(crate) fn set_origin(&mut self, origin: Origin, roster: Option<&Roster>) {
        self.origin = Some(origin);
        self.roster = roster.map(Roster::encode);
    }

    /// Whether no entry and no range tombstone was added.
    pub(crate) fn is_empty(&self) -> bool {
        self.properties.entry_count == 0 && self.tombstones.is_empty()
    }

    /// The approximate length that the file would have if it were finished now.
    #[inline]
    pub(crate) fn len_bytes_estimate(&self) -> u64 {
        let filter_len_bytes =
            self.hashes.len() as u64 * u64::from(self.options.filter_bits_per_key) / 8;
        self.file.len_bytes()
            + self.block.len_bytes() as u64
            + self.partitions_len_bytes
            + self.index.len_bytes() as u64
            + filter_len_bytes
    }

    fn end_block(&mut self) {
        let raw = self.block.finish();
        let (compression, payload) = self.compressor.compress(raw);
        let handle =
            append_block(&mut self.file, self.options.table_id, payload, raw.len(), compression);
        self.block.clear();
        self.properties.data_block_count += 1;
        self.unindexed_len_bytes = Some(handle.len_bytes);
    }

    fn end_partition_if_full(&mut self) {
        if self.index.len_bytes() >= self.options.index_partition_len_bytes {
            self.end_partition();
        }
    }

    fn end_partition(&mut self) {
        let (separator, trailer) = self.index.last();
        let separator = separator.to_vec();
        let bytes = self.index.finish();
        self.partitions_len_bytes += bytes.len() as u64;
        self.partitions.push((bytes, separator, trailer));
    }

    /// Completes the table.
    pub(crate) fn finish(mut self) -> (FileBuffer, TableProperties) {
        if !self.block.is_empty() {
            self.end_block();
        }
        if let Some(len_bytes) = self.unindexed_len_bytes.take() {
            self.index.add(&self.last_key, Trailer(0), len_bytes);
        }
        if !self.index.is_empty() {
            self.end_partition();
        }
        self.complete_properties();
        let data_len_bytes = self.file.len_bytes();
        let mut top_index = IndexBuilder::new(data_len_bytes);
        for (bytes, separator, trailer) in std::mem::take(&mut self.partitions) {
            let handle = self.append_raw(&bytes);
            top_index.add(&separator, trailer, handle.len_bytes);
        }
        let filter = match self.hashes.is_empty() {
            true => None,
            false => Some(Filter::build(&self.hashes, self.options.filter_bits_per_key).encode()),
        };
        let tombstones = match self.tombstones.is_empty() {
            true => None,
            false => Some(tombstones::encode(&self.tombstones)),
        };
        let index_len_bytes = self.file.len_bytes() - data_len_bytes;
        self.append_end(&TableEnd {
            data_len_bytes,
            index_len_bytes,
            filter,
            tombstones,
            top_index: top_index.finish(),
        });
        (self.file, self.properties)
    }

    /// Appends everything after the index: the parts that have copies first and last.
    fn append_end(&mut self, end: &TableEnd) {
        let stored_len = |part: Option<&Vec<u8>>| {
            part.map_or(0, |bytes| (bytes.len() + BLOCK_TRAILER_LEN_BYTES) as u64)
        };
        let origin = self.origin.as_ref().map(Origin::encode);
        let properties = self.properties.encode(origin.as_deref(), self.roster.as_deref());
        let mut footer = Footer {
            has_copies: true,
            has_apart: self.has_apart,
            table_id: self.options.table_id,
            data_len_bytes: end.data_len_bytes,
            index_len_bytes: end.index_len_bytes,
            filter_len_bytes: stored_len(end.filter.as_ref()),
            tombstones_len_bytes: stored_len(end.tombstones.as_ref()),
            properties_len_bytes: stored_len(Some(&properties)),
            top_index_len_bytes: stored_len(Some(&end.top_index)),
            gap_len_bytes: 0,
            log_frame_len_bytes: self.options.log_frame_len_bytes as u32,
        };
        footer.set_gap();
        let copied: Vec<&Vec<u8>> =
            end.tombstones.iter().chain(std::iter::once(&end.top_index)).collect();
        for part in &copied {
            self.append_raw(part);
        }
        self.file.append(&footer.encode(true));
        for part in end.filter.iter().chain(std::iter::once(&properties)) {
            self.append_raw(part);
        }
        self.file.append(&vec![0; footer.gap_len_bytes as usize]);
        for part in &copied {
            self.append_raw(part);
        }
        self.file.append(&footer.encode(false));
        assert_eq!(Ok(self.file.len_bytes()), footer.file_len_bytes(), "the lengths add up");
    }

    fn complete_properties(&mut self) {
        let properties = &mut self.properties;
        let mut largest_is_excluded = false;
        properties.largest_user_key.clone_from(&self.last_key);
        properties.data_len_bytes = self.file.len_bytes();
        properties.index_partition_count = self.partitions.len() as u64;
        properties.range_tombstone_count = self.tombstones.len() as u64;
        properties.histogram = self.histogram.take().map(|builder| Arc::new(builder.finish()));
        let mut is_first = properties.entry_count == 0;
        for tombstone in &self.tombstones {
            if is_first || tombstone.start < properties.smallest_user_key {
                properties.smallest_user_key = tombstone.start.to_vec();
            }
            if is_first || tombstone.end > properties.largest_user_key {
                properties.largest_user_key = tombstone.end.to_vec();
                largest_is_excluded = true;
            }
            is_first = false;
            properties.smallest_seq = properties.smallest_seq.min(tombstone.seq);
            properties.largest_seq = properties.largest_seq.max(tombstone.seq);
        }
        properties.smallest_seq = properties.smallest_seq.min(properties.largest_seq);
        if let Some(origin) = &mut self.origin {
            origin.largest_is_excluded = largest_is_excluded;
        }
    }

    fn append_raw(&mut self, payload: &[u8]) -> BlockHandle {
        let table_id = self.options.table_id;
        append_block(&mut self.file, table_id, payload, payload.len(), Compression::None)
    }
}

/// What follows the data of a table, encoded.
struct TableEnd {
    data_len_bytes: u64,
    index_len_bytes: u64,
    filter: Option<Vec<u8>>,
    tombstones: Option<Vec<u8>>,
    top_index: Vec<u8>,
}

fn append_block(
    file: &mut FileBuffer,
    table_id: u64,
    payload: &[u8],
    raw_len_bytes: usize,
    compression: Compression,
) -> BlockHandle {
    let offset = file.len_bytes();
    let trailer = block_trailer(table_id, offset, payload, raw_len_bytes, compression);
    file.append(payload);
    file.append(&trailer);
    BlockHandle { offset, len_bytes: file.len_bytes() - offset }
}

#![doc = include_str!("../../docs/formats/table.md")]

use crate::EngineError;
use crate::batch::{KEY_LEN_BYTES_MAX, VALUE_LEN_BYTES_MAX};
use crate::options::{Compression, DATA_BLOCK_LEN_BYTES_MAX};
use crate::table::compression::decompress;

/// The first bytes of a footer.
const MAGIC: [u8; 8] = *b"IMBRXTBL";
/// The version that this module writes, of a table whose values are all in its file.
pub(crate) const FORMAT_VERSION: u32 = 2;
/// Like version 2, and some entries have their values in the files of other tables.
const FORMAT_VERSION_APART: u32 = 3;
/// Like version 2, but no part has a copy, and the tombstones precede the properties.
const FORMAT_VERSION_SINGLE: u32 = 1;

const MAGIC_AT: usize = 0;
const VERSION_AT: usize = MAGIC_AT + 8;
const COPY_AT: usize = VERSION_AT + 4;
const TABLE_ID_AT: usize = COPY_AT + 4;
const DATA_LEN_AT: usize = TABLE_ID_AT + 8;
const INDEX_LEN_AT: usize = DATA_LEN_AT + 8;
const FILTER_LEN_AT: usize = INDEX_LEN_AT + 8;
const TOMBSTONES_LEN_AT: usize = FILTER_LEN_AT + 8;
const PROPERTIES_LEN_AT: usize = TOMBSTONES_LEN_AT + 8;
const TOP_INDEX_LEN_AT: usize = PROPERTIES_LEN_AT + 8;
const GAP_LEN_AT: usize = TOP_INDEX_LEN_AT + 8;
const LOG_FRAME_LEN_AT: usize = GAP_LEN_AT + 4;
const RESERVED_AT: usize = LOG_FRAME_LEN_AT + 4;
const CRC_AT: usize = FOOTER_LEN_BYTES - 4;
/// The length of the footer, which ends the file.
pub(crate) const FOOTER_LEN_BYTES: usize = 96;
const _: () = assert!(RESERVED_AT <= CRC_AT);

/// Damage often takes a whole block of the drive, so no copy shares one with its original.
const GAP_UNIT_LEN_BYTES: u64 = 4096;

/// The length of the trailer that follows the payload of every block: raw length, compression,
/// checksum.
pub(crate) const BLOCK_TRAILER_LEN_BYTES: usize = 4 + 1 + 4;

/// The longest raw block: an almost full block, then a key with a value of 1 GiB, plus room for
/// headers.
pub(crate) const RAW_LEN_BYTES_MAX: usize = (1 << 30) + (1 << 25);
const _: () = assert!(
    VALUE_LEN_BYTES_MAX + KEY_LEN_BYTES_MAX + 3 * DATA_BLOCK_LEN_BYTES_MAX as usize / 2
        <= RAW_LEN_BYTES_MAX
);

/// The position of a block in its file, with the length of its trailer included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockHandle {
    pub(crate) offset: u64,
    pub(crate) len_bytes: u64,
}

impl BlockHandle {
    /// The offset at which the next block starts.
    pub(crate) fn end(self) -> u64 {
        self.offset + self.len_bytes
    }
}

/// The lengths of the parts of a table file. Each part starts where the previous one ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Footer {
    /// Whether footer, top index and tombstones have copies; not in version 1.
    pub(crate) has_copies: bool,
    /// Whether some entries have their values in the files of other tables; only in version 3.
    pub(crate) has_apart: bool,
    pub(crate) table_id: u64,
    pub(crate) data_len_bytes: u64,
    pub(crate) index_len_bytes: u64,
    /// 0 if the table has no filter.
    pub(crate) filter_len_bytes: u64,
    /// 0 if the table has no range tombstones.
    pub(crate) tombstones_len_bytes: u64,
    pub(crate) properties_len_bytes: u64,
    pub(crate) top_index_len_bytes: u64,
    /// The zeros before the parts that have copies.
    pub(crate) gap_len_bytes: u32,
    /// The length of the log's frames, of a logged table; 0 in version 1.
    pub(crate) log_frame_len_bytes: u32,
}

impl Footer {
    /// The version of the table's format.
    pub(crate) fn version(&self) -> u32 {
        match (self.has_copies, self.has_apart) {
            (true, true) => FORMAT_VERSION_APART,
            (true, false) => FORMAT_VERSION,
            (false, _) => FORMAT_VERSION_SINGLE,
        }
    }

    /// The end of the index, where the copies begin.
    fn index_end(&self) -> u64 {
        self.data_len_bytes + self.index_len_bytes
    }

    /// The copy of the tombstones.
    pub(crate) fn tombstones_copy(&self) -> BlockHandle {
        let len_bytes = if self.has_copies { self.tombstones_len_bytes } else { 0 };
        BlockHandle { offset: self.index_end(), len_bytes }
    }

    /// The copy of the top index.
    pub(crate) fn top_index_copy(&self) -> BlockHandle {
        let len_bytes = if self.has_copies { self.top_index_len_bytes } else { 0 };
        BlockHandle { offset: self.tombstones_copy().end(), len_bytes }
    }

    /// The copy of the footer.
    pub(crate) fn footer_copy(&self) -> BlockHandle {
        let len_bytes = if self.has_copies { FOOTER_LEN_BYTES as u64 } else { 0 };
        BlockHandle { offset: self.top_index_copy().end(), len_bytes }
    }

    pub(crate) fn filter(&self) -> BlockHandle {
        BlockHandle { offset: self.footer_copy().end(), len_bytes: self.filter_len_bytes }
    }

    pub(crate) fn properties(&self) -> BlockHandle {
        let before = if self.has_copies { self.filter() } else { self.tombstones() };
        BlockHandle { offset: before.end(), len_bytes: self.properties_len_bytes }
    }

    /// The zeros that keep a copy and its original out of one block of the drive.
    pub(crate) fn gap(&self) -> BlockHandle {
        let before = if self.has_copies { self.properties() } else { self.filter() };
        BlockHandle { offset: before.end(), len_bytes: self.gap_len_bytes.into() }
    }

    pub(crate) fn tombstones(&self) -> BlockHandle {
        BlockHandle { offset: self.gap().end(), len_bytes: self.tombstones_len_bytes }
    }

    pub(crate) fn top_index(&self) -> BlockHandle {
        let before = if self.has_copies { self.tombstones() } else { self.properties() };
        BlockHandle { offset: before.end(), len_bytes: self.top_index_len_bytes }
    }

    /// Sets the length of the gap, after all other lengths.
    pub(crate) fn set_gap(&mut self) {
        let apart = self.footer_copy().end().next_multiple_of(GAP_UNIT_LEN_BYTES);
        self.gap_len_bytes = apart.saturating_sub(self.properties().end()) as u32;
    }

    /// Encodes the footer, or its copy.
    pub(crate) fn encode(&self, is_copy: bool) -> [u8; FOOTER_LEN_BYTES] {
        assert!(self.has_copies, "version 1 is not written");
        let mut out = [0; FOOTER_LEN_BYTES];
        out[MAGIC_AT..VERSION_AT].copy_from_slice(&MAGIC);
        out[VERSION_AT..COPY_AT].copy_from_slice(&self.version().to_le_bytes());
        out[COPY_AT..TABLE_ID_AT].copy_from_slice(&u32::from(is_copy).to_le_bytes());
        for (at, field) in [
            (TABLE_ID_AT, self.table_id),
            (DATA_LEN_AT, self.data_len_bytes),
            (INDEX_LEN_AT, self.index_len_bytes),
            (FILTER_LEN_AT, self.filter_len_bytes),
            (TOMBSTONES_LEN_AT, self.tombstones_len_bytes),
            (PROPERTIES_LEN_AT, self.properties_len_bytes),
            (TOP_INDEX_LEN_AT, self.top_index_len_bytes),
        ] {
            out[at..at + 8].copy_from_slice(&field.to_le_bytes());
        }
        for (at, field) in
            [(GAP_LEN_AT, self.gap_len_bytes), (LOG_FRAME_LEN_AT, self.log_frame_len_bytes)]
        {
            out[at..at + 4].copy_from_slice(&field.to_le_bytes());
        }
        let crc = crc32c::crc32c(&out[..CRC_AT]);
        out[CRC_AT..].copy_from_slice(&crc.to_le_bytes());
        out
    }

    /// Decodes the footer of a file of `file_len_bytes`.
    ///
    /// # Errors
    /// A description of the defect.
    pub(crate) fn decode(bytes: &[u8], file_len_bytes: u64) -> Result<Footer, String> {
        let footer = Footer::parse(bytes)?;
        let sum = footer.file_len_bytes()?;
        if sum != file_len_bytes {
            return Err(format!("parts of {sum} bytes in a file of {file_len_bytes}"));
        }
        Ok(footer)
    }

    /// Decodes the footer of a table whose length is not known.
    ///
    /// # Errors
    /// Like [`Footer::decode`].
    pub(crate) fn parse(bytes: &[u8]) -> Result<Footer, String> {
        Footer::parse_either(bytes, false)
    }

    /// Whether `bytes` begin like a footer.
    pub(crate) fn has_magic(bytes: &[u8]) -> bool {
        bytes.starts_with(&MAGIC)
    }

    /// Looks for the copy of the footer in `bytes`, which begin at `offset` of a file of
    /// `file_len_bytes` with a table at its end.
    pub(crate) fn find_copy(bytes: &[u8], offset: u64, file_len_bytes: u64) -> Option<Footer> {
        let starts = bytes.windows(FOOTER_LEN_BYTES).enumerate();
        let mut copies = starts.filter(|(_, window)| window.starts_with(&MAGIC));
        copies.find_map(|(at, window)| {
            let footer = Footer::parse_either(window, true).ok()?;
            let start = file_len_bytes.checked_sub(footer.file_len_bytes().ok()?)?;
            // A value may be a table as well: its footer is elsewhere.
            let is_here = start.checked_add(footer.footer_copy().offset)? == offset + at as u64;
            is_here.then_some(footer)
        })
    }

    /// Decodes a footer, or the copy of one.
    ///
    /// # Errors
    /// A description of the defect.
    pub(crate) fn parse_either(bytes: &[u8], is_copy: bool) -> Result<Footer, String> {
        let bytes: &[u8; FOOTER_LEN_BYTES] = bytes
            .try_into()
            .map_err(|_| format!("{} bytes where a footer has {FOOTER_LEN_BYTES}", bytes.len()))?;
        if bytes[MAGIC_AT..VERSION_AT] != MAGIC {
            return Err("not the footer of a table: wrong magic".into());
        }
        let expected = crc32c::crc32c(&bytes[..CRC_AT]);
        let got = read_u32(bytes, CRC_AT).unwrap_or(!expected);
        if expected != got {
            return Err(format!("checksum {got:#010x}, {expected:#010x} expected"));
        }
        let version = read_u32(bytes, VERSION_AT).unwrap_or(0);
        let (has_copies, has_apart) = match version {
            FORMAT_VERSION_SINGLE => (false, false),
            FORMAT_VERSION => (true, false),
            FORMAT_VERSION_APART => (true, true),
            _ => {
                return Err(format!(
                    "format version {version}, this program knows {FORMAT_VERSION_SINGLE} to {FORMAT_VERSION_APART}"
                ));
            }
        };
        let reserved_at = if has_copies { RESERVED_AT } else { GAP_LEN_AT };
        if bytes[reserved_at..CRC_AT].iter().any(|&byte| byte != 0) {
            return Err("reserved bytes are not zero".into());
        }
        let is_expected = read_u32(bytes, COPY_AT) == Some(u32::from(is_copy));
        if !is_expected || (is_copy && !has_copies) {
            return Err("it is a copy in the place of the footer, or the other way round".into());
        }
        let field = |at| read_u64(bytes, at).unwrap_or(0);
        Ok(Footer {
            has_copies,
            has_apart,
            table_id: field(TABLE_ID_AT),
            data_len_bytes: field(DATA_LEN_AT),
            index_len_bytes: field(INDEX_LEN_AT),
            filter_len_bytes: field(FILTER_LEN_AT),
            tombstones_len_bytes: field(TOMBSTONES_LEN_AT),
            properties_len_bytes: field(PROPERTIES_LEN_AT),
            top_index_len_bytes: field(TOP_INDEX_LEN_AT),
            // Zero in version 1.
            gap_len_bytes: read_u32(bytes, GAP_LEN_AT).unwrap_or(0),
            log_frame_len_bytes: read_u32(bytes, LOG_FRAME_LEN_AT).unwrap_or(0),
        })
    }

    /// The length of the table.
    ///
    /// # Errors
    /// The footer gives lengths that no file can have.
    pub(crate) fn file_len_bytes(&self) -> Result<u64, String> {
        let copied = [self.tombstones_len_bytes, self.top_index_len_bytes, FOOTER_LEN_BYTES as u64];
        let copies = if self.has_copies { copied } else { [0; 3] };
        let parts = [
            self.data_len_bytes,
            self.index_len_bytes,
            copies[0],
            copies[1],
            copies[2],
            self.filter_len_bytes,
            self.properties_len_bytes,
            self.gap_len_bytes.into(),
            copied[0],
            copied[1],
            copied[2],
        ];
        let sum = parts.iter().try_fold(0u64, |sum, &part| sum.checked_add(part));
        sum.ok_or_else(|| format!("parts of {parts:?} bytes"))
    }
}

/// The trailer of a block with this `payload` at `offset` of table `table_id`.
pub(crate) fn block_trailer(
    table_id: u64,
    offset: u64,
    payload: &[u8],
    raw_len_bytes: usize,
    compression: Compression,
) -> [u8; BLOCK_TRAILER_LEN_BYTES] {
    assert!(raw_len_bytes <= RAW_LEN_BYTES_MAX, "a block of {raw_len_bytes} bytes");
    let mut out = [0; BLOCK_TRAILER_LEN_BYTES];
    out[..4].copy_from_slice(&(raw_len_bytes as u32).to_le_bytes());
    out[4] = compression as u8;
    let crc = block_crc(table_id, offset, payload, [out[0], out[1], out[2], out[3], out[4]]);
    out[5..].copy_from_slice(&crc.to_le_bytes());
    out
}

/// The checksum of a block. It covers the table and the offset, so that an intact block read from
/// the wrong place is noticed.
fn block_crc(table_id: u64, offset: u64, payload: &[u8], head: [u8; 5]) -> u32 {
    let mut place = [0; 21];
    place[..5].copy_from_slice(&head);
    place[5..13].copy_from_slice(&table_id.to_le_bytes());
    place[13..].copy_from_slice(&offset.to_le_bytes());
    crc32c::crc32c_append(crc32c::crc32c(payload), &place)
}

/// A stored block whose checksum was verified.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoredBlock<'a> {
    pub(crate) payload: &'a [u8],
    pub(crate) raw_len_bytes: usize,
    pub(crate) compression: Compression,
}

impl<'a> StoredBlock<'a> {
    /// Divides the `stored` bytes of a block into its parts and verifies them.
    ///
    /// # Errors
    /// A description of the defect.
    pub(crate) fn parse(
        table_id: u64,
        offset: u64,
        stored: &'a [u8],
    ) -> Result<StoredBlock<'a>, String> {
        let Some((payload, trailer)) = stored.split_last_chunk::<BLOCK_TRAILER_LEN_BYTES>() else {
            return Err(format!("{} bytes are too few for a block", stored.len()));
        };
        let [a, b, c, d, kind, crc @ ..] = *trailer;
        let expected = block_crc(table_id, offset, payload, [a, b, c, d, kind]);
        let got = u32::from_le_bytes(crc);
        if expected != got {
            return Err(format!("checksum {got:#010x}, {expected:#010x} expected"));
        }
        let raw_len_bytes = u32::from_le_bytes([a, b, c, d]) as usize;
        let compression = Compression::from_u8(kind)
            .ok_or_else(|| format!("compression {kind} is unknown to this program"))?;
        if raw_len_bytes > RAW_LEN_BYTES_MAX {
            return Err(format!("raw length of {raw_len_bytes} bytes is over the limit"));
        }
        Ok(StoredBlock { payload, raw_len_bytes, compression })
    }

    /// The bytes of the block as they are stored at `offset` of table `table_id`.
    pub(crate) fn stored_at(&self, table_id: u64, offset: u64) -> Vec<u8> {
        let [a, b, c, d] = (self.raw_len_bytes as u32).to_le_bytes();
        let head = [a, b, c, d, self.compression as u8];
        let mut stored = self.payload.to_vec();
        stored.extend_from_slice(&head);
        let crc = block_crc(table_id, offset, self.payload, head);
        stored.extend_from_slice(&crc.to_le_bytes());
        stored
    }

    /// Whether the payload is the uncompressed block.
    pub(crate) fn is_raw(&self) -> bool {
        self.compression == Compression::None && self.payload.len() == self.raw_len_bytes
    }

    /// Writes the raw bytes to `out`. Its previous content is overwritten.
    pub(crate) fn decompress_into(&self, out: &mut Vec<u8>) -> Result<(), String> {
        decompress(self.compression, self.payload, self.raw_len_bytes, out)
    }
}

/// The error for a damaged part of a table.
#[cold]
pub(crate) fn corrupt(
    structure: &'static str,
    file: &str,
    offset: u64,
    reason: impl Into<String>,
) -> EngineError {
    EngineError::Corrupt { structure, file: file.into(), offset, reason: reason.into() }
}

/// The little-endian integer at `at`, or `None` behind the end.
pub(crate) fn read_u32(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|chunk| u32::from_le_bytes(*chunk))
}

/// The little-endian integer at `at`, or `None` behind the end.
pub(crate) fn read_u64(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().map(|chunk| u64::from_le_bytes(*chunk))
}

#![doc = include_str!("../../docs/formats/table.md")]

use crate::EngineError;
use crate::batch::{KEY_LEN_BYTES_MAX, VALUE_LEN_BYTES_MAX};
use crate::options::{Compression, DATA_BLOCK_LEN_BYTES_MAX};
use crate::table::compression::decompress;

/// The first bytes of a footer.
const MAGIC: [u8; 8] = *b"IMBRXTBL";
/// The version that this module writes, and the only one that it reads.
pub(crate) const FORMAT_VERSION: u32 = 1;

const MAGIC_AT: usize = 0;
const VERSION_AT: usize = MAGIC_AT + 8;
const RESERVED_A_AT: usize = VERSION_AT + 4;
const TABLE_ID_AT: usize = RESERVED_A_AT + 4;
const DATA_LEN_AT: usize = TABLE_ID_AT + 8;
const INDEX_LEN_AT: usize = DATA_LEN_AT + 8;
const FILTER_LEN_AT: usize = INDEX_LEN_AT + 8;
const TOMBSTONES_LEN_AT: usize = FILTER_LEN_AT + 8;
const PROPERTIES_LEN_AT: usize = TOMBSTONES_LEN_AT + 8;
const TOP_INDEX_LEN_AT: usize = PROPERTIES_LEN_AT + 8;
const RESERVED_B_AT: usize = TOP_INDEX_LEN_AT + 8;
const CRC_AT: usize = FOOTER_LEN_BYTES - 4;
/// The length of the footer, which ends the file.
pub(crate) const FOOTER_LEN_BYTES: usize = 96;
const _: () = assert!(RESERVED_B_AT <= CRC_AT);

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

/// The parts of a table file, in file order. Each starts where the previous one ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Footer {
    pub(crate) table_id: u64,
    pub(crate) data_len_bytes: u64,
    pub(crate) index_len_bytes: u64,
    /// 0 if the table has no filter.
    pub(crate) filter_len_bytes: u64,
    /// 0 if the table has no range tombstones.
    pub(crate) tombstones_len_bytes: u64,
    pub(crate) properties_len_bytes: u64,
    pub(crate) top_index_len_bytes: u64,
}

impl Footer {
    pub(crate) fn filter(&self) -> BlockHandle {
        BlockHandle {
            offset: self.data_len_bytes + self.index_len_bytes,
            len_bytes: self.filter_len_bytes,
        }
    }

    pub(crate) fn tombstones(&self) -> BlockHandle {
        BlockHandle { offset: self.filter().end(), len_bytes: self.tombstones_len_bytes }
    }

    pub(crate) fn properties(&self) -> BlockHandle {
        BlockHandle { offset: self.tombstones().end(), len_bytes: self.properties_len_bytes }
    }

    pub(crate) fn top_index(&self) -> BlockHandle {
        BlockHandle { offset: self.properties().end(), len_bytes: self.top_index_len_bytes }
    }

    pub(crate) fn encode(&self) -> [u8; FOOTER_LEN_BYTES] {
        let mut out = [0; FOOTER_LEN_BYTES];
        out[MAGIC_AT..VERSION_AT].copy_from_slice(&MAGIC);
        out[VERSION_AT..RESERVED_A_AT].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
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
        if version != FORMAT_VERSION {
            return Err(format!("format version {version}, this program knows {FORMAT_VERSION}"));
        }
        let zeros = [&bytes[RESERVED_A_AT..TABLE_ID_AT], &bytes[RESERVED_B_AT..CRC_AT]];
        if zeros.iter().any(|r| r.iter().any(|&b| b != 0)) {
            return Err("reserved bytes are not zero".into());
        }
        let field = |at| read_u64(bytes, at).unwrap_or(0);
        Ok(Footer {
            table_id: field(TABLE_ID_AT),
            data_len_bytes: field(DATA_LEN_AT),
            index_len_bytes: field(INDEX_LEN_AT),
            filter_len_bytes: field(FILTER_LEN_AT),
            tombstones_len_bytes: field(TOMBSTONES_LEN_AT),
            properties_len_bytes: field(PROPERTIES_LEN_AT),
            top_index_len_bytes: field(TOP_INDEX_LEN_AT),
        })
    }

    /// The length of the table.
    ///
    /// # Errors
    /// The footer gives lengths that no file can have.
    pub(crate) fn file_len_bytes(&self) -> Result<u64, String> {
        let parts = [
            self.data_len_bytes,
            self.index_len_bytes,
            self.filter_len_bytes,
            self.tombstones_len_bytes,
            self.properties_len_bytes,
            self.top_index_len_bytes,
            FOOTER_LEN_BYTES as u64,
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

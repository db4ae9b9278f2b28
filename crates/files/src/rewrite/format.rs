#![doc = include_str!("../../../../docs/formats/backup_header.md")]

use imbrex_disk::{BLOCK_LEN_BYTES, BlockRange, Blocks, Lba};

const MAGIC_BYTES: [u8; 8] = *b"IMBXBAK\n";
const FORMAT_VERSION: u32 = 1;

const VERSION: usize = 8;
const COUNT: usize = VERSION + 4;
const FORMAT_ID: usize = COUNT + 4;
const NUMBER: usize = FORMAT_ID + 8;
const DATA_CRC: usize = NUMBER + 8;
const RESERVED: usize = DATA_CRC + 4;
const ENTRIES: usize = RESERVED + 4;
const ENTRY_LEN_BYTES: usize = 16;
const _: () = assert!(ENTRIES == 40);

/// What the backup region holds, and where it belongs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) format_id: u64,
    pub(super) number: u64,
    pub(super) data_crc32c: u32,
    pub(super) homes: Vec<BlockRange>,
}

/// How long a header with so many entries is.
pub(super) fn header_len_bytes(entry_count: u64) -> Option<u64> {
    entry_count.checked_mul(ENTRY_LEN_BYTES as u64)?.checked_add(ENTRIES as u64 + 4)
}

impl Header {
    /// Its bytes, in whole blocks.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(BLOCK_LEN_BYTES);
        bytes.extend_from_slice(&MAGIC_BYTES);
        bytes.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
        bytes.extend_from_slice(&(self.homes.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&self.format_id.to_le_bytes());
        bytes.extend_from_slice(&self.number.to_le_bytes());
        bytes.extend_from_slice(&self.data_crc32c.to_le_bytes());
        bytes.extend_from_slice(&[0; 4]);
        for home in &self.homes {
            bytes.extend_from_slice(&home.start.get().to_le_bytes());
            bytes.extend_from_slice(&home.len.get().to_le_bytes());
        }
        let crc = crc32c::crc32c(&bytes);
        bytes.extend_from_slice(&crc.to_le_bytes());
        bytes.resize(bytes.len().next_multiple_of(BLOCK_LEN_BYTES), 0);
        bytes
    }

    /// Reads a header back; `None` where there is none, or it is not whole. Never panics.
    pub(super) fn decode(bytes: &[u8]) -> Option<Header> {
        if bytes.get(..VERSION)? != MAGIC_BYTES || u32_at(bytes, VERSION)? != FORMAT_VERSION {
            return None;
        }
        let count = u32_at(bytes, COUNT)? as usize;
        let end = count.checked_mul(ENTRY_LEN_BYTES)?.checked_add(ENTRIES)?;
        if u32_at(bytes, end)? != crc32c::crc32c(bytes.get(..end)?) {
            return None;
        }
        let home = |entry: &[u8; ENTRY_LEN_BYTES]| {
            let (start, len) = (u64_at(entry, 0)?, u64_at(entry, 8)?);
            start.checked_add(len).filter(|_| len > 0)?;
            Some(BlockRange::new(Lba::new(start), Blocks::new(len)))
        };
        let entries = bytes.get(ENTRIES..end)?.as_chunks().0.iter();
        let header = Header {
            format_id: u64_at(bytes, FORMAT_ID)?,
            number: u64_at(bytes, NUMBER)?,
            data_crc32c: u32_at(bytes, DATA_CRC)?,
            homes: entries.map(home).collect::<Option<_>>()?,
        };
        let are_apart = header.homes.windows(2).all(|pair| pair[0].end() <= pair[1].start);
        let is_sound = count > 0
            && are_apart
            && header.number > 0
            && u32_at(bytes, RESERVED)? == 0
            && bytes
                .get(end + 4..(end + 4).next_multiple_of(BLOCK_LEN_BYTES))?
                .iter()
                .all(|&b| b == 0);
        is_sound.then_some(header)
    }
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let field = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_le_bytes(std::array::from_fn(|i| field[i])))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    let field = bytes.get(at..at.checked_add(8)?)?;
    Some(u64::from_le_bytes(std::array::from_fn(|i| field[i])))
}

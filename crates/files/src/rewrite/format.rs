#![doc = include_str!("../../docs/formats/backup_header.md")]

use imbrex_disk::{BLOCK_LEN_BYTES, BlockRange, Blocks, Lba, flipped_bit};

const MAGIC_BYTES: [u8; 8] = *b"IMBXBAK\n";
pub(super) const FORMAT_VERSION: u32 = 2;
/// One checksum for the data of all entries; this version is only read.
const FORMAT_VERSION_ONE_SUM: u32 = 1;

const VERSION: usize = 8;
const COUNT: usize = VERSION + 4;
const FORMAT_ID: usize = COUNT + 4;
const NUMBER: usize = FORMAT_ID + 8;
const DATA_CRC: usize = NUMBER + 8;
const RESERVED: usize = DATA_CRC + 4;
const ENTRIES: usize = RESERVED + 4;
const ENTRY_LEN_BYTES: usize = 16;
const _: () = assert!(ENTRIES == 40);

/// The entries of the backup region, and where they belong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) format_id: u64,
    pub(super) number: u64,
    pub(super) homes: Vec<BlockRange>,
    pub(super) sums: Sums,
}

/// The checksums of the entries' data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Sums {
    /// One for all entries: version 1.
    OfAll(u32),
    /// One for each entry.
    OfEach(Vec<u32>),
}

/// The state in which the blocks of a header were found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum FoundHeader {
    /// No header of this format of the drive.
    Nothing,
    /// Longer than a block, and incomplete: a power cut may have torn it.
    Torn,
    /// Within one block, which no power cut tears, and with a wrong checksum.
    Damaged,
    /// Of a version that this program does not know.
    Version(u32),
    Whole(Header),
}

/// The length of a header with that many entries.
pub(super) fn header_len_bytes(entry_count: u64) -> Option<u64> {
    entry_count.checked_mul(ENTRY_LEN_BYTES as u64)?.checked_add(ENTRIES as u64 + 4)
}

impl Header {
    /// Its bytes, in whole blocks.
    pub(super) fn encode(&self) -> Vec<u8> {
        let (version, data_crc32c) = match self.sums {
            Sums::OfAll(sum) => (FORMAT_VERSION_ONE_SUM, sum),
            Sums::OfEach(_) => (FORMAT_VERSION, 0),
        };
        let mut bytes = Vec::with_capacity(BLOCK_LEN_BYTES);
        bytes.extend_from_slice(&MAGIC_BYTES);
        bytes.extend_from_slice(&version.to_le_bytes());
        bytes.extend_from_slice(&(self.homes.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&self.format_id.to_le_bytes());
        bytes.extend_from_slice(&self.number.to_le_bytes());
        bytes.extend_from_slice(&data_crc32c.to_le_bytes());
        bytes.extend_from_slice(&[0; 4]);
        for (index, home) in self.homes.iter().enumerate() {
            bytes.extend_from_slice(&home.start.get().to_le_bytes());
            match &self.sums {
                Sums::OfAll(_) => bytes.extend_from_slice(&home.len.get().to_le_bytes()),
                Sums::OfEach(sums) => {
                    let len = u32::try_from(home.len.get());
                    let len = len.expect("no top track has more than 2^32 - 1 blocks");
                    bytes.extend_from_slice(&len.to_le_bytes());
                    bytes.extend_from_slice(&sums[index].to_le_bytes());
                }
            }
        }
        let crc = crc32c::crc32c(&bytes);
        bytes.extend_from_slice(&crc.to_le_bytes());
        bytes.resize(bytes.len().next_multiple_of(BLOCK_LEN_BYTES), 0);
        bytes
    }

    /// Classifies `bytes`: all blocks that a header may have, or the first alone. Never panics.
    pub(super) fn find(bytes: &[u8], format_id: u64) -> FoundHeader {
        if let Some(header) = Header::decode(bytes) {
            let is_ours = header.format_id == format_id;
            return if is_ours { FoundHeader::Whole(header) } else { FoundHeader::Nothing };
        }
        if bytes.len() < ENTRIES {
            return FoundHeader::Nothing;
        }
        // Fields that are known beforehand may have rotted: with them corrected, the checksum shows
        // whether the rest is intact.
        for version in [FORMAT_VERSION, FORMAT_VERSION_ONE_SUM] {
            let mut known = bytes.to_vec();
            known[..VERSION].copy_from_slice(&MAGIC_BYTES);
            known[VERSION..COUNT].copy_from_slice(&version.to_le_bytes());
            known[FORMAT_ID..NUMBER].copy_from_slice(&format_id.to_le_bytes());
            if let Some(header) = Header::decode(&known) {
                return FoundHeader::Whole(header);
            }
        }
        if bytes[..VERSION] != MAGIC_BYTES || u64_at(bytes, FORMAT_ID) != Some(format_id) {
            return FoundHeader::Nothing;
        }
        // A power cut tears a longer header far more often than a bit of one rots, and what is torn may
        // pass for rotten.
        if let Some(header) =
            Header::decode_corrected(bytes.get(..BLOCK_LEN_BYTES).unwrap_or(bytes))
        {
            return FoundHeader::Whole(header);
        }
        let version = u32_at(bytes, VERSION).unwrap_or_default();
        if FORMAT_VERSION < version {
            return FoundHeader::Version(version);
        }
        let count = u32_at(bytes, COUNT).unwrap_or_default();
        let len_bytes = header_len_bytes(u64::from(count)).unwrap_or(u64::MAX);
        if len_bytes <= BLOCK_LEN_BYTES as u64 { FoundHeader::Damaged } else { FoundHeader::Torn }
    }

    /// Decodes a header with one flipped bit, which is in `bytes` as a whole. The bit may belong to the count, and with it to the place
    /// of the checksum, so the counts with one bit flipped are tried as well.
    fn decode_corrected(bytes: &[u8]) -> Option<Header> {
        let count = u32_at(bytes, COUNT)?;
        let of_other_count = (0..u32::BITS).find_map(|bit| {
            let mut bytes = bytes.to_vec();
            bytes[COUNT..FORMAT_ID].copy_from_slice(&(count ^ 1 << bit).to_le_bytes());
            Header::decode(&bytes)
        });
        of_other_count.or_else(|| {
            let end = usize::try_from(header_len_bytes(u64::from(count))? - 4).ok()?;
            let mut bytes = bytes.to_vec();
            let (stored, computed) = (u32_at(&bytes, end)?, crc32c::crc32c(bytes.get(..end)?));
            if stored == computed {
                // The bit is in the zeros that follow.
                bytes
                    .get_mut(end + 4..)?
                    .iter_mut()
                    .find(|byte| byte.is_power_of_two())
                    .map(|byte| *byte = 0)?;
            } else {
                let bit = flipped_bit(end, stored, computed)?;
                bytes[bit / 8] ^= 1 << (bit % 8);
            }
            Header::decode(&bytes)
        })
    }

    /// Decodes a header; `None` if there is none, or if it is incomplete. Never panics.
    pub(super) fn decode(bytes: &[u8]) -> Option<Header> {
        let version = u32_at(bytes, VERSION)?;
        let has_one_sum = version == FORMAT_VERSION_ONE_SUM;
        if bytes.get(..VERSION)? != MAGIC_BYTES || !(has_one_sum || version == FORMAT_VERSION) {
            return None;
        }
        let count = u32_at(bytes, COUNT)? as usize;
        let end = count.checked_mul(ENTRY_LEN_BYTES)?.checked_add(ENTRIES)?;
        if u32_at(bytes, end)? != crc32c::crc32c(bytes.get(..end)?) {
            return None;
        }
        let entries = || bytes.get(ENTRIES..end).map(|all| all.as_chunks().0.iter());
        let home = |entry: &[u8; ENTRY_LEN_BYTES]| {
            let len = if has_one_sum { u64_at(entry, 8)? } else { u64::from(u32_at(entry, 8)?) };
            let start = u64_at(entry, 0)?;
            // No top track is longer.
            start.checked_add(len).filter(|_| (1..=u64::from(u32::MAX)).contains(&len))?;
            Some(BlockRange::new(Lba::new(start), Blocks::new(len)))
        };
        let sum = |entry: &[u8; ENTRY_LEN_BYTES]| u32_at(entry, 12);
        let data_crc32c = u32_at(bytes, DATA_CRC)?;
        let header = Header {
            format_id: u64_at(bytes, FORMAT_ID)?,
            number: u64_at(bytes, NUMBER)?,
            homes: entries()?.map(home).collect::<Option<_>>()?,
            sums: match has_one_sum {
                true => Sums::OfAll(data_crc32c),
                false => Sums::OfEach(entries()?.map(sum).collect::<Option<_>>()?),
            },
        };
        let are_apart = header.homes.windows(2).all(|pair| pair[0].end() <= pair[1].start);
        let is_sound = count > 0
            && are_apart
            && header.number > 0
            && (has_one_sum || data_crc32c == 0)
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

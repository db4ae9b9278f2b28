#![doc = include_str!("../../../../docs/formats/block_driver.md")]

use imbrex_disk::{BLOCK_LEN_BYTES, BlockRange, Blocks, Lba, Pba, ZoneId};

pub(super) const FORMAT_VERSION: u32 = 1;
const SUPERBLOCK_MAGIC: [u8; 8] = *b"IMSMRSB\n";
const CHECKPOINT_MAGIC: [u8; 8] = *b"IMSMRCP\n";
const ENTRY_MAGIC: [u8; 8] = *b"IMSMRJE\n";

/// One block of the format.
pub(super) type Block = [u8; BLOCK_LEN_BYTES];

const VERSION: usize = 8;
const ZONE_COUNT_OF_CHECKPOINT: usize = 12;
const ID: usize = 16;
const NUMBER: usize = 24;
const DRIVE_LEN: usize = 32;
const ZONE_LEN: usize = 40;
const ZONE_COUNT: usize = 48;
const JOURNAL_ZONE_COUNT: usize = 52;
const LEN: usize = 56;
const CHECKPOINT_LEN: usize = 64;
const CHECKPOINT_CRC: usize = 72;
const CHECKPOINT_ZONES: usize = 80;
const CRC: usize = BLOCK_LEN_BYTES - 4;
/// A checkpoint lies in no more zones.
pub(super) const CHECKPOINT_ZONE_COUNT_MAX: usize = 1000;
const _: () = assert!(CHECKPOINT_ZONES + 4 * CHECKPOINT_ZONE_COUNT_MAX <= CRC);

const HEADER_LEN: usize = 12;
const ENTRY_SEQ: usize = 24;
const RECORD_COUNT: usize = 32;
const DATA_LEN: usize = 36;
const DATA_CRC: usize = 40;
const HEADER_CRC: usize = 44;
const ENTRY_AT: usize = 48;
const RECORDS: usize = 64;
const RECORD_LEN_BYTES: usize = 32;
/// A header has no more blocks, so that a damaged one is never read as a long one.
pub(super) const HEADER_LEN_MAX: u64 = 64;
/// What fits the longest header.
pub(super) const RECORD_COUNT_MAX: usize =
    (HEADER_LEN_MAX as usize * BLOCK_LEN_BYTES - RECORDS) / RECORD_LEN_BYTES;

/// What the superblock says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Superblock {
    pub(super) id: u64,
    pub(super) number: u64,
    pub(super) drive_len: Blocks,
    pub(super) zone_len: Blocks,
    pub(super) zone_count: u32,
    pub(super) journal_zone_count: u32,
    /// How long the device is.
    pub(super) len: Blocks,
    pub(super) checkpoint: Stored,
}

/// Where a checkpoint lies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Stored {
    pub(super) zones: Vec<ZoneId>,
    pub(super) len_bytes: u64,
    pub(super) crc: u32,
}

/// Why a block is no superblock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The magic is another, or the checksum fails.
    None,
    /// The version is another.
    Version {
        /// Which.
        got: u32,
    },
}

impl Superblock {
    pub(super) fn encode(&self) -> Box<Block> {
        let mut bytes = Box::new([0; BLOCK_LEN_BYTES]);
        bytes[..VERSION].copy_from_slice(&SUPERBLOCK_MAGIC);
        put_u32(&mut bytes[..], VERSION, FORMAT_VERSION);
        put_u32(&mut bytes[..], ZONE_COUNT_OF_CHECKPOINT, self.checkpoint.zones.len() as u32);
        put_u32(&mut bytes[..], ZONE_COUNT, self.zone_count);
        put_u32(&mut bytes[..], JOURNAL_ZONE_COUNT, self.journal_zone_count);
        put_u32(&mut bytes[..], CHECKPOINT_CRC, self.checkpoint.crc);
        for (at, value) in [
            (ID, self.id),
            (NUMBER, self.number),
            (DRIVE_LEN, self.drive_len.get()),
            (ZONE_LEN, self.zone_len.get()),
            (LEN, self.len.get()),
            (CHECKPOINT_LEN, self.checkpoint.len_bytes),
        ] {
            put_u64(&mut bytes[..], at, value);
        }
        for (index, zone) in self.checkpoint.zones.iter().enumerate() {
            put_u32(&mut bytes[..], CHECKPOINT_ZONES + 4 * index, zone.0);
        }
        let crc = crc32c::crc32c(&bytes[..CRC]);
        put_u32(&mut bytes[..], CRC, crc);
        bytes
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Superblock, Fault> {
        if bytes.len() != BLOCK_LEN_BYTES || bytes[..VERSION] != SUPERBLOCK_MAGIC {
            return Err(Fault::None);
        }
        // Another version may lay out the rest, its checksum included, in another way.
        match get_u32(bytes, VERSION) {
            FORMAT_VERSION if crc32c::crc32c(&bytes[..CRC]) != get_u32(bytes, CRC) => {
                return Err(Fault::None);
            }
            FORMAT_VERSION => {}
            got => return Err(Fault::Version { got }),
        }
        let zone_count = get_u32(bytes, ZONE_COUNT_OF_CHECKPOINT) as usize;
        if zone_count > CHECKPOINT_ZONE_COUNT_MAX {
            return Err(Fault::None);
        }
        let zone = |index: usize| ZoneId(get_u32(bytes, CHECKPOINT_ZONES + 4 * index));
        Ok(Superblock {
            id: get_u64(bytes, ID),
            number: get_u64(bytes, NUMBER),
            drive_len: Blocks::new(get_u64(bytes, DRIVE_LEN)),
            zone_len: Blocks::new(get_u64(bytes, ZONE_LEN)),
            zone_count: get_u32(bytes, ZONE_COUNT),
            journal_zone_count: get_u32(bytes, JOURNAL_ZONE_COUNT),
            len: Blocks::new(get_u64(bytes, LEN)),
            checkpoint: Stored {
                zones: (0..zone_count).map(zone).collect(),
                len_bytes: get_u64(bytes, CHECKPOINT_LEN),
                crc: get_u32(bytes, CHECKPOINT_CRC),
            },
        })
    }
}

/// What happened, in the journal's order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Record {
    /// The newest content of `range` is in this entry, at `at`.
    Data {
        /// Of the host's addresses.
        range: BlockRange,
        /// In the entry.
        at: Pba,
    },
    /// `range` left the write buffer, or passed it by, for the data zones.
    Evicted {
        /// Of the host's addresses.
        range: BlockRange,
        /// In a data zone.
        at: Pba,
    },
    /// Nothing is in `range` any more.
    Trimmed {
        /// Of the host's addresses.
        range: BlockRange,
    },
    /// Cleaning put `range` elsewhere; what the write buffer has of it is newer and stays.
    Moved {
        /// Of the host's addresses.
        range: BlockRange,
        /// In a data zone.
        at: Pba,
    },
    /// Nothing valid is in the zone: it may be reset from here on.
    Emptied {
        /// Which.
        zone: ZoneId,
    },
}

const DATA: u32 = 1;
const EVICTED: u32 = 2;
const TRIMMED: u32 = 3;
const MOVED: u32 = 4;
const EMPTIED: u32 = 5;

impl Record {
    fn encode(&self) -> [u8; RECORD_LEN_BYTES] {
        let none = Pba::new(0);
        let (kind, range, at) = match *self {
            Record::Data { range, at } => (DATA, range, at),
            Record::Evicted { range, at } => (EVICTED, range, at),
            Record::Trimmed { range } => (TRIMMED, range, none),
            Record::Moved { range, at } => (MOVED, range, at),
            Record::Emptied { zone } => {
                (EMPTIED, BlockRange::new(Lba::new(u64::from(zone.0)), Blocks::new(1)), none)
            }
        };
        let mut bytes = [0; RECORD_LEN_BYTES];
        put_u32(&mut bytes, 0, kind);
        put_u64(&mut bytes, 8, range.start.get());
        put_u64(&mut bytes, 16, at.get());
        put_u64(&mut bytes, 24, range.len.get());
        bytes
    }

    fn decode(bytes: &[u8]) -> Result<Record, String> {
        let (start, at, len) =
            (get_u64(bytes, 8), Pba::new(get_u64(bytes, 16)), get_u64(bytes, 24));
        if start.checked_add(len).is_none_or(|end| end > ADDRESS_END) || at.get() > ADDRESS_END {
            return Err(format!("a record of {len} blocks from {start}"));
        }
        let range = BlockRange::new(Lba::new(start), Blocks::new(len));
        match get_u32(bytes, 0) {
            DATA => Ok(Record::Data { range, at }),
            EVICTED => Ok(Record::Evicted { range, at }),
            TRIMMED => Ok(Record::Trimmed { range }),
            MOVED => Ok(Record::Moved { range, at }),
            EMPTIED => u32::try_from(start)
                .map(|zone| Record::Emptied { zone: ZoneId(zone) })
                .map_err(|_| format!("zone {start}")),
            kind => Err(format!("a record of kind {kind}")),
        }
    }
}

/// No drive has more blocks.
const ADDRESS_END: u64 = 1 << 48;

/// The header of a journal entry: what it tells, and how to check what follows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) seq: u64,
    pub(super) header_len: Blocks,
    pub(super) data_len: Blocks,
    pub(super) data_crc: u32,
    pub(super) records: Vec<Record>,
}

/// How many blocks the header of so many records has.
pub(super) fn header_len(record_count: usize) -> Blocks {
    Blocks::holding((RECORDS + record_count * RECORD_LEN_BYTES) as u64)
}

/// How many records a header of so many blocks holds.
pub(super) fn record_count(header_len: Blocks) -> usize {
    (header_len.bytes() as usize).saturating_sub(RECORDS) / RECORD_LEN_BYTES
}

/// The header of an entry that lies at `at` and is followed by `data`.
pub(super) fn encode_header(
    id: u64,
    seq: u64,
    at: Pba,
    records: &[Record],
    data: &[u8],
) -> Vec<u8> {
    let len = header_len(records.len());
    let mut bytes = vec![0; len.bytes() as usize];
    bytes[..VERSION].copy_from_slice(&ENTRY_MAGIC);
    put_u32(&mut bytes, VERSION, FORMAT_VERSION);
    put_u32(&mut bytes, HEADER_LEN, len.get() as u32);
    put_u64(&mut bytes, ID, id);
    put_u64(&mut bytes, ENTRY_SEQ, seq);
    put_u32(&mut bytes, RECORD_COUNT, records.len() as u32);
    put_u32(&mut bytes, DATA_LEN, (data.len() / BLOCK_LEN_BYTES) as u32);
    put_u32(&mut bytes, DATA_CRC, crc32c::crc32c(data));
    put_u64(&mut bytes, ENTRY_AT, at.get());
    for (record, slot) in records.iter().zip(bytes[RECORDS..].chunks_exact_mut(RECORD_LEN_BYTES)) {
        slot.copy_from_slice(&record.encode());
    }
    let crc = crc32c::crc32c(&bytes);
    put_u32(&mut bytes, HEADER_CRC, crc);
    bytes
}

/// How many blocks the header has whose first block this is; `None` if it is none of this device.
pub(super) fn peek_header(id: u64, at: Pba, first: &[u8]) -> Option<(Blocks, u64)> {
    let is_header = first[..VERSION] == ENTRY_MAGIC
        && get_u32(first, VERSION) == FORMAT_VERSION
        && get_u64(first, ID) == id
        && get_u64(first, ENTRY_AT) == at.get();
    let len = u64::from(get_u32(first, HEADER_LEN));
    (is_header && (1..=HEADER_LEN_MAX).contains(&len))
        .then(|| (Blocks::new(len), get_u64(first, ENTRY_SEQ)))
}

/// Decodes a whole header that [`peek_header`] knew; `Ok(None)` if its checksum fails: torn.
pub(super) fn decode_header(header: &[u8]) -> Result<Option<Entry>, String> {
    let mut copy = header.to_vec();
    put_u32(&mut copy, HEADER_CRC, 0);
    if crc32c::crc32c(&copy) != get_u32(header, HEADER_CRC) {
        return Ok(None);
    }
    let record_count = get_u32(header, RECORD_COUNT) as usize;
    if header_len(record_count) != Blocks::holding(header.len() as u64) {
        return Err(format!("{record_count} records in a header of {} bytes", header.len()));
    }
    let slots = header[RECORDS..].chunks_exact(RECORD_LEN_BYTES).take(record_count);
    Ok(Some(Entry {
        seq: get_u64(header, ENTRY_SEQ),
        header_len: Blocks::holding(header.len() as u64),
        data_len: Blocks::new(u64::from(get_u32(header, DATA_LEN))),
        data_crc: get_u32(header, DATA_CRC),
        records: slots.map(Record::decode).collect::<Result<_, _>>()?,
    }))
}

/// A run of a checkpoint: of the mapping, or of what the journal has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) range: BlockRange,
    pub(super) at: Pba,
}

/// All that a checkpoint says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Checkpoint {
    /// The journal entry that comes next.
    pub(super) seq: u64,
    /// Where it will be, unless it begins another zone.
    pub(super) next: Pba,
    /// The mapping, by LBA.
    pub(super) mapped: Vec<Run>,
    /// What is in the write buffer and where the journal has it, by LBA.
    pub(super) copies: Vec<Run>,
}

/// A checkpoint as bytes: fixed fields, then the runs as differences to the end of the one before.
pub(super) fn encode_checkpoint(
    id: u64,
    seq: u64,
    next: Pba,
    mapped: (usize, impl Iterator<Item = Run>),
    copies: &[Run],
) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend_from_slice(&CHECKPOINT_MAGIC);
    bytes.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
    bytes.extend_from_slice(&[0; 4]);
    for value in [id, seq, next.get(), mapped.0 as u64, copies.len() as u64] {
        bytes.extend_from_slice(&value.to_le_bytes());
    }
    put_runs(&mut bytes, mapped.1);
    put_runs(&mut bytes, copies.iter().copied());
    bytes
}

const CHECKPOINT_FIXED: usize = 16 + 5 * 8;

/// The opposite of [`encode_checkpoint`].
///
/// # Errors
/// What is wrong with the bytes.
pub(super) fn decode_checkpoint(id: u64, bytes: &[u8]) -> Result<Checkpoint, String> {
    if bytes.len() < CHECKPOINT_FIXED || bytes[..VERSION] != CHECKPOINT_MAGIC {
        return Err("it does not begin as one".to_owned());
    }
    if get_u32(bytes, VERSION) != FORMAT_VERSION || get_u64(bytes, 16) != id {
        return Err("it is of another version or device".to_owned());
    }
    let (mapped_count, copy_count) = (get_u64(bytes, 40), get_u64(bytes, 48));
    let mut rest = &bytes[CHECKPOINT_FIXED..];
    let mapped = get_runs(&mut rest, mapped_count)?;
    let copies = get_runs(&mut rest, copy_count)?;
    if !rest.is_empty() {
        return Err(format!("{} bytes too many", rest.len()));
    }
    Ok(Checkpoint { seq: get_u64(bytes, 24), next: Pba::new(get_u64(bytes, 32)), mapped, copies })
}

fn put_runs(bytes: &mut Vec<u8>, runs: impl Iterator<Item = Run>) {
    let (mut lba, mut pba) = (0, 0);
    for run in runs {
        put_varint(bytes, run.range.start.get() - lba);
        let step = run.at.get().wrapping_sub(pba) as i64;
        put_varint(bytes, ((step << 1) ^ (step >> 63)) as u64);
        put_varint(bytes, run.range.len.get());
        (lba, pba) = (run.range.end().get(), run.at.get() + run.range.len.get());
    }
}

fn get_runs(rest: &mut &[u8], count: u64) -> Result<Vec<Run>, String> {
    // Three bytes are the shortest run: a damaged count allocates no more than there is.
    let mut runs = Vec::with_capacity(count.min(rest.len() as u64 / 3) as usize);
    let (mut lba, mut pba) = (0u64, 0u64);
    for _ in 0..count {
        let start = lba.checked_add(get_varint(rest)?);
        let coded = get_varint(rest)?;
        let at = pba.wrapping_add((coded >> 1) ^ (coded & 1).wrapping_neg());
        let len = get_varint(rest)?;
        let end = start.and_then(|start| start.checked_add(len)).filter(|&end| end <= ADDRESS_END);
        let (Some(start), Some(end)) = (start, end) else { return Err("an endless run".into()) };
        if at > ADDRESS_END {
            return Err("a run behind every drive".into());
        }
        runs.push(Run {
            range: BlockRange::new(Lba::new(start), Blocks::new(len)),
            at: Pba::new(at),
        });
        (lba, pba) = (end, at + len);
    }
    Ok(runs)
}

fn put_varint(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

fn get_varint(rest: &mut &[u8]) -> Result<u64, String> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let (&byte, behind) = rest.split_first().ok_or("it ends within a run")?;
        *rest = behind;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Ok(value);
        }
    }
    Err("a number of more than ten bytes".to_owned())
}

fn put_u32(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

fn put_u64(bytes: &mut [u8], at: usize, value: u64) {
    bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

fn get_u32(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn get_u64(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

#[cfg(test)]
mod tests;

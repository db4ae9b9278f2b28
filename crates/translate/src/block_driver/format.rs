#![doc = include_str!("../../docs/formats/block_driver.md")]

use crate::fields::{get_u32, get_u64, put_u32, put_u64};
use imbrex_disk::{BLOCK_LEN_BYTES, BlockRange, Blocks, Lba, Pba, ZoneId};

/// The version of every structure, and of a superblock that names no delta.
pub(super) const FORMAT_VERSION: u32 = 3;
/// The version of a superblock that names deltas.
pub(super) const DELTA_VERSION: u32 = 4;
/// The version of a superblock whose checkpoint marks the end of its mapping. It may name deltas.
pub(super) const OPEN_ENDED_VERSION: u32 = 5;
const SUPERBLOCK_MAGIC: [u8; 8] = *b"IMSMRSB\n";
const ENTRY_MAGIC: [u8; 8] = *b"IMSMRJE\n";
const SUMMARY_MAGIC: [u8; 8] = *b"IMSMRZS\n";

/// One block of the format.
pub(super) type Block = [u8; BLOCK_LEN_BYTES];

pub(super) const VERSION: usize = 8;
const ZONE_COUNT_OF_CHECKPOINT: usize = 12;
const ID: usize = 16;
const NUMBER: usize = 24;
const DRIVE_LEN: usize = 32;
const ZONE_LEN: usize = 40;
const ZONE_COUNT: usize = 48;
const JOURNAL_ZONE_COUNT: usize = 52;
const LEN: usize = 56;
const CHECKPOINT_LEN: usize = 64;
const ZONE_COUNT_OF_SECOND: usize = 72;
const DELTA_ZONE_COUNT: usize = 76;
const CHECKPOINT_NUMBER: usize = 80;
const CHECKPOINT_ZONES: usize = 88;
const DELTA_LEN: usize = 88;
const DELTA_COUNT: usize = 96;
const CHECKPOINT_ZONES_WITH_DELTAS: usize = 104;
const CRC: usize = BLOCK_LEN_BYTES - 4;
/// The most zones that both copies of a checkpoint take together.
pub(super) const CHECKPOINT_ZONE_COUNT_MAX: usize = 1000;
/// The same with the zones of its deltas.
pub(super) const ZONE_COUNT_WITH_DELTAS_MAX: usize = 996;
const _: () = assert!(CHECKPOINT_ZONES_WITH_DELTAS + 4 * ZONE_COUNT_WITH_DELTAS_MAX <= CRC);
const _: () = assert!(CHECKPOINT_ZONES + 4 * CHECKPOINT_ZONE_COUNT_MAX <= CRC);

const HEADER_LEN: usize = 12;
const ENTRY_SEQ: usize = 24;
const RECORD_COUNT: usize = 32;
const DATA_LEN: usize = 36;
const HEADER_INDEX: usize = 40;
const HEADER_CRC: usize = 44;
const ENTRY_AT: usize = 48;
const FLUSHED_SEQ: usize = 56;
const RECORDS: usize = 64;
const RECORD_LEN_BYTES: usize = 32;
/// The most blocks of a header, so that a damaged one is never read as a long one.
pub(super) const HEADER_LEN_MAX: u64 = 64;
/// The most host blocks in one entry: memory for them is allocated before they are read.
pub(super) const ENTRY_DATA_LEN_MAX: u64 = 1024;
/// How many records fit a block of a header.
const BLOCK_RECORD_COUNT: usize = (BLOCK_LEN_BYTES - RECORDS) / RECORD_LEN_BYTES;
/// How many records fit the longest header.
pub(super) const RECORD_COUNT_MAX: usize = HEADER_LEN_MAX as usize * BLOCK_RECORD_COUNT;

/// The content of the superblock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Superblock {
    pub(super) id: u64,
    pub(super) number: u64,
    pub(super) drive_len: Blocks,
    pub(super) zone_len: Blocks,
    pub(super) zone_count: u32,
    pub(super) journal_zone_count: u32,
    /// The length of the device.
    pub(super) len: Blocks,
    pub(super) checkpoint: Stored,
}

/// The place of a checkpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Stored {
    /// The zones of each copy.
    pub(super) copies: [Vec<ZoneId>; 2],
    pub(super) len_bytes: u64,
    /// The number of the first superblock that named it; each of its blocks has it.
    pub(super) number: u64,
    /// Whether the end of its mapping is marked, instead of the number of runs.
    pub(super) is_open_ended: bool,
    /// What changed since.
    pub(super) deltas: Deltas,
}

/// The place of the deltas of a checkpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Deltas {
    /// The zones of each copy.
    pub(super) copies: [Vec<ZoneId>; 2],
    /// How many blocks each copy has. The zones may be written further than that.
    pub(super) len: u64,
    pub(super) count: u64,
}

impl Stored {
    /// All zones, those of deltas included.
    pub(super) fn zones(&self) -> impl Iterator<Item = ZoneId> + '_ {
        self.copies.iter().chain(&self.deltas.copies).flatten().copied()
    }
}

/// Why a block is no superblock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The magic differs, or the checksum fails.
    None,
    /// The version differs.
    Version {
        /// The version found.
        got: u32,
    },
}

impl Superblock {
    pub(super) fn encode(&self) -> Box<Block> {
        let mut bytes = Box::new([0; BLOCK_LEN_BYTES]);
        bytes[..VERSION].copy_from_slice(&SUPERBLOCK_MAGIC);
        let deltas = &self.checkpoint.deltas;
        let version = match (self.checkpoint.is_open_ended, deltas.count) {
            (true, _) => OPEN_ENDED_VERSION,
            (false, 0) => FORMAT_VERSION,
            (false, _) => DELTA_VERSION,
        };
        let has_deltas = version != FORMAT_VERSION;
        put_u32(&mut bytes[..], VERSION, version);
        let [first, second] = &self.checkpoint.copies;
        put_u32(&mut bytes[..], ZONE_COUNT_OF_CHECKPOINT, first.len() as u32);
        put_u32(&mut bytes[..], ZONE_COUNT_OF_SECOND, second.len() as u32);
        put_u32(&mut bytes[..], ZONE_COUNT, self.zone_count);
        put_u32(&mut bytes[..], JOURNAL_ZONE_COUNT, self.journal_zone_count);
        for (at, value) in [
            (ID, self.id),
            (NUMBER, self.number),
            (DRIVE_LEN, self.drive_len.get()),
            (ZONE_LEN, self.zone_len.get()),
            (LEN, self.len.get()),
            (CHECKPOINT_LEN, self.checkpoint.len_bytes),
            (CHECKPOINT_NUMBER, self.checkpoint.number),
        ] {
            put_u64(&mut bytes[..], at, value);
        }
        let mut zones_at = CHECKPOINT_ZONES;
        if has_deltas {
            let [first, second] = deltas.copies.each_ref().map(|zones| zones.len() as u32);
            put_u32(&mut bytes[..], DELTA_ZONE_COUNT, first | second << 16);
            put_u64(&mut bytes[..], DELTA_LEN, deltas.len);
            put_u64(&mut bytes[..], DELTA_COUNT, deltas.count);
            zones_at = CHECKPOINT_ZONES_WITH_DELTAS;
        }
        for (index, zone) in self.checkpoint.zones().enumerate() {
            put_u32(&mut bytes[..], zones_at + 4 * index, zone.0);
        }
        let crc = crc32c::crc32c(&bytes[..CRC]);
        put_u32(&mut bytes[..], CRC, crc);
        bytes
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Superblock, Fault> {
        if bytes.len() != BLOCK_LEN_BYTES || bytes[..VERSION] != SUPERBLOCK_MAGIC {
            return Err(Fault::None);
        }
        // Another version may place the other fields, including the checksum, elsewhere.
        match get_u32(bytes, VERSION) {
            FORMAT_VERSION | DELTA_VERSION | OPEN_ENDED_VERSION
                if crc32c::crc32c(&bytes[..CRC]) != get_u32(bytes, CRC) =>
            {
                return Err(Fault::None);
            }
            FORMAT_VERSION | DELTA_VERSION | OPEN_ENDED_VERSION => {}
            got => return Err(Fault::Version { got }),
        }
        let first_count = get_u32(bytes, ZONE_COUNT_OF_CHECKPOINT) as usize;
        let zone_count = first_count.saturating_add(get_u32(bytes, ZONE_COUNT_OF_SECOND) as usize);
        let version = get_u32(bytes, VERSION);
        let has_deltas = version != FORMAT_VERSION;
        let delta_counts = if has_deltas { get_u32(bytes, DELTA_ZONE_COUNT) } else { 0 };
        let (first_delta, second_delta) = (delta_counts & 0xFFFF, delta_counts >> 16);
        let first_delta = zone_count.saturating_add(first_delta as usize);
        let all_count = first_delta.saturating_add(second_delta as usize);
        let (most, zones_at) = match has_deltas {
            true => (ZONE_COUNT_WITH_DELTAS_MAX, CHECKPOINT_ZONES_WITH_DELTAS),
            false => (CHECKPOINT_ZONE_COUNT_MAX, CHECKPOINT_ZONES),
        };
        if all_count > most || get_u64(bytes, NUMBER) >= NUMBER_END {
            return Err(Fault::None);
        }
        let zone = |index: usize| ZoneId(get_u32(bytes, zones_at + 4 * index));
        let of_deltas = |at: usize| if has_deltas { get_u64(bytes, at) } else { 0 };
        Ok(Superblock {
            id: get_u64(bytes, ID),
            number: get_u64(bytes, NUMBER),
            drive_len: Blocks::new(get_u64(bytes, DRIVE_LEN)),
            zone_len: Blocks::new(get_u64(bytes, ZONE_LEN)),
            zone_count: get_u32(bytes, ZONE_COUNT),
            journal_zone_count: get_u32(bytes, JOURNAL_ZONE_COUNT),
            len: Blocks::new(get_u64(bytes, LEN)),
            checkpoint: Stored {
                copies: [0..first_count, first_count..zone_count]
                    .map(|indices| indices.map(zone).collect()),
                len_bytes: get_u64(bytes, CHECKPOINT_LEN),
                number: get_u64(bytes, CHECKPOINT_NUMBER),
                is_open_ended: version == OPEN_ENDED_VERSION,
                deltas: Deltas {
                    copies: [zone_count..first_delta, first_delta..all_count]
                        .map(|indices| indices.map(zone).collect()),
                    len: of_deltas(DELTA_LEN),
                    count: of_deltas(DELTA_COUNT),
                },
            },
        })
    }
}

/// One event, in the journal's order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Record {
    /// The newest content of a block is in this entry, at `at`.
    Data {
        /// The host's address.
        lba: Lba,
        /// The block's place in the entry.
        at: Pba,
        /// The checksum of the block.
        crc: u32,
    },
    /// `range` went to the data zones, from the write buffer or past it.
    Evicted {
        /// The host's addresses.
        range: BlockRange,
        /// Its place in a data zone.
        at: Pba,
    },
    /// `range` no longer has content.
    Trimmed {
        /// The host's addresses.
        range: BlockRange,
    },
    /// Cleaning moved `range`; newer content in the write buffer stays.
    Moved {
        /// The host's addresses.
        range: BlockRange,
        /// Its place in a data zone.
        at: Pba,
    },
    /// The zone holds nothing valid and may be reset from here on.
    Emptied {
        /// The zone.
        zone: ZoneId,
    },
    /// The zone is written from its start.
    Opened {
        /// The zone.
        zone: ZoneId,
        /// The generation of its content from here on; its summaries have it.
        generation: u64,
    },
    /// The checksum of a block whose stretch has no summary yet.
    Sum {
        /// The block's place in a data zone.
        at: Pba,
        /// Its checksum.
        sum: Sum,
    },
}

/// The checksum of a block in a data zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sum {
    /// The host's address.
    pub(super) lba: Lba,
    /// Over that address and the content.
    pub(super) crc: u32,
}

impl Sum {
    /// For a block that is never read.
    pub(super) const NONE: Sum = Sum { lba: Lba::new(u64::MAX), crc: 0 };

    pub(super) fn of(lba: Lba, block: &[u8]) -> Sum {
        let crc = crc32c::crc32c_append(crc32c::crc32c(&lba.get().to_le_bytes()), block);
        Sum { lba, crc }
    }
}

const DATA: u32 = 1;
const EVICTED: u32 = 2;
const TRIMMED: u32 = 3;
const MOVED: u32 = 4;
const EMPTIED: u32 = 5;
const OPENED: u32 = 6;
const SUM: u32 = 7;

impl Record {
    fn encode(&self) -> [u8; RECORD_LEN_BYTES] {
        let none = Pba::new(0);
        let of_block = |lba: Lba| BlockRange::new(lba, Blocks::new(1));
        let of_zone = |zone: ZoneId| of_block(Lba::new(u64::from(zone.0)));
        let (kind, crc, range, at) = match *self {
            Record::Data { lba, at, crc } => (DATA, crc, of_block(lba), at),
            Record::Evicted { range, at } => (EVICTED, 0, range, at),
            Record::Trimmed { range } => (TRIMMED, 0, range, none),
            Record::Moved { range, at } => (MOVED, 0, range, at),
            Record::Emptied { zone } => (EMPTIED, 0, of_zone(zone), none),
            Record::Opened { zone, generation } => (OPENED, 0, of_zone(zone), Pba::new(generation)),
            Record::Sum { at, sum } => (SUM, sum.crc, of_block(sum.lba), at),
        };
        let mut bytes = [0; RECORD_LEN_BYTES];
        put_u32(&mut bytes, 0, kind);
        put_u32(&mut bytes, 4, crc);
        put_u64(&mut bytes, 8, range.start.get());
        put_u64(&mut bytes, 16, at.get());
        put_u64(&mut bytes, 24, range.len.get());
        bytes
    }

    /// Decodes the bytes of [`Record::encode`]; `None` if they name addresses that no drive has.
    fn decode(bytes: &[u8]) -> Option<Record> {
        let (start, at, len) =
            (get_u64(bytes, 8), Pba::new(get_u64(bytes, 16)), get_u64(bytes, 24));
        let end = start.checked_add(len)?;
        if end > ADDRESS_END || at.get() > ADDRESS_END {
            return None;
        }
        let range = BlockRange::new(Lba::new(start), Blocks::new(len));
        let crc = get_u32(bytes, 4);
        let zone = || u32::try_from(start).map(ZoneId).ok();
        Some(match get_u32(bytes, 0) {
            DATA => Record::Data { lba: range.start, at, crc },
            EVICTED => Record::Evicted { range, at },
            TRIMMED => Record::Trimmed { range },
            MOVED => Record::Moved { range, at },
            EMPTIED => Record::Emptied { zone: zone()? },
            OPENED => Record::Opened { zone: zone()?, generation: at.get() },
            SUM => Record::Sum { at, sum: Sum { lba: range.start, crc } },
            _ => return None,
        })
    }
}

/// No device ever counts this far.
pub(super) const NUMBER_END: u64 = 1 << 63;
/// No drive has more blocks.
pub(super) const ADDRESS_END: u64 = 1 << 48;
/// No journal has more entries: some records have an entry's number where others have an address.
pub(super) const SEQ_END: u64 = ADDRESS_END;

/// The content of a journal entry's header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) seq: u64,
    /// Entries below this number, and what they describe, were flushed before this entry was
    /// written; 0 if the writer did not record it.
    pub(super) flushed_seq: u64,
    /// The length of one copy of its header.
    pub(super) header_len: Blocks,
    pub(super) data_len: Blocks,
    pub(super) records: Vec<Record>,
}

impl Entry {
    /// The offset of the host's blocks from the start of the entry.
    pub(super) fn data_offset(&self) -> Blocks {
        both_len(self.header_len)
    }
}

/// The least length of an entry: a header of one block, twice.
pub(super) const ENTRY_LEN_MIN: Blocks = Blocks::new(2);

/// How many blocks both copies of a header take.
pub(super) fn both_len(header_len: Blocks) -> Blocks {
    header_len + header_len
}

/// How many blocks the header of `record_count` records has.
pub(super) fn header_len(record_count: usize) -> Blocks {
    Blocks::new(record_count.div_ceil(BLOCK_RECORD_COUNT).max(1) as u64)
}

/// How many records a header of `header_len` blocks holds.
pub(super) fn record_count(header_len: Blocks) -> usize {
    header_len.get() as usize * BLOCK_RECORD_COUNT
}

/// Both copies of the header of an entry at `at`; `data_len` blocks follow them.
pub(super) fn encode_header(
    id: u64,
    [seq, flushed_seq]: [u64; 2],
    at: Pba,
    records: &[Record],
    data_len: Blocks,
) -> Vec<u8> {
    let len = header_len(records.len());
    let mut bytes = vec![0; len.bytes() as usize];
    let mut parts = records.chunks(BLOCK_RECORD_COUNT);
    for (index, block) in (0..).zip(bytes.chunks_exact_mut(BLOCK_LEN_BYTES)) {
        let part = parts.next().unwrap_or_default();
        block[..VERSION].copy_from_slice(&ENTRY_MAGIC);
        put_u32(block, VERSION, FORMAT_VERSION);
        put_u32(block, HEADER_LEN, len.get() as u32);
        put_u64(block, ID, id);
        put_u64(block, ENTRY_SEQ, seq);
        put_u32(block, RECORD_COUNT, part.len() as u32);
        put_u32(block, DATA_LEN, data_len.get() as u32);
        put_u32(block, HEADER_INDEX, index);
        put_u64(block, ENTRY_AT, at.get());
        put_u64(block, FLUSHED_SEQ, flushed_seq);
        for (record, slot) in part.iter().zip(block[RECORDS..].chunks_exact_mut(RECORD_LEN_BYTES)) {
            slot.copy_from_slice(&record.encode());
        }
        let crc = crc32c::crc32c(block);
        put_u32(block, HEADER_CRC, crc);
    }
    bytes.extend_from_within(..);
    bytes
}

/// Decodes the block at `offset` from the start of the entry at `at`: the fields of the entry, with
/// the records of this block. `None` if it is no block of that entry's header.
pub(super) fn decode_header_block(id: u64, at: Pba, offset: Blocks, block: &[u8]) -> Option<Entry> {
    let len = u64::from(get_u32(block, HEADER_LEN));
    let record_count = get_u32(block, RECORD_COUNT) as usize;
    let mut copy = block.to_vec();
    put_u32(&mut copy, HEADER_CRC, 0);
    let is_header = block[..VERSION] == ENTRY_MAGIC
        && get_u32(block, VERSION) == FORMAT_VERSION
        && get_u64(block, ID) == id
        && get_u64(block, ENTRY_AT) == at.get()
        && (1..=HEADER_LEN_MAX).contains(&len)
        && offset.get() < 2 * len
        && u64::from(get_u32(block, HEADER_INDEX)) == offset.get() % len
        && record_count <= BLOCK_RECORD_COUNT
        && u64::from(get_u32(block, DATA_LEN)) <= ENTRY_DATA_LEN_MAX
        && crc32c::crc32c(&copy) == get_u32(block, HEADER_CRC);
    let slots = block[RECORDS..].chunks_exact(RECORD_LEN_BYTES).take(record_count);
    is_header.then(|| {
        Some(Entry {
            seq: get_u64(block, ENTRY_SEQ),
            flushed_seq: get_u64(block, FLUSHED_SEQ),
            header_len: Blocks::new(len),
            data_len: Blocks::new(u64::from(get_u32(block, DATA_LEN))),
            records: slots.map(Record::decode).collect::<Option<_>>()?,
        })
    })?
}

pub(super) const SUM_LEN_BYTES: usize = 12;

pub(super) fn encode_sum(sum: Sum) -> [u8; SUM_LEN_BYTES] {
    let mut bytes = [0; SUM_LEN_BYTES];
    put_u64(&mut bytes, 0, sum.lba.get());
    put_u32(&mut bytes, 8, sum.crc);
    bytes
}

pub(super) fn decode_sum(bytes: &[u8]) -> Sum {
    Sum { lba: Lba::new(get_u64(bytes, 0)), crc: get_u32(bytes, 8) }
}

/// The data blocks of a stretch; a summary follows them.
pub(super) const STRETCH_LEN: u64 = 127;
const SUMMARY_COUNT: usize = 12;
const SUMMARY_AT: usize = 24;
const SUMMARY_GENERATION: usize = 32;
const SUMS: usize = 64;
const _: () = assert!(SUMS + STRETCH_LEN as usize * SUM_LEN_BYTES <= CRC);

/// The summary for the place `at`, in a zone of this generation.
pub(super) fn encode_summary(id: u64, at: Lba, generation: u64, sums: &[Sum]) -> Block {
    let mut bytes = [0; BLOCK_LEN_BYTES];
    bytes[..VERSION].copy_from_slice(&SUMMARY_MAGIC);
    put_u32(&mut bytes, VERSION, FORMAT_VERSION);
    put_u32(&mut bytes, SUMMARY_COUNT, sums.len() as u32);
    put_u64(&mut bytes, ID, id);
    put_u64(&mut bytes, SUMMARY_AT, at.get());
    put_u64(&mut bytes, SUMMARY_GENERATION, generation);
    for (sum, slot) in sums.iter().zip(bytes[SUMS..CRC].chunks_exact_mut(SUM_LEN_BYTES)) {
        slot.copy_from_slice(&encode_sum(*sum));
    }
    let crc = crc32c::crc32c(&bytes[..CRC]);
    put_u32(&mut bytes, CRC, crc);
    bytes
}

/// The checksums of a stretch; `None` if this is not the summary of that device, place and
/// generation.
pub(super) fn decode_summary(id: u64, at: Lba, generation: u64, bytes: &[u8]) -> Option<Vec<Sum>> {
    let count = get_u32(bytes, SUMMARY_COUNT) as usize;
    let is_summary = bytes[..VERSION] == SUMMARY_MAGIC
        && get_u32(bytes, VERSION) == FORMAT_VERSION
        && get_u64(bytes, ID) == id
        && get_u64(bytes, SUMMARY_AT) == at.get()
        && get_u64(bytes, SUMMARY_GENERATION) == generation
        && crc32c::crc32c(&bytes[..CRC]) == get_u32(bytes, CRC)
        && count as u64 <= STRETCH_LEN;
    let slots = bytes[SUMS..CRC].chunks_exact(SUM_LEN_BYTES).take(count);
    is_summary.then(|| slots.map(decode_sum).collect())
}

/// The device and the generation that a block names if it is a summary.
pub(super) fn summary_names(bytes: &[u8]) -> (u64, u64) {
    (get_u64(bytes, ID), get_u64(bytes, SUMMARY_GENERATION))
}

#[cfg(test)]
mod tests;

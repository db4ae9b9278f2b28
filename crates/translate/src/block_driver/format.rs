#![doc = include_str!("../../docs/formats/block_driver.md")]

use crate::fields::{get_u32, get_u64, put_u32, put_u64};
use imbrex_disk::{BLOCK_LEN_BYTES, BlockRange, Blocks, Lba, Pba, ZoneId};

/// The version of every structure, and of a superblock that names no delta.
pub(super) const FORMAT_VERSION: u32 = 3;
/// The version of a superblock that names deltas.
pub(super) const DELTA_VERSION: u32 = 4;
const SUPERBLOCK_MAGIC: [u8; 8] = *b"IMSMRSB\n";
const CHECKPOINT_MAGIC: [u8; 8] = *b"IMSMRCP\n";
const DELTA_MAGIC: [u8; 8] = *b"IMSMRCD\n";
const ENTRY_MAGIC: [u8; 8] = *b"IMSMRJE\n";
const SUMMARY_MAGIC: [u8; 8] = *b"IMSMRZS\n";

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
        let has_deltas = deltas.count > 0;
        let version = if has_deltas { DELTA_VERSION } else { FORMAT_VERSION };
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
            FORMAT_VERSION | DELTA_VERSION
                if crc32c::crc32c(&bytes[..CRC]) != get_u32(bytes, CRC) =>
            {
                return Err(Fault::None);
            }
            FORMAT_VERSION | DELTA_VERSION => {}
            got => return Err(Fault::Version { got }),
        }
        let first_count = get_u32(bytes, ZONE_COUNT_OF_CHECKPOINT) as usize;
        let zone_count = first_count.saturating_add(get_u32(bytes, ZONE_COUNT_OF_SECOND) as usize);
        let has_deltas = get_u32(bytes, VERSION) == DELTA_VERSION;
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
const ADDRESS_END: u64 = 1 << 48;
/// No journal has more entries: some records have an entry's number where others have an address.
const SEQ_END: u64 = ADDRESS_END;

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

/// A run in a checkpoint: of the mapping, or of copies in the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) range: BlockRange,
    pub(super) at: Pba,
}

impl Run {
    /// A run of a delta that is no longer mapped.
    pub(super) fn unmapped(range: BlockRange) -> Run {
        Run { range, at: Pba::new(ADDRESS_END) }
    }

    /// Whether the run is mapped; only runs of deltas may be otherwise.
    pub(super) fn is_mapped(&self) -> bool {
        self.at.get() != ADDRESS_END
    }
}

/// The content of a checkpoint. In a delta, the mapping has only what changed, `generations` only
/// those that changed (0 where a zone has none any more), and the rest is whole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Checkpoint {
    /// The number of the next journal entry.
    pub(super) seq: u64,
    /// The place of that entry, unless it begins another zone.
    pub(super) next: Pba,
    /// The mapping, by LBA.
    pub(super) mapped: Vec<Run>,
    /// The contents of the write buffer and their places in the journal, by LBA.
    pub(super) copies: Vec<Run>,
    /// The checksum of each block of `copies`.
    pub(super) copy_crcs: Vec<u32>,
    /// Blocks that the host wrote and the drive lost, by LBA.
    pub(super) lost: Vec<BlockRange>,
    /// The generations of the data zones that have one.
    pub(super) generations: Vec<(ZoneId, u64)>,
    /// Checksums of blocks whose stretch has no summary yet.
    pub(super) sums: Vec<(Pba, Sum)>,
}

/// A checkpoint as bytes, encoded on demand: fixed fields, then runs as differences to the end of
/// the previous run, then the rest. The mapping comes from `mapped`, which may be long, instead of
/// the checkpoint.
#[derive(Debug)]
pub(super) struct CheckpointBytes<M> {
    bytes: Vec<u8>,
    next: Option<Run>,
    mapped: M,
    coder: RunCoder,
    /// The bytes after the mapping.
    rest: Vec<u8>,
}

impl<M: Iterator> CheckpointBytes<M>
where
    Run: From<M::Item>,
{
    /// `mapped_count` is the number of runs in `mapped`.
    pub(super) fn new(
        id: u64,
        checkpoint: &Checkpoint,
        mapped_count: usize,
        mut mapped: M,
    ) -> Self {
        let Checkpoint { seq, next, copies, copy_crcs, lost, generations, sums, .. } = checkpoint;
        let mut bytes = Vec::new();
        bytes.extend_from_slice(&CHECKPOINT_MAGIC);
        bytes.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
        bytes.extend_from_slice(&[0; 4]);
        let counts = [mapped_count, copies.len(), lost.len(), generations.len(), sums.len()];
        let counts = counts.map(|count| count as u64);
        for value in [id, *seq, next.get()].into_iter().chain(counts) {
            bytes.extend_from_slice(&value.to_le_bytes());
        }
        let mut rest = Vec::new();
        put_runs(&mut rest, copies.iter().copied());
        put_runs(&mut rest, lost.iter().map(|&range| Run { range, at: Pba::new(0) }));
        copy_crcs.iter().for_each(|crc| rest.extend_from_slice(&crc.to_le_bytes()));
        for (zone, generation) in generations {
            rest.extend_from_slice(&zone.0.to_le_bytes());
            rest.extend_from_slice(&generation.to_le_bytes());
        }
        for (at, sum) in sums {
            rest.extend_from_slice(&at.get().to_le_bytes());
            rest.extend_from_slice(&encode_sum(*sum));
        }
        let next = mapped.next().map(Run::from);
        CheckpointBytes { bytes, next, mapped, coder: RunCoder::default(), rest }
    }

    /// Encodes the bytes before `end`, or all; returns the total length once everything is encoded.
    pub(super) fn make(&mut self, end: usize) -> Option<usize> {
        while self.bytes.len() < end
            && let Some(run) = self.next
        {
            self.coder.put(&mut self.bytes, run);
            self.next = self.mapped.next().map(Run::from);
        }
        if self.next.is_some() {
            return None;
        }
        self.bytes.append(&mut self.rest);
        Some(self.bytes.len())
    }

    /// The bytes encoded so far.
    pub(super) fn made(&self) -> &[u8] {
        &self.bytes
    }
}

/// The first bytes of each delta: a magic, and the length of what follows.
pub(super) const DELTA_HEADER_LEN: usize = 16;
/// Set in the numbers of blocks of deltas, which are counted over all deltas of a checkpoint.
pub(super) const DELTA_INDEX: u64 = 1 << 63;

/// A delta as bytes: its header, and a checkpoint.
pub(super) fn encode_delta(id: u64, checkpoint: &Checkpoint) -> Vec<u8> {
    let mapped = checkpoint.mapped.iter().copied();
    let mut bytes = CheckpointBytes::new(id, checkpoint, checkpoint.mapped.len(), mapped);
    let len = bytes.make(usize::MAX).unwrap_or(0);
    let header = [DELTA_MAGIC, (len as u64).to_le_bytes()].concat();
    [&header[..], bytes.made()].concat()
}

/// The length of the checkpoint that follows the header of a delta; `None` if it is none.
pub(super) fn decode_delta_header(bytes: &[u8]) -> Option<u64> {
    (bytes.len() >= DELTA_HEADER_LEN && bytes[..8] == DELTA_MAGIC).then(|| get_u64(bytes, 8))
}

/// How many of its bytes a block of a checkpoint holds; their checksum follows.
pub(super) const PART_LEN_BYTES: usize = BLOCK_LEN_BYTES - 4;

/// How many blocks a copy of a checkpoint of `len_bytes` takes.
pub(super) fn checkpoint_len(len_bytes: u64) -> Blocks {
    Blocks::new(len_bytes.div_ceil(PART_LEN_BYTES as u64))
}

/// The checksum of a block of a checkpoint. It exposes a block of another device, another
/// checkpoint or another place as well as a rotten one.
fn part_crc(id: u64, number: u64, index: u64, part: &[u8]) -> u32 {
    let place = [id, number, index].map(u64::to_le_bytes).concat();
    crc32c::crc32c_append(crc32c::crc32c(&place), part)
}

/// Block `index` of checkpoint `number`: a part of its bytes.
pub(super) fn encode_part(id: u64, number: u64, index: u64, part: &[u8]) -> Block {
    let mut block = [0; BLOCK_LEN_BYTES];
    block[..part.len()].copy_from_slice(part);
    let crc = part_crc(id, number, index, &block[..PART_LEN_BYTES]);
    put_u32(&mut block, PART_LEN_BYTES, crc);
    block
}

/// The part that was given to [`encode_part`], padded with zeros; `None` if this is another block.
pub(super) fn decode_part(id: u64, number: u64, index: u64, block: &[u8]) -> Option<&[u8]> {
    let part = &block[..PART_LEN_BYTES];
    (part_crc(id, number, index, part) == get_u32(block, PART_LEN_BYTES)).then_some(part)
}

const CHECKPOINT_FIXED: usize = 16 + 8 * 8;
const GENERATION_LEN_BYTES: usize = 12;
const SUM_LEN_BYTES: usize = 12;

/// Decodes the bytes of [`CheckpointBytes`].
///
/// # Errors
/// What is wrong with the bytes.
pub(super) fn decode_checkpoint(id: u64, bytes: &[u8]) -> Result<Checkpoint, String> {
    if bytes.len() < CHECKPOINT_FIXED || bytes[..VERSION] != CHECKPOINT_MAGIC {
        return Err("its magic is wrong".to_owned());
    }
    if get_u32(bytes, VERSION) != FORMAT_VERSION || get_u64(bytes, 16) != id {
        return Err("it belongs to another version or device".to_owned());
    }
    if get_u64(bytes, 24) >= SEQ_END {
        return Err("its entry number is out of range".to_owned());
    }
    let count = |index: usize| get_u64(bytes, 40 + 8 * index);
    let mut rest = &bytes[CHECKPOINT_FIXED..];
    let mapped = get_runs(&mut rest, count(0))?;
    let copies = get_runs(&mut rest, count(1))?;
    let lost = get_runs(&mut rest, count(2))?;
    let copied: u128 = copies.iter().map(|run| u128::from(run.range.len.get())).sum();
    let crcs = take_table(&mut rest, copied, 4)?;
    let generations = take_table(&mut rest, count(3).into(), GENERATION_LEN_BYTES)?;
    let sums = take_table(&mut rest, count(4).into(), 8 + SUM_LEN_BYTES)?;
    if !rest.is_empty() {
        return Err(format!("{} bytes too many", rest.len()));
    }
    Ok(Checkpoint {
        seq: get_u64(bytes, 24),
        next: Pba::new(get_u64(bytes, 32)),
        mapped,
        copies,
        copy_crcs: crcs.map(|row| get_u32(row, 0)).collect(),
        lost: lost.into_iter().map(|run| run.range).collect(),
        generations: generations.map(|row| (ZoneId(get_u32(row, 0)), get_u64(row, 4))).collect(),
        sums: sums.map(|row| (Pba::new(get_u64(row, 0)), decode_sum(&row[8..]))).collect(),
    })
}

/// Takes the next `count` rows of `row_len_bytes` each.
fn take_table<'a>(
    rest: &mut &'a [u8],
    count: u128,
    row_len_bytes: usize,
) -> Result<impl Iterator<Item = &'a [u8]> + use<'a>, String> {
    let len = count.checked_mul(row_len_bytes as u128).and_then(|len| usize::try_from(len).ok());
    let split = len.and_then(|len| rest.split_at_checked(len));
    let (table, behind) = split.ok_or_else(|| format!("it ends within a table of {count} rows"))?;
    *rest = behind;
    Ok(table.chunks_exact(row_len_bytes))
}

fn encode_sum(sum: Sum) -> [u8; SUM_LEN_BYTES] {
    let mut bytes = [0; SUM_LEN_BYTES];
    put_u64(&mut bytes, 0, sum.lba.get());
    put_u32(&mut bytes, 8, sum.crc);
    bytes
}

fn decode_sum(bytes: &[u8]) -> Sum {
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

/// Runs, encoded as differences to the end of the previous run.
#[derive(Debug, Default)]
struct RunCoder {
    lba: u64,
    pba: u64,
}

impl RunCoder {
    fn put(&mut self, bytes: &mut Vec<u8>, run: Run) {
        let mut buffer = unsigned_varint::encode::u64_buffer();
        let step = run.at.get().wrapping_sub(self.pba) as i64;
        let zigzag = ((step << 1) ^ (step >> 63)) as u64;
        for value in [run.range.start.get() - self.lba, zigzag, run.range.len.get()] {
            bytes.extend_from_slice(unsigned_varint::encode::u64(value, &mut buffer));
        }
        (self.lba, self.pba) = (run.range.end().get(), run.at.get() + run.range.len.get());
    }
}

fn put_runs(bytes: &mut Vec<u8>, runs: impl Iterator<Item = Run>) {
    let mut coder = RunCoder::default();
    runs.for_each(|run| coder.put(bytes, run));
}

fn get_runs(rest: &mut &[u8], count: u64) -> Result<Vec<Run>, String> {
    // The shortest run takes three bytes, so a damaged count cannot make this allocate more than
    // the bytes could hold.
    let mut runs = Vec::with_capacity(count.min(rest.len() as u64 / 3) as usize);
    let (mut lba, mut pba) = (0u64, 0u64);
    for _ in 0..count {
        let start = lba.checked_add(get_varint(rest)?);
        let coded = get_varint(rest)?;
        let at = pba.wrapping_add((coded >> 1) ^ (coded & 1).wrapping_neg());
        let len = get_varint(rest)?;
        let end = start.and_then(|start| start.checked_add(len)).filter(|&end| end <= ADDRESS_END);
        let (Some(start), Some(end)) = (start, end) else {
            return Err("a run that does not end".into());
        };
        if at > ADDRESS_END {
            return Err("a run beyond every drive".into());
        }
        runs.push(Run {
            range: BlockRange::new(Lba::new(start), Blocks::new(len)),
            at: Pba::new(at),
        });
        (lba, pba) = (end, at + len);
    }
    Ok(runs)
}

fn get_varint(rest: &mut &[u8]) -> Result<u64, String> {
    let (value, behind) = unsigned_varint::decode::u64(rest).map_err(|error| error.to_string())?;
    *rest = behind;
    Ok(value)
}

#[cfg(test)]
mod tests;

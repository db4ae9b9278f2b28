#![doc = include_str!("../../docs/formats/fixed_bands.md")]

use super::options::{ReadBack, Staging};
use crate::fields::{get_u32, get_u64, put_u32, put_u64};
use imbrex_disk::{BLOCK_LEN_BYTES, BlockRange, Blocks, Lba};

pub(crate) const FORMAT_VERSION: u32 = 1;
const SUPERBLOCK_MAGIC: [u8; 8] = *b"IMBANDS\n";
const REGION_MAGIC: [u8; 8] = *b"IMBLOG1\n";

const VERSION: usize = 8;
const READ_BACK: usize = VERSION + 4;
const STAGING: usize = READ_BACK + 4;
const OVERLAP: usize = STAGING + 4;
const ID: usize = OVERLAP + 4;
const INNER_LEN: usize = ID + 8;
const TRACK_LEN: usize = INNER_LEN + 8;
const BAND_LEN: usize = TRACK_LEN + 8;
const BAND_COUNT: usize = BAND_LEN + 8;
const LOG_LEN: usize = BAND_COUNT + 8;
const RUN_COUNT_MAX: usize = LOG_LEN + 8;
const GATHER_LEN: usize = RUN_COUNT_MAX + 8;
const RESERVED: usize = GATHER_LEN + 8;
const CRC: usize = BLOCK_LEN_BYTES - 4;
const _: () = assert!(RESERVED == 88 && RESERVED <= CRC);

const REGION_ID: usize = 16;
const REGION_EPOCH: usize = REGION_ID + 8;
const REGION_RESERVED: usize = REGION_EPOCH + 8;
const _: () = assert!(REGION_RESERVED == 32);

const KIND_VALID: u8 = 1;
const KIND_DEAD: u8 = 2;
const KIND_REWRITE: u8 = 3;
const KIND_DONE: u8 = 4;
const KIND_SYNCED: u8 = 5;
const KIND_CHECKPOINT_END: u8 = 6;
const RUN_LEN_BYTES: usize = 16;
const REWRITE_RUNS: usize = 1 + 8 + 4 + 4 + 4;

/// Epochs and rewrites are numbered below this, so incrementing never wraps around.
pub(crate) const NUMBER_END: u64 = 1 << 63;

/// One block of the format.
pub(crate) type Block = [u8; BLOCK_LEN_BYTES];

/// The content of the superblock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Superblock {
    pub(crate) id: u64,
    pub(crate) inner_len: Blocks,
    pub(crate) track_len: Blocks,
    pub(crate) overlap_tracks: u32,
    pub(crate) band_len: Blocks,
    pub(crate) band_count: u64,
    pub(crate) log_len: Blocks,
    pub(crate) run_count_max: u64,
    pub(crate) gather_len: Blocks,
    pub(crate) read_back: ReadBack,
    pub(crate) staging: Staging,
}

/// Why a block is no superblock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The magic differs, or the checksum fails.
    None,
    /// The version differs.
    Version { got: u32 },
    /// A field has a value that no writer of this version writes.
    Field { field: &'static str },
}

impl Superblock {
    pub(crate) fn encode(&self) -> Block {
        let mut bytes = [0; BLOCK_LEN_BYTES];
        bytes[..VERSION].copy_from_slice(&SUPERBLOCK_MAGIC);
        put_u32(&mut bytes, VERSION, FORMAT_VERSION);
        put_u32(&mut bytes, READ_BACK, self.read_back as u32);
        put_u32(&mut bytes, STAGING, self.staging as u32);
        put_u32(&mut bytes, OVERLAP, self.overlap_tracks);
        for (at, value) in [
            (ID, self.id),
            (INNER_LEN, self.inner_len.get()),
            (TRACK_LEN, self.track_len.get()),
            (BAND_LEN, self.band_len.get()),
            (BAND_COUNT, self.band_count),
            (LOG_LEN, self.log_len.get()),
            (RUN_COUNT_MAX, self.run_count_max),
            (GATHER_LEN, self.gather_len.get()),
        ] {
            put_u64(&mut bytes, at, value);
        }
        seal(&mut bytes);
        bytes
    }

    pub(crate) fn decode(bytes: &Block) -> Result<Superblock, Fault> {
        if bytes[..VERSION] != SUPERBLOCK_MAGIC {
            return Err(Fault::None);
        }
        // Another version may place the other fields, including the checksum, elsewhere.
        match get_u32(bytes, VERSION) {
            FORMAT_VERSION if !is_sealed(bytes) => return Err(Fault::None),
            FORMAT_VERSION => {}
            got => return Err(Fault::Version { got }),
        }
        if bytes[RESERVED..CRC].iter().any(|&b| b != 0) {
            return Err(Fault::Field { field: "reserved" });
        }
        Ok(Superblock {
            id: get_u64(bytes, ID),
            inner_len: Blocks::new(get_u64(bytes, INNER_LEN)),
            track_len: Blocks::new(get_u64(bytes, TRACK_LEN)),
            overlap_tracks: get_u32(bytes, OVERLAP),
            band_len: Blocks::new(get_u64(bytes, BAND_LEN)),
            band_count: get_u64(bytes, BAND_COUNT),
            log_len: Blocks::new(get_u64(bytes, LOG_LEN)),
            run_count_max: get_u64(bytes, RUN_COUNT_MAX),
            gather_len: Blocks::new(get_u64(bytes, GATHER_LEN)),
            read_back: match get_u32(bytes, READ_BACK) {
                1 => ReadBack::ToEndOfValid,
                2 => ReadBack::WholeBand,
                _ => return Err(Fault::Field { field: "read_back" }),
            },
            staging: match get_u32(bytes, STAGING) {
                1 => Staging::Journaled,
                2 => Staging::None,
                _ => return Err(Fault::Field { field: "staging" }),
            },
        })
    }
}

/// The first block of a log region: the drive and the epoch of its log.
pub(crate) fn encode_region_header(id: u64, epoch: u64) -> Block {
    let mut bytes = [0; BLOCK_LEN_BYTES];
    bytes[..VERSION].copy_from_slice(&REGION_MAGIC);
    put_u32(&mut bytes, VERSION, FORMAT_VERSION);
    put_u64(&mut bytes, REGION_ID, id);
    put_u64(&mut bytes, REGION_EPOCH, epoch);
    seal(&mut bytes);
    bytes
}

/// The content of the first block of a log region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RegionHead {
    /// No log of this drive: the block is blank, or a sound header of another drive.
    Absent,
    /// A log of `epoch` follows.
    Log { epoch: u64 },
    /// Its checksum fails. No torn write leaves this: a block is never a mixture.
    Rotten,
    /// Its checksum is right, and a field is out of range.
    Unsound,
    /// The block cannot be read: perhaps it was being written when the power went.
    Unreadable,
}

impl RegionHead {
    /// The epoch of the log; 0 where there is none.
    pub(crate) fn epoch(self) -> u64 {
        match self {
            RegionHead::Log { epoch } => epoch,
            RegionHead::Absent
            | RegionHead::Rotten
            | RegionHead::Unsound
            | RegionHead::Unreadable => 0,
        }
    }
}

/// Reads the header of a log region of drive `id`.
pub(crate) fn decode_region_header(id: u64, bytes: &Block) -> RegionHead {
    if bytes.iter().all(|&b| b == 0) {
        return RegionHead::Absent;
    }
    if !is_sealed(bytes) {
        return RegionHead::Rotten;
    }
    let is_sound = bytes[..VERSION] == REGION_MAGIC
        && get_u32(bytes, VERSION) == FORMAT_VERSION
        && get_u32(bytes, VERSION + 4) == 0
        && get_u64(bytes, REGION_EPOCH) < NUMBER_END
        && bytes[REGION_RESERVED..CRC].iter().all(|&b| b == 0);
    match is_sound {
        true if get_u64(bytes, REGION_ID) == id => {
            RegionHead::Log { epoch: get_u64(bytes, REGION_EPOCH) }
        }
        true => RegionHead::Absent,
        false => RegionHead::Unsound,
    }
}

/// A rewrite of a band. Its pieces are stored one after another in a staging slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rewrite {
    pub(crate) seq: u64,
    pub(crate) slot: u32,
    pub(crate) crc: u32,
    pub(crate) pieces: Vec<BlockRange>,
}

/// One record of the journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Record {
    /// These blocks hold data from now on.
    Valid(Vec<BlockRange>),
    /// These blocks no longer hold data.
    Dead(Vec<BlockRange>),
    /// A rewrite is about to begin; its pieces are durable in their slot.
    Rewrite(Rewrite),
    /// The rewrite is durable in its band.
    Done { seq: u64 },
    /// All records before this one, and the data that they describe, are durable.
    Synced,
    /// The records so far are a whole checkpoint.
    CheckpointEnd { run_count: u64 },
}

impl Record {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        match self {
            Record::Valid(runs) => put_runs(&mut bytes, &[KIND_VALID], runs),
            Record::Dead(runs) => put_runs(&mut bytes, &[KIND_DEAD], runs),
            Record::Rewrite(rewrite) => {
                bytes.push(KIND_REWRITE);
                bytes.extend_from_slice(&rewrite.seq.to_le_bytes());
                bytes.extend_from_slice(&rewrite.slot.to_le_bytes());
                put_runs(&mut bytes, &rewrite.crc.to_le_bytes(), &rewrite.pieces);
            }
            Record::Done { seq } => {
                bytes.push(KIND_DONE);
                bytes.extend_from_slice(&seq.to_le_bytes());
            }
            Record::Synced => bytes.push(KIND_SYNCED),
            Record::CheckpointEnd { run_count } => {
                bytes.push(KIND_CHECKPOINT_END);
                bytes.extend_from_slice(&run_count.to_le_bytes());
            }
        }
        bytes
    }

    /// `None` if the bytes are no record of this version.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Record> {
        let (&kind, rest) = bytes.split_first()?;
        match kind {
            KIND_VALID => Some(Record::Valid(get_runs(rest)?)),
            KIND_DEAD => Some(Record::Dead(get_runs(rest)?)),
            KIND_REWRITE => {
                let (seq, rest) = rest.split_first_chunk()?;
                let (slot, rest) = rest.split_first_chunk()?;
                let (crc, rest) = rest.split_first_chunk()?;
                Some(Record::Rewrite(Rewrite {
                    seq: u64::from_le_bytes(*seq),
                    slot: u32::from_le_bytes(*slot),
                    crc: u32::from_le_bytes(*crc),
                    pieces: get_runs(rest)?,
                }))
            }
            KIND_DONE => Some(Record::Done { seq: u64::from_le_bytes(rest.try_into().ok()?) }),
            KIND_SYNCED => rest.is_empty().then_some(Record::Synced),
            KIND_CHECKPOINT_END => {
                let run_count = u64::from_le_bytes(rest.try_into().ok()?);
                Some(Record::CheckpointEnd { run_count })
            }
            _ => None,
        }
    }

    /// The most bytes that a record of `run_count` runs takes.
    pub(crate) fn len_bytes_max(run_count: u64) -> u64 {
        REWRITE_RUNS as u64 + run_count * RUN_LEN_BYTES as u64
    }
}

fn put_runs(bytes: &mut Vec<u8>, head: &[u8], runs: &[BlockRange]) {
    bytes.extend_from_slice(head);
    bytes.extend_from_slice(&(runs.len() as u32).to_le_bytes());
    for run in runs {
        bytes.extend_from_slice(&run.start.get().to_le_bytes());
        bytes.extend_from_slice(&run.len.get().to_le_bytes());
    }
}

/// Runs that are not empty and do not wrap around.
fn get_runs(bytes: &[u8]) -> Option<Vec<BlockRange>> {
    let (count, rest) = bytes.split_first_chunk()?;
    let (runs, tail) = rest.as_chunks::<RUN_LEN_BYTES>();
    if !tail.is_empty() || runs.len() != u32::from_le_bytes(*count) as usize {
        return None;
    }
    let run = |bytes: &[u8; RUN_LEN_BYTES]| {
        let (start, len) = (get_u64(bytes, 0), get_u64(bytes, 8));
        let is_sound = len > 0 && start.checked_add(len).is_some();
        is_sound.then(|| BlockRange::new(Lba::new(start), Blocks::new(len)))
    };
    runs.iter().map(run).collect()
}

fn seal(bytes: &mut Block) {
    let crc = crc32c::crc32c(&bytes[..CRC]);
    put_u32(bytes, CRC, crc);
}

fn is_sealed(bytes: &Block) -> bool {
    get_u32(bytes, CRC) == crc32c::crc32c(&bytes[..CRC])
}

#[cfg(test)]
mod tests;

//! The bytes of a checkpoint, and of the deltas that follow it; docs/formats/block_driver.md has
//! the layout.
//!
//! The mapping may be long: it is encoded and decoded run by run (`RunCoder`), and the bytes that are
//! written need not stay in memory. The number of runs may be known at the end only.
//!
//! Not here: all other structures (`format`), when a checkpoint is written (`checkpointing`).

use super::format::{
    ADDRESS_END, Block, FORMAT_VERSION, SEQ_END, SUM_LEN_BYTES, Sum, VERSION, decode_sum,
    encode_sum,
};
use super::mapping::MapRun;
use crate::fields::{get_u32, get_u64, put_u32};
use imbrex_disk::{BLOCK_LEN_BYTES, BlockRange, Blocks, Lba, Pba, ZoneId};

const CHECKPOINT_MAGIC: [u8; 8] = *b"IMSMRCP\n";
const DELTA_MAGIC: [u8; 8] = *b"IMSMRCD\n";

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

impl From<MapRun> for Run {
    fn from(run: MapRun) -> Run {
        Run { range: run.range(), at: run.at }
    }
}

impl From<Run> for MapRun {
    fn from(run: Run) -> MapRun {
        MapRun { start: run.range.start, at: run.at, len: run.range.len }
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

/// `mapped_count` of a checkpoint whose mapping ends with a run of no length.
pub(super) const OPEN_ENDED: u64 = u64::MAX;

/// A checkpoint as bytes, encoded on demand: fixed fields, then runs as differences to the end of
/// the previous run, then the rest. The mapping comes from `mapped`, which may be long, instead of
/// the checkpoint.
#[derive(Debug)]
pub(super) struct CheckpointBytes<M> {
    /// The bytes from number `dropped` on.
    bytes: Vec<u8>,
    dropped: usize,
    next: Option<Run>,
    mapped: M,
    coder: RunCoder,
    is_open_ended: bool,
    /// The bytes after the mapping; `None` once they are in `bytes`.
    rest: Option<Vec<u8>>,
    /// The number of the byte behind the last run, once that is encoded.
    runs_end: Option<u64>,
}

impl<M: Iterator> CheckpointBytes<M>
where
    Run: From<M::Item>,
{
    /// `mapped_count` is the number of runs in `mapped`, if that is known.
    pub(super) fn new(
        id: u64,
        checkpoint: &Checkpoint,
        mapped_count: Option<u64>,
        mut mapped: M,
    ) -> Self {
        let Checkpoint { seq, next, copies, copy_crcs, lost, generations, sums, .. } = checkpoint;
        let mut bytes = Vec::new();
        bytes.extend_from_slice(&CHECKPOINT_MAGIC);
        bytes.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
        bytes.extend_from_slice(&[0; 4]);
        let counts = [copies.len(), lost.len(), generations.len(), sums.len()];
        let counts = counts.map(|count| count as u64);
        let fixed = [id, *seq, next.get(), mapped_count.unwrap_or(OPEN_ENDED)];
        for value in fixed.into_iter().chain(counts) {
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
        CheckpointBytes {
            bytes,
            dropped: 0,
            next,
            mapped,
            coder: RunCoder::default(),
            is_open_ended: mapped_count.is_none(),
            rest: Some(rest),
            runs_end: None,
        }
    }

    /// Encodes the bytes before number `end`, or all; returns the total length once everything is
    /// encoded. `note` gets each run with what encodes it and the number of its first byte.
    pub(super) fn make(
        &mut self,
        end: usize,
        note: &mut dyn FnMut(Run, RunCoder, u64),
    ) -> Option<usize> {
        while self.dropped + self.bytes.len() < end
            && let Some(run) = self.next
        {
            note(run, self.coder, (self.dropped + self.bytes.len()) as u64);
            self.coder.put(&mut self.bytes, run);
            self.next = self.mapped.next().map(Run::from);
        }
        if self.next.is_some() {
            return None;
        }
        if let Some(mut rest) = self.rest.take() {
            self.runs_end = Some((self.dropped + self.bytes.len()) as u64);
            if self.is_open_ended {
                self.bytes.extend_from_slice(&END_OF_RUNS);
            }
            self.bytes.append(&mut rest);
        }
        Some(self.dropped + self.bytes.len())
    }

    /// The bytes encoded so far, from number `at` on, which must not be dropped.
    pub(super) fn made_from(&self, at: usize) -> &[u8] {
        &self.bytes[(at - self.dropped).min(self.bytes.len())..]
    }

    /// Drops the bytes before number `end`. A caller that does so after each step keeps a step of them.
    pub(super) fn drop_before(&mut self, end: usize) {
        let count = end.saturating_sub(self.dropped).min(self.bytes.len());
        self.bytes.drain(..count);
        self.dropped += count;
    }

    /// Where the mapping comes from.
    pub(super) fn mapped(&self) -> &M {
        &self.mapped
    }

    /// The same, to be changed.
    pub(super) fn mapped_mut(&mut self) -> &mut M {
        &mut self.mapped
    }

    /// The number of the byte behind the last run; `None` before that is encoded.
    pub(super) fn runs_end(&self) -> Option<u64> {
        self.runs_end
    }
}

/// The first bytes of each delta: a magic, and the length of what follows.
pub(super) const DELTA_HEADER_LEN: usize = 16;
/// Set in the numbers of blocks of deltas, which are counted over all deltas of a checkpoint.
pub(super) const DELTA_INDEX: u64 = 1 << 63;

/// A delta as bytes: its header, and a checkpoint.
pub(super) fn encode_delta(id: u64, checkpoint: &Checkpoint) -> Vec<u8> {
    let mapped = checkpoint.mapped.iter().copied();
    let count = checkpoint.mapped.len() as u64;
    let mut bytes = CheckpointBytes::new(id, checkpoint, Some(count), mapped);
    let len = bytes.make(usize::MAX, &mut |_, _, _| {}).unwrap_or(0);
    let header = [DELTA_MAGIC, (len as u64).to_le_bytes()].concat();
    [&header[..], bytes.made_from(0)].concat()
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

/// The length of the fields before the mapping.
pub(super) const CHECKPOINT_FIXED: usize = 16 + 8 * 8;
const GENERATION_LEN_BYTES: usize = 12;

/// The fields before the mapping of a checkpoint.
#[derive(Clone, Copy, Debug)]
pub(super) struct CheckpointFields {
    seq: u64,
    next: Pba,
    /// Of the mapping, the copies, the lost ranges, the generations and the sums.
    counts: [u64; 5],
}

impl CheckpointFields {
    /// Decodes the first bytes of a checkpoint.
    ///
    /// # Errors
    /// What is wrong with them.
    pub(super) fn decode(id: u64, bytes: &[u8]) -> Result<CheckpointFields, String> {
        if bytes.len() < CHECKPOINT_FIXED || bytes[..VERSION] != CHECKPOINT_MAGIC {
            return Err("its magic is wrong".to_owned());
        }
        if get_u32(bytes, VERSION) != FORMAT_VERSION || get_u64(bytes, 16) != id {
            return Err("it belongs to another version or device".to_owned());
        }
        if get_u64(bytes, 24) >= SEQ_END {
            return Err("its entry number is out of range".to_owned());
        }
        Ok(CheckpointFields {
            seq: get_u64(bytes, 24),
            next: Pba::new(get_u64(bytes, 32)),
            counts: std::array::from_fn(|index| get_u64(bytes, 40 + 8 * index)),
        })
    }

    /// How many runs the mapping has; `None` if its end is marked.
    pub(super) fn mapped_count(&self) -> Option<u64> {
        Some(self.counts[0]).filter(|&count| count != OPEN_ENDED)
    }

    /// Decodes what follows the mapping. The checkpoint has `mapped`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn decode_rest(
        &self,
        mapped: Vec<Run>,
        mut rest: &[u8],
    ) -> Result<Checkpoint, String> {
        let copies = get_runs(&mut rest, self.counts[1])?;
        let lost = get_runs(&mut rest, self.counts[2])?;
        let copied: u128 = copies.iter().map(|run| u128::from(run.range.len.get())).sum();
        let crcs = take_table(&mut rest, copied, 4)?;
        let generations = take_table(&mut rest, self.counts[3].into(), GENERATION_LEN_BYTES)?;
        let sums = take_table(&mut rest, self.counts[4].into(), 8 + SUM_LEN_BYTES)?;
        if !rest.is_empty() {
            return Err(format!("{} bytes too many", rest.len()));
        }
        let generation = |row: &[u8]| (ZoneId(get_u32(row, 0)), get_u64(row, 4));
        Ok(Checkpoint {
            seq: self.seq,
            next: self.next,
            mapped,
            copies,
            copy_crcs: crcs.map(|row| get_u32(row, 0)).collect(),
            lost: lost.into_iter().map(|run| run.range).collect(),
            generations: generations.map(generation).collect(),
            sums: sums.map(|row| (Pba::new(get_u64(row, 0)), decode_sum(&row[8..]))).collect(),
        })
    }
}

/// Decodes the bytes of [`CheckpointBytes`], except those of an open-ended mapping.
///
/// # Errors
/// What is wrong with the bytes.
pub(super) fn decode_checkpoint(id: u64, bytes: &[u8]) -> Result<Checkpoint, String> {
    let fields = CheckpointFields::decode(id, bytes)?;
    let mut rest = &bytes[CHECKPOINT_FIXED..];
    let mapped = get_runs(&mut rest, fields.counts[0])?;
    fields.decode_rest(mapped, rest)
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

/// The longest encoding of a run.
pub(super) const RUN_LEN_BYTES_MAX: usize = 3 * 10;
/// A run of no length.
const END_OF_RUNS: [u8; 3] = [0; 3];

/// Encodes and decodes runs as differences to the end of the previous run.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RunCoder {
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

    /// Decodes the next run from the front of `rest`; it has no length where a mapping ends.
    ///
    /// # Errors
    /// What is wrong with the bytes.
    pub(super) fn get(&mut self, rest: &mut &[u8]) -> Result<Run, String> {
        let start = self.lba.checked_add(get_varint(rest)?);
        let coded = get_varint(rest)?;
        let at = self.pba.wrapping_add((coded >> 1) ^ (coded & 1).wrapping_neg());
        let len = get_varint(rest)?;
        let end = start.and_then(|start| start.checked_add(len)).filter(|&end| end <= ADDRESS_END);
        let (Some(start), Some(end)) = (start, end) else {
            return Err("a run that does not end".into());
        };
        if at > ADDRESS_END {
            return Err("a run beyond every drive".into());
        }
        (self.lba, self.pba) = (end, at + len);
        let range = BlockRange::new(Lba::new(start), Blocks::new(len));
        Ok(Run { range, at: Pba::new(at) })
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
    let mut coder = RunCoder::default();
    for _ in 0..count {
        runs.push(coder.get(rest)?);
    }
    Ok(runs)
}

fn get_varint(rest: &mut &[u8]) -> Result<u64, String> {
    let (value, behind) = unsigned_varint::decode::u64(rest).map_err(|error| error.to_string())?;
    *rest = behind;
    Ok(value)
}

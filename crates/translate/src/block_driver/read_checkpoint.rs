//! Reads the newest checkpoint, block by block from either copy.
//!
//! ```text
//!     deltas    all of them, merged                               few runs, in memory
//!     base      | fields | runs, one after the other | the rest |   in memory too, if all nodes fit
//! ```
//!
//! If the nodes do not fit, only where they are is noted, and which places they lead to (`base`). The
//! parts that deltas cover are not.
//!
//! Not here: the bytes (`checkpoint_format`).

use super::base::BaseBuilder;
use super::checkpoint_format::{
    CHECKPOINT_FIXED, Checkpoint, CheckpointFields, DELTA_HEADER_LEN, DELTA_INDEX,
    RUN_LEN_BYTES_MAX, Run, RunCoder, checkpoint_len, decode_checkpoint, decode_delta_header,
};
use super::error::{DriverError, damaged};
use super::format::{Stored, Superblock};
use super::mapping::{MapRun, Mapping, PbaRange};
use super::overlay::{DeltaRuns, overlay};
use super::part_reader::PartReader;
use super::step::READ_LEN;
use super::zones::spec;
use crate::error::FormatFault;
use imbrex_disk::{BlockRange, Blocks, Disk, ZoneId};
use std::collections::BTreeMap;

/// What a node takes in memory, in both orders, when many are built at once.
const NODE_BYTES: u64 = 36;

/// The newest checkpoint with its deltas.
pub(super) struct Newest {
    /// All of it but the mapping.
    pub(super) checkpoint: Checkpoint,
    pub(super) map: NewestMap,
    /// How many of its blocks came from the second copy.
    pub(super) second_count: u64,
}

/// The mapping of a checkpoint with its deltas.
pub(super) enum NewestMap {
    /// All of it.
    Whole(Vec<Run>),
    /// It does not fit. Where its nodes are, and what deltas say is newer.
    Base(BaseBuilder, Vec<Run>),
}

/// Reads the newest checkpoint with its deltas. Its nodes may take about `bound_bytes` of memory.
pub(super) fn read_checkpoint(
    disk: &dyn Disk,
    superblock: &Superblock,
    bound_bytes: u64,
) -> Result<Newest, DriverError> {
    let stored = &superblock.checkpoint;
    let mut reader = PartReader::new(disk, superblock.id, stored.number);
    let (newer, deltas) = read_deltas(&mut reader, superblock)?;
    let bytes = ByteStream::new(&mut reader, stored);
    let (base, map) = read_base(bytes, superblock, newer, bound_bytes)?;
    let mut generations: BTreeMap<ZoneId, u64> = base.generations.iter().copied().collect();
    let mut checkpoint = base;
    for delta in deltas {
        generations.extend(delta.generations.iter().copied());
        checkpoint = delta;
    }
    checkpoint.generations = generations.into_iter().collect();
    Ok(Newest { checkpoint, map, second_count: reader.second_count })
}

fn damage(detail: String) -> DriverError {
    FormatFault::damaged("checkpoint", detail).into()
}

/// The runs of all deltas together, and the deltas without runs.
fn read_deltas(
    reader: &mut PartReader<'_>,
    superblock: &Superblock,
) -> Result<(DeltaRuns, Vec<Checkpoint>), DriverError> {
    let stored = &superblock.checkpoint.deltas;
    let (mut runs, mut deltas) = (DeltaRuns::default(), Vec::new());
    let mut at = 0;
    for number in 1..=stored.count {
        let first = reader.read(&stored.copies, at..at + 1, DELTA_INDEX)?;
        let len_bytes =
            decode_delta_header(&first).and_then(|len| len.checked_add(DELTA_HEADER_LEN as u64));
        let len = len_bytes.map_or(0, |len| checkpoint_len(len).get());
        if len == 0 || stored.len - at < len {
            return Err(damage(format!("delta {number} exceeds its zones")));
        }
        let mut bytes = first;
        bytes.extend(reader.read(&stored.copies, at + 1..at + len, DELTA_INDEX)?);
        bytes.truncate(len_bytes.unwrap_or(0) as usize);
        at += len;
        let mut delta =
            decode_checkpoint(superblock.id, &bytes[DELTA_HEADER_LEN..]).map_err(damage)?;
        runs.push(std::mem::take(&mut delta.mapped));
        deltas.push(delta);
    }
    if at != stored.len {
        return Err(damage(format!("its deltas end at block {at} of {}", stored.len)));
    }
    Ok((runs, deltas))
}

/// Reads a checkpoint without its deltas. `newer` are the runs of the deltas.
fn read_base(
    mut bytes: ByteStream<'_, '_>,
    superblock: &Superblock,
    newer: DeltaRuns,
    bound_bytes: u64,
) -> Result<(Checkpoint, NewestMap), DriverError> {
    bytes.fill(CHECKPOINT_FIXED)?;
    let fields = CheckpointFields::decode(superblock.id, bytes.left()).map_err(damage)?;
    bytes.skip(CHECKPOINT_FIXED);
    let most = bound_bytes / 8 * 7 / NODE_BYTES;
    let fits = fields.mapped_count().is_none_or(|count| count <= most);
    let is_certain = fits && fields.mapped_count().is_some();
    let spec = spec(superblock);
    let mut noted = (!is_certain).then(|| BaseBuilder::new(spec));
    let mut whole = fits.then(Vec::new);
    let newer = newer.into_runs();
    let mut covered = newer.iter().map(|run| run.range).peekable();
    let no_map = Mapping::new(spec).map_err(damaged("checkpoint"))?;
    let mut coder = RunCoder::default();
    let mut count = 0;
    while fields.mapped_count() != Some(count) {
        bytes.fill(RUN_LEN_BYTES_MAX)?;
        let (offset, before) = (bytes.offset(), coder);
        let mut left = bytes.left();
        let run = coder.get(&mut left).map_err(damage)?;
        let len = bytes.left().len() - left.len();
        bytes.skip(len);
        if run.range.len.is_zero() && fields.mapped_count().is_none() {
            if let Some(noted) = &mut noted {
                noted.end(offset);
            }
            break;
        }
        count += 1;
        if let Some(noted) = &mut noted {
            no_map.check_node(MapRun::from(run)).map_err(damaged("checkpoint"))?;
            noted.note_place(run, before, offset);
            for part in uncovered(run, &mut covered) {
                if !noted.note_live(part) {
                    return Err(damage(format!("two nodes have places in {part}")));
                }
            }
        }
        if let Some(runs) = &mut whole {
            runs.push(run);
            if most < runs.len() as u64 {
                whole = None;
            }
        }
    }
    if let Some(noted) = noted.as_mut().filter(|_| fields.mapped_count().is_some()) {
        noted.end(bytes.offset());
    }
    let rest = bytes.into_rest()?;
    let checkpoint = fields.decode_rest(Vec::new(), &rest).map_err(damage)?;
    let map = match (whole, noted) {
        (Some(runs), _) => NewestMap::Whole(newest_runs(newer, runs)),
        (None, Some(noted)) => NewestMap::Base(noted, newer),
        (None, None) => return Err(damage("its nodes are neither kept nor noted".to_owned())),
    };
    Ok((checkpoint, map))
}

/// The runs of a checkpoint and its deltas, without those that are no longer mapped.
fn newest_runs(newer: Vec<Run>, older: Vec<Run>) -> Vec<Run> {
    match newer.is_empty() {
        true => older,
        false => overlay(newer.into_iter(), older.into_iter()).filter(Run::is_mapped).collect(),
    }
}

/// The places of the parts of `run` that are not `covered`. Runs come in order.
fn uncovered(
    run: Run,
    covered: &mut std::iter::Peekable<impl Iterator<Item = BlockRange> + Clone>,
) -> Vec<PbaRange> {
    while covered.next_if(|range| range.end() <= run.range.start).is_some() {}
    let mut parts = Vec::new();
    let mut at = run.range.start;
    let inside = covered.clone().take_while(|range| range.start < run.range.end());
    let ends = inside.chain([BlockRange::new(run.range.end(), Blocks::ZERO)]);
    for range in ends {
        if at < range.start {
            let start = run.at + (at - run.range.start);
            parts.push(PbaRange { start, len: range.start - at });
        }
        at = at.max(range.end());
    }
    parts
}

/// The bytes of a checkpoint, read as they are asked for.
struct ByteStream<'r, 'a> {
    reader: &'r mut PartReader<'a>,
    copies: &'r [Vec<ZoneId>; 2],
    next_block: u64,
    len_bytes: u64,
    /// What was read; the bytes before `skipped` are done with.
    bytes: Vec<u8>,
    skipped: usize,
    /// The number of the first of `bytes`.
    first: u64,
}

impl<'r, 'a> ByteStream<'r, 'a> {
    fn new(reader: &'r mut PartReader<'a>, stored: &'r Stored) -> ByteStream<'r, 'a> {
        ByteStream {
            reader,
            copies: &stored.copies,
            next_block: 0,
            len_bytes: stored.len_bytes,
            bytes: Vec::new(),
            skipped: 0,
            first: 0,
        }
    }

    /// Reads until `least` bytes are left, or all.
    fn fill(&mut self, least: usize) -> Result<(), DriverError> {
        let block_count = checkpoint_len(self.len_bytes).get();
        while self.left().len() < least && self.next_block < block_count {
            self.bytes.drain(..self.skipped);
            self.first += self.skipped as u64;
            self.skipped = 0;
            let end = block_count.min(self.next_block + READ_LEN);
            self.bytes.extend(self.reader.read(self.copies, self.next_block..end, 0)?);
            self.next_block = end;
            let len = (self.len_bytes - self.first).min(self.bytes.len() as u64);
            self.bytes.truncate(len as usize);
        }
        Ok(())
    }

    fn left(&self) -> &[u8] {
        &self.bytes[self.skipped..]
    }

    fn skip(&mut self, count: usize) {
        self.skipped = (self.skipped + count).min(self.bytes.len());
    }

    /// The number of the next byte.
    fn offset(&self) -> u64 {
        self.first + self.skipped as u64
    }

    /// All bytes that are left.
    fn into_rest(mut self) -> Result<Vec<u8>, DriverError> {
        self.fill(usize::MAX)?;
        self.bytes.drain(..self.skipped);
        Ok(self.bytes)
    }
}

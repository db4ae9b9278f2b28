//! Opens bands: restores what the journal says.
//!
//! ```text
//!   superblock -> flush -> the newer log with a whole checkpoint -> runs, a rewrite under way, unsynced runs
//!      1. write the rewrite's pieces from its slot to the band (again, if the power goes)
//!      2. look which unsynced runs were destroyed on their way: they are not valid
//!      3. checkpoint in the other region; discard what is not valid
//! ```
//!
//! Until the checkpoint of step 3 is whole, the next opening reads the same log and does the same.
//! The flush comes first because a process that was killed in a sync leaves its writes in the
//! drive's cache. Step 1 would destroy blocks on the strength of cached records alone, and step 3
//! discards the other log, which may be the durable one.

use super::below::{Below, LOOK_LEN, Purpose};
use super::error::{BandsError, during};
use super::format::{
    Block, FORMAT_VERSION, Fault, NUMBER_END, Record, RegionHead, Rewrite, Superblock,
    decode_region_header,
};
use super::journal::{BandJournal, epoch_of, log_id};
use super::layout::{BandLayout, Region};
use super::options::Staging;
use super::runs::Runs;
use crate::error::FormatFault;
use imbrex_disk::{Activity, BLOCK_LEN_BYTES, BlockRange, Blocks, DiskError, Lba, Persist};
use imbrex_record_log::{Decoder, End, LogBounds, log_id_of};

/// The content of one log.
#[derive(Debug, Default)]
struct LogContent {
    valid: Runs,
    /// Blocks that are valid by records without a later `synced`.
    unsynced: Runs,
    rewrite: Option<Rewrite>,
    next_seq: u64,
    is_checkpoint_whole: bool,
}

/// Bands, recovered.
#[derive(Debug)]
pub(crate) struct Recovered {
    pub(crate) layout: BandLayout,
    pub(crate) valid: Runs,
    pub(crate) journal: BandJournal,
    pub(crate) next_seq: u64,
}

/// Opens the bands on the drive below.
pub(crate) fn recover(below: &Below) -> Result<Recovered, BandsError> {
    let layout = BandLayout::of(below.disk().geometry(), read_superblock(below)?)?;
    below.flush(Activity::Other).map_err(during("flushing the drive"))?;
    let (region, epoch, mut content) = read_logs(below, &layout)?;
    if let Some(rewrite) = content.rewrite.take() {
        replay(below, &layout, &content.valid, &rewrite)?;
        for &piece in &rewrite.pieces {
            content.valid.insert(piece);
            content.unsynced.remove(piece);
        }
    }
    if layout.superblock.staging == Staging::Journaled {
        drop_destroyed(below, &layout, &mut content)
            .map_err(during("looking at unsynced blocks"))?;
    }
    // A power cut may have split runs, or an earlier version made the log and kept more runs than
    // it holds.
    let too_many = (content.valid.count() as u64).saturating_sub(layout.run_count_limit());
    close_gaps(below, &layout, &mut content.valid, too_many)
        .map_err(during("looking between valid blocks"))?;
    let journal = BandJournal::begin(below, &layout, 1 - region, epoch + 1, &content.valid)
        .map_err(during("writing a checkpoint"))?;
    let whole = BlockRange::new(Lba::new(0), layout.geometry.len());
    for gap in content.valid.gaps(whole) {
        discard(below, &layout, gap).map_err(during("discarding blocks that are not valid"))?;
    }
    Ok(Recovered { layout, valid: content.valid, journal, next_seq: content.next_seq })
}

/// Removes `count` gaps between runs: the shortest blank ones count as valid from now on (F6).
fn close_gaps(
    below: &Below,
    layout: &BandLayout,
    valid: &mut Runs,
    count: u64,
) -> Result<(), DiskError> {
    if count == 0 {
        return Ok(());
    }
    // Writes that the disk below has not finished may still destroy something there.
    below.flush(Activity::Other)?;
    let mut left = count as usize;
    let mut others = Vec::new();
    for gap in valid.gaps_by_len() {
        if left == 0 {
            break;
        }
        discard(below, layout, gap)?;
        let mut parts = layout.by_band(gap);
        let is_blank = parts
            .all(|part| below.is_blank(Region { start: layout.locate(part.start), len: part.len }));
        if is_blank {
            valid.insert(gap);
            left -= 1;
        } else {
            others.push(gap);
        }
    }
    // Unreadable blocks that were never written are better than a drive that does not open.
    others.into_iter().take(left).for_each(|gap| valid.insert(gap));
    Ok(())
}

fn discard(below: &Below, layout: &BandLayout, range: BlockRange) -> Result<(), DiskError> {
    layout.by_band(range).try_for_each(|part| {
        below.discard(Region { start: layout.locate(part.start), len: part.len })
    })
}

/// The contents of the first blocks of both log regions.
pub(crate) fn read_heads(below: &Below, layout: &BandLayout) -> Result<[RegionHead; 2], DiskError> {
    let mut heads = [RegionHead::Absent; 2];
    for (head, log) in heads.iter_mut().zip(layout.logs) {
        let mut block: Block = [0; BLOCK_LEN_BYTES];
        *head = match below.read_for_recovery(log.start, &mut block) {
            Err(DiskError::Medium { .. }) => RegionHead::Unreadable,
            read => read.map(|()| decode_region_header(layout.superblock.id, &block))?,
        };
    }
    Ok(heads)
}

pub(crate) fn read_superblock(below: &Below) -> Result<Superblock, BandsError> {
    let geometry = below.disk().geometry();
    let imbrex_disk::Rule::IsolationDistance(shingle) = geometry.rule() else {
        return Err(BandsError::WrongRule { got: geometry.rule().name() });
    };
    // The second copy follows the first one's guard: the drive determines both places.
    let second = shingle.track_len.get() * (1 + u64::from(shingle.overlap_tracks));
    let mut fault = Fault::None;
    for at in [0, second] {
        let range = BlockRange::new(Lba::new(at), Blocks::new(1));
        if !geometry.holds(range) {
            continue;
        }
        let mut block: Block = [0; BLOCK_LEN_BYTES];
        match below.read_for_recovery(imbrex_disk::Pba::new(at), &mut block) {
            Err(DiskError::Medium { .. }) => continue,
            other => other.map_err(during("reading a superblock"))?,
        }
        match Superblock::decode(&block) {
            Ok(superblock) => return Ok(superblock),
            Err(Fault::None) => {}
            Err(other) => fault = other,
        }
    }
    Err(match fault {
        Fault::None => BandsError::NotBands,
        Fault::Version { got } => {
            FormatFault::Version { layer: "fixed bands", expected: FORMAT_VERSION, got }.into()
        }
        Fault::Field { field } => {
            FormatFault::damaged("superblock", format!("field {field} is out of range")).into()
        }
    })
}

/// The region and content of the log that counts, and the highest epoch so far.
fn read_logs(below: &Below, layout: &BandLayout) -> Result<(usize, u64, LogContent), BandsError> {
    let failed = |source| during("reading the head of the journal")(source);
    let heads = read_heads(below, layout).map_err(failed)?;
    let mut epochs = Vec::new();
    for (region, head) in heads.into_iter().enumerate() {
        match head {
            RegionHead::Absent => {}
            RegionHead::Log { epoch } => epochs.push((epoch, region)),
            // A header only gives the epoch, and so do the frames after it.
            RegionHead::Unreadable | RegionHead::Rotten => {
                let found = find_epoch(below, layout, region).map_err(failed)?;
                epochs.extend(found.map(|epoch| (epoch, region)));
            }
            // It may be the newer log's: the older log would undo what that one made durable (J4).
            RegionHead::Unsound => {
                return Err(journal_damaged(format!(
                    "the header of region {region} has a field that is out of range"
                )));
            }
        }
    }
    epochs.sort_unstable();
    let last_epoch = epochs.last().map_or(0, |&(epoch, _)| epoch);
    for &(epoch, region) in epochs.iter().rev() {
        let content = read_log(below, layout, region, epoch)?;
        // A checkpoint without its end was being written when the power went (J2).
        if content.is_checkpoint_whole {
            return Ok((region, last_epoch, content));
        }
    }
    Err(journal_damaged(format!("neither of its two regions holds a whole checkpoint: {epochs:?}")))
}

/// The newest epoch with a frame in the region.
fn find_epoch(below: &Below, layout: &BandLayout, region: usize) -> Result<Option<u64>, DiskError> {
    let Region { start, len } = layout.logs[region];
    let mut block: Block = [0; BLOCK_LEN_BYTES];
    let mut found = None;
    for index in 1..len.get() {
        match below.read_for_recovery(start + Blocks::new(index), &mut block) {
            Err(DiskError::Medium { .. }) => continue,
            read => read?,
        }
        let epoch = log_id_of(&block).and_then(|id| epoch_of(layout.superblock.id, id));
        found = found.max(epoch);
    }
    Ok(found)
}

fn read_log(
    below: &Below,
    layout: &BandLayout,
    region: usize,
    epoch: u64,
) -> Result<LogContent, BandsError> {
    let Region { start, len } = layout.logs[region];
    let first = start + Blocks::new(1);
    let extent = LogBounds {
        log_id: log_id(layout.superblock.id, epoch),
        len_blocks: (len - Blocks::new(1)).get(),
        durable_blocks: 0,
    };
    // Frames that were being written when the power went were not durable, and nothing after the
    // end was lost.
    let read = |offset: u64, buf: &mut [u8]| {
        below.read_for_recovery(first + Blocks::new(offset / BLOCK_LEN_BYTES as u64), buf)
    };
    let mut decoder = Decoder::passing(extent, read, DiskError::is_unreadable);
    let mut content = LogContent::default();
    while let Some(record) = decoder.next_record().map_err(during("reading the journal"))? {
        let at = record.position;
        let take = Record::decode(record.bytes).ok_or("it is no record of this version".to_owned());
        take.and_then(|record| content.take(layout, record)).map_err(|why| {
            journal_damaged(format!("record at {at:?} of region {region}: {why}"))
        })?;
    }
    match decoder.end().copied() {
        Some(end @ (End::Corrupt { .. } | End::Version { .. })) => {
            Err(journal_damaged(format!("region {region}: {end}")))
        }
        _ => Ok(content),
    }
}

fn journal_damaged(detail: String) -> BandsError {
    FormatFault::damaged("journal", detail).into()
}

impl LogContent {
    fn take(&mut self, layout: &BandLayout, record: Record) -> Result<(), String> {
        let whole = layout.geometry.len();
        let check = |runs: &[BlockRange]| {
            let outside = runs.iter().find(|run| run.end().get() > whole.get());
            outside.map_or(Ok(()), |run| Err(format!("blocks {run} exceed the disk")))
        };
        match record {
            Record::Valid(runs) => {
                check(&runs)?;
                for run in runs {
                    self.valid.insert(run);
                    self.unsynced.insert(run);
                }
            }
            Record::Dead(runs) => {
                check(&runs)?;
                for run in runs {
                    self.valid.remove(run);
                    self.unsynced.remove(run);
                }
            }
            Record::Rewrite(rewrite) => {
                check_rewrite(layout, &rewrite)?;
                if rewrite.seq >= NUMBER_END {
                    return Err("its number is too large".to_owned());
                }
                self.next_seq = rewrite.seq + 1;
                if let Some(open) = self.rewrite.replace(rewrite) {
                    return Err(format!("rewrite {} has not ended", open.seq));
                }
            }
            Record::Done { seq } => match self.rewrite.take() {
                Some(rewrite) if rewrite.seq == seq => {}
                _ => return Err(format!("rewrite {seq} ends without a beginning")),
            },
            Record::Synced => self.unsynced = Runs::default(),
            Record::CheckpointEnd { run_count } => {
                let got = self.valid.count() as u64;
                if self.is_checkpoint_whole || got != run_count {
                    return Err(format!("a checkpoint of {run_count} runs ends, but has {got}"));
                }
                self.is_checkpoint_whole = true;
                self.unsynced = Runs::default();
            }
        }
        Ok(())
    }
}

fn check_rewrite(layout: &BandLayout, rewrite: &Rewrite) -> Result<(), String> {
    let Some(first) = rewrite.pieces.first() else { return Err("it has no pieces".to_owned()) };
    if first.start.get() >= layout.geometry.len().get() || rewrite.slot > 1 {
        return Err("its first piece or its slot does not exist".to_owned());
    }
    let band = layout.band_of(first.start);
    let ascends = rewrite.pieces.windows(2).all(|pair| pair[0].end() < pair[1].start);
    match ascends && rewrite.pieces.iter().all(|piece| piece.end() <= band.end()) {
        true => Ok(()),
        false => Err("its pieces are not a part of one band, in order".to_owned()),
    }
}

/// Finishes a rewrite that was open.
fn replay(
    below: &Below,
    layout: &BandLayout,
    valid: &Runs,
    rewrite: &Rewrite,
) -> Result<(), BandsError> {
    let len: Blocks = rewrite.pieces.iter().map(|piece| piece.len).sum();
    let mut image = vec![0; len.bytes() as usize];
    below
        .read_for_recovery(layout.slots[rewrite.slot as usize].start, &mut image)
        .map_err(during("reading a staged rewrite"))?;
    // The record was written after its slot had been flushed.
    let got = crc32c::crc32c(&image);
    if got != rewrite.crc {
        return Err(FormatFault::damaged(
            "staged rewrite",
            format!(
                "rewrite {} of blocks {}: checksum {got:#010x}, expected {:#010x}",
                rewrite.seq, rewrite.pieces[0], rewrite.crc
            ),
        )
        .into());
    }
    let image = Image { pieces: &rewrite.pieces, bytes: &image, host_bytes: 0 };
    rewrite_from_slot(below, layout, valid, image).map_err(during("finishing a rewrite"))
}

/// What a rewrite writes: its pieces in order, and their contents one after another. `host_bytes`
/// of them are the host's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Image<'a> {
    pub(crate) pieces: &'a [BlockRange],
    pub(crate) bytes: &'a [u8],
    pub(crate) host_bytes: u64,
}

/// Step 3 of a rewrite whose slot and record are durable. Valid blocks that follow its start and
/// are in none of its pieces could not be read (F7).
pub(crate) fn rewrite_from_slot(
    below: &Below,
    layout: &BandLayout,
    valid: &Runs,
    image: Image<'_>,
) -> Result<(), DiskError> {
    let first = image.pieces[0].start;
    let rest = BlockRange::new(first, layout.band_of(first).end() - first);
    let mut lost = Runs::default();
    valid.within(rest).for_each(|run| lost.insert(run));
    image.pieces.iter().for_each(|&piece| lost.remove(piece));
    // The slot has everything, and a disk that refuses to destroy must be allowed to. Lost blocks
    // are not discarded, or they would read as zeros.
    for part in lost.gaps(rest) {
        below.discard(Region { start: layout.locate(part.start), len: part.len })?;
    }
    write_pieces(below, layout, image)?;
    below.flush(Activity::Cleaning)
}

/// Writes the pieces of a rewrite to their band, in order.
pub(crate) fn write_pieces(
    below: &Below,
    layout: &BandLayout,
    image: Image<'_>,
) -> Result<(), DiskError> {
    let Image { pieces, bytes: mut rest, mut host_bytes } = image;
    for piece in pieces {
        let (data, behind) = rest.split_at(piece.len.bytes() as usize);
        rest = behind;
        let own = host_bytes.min(data.len() as u64);
        host_bytes -= own;
        let purpose = Purpose::Rewrite { host_bytes: own };
        below.write(layout.locate(piece.start), data, Persist::Cached, purpose)?;
    }
    Ok(())
}

/// Removes the unsynced blocks that a power cut destroyed from the valid runs: they were never
/// acknowledged as durable.
///
/// Without staging, a rewrite may have destroyed acknowledged blocks as well. Those stay valid, and
/// reading them reports that they are destroyed.
fn drop_destroyed(
    below: &Below,
    layout: &BandLayout,
    content: &mut LogContent,
) -> Result<(), DiskError> {
    let unsynced: Vec<BlockRange> = content.unsynced.iter().collect();
    let mut buf = vec![0; LOOK_LEN.bytes() as usize];
    for run in unsynced.iter().flat_map(|&run| layout.by_band(run).collect::<Vec<_>>()) {
        let mut at = run.start;
        while at < run.end() {
            let len = (run.end() - at).min(LOOK_LEN);
            let below_at = layout.locate(at);
            match below.look(below_at, &mut buf[..len.bytes() as usize])? {
                None => at += len,
                Some(destroyed) => {
                    let start = at + (destroyed.start - below_at);
                    content.valid.remove(BlockRange::new(start, destroyed.len));
                    at = start + destroyed.len;
                }
            }
        }
    }
    Ok(())
}

//! The look behind a bad position: what it reads, and that it finds what a full reading finds.

use super::{Bytes, LOG_ID, blocks, drain};
use crate::{BLOCK_LEN_BYTES, Decoder, Encoder, End, LogBounds, RUN_AHEAD_BLOCKS};
use std::convert::Infallible;

const MIB: u64 = (1 << 20) / BLOCK_LEN_BYTES as u64;

/// How a log of `len_blocks` ends, of which `frames` are all that was ever written, and how many bytes
/// were read. The frames are in order.
fn look(frames: &[(u64, &[u8])], len_blocks: u64) -> (End, u64) {
    look_as(frames, len_blocks, false)
}

fn look_as(frames: &[(u64, &[u8])], len_blocks: u64, is_far: bool) -> (End, u64) {
    let mut read_bytes = 0;
    let read = |offset: u64, buf: &mut [u8]| {
        read_bytes += buf.len() as u64;
        buf.fill(0);
        let end = offset + buf.len() as u64;
        for (at_blocks, frame) in frames {
            let start = at_blocks * BLOCK_LEN_BYTES as u64;
            let from = start.max(offset);
            let upto = (start + frame.len() as u64).min(end);
            if from < upto {
                buf[(from - offset) as usize..(upto - offset) as usize]
                    .copy_from_slice(&frame[(from - start) as usize..(upto - start) as usize]);
            }
        }
        Ok::<(), Infallible>(())
    };
    let bounds = LogBounds { log_id: LOG_ID, len_blocks, durable_blocks: 0 };
    let decoder = Decoder::new(bounds, read);
    let mut decoder = if is_far { decoder.looking_far() } else { decoder };
    while decoder.next_record().unwrap().is_some() {}
    let end = *decoder.end().unwrap();
    (end, read_bytes)
}

/// The frames of a log with their positions, and the length of which each records that it is durable.
struct Frames {
    log: Vec<u8>,
    starts: Vec<(u64, u64)>,
}

impl Frames {
    fn range(&self, index: usize) -> std::ops::Range<usize> {
        let start = self.starts[index].0 as usize * BLOCK_LEN_BYTES;
        let next = self.starts.get(index + 1).map(|(at, _)| *at as usize * BLOCK_LEN_BYTES);
        start..next.unwrap_or(self.log.len())
    }

    fn list(&self, is_there: impl Fn(usize) -> bool) -> Vec<(u64, &[u8])> {
        let there = (0..self.starts.len()).filter(|&index| is_there(index));
        there.map(|index| (self.starts[index].0, &self.log[self.range(index)])).collect()
    }
}

/// Writes frames of up to `frame_len_max` bytes. `is_synced` returns whether a sync follows, if that
/// many blocks were written since the last one.
fn write(
    bytes: &mut Bytes,
    frame_count: usize,
    frame_len_max: usize,
    mut is_synced: impl FnMut(&mut Bytes, u64) -> bool,
) -> (Frames, u64) {
    let mut frames = Frames { log: Vec::new(), starts: Vec::new() };
    let mut encoder = Encoder::with_frame_len(LOG_ID, 1 << 20);
    let mut synced = 0;
    for _ in 0..frame_count {
        frames.starts.push((encoder.end_blocks(), synced));
        let len = 1 + bytes.next() as usize % (frame_len_max - 100);
        encoder.push(&[&vec![bytes.next() as u8; len]]).unwrap();
        encoder.seal();
        drain(&mut encoder, &mut frames.log);
        if is_synced(bytes, encoder.end_blocks() - synced) {
            synced = encoder.end_blocks();
            encoder.mark_durable(synced);
        }
    }
    (frames, synced)
}

#[test]
fn the_end_of_a_log_costs_little_however_long_its_file_is() {
    let mut bytes = Bytes(3);
    let (frames, _) = write(&mut bytes, 5, 60_000, |_, _| true);
    let all = frames.list(|_| true);
    for (len_mib, read_mib_max) in [(4, 4), (64, 5), (256, 6), (1024, 13)] {
        let (end, read_bytes) = look(&all, len_mib * MIB);
        assert_eq!(end, End::Clean { at_blocks: blocks(&frames.log) });
        let read_mib = read_bytes.div_ceil(1 << 20);
        assert!(read_mib <= read_mib_max, "{len_mib} MiB: {read_mib} MiB read");
    }
}

/// E3: one frame rots, and a power cut takes any of the frames since the last sync. Whatever is left,
/// the log ends as if every block were examined.
#[test]
fn a_writer_that_syncs_every_mebibyte_loses_nothing_to_the_short_look() {
    let mut damaged_count = 0;
    for seed in 0..150 {
        let bytes = &mut Bytes(seed);
        let frame_len_max = [4096, 65_536, 1 << 20][seed as usize % 3];
        let mut limit = RUN_AHEAD_BLOCKS - (frame_len_max / BLOCK_LEN_BYTES) as u64;
        let (frames, synced) =
            write(bytes, 40 + seed as usize % 60, frame_len_max, |bytes, ahead| {
                // Often as late as the writer may.
                let is_due = ahead > limit;
                if is_due && bytes.next() % 4 == 0 {
                    limit = bytes.next() % (RUN_AHEAD_BLOCKS + 1);
                    limit = limit.min(RUN_AHEAD_BLOCKS - (frame_len_max / BLOCK_LEN_BYTES) as u64);
                }
                is_due
            });
        let rotten = bytes.next() as usize % frames.starts.len();
        let keeps = [0, 2, 20][bytes.next() as usize % 3];
        let kept: Vec<bool> = (0..frames.starts.len())
            .map(|index| {
                let is_durable = frames.range(index).end <= synced as usize * BLOCK_LEN_BYTES;
                index != rotten && (is_durable || (keeps > 0 && bytes.next().is_multiple_of(keeps)))
            })
            .collect();
        let bad = kept.iter().position(|&is_kept| !is_kept).unwrap();
        let at = frames.starts[bad].0;
        let is_damage = (bad..kept.len()).any(|index| kept[index] && frames.starts[index].1 > at);
        let (end, _) = look(&frames.list(|index| kept[index]), blocks(&frames.log) + 100 * MIB);
        let is_corrupt = matches!(end, End::Corrupt { at_blocks, .. } if at_blocks == at);
        assert_eq!(is_corrupt, is_damage, "seed {seed}: {end}");
        damaged_count += usize::from(is_damage);
    }
    assert!((30..150).contains(&damaged_count), "{damaged_count}");
}

/// A hole of a few tracks in a log whose writer synced is damage, although it reads as zeros.
#[test]
fn a_far_look_passes_a_hole_of_a_few_tracks() {
    let mut bytes = Bytes(11);
    let (frames, _) = write(&mut bytes, 300, 65_536, |_, _| true);
    let at = frames.starts[3].0;
    for (hole_mib, is_far, is_found) in [(3, false, false), (3, true, true), (5, true, true)] {
        // Little is left behind the hole.
        let hole_end = at + hole_mib * MIB;
        let kept = |start: u64| start < at || (hole_end..hole_end + MIB).contains(&start);
        let left = frames.list(|index| kept(frames.starts[index].0));
        let (end, _) = look_as(&left, 40 * MIB, is_far);
        assert_eq!(matches!(end, End::Corrupt { .. }), is_found, "{hole_mib} MiB: {end}");
    }
}

/// E4: behind a gap, a long stretch of frames is met by a sample, and then all of it counts.
#[test]
fn frames_far_behind_a_gap_are_met_by_a_sample() {
    let mut bytes = Bytes(9);
    let (frames, _) = write(&mut bytes, 1500, 65_536, |_, ahead| ahead > 6 * MIB);
    let at = frames.starts[3].0;
    for (hole_mib, is_found) in [(1, true), (5, true), (20, true), (50, false)] {
        let hole = at..at + hole_mib * MIB;
        let left = frames.list(|index| !hole.contains(&frames.starts[index].0));
        let (end, _) = look(&left, blocks(&frames.log).max(40 * MIB));
        assert_eq!(matches!(end, End::Corrupt { .. }), is_found, "{hole_mib} MiB: {end}");
    }
    // The first frame of the kept stretch records no more than the bad position: the look goes on.
    let stretch = at + 20 * MIB..at + 37 * MIB;
    let left = frames.list(|index| index < 3 || stretch.contains(&frames.starts[index].0));
    assert!(matches!(look(&left, 200 * MIB).0, End::Corrupt { .. }));
}

/// A stretch that cannot be read may be damage of any length, so the look passes it.
#[test]
fn the_look_passes_unreadable_blocks() {
    let mut bytes = Bytes(4);
    let (frames, _) = write(&mut bytes, 400, 65_536, |_, _| true);
    let lost = 2 * MIB..10 * MIB;
    let bounds = LogBounds { log_id: LOG_ID, len_blocks: blocks(&frames.log), durable_blocks: 0 };
    let read = |offset: u64, buf: &mut [u8]| {
        let at = offset / BLOCK_LEN_BYTES as u64;
        if at < lost.end && lost.start < at + blocks(buf) {
            return Err(());
        }
        buf.copy_from_slice(&frames.log[offset as usize..][..buf.len()]);
        Ok(())
    };
    let mut decoder = Decoder::passing(bounds, read, |()| true);
    while decoder.next_record().unwrap().is_some() {}
    assert!(matches!(decoder.end(), Some(End::Corrupt { .. })), "{:?}", decoder.end());
}

//! Round trips, every kind of damage, and logs that continue after a recovery.

mod look;

use crate::format::{HEADER_LEN_BYTES, MAGIC_BYTES};
use crate::{BLOCK_LEN_BYTES, Decoder, Encoder, End, Flaw, LogBounds, Resume};
use std::convert::Infallible;

const LOG_ID: u64 = 0x1bde;

/// A small stream of pseudo-random bytes; the crate depends on nothing of ours.
struct Bytes(u64);

impl Bytes {
    fn next(&mut self) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }
    fn vec(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.next() as u8).collect()
    }
}

/// Reads the whole of `log`. Returns its records with their positions, its end, and how to resume.
fn read_all(log: &[u8], log_id: u64) -> (Vec<Vec<u8>>, End, Option<Resume>) {
    read_extent(log, LogBounds { log_id, len_blocks: blocks(log), durable_blocks: 0 })
}

fn read_extent(log: &[u8], extent: LogBounds) -> (Vec<Vec<u8>>, End, Option<Resume>) {
    let mut decoder = Decoder::new(extent, |offset, buf: &mut [u8]| {
        assert!(buf.len().is_multiple_of(BLOCK_LEN_BYTES));
        buf.copy_from_slice(&log[offset as usize..][..buf.len()]);
        Ok::<(), Infallible>(())
    });
    let mut records = Vec::new();
    let mut last = None;
    while let Some(record) = decoder.next_record().unwrap() {
        assert!(last < Some(record.position), "positions grow");
        last = Some(record.position);
        records.push(record.bytes.to_vec());
    }
    let resume = decoder.resume();
    (records, *decoder.end().unwrap(), resume)
}

fn blocks(log: &[u8]) -> u64 {
    (log.len() / BLOCK_LEN_BYTES) as u64
}

fn drain(encoder: &mut Encoder, log: &mut Vec<u8>) {
    let mut ready = Vec::new();
    encoder.take_ready(&mut ready);
    log.extend_from_slice(&ready);
}

/// Three syncs of three records each, the last longer than a frame; frames of 8 KiB.
fn small_log() -> (Vec<u8>, Vec<Vec<u8>>) {
    let mut bytes = Bytes(1);
    let (mut log, mut records) = (Vec::new(), Vec::new());
    let mut encoder = Encoder::with_frame_len(LOG_ID, 2 * BLOCK_LEN_BYTES);
    for round in 0..3 {
        for len in [0, 100, 9000 + round * 2000] {
            let record = bytes.vec(len);
            encoder.push(&[&record[..len / 2], &record[len / 2..]]).unwrap();
            records.push(record);
        }
        encoder.seal();
        drain(&mut encoder, &mut log);
        encoder.mark_durable(encoder.end_blocks());
    }
    (log, records)
}

#[test]
fn golden_bytes() {
    let mut encoder = Encoder::new(0x0102_0304_0506_0708);
    encoder.push(&[b"ab", b"c"]).unwrap();
    encoder.seal();
    encoder.mark_durable(1);
    encoder.push(&[&[0x5a; 200]]).unwrap();
    encoder.seal();
    let mut log = Vec::new();
    drain(&mut encoder, &mut log);
    assert_eq!(log.len(), 2 * BLOCK_LEN_BYTES);
    let hex = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
    assert_eq!(
        hex(&log[..64]),
        concat!(
            "524c4f479a041a630807060504030201000000000000000000000000000000",
            "000000000000000000040000003800000000000000010000000361626300000000"
        )
    );
    assert!(log[60..BLOCK_LEN_BYTES].iter().all(|&b| b == 0), "padding is zero");
    assert_eq!(
        hex(&log[4096..4096 + 60]),
        concat!(
            "524c4f475419d0be08070605040302010100000000000000010000000000",
            "00000000000000000000ca000000380000000000000001000000c8015a5a"
        )
    );
}

#[test]
fn records_of_every_size_come_back() {
    let mut bytes = Bytes(2);
    let lens = [0, 1, 127, 128, 129, 4039, 4040, 4041, 8000, 16383, 16384, 65_480, 65_536, 300_000];
    for frame_len_blocks in [1, 2, 16, 256] {
        let mut encoder = Encoder::with_frame_len(LOG_ID, frame_len_blocks * BLOCK_LEN_BYTES);
        let (mut log, mut records) = (Vec::new(), Vec::new());
        for round in 0..60 {
            let len = lens[bytes.next() as usize % lens.len()];
            let record = bytes.vec(len);
            encoder.push(&[&record]).unwrap();
            records.push(record);
            if round % 7 == 0 {
                encoder.seal();
                assert!(encoder.is_sealed());
            }
            drain(&mut encoder, &mut log);
        }
        encoder.seal();
        drain(&mut encoder, &mut log);
        assert_eq!(encoder.end_blocks(), blocks(&log));
        let (got, end, _) = read_all(&log, LOG_ID);
        assert_eq!(got, records);
        assert_eq!(end, End::Clean { at_blocks: blocks(&log) });
    }
}

#[test]
fn push_to_gives_the_same_bytes_in_bounded_memory() {
    let value = Bytes(3).vec(5 << 20);
    let mut whole = Encoder::new(LOG_ID);
    whole.push(&[b"key", &value]).unwrap();
    whole.seal();
    let mut streamed = Encoder::new(LOG_ID);
    let (mut log, mut longest) = (Vec::new(), 0);
    let append = &mut |frames: &[u8]| {
        longest = longest.max(frames.len());
        log.extend_from_slice(frames);
        Ok::<(), Infallible>(())
    };
    streamed.push_to(&[b"key", &value], append).unwrap().unwrap();
    streamed.seal();
    drain(&mut streamed, &mut log);
    assert_eq!(log, whole.ready());
    assert!(longest < 3 << 20, "handed on {longest} bytes at once");
}

/// No flip of one bit may change a record. If a later frame called the damaged one durable, the
/// loss is an error.
#[test]
fn no_single_bit_flip_alters_a_record() {
    let (mut log, records) = small_log();
    let frames: Vec<usize> = (0..log.len())
        .step_by(BLOCK_LEN_BYTES)
        .filter(|&at| log[at..at + 4] == MAGIC_BYTES)
        .collect();
    let claims = u64::from_le_bytes(log[frames[frames.len() - 1] + 24..][..8].try_into().unwrap());
    assert!(0 < claims && claims < blocks(&log));
    for bit in 0..log.len() * 8 {
        // Every bit of the headers and their surroundings, every 13th elsewhere.
        if bit / 8 % BLOCK_LEN_BYTES > 80 && bit % 13 != 0 {
            continue;
        }
        log[bit / 8] ^= 1 << (bit % 8);
        let (got, end, _) = read_all(&log, LOG_ID);
        assert!(got.len() < records.len(), "bit {bit} went unnoticed");
        assert_eq!(got, records[..got.len()], "bit {bit} altered a record");
        let hit = *frames.iter().rfind(|&&at| at <= bit / 8).unwrap() / BLOCK_LEN_BYTES;
        let is_durable = (hit as u64) < claims;
        assert_eq!(matches!(end, End::Corrupt { .. }), is_durable, "bit {bit}: {end}");
        log[bit / 8] ^= 1 << (bit % 8);
    }
}

#[test]
fn a_truncated_log_ends_with_its_last_whole_record() {
    let (log, records) = small_log();
    for len_blocks in 0..blocks(&log) {
        let cut = &log[..len_blocks as usize * BLOCK_LEN_BYTES];
        let (got, end, resume) = read_all(cut, LOG_ID);
        assert_eq!(got, records[..got.len()]);
        assert!(!matches!(end, End::Corrupt { .. }), "{end}");
        assert!(resume.is_some());
        // The same with lost blocks that read as zeros.
        let mut zeroed = cut.to_vec();
        zeroed.resize(log.len(), 0);
        assert_eq!(read_all(&zeroed, LOG_ID).0, got);
        // The same for a caller that knows that more was synced.
        let extent = LogBounds { log_id: LOG_ID, len_blocks, durable_blocks: blocks(&log) };
        let end = read_extent(cut, extent).1;
        assert!(matches!(end, End::Corrupt { durable_upto_blocks, .. }
            if durable_upto_blocks == blocks(&log)));
    }
}

#[test]
fn a_lost_frame_before_a_synced_one_is_damage() {
    let (mut log, _) = small_log();
    log[..BLOCK_LEN_BYTES].fill(0);
    let (got, end, resume) = read_all(&log, LOG_ID);
    assert!(got.is_empty() && resume.is_none());
    let End::Corrupt { at_blocks: 0, flaw: Flaw::Missing, .. } = end else { panic!("{end}") };
    assert!(end.to_string().starts_with("the log is damaged at block 0: found no frame"), "{end}");
}

#[test]
fn garbage_is_no_log() {
    let mut bytes = Bytes(4);
    for _ in 0..50 {
        let mut log = bytes.vec(8 * BLOCK_LEN_BYTES);
        // Half of them look like frames of this log except for the checksum.
        if bytes.next().is_multiple_of(2) {
            log[..4].copy_from_slice(&MAGIC_BYTES);
            log[8..16].copy_from_slice(&LOG_ID.to_le_bytes());
            log[16..24].fill(0);
        }
        let (got, end, _) = read_all(&log, LOG_ID);
        assert!(got.is_empty());
        assert!(matches!(end, End::Clean { at_blocks: 0 } | End::Torn { at_blocks: 0, .. }));
    }
}

#[test]
fn frames_at_the_wrong_place_or_of_another_log_are_none() {
    let (log, records) = small_log();
    assert_eq!(read_all(&log, LOG_ID + 1).0, Vec::<Vec<u8>>::new());
    // Every frame is misdirected by one block.
    let mut moved = vec![0; BLOCK_LEN_BYTES];
    moved.extend_from_slice(&log);
    assert_eq!(read_all(&moved, LOG_ID).0, Vec::<Vec<u8>>::new());
    // A new log over an old one: the old frames after it do not come back.
    let mut encoder = Encoder::new(LOG_ID + 1);
    encoder.push(&[b"new"]).unwrap();
    encoder.seal();
    let mut reused = log;
    reused[..BLOCK_LEN_BYTES].copy_from_slice(encoder.ready());
    let (got, end, _) = read_all(&reused, LOG_ID + 1);
    assert_eq!(got, [b"new".to_vec()]);
    assert_eq!(end, End::Clean { at_blocks: 1 });
    assert_ne!(records.len(), got.len());
}

#[test]
fn a_newer_version_is_named() {
    let (mut log, _) = small_log();
    log[52] = 2;
    let len = 2 * BLOCK_LEN_BYTES;
    let crc = crc32c::crc32c(&log[8..len]);
    log[4..8].copy_from_slice(&crc.to_le_bytes());
    assert_eq!(read_all(&log, LOG_ID).1, End::Version { at_blocks: 0, got: 2 });
}

/// A log is torn in the middle of a record, recovery continues it after the debris, and the power
/// fails again. Records from before and after are read in order; the torn record is never read.
#[test]
fn a_resumed_log_skips_the_debris() {
    for debris_blocks in [0, 1, 3] {
        let mut log = Vec::new();
        let mut encoder = Encoder::with_frame_len(LOG_ID, BLOCK_LEN_BYTES);
        encoder.push(&[b"first"]).unwrap();
        encoder.seal();
        drain(&mut encoder, &mut log);
        encoder.mark_durable(1);
        encoder.push(&[&[7; 10_000]]).unwrap();
        drain(&mut encoder, &mut log); // two frames of three: the record is torn
        log.resize(log.len() + debris_blocks * BLOCK_LEN_BYTES, 0xdd);

        let (got, end, resume) = read_all(&log, LOG_ID);
        assert_eq!(got, [b"first".to_vec()]);
        assert!(matches!(end, End::Torn { at_blocks: 3, .. }), "{end}");
        let resume = resume.unwrap();
        assert_eq!(resume, Resume { cut_blocks: 3, incarnation: 1 });
        let mut encoder = Encoder::resume(LOG_ID, resume, blocks(&log));
        for record in [&b"second"[..], b"third"] {
            encoder.push(&[record]).unwrap();
            encoder.seal();
            drain(&mut encoder, &mut log);
            encoder.mark_durable(encoder.end_blocks());
        }
        let (got, end, _) = read_all(&log, LOG_ID);
        assert_eq!(got, [b"first".to_vec(), b"second".to_vec(), b"third".to_vec()]);
        assert_eq!(end, End::Clean { at_blocks: blocks(&log) });

        // The restart itself is damaged: later frames record that it was durable.
        let restart = (3 + debris_blocks) * BLOCK_LEN_BYTES;
        log[restart + HEADER_LEN_BYTES] ^= 1;
        assert!(matches!(read_all(&log, LOG_ID).1, End::Corrupt { at_blocks: 3, .. }));
    }
}

/// Found on paper: an unsynced frame of the first incarnation survives after a lost one. The second
/// incarnation overwrites the lost one and ends exactly at the stale survivor.
#[test]
fn a_stale_frame_of_an_earlier_life_does_not_come_back() {
    let mut encoder = Encoder::with_frame_len(LOG_ID, BLOCK_LEN_BYTES);
    let mut log = Vec::new();
    for record in [&b"kept"[..], b"lost", b"stale"] {
        encoder.push(&[record]).unwrap();
        encoder.seal();
    }
    drain(&mut encoder, &mut log);
    log[BLOCK_LEN_BYTES..2 * BLOCK_LEN_BYTES].fill(0);
    let (got, end, resume) = read_all(&log, LOG_ID);
    assert_eq!(got, [b"kept".to_vec()]);
    assert_eq!(end, End::Torn { at_blocks: 1, flaw: Flaw::Missing });
    let mut encoder = Encoder::resume(LOG_ID, resume.unwrap(), 1);
    encoder.push(&[b"new"]).unwrap();
    encoder.seal();
    log[BLOCK_LEN_BYTES..2 * BLOCK_LEN_BYTES].copy_from_slice(encoder.ready());
    let (got, end, _) = read_all(&log, LOG_ID);
    assert_eq!(got, [b"kept".to_vec(), b"new".to_vec()]);
    assert_eq!(end, End::Clean { at_blocks: 2 });
}

/// The frame that restarts a log is lost, but later frames are not. The log does not end there,
/// although it seemed to.
#[test]
fn a_lost_restart_is_a_tear() {
    let mut encoder = Encoder::with_frame_len(LOG_ID, BLOCK_LEN_BYTES);
    let mut log = Vec::new();
    encoder.push(&[b"kept"]).unwrap();
    encoder.seal();
    drain(&mut encoder, &mut log);
    let mut encoder = Encoder::resume(LOG_ID, Resume { cut_blocks: 1, incarnation: 1 }, 1);
    for record in [&b"lost"[..], b"stays"] {
        encoder.push(&[record]).unwrap();
        encoder.seal();
    }
    drain(&mut encoder, &mut log);
    assert_eq!(read_all(&log, LOG_ID).0.len(), 3);
    let whole = log.clone();
    log[BLOCK_LEN_BYTES..2 * BLOCK_LEN_BYTES].fill(0);
    let (got, end, _) = read_all(&log, LOG_ID);
    assert_eq!(got, [b"kept".to_vec()]);
    assert_eq!(end, End::Torn { at_blocks: 1, flaw: Flaw::Missing });
    // The same with the restart before the apparent end.
    let mut encoder = Encoder::with_frame_len(LOG_ID, BLOCK_LEN_BYTES);
    let mut log = Vec::new();
    for record in [&b"kept"[..], b"written again"] {
        encoder.push(&[record]).unwrap();
        encoder.seal();
    }
    drain(&mut encoder, &mut log);
    log.extend_from_slice(&whole[2 * BLOCK_LEN_BYTES..]);
    let (got, end, _) = read_all(&log, LOG_ID);
    assert_eq!(got.len(), 2);
    assert_eq!(end, End::Torn { at_blocks: 2, flaw: Flaw::Stale { got: 1, expected: 0 } });
}

#[test]
fn a_failed_read_can_be_repeated() {
    let (mut log, records) = small_log();
    let last = log.len() - BLOCK_LEN_BYTES;
    log[last + 4] ^= 1;
    let extent = LogBounds { log_id: LOG_ID, len_blocks: blocks(&log), durable_blocks: 0 };
    let mut fail = false;
    let mut decoder = Decoder::new(extent, |offset, buf: &mut [u8]| {
        fail = !fail;
        if fail {
            return Err("busy");
        }
        buf.copy_from_slice(&log[offset as usize..][..buf.len()]);
        Ok(())
    });
    let mut got = 0;
    loop {
        match decoder.next_record() {
            Ok(Some(record)) => {
                assert_eq!(record.bytes, records[got]);
                got += 1;
            }
            Ok(None) => break,
            Err(error) => assert_eq!(error, "busy"),
        }
    }
    assert_eq!(got, records.len() - 1);
}

#[test]
fn a_log_that_has_grown_is_read_on_where_it_ended() {
    let (log, records) = small_log();
    for first in 0..=blocks(&log) {
        let extent = LogBounds { log_id: LOG_ID, len_blocks: first, durable_blocks: 0 };
        let mut least = 0;
        let mut decoder = Decoder::new(extent, |offset, buf: &mut [u8]| {
            assert!(offset >= least, "what was read is not read again");
            buf.copy_from_slice(&log[offset as usize..][..buf.len()]);
            least = offset;
            Ok::<(), Infallible>(())
        });
        let mut read = Vec::new();
        while let Some(record) = decoder.next_record().unwrap() {
            read.push(record.bytes.to_vec());
        }
        assert!(!decoder.grow(first), "it has not grown");
        if decoder.grow(blocks(&log)) {
            while let Some(record) = decoder.next_record().unwrap() {
                read.push(record.bytes.to_vec());
            }
            assert_eq!(read, records, "read after {first} blocks");
        } else {
            // It ended in the middle of a frame, or everything was there.
            assert!(records.starts_with(&read));
            let is_cut = matches!(decoder.end(), Some(End::Torn { flaw: Flaw::CutShort, .. }));
            assert!(first == blocks(&log) || is_cut);
        }
    }
}

#[test]
fn a_part_of_a_record_is_found_by_its_place() {
    let mut bytes = Bytes(5);
    for frame_len in [BLOCK_LEN_BYTES, 2 * BLOCK_LEN_BYTES, 16 * BLOCK_LEN_BYTES] {
        let (mut log, mut parts) = (Vec::new(), Vec::new());
        let mut encoder = Encoder::with_frame_len(LOG_ID, frame_len);
        for number in 0..200 {
            let len = [0, 1, 127, 128, 4000, 4040, 9000, 70_000][bytes.next() as usize % 8];
            let record = bytes.vec(len);
            let content = encoder.place_of_next(len as u64);
            encoder.push(&[&record]).unwrap();
            let from = bytes.next() as usize % (len + 1);
            let part = &record[from..from + bytes.next() as usize % (len - from + 1)];
            parts.push((content.advanced(from as u64, frame_len), part.to_vec()));
            if number % 7 == 0 {
                encoder.seal();
            }
        }
        encoder.seal();
        drain(&mut encoder, &mut log);
        for (place, part) in parts {
            let ranges = place.ranges(part.len() as u64, frame_len);
            let found: Vec<&[u8]> =
                ranges.map(|range| &log[range.start as usize..range.end as usize]).collect();
            assert_eq!(found.concat(), part, "{place:?}, frames of {frame_len}");
        }
    }
}

/// An unreadable block ends a log like a failed checksum: torn if no later frame calls it durable,
/// damaged if one does, and never cleanly.
#[test]
fn a_log_ends_where_it_cannot_be_read() {
    let (log, records) = small_log();
    let end_blocks = blocks(&log);
    let mut whole = log;
    whole.resize(whole.len() + 300 * BLOCK_LEN_BYTES, 0);
    for (lost, durable_blocks) in
        (0..blocks(&whole)).flat_map(|lost| [(lost, 0), (lost, end_blocks)])
    {
        let extent = LogBounds { log_id: LOG_ID, len_blocks: blocks(&whole), durable_blocks };
        let lost_bytes = lost * BLOCK_LEN_BYTES as u64;
        let read = |offset: u64, buf: &mut [u8]| {
            if (offset..offset + buf.len() as u64).contains(&lost_bytes) {
                return Err("medium error");
            }
            buf.copy_from_slice(&whole[offset as usize..][..buf.len()]);
            Ok(())
        };
        let mut decoder = Decoder::passing(extent, read, |error| *error == "medium error");
        let mut got = Vec::new();
        while let Some(record) = decoder.next_record().unwrap() {
            got.push(record.bytes.to_vec());
        }
        assert!(records.starts_with(&got));
        assert_eq!(got.len() < records.len(), lost < end_blocks, "block {lost}");
        let is_of_frame = |flaw| matches!(flaw, Flaw::Unreadable | Flaw::UnreadableFrame);
        match *decoder.end().unwrap() {
            End::Torn { at_blocks, flaw } => {
                assert!(is_of_frame(flaw) && at_blocks <= lost, "block {lost}: {flaw}");
                assert!(lost <= end_blocks && (durable_blocks == 0 || lost == end_blocks));
            }
            End::Corrupt { at_blocks, flaw, .. } => {
                assert!(is_of_frame(flaw) && at_blocks <= lost && lost < end_blocks);
            }
            End::Clean { at_blocks } => {
                assert!(at_blocks == end_blocks && end_blocks < lost, "block {lost}");
            }
            end => panic!("block {lost}: {end}"),
        }
    }
}

/// A log that continues after an unreadable block records that, and is read to its new end.
#[test]
fn a_restart_may_follow_an_unreadable_block() {
    let (log, mut records) = small_log();
    let cut_blocks = blocks(&log);
    let mut whole = log;
    whole.resize(whole.len() + BLOCK_LEN_BYTES, 0);
    let resume = Resume { cut_blocks, incarnation: 1 };
    let mut encoder = Encoder::resume(LOG_ID, resume, cut_blocks + 1);
    encoder.push(&[b"behind it"]).unwrap();
    encoder.seal();
    drain(&mut encoder, &mut whole);
    records.push(b"behind it".to_vec());
    let extent = LogBounds { log_id: LOG_ID, len_blocks: blocks(&whole), durable_blocks: 0 };
    let lost = cut_blocks * BLOCK_LEN_BYTES as u64;
    let read = |offset: u64, buf: &mut [u8]| {
        if (offset..offset + buf.len() as u64).contains(&lost) {
            return Err(());
        }
        buf.copy_from_slice(&whole[offset as usize..][..buf.len()]);
        Ok(())
    };
    let mut decoder = Decoder::passing(extent, read, |()| true);
    let mut got = Vec::new();
    while let Some(record) = decoder.next_record().unwrap() {
        got.push(record.bytes.to_vec());
    }
    assert_eq!(got, records);
    assert_eq!(decoder.end(), Some(&End::Clean { at_blocks: blocks(&whole) }));
}

/// Whatever block is lost, the records from the next complete frame on are read, and nothing that
/// was never written.
#[test]
fn damage_is_passed_and_costs_what_touches_it() {
    let (log, records) = small_log();
    for lost in 0..blocks(&log) {
        let mut log = log.clone();
        log[lost as usize * BLOCK_LEN_BYTES..][..BLOCK_LEN_BYTES].fill(0);
        let extent = LogBounds { log_id: LOG_ID, len_blocks: blocks(&log), durable_blocks: 0 };
        let mut decoder = Decoder::new(extent, |offset, buf: &mut [u8]| {
            buf.copy_from_slice(&log[offset as usize..][..buf.len()]);
            Ok::<(), Infallible>(())
        });
        let (mut got, mut last) = (Vec::new(), None);
        loop {
            while let Some(record) = decoder.next_record().unwrap() {
                assert!(last < Some(record.position), "positions grow");
                last = Some(record.position);
                got.push(record.bytes.to_vec());
            }
            if !decoder.pass_damage().unwrap() {
                break;
            }
        }
        let mut left = records.iter();
        assert!(got.iter().all(|record| left.any(|written| written == record)), "block {lost}");
        // A frame of two blocks touches the end of one record, two short ones and the next long
        // one.
        let lost_count = records.len() - got.len();
        assert!((1..=4).contains(&lost_count), "block {lost}: {lost_count} of {}", records.len());
    }
    let (got, end, _) = read_all(&log, LOG_ID);
    assert_eq!((got, end), (records, End::Clean { at_blocks: blocks(&log) }));
}

/// Reads a log that has a copy. Returns its records, its end, and how many frames came from the
/// copy.
fn read_copies(log: &[u8], copy: &[u8]) -> (Vec<Vec<u8>>, End, u64) {
    let bounds = LogBounds { log_id: LOG_ID, len_blocks: blocks(log), durable_blocks: 0 };
    let read = |offset: u64, buf: &mut [u8]| {
        buf.copy_from_slice(&log[offset as usize..][..buf.len()]);
        Ok::<(), Infallible>(())
    };
    let read_copy = |offset: u64, buf: &mut [u8]| {
        let there = copy.get(offset as usize..offset as usize + buf.len());
        there.inspect(|there| buf.copy_from_slice(there)).is_some()
    };
    let mut decoder = Decoder::of_copies(bounds, read, read_copy, |_| false);
    let mut records = Vec::new();
    while let Some(record) = decoder.next_record().unwrap() {
        records.push(record.bytes.to_vec());
    }
    assert!(decoder.damaged_count() <= decoder.copied_count());
    (records, *decoder.end().unwrap(), decoder.copied_count())
}

/// Damage in one of two copies costs nothing, wherever it is, even in the last frame.
#[test]
fn a_bad_frame_comes_from_the_copy() {
    let (log, records) = small_log();
    for block in 0..blocks(&log) as usize {
        let mut bad = log.clone();
        bad[block * BLOCK_LEN_BYTES + 30] ^= 1;
        let (got, end, copied) = read_copies(&bad, &log);
        assert_eq!((got, copied), (records.clone(), 1), "block {block}");
        assert_eq!(end, End::Clean { at_blocks: blocks(&log) });
        let (got, _, copied) = read_copies(&log, &bad);
        assert_eq!((got, copied), (records.clone(), 0), "block {block}");
        // Another frame is bad in the copy.
        let mut copy = log.clone();
        let other = if block < 2 { blocks(&log) as usize - 1 } else { 0 };
        copy[other * BLOCK_LEN_BYTES + 30] ^= 1;
        assert_eq!(read_copies(&bad, &copy).0, records, "block {block}");
        // The same frame is bad in the copy.
        assert!(read_copies(&bad, &bad).0.len() < records.len(), "block {block}");
    }
}

/// A write that reached only one of the copies counts. Where neither has a frame, the log ends.
#[test]
fn the_longer_copy_counts() {
    let (log, records) = small_log();
    let cut = log.len() - 3 * BLOCK_LEN_BYTES;
    let mut short = log[..cut].to_vec();
    assert!(read_copies(&short, &short).0.len() < records.len());
    assert!(read_copies(&log, &short).0 == records);
    short.resize(log.len(), 0);
    assert!(read_copies(&short, &log).0 == records);
}

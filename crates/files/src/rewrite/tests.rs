//! The bytes of the backup header, the outcome of opening a backup, and readers and failures during
//! a rewrite.

use super::format::{FoundHeader, Header, Sums};
use crate::tests::stage::{Stage, assert_sound, content, interlaced, put, remove, table, verify};
use crate::{Commit, FileLayer, Files, FilesError, PlacementOptions};
use imbrex_clockwork::Prng;
use imbrex_disk::{BLOCK_LEN_BYTES, BlockRange, Blocks, Disk, Lba, Persist};
use imbrex_disk_sim::{FailAt, FaultPlan};
use std::sync::atomic::{AtomicBool, Ordering};

fn header() -> Header {
    let home = |start, len| BlockRange::new(Lba::new(start), Blocks::new(len));
    Header {
        format_id: 0x1122_3344_5566_7788,
        number: 3,
        homes: vec![home(0x0102, 8), home(0x0203, 1)],
        sums: Sums::OfEach(vec![0xAABB_CCDD, 0x0102_0304]),
    }
}

/// The same header in version 1.
fn header_of_version_1() -> Header {
    Header { sums: Sums::OfAll(0xAABB_CCDD), ..header() }
}

#[test]
fn golden_bytes() {
    let bytes = header().encode();
    let hex: String = bytes[..72].iter().map(|b| format!("{b:02x}")).collect();
    let expected = concat!(
        "494d425842414b0a", // magic
        "02000000",         // version
        "02000000",         // entry_count
        "8877665544332211", // format_id
        "0300000000000000", // number
        "0000000000000000", // reserved
        "0201000000000000", // home_start
        "08000000",         // len_blocks
        "ddccbbaa",         // data_crc32c
        "0302000000000000",
        "01000000",
        "04030201",
    );
    assert_eq!(hex, expected);
    assert_eq!(bytes.len(), BLOCK_LEN_BYTES);
    assert!(bytes[76..].iter().all(|&b| b == 0), "nothing outside the fields");
    assert_eq!(Header::decode(&bytes), Some(header()));
}

#[test]
fn golden_bytes_of_version_1() {
    let bytes = header_of_version_1().encode();
    let hex: String = bytes[..72].iter().map(|b| format!("{b:02x}")).collect();
    let expected = concat!(
        "494d425842414b0a", // magic
        "01000000",         // version
        "02000000",         // entry_count
        "8877665544332211", // format_id
        "0300000000000000", // number
        "ddccbbaa",         // data_crc32c
        "00000000",         // reserved
        "0201000000000000", // home_start
        "0800000000000000", // len_blocks
        "0302000000000000",
        "0100000000000000",
    );
    assert_eq!(hex, expected);
    assert_eq!(bytes.len(), BLOCK_LEN_BYTES);
    assert!(bytes[76..].iter().all(|&b| b == 0), "nothing outside the fields");
    assert_eq!(Header::decode(&bytes), Some(header_of_version_1()));
}

#[test]
fn every_flipped_bit_and_every_truncation_is_noticed() {
    let homes = (0..300).map(|i| BlockRange::new(Lba::new(2 * i), Blocks::new(1))).collect();
    let whole = Header { homes, sums: Sums::OfEach((0..300).collect()), ..header() };
    let bytes = whole.encode();
    assert_eq!(bytes.len(), 2 * BLOCK_LEN_BYTES);
    assert_eq!(Header::decode(&bytes), Some(whole));
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << (at % 8);
        assert_eq!(Header::decode(&damaged), None, "byte {at}");
    }
    for len in 0..bytes.len() {
        assert_eq!(Header::decode(&bytes[..len]), None, "{len} bytes");
    }
}

/// One flipped bit of a header in one block is corrected. A header that may be torn is not taken for a
/// damaged one.
#[test]
fn a_rotten_header_is_distinguished_from_none() {
    let id = header().format_id;
    let homes = (0..300).map(|i| BlockRange::new(Lba::new(2 * i), Blocks::new(1))).collect();
    let long = Header { homes, sums: Sums::OfEach((0..300).collect()), ..header() };
    for header in [header(), header_of_version_1(), long] {
        let bytes = header.encode();
        assert_eq!(Header::find(&bytes, id), FoundHeader::Whole(header.clone()));
        assert_eq!(
            Header::find(&bytes, id + 1),
            FoundHeader::Nothing,
            "another format of the drive"
        );
        for at in (0..100).chain((100..bytes.len()).step_by(13)) {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << (at % 8);
            let found = Header::find(&damaged, id);
            let is_known_before = !matches!(at, 12..16 | 24..);
            let whole = FoundHeader::Whole(header.clone());
            let is_whole = is_known_before || bytes.len() <= BLOCK_LEN_BYTES;
            assert_eq!(found, if is_whole { whole } else { FoundHeader::Torn }, "byte {at}");
            if is_known_before {
                continue;
            }
            damaged[24 + (at + 1) % 8] ^= 2;
            // The count makes it longer than a block.
            let is_long = bytes.len() > BLOCK_LEN_BYTES || (13..16).contains(&at);
            let expected = if is_long { FoundHeader::Torn } else { FoundHeader::Damaged };
            assert_eq!(Header::find(&damaged, id), expected, "byte {at} and one more");
        }
    }
    let blank = [0; BLOCK_LEN_BYTES];
    assert_eq!(Header::find(&blank, id), FoundHeader::Nothing);
    let mut newer = header().encode();
    (newer[8], newer[60]) = (3, 7);
    assert_eq!(Header::find(&newer, id), FoundHeader::Version(3));
}

#[test]
fn garbage_with_a_good_checksum_never_panics() {
    let mut accepted = 0;
    for good in [header().encode(), header_of_version_1().encode()] {
        accepted += accepted_garbage(&good);
    }
    assert!(accepted > 100, "{accepted}");
    let mut noise = vec![0; BLOCK_LEN_BYTES];
    Prng::new(6).fill(&mut noise);
    assert_eq!(Header::decode(&noise), None);
    assert_eq!(Header::decode(&[0; BLOCK_LEN_BYTES]), None);
}

fn accepted_garbage(good: &[u8]) -> u32 {
    let mut prng = Prng::new(5);
    let mut accepted = 0;
    for _ in 0..20_000 {
        let mut bytes = good.to_vec();
        for _ in 0..1 + prng.below(4) {
            bytes[prng.below(72) as usize] = prng.next_u64() as u8;
        }
        let crc = crc32c::crc32c(&bytes[..72]);
        bytes[72..76].copy_from_slice(&crc.to_le_bytes());
        if let Some(header) = Header::decode(&bytes) {
            assert_eq!(header.encode(), bytes, "what is accepted is what would be written");
            accepted += 1;
        }
    }
    accepted
}

/// A drive on which the next table of level 2 needs a rewrite: `low` was below `top`. The backup
/// region holds two tracks.
pub(super) fn below_what_lives() -> (Stage, FileLayer) {
    below(720, 16, 128)
}

fn below(blocks: u64, unit_len: u64, rest: u64) -> (Stage, FileLayer) {
    let stage = interlaced(blocks, 16, 16, 0);
    let unit_len = Blocks::new(unit_len);
    let options = PlacementOptions { unit_len, ..PlacementOptions::default() };
    let files = stage.format_with("track-tiers", options).unwrap();
    put(&files, "low", 112, 2).unwrap();
    put(&files, "rest", rest, 2).unwrap();
    put(&files, "top", 128, 1).unwrap();
    remove(&files, &["low"]).unwrap();
    assert_eq!(files.stats().rewrites, 0);
    (stage, files)
}

#[test]
fn a_table_takes_five_syncs_at_most_and_moves_no_track_twice() {
    let (stage, files) = below(1200, 112, 176);
    let before = stage.disk.counters();
    put(&files, "new", 110, 2).unwrap();
    let stats = files.stats();
    assert_eq!((stats.rewrites, stats.rewritten_tracks, stats.track_syncs), (1, 8, 3));
    // Three, and two of the commit: of its data, and of its record.
    assert_eq!((stage.disk.counters() - before).flushes, 5);
    for name in ["new", "rest", "top"] {
        verify(&files, name, name).unwrap();
    }
    assert_eq!(stage.disk.counters().destroyed_bytes, 0, "all was discarded before");
}

#[test]
fn a_batch_longer_than_the_backup_region_is_cut() {
    let (_stage, files) = below_what_lives();
    // The table is written in as many parts as necessary.
    put(&files, "new", 110, 2).unwrap();
    let stats = files.stats();
    assert_eq!((stats.rewrites, stats.rewritten_tracks, stats.track_syncs), (7, 14, 21));
}

/// Each write of a rewrite fails in turn. The backup is moved back, or readers stay with it;
/// nothing is lost, now or after opening.
#[test]
fn a_rewrite_that_fails_is_undone() {
    let mut outcomes = [0; 3];
    for sticky in [false, true] {
        for after in (0..260).step_by(3) {
            let (stage, files) = below_what_lives();
            let fail_write = Some(FailAt { after, sticky });
            stage.disk.set_faults(FaultPlan { fail_write, ..FaultPlan::default() });
            let result = put(&files, "new", 110, 2);
            stage.disk.set_faults(FaultPlan::default());
            for name in ["rest", "top"] {
                verify(&files, name, name).unwrap_or_else(|e| panic!("{after} {sticky}: {e}"));
            }
            let again = put(&files, "again", 20, 2);
            outcomes[match (&result, &again) {
                (Ok(()), _) => 0,
                (Err(_), Ok(())) => 1,
                (Err(_), Err(FilesError::Disk { .. } | FilesError::Poisoned { .. })) => 2,
                other => panic!("{after} {sticky}: {other:?}"),
            }] += 1;
            drop(files);
            let files = stage.open().unwrap();
            for name in ["rest", "top"] {
                verify(&files, name, name).unwrap_or_else(|e| panic!("{after} {sticky}: {e}"));
            }
            put(&files, "last", 20, 2).unwrap();
            verify(&files, "last", "last").unwrap();
            assert_sound(&files);
        }
    }
    assert!(outcomes.iter().all(|&count| count > 0), "{outcomes:?}");
}

/// The write of a backup's header fails, yet the header is there. Its entries were moved back over
/// data that were written there since.
#[test]
fn a_backup_that_failed_is_not_moved_back() {
    let mut count = 0;
    for (after, seed) in (0..12).flat_map(|after| (0..4).map(move |seed| (after, seed))) {
        let (stage, files) = below_what_lives();
        let fail_write = Some(FailAt { after, sticky: false });
        let plan = FaultPlan { fail_write, write_part: Some(seed), ..FaultPlan::default() };
        stage.disk.set_faults(plan);
        let has_failed = put(&files, "new", 110, 2).is_err();
        stage.disk.set_faults(FaultPlan::default());
        remove(&files, &["top"]).unwrap();
        if put(&files, "other", 128, 1).is_err() {
            continue; // W3.
        }
        count += usize::from(has_failed);
        drop(files);
        let files = stage.open().unwrap();
        for name in ["rest", "other"] {
            verify(&files, name, name).unwrap_or_else(|e| panic!("{after}, seed {seed}: {e}"));
        }
        assert_sound(&files);
    }
    assert!(count > 20, "{count}");
}

/// Opening twice, or after a backup that was not needed, changes nothing.
#[test]
fn a_stale_backup_is_not_moved_back() {
    let (stage, files) = below_what_lives();
    put(&files, "new", 110, 2).unwrap();
    remove(&files, &["top"]).unwrap();
    put(&files, "other", 128, 1).unwrap();
    drop(files);
    for seed in 0..3 {
        stage.disk.cut_power();
        stage.power_cycle(seed);
        let files = stage.open().unwrap();
        for name in ["new", "rest", "other"] {
            verify(&files, name, name).unwrap();
        }
        assert_sound(&files);
    }
}

#[test]
fn a_backup_that_names_what_it_may_not_is_damage() {
    let (stage, files) = below_what_lives();
    let rewriter = files.inner.rewriter.as_ref().unwrap();
    let start = rewriter.backup.lock().region().pieces()[0].start;
    let open_with = |homes: Vec<BlockRange>| {
        let sums = Sums::OfEach(vec![0; homes.len()]);
        let header = Header { format_id: files.format_id(), homes, sums, ..header() };
        stage.disk.write(start, &header.encode(), Persist::Through).unwrap();
        match stage.open() {
            Err(error @ FilesError::Corrupt { .. }) => error.to_string(),
            Err(error) => panic!("{error}"),
            Ok(_) => "opens".to_owned(),
        }
    };
    let home = |start: u64, len: u64| vec![BlockRange::new(Lba::new(start), Blocks::new(len))];
    let check = |got: String, expected: &str| assert!(got.contains(expected), "{got}");
    check(open_with(home(256, 16)), "blocks 256..272 are not part of a top track for files");
    check(open_with(home(16, 16)), "blocks 16..32 are not part of a top track for files");
    check(open_with(home(250, 10)), "blocks 250..260 are not part of a top track for files");
    check(open_with(home(10_000, 1)), "not part of a top track");
    check(open_with(home(240, 400)), "more than the region holds");
    check(open_with(home(240, 16)), "opens");
}

/// Readers continue while tracks under them are moved away and back.
#[test]
fn readers_see_nothing_of_a_rewrite() {
    let (_stage, files) = below_what_lives();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let read = || {
            let mut count = 0_u64;
            let readers = ["top", "rest"].map(|name| (name, files.open(name).unwrap()));
            let mut scratch = Vec::new();
            while !is_over.load(Ordering::Relaxed) || count < 10 {
                for (name, reader) in &readers {
                    let len_bytes = reader.len_bytes() as usize;
                    let got = reader.read_at(0, len_bytes, &mut scratch).unwrap();
                    assert!(got == content(name, len_bytes), "{name} differs");
                }
                count += 1;
            }
        };
        let threads = [scope.spawn(read), scope.spawn(read)];
        for round in 0..20 {
            let name = format!("t{round}");
            let add = files.persist(vec![table(&name, 100, 2)]).unwrap();
            files.commit(Commit { add, ..Commit::default() }).unwrap();
            verify(&files, &name, &name).unwrap();
            remove(&files, &[&name]).unwrap();
        }
        is_over.store(true, Ordering::Relaxed);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
    assert!(files.stats().rewrites >= 20);
    assert_sound(&files);
}

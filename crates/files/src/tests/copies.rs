//! The two copies of the catalog: one damaged structure costs nothing, at any moment and after any
//! power cut; two are an error. Catalogs of version 3, which have no copy, are read and get one.

use super::stage::{
    Stage, Zones, assert_sound, conventional, interlaced, put, remove, shingled, verify, zoned,
};
use crate::{AppRecord, Commit, FileLayer, Files, FilesError};
use imbrex_clockwork::seeds;
use imbrex_disk::{BLOCK_LEN_BYTES, BlockRange, Blocks, Disk, DiskError, Lba, Persist};
use imbrex_disk_sim::{FailAt, FaultPlan};

type State = (Vec<String>, Vec<Vec<u8>>);

fn state(files: &FileLayer) -> State {
    (files.list("").into_iter().map(|file| file.name).collect(), files.app_records())
}

fn append(files: &FileLayer, text: &str) -> Result<(), FilesError> {
    let app = Some(AppRecord::Append(text.as_bytes().to_vec()));
    files.commit(Commit { app, ..Commit::default() })
}

/// A kind of drive with a placement for it, and the first block of each of its regions.
struct Kind {
    make: fn() -> Stage,
    placement: &'static str,
    regions: [u64; 2],
}

const MIXED: Zones = Zones { count: 10, len: 64, conventional: 1, active_limit: None };
const SEQUENTIAL: Zones = Zones { count: 10, len: 64, conventional: 0, active_limit: None };

const KINDS: [Kind; 5] = [
    Kind { make: || conventional(1024, 512), placement: "first-fit", regions: [0, 32] },
    Kind { make: || zoned(MIXED, 512), placement: "zone-per-level", regions: [0, 32] },
    Kind { make: || zoned(SEQUENTIAL, 512), placement: "log-structured", regions: [0, 64] },
    Kind { make: || shingled(2048, 8, 2, 512), placement: "dynamic-bands", regions: [0, 72] },
    Kind { make: || interlaced(1024, 16, 16, 512), placement: "track-tiers", regions: [16, 80] },
];

impl Kind {
    /// The blocks that are written in one region, in order.
    fn blocks(&self, stage: &Stage, index: usize) -> Vec<Lba> {
        let end = if index == 0 { self.regions[1] } else { 2 * self.regions[1] - self.regions[0] };
        let mut block = vec![0; BLOCK_LEN_BYTES];
        let mut is_written = |at: &Lba| {
            stage.disk.read(*at, &mut block).is_ok() && block.iter().any(|&byte| byte != 0)
        };
        (self.regions[index]..end).map(Lba::new).filter(|at| is_written(at)).collect()
    }

    fn written(&self) -> (Stage, State) {
        let stage = (self.make)();
        let files = stage.format_small(self.placement).unwrap();
        for name in ["a", "b", "c"] {
            put(&files, name, 2, 1).unwrap();
        }
        remove(&files, &["b"]).unwrap();
        append(&files, "last").unwrap();
        let after = state(&files);
        (stage, after)
    }
}

/// The regions are where the tests believe.
#[test]
fn both_regions_hold_the_same() {
    for kind in &KINDS {
        let (stage, _) = kind.written();
        let content = |index: usize| {
            let blocks = kind.blocks(&stage, index);
            assert!(blocks.first() == Some(&Lba::new(kind.regions[index])), "{blocks:?}");
            let read = |at: &Lba| {
                let mut block = vec![0; BLOCK_LEN_BYTES];
                stage.disk.read(*at, &mut block).unwrap();
                block
            };
            blocks.iter().map(read).collect::<Vec<_>>()
        };
        assert_eq!(content(0), content(1), "{}", kind.placement);
    }
}

/// Any bit, and any unreadable block, before and after a change that repairs it.
#[test]
fn damage_in_one_copy_costs_nothing_and_is_repaired() {
    for kind in &KINDS {
        for index in [0, 1] {
            let count = kind.blocks(&kind.written().0, index).len();
            for nth in 0..count {
                for bit in [Some(9), Some(150), Some(2000), None] {
                    let (stage, after) = kind.written();
                    let at = kind.blocks(&stage, index)[nth];
                    match bit {
                        Some(bit) => stage.disk.flip_bit(at, bit).unwrap(),
                        None => stage.disk.damage(BlockRange::new(at, Blocks::new(1))),
                    }
                    let what = format!("{}, region {index}, {at}, {bit:?}", kind.placement);
                    let files = stage.open().unwrap_or_else(|error| panic!("{what}: {error}"));
                    assert_eq!(state(&files), after, "{what}");
                    append(&files, "repaired").unwrap();
                    assert_sound(&files);
                    let repaired = state(&files);
                    drop(files);
                    // Either copy is enough again.
                    for copy in [0, 1] {
                        let header = Lba::new(kind.regions[copy]);
                        stage.disk.flip_bit(header, 77).unwrap();
                        assert_eq!(state(&stage.open().unwrap()), repaired, "{what}");
                        stage.disk.flip_bit(header, 77).unwrap();
                    }
                }
            }
        }
    }
}

/// The check reads both copies. The next change writes them anew.
#[test]
fn the_check_finds_damage_in_either_copy_of_an_open_catalog() {
    for kind in &KINDS {
        for (index, nth) in [(0, 0), (0, 1), (0, 3), (1, 0), (1, 1), (1, 2)] {
            let (stage, after) = kind.written();
            let files = stage.open().unwrap();
            for text in ["one", "two", "three"] {
                append(&files, text).unwrap();
            }
            assert_sound(&files);
            let at = kind.blocks(&stage, index)[nth];
            stage.disk.flip_bit(at, 99).unwrap();
            let report = files.check().unwrap();
            let found: Vec<_> = report.findings.iter().map(|found| found.structure).collect();
            assert_eq!(found, ["catalog copy"], "{} {index} {nth}", kind.placement);
            append(&files, "four").unwrap();
            assert_sound(&files);
            drop(files);
            assert_eq!(state(&stage.open().unwrap()).1.len(), after.1.len() + 4);
        }
    }
}

/// The same structure in both copies: an error that names it, and no older state. Different ones
/// cost nothing, unless they are parts of one structure.
#[test]
fn two_damaged_copies_are_an_error() {
    for kind in &KINDS {
        let (stage, after) = kind.written();
        let copies = [kind.blocks(&stage, 0), kind.blocks(&stage, 1)];
        let last = copies[0].len() - 1;
        for (a, b) in (0..=last).flat_map(|a| (0..=last).map(move |b| (a, b))) {
            stage.disk.flip_bit(copies[0][a], 99).unwrap();
            stage.disk.flip_bit(copies[1][b], 101).unwrap();
            let what = format!("{}, blocks {a} and {b}", kind.placement);
            match stage.open() {
                // The last record looks like a write that never became durable.
                Ok(files) if a == last && b == last => assert_ne!(state(&files), after, "{what}"),
                Ok(files) => {
                    assert!(a != b, "{what}");
                    assert_eq!(state(&files), after, "{what}");
                }
                Err(FilesError::Corrupt { .. } | FilesError::Disk { .. }) => {
                    assert!(a == b, "{what}");
                }
                Err(error) => panic!("{what}: {error}"),
            }
            stage.disk.flip_bit(copies[0][a], 99).unwrap();
            stage.disk.flip_bit(copies[1][b], 101).unwrap();
        }
    }
}

/// The power is cut at every event of a few commits and a checkpoint, and then one structure of
/// either region is damaged. Nothing that was acknowledged is missing, or the drive is refused
/// because the cut left no other whole region.
#[test]
fn damage_after_a_power_cut_takes_nothing_silently() {
    let (mut refused, mut unknown, mut all) = (0, 0, 0);
    for kind in &KINDS {
        for cut in 0..40 {
            for seed in seeds(4) {
                let (stage, before) = kind.written();
                let files = stage.open().unwrap();
                let power_cut_after = Some(cut);
                stage.disk.set_faults(FaultPlan { power_cut_after, ..FaultPlan::default() });
                let texts = ["one", "two", "three", "four"];
                let acknowledged = texts.iter().take_while(|text| append(&files, text).is_ok());
                let least = before.1.len() + acknowledged.count();
                drop(files);
                stage.power_cycle(seed);
                let found = state(&stage.open().unwrap()).1.len();
                assert!(found == least || found == least + 1, "{found}, {least}");
                let whole = [0, 1].map(|index| is_whole(&stage, kind, index, found));
                for (index, at) in [0, 1].into_iter().flat_map(|index| {
                    kind.blocks(&stage, index).into_iter().map(move |at| (index, at))
                }) {
                    stage.disk.flip_bit(at, 150).unwrap();
                    let what = format!("{}, cut {cut}, seed {seed}, {at}", kind.placement);
                    all += 1;
                    match stage.open() {
                        Ok(files) => {
                            let found = state(&files).1.len();
                            let is_kept = found == least || found == least + 1;
                            // A zone was reset, and its first write is gone: nothing records where
                            // the log ended.
                            let is_blank = kind.blocks(&stage, 1 - index).is_empty();
                            unknown += u64::from(!is_kept && is_blank);
                            assert!(is_kept || is_blank, "{what}: {found}");
                        }
                        Err(FilesError::Corrupt { .. }) => {
                            refused += 1;
                            assert!(!whole[1 - index], "{what}");
                        }
                        Err(error) => panic!("{what}: {error}"),
                    }
                    stage.disk.flip_bit(at, 150).unwrap();
                }
            }
        }
    }
    println!("{refused} of {all} damaged drives are refused, {unknown} lack their last record");
    assert!(refused * 10 < all, "{refused} of {all}");
    assert!(unknown * 200 < all, "{unknown} of {all}");
}

/// Whether the region holds as much as the drive without the other region.
fn is_whole(stage: &Stage, kind: &Kind, index: usize, records: usize) -> bool {
    let other = Lba::new(kind.regions[1 - index]);
    stage.disk.flip_bit(other, 150).unwrap();
    let found = stage.open().map(|files| state(&files).1.len());
    stage.disk.flip_bit(other, 150).unwrap();
    found.is_ok_and(|found| found == records)
}

/// Makes a drive of version 3: region B is blank, or holds an older checkpoint.
fn without_copy(stage: &Stage) {
    let mut header = vec![0; BLOCK_LEN_BYTES];
    stage.disk.read(Lba::new(0), &mut header).unwrap();
    header[8] = 3;
    header[240..256].fill(0);
    let crc = crc32c::crc32c(&header[..508]);
    header[508..512].copy_from_slice(&crc.to_le_bytes());
    stage.disk.write(Lba::new(0), &header, Persist::Through).unwrap();
    stage.disk.write(Lba::new(32), &[0; BLOCK_LEN_BYTES], Persist::Through).unwrap();
}

/// A catalog without a copy is read, and damage in it is an error. The first change gives it a
/// copy; a power cut at any moment of that leaves the old catalog or the new one.
#[test]
fn a_catalog_of_version_3_gets_a_copy() {
    let kind = &KINDS[0];
    for cut in 0..20 {
        let (stage, after) = kind.written();
        without_copy(&stage);
        for at in [0, 1, 2] {
            stage.disk.flip_bit(Lba::new(at), 150).unwrap();
            assert!(matches!(stage.open(), Err(FilesError::Corrupt { .. })), "{at}");
            stage.disk.flip_bit(Lba::new(at), 150).unwrap();
        }
        let files = stage.open().unwrap();
        assert_eq!(state(&files), after);
        let power_cut_after = Some(cut);
        stage.disk.set_faults(FaultPlan { power_cut_after, ..FaultPlan::default() });
        let is_done = append(&files, "new").is_ok();
        drop(files);
        stage.power_cycle(cut);
        let files = stage.open().unwrap();
        let found = state(&files).1.len() - after.1.len();
        assert!(found == 1 || (found == 0 && !is_done), "cut {cut}");
        append(&files, "newer").unwrap();
        assert_sound(&files);
        verify(&files, "a", "a").unwrap();
        let expected = state(&files);
        drop(files);
        for header in [0, 32] {
            stage.disk.flip_bit(Lba::new(header), 150).unwrap();
            assert_eq!(state(&stage.open().unwrap()), expected);
            stage.disk.flip_bit(Lba::new(header), 150).unwrap();
        }
    }
}

/// A commit is one write to each copy and one flush, as many flushes as before there were copies.
#[test]
fn a_commit_costs_a_write_in_each_copy_and_one_flush() {
    let (stage, _) = KINDS[0].written();
    let files = stage.open().unwrap();
    append(&files, "the first is a checkpoint").unwrap();
    let before = stage.disk.counters();
    append(&files, "one").unwrap();
    let cost = stage.disk.counters() - before;
    assert_eq!((cost.writes, cost.flushes), (2, 1));
    let before = stage.disk.counters();
    put(&files, "d", 2, 1).unwrap();
    let cost = stage.disk.counters() - before;
    assert_eq!((cost.writes, cost.flushes), (3, 2), "the table, and a flush before the record");
}

/// K6: a long record is flushed as it is written.
#[test]
fn a_commit_never_runs_far_ahead_of_its_flushes() {
    let stage = conventional(16 << 18, 0);
    let files = stage.format("first-fit").unwrap();
    append(&files, "the first is a checkpoint").unwrap();
    for (len_kib, flushes) in [(0, 1), (1000, 1), (1100, 2), (2900, 3)] {
        let before = stage.disk.counters();
        append(&files, &"x".repeat(len_kib << 10)).unwrap();
        assert_eq!((stage.disk.counters() - before).flushes, flushes, "{len_kib} KiB");
    }
    let expected = state(&files);
    drop(files);
    assert_eq!(state(&stage.open().unwrap()), expected);
}

/// A region that takes no writes keeps an older state. What is newer has no copy then, and its
/// damage is an error.
#[test]
fn without_a_second_region_damage_is_an_error() {
    let kind = &KINDS[2];
    let (stage, _) = kind.written();
    let read_only = imbrex_disk_sim::ZoneFailure::ReadOnly;
    stage.disk.fail_zone(imbrex_disk::ZoneId(0), read_only).unwrap();
    let files = stage.open().unwrap();
    append(&files, "one").unwrap();
    append(&files, "two").unwrap();
    let after = state(&files);
    drop(files);
    assert_eq!(state(&stage.open().unwrap()), after);
    for at in kind.blocks(&stage, 1).into_iter().take(2) {
        stage.disk.flip_bit(at, 150).unwrap();
        let refused = stage.open();
        assert!(matches!(refused, Err(FilesError::Corrupt { .. })), "{at}: {refused:?}");
        stage.disk.flip_bit(at, 150).unwrap();
    }
    let refused = append(&stage.open().unwrap(), "three").unwrap_err();
    let source = std::error::Error::source(&refused).and_then(|e| e.downcast_ref::<DiskError>());
    assert!(matches!(source, Some(DiskError::ZoneNotWritable { .. })), "{refused}");
}

/// A power cut had broken one copy of a record. The other could not be read for a moment, and was taken for
/// one that ended before it. So the drive opened in the state before the record, and the next commit made
/// that final (B1).
#[test]
fn a_read_that_fails_once_takes_nothing_silently() {
    let (mut failed_count, mut opened_count) = (0, 0);
    for kind in &KINDS {
        for index in 0..2 {
            let (stage, _) = kind.written();
            let blocks = kind.blocks(&stage, index);
            for lost in blocks {
                let (stage, after) = kind.written();
                stage.disk.damage(BlockRange::new(lost, Blocks::new(1)));
                for read in 0..24 {
                    let fail_read = Some(FailAt { after: read, sticky: false });
                    stage.disk.set_faults(FaultPlan { fail_read, ..FaultPlan::default() });
                    let opened = stage.open();
                    stage.disk.set_faults(FaultPlan::default());
                    match opened {
                        Ok(files) => {
                            opened_count += 1;
                            let at = format!("{}: read {read}, {lost}", kind.placement);
                            assert_eq!(state(&files), after, "{at} of region {index}");
                        }
                        Err(FilesError::Disk { source: DiskError::Host { .. }, .. }) => {
                            failed_count += 1;
                        }
                        Err(error) => panic!("{}: {error}", kind.placement),
                    }
                }
            }
        }
    }
    assert!(100 < failed_count && 100 < opened_count, "{failed_count}, {opened_count}");
}

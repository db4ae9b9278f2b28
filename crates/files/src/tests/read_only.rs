//! Zones that become read-only. Such a zone has no write pointer any more. A catalog checkpoint
//! that was cut short in one was taken for a complete one, and the drive did not open, though the
//! other region was complete.

use super::stage::{Stage, Zones, assert_sound, content, put, remove, stage, verify, zoned};
use crate::{AppRecord, Commit, FileKind, FileLayer, Files, FilesError, Hints};
use imbrex_disk::{Blocks, Disk, Lba, Rule, ZoneId, ZoneSpec};
use imbrex_disk_sim::{FaultPlan, ZoneFailure};

const ZONES: Zones = Zones { count: 10, len: 64, conventional: 0, active_limit: None };

/// The current zone of the catalog after [`written`], and the zone of its next checkpoint.
const CURRENT: ZoneId = ZoneId(0);
const OTHER: ZoneId = ZoneId(1);

/// A drive without conventional zones. If it is not strict it reads zeros above a write pointer.
fn drive(is_strict: bool) -> Stage {
    let spec = ZoneSpec {
        zone_len: Blocks::new(64),
        zone_capacity: Blocks::new(64),
        conventional_zone_count: 0,
        open_zone_limit: None,
        active_zone_limit: None,
        strict_reads: is_strict,
    };
    stage(640, Rule::AtPointer(spec), 0)
}

fn append(files: &dyn Files, byte: u8, len_bytes: usize) -> Result<(), FilesError> {
    let app = Some(AppRecord::Append(vec![byte; len_bytes]));
    files.commit(Commit { app, ..Commit::default() })
}

/// Both regions hold a checkpoint followed by a record.
fn written(is_strict: bool) -> Stage {
    let stage = drive(is_strict);
    put(&stage.format("zone-per-level").unwrap(), "a", 3, 1).unwrap();
    let files = stage.open().unwrap();
    append(&files, 1, 50_000).unwrap();
    append(&files, 2, 10).unwrap();
    stage
}

fn assert_refuses_changes(files: &FileLayer, zone: ZoneId) {
    for _ in 0..2 {
        let log = |files: &FileLayer| files.create_log("w", Hints::new(FileKind::Log)).map(drop);
        for refused in [put(files, "x", 1, 1), remove(files, &["a"]), log(files)] {
            let error = std::error::Error::source(&refused.unwrap_err()).unwrap().to_string();
            assert_eq!(error, format!("{zone} is read-only: cannot write it"));
        }
    }
}

/// The next checkpoint, of 13 blocks, goes to zone 1, then to zone 0, and is cut short after each of
/// its writes.
#[test]
fn a_checkpoint_cut_short_in_a_zone_that_turned_read_only() {
    for is_strict in [true, false] {
        let mut refused_count = 0;
        for (cut_after, seed) in (0..9).flat_map(|cut| (0..8).map(move |seed| (cut, seed))) {
            let stage = written(is_strict);
            let files = stage.open().unwrap();
            let before = files.app_records();
            let power_cut_after = Some(cut_after);
            stage.disk.set_faults(FaultPlan { power_cut_after, ..FaultPlan::default() });
            let is_done = append(&files, 3, 10).is_ok();
            drop(files);
            stage.power_cycle(seed);
            stage.disk.fail_zone(OTHER, ZoneFailure::ReadOnly).unwrap();
            let files = stage.open().unwrap_or_else(|error| {
                panic!("strict {is_strict}, cut {cut_after}, seed {seed}: {error}")
            });
            let after = files.app_records();
            assert!(after == before || after.len() == before.len() + 1, "{}", after.len());
            assert!(!is_done || after.len() == before.len() + 1);
            verify(&files, "a", "a").unwrap();
            assert_sound(&files);
            // If the zone still has a whole copy, the next checkpoint goes to the other zone.
            if append(&files, 4, 10).is_err() {
                refused_count += 1;
                assert_eq!(after, before);
                assert_refuses_changes(&files, OTHER);
            }
        }
        assert!((10..72).contains(&refused_count), "{refused_count}");
    }
}

/// The catalog's own zone became read-only. Its log is read as far as it can be, and the store
/// continues in the other region while that takes writes.
#[test]
fn a_catalog_in_a_zone_that_became_read_only_moves_to_the_other_region() {
    for is_strict in [true, false] {
        let stage = written(is_strict);
        let before = stage.open().unwrap().app_records();
        stage.disk.fail_zone(CURRENT, ZoneFailure::ReadOnly).unwrap();
        let files = stage.open().unwrap();
        assert_eq!(files.app_records(), before);
        for n in 0..5 {
            append(&files, n, 10).unwrap();
        }
        put(&files, "b", 3, 1).unwrap();
        drop(files);
        let files = stage.open().unwrap();
        assert_eq!(files.app_records().len(), before.len() + 5);
        verify(&files, "a", "a").unwrap();
        verify(&files, "b", "b").unwrap();
        assert_sound(&files);
        assert_refuses_changes(&files, CURRENT);
    }
}

/// Bits that rot in a read-only zone are read from the other zone, and the store goes on there.
#[test]
fn a_checkpoint_that_rots_in_a_read_only_zone_has_a_copy() {
    for is_strict in [true, false] {
        for at in [0, 1, 5, 13, 14] {
            let stage = written(is_strict);
            let before = stage.open().unwrap().app_records();
            stage.disk.fail_zone(CURRENT, ZoneFailure::ReadOnly).unwrap();
            stage.disk.flip_bit(Lba::new(at), 99).unwrap();
            let files = stage.open().unwrap_or_else(|error| panic!("{at}: {error}"));
            assert_eq!(files.app_records(), before, "{at}");
        }
    }
}

/// Both regions are in one conventional zone: the content can be read, and each change reports why
/// it is refused.
#[test]
fn a_read_only_conventional_zone_of_the_catalog_refuses_changes() {
    let stage = zoned(Zones { conventional: 1, ..ZONES }, 0);
    put(&stage.format("zone-per-level").unwrap(), "a", 3, 1).unwrap();
    stage.disk.fail_zone(CURRENT, ZoneFailure::ReadOnly).unwrap();
    let files = stage.open().unwrap();
    verify(&files, "a", "a").unwrap();
    assert_refuses_changes(&files, CURRENT);
}

/// An open log in such a zone was as long as the zone, and a reader on a strict drive met an error
/// after the written part.
#[test]
fn an_open_log_whose_zone_turned_read_only_is_read_as_far_as_it_goes() {
    for (is_strict, blocks) in [(true, 5), (false, 64)] {
        let stage = drive(is_strict);
        let files = stage.format("zone-per-level").unwrap();
        let [log, empty] =
            ["w", "empty"].map(|name| files.create_log(name, Hints::new(FileKind::Log)).unwrap());
        let written = content("w", 5 * 4096);
        log.append(&written).unwrap();
        log.sync().unwrap();
        for name in ["w", "empty"] {
            let at = files.open(name).unwrap().extents()[0].start;
            let zone = stage.disk.geometry().zone_of(at).unwrap();
            stage.disk.fail_zone(zone, ZoneFailure::ReadOnly).unwrap();
        }
        log.append(&written).unwrap_err();
        stage.disk.cut_power();
        drop((log, empty, files));
        stage.power_cycle(1);
        for _ in 0..2 {
            let files = stage.open().unwrap();
            let reader = files.open("w").unwrap();
            assert_eq!(reader.len_bytes(), Blocks::new(blocks).bytes());
            let mut scratch = Vec::new();
            let got = reader.read_at(0, reader.len_bytes() as usize, &mut scratch).unwrap();
            assert_eq!(got[..written.len()], written);
            let empty = files.open("empty").unwrap().len_bytes();
            assert_eq!(empty, Blocks::new(if is_strict { 0 } else { 64 }).bytes());
            assert_sound(&files);
            put(&files, "b", 3, 1).unwrap();
            remove(&files, &["b"]).unwrap();
        }
    }
}

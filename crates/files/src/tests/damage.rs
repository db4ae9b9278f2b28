//! Flipped bits in the catalog, other geometries, other contents: the error names them, and nothing
//! is guessed.

use super::stage::{
    Stage, Zones, assert_sound, conventional, one_zone_to_clean, put, put_upkeep, remove, verify,
    zoned,
};
use crate::{AppRecord, Commit, FileKind, Files, FilesError, Hints};
use imbrex_clockwork::{Budget, Step};
use imbrex_disk::{Disk, Lba, Persist, ZoneId};
use imbrex_disk_sim::{FailAt, FaultPlan, ZoneFailure};
use std::sync::Arc;

const ZONES: Zones = Zones { count: 10, len: 64, conventional: 1, active_limit: None };
const SEQUENTIAL: Zones = Zones { count: 10, len: 64, conventional: 0, active_limit: None };

type State = (Vec<String>, Vec<Vec<u8>>);

fn state(files: &dyn Files) -> State {
    (files.list("").into_iter().map(|file| file.name).collect(), files.app_records())
}

/// A drive with a checkpoint and a few records, its state before the last record, and its state.
fn written(stage: Stage, placement: &str) -> (Stage, State, State) {
    let files = stage.format(placement).unwrap();
    for name in ["a", "b", "c"] {
        put(&files, name, 2, 1).unwrap();
    }
    remove(&files, &["b"]).unwrap();
    let before = state(&files);
    let app = Some(AppRecord::Append(b"last".to_vec()));
    files.commit(Commit { app, ..Commit::default() }).unwrap();
    let after = state(&files);
    (stage, before, after)
}

fn flip_everywhere(make: &dyn Fn() -> Stage, placement: &str, blocks: &[u64]) {
    let (stage, _, after) = written(make(), placement);
    for &at in blocks {
        for bit in [0, 65, 170, 333, 500, 1000, 32_767] {
            stage.disk.flip_bit(Lba::new(at), bit).unwrap();
            let files = stage.open().unwrap_or_else(|e| panic!("bit {bit} of block {at}: {e}"));
            assert_eq!(state(&files), after, "bit {bit} of block {at}");
            stage.disk.flip_bit(Lba::new(at), bit).unwrap();
        }
    }
}

#[test]
fn any_bit_in_conventional_regions() {
    let blocks: Vec<u64> = (0..64).collect();
    flip_everywhere(&|| zoned(ZONES, 0), "zone-per-level", &blocks);
    flip_everywhere(&|| conventional(1024, 0), "first-fit", &blocks);
}

#[test]
fn any_bit_in_sequential_regions() {
    let blocks: Vec<u64> = (0..20).chain(64..80).collect();
    flip_everywhere(&|| zoned(SEQUENTIAL, 0), "log-structured", &blocks);
}

#[test]
fn an_unreadable_catalog_is_the_disks_error() {
    let (stage, _, after) = written(zoned(ZONES, 0), "zone-per-level");
    let lose = |at| {
        stage.disk.damage(imbrex_disk::BlockRange::new(Lba::new(at), imbrex_disk::Blocks::new(1)));
    };
    lose(0);
    assert_eq!(state(&stage.open().unwrap()), after);
    lose(32);
    assert!(matches!(stage.open(), Err(FilesError::Disk { .. })));
}

#[test]
fn an_unreadable_block_of_the_catalog_keeps_no_drive_from_opening() {
    let (stage, _, after) = written(conventional(1024, 0), "first-fit");
    for at in 0..64 {
        let mut block = vec![0; 4096];
        stage.disk.read(Lba::new(at), &mut block).unwrap();
        stage.disk.damage(imbrex_disk::BlockRange::new(Lba::new(at), imbrex_disk::Blocks::new(1)));
        let files = stage.open().unwrap_or_else(|error| panic!("block {at}: {error}"));
        assert_eq!(state(&files), after, "block {at}");
        if at + 1 < 64 {
            stage.disk.write(Lba::new(at), &block, Persist::Through).unwrap();
        }
    }
    let files = stage.open().unwrap();
    for _ in 0..60 {
        let app = Some(AppRecord::Append(b"and so on".to_vec()));
        files.commit(Commit { app, ..Commit::default() }).unwrap();
    }
    let expected = state(&files);
    drop(files);
    assert_eq!(state(&stage.open().unwrap()), expected);
}

#[test]
fn what_is_no_catalog_is_not_formatted() {
    let stage = conventional(1024, 0);
    assert!(matches!(stage.open(), Err(FilesError::NotFormatted { .. })));
    stage.disk.write(Lba::new(0), &[7; 4096], Persist::Through).unwrap();
    stage.disk.write(Lba::new(32), &[8; 4096], Persist::Through).unwrap();
    assert!(matches!(stage.open(), Err(FilesError::NotFormatted { .. })));
    // Formatting ignores the old content.
    stage.format("first-fit").unwrap();
    stage.open().unwrap();
}

/// A flipped bit in the magic made a store look like a blank drive.
#[test]
fn a_header_without_its_first_bytes_is_damage() {
    let stage = conventional(1024, 0);
    stage.format("first-fit").unwrap();
    let mut header = vec![0; 4096];
    stage.disk.read(Lba::new(0), &mut header).unwrap();
    let check = |at: std::ops::Range<usize>| {
        let mut block = header.clone();
        block[at].fill(0xee);
        for copy in [0, 32] {
            stage.disk.write(Lba::new(copy), &block, Persist::Through).unwrap();
        }
        stage.open().unwrap_err()
    };
    assert!(matches!(check(0..1), FilesError::Corrupt { .. }), "all else is there");
    assert!(matches!(check(0..8), FilesError::Corrupt { .. }), "all else is there");
    assert!(matches!(check(0..512), FilesError::NotFormatted { .. }), "whose it was is not known");
}

/// Edits of a newer program are no torn end: the next checkpoint would drop them.
#[test]
fn a_record_of_a_newer_version_is_refused() {
    let (stage, ..) = written(conventional(1024, 0), "first-fit");
    let mut block = vec![0; 4096];
    let last = (0..32).rfind(|&at| {
        stage.disk.read(Lba::new(at), &mut block).unwrap();
        block.starts_with(b"RLOG")
    });
    block[52] = 2;
    let crc = crc32c::crc32c(&block[8..]);
    block[4..8].copy_from_slice(&crc.to_le_bytes());
    for copy in [0, 32] {
        stage.disk.write(Lba::new(copy + last.unwrap()), &block, Persist::Through).unwrap();
    }
    let error = stage.open().unwrap_err();
    assert!(matches!(error, FilesError::Version { got: 2, known: 1, .. }), "{error}");
}

#[test]
fn another_geometry_is_refused() {
    let stage = conventional(1024, 0);
    stage.format("first-fit").unwrap();
    let mut header = vec![0; 4096];
    stage.disk.read(Lba::new(32), &mut header).unwrap();
    let first = {
        stage.disk.read(Lba::new(0), &mut header).unwrap();
        header
    };
    let other = conventional(2048, 0);
    other.disk.write(Lba::new(0), &first, Persist::Through).unwrap();
    let error = other.open().unwrap_err();
    assert!(matches!(error, FilesError::Geometry { .. }), "{error}");
    let error = error.to_string();
    assert!(error.contains("1024") && error.contains("2048"), "{error}");
}

#[test]
fn a_pointer_below_a_live_extent_is_named() {
    let (stage, ..) = written(zoned(ZONES, 0), "zone-per-level");
    stage.disk.manage_zone(imbrex_disk::ZoneId(1), imbrex_disk::ZoneAction::Reset).unwrap();
    match stage.open() {
        Err(FilesError::Corrupt { structure: "extent", place, reason }) => {
            assert!(place.contains("\"a\""), "{place}");
            assert!(reason.contains("zone 1"), "{reason}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn unsuitable_drives_are_refused() {
    let is_unsuitable = |result: Result<crate::FileLayer, FilesError>| {
        matches!(result, Err(FilesError::Unsuitable { .. }))
    };
    assert!(is_unsuitable(zoned(ZONES, 0).format("first-fit")));
    assert!(is_unsuitable(conventional(1024, 0).format("zone-per-level")));
    assert!(is_unsuitable(conventional(64, 0).format("first-fit")));
    assert!(is_unsuitable(zoned(Zones { count: 4, ..ZONES }, 0).format("zone-per-level")));
    let few = Zones { active_limit: Some(2), ..ZONES };
    assert!(is_unsuitable(zoned(few, 0).format("log-structured")));
}

#[test]
fn a_file_of_another_drive_is_refused() {
    let (one, other) = (conventional(1024, 0), conventional(1024, 0));
    let (one, other) = (one.format("first-fit").unwrap(), other.format("first-fit").unwrap());
    let add = one.persist(vec![super::stage::table("a", 1, 0)]).unwrap();
    let refused = other.commit(Commit { add, ..Commit::default() });
    assert!(matches!(refused, Err(FilesError::BadName { .. })));
    assert!(Arc::strong_count(one.disk()) >= 1);
}

#[test]
fn an_unreadable_file_does_not_stop_the_cleaning_of_others() {
    let stage = zoned(ZONES, 0);
    let files = stage.format("log-structured").unwrap();
    for (name, blocks) in [("a", 10), ("b", 10), ("c", 44), ("d", 10), ("e", 54), ("f", 256)] {
        put(&files, name, blocks, 1).unwrap();
    }
    remove(&files, &["c", "e"]).unwrap();
    let at = files.open("d").unwrap().extents()[0].start;
    stage.disk.damage(imbrex_disk::BlockRange::new(at, imbrex_disk::Blocks::new(1)));
    // The zone of `d` has the most dead blocks and is tried first; then that of `a` and `b`.
    put(&files, "g", 100, 1).unwrap();
    assert_eq!(files.stats().cleaning_moved_bytes, 20 * 4096);
    for name in ["a", "b", "f", "g"] {
        super::stage::verify(&files, name, name).unwrap();
    }
    let error = super::stage::verify(&files, "d", "d").unwrap_err();
    assert!(error.contains("reading d at 0"), "{error}");
    assert_eq!(files.open("d").unwrap().extents()[0].start, at);
    super::stage::assert_sound(&files);
    // An unreadable file can still be removed. After that the zone is as good as any.
    remove(&files, &["d"]).unwrap();
    put(&files, "h", 40, 1).unwrap();
    super::stage::verify(&files, "h", "h").unwrap();
}

/// One failed write during background cleaning ended it until the next opening. Files that died
/// later kept their blocks, and writes that are refused before they are planned were refused
/// permanently.
#[test]
fn cleaning_continues_after_a_failed_write() {
    let (stage, files) = one_zone_to_clean();
    let mut cleaner = files.clean_job();
    let budget = Budget { io_bytes: u64::MAX };
    let fail_write = Some(FailAt { after: 1, sticky: false });
    stage.disk.set_faults(FaultPlan { fail_write, ..FaultPlan::default() });
    let failed = cleaner.step(budget);
    assert!(matches!(failed, Step::WaitFor { .. }), "{failed:?}");
    assert_eq!((files.stats().failed_cleanings, files.stats().cleaned_zones), (1, 0));
    assert_eq!(cleaner.step(budget), Step::More);
    assert_eq!(files.stats().cleaned_zones, 1);
    assert_eq!(cleaner.step(budget), Step::Wait);
    for name in ["a", "c"] {
        super::stage::verify(&files, name, name).unwrap();
    }
    super::stage::assert_sound(&files);
    // It ends when nothing can be written any more.
    stage.disk.cut_power();
    remove(&files, &["a"]).unwrap_err();
    assert_eq!(cleaner.step(budget), Step::Done);
}

/// A log grew while the catalog failed, so it is unknown whether the new run belongs to it. The
/// append reported that. But the next one found room in that run and wrote there, and its sync was
/// acknowledged for bytes that no recovery would read (O1, O4).
#[test]
fn a_log_that_could_not_grow_takes_nothing_more() {
    let stage = conventional(4096, 0);
    let files = stage.format("first-fit").unwrap();
    let log = files.create_log("w", Hints::new(FileKind::Log)).unwrap();
    let owned = files.open("w").unwrap().extents()[0].len.bytes() as usize;
    log.append(&vec![1; owned]).unwrap();
    stage.disk.cut_power();
    assert!(matches!(log.append(&[2; 4096]), Err(FilesError::Disk { .. })));
    stage.power_cycle(1);
    assert!(matches!(log.append(&[3; 4096]), Err(FilesError::Poisoned { .. })));
    assert!(matches!(log.sync(), Err(FilesError::Poisoned { .. })));
}

/// A zone that could not be reset failed every later operation, even writes of other files in other
/// zones, and the store above took that for the end of the drive. A zone that could not be finished
/// failed everything that followed.
#[test]
fn a_zone_that_takes_no_reset_is_retired() {
    for failure in [ZoneFailure::ReadOnly, ZoneFailure::Offline] {
        let stage = zoned(ZONES, 0);
        let files = stage.format("zone-per-level").unwrap();
        let capacity_bytes = files.space().capacity_bytes;
        for name in ["a", "b", "c"] {
            put(&files, name, 64, 1).unwrap();
        }
        let readers = ["a", "b", "c"].map(|name| files.open(name).unwrap());
        let zones = readers.each_ref().map(|file| file.extents()[0].start.get() / 64);
        let mut fail_next = zones.iter().zip(readers).map(|(&zone, reader)| {
            stage.disk.fail_zone(ZoneId(zone as u32), failure).unwrap();
            drop(reader);
        });
        remove(&files, &["a", "b", "c"]).unwrap();
        fail_next.next();
        let written = files.persist(vec![super::stage::table("d", 10, 1)]).unwrap();
        fail_next.next();
        files.commit(Commit { add: written, ..Commit::default() }).unwrap();
        fail_next.next();
        let log = files.create_log("w", Hints::new(FileKind::Log)).unwrap();
        log.append(&[7; 4096]).unwrap();
        assert_eq!(files.space().capacity_bytes, capacity_bytes - 3 * 64 * 4096);
        super::stage::verify(&files, "d", "d").unwrap();
        super::stage::assert_sound(&files);
        drop((log, files));
        let files = stage.open().unwrap();
        assert_eq!(files.space().capacity_bytes, capacity_bytes - 3 * 64 * 4096);
        super::stage::verify(&files, "d", "d").unwrap();
    }
}

#[test]
fn a_zone_that_takes_no_finish_is_retired() {
    let stage = zoned(Zones { active_limit: Some(6), ..ZONES }, 0);
    let files = stage.format("band-per-table").unwrap();
    let log = files.create_log("w", Hints::new(FileKind::Log)).unwrap();
    log.append(&[7; 4096]).unwrap();
    let at = files.open("w").unwrap().extents()[0].start;
    stage.disk.fail_zone(ZoneId((at.get() / 64) as u32), ZoneFailure::ReadOnly).unwrap();
    log.finish().unwrap();
    for name in ["a", "b", "c", "d"] {
        put(&files, name, 10, 1).unwrap();
        super::stage::verify(&files, name, name).unwrap();
    }
    assert_eq!(files.open("w").unwrap().len_bytes(), 4096);
    super::stage::assert_sound(&files);
    // Its files can be removed as usual; the zone stays retired.
    remove(&files, &["w", "a", "b"]).unwrap();
    put(&files, "e", 10, 1).unwrap();
    super::stage::assert_sound(&files);
}

/// A zone of the catalog that the drive gives up costs nothing: the other one has a copy.
#[test]
fn a_catalog_that_went_offline_has_a_copy() {
    for zone in [ZoneId(0), ZoneId(1)] {
        let (stage, _, after) = written(zoned(SEQUENTIAL, 0), "zone-per-level");
        stage.disk.fail_zone(zone, ZoneFailure::Offline).unwrap();
        assert_eq!(state(&stage.open().unwrap()), after);
        stage.disk.fail_zone(ZoneId(1 - zone.0), ZoneFailure::Offline).unwrap();
        let error = stage.open().err().unwrap().to_string();
        assert!(error.contains("is offline"), "{error}");
    }
}

/// After one failed write in a zone the zone was never cleaned again, and drives with room were
/// full.
#[test]
fn a_zone_in_which_a_write_failed_is_cleaned() {
    let stage = zoned(Zones { count: 9, ..ZONES }, 0);
    let files = stage.format("log-structured").unwrap();
    put(&files, "a", 30, 1).unwrap();
    put(&files, "c", 20, 1).unwrap();
    let fail_write = Some(FailAt { after: 0, sticky: false });
    stage.disk.set_faults(FaultPlan { fail_write, ..FaultPlan::default() });
    put(&files, "b", 10, 1).unwrap_err();
    remove(&files, &["c"]).unwrap();
    let names: Vec<String> = (0..50).map(|n| format!("rest {n}")).collect();
    let count = names.iter().take_while(|name| put_upkeep(&files, name, 10, 1).is_ok()).count();
    assert!(count > 10, "{count}");
    assert_eq!(files.stats().cleaned_zones, 1, "{count} tables found room");
    assert_sound(&files);
    verify(&files, "a", "a").unwrap();
}

/// The accounts showed all blocks that a log had been given, instead of those that it has.
#[test]
fn a_log_that_failed_is_accounted_for_as_it_is() {
    let stage = zoned(ZONES, 0);
    let files = stage.format("log-structured").unwrap();
    let log = files.create_log("w", Hints::new(FileKind::Log)).unwrap();
    log.append(&[7; 20 * 4096]).unwrap();
    let fail_write = Some(FailAt { after: 0, sticky: false });
    stage.disk.set_faults(FaultPlan { fail_write, ..FaultPlan::default() });
    log.append(&[7; 4096]).unwrap_err();
    drop(log);
    assert_eq!(files.open("w").unwrap().len_bytes(), 20 * 4096);
    assert_sound(&files);
}

//! Drives that a placement cannot use, and impossible spans: refused with the reason and a remedy.

use super::stage::{Stage, Zones, conventional, interlaced, member, put, shingled, stage, zoned};
use crate::catalog::{Edit, FileId, FileRecord};
use crate::commit::PendingFrees;
use crate::extent::Extent;
use crate::{AppRecord, Commit, FileKind, FileLayer, Files, FilesError, PlacementKind};
use imbrex_disk::{BlockRange, Blocks, Lba, Rule, ZoneSpec};

/// The placements in lanes of zones, and that of a zone for each table.
const IN_ZONES: [&str; 5] =
    ["band-per-table", "log-structured", "log-cost-benefit", "zone-per-level", "zone-per-stream"];

fn refusal(stage: &Stage, placement: &str) -> String {
    match stage.format(placement) {
        Err(error @ FilesError::Unsuitable { .. }) => error.to_string(),
        Err(error) => panic!("{placement}: {error}"),
        Ok(_) => "suits".to_owned(),
    }
}

#[track_caller]
fn check(stage: &Stage, placement: &str, expected: &str) {
    let reason = refusal(stage, placement);
    assert!(reason.contains(expected), "{placement}: {reason}");
}

#[test]
fn each_placement_names_the_drive_that_it_needs() {
    let anywhere = conventional(8192, 0);
    let tracks = shingled(16_384, 64, 2, 0);
    let zones = zoned(Zones { count: 40, len: 64, conventional: 1, active_limit: None }, 0);
    let pairs = interlaced(16_384, 64, 50, 0);
    for placement in PlacementKind::names().filter(|name| name.starts_with("track-")) {
        check(&pairs, placement, "suits");
        check(&anywhere, placement, "the drive is conventional, and its tracks are not interlaced");
        check(&tracks, placement, "use dynamic-bands");
        check(&zones, placement, "use zone-per-level");
    }
    check(&pairs, "first-fit", "use a conventional drive");
    check(&pairs, "sets", "use a conventional drive");
    check(&pairs, "dynamic-bands", "need a raw shingled one");
    check(&pairs, "log-structured", "has no zones; use track-tiers");
    for placement in ["first-fit", "sets"] {
        check(&anywhere, placement, "suits");
        check(&tracks, placement, "dynamic-bands");
        check(&zones, placement, "use a conventional drive");
    }
    check(&tracks, "dynamic-bands", "suits");
    check(&anywhere, "dynamic-bands", "use sets or first-fit");
    check(&zones, "dynamic-bands", "need a raw shingled one");
    for placement in IN_ZONES {
        check(&zones, placement, "suits");
        check(&anywhere, placement, "use first-fit");
        check(&tracks, placement, "use dynamic-bands");
    }
}

#[test]
fn a_drive_too_small_for_a_few_tables_and_guards_is_refused() {
    check(&conventional(2048, 0), "sets", "use a larger drive or shorter tables");
    // The same drive suits shorter tables.
    conventional(2048, 0).format_small("sets").unwrap();
    check(&shingled(8192, 256, 4, 0), "dynamic-bands", "a catalog with its guards takes");
    check(&shingled(5000, 64, 2, 0), "dynamic-bands", "use a larger drive or shorter tables");
    check(&interlaced(400, 64, 64, 0), "track-tiers", "a catalog in top tracks takes");
    check(&interlaced(3000, 64, 64, 0), "track-tiers", "too few for a catalog and a backup region");
    check(&interlaced(8192, 64, 64, 0), "track-tiers", "use a larger drive or shorter tables");
    interlaced(3000, 64, 64, 0).format_small("track-tiers").unwrap();
    let zones = zoned(Zones { count: 8, len: 64, conventional: 1, active_limit: None }, 0);
    check(&zones, "band-per-table", "7 zones for files; 8 are needed");
}

/// If a drive reports limits on open and on active zones, only the second was considered, though
/// the lower one applies. A catalog after too few conventional zones was not counted.
#[test]
fn the_lower_of_two_limits_on_zones_counts() {
    let zoned = |open: Option<u32>, active: Option<u32>, conventional: u32| {
        let spec = ZoneSpec {
            zone_len: Blocks::new(64),
            zone_capacity: Blocks::new(64),
            conventional_zone_count: conventional,
            open_zone_limit: open,
            active_zone_limit: active,
            strict_reads: true,
        };
        stage(40 * 64, Rule::AtPointer(spec), 0)
    };
    for placement in IN_ZONES {
        check(&zoned(None, Some(5), 0), placement, "suits");
        check(&zoned(Some(5), None, 0), placement, "suits");
        check(&zoned(Some(4), Some(100), 0), placement, "4 active zones; at least 5 are needed");
        check(&zoned(Some(2), None, 1), placement, "2 active zones; at least 3 are needed");
    }
}

/// The error when a catalog is opened to which `file` was added.
fn opening_with(file: FileRecord) -> String {
    let stage = conventional(900, 0);
    let files = stage.format_small("sets").unwrap();
    let add = files.persist(vec![member("a", 10, 2, 1), member("b", 10, 2, 1)]).unwrap();
    files.commit(Commit { add, ..Commit::default() }).unwrap();
    put(&files, "c", 10, 1).unwrap();
    reopening_with(&stage, &files, file)
}

fn reopening_with(stage: &Stage, files: &FileLayer, file: FileRecord) -> String {
    let mut live = files.inner.committer.lock();
    let edit = Edit::Add { name: "bad".to_owned(), file };
    let ticket = live.enqueue(vec![edit], PendingFrees::default(), false);
    drop(live);
    files.inner.committer.settle(ticket).unwrap();
    match stage.open() {
        Err(error @ FilesError::Corrupt { .. }) => error.to_string(),
        Err(error) => panic!("{error}"),
        Ok(_) => "opens".to_owned(),
    }
}

fn record(span: Option<(u64, u64)>, extent: Option<(u64, u64)>) -> FileRecord {
    let extent = extent.map(|(start, len)| {
        let len_bytes = Blocks::new(len).bytes();
        Extent { start: Lba::new(start), len_bytes }
    });
    FileRecord {
        id: FileId(99),
        kind: FileKind::Table,
        level: 2,
        written_level: 2,
        group: None,
        stream: 0,
        is_open: false,
        is_beside: false,
        span: span.map(|(start, len)| BlockRange::new(Lba::new(start), Blocks::new(len))),
        extents: extent.into_iter().collect(),
    }
}

#[test]
fn spans_that_contradict_each_other_are_damage() {
    // Files begin at block 64: a and b are the span 64..84, c is 84..94.
    let check = |span, extent, expected: &str| {
        let got = opening_with(record(span, extent));
        assert!(got.contains(expected), "{span:?} {extent:?}: {got}");
    };
    check(Some((200, 30)), Some((210, 20)), "opens");
    check(Some((200, 30)), None, "names a span but has no blocks");
    check(Some((80, 30)), Some((100, 5)), "two spans share blocks");
    check(Some((200, 30)), Some((225, 10)), "file 99 lies there");
    check(Some((90, 30)), Some((100, 5)), "file 3 lies there");
    check(Some((40, 20)), Some((100, 5)), "files may lie in 64..900 only");
    check(Some((800, 200)), Some((810, 5)), "files may lie in 64..900 only");
    check(None, Some((83, 3)), "share blocks");
}

/// An id close to 2^64 was accepted. The ids of later files started at 0 again, and the second of
/// them caused a panic.
#[test]
fn a_file_id_that_no_drive_reaches_is_damage() {
    for id in [u64::MAX, u64::MAX - 1, 1 << 63, 1 << 48] {
        let got = opening_with(FileRecord { id: FileId(id), ..record(None, Some((200, 5))) });
        assert!(got.contains("file id") && got.contains("no drive gets that far"), "{id}: {got}");
    }
    for last in [u64::MAX - 1, 1 << 48] {
        let stage = conventional(900, 0);
        let files = stage.format_small("sets").unwrap();
        files.inner.committer.reserve_id(FileId(last));
        files
            .commit(Commit { app: Some(AppRecord::Append(vec![1])), ..Commit::default() })
            .unwrap();
        match stage.open() {
            Err(error @ FilesError::Corrupt { structure: "catalog header", .. }) => {
                assert!(error.to_string().contains("next file id"), "{error}");
            }
            other => panic!("{last}: {other:?}"),
        }
    }
}

/// Two equal extents of one file were taken for two names of it.
#[test]
fn a_file_that_has_its_blocks_twice_is_damage() {
    let mut twice = record(None, Some((200, 5)));
    twice.extents.push(twice.extents[0]);
    let got = opening_with(twice);
    assert!(got.contains("share blocks"), "{got}");
}

/// An extent in the backup region passed the checks, and the space map panicked.
#[test]
fn a_file_where_the_backup_lies_is_damage() {
    let mut in_backup = 0;
    for start in (0..3000).step_by(64) {
        let stage = interlaced(3000, 64, 64, 0);
        let files = stage.format_small("track-tiers").unwrap();
        let got = reopening_with(&stage, &files, record(None, Some((start, 5))));
        match () {
            () if got.contains("the catalog lies there") => assert_eq!(in_backup, 0, "{start}"),
            () if got.contains("files may lie from block") => in_backup += 1,
            () => assert_eq!(got, "opens", "{start}"),
        }
    }
    assert!(in_backup > 0, "the drive has a backup region");
}

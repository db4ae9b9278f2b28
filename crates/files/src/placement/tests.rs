//! Plans as tables: a map and requests in, extents out.

use super::{FileRequest, Placement, PlacementKind, PlacementOptions, Urgency};
use crate::hints::{FileKind, Hints};
use crate::room::CommitKind;
use crate::space::tests::{empty_zones, map, range};
use crate::space::{Lane, NoSpace, SpaceMap};
use imbrex_disk::{BlockRange, Blocks, Geometry, GeometrySpec, Lba, NeighbourSpec, Rule, ZoneKind};

fn request(blocks: u64, level: u8) -> FileRequest {
    let hints = Hints { level, ..Hints::new(FileKind::Table) };
    FileRequest { len_bytes: Blocks::new(blocks).bytes(), hints, is_moved: false }
}

fn reserve(blocks: u64, level: u8) -> FileRequest {
    let request = request(blocks, level);
    FileRequest { hints: Hints { purpose: CommitKind::Upkeep, ..request.hints }, ..request }
}

/// Plans and takes. Returns the position of each file, or the refusal.
fn place(policy: &str, map: &mut SpaceMap, files: &[FileRequest]) -> String {
    let policy = PlacementKind::by_name(policy).unwrap().build();
    match policy.plan(map, files) {
        Err(NoSpace { needed, free }) => format!("no space: {} of {}", needed.get(), free.get()),
        Ok(plan) => {
            let mut out = Vec::new();
            for (planned, file) in plan.iter().zip(files) {
                let extents = &planned.extents;
                for extent in extents {
                    let lane = policy.lane(&file.piece(extent.len_bytes), map.zone_capacity());
                    map.take(extent.range(), lane, 1);
                    let end = extent.range().end();
                    map.change(extent.start, |zone| zone.written = end);
                }
                let texts: Vec<String> = extents.iter().map(ToString::to_string).collect();
                out.push(texts.join(" "));
            }
            map.check().unwrap();
            out.join(", ")
        }
    }
}

/// The run that a policy gives a new log, if it needs only one.
pub(super) fn plan_log(
    policy: &dyn Placement,
    map: &SpaceMap,
    hints: &Hints,
) -> Result<BlockRange, NoSpace> {
    policy.plan_log_pieces(map, hints, Blocks::ZERO).map(|pieces| pieces[0])
}

#[test]
fn levels_get_zones_of_their_own() {
    let mut map = map(8, None);
    let files = [request(20, 1), request(10, 2), request(48, 1), request(5, 2)];
    assert_eq!(place("zone-per-level", &mut map, &files), "0..20, 64..74, 20..64 128..132, 74..79");
    assert_eq!(place("zone-per-level", &mut map, &[request(3, 1)]), "132..135");
}

/// Tables nearly as long as zones straddled two each, so every zone held parts of two tables, which
/// die at different times.
#[test]
fn a_table_long_against_a_zone_has_one_to_itself() {
    let mut map = map(8, None);
    let files = [request(10, 1), request(60, 1), request(49, 1), request(5, 1), request(48, 1)];
    assert_eq!(
        place("zone-per-level", &mut map, &files),
        "0..10, 64..124, 128..177, 10..15, 15..63"
    );
    // The part that continues after a whole zone is short.
    assert_eq!(place("zone-per-level", &mut map, &[request(70, 1)]), "192..256 63..64 256..261");
    assert_eq!(place("zone-per-level", &mut map, &[request(60, 1)]), "320..380");
    assert_eq!(place("zone-per-level", &mut map, &[reserve(60, 2)]), "384..444");
    // No further zone may be begun: the last one belongs to cleaning.
    let in_need = "444..448 124..128 177..192 261..298";
    assert_eq!(place("zone-per-level", &mut map, &[reserve(60, 2)]), in_need);
}

#[test]
fn one_log_mixes_levels() {
    let mut map = map(8, None);
    let files = [request(10, 1), request(10, 2), request(60, 1)];
    assert_eq!(place("log-structured", &mut map, &files), "0..10, 10..20, 20..64 64..80");
}

#[test]
fn a_moved_file_goes_to_a_cold_zone() {
    let mut map = map(8, None);
    let moved = FileRequest { is_moved: true, ..request(10, 1) };
    let files = [request(10, 1), moved];
    assert_eq!(place("zone-per-level", &mut map, &files), "0..10, 64..74");
}

#[test]
fn the_limit_on_active_zones_makes_levels_share() {
    let mut map = map(8, Some(2));
    let files = [request(10, 1), request(10, 5), request(10, 4)];
    // Level 4 goes to the nearest level's zone: 5.
    assert_eq!(place("zone-per-level", &mut map, &files), "0..10, 64..74, 74..84");
    // Filling zones makes room for others.
    assert_eq!(place("zone-per-level", &mut map, &[request(54, 1)]), "10..64");
    assert_eq!(place("zone-per-level", &mut map, &[request(10, 1)]), "128..138");
}

#[test]
fn a_full_drive_spills_into_any_zone_but_not_into_the_reserve() {
    let mut map = map(6, None);
    assert_eq!(
        place("zone-per-level", &mut map, &[request(10, 1), request(70, 2), request(60, 3)]),
        "0..10, 64..128 128..134, 192..252"
    );
    assert_eq!(place("zone-per-level", &mut map, &[request(117, 1)]), "no space: 117 of 116");
    assert_eq!(place("zone-per-level", &mut map, &[request(116, 1)]), "256..320 10..62");
    assert_eq!(place("zone-per-level", &mut map, &[reserve(65, 1)]), "no space: 65 of 64");
    // One zone is left, which belongs to cleaning.
    assert_eq!(place("zone-per-level", &mut map, &[reserve(64, 1)]), "62..64 134..192 252..256");
}

#[test]
fn logs_keep_apart_from_tables() {
    let mut map = map(8, None);
    place("zone-per-level", &mut map, &[request(10, 1)]);
    let policy = PlacementKind::by_name("zone-per-level").unwrap().build();
    let hints = Hints::new(FileKind::Log);
    let run = plan_log(&*policy, &map, &hints).unwrap();
    assert_eq!(run, range(64, 64));
    map.take(run, Lane::Log, 1);
    map.set_owned(run, true);
    assert_eq!(plan_log(&*policy, &map, &hints), Ok(range(128, 64)));
    map.shrink(Lba::new(64), range(70, 58), false);
    map.set_owned(run, false);
    assert_eq!(plan_log(&*policy, &map, &hints), Ok(range(70, 58)));
}

/// An empty zone was too long for what a log might use. The log was refused, though the rest of
/// another zone would have done. So it was with a zone that earlier logs began.
#[test]
fn a_log_takes_a_zone_that_it_may_use_whole() {
    let policy = PlacementKind::by_name("zone-per-level").unwrap().build();
    let plan = |map: &SpaceMap| plan_log(&*policy, map, &Hints::new(FileKind::Log));
    let mut drive = map(6, None);
    place("zone-per-level", &mut drive, &[request(192, 1), request(28, 2)]);
    // 36 blocks besides the reserve: two empty zones.
    assert_eq!(plan(&drive), Ok(range(192 + 28, 36)));
    let mut drive = map(6, None);
    place("zone-per-level", &mut drive, &[request(128, 1), request(14, 2)]);
    place("zone-per-level", &mut drive, &[reserve(24, 3), reserve(44, 4)]);
    drive.change(Lba::new(128), |zone| zone.lane = Some(Lane::Log));
    // 46 blocks. The zones that are begun have 50, 40 (after an earlier log), and 20 left.
    assert_eq!(plan(&drive), Ok(range(192 + 24, 40)));
    place("zone-per-level", &mut drive, &[reserve(40, 3)]);
    let refused = NoSpace { needed: Blocks::new(20), free: Blocks::new(6) };
    assert_eq!(plan(&drive), Err(refused));
}

/// Cleaning begins with an empty zone, whatever the others hold: a cleaning that breaks off leaves
/// only a zone to reset.
#[test]
fn the_last_empty_zone_is_cleanings() {
    let mut map = map(6, None);
    place("zone-per-level", &mut map, &[request(128, 1), request(20, 2)]);
    assert_eq!(place("zone-per-level", &mut map, &[reserve(10, 3)]), "192..202");
    assert_eq!(place("zone-per-level", &mut map, &[reserve(10, 4)]), "256..266");
    // Level 5 shares a zone, and so does the file that follows.
    assert_eq!(place("zone-per-level", &mut map, &[reserve(60, 5)]), "266..320 202..208");
    let moved = FileRequest { is_moved: true, ..request(30, 1) };
    assert_eq!(place("zone-per-level", &mut map, &[moved]), "320..350");
    assert_eq!(place("zone-per-level", &mut map, &[reserve(62, 1)]), "148..192 208..226");
    // No other file goes to a zone of copies before their moves are committed.
    let policy = PlacementKind::by_name("zone-per-level").unwrap().build();
    let log = plan_log(&*policy, &map, &Hints::new(FileKind::Log));
    let refused = NoSpace { needed: Blocks::new(30), free: Blocks::ZERO };
    assert_eq!(log, Err(refused));
    map.set_named(range(320, 30), true);
    assert_eq!(place("zone-per-level", &mut map, &[moved]), "350..380");
}

#[test]
fn first_fit_fills_holes_and_splits_when_it_must() {
    let spec = GeometrySpec { len: Blocks::new(1100), rule: Rule::Anywhere };
    let geometry = Geometry::new(spec).unwrap();
    let mut map = SpaceMap::without_zones(&geometry, range(100, 1000), Blocks::new(8));
    let place = |map: &mut SpaceMap, blocks: u64| {
        let policy = PlacementKind::by_name("first-fit").unwrap().build();
        let plan = policy.plan(map, &[request(blocks, 0)]).unwrap();
        let extents = &plan[0].extents;
        extents.iter().for_each(|extent| map.take(extent.range(), Lane::Fresh(0), 1));
        extents.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(place(&mut map, 300), "100..400");
    assert_eq!(place(&mut map, 300), "400..700");
    map.give(range(100, 20), false);
    let back = map.begin_discard();
    map.was_discarded(&back);
    assert_eq!(place(&mut map, 30), "700..730");
    assert_eq!(place(&mut map, 15), "100..115");
    map.check().unwrap();
    assert_eq!(place(&mut map, 240), "730..970");
    assert_eq!(map.free().get(), 135);
}

#[test]
fn greedy_cleaning_takes_the_zone_with_most_dead_blocks() {
    let mut map = map(8, None);
    place("log-structured", &mut map, &[request(320, 1)]);
    for zone in 0..5 {
        map.set_named(range(zone * 64, 64), true);
    }
    map.give(range(64, 10), true);
    map.give(range(128, 30), true);
    let policy = |name| PlacementKind::by_name(name).unwrap().build();
    let log = policy("log-structured");
    // 192 + 0 of 512 blocks are free: more than 20 %.
    assert_eq!(log.plan_reclaim(&map, Urgency::Background), None);
    place("log-structured", &mut map, &[reserve(100, 1)]);
    assert_eq!(log.plan_reclaim(&map, Urgency::Background), Some(range(128, 64)));
    let per_level = policy("zone-per-level");
    // 92 blocks are free, and the reserve is 128.
    assert_eq!(per_level.plan_reclaim(&map, Urgency::Background), Some(range(128, 64)));
    assert_eq!(per_level.plan_reclaim(&map, Urgency::NoSpace), Some(range(128, 64)));
    assert_eq!(policy("first-fit").plan_reclaim(&map, Urgency::NoSpace), None);
}

#[test]
fn cost_and_benefit_prefer_old_zones_with_little_in_them() {
    let mut map = map(8, None);
    let mut fill = |zone: u64, held: u64, born: u64| {
        map.take(range(zone * 64, 64), Lane::Fresh(0), born);
        map.change(Lba::new(zone * 64), |zone| zone.written = zone.next);
        map.set_named(range(zone * 64, 64), true);
        map.give(range(zone * 64, 64 - held), true);
    };
    // Greedy would take zone 0, which was written last: most dead blocks, but more will die soon.
    fill(0, 20, 100);
    fill(1, 40, 50);
    fill(2, 30, 40);
    fill(3, 30, 60);
    let options = PlacementOptions::default();
    let policy = |name| PlacementKind::by_name(name).unwrap().build_with(&options);
    let victim = |name| policy(name).plan_reclaim(&map, Urgency::NoSpace);
    assert_eq!(victim("log-structured"), Some(range(0, 64)));
    assert_eq!(victim("log-cost-benefit"), Some(range(128, 64)));
}

#[test]
fn a_stream_continues_in_the_empty_zone_nearest_to_its_position() {
    let mut map = map(16, None);
    let file = |blocks, stream, position| FileRequest {
        hints: Hints { stream, position, ..request(0, 1).hints },
        ..request(blocks, 1)
    };
    let half = Some(1 << 15);
    assert_eq!(place("zone-per-stream", &mut map, &[file(10, 9, half)]), "0..10", "all is empty");
    map.take(range(960, 64), Lane::Fresh(7), 1);
    let files =
        [file(64, 1, half), file(64, 1, half), file(64, 1, half), file(64, 1, Some(u16::MAX))];
    let zones = "512..576, 448..512, 576..640, 896..960";
    assert_eq!(place("zone-per-stream", &mut map, &files), zones);
    // An open zone of the stream is filled first, wherever it is. A file without a position takes the first.
    let files = [file(10, 2, Some(0)), file(10, 2, half), file(10, 3, None)];
    assert_eq!(place("zone-per-stream", &mut map, &files), "64..74, 74..84, 128..138");
    assert_eq!(place("zone-per-level", &mut map, &[file(64, 4, half)]), "192..256");
}

#[test]
fn the_share_of_free_space_that_starts_cleaning_is_an_option() {
    let mut map = map(10, None);
    map.take(range(0, 64), Lane::Fresh(0), 1);
    map.change(Lba::new(0), |zone| zone.written = zone.next);
    map.set_named(range(0, 64), true);
    map.give(range(0, 60), true);
    let starts = |name: &str, free_percent_least| {
        let options = PlacementOptions { free_percent_least, ..PlacementOptions::default() };
        let policy = PlacementKind::by_name(name).unwrap().build_with(&options);
        policy.plan_reclaim(&map, Urgency::Background).is_some()
    };
    // 90 % are free.
    for name in ["log-structured", "log-cost-benefit", "zone-per-level", "zone-per-stream"] {
        assert_eq!((starts(name, 0), starts(name, 90), starts(name, 91)), (false, false, true));
    }
    let options = PlacementOptions { free_percent_least: 101, ..PlacementOptions::default() };
    assert!(options.check().unwrap_err().contains("101 %"));
}

#[test]
fn logs_take_conventional_zones_first_and_tables_last() {
    let mut zones = empty_zones(8);
    zones[0].kind = ZoneKind::Conventional;
    zones[1].kind = ZoneKind::Conventional;
    let mut map = SpaceMap::with_zones(Blocks::new(64), zones, None);
    assert_eq!(place("zone-per-level", &mut map, &[request(64, 1)]), "128..192");
    let policy = PlacementKind::by_name("zone-per-level").unwrap();
    let policy = policy.build();
    let log = plan_log(&*policy, &map, &Hints::new(FileKind::Log)).unwrap();
    assert_eq!(log, range(0, 64));
    map.take(log, Lane::Log, 1);
    assert_eq!(
        place("zone-per-level", &mut map, &[reserve(300, 2)]),
        "192..256 256..320 320..384 384..448 448..492"
    );
    // Level 3 shares a sequential zone before it takes the last conventional one.
    assert_eq!(place("zone-per-level", &mut map, &[reserve(20, 3)]), "492..512");
}

/// The planner stopped at the last spare zone, though any file may take a zone that is too short to
/// be spare.
#[test]
fn a_short_zone_after_the_last_spare_one_is_used() {
    let mut zones = empty_zones(2);
    zones[1].capacity = Blocks::new(40);
    for policy in ["zone-per-level", "zone-per-stream", "log-structured"] {
        let mut map = SpaceMap::with_zones(Blocks::new(64), zones.clone(), None);
        assert_eq!(place(policy, &mut map, &[reserve(41, 1)]), "no space: 41 of 40");
        assert_eq!(place(policy, &mut map, &[reserve(30, 1)]), "64..94");
        assert_eq!(place(policy, &mut map, &[reserve(10, 1)]), "94..104");
    }
}

#[test]
fn zones_of_levels_are_cleaned_only_when_hardly_more_than_the_reserve_is_free() {
    let mut map = map(8, None);
    place("zone-per-level", &mut map, &[request(64, 1)]);
    map.set_named(range(0, 64), true);
    map.give(range(0, 60), true);
    let per_level = PlacementKind::by_name("zone-per-level").unwrap().build();
    assert_eq!(per_level.plan_reclaim(&map, Urgency::Background), None);
    assert_eq!(per_level.plan_reclaim(&map, Urgency::NoSpace), Some(range(0, 64)));
}

#[test]
fn policies_are_found_by_name() {
    let names: Vec<_> = PlacementKind::names().collect();
    let known = [
        "first-fit",
        "sets",
        "dynamic-bands",
        "band-per-table",
        "log-structured",
        "log-cost-benefit",
        "zone-per-level",
        "zone-per-stream",
        "track-sequential",
        "track-three-phase",
        "track-tiers-naive",
        "track-tiers",
        "track-tiers-fullest",
        "track-positions",
    ];
    assert_eq!(names, known);
    for name in names {
        let kind = PlacementKind::by_name(name).unwrap();
        assert_eq!((kind.name(), kind.build().name()), (name, name));
    }
    assert_eq!(PlacementKind::by_name("no-such"), None);
}

/// The rest of the only empty bottom track, left by the first table of a plan, was forgotten, and
/// the second table refused.
#[test]
fn what_a_plan_leaves_of_a_track_is_its_own() {
    let (bottom_track_len, top_track_len) = (Blocks::new(64), Blocks::new(32));
    let rule = Rule::Neighbours(NeighbourSpec { bottom_track_len, top_track_len });
    let geometry = Geometry::new(GeometrySpec { len: Blocks::new(8 * 96), rule }).unwrap();
    let mut map = SpaceMap::without_zones(&geometry, range(0, 8 * 96), Blocks::new(16));
    let take = |map: &mut SpaceMap, start, len| map.take(range(start, len), Lane::Fresh(1), 1);
    (0..8).filter(|&pair| pair != 2).for_each(|pair| take(&mut map, pair * 96, 64));
    (0..6).for_each(|pair| take(&mut map, pair * 96 + 64, 32));
    take(&mut map, 6 * 96 + 64, 16);
    // The remaining free space is kept for logs.
    assert_eq!((map.free().get(), map.kept_for_logs().get()), (64 + 48, 48));
    let policy = PlacementKind::by_name("track-tiers").unwrap().build();
    let plan = |files: &[FileRequest]| {
        policy.plan(&map, files).map(|plan| {
            let extents = plan.iter().flat_map(|planned| &planned.extents);
            extents.map(ToString::to_string).collect::<Vec<_>>().join(" ")
        })
    };
    let batch = [reserve(20, 1), reserve(20, 1), reserve(24, 1)];
    assert_eq!(plan(&batch), Ok("192..212 212..232 232..256".to_owned()));
    let refused = NoSpace { needed: Blocks::new(65), free: Blocks::new(64) };
    assert_eq!(plan(&[reserve(20, 1), reserve(45, 1)]), Err(refused));
}

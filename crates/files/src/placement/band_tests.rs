//! Plans of sets and bands: their extents, and that no write reaches valid data.

use super::tests::plan_log;
use super::{FileRequest, Placement, PlacementKind, PlacementOptions, Planned, Urgency};
use crate::hints::{FileKind, GroupId, Hints};
use crate::room::CommitKind;
use crate::space::tests::{empty_zones, range, shingled, unzoned};
use crate::space::{Lane, NoSpace, SpaceMap};
use imbrex_clockwork::Prng;
use imbrex_disk::{BlockRange, Blocks, Geometry, GeometrySpec, Lba, Rule, ZoneKind};

fn policy(name: &str) -> Box<dyn Placement> {
    let options = PlacementOptions { unit_len: Blocks::new(4), ..PlacementOptions::default() };
    PlacementKind::by_name(name).unwrap().build_with(&options)
}

fn table(blocks: u64, level: u8, group: u64) -> FileRequest {
    let group = Some(GroupId(group));
    let hints = Hints { level, group, ..Hints::new(FileKind::Table) };
    FileRequest { len_bytes: Blocks::new(blocks).bytes(), hints, is_moved: false }
}

/// Takes the planned blocks, as `persist` does.
fn take(policy: &dyn Placement, map: &mut SpaceMap, plan: &[Planned]) {
    let mut opened = None;
    for Planned { extents, span } in plan {
        if span.is_some() && *span != opened {
            map.open_span(span.unwrap());
            opened = *span;
        }
        for extent in extents {
            map.take(extent.range(), Lane::Fresh(0), 1);
            map.end_turn(extent.range(), true);
            if policy.keeps_files_apart() {
                map.seal(extent.range());
            }
        }
    }
    map.check().unwrap();
}

/// Plans and takes. Returns the position of each file, members of a set in brackets.
fn place(name: &str, map: &mut SpaceMap, files: &[FileRequest]) -> String {
    let policy = policy(name);
    match policy.plan(map, files) {
        Err(NoSpace { needed, free }) => format!("no space: {} of {}", needed.get(), free.get()),
        Ok(plan) => {
            take(&*policy, map, &plan);
            let mut out = String::new();
            let mut inside = None;
            for Planned { extents, span } in &plan {
                let texts: Vec<String> = extents.iter().map(ToString::to_string).collect();
                let opens = if span.is_some() && *span != inside { "[" } else { "" };
                let closes = if inside.is_some() && *span != inside { "]" } else { "" };
                inside = *span;
                out += &format!("{closes} {opens}{}", texts.join(" "));
            }
            if inside.is_some() {
                out += "]";
            }
            out.trim().to_owned()
        }
    }
}

fn give(map: &mut SpaceMap, start: u64, len: u64) {
    map.give(range(start, len), false);
    let back = map.begin_discard();
    map.was_discarded(&back);
    map.check().unwrap();
}

#[test]
fn a_group_is_laid_side_by_side_and_comes_back_whole() {
    let mut map = unzoned(Rule::Anywhere, 1000, 4);
    let files = [table(10, 2, 1), table(12, 2, 1), table(8, 2, 1), table(5, 1, 2), table(5, 1, 2)];
    // Level 1 has no sets.
    assert_eq!(place("sets", &mut map, &files), "[0..10 10..22 22..30] 30..35 35..40");
    give(&mut map, 10, 12);
    // The hole stays with the set.
    assert_eq!(place("sets", &mut map, &[table(12, 1, 3)]), "40..52");
    give(&mut map, 0, 10);
    give(&mut map, 22, 8);
    assert_eq!(place("sets", &mut map, &[table(12, 1, 4)]), "0..12");
    assert_eq!(place("sets", &mut map, &[table(9, 3, 5), table(9, 3, 5)]), "[12..21 21..30]");
}

#[test]
fn a_set_that_no_run_holds_is_cut() {
    let mut map = unzoned(Rule::Anywhere, 1020, 4);
    let with_reserve = |file: FileRequest| FileRequest {
        hints: Hints { purpose: CommitKind::Upkeep, ..file.hints },
        ..file
    };
    for _ in 0..10 {
        place("sets", &mut map, &[with_reserve(table(100, 1, 0))]);
    }
    for start in [100, 300, 500, 700] {
        give(&mut map, start, 100);
    }
    let set: Vec<FileRequest> = (0..7).map(|_| table(40, 2, 9)).collect();
    assert_eq!(
        place("sets", &mut map, &set),
        "[100..140 140..180] [300..340 340..380] [500..540 540..580] 700..740"
    );
    // A file that no run holds is cut into extents.
    let last = with_reserve(table(110, 2, 10));
    assert_eq!(place("sets", &mut map, &[last]), "180..200 380..400 580..600 740..790");
}

#[test]
fn bands_grow_at_the_frontier_and_into_holes_with_a_guard() {
    // Tracks of 4 blocks; a write destroys the next one. From figure 7 of SEALDB.
    let mut map = unzoned(shingled(4, 1), 4000, 4);
    let set = |blocks: u64, group| [table(blocks - 4, 2, group), table(4, 2, group)];
    assert_eq!(place("dynamic-bands", &mut map, &set(16, 1)), "[0..12 12..16]");
    assert_eq!(place("dynamic-bands", &mut map, &set(24, 2)), "[16..36 36..40]");
    assert_eq!(place("dynamic-bands", &mut map, &set(20, 3)), "[40..56 56..60]");
    give(&mut map, 0, 12);
    give(&mut map, 12, 4);
    // 16 are free. A set of 12 leaves the guard; one of 16 would not.
    assert_eq!(place("dynamic-bands", &mut map, &set(16, 4)), "[60..72 72..76]");
    assert_eq!(place("dynamic-bands", &mut map, &[table(4, 2, 5)]), "0..4");
    // Directly after it, without a guard in between.
    assert_eq!(place("dynamic-bands", &mut map, &set(8, 6)), "[4..8 8..12]");
    assert_eq!(place("dynamic-bands", &mut map, &[table(4, 2, 7)]), "76..80");
    // Set 2 dies: the guard before it coalesces with its space.
    give(&mut map, 16, 20);
    give(&mut map, 36, 4);
    assert_eq!(place("dynamic-bands", &mut map, &set(24, 8)), "[12..32 32..36]");
    map.check().unwrap();
}

#[test]
fn the_set_with_most_dead_blocks_is_moved_in_need_only() {
    let mut map = unzoned(Rule::Anywhere, 1000, 4);
    for group in 0..3 {
        place("sets", &mut map, &[table(10, 2, group), table(10, 2, group), table(10, 2, group)]);
    }
    (0..9).for_each(|index| map.set_named(range(index * 10, 10), true));
    map.give(range(0, 10), true);
    map.give(range(30, 10), true);
    map.give(range(50, 10), true);
    for name in ["sets", "dynamic-bands"] {
        assert_eq!(policy(name).plan_reclaim(&map, Urgency::Background), None);
        assert_eq!(policy(name).plan_reclaim(&map, Urgency::NoSpace), Some(range(30, 30)));
    }
}

#[test]
fn a_table_has_its_band_for_itself() {
    let mut zones = empty_zones(8);
    zones[0].kind = ZoneKind::Conventional;
    let mut map = SpaceMap::with_zones(Blocks::new(64), zones, None);
    let place = |map: &mut SpaceMap, files: &[FileRequest]| place("band-per-table", map, files);
    assert_eq!(place(&mut map, &[table(60, 1, 1), table(10, 1, 1)]), "64..124 128..138");
    // Longer than a band: as many bands as it needs.
    assert_eq!(place(&mut map, &[table(70, 1, 1)]), "192..256 256..262");
    assert_eq!((map.free().get(), map.dead().get()), (4 * 64, 4 * 64 - 140));
    // Two of the remaining zones are the reserve; the conventional one comes last.
    assert_eq!(place(&mut map, &[table(1, 1, 1), table(1, 1, 1)]), "320..321 384..385");
    assert_eq!(place(&mut map, &[table(1, 1, 1)]), "no space: 64 of 0");
    let log = policy("band-per-table");
    let hints = Hints { purpose: CommitKind::Upkeep, ..Hints::new(FileKind::Log) };
    assert_eq!(plan_log(&*log, &map, &hints), Ok(range(0, 64)));
    assert_eq!(log.plan_reclaim(&map, Urgency::NoSpace), None);
    map.give(range(128, 10), false);
    let (zone, ..) = map.begin_reset().unwrap();
    map.was_reset(zone);
    assert_eq!(map.free().get(), 3 * 64);
    map.check().unwrap();
}

/// Random tables, sets and logs come and go. No write reaches valid data, and every block that is
/// taken was free.
fn no_write_reaches_what_is_valid(seed: u64) {
    let mut prng = Prng::new(seed);
    let rule = shingled(1 + prng.below(12), prng.below(4) as u32);
    let len = 600 + prng.below(900);
    let geometry = Geometry::new(GeometrySpec { len: Blocks::new(len), rule }).unwrap();
    let mut map = unzoned(rule, len, 1 + prng.below(16));
    let policy = policy("dynamic-bands");
    let mut valid: Vec<BlockRange> = Vec::new();
    let mut logs: Vec<BlockRange> = Vec::new();
    for _ in 0..400 {
        match prng.below(8) {
            0..3 => {
                let count = 1 + prng.below(5);
                let group = prng.next_u64();
                let files: Vec<FileRequest> =
                    (0..count).map(|_| table(prng.below(30), 2, group)).collect();
                let Ok(plan) = policy.plan(&map, &files) else { continue };
                for extent in plan.iter().flat_map(|planned| &planned.extents) {
                    let write = extent.range();
                    let reach = geometry.reach(write);
                    for held in valid.iter().chain(&logs) {
                        assert!(!held.overlaps(write), "seed {seed}: {write} over {held}");
                        let is_hit = !reach.len.is_zero() && held.overlaps(reach);
                        assert!(!is_hit, "seed {seed}: {write} destroys {held}");
                    }
                    valid.push(write);
                }
                take(&*policy, &mut map, &plan);
            }
            3 => {
                let hints = Hints::new(FileKind::Log);
                let Ok(run) = plan_log(&*policy, &map, &hints) else { continue };
                map.take(run, Lane::Log, 1);
                logs.push(run);
            }
            4 if !logs.is_empty() => {
                // Its last block is written long after its neighbours were placed.
                let log = logs.swap_remove(prng.below(logs.len() as u64) as usize);
                let reach = geometry.reach(log);
                let hit = valid.iter().find(|held| !reach.len.is_zero() && held.overlaps(reach));
                assert_eq!(hit, None, "seed {seed}: log {log}");
                map.set_owned(log, false);
                valid.push(log);
            }
            _ => {
                if !valid.is_empty() {
                    let gone = valid.swap_remove(prng.below(valid.len() as u64) as usize);
                    map.give(gone, false);
                }
                if prng.chance(1, 2) {
                    let back = map.begin_discard();
                    map.was_discarded(&back);
                }
            }
        }
        map.check().unwrap_or_else(|broken| panic!("seed {seed}: {broken}"));
        let held: Blocks = valid.iter().chain(&logs).map(|range| range.len).sum();
        assert_eq!(map.held(), held, "seed {seed}");
    }
    for range in valid {
        map.give(range, false);
    }
    for log in logs {
        map.set_owned(log, false);
        map.give(log, false);
    }
    let back = map.begin_discard();
    map.was_discarded(&back);
    assert_eq!(
        map.runs().iter().collect::<Vec<_>>(),
        [BlockRange::new(Lba::new(0), geometry.len())]
    );
}

#[test]
fn no_planned_write_reaches_what_is_valid() {
    (0..100).for_each(no_write_reaches_what_is_valid);
}

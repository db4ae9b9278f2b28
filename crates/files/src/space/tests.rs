//! The accounts of the space map.

use super::{Claim, Fit, FreeRuns, Lane, NoSpace, SpaceMap, ZoneRole, ZoneSpace};
use imbrex_disk::{
    BlockRange, Blocks, Geometry, GeometrySpec, Lba, Rule, ShingleSpec, ZoneId, ZoneKind,
};
use std::collections::BTreeMap;

pub(crate) fn range(start: u64, len: u64) -> BlockRange {
    BlockRange::new(Lba::new(start), Blocks::new(len))
}

/// Empty sequential zones of 64 blocks.
pub(crate) fn empty_zones(count: u32) -> Vec<ZoneSpace> {
    (0..count)
        .map(|id| {
            let range = range(u64::from(id) * 64, 64);
            ZoneSpace::empty(ZoneId(id), ZoneKind::SequentialRequired, range)
        })
        .collect()
}

pub(crate) fn map(count: u32, active_zone_budget: Option<u32>) -> SpaceMap {
    SpaceMap::with_zones(Blocks::new(64), empty_zones(count), active_zone_budget)
}

fn runs(runs: &FreeRuns) -> Vec<(u64, u64)> {
    runs.iter().map(|run| (run.start.get(), run.len.get())).collect()
}

/// A disk without zones, all of it free.
pub(crate) fn unzoned(rule: Rule, len: u64, class_len: u64) -> SpaceMap {
    let geometry = Geometry::new(GeometrySpec { len: Blocks::new(len), rule }).unwrap();
    SpaceMap::without_zones(&geometry, range(0, len), Blocks::new(class_len))
}

pub(crate) fn shingled(track_len: u64, overlap_tracks: u32) -> Rule {
    Rule::IsolationDistance(ShingleSpec { track_len: Blocks::new(track_len), overlap_tracks })
}

fn free_runs(rule: Rule, class_len: u64) -> FreeRuns {
    let geometry = Geometry::new(GeometrySpec { len: Blocks::new(1000), rule }).unwrap();
    FreeRuns::new(&geometry, Blocks::new(class_len))
}

#[test]
fn runs_merge_with_their_neighbours() {
    let mut free = free_runs(Rule::Anywhere, 8);
    free.give(range(10, 10));
    free.give(range(30, 10));
    free.give(range(20, 10));
    assert_eq!(runs(&free), [(10, 30)]);
    free.take(range(15, 5));
    assert_eq!(runs(&free), [(10, 5), (20, 20)]);
    assert_eq!(free.holding(range(14, 2)), None);
    assert_eq!(free.len(), Blocks::new(25));
    free.check().unwrap();
}

#[test]
#[should_panic(expected = "S4: blocks 12..14 were free already")]
fn nothing_is_given_back_twice() {
    let mut free = free_runs(Rule::Anywhere, 8);
    free.give(range(10, 10));
    free.give(range(12, 2));
}

#[test]
fn a_zone_is_dead_until_it_is_reset() {
    let mut map = map(8, None);
    map.take(range(0, 10), Lane::Fresh(1), 1);
    assert_eq!((map.free().get(), map.held().get()), (502, 10));
    map.change(Lba::new(0), |zone| zone.written = zone.next);
    map.give(range(0, 4), false);
    assert_eq!((map.free().get(), map.dead().get()), (502, 4));
    assert_eq!(map.begin_reset(), None);
    map.give(range(4, 6), false);
    assert_eq!((map.free().get(), map.dead().get()), (512, 0));
    let (zone, ..) = map.begin_reset().unwrap();
    assert_eq!(map.begin_reset(), None);
    map.check().unwrap();
    map.was_reset(zone);
    assert_eq!(map.empty_zones(ZoneKind::SequentialRequired).count(), 8);
    map.check().unwrap();
}

#[test]
fn a_zone_that_fails_its_reset_is_given_up() {
    let mut map = map(8, None);
    map.take(range(0, 10), Lane::Fresh(1), 1);
    map.give(range(0, 10), false);
    let (zone, ..) = map.begin_reset().unwrap();
    map.give_up(zone, true);
    assert_eq!(map.zones()[0].role, ZoneRole::Unusable);
    assert_eq!(map.free().get(), 448);
    assert_eq!(map.begin_reset(), None);
    map.check().unwrap();
}

/// The map was unlocked between the choice of a zone to finish and the drive's finish of it.
/// Meanwhile the zone was reset, or handed out.
#[test]
fn a_zone_that_is_being_finished_is_not_handed_out() {
    let mut map = map(8, Some(2));
    for (zone, room) in [(0, 30), (1, 40), (2, 50)] {
        let taken = range(zone * 64, 64 - room);
        map.take(taken, Lane::Fresh(zone as u32), 1);
        map.end_turn(taken, true);
    }
    assert_eq!(map.begin_finish(), Some(ZoneId(0)));
    // Two of the three will be left.
    assert_eq!(map.begin_finish(), None);
    assert_eq!(map.partial_zones().map(|zone| zone.id.0).collect::<Vec<_>>(), [1, 2]);
    assert!(map.will_have_slot());
    map.give(range(0, 34), false);
    assert_eq!(map.begin_reset(), None);
    map.check().unwrap();
    map.was_finished(ZoneId(0));
    assert!(!map.will_have_slot());
    assert_eq!(map.begin_reset().map(|(zone, ..)| zone), Some(ZoneId(0)));
    map.check().unwrap();
}

/// A conventional zone has no pointer and is never finished: the drive refused, and the zone was
/// retired.
#[test]
fn only_a_zone_with_a_pointer_is_finished() {
    let mut zones = empty_zones(8);
    zones[0].kind = ZoneKind::Conventional;
    let mut map = SpaceMap::with_zones(Blocks::new(64), zones, Some(1));
    for (zone, len) in [(0, 60), (1, 40), (2, 50)] {
        let taken = range(zone * 64, len);
        map.take(taken, Lane::Fresh(zone as u32), 1);
        map.end_turn(taken, true);
    }
    assert_eq!(map.zone_to_finish(), Some(ZoneId(2)));
}

/// Zones that the drive still counts leave logs no slot, including retired ones. A zone that its
/// log is about to fill does not count.
#[test]
fn a_log_begins_a_zone_where_tables_have_a_place_left() {
    let mut map = map(8, Some(4));
    let at = |zone| range(zone * 64, 64);
    for zone in 0..4 {
        map.take(at(zone), Lane::Log, 1);
        map.set_owned(at(zone), zone < 2);
        map.end_turn(range(zone * 64, 5), true);
    }
    assert!(map.has_slot_for_log());
    map.give_up(ZoneId(2), true);
    assert!(!map.has_slot_for_log());
    map.set_filling(at(1), true);
    assert!(map.has_slot_for_log());
    map.give_up(ZoneId(3), false);
    assert!(map.has_slot_for_log());
}

#[test]
fn the_reserve_is_for_writes_that_make_room() {
    let mut map = map(8, None);
    assert_eq!(map.reserve().get(), 128);
    map.take(range(0, 64), Lane::Fresh(1), 1);
    let free = |claim| map.free_for(claim).get();
    assert_eq!(free(Claim::Normal), 320);
    assert_eq!(free(Claim::Reserve), 384);
    assert_eq!(free(Claim::Cleaning), 448);
    let refused = NoSpace { needed: Blocks::new(321), free: Blocks::new(320) };
    assert_eq!(map.admit(Blocks::new(321), Claim::Normal), Err(refused));
}

#[test]
fn a_log_gives_back_what_it_did_not_write() {
    let mut map = map(8, Some(4));
    map.take(range(0, 64), Lane::Log, 1);
    map.set_owned(range(0, 64), true);
    assert_eq!((map.free().get(), map.zones_to_begin()), (448, 3));
    map.shrink(Lba::new(0), range(5, 59), false);
    map.set_owned(range(0, 64), false);
    assert_eq!((map.free().get(), map.held().get()), (507, 5));
    assert_eq!(map.partial_zones().next().unwrap().next, Lba::new(5));
    map.check().unwrap();
}

/// The write before it may still be in progress: the zone is written only as far as it was.
#[test]
fn a_log_that_wrote_nothing_says_nothing_of_what_is_before_it() {
    let mut map = map(8, Some(4));
    map.take(range(0, 20), Lane::Fresh(1), 1);
    map.take(range(20, 44), Lane::Log, 2);
    map.set_owned(range(20, 44), true);
    let zone = |map: &SpaceMap| {
        let zone = map.partial_zones().next().unwrap();
        (zone.next.get(), zone.written.get())
    };
    map.shrink(Lba::new(20), range(20, 44), false);
    map.set_owned(range(20, 44), false);
    assert_eq!(zone(&map), (20, 0));
    map.check().unwrap();
}

/// The data placed before it are written at the pointer as usual; those that gave up after it lost
/// their turn.
#[test]
fn a_run_that_is_given_up_takes_only_later_turns() {
    let mut map = map(8, None);
    for start in [0, 20, 40] {
        map.take(range(start, 20), Lane::Fresh(1), 1);
    }
    map.end_turn(range(20, 20), false);
    assert_eq!(map.is_turn_of(range(0, 20)), Some(true));
    assert_eq!(map.is_turn_of(range(40, 20)), None);
    map.end_turn(range(0, 20), true);
    assert_eq!(map.is_turn_of(range(20, 20)), None);
    map.check().unwrap();
}

#[test]
fn what_fits_a_hole_leaves_its_guard() {
    let mut free = free_runs(shingled(10, 2), 4);
    free.give(range(100, 100));
    free.give(range(305, 60));
    free.give(range(500, 25));
    free.give(range(900, 100));
    let size = |start, len| free.size_of(range(start, len)).get();
    // Two tracks before the track of the first valid block; the rest of that track is lost too.
    assert_eq!((size(100, 100), size(305, 60)), (80, 35));
    // A run too short for anything, and the end of the disk, after which there is nothing.
    assert_eq!((size(500, 25), size(500, 29), size(900, 100)), (0, 0, 100));
    let find = |len, fit| free.find(Blocks::new(len), fit, &BTreeMap::new());
    assert_eq!(find(35, Fit::Tightest), Some(range(305, 60)));
    assert_eq!(find(36, Fit::Tightest), Some(range(100, 100)));
    assert_eq!(find(36, Fit::Lowest), Some(range(100, 100)));
    assert_eq!(find(81, Fit::Tightest), Some(range(900, 100)));
    assert_eq!(find(101, Fit::Tightest), None);
    let used = BTreeMap::from([(Lba::new(100), Blocks::new(50))]);
    assert_eq!(free.find(Blocks::new(36), Fit::Tightest, &used), Some(range(900, 100)));
    assert_eq!(free.find(Blocks::new(30), Fit::Lowest, &used), Some(range(150, 50)));
    assert_eq!(free.size().get(), 80 + 35 + 100);
    free.check().unwrap();
}

/// Crumbs were in the list of the shortest runs, of which a search looks at the first 32. So a log of one block
/// found no place on a drive with 25 MiB to write, and the error had both numbers.
#[test]
fn crumbs_hide_no_run_that_can_be_written() {
    let rule = shingled(10, 2);
    let geometry = Geometry::new(GeometrySpec { len: Blocks::new(10_000), rule }).unwrap();
    let mut free = FreeRuns::new(&geometry, Blocks::new(64));
    for crumb in 0..100 {
        free.give(range(100 + 50 * crumb, 25));
    }
    free.give(range(8000, 80));
    let find = |fit| free.find(Blocks::new(1), fit, &BTreeMap::new());
    assert_eq!(find(Fit::Tightest), Some(range(8000, 80)));
    assert_eq!(find(Fit::Lowest), Some(range(8000, 80)));
    free.check().unwrap();
}

#[test]
fn an_open_log_keeps_its_guard_blank() {
    let mut map = unzoned(shingled(10, 2), 200, 4);
    map.take(range(0, 15), Lane::Log, 1);
    map.set_owned(range(0, 15), true);
    // Up to the end of the track that holds its last block, and two more.
    assert_eq!((map.guarded().get(), map.free().get()), (25, 160));
    map.take(range(40, 20), Lane::Fresh(0), 2);
    map.shrink(Lba::new(0), range(5, 10), false);
    map.set_owned(range(0, 15), false);
    let back = map.begin_discard();
    map.was_discarded(&back);
    // 5..40 are free again; a write there may reach 40 but no farther.
    assert_eq!((map.guarded().get(), map.free().get()), (0, 15 + 140));
    map.check().unwrap();
}

#[test]
fn what_lies_in_reach_is_written_later() {
    let mut map = unzoned(shingled(10, 1), 300, 4);
    map.take(range(0, 15), Lane::Fresh(0), 1);
    map.take(range(15, 10), Lane::Fresh(0), 2);
    map.take(range(25, 10), Lane::Fresh(0), 3);
    map.take(range(60, 10), Lane::Fresh(0), 4);
    assert_eq!(map.is_turn_of(range(0, 15)), Some(true));
    assert_eq!(map.is_turn_of(range(15, 10)), Some(false));
    assert_eq!(map.is_turn_of(range(25, 10)), Some(false));
    assert_eq!(map.is_turn_of(range(60, 10)), Some(true));
    map.end_turn(range(0, 15), true);
    assert_eq!(map.is_turn_of(range(15, 10)), Some(true));
    map.end_turn(range(15, 10), false);
    assert_eq!(map.is_turn_of(range(25, 10)), Some(true));
}

/// A map with the span 100..130 of two files, of 20 blocks and of 10.
fn with_span() -> SpaceMap {
    let mut map = unzoned(Rule::Anywhere, 300, 8);
    map.open_span(range(100, 30));
    map.take(range(100, 20), Lane::Fresh(0), 1);
    map.take(range(120, 10), Lane::Fresh(0), 2);
    map.set_named(range(100, 20), true);
    map.set_named(range(120, 10), true);
    assert_eq!((map.free().get(), map.dead().get(), map.held().get()), (270, 0, 30));
    map
}

#[test]
fn a_span_comes_back_whole() {
    let mut map = with_span();
    assert_eq!((map.unit_at(Lba::new(120)), map.unit_at(Lba::new(130))), (Some(100), None));
    map.give(range(100, 20), true);
    assert_eq!((map.free().get(), map.dead().get(), map.held().get()), (270, 20, 10));
    assert_eq!(map.span_in_need(), Some(range(100, 30)));
    map.set_cleaning(range(100, 30), true);
    assert_eq!(map.span_in_need(), None);
    map.set_cleaning(range(100, 30), false);
    map.give(range(120, 10), true);
    assert_eq!((map.free().get(), map.dead().get(), map.held().get()), (300, 0, 0));
    assert_eq!(map.begin_discard(), [range(100, 30)]);
    map.check().unwrap();
}

#[test]
fn of_a_dissolved_span_the_dead_runs_come_back() {
    let mut map = with_span();
    map.give(range(120, 10), true);
    assert_eq!(map.dissolvable_spans(), [(range(100, 30), Blocks::new(20))]);
    let dead = map.dissolve_span(range(100, 30), &[range(100, 20)]);
    assert_eq!(dead, [range(120, 10)]);
    // Held until the record is durable.
    assert_eq!((map.free().get(), map.dead().get(), map.held().get()), (270, 0, 30));
    map.give(range(120, 10), false);
    assert_eq!(map.begin_discard(), [range(120, 10)]);
    map.give(range(100, 20), true);
    assert_eq!((map.free().get(), map.dead().get(), map.held().get()), (300, 0, 0));
    map.check().unwrap();
}

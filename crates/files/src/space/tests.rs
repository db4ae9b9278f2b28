//! The map's bookkeeping.

use super::{Claim, FreeRuns, Lane, NoSpace, SpaceMap, ZoneRole, ZoneSpace};
use imbrex_disk::{BlockRange, Blocks, Lba, ZoneId, ZoneKind};

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

#[test]
fn runs_merge_with_their_neighbours() {
    let mut free = FreeRuns::default();
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
    let mut free = FreeRuns::default();
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
    map.was_reset(zone, true);
    assert_eq!(map.empty_zones(ZoneKind::SequentialRequired).count(), 8);
    map.check().unwrap();
}

#[test]
fn a_zone_that_fails_its_reset_is_given_up() {
    let mut map = map(8, None);
    map.take(range(0, 10), Lane::Fresh(1), 1);
    map.give(range(0, 10), false);
    let (zone, ..) = map.begin_reset().unwrap();
    map.was_reset(zone, false);
    assert_eq!(map.zones()[0].role, ZoneRole::Unusable);
    assert_eq!(map.free().get(), 448);
    assert_eq!(map.begin_reset(), None);
    map.check().unwrap();
}

#[test]
fn the_reserve_is_for_those_who_make_room() {
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

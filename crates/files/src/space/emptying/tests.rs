use super::{SpaceMap, Unzoned, Victim};
use crate::space::Lane;
use crate::space::tests::{range, shingled, unzoned};
use imbrex_disk::{BlockRange, Blocks};

/// Tracks of 8 blocks, of which a write destroys the next two: a guard is 16 to 24 blocks. A unit is 16
/// blocks, a crumb 4.
const DRIVE_LEN: u64 = 1000;

/// A drive with `files`.
fn holding(files: &[BlockRange]) -> SpaceMap {
    let mut map = unzoned(shingled(8, 2), DRIVE_LEN, 16);
    map.keep_room_for_sets();
    for (file, born) in files.iter().zip(1..) {
        map.take(*file, Lane::Fresh(0), born);
        map.end_turn(*file, true);
        map.set_named(*file, true);
    }
    map
}

fn inner(map: &SpaceMap) -> &Unzoned {
    map.unzoned().expect("a drive without zones")
}

fn chosen(map: &SpaceMap) -> Option<Victim> {
    inner(map).most_worth_emptying()
}

/// Files of 16 blocks with gaps of `gap`, and data after them up to `end`.
fn apart(count: u64, gap: u64, end: u64) -> Vec<BlockRange> {
    let mut files: Vec<_> = (0..count).map(|n| range(n * (16 + gap), 16)).collect();
    let start = count * (16 + gap);
    files.push(range(start, end - start));
    files
}

#[test]
fn islands_are_emptied_together_where_no_two_gaps_hold_a_guard() {
    // Each gap is half a guard: nothing can be written in any of them.
    let map = holding(&apart(12, 8, 860));
    assert_eq!(map.free(), Blocks::new(140));
    assert_eq!(inner(&map).runs.joinable(), Blocks::ZERO, "no island spares a guard alone");
    let victim = chosen(&map).expect("there is room for some");
    assert_eq!((victim.range.start.get() % 24, victim.range.len.get() % 24), (0, 16), "{victim:?}");
    assert!(victim.range.len.get() > 100, "{victim:?}");
    assert_eq!(victim.to, Some(range(860, 140)));
    assert_eq!(victim.moved_max, victim.range.len);
}

#[test]
fn nothing_is_emptied_that_brings_nothing() {
    // The room is too little to empty as many islands as it takes.
    assert!(chosen(&holding(&apart(12, 8, 976))).is_none());
    // There are no gaps.
    assert!(chosen(&holding(&apart(12, 0, 860))).is_none());
    // What is written anywhere has no guards.
    let map = unzoned(imbrex_disk::Rule::Anywhere, DRIVE_LEN, 16);
    assert!(chosen(&map).is_none());
}

#[test]
fn what_cannot_be_moved_is_not_chosen() {
    let mut map = holding(&apart(2, 24, 860));
    let first = chosen(&map).expect("an island").range;
    assert_eq!(first, range(40, 16));
    // What a reader holds, or a file that is not recorded yet, is no file's.
    map.set_cleaning(first, true);
    assert_eq!(map.take_victim(first, &[range(40, 8)]), None);
    map.set_cleaning(first, false);
    assert!(chosen(&map).is_none());
    map.give(range(0, 16), true);
    let back = map.begin_discard();
    map.was_discarded(&back);
    assert_eq!(chosen(&map).map(|victim| victim.range), Some(first), "something was given back");
    // What cannot be read stays.
    map.set_pinned(first, range(44, 1));
    assert!(chosen(&map).is_none());
}

#[test]
fn an_open_log_is_not_moved_and_costs_its_guard() {
    let mut map = holding(&apart(2, 24, 400));
    let log = range(400, 10);
    assert_eq!(map.cost_of_log(log), Blocks::new(10 + 22), "tracks 52 and 53, and the rest of 51");
    let before = map.free();
    map.take(log, Lane::Log, 9);
    assert_eq!(before - map.free(), Blocks::new(32));
    map.set_owned(log, true);
    let moved = chosen(&map).expect("an island").range;
    assert_eq!(moved, range(40, 16));
    map.give(range(80, 320), true);
    let back = map.begin_discard();
    map.was_discarded(&back);
    assert!(chosen(&map).is_some_and(|victim| !victim.range.overlaps(log)));
}

#[test]
fn a_long_island_moves_in_pieces() {
    // A hole of 44 blocks, of which 24 can be written, before 160 that nothing else has room for.
    let files: Vec<BlockRange> = (0..10).map(|n| range(84 + n * 16, 16)).collect();
    let mut all = vec![range(0, 40)];
    all.extend(&files);
    all.push(range(276, 724));
    let mut map = holding(&all);
    let island = range(84, 160);
    let victim = chosen(&map).expect("a piece");
    assert_eq!((victim.range, victim.to), (island, Some(range(40, 44))));
    assert_eq!(victim.moved_max, Blocks::new(24));
    map.set_cleaning(island, true);
    assert_eq!(map.take_victim(island, &files), Some(range(84, 16)), "one file fits");
    map.set_cleaning(range(84, 16), false);
    // If a later file would not fit, none moves.
    let long = [range(84, 16), range(100, 144)];
    map.set_cleaning(island, true);
    assert_eq!(map.take_victim(island, &long), None);
}

#[test]
fn a_first_piece_moves_where_its_files_fit_though_longer_ones_would_not() {
    // Two holes elsewhere hold a file together, and no more. No hole holds a file and a crumb.
    let files: Vec<BlockRange> = (0..10).map(|n| range(64 + n * 16, 16)).collect();
    let mut all = vec![range(0, 32)];
    all.extend(&files);
    all.extend([range(256, 224), range(504, 224), range(752, 248)]);
    let mut map = holding(&all);
    let hole = |start, len| range(start, len);
    let sizes = [hole(32, 32), hole(224, 32), hole(480, 24), hole(728, 24)];
    let size = |run: &BlockRange| inner(&map).runs.size_of(*run);
    assert_eq!(sizes.iter().map(size).collect::<Vec<_>>(), [16, 16, 8, 8].map(Blocks::new));
    let island = range(64, 160);
    let victim = chosen(&map).expect("a piece");
    assert_eq!((victim.range, victim.to, victim.moved_max), (island, None, Blocks::new(16)));
    assert_eq!(victim.left().collect::<Vec<_>>(), [hole(32, 32), hole(224, 32)]);
    map.set_cleaning(island, true);
    assert_eq!(map.take_victim(island, &files), Some(range(64, 16)));
}

#[test]
fn a_little_is_worth_it_in_need() {
    // An island before a gap that guards nothing: behind it, the next guard comes back.
    let map = holding(&[range(0, 32), range(80, 15), range(98, 902)]);
    let victim = chosen(&map).expect("a block comes back");
    assert_eq!((victim.range, victim.to), (range(80, 15), Some(range(32, 48))));
}

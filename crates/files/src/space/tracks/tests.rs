//! The check reports each list that is wrong, and nothing else.

use super::*;
use imbrex_clockwork::Prng;
use imbrex_disk::{GeometrySpec, NeighbourSpec, Rule};

/// 16 tracks: bottom ones of 12 blocks, top ones of 8.
fn geometry() -> Geometry {
    let tracks = NeighbourSpec { bottom_track_len: Blocks::new(12), top_track_len: Blocks::new(8) };
    Geometry::new(GeometrySpec { len: Blocks::new(160), rule: Rule::Neighbours(tracks) }).unwrap()
}

/// Files may use all but the first two tracks. Part of the space is taken, a different part in
/// every track; a log is open, and one block cannot be read.
fn some() -> (TrackMap, FreeRuns) {
    let geometry = geometry();
    let usable = BlockRange::new(Lba::new(20), Blocks::new(140));
    let mut runs = FreeRuns::new(&geometry, Blocks::ZERO);
    let mut tracks = TrackMap::new(&geometry, usable).unwrap();
    runs.give(usable);
    tracks.changed(usable, true, &runs);
    let mut take = |track: u64, len: u64| {
        let whole = geometry.track_range(TrackId(track)).unwrap();
        let range = BlockRange::new(whole.start, whole.len.min(Blocks::new(len)));
        runs.take(range);
        tracks.changed(range, false, &runs);
        range
    };
    take(2, 5);
    take(3, 3);
    take(4, 99);
    let (log, lost) = (take(9, 2), take(13, 8));
    tracks.open_log(log, &runs);
    assert!(tracks.avoid(lost.start, &runs));
    (tracks, runs)
}

#[test]
fn a_map_with_every_change_passes() {
    let geometry = geometry();
    let (mut tracks, mut runs) = some();
    tracks.check(&runs).unwrap();
    let mut prng = Prng::new(5);
    for _ in 0..500 {
        let at = Lba::new(20 + prng.below(140));
        let len = Blocks::new(1 + prng.below(160 - at.get()));
        let range = BlockRange::new(at, len);
        let free: Vec<BlockRange> = runs.parts_in(range).collect();
        let is_free = free.iter().map(|part| part.len).sum::<Blocks>() == len;
        if is_free {
            runs.take(range);
            tracks.changed(range, false, &runs);
        } else if free.is_empty() {
            runs.give(range);
            tracks.changed(range, true, &runs);
        }
        tracks.check(&runs).unwrap();
    }
    assert!(tracks.range(TrackId(geometry.track_count())).is_none());
}

#[test]
fn each_list_that_is_wrong_is_found() {
    let (tracks, runs) = some();
    assert!(!tracks.quiet_bottoms.is_empty() && !tracks.blocked.is_empty());
    type Harm = fn(&mut TrackMap);
    let harms: [(&str, Harm); 14] = [
        ("an empty bottom is missing", |t| _ = t.empty_bottoms.pop_last()),
        ("a full bottom is empty", |t| _ = t.empty_bottoms.insert(4)),
        ("an empty top is missing", |t| _ = t.empty_tops[0].pop_last()),
        ("a top is of the other parity", |t| {
            let top = t.empty_tops[0].pop_last().unwrap();
            t.empty_tops[1].insert(top);
        }),
        ("a bottom is among the tops", |t| _ = t.empty_tops[0].insert(8)),
        ("a quiet one is missing", |t| _ = t.quiet_bottoms.pop_first()),
        ("a top is quiet", |t| _ = t.quiet_bottoms.insert(3)),
        ("a partial bottom is missing", |t| _ = t.partial_bottoms.pop_first()),
        ("a partial top is missing", |t| _ = t.partial_tops.pop_first()),
        ("a track is past the end", |t| _ = t.partial_tops.insert(99)),
        ("a blocked one is missing", |t| _ = t.blocked.pop_first()),
        ("a blocked one has more free", |t| {
            *t.blocked.values_mut().next().unwrap() += Blocks::new(1);
        }),
        ("a log that is not listed is open", |t| {
            _ = t.open_logs.insert(Lba::new(52), Blocks::new(1));
        }),
        ("tops have more free", |t| t.free_tops += Blocks::new(1)),
    ];
    for (what, harm) in harms {
        let mut harmed = tracks.clone();
        harm(&mut harmed);
        let found = harmed.check(&runs).expect_err(what);
        assert!(found.starts_with("I1: "), "{what}: {found}");
    }
}

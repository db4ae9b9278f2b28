use super::*;
use EvictionOrder::{LargestRegion, LeastRecentlyWritten};
use imbrex_clockwork::Prng;

fn range(start: u64, len: u64) -> BlockRange {
    BlockRange::new(Lba::new(start), Blocks::new(len))
}

fn of(order: EvictionOrder, written: &[(u64, u64)]) -> Regions {
    let mut regions = Regions::new(order);
    for &(start, len) in written {
        regions.insert(range(start, len));
    }
    regions
}

fn held(regions: &Regions) -> Vec<(u64, u64)> {
    regions.check().expect("sound regions");
    regions.iter().map(|entry| (entry.start.get(), entry.len.get())).collect()
}

/// The tree of figure 2 (a), with the lengths that its examples allow.
fn figure_2() -> Regions {
    of(LargestRegion, &[(120, 16), (144, 16), (184, 8), (200, 8)])
}

#[test]
fn figure_2b_a_write_that_touches_nothing_is_a_region() {
    let mut regions = figure_2();
    assert_eq!(regions.insert(range(168, 8)).get(), 8);
    assert_eq!(held(&regions), [(120, 16), (144, 16), (168, 8), (184, 8), (200, 8)]);
}

#[test]
fn figure_2c_a_write_joins_its_predecessor_and_two_successors() {
    let mut regions = figure_2();
    assert_eq!(regions.insert(range(160, 48)).get(), 32);
    assert_eq!(held(&regions), [(120, 16), (144, 64)]);
    assert_eq!(regions.victim(), Some(range(144, 64)));
}

#[test]
fn figure_2d_a_write_joins_its_successors_only() {
    let mut regions = figure_2();
    assert_eq!(regions.insert(range(168, 48)).get(), 32);
    assert_eq!(held(&regions), [(120, 16), (144, 16), (168, 48)]);
}

#[test]
fn a_write_within_a_region_changes_nothing() {
    let mut regions = figure_2();
    assert_eq!(regions.insert(range(124, 4)).get(), 0);
    assert_eq!(regions.insert(range(144, 16)).get(), 0, "the same start");
    assert_eq!(held(&regions), held(&figure_2()));
}

#[test]
fn the_longest_region_is_evicted_first_and_of_equal_ones_the_first() {
    let regions = of(LargestRegion, &[(0, 3), (90, 7), (50, 7), (20, 1)]);
    let order: Vec<u64> = regions.victims().map(|entry| entry.start.get()).collect();
    assert_eq!(order, [50, 90, 0, 20]);
    assert_eq!(Regions::new(LargestRegion).victim(), None);
}

#[test]
fn a_trim_cuts_a_region_and_its_rank() {
    let mut regions = of(LargestRegion, &[(0, 100), (200, 60)]);
    assert_eq!(regions.remove(range(50, 10)).get(), 10);
    assert_eq!(held(&regions), [(0, 50), (60, 40), (200, 60)]);
    assert_eq!(regions.victim(), Some(range(200, 60)));
    assert_eq!(regions.remove(range(40, 170)).get(), 60);
    assert_eq!(held(&regions), [(0, 40), (210, 50)]);
    assert_eq!(regions.remove(range(300, 10)).get(), 0);
}

#[test]
fn the_regions_that_cover_ranges_come_once_and_whole() {
    let regions = of(LargestRegion, &[(0, 10), (20, 10), (40, 10), (60, 10)]);
    let ranges = [range(65, 1), range(0, 2), range(8, 13), range(25, 2), range(52, 3)];
    assert_eq!(regions.covering(ranges), [range(0, 10), range(20, 10), range(60, 10)]);
    let parts: Vec<BlockRange> = regions.within(range(5, 20)).collect();
    assert_eq!(parts, [range(5, 5), range(20, 5)]);
    assert_eq!(regions.within(range(5, 0)).count(), 0);
}

#[test]
fn lru_evicts_what_was_written_longest_ago_however_long() {
    let mut regions = of(LeastRecentlyWritten, &[(50, 1), (0, 30), (30, 5), (100, 9)]);
    assert_eq!(held(&regions), [(0, 30), (30, 5), (50, 1), (100, 9)], "neighbours stay apart");
    assert_eq!(regions.victim(), Some(range(50, 1)));
    assert_eq!(regions.insert(range(50, 1)).get(), 0, "written again: now the newest");
    let order: Vec<u64> = regions.victims().map(|entry| entry.start.get()).collect();
    assert_eq!(order, [0, 30, 100, 50]);
}

#[test]
fn lru_keeps_the_age_of_what_a_write_leaves_of_an_entry() {
    let mut regions = of(LeastRecentlyWritten, &[(0, 30), (40, 10)]);
    assert_eq!(regions.insert(range(10, 5)).get(), 0);
    assert_eq!(held(&regions), [(0, 10), (10, 5), (15, 15), (40, 10)]);
    let order: Vec<BlockRange> = regions.victims().collect();
    assert_eq!(order, [range(0, 10), range(15, 15), range(40, 10), range(10, 5)]);
    assert_eq!(regions.insert(range(0, 60)).get(), 20);
    assert_eq!(held(&regions), [(0, 60)]);
}

/// For every block: the number of the write that wrote it.
fn model_of_entries(order: EvictionOrder, model: &[Option<u64>]) -> Vec<(u64, u64, u64)> {
    let mut entries: Vec<(u64, u64, u64)> = Vec::new();
    for (at, stamp) in (0..).zip(model) {
        let Some(stamp) = *stamp else { continue };
        match entries.last_mut() {
            Some((start, len, of))
                if *start + *len == at && (order == LargestRegion || *of == stamp) =>
            {
                *len += 1;
            }
            _ => entries.push((at, 1, stamp)),
        }
    }
    entries
}

#[test]
fn both_orders_say_what_an_array_would_say() {
    const LEN: u64 = 150;
    for (seed, order) in (0..40).flat_map(|s| [(s, LargestRegion), (s, LeastRecentlyWritten)]) {
        let mut prng = Prng::new(seed);
        let mut regions = Regions::new(order);
        let mut model = [None; LEN as usize];
        for stamp in 0..400 {
            let start = prng.below(LEN);
            let at = range(start, prng.below(20).min(LEN - start));
            let blocks = &mut model[start as usize..at.end().get() as usize];
            let before = blocks.iter().flatten().count() as u64;
            if prng.chance(3, 5) {
                assert_eq!(regions.insert(at).get(), at.len.get() - before);
                blocks.fill(Some(stamp));
            } else {
                assert_eq!(regions.remove(at).get(), before);
                blocks.fill(None);
            }
            let entries = model_of_entries(order, &model);
            let plain: Vec<(u64, u64)> = entries.iter().map(|&(s, len, _)| (s, len)).collect();
            assert_eq!(held(&regions), plain, "seed {seed}, {order:?}, step {stamp}");
            let mut ranked = entries.clone();
            match order {
                LargestRegion => ranked.sort_by_key(|&(start, len, _)| (u64::MAX - len, start)),
                LeastRecentlyWritten => ranked.sort_by_key(|&(start, _, stamp)| (stamp, start)),
            }
            let ranked = ranked.into_iter().map(|(start, len, _)| range(start, len));
            assert!(regions.victims().eq(ranked), "seed {seed}, {order:?}, step {stamp}");
            let window = range(prng.below(LEN), prng.below(30));
            let touching = entries.iter().map(|&(start, len, _)| range(start, len));
            let touching: Vec<BlockRange> =
                touching.filter(|e| !window.len.is_zero() && e.overlaps(window)).collect();
            assert_eq!(regions.covering([window]), touching);
        }
    }
}

#[test]
fn a_million_blocks_written_at_random_take_their_share_of_memory() {
    let mut regions = Regions::new(LargestRegion);
    let mut prng = Prng::new(1);
    for _ in 0..100_000 {
        regions.insert(range(prng.below(1 << 30), 1));
    }
    let per_entry = regions.memory_bytes() / regions.count() as u64;
    assert!((40..80).contains(&per_entry), "{per_entry} bytes");
}

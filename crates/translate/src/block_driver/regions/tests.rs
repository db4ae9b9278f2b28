use super::*;
use EvictionOrder::{LargestRegion, LeastRecentlyWritten, LongestAndOldest};
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
fn lru_evicts_the_oldest_write_whatever_its_length() {
    let mut regions = of(LeastRecentlyWritten, &[(50, 1), (0, 30), (30, 5), (100, 9)]);
    assert_eq!(held(&regions), [(0, 30), (30, 5), (50, 1), (100, 9)], "neighbours stay apart");
    assert_eq!(regions.victim(), Some(range(50, 1)));
    assert_eq!(regions.insert(range(50, 1)).get(), 0, "written again: now the newest");
    let order: Vec<u64> = regions.victims().map(|entry| entry.start.get()).collect();
    assert_eq!(order, [0, 30, 100, 50]);
}

#[test]
fn lru_keeps_the_age_of_the_rest_of_an_entry() {
    let mut regions = of(LeastRecentlyWritten, &[(0, 30), (40, 10)]);
    assert_eq!(regions.insert(range(10, 5)).get(), 0);
    assert_eq!(held(&regions), [(0, 10), (10, 5), (15, 15), (40, 10)]);
    let order: Vec<BlockRange> = regions.victims().collect();
    assert_eq!(order, [range(0, 10), range(15, 15), range(40, 10), range(10, 5)]);
    assert_eq!(regions.insert(range(0, 60)).get(), 20);
    assert_eq!(held(&regions), [(0, 60)]);
}

/// Parts of 1,024 blocks, as the numbers in these tests assume.
#[test]
fn a_region_ends_with_its_part_of_the_address_space() {
    let mut regions = of(LongestAndOldest, &[(1000, 30)]);
    assert_eq!(held(&regions), [(1000, 24), (1024, 6)]);
    assert_eq!(regions.insert(range(900, 2000)).get(), 1970);
    assert_eq!(held(&regions), [(900, 124), (1024, 1024), (2048, 852)]);
    assert_eq!(regions.victim(), Some(range(1024, 1024)));
    assert_eq!(regions.remove(range(1020, 8)).get(), 8);
    assert_eq!(held(&regions), [(900, 120), (1028, 1020), (2048, 852)]);
}

#[test]
fn of_full_parts_the_oldest_leaves_first_and_writing_again_keeps_one() {
    let mut regions = of(LongestAndOldest, &[(4096, 1024), (0, 1024), (2048, 1024)]);
    let order = |regions: &Regions| -> Vec<u64> {
        regions.victims().map(|entry| entry.start.get()).collect()
    };
    assert_eq!(order(&regions), [4096, 0, 2048]);
    assert_eq!(regions.insert(range(4100, 1)).get(), 0, "held already, and now the newest");
    assert_eq!(order(&regions), [0, 2048, 4096]);
}

#[test]
fn a_short_region_outlasts_long_ones_but_not_for_ever() {
    let mut regions = of(LongestAndOldest, &[(1_000_000, 64)]);
    let mut evicted_before = 0;
    for part in 0.. {
        regions.insert(range(part * PART_LEN, PART_LEN));
        let victim = regions.victim().expect("something is held");
        regions.remove(victim);
        if victim.len.get() == 64 {
            break;
        }
        evicted_before += 1;
    }
    // Sixteen times as long, so sixteen gains of a full part; each eviction moves the clock by a
    // sixteenth of one gain.
    assert!((200..300).contains(&evicted_before), "{evicted_before} full parts left before it");
}

#[test]
fn no_number_of_overwrites_moves_the_clock_past_a_rank() {
    let mut regions = of(LongestAndOldest, &[(0, 1024), (4096, 1)]);
    regions.clock = GAIN / 1024 - 5;
    for _ in 0..20 {
        regions.insert(range(4096, 1));
    }
    regions.check().unwrap();
    assert_eq!(regions.victim(), Some(range(0, 1024)));
}

#[test]
fn a_clock_that_is_set_back_changes_no_order() {
    let mut regions = of(LongestAndOldest, &[(0, 3), (50, 20), (90, 20), (2000, 1024)]);
    regions.clock += CLOCK_MAX;
    let ranked = std::mem::take(&mut regions.by_rank);
    regions.by_rank = ranked.into_iter().map(|(rank, at)| (rank + CLOCK_MAX, at)).collect();
    regions.entries.values_mut().for_each(|entry| entry.rank += CLOCK_MAX);
    regions.check().unwrap();
    let before: Vec<BlockRange> = regions.victims().collect();
    assert_eq!(regions.victim(), Some(range(2048, 976)));
    assert_eq!(regions.clock, 0);
    assert!(regions.victims().eq(before));
    regions.remove(range(60, 2));
    regions.check().unwrap();
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
fn both_orders_agree_with_an_array() {
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
                LongestAndOldest => unreachable!("not of this test"),
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

/// The order of eviction is not modelled here; the held blocks and the invariants are.
#[test]
fn parts_agree_with_an_array() {
    const LEN: u64 = 3 * PART_LEN;
    for seed in 0..40 {
        let mut prng = Prng::new(seed);
        let mut regions = Regions::new(LongestAndOldest);
        let mut model = vec![false; LEN as usize];
        for step in 0..300 {
            let start = prng.below(LEN);
            let mut at = range(start, prng.below(200).min(LEN - start));
            let act = prng.below(5);
            if act == 0 {
                at = regions.victim().unwrap_or(at);
                assert!(regions.iter().all(|e| e.len.get() <= PART_LEN));
            }
            let blocks = &mut model[at.start.get() as usize..at.end().get() as usize];
            let before = blocks.iter().filter(|held| **held).count() as u64;
            blocks.fill(2 <= act);
            if 2 <= act {
                assert_eq!(regions.insert(at).get(), at.len.get() - before);
            } else {
                assert_eq!(regions.remove(at).get(), before);
            }
            let mut expected: Vec<(u64, u64)> = Vec::new();
            for at in (0..LEN).filter(|&at| model[at as usize]) {
                match expected.last_mut() {
                    Some((start, len)) if *start + *len == at && at % PART_LEN != 0 => *len += 1,
                    _ => expected.push((at, 1)),
                }
            }
            assert_eq!(held(&regions), expected, "seed {seed}, step {step}");
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

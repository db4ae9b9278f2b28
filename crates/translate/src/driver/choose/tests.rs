use super::*;
use imbrex_clockwork::Prng;
use imbrex_disk::Lba;

fn range(start: u64, len: u64) -> BlockRange {
    BlockRange::new(Lba::new(start), Blocks::new(len))
}

fn content(zone: u32, runs: &[(u64, u64)]) -> ZoneContent {
    let runs = runs.iter().map(|&(start, len)| range(start, len)).collect();
    ZoneContent { zone: ZoneId(zone), written: Blocks::new(100), runs }
}

fn merged(candidate_count: usize, chosen_count: usize) -> CleaningOrder {
    CleaningOrder::MostMerged { candidate_count, chosen_count }
}

fn numbers(cleaning: &Cleaning) -> Vec<u32> {
    cleaning.zones.iter().map(|zone| zone.0).collect()
}

fn picture() -> Vec<ZoneContent> {
    vec![
        content(3, &[(0, 3), (5, 2)]),
        content(7, &[(3, 2)]),
        content(9, &[(90, 2), (40, 2)]),
        content(4, &[(20, 1)]),
    ]
}

#[test]
fn the_pair_that_merges_most_is_chosen_rather_than_the_emptiest() {
    let cleaning = choose(merged(20, 2), &picture());
    let (mut zones, merged_nodes) = (numbers(&cleaning), cleaning.merged_nodes);
    zones.sort_unstable();
    assert_eq!((zones, merged_nodes, cleaning.nodes), (vec![3, 7], 2, 3));
    assert_eq!((cleaning.valid.get(), cleaning.garbage().get()), (7, 193));
    assert_eq!(cleaning.garbage_permille(), 965);

    let baseline = choose(CleaningOrder::MostGarbage { chosen_count: 2 }, &picture());
    assert_eq!((numbers(&baseline), baseline.merged_nodes), (vec![4, 7], 0));
    assert_eq!(baseline.garbage_permille(), 985);
}

#[test]
fn only_the_zones_with_the_least_valid_data_are_candidates() {
    let cleaning = choose(merged(2, 2), &picture());
    assert_eq!(numbers(&cleaning), [4, 7]);
    let fill = |(zone, valid)| ZoneFill {
        zone: ZoneId(zone),
        written: Blocks::new(100),
        valid: Blocks::new(valid),
    };
    let sealed = [(0, 50), (1, 3), (2, 0), (3, 7), (4, 3), (5, 99)].map(fill);
    let zones = |order| candidates(order, sealed).into_iter().map(|zone| zone.0);
    assert!(zones(merged(3, 2)).eq([1, 4, 3]));
    assert!(zones(merged(0, 2)).eq([1, 4]), "at least as many as are chosen");
    assert!(zones(merged(20, 2)).eq([1, 4, 3]), "an empty zone is not cleaned but reset");
    assert!(zones(CleaningOrder::MostGarbage { chosen_count: 1 }).eq([1]));
    assert!(zones(CleaningOrder::MostGarbage { chosen_count: 0 }).eq([]));
}

#[test]
fn one_zone_is_chosen_by_what_it_merges_alone() {
    let zones = [
        content(0, &[(10, 1), (30, 1)]),
        content(1, &[(50, 2), (52, 2), (54, 2)]),
        content(2, &[(11, 1)]),
    ];
    let cleaning = choose(merged(20, 1), &zones);
    assert_eq!((numbers(&cleaning), cleaning.merged_nodes), (vec![1], 2));
}

#[test]
fn the_third_zone_is_the_one_that_merges_most_with_both() {
    let zones = [
        content(0, &[(0, 1), (2, 1), (4, 1), (6, 1)]),
        content(1, &[(1, 1), (3, 1), (5, 1), (20, 1)]),
        content(2, &[(7, 1), (21, 1)]),
        content(3, &[(50, 1), (51, 1)]),
    ];
    let cleaning = choose(merged(20, 3), &zones);
    assert_eq!((numbers(&cleaning), cleaning.merged_nodes), (vec![0, 1, 2], 6 + 2));
}

#[test]
fn fewer_zones_than_wanted_are_all_chosen_and_none_is_none() {
    assert_eq!(choose(merged(20, 2), &[]), Cleaning::default());
    assert_eq!(numbers(&choose(merged(20, 3), &picture()[..1])), [3]);
    assert_eq!(numbers(&choose(merged(20, 0), &picture())), []);
    assert_eq!(Cleaning::default().garbage_permille(), 0);
}

/// Blocks of a small disk, each valid in one zone or in none; a zone's nodes are the runs of its
/// blocks, cut at random. The zones are so long that all are candidates.
fn random_zones(prng: &mut Prng, zone_count: u64) -> Vec<ZoneContent> {
    let mut zones: Vec<ZoneContent> = (0..zone_count).map(|z| content(z as u32, &[])).collect();
    let mut at = 0;
    while at < 300 {
        let len = 1 + prng.below(4);
        if prng.chance(4, 5) {
            zones[prng.below(zone_count) as usize].runs.push(range(at, len));
        }
        at += len;
    }
    for zone in &mut zones {
        zone.written = Blocks::new(3000);
        for last in (1..zone.runs.len()).rev() {
            zone.runs.swap(last, prng.below(last as u64 + 1) as usize);
        }
    }
    zones
}

/// Equation 3 by its words: the nodes of the union, and those left when neighbours are merged.
fn reduction(zones: &[&ZoneContent]) -> u64 {
    let mut runs: Vec<BlockRange> = zones.iter().flat_map(|zone| zone.runs.clone()).collect();
    runs.sort_unstable();
    let mut merged: Vec<BlockRange> = Vec::new();
    for run in &runs {
        match merged.last_mut().filter(|last| last.end() == run.start) {
            Some(last) => last.len += run.len,
            None => merged.push(*run),
        }
    }
    (runs.len() - merged.len()) as u64
}

#[test]
fn the_pair_chosen_is_the_best_of_all_pairs() {
    for seed in 0..60 {
        let mut prng = Prng::new(seed);
        let zone_count = 2 + prng.below(8);
        let mut zones = random_zones(&mut prng, zone_count);
        let pair = choose(merged(20, 2), &zones);
        let best = zones
            .iter()
            .enumerate()
            .flat_map(|(i, a)| zones[i + 1..].iter().map(move |b| reduction(&[a, b])));
        assert_eq!(Some(pair.merged_nodes), best.max(), "seed {seed}");
        let of = |cleaning: &Cleaning| {
            let chosen = |zone: &&ZoneContent| cleaning.zones.contains(&zone.zone);
            reduction(&zones.iter().filter(chosen).collect::<Vec<_>>())
        };
        let three = choose(merged(20, 3), &zones);
        assert_eq!((of(&pair), of(&three)), (pair.merged_nodes, three.merged_nodes));
        assert!(pair.merged_nodes <= three.merged_nodes);
        let garbage = choose(CleaningOrder::MostGarbage { chosen_count: 2 }, &zones);
        assert_eq!(of(&garbage), garbage.merged_nodes);
        assert!(garbage.merged_nodes <= pair.merged_nodes && garbage.valid <= pair.valid);
        zones.reverse();
        assert_eq!(choose(merged(20, 3), &zones), three, "H1, seed {seed}");
    }
}

/// Twelve zones are three quarters garbage and one is nearly full, which merges all its nodes: it is none of the
/// candidates, and would be at nine tenths of what it has.
#[test]
fn zones_that_cost_much_more_than_the_emptiest_are_no_candidates() {
    let single = |zone: u32| content(zone, &[(1000 + 100 * u64::from(zone), 25)]);
    let many = |zone: u32, count: u64| {
        let runs: Vec<(u64, u64)> = (0..count).map(|n| (n, 1)).collect();
        content(zone, &runs)
    };
    let beside = |full: ZoneContent| {
        let mut zones: Vec<ZoneContent> = (0..12).map(single).collect();
        zones.push(full);
        let fill = |content: &ZoneContent| ZoneFill {
            zone: content.zone,
            written: content.written,
            valid: content.valid(),
        };
        let seen = candidates(merged(20, 2), zones.iter().map(fill));
        let cleaning = choose(merged(20, 2), &zones);
        assert!(cleaning.zones.iter().all(|zone| seen.contains(zone)));
        numbers(&cleaning).contains(&12)
    };
    assert!(!beside(many(12, 90)));
    assert!(!beside(many(12, 36)), "a tenth of 100 blocks and one more");
    assert!(beside(many(12, 35)));
    let far = [single(0), many(12, 90)];
    assert_eq!(
        numbers(&choose(merged(20, 2), &far)).len(),
        2,
        "as many as are wanted all the same"
    );
}

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
    CleaningOrder::MostMerged { candidate_count, chosen_count, budget_percent: Some(10) }
}

fn numbers(cleaning: &CleaningChoice) -> Vec<u32> {
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
fn fewer_zones_than_wanted_are_all_chosen() {
    assert_eq!(choose(merged(20, 2), &[]), CleaningChoice::default());
    assert_eq!(numbers(&choose(merged(20, 3), &picture()[..1])), [3]);
    assert_eq!(numbers(&choose(merged(20, 0), &picture())), []);
    assert_eq!(CleaningChoice::default().garbage_permille(), 0);
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

/// Equation 3 literally: the nodes of the union, and those left when neighbours are merged.
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
        let of = |cleaning: &CleaningChoice| {
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

/// Twelve zones are three quarters garbage; the thirteenth merges all its nodes, and so do it and the next together.
#[test]
fn zones_that_cost_much_more_together_than_the_emptiest_are_not_chosen() {
    let single = |zone: u32| content(zone, &[(1000 + 100 * u64::from(zone), 25)]);
    let many = |zone: u32, from: u64, count: u64| {
        let runs: Vec<(u64, u64)> = (from..from + count).map(|n| (n, 1)).collect();
        content(zone, &runs)
    };
    let beside = |full: &[ZoneContent]| {
        let mut zones: Vec<ZoneContent> = (0..12).map(single).collect();
        zones.extend_from_slice(full);
        let fill = |content: &ZoneContent| ZoneFill {
            zone: content.zone,
            written: content.written,
            valid: content.valid(),
        };
        let seen = candidates(merged(20, 2), zones.iter().map(fill));
        let cleaning = choose(merged(20, 2), &zones);
        assert!(cleaning.zones.iter().all(|zone| seen.contains(zone)));
        assert_eq!(cleaning.zones.len(), 2);
        cleaning.zones.iter().filter(|zone| zone.0 >= 12).count()
    };
    assert_eq!(beside(&[many(12, 0, 90)]), 0);
    assert_eq!(beside(&[many(12, 0, 46)]), 0, "two tenths of 100 blocks and one more");
    assert_eq!(beside(&[many(12, 0, 45)]), 1, "the other has none more than the emptiest");
    assert_eq!(beside(&[many(12, 0, 35), many(13, 35, 36)]), 1, "two tenths and one more");
    assert_eq!(beside(&[many(12, 0, 35), many(13, 35, 35)]), 2, "a tenth each");
    let far = [single(0), many(12, 0, 90)];
    assert_eq!(choose(merged(20, 2), &far).zones.len(), 2, "as many as are wanted all the same");
}

#[test]
fn a_third_zone_fits_the_budget_of_three() {
    let zones: Vec<ZoneContent> =
        (0..6).map(|zone| content(zone, &[(100 * u64::from(zone), 10)])).collect();
    let full = |zone: u32, count: u64| {
        content(zone, &(0..count).map(|n| (1000 * u64::from(zone) + n, 1)).collect::<Vec<_>>())
    };
    let chosen = |count| {
        let mut zones = zones.clone();
        zones.push(full(6, count));
        numbers(&choose(merged(20, 3), &zones))
    };
    assert_eq!(chosen(30), [0, 6, 1], "two zones have a budget of 20 more");
    assert_eq!(chosen(31), [0, 1, 6], "three have one of 30");
    assert_eq!(chosen(40), [0, 1, 6]);
    assert_eq!(chosen(41), [0, 1, 2]);
}

/// The picture of the paper: the best pair of the candidates, whatever has to be moved for it.
#[test]
fn the_papers_rule_has_no_budget() {
    let full = |zone: u32, start: u64| content(zone, &[(start, 40), (start + 80, 40)]);
    let zones = [content(1, &[(900, 1)]), content(2, &[(950, 1)]), full(3, 0), full(4, 40)];
    let ours = choose(CleaningOrder::merged(), &zones);
    assert_eq!((numbers(&ours), ours.merged_nodes), (vec![1, 2], 0), "160 blocks for 3 nodes");
    let papers = choose(CleaningOrder::of_the_paper(), &zones);
    assert_eq!((numbers(&papers), papers.merged_nodes), (vec![3, 4], 3));
    assert_eq!((papers.valid.get(), papers.garbage().get()), (160, 40));
    let fills = zones.map(|of| ZoneFill { zone: of.zone, written: of.written, valid: of.valid() });
    assert_eq!(candidates(CleaningOrder::merged(), fills).len(), 2);
    assert_eq!(candidates(CleaningOrder::of_the_paper(), fills).len(), 4);
}

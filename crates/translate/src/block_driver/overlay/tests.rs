use super::*;
use imbrex_clockwork::Prng;
use imbrex_disk::{Blocks, Pba};

/// The runs of `base` with all deltas, without those that are no longer mapped.
fn over(deltas: DeltaRuns, base: Vec<Run>) -> Vec<Run> {
    let both = overlay(deltas.into_runs().into_iter(), base.into_iter());
    both.filter(Run::is_mapped).collect()
}

const LEN: u64 = 200;

/// Disjoint runs at random places; in a delta some are no longer mapped.
fn draw(prng: &mut Prng, is_delta: bool) -> Vec<Run> {
    let (mut runs, mut at) = (Vec::new(), prng.below(20));
    while at < LEN {
        let len = 1 + prng.below(20.min(LEN - at));
        let range = BlockRange::new(Lba::new(at), Blocks::new(len));
        let run = match is_delta && prng.chance(1, 3) {
            true => Run::unmapped(range),
            false => Run { range, at: Pba::new(1000 * (1 + prng.below(1 << 20))) },
        };
        runs.push(run);
        at += len + prng.below(3) * prng.below(20);
    }
    runs
}

/// The place of each block.
fn spread(places: &mut [Option<u64>], runs: &[Run]) {
    for run in runs {
        for index in 0..run.range.len.get() {
            let at = run.is_mapped().then(|| run.at.get() + index);
            places[(run.range.start.get() + index) as usize] = at;
        }
    }
}

#[test]
fn the_newest_run_of_each_block_counts() {
    for seed in 0..300 {
        let mut prng = Prng::new(seed);
        let base = draw(&mut prng, false);
        let mut wanted = vec![None; LEN as usize];
        spread(&mut wanted, &base);
        let mut deltas = DeltaRuns::default();
        for _ in 0..prng.below(9) {
            let delta = draw(&mut prng, true);
            spread(&mut wanted, &delta);
            deltas.push(delta);
        }
        let runs = over(deltas, base);
        let mut end = Lba::new(0);
        for run in &runs {
            assert!(end <= run.range.start && !run.range.len.is_zero(), "seed {seed}: {runs:?}");
            end = run.range.end();
        }
        let mut found = vec![None; LEN as usize];
        spread(&mut found, &runs);
        assert_eq!(found, wanted, "seed {seed}");
    }
}

#[test]
fn without_deltas_the_base_is_what_it_is() {
    let base = draw(&mut Prng::new(1), false);
    assert_eq!(over(DeltaRuns::default(), base.clone()), base);
}

#[test]
fn a_delta_may_cover_everything() {
    let whole = BlockRange::new(Lba::new(0), Blocks::new(LEN));
    let mut deltas = DeltaRuns::default();
    deltas.push(vec![Run::unmapped(whole)]);
    assert_eq!(over(deltas, draw(&mut Prng::new(2), false)), []);
}

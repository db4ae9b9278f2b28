use super::*;
use imbrex_clockwork::Prng;
use std::collections::BTreeMap;

fn run(key: u64, value: u64, len: u32) -> Run {
    Run { key, value, len }
}

fn all(runs: &PackedRuns) -> Vec<Run> {
    runs.check().expect("a sound container");
    runs.range(0, ADDRESS_END).collect()
}

#[test]
fn a_run_of_the_highest_numbers_is_packed_and_unpacked() {
    for run in [run(ADDRESS_END - 1, ADDRESS_END - 2, u32::MAX), run(0, 0, 0), run(1, 2, 0x1_0001)]
    {
        assert_eq!(Packed::new(run).run(), run);
    }
}

#[test]
fn ascending_and_descending_runs_fill_their_leaves() {
    for is_descending in [false, true] {
        let mut runs = PackedRuns::default();
        for i in 0..10_000 {
            let key = if is_descending { 10_000 - i } else { i };
            runs.insert(run(key * 10, i, 5));
        }
        assert_eq!(all(&runs).len(), 10_000);
        assert!(runs.leaves.len() < 10_000 / 100, "{} leaves", runs.leaves.len());
        assert!(runs.memory_bytes() < 10_000 * 18, "{} bytes", runs.memory_bytes());
    }
}

#[test]
fn memory_shrinks_when_most_runs_are_removed() {
    let mut runs = PackedRuns::default();
    for key in 0..100_000 {
        runs.insert(run(key, key, 1));
    }
    for key in (0..100_000).filter(|key| key % 100 != 0) {
        runs.remove(key);
    }
    assert_eq!(all(&runs).len(), 1000);
    assert!(runs.memory_bytes() < 1000 * 40, "{} bytes", runs.memory_bytes());
}

#[test]
fn the_container_agrees_with_a_tree() {
    for seed in 0..12 {
        let mut prng = Prng::new(seed);
        let keys = if seed % 3 == 0 { 3000 } else { 1 << 40 };
        let (mut runs, mut model) = (PackedRuns::default(), BTreeMap::new());
        // Read a little at every step, and now and then not to its end.
        let mut frozen: Option<(FrozenRuns, btree_map::IntoValues<u64, Run>)> = None;
        for step in 0..6000 {
            if prng.chance(1, 500) || frozen.is_none() {
                frozen = Some((runs.frozen(), model.clone().into_values()));
            }
            let (key, len) = (prng.below(keys), prng.below(1 << 32) as u32);
            let shrinks = step / 1500 % 2 == 1;
            match prng.below(10) {
                0 => {
                    let (end, mut taken) = (key + keys / 50, Vec::new());
                    runs.take(key, end, &mut taken);
                    let keys: Vec<u64> = model.range(key..end).map(|(&key, _)| key).collect();
                    let expected = keys.iter().filter_map(|key| model.remove(key));
                    assert_eq!(taken, expected.collect::<Vec<Run>>());
                }
                1..=5 if shrinks => {
                    if let Some((&key, _)) = model.range(key..).next() {
                        runs.remove(key);
                        model.remove(&key);
                    }
                }
                6 => {
                    if let Some((&key, run)) = model.range_mut(key..).next() {
                        runs.set_len(key, len);
                        run.len = len;
                    }
                }
                _ => {
                    let new = run(key, prng.below(ADDRESS_END), len);
                    if model.insert(key, new).is_some() {
                        runs.remove(key);
                    }
                    runs.insert(new);
                }
            }
            let at = prng.below(keys);
            let expected = model.range(..=at).next_back().map(|(_, &run)| run);
            assert_eq!(runs.last_at(at), expected, "seed {seed}, step {step}");
            assert_eq!(runs.count(), model.len());
            if let Some((shared, expected)) = &mut frozen {
                for _ in 0..prng.below(9) {
                    assert_eq!(shared.next(), expected.next(), "seed {seed}, step {step}");
                }
            }
            if step % 100 == 0 {
                assert!(model.values().copied().eq(all(&runs)), "seed {seed}, step {step}");
                let window = model.range(at..at + keys / 10).map(|(_, &run)| run);
                assert!(window.eq(runs.range(at, at + keys / 10)), "seed {seed}, step {step}");
            }
        }
    }
}

#[test]
fn a_bulk_build_is_dense_and_takes_inserts() {
    let mut builder = Builder::default();
    for key in 0..1000 {
        builder.push(run(key * 2, key, 1));
    }
    assert_eq!(builder.last(), Some(run(1998, 999, 1)));
    builder.lengthen_last(2);
    let mut runs = builder.finish();
    assert_eq!(all(&runs).last(), Some(&run(1998, 999, 2)));
    assert!(runs.memory_bytes() < 1000 * 17, "{} bytes", runs.memory_bytes());
    for key in 0..999 {
        runs.insert(run(key * 2 + 1, key, 1));
    }
    assert_eq!(all(&runs).len(), 1999);
}

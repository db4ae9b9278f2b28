//! Same seed, same run; and a few seeds of every scenario on each test run.

use crate::{Scenario, run_seed, sweep};
use std::collections::BTreeSet;

#[test]
fn same_seed_same_run() {
    for scenario in Scenario::ALL {
        let runs = [(); 2].map(|()| run_seed(scenario, 0x5eed).unwrap_or_else(|f| panic!("{f}")));
        assert_eq!(runs[0], runs[1], "{}", scenario.name);
        let other = run_seed(scenario, 0x5eee).unwrap_or_else(|f| panic!("{f}"));
        assert_ne!(runs[0].event_log_hash, other.event_log_hash, "{}", scenario.name);
    }
}

#[test]
fn a_few_seeds_are_clean() {
    for seed in 0..4 {
        for scenario in Scenario::ALL {
            if let Err(failure) = run_seed(scenario, seed) {
                panic!("{failure}");
            }
        }
    }
}

#[test]
fn a_few_sweeps_are_clean_and_cut_where_they_say() {
    for scenario in Scenario::ALL {
        let swept = sweep(scenario, 3, 150).unwrap_or_else(|failure| panic!("{failure}"));
        assert_eq!(swept.run_count, (swept.event_count - 3).div_ceil(150), "{}", scenario.name);
        assert!(swept.power_cut_count >= swept.run_count, "{}: {swept:?}", scenario.name);
    }
}

#[test]
fn names_are_unique() {
    let names: BTreeSet<&str> = Scenario::ALL.iter().map(|scenario| scenario.name).collect();
    assert_eq!(names.len(), Scenario::ALL.len());
    assert!(names.iter().all(|name| Scenario::by_name(name).is_some()));
}

//! Same seed, same run; and a few seeds of every scenario on each test run.

use crate::{Scenario, Target, WorkCounts, run_seed, sweep};
use imbrex::Layout;
use imbrex_clockwork::share_of;
use imbrex_disk::Blocks;
use std::collections::BTreeSet;

/// All but full drives, which take seconds each and run by name.
fn scenarios() -> impl Iterator<Item = &'static Scenario> {
    Scenario::all().iter().filter(|scenario| scenario.target != Target::FullDrive)
}

#[test]
fn same_seed_same_run() {
    for scenario in share_of(scenarios()) {
        let runs = [(); 2].map(|()| run_seed(scenario, 0x5eed).unwrap_or_else(|f| panic!("{f}")));
        assert_eq!(runs[0], runs[1], "{}", scenario.name);
        let other = run_seed(scenario, 0x5eee).unwrap_or_else(|f| panic!("{f}"));
        assert_ne!(runs[0].event_log_hash, other.event_log_hash, "{}", scenario.name);
    }
}

#[test]
fn a_few_seeds_are_clean() {
    let all = (0..4).flat_map(|seed| scenarios().map(move |scenario| (scenario, seed)));
    for (scenario, seed) in share_of(all) {
        if let Err(failure) = run_seed(scenario, seed) {
            panic!("{failure}");
        }
    }
}

#[test]
fn a_few_sweeps_are_clean_and_cut_where_they_say() {
    for scenario in share_of(scenarios()) {
        let swept = sweep(scenario, 3, 150, 12).unwrap_or_else(|failure| panic!("{failure}"));
        let every = swept.event_count.div_ceil(12).max(150);
        assert_eq!(swept.run_count, (swept.event_count - 3).div_ceil(every), "{}", scenario.name);
        assert!(swept.power_cut_count >= swept.run_count, "{}: {swept:?}", scenario.name);
    }
}

/// With two drives, every sweep cuts the power of both, and each loses what it had not flushed.
#[test]
fn sweeps_cut_both_drives() {
    for name in share_of(["layout-smrdb-offload", "layout-imbrex-flash"]) {
        let scenario = Scenario::by_name(name).unwrap();
        let mut lost = Blocks::ZERO;
        for seed in 0..3 {
            let swept = sweep(scenario, seed, 1, 24).unwrap_or_else(|failure| panic!("{failure}"));
            lost += swept.flash_lost;
        }
        assert!(!lost.is_zero(), "{name}: the flash drive lost nothing");
    }
}

type Count = fn(&WorkCounts) -> u64;

/// A layout's special work happens in its runs, and power cuts hit it midway.
#[test]
fn every_step_of_the_layouts_is_cut_midway() {
    let told: [(&str, &[(&str, Count)]); 8] = [
        ("layout-gear-paper", &[("turns", |d| d.turn_count), ("cut turns", |d| d.cut_turn_count)]),
        (
            "layout-sealdb-paper",
            &[
                ("sets", |d| d.set_count),
                ("cut sets", |d| d.cut_set_count),
                ("band splits", |d| d.insert_count),
            ],
        ),
        (
            "layout-imbrex-zones",
            &[
                ("mid merges", |d| d.mid_merge_count),
                ("pieces of base merges", |d| d.piece_count),
                ("cut pieces", |d| d.cut_piece_count),
            ],
        ),
        (
            "layout-imbrex-flash",
            &[("destages", |d| d.destage_count), ("cut pieces", |d| d.cut_piece_count)],
        ),
        ("layout-sets-banded", &[("sets", |d| d.set_count)]),
        (
            "layout-leveldb-banded",
            &[("rewrites", |d| d.band_rewrite_count), ("cut ones", |d| d.cut_rewrite_count)],
        ),
        ("layout-leveldb-greedy", &[("cut cleanings", |d| d.cut_cleaning_count)]),
        ("layout-smrdb-paper", &[("merges within level 1", |d| d.overlap_merge_count)]),
    ];
    for (name, counts) in share_of(told) {
        check_happens(name, counts);
    }
}

/// A full zone has no pointer either: its damage may be anywhere in it.
#[test]
fn zones_are_damaged_up_to_their_end() {
    for name in share_of(["blocks", "blocks-all-sequential"]) {
        let counts: [(&str, Count); 2] = [
            ("damage at the end of a full zone", |d| d.full_end_damage_count),
            ("damage at the end of an open zone", |d| d.open_end_damage_count),
        ];
        check_happens(name, &counts);
    }
}

/// Runs seeds of a scenario until all of these have happened.
fn check_happens(name: &str, counts: &[(&str, Count)]) {
    let scenario = Scenario::by_name(name).unwrap();
    let mut work = WorkCounts::default();
    let is_missing = |work: &WorkCounts| counts.iter().find(|(_, count)| count(work) == 0);
    let mut seed = 0;
    while let Some((what, _)) = is_missing(&work) {
        assert!(seed < 400, "{name}: no {what} in {seed} seeds: {work}");
        let report = run_seed(scenario, seed).unwrap_or_else(|failure| panic!("{failure}"));
        work += report.work;
        seed += 1;
    }
}

/// If every file takes a whole zone, a drive is full long before its bytes are used up. Once, such
/// a drive refused a delete, or left a store that did not open.
#[test]
fn full_drives_of_whole_zones_open_and_take_deletes() {
    let stories = [
        // Once, a flush ended the log and began another while memtables waited for space.
        ("layout-smrdb-leveled", 0x9d20),
        // Once, a recovery left zones for logs, although it begins none.
        ("layout-smrdb-leveled", 0x9e44),
        // Once, the store was opened with shorter memtables than before: more tables than zones.
        ("layout-smrdb-leveled", 0x2798),
        // Once, short tables of deletes filled level 0, and no compaction fitted.
        ("layout-smrdb-leveled", 0x7591),
        // Once, compaction took the room of deletes, and a checkpoint kept its inputs.
        ("layout-smrdb-paper", 0x75fa),
    ];
    for (scenario, seed) in stories {
        let scenario = Scenario::by_name(scenario).unwrap();
        run_seed(scenario, seed).unwrap_or_else(|failure| panic!("{failure}"));
    }
}

#[test]
fn every_layout_has_a_scenario() {
    for layout in Layout::all() {
        let name = format!("layout-{layout}");
        assert_eq!(Scenario::by_name(&name).unwrap().layout(), Some(layout));
    }
}

#[test]
fn names_are_unique() {
    let names: BTreeSet<&str> = Scenario::all().iter().map(|scenario| scenario.name).collect();
    assert_eq!(names.len(), Scenario::all().len());
    assert!(names.iter().all(|name| Scenario::by_name(name).is_some()));
}

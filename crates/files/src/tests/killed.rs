//! A process is killed during a sync, another one continues with the content of the drive's cache,
//! and then the power is cut; for drives of each rule.

use super::stage::{Stage, Zones, conventional, interlaced, put, remove, shingled, verify, zoned};
use crate::{FileLayer, Files, FilesError};
use imbrex_disk_sim::FaultPlan;
use std::collections::BTreeSet;

type Names = BTreeSet<String>;
type Make = Box<dyn Fn() -> Stage>;

/// The operations of a process in order: each step adds a file or removes one.
const STEPS: [(&str, u64, u8); 14] = [
    ("b1", 9, 2),
    ("-a1", 0, 0),
    ("b2", 16, 1),
    ("-a3", 0, 0),
    ("-b1", 0, 0),
    ("b3", 30, 3),
    ("b4", 5, 0),
    ("-a2", 0, 0),
    ("-b2", 0, 0),
    ("b5", 16, 2),
    ("b6", 16, 1),
    ("-a4", 0, 0),
    ("b7", 20, 2),
    ("b8", 12, 1),
];

struct Drive {
    stage: Stage,
    /// The possible states.
    may_be: Vec<Names>,
}

impl Drive {
    fn names(files: &FileLayer) -> Names {
        files.list("").into_iter().map(|info| info.name).collect()
    }

    /// Takes steps until one fails.
    fn live(&mut self, files: &FileLayer, steps: &[(&str, u64, u8)]) {
        for &(name, blocks, level) in steps {
            let mut now = Drive::names(files);
            let done = match name.strip_prefix('-') {
                Some(name) if now.remove(name) => remove(files, &[name]),
                Some(_) => continue,
                None if now.insert(name.to_owned()) => put(files, name, blocks, level),
                None => continue,
            };
            match done {
                Ok(()) => self.may_be = vec![now],
                Err(FilesError::NoSpace { .. }) => {}
                Err(_) => return self.may_be.push(now),
            }
        }
    }

    fn check(&self, files: &FileLayer, told: &str) {
        let found = Drive::names(files);
        assert!(self.may_be.contains(&found), "{told}: {found:?}, not of {:?}", self.may_be);
        for name in found {
            verify(files, &name, &name).unwrap_or_else(|error| panic!("{told}: {error}"));
        }
        let report = files.check().unwrap();
        assert!(report.findings.is_empty(), "{told}: {:?}", report.findings);
    }
}

fn story(make: &dyn Fn() -> Stage, placement: &str, kill: u64, cut: u64, seed: u64) -> bool {
    let told = format!("{placement}, killed in sync {kill}, cut at {cut}, seed {seed}");
    let mut drive = Drive { stage: make(), may_be: Vec::new() };
    let files = drive.stage.format_small(placement).unwrap();
    for (name, blocks, level) in [("a1", 16, 1), ("a2", 16, 2), ("a3", 16, 1), ("a4", 16, 3)] {
        put(&files, name, blocks, level).unwrap();
    }
    drive.may_be = vec![Drive::names(&files)];
    let disk = &drive.stage.disk;
    disk.set_faults(FaultPlan { kill_in_sync_after: Some(kill), ..FaultPlan::default() });
    drive.live(&files, &STEPS);
    let was_killed = drive.may_be.len() > 1;
    drop(files);

    let cut = FaultPlan { power_cut_after: Some(cut), ..FaultPlan::default() };
    drive.stage.disk.set_faults(cut);
    if let Ok(files) = drive.stage.open() {
        assert!(drive.may_be.contains(&Drive::names(&files)), "{told}");
        let again: Vec<_> = STEPS.iter().copied().rev().collect();
        drive.live(&files, &again);
    }
    drive.stage.power_cycle(seed);
    drive.stage.disk.set_faults(FaultPlan::default());
    let files = drive.stage.open().unwrap_or_else(|error| panic!("{told}: {error}"));
    drive.check(&files, &told);
    drop(files);
    let files = drive.stage.open().unwrap_or_else(|error| panic!("{told}: {error}"));
    drive.may_be = vec![Drive::names(&files)];
    drive.live(&files, &STEPS);
    drive.check(&files, &told);
    was_killed
}

#[test]
fn what_a_killed_process_left_is_durable_before_others_build_on_it() {
    let zones = Zones { count: 16, len: 32, conventional: 2, active_limit: None };
    let makes: [(&str, Make); 5] = [
        ("first-fit", Box::new(|| conventional(400, 1000))),
        ("zone-per-level", Box::new(move || zoned(zones, 1000))),
        ("dynamic-bands", Box::new(|| shingled(700, 4, 2, 1000))),
        ("track-sequential", Box::new(|| interlaced(1200, 8, 8, 1000))),
        ("track-tiers", Box::new(|| interlaced(1200, 8, 8, 1000))),
    ];
    for (placement, make) in &makes {
        let mut killed_count = 0;
        for (kill, cut) in (0..15).flat_map(|kill| (0..8).map(move |cut| (kill, cut))) {
            for seed in 0..2 {
                killed_count += u64::from(story(make, placement, kill, cut, 7 * kill + seed));
            }
        }
        assert!(killed_count > 100, "{placement}: {killed_count}");
    }
}

//! The power is cut at every device event of a story, and again while it recovers.
//!
//! Afterwards these must hold. The namespace is that of the last acknowledged change, or of the
//! change in progress (F1). Every file reads back (F2). A log holds everything that was synced. The
//! check finds nothing. The drive can be written again.

use super::stage::{
    Stage, Zones, assert_sound, content, conventional, interlaced, member, put, put_upkeep, remove,
    shingled, stage, stage_of_sectors, table, verify, zoned,
};
use crate::CommitKind;
use crate::{AppRecord, Commit, FileKind, FileLayer, Files, FilesError, Hints, LogWriter};
use imbrex_clockwork::seeds;
use imbrex_disk::{BLOCK_LEN_BYTES, Blocks, NeighbourSpec, Rule, ShingleSpec, ZoneSpec};
use imbrex_disk_sim::FaultPlan;
use std::collections::BTreeMap;
use std::sync::Arc;

/// One step of the story.
enum Op {
    Put(&'static [(&'static str, u64, u8)]),
    Swap { remove: &'static [&'static str], add: (&'static str, u64, u8), app: &'static str },
    Rename(&'static str, &'static str),
    Apps(u32),
    ReplaceApp(&'static str),
    Log(&'static str),
    Append(&'static str, u64),
    Finish(&'static str),
    Clean,
}

/// The content that the drive must have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Model {
    /// Name -> (tag of the content, blocks, level).
    tables: BTreeMap<String, (String, u64, u8)>,
    /// Name -> synced blocks.
    logs: BTreeMap<String, u64>,
    app: Vec<String>,
}

const STORY: &[Op] = &[
    Op::Log("w1"),
    Op::Append("w1", 3),
    Op::Put(&[("a", 20, 1), ("b", 30, 2)]),
    Op::Append("w1", 70),
    Op::Finish("w1"),
    Op::Log("w2"),
    Op::Swap { remove: &["a", "w1"], add: ("c", 40, 1), app: "edit" },
    Op::Append("w2", 2),
    Op::Rename("b", "d"),
    // More than the log of a region holds: the catalog moves to the other region, and back.
    Op::Apps(34),
    Op::ReplaceApp("all"),
    Op::Put(&[("e", 64, 3), ("f", 50, 3)]),
    Op::Append("w2", 5),
    Op::Swap { remove: &["e"], add: ("g", 10, 1), app: "more" },
    Op::Clean,
    Op::Apps(3),
];

/// Sets that die in parts; holes that are split, filled and coalesce; logs in between.
const BANDS: &[Op] = &[
    Op::Log("w1"),
    Op::Append("w1", 3),
    Op::Put(&[("a", 30, 2), ("b", 20, 2), ("c", 30, 2)]),
    Op::Put(&[("d", 25, 2), ("e", 25, 2)]),
    Op::Swap { remove: &["a", "c"], add: ("f", 40, 1), app: "half dead" },
    Op::Append("w1", 20),
    Op::Swap { remove: &["b"], add: ("g", 8, 1), app: "a hole" },
    Op::Put(&[("h", 20, 2), ("i", 16, 2)]),
    Op::Put(&[("j", 10, 2)]),
    Op::Finish("w1"),
    Op::Log("w2"),
    Op::Append("w2", 5),
    Op::Swap { remove: &["w1", "h"], add: ("k", 12, 3), app: "half dead again" },
    Op::Apps(34),
    Op::Swap { remove: &["i", "d"], add: ("l", 9, 1), app: "coalesced" },
    Op::Put(&[("m", 30, 3), ("n", 30, 3)]),
    Op::Append("w2", 30),
    Op::Clean,
];

/// A full drive of half-dead sets, whose living members must move to make room.
const HALF_DEAD: &[Op] = &[
    Op::Put(&[("a", 60, 2), ("b", 20, 2), ("c", 60, 2)]),
    Op::Put(&[("d", 60, 2), ("e", 20, 2), ("f", 60, 2)]),
    Op::Put(&[("g", 60, 2), ("h", 20, 2), ("i", 60, 2)]),
    Op::Swap { remove: &["a", "c", "d", "f"], add: ("j", 10, 1), app: "half dead" },
    Op::Put(&[("k", 110, 3), ("l", 110, 3)]),
    Op::Rename("b", "b2"),
    Op::Put(&[("m", 15, 1)]),
];

impl Model {
    /// The states that the drive may have while `op` is in progress; the last is the state after
    /// it.
    fn after(&self, op: &Op) -> Vec<Model> {
        let mut next = self.clone();
        match op {
            Op::Put(files) => {
                for &(name, blocks, level) in *files {
                    next.tables.insert(name.into(), (name.into(), blocks, level));
                }
            }
            Op::Swap { remove, add, app } => {
                for name in *remove {
                    next.tables.remove(*name);
                    next.logs.remove(*name);
                }
                next.tables.insert(add.0.into(), (add.0.into(), add.1, add.2));
                next.app.push((*app).into());
            }
            Op::Rename(from, to) => {
                let file = next.tables.remove(*from).expect("the story is consistent");
                next.tables.insert((*to).into(), file);
            }
            Op::Apps(count) => {
                let mut states = Vec::new();
                for index in 0..*count {
                    next.app.push(format!("app {index}"));
                    states.push(next.clone());
                }
                return states;
            }
            Op::ReplaceApp(text) => next.app = vec![(*text).into()],
            Op::Log(name) => drop(next.logs.insert((*name).into(), 0)),
            Op::Append(name, blocks) => {
                *next.logs.get_mut(*name).expect("the story is consistent") += blocks;
            }
            Op::Finish(_) | Op::Clean => {}
        }
        vec![next]
    }

    /// Compares with a drive. Logs are checked separately, because they may be longer.
    fn matches(&self, files: &FileLayer) -> bool {
        let tables: BTreeMap<String, (u64, u8)> = files
            .list("")
            .into_iter()
            .filter(|f| f.kind == FileKind::Table)
            .map(|f| (f.name, (f.len_bytes / 4096, f.level)))
            .collect();
        let expected: BTreeMap<String, (u64, u8)> = self
            .tables
            .iter()
            .map(|(name, &(_, blocks, level))| (name.clone(), (blocks, level)))
            .collect();
        let logs: Vec<String> = files
            .list("")
            .into_iter()
            .filter(|f| f.kind == FileKind::Log)
            .map(|f| f.name)
            .collect();
        let app: Vec<Vec<u8>> = self.app.iter().map(|text| text.as_bytes().to_vec()).collect();
        tables == expected
            && logs.iter().eq(self.logs.keys())
            && files.app_records() == app
            && self.logs.iter().all(|(name, &synced)| log_holds(files, name, synced))
    }
}

fn log_holds(files: &FileLayer, name: &str, synced_blocks: u64) -> bool {
    let reader = files.open(name).unwrap();
    let len_bytes = Blocks::new(synced_blocks).bytes() as usize;
    let mut scratch = Vec::new();
    match reader.read_at(0, len_bytes, &mut scratch) {
        Ok(got) => got == content(name, len_bytes),
        Err(FilesError::PastEnd { .. }) => false,
        // The end of data that were not synced.
        Err(error) if error.is_unreadable() => false,
        Err(error) => panic!("{name}: {error}"),
    }
}

/// Plays the story. Returns the states that the drive may have after the first failure.
fn play(stage: &Stage, files: &FileLayer, story: &[Op]) -> (Vec<Model>, Result<(), FilesError>) {
    let mut logs: BTreeMap<&str, Arc<dyn LogWriter>> = BTreeMap::new();
    let mut model = Model::default();
    for op in story {
        let mut states = model.after(op);
        let result = perform(stage, files, op, &mut logs);
        let after = states.last().cloned().expect("an op leads somewhere");
        if let Err(error) = result {
            states.insert(0, model);
            return (states, Err(error));
        }
        model = after;
    }
    (vec![model], Ok(()))
}

fn perform(
    stage: &Stage,
    files: &FileLayer,
    op: &Op,
    logs: &mut BTreeMap<&str, Arc<dyn LogWriter>>,
) -> Result<(), FilesError> {
    match op {
        Op::Put(tables) => {
            let buffers =
                tables.iter().map(|&(name, blocks, level)| member(name, blocks, level, 1));
            let add = files.persist(buffers.collect())?;
            files.commit(Commit { add, ..Commit::default() })
        }
        Op::Swap { remove, add: (name, blocks, level), app } => files.commit(Commit {
            add: files.persist(vec![table(name, *blocks, *level)])?,
            remove: remove.iter().map(|&n| n.to_owned()).collect(),
            app: Some(AppRecord::Append(app.as_bytes().to_vec())),
            ..Commit::default()
        }),
        Op::Rename(from, to) => {
            let rename = vec![((*from).to_owned(), (*to).to_owned())];
            files.commit(Commit { rename, ..Commit::default() })
        }
        Op::Apps(count) => (0..*count).try_for_each(|index| {
            let app = Some(AppRecord::Append(format!("app {index}").into_bytes()));
            files.commit(Commit { app, ..Commit::default() })
        }),
        Op::ReplaceApp(text) => {
            let app = Some(AppRecord::Replace(text.as_bytes().to_vec()));
            files.commit(Commit { app, ..Commit::default() })
        }
        Op::Log(name) => {
            let hints = Hints { purpose: CommitKind::Upkeep, ..Hints::new(FileKind::Log) };
            files.create_log(name, hints).map(|log| drop(logs.insert(name, log)))
        }
        Op::Append(name, blocks) => {
            let log = &logs[name];
            let before = log.len_bytes() as usize;
            let len_bytes = before + Blocks::new(*blocks).bytes() as usize;
            log.append(&content(name, len_bytes)[before..])?;
            log.sync()
        }
        Op::Finish(name) => logs[name].finish(),
        Op::Clean => {
            stage.runtime.scheduler.notify();
            stage.world.run_until_idle();
            Ok(())
        }
    }
}

fn start(stage: &Stage, placement: &str) -> FileLayer {
    let files = stage.format_small(placement).unwrap();
    stage.runtime.scheduler.spawn(files.clean_job());
    files
}

/// The number of device events of the whole story on such a stage.
fn event_count(make: &dyn Fn() -> Stage, placement: &str, story: &[Op]) -> u64 {
    let stage = make();
    let files = start(&stage, placement);
    stage.disk.set_faults(FaultPlan::default());
    let (models, result) = play(&stage, &files, story);
    result.unwrap();
    assert!(models[0].matches(&files), "the story itself");
    let moves = files.stats().cleaned_zones > 0;
    assert!(moves || !std::ptr::eq(story, HALF_DEAD), "nothing was moved on {placement}");
    assert_sound(&files);
    stage.disk.fault_event_count()
}

fn cut_everywhere(make: &dyn Fn() -> Stage, placement: &str) {
    cut_story(make, placement, STORY);
}

fn cut_story(make: &dyn Fn() -> Stage, placement: &str, story: &[Op]) {
    cut_story_every(1, make, placement, story);
}

fn cut_story_every(step: usize, make: &dyn Fn() -> Stage, placement: &str, story: &[Op]) {
    for cut in (0..event_count(make, placement, story)).step_by(step) {
        // At every other event the data being written are unreadable afterwards.
        let stage = if (cut / step as u64).is_multiple_of(2) {
            make()
        } else {
            make().breaking(BLOCK_LEN_BYTES)
        };
        let files = start(&stage, placement);
        stage.disk.set_faults(FaultPlan { power_cut_after: Some(cut), ..FaultPlan::default() });
        let (states, _) = play(&stage, &files, story);
        drop(files);
        stage.world.drop_jobs();
        stage.power_cycle(cut);
        let files = recovered(&stage, &states, cut);
        // The first change after an open writes a checkpoint, whose every event is cut as well.
        let again = cut % 7;
        stage.disk.set_faults(FaultPlan { power_cut_after: Some(again), ..FaultPlan::default() });
        let was_put = put(&files, "late", 3, 1).is_ok();
        drop(files);
        stage.power_cycle(cut + 1000);
        let mut states = states;
        for state in states.clone() {
            let mut with = state.clone();
            with.tables.insert("late".into(), ("late".into(), 3, 1));
            states.push(with);
        }
        if was_put {
            states.retain(|state| state.tables.contains_key("late"));
        }
        let files = recovered(&stage, &states, cut);
        put(&files, "last", 3, 1).unwrap();
        verify(&files, "last", "last").unwrap();
        assert_sound(&files);
    }
}

fn recovered(stage: &Stage, states: &[Model], cut: u64) -> FileLayer {
    let files = stage.open().unwrap_or_else(|error| panic!("cut at event {cut}: {error}"));
    let state = states.iter().rev().find(|state| state.matches(&files));
    let Some(state) = state else {
        panic!("cut at event {cut}: found {:#?}, none of {states:#?}", files.list(""));
    };
    for (name, (tag, ..)) in &state.tables {
        verify(&files, name, tag).unwrap_or_else(|error| panic!("cut at event {cut}: {error}"));
    }
    assert_sound(&files);
    files
}

const SMALL: Zones = Zones { count: 10, len: 64, conventional: 1, active_limit: None };

#[test]
fn on_zones_per_level() {
    cut_everywhere(&|| zoned(SMALL, 512), "zone-per-level");
}

#[test]
fn on_one_log_with_cleaning() {
    let zones = Zones { count: 10, len: 64, conventional: 0, active_limit: Some(6) };
    cut_everywhere(&|| zoned(zones, 512), "log-structured");
}

#[test]
fn on_a_conventional_drive() {
    cut_everywhere(&|| conventional(640, 512), "first-fit");
}

#[test]
fn on_a_band_per_table() {
    let zones = Zones { count: 14, len: 70, conventional: 1, active_limit: Some(6) };
    cut_everywhere(&|| zoned(zones, 512), "band-per-table");
}

#[test]
fn on_sets() {
    cut_story(&|| conventional(900, 512), "sets", BANDS);
}

#[test]
fn on_dynamic_bands() {
    cut_story(&|| shingled(1600, 8, 2, 512), "dynamic-bands", BANDS);
}

#[test]
fn while_half_dead_sets_are_moved() {
    cut_story(&|| conventional(620, 512), "sets", HALF_DEAD);
    cut_story(&|| shingled(840, 4, 1, 512), "dynamic-bands", HALF_DEAD);
}

/// Tables of two levels fill both tiers, die, and are followed by others under live data; logs in
/// between.
const TRACKS: &[Op] = &[
    Op::Log("w1"),
    Op::Append("w1", 3),
    Op::Put(&[("a", 30, 2), ("b", 45, 2), ("c", 15, 2)]),
    Op::Put(&[("d", 20, 1), ("e", 25, 0)]),
    Op::Append("w1", 20),
    Op::Put(&[("f", 60, 2), ("g", 30, 2)]),
    Op::Put(&[("h", 35, 1), ("i", 45, 0)]),
    Op::Swap { remove: &["b", "g"], add: ("j", 42, 2), app: "below what lives" },
    Op::Finish("w1"),
    Op::Log("w2"),
    Op::Append("w2", 5),
    Op::Swap { remove: &["w1", "e"], add: ("k", 40, 2), app: "again" },
    Op::Put(&[("l", 27, 2), ("m", 10, 1)]),
    Op::Apps(10),
    Op::Swap { remove: &["a", "d"], add: ("n", 45, 2), app: "more" },
    Op::Put(&[("p", 30, 2)]),
    Op::Append("w2", 30),
    Op::Swap { remove: &["c", "i"], add: ("o", 15, 2), app: "last" },
];

/// Cuts the story at every `step`th event. The data on top must have been moved for it.
fn cut_tracks(step: usize, placement: &str) {
    let make = || interlaced(830, 5, 4, 512);
    let stage = make();
    let files = start(&stage, placement);
    let (_, result) = play(&stage, &files, TRACKS);
    result.unwrap();
    let stats = files.stats();
    assert!(stats.rewrites > 2 && stats.rewritten_tracks >= stats.rewrites, "{stats:?}");
    cut_story_every(step, &make, placement, TRACKS);
}

// Both placements rewrite like the tiers with single rewrites; they differ only in the choice of
// tracks.
#[test]
fn on_tracks_in_sequence() {
    cut_tracks(7, "track-sequential");
}

#[test]
fn on_tracks_in_three_phases() {
    cut_tracks(7, "track-three-phase");
}

#[test]
fn on_tiers_of_tracks_one_by_one() {
    cut_tracks(1, "track-tiers-naive");
}

#[test]
fn on_tiers_of_tracks_merged() {
    cut_tracks(1, "track-tiers");
}

#[test]
fn while_formatting() {
    cut_formatting(&|| interlaced(1500, 10, 8, 512), "track-tiers");
    cut_formatting(&|| zoned(SMALL, 512), "zone-per-level");
    cut_formatting(&|| shingled(1600, 8, 2, 512), "dynamic-bands");
}

fn cut_formatting(make: &dyn Fn() -> Stage, placement: &str) {
    for cut in 0..12 {
        let stage = make();
        let files = start(&stage, placement);
        put(&files, "old", 3, 1).unwrap();
        drop(files);
        stage.disk.set_faults(FaultPlan { power_cut_after: Some(cut), ..FaultPlan::default() });
        let formatted = stage.format_small(placement).is_ok();
        stage.power_cycle(cut);
        match stage.open() {
            Ok(files) if formatted => assert!(files.list("").is_empty()),
            // Before the catalog was erased the old file is there; after that nothing is.
            Ok(files) => assert!(files.list("").is_empty() || verify(&files, "old", "old").is_ok()),
            Err(FilesError::NotFormatted { .. }) if !formatted => {}
            Err(error) => panic!("cut at event {cut}: {error}"),
        }
        stage.format_small(placement).unwrap();
    }
}

/// A rule in which all zones are sequential.
fn sequential_rule() -> Rule {
    Rule::AtPointer(ZoneSpec {
        zone_len: Blocks::new(64),
        zone_capacity: Blocks::new(64),
        conventional_zone_count: 0,
        open_zone_limit: None,
        active_zone_limit: None,
        strict_reads: true,
    })
}

/// The first commit after an open writes a checkpoint. Where sectors are shorter than blocks, its
/// header and the last block of its body were torn, and the drive was taken for a damaged one.
#[test]
fn a_torn_checkpoint_is_none() {
    for (rule, placement) in [(Rule::Anywhere, "first-fit"), (sequential_rule(), "zone-per-level")]
    {
        cut_checkpoints(&|| stage_of_sectors(512, 1536, rule, 512), placement, 40);
    }
}

/// The same with unreadable blocks: the header, also while it is cleared, the body, and a record.
#[test]
fn a_broken_checkpoint_is_none() {
    let shingles = ShingleSpec { track_len: Blocks::new(8), overlap_tracks: 2 };
    let tracks = NeighbourSpec { bottom_track_len: Blocks::new(10), top_track_len: Blocks::new(8) };
    let kinds = [
        (Rule::Anywhere, "first-fit"),
        (sequential_rule(), "zone-per-level"),
        (Rule::IsolationDistance(shingles), "dynamic-bands"),
        (Rule::Neighbours(tracks), "track-tiers"),
    ];
    for (rule, placement) in kinds {
        cut_checkpoints(&|| stage(1536, rule, 512).breaking(BLOCK_LEN_BYTES), placement, 24);
    }
    for &(rule, placement) in &kinds[..2] {
        cut_checkpoints(&|| stage(1536, rule, 512).breaking(512), placement, 12);
    }
}

fn cut_checkpoints(make: &dyn Fn() -> Stage, placement: &str, seed_count: u64) {
    let (mut new_count, mut cut) = (0, 0);
    loop {
        let mut was_cut = false;
        for seed in seeds(seed_count) {
            let stage = make();
            let files = stage.format_small(placement).unwrap();
            // A body of several blocks.
            let name = |index: u64| format!("{index}{}", "x".repeat(300));
            for index in 0..20 + seed {
                put(&files, &name(index), 1, 1).unwrap();
            }
            drop(files);
            let files = stage.open().unwrap();
            let power_cut_after = Some(cut);
            stage.disk.set_faults(FaultPlan { power_cut_after, ..FaultPlan::default() });
            was_cut |= put(&files, "new", 1, 1).and_then(|()| put(&files, "newer", 1, 1)).is_err();
            drop(files);
            stage.power_cycle(seed);
            let files = stage.open().unwrap_or_else(|error| {
                panic!("cut {cut} of seed {seed}, {placement}: {error}");
            });
            for index in 0..20 + seed {
                verify(&files, &name(index), &name(index)).unwrap();
            }
            new_count += u64::from(verify(&files, "new", "new").is_ok());
            assert_sound(&files);
        }
        if !was_cut {
            break;
        }
        cut += 1;
    }
    assert!(cut > 3 && 4 * new_count > seed_count, "{cut} events, {new_count}");
}

#[test]
fn a_failed_flush_poisons_and_a_reopen_heals() {
    let stage = zoned(SMALL, 512);
    let files = start(&stage, "zone-per-level");
    put(&files, "a", 3, 1).unwrap();
    let fail_flush = Some(imbrex_disk_sim::FailAt { after: 0, sticky: false });
    stage.disk.set_faults(FaultPlan { fail_flush, ..FaultPlan::default() });
    assert!(matches!(put(&files, "b", 3, 1), Err(FilesError::Disk { .. })));
    assert!(matches!(put(&files, "c", 3, 1), Err(FilesError::Poisoned { .. })));
    assert!(matches!(
        files.create_log("w", Hints::new(FileKind::Log)),
        Err(FilesError::Poisoned { .. })
    ));
    verify(&files, "a", "a").unwrap();
    drop(files);
    stage.power_cycle(1);
    let files = stage.open().unwrap();
    verify(&files, "a", "a").unwrap();
    put(&files, "c", 3, 1).unwrap();
    assert_sound(&files);
}

/// The blocks of a failed write were free before its turn was over. A file placed there at once
/// lost its position in the order of writes, and one of its writes could reach valid data (U3).
#[test]
fn a_failed_write_ends_its_turns_before_its_blocks_are_free() {
    for sticky in [false, true] {
        let stage = shingled(4000, 32, 2, 0);
        let files = stage.format_small("dynamic-bands").unwrap();
        put(&files, "a", 3, 1).unwrap();
        let fail_write = Some(imbrex_disk_sim::FailAt { after: 1, sticky });
        stage.disk.set_faults(FaultPlan { fail_write, ..FaultPlan::default() });
        let tables = ["b", "c", "d"].map(|name| table(name, 10, 1));
        assert!(matches!(files.persist(tables.into()), Err(FilesError::Disk { .. })));
        stage.disk.set_faults(FaultPlan::default());
        put(&files, "e", 30, 1).unwrap();
        verify(&files, "a", "a").unwrap();
        verify(&files, "e", "e").unwrap();
        assert_sound(&files);
    }
}

#[test]
fn a_failed_write_fails_one_persist_only() {
    let stage = zoned(SMALL, 512);
    let files = start(&stage, "zone-per-level");
    put(&files, "a", 3, 1).unwrap();
    let fail_write = Some(imbrex_disk_sim::FailAt { after: 0, sticky: false });
    stage.disk.set_faults(FaultPlan { fail_write, ..FaultPlan::default() });
    assert!(matches!(
        files.persist(vec![table("b", 3, 1), table("c", 3, 1)]),
        Err(FilesError::Disk { .. })
    ));
    put(&files, "d", 3, 1).unwrap();
    verify(&files, "a", "a").unwrap();
    verify(&files, "d", "d").unwrap();
    assert_sound(&files);
}

/// Files had taken everything except the reserve of cleaning, of which a part was left in each
/// zone. The copies of an interrupted cleaning were dead blocks among live files, and cleaning
/// never had room again.
#[test]
fn a_cleaning_that_breaks_off_on_a_full_drive_can_be_done_again() {
    let zones = Zones { count: 9, len: 64, conventional: 1, active_limit: None };
    let files =
        [("a", 44, 1), ("b", 20, 2), ("c", 58, 3), ("d", 6, 3), ("e", 256, 4), ("f", 64, 4)];
    let is_done = |cut| {
        let stage = zoned(zones, 0);
        let layer = stage.format("zone-per-level").unwrap();
        for (name, blocks, level) in files {
            put_upkeep(&layer, name, blocks, level).unwrap();
        }
        remove(&layer, &["d"]).unwrap();
        let plan = FaultPlan { power_cut_after: Some(cut), ..FaultPlan::default() };
        stage.disk.set_faults(plan);
        let is_done = put_upkeep(&layer, "x", 1, 1).is_ok();
        drop(layer);
        stage.power_cycle(cut);
        let layer = stage.open().unwrap();
        put_upkeep(&layer, "y", 1, 1).unwrap_or_else(|error| panic!("cut {cut}: {error}"));
        for name in ["a", "b", "c", "e", "f", "y"] {
            verify(&layer, name, name).unwrap();
        }
        assert_sound(&layer);
        is_done
    };
    let cut_count = (0..).take_while(|&cut| !is_done(cut)).count();
    assert!(cut_count > 5, "{cut_count} events");
}

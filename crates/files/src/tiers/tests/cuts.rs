//! The power of either drive is cut at every write of a story, and at writes of many random runs.
//!
//! After both drives are reopened these must hold. The names are those of the last acknowledged
//! change or of the change in progress, whichever drives hold the files. Every file reads back.
//! Logs hold everything that was synced. The check finds nothing, and after the next commit there
//! are no leftovers on flash.

use super::stage::{Pair, Side, hints};
use crate::tests::meanwhile::Interrupted;
use crate::tests::stage::{assert_honest, content};
use crate::tiers::TieredFiles;
use crate::{AppRecord, Commit, FileBuffer, FileKind, Files, FilesError, Hints, LogWriter, Tier};
use imbrex_clockwork::Prng;
use imbrex_disk::{Blocks, Disk, DiskError};
use imbrex_disk_sim::FaultPlan;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// One step of a story.
#[derive(Clone, Debug)]
enum Op {
    /// One commit that adds tables, and an application record.
    Put(Vec<(String, u64, Tier)>),
    Log(String, Tier),
    Append {
        log: String,
        blocks: u64,
        syncs: bool,
    },
    Finish(String),
    /// What a flush does: the log becomes the values of a table, which is on the other drive.
    Flush {
        log: String,
        values: String,
        table: (String, u64, Tier),
    },
    Remove(Vec<String>),
    /// The second name may exist.
    Rename(String, String),
    Link(String, String),
    Apps(u32),
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Expected {
    tag: String,
    /// How many blocks must be there.
    blocks: u64,
    /// How many blocks were appended to a log.
    appended: u64,
    /// Only a lower bound of its length is known.
    is_log: bool,
    /// It was open when the power failed, so its end is unknown.
    is_cut_off: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Model {
    files: BTreeMap<String, Expected>,
    /// The contents on flash; a rename syncs them.
    fast: BTreeSet<String>,
    app: Vec<String>,
}

fn table(blocks: u64, tag: &str) -> Expected {
    let is_log = false;
    Expected { tag: tag.to_owned(), blocks, appended: blocks, is_log, is_cut_off: false }
}

impl Model {
    fn named_anew(&self, mut file: Expected) -> Expected {
        if self.fast.contains(&file.tag) {
            file.blocks = file.appended;
            file.is_log = file.is_cut_off;
        }
        file
    }

    /// The states that the drives may have while `op` is in progress; the last is the state after
    /// it.
    fn after(&self, op: &Op) -> Vec<Model> {
        let mut next = self.clone();
        match op {
            Op::Put(tables) => {
                for (name, blocks, _) in tables {
                    next.files.insert(name.clone(), table(*blocks, name));
                }
                next.app.push(format!("{} tables", tables.len()));
            }
            Op::Log(name, _) => {
                let log = Expected { is_log: true, ..table(0, name) };
                next.files.insert(name.clone(), log);
            }
            Op::Append { log, blocks, syncs } => {
                let log = next.files.get_mut(log).expect("the story is consistent");
                log.appended += blocks;
                if *syncs {
                    log.blocks = log.appended;
                }
            }
            Op::Finish(_) => {}
            Op::Flush { log, values, table: (name, blocks, _) } => {
                let file = next.files.remove(log).expect("the story is consistent");
                next.files.insert(values.clone(), self.named_anew(file));
                next.files.insert(name.clone(), table(*blocks, name));
                next.app.push(format!("flushed {log}"));
            }
            Op::Remove(names) => names.iter().for_each(|name| drop(next.files.remove(name))),
            Op::Rename(from, to) => {
                let file = next.files.remove(from).expect("the story is consistent");
                next.files.insert(to.clone(), self.named_anew(file));
            }
            Op::Link(from, to) => {
                let file = self.named_anew(self.files[from].clone());
                next.files.insert(from.clone(), file.clone());
                next.files.insert(to.clone(), file);
            }
            Op::Apps(count) => {
                let mut states = Vec::new();
                for index in 0..*count {
                    next.app.push(format!("app {index}"));
                    states.push(next.clone());
                }
                return states;
            }
        }
        vec![next]
    }

    fn mismatch(&self, files: &TieredFiles) -> Option<String> {
        let list = files.list("");
        if !list.iter().map(|info| &info.name).eq(self.files.keys()) {
            return Some(format!("names {:?}", list.iter().map(|i| &i.name).collect::<Vec<_>>()));
        }
        let app: Vec<Vec<u8>> = self.app.iter().map(|text| text.as_bytes().to_vec()).collect();
        if files.app_records() != app {
            return Some(format!("{} application records", files.app_records().len()));
        }
        self.files.iter().zip(&list).find_map(|((name, expected), info)| {
            let blocks = info.len_bytes / 4096;
            let is_right =
                blocks == expected.blocks || (expected.is_log && expected.blocks <= blocks);
            let problem = if is_right { reads(files, name, expected).err() } else { None };
            match (is_right, problem) {
                (true, None) => None,
                (_, problem) => Some(format!("{name}: {blocks} blocks, {problem:?}")),
            }
        })
    }
}

fn reads(files: &TieredFiles, name: &str, expected: &Expected) -> Result<(), String> {
    let reader = files.open(name).map_err(|error| error.to_string())?;
    assert_eq!(reader.name(), name);
    let len_bytes = Blocks::new(expected.blocks).bytes() as usize;
    let mut scratch = Vec::new();
    let got = reader.read_at(0, len_bytes, &mut scratch).map_err(|error| error.to_string())?;
    let is_same = got == content(&expected.tag, len_bytes);
    if is_same { Ok(()) } else { Err("content differs".to_owned()) }
}

/// A pair of drives with the model of its content.
struct Play<'a> {
    pair: &'a Pair,
    files: TieredFiles,
    logs: BTreeMap<String, Arc<dyn LogWriter>>,
    model: Model,
    refused_count: u64,
}

fn is_power_loss(error: &FilesError) -> bool {
    matches!(
        error,
        FilesError::Poisoned { .. } | FilesError::Disk { source: DiskError::PowerLost, .. }
    )
}

impl Play<'_> {
    fn new(pair: &Pair) -> Play<'_> {
        let files = pair.format().unwrap();
        let (logs, model) = (BTreeMap::new(), Model::default());
        Play { pair, files, logs, model, refused_count: 0 }
    }

    fn add(&self, tables: &[(String, u64, Tier)]) -> Result<Commit, FilesError> {
        let buffer = |(name, blocks, tier): &(String, u64, Tier)| {
            let mut buffer = FileBuffer::new(name, hints(FileKind::Table, *tier));
            buffer.append(&content(name, Blocks::new(*blocks).bytes() as usize));
            buffer
        };
        let add = self.files.persist(tables.iter().map(buffer).collect())?;
        let names: Vec<&str> = add.iter().map(|file| file.name()).collect();
        assert!(names.iter().eq(&tables.iter().map(|t| t.0.as_str()).collect::<Vec<_>>()));
        Ok(Commit { add, ..Commit::default() })
    }

    fn app(&self, next: &Model) -> Option<AppRecord> {
        let text = next.app.last().expect("it was pushed");
        Some(AppRecord::Append(text.as_bytes().to_vec()))
    }

    fn perform(&mut self, op: &Op) -> Result<(), FilesError> {
        let next = self.model.after(op).pop().expect("an op leads somewhere");
        match op {
            Op::Put(tables) => {
                let commit = Commit { app: self.app(&next), ..self.add(tables)? };
                self.files.commit(commit)
            }
            Op::Log(name, tier) => {
                let expected_len_bytes = Some(20 * 4096);
                let hints = Hints { expected_len_bytes, ..hints(FileKind::Log, *tier) };
                let log = self.files.create_log(name, hints)?;
                self.logs.insert(name.clone(), log);
                Ok(())
            }
            Op::Append { log: name, blocks, syncs } => {
                let log = &self.logs[name];
                let before = log.len_bytes() as usize;
                let len_bytes = before + Blocks::new(*blocks).bytes() as usize;
                let tag = &self.model.files[name].tag;
                log.append(&content(tag, len_bytes)[before..])?;
                if *syncs { log.sync() } else { Ok(()) }
            }
            Op::Finish(name) => self.logs.remove(name).map_or(Ok(()), |log| log.finish()),
            Op::Flush { log, values, table } => {
                self.logs.remove(log);
                let rename = vec![(log.clone(), values.clone())];
                let added = self.add(std::slice::from_ref(table))?;
                self.files.commit(Commit { rename, app: self.app(&next), ..added })
            }
            Op::Remove(names) => {
                names.iter().for_each(|name| drop(self.logs.remove(name)));
                self.files.commit(Commit { remove: names.clone(), ..Commit::default() })
            }
            Op::Rename(from, to) => {
                self.logs.remove(from);
                self.logs.remove(to);
                let rename = vec![(from.clone(), to.clone())];
                self.files.commit(Commit { rename, ..Commit::default() })
            }
            Op::Link(from, to) => {
                self.logs.remove(from);
                let link = vec![(from.clone(), to.clone())];
                self.files.commit(Commit { link, ..Commit::default() })
            }
            Op::Apps(count) => (0..*count).try_for_each(|index| {
                let app = Some(AppRecord::Append(format!("app {index}").into_bytes()));
                self.files.commit(Commit { app, ..Commit::default() })
            }),
        }
    }

    /// Performs an op. `Err`: the states that the drives may have after the power failed during it.
    fn step(&mut self, op: &Op) -> Result<(), Vec<Model>> {
        let mut states = self.model.after(op);
        match self.perform(op) {
            Ok(()) => {
                self.model = states.pop().expect("an op leads somewhere");
                let fast = self.files.list("").into_iter().filter(|i| i.tier == Tier::Fast);
                let tags = fast.map(|info| self.model.files[&info.name].tag.clone());
                self.model.fast = tags.collect();
                Ok(())
            }
            Err(error @ FilesError::NoSpace { .. }) => {
                assert_honest(&error);
                self.refused_count += 1;
                Ok(())
            }
            Err(error) if is_power_loss(&error) => {
                states.insert(0, self.model.clone());
                Err(states)
            }
            Err(error) => panic!("{op:?}: {error}"),
        }
    }

    /// Cycles the power of `sides`. The drives must have one of `states`.
    fn recover(&mut self, sides: &[Side], states: &[Model], seed: u64) {
        self.logs.clear();
        self.pair.main.world.drop_jobs();
        for &side in sides {
            self.pair.power_cycle(side, seed);
        }
        self.files = self.pair.open().unwrap_or_else(|error| panic!("{error}"));
        let found = states.iter().rev().find(|state| state.mismatch(&self.files).is_none());
        let Some(found) = found else {
            let problems: Vec<_> = states.iter().map(|s| s.mismatch(&self.files)).collect();
            panic!("none of {states:#?}: {problems:#?}");
        };
        self.model = found.clone();
        // Unsynced data may be gone, and these logs get no more appends.
        for file in self.model.files.values_mut() {
            (file.appended, file.is_cut_off) = (file.blocks, file.is_log);
        }
        self.assert_sound();
    }

    fn assert_sound(&self) {
        let report = self.files.check().unwrap();
        assert!(report.findings.is_empty(), "{:#?}", report.findings);
    }

    /// After a commit every file on flash has a name (T5).
    fn assert_swept(&self) {
        let flash = self.files.flash.as_ref().unwrap();
        assert!(flash.commits.lock().to_remove.is_empty());
        let fast = self.files.list("").into_iter().filter(|info| info.tier == Tier::Fast);
        let places: BTreeSet<_> = fast.map(|info| (info.extents, info.len_bytes)).collect();
        let count = flash.files.list("").iter().filter(|info| info.len_bytes > 0).count();
        assert_eq!(places.iter().filter(|(_, len_bytes)| *len_bytes > 0).count(), count);
        self.assert_sound();
    }
}

fn name(text: &str) -> String {
    text.to_owned()
}

fn append(log: &str, blocks: u64, syncs: bool) -> Op {
    Op::Append { log: name(log), blocks, syncs }
}

/// Logs that are offloaded, become values and die; tables on both drives in one commit;
/// checkpoints.
fn story() -> Vec<Op> {
    let put = |tables: &[(&str, u64, Tier)]| {
        Op::Put(tables.iter().map(|&(n, blocks, tier)| (name(n), blocks, tier)).collect())
    };
    let flush = |log: &str, values: &str, table: &str| Op::Flush {
        log: name(log),
        values: name(values),
        table: (name(table), 5, Tier::Main),
    };
    vec![
        Op::Log(name("w1"), Tier::Main),
        append("w1", 3, true),
        Op::Log(name("w2"), Tier::Fast),
        append("w2", 5, true),
        put(&[("a", 20, Tier::Main), ("b", 8, Tier::Fast), ("c", 4, Tier::Main)]),
        append("w2", 9, false),
        Op::Finish(name("w2")),
        Op::Log(name("w3"), Tier::Fast),
        append("w3", 2, true),
        flush("w2", "v2", "t2"),
        Op::Remove(vec![name("w1"), name("b")]),
        append("w3", 6, false),
        flush("w3", "v3", "t3"),
        Op::Log(name("w4"), Tier::Fast),
        // Created and removed before main recorded it.
        Op::Remove(vec![name("w4")]),
        Op::Link(name("v3"), name("kept")),
        // More than the log of a region holds: main's catalog moves to the other region.
        Op::Apps(34),
        Op::Log(name("w5"), Tier::Fast),
        append("w5", 4, true),
        Op::Rename(name("a"), name("v2")),
        Op::Remove(vec![name("v3")]),
        put(&[("d", 6, Tier::Fast), ("e", 6, Tier::Fast)]),
        Op::Rename(name("d"), name("e")),
        Op::Remove(vec![name("kept"), name("t3")]),
        Op::Apps(2),
    ]
}

/// The number of writes of a story on either side.
fn event_count(story: &[Op], side: Side) -> u64 {
    let pair = Pair::small();
    let mut play = Play::new(&pair);
    pair.disk(side).set_faults(FaultPlan::default());
    for op in story {
        play.step(op).unwrap();
    }
    assert_eq!(play.model.mismatch(&play.files), None);
    play.assert_swept();
    assert_eq!(play.refused_count, 0);
    let stats = play.files.tier_stats().unwrap();
    assert_eq!((stats.logs, stats.tables, stats.fallbacks), (4, 3, 0), "all had room on flash");
    pair.disk(side).fault_event_count()
}

fn cut_everywhere(side: Side, loses_cache: &[Side]) {
    let story = story();
    for cut in 0..event_count(&story, side) {
        let pair = Pair::small();
        let mut play = Play::new(&pair);
        let plan = FaultPlan { power_cut_after: Some(cut), ..FaultPlan::default() };
        pair.disk(side).set_faults(plan);
        let mut states = Vec::new();
        for op in &story {
            if let Err(found) = play.step(op) {
                states = found;
                break;
            }
        }
        if states.is_empty() {
            // The very last write was one for which no commit waits.
            states.push(play.model.clone());
        }
        play.recover(loses_cache, &states, cut);
        // The writes of the first commits are cut too, on alternating drives.
        let other = if cut % 2 == 0 { Side::Main } else { Side::Flash };
        let plan = FaultPlan { power_cut_after: Some(cut % 7), ..FaultPlan::default() };
        pair.disk(other).set_faults(plan);
        let late = [
            Op::Put(vec![(name("late"), 3, Tier::Fast)]),
            Op::Log(name("late.log"), Tier::Fast),
            Op::Apps(1),
        ];
        let mut states = None;
        for op in &late {
            if let Err(found) = play.step(op) {
                states = Some(found);
                break;
            }
        }
        let states = states.unwrap_or_else(|| vec![play.model.clone()]);
        play.recover(&[Side::Main, Side::Flash], &states, cut + 1000);
        play.step(&Op::Put(vec![(name("last"), 3, Tier::Fast)])).unwrap();
        play.assert_swept();
        assert_eq!(play.model.mismatch(&play.files), None);
        assert_eq!(play.refused_count, 0);
    }
}

#[test]
fn main_loses_power_alone() {
    cut_everywhere(Side::Main, &[Side::Main]);
}

#[test]
fn flash_loses_power_alone() {
    cut_everywhere(Side::Flash, &[Side::Flash]);
}

#[test]
fn main_loses_power_first_then_flash() {
    cut_everywhere(Side::Main, &[Side::Main, Side::Flash]);
}

#[test]
fn flash_loses_power_first_then_main() {
    cut_everywhere(Side::Flash, &[Side::Flash, Side::Main]);
}

/// Draws an op that suits `model`.
fn draw(prng: &mut Prng, model: &Model, open: &[String], serial: u64) -> Op {
    let any = |prng: &mut Prng| -> Option<String> {
        let names: Vec<&String> = model.files.keys().collect();
        (!names.is_empty()).then(|| names[prng.below(names.len() as u64) as usize].clone())
    };
    let tier = |prng: &mut Prng| if prng.chance(2, 3) { Tier::Fast } else { Tier::Main };
    let is_one_named = |name: &String| {
        model.files.values().filter(|file| file.tag == model.files[name].tag).count() == 1
    };
    let log =
        (!open.is_empty()).then(|| open[prng.below(open.len().max(1) as u64) as usize].clone());
    match (prng.below(16), any(prng), log) {
        (0..3, ..) => {
            let count = 1 + prng.below(3);
            let tables =
                (0..count).map(|index| (format!("t{serial}-{index}"), prng.below(25), tier(prng)));
            Op::Put(tables.collect())
        }
        (3..5, ..) => Op::Log(format!("w{serial}"), tier(prng)),
        (5..9, _, Some(log)) => {
            Op::Append { log, blocks: 1 + prng.below(12), syncs: prng.chance(1, 2) }
        }
        (9, _, Some(log)) => Op::Finish(log),
        (10 | 11, _, Some(log)) if is_one_named(&log) => Op::Flush {
            log,
            values: format!("v{serial}"),
            table: (format!("t{serial}"), 1 + prng.below(6), tier(prng)),
        },
        (12, Some(from), _) if is_one_named(&from) => match any(prng) {
            Some(to) if to != from && prng.chance(1, 2) => Op::Rename(from, to),
            _ => Op::Rename(from, format!("r{serial}")),
        },
        (13, Some(from), _) if is_one_named(&from) => Op::Link(from, format!("l{serial}")),
        (_, Some(name), _) => Op::Remove(vec![name]),
        _ => Op::Apps(1),
    }
}

fn run(seed: u64) {
    let mut prng = Prng::new(seed);
    let pair = Pair::small();
    let mut play = Play::new(&pair);
    let mut serial = 0;
    for _ in 0..4 {
        let sides = match prng.below(5) {
            0 => (vec![Side::Main], vec![Side::Main]),
            1 => (vec![Side::Flash], vec![Side::Flash]),
            2 => (vec![Side::Main], vec![Side::Main, Side::Flash]),
            3 => (vec![Side::Flash], vec![Side::Flash, Side::Main]),
            _ => (vec![Side::Main, Side::Flash], vec![Side::Main, Side::Flash]),
        };
        for &side in &sides.0 {
            let power_cut_after = Some(3 + prng.below(100));
            pair.disk(side).set_faults(FaultPlan { power_cut_after, ..FaultPlan::default() });
        }
        let mut step_count = 0;
        let states = loop {
            serial += 1;
            step_count += 1;
            let open: Vec<String> = play.logs.keys().cloned().collect();
            let op = draw(&mut prng, &play.model, &open, serial);
            if let Err(states) = play.step(&op) {
                break states;
            }
            // A drive without further writes keeps its power: cut both.
            if step_count > 300 {
                break vec![play.model.clone()];
            }
        };
        play.recover(&sides.1, &states, prng.next_u64());
        let plan = FaultPlan::default;
        [Side::Main, Side::Flash].iter().for_each(|&side| pair.disk(side).set_faults(plan()));
        if play.step(&Op::Apps(1)).is_ok() {
            play.assert_swept();
        }
    }
}

#[test]
fn seeded_stories_with_power_cuts_on_either_drive() {
    let seeds = std::env::var("FILES_SEEDS").ok().and_then(|text| text.parse().ok());
    for seed in imbrex_clockwork::seeds(seeds.unwrap_or(120)) {
        if let Err(panic) = std::panic::catch_unwind(|| run(seed)) {
            eprintln!("failed with seed {seed}");
            std::panic::resume_unwind(panic);
        }
    }
}

/// One caller creates a log while another commits a rename of a log that has ended. The first had
/// included that end in a record that was not written yet. The second looked for ends to record
/// before its own commit and found none, and flash lost its power: the renamed file was too long
/// (T2).
#[test]
fn where_a_log_ended_is_durable_before_its_new_name_is() {
    let pair = Pair::small();
    let flash = Interrupted::new(&pair.flash);
    drop(pair.format().unwrap());
    let (main, beside) = (pair.main.disk(), Arc::clone(&flash) as Arc<dyn Disk>);
    let files = TieredFiles::open(main, beside, &pair.main.runtime).unwrap();
    let log = files.create_log("w", hints(FileKind::Log, Tier::Fast)).unwrap();
    log.append(&content("w", 3 * 4096)).unwrap();
    // Main must know it first.
    files.commit(Commit { app: Some(AppRecord::Append(vec![1])), ..Commit::default() }).unwrap();
    log.finish().unwrap();
    let (at_write, is_there) = std::sync::mpsc::channel();
    let is_renamed = Arc::new(AtomicBool::new(false));
    let (drive, seen) = (Arc::clone(&pair.flash), Arc::clone(&is_renamed));
    flash.before_write(move || {
        at_write.send(()).unwrap();
        // The count is for a caller that waits for this write.
        let is_waiting = |_: &i32| !seen.load(Ordering::SeqCst);
        (0..1_000).take_while(is_waiting).for_each(|_| std::thread::yield_now());
        drive.cut_power();
    });
    std::thread::scope(|scope| {
        let creating = scope.spawn(|| files.create_log("next", hints(FileKind::Log, Tier::Fast)));
        is_there.recv().unwrap();
        let rename = vec![("w".to_owned(), "values".to_owned())];
        let _ = files.commit(Commit { rename, ..Commit::default() });
        is_renamed.store(true, Ordering::SeqCst);
        creating.join().unwrap().unwrap_err();
    });
    drop((files, log));
    pair.power_cycle(Side::Flash, 1);
    let files = pair.open().unwrap();
    let named = files.list("values");
    assert!(named.iter().all(|info| info.len_bytes == 3 * 4096), "{named:?}");
    assert_eq!(named.len() + files.list("w").len(), 1);
}

//! The durability contract under power cuts, also during recovery, and under I/O errors.

use crate::stage::{Stage, key, seeded, small, small_gear, small_keyspace};
use imbrex_clockwork::{Prng, seeds};
use imbrex_disk::Disk;
use imbrex_disk_sim::{FailAt, FaultPlan};
use imbrex_engine::{Db, EngineError, KeyspaceOptions, Options, WriteBatch, WriteOptions};
use std::collections::BTreeMap;

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// The states that the store may have after a crash: the one after the last synced write, or after
/// any later write.
pub(crate) struct Allowed {
    states: Vec<Map>,
}

impl Allowed {
    /// The states of a new store.
    pub(crate) fn empty() -> Allowed {
        Allowed { states: vec![Map::new()] }
    }

    fn now(&self) -> &Map {
        self.states.last().unwrap()
    }

    fn write(&mut self, change: impl FnOnce(&mut Map)) {
        let mut next = self.now().clone();
        change(&mut next);
        self.states.push(next);
    }

    fn synced(&mut self) {
        self.states.drain(..self.states.len() - 1);
    }
}

fn contents(db: &Db) -> Map {
    db.default_keyspace()
        .range::<&[u8]>(..)
        .unwrap()
        .map(|entry| entry.map(|(key, value)| (key.to_vec(), value.to_vec())).unwrap())
        .collect()
}

/// One random write. The changes that it may make are recorded first, because it may fail halfway.
pub(crate) fn write(db: &Db, allowed: &mut Allowed, prng: &mut Prng) -> Result<(), EngineError> {
    let ks = db.default_keyspace();
    let sync = WriteOptions { sync: prng.chance(1, 10) };
    let n = prng.below(300);
    match prng.below(20) {
        0..=9 => {
            let mut value = vec![0; prng.below(600) as usize];
            prng.fill(&mut value);
            allowed.write(|map| _ = map.insert(key(n), value.clone()));
            ks.put_with(key(n), value, sync)?;
        }
        10..=13 => {
            allowed.write(|map| _ = map.remove(&key(n)));
            ks.delete_with(key(n), sync)?;
        }
        14 => {
            allowed.write(|map| map.retain(|k, _| !(key(n)..key(n + 20)).contains(k)));
            ks.delete_range_with(key(n)..key(n + 20), sync)?;
        }
        15..=17 => {
            let mut batch = WriteBatch::new();
            let mut next = allowed.now().clone();
            for i in 0..prng.below(12) {
                let n = prng.below(300);
                batch.put(&ks, key(n), i.to_le_bytes())?;
                next.insert(key(n), i.to_le_bytes().to_vec());
            }
            allowed.write(|map| *map = next);
            db.write(batch, sync)?;
        }
        18 => db.flush()?,
        _ => {
            if prng.chance(1, 4) {
                ks.compact_range(None, None)?;
            }
            db.sync()?;
            allowed.synced();
            return Ok(());
        }
    }
    if sync.sync {
        allowed.synced();
    }
    Ok(())
}

/// Opens the store, with power cuts meanwhile, until it succeeds.
pub(crate) fn recover(stage: &Stage, options: &Options, prng: &mut Prng) -> Db {
    loop {
        if prng.chance(1, 2) {
            let power_cut_after = Some(prng.below(40));
            stage.disk.set_faults(FaultPlan { power_cut_after, ..FaultPlan::default() });
        }
        match stage.reopen(options.clone()) {
            Ok(db) => {
                stage.disk.set_faults(FaultPlan::default());
                return db;
            }
            Err(EngineError::Files { .. } | EngineError::Poisoned { .. }) => {
                stage.world.drop_jobs();
                stage.disk.power_cycle(prng).unwrap();
            }
            Err(other) => panic!("a power cut is no reason for: {other}"),
        }
    }
}

pub(crate) fn check_contract(db: &Db, allowed: &mut Allowed, seed: u64, cycle: u64) {
    let got = contents(db);
    let found = allowed.states.iter().rposition(|state| *state == got);
    let Some(found) = found else {
        panic!(
            "seed {seed}, cycle {cycle}: {} entries are none of the {} allowed states; the last \
             has {}; recovery {:?}",
            got.len(),
            allowed.states.len(),
            allowed.now().len(),
            db.recovery()
        );
    };
    allowed.states.truncate(found + 1);
    // Recovery has made durable what it found.
    allowed.synced();
    let report = db.check().unwrap();
    assert!(report.is_sound(), "seed {seed}, cycle {cycle}: {report}");
}

/// Every fourth seed uses gear compaction, so that power cuts hit turns.
pub(crate) fn options_of(seed: u64) -> Options {
    match seed % 4 {
        1 => Options { logs_are_tables: true, ..small() },
        3 => small_gear(),
        _ => small(),
    }
}

#[test]
fn a_crash_takes_a_suffix_of_unsynced_writes_at_most() {
    for seed in seeds(32) {
        let stage = seeded(96, seed);
        let mut prng = Prng::new(seed).derive("power cuts");
        let options = options_of(seed);
        let mut db = stage.create(options.clone());
        let mut allowed = Allowed::empty();
        for cycle in 0..6 {
            let power_cut_after = Some(prng.below(400));
            stage.disk.set_faults(FaultPlan { power_cut_after, ..FaultPlan::default() });
            for _ in 0..600 {
                if write(&db, &mut allowed, &mut prng).is_err() {
                    break;
                }
            }
            stage.crash(db, &mut prng);
            db = recover(&stage, &options, &mut prng);
            check_contract(&db, &mut allowed, seed, cycle);
        }
    }
}

#[test]
fn a_range_of_nothing_that_is_synced_covers_what_came_before() {
    for seed in seeds(8) {
        let stage = seeded(96, seed);
        let mut prng = Prng::new(seed);
        let db = stage.create(small());
        let ks = db.default_keyspace();
        ks.put(key(1), "before").unwrap();
        ks.delete_range_with(key(5)..key(5), WriteOptions::SYNC).unwrap();
        drop(ks);
        stage.crash(db, &mut prng);
        let db = stage.reopen(small()).unwrap();
        assert!(db.default_keyspace().get(key(1)).unwrap().is_some(), "seed {seed}");
    }
}

#[test]
fn after_a_failed_write_or_flush_only_reads_go_on() {
    for seed in seeds(30) {
        let stage = seeded(96, seed);
        let mut prng = Prng::new(seed).derive("io errors");
        let db = stage.create(small());
        let mut allowed = Allowed::empty();
        for _ in 0..200 {
            write(&db, &mut allowed, &mut prng).unwrap();
        }
        let fail = Some(FailAt { after: prng.below(30), sticky: prng.chance(1, 2) });
        stage.disk.set_faults(match seed % 2 {
            0 => FaultPlan { fail_flush: fail, ..FaultPlan::default() },
            _ => FaultPlan { fail_write: fail, ..FaultPlan::default() },
        });
        let failed = (0..3000).any(|_| write(&db, &mut allowed, &mut prng).is_err());
        assert!(failed, "seed {seed}: the fault was never met");
        let refused = db.default_keyspace().put("a", "b");
        assert!(matches!(refused, Err(EngineError::Poisoned { .. })), "seed {seed}: {refused:?}");
        db.default_keyspace().get(key(1)).unwrap();
        stage.crash(db, &mut prng);
        let db = recover(&stage, &small(), &mut prng);
        check_contract(&db, &mut allowed, seed, 0);
    }
}

/// The close of a second handle reported success after the first had just failed to make everything
/// durable.
#[test]
fn every_close_says_whether_all_is_durable() {
    let stage = seeded(40, 3);
    let db = stage.create(small());
    db.default_keyspace().put("a", "b").unwrap();
    let other = db.clone();
    stage.disk.cut_power();
    db.close().unwrap_err();
    let refused = other.close().unwrap_err();
    assert!(matches!(refused, EngineError::Poisoned { .. }), "{refused}");
}

/// A caller that met a bug in the store could not keep its close from making a half-done change
/// durable.
#[test]
fn a_store_that_is_given_up_writes_nothing_more() {
    let stage = seeded(40, 3);
    let db = stage.create(small());
    let keyspace = db.default_keyspace();
    keyspace.put("a", "b").unwrap();
    db.sync().unwrap();
    keyspace.put("c", "d").unwrap();
    let before = stage.disk.counters();
    db.abandon("a bug");
    let refused = keyspace.put("e", "f").unwrap_err();
    assert!(matches!(refused, EngineError::Poisoned { .. }), "{refused}");
    assert!(keyspace.get("c").unwrap().is_some(), "reads go on");
    drop(keyspace);
    let refused = db.close().unwrap_err();
    assert!(matches!(refused, EngineError::Poisoned { .. }), "{refused}");
    let after = stage.disk.counters();
    assert_eq!((after.writes, after.flushes), (before.writes, before.flushes));
    stage.world.drop_jobs();
    let keyspace = stage.reopen(small()).unwrap().default_keyspace();
    assert!(keyspace.get("a").unwrap().is_some());
    assert!(keyspace.get("c").unwrap().is_none(), "it was not synced");
}

/// Tables so few that the data fill the drive before their names fill its catalog.
fn few_tables() -> Options {
    let keyspace = KeyspaceOptions { table_len_bytes: 128 << 10, ..small_keyspace() };
    Options { memtable_len_bytes: 256 << 10, keyspace, ..small() }
}

#[test]
fn a_full_drive_refuses_puts_and_comes_back_after_deletes() {
    let stage = seeded(40, 3);
    let db = stage.create(few_tables());
    let ks = db.default_keyspace();
    let mut value = vec![0; 2000];
    let mut prng = Prng::new(9);
    let mut written = 0;
    let refused = loop {
        prng.fill(&mut value);
        match ks.put(key(written), &value) {
            Ok(()) => written += 1,
            Err(error) => break error,
        }
        assert!(written < 100_000, "40 MiB never fill up");
    };
    assert!(refused.is_no_space(), "{refused}");
    assert!(matches!(refused, EngineError::NoSpace { .. }), "{refused}");
    assert!(written > 7000, "only {written} of 2 kB fitted on 40 MiB");
    for n in (0..written).step_by(101) {
        assert!(ks.get(key(n)).unwrap().is_some());
    }
    for n in 0..written * 3 / 4 {
        ks.delete(key(n)).unwrap();
    }
    ks.compact_range(None, None).unwrap();
    ks.put("again", &value).unwrap();
    for n in 0..written / 3 {
        ks.put(key(n), &value).unwrap();
    }
    assert_eq!(
        ks.range::<&[u8]>(..).unwrap().count() as u64,
        written / 3 + written.div_ceil(4) + 1
    );
    assert!(db.check().unwrap().is_sound());
}

#[test]
fn a_full_drive_comes_back_by_itself() {
    let stage = seeded(40, 4);
    let db = stage.create(few_tables());
    let ks = db.default_keyspace();
    let mut value = vec![0; 2000];
    let mut prng = Prng::new(9);
    let mut written = 0;
    loop {
        prng.fill(&mut value);
        if ks.put(key(written), &value).is_err() {
            break;
        }
        written += 1;
    }
    ks.delete_range(key(0)..key(written)).unwrap();
    db.flush().unwrap();
    db.wait_idle().unwrap();
    ks.put("again", &value).unwrap();
    assert_eq!(ks.range::<&[u8]>(..).unwrap().count(), 1);
}

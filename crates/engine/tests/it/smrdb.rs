//! SMRDB's manual compaction on a drive that has no room for the store a second time, with power cuts.

use crate::stage::{Stage, key, with_zones};
use imbrex_clockwork::{Order, Prng, seeds};
use imbrex_disk_sim::FaultPlan;
use imbrex_engine::{Db, EngineError, Options, WriteOptions};
use imbrex_files::Files;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Bands of 1 MiB.
const ZONE_LEN_BLOCKS: u64 = 256;
const ZONE_COUNT: u64 = 110;
const VALUE_LEN_BYTES: usize = 3000;

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

fn options() -> Options {
    Options {
        log_frame_len_bytes: 8 << 10,
        block_cache_len_bytes: 1 << 20,
        ..Options::smrdb(ZONE_LEN_BLOCKS << 12)
    }
}

fn drive(seed: u64) -> Stage {
    let order = Order::Seeded(Prng::new(seed).derive("order"));
    with_zones(ZONE_COUNT, ZONE_LEN_BLOCKS, order)
}

/// Puts new keys in random order until tables take `percent` of the drive, and some of them twice.
fn fill(db: &Db, prng: &mut Prng, percent: u64) -> Map {
    let mut map = Map::new();
    let ks = db.default_keyspace();
    let drive_len_bytes = ZONE_COUNT * (ZONE_LEN_BLOCKS << 12);
    while table_len_bytes(db) * 100 < drive_len_bytes * percent {
        for _ in 0..100 {
            let mut value = vec![0; VALUE_LEN_BYTES];
            prng.fill(&mut value);
            let key = key(prng.below(90_000));
            ks.put(&key, &value).unwrap();
            map.insert(key, value);
        }
    }
    db.flush().unwrap();
    db.wait_idle().unwrap();
    map
}

fn table_len_bytes(db: &Db) -> u64 {
    let keyspaces = db.metrics().keyspaces;
    let levels = keyspaces.iter().flat_map(|keyspace| &keyspace.levels);
    levels.map(|level| level.len_bytes).sum()
}

/// For each level with tables: its number, and how many runs it has.
fn runs(db: &Db) -> Vec<(u8, usize)> {
    let levels = db.metrics().keyspaces.swap_remove(0).levels;
    levels.iter().filter(|level| level.table_count > 0).map(|l| (l.level, l.run_count)).collect()
}

fn compare(db: &Db, map: &Map, what: &str) {
    let ks = db.default_keyspace();
    let found = ks.range::<&[u8]>(..).unwrap();
    let found: Map = found
        .map(|entry| entry.map(|(key, value)| (key.to_vec(), value.to_vec())).unwrap())
        .collect();
    assert!(found == *map, "{what}: {} entries, expected {}", found.len(), map.len());
    let report = db.check().unwrap();
    assert!(report.is_sound(), "{what}: {report}");
}

/// How many steps the manual compactions took.
fn step_count(db: &Db) -> usize {
    let lines = db.metrics().compactions;
    lines
        .iter()
        .filter(|line| line.plan.starts_with("merge") && line.plan.ends_with("asked for"))
        .count()
}

#[test]
fn a_store_longer_than_half_its_drive_comes_into_total_order() {
    for seed in seeds(3) {
        let stage = drive(seed);
        let mut prng = Prng::new(seed).derive("keys");
        let files: Arc<dyn Files> = stage.format_with("band-per-table");
        let db = Db::open(files, stage.runtime.clone(), options()).unwrap();
        let map = fill(&db, &mut prng, 64);
        let before = runs(&db);
        assert!(before.iter().any(|(level, count)| *level == 1 && *count > 4), "{before:?}");
        db.default_keyspace().compact_range(None, None).unwrap();
        assert_eq!(runs(&db), [(1, 1)], "seed {seed}: from {before:?}");
        assert!(step_count(&db) > 2, "seed {seed}: {} steps", step_count(&db));
        compare(&db, &map, &format!("seed {seed}"));
        // In total order it is as long as its data, and what is written later finds room.
        db.default_keyspace().put("there is room", "again").unwrap();
        db.close().unwrap();
    }
}

/// A power cut loses one step: what earlier steps have merged stays merged. Otherwise this would not end,
/// as there is never the time for all of it.
#[test]
fn a_power_cut_loses_one_step_of_a_manual_compaction() {
    for seed in seeds(3) {
        let stage = drive(seed);
        let mut prng = Prng::new(seed).derive("cuts");
        let files: Arc<dyn Files> = stage.format_with("band-per-table");
        let mut db = Db::open(files, stage.runtime.clone(), options()).unwrap();
        let map = fill(&db, &mut prng, 64);
        db.sync().unwrap();
        let mut cut_count = 0;
        loop {
            // A step takes about twenty writes, and all of it about a hundred.
            let power_cut_after = Some(5 + prng.below(60));
            stage.disk.set_faults(FaultPlan { power_cut_after, ..FaultPlan::default() });
            let ks = db.default_keyspace();
            let compacted = ks.compact_range(None, None);
            // The power may have gone between the last step and its reset of zones, which nobody waits for.
            let (key, value) = map.iter().next().unwrap();
            let compacted = compacted.and_then(|()| ks.put_with(key, value, WriteOptions::SYNC));
            drop(ks);
            stage.disk.set_faults(FaultPlan::default());
            match compacted {
                Ok(()) => break,
                Err(EngineError::Files { .. } | EngineError::Poisoned { .. }) => {}
                Err(other) => panic!("seed {seed}: a power cut is no reason for: {other}"),
            }
            stage.crash(db, &mut prng);
            cut_count += 1;
            assert!(cut_count < 60, "seed {seed}: it does not end");
            db = stage.reopen(options()).unwrap();
            compare(&db, &map, &format!("seed {seed}, cut {cut_count}"));
        }
        println!("seed {seed}: {cut_count} cuts");
        assert!(cut_count > 2, "seed {seed}: only {cut_count} power cuts");
        assert_eq!(runs(&db), [(1, 1)], "seed {seed}");
        compare(&db, &map, &format!("seed {seed}"));
    }
}

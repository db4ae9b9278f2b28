//! The policies of the papers in tight conditions: a full drive, a power cut after every stretch of
//! writes.

use crate::stage::{key, seeded, small, small_keyspace};
use imbrex_clockwork::{Prng, share_of};
use imbrex_engine::tuning::VictimGrowth;
use imbrex_engine::{CompactionKind, Db, KeyspaceOptions, Options, WriteOptions};
use std::collections::BTreeMap;

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// Each policy with tiny tables and memtables, so that few writes make many tables.
pub(crate) fn policies() -> [(&'static str, Options); 7] {
    let with = |change: fn(&mut KeyspaceOptions)| {
        let mut keyspace = KeyspaceOptions { table_len_bytes: 12 << 10, ..small_keyspace() };
        change(&mut keyspace);
        Options { memtable_len_bytes: 16 << 10, keyspace, ..small() }
    };
    let apart = |options: Options| {
        let keyspace = KeyspaceOptions { values_apart_from_bytes: 300, ..options.keyspace };
        Options { keyspace, ..options }
    };
    let lazy = with(|keyspace| {
        keyspace.compaction = CompactionKind::Lazy;
        keyspace.base_level_len_bytes = 80 << 10;
        keyspace.l0_slowdown_run_count = 24;
        keyspace.l0_stop_run_count = 48;
    });
    [
        ("apart", apart(small())),
        ("lazy and apart", apart(lazy.clone())),
        ("bands", Options { logs_are_tables: true, ..small() }),
        ("single", with(as_leveldb)),
        (
            "set-aware",
            with(|keyspace| {
                keyspace.compaction = CompactionKind::SetAware;
                as_leveldb(keyspace);
            }),
        ),
        (
            "smrdb",
            with(|keyspace| {
                keyspace.compaction = CompactionKind::Smrdb;
                keyspace.histogram_len_bytes = 4096;
                keyspace.overlap_count_max = 4;
            }),
        ),
        ("lazy", lazy),
    ]
}

fn as_leveldb(keyspace: &mut KeyspaceOptions) {
    keyspace.victim_growth = VictimGrowth::Single;
    keyspace.flushes_pass_levels = true;
    keyspace.missed_tables_go_down = true;
}

fn value(prng: &mut Prng, len_bytes: u64) -> Vec<u8> {
    let mut value = vec![0; len_bytes as usize];
    prng.fill(&mut value);
    value
}

fn compare(db: &Db, map: &Map, what: &str) {
    let ks = db.default_keyspace();
    let got: Map = ks
        .range::<&[u8]>(..)
        .unwrap()
        .rev()
        .map(|entry| entry.map(|(key, value)| (key.to_vec(), value.to_vec())).unwrap())
        .collect();
    assert!(got == *map, "{what}: {} entries, expected {}", got.len(), map.len());
    for (key, value) in map.iter().step_by(7) {
        assert_eq!(ks.get(key).unwrap().as_deref(), Some(&value[..]), "{what}: {key:?}");
    }
    let report = db.check().unwrap();
    assert!(report.is_sound(), "{what}: {report}");
}

/// Puts until one is refused; returns whether one was.
fn fill(db: &Db, map: &mut Map, prng: &mut Prng, key_count: u64) -> bool {
    for _ in 0..40_000 {
        let (key, value) = (key(prng.below(key_count)), value(prng, 900));
        match db.default_keyspace().put(&key, &value) {
            Ok(()) => _ = map.insert(key, value),
            Err(error) => {
                assert!(error.is_no_space(), "{error}");
                return true;
            }
        }
    }
    false
}

#[test]
fn a_full_drive_takes_deletes_and_then_puts_again() {
    const KEY_COUNT: u64 = 100_000;
    for (name, options) in share_of(policies()) {
        let keyspace = KeyspaceOptions { table_len_bytes: 60 << 10, ..options.keyspace };
        let options = Options { memtable_len_bytes: 64 << 10, keyspace, ..options };
        let stage = seeded(24, 3);
        let db = stage.create(options.clone());
        let (mut map, mut prng) = (Map::new(), Prng::new(3));
        assert!(fill(&db, &mut map, &mut prng, KEY_COUNT), "{name}: the drive never fills up");
        compare(&db, &map, name);
        // Nine in ten keys are deleted, one by one.
        for number in (0..KEY_COUNT).filter(|number| number % 10 != 3) {
            if map.remove(&key(number)).is_some() {
                db.default_keyspace().delete(key(number)).unwrap();
            }
        }
        db.wait_idle().unwrap();
        compare(&db, &map, name);
        let (db_key, db_value) = (key(1), value(&mut prng, 900));
        db.default_keyspace().put(&db_key, &db_value).unwrap();
        map.insert(db_key, db_value);
        db.close().unwrap();
        stage.world.drop_jobs();
        compare(&stage.reopen(options).unwrap(), &map, name);
    }
}

#[test]
fn what_was_synced_survives_power_cuts() {
    for (name, options) in policies() {
        for seed in 0..3 {
            let stage = seeded(96, seed);
            let (mut map, mut prng) = (Map::new(), Prng::new(seed).derive("cuts"));
            let mut db = stage.create(options.clone());
            for _ in 0..12 {
                stretch(&db, &mut map, &mut prng);
                stage.crash(db, &mut prng);
                db = stage.reopen(options.clone()).unwrap();
                compare(&db, &map, name);
            }
        }
    }
}

/// Some writes, each durable on return, and background work for the power cut to interrupt.
fn stretch(db: &Db, map: &mut Map, prng: &mut Prng) {
    let ks = db.default_keyspace();
    for _ in 0..200 {
        let name = key(prng.below(600));
        match prng.below(20) {
            0..=14 => {
                let value = value(prng, 400);
                ks.put_with(&name, &value, WriteOptions::SYNC).unwrap();
                map.insert(name, value);
            }
            15..=18 => {
                ks.delete_with(&name, WriteOptions::SYNC).unwrap();
                map.remove(&name);
            }
            _ => {
                let to = key(prng.below(600)).max(name.clone());
                ks.delete_range_with(&name..&to, WriteOptions::SYNC).unwrap();
                map.retain(|key, _| *key < name || *key >= to);
            }
        }
    }
}

/// A range tombstone that is cut between two tables ends where the next one begins. Compaction
/// skipped every second one.
#[test]
fn what_was_deleted_under_a_snapshot_goes_with_the_next_compaction() {
    for (name, options) in policies() {
        let db = seeded(200, 1).create(Options { background_work: false, ..options });
        let ks = db.default_keyspace();
        let mut prng = Prng::new(3);
        (0..2000).for_each(|i| ks.put(key(i), value(&mut prng, 100)).unwrap());
        ks.compact_range(None, None).unwrap();
        let snapshot = db.snapshot();
        ks.delete_range(key(0)..key(5000)).unwrap();
        ks.compact_range(None, None).unwrap();
        drop(snapshot);
        ks.compact_range(None, None).unwrap();
        assert_eq!(db.check().unwrap().entry_count, 0, "{name}");
    }
}

/// Random overwrites of four times the data, the load that the organisation is made for.
#[test]
fn smrdb_writes_less_than_leveled_compaction_of_bands() {
    let write_amp = |options: Options| {
        let db = seeded(200, 1).create(options);
        let mut prng = Prng::new(9);
        for _ in 0..40_000 {
            let (key, value) = (key(prng.below(10_000)), value(&mut prng, 240));
            db.default_keyspace().put(key, value).unwrap();
        }
        db.metrics().write_amp_ratio
    };
    let band_len_bytes = 64 << 10;
    let plain = |options: Options| Options { log_frame_len_bytes: 8 << 10, ..options };
    let smrdb = write_amp(plain(Options::smrdb(band_len_bytes)));
    let leveled = write_amp(plain(Options::smrdb_leveled(band_len_bytes)));
    assert!(smrdb < leveled, "{smrdb:.2} and {leveled:.2} bytes written a byte");
}

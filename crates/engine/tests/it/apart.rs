//! Values apart: written once, read from wherever they are, given back when dead.

use crate::stage::{Stage, key, seeded, small};
use imbrex_clockwork::Prng;
use imbrex_disk::Disk;
use imbrex_engine::inspect::ValuesApartMetrics;
use imbrex_engine::{Db, KeyspaceOptions, Options, ReadOptions, WriteOptions};
use std::collections::BTreeMap;

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

fn apart() -> Options {
    let keyspace = KeyspaceOptions { values_apart_from_bytes: 2000, ..small().keyspace };
    Options { keyspace, ..small() }
}

fn value(prng: &mut Prng, len_bytes: u64) -> Vec<u8> {
    let mut value = vec![0; len_bytes as usize];
    prng.fill(&mut value);
    value
}

/// Values from 1 to 12,000 bytes, so that some are apart.
fn overwrite(db: &Db, map: &mut Map, prng: &mut Prng, key_count: u64, count: u64) {
    for _ in 0..count {
        let (key, value) = (key(prng.below(key_count)), {
            let len_bytes = 1 + prng.below(12_000);
            value(prng, len_bytes)
        });
        db.default_keyspace().put(&key, &value).unwrap();
        map.insert(key, value);
    }
}

fn compare(db: &Db, map: &Map) {
    let ks = db.default_keyspace();
    let forward = || ks.range::<&[u8]>(..).unwrap();
    let pairs = |entry: Result<(bytes::Bytes, bytes::Bytes), _>| {
        let (key, value) = entry.unwrap();
        (key.to_vec(), value.to_vec())
    };
    assert!(forward().map(pairs).collect::<Map>() == *map, "forward");
    assert!(forward().rev().map(pairs).collect::<Map>() == *map, "backward");
    for (key, value) in map {
        assert_eq!(ks.get(key).unwrap().as_deref(), Some(&value[..]), "{key:?}");
    }
    let report = db.check().unwrap();
    assert!(report.is_sound(), "{report}");
}

fn metrics(db: &Db) -> ValuesApartMetrics {
    db.metrics().keyspaces[0].values_apart
}

fn store(zone_count: u64, seed: u64) -> (Stage, Db) {
    let stage = seeded(zone_count, seed);
    let db = stage.create(apart());
    (stage, db)
}

#[test]
fn long_values_are_written_once_however_often_their_keys_are_merged() {
    let written = |options: Options| {
        let stage = seeded(96, 1);
        let db = stage.create(options);
        let (mut map, mut prng) = (Map::new(), Prng::new(1));
        overwrite(&db, &mut map, &mut prng, 3000, 3000);
        db.default_keyspace().compact_range(None, None).unwrap();
        db.wait_idle().unwrap();
        compare(&db, &map);
        let metrics = db.metrics();
        (metrics.log_bytes, metrics.flush_out_bytes + metrics.compaction_out_bytes)
    };
    let keyspace = KeyspaceOptions { values_apart_from_bytes: 100, ..small().keyspace };
    let (log_bytes, apart_bytes) = written(Options { keyspace, ..small() });
    let (_, beside_bytes) = written(small());
    assert!(2 * apart_bytes < log_bytes, "{apart_bytes} bytes beside a log of {log_bytes}");
    assert!(
        4 * apart_bytes < beside_bytes,
        "{apart_bytes} bytes, {beside_bytes} with values beside keys"
    );
}

#[test]
fn readers_find_values_in_logs_and_in_files_that_cleaning_wrote() {
    let (stage, db) = store(64, 2);
    let (mut map, mut prng) = (Map::new(), Prng::new(2));
    overwrite(&db, &mut map, &mut prng, 800, 800);
    db.default_keyspace().compact_range(None, None).unwrap();
    let before = map.clone();
    let snapshot = db.snapshot();
    let mut iter = db.default_keyspace().iter(ReadOptions::default()).unwrap();
    for _ in 0..3 {
        overwrite(&db, &mut map, &mut prng, 800, 800);
        db.default_keyspace().compact_range(None, None).unwrap();
        db.wait_idle().unwrap();
    }
    assert!(
        metrics(&db).file_count > 0 && db.metrics().values_moved_bytes > 0,
        "{:?}",
        db.metrics()
    );
    compare(&db, &map);
    for (key, value) in &before {
        let got = db.default_keyspace().get_at(&snapshot, key).unwrap();
        assert_eq!(got.as_deref(), Some(&value[..]), "{key:?} at the snapshot");
    }
    iter.seek_to_last().unwrap();
    let mut seen = Map::new();
    while iter.valid() {
        seen.insert(iter.key().to_vec(), iter.value().to_vec());
        iter.prev().unwrap();
    }
    assert!(seen == before, "an iterator from before");
    drop((iter, snapshot));
    db.close().unwrap();
    // The keyspace records the option.
    let db = stage.reopen(small()).unwrap();
    compare(&db, &map);
    overwrite(&db, &mut map, &mut prng, 800, 1600);
    db.default_keyspace().compact_range(None, None).unwrap();
    db.wait_idle().unwrap();
    compare(&db, &map);
}

#[test]
fn what_was_deleted_gives_its_space_back() {
    let (_stage, db) = store(64, 3);
    let (mut map, mut prng) = (Map::new(), Prng::new(3));
    overwrite(&db, &mut map, &mut prng, 2000, 2000);
    for number in (0..2000).filter(|number| number % 8 != 0) {
        map.remove(&key(number));
        db.default_keyspace().delete(key(number)).unwrap();
    }
    db.default_keyspace().compact_range(None, None).unwrap();
    db.wait_idle().unwrap();
    compare(&db, &map);
    let left = metrics(&db);
    assert!(left.live_bytes > 0 && left.len_bytes < 2 * left.live_bytes, "{left:?}");
    for number in 0..2000 {
        db.default_keyspace().delete(key(number)).unwrap();
    }
    db.default_keyspace().compact_range(None, None).unwrap();
    db.wait_idle().unwrap();
    assert_eq!(metrics(&db), ValuesApartMetrics::default());
    assert!(db.check().unwrap().is_sound());
}

#[test]
fn a_drive_that_stays_nearly_full_takes_overwrites() {
    let (_stage, db) = store(48, 4);
    let (mut map, mut prng) = (Map::new(), Prng::new(4));
    // About 28 of 48 MiB.
    overwrite(&db, &mut map, &mut prng, 4500, 7000);
    for _ in 0..4 {
        overwrite(&db, &mut map, &mut prng, 4500, 4500);
    }
    compare(&db, &map);
    assert!(db.metrics().values_moved_bytes > 0);
}

#[test]
fn a_checkpoint_and_a_backup_have_their_values() {
    let (stage, db) = store(96, 5);
    let (mut map, mut prng) = (Map::new(), Prng::new(5));
    overwrite(&db, &mut map, &mut prng, 500, 1500);
    db.default_keyspace().compact_range(None, None).unwrap();
    let before = map.clone();
    db.checkpoint("before").unwrap();
    overwrite(&db, &mut map, &mut prng, 500, 3000);
    db.default_keyspace().compact_range(None, None).unwrap();
    db.wait_idle().unwrap();
    compare(&db.open_checkpoint("before").unwrap(), &before);
    let other = seeded(96, 6);
    let files = other.format();
    db.backup_to(&*files).unwrap();
    drop(db);
    let copy = Db::open(files, other.runtime.clone(), small()).unwrap();
    compare(&copy, &map);
    let db = stage.reopen(apart()).unwrap();
    compare(&db, &map);
    compare(&db.open_checkpoint("before").unwrap(), &before);
    db.delete_checkpoint("before").unwrap();
    db.wait_idle().unwrap();
    compare(&db, &map);
}

#[test]
fn power_cuts_lose_nothing_that_was_synced() {
    for seed in 0..4 {
        let stage = seeded(96, seed);
        let (mut map, mut prng) = (Map::new(), Prng::new(seed).derive("cuts"));
        let mut db = stage.create(apart());
        for _ in 0..10 {
            for _ in 0..150 {
                let name = key(prng.below(300));
                let len_bytes = 1 + prng.below(9000);
                let value = value(&mut prng, len_bytes);
                db.default_keyspace().put_with(&name, &value, WriteOptions::SYNC).unwrap();
                map.insert(name, value);
            }
            stage.crash(db, &mut prng);
            db = stage.reopen(apart()).unwrap();
            compare(&db, &map);
        }
    }
}

/// Only long values stay in the logs: a merge would read each short one by itself.
#[test]
fn short_values_are_beside_their_keys_from_the_first_flush() {
    let reads = |from_bytes: u32| {
        let stage = seeded(96, 7);
        let keyspace = KeyspaceOptions { values_apart_from_bytes: from_bytes, ..small().keyspace };
        let db = stage.create(Options { keyspace, ..small() });
        let mut prng = Prng::new(7);
        for n in 0..3000 {
            let value = value(&mut prng, 900);
            db.default_keyspace().put(key(n), value).unwrap();
        }
        db.default_keyspace().compact_range(None, None).unwrap();
        let work = db.metrics();
        assert_eq!(work.keyspaces[0].unsorted_len_bytes, 0);
        (stage.disk.counters().reads, work.flush_out_bytes)
    };
    let (plain_reads, plain_bytes) = reads(0);
    let (mixed_reads, mixed_bytes) = reads(2000);
    assert_eq!(mixed_bytes, plain_bytes);
    assert!(mixed_reads <= plain_reads + plain_reads / 10, "{mixed_reads} for {plain_reads}");
}

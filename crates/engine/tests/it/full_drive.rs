//! A drive that is full: deletes, flushes and closes pass, and the store stays writable.
//!
//! Each of the first three tests was an input of a user. Small synced puts filled the drive with
//! blocks of the log while the memtable was nearly empty, after which nothing worked, and the store
//! could only be read after the next open. Keys of 257 bytes or more were refused for want of room in
//! an empty catalog. Synced deletes on a full drive were refused.

use crate::bands::Crowded;
use crate::stage::{Stage, key, small, with_zones, zoned};
use imbrex_clockwork::{Order, Prng, Runtime};
use imbrex_disk::{Blocks, Geometry, GeometrySpec, Rule};
use imbrex_disk_sim::{Profile, SimDisk};
use imbrex_engine::{
    Db, EngineError, Keyspace, KeyspaceOptions, Options, WriteBatch, WriteOptions,
};
use imbrex_files::Files;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

const ZONE_LEN_BLOCKS: u64 = 256;

/// A drive of `zone_count` zones of 1 MiB.
fn drive(zone_count: u64) -> Stage {
    with_zones(zone_count, ZONE_LEN_BLOCKS, Order::SmallestTime)
}

/// The options of a layout on that drive: a memtable of one sixty-fourth of it.
fn options(zone_count: u64) -> Options {
    Options { memtable_len_bytes: zone_count << 14, ..Options::default() }
}

fn open(stage: &Stage, zone_count: u64) -> Db {
    stage.reopen(options(zone_count)).unwrap()
}

fn value(prng: &mut Prng, len: usize) -> Vec<u8> {
    let mut value = vec![0; len];
    prng.fill(&mut value);
    value
}

/// Checks that a store on a full drive works: deletes, flush, compaction, a put into the room of the
/// deletes, a close, and the same again after it is opened.
fn assert_is_alive(stage: &Stage, db: Db, zone_count: u64, keys: &[Vec<u8>]) {
    let mut db = db;
    for round in 0..2 {
        let ks = db.default_keyspace();
        let (dead, rest) = keys[round * keys.len() / 2..].split_at(keys.len() / 4);
        for (n, key) in dead.iter().enumerate() {
            let deleted = ks.delete_with(key, WriteOptions { sync: n % 3 == 0 });
            deleted.unwrap_or_else(|error| panic!("round {round}: delete {n}: {error}"));
        }
        db.flush().unwrap();
        ks.compact_range(None, None).unwrap();
        ks.put_with("there is room", "again", WriteOptions::SYNC).unwrap();
        assert!(ks.get(&dead[0]).unwrap().is_none());
        assert!(ks.get(&rest[0]).unwrap().is_some());
        assert!(db.check().unwrap().is_sound());
        drop(ks);
        db.close().unwrap();
        db = open(stage, zone_count);
        assert_eq!(db.recovery().kept_log_count, 0);
    }
}

/// Puts values of `len` bytes until a put is refused; syncs every `sync_every` puts.
fn fill(ks: &Keyspace, len: usize, sync_every: u64) -> (Vec<Vec<u8>>, EngineError) {
    let mut prng = Prng::new(sync_every);
    let mut keys = Vec::new();
    for n in 0..200_000 {
        let sync = n % sync_every == sync_every - 1;
        if let Err(error) = ks.put_with(key(n), value(&mut prng, len), WriteOptions { sync }) {
            assert!(error.is_no_space(), "{error}");
            return (keys, error);
        }
        keys.push(key(n));
    }
    panic!("the drive is never full");
}

#[test]
fn small_synced_puts_are_all_stored() {
    for placement in ["zone-per-level", "log-structured"] {
        for zone_count in [24, 64, 256] {
            let stage = drive(zone_count);
            stage.format_with(placement);
            let db = open(&stage, zone_count);
            let ks = db.default_keyspace();
            for n in 0..10_000 {
                let put = ks.put_with(key(n), "v", WriteOptions::SYNC);
                put.unwrap_or_else(|error| panic!("{placement}, {zone_count} MiB: {n}: {error}"));
            }
            assert_eq!(ks.prefix("key").unwrap().count(), 10_000);
            db.flush().unwrap();
            ks.compact_range(None, None).unwrap();
            drop(ks);
            db.close().unwrap();
            let db = open(&stage, zone_count);
            db.default_keyspace().put("once", "more").unwrap();
            assert_eq!(db.default_keyspace().prefix("key").unwrap().count(), 10_000);
        }
    }
}

#[test]
fn a_full_drive_takes_deletes_and_comes_back() {
    for placement in ["zone-per-level", "log-structured"] {
        for (zone_count, sync_every) in [(24, 1), (24, 7), (24, u64::MAX), (64, 1)] {
            let stage = drive(zone_count);
            stage.format_with(placement);
            let db = open(&stage, zone_count);
            let (keys, refused) = fill(&db.default_keyspace(), 900, sync_every);
            let share = keys.len() as u64 * 900 * 100 / (zone_count << 20);
            println!(
                "{placement}, {zone_count} MiB, sync every {sync_every}: {share} %: {refused}"
            );
            assert!(share > 50, "{placement}, {zone_count} MiB: {share} % stored, then {refused}");
            assert_is_alive(&stage, db, zone_count, &keys);
        }
    }
}

#[test]
fn a_full_drive_is_emptied_by_deletes_alone() {
    for sync_every in [1, 7, u64::MAX] {
        let stage = drive(24);
        stage.format_with("zone-per-level");
        let db = open(&stage, 24);
        let ks = db.default_keyspace();
        let (keys, _) = fill(&ks, 900, u64::MAX);
        for (n, key) in keys.iter().enumerate() {
            let sync = (n as u64).is_multiple_of(sync_every);
            let deleted = ks.delete_with(key, WriteOptions { sync });
            deleted.unwrap_or_else(|error| panic!("sync every {sync_every}: {n}: {error}"));
        }
        db.wait_idle().unwrap();
        let (again, _) = fill(&ks, 900, u64::MAX);
        assert!(again.len() >= keys.len() * 9 / 10, "{} after {}", again.len(), keys.len());
    }
}

#[test]
fn long_keys_fill_no_empty_catalog() {
    for (key_len, count) in [(256, 30_000), (257, 30_000), (1000, 30_000), (65_535, 1000)] {
        let stage = drive(1024);
        stage.format_with("log-structured");
        let options = Options { memtable_len_bytes: 16 << 20, ..Options::default() };
        let db = stage.reopen(options.clone()).unwrap();
        let long = |n: u64| {
            let mut key = format!("{n:08}").into_bytes();
            key.resize(key_len, b'k');
            key
        };
        for n in 0..count {
            let put = db.default_keyspace().put(long(n), "v");
            put.unwrap_or_else(|error| panic!("keys of {key_len}: {n}: {error}"));
        }
        db.close().unwrap();
        let db = stage.reopen(options).unwrap();
        assert_eq!(db.default_keyspace().prefix("").unwrap().count() as u64, count);
        db.default_keyspace().put("once", "more").unwrap();
    }
}

/// A drive had no room for the next log before a flush removed the last one. The write that needed
/// the next log was refused, even a delete. It waits for that flush instead.
#[test]
fn a_write_waits_for_the_flush_that_makes_room_for_its_log() {
    let stage = zoned(64, Order::SmallestTime);
    let files = Crowded::new(stage.format());
    files.has_room_for_one_log.store(true, SeqCst);
    let db = Db::open(Arc::clone(&files) as _, stage.runtime, small()).unwrap();
    let (ks, other) =
        (db.default_keyspace(), db.create_keyspace("other", small().keyspace).unwrap());
    for n in 0..2000 {
        let mut batch = WriteBatch::new();
        batch.put(&ks, key(n), [7; 300]).unwrap();
        batch.put(&other, key(n), "v").unwrap();
        let written = db.write(batch, WriteOptions::default());
        written.unwrap_or_else(|error| panic!("batch {n}: {error}"));
        ks.delete_with(key(n), WriteOptions { sync: n % 7 == 0 }).unwrap();
    }
    assert!(db.metrics().flush_count > 10, "{:?}", db.metrics().flush_count);
    assert_eq!(other.prefix("key").unwrap().count(), 2000);
}

/// Zones whose data a compaction had dropped stayed dead until the next write.
#[test]
fn space_comes_back_with_the_compaction() {
    let stage = drive(64);
    let files = stage.format_with("zone-per-level");
    let options = Options { background_work: false, ..options(64) };
    let db = Db::open(Arc::clone(&files) as _, stage.runtime, options).unwrap();
    let ks = db.default_keyspace();
    let blank_bytes = files.space().free_bytes;
    let mut prng = Prng::new(1);
    for n in 0..20_000 {
        ks.put(key(n), value(&mut prng, 900)).unwrap();
    }
    db.flush().unwrap();
    assert!(files.space().free_bytes + (16 << 20) < blank_bytes);
    ks.delete_range(key(0)..key(20_000)).unwrap();
    db.flush().unwrap();
    ks.compact_range(None, None).unwrap();
    let space = files.space();
    assert!(blank_bytes < space.free_bytes + (4 << 20), "{space:?}");
}

/// While room is tight, level 0 is due with one run. It then went down before a level 1 that was too long,
/// however long it was. Soon the two no longer fitted together, and each run was merged with all of level
/// 1 by itself.
#[test]
fn level_1_grows_no_further_while_a_drive_fills_up() {
    const CAPACITY_BYTES: u64 = 256 << 20;
    let (runtime, world) = Runtime::virtual_time(Order::SmallestTime);
    let spec = GeometrySpec { len: Blocks::holding(CAPACITY_BYTES), rule: Rule::Anywhere };
    // The drive takes the time of a real one, so that puts are faster than compactions.
    let disk = SimDisk::builder(Geometry::new(spec).unwrap())
        .profile(Profile::by_name("st500dm002").unwrap())
        .clock(Arc::clone(&runtime.clock))
        .memory()
        .unwrap();
    let stage = Stage { disk: Arc::new(disk), world, runtime };
    let keyspace = KeyspaceOptions {
        table_len_bytes: 1 << 20,
        base_level_len_bytes: 6 << 20,
        flushes_pass_levels: false,
        ..KeyspaceOptions::leveldb_1_19()
    };
    let options = Options { memtable_len_bytes: 1 << 20, keyspace, ..Options::default() };
    let keyspace = &options.keyspace;
    // Level 0 is never more urgent than a level 1 of so many lengths, and adds itself at most once.
    let lengths = u64::from(keyspace.l0_stop_run_count / keyspace.l0_compact_run_count);
    let level_0_bytes = u64::from(keyspace.l0_stop_run_count + 2) * options.memtable_len_bytes;
    let most_bytes = lengths * keyspace.base_level_len_bytes + level_0_bytes;
    let files = stage.format_with("first-fit");
    let db = Db::open(files, stage.runtime, options.clone()).unwrap();
    let ks = db.default_keyspace();
    let mut prng = Prng::new(1);
    for n in 0..CAPACITY_BYTES * 85 / 100 / 1024 {
        let key = n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
        ks.put(key, value(&mut prng, 1016)).unwrap();
        if n % 1000 == 0 {
            let levels = &db.metrics().keyspaces[0].levels;
            let len_bytes = levels.iter().find(|l| l.level == 1).map_or(0, |l| l.len_bytes);
            assert!(len_bytes <= most_bytes, "level 1 has {len_bytes} bytes after {n} puts");
        }
    }
}

//! A catalog that fills up before the drive: many small tables, or long keys.
//!
//! Torture's seed 9387 found the first case. Edits accumulated in the catalog because every opening
//! counted the earlier edits as part of the snapshot. The commit of a move was refused and retried
//! forever, and the recovery after it was refused as well.

use crate::stage::{Stage, key, seeded, small, zoned};
use imbrex_clockwork::{Order, Prng};
use imbrex_engine::{Db, KeyspaceOptions, Options, WriteOptions};
use imbrex_files::{CommitKind, Files};
use std::sync::Arc;

/// Tables so small that their names fill the catalog of a drive with plenty of room.
fn many_tables() -> Options {
    let keyspace = KeyspaceOptions {
        table_len_bytes: 4096,
        base_level_len_bytes: 32 << 10,
        ..small().keyspace
    };
    Options { memtable_len_bytes: 16 << 10, keyspace, ..small() }
}

fn open(stage: &Stage) -> (Db, Arc<dyn Files>) {
    let files = stage.mount();
    let db = Db::open(Arc::clone(&files), stage.runtime.clone(), many_tables()).unwrap();
    (db, files)
}

/// Writes until a put is refused for want of room; returns the number of keys.
fn fill(db: &Db, prng: &mut Prng) -> u64 {
    let mut value = [0; 900];
    for n in 0..100_000 {
        prng.fill(&mut value);
        if let Err(error) = db.default_keyspace().put(key(n), value) {
            assert!(error.is_no_space(), "{error}");
            assert!(error.to_string().contains("in the catalog"), "{error}");
            return n;
        }
    }
    panic!("the catalog never fills up");
}

#[test]
fn a_full_catalog_goes_on_reading_deleting_compacting_and_opening() {
    let stage = seeded(120, 1);
    stage.format();
    let mut prng = Prng::new(1);
    let (db, _) = open(&stage);
    let count = fill(&db, &mut prng);
    // One kill after another: each opening writes tables for the content of memory.
    stage.crash(db, &mut prng);
    for round in 0..20 {
        let (db, files) = open(&stage);
        let ks = db.default_keyspace();
        ks.get(key(round)).unwrap();
        ks.put_with(key(round), "short", WriteOptions::SYNC).ok();
        ks.delete_with(key(count / 2 + round), WriteOptions::SYNC).unwrap();
        assert!(files.space().catalog.free_bytes(CommitKind::Recovery) > 0);
        stage.crash(db, &mut prng);
    }
    let (db, files) = open(&stage);
    let ks = db.default_keyspace();
    ks.compact_range(None, None).unwrap();
    ks.delete_range(key(0)..key(count * 9 / 10)).unwrap();
    ks.compact_range(None, None).unwrap();
    assert!(!files.space().catalog.is_crowded(), "{:?}", files.space().catalog);
    ks.put("again", "there is room").unwrap();
    db.wait_idle().unwrap();
    assert!(db.check().unwrap().is_sound());
}

/// A checkpoint names every table once more, so it is the first to find no room. Its refusal was
/// taken for a full drive: no flush was tried any more, and writers waited for one forever.
#[test]
fn a_checkpoint_without_room_stops_no_writer() {
    let stage = zoned(120, Order::SmallestTime);
    stage.format();
    let mut prng = Prng::new(4);
    let (db, files) = open(&stage);
    let ks = db.default_keyspace();
    let name = "copy ".repeat(20);
    let mut count = 0;
    let mut put = || {
        let mut value = [0; 900];
        prng.fill(&mut value);
        ks.put(key(count), value).unwrap();
        count += 1;
    };
    let refused = loop {
        (0..100).for_each(|_| put());
        db.flush().unwrap();
        // No work is under way that could end later and hide the bug.
        db.wait_idle().unwrap();
        match db.checkpoint(&name) {
            Ok(()) => db.delete_checkpoint(&name).unwrap(),
            Err(error) => break error,
        }
    };
    assert!(refused.is_no_space(), "{refused}");
    assert!(!files.space().catalog.is_crowded(), "{:?}", files.space().catalog);
    (0..100).for_each(|_| put());
    db.wait_idle().unwrap();
    assert_eq!(ks.prefix("key").unwrap().count() as u64, count);
    assert!(db.check().unwrap().is_sound());
}

/// Only deletes, without limit, into a full catalog. They are admitted while a recovery could take
/// them, and the killed store can then be opened.
#[test]
fn deletes_into_a_full_catalog_can_be_recovered() {
    let stage = seeded(120, 2);
    stage.format();
    let mut prng = Prng::new(2);
    let (db, _) = open(&stage);
    let count = fill(&db, &mut prng);
    for n in (0..count).step_by(3) {
        if let Err(error) = db.default_keyspace().delete(key(n)) {
            assert!(error.is_no_space(), "{error}");
            break;
        }
    }
    stage.crash(db, &mut prng);
    let (db, _) = open(&stage);
    assert!(db.check().unwrap().is_sound());
    assert!(db.default_keyspace().get(key(1)).unwrap().is_some());
}

/// A table's record holds its first and last key, so a few tables with the longest keys fill the
/// catalog of a small drive. The put is refused, not the flush or the recovery.
#[test]
fn the_longest_keys_are_refused_before_they_cannot_be_named() {
    let stage = seeded(120, 3);
    stage.format();
    let mut prng = Prng::new(3);
    let (db, _) = open(&stage);
    let ks = db.default_keyspace();
    let long = |n: u8| vec![n; 60_000];
    let refused = (0..=255).find_map(|n| ks.put(long(n), "value").err());
    let refused = refused.expect("the catalog holds 255 keys of 60 kB");
    assert!(refused.is_no_space(), "{refused}");
    ks.put("short", "value").unwrap_or_else(|error| assert!(error.is_no_space(), "{error}"));
    assert_eq!(ks.get(long(0)).unwrap().as_deref(), Some(&b"value"[..]));
    db.sync().unwrap();
    stage.crash(db, &mut prng);
    let (db, _) = open(&stage);
    assert_eq!(db.default_keyspace().get(long(0)).unwrap().as_deref(), Some(&b"value"[..]));
    assert!(db.check().unwrap().is_sound());
}

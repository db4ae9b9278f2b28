//! Basic use of a store, as on a user's first day.

use crate::stage::{Stage, key, seeded, small, small_keyspace};
use imbrex_clockwork::{Prng, Runtime};
use imbrex_engine::{
    Db, EngineError, KeyspaceOptions, Options, ReadOptions, WriteBatch, WriteOptions,
};

fn fresh() -> (Stage, Db) {
    let stage = seeded(96, 1);
    let db = stage.create(small());
    (stage, db)
}

/// Closes the store and opens it again.
fn reopen(stage: &Stage, db: Db) -> Db {
    db.close().unwrap();
    stage.world.drop_jobs();
    stage.reopen(small()).unwrap()
}

#[test]
fn puts_are_there_at_once_and_after_reopening() {
    let (stage, db) = fresh();
    let ks = db.default_keyspace();
    ks.put("apple", "red").unwrap();
    ks.put("banana", "yellow").unwrap();
    ks.delete("apple").unwrap();
    assert_eq!(ks.get("apple").unwrap(), None);
    assert_eq!(ks.get("banana").unwrap().unwrap(), "yellow");
    drop(ks);
    let db = reopen(&stage, db);
    let ks = db.default_keyspace();
    assert_eq!(ks.get("apple").unwrap(), None);
    assert_eq!(ks.get("banana").unwrap().unwrap(), "yellow");
    assert_eq!(db.recovery().log_count, 1);
    drop(ks);
    let db = reopen(&stage, db);
    assert_eq!(db.recovery().log_count, 0, "the tables have it all");
    assert_eq!(db.default_keyspace().get("banana").unwrap().unwrap(), "yellow");
    assert!(db.check().unwrap().is_sound());
}

#[test]
fn many_puts_make_levels_and_all_are_found() {
    let (stage, db) = fresh();
    let ks = db.default_keyspace();
    let value = |i: u64| format!("value {i} {}", "x".repeat((i % 200) as usize)).into_bytes();
    let count: u64 = 20_000;
    for i in 0..count {
        let n = i.wrapping_mul(7919) % count;
        ks.put(key(n), value(n)).unwrap();
    }
    db.wait_idle().unwrap();
    let metrics = db.metrics();
    assert!(metrics.keyspaces[0].levels.len() > 1, "{metrics}");
    for i in 0..count {
        assert_eq!(ks.get(key(i)).unwrap().unwrap(), value(i), "key {i}");
    }
    assert_eq!(ks.get("nothing").unwrap(), None);
    let entries: Vec<_> = ks.range::<&[u8]>(..).unwrap().map(Result::unwrap).collect();
    assert_eq!(entries.len() as u64, count);
    assert!(entries.windows(2).all(|pair| pair[0].0 < pair[1].0));
    let backward: Vec<_> = ks.range::<&[u8]>(..).unwrap().rev().map(Result::unwrap).collect();
    assert!(backward.iter().rev().eq(entries.iter()));
    let report = db.check().unwrap();
    assert!(report.is_sound(), "{report}");
    drop(ks);
    let db = reopen(&stage, db);
    let ks = db.default_keyspace();
    for i in (0..count).step_by(97) {
        assert_eq!(ks.get(key(i)).unwrap().unwrap(), value(i), "key {i}");
    }
    ks.compact_range(None, None).unwrap();
    let levels = &db.metrics().keyspaces[0].levels;
    assert_eq!(levels.len(), 1, "a manual compaction leaves one level: {levels:?}");
    assert_eq!(ks.range::<&[u8]>(..).unwrap().count() as u64, count);
}

#[test]
fn a_sequential_load_moves_tables_and_writes_none_twice() {
    let (_stage, db) = fresh();
    let ks = db.default_keyspace();
    for i in 0..10_000 {
        ks.put(key(i), [7; 100]).unwrap();
    }
    db.wait_idle().unwrap();
    let metrics = db.metrics();
    assert!(metrics.move_count > 0);
    assert_eq!(metrics.compaction_out_bytes, 0, "{metrics}");
}

#[test]
fn snapshots_and_iterators_do_not_change() {
    let (_stage, db) = fresh();
    let ks = db.default_keyspace();
    for i in 0..500 {
        ks.put(key(i), "old").unwrap();
    }
    let snapshot = db.snapshot();
    let options = ReadOptions { snapshot: Some(&snapshot), ..ReadOptions::default() };
    let mut iter = ks.iter(options).unwrap();
    for i in 0..500 {
        ks.put(key(i), "new").unwrap();
    }
    ks.delete_range(key(100)..key(200)).unwrap();
    db.flush().unwrap();
    ks.compact_range(None, None).unwrap();
    assert_eq!(ks.get_at(&snapshot, key(150)).unwrap().unwrap(), "old");
    assert_eq!(ks.get(key(150)).unwrap(), None);
    assert_eq!(ks.get(key(250)).unwrap().unwrap(), "new");
    iter.seek_to_first().unwrap();
    let mut count = 0;
    while iter.valid() {
        assert_eq!(iter.value(), b"old");
        count += 1;
        iter.next().unwrap();
    }
    assert_eq!(count, 500);
    let options = ReadOptions { snapshot: Some(&snapshot), ..ReadOptions::default() };
    let mut again = ks.iter(options).unwrap();
    again.seek(key(150)).unwrap();
    assert_eq!(again.value(), b"old");
    drop(snapshot);
    ks.compact_range(None, None).unwrap();
    assert_eq!(ks.range(key(0)..key(500)).unwrap().count(), 400);
}

#[test]
fn a_batch_is_one_write_over_keyspaces() {
    let (stage, db) = fresh();
    let people = db.create_keyspace("people", small_keyspace()).unwrap();
    let ks = db.default_keyspace();
    let mut batch = WriteBatch::new();
    batch.put(&ks, "a", "1").unwrap();
    batch.put(&people, "ada", "countess").unwrap();
    batch.delete(&ks, "a").unwrap();
    batch.delete_range(&people, "b", "c").unwrap();
    db.write(batch, WriteOptions::SYNC).unwrap();
    assert_eq!(ks.get("a").unwrap(), None);
    assert_eq!(people.get("ada").unwrap().unwrap(), "countess");
    let twice = db.create_keyspace("people", small_keyspace());
    assert!(matches!(twice, Err(EngineError::KeyspaceExists { .. })));
    drop((ks, people));
    let db = reopen(&stage, db);
    assert_eq!(db.keyspace_names(), ["default", "people"]);
    let people = db.keyspace("people").unwrap();
    assert_eq!(people.get("ada").unwrap().unwrap(), "countess");
    db.drop_keyspace("people").unwrap();
    assert!(matches!(people.get("ada"), Err(EngineError::NoKeyspace { .. })));
    assert!(matches!(people.put("ada", "x"), Err(EngineError::NoKeyspace { .. })));
    let again = db.create_keyspace("people", small_keyspace()).unwrap();
    assert_eq!(again.get("ada").unwrap(), None, "a new keyspace of an old name is empty");
    drop((people, again));
    let db = reopen(&stage, db);
    assert_eq!(db.keyspace("people").unwrap().get("ada").unwrap(), None);
    assert!(db.check().unwrap().is_sound());
}

#[test]
fn bad_input_is_refused_by_name() {
    let (_stage, db) = fresh();
    let ks = db.default_keyspace();
    assert!(matches!(ks.put("", "x"), Err(EngineError::KeyLen { got_bytes: 0, .. })));
    assert!(matches!(ks.put(vec![0; 65_537], "x"), Err(EngineError::KeyLen { .. })));
    assert!(matches!(ks.get(""), Err(EngineError::KeyLen { .. })));
    assert!(matches!(ks.delete_range("b".."a"), Err(EngineError::RangeOrder { .. })));
    assert!(matches!(db.keyspace("none"), Err(EngineError::NoKeyspace { .. })));
    let options = small_keyspace();
    assert!(matches!(db.create_keyspace("a/b", options), Err(EngineError::BadName { .. })));
    assert!(matches!(db.drop_keyspace("default"), Err(EngineError::BadName { .. })));
    let (_other_stage, other) = fresh();
    let foreign = other.snapshot();
    assert!(matches!(ks.get_at(&foreign, "a"), Err(EngineError::ForeignSnapshot)));
}

#[test]
fn an_empty_drive_is_no_store_unless_asked() {
    let stage = seeded(64, 1);
    let files = stage.format();
    let options = Options { create_if_missing: false, ..small() };
    let missing = Db::open(files, stage.runtime.clone(), options);
    assert!(matches!(missing, Err(EngineError::NoStore)));
}

#[test]
fn large_keys_and_values() {
    // The catalog grows with the drive, and it must have room for two keys of 64 KiB per table.
    let stage = seeded(400, 1);
    let db = stage.create(small());
    let ks = db.default_keyspace();
    let long_key = vec![b'k'; 65_536];
    let mut long_value = vec![0; 3 << 20];
    Prng::new(3).fill(&mut long_value);
    ks.put(&long_key, "short").unwrap();
    ks.put("short", &long_value).unwrap();
    db.flush().unwrap();
    assert_eq!(ks.get(&long_key).unwrap().unwrap(), "short");
    assert_eq!(ks.get("short").unwrap().unwrap(), long_value);
    ks.compact_range(None, None).unwrap();
    ks.put("after", &long_value).unwrap();
    drop(ks);
    let db = reopen(&stage, db);
    let ks = db.default_keyspace();
    assert_eq!(ks.get(&long_key).unwrap().unwrap(), "short");
    assert_eq!(ks.get("after").unwrap().unwrap(), long_value);
}

#[test]
fn checkpoints_stay_as_they_were() {
    let (stage, db) = fresh();
    let ks = db.default_keyspace();
    for i in 0..3000 {
        ks.put(key(i), "monday").unwrap();
    }
    db.checkpoint("monday").unwrap();
    assert!(matches!(db.checkpoint("monday"), Err(EngineError::CheckpointExists { .. })));
    for i in 0..3000 {
        ks.put(key(i), "tuesday").unwrap();
    }
    ks.compact_range(None, None).unwrap();
    drop(ks);
    let db = reopen(&stage, db);
    assert_eq!(db.checkpoints(), ["monday"]);
    let monday = db.open_checkpoint("monday").unwrap();
    let old = monday.default_keyspace();
    assert_eq!(old.range::<&[u8]>(..).unwrap().count(), 3000);
    assert_eq!(old.get(key(7)).unwrap().unwrap(), "monday");
    assert!(matches!(old.put("a", "b"), Err(EngineError::ReadOnly)));
    assert_eq!(db.default_keyspace().get(key(7)).unwrap().unwrap(), "tuesday");
    assert!(db.check().unwrap().is_sound());
    let report = monday.check().unwrap();
    assert!(report.is_sound() && report.entry_count == 3000, "{report}");
    db.delete_checkpoint("monday").unwrap();
    assert_eq!(old.get(key(8)).unwrap().unwrap(), "monday", "its reader goes on");
    assert!(matches!(monday.check(), Err(EngineError::NoCheckpoint { .. })));
    assert!(matches!(db.open_checkpoint("monday"), Err(EngineError::NoCheckpoint { .. })));
    assert!(db.check().unwrap().is_sound());
}

#[test]
fn a_backup_is_a_store() {
    let (_stage, db) = fresh();
    let ks = db.default_keyspace();
    for i in 0..2000 {
        ks.put(key(i), [1; 64]).unwrap();
    }
    let other = seeded(96, 2);
    let files = other.format();
    db.backup_to(&*files).unwrap();
    assert!(matches!(db.backup_to(&*files), Err(EngineError::BackupTarget { .. })));
    let copy = Db::open(files, other.runtime.clone(), small()).unwrap();
    assert_eq!(copy.default_keyspace().range::<&[u8]>(..).unwrap().count(), 2000);
    assert!(copy.check().unwrap().is_sound());
}

#[test]
fn multi_get_sizes_and_properties() {
    let (_stage, db) = fresh();
    let ks = db.default_keyspace();
    for i in 0..5000 {
        ks.put(key(i), [3; 100]).unwrap();
    }
    let found = ks.multi_get(&[key(7), key(9999), key(3)]).unwrap();
    assert_eq!(found.iter().map(Option::is_some).collect::<Vec<_>>(), [true, false, true]);
    db.flush().unwrap();
    let all = ks.approximate_size(key(0)..key(9999)).unwrap();
    let half = ks.approximate_size(key(0)..key(2500)).unwrap();
    assert!(half > all / 4 && half < all * 3 / 4, "{half} of {all}");
    assert_eq!(db.property("last-sequence").unwrap(), "5000");
    assert!(db.property("levels").unwrap().contains("L"));
    assert_eq!(db.property("nonsense"), None);
}

#[test]
fn threads_do_the_same() {
    let stage = seeded(96, 1);
    let runtime = Runtime::threads(3);
    let db = Db::open(stage.format(), runtime, small()).unwrap();
    let ks = db.default_keyspace();
    let count: u64 = 30_000;
    std::thread::scope(|scope| {
        for part in 0..3 {
            let ks = ks.clone();
            scope.spawn(move || {
                for i in (part..count).step_by(3) {
                    ks.put(key(i), i.to_le_bytes()).unwrap();
                    if i % 5 == 0 {
                        assert!(ks.get(key(i)).unwrap().is_some());
                    }
                }
            });
        }
    });
    db.wait_idle().unwrap();
    for i in 0..count {
        assert_eq!(ks.get(key(i)).unwrap().unwrap(), i.to_le_bytes()[..]);
    }
    assert!(db.check().unwrap().is_sound());
}

#[test]
fn frames_that_no_log_can_have_are_refused() {
    for log_frame_len_bytes in [0, 5000, 2 << 20] {
        let error = Options { log_frame_len_bytes, ..Options::default() }.check().unwrap_err();
        assert!(error.to_string().contains("log_frame_len_bytes"), "{error}");
    }
}

/// Products of options overflowed: with the largest values the store could not be used.
#[test]
fn the_largest_options_are_without_limit() {
    let stage = seeded(40, 3);
    let keyspace = KeyspaceOptions {
        table_len_bytes: u64::MAX,
        grandparent_table_count_max: u32::MAX,
        base_level_len_bytes: 16 << 10,
        level_factor: 2,
        ..small_keyspace()
    };
    let options = Options { compaction_read_len_bytes: usize::MAX, keyspace, ..small() };
    let db = stage.create(options.clone());
    let ks = db.default_keyspace();
    for round in 0..4_u8 {
        for i in 0..500 {
            ks.put(key(i), [round; 200]).unwrap();
        }
        db.flush().unwrap();
    }
    ks.compact_range(None, None).unwrap();
    for read_ahead_bytes_min in [0, usize::MAX] {
        let read_ahead_bytes = usize::MAX;
        let read = ReadOptions { read_ahead_bytes, read_ahead_bytes_min, ..ReadOptions::default() };
        let mut iter = ks.iter(read).unwrap();
        iter.seek_to_first().unwrap();
        let mut count = 0;
        while iter.valid() {
            count += 1;
            iter.next().unwrap();
        }
        assert_eq!(count, 500);
        iter.seek_to_last().unwrap();
        while iter.valid() {
            count -= 1;
            iter.prev().unwrap();
        }
        assert_eq!(count, 0);
    }
    drop((ks, db));
    stage.world.drop_jobs();
    // That much space is never free.
    let db = stage.reopen(Options { free_memtable_count_min: u64::MAX, ..options }).unwrap();
    assert!(db.check_room().unwrap_err().is_no_space());
    let long = vec![7; 2 * small().memtable_len_bytes as usize];
    for value in [&long[..1], &long] {
        let refused = db.default_keyspace().put("a", value).unwrap_err();
        assert!(refused.is_no_space(), "{refused}");
    }
}

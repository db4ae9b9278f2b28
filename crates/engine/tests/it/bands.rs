//! Logs that become tables: the values stay where they were first written.

use crate::stage::{Stage, key, seeded, small, zoned};
use imbrex_clockwork::{Order, Prng, seeds};
use imbrex_engine::{Db, KeyspaceOptions, Options, ReadOptions, WriteBatch, WriteOptions};
use imbrex_files::{
    Commit, FileBuffer, FileInfo, FileKind, FileReader, Files, FilesError, Hints, LogWriter,
    Persisted, SpaceUse,
};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// No automatic compaction: all data stay in bands.
fn banded() -> Options {
    let keyspace = KeyspaceOptions {
        l0_compact_run_count: 100,
        l0_slowdown_run_count: 100,
        l0_stop_run_count: 100,
        ..small().keyspace
    };
    Options { logs_are_tables: true, keyspace, ..small() }
}

fn create(options: Options) -> (Stage, Arc<dyn Files>, Db) {
    let stage = zoned(128, Order::SmallestTime);
    let files = stage.format();
    let db = Db::open(Arc::clone(&files), stage.runtime.clone(), options).unwrap();
    (stage, files, db)
}

/// Short and long values (a frame has 8 KiB), batches, deletes.
fn load(db: &Db, map: &mut Map, count: u64) {
    let mut prng = Prng::new(3).derive("values");
    let ks = db.default_keyspace();
    for _ in 0..count {
        let mut batch = WriteBatch::new();
        for _ in 0..=prng.below(4) {
            let key = key(prng.below(2000));
            if prng.chance(1, 10) {
                batch.delete(&ks, &key).unwrap();
                map.remove(&key);
                continue;
            }
            let len = [10, 64, 65, 900, 900, 900, 5000, 30_000][prng.below(8) as usize];
            let mut value = vec![0; len];
            prng.fill(&mut value);
            batch.put(&ks, &key, &value).unwrap();
            map.insert(key, value);
        }
        db.write(batch, WriteOptions { sync: prng.chance(1, 9) }).unwrap();
    }
}

fn compare(db: &Db, map: &Map) {
    let ks = db.default_keyspace();
    let entries = || ks.range::<&[u8]>(..).unwrap().map(Result::unwrap);
    assert!(entries().eq(map.iter().map(|(k, v)| (k.clone().into(), v.clone().into()))));
    let back: Vec<_> = entries().rev().map(|(key, _)| key).collect();
    assert!(back.iter().rev().eq(map.keys()));
    for number in (0..2000).step_by(7) {
        let key = key(number);
        assert_eq!(ks.get(&key).unwrap().as_deref(), map.get(&key).map(Vec::as_slice));
    }
}

#[test]
fn what_lies_in_bands_is_read_scanned_compacted_and_found_again() {
    let (stage, files, db) = create(banded());
    let mut map = Map::new();
    load(&db, &mut map, 400);
    db.flush().unwrap();
    let metrics = db.metrics();
    let level_0 = &metrics.keyspaces[0].levels[0];
    assert!(level_0.run_count > 5, "{level_0:?}");
    // Each value is on the drive once: the tables are the logs, with little added.
    assert!(metrics.flush_out_bytes * 10 < metrics.user_bytes, "{metrics:?}");
    assert!(files.list("").iter().all(|file| !file.name.ends_with(".log") || file.len_bytes == 0));
    compare(&db, &map);
    let report = db.check().unwrap();
    assert!(report.is_sound(), "{report}");
    let snapshot = db.snapshot();
    let (first, value) = map.iter().next().map(|(k, v)| (k.clone(), v.clone())).unwrap();
    db.default_keyspace().delete_range(key(0)..key(500)).unwrap();
    map.retain(|k, _| *k >= key(500));
    db.flush().unwrap();
    compare(&db, &map);
    let mut iter = db
        .default_keyspace()
        .iter(ReadOptions { snapshot: Some(&snapshot), ..ReadOptions::default() })
        .unwrap();
    iter.seek_to_first().unwrap();
    assert_eq!((iter.key(), iter.value()), (&first[..], &value[..]));
    drop(iter);
    drop(snapshot);
    db.close().unwrap();
    drop(files);
    stage.world.drop_jobs();

    let db = stage.reopen(banded()).unwrap();
    assert_eq!(db.recovery().table_count, 0, "bands need no replay");
    compare(&db, &map);
    db.default_keyspace().compact_range(None, None).unwrap();
    compare(&db, &map);
    let level_0 = db.metrics().keyspaces[0].levels.iter().find(|level| level.level == 0).cloned();
    assert!(level_0.is_none_or(|level| level.table_count == 0));
    let report = db.check().unwrap();
    assert!(report.is_sound(), "{report}");
}

/// A log with the writes of two keyspaces cannot be a table of either.
#[test]
fn a_shared_log_is_flushed_as_ever() {
    let (stage, files, db) = create(banded());
    let other = db.create_keyspace("other", banded().keyspace).unwrap();
    let mut map = Map::new();
    for number in 0..600 {
        let value = vec![number as u8; 700];
        db.default_keyspace().put(key(number), &value).unwrap();
        if number % 100 == 50 {
            other.put(key(number), &value).unwrap();
        }
        map.insert(key(number), value);
    }
    db.flush().unwrap();
    compare(&db, &map);
    assert_eq!(other.get(key(150)).unwrap().unwrap()[..], [150; 700]);
    db.close().unwrap();
    drop(files);
    stage.world.drop_jobs();
    let db = stage.reopen(banded()).unwrap();
    compare(&db, &map);
    let report = db.check().unwrap();
    assert!(report.is_sound(), "{report}");
}

/// Files without room for the next commit that makes a log a table, for the next log, for tables
/// from some level on, or for logs that get longer.
#[derive(Debug)]
pub(crate) struct Crowded {
    files: Arc<dyn Files>,
    refuses_band: AtomicBool,
    /// So many logs are refused from now on.
    pub(crate) refused_log_count: AtomicUsize,
    /// A log is refused while another one exists.
    pub(crate) has_room_for_one_log: AtomicBool,
    pub(crate) refuses_from_level: AtomicU8,
    /// New logs are promised no more room than they already have.
    promises_nothing: AtomicBool,
    /// The store to poison the next time it asks for the free space.
    pub(crate) gives_up: Mutex<Option<Db>>,
}

impl Crowded {
    const REFUSAL: FilesError = FilesError::NoSpace { needed_bytes: 100, free_bytes: 0 };

    pub(crate) fn new(files: Arc<dyn Files>) -> Arc<Crowded> {
        let [refuses_band, has_room_for_one_log, promises_nothing] = Default::default();
        let refuses_from_level = AtomicU8::new(u8::MAX);
        let gives_up = Mutex::default();
        Arc::new(Crowded {
            files,
            refuses_band,
            refused_log_count: AtomicUsize::new(0),
            has_room_for_one_log,
            refuses_from_level,
            promises_nothing,
            gives_up,
        })
    }
}

impl Files for Crowded {
    fn commit(&self, commit: Commit) -> Result<(), FilesError> {
        if !commit.rename.is_empty() && self.refuses_band.swap(false, Ordering::SeqCst) {
            return Err(Crowded::REFUSAL);
        }
        self.files.commit(commit)
    }
    fn sync(&self) -> Result<(), FilesError> {
        self.files.sync()
    }
    fn persist(&self, files: Vec<FileBuffer>) -> Result<Vec<Box<dyn Persisted>>, FilesError> {
        let level = self.refuses_from_level.load(Ordering::SeqCst);
        if files.iter().any(|file| level <= file.hints().level) {
            return Err(Crowded::REFUSAL);
        }
        self.files.persist(files)
    }
    fn open_persisted(&self, file: &dyn Persisted) -> Result<Arc<dyn FileReader>, FilesError> {
        self.files.open_persisted(file)
    }
    fn create_log(&self, name: &str, hints: Hints) -> Result<Arc<dyn LogWriter>, FilesError> {
        let is_one_too_many = self.has_room_for_one_log.load(Ordering::SeqCst)
            && self.files.list("").iter().any(|file| file.kind == FileKind::Log);
        let one_less = |count: usize| count.checked_sub(1);
        let count =
            self.refused_log_count.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less);
        if count.is_ok() || is_one_too_many {
            return Err(Crowded::REFUSAL);
        }
        let log = self.files.create_log(name, hints)?;
        Ok(match self.promises_nothing.load(Ordering::SeqCst) {
            true => Arc::new(Unpromised { log }),
            false => log,
        })
    }
    fn open(&self, name: &str) -> Result<Arc<dyn FileReader>, FilesError> {
        self.files.open(name)
    }
    fn list(&self, prefix: &str) -> Vec<FileInfo> {
        self.files.list(prefix)
    }
    fn app_records(&self) -> Vec<Vec<u8>> {
        self.files.app_records()
    }
    fn reclaim(&self) -> Result<(), FilesError> {
        self.files.reclaim()
    }
    fn space(&self) -> SpaceUse {
        let given_up = self.gives_up.lock().unwrap().take();
        if let Some(db) = given_up {
            db.abandon("a bug");
        }
        self.files.space()
    }
    fn name_count(&self, name: &str) -> usize {
        self.files.name_count(name)
    }
    fn format_id(&self) -> u64 {
        self.files.format_id()
    }
}

/// A log next to another log that was promised all the rest of the drive.
#[derive(Debug)]
struct Unpromised {
    log: Arc<dyn LogWriter>,
}

impl LogWriter for Unpromised {
    fn append(&self, data: &[u8]) -> Result<u64, FilesError> {
        // Batches arrive one frame at a time.
        let is_more = small().log_frame_len_bytes < data.len();
        assert!(!is_more, "it takes the room of another log");
        self.log.append(data)
    }
    fn reserve(&self, len_bytes: u64) -> bool {
        // A frame and its padding, but no table.
        len_bytes <= self.log.len_bytes() + small().log_frame_len_bytes as u64 + 3 * 4096
    }
    fn sync(&self) -> Result<(), FilesError> {
        self.log.sync()
    }
    fn len_bytes(&self) -> u64 {
        self.log.len_bytes()
    }
    fn finish(&self) -> Result<(), FilesError> {
        self.log.finish()
    }
}

#[track_caller]
fn assert_only_the_next_one_is_a_band(db: &Db, map: &mut Map) {
    assert_eq!(db.metrics().keyspaces[0].unsorted_len_bytes, 0, "it is no band");
    compare(db, map);
    load(db, map, 10);
    db.flush().unwrap();
    assert!(db.metrics().keyspaces[0].unsorted_len_bytes > 0, "the next one is");
    compare(db, map);
}

/// The table after a log took the room on flash that the next log was promised, so writes were
/// refused on an empty disk. If the room is refused, the same flush writes the memtable from memory
/// (B3, B4).
#[test]
fn a_band_takes_no_room_that_another_log_was_promised() {
    let stage = zoned(128, Order::SmallestTime);
    let files = Crowded::new(stage.format());
    files.promises_nothing.store(true, Ordering::SeqCst);
    let options = Options { background_work: false, memtable_len_bytes: 512 << 10, ..banded() };
    let db = Db::open(Arc::clone(&files) as _, stage.runtime, options).unwrap();
    let mut map = Map::new();
    for number in 0..1000 {
        let value = vec![number as u8; 60 + number as usize % 40];
        db.default_keyspace().put(key(number), &value).unwrap();
        map.insert(key(number), value);
    }
    files.promises_nothing.store(false, Ordering::SeqCst);
    db.flush().unwrap();
    assert_only_the_next_one_is_a_band(&db, &mut map);
}

/// The log has already ended and takes no table any more, so the same flush writes the memtable
/// from memory. A band that finds no room says nothing about the room for other tables.
#[test]
fn a_band_without_room_in_the_catalog_is_flushed_as_ever() {
    let stage = zoned(128, Order::SmallestTime);
    let files = Crowded::new(stage.format());
    files.refuses_band.store(true, Ordering::SeqCst);
    let options = Options { background_work: false, ..banded() };
    let db = Db::open(Arc::clone(&files) as _, stage.runtime, options).unwrap();
    let mut map = Map::new();
    load(&db, &mut map, 10);
    db.flush().unwrap();
    assert_only_the_next_one_is_a_band(&db, &mut map);
}

/// Two keyspaces share a log. Neither memtable may use it as a table, and neither flush needs another
/// log.
#[test]
fn a_shared_log_without_a_successor_is_flushed_as_ever() {
    let stage = zoned(128, Order::SmallestTime);
    let files = Crowded::new(stage.format());
    let options = Options { background_work: false, ..banded() };
    let db = Db::open(Arc::clone(&files) as _, stage.runtime, options).unwrap();
    let other = db.create_keyspace("other", banded().keyspace).unwrap();
    let mut map = Map::new();
    load(&db, &mut map, 10);
    other.put("of the other", "value").unwrap();
    files.refused_log_count.store(1, Ordering::SeqCst);
    db.flush().unwrap();
    let is_banded = |db: &Db| db.metrics().keyspaces[0].unsorted_len_bytes > 0;
    assert!(!is_banded(&db));
    compare(&db, &map);
    let refusal = other.put("of the other", "value").unwrap_err();
    assert!(refusal.is_no_space(), "{refusal}");
    load(&db, &mut map, 10);
    db.flush().unwrap();
    assert!(is_banded(&db));
    compare(&db, &map);
    assert_eq!(other.get("of the other").unwrap().unwrap(), "value");
    let report = db.check().unwrap();
    assert!(report.is_sound(), "{report}");
}

/// A damaged value is an error, and the others can be read.
#[test]
fn a_rotten_value_is_never_returned() {
    let (stage, files, db) = create(banded());
    let mut map = Map::new();
    load(&db, &mut map, 60);
    db.flush().unwrap();
    let table = files.list("").into_iter().find(|file| file.name.ends_with(".tbl")).unwrap();
    let first = table.extents[0].start;
    let (mut lost_count, ks) = (0, db.default_keyspace());
    for bit in (0..40).map(|n| n * 800 + 1) {
        stage.disk.flip_bit(first, bit).unwrap();
        let mut lost_now = 0;
        for (key, value) in &map {
            match ks.get(key) {
                Ok(found) => assert_eq!(found.as_deref(), Some(&value[..])),
                Err(error) => {
                    assert!(error.to_string().contains("checksum"), "{error}");
                    lost_now += 1;
                }
            }
        }
        assert!(lost_now <= 1, "{lost_now} keys are gone");
        assert!(lost_now == 0 || !db.check().unwrap().is_sound());
        lost_count += lost_now;
        stage.disk.flip_bit(first, bit).unwrap();
    }
    assert!(lost_count > 2, "{lost_count} values were hit");
    compare(&db, &map);
}

/// Power is cut at any point, even between the end of a log and the commit that makes it a table.
#[test]
fn a_band_is_there_or_its_log_is() {
    for seed in seeds(40) {
        let stage = seeded(128, seed);
        let mut prng = Prng::new(seed).derive("cuts");
        let options = Options { logs_are_tables: true, ..small() };
        let mut db = stage.create(options.clone());
        let mut map = Map::new();
        for _ in 0..4 {
            let power_cut_after = Some(prng.below(60));
            let plan = imbrex_disk_sim::FaultPlan {
                power_cut_after,
                ..imbrex_disk_sim::FaultPlan::default()
            };
            stage.disk.set_faults(plan);
            let mut unsure: Option<(Vec<u8>, Vec<u8>)> = None;
            for _ in 0..2000 {
                let (key, value) = (key(prng.below(400)), vec![prng.below(256) as u8; 700]);
                let sync = WriteOptions { sync: true };
                if db.default_keyspace().put_with(&key, &value, sync).is_err() {
                    unsure = Some((key, value));
                    break;
                }
                map.insert(key, value);
            }
            stage.crash(db, &mut prng);
            stage.disk.set_faults(imbrex_disk_sim::FaultPlan::default());
            db = stage.reopen(options.clone()).unwrap();
            if let Some((key, value)) = unsure {
                let found = db.default_keyspace().get(&key).unwrap();
                if found.as_deref() == Some(&value[..]) {
                    map.insert(key, value);
                }
            }
            let ks = db.default_keyspace();
            for (key, value) in &map {
                let found = ks.get(key).unwrap();
                assert_eq!(found.as_deref(), Some(&value[..]), "seed {seed}: {key:?}");
            }
            let report = db.check().unwrap();
            assert!(report.is_sound(), "seed {seed}: {report}");
        }
    }
}

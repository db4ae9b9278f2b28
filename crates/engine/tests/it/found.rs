//! Bugs found by torture or a review, each as the shortest sequence that shows it.

use crate::bands::Crowded;
use crate::stage::{key, overwrite_a_checkpoint, seeded, small, small_keyspace, zoned};
use imbrex_clockwork::{Budget, Job, Order, Prng, Runtime, Step, VirtualWorld};
use imbrex_disk::{BLOCK_LEN_BYTES, BlockRange, Blocks, Disk, Persist};
use imbrex_disk_sim::SimDisk;
use imbrex_engine::{
    Db, EngineError, KeyspaceOptions, OpenMode, Options, WriteBatch, WriteOptions,
};
use imbrex_files::{Commit, FileInfo, FileLayer, Files, FormatOptions, PlacementKind};
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

/// A batch finds the memtables of two keyspaces full. The log ends for the first, and at once again
/// for the second, so an empty log begins with the same write as its successor. The store removed
/// logs from its list by first write and confused the two. The empty log was removed from the drive
/// twice, and the second commit failed.
#[test]
fn an_empty_log_between_two_rotations_is_removed_once() {
    let stage = seeded(40, 1);
    let db = stage.create(small());
    let [a, b] = ["a", "b"].map(|name| db.create_keyspace(name, small().keyspace).unwrap());
    let value = vec![7; small().memtable_len_bytes as usize];
    for round in 0..4u8 {
        let mut batch = WriteBatch::new();
        batch.put(&a, [round], &value).unwrap();
        batch.put(&b, [round], &value).unwrap();
        db.write(batch, WriteOptions::default()).unwrap();
    }
    db.flush().unwrap();
    a.put("last", "word").unwrap();
    db.flush().unwrap();
    assert!(db.check().unwrap().is_sound());
}

/// A keyspace is flushed whose log another keyspace still needs. The check compared the table's
/// writes with a counter that moves only when a log is removed, and reported the table as damaged.
#[test]
fn a_table_may_be_ahead_of_the_logs_that_are_gone() {
    let stage = seeded(40, 2);
    let db = stage.create(small());
    let [a, b] = ["a", "b"].map(|name| db.create_keyspace(name, small().keyspace).unwrap());
    b.put("stays", "in memory").unwrap();
    let value = vec![7; small().memtable_len_bytes as usize];
    for round in 0..3u8 {
        a.put([round], &value).unwrap();
        db.wait_idle().unwrap();
        let report = db.check().unwrap();
        assert!(report.is_sound(), "{report}");
    }
}

/// A drive is formatted again, so log numbers start again. If zones are not reset, the frames of
/// the old log of that number are still stored after what the new log has written. After a power
/// cut they were replayed as a continuation of it, and keys of the old store came back. Frames now
/// carry a number that no other format of the drive had.
#[test]
fn what_a_formatted_drive_held_does_not_come_back() {
    let stage = seeded(40, 4);
    let options = || Options { memtable_len_bytes: 1 << 20, ..small() };
    let before = stage.create(options());
    for i in 0..100 {
        before.default_keyspace().put_with(key(i), [1; 1000], WriteOptions::SYNC).unwrap();
    }
    before.close().unwrap();
    let db = stage.create(options());
    for i in 0..3 {
        db.default_keyspace().put_with(key(i), [2; 1000], WriteOptions::SYNC).unwrap();
    }
    stage.crash(db, &mut Prng::new(4));
    let db = stage.reopen(options()).unwrap();
    assert_eq!(db.recovery().batch_count, 3);
    assert_eq!(db.default_keyspace().prefix("key").unwrap().count(), 3);
}

/// Level 0 waited until merging it was worth the writing. If that was later than the number of runs
/// that slows writes down, writes waited for a compaction that was not due.
#[test]
fn runs_that_slow_writes_down_are_merged() {
    let stage = seeded(60, 5);
    let mut options = small();
    options.keyspace.l0_slowdown_run_count = options.keyspace.l0_compact_run_count;
    options.keyspace.base_level_len_bytes = 4 << 20;
    let db = stage.create(options);
    let ks = db.default_keyspace();
    let mut prng = Prng::new(5);
    let mut value = [0; 500];
    for i in 0..8000 {
        prng.fill(&mut value);
        ks.put(key(i % 2000), value).unwrap();
        if i == 2000 {
            ks.compact_range(None, None).unwrap();
        }
    }
    db.wait_idle().unwrap();
}

/// Overwriting leaves zones with little live data. `zone-per-level` cleaned them only when a write
/// did not fit. The store refused puts before any write got that far, forever, on a drive that was
/// one third full. Now cleaning begins before only the reserve is left.
#[test]
fn dead_space_is_space() {
    let stage = seeded(28, 6);
    let placement = PlacementKind::by_name("zone-per-level").unwrap();
    let disk = Arc::clone(&stage.disk) as Arc<dyn Disk>;
    let files = FileLayer::format(disk, &FormatOptions::new(placement), &stage.runtime).unwrap();
    stage.runtime.scheduler.spawn(files.clean_job());
    let db = Db::open(Arc::new(files.clone()), stage.runtime, small()).unwrap();
    let mut prng = Prng::new(6);
    let mut value = [0; 500];
    for _ in 0..60_000 {
        prng.fill(&mut value);
        db.default_keyspace().put(key(prng.below(16_000)), value).unwrap();
    }
    assert!(files.stats().cleaned_zones > 0);
    assert!(db.check().unwrap().is_sound());
}

/// Moves a row from one keyspace to another and drops the first, once a memtable was flushed.
struct Move {
    db: Arc<OnceLock<Db>>,
    done: Arc<OnceLock<[Result<(), EngineError>; 2]>>,
}

impl Job for Move {
    fn name(&self) -> &'static str {
        "move"
    }

    fn step(&mut self, _budget: Budget) -> Step {
        let Some(db) = self.db.get().filter(|db| db.metrics().flush_count > 0) else {
            return Step::Wait;
        };
        db.default_keyspace().put_with("row", "precious", WriteOptions::SYNC).unwrap();
        let dropped = db.drop_keyspace("b");
        let created = db.create_keyspace("c", small_keyspace()).map(drop);
        self.done.set([dropped, created]).unwrap();
        Step::Done
    }
}

/// Writes wait for the moment of a checkpoint to pass, but keyspaces could be created and dropped
/// meanwhile. The checkpoint then held neither the row, which was written after that moment, nor
/// the keyspace in which it had been.
#[test]
fn a_checkpoint_beside_a_drop_is_of_one_moment() {
    let stage = zoned(96, Order::SmallestTime);
    let (db, done) = (Arc::new(OnceLock::new()), Arc::new(OnceLock::new()));
    // The oldest of the jobs due at one time runs first: before the second flush.
    let job = Move { db: Arc::clone(&db), done: Arc::clone(&done) };
    stage.runtime.scheduler.spawn(Box::new(job));
    let db = db.get_or_init(|| stage.create(small()));
    let b = db.create_keyspace("b", small_keyspace()).unwrap();
    db.default_keyspace().put("old", "1").unwrap();
    b.put("row", "precious").unwrap();
    db.checkpoint("copy").unwrap();
    let done = done.get().expect("the row was moved during the checkpoint");
    assert!(done.iter().all(|done| matches!(done, Err(EngineError::Stalled { .. }))), "{done:?}");
    let copy = db.open_checkpoint("copy").unwrap();
    assert_eq!(copy.keyspace_names(), ["default", "b"]);
    assert_eq!(copy.default_keyspace().get("row").unwrap(), None);
    assert_eq!(copy.keyspace("b").unwrap().get("row").unwrap().unwrap(), "precious");
    db.drop_keyspace("b").unwrap();
    db.create_keyspace("c", small_keyspace()).unwrap();
}

/// A drive whose store lost power before its second log had a frame, and the number of writes in
/// its first log.
fn with_two_logs(options: &Options) -> (Arc<SimDisk>, Runtime, Vec<FileInfo>, usize) {
    let disk = Arc::new(SimDisk::tiny_conventional(Blocks::new(16 << 10)));
    let (runtime, world) = Runtime::virtual_time(Order::SmallestTime);
    let format = FormatOptions::new(PlacementKind::by_name("first-fit").unwrap());
    let files = FileLayer::format(Arc::clone(&disk) as Arc<dyn Disk>, &format, &runtime).unwrap();
    let options = Options { background_work: false, ..options.clone() };
    let db = Db::open(Arc::new(files.clone()), runtime.clone(), options).unwrap();
    let logs = || -> Vec<FileInfo> {
        files.list("").into_iter().filter(|file| file.name.ends_with(".log")).collect()
    };
    let count = (0..1000)
        .find(|&number| {
            db.default_keyspace().put(key(number), [7; 900]).unwrap();
            logs().len() == 2
        })
        .unwrap();
    let logs = logs();
    disk.cut_power();
    world.drop_jobs();
    drop((db, files));
    disk.power_cycle(&mut Prng::new(1)).unwrap();
    (disk, runtime, logs, count as usize)
}

fn open_again(disk: &Arc<SimDisk>, runtime: Runtime) -> Result<Db, EngineError> {
    let files = FileLayer::open(Arc::clone(disk) as Arc<dyn Disk>, &runtime).unwrap();
    Db::open(Arc::new(files), runtime, Options { background_work: false, ..small() })
}

/// The last frame of a synced log is damaged, and the next log has no frame that would reveal the
/// gap. The store was opened without the writes of that frame.
#[test]
fn a_finished_log_that_lost_its_end_is_damage() {
    let (disk, runtime, logs, _) = with_two_logs(&small());
    let mut last_frame = None;
    for extent in &logs[0].extents {
        for n in 0..extent.len.get() {
            let mut block = vec![0; BLOCK_LEN_BYTES];
            disk.read(extent.start + Blocks::new(n), &mut block).unwrap();
            if block.starts_with(b"RLOG") {
                last_frame = Some(extent.start + Blocks::new(n));
            }
        }
    }
    let at = last_frame.unwrap();
    disk.write(at, &vec![0; BLOCK_LEN_BYTES], Persist::Through).unwrap();
    let error = open_again(&disk, runtime).unwrap_err();
    assert!(matches!(error, EngineError::Corrupt { structure: "log", .. }), "{error}");
}

/// A log that may become a table is not finished when its successor begins: its file is longer than
/// the log. That must hold with any options of the next opening.
#[test]
fn a_log_that_may_become_a_table_ends_before_its_file() {
    let (disk, runtime, _, count) = with_two_logs(&Options { logs_are_tables: true, ..small() });
    let db = open_again(&disk, runtime).unwrap();
    assert_eq!(db.default_keyspace().prefix("key").unwrap().count(), count);
}

/// A store in which a put has just found no space for its log.
fn refused_its_log() -> (Arc<Crowded>, Db) {
    let stage = zoned(96, Order::SmallestTime);
    let files = Crowded::new(stage.format());
    let db = Db::open(Arc::clone(&files) as _, stage.runtime, small()).unwrap();
    let ks = db.default_keyspace();
    ks.put("a", "b").unwrap();
    // Before and after the flush that the put waits for.
    files.refused_log_count.store(2, Ordering::SeqCst);
    let refused = (0..1000).find_map(|n| ks.put(key(n), [7; 900]).err()).unwrap();
    assert!(refused.is_no_space(), "{refused}");
    (files, db)
}

/// A put that found no space for its log switched off background flushes, which had plenty of
/// space. Two memtables later, writers waited for a flush that no job tried.
#[test]
fn a_refused_log_stops_no_flush() {
    let (_, db) = refused_its_log();
    let ks = db.default_keyspace();
    for n in 0..400 {
        ks.put(key(n), [8; 900]).unwrap();
    }
    assert!(db.metrics().flush_count > 2, "{}", db.metrics().flush_count);
    assert!(db.check().unwrap().is_sound());
}

/// A flush fails for want of space on a drive that reports free space. The background waited until
/// there was more, and writers waited for the background, forever. Now a writer that needs the
/// flush tries it, and returns its result.
#[test]
fn a_flush_that_finds_no_place_refuses_writes_and_holds_nobody() {
    let stage = zoned(96, Order::SmallestTime);
    let files = Crowded::new(stage.format());
    let db = Db::open(Arc::clone(&files) as _, stage.runtime, small()).unwrap();
    let ks = db.default_keyspace();
    files.refuses_from_level.store(0, Ordering::SeqCst);
    let count = (0..1000).find(|&n| match ks.put(key(n), [7; 900]) {
        Ok(()) => false,
        Err(error) => {
            assert!(error.is_no_space(), "{error}");
            true
        }
    });
    let count = count.expect("two memtables are all that is taken without a flush");
    for _ in 0..3 {
        let refused = ks.put("more", "of it").unwrap_err();
        assert!(refused.is_no_space(), "{refused}");
        let refused = ks.delete(key(1)).unwrap_err();
        assert!(refused.is_no_space(), "{refused}");
    }
    files.refuses_from_level.store(u8::MAX, Ordering::SeqCst);
    for n in count..count + 400 {
        ks.put(key(n), [7; 900]).unwrap();
    }
    db.wait_idle().unwrap();
    assert_eq!(ks.prefix("key").unwrap().count() as u64, count + 400);
    assert!(db.check().unwrap().is_sound());
}

/// A row was moved from one keyspace to another, unsynced, and the first was dropped, which is
/// durable at once. A power cut took the row and left the drop. Now everything written before a
/// keyspace is created or dropped becomes durable with it.
#[test]
fn a_keyspace_comes_and_goes_after_what_was_written_before() {
    for drops in [true, false] {
        let stage = zoned(40, Order::SmallestTime);
        let db = stage.create(small());
        let b = db.create_keyspace("b", small_keyspace()).unwrap();
        b.put_with("row", "precious", WriteOptions::SYNC).unwrap();
        drop(b);
        db.default_keyspace().put("row", "precious").unwrap();
        if drops {
            db.drop_keyspace("b").unwrap();
        } else {
            db.create_keyspace("c", small_keyspace()).unwrap();
        }
        stage.crash(db, &mut Prng::new(3));
        let db = stage.reopen(small()).unwrap();
        let names: &[&str] = if drops { &["default"] } else { &["default", "b", "c"] };
        assert_eq!(db.keyspace_names(), names);
        let row = db.default_keyspace().get("row").unwrap();
        assert_eq!(row.as_deref(), Some(&b"precious"[..]), "drops: {drops}");
    }
}

/// Deletes from `b` until its drop has begun, then once with a batch that also writes to another
/// keyspace.
struct Delete {
    db: Db,
    answer: Arc<OnceLock<Result<(), EngineError>>>,
}

impl Job for Delete {
    fn name(&self) -> &'static str {
        "delete"
    }

    fn step(&mut self, _budget: Budget) -> Step {
        let Ok(b) = self.db.keyspace("b") else { return Step::Done };
        if b.delete("none").is_ok() {
            return Step::More;
        }
        let mut batch = WriteBatch::new();
        batch.put(self.db.default_keyspace(), "row", "precious").unwrap();
        batch.delete(&b, "row").unwrap();
        self.answer.set(self.db.write(batch, WriteOptions::default())).unwrap();
        Step::Done
    }
}

/// A drop waits for a compaction. From then on, single writes to the keyspace were refused, but
/// batches were not. A batch came after the sync of the drop, and a power cut left the drop and
/// took the batch.
#[test]
fn a_batch_to_a_keyspace_that_is_being_dropped_is_refused() {
    let mut answer_count = 0;
    for seed in 0..20 {
        let mut stage = seeded(40, seed);
        let order = Order::Seeded(Prng::new(seed));
        // Steps so small that a compaction takes many of them.
        stage.world = Arc::new(VirtualWorld::with_budget(order, Budget { io_bytes: 4 << 10 }));
        stage.runtime = stage.world.runtime();
        let db = stage.create(small());
        let b = db.create_keyspace("b", small_keyspace()).unwrap();
        // Until a compaction is due.
        for run in 0..3 {
            for n in 0..80 {
                b.put(key(n), [run; 700]).unwrap();
            }
            db.flush().unwrap();
        }
        let answer = Arc::new(OnceLock::new());
        let job = Delete { db: db.clone(), answer: Arc::clone(&answer) };
        stage.runtime.scheduler.spawn(Box::new(job));
        db.drop_keyspace("b").unwrap();
        if let Some(answer) = answer.get() {
            assert!(matches!(answer, Err(EngineError::NoKeyspace { .. })), "{answer:?}");
            answer_count += 1;
        }
    }
    assert!(answer_count > 0, "no drop waited for a compaction");
}

/// A store is killed with a log newer than any commit. When it was opened for reading, the check
/// reported damage: the log's number was beyond the counter, which only an opening for writing
/// moves on.
#[test]
fn the_newest_log_of_a_store_opened_to_be_read_is_no_damage() {
    for open_mode in [OpenMode::ReadOnly, OpenMode::ReadOnlyInPart, OpenMode::Salvage] {
        let stage = zoned(40, Order::SmallestTime);
        let db = stage.create(small());
        db.default_keyspace().put_with("a", "b", WriteOptions::SYNC).unwrap();
        stage.crash(db, &mut Prng::new(8));
        let db = stage.reopen(Options { open_mode, ..small() }).unwrap();
        assert_eq!(db.default_keyspace().get("a").unwrap().unwrap(), "b");
        let report = db.check().unwrap();
        assert!(report.is_sound() && report.log_count == 1, "{open_mode:?}: {report}");
    }
}

/// The tables of a checkpoint were never checked: a block of one, or a whole table, could be
/// missing without a finding.
#[test]
fn a_check_reads_what_only_a_checkpoint_has() {
    for removes in [false, true] {
        let stage = seeded(96, 1);
        let files = stage.format();
        let db = Db::open(Arc::clone(&files), stage.runtime.clone(), small()).unwrap();
        overwrite_a_checkpoint(&db, 1000);
        let report = db.check().unwrap();
        assert!(report.is_sound() && report.checkpoint_count == 1, "{report}");
        assert_eq!(report.entry_count, 2000, "those of the checkpoint and those of now");
        let file = files.list("checkpoint/").remove(0);
        if removes {
            let remove = vec![file.name.clone()];
            files.commit(Commit { remove, ..Commit::default() }).unwrap();
        } else {
            stage.disk.damage(BlockRange::new(file.extents[0].start, Blocks::new(1)));
        }
        let report = db.check().unwrap();
        let is_told = report.findings.iter().any(|finding| finding.contains(&file.name));
        assert!(is_told, "removes: {removes}: {report}");
    }
}

/// A log ended only when a memtable was full, and its length did not count before. Eight keyspaces
/// written in turn had a log of eight memtables, whatever the limit.
#[test]
fn keyspaces_that_share_a_log_keep_to_its_limit() {
    const LIMIT_BYTES: u64 = 2 << 20;
    let stage = zoned(200, Order::SmallestTime);
    let files = stage.format();
    let options =
        Options { memtable_len_bytes: 1 << 20, log_len_bytes_max: LIMIT_BYTES, ..small() };
    let db = Db::open(Arc::clone(&files), stage.runtime.clone(), options).unwrap();
    let logs_len_bytes = || -> u64 {
        let files = files.list("").into_iter();
        files.filter(|file| file.name.ends_with(".log")).map(|file| file.len_bytes).sum()
    };
    let (mut prng, mut value) = (Prng::new(1), vec![0; 30 << 10]);
    let mut most_bytes = 0;
    for n in 0..8 {
        let ks = db.create_keyspace(&format!("of {n}"), small_keyspace()).unwrap();
        // Nine tenths of a memtable together.
        for row in 0..30 {
            prng.fill(&mut value);
            ks.put(key(row), &value).unwrap();
            most_bytes = most_bytes.max(logs_len_bytes());
        }
        db.wait_idle().unwrap();
    }
    assert!(LIMIT_BYTES < most_bytes && most_bytes < 2 * LIMIT_BYTES, "{most_bytes} bytes of logs");
    assert!(db.metrics().flush_count > 0, "no memtable was full, but they were flushed");
    for name in db.keyspace_names().iter().filter(|name| name.starts_with("of")) {
        assert_eq!(db.keyspace(name).unwrap().prefix("key").unwrap().count(), 30, "{name}");
    }
    assert!(db.check().unwrap().is_sound());
}

/// A store was poisoned while a writer was between the gate and the lock. The writer checked only
/// whether the store was closed, and its write was acknowledged.
#[test]
fn a_write_on_its_way_to_a_store_that_is_given_up_is_refused() {
    for is_batch in [false, true] {
        let (files, db) = refused_its_log();
        let ks = db.default_keyspace();
        // So that the next write looks for space, at the gate.
        *files.gives_up.lock().unwrap() = Some(db.clone());
        let written = if is_batch {
            let mut batch = WriteBatch::new();
            batch.put(&ks, "late", "write").unwrap();
            db.write(batch, WriteOptions::default())
        } else {
            ks.put("late", "write")
        };
        let refused = written.unwrap_err();
        assert!(matches!(refused, EngineError::Poisoned { .. }), "{refused}");
        assert_eq!(ks.get("late").unwrap(), None);
    }
}

/// No manual compaction looked at the last level. Deletes that a snapshot had kept there stayed
/// forever, with everything that they hide.
#[test]
fn deletes_in_the_last_level_of_all_go() {
    let stage = seeded(96, 9);
    let keyspace = KeyspaceOptions {
        table_len_bytes: 4096,
        base_level_len_bytes: 4096,
        level_factor: 2,
        ..small_keyspace()
    };
    let db = stage.create(Options { keyspace, ..small() });
    let ks = db.default_keyspace();
    let (mut prng, mut value) = (Prng::new(9), [0; 1000]);
    for n in 0..500 {
        prng.fill(&mut value);
        ks.put(key(n), value).unwrap();
    }
    db.wait_idle().unwrap();
    assert_eq!(db.metrics().keyspaces[0].levels.last().unwrap().level, 6);
    let snapshot = db.snapshot();
    ks.delete_range("a".."z").unwrap();
    ks.compact_range(None, None).unwrap();
    assert_eq!(ks.get_at(&snapshot, key(7)).unwrap().map(|value| value.len()), Some(1000));
    assert!(db.check().unwrap().table_count > 0);
    drop(snapshot);
    ks.compact_range(None, None).unwrap();
    let report = db.check().unwrap();
    assert!(report.is_sound() && report.table_count == 0, "{report}");
}

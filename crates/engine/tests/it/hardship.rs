//! A drive that is full when a store is opened, and a drive that sometimes cannot read.

use crate::bands::Crowded;
use crate::stage::{key, seeded, small};
use imbrex_clockwork::{Order, Prng, Runtime};
use imbrex_disk::{Blocks, Disk, Geometry, GeometrySpec, Rule};
use imbrex_disk_sim::{FailAt, FaultPlan, SimDisk};
use imbrex_engine::{
    Db, EngineError, Keyspace, KeyspaceOptions, Options, Pins, ReadOptions, WriteBatch,
    WriteOptions,
};
use imbrex_files::{
    Commit, CommitKind, FileBuffer, FileKind, FileLayer, Files, FormatOptions, Hints,
};
use imbrex_files::{FilesError, PlacementKind};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Fills the free space of the drive, then frees the space of two memtables.
fn fill_with_ballast(files: &dyn Files) {
    let mut names = ballast(files);
    names.truncate(2);
    files.commit(Commit { remove: names, ..Commit::default() }).unwrap();
}

/// Fills the free space of the drive; returns the names of the files.
pub(crate) fn ballast(files: &dyn Files) -> Vec<String> {
    let hints = Hints { purpose: CommitKind::Upkeep, ..Hints::new(FileKind::Other) };
    let mut names = Vec::new();
    for piece_len_bytes in [64 << 10, 4 << 10] {
        loop {
            let name = format!("ballast-{}", names.len());
            let mut file = FileBuffer::new(&name, hints);
            file.append(&vec![7; piece_len_bytes]);
            match files.persist(vec![file]) {
                Ok(add) => files.commit(Commit { add, ..Commit::default() }).unwrap(),
                Err(FilesError::NoSpace { .. }) => break,
                Err(error) => panic!("{error}"),
            }
            names.push(name);
        }
    }
    names
}

/// A store is killed with eight memtables in its logs, on a drive with room for two. The tables of
/// all logs do not fit in addition to the logs, but recovery needed room for all of them at once.
/// Now each log makes room for the next, and the power may fail between any two.
#[test]
fn a_store_on_a_full_drive_is_opened() {
    let (runtime, world) = Runtime::virtual_time(Order::SmallestTime);
    let geometry = GeometrySpec { len: Blocks::new(2560), rule: Rule::Anywhere };
    let disk = SimDisk::builder(Geometry::new(geometry).unwrap()).write_cache(Blocks::new(64));
    let disk = Arc::new(disk.memory().unwrap());
    let as_disk = || Arc::clone(&disk) as Arc<dyn Disk>;
    let placement = FormatOptions::new(PlacementKind::by_name("first-fit").unwrap());
    let files = FileLayer::format(as_disk(), &placement, &runtime).unwrap();
    let keyspace = KeyspaceOptions { table_len_bytes: 256 << 10, ..small().keyspace };
    let options = || Options {
        background_work: false,
        immutable_memtable_count_max: 16,
        keyspace: keyspace.clone(),
        ..small()
    };
    let db = Db::open(Arc::new(files.clone()), runtime.clone(), options()).unwrap();
    let mut prng = Prng::new(1);
    let mut values = Vec::new();
    for n in 0..500 {
        let mut value = vec![0; 1000];
        prng.fill(&mut value);
        db.default_keyspace().put(key(n), &value).unwrap();
        values.push(value);
    }
    db.sync().unwrap();
    fill_with_ballast(&files);
    let mut cut_count = 0;
    let mut db = Some(db);
    let recovered = loop {
        disk.cut_power();
        world.drop_jobs();
        drop(db.take());
        disk.power_cycle(&mut prng).unwrap();
        let files: Arc<dyn Files> = Arc::new(FileLayer::open(as_disk(), &runtime).unwrap());
        let power_cut_after = (cut_count < 12).then_some(cut_count * 3);
        disk.set_faults(FaultPlan { power_cut_after, ..FaultPlan::default() });
        match Db::open(files, runtime.clone(), options()) {
            Ok(db) => break db,
            Err(error) => assert!(power_cut_after.is_some(), "{error}"),
        }
        cut_count += 1;
    };
    assert!(cut_count > 4, "only {cut_count} cuts");
    for (n, value) in values.iter().enumerate() {
        let got = recovered.default_keyspace().get(key(n as u64)).unwrap();
        assert_eq!(got.as_deref(), Some(&value[..]), "key {n}");
    }
    let report = recovered.check().unwrap();
    let findings: Vec<_> =
        report.findings.iter().filter(|finding| !finding.contains("ballast")).collect();
    assert!(findings.is_empty(), "{findings:?}");
}

fn write_until_error(db: &Db, prng: &mut Prng, count: u64) -> Result<(), EngineError> {
    let mut value = [0; 500];
    for _ in 0..count {
        prng.fill(&mut value);
        db.default_keyspace().put(key(prng.below(2000)), value)?;
    }
    Ok(())
}

/// One read of a compaction fails, as can happen on a drive. That ended all writing until the store
/// was opened again, although nothing was in doubt. Now the compaction is tried again.
#[test]
fn a_compaction_that_cannot_read_is_made_again() {
    let mut failure_count = 0;
    for seed in 0..16 {
        let stage = seeded(60, seed);
        let mut prng = Prng::new(seed);
        // If logs are tables, values are read separately from keys.
        let db = stage.create(Options { logs_are_tables: seed % 2 == 1, ..small() });
        write_until_error(&db, &mut prng, 1000).unwrap();
        let fail_read = Some(FailAt { after: prng.below(200), sticky: false });
        stage.disk.set_faults(FaultPlan { fail_read, ..FaultPlan::default() });
        write_until_error(&db, &mut prng, 2000).unwrap();
        db.wait_idle().unwrap();
        assert!(db.check().unwrap().is_sound(), "seed {seed}");
        failure_count += db.metrics().compaction_read_failure_count;
    }
    assert!(failure_count > 6, "only {failure_count} compactions met the failure");
}

/// A drive that never reads again is not tried forever.
#[test]
fn a_compaction_that_can_never_read_stops_the_store() {
    let stage = seeded(60, 1);
    let mut prng = Prng::new(1);
    let db = stage.create(small());
    let fail_read = Some(FailAt { after: 0, sticky: true });
    stage.disk.set_faults(FaultPlan { fail_read, ..FaultPlan::default() });
    let error = write_until_error(&db, &mut prng, 20_000).unwrap_err();
    assert!(matches!(error, EngineError::Poisoned { .. }), "{error}");
    assert_eq!(db.metrics().compaction_read_failure_count, 2);
}

/// After a compaction met damage, the store's advice was to open it again, which repairs nothing.
#[test]
fn damage_that_a_compaction_meets_is_told_with_what_to_do() {
    let stage = seeded(60, 2);
    let files = stage.format();
    let db = Db::open(Arc::clone(&files), stage.runtime.clone(), small()).unwrap();
    let mut prng = Prng::new(2);
    write_until_error(&db, &mut prng, 1000).unwrap();
    db.wait_idle().unwrap();
    for file in files.list("").iter().filter(|file| file.name.ends_with(".tbl")) {
        file.extents.iter().for_each(|&extent| stage.disk.damage(extent));
    }
    let error = write_until_error(&db, &mut prng, 20_000).unwrap_err();
    assert!(matches!(error, EngineError::Poisoned { .. }), "{error}");
    assert!(error.to_string().contains("OpenMode::Salvage"), "{error}");
}

/// Each batch much longer than a memtable is written whole, as one log and one memtable. The last
/// one took the room that the table of the one before needed, and the store could not be opened
/// again.
#[test]
fn a_batch_longer_than_a_memtable_leaves_room_for_the_one_before() {
    let (runtime, world) = Runtime::virtual_time(Order::SmallestTime);
    let geometry = GeometrySpec { len: Blocks::new(512), rule: Rule::Anywhere };
    let disk = SimDisk::builder(Geometry::new(geometry).unwrap());
    let disk = Arc::new(disk.memory().unwrap());
    let as_disk = || Arc::clone(&disk) as Arc<dyn Disk>;
    let placement = FormatOptions::new(PlacementKind::by_name("first-fit").unwrap());
    let files = FileLayer::format(as_disk(), &placement, &runtime).unwrap();
    let options =
        || Options { background_work: false, immutable_memtable_count_max: 16, ..small() };
    let db = Db::open(Arc::new(files), runtime.clone(), options()).unwrap();
    let mut prng = Prng::new(1);
    let mut written = 0;
    let refused = loop {
        let mut batch = WriteBatch::new();
        for n in 0..100 {
            let mut value = vec![0; 2000];
            prng.fill(&mut value);
            batch.put(db.default_keyspace(), key(written * 100 + n), value).unwrap();
        }
        match db.write(batch, WriteOptions::SYNC) {
            Ok(()) => written += 1,
            Err(error) => break error,
        }
    };
    assert!(refused.is_no_space() && written > 0, "{written} written: {refused}");
    world.drop_jobs();
    drop(db);
    let files: Arc<dyn Files> = Arc::new(FileLayer::open(as_disk(), &runtime).unwrap());
    let db = Db::open(files, runtime, options()).unwrap();
    for n in 0..written * 100 {
        assert!(db.default_keyspace().get(key(n)).unwrap().is_some(), "key {n} is lost");
    }
}

/// Memtables found room on the drive, but the compaction that level 0 waits for did not, because all
/// of level 1 was one table. The error reported that less was needed than was free.
#[test]
fn a_refusal_names_more_than_is_free() {
    let stage = seeded(40, 5);
    let files = stage.format();
    let keyspace = KeyspaceOptions {
        table_len_bytes: 32 << 20,
        base_level_len_bytes: 64 << 20,
        ..small().keyspace
    };
    let options = Options { memtable_len_bytes: 512 << 10, keyspace, ..small() };
    let db = Db::open(files, stage.runtime.clone(), options).unwrap();
    let mut prng = Prng::new(5);
    let mut value = [0; 900];
    let refusal = (0..100_000).find_map(|n| {
        prng.fill(&mut value);
        db.default_keyspace().put(key((n * 7919) % 50_000), value).err()
    });
    let Some(EngineError::NoSpace { needed_bytes, free_bytes, .. }) = refusal else {
        panic!("{refusal:?}");
    };
    assert!(needed_bytes > free_bytes, "{needed_bytes} needed, {free_bytes} free");
}

/// A drive of 40 MiB with files that can be crowded.
fn small_drive() -> (Runtime, Arc<Crowded>) {
    let (runtime, _) = Runtime::virtual_time(Order::SmallestTime);
    let geometry = GeometrySpec { len: Blocks::new(40 * 256), rule: Rule::Anywhere };
    let disk = SimDisk::builder(Geometry::new(geometry).unwrap()).memory().unwrap();
    let placement = FormatOptions::new(PlacementKind::by_name("first-fit").unwrap());
    let files = FileLayer::format(Arc::new(disk), &placement, &runtime).unwrap();
    (runtime, Crowded::new(Arc::new(files)))
}

/// Overwrites the first `key_count` keys in turn until a put is refused.
fn overwrite(
    ks: &Keyspace,
    prng: &mut Prng,
    key_count: u64,
    count: u64,
) -> Result<(), EngineError> {
    let mut value = [0; 900];
    (0..count).try_for_each(|n| {
        prng.fill(&mut value);
        ks.put(key(n * 7919 % key_count), value)
    })
}

fn assert_waits_for_compaction(refused: &EngineError) {
    let EngineError::NoSpace { place, needed_bytes, free_bytes, .. } = refused else {
        panic!("{refused}");
    };
    assert_eq!(*place, "for a compaction", "{needed_bytes} needed, {free_bytes} free");
}

/// An iterator keeps tables that were merged long ago, and writes find no room next to them. When the iterator was dropped its space was freed without an event.
/// Puts had been refused before that, and stayed refused forever. Now a refused writer looks for
/// space (R3).
#[test]
fn space_that_a_reader_gave_back_is_found() {
    const KEY_COUNT: u64 = 21_000;
    let (runtime, files) = small_drive();
    let keyspace = KeyspaceOptions {
        table_len_bytes: 32 << 20,
        base_level_len_bytes: 64 << 20,
        ..small().keyspace
    };
    let options = Options { memtable_len_bytes: 512 << 10, keyspace, ..small() };
    let db = Db::open(files, runtime, options).unwrap();
    let (ks, mut prng) = (db.default_keyspace(), Prng::new(6));
    overwrite(&ks, &mut prng, KEY_COUNT, KEY_COUNT).unwrap();
    ks.compact_range(None, None).unwrap();
    let iter = ks.iter(ReadOptions::default()).unwrap();
    let refused = overwrite(&ks, &mut prng, KEY_COUNT, 100_000).unwrap_err();
    assert!(refused.is_no_space(), "{refused}");
    assert!(ks.put("once", "more").unwrap_err().is_no_space());
    drop(iter);
    overwrite(&ks, &mut prng, KEY_COUNT, 10_000).unwrap();
    assert_eq!(ks.prefix("key").unwrap().count() as u64, KEY_COUNT);
    assert!(db.check().unwrap().is_sound());
}

/// A refusal tells what checkpoints and snapshots keep: without that, an operator deletes data and gains nothing.
#[test]
fn a_refusal_tells_what_checkpoints_and_snapshots_keep() {
    const KEY_COUNT: u64 = 15_000;
    let (runtime, files) = small_drive();
    let keyspace = KeyspaceOptions { table_len_bytes: 512 << 10, ..small().keyspace };
    let options = Options { memtable_len_bytes: 512 << 10, keyspace, ..small() };
    let db = Db::open(files, runtime, options).unwrap();
    let (ks, mut prng) = (db.default_keyspace(), Prng::new(7));
    overwrite(&ks, &mut prng, KEY_COUNT, KEY_COUNT).unwrap();
    db.checkpoint("before").unwrap();
    db.checkpoint("again").unwrap();
    assert_eq!(db.pins().checkpoints_len_bytes, 0, "the store has the same tables");
    let snapshot = db.snapshot();
    let refused = overwrite(&ks, &mut prng, KEY_COUNT, 100_000).unwrap_err();
    let told = refused.to_string();
    assert!(told.contains("are live only for checkpoints"), "{told}");
    assert!(told.contains("snapshots that are open keep up to"), "{told}");
    let pins = db.pins();
    assert!(pins.checkpoints_len_bytes > 10 << 20, "{pins:?}");
    assert!(
        pins.checkpoints.iter().all(|kept| kept.own_len_bytes == 0),
        "both have each: {pins:?}"
    );
    drop(snapshot);
    db.delete_checkpoint("again").unwrap();
    let alone = db.pins();
    assert_eq!(alone.checkpoints[0].own_len_bytes, alone.checkpoints_len_bytes, "{alone:?}");
    assert_eq!((alone.snapshot_count, alone.since_snapshot_bytes), (0, 0));
    db.delete_checkpoint("before").unwrap();
    assert_eq!(db.pins(), Pins::default());
    overwrite(&ks, &mut prng, KEY_COUNT, 10_000).unwrap();
}

/// As above, but compactions had room to begin and not to finish. Each further one was smaller,
/// until none was small enough. That limit stayed until a commit, but no commit was possible.
#[test]
fn compactions_that_failed_are_tried_again_with_more_space() {
    const KEY_COUNT: u64 = 4000;
    let (runtime, files) = small_drive();
    let db = Db::open(Arc::clone(&files) as _, runtime, small()).unwrap();
    let (ks, mut prng) = (db.default_keyspace(), Prng::new(7));
    overwrite(&ks, &mut prng, KEY_COUNT, KEY_COUNT).unwrap();
    db.wait_idle().unwrap();
    let iter = ks.iter(ReadOptions::default()).unwrap();
    overwrite(&ks, &mut prng, KEY_COUNT, KEY_COUNT).unwrap();
    files.refuses_from_level.store(1, Ordering::SeqCst);
    let refused = overwrite(&ks, &mut prng, KEY_COUNT, 100_000).unwrap_err();
    assert_waits_for_compaction(&refused);
    files.refuses_from_level.store(u8::MAX, Ordering::SeqCst);
    // No space was freed, so nothing is tried.
    assert_waits_for_compaction(&ks.put("once", "more").unwrap_err());
    drop(iter);
    overwrite(&ks, &mut prng, KEY_COUNT, 10_000).unwrap();
    db.wait_idle().unwrap();
    assert_eq!(ks.prefix("key").unwrap().count() as u64, KEY_COUNT);
    assert!(db.check().unwrap().is_sound());
}

//! Drives without room for the tables of the logs: the store can be opened all the same.

use crate::hardship::ballast;
use crate::stage::{key, small};
use imbrex_clockwork::{Order, Prng, Runtime, VirtualWorld, seeds};
use imbrex_disk::{Blocks, Disk, Geometry, GeometrySpec, Rule};
use imbrex_disk_sim::{FaultPlan, SimDisk};
use imbrex_engine::{
    Db, EngineError, Keyspace, KeyspaceOptions, Options, WriteBatch, WriteOptions,
};
use imbrex_files::{Commit, FileLayer, Files, FormatOptions, PlacementKind};
use std::collections::BTreeMap;
use std::sync::Arc;

const KEYSPACE_COUNT: u64 = 4;

/// Values by keyspace and key.
type Rows = BTreeMap<(u64, Vec<u8>), Vec<u8>>;

/// A drive on which all files share the space.
struct Shared {
    runtime: Runtime,
    world: Arc<VirtualWorld>,
    disk: Arc<SimDisk>,
    prng: Prng,
}

impl Shared {
    /// A drive of `len_mib` MiB, and a store on it with several keyspaces besides the default one.
    fn new(len_mib: u64, seed: u64, options: &Options) -> (Shared, Arc<FileLayer>, Db) {
        let (runtime, world) = Runtime::virtual_time(Order::SmallestTime);
        let geometry = GeometrySpec { len: Blocks::new(len_mib * 256), rule: Rule::Anywhere };
        let disk = SimDisk::builder(Geometry::new(geometry).unwrap()).write_cache(Blocks::new(64));
        let disk = Arc::new(disk.memory().unwrap());
        let placement = FormatOptions::new(PlacementKind::by_name("first-fit").unwrap());
        let as_disk = Arc::clone(&disk) as Arc<dyn Disk>;
        let files = Arc::new(FileLayer::format(as_disk, &placement, &runtime).unwrap());
        let shared = Shared { runtime, world, disk, prng: Prng::new(seed) };
        let db = shared.open(&files, options).unwrap();
        for n in 1..KEYSPACE_COUNT {
            db.create_keyspace(&name(n), options.keyspace.clone()).unwrap();
        }
        (shared, files, db)
    }

    fn open(&self, files: &Arc<FileLayer>, options: &Options) -> Result<Db, EngineError> {
        Db::open(Arc::clone(files) as _, self.runtime.clone(), options.clone())
    }

    /// Kills the store, and loses what the drive had in its cache.
    fn crash(&mut self, db: Option<Db>) {
        self.disk.cut_power();
        self.world.drop_jobs();
        drop(db);
        self.disk.power_cycle(&mut self.prng).unwrap();
    }

    fn mount(&self) -> Arc<FileLayer> {
        let disk = Arc::clone(&self.disk) as Arc<dyn Disk>;
        Arc::new(FileLayer::open(disk, &self.runtime).unwrap())
    }

    /// Puts rows into randomly chosen keyspaces until a put is refused; calls `each` with the
    /// number of rows.
    fn fill(&mut self, db: &Db, rows: &mut Rows, mut each: impl FnMut(u64)) -> EngineError {
        let keyspaces = keyspaces(db);
        for n in 0..100_000 {
            each(n);
            let row = (self.prng.below(KEYSPACE_COUNT), key(n).to_vec());
            let value = self.value();
            if let Err(error) = keyspaces[row.0 as usize].put(&row.1, &value) {
                return error;
            }
            rows.insert(row, value);
        }
        panic!("the drive is never full");
    }

    fn value(&mut self) -> Vec<u8> {
        let mut value = vec![0; 900];
        self.prng.fill(&mut value);
        value
    }
}

fn name(n: u64) -> String {
    if n == 0 { "default".to_owned() } else { format!("of {n}") }
}

fn keyspaces(db: &Db) -> Vec<Keyspace> {
    (0..KEYSPACE_COUNT).map(|n| db.keyspace(&name(n)).unwrap()).collect()
}

fn assert_holds(db: &Db, rows: &Rows) {
    let found: usize = keyspaces(db).iter().map(|ks| ks.prefix("").unwrap().count()).sum();
    assert_eq!(found, rows.len());
    let keyspaces = keyspaces(db);
    for ((n, key), value) in rows {
        let got = keyspaces[*n as usize].get(key).unwrap();
        assert_eq!(got.as_deref(), Some(&value[..]), "{} of {n}", key.escape_ascii());
    }
}

fn unattended() -> Options {
    let keyspace = KeyspaceOptions { table_len_bytes: 256 << 10, ..small().keyspace };
    Options {
        background_work: false,
        immutable_memtable_count_max: 16,
        log_len_bytes_max: 16 << 20,
        keyspace,
        ..small()
    }
}

/// Checks that the store can be read and checked, and that a write is refused with the reason.
fn assert_takes_no_writes(db: &Db) {
    let ks = db.default_keyspace();
    let mut batch = WriteBatch::new();
    batch.delete(&ks, key(0)).unwrap();
    let refusals =
        [ks.put("more", "of it"), ks.delete(key(0)), db.write(batch, WriteOptions { sync: true })];
    for refused in refusals.map(Result::unwrap_err) {
        let told = refused.to_string();
        assert!(told.contains("for what the logs hold"), "{told}");
        assert!(told.contains("delete a checkpoint or a keyspace"), "{told}");
    }
    assert!(db.flush().unwrap_err().is_no_space());
    let report = db.check().unwrap();
    let findings = report.findings.iter().filter(|text| !text.contains("ballast"));
    assert_eq!(findings.collect::<Vec<_>>(), Vec::<&String>::new());
}

/// Other files take all room while the writes of four keyspaces are in the logs, the last of which
/// is torn. The store could then only be opened for reading, and so could never free the room
/// itself. Now the content of the logs is in memory: the store is read and checked, killed and
/// opened again, and written once there is room.
#[test]
fn logs_that_find_no_room_stay_and_are_read() {
    for seed in seeds(6) {
        let options = unattended();
        let (mut drive, files, db) = Shared::new(12, seed, &options);
        let mut rows = Rows::new();
        for n in 0..600 {
            let row = (n % KEYSPACE_COUNT, key(n).to_vec());
            let value = drive.value();
            keyspaces(&db)[row.0 as usize].put(&row.1, &value).unwrap();
            rows.insert(row, value);
        }
        db.sync().unwrap();
        let names = ballast(&*files);
        // Not synced: the drive chooses which of these are left.
        let last: Vec<Vec<u8>> = (0..12).map(|n| key(10_000 + n).to_vec()).collect();
        for key in &last {
            let _ = db.default_keyspace().put(key, drive.value());
        }
        drop(files);
        drive.crash(Some(db));
        for round in 0..3 {
            let files = drive.mount();
            let power_cut_after = Some(20 * round + seed);
            drive.disk.set_faults(FaultPlan { power_cut_after, ..FaultPlan::default() });
            let db = drive.open(&files, &options);
            drop(files);
            drive.crash(db.ok());
            drive.disk.set_faults(FaultPlan::default());
            let files = drive.mount();
            let db = drive.open(&files, &options).unwrap();
            assert!(db.recovery().kept_log_count > 0, "seed {seed}: {:?}", db.recovery());
            let mut there = rows.clone();
            for key in &last {
                let got = db.default_keyspace().get(key).unwrap();
                there.extend(got.map(|value| ((0, key.clone()), value.to_vec())));
            }
            assert_holds(&db, &there);
            rows = there;
            assert_takes_no_writes(&db);
            drop(files);
            drive.crash(Some(db));
        }
        let files = drive.mount();
        files.commit(Commit { remove: names, ..Commit::default() }).unwrap();
        drop(files);
        let files = drive.mount();
        let db = drive.open(&files, &options).unwrap();
        if db.recovery().kept_log_count > 0 {
            db.flush().unwrap();
        }
        let value = drive.value();
        for n in 0..100 {
            let row = (n % KEYSPACE_COUNT, key(20_000 + n).to_vec());
            keyspaces(&db)[row.0 as usize].put(&row.1, &value).unwrap();
            rows.insert(row, value.clone());
        }
        db.sync().unwrap();
        drop(files);
        drive.crash(Some(db));
        let files = drive.mount();
        let db = drive.open(&files, &options).unwrap();
        assert_eq!(db.recovery().kept_log_count, 0);
        assert_holds(&db, &rows);
        assert!(db.check().unwrap().findings.iter().all(|text| text.contains("ballast")));
    }
}

/// A store that was killed while the writes of four keyspaces were in its logs, on a drive full of
/// ballast. Returns the content of the keyspaces, and the names of the ballast files.
fn killed_on_a_full_drive(seed: u64, options: &Options) -> (Shared, Rows, Vec<String>) {
    let (mut drive, files, db) = Shared::new(12, seed, options);
    let mut rows = Rows::new();
    for n in 0..600 {
        let row = (n % KEYSPACE_COUNT, key(n).to_vec());
        let value = drive.value();
        keyspaces(&db)[row.0 as usize].put(&row.1, &value).unwrap();
        rows.insert(row, value);
    }
    db.sync().unwrap();
    let names = ballast(&*files);
    drop(files);
    drive.crash(Some(db));
    (drive, rows, names)
}

/// A cut before any log of this process was also before the kept logs. The memtables that waited to
/// be flushed were held back by it, and everything waited for the checkpoint.
#[test]
fn a_checkpoint_takes_what_kept_logs_hold() {
    for seed in seeds(3) {
        let options = unattended();
        let (drive, rows, names) = killed_on_a_full_drive(seed, &options);
        let files = drive.mount();
        let db = drive.open(&files, &options).unwrap();
        assert!(db.recovery().kept_log_count > 0, "seed {seed}");
        files.commit(Commit { remove: names, ..Commit::default() }).unwrap();
        db.checkpoint("held").unwrap();
        assert_holds(&db.open_checkpoint("held").unwrap(), &rows);
        db.default_keyspace().put("once", "more").unwrap();
        assert!(db.check().unwrap().is_sound());
    }
}

/// Space was freed without an event for the flush that had found none, and the next call waited for
/// it forever.
#[test]
fn a_flush_that_found_no_room_is_tried_when_there_is_some() {
    for makes_keyspace in [false, true] {
        let (drive, rows, names) = killed_on_a_full_drive(1, &unattended());
        let files = drive.mount();
        let db = drive.open(&files, &Options { background_work: true, ..unattended() }).unwrap();
        assert!(db.flush().unwrap_err().is_no_space());
        // A job that this woke looks for space, and rests.
        assert_holds(&db, &rows);
        files.commit(Commit { remove: names, ..Commit::default() }).unwrap();
        if makes_keyspace {
            db.create_keyspace("another", small().keyspace).unwrap();
        }
        db.flush().unwrap();
        assert_holds(&db, &rows);
        db.default_keyspace().put("once", "more").unwrap();
    }
}

/// A log whose content was in tables was removed but still open, so its blocks were not free for
/// the tables of the next log.
#[test]
fn a_log_that_is_in_tables_makes_room_for_the_next() {
    let mut kept = Vec::new();
    for room in 0..24 {
        let options = unattended();
        let (drive, rows, mut names) = killed_on_a_full_drive(1, &options);
        let files = drive.mount();
        names.truncate(room);
        files.commit(Commit { remove: names, ..Commit::default() }).unwrap();
        let db = drive.open(&files, &options).unwrap();
        kept.push((db.recovery().kept_log_count, db.recovery().log_count));
        assert_holds(&db, &rows);
    }
    // All logs are about equally long: the drive has room for the tables of any of them, or of
    // none.
    assert!(kept.iter().all(|&(kept, of)| kept == 0 || kept == of), "{kept:?}");
    assert!(kept[0].0 > 1 && kept[23].0 == 0, "{kept:?}");
}

fn attended() -> Options {
    let keyspace = KeyspaceOptions {
        table_len_bytes: 1 << 20,
        base_level_len_bytes: 8 << 20,
        ..small().keyspace
    };
    Options { memtable_len_bytes: 4 << 20, log_len_bytes_max: 16 << 20, keyspace, ..small() }
}

/// All keyspaces write one log, which ends when one memtable is full. Space was assessed only then,
/// and for two memtables, whatever was in memory. So writes spread over keyspaces were acknowledged
/// although no later opening had room for them.
#[test]
fn writes_to_many_keyspaces_leave_room_for_what_is_in_memory() {
    for seed in seeds(4) {
        let options = attended();
        let (mut drive, files, db) = Shared::new(40, seed, &options);
        let mut rows = Rows::new();
        assert!(drive.fill(&db, &mut rows, |_| ()).is_no_space());
        db.sync().unwrap();
        drop(files);
        drive.crash(Some(db));
        let files = drive.mount();
        let db = drive.open(&files, &options).unwrap();
        assert_eq!(db.recovery().kept_log_count, 0, "seed {seed}");
        assert_holds(&db, &rows);
    }
}

/// A checkpoint holds the space that compactions and deletes would free. Deletes were admitted
/// without looking at the drive until the log had taken all of it, and no later opening had room
/// for them.
#[test]
fn deletes_that_bring_nothing_back_end_while_they_find_room() {
    for seed in seeds(4) {
        let options = attended();
        let (mut drive, files, db) = Shared::new(40, seed, &options);
        let mut rows = Rows::new();
        drive.fill(&db, &mut rows, |count| {
            if count == 14_000 {
                db.checkpoint("held").unwrap();
            }
        });
        assert_eq!(db.checkpoints().len(), 1, "seed {seed}: full after {}", rows.len());
        let keyspaces_there = keyspaces(&db);
        let mut refused = None;
        // Deletes of absent keys as well: they take as much space.
        for n in 0..1_000_000 {
            let row = (drive.prng.below(KEYSPACE_COUNT), key(n).to_vec());
            if let Err(error) = keyspaces_there[row.0 as usize].delete(&row.1) {
                refused = Some(error);
                break;
            }
            rows.remove(&row);
        }
        db.sync().unwrap();
        drop((files, keyspaces_there));
        drive.crash(Some(db));
        let files = drive.mount();
        let db = drive.open(&files, &options).unwrap();
        assert_eq!(db.recovery().kept_log_count, 0, "seed {seed}");
        assert_holds(&db, &rows);
        assert!(refused.is_none_or(|error| error.is_no_space()));
        // With the space of the checkpoint, writes are admitted again.
        db.delete_checkpoint("held").unwrap();
        let value = drive.value();
        db.default_keyspace().put("once", &value).unwrap();
        rows.insert((0, b"once".to_vec()), value);
        assert_holds(&db, &rows);
        assert!(db.check().unwrap().is_sound());
    }
}

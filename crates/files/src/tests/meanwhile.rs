//! Concurrent operations during a request to the drive: each test states which, and when.

use super::stage::{
    Stage, Zones, assert_sound, conventional, put, put_upkeep, remove, shingled, table, verify,
    zoned,
};
use crate::space::{Claim, NoSpace, ZoneSpace};
use crate::{
    Commit, CommitKind, FileKind, FileLayer, Files, FilesError, Hints, PlacementOptions, UnitId,
};
use imbrex_clockwork::{Budget, Step};
use imbrex_disk::{
    BlockRange, Blocks, Disk, DiskError, DiskLayer, Lba, Persist, ZoneAction, ZoneId,
};
use imbrex_disk_sim::{FailAt, FaultPlan, SimDisk};
use parking_lot::Mutex;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, channel};

type Meanwhile = Box<dyn FnOnce() + Send>;

/// A disk that runs a callback before its next write, or before the next finish of a zone.
pub(crate) struct Interrupted {
    disk: Arc<SimDisk>,
    before_write: Mutex<Option<Meanwhile>>,
    before_finish: Mutex<Option<Meanwhile>>,
    finished: Mutex<Vec<ZoneId>>,
    /// How many discards fail.
    discards_fail: AtomicU32,
}

impl std::fmt::Debug for Interrupted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Interrupted").field(&self.disk).finish()
    }
}

impl Interrupted {
    pub(crate) fn new(disk: &Arc<SimDisk>) -> Arc<Interrupted> {
        Arc::new(Interrupted {
            disk: Arc::clone(disk),
            before_write: Mutex::default(),
            before_finish: Mutex::default(),
            finished: Mutex::default(),
            discards_fail: AtomicU32::default(),
        })
    }

    pub(crate) fn before_write(&self, meanwhile: impl FnOnce() + Send + 'static) {
        *self.before_write.lock() = Some(Box::new(meanwhile));
    }

    /// The next write reports its arrival, and waits until another one finds no room and takes its
    /// turn at making some.
    fn before_write_waits_for_make_room(&self, files: &FileLayer) -> Receiver<()> {
        let files = files.clone();
        let (at_write, is_there) = channel();
        self.before_write(move || {
            at_write.send(()).unwrap();
            // The count is for a writer that is refused at once.
            let has_turn = || files.inner.cleaner.turn.try_lock().is_none();
            (0..1_000_000).take_while(|_| !has_turn()).for_each(|_| std::thread::yield_now());
        });
        is_there
    }

    fn before_finish(&self, meanwhile: impl FnOnce() + Send + 'static) {
        *self.before_finish.lock() = Some(Box::new(meanwhile));
    }
}

/// The callback may issue the same requests; they do not run it again.
fn interrupt(by: &Mutex<Option<Meanwhile>>) {
    let meanwhile = by.lock().take();
    if let Some(meanwhile) = meanwhile {
        meanwhile();
    }
}

impl DiskLayer for Interrupted {
    fn below(&self) -> &dyn Disk {
        &*self.disk
    }

    fn pass_write(&self, at: Lba, data: &[u8], persist: Persist) -> Result<(), DiskError> {
        interrupt(&self.before_write);
        self.disk.write(at, data, persist)
    }
    fn pass_discard(&self, range: BlockRange) -> Result<(), DiskError> {
        let one_less = |count: u32| count.checked_sub(1);
        let left = self.discards_fail.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less);
        if left.is_ok() {
            let source = std::io::ErrorKind::Other.into();
            return Err(DiskError::Host { what: "discarding".to_owned(), source });
        }
        self.disk.discard(range)
    }
    fn pass_manage_zone(&self, zone: ZoneId, action: ZoneAction) -> Result<(), DiskError> {
        if action == ZoneAction::Finish {
            self.finished.lock().push(zone);
            interrupt(&self.before_finish);
        }
        self.disk.manage_zone(zone, action)
    }
}

/// A failed discard counted as done. Where tracks overlap, the drive still considered the blocks
/// valid and refused the next write near them. Where writes go anywhere no discard is needed.
#[test]
fn a_discard_that_fails_frees_nothing_and_is_tried_again() {
    let stage = conventional(1600, 0);
    drop(stage.format_small("first-fit").unwrap());
    let (disk, files) = opened(&stage);
    put(&files, "a", 20, 1).unwrap();
    remove(&files, &["a"]).unwrap();
    disk.discards_fail.store(u32::MAX, Ordering::SeqCst);
    put(&files, "b", 20, 1).unwrap();
    remove(&files, &["b"]).unwrap();
    put(&files, "c", 20, 1).unwrap();
    assert_sound(&files);

    let stage = shingled(1600, 8, 2, 0);
    drop(stage.format_small("dynamic-bands").unwrap());
    let (disk, files) = opened(&stage);
    for name in ["a", "b", "c"] {
        put(&files, name, 20, 1).unwrap();
    }
    let free_bytes = files.space().free_bytes;
    disk.discards_fail.store(1, Ordering::SeqCst);
    // Blocks that a commit frees are discarded after it, or before the next write.
    let _ = remove(&files, &["a", "b"]);
    let _ = put(&files, "d", 20, 1);
    assert_eq!(disk.discards_fail.load(Ordering::SeqCst), 0);
    for name in ["e", "f", "g"] {
        put(&files, name, 20, 1).unwrap();
    }
    for name in ["c", "e", "f", "g"] {
        verify(&files, name, name).unwrap();
    }
    assert!(files.space().free_bytes < free_bytes);
    assert_sound(&files);
}

/// The files of a drive with callbacks.
fn opened(stage: &Stage) -> (Arc<Interrupted>, FileLayer) {
    let disk = Interrupted::new(&stage.disk);
    let files = FileLayer::open(Arc::clone(&disk) as Arc<dyn Disk>, &stage.runtime).unwrap();
    (disk, files)
}

/// The unit in which a file begins.
fn unit_of(files: &FileLayer, name: &str) -> Option<UnitId> {
    files.unit_at(files.open(name).ok()?.extents().first()?.start)
}

/// A drive with one zone to clean, and a write of 800 blocks that fits only after that.
fn crowded() -> (Arc<Interrupted>, FileLayer) {
    let zones = Zones { count: 8, len: 1024, conventional: 1, active_limit: None };
    let stage = zoned(zones, 0);
    let options = PlacementOptions { free_percent_least: 100, ..PlacementOptions::default() };
    drop(stage.format_with("log-structured", options).unwrap());
    let (disk, files) = opened(&stage);
    for (name, blocks) in [("a", 600), ("b", 424), ("c", 4096)] {
        put(&files, name, blocks, 1).unwrap();
    }
    remove(&files, &["b"]).unwrap();
    (disk, files)
}

/// The cleaner was in its last step on the only zone worth cleaning. A write without room waited
/// for it and was then refused, though there was room.
#[test]
fn a_write_finds_the_room_that_the_cleaner_makes_meanwhile() {
    let (disk, files) = crowded();
    let mut cleaner = files.clean_job();
    let is_there = disk.before_write_waits_for_make_room(&files);
    std::thread::scope(|scope| {
        let cleaning = scope.spawn(|| {
            cleaner.step(Budget { io_bytes: u64::MAX });
            drop(disk.before_write.lock().take());
        });
        is_there.recv().unwrap();
        put(&files, "d", 800, 1).unwrap();
        cleaning.join().unwrap();
    });
    assert_eq!(files.stats().cleaned_zones, 1);
    for name in ["a", "c", "d"] {
        verify(&files, name, name).unwrap();
    }
    assert_sound(&files);
}

/// A cleaning that ended between the failed plan of a write and its request for room did not count.
#[test]
fn room_made_since_a_plan_failed_is_room() {
    let (_disk, files) = crowded();
    let (no_space, gains) = files.inner.space.with(|map| {
        let free = map.free();
        (NoSpace { needed: free + Blocks::new(200), free }, map.gains())
    });
    files.clean_job().step(Budget { io_bytes: u64::MAX });
    files.inner.cleaner.make_room(Claim::Normal, no_space, gains).unwrap();
    assert_eq!(files.stats().cleaned_zones, 1);
    let gains = files.inner.space.with(|map| map.gains());
    let refused = files.inner.cleaner.make_room(Claim::Normal, no_space, gains).unwrap_err();
    assert!(matches!(refused, FilesError::NoSpace { .. }), "{refused}");
}

/// Half of the data that cleaning must move is copied; the copies take room that will be given
/// back.
#[test]
fn what_a_cleaning_has_copied_is_room_in_the_end() {
    let (_disk, files) = crowded();
    let free = || files.inner.space.with(|map| (map.free(), map.dead()));
    let (free_before, dead) = free();
    let mut cleaner = files.clean_job();
    cleaner.step(Budget { io_bytes: 1 });
    let (free, _) = free();
    assert!(free < free_before);
    let gains = files.inner.space.with(|map| map.gains());
    let needed = free_before + dead;
    files.inner.cleaner.make_room(Claim::Normal, NoSpace { needed, free }, gains).unwrap();
    assert_eq!(files.stats().cleaned_zones, 1);
    assert_sound(&files);
}

/// The blocks that cleaning moves data from stay held at each write, those of the record included (M2).
#[test]
fn a_zone_is_given_back_after_the_record_of_its_moves() {
    let (disk, files) = crowded();
    let zone = unit_of(&files, "a").unwrap().0 as usize;
    let held = Arc::new(Mutex::new(Vec::new()));
    record_held(&disk, &files, zone, &held);
    files.clean_job().step(Budget { io_bytes: u64::MAX });
    drop(disk.before_write.lock().take());
    assert_eq!(files.stats().cleaned_zones, 1);
    // Three pieces of "a", and a record in each copy of the catalog.
    assert_eq!(*held.lock(), [Blocks::new(600); 5]);
}

/// Records, before each write, how many blocks of a zone are held.
fn record_held(
    disk: &Arc<Interrupted>,
    files: &FileLayer,
    zone: usize,
    held: &Arc<Mutex<Vec<Blocks>>>,
) {
    let (again, files, held) = (Arc::clone(disk), files.clone(), Arc::clone(held));
    disk.before_write(move || {
        held.lock().push(files.inner.space.with(|map| map.zones()[zone].held));
        record_held(&again, &files, zone, &held);
    });
}

/// Two callers chose the same zone to finish. The second finish arrived after the table of the
/// first was removed, while another table was being written there.
#[test]
fn a_zone_that_is_being_finished_is_finished_once() {
    let zones = Zones { count: 60, len: 64, conventional: 0, active_limit: Some(8) };
    let stage = zoned(zones, 0);
    drop(stage.format("band-per-table").unwrap());
    let (disk, files) = opened(&stage);
    let other = files.clone();
    disk.before_finish(move || put(&other, "b", 20, 1).unwrap());
    put(&files, "a", 20, 1).unwrap();
    let zone_of = |name| unit_of(&files, name).map(|unit| ZoneId(unit.0 as u32)).unwrap();
    assert_eq!(*disk.finished.lock(), [zone_of("a"), zone_of("b")]);
    remove(&files, &["a"]).unwrap();
    put(&files, "c", 20, 1).unwrap();
    assert_sound(&files);
}

/// A log that failed had a run after tables that were being written, and took their turns with it.
#[test]
fn tables_before_a_log_that_failed_are_written() {
    let zones = Zones { count: 12, len: 64, conventional: 1, active_limit: Some(3) };
    let stage = zoned(zones, 0);
    drop(stage.format("zone-per-level").unwrap());
    let (disk, files) = opened(&stage);
    let hints = Hints { purpose: CommitKind::Upkeep, ..Hints::new(FileKind::Log) };
    let log = files.create_log("w", hints).unwrap();
    log.append(&[7; 60 * 4096]).unwrap();
    put(&files, "other", 40, 2).unwrap();
    let (drive, here) = (Arc::clone(&stage.disk), files.clone());
    disk.before_write(move || {
        // Both copies of the catalog get the log's new run, then the log fails in its old one.
        let fail_write = Some(FailAt { after: 2, sticky: false });
        drive.set_faults(FaultPlan { fail_write, ..FaultPlan::default() });
        log.append(&[7; 10 * 4096]).unwrap_err();
        assert_eq!(here.open("w").unwrap().extents().len(), 2);
    });
    let add = files.persist(["a", "b"].map(|name| table(name, 9, 1)).into()).unwrap();
    files.commit(Commit { add, ..Commit::default() }).unwrap();
    put(&files, "c", 9, 1).unwrap();
    for name in ["a", "b", "c", "other"] {
        verify(&files, name, name).unwrap();
    }
    assert_eq!(unit_of(&files, "a"), unit_of(&files, "c"));
    assert_eq!(files.open("w").unwrap().len_bytes(), 60 * 4096);
    drop(files);
    assert_sound(&stage.open().unwrap());
}

/// A log placed after a table that failed once reported that another log goes elsewhere. From then
/// on it reported that the store must be reopened.
#[test]
fn a_log_after_a_table_that_failed_asks_for_another_log() {
    let zones = Zones { count: 12, len: 64, conventional: 1, active_limit: Some(3) };
    let stage = zoned(zones, 0);
    drop(stage.format("zone-per-level").unwrap());
    let (disk, files) = opened(&stage);
    let hints = Hints { purpose: CommitKind::Upkeep, ..Hints::new(FileKind::Log) };
    let first = files.create_log("first", hints).unwrap();
    first.append(&[7; 60 * 4096]).unwrap();
    put(&files, "other", 40, 2).unwrap();
    let (drive, here) = (Arc::clone(&stage.disk), files.clone());
    let (created, is_created) = channel();
    disk.before_write(move || {
        created.send(here.create_log("behind", hints).unwrap()).unwrap();
        let fail_write = Some(FailAt { after: 0, sticky: false });
        drive.set_faults(FaultPlan { fail_write, ..FaultPlan::default() });
    });
    files.persist(vec![table("a", 9, 1)]).unwrap_err();
    let log = is_created.recv().unwrap();
    for _ in 0..2 {
        let refused = log.append(&[7; 4096]).unwrap_err();
        assert!(matches!(refused, FilesError::NoTurn { .. }), "{refused}");
    }
    let refused = log.sync().unwrap_err();
    assert!(matches!(refused, FilesError::NoTurn { .. }), "{refused}");
    files.create_log("another", hints).unwrap().append(&[7; 4096]).unwrap();
}

/// Two callers placed tables in one zone. The second failed in another zone before its turn here.
/// It took the turn of the first, which then waited for nothing, and the rest of the zone.
#[test]
fn tables_before_one_that_failed_elsewhere_are_written() {
    let zones = Zones { count: 12, len: 64, conventional: 1, active_limit: None };
    let stage = zoned(zones, 0);
    drop(stage.format("zone-per-level").unwrap());
    let (disk, files) = opened(&stage);
    put(&files, "old2", 5, 2).unwrap();
    put(&files, "old3", 40, 3).unwrap();
    let (drive, here) = (Arc::clone(&stage.disk), files.clone());
    disk.before_write(move || {
        let fail_write = Some(FailAt { after: 0, sticky: false });
        drive.set_faults(FaultPlan { fail_write, ..FaultPlan::default() });
        let failed =
            here.persist([("p", 5, 2), ("q", 20, 1)].map(|(n, b, l)| table(n, b, l)).into());
        failed.unwrap_err();
    });
    let tables =
        [("a", 10, 3), ("b", 20, 1)].map(|(name, blocks, level)| table(name, blocks, level));
    let add = files.persist(tables.into()).unwrap();
    files.commit(Commit { add, ..Commit::default() }).unwrap();
    put(&files, "c", 20, 1).unwrap();
    for name in ["a", "b", "c", "old2", "old3"] {
        verify(&files, name, name).unwrap();
    }
    let first = |name| files.open(name).unwrap().extents()[0];
    assert_eq!(first("b").end(), first("c").start, "nothing of the zone is lost");
    assert_sound(&files);
}

/// A table placed in the zone of a failed one, after it, was refused as if the drive took no more
/// writes.
#[test]
fn a_table_after_one_that_failed_goes_elsewhere() {
    let zones = Zones { count: 12, len: 64, conventional: 1, active_limit: None };
    let stage = zoned(zones, 0);
    drop(stage.format("zone-per-level").unwrap());
    let (disk, files) = opened(&stage);
    put(&files, "old", 20, 1).unwrap();
    let (drive, here) = (Arc::clone(&stage.disk), files.clone());
    let (at_write, is_there) = channel();
    disk.before_write(move || {
        at_write.send(()).unwrap();
        // Until the other one is placed and waits.
        let is_behind = |zone: &ZoneSpace| zone.next - zone.written == Blocks::new(30);
        let is_placed = || here.inner.space.with(|map| map.zones().iter().any(is_behind));
        (0..1_000_000).take_while(|_| !is_placed()).for_each(|_| std::thread::yield_now());
        let fail_write = Some(FailAt { after: 0, sticky: false });
        drive.set_faults(FaultPlan { fail_write, ..FaultPlan::default() });
    });
    std::thread::scope(|scope| {
        let failing = scope.spawn(|| files.persist(vec![table("a", 10, 1)]).unwrap_err());
        is_there.recv().unwrap();
        put(&files, "b", 20, 1).unwrap();
        let failed = failing.join().unwrap();
        assert!(matches!(failed, FilesError::Disk { .. }), "{failed}");
    });
    assert_ne!(unit_of(&files, "b"), unit_of(&files, "old"));
    for name in ["old", "b"] {
        verify(&files, name, name).unwrap();
    }
    assert_sound(&files);
}

/// The cleaner had copied most of one zone into all the room that there was. A write that asked for
/// room chose another zone, and nothing could be moved out of either.
#[test]
fn a_write_without_room_ends_what_is_begun_before_it_begins_more() {
    let zones = Zones { count: 7, len: 1024, conventional: 0, active_limit: None };
    let stage = zoned(zones, 0);
    let options = PlacementOptions { free_percent_least: 100, ..PlacementOptions::default() };
    let files = stage.format_with("log-structured", options).unwrap();
    let blocks =
        [("v1", 900), ("dead1", 124), ("v2", 950), ("dead2", 74), ("c", 1024), ("d", 1024)];
    for (name, blocks) in blocks {
        put_upkeep(&files, name, blocks, 1).unwrap();
    }
    remove(&files, &["dead1", "dead2"]).unwrap();
    let mut cleaner = files.clean_job();
    for _ in 0..3 {
        assert_eq!(cleaner.step(Budget { io_bytes: 1 }), Step::More);
    }
    put_upkeep(&files, "e", 10, 1).unwrap();
    assert_eq!(files.stats().cleaned_zones, 1);
    for name in ["v1", "v2", "c", "d", "e"] {
        verify(&files, name, name).unwrap();
    }
    assert_sound(&files);
}

/// A write that found all slots for active zones taken was refused on a drive with room, though
/// another writer was just filling one of the zones.
#[test]
fn a_write_without_a_place_waits_for_a_zone_that_others_fill() {
    let zones = Zones { count: 12, len: 64, conventional: 1, active_limit: Some(3) };
    let stage = zoned(zones, 0);
    drop(stage.format("zone-per-level").unwrap());
    let (disk, files) = opened(&stage);
    let logs = ["w1", "w2"].map(|name| files.create_log(name, Hints::new(FileKind::Log)).unwrap());
    put(&files, "a", 40, 1).unwrap();
    let is_there = disk.before_write_waits_for_make_room(&files);
    std::thread::scope(|scope| {
        let filling = scope.spawn(|| files.persist(vec![table("b", 24, 1)]).unwrap());
        is_there.recv().unwrap();
        put(&files, "c", 10, 2).unwrap();
        filling.join().unwrap();
    });
    verify(&files, "c", "c").unwrap();
    drop(logs);
    assert_sound(&files);
}

/// After a bug in the thread that wrote a group of commits, all others, and the closing of the
/// files, waited for it for ever.
#[test]
fn a_bug_in_a_commit_ends_writing_and_wakes_all_waiters() {
    let (disk, files) = crowded();
    disk.before_write(|| panic!("a bug"));
    let removed = std::panic::catch_unwind(AssertUnwindSafe(|| remove(&files, &["a"])));
    assert!(removed.is_err());
    let free = files.space().free_bytes;
    let refused = remove(&files, &["c"]).unwrap_err();
    assert!(
        matches!(&refused, FilesError::Poisoned { reason } if reason.contains("bug")),
        "{refused}"
    );
    assert_eq!(files.space().free_bytes, free, "what the commits removed may still be named");
    verify(&files, "c", "c").unwrap();
}

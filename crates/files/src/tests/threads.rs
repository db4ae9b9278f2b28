//! Several threads at once: group commit, concurrent writes to zones, reads during cleaning.

use super::stage::{
    Zones, assert_honest, assert_sound, content, member, one_zone_to_clean, put, remove, shingled,
    table, verify, zoned,
};
use crate::CommitKind;
use crate::{Commit, FileKind, FileLayer, Files, FilesError, Hints, LogWriter, PlacementOptions};
use imbrex_clockwork::{Budget, Runtime, Step, StillClock, ThreadScheduler, fan_out};
use imbrex_disk::{BlockRange, Blocks, Disk, DiskError, DiskLayer};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};

fn threads() -> (Runtime, Arc<ThreadScheduler>) {
    let scheduler = Arc::new(ThreadScheduler::new(1));
    let clock = Arc::new(StillClock);
    (Runtime { clock, scheduler: Arc::clone(&scheduler) as _ }, scheduler)
}

#[test]
fn writers_and_removers_leave_a_sound_drive() {
    let zones = Zones { count: 40, len: 64, conventional: 1, active_limit: Some(8) };
    let stage = zoned(zones, 0);
    let files = stage.format("zone-per-level").unwrap();
    let workers: Vec<u8> = (0..4).collect();
    fan_out(4, &workers, |&worker| {
        for round in 0..20 {
            let name = format!("{worker}-{round}");
            put(&files, &name, 5 + u64::from(worker) * 7, worker).unwrap();
            verify(&files, &name, &name).unwrap();
            if round >= 3 {
                remove(&files, &[&format!("{worker}-{}", round - 3)]).unwrap();
            }
        }
    });
    assert_eq!(files.list("").len(), 12);
    assert_sound(&files);
    drop(files);
    let files = stage.open().unwrap();
    for file in files.list("") {
        verify(&files, &file.name, &file.name).unwrap();
    }
}

#[test]
fn reads_continue_while_the_drive_is_cleaned() {
    let zones = Zones { count: 16, len: 64, conventional: 1, active_limit: None };
    let stage = zoned(zones, 0);
    let (runtime, scheduler) = threads();
    let options = PlacementOptions { free_percent_least: 100, ..PlacementOptions::default() };
    stage.format_with("log-structured", options).unwrap();
    let files = FileLayer::open(stage.disk(), &runtime).unwrap();
    runtime.scheduler.spawn(files.clean_job());
    for index in 0..8 {
        put(&files, &format!("keep-{index}"), 40, 1).unwrap();
        put(&files, &format!("gone-{index}"), 24, 1).unwrap();
    }
    fan_out(3, &[0, 1, 2], |&worker| {
        for round in 0..32 {
            if worker == 0 {
                if round % 4 == 0 {
                    remove(&files, &[&format!("gone-{}", round / 4)]).unwrap();
                }
                let name = format!("churn-{round}");
                put(&files, &name, 24, 1).unwrap();
                remove(&files, &[&name]).unwrap();
            } else {
                let name = format!("keep-{}", (round + worker) % 8);
                verify(&files, &name, &name).unwrap();
            }
        }
    });
    let has_cleaned = || files.stats().cleaned_zones > 0;
    (0..10_000_000).take_while(|_| !has_cleaned()).for_each(|_| std::thread::yield_now());
    scheduler.stop();
    assert!(scheduler.panics().is_empty(), "{:?}", scheduler.panics());
    assert!(has_cleaned());
    assert_sound(&files);
}

#[test]
fn a_writer_without_room_cleans_a_crowded_drive() {
    let zones = Zones { count: 14, len: 64, conventional: 1, active_limit: Some(8) };
    for placement in ["log-structured", "zone-per-level"] {
        let stage = zoned(zones, 0);
        let (runtime, scheduler) = threads();
        stage.format(placement).unwrap();
        let files = FileLayer::open(stage.disk(), &runtime).unwrap();
        runtime.scheduler.spawn(files.clean_job());
        let put_count = AtomicUsize::new(0);
        // On a busy machine the threads may take turns so that zones become empty without cleaning; they then go on.
        let has_cleaned = || files.stats().cleaned_zones > 0;
        fan_out(4, &[0_u8, 1, 2, 3], |&worker| {
            let mut mine = std::collections::VecDeque::new();
            for round in (0..10_000).take_while(|round| *round < 60 || !has_cleaned()) {
                let name = format!("{worker}-{round}");
                let blocks = 1 + (round * 7 + u64::from(worker) * 5) % 23;
                match put(&files, &name, blocks, worker) {
                    Ok(()) => {
                        put_count.fetch_add(1, Ordering::SeqCst);
                        mine.push_back(name);
                    }
                    Err(error @ FilesError::NoSpace { .. }) => assert_honest(&error),
                    Err(error) => panic!("{error}"),
                }
                // Every third file stays, so that zones never become empty by themselves.
                if mine.len() > 10 {
                    let index = if round % 3 == 0 { 1 } else { 0 };
                    let oldest: String = mine.remove(index).expect("there are eleven");
                    verify(&files, &oldest, &oldest).unwrap();
                    remove(&files, &[&oldest]).unwrap();
                }
            }
        });
        for file in files.list("") {
            verify(&files, &file.name, &file.name).unwrap();
        }
        scheduler.stop();
        assert!(scheduler.panics().is_empty(), "{:?}", scheduler.panics());
        assert!(has_cleaned(), "{placement}");
        let put_count = put_count.into_inner();
        // How many are refused depends on how the threads interleave; most are not.
        assert!(put_count > 120, "{placement}: {put_count} of 240");
        assert_sound(&files);
    }
}

#[test]
fn a_log_is_appended_while_tables_are_written() {
    let zones = Zones { count: 40, len: 64, conventional: 1, active_limit: None };
    let stage = zoned(zones, 0);
    let files = stage.format("zone-per-level").unwrap();
    let log = files.create_log("w", Hints::new(FileKind::Log)).unwrap();
    fan_out(2, &[0, 1], |&worker| {
        for round in 0..40 {
            if worker == 0 {
                log.append(&vec![round; 3 * 4096]).unwrap();
                log.sync().unwrap();
            } else {
                put(&files, &format!("t{round}"), 9, 1).unwrap();
            }
        }
    });
    log.finish().unwrap();
    assert!(matches!(log.append(&[0; 4096]), Err(FilesError::Finished { .. })));
    assert_eq!(files.open("w").unwrap().len_bytes(), Blocks::new(120).bytes());
    assert_sound(&files);
}

/// If no zone may be begun, a log starts after tables. One was planned after a table that was
/// placed but not yet written. It wrote first, and the drive refused: the store lost its log, and
/// with it all further writes. Now the first write of a run waits for its turn (O3).
#[test]
fn a_log_after_a_table_waits_for_the_table() {
    let zones = Zones { count: 12, len: 64, conventional: 1, active_limit: Some(3) };
    let stage = zoned(zones, 0);
    let files = stage.format("zone-per-level").unwrap();
    let written_count = AtomicUsize::new(0);
    fan_out(3, &[0, 1, 2], |&worker| {
        for round in 0..150 {
            let name = format!("{worker}-{round}");
            let written = if worker == 0 {
                let hints = Hints { purpose: CommitKind::Upkeep, ..Hints::new(FileKind::Log) };
                files.create_log(&name, hints).and_then(|log| {
                    log.append(&[round; 3 * 4096])?;
                    log.finish()
                })
            } else {
                put(&files, &name, 9, worker)
            };
            match written {
                Ok(()) => {
                    written_count.fetch_add(1, Ordering::SeqCst);
                    remove(&files, &[&name]).unwrap();
                }
                Err(error @ FilesError::NoSpace { .. }) => assert_honest(&error),
                Err(error) => panic!("{name}: {error}"),
            }
        }
    });
    let written_count = written_count.into_inner();
    assert!(written_count > 440, "{written_count} of 450");
    assert_sound(&files);
}

/// A write without room was refused while the cleaner was at the only zone worth cleaning, between
/// two steps. Now the write completes that cleaning.
#[test]
fn a_write_without_room_ends_what_the_cleaner_began() {
    let (_, files) = one_zone_to_clean();
    let mut cleaner = files.clean_job();
    let budget = Budget { io_bytes: 1 };
    assert_eq!(cleaner.step(budget), Step::More);
    put(&files, "d", 800, 1).unwrap();
    assert_eq!(files.stats().cleaned_zones, 1);
    assert_sound(&files);
    assert_eq!(cleaner.step(budget), Step::Wait);
    for name in ["a", "c", "d"] {
        verify(&files, name, name).unwrap();
    }
    // A cleaner that is dropped leaves nothing unfinished.
    remove(&files, &["d"]).unwrap();
    cleaner.step(budget);
    drop(cleaner);
    put(&files, "e", 800, 1).unwrap();
    assert_sound(&files);
}

/// A drive of bands with five active zones at most, and two logs on it.
fn bands_with_two_logs() -> (FileLayer, Hints, [Arc<dyn LogWriter>; 2]) {
    let zones = Zones { count: 60, len: 64, conventional: 0, active_limit: Some(5) };
    let files = zoned(zones, 0).format("band-per-table").unwrap();
    let hints = Hints { purpose: CommitKind::Upkeep, ..Hints::new(FileKind::Log) };
    let logs = ["w1", "w2"].map(|name| files.create_log(name, hints).unwrap());
    (files, hints, logs)
}

/// Where each table has its zone, the drive's limit on active zones was not observed. Logs took all
/// slots, and tables written at the same time exceeded the limit, so the drive refused a write and
/// the store stopped. Now logs leave tables a slot, and a write that begins a zone waits for one.
#[test]
fn bands_keep_within_the_limit_of_active_zones() {
    let (files, hints, logs) = bands_with_two_logs();
    for log in &logs {
        log.append(&[7; 4096]).unwrap();
    }
    assert!(matches!(files.create_log("w3", hints), Err(FilesError::NoSpace { .. })));
    fan_out(4, &[0, 1, 2, 3], |&worker| {
        for round in 0..40 {
            let name = |part: &str| format!("{worker}-{round}-{part}");
            let tables = ["a", "b", "c"].map(|part| table(&name(part), 20 + worker, 1));
            let add = files.persist(tables.into()).unwrap();
            files.commit(Commit { add, ..Commit::default() }).unwrap();
            for part in ["a", "b", "c"] {
                verify(&files, &name(part), &name(part)).unwrap();
                remove(&files, &[&name(part)]).unwrap();
            }
        }
    });
    logs[0].finish().unwrap();
    let log = files.create_log("w3", hints).unwrap();
    log.append(&[7; 4096]).unwrap();
    put(&files, "last", 100, 1).unwrap();
    assert_sound(&files);
}

/// A log that grows fills its zone before it begins the next one. It was refused the next one if
/// both would have exceeded the limit: no space on an empty drive.
#[test]
fn logs_that_keep_their_places_grow() {
    let (files, hints, logs) = bands_with_two_logs();
    fan_out(3, &[0, 1, 2], |&worker| {
        for round in 0..12 {
            match logs.get(worker) {
                Some(log) => drop(log.append(&vec![7; (20 + 60 * (round % 2)) * 4096]).unwrap()),
                None => put(&files, &format!("t{round}"), 20, 1).unwrap(),
            }
        }
    });
    assert!(matches!(files.create_log("w3", hints), Err(FilesError::NoSpace { .. })));
    for log in logs {
        log.finish().unwrap();
        assert_eq!(log.len_bytes(), Blocks::new(6 * 20 + 6 * 80).bytes());
    }
    assert_sound(&files);
}

/// A log whose write failed left its zone half written, and a writer that needed a slot waited for
/// that zone to end.
#[test]
fn no_writer_waits_for_a_log_that_failed() {
    let zones = Zones { count: 60, len: 64, conventional: 0, active_limit: Some(5) };
    let stage = zoned(zones, 0);
    let files = stage.format("band-per-table").unwrap();
    let hints = Hints { purpose: CommitKind::Upkeep, ..Hints::new(FileKind::Log) };
    let failed = files.create_log("failed", hints).unwrap();
    failed.append(&[7; 4096]).unwrap();
    let fail_write = Some(imbrex_disk_sim::FailAt { after: 0, sticky: false });
    stage.disk.set_faults(imbrex_disk_sim::FaultPlan { fail_write, ..Default::default() });
    failed.append(&[7; 4096]).unwrap_err();
    drop(failed);
    let logs = ["a", "b"].map(|name| files.create_log(name, hints));
    let written = logs.iter().flatten().filter(|log| log.append(&[7; 4096]).is_ok()).count();
    assert_eq!(written, 1, "tables have a place left");
    for name in ["c", "d", "e"] {
        put(&files, name, 20, 1).unwrap();
        verify(&files, name, name).unwrap();
    }
}

/// Several threads place sets side by side and write them at the same time, each in pieces, with
/// logs in between. A set within the reach of another is written later (U3), and the drive refuses
/// any write that would destroy valid data.
#[test]
fn bands_are_written_side_by_side() {
    let stage = shingled(40_000, 32, 2, 0);
    let files = stage.format_small("dynamic-bands").unwrap();
    fan_out(4, &[0_u64, 1, 2, 3], |&worker| {
        for round in 0..25 {
            let name = |part: &str| format!("{worker}-{round}-{part}");
            if worker == 0 {
                let log = files.create_log(&name("log"), Hints::new(FileKind::Log)).unwrap();
                for _ in 0..3 {
                    log.append(&content("log", 40 * 4096)).unwrap();
                }
                log.finish().unwrap();
            } else {
                // Longer than one write.
                let set = ["a", "b"].map(|part| member(&name(part), 200 + worker * 60, 2, worker));
                let add = files.persist(set.into()).unwrap();
                files.commit(Commit { add, ..Commit::default() }).unwrap();
                verify(&files, &name("a"), &name("a")).unwrap();
                verify(&files, &name("b"), &name("b")).unwrap();
            }
            if round >= 2 {
                let old = |part: &str| format!("{worker}-{}-{part}", round - 2);
                let parts: &[&str] = if worker == 0 { &["log"] } else { &["a", "b"] };
                parts.iter().for_each(|part| remove(&files, &[&old(part)]).unwrap());
            }
        }
    });
    assert_sound(&files);
    for file in files.list("").iter().filter(|file| file.kind == FileKind::Table) {
        verify(&files, &file.name, &file.name).unwrap();
    }
}

/// A disk whose first discard waits until another thread is there, and then takes its time.
#[derive(Debug)]
struct SlowDiscard {
    disk: Arc<dyn Disk>,
    other_is_there: Barrier,
    is_first: AtomicBool,
}

impl SlowDiscard {
    fn new(disk: Arc<dyn Disk>) -> SlowDiscard {
        SlowDiscard { disk, other_is_there: Barrier::new(2), is_first: AtomicBool::new(true) }
    }
}

impl DiskLayer for SlowDiscard {
    fn below(&self) -> &dyn Disk {
        &*self.disk
    }

    fn pass_discard(&self, range: BlockRange) -> Result<(), DiskError> {
        if self.is_first.swap(false, Ordering::SeqCst) {
            self.other_is_there.wait();
            (0..30).for_each(|_| std::thread::yield_now());
        }
        self.disk.discard(range)
    }
}

/// A shingled drive that was just opened discards all its free space before it writes. A second
/// writer found none of that space free, and was refused on an empty drive.
#[test]
fn a_second_writer_waits_for_space_that_is_being_discarded() {
    let stage = shingled(1 << 14, 8, 2, 0);
    stage.format("dynamic-bands").unwrap();
    let disk = Arc::new(SlowDiscard::new(stage.disk()));
    let files = FileLayer::open(Arc::clone(&disk) as Arc<dyn Disk>, &threads().0).unwrap();
    fan_out(2, &["first", "second"], |&name| {
        if name == "second" {
            disk.other_is_there.wait();
        }
        let log = files.create_log(name, Hints::new(FileKind::Log)).unwrap();
        log.append(&[1; 4096]).unwrap();
        log.finish().unwrap();
    });
    assert_sound(&files);
}

/// A caller that reopened the disk at once found it in use, because the job was in the middle of a
/// step.
#[test]
fn when_cleaning_has_ended_its_job_does_not_hold_the_disk() {
    let stage = shingled(1 << 14, 8, 2, 0);
    stage.format("dynamic-bands").unwrap();
    let disk = Arc::new(SlowDiscard::new(stage.disk()));
    let runtime = threads().0;
    let files = FileLayer::open(Arc::clone(&disk) as Arc<dyn Disk>, &runtime).unwrap();
    runtime.scheduler.spawn(files.clean_job());
    disk.other_is_there.wait();
    files.end_cleaning();
    drop(files);
    assert_eq!(Arc::strong_count(&disk), 1);
}

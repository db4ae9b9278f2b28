//! A program is killed during a sync of either drive, another one continues, and then the power of
//! that drive alone is cut: the second program had found data in a cache.

use super::stage::{Pair, Side, hints};
use crate::catalog::Edit;
use crate::commit::{PendingFrees, Ticket};
use crate::tests::stage::{content, conventional};
use crate::tiers::TieredFiles;
use crate::{AppRecord, Commit, FileBuffer, FileKind, Files, FilesError, LogWriter, Tier};
use imbrex_disk_sim::FaultPlan;
use std::sync::Arc;

/// With each seed a drive keeps different blocks of its cache.
const SEED_COUNT: u64 = 16;

fn pair() -> Pair {
    Pair { main: conventional(600, 256), flash: conventional(300, 256).disk }
}

fn format(pair: &Pair) -> TieredFiles {
    pair.format_on("first-fit").unwrap()
}

fn kill_in_sync(pair: &Pair, side: Side) {
    pair.disk(side).set_faults(FaultPlan { kill_in_sync_after: Some(0), ..FaultPlan::default() });
}

/// The program is gone but the drives are not; another program opens them.
fn reopened(pair: &Pair, files: TieredFiles) -> TieredFiles {
    drop(files);
    for side in [Side::Main, Side::Flash] {
        pair.disk(side).set_faults(FaultPlan::default());
    }
    pair.open().unwrap()
}

/// One drive lost its power; returns the pair as it is then, opened.
fn cut(pair: &Pair, files: TieredFiles, side: Side, seed: u64) -> TieredFiles {
    drop(files);
    pair.power_cycle(side, seed);
    pair.disk(side).set_faults(FaultPlan::default());
    let files = pair.open().unwrap();
    assert!(files.check().unwrap().findings.is_empty());
    files
}

fn table(files: &TieredFiles, name: &str) -> Result<(), FilesError> {
    let mut buffer = FileBuffer::new(name, hints(FileKind::Table, Tier::Fast));
    buffer.append(&content(name, 5000));
    let add = files.persist(vec![buffer])?;
    files.commit(Commit { add, ..Commit::default() })
}

/// A table, and its removal as far as a commit of another thread gets before it is written.
fn removal_on_its_way(files: &TieredFiles, name: &str) -> Ticket {
    table(files, name).unwrap();
    let edits = vec![Edit::Remove { name: name.to_owned() }];
    files.main().inner.committer.lock().enqueue(edits, PendingFrees::default(), false)
}

fn remove(files: &TieredFiles, name: &str) -> Result<(), FilesError> {
    files.commit(Commit { remove: vec![name.to_owned()], ..Commit::default() })
}

fn log(files: &TieredFiles, name: &str) -> Result<Arc<dyn LogWriter>, FilesError> {
    files.create_log(name, hints(FileKind::Log, Tier::Fast))
}

fn app(files: &TieredFiles) {
    let app = Some(AppRecord::Append(b"a record".to_vec()));
    files.commit(Commit { app, ..Commit::default() }).unwrap();
}

fn names(files: &TieredFiles) -> Vec<String> {
    files.list("").into_iter().map(|info| info.name).collect()
}

/// Flash recorded main's commit as durable. When the power failed before main's next commit, the
/// drive was permanently taken for an older copy.
#[test]
fn what_flash_records_about_main_is_durable_there() {
    for seed in 0..SEED_COUNT {
        let pair = pair();
        let files = format(&pair);
        table(&files, "a").unwrap();
        kill_in_sync(&pair, Side::Main);
        table(&files, "b").unwrap_err();
        let files = reopened(&pair, files);
        assert_eq!(names(&files), ["a", "b"]);
        // The power fails when flash has its part of a commit and main does not.
        let at_once = FaultPlan { power_cut_after: Some(0), ..FaultPlan::default() };
        pair.disk(Side::Main).set_faults(at_once);
        table(&files, "c").unwrap_err();
        let files = cut(&pair, files, Side::Main, seed);
        assert_eq!(names(&files), ["a", "b"], "seed {seed}");
        table(&files, "d").unwrap();
    }
}

/// A first change that was refused swept flash all the same. Main lost the removal, and named files
/// that were gone.
#[test]
fn what_a_refused_change_sweeps_from_flash_is_gone_from_main() {
    for seed in 0..SEED_COUNT {
        let pair = pair();
        let files = format(&pair);
        table(&files, "a").unwrap();
        kill_in_sync(&pair, Side::Main);
        remove(&files, "a").unwrap_err();
        let files = reopened(&pair, files);
        let mut buffer = FileBuffer::new("x", hints(FileKind::Table, Tier::Main));
        buffer.append(&content("x", 5000));
        let add =
            conventional(600, 256).format("first-fit").unwrap().persist(vec![buffer]).unwrap();
        let refused = files.commit(Commit { add, ..Commit::default() });
        assert!(matches!(refused, Err(FilesError::BadName { .. })));
        let files = cut(&pair, files, Side::Main, seed);
        assert!(names(&files).is_empty(), "seed {seed}");
    }
}

/// Main recorded the removal of a log, flash lost the removal, and the log came back under a name
/// that was free.
#[test]
fn what_main_hears_was_removed_from_flash_does_not_come_back() {
    for seed in 0..SEED_COUNT {
        let pair = pair();
        let files = format(&pair);
        log(&files, "w1").unwrap().finish().unwrap();
        let next = log(&files, "w2").unwrap();
        app(&files);
        kill_in_sync(&pair, Side::Flash);
        remove(&files, "w1").unwrap();
        drop(next);
        let files = reopened(&pair, files);
        assert_eq!(names(&files), ["w2"]);
        app(&files);
        app(&files);
        let files = cut(&pair, files, Side::Flash, seed);
        assert_eq!(names(&files), ["w2"], "seed {seed}");
    }
}

/// Main recorded a log that flash lost: the pair was refused as if flash were an older copy.
#[test]
fn what_main_hears_of_is_durable_on_flash() {
    for seed in 0..SEED_COUNT {
        let pair = pair();
        let files = format(&pair);
        let first = log(&files, "w1").unwrap();
        kill_in_sync(&pair, Side::Flash);
        assert!(log(&files, "w2").is_err());
        drop(first);
        let files = reopened(&pair, files);
        assert_eq!(names(&files), ["w1", "w2"]);
        app(&files);
        let files = cut(&pair, files, Side::Flash, seed);
        assert_eq!(names(&files), ["w1", "w2"], "seed {seed}");
    }
}

/// A log on flash is durable on flash alone; the state that its writer relied on was in main's
/// cache.
#[test]
fn what_a_synced_log_goes_by_is_durable_on_main() {
    for seed in 0..SEED_COUNT {
        let pair = pair();
        let files = format(&pair);
        app(&files);
        kill_in_sync(&pair, Side::Main);
        let second = Some(AppRecord::Append(b"what the log's records mean".to_vec()));
        files.commit(Commit { app: second, ..Commit::default() }).unwrap_err();
        let files = reopened(&pair, files);
        assert_eq!(files.app_records().len(), 2);
        let synced = log(&files, "w1").unwrap();
        synced.append(&content("w1", 4096)).unwrap();
        synced.sync().unwrap();
        drop(synced);
        let files = cut(&pair, files, Side::Main, seed);
        assert_eq!(
            (names(&files), files.app_records().len()),
            (vec!["w1".to_owned()], 2),
            "seed {seed}"
        );
    }
}

/// A log was synced, and lost with a power cut: the commit that had freed its name was not durable
/// on main yet.
#[test]
fn a_synced_log_survives_while_its_name_is_being_freed() {
    for seed in 0..SEED_COUNT {
        let pair = pair();
        let files = format(&pair);
        let _removal = removal_on_its_way(&files, "w1");
        let synced = log(&files, "w1").unwrap();
        synced.append(&content("of the log", 4096)).unwrap();
        synced.sync().unwrap();
        drop(synced);
        let files = cut(&pair, files, Side::Main, seed);
        let mut scratch = Vec::new();
        let reader = files.open("w1").unwrap();
        let got = reader.read_at(0, 4096, &mut scratch).unwrap();
        assert!(got == content("of the log", 4096), "seed {seed}");
    }
}

/// A log was being created when main lost its power, and its name belonged to another file again.
/// Its removal was only remembered in memory; when that failed, the log got the name that had
/// become free meanwhile.
#[test]
fn a_log_that_was_never_created_gets_no_name_that_is_freed_later() {
    let at_once = FaultPlan { power_cut_after: Some(0), ..FaultPlan::default() };
    let mut tried_count = 0;
    for seed in 0..SEED_COUNT {
        let pair = pair();
        let files = format(&pair);
        let _removal = removal_on_its_way(&files, "w1");
        pair.disk(Side::Main).set_faults(at_once.clone());
        log(&files, "w1").unwrap_err();
        let files = cut(&pair, files, Side::Main, seed);
        if files.list("w1")[0].kind == FileKind::Log {
            continue; // The removal is durable, and so is the log.
        }
        tried_count += 1;
        pair.disk(Side::Flash).set_faults(at_once.clone());
        remove(&files, "w1").unwrap();
        let files = cut(&pair, files, Side::Flash, seed);
        assert!(names(&files).is_empty(), "seed {seed}");
        log(&files, "w1").unwrap();
        drop(reopened(&pair, files));
    }
    assert!(tried_count > 2, "{tried_count}");
}

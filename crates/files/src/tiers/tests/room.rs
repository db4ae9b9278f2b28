//! A full flash drive: main takes the overflow, and a log gets what it was promised.

use super::stage::{Pair, hints};
use crate::tests::meanwhile::Interrupted;
use crate::tests::stage::{content, conventional, interlaced};
use crate::tiers::TieredFiles;
use crate::{Commit, FileBuffer, FileKind, FileLayer, Files, FilesError, Hints, LogWriter, Tier};
use imbrex_disk::{Blocks, Disk};
use imbrex_disk_sim::{FailAt, FaultPlan};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

fn log_of(files: &TieredFiles, name: &str, blocks: u64) -> Arc<dyn LogWriter> {
    let expected_len_bytes = Some(Blocks::new(blocks).bytes());
    let hints = Hints { expected_len_bytes, ..hints(FileKind::Log, Tier::Fast) };
    files.create_log(name, hints).unwrap()
}

fn fill(log: &dyn LogWriter, blocks: u64) {
    for _ in 0..blocks {
        log.append(&[7; 4096]).unwrap();
    }
}

fn tier_of(files: &TieredFiles, name: &str) -> Tier {
    files.list(name)[0].tier
}

fn buffer(name: &str, blocks: u64, tier: Tier) -> FileBuffer {
    let mut buffer = FileBuffer::new(name, hints(FileKind::Table, tier));
    buffer.append(&content(name, Blocks::new(blocks).bytes() as usize));
    buffer
}

/// On interlaced tracks, tables keep a share of the top tracks for logs. With logs on flash they need not,
/// and take every block that there is.
#[test]
fn tables_take_the_tracks_of_logs_that_are_on_flash() {
    let table_count = |files: &dyn Files| {
        let mut count = 0;
        loop {
            let name = format!("t{count}");
            let Ok(persisted) = files.persist(vec![buffer(&name, 8, Tier::Main)]) else { break };
            files.commit(Commit { add: persisted, ..Commit::default() }).unwrap();
            count += 1;
        }
        count
    };
    for placement in ["track-tiers", "track-three-phase", "track-sequential"] {
        let alone = interlaced(4000, 8, 8, 256);
        let alone = alone.format_small(placement).unwrap();
        let pair = Pair { main: interlaced(4000, 8, 8, 256), flash: conventional(300, 256).disk };
        let paired = pair.format_small(placement).unwrap();
        let log = log_of(&paired, "w1", 40);
        fill(&*log, 40);
        let kept = |files: &FileLayer| files.inner.space.with(|map| map.kept_for_logs());
        assert!(!kept(&alone).is_zero());
        assert!(kept(paired.main()).is_zero());
        let (without, with) = (table_count(&alone), table_count(&paired));
        let kept_count = (kept(&alone).get() / 8) as usize;
        assert!(without + kept_count <= with, "{placement}: {without} and {with} tables");
        // A log that outgrows flash waits for room.
        let free_bytes = paired.flash().unwrap().space().free_bytes;
        let hints = Hints {
            expected_len_bytes: Some(free_bytes + 4096),
            ..hints(FileKind::Log, Tier::Fast)
        };
        let refused = paired.create_log("w2", hints).unwrap_err();
        assert!(matches!(refused, FilesError::NoSpace { .. }), "{refused}");
        drop(log);
        drop(paired);
        let again = pair.open().unwrap();
        assert!(kept(again.main()).is_zero(), "the catalog records the pair");
    }
}

#[test]
fn a_log_gets_the_room_that_it_was_promised() {
    let pair = Pair::small();
    let files = pair.format().unwrap();
    // 236 blocks are for files.
    let first = log_of(&files, "w1", 150);
    let second = log_of(&files, "w2", 100);
    assert_eq!((tier_of(&files, "w1"), tier_of(&files, "w2")), (Tier::Fast, Tier::Main));
    let third = log_of(&files, "w3", 80);
    assert_eq!(tier_of(&files, "w3"), Tier::Fast);
    fill(&*third, 80);
    fill(&*first, 150);
    assert_eq!(files.tier_stats().unwrap().fallbacks, 1);
    // The unused part of w3's promise is free again when it ends.
    drop((first, second));
    third.finish().unwrap();
    let remove = vec!["w1".to_owned()];
    files.commit(Commit { remove, ..Commit::default() }).unwrap();
    let fourth = log_of(&files, "w4", 150);
    assert_eq!(tier_of(&files, "w4"), Tier::Fast);
    fill(&*fourth, 150);
    assert!(files.check().unwrap().findings.is_empty());
}

#[test]
fn a_log_that_gets_longer_asks_and_ends_within_its_promise() {
    let pair = Pair::small();
    let files = pair.format().unwrap();
    let first = log_of(&files, "w1", 100);
    fill(&*first, 100);
    assert!(first.reserve(Blocks::new(120).bytes()));
    fill(&*first, 20);
    // 236 blocks are for files; those that the first log may still take are not for the second.
    let second = log_of(&files, "w2", 100);
    assert_eq!(tier_of(&files, "w2"), Tier::Fast);
    assert!(!first.reserve(Blocks::new(160).bytes()));
    assert!(!second.reserve(Blocks::new(130).bytes()));
    assert!(second.reserve(Blocks::new(100).bytes()));
    // An eighth more is not available, but the log gets what it needs as far as there is room.
    let got = (101..).take_while(|&len| second.reserve(Blocks::new(len).bytes())).last();
    assert!(got.is_some_and(|len| len < 112), "{got:?}");
    fill(&*second, 100);
    // The second log can have what the first gives back.
    first.finish().unwrap();
    drop(first);
    let remove = vec!["w1".to_owned()];
    files.commit(Commit { remove, ..Commit::default() }).unwrap();
    assert!(second.reserve(Blocks::new(200).bytes()));
    fill(&*second, 100);
}

#[test]
fn tables_that_flash_has_no_room_for_go_to_main_in_their_order() {
    let pair = Pair::small();
    let files = pair.format().unwrap();
    let log = log_of(&files, "w", 200);
    let buffers = vec![
        buffer("a", 30, Tier::Main),
        buffer("b", 30, Tier::Fast),
        buffer("c", 5, Tier::Main),
        buffer("d", 30, Tier::Fast),
    ];
    let add = files.persist(buffers).unwrap();
    let names: Vec<_> = add.iter().map(|file| file.name().to_owned()).collect();
    assert_eq!(names, ["a", "b", "c", "d"]);
    files.commit(Commit { add, ..Commit::default() }).unwrap();
    assert!(files.list("").iter().all(|info| (info.tier == Tier::Fast) == (info.name == "w")));
    let stats = files.tier_stats().unwrap();
    assert_eq!((stats.fallbacks, stats.fallback_bytes), (2, 60 * 4096));
    drop(log);

    let mut scratch = Vec::new();
    for (name, blocks) in [("a", 30), ("b", 30), ("c", 5), ("d", 30)] {
        let len_bytes = blocks * 4096;
        let reader = files.open(name).unwrap();
        let got = reader.read_at(0, len_bytes, &mut scratch).unwrap();
        assert_eq!(got, content(name, len_bytes));
    }
}

#[test]
fn a_commit_that_is_refused_leaves_nothing_on_flash() {
    let pair = Pair::small();
    let files = pair.format().unwrap();
    let add = files.persist(vec![buffer("a", 3, Tier::Fast)]).unwrap();
    let unread = files.open_persisted(&*add[0]).unwrap();
    let mut scratch = Vec::new();
    assert_eq!(unread.read_at(0, 4096, &mut scratch).unwrap(), content("a", 4096));
    files.commit(Commit { add, ..Commit::default() }).unwrap();
    let add = files.persist(vec![buffer("a", 3, Tier::Fast), buffer("b", 3, Tier::Main)]).unwrap();
    let refused = files.commit(Commit { add, ..Commit::default() });
    assert!(matches!(refused, Err(FilesError::Exists { name }) if name == "a"));
    assert_eq!(files.tier_stats().unwrap().file_count, 1);
    assert_eq!(files.list("").len(), 1);
    assert!(matches!(
        files.create_log("a", hints(FileKind::Log, Tier::Fast)),
        Err(FilesError::Exists { .. })
    ));
    assert_eq!(files.tier_stats().unwrap().file_count, 1);
    assert!(files.check().unwrap().findings.is_empty());
}

#[test]
fn a_reader_keeps_what_it_reads_on_flash() {
    let pair = Pair::small();
    let files = pair.format().unwrap();
    let add = files.persist(vec![buffer("a", 200, Tier::Fast)]).unwrap();
    files.commit(Commit { add, ..Commit::default() }).unwrap();
    let reader = files.open("a").unwrap();
    files.commit(Commit { remove: vec!["a".into()], ..Commit::default() }).unwrap();
    assert_eq!(files.tier_stats().unwrap().file_count, 0);
    // Its room is not free before the reader is gone (F3).
    let add = files.persist(vec![buffer("b", 100, Tier::Fast)]).unwrap();
    files.commit(Commit { add, ..Commit::default() }).unwrap();
    assert_eq!(tier_of(&files, "b"), Tier::Main);
    let mut scratch = Vec::new();
    let got = reader.read_at(0, 200 * 4096, &mut scratch).unwrap();
    assert!(got == content("a", 200 * 4096));
    drop(reader);
    let add = files.persist(vec![buffer("c", 100, Tier::Fast)]).unwrap();
    files.commit(Commit { add, ..Commit::default() }).unwrap();
    assert_eq!(tier_of(&files, "c"), Tier::Fast);
}

/// A table was found to fit, and before it had its blocks they were promised to a log.
#[test]
fn a_table_has_its_room_until_it_is_written() {
    let pair = Pair::small();
    drop(pair.format().unwrap());
    let flash = Interrupted::new(&pair.flash);
    let beside = Arc::clone(&flash) as Arc<dyn Disk>;
    let files = TieredFiles::open(pair.main.disk(), beside, &pair.main.runtime).unwrap();
    let promise_count = |files: &TieredFiles| files.flash.as_ref().unwrap().promises.lock().len();
    let seen = Arc::new(AtomicUsize::new(0));
    for fails in [false, true] {
        let (here, seen, drive) = (files.clone(), Arc::clone(&seen), Arc::clone(&pair.flash));
        flash.before_write(move || {
            seen.fetch_add(promise_count(&here), Ordering::SeqCst);
            let fail_write = fails.then_some(FailAt { after: 0, sticky: false });
            drive.set_faults(FaultPlan { fail_write, ..FaultPlan::default() });
        });
        let tables = vec![buffer("a", 20, Tier::Fast), buffer("b", 10, Tier::Fast)];
        assert_eq!(files.persist(tables).is_err(), fails);
        assert_eq!(promise_count(&files), 0);
    }
    assert_eq!(seen.load(Ordering::SeqCst), 2);
}

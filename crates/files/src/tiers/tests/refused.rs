//! Drives that are no pair, and a pair without its flash drive.

use super::stage::{Pair, Side, copy, hints};
use crate::tests::stage::content;
use crate::tiers::{FlashError, TieredFiles};
use crate::{
    AppRecord, Commit, FileBuffer, FileKind, FileLayer, Files, FilesError, LogWriter, Tier,
};
use imbrex_disk_sim::FaultPlan;
use std::sync::Arc;

fn refusal<T>(result: Result<T, FilesError>) -> (FlashError, String) {
    match result {
        Ok(_) => panic!("it was not refused"),
        Err(FilesError::Flash(error)) => {
            let text = error.to_string();
            (error, text)
        }
        Err(error) => panic!("another error: {error}"),
    }
}

fn fast_log(files: &TieredFiles, name: &str) -> Arc<dyn LogWriter> {
    let log = files.create_log(name, hints(FileKind::Log, Tier::Fast)).unwrap();
    log.append(&content(name, 2 * 4096)).unwrap();
    log.sync().unwrap();
    log
}

fn app(files: &TieredFiles, text: &str) {
    let app = Some(AppRecord::Append(text.into()));
    files.commit(Commit { app, ..Commit::default() }).unwrap();
}

#[test]
fn half_of_a_pair_does_not_open_as_a_whole() {
    let pair = Pair::small();
    drop(pair.format().unwrap());
    let runtime = &pair.main.runtime;
    let (error, text) = refusal(FileLayer::open(pair.main.disk(), runtime));
    assert!(matches!(error, FlashError::NotGiven { .. }), "{text}");
    let (error, _) = refusal(FileLayer::open(pair.flash(), runtime));
    assert!(matches!(error, FlashError::Alone));
    let (error, _) = refusal(TieredFiles::open(pair.flash(), pair.main.disk(), runtime));
    assert!(matches!(error, FlashError::Alone));
    let (error, _) = refusal(TieredFiles::open_without_flash(pair.flash(), runtime));
    assert!(matches!(error, FlashError::Alone));
    drop(pair.open().unwrap());

    drop(pair.main.format("zone-per-level").unwrap());
    let (error, text) = refusal(pair.open());
    assert!(matches!(error, FlashError::NotPaired), "{text}");
    let (error, _) = refusal(TieredFiles::open_without_flash(pair.main.disk(), runtime));
    assert!(matches!(error, FlashError::NotPaired));
    drop(pair.main.open().unwrap());
}

#[test]
fn a_foreign_or_blank_flash_drive_is_refused() {
    let (mut pair, mut other) = (Pair::small(), Pair::small());
    drop(pair.format().unwrap());
    // The difference is the requested format id, or an earlier format of the drive.
    for format_id in [8, 7] {
        drop(other.format_as(format_id).unwrap());
        std::mem::swap(&mut pair.flash, &mut other.flash);
        let (error, text) = refusal(pair.open());
        assert!(matches!(error, FlashError::Foreign { .. }), "{text}");
        assert!(text.starts_with("the wrong flash drive"), "{text}");
        let (error, _) = refusal(other.open());
        assert!(matches!(error, FlashError::Foreign { .. }));
        std::mem::swap(&mut pair.flash, &mut other.flash);
    }

    pair.flash = Pair::small().flash;
    let (error, text) = refusal(pair.open());
    assert!(matches!(error, FlashError::Unopened { .. }), "{text}");
    let plain = crate::tests::stage::conventional(300, 0);
    drop(plain.format("first-fit").unwrap());
    pair.flash = plain.disk;
    let (error, text) = refusal(pair.open());
    assert!(matches!(error, FlashError::Unopened { .. }), "{text}");
    assert!(text.contains("it is not a flash drive"), "{text}");
}

#[test]
fn a_flash_drive_set_back_to_a_copy_is_refused() {
    let mut pair = Pair::small();
    let files = pair.format().unwrap();
    let blank = copy(&pair.flash);
    let log = fast_log(&files, "w1");
    app(&files, "main has heard of w1");
    let with_log = copy(&pair.flash);
    drop(log);
    let remove = vec!["w1".to_owned()];
    files.commit(Commit { remove, ..Commit::default() }).unwrap();
    app(&files, "main has heard that it is swept");
    drop(files);
    let newest = copy(&pair.flash);

    pair.flash = with_log;
    let (error, text) = refusal(pair.open());
    assert!(matches!(error, FlashError::FlashOlder { expected: 2, got: 1 }), "{text}");
    pair.flash = newest;
    drop(pair.open().unwrap());

    let files = pair.open().unwrap();
    let log = fast_log(&files, "w2");
    app(&files, "main has heard of w2");
    drop((log, files));
    // Its count of commits is right, but files that main names are missing.
    pair.flash = blank;
    let (error, _) = refusal(pair.open());
    assert!(matches!(error, FlashError::FlashOlder { .. }));
}

/// A log on flash becomes a file that main needs whole. Main did not record how old flash was then,
/// and accepted a copy in which the log is half as long.
#[test]
fn a_flash_drive_set_back_to_before_a_rename_is_refused() {
    let mut pair = Pair::small();
    let files = pair.format().unwrap();
    let log = fast_log(&files, "w1");
    app(&files, "main has heard of w1");
    let half = copy(&pair.flash);
    log.append(&content("more", 2 * 4096)).unwrap();
    log.finish().unwrap();
    let rename = vec![("w1".to_owned(), "values".to_owned())];
    files.commit(Commit { rename, ..Commit::default() }).unwrap();
    drop((log, files));
    let newest = copy(&pair.flash);

    pair.flash = half;
    let (error, text) = refusal(pair.open());
    assert!(matches!(error, FlashError::FlashOlder { expected: 2, got: 1 }), "{text}");
    pair.flash = newest;
    assert_eq!(pair.open().unwrap().open("values").unwrap().len_bytes(), 4 * 4096);
}

#[test]
fn a_flash_drive_without_what_main_names_is_refused() {
    let mut pair = Pair::small();
    let files = pair.format().unwrap();
    let before = copy(&pair.flash);
    let log = fast_log(&files, "w1");
    app(&files, "main has heard of w1");
    drop((log, files));
    pair.flash = before;
    let (error, text) = refusal(pair.open());
    assert!(matches!(&error, FlashError::Lost { name } if name == "w1"), "{text}");
}

#[test]
fn a_main_drive_set_back_to_a_copy_is_refused() {
    // The main drive is conventional here, so that it can be copied block by block.
    let main = crate::tests::stage::conventional(600, 0);
    let flash = crate::tests::stage::conventional(300, 0);
    let placement = crate::PlacementKind::by_name("first-fit").unwrap();
    let files = TieredFiles::format(
        main.disk(),
        flash.disk(),
        &crate::FormatOptions::new(placement),
        &crate::tiers::FlashOptions::default(),
        &main.runtime,
    )
    .unwrap();
    let old_main = copy(&main.disk);
    for round in 0..2 {
        let mut buffer = FileBuffer::new(format!("t{round}"), hints(FileKind::Table, Tier::Fast));
        buffer.append(&content("t", 5000));
        let add = files.persist(vec![buffer]).unwrap();
        files.commit(Commit { add, ..Commit::default() }).unwrap();
    }
    drop(files);
    let (error, text) = refusal(TieredFiles::open(old_main, flash.disk(), &main.runtime));
    assert!(matches!(error, FlashError::MainOlder { expected: 2, got: 1 }), "{text}");
    TieredFiles::open(main.disk(), flash.disk(), &main.runtime).unwrap();
}

#[test]
fn without_its_flash_a_pair_is_read_only_and_says_what_is_missing() {
    let pair = Pair::small();
    let files = pair.format().unwrap();
    let log = fast_log(&files, "w1");
    let mut buffer = FileBuffer::new("a", hints(FileKind::Table, Tier::Main));
    buffer.append(&content("a", 5000));
    let add = files.persist(vec![buffer]).unwrap();
    files.commit(Commit { add, ..Commit::default() }).unwrap();
    drop((log, files));
    pair.power_cycle(Side::Main, 1);
    let hash = pair.main.disk.image_hash().unwrap();

    let files = TieredFiles::open_without_flash(pair.main.disk(), &pair.main.runtime).unwrap();
    let names: Vec<_> = files.list("").into_iter().map(|info| (info.name, info.tier)).collect();
    assert_eq!(names, [("a".to_owned(), Tier::Main), ("w1".to_owned(), Tier::Fast)]);
    let mut scratch = Vec::new();
    assert_eq!(
        files.open("a").unwrap().read_at(0, 5000, &mut scratch).unwrap(),
        content("a", 5000)
    );
    let (error, text) = refusal(files.open("w1"));
    assert!(matches!(error, FlashError::OnFlash { .. }), "{text}");
    assert!(matches!(files.open("w9"), Err(FilesError::NotFound { .. })));
    assert_eq!(["a", "w1", "w9"].map(|name| files.is_on_flash(name)), [false, true, false]);
    let is_read_only = |error| assert!(matches!(error, FlashError::ReadOnly));
    is_read_only(refusal(files.commit(Commit::default())).0);
    is_read_only(refusal(files.create_log("w", hints(FileKind::Log, Tier::Main))).0);
    is_read_only(refusal(files.create_log("w", hints(FileKind::Log, Tier::Fast))).0);
    is_read_only(refusal(files.persist(Vec::new())).0);
    assert_eq!(files.tier_stats(), None);
    assert!(files.check().unwrap().findings.is_empty());
    drop(files);
    assert_eq!(pair.main.disk.image_hash().unwrap(), hash, "nothing was written");

    let files = pair.open().unwrap();
    assert_eq!(files.open("w1").unwrap().len_bytes() % 4096, 0);
}

#[test]
fn a_flash_drive_shorter_than_a_log_is_refused_before_anything_is_written() {
    let pair = Pair::small();
    let hash = pair.flash.image_hash().unwrap();
    let (error, text) = refusal(pair.format_for_logs(64 << 20));
    assert!(matches!(error, FlashError::TooSmall { .. }), "{text}");
    assert!(
        text.contains("room for 944 KiB of files, and a log gets as long as 64.0 MiB"),
        "{text}"
    );
    assert_eq!(pair.flash.image_hash().unwrap(), hash);
    assert!(matches!(pair.main.open(), Err(FilesError::NotFormatted { .. })));
    drop(pair.format_for_logs(966_656).unwrap());

    let zoned = Pair::small();
    let swapped = Pair { flash: zoned.main.disk, main: Pair::small().main };
    assert!(matches!(swapped.format(), Err(FilesError::Unsuitable { .. })));
}

#[test]
fn a_power_cut_while_formatting_leaves_no_half_of_a_pair_that_opens() {
    let event_counts = [Side::Main, Side::Flash].map(|side| {
        let pair = Pair::small();
        drop(fast_log(&pair.format().unwrap(), "old"));
        pair.disk(side).set_faults(FaultPlan::default());
        drop(pair.format().unwrap());
        pair.disk(side).fault_event_count()
    });
    assert!(event_counts.iter().all(|&count| count < 12), "{event_counts:?}");
    for side in [Side::Main, Side::Flash] {
        // Main's catalog is written last: from then on the pair exists and persists.
        let mut is_main_made = false;
        for cut in 0..12 {
            let pair = Pair::small();
            let files = pair.format().unwrap();
            drop(fast_log(&files, "old"));
            drop(files);
            let plan = FaultPlan { power_cut_after: Some(cut), ..FaultPlan::default() };
            pair.disk(side).set_faults(plan);
            let is_formatted = pair.format().is_ok();
            // The last event of each drive belongs to the opening.
            let is_made = is_main_made || cut + 1 == event_counts[side as usize];
            pair.power_cycle(Side::Main, cut);
            pair.power_cycle(Side::Flash, cut);
            match pair.open() {
                Ok(files) if is_formatted => assert!(files.list("").is_empty()),
                Ok(files) if is_made => assert!(files.list("").is_empty()),
                Ok(files) if side == Side::Main && cut > 0 && files.list("").is_empty() => {
                    is_main_made = true;
                }
                // Nothing of either drive had been erased yet.
                Ok(files) => assert_eq!(files.list("").len(), 1, "cut {cut} of {side:?}"),
                Err(
                    FilesError::NotFormatted { .. }
                    | FilesError::Flash(FlashError::Foreign { .. } | FlashError::Unopened { .. }),
                ) if !is_formatted && !is_main_made => {}
                Err(error) => panic!("cut {cut} of {side:?}: {error}"),
            }
            drop(pair.format().unwrap());
        }
    }
}

//! A catalog that fills up. Torture found that tables and logs were begun until their commits were
//! refused, and then the commit of the recovery was refused as well.

use super::stage::{assert_sound, conventional, put, remove, verify};
use crate::{AppRecord, Commit, CommitKind, FileLayer, Files, FilesError};

fn append(files: &dyn Files, len_bytes: usize) -> Result<(), FilesError> {
    append_as(files, CommitKind::Ordinary, len_bytes)
}

fn append_as(files: &dyn Files, kind: CommitKind, len_bytes: usize) -> Result<(), FilesError> {
    let app = Some(AppRecord::Append(vec![7; len_bytes]));
    files.commit(Commit { app, kind, ..Commit::default() })
}

/// Commits until not even an empty record is accepted.
fn fill_up(files: &FileLayer, kind: CommitKind) {
    for len_bytes in [2000, 100, 10, 1, 0] {
        while append_as(files, kind, len_bytes).is_ok() {}
    }
}

/// A caller that asks before it begins something new learns in time that the catalog is crowded:
/// work in progress still commits.
#[test]
fn space_runs_out_before_commits_are_refused() {
    let stage = conventional(3072, 0);
    let files = stage.format("first-fit").unwrap();
    let is_full = || files.space().free_bytes <= files.space().reserve_bytes;
    let mut record_count = 0;
    while !is_full() {
        append(&files, 1000).unwrap();
        record_count += 1;
    }
    assert!(record_count > 20, "full after {record_count} records of 1000 bytes");
    for n in 0..10 {
        put(&files, &format!("under way {n}"), 1, 0).unwrap();
    }
    while append(&files, 1000).is_ok() {}
    assert!(is_full());
    let app = Some(AppRecord::Replace(vec![7; 10]));
    files.commit(Commit { app, ..Commit::default() }).unwrap();
    assert!(!is_full(), "room in the catalog is room again");
}

/// A catalog that ordinary commits have filled to the last byte accepts commits that bring space
/// back, and a recovery continues where those end. At each step the drive can be reopened.
#[test]
fn a_catalog_filled_to_the_last_byte_is_opened_again() {
    let stage = conventional(3072, 64);
    let mut files = stage.format("first-fit").unwrap();
    put(&files, "a", 3, 1).unwrap();
    put(&files, "b", 3, 1).unwrap();
    let kinds = [CommitKind::Ordinary, CommitKind::Upkeep, CommitKind::Recovery];
    for (turn, kind) in kinds.into_iter().enumerate() {
        append_as(&files, kind, 1000).unwrap();
        fill_up(&files, kind);
        let full = files.space().catalog;
        assert!(full.free_bytes(kind) < 5, "{kind:?}: {full:?}");
        drop(files);
        stage.power_cycle(turn as u64);
        files = stage.open().unwrap();
        assert_eq!(files.space().catalog, full, "{kind:?}");
        verify(&files, "a", "a").unwrap();
        // L2: a commit that does not lengthen the catalog succeeds, however full it is.
        let level = vec![("a".to_owned(), 2 + turn as u8)];
        files.commit(Commit { level, ..Commit::default() }).unwrap();
        let same: usize = files.app_records().iter().map(Vec::len).sum();
        let app = Some(AppRecord::Replace(vec![8; same]));
        files.commit(Commit { app, ..Commit::default() }).unwrap();
        assert_sound(&files);
    }
    remove(&files, &["b"]).unwrap();
    let app = Some(AppRecord::Replace(vec![9; 10]));
    files.commit(Commit { app, ..Commit::default() }).unwrap();
    put(&files, "c", 3, 1).unwrap();
    assert_sound(&files);
}

/// A log takes one run after another until the catalog is full. The append that finds no room for
/// another run changes nothing, and the log continues once there is room.
#[test]
fn a_log_waits_for_room_in_the_catalog() {
    let stage = conventional(3072, 64);
    let files = stage.format("first-fit").unwrap();
    let log = files.create_log("w", crate::Hints::new(crate::FileKind::Log)).unwrap();
    fill_up(&files, CommitKind::Ordinary);
    let chunk = vec![1; 256 << 10];
    let refused = (0..100).find_map(|_| log.append(&chunk).err()).unwrap();
    assert!(matches!(refused, FilesError::NoSpace { .. }), "{refused}");
    let app = Some(AppRecord::Replace(vec![9; 10]));
    files.commit(Commit { app, ..Commit::default() }).unwrap();
    log.append(&chunk).unwrap();
    log.sync().unwrap();
    drop(log);
    assert_sound(&files);
}

/// A checkpoint repeats a name with each link, and the repetitions were not counted. Many links to
/// a file with a long name outgrew the region, and from the next checkpoint on the store accepted
/// nothing, not even removals (L1, L2).
#[test]
fn many_links_with_long_names_leave_the_catalog_room() {
    let long = |tag: &str| format!("{tag:x<1024}");
    let few_long: fn(usize) -> String = |n| format!("link {n}");
    let all_long: fn(usize) -> String = |n| format!("{:x<1024}", format!("link {n} "));
    let falling: fn(usize) -> String =
        |n| format!("{:x<1$}", format!("l {n} "), 1020 - n.min(1000));
    for (name_of, at_least) in [(few_long, 500), (all_long, 40), (falling, 40)] {
        let stage = conventional(3072, 0);
        let mut files = stage.format("first-fit").unwrap();
        put(&files, &long("a"), 1, 1).unwrap();
        let link = |files: &FileLayer, n| {
            let link = vec![(long("a"), name_of(n))];
            files.commit(Commit { link, ..Commit::default() })
        };
        let count = (0..).take_while(|&n| link(&files, n).is_ok()).count();
        assert!(count >= at_least, "{count} links");
        let full = files.space().catalog;
        assert!(matches!(link(&files, count), Err(FilesError::NoSpace { .. })));
        // The first change after an open writes a checkpoint of everything.
        drop(files);
        files = stage.open().unwrap();
        assert_eq!(files.space().catalog, full);
        remove(&files, &[&name_of(0)]).unwrap();
        remove(&files, &[&long("a")]).unwrap();
        assert_eq!(files.name_count(&name_of(1)), count - 1);
        assert_sound(&stage.open().unwrap());
    }
}

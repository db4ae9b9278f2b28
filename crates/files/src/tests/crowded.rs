//! A catalog that fills up, as torture found it: tables and logs went on being begun until their
//! commits were refused, and then so was the commit of the recovery.

use super::stage::{conventional, put};
use crate::{AppRecord, Commit, Files, FilesError};

fn append(files: &dyn Files, len_bytes: usize) -> Result<(), FilesError> {
    let app = Some(AppRecord::Append(vec![7; len_bytes]));
    files.commit(Commit { app, ..Commit::default() })
}

/// Whoever asks before it begins something new is told in time: what is under way still commits.
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

//! Bugs that torture found, each told as the shortest story that shows it.

use crate::stage::{seeded, small};
use imbrex::{WriteBatch, WriteOptions};

/// One batch finds the memtables of two keyspaces full: the log is ended for the first, and at once
/// again for the second, so that an empty log begins with the same write as its successor. The
/// store forgot logs by their first write and took the empty one for its successor: it was removed
/// from the drive twice, and the second commit failed.
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

/// A keyspace is flushed whose log another keyspace still needs: the check compared the table's
/// writes with a counter that only moves when a log is removed, and called the table damaged.
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

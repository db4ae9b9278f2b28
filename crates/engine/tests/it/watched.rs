//! Long calls that are watched, and stopped in the middle.

use crate::stage::{Stage, key, seeded, small};
use imbrex_engine::{Db, EngineError, OpenMode, Options, Progress};
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};

const COUNT: u64 = 20_000;

fn value(i: u64, round: u64) -> Vec<u8> {
    format!("value {i} of round {round} {}", "x".repeat((i % 200) as usize)).into_bytes()
}

/// A store with several levels, in which every key was written twice.
fn filled() -> (Stage, Db) {
    let stage = seeded(96, 1);
    let db = stage.create(small());
    let ks = db.default_keyspace();
    for round in 0..2 {
        for i in 0..COUNT {
            let n = i.wrapping_mul(7919) % COUNT;
            ks.put(key(n), value(n, round)).unwrap();
        }
    }
    db.wait_idle().unwrap();
    (stage, db)
}

#[track_caller]
fn assert_all_there(db: &Db) {
    let ks = db.default_keyspace();
    let entries = ks.range::<&[u8]>(..).unwrap().map(Result::unwrap);
    let mut count = 0;
    for ((k, v), i) in entries.zip(0..) {
        assert_eq!((&k[..], &v[..]), (key(i).as_ref(), &value(i, 1)[..]));
        count += 1;
    }
    assert_eq!(count, COUNT);
    assert!(db.check().unwrap().is_sound());
}

#[test]
fn a_compaction_stopped_at_any_step_loses_nothing_and_can_be_done_later() {
    let (_stage, db) = filled();
    let ks = db.default_keyspace();
    // Each try gets further than the one before.
    for step_max in [0, 1, 2, 3] {
        let mut step = 0;
        let result = ks.compact_range_with(None, None, &mut |_| {
            step += 1;
            if step > step_max { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        assert!(matches!(result, Err(EngineError::Stopped { what: "compaction" })), "{result:?}");
        assert_eq!(step, step_max + 1, "once told to stop it asks no more");
    }
    ks.put("after", "a stopped compaction poisons nothing").unwrap();
    ks.delete("after").unwrap();
    assert_all_there(&db);
    ks.compact_range(None, None).unwrap();
    assert_all_there(&db);
    assert_eq!(db.check().unwrap().entry_count, COUNT, "one version of each key is left");
}

/// After the watch had panicked, the inputs of the merge stayed marked as busy: no compaction took
/// them, and writes stopped.
#[test]
fn who_watches_a_compaction_may_panic() {
    for step_max in [2, 5, 8] {
        let (_stage, db) = filled();
        let ks = db.default_keyspace();
        let mut step = 0;
        let mut watch = |_| {
            step += 1;
            assert!(step <= step_max, "a bug in who watches");
            ControlFlow::Continue(())
        };
        let call = AssertUnwindSafe(|| ks.compact_range_with(None, None, &mut watch));
        assert!(catch_unwind(call).is_err());
        db.wait_idle().unwrap();
        ks.compact_range(None, None).unwrap();
        assert_all_there(&db);
    }
}

/// A store opened for reading has no jobs, but waited for them if a compaction was due.
#[test]
fn what_is_only_read_waits_for_nothing() {
    let stage = seeded(96, 1);
    let unattended = Options { background_work: false, ..small() };
    let db = stage.create(unattended);
    for round in 0..4 {
        (0..500).for_each(|i| db.default_keyspace().put(key(i), value(i, round)).unwrap());
        db.flush().unwrap();
    }
    db.checkpoint("copy").unwrap();
    db.close().unwrap();
    let db = stage.reopen(Options { open_mode: OpenMode::ReadOnly, ..small() }).unwrap();
    db.wait_idle().unwrap();
    db.close().unwrap();
    let db = stage.reopen(small()).unwrap();
    db.open_checkpoint("copy").unwrap().wait_idle().unwrap();
}

#[test]
fn progress_goes_forward_and_arrives() {
    let (_stage, db) = filled();
    let ks = db.default_keyspace();
    let mut seen = Vec::new();
    let mut watch = |progress: Progress| {
        seen.push(progress);
        ControlFlow::Continue(())
    };
    ks.compact_range_with(None, None, &mut watch).unwrap();
    let check = db.check_with(&mut watch).unwrap();
    let at_check = seen.iter().rposition(|p| p.done_bytes == 0).unwrap();
    for part in [&seen[..at_check], &seen[at_check..]] {
        assert!(part.len() > 10, "{} looks", part.len());
        assert!(part.windows(2).all(|pair| pair[0].done_bytes <= pair[1].done_bytes), "{part:?}");
        let last = part.last().unwrap();
        assert!(part.iter().all(|p| p.done_bytes <= p.total_bytes), "{part:?}");
        assert!(last.done_bytes * 10 >= last.total_bytes * 5, "it ends near its end: {last:?}");
    }
    let last = seen.last().unwrap();
    assert_eq!(last.total_bytes, 2 * check.table_len_bytes, "table by table, then in order of key");
}

#[test]
fn a_check_and_a_wait_are_stopped() {
    let (_stage, db) = filled();
    let result = db.check_with(&mut |progress| match progress.done_bytes {
        0 => ControlFlow::Continue(()),
        _ => ControlFlow::Break(()),
    });
    assert!(matches!(result, Err(EngineError::Stopped { what: "check" })), "{result:?}");
    let result = db.wait_idle_with(&mut |_| ControlFlow::Break(()));
    assert!(matches!(result, Err(EngineError::Stopped { .. })), "{result:?}");
    assert_all_there(&db);
}

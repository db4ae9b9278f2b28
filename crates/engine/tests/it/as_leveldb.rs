//! Two habits of LevelDB, each an option of its own: flushes pass levels that are empty where they go, and
//! tables go down that gets miss. RocksDB also takes one victim at a time, but without these habits.

use crate::stage::{key, small, small_keyspace, zoned};
use imbrex_clockwork::Order;
use imbrex_engine::tuning::VictimGrowth;
use imbrex_engine::{CompactionKind, Db, KeyspaceOptions, Options};

/// One victim at a time, with these habits: flushes pass levels, missed tables go down.
fn options(compaction: CompactionKind, (passes, goes_down): (bool, bool)) -> Options {
    let keyspace = KeyspaceOptions {
        compaction,
        victim_growth: VictimGrowth::Single,
        flushes_pass_levels: passes,
        missed_tables_go_down: goes_down,
        ..small_keyspace()
    };
    Options { keyspace, ..small() }
}

/// The number of tables of each level.
fn shape(db: &Db) -> Vec<(u8, usize)> {
    let levels = &db.metrics().keyspaces[0].levels;
    levels.iter().map(|level| (level.level, level.table_count)).collect()
}

fn put(db: &Db, numbers: impl Iterator<Item = u64>) {
    for number in numbers {
        db.default_keyspace().put(key(number), [number as u8; 100]).unwrap();
    }
    db.flush().unwrap();
    db.wait_idle().unwrap();
}

#[test]
fn a_flush_passes_levels_that_hold_nothing_in_its_range() {
    let kinds = [CompactionKind::Leveled, CompactionKind::SetAware, CompactionKind::Gear];
    for kind in kinds {
        let db = zoned(32, Order::SmallestTime).create(options(kind, (true, false)));
        put(&db, 0..20);
        put(&db, 100..120);
        assert_eq!(shape(&db), [(2, 2)], "{kind:?}: both lie in level 2");
        put(&db, 10..30);
        assert_eq!(shape(&db), [(1, 1), (2, 2)], "{kind:?}: over a table of level 2");
        put(&db, 25..40);
        assert_eq!(shape(&db), [(0, 1), (1, 1), (2, 2)], "{kind:?}: over a table of level 1");
        assert_eq!(db.metrics().compaction_out_bytes, 0, "{kind:?}: nothing was merged");
        // A range delete reaches as far as it deletes.
        db.default_keyspace().delete_range(key(50)..key(110)).unwrap();
        db.flush().unwrap();
        assert_eq!(shape(&db), [(0, 1), (1, 2), (2, 2)], "{kind:?}");
        assert_eq!(db.default_keyspace().range::<&[u8]>(..).unwrap().count(), 40 + 10, "{kind:?}");
        assert!(db.check().unwrap().is_sound(), "{kind:?}");
    }
}

#[test]
fn a_flush_stays_in_level_0_without_that_option() {
    let kinds = [CompactionKind::Leveled, CompactionKind::SetAware, CompactionKind::Gear];
    for (kind, misses) in kinds.into_iter().flat_map(|kind| [(kind, false), (kind, true)]) {
        let db = zoned(32, Order::SmallestTime).create(options(kind, (false, misses)));
        put(&db, 0..20);
        put(&db, 100..120);
        assert_eq!(shape(&db), [(0, 2)], "{kind:?}, misses: {misses}");
    }
}

#[test]
fn gets_that_miss_a_table_bring_it_down() {
    for kind in [CompactionKind::Leveled, CompactionKind::SetAware] {
        let db = zoned(32, Order::SmallestTime).create(options(kind, (true, true)));
        put(&db, (0..40).step_by(2));
        put(&db, (1..41).step_by(2));
        assert_eq!(shape(&db), [(1, 1), (2, 1)], "{kind:?}");
        let get = |number: u64| db.default_keyspace().get(key(number)).unwrap();
        // Those that find something at once, and those that look in one table, do not count.
        for _ in 0..200 {
            assert!(get(1).is_some() && get(41).is_none() && get(0).is_some());
        }
        db.wait_idle().unwrap();
        assert_eq!(shape(&db), [(1, 1), (2, 1)], "{kind:?}");
        // The even keys are below the odd ones.
        for _ in 0..100 {
            assert!(get(10).is_some());
        }
        db.wait_idle().unwrap();
        assert_eq!(shape(&db), [(2, 1)], "{kind:?}");
        let lines = db.metrics().compactions;
        assert!(
            lines.last().is_some_and(|line| line.plan.contains("gets miss a table of level 1"))
        );
        let is_whole = (0..40).all(|number| get(number).is_some_and(|v| v[0] == number as u8));
        assert!(is_whole, "{kind:?}");
    }
}

#[test]
fn no_misses_count_without_that_option() {
    for (passes, expected) in [(false, vec![(0, 2)]), (true, vec![(1, 1), (2, 1)])] {
        let options = options(CompactionKind::Leveled, (passes, false));
        let db = zoned(32, Order::SmallestTime).create(options);
        put(&db, (0..40).step_by(2));
        put(&db, (1..41).step_by(2));
        for _ in 0..1_000 {
            assert!(db.default_keyspace().get(key(10)).unwrap().is_some());
        }
        db.wait_idle().unwrap();
        assert_eq!(shape(&db), expected, "flushes pass levels: {passes}");
    }
}

/// A table of level 0 goes down for its misses although flushes stay in level 0.
#[test]
fn missed_tables_go_down_from_level_0() {
    let options = options(CompactionKind::Leveled, (false, true));
    let db = zoned(32, Order::SmallestTime).create(options);
    put(&db, (0..40).step_by(2));
    put(&db, (1..41).step_by(2));
    assert_eq!(shape(&db), [(0, 2)]);
    for _ in 0..100 {
        assert!(db.default_keyspace().get(key(10)).unwrap().is_some());
    }
    db.wait_idle().unwrap();
    assert_eq!(shape(&db), [(1, 1)], "with the table that it overlaps");
}

/// A reopened store goes on as it began, whatever the options of the opening say.
#[test]
fn the_habits_are_recorded() {
    for habits in [(false, false), (true, false), (false, true), (true, true)] {
        let stage = zoned(32, Order::SmallestTime);
        let db = stage.create(options(CompactionKind::Leveled, habits));
        db.close().unwrap();
        let others = options(CompactionKind::Leveled, (!habits.0, !habits.1));
        let db = stage.reopen(others).unwrap();
        let keyspace = db.default_keyspace();
        let recorded = keyspace.options();
        let found = (recorded.flushes_pass_levels, recorded.missed_tables_go_down);
        assert_eq!(found, habits);
        put(&db, 0..20);
        assert_eq!(shape(&db), [(if habits.0 { 2 } else { 0 }, 1)]);
    }
}

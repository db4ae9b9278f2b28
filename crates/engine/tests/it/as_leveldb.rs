//! What LevelDB does besides one victim at a time: flushes pass empty levels, and gets that miss a table
//! bring it down.

use crate::stage::{key, small, small_keyspace, zoned};
use imbrex_clockwork::Order;
use imbrex_engine::tuning::VictimGrowth;
use imbrex_engine::{CompactionKind, Db, KeyspaceOptions, Options};

fn options(compaction: CompactionKind, victim_growth: VictimGrowth) -> Options {
    let keyspace = KeyspaceOptions { compaction, victim_growth, ..small_keyspace() };
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
        let db = zoned(32, Order::SmallestTime).create(options(kind, VictimGrowth::Single));
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
    let db = zoned(32, Order::SmallestTime)
        .create(options(CompactionKind::Leveled, VictimGrowth::Neighbours));
    put(&db, 0..20);
    assert_eq!(shape(&db), [(0, 1)], "only LevelDB's rule passes level 0");
}

#[test]
fn gets_that_miss_a_table_bring_it_down() {
    for kind in [CompactionKind::Leveled, CompactionKind::SetAware] {
        let db = zoned(32, Order::SmallestTime).create(options(kind, VictimGrowth::Single));
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
fn no_misses_count_without_leveldbs_rule() {
    let db = zoned(32, Order::SmallestTime)
        .create(options(CompactionKind::Leveled, VictimGrowth::Neighbours));
    put(&db, (0..40).step_by(2));
    put(&db, (1..41).step_by(2));
    for _ in 0..1_000 {
        assert!(db.default_keyspace().get(key(10)).unwrap().is_some());
    }
    db.wait_idle().unwrap();
    assert_eq!(shape(&db), [(0, 2)]);
}

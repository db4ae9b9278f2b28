//! The totals of a store's lifetime: what they survive, and what they cost.

use crate::stage::{Stage, key, seeded, small};
use imbrex_clockwork::{Prng, seeds};
use imbrex_disk::{BLOCK_LEN_BYTES, Disk, Lba};
use imbrex_engine::{Db, OpenMode, Options, Total};
use imbrex_files::{FileLayer, Files};
use std::sync::Arc;

/// Puts so much that there are flushes and compactions.
fn fill(db: &Db, value: u8) {
    for n in 0..1_000 {
        db.default_keyspace().put(key(n), [value; 200]).unwrap();
    }
    db.wait_idle().unwrap();
}

fn lifetime(db: &Db) -> Vec<u64> {
    let totals = db.totals_of_lifetime();
    Total::ALL.iter().map(|total| totals.get(*total)).collect()
}

fn read_only() -> Options {
    Options { open_mode: OpenMode::ReadOnly, ..small() }
}

#[test]
fn a_lifetime_is_the_sum_of_all_openings() {
    let stage = seeded(64, 1);
    let mut sums = vec![0; Total::ALL.len()];
    let mut db = stage.create(small());
    for round in 0..3_u8 {
        fill(&db, round);
        let since = db.totals_since_opening();
        assert_eq!(since.get(Total::UserWrites), 1_000);
        assert!(since.get(Total::FlushedBytes) > 0 && since.get(Total::DriveWrittenBytes) > 0);
        for (sum, total) in sums.iter_mut().zip(Total::ALL) {
            *sum += since.get(*total);
        }
        assert_eq!(lifetime(&db), sums);
        db.close().unwrap();
        db = stage.reopen(small()).unwrap();
        // The close recorded everything up to its own commit; the opening has counted a little since.
        let since = db.totals_since_opening();
        for ((sum, total), now) in sums.iter_mut().zip(Total::ALL).zip(lifetime(&db)) {
            let recorded = now - since.get(*total);
            assert!(*sum <= recorded, "{}", total.name());
            if *total as u8 <= Total::OffloadedBytes as u8 {
                assert_eq!(*sum, recorded, "{}", total.name());
            }
            *sum = recorded;
        }
    }
}

#[test]
fn one_open_file_layer_is_not_counted_twice() {
    let stage = seeded(64, 2);
    let files = stage.format() as Arc<dyn Files>;
    let open = || Db::open(Arc::clone(&files), stage.runtime.clone(), small()).unwrap();
    let db = open();
    fill(&db, 1);
    db.close().unwrap();
    let db = open();
    let written = db.totals_of_lifetime().get(Total::DriveWrittenBytes);
    assert!(written <= stage.disk.counters().written_bytes, "{written}");
}

#[test]
fn a_power_cut_takes_what_came_after_the_last_commit_and_nothing_else() {
    for seed in seeds(6) {
        let stage = seeded(64, seed);
        let mut prng = Prng::new(seed);
        let db = stage.create(small());
        fill(&db, 1);
        db.flush().unwrap();
        let committed = lifetime(&db);
        db.default_keyspace().put("late", "lost").unwrap();
        let at_cut = lifetime(&db);
        stage.crash(db, &mut prng);
        let db = stage.reopen(small()).unwrap();
        let (since, after) = (db.totals_since_opening(), lifetime(&db));
        for ((total, now), cut) in Total::ALL.iter().zip(after).zip(at_cut) {
            assert!(now - since.get(*total) <= cut, "{}: {now}", total.name());
        }
        // The flush's commit has the 1,000 writes; the flush itself is counted with the next one.
        let recorded = db.totals_of_lifetime().get(Total::UserWrites);
        assert_eq!((recorded, committed[0]), (1_000, 1_000), "seed {seed}");
    }
}

#[test]
fn a_store_that_is_only_read_writes_nothing_for_its_totals() {
    let stage = seeded(64, 3);
    let db = stage.create(small());
    fill(&db, 1);
    db.flush().unwrap();
    db.close().unwrap();
    for options in [read_only(), small()] {
        let db = stage.reopen(options).unwrap();
        let before = stage.disk.counters().writes;
        assert!(db.default_keyspace().get(key(5)).unwrap().is_some());
        assert!(db.totals_since_opening().get(Total::UserWrites) == 0);
        assert!(db.totals_of_lifetime().get(Total::UserWrites) == 1_000);
        db.close().unwrap();
        assert_eq!(stage.disk.counters().writes, before);
    }
}

/// The last block that is written in each copy of the catalog, before the last `before` of them.
fn newest_records(stage: &Stage, before: usize) -> [Lba; 2] {
    let region_len_blocks = 256;
    [0, region_len_blocks].map(|start| {
        let mut block = vec![0; BLOCK_LEN_BYTES];
        let mut is_written = |at: &Lba| {
            stage.disk.read(*at, &mut block).unwrap();
            block.iter().any(|&byte| byte != 0)
        };
        let blocks: Vec<_> =
            (start..start + region_len_blocks).map(Lba::new).filter(|at| is_written(at)).collect();
        blocks[blocks.len() - 1 - before]
    })
}

#[test]
fn the_newest_record_of_a_closed_store_may_rot_in_both_copies() {
    for before in [0, 1] {
        let stage = seeded(64, 6);
        let db = stage.create(small());
        db.default_keyspace().put("a", "1").unwrap();
        db.checkpoint("monday").unwrap();
        db.close().unwrap();
        for at in newest_records(&stage, before) {
            stage.disk.flip_bit(at, 300).unwrap();
        }
        if before == 0 {
            let db = stage.reopen(small()).unwrap();
            assert_eq!(db.checkpoints(), ["monday"]);
            assert_eq!(db.default_keyspace().get("a").unwrap().unwrap(), "1");
            continue;
        }
        // The record before it is known to have been durable: its loss is an error.
        stage.world.drop_jobs();
        let disk = Arc::clone(&stage.disk) as Arc<dyn Disk>;
        let refused = FileLayer::open(disk, &stage.runtime).unwrap_err();
        assert!(refused.is_damage(), "{refused}");
    }
}

#[test]
fn a_copy_and_a_checkpoint_begin_at_zero() {
    let stage = seeded(64, 4);
    let db = stage.create(small());
    fill(&db, 1);
    db.checkpoint("monday").unwrap();
    let checkpoint = db.open_checkpoint("monday").unwrap();
    assert_eq!(checkpoint.totals_of_lifetime().get(Total::UserWrites), 0);
    let other: Stage = seeded(64, 5);
    let files = other.format() as Arc<dyn Files>;
    db.backup_to(&*files).unwrap();
    let copy = Db::open(files, other.runtime.clone(), small()).unwrap();
    assert_eq!(copy.totals_of_lifetime().get(Total::UserWrites), 0);
    assert!(copy.default_keyspace().get(key(5)).unwrap().is_some());
}

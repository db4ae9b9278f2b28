//! A process is killed during a sync and leaves its writes in the drive's cache. The next process
//! finds them there and builds on them, and then the power is cut.

use crate::power_cut::{Allowed, check_contract, options_of, recover, write};
use crate::stage::{Stage, key, seeded, small};
use imbrex_clockwork::Prng;
use imbrex_disk_sim::FaultPlan;
use imbrex_engine::{Db, EngineError, KeyspaceOptions};

/// Leaves `db` as a killed process does: nothing is closed, and the drive keeps its cache.
fn kill(stage: &Stage, db: Db) {
    stage.world.drop_jobs();
    db.abandon("killed");
    drop(db);
    stage.disk.set_faults(FaultPlan::default());
}

/// Everything found at the opening is durable: the power is cut before the store is written again,
/// or soon after.
#[test]
fn what_a_killed_process_left_is_durable_once_the_store_is_open() {
    let mut was_killed_count = 0;
    for seed in 0..48 {
        let stage = seeded(96, seed);
        let mut prng = Prng::new(seed).derive("kills");
        let options = options_of(seed);
        let mut db = stage.create(options.clone());
        let mut allowed = Allowed::empty();
        for cycle in 0..6 {
            let kill_in_sync_after = Some(prng.below(80));
            stage.disk.set_faults(FaultPlan { kill_in_sync_after, ..FaultPlan::default() });
            let is_killed = (0..400).any(|_| write(&db, &mut allowed, &mut prng).is_err());
            was_killed_count += u64::from(is_killed);
            kill(&stage, db);

            db = stage.reopen(options.clone()).unwrap();
            check_contract(&db, &mut allowed, seed, cycle);
            let power_cut_after = Some(prng.below(30));
            stage.disk.set_faults(FaultPlan { power_cut_after, ..FaultPlan::default() });
            let _ = (0..prng.below(100)).any(|_| write(&db, &mut allowed, &mut prng).is_err());
            stage.crash(db, &mut prng);
            db = recover(&stage, &options, &mut prng);
            check_contract(&db, &mut allowed, seed, cycle);
        }
    }
    assert!(was_killed_count > 200, "{was_killed_count}");
}

/// A store without logs has nothing to commit at the opening, so nothing was synced.
#[test]
fn names_that_are_found_are_durable_once_the_store_is_open() {
    type Deed = fn(&Db) -> Result<(), EngineError>;
    let deeds: [Deed; 4] = [
        |db| db.create_keyspace("new", KeyspaceOptions::default()).map(drop),
        |db| db.drop_keyspace("old"),
        |db| db.checkpoint("new"),
        |db| db.delete_checkpoint("old"),
    ];
    let names = |db: &Db| (db.keyspace_names(), db.checkpoints());
    for (index, deed) in deeds.into_iter().enumerate() {
        let mut found_count = 0;
        for (kill_in, seed) in (0..8).flat_map(|kill_in| (0..8).map(move |seed| (kill_in, seed))) {
            let stage = seeded(96, seed);
            let db = stage.create(small());
            db.create_keyspace("old", KeyspaceOptions::default()).unwrap();
            db.checkpoint("old").unwrap();
            db.close().unwrap();
            let db = stage.reopen(small()).unwrap();
            let before = names(&db);
            let plan = FaultPlan { kill_in_sync_after: Some(kill_in), ..FaultPlan::default() };
            stage.disk.set_faults(plan);
            let done = deed(&db);
            kill(&stage, db);

            let db = stage.reopen(small()).unwrap();
            let found = names(&db);
            found_count += u64::from(found != before && done.is_err());
            stage.crash(db, &mut Prng::new(seed));
            let db = stage.reopen(small()).unwrap();
            assert_eq!(names(&db), found, "deed {index}, killed in sync {kill_in}, seed {seed}");
        }
        assert!(found_count > 0, "deed {index}");
    }
}

/// How much of the log a process keeps in memory: less than a frame, and the last write. Losing
/// that frame also loses the whole write that ends in it, however long the write is.
#[test]
fn a_killed_process_loses_less_than_a_frame_and_its_last_write() {
    let frame_len_bytes = small().log_frame_len_bytes as u64;
    let (mut most_bytes, mut long_count) = (0, 0);
    let is_long = |len_bytes: &u64| *len_bytes > 2 * frame_len_bytes;
    for seed in 0..64 {
        let stage = seeded(96, seed);
        let mut prng = Prng::new(seed).derive("lengths");
        let db = stage.create(small());
        let mut lens = Vec::new();
        for n in 0..1 + prng.below(60) {
            let len_bytes = match prng.below(24) {
                0 => (1 << 20) + prng.below(1 << 20),
                1..=4 => prng.below(4 * frame_len_bytes),
                _ => prng.below(1500),
            };
            db.default_keyspace().put(key(n), vec![7; len_bytes as usize]).unwrap();
            lens.push(len_bytes);
        }
        kill(&stage, db);

        let db = stage.reopen(small()).unwrap();
        let found = db.default_keyspace().prefix("key").unwrap();
        let found: Vec<_> = found.map(|entry| entry.unwrap().0.to_vec()).collect();
        let first = (0..found.len() as u64).map(key);
        assert!(found.iter().cloned().eq(first), "seed {seed}: a suffix is lost, nothing else");
        let [first, between @ .., _last] = &lens[found.len()..] else { continue };
        long_count += u64::from(is_long(first));
        let lost_bytes: u64 = between.iter().sum();
        assert!(lost_bytes < frame_len_bytes, "seed {seed}: {lost_bytes} bytes between the two");
        most_bytes = lost_bytes.max(most_bytes);
    }
    assert!(most_bytes > frame_len_bytes / 2 && long_count > 0, "{most_bytes}, {long_count}");
}

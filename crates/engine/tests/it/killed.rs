//! A process is killed in a sync and leaves what it wrote in the drive's cache; the next one finds it there and builds
//! on it, and then the power goes.

use crate::power_cut::{Allowed, Map, check_contract, contents, recover, write};
use crate::stage::{Stage, seeded, small, small_gear};
use imbrex::{Db, KeyspaceOptions, Options};
use imbrex_clockwork::Prng;
use imbrex_disk_sim::FaultPlan;

/// Leaves `db` as a process does that is killed: nothing is closed, and the drive keeps its cache.
fn kill(stage: &Stage, db: Db) {
    stage.world.drop_jobs();
    db.abandon("killed");
    drop(db);
    stage.disk.set_faults(FaultPlan::default());
}

#[test]
fn what_a_killed_process_left_is_durable_once_it_is_synced() {
    let mut was_killed_count = 0;
    for seed in 0..48 {
        let stage = seeded(96, seed);
        let mut prng = Prng::new(seed).derive("kills");
        let options = match seed % 3 {
            0 => small(),
            1 => Options { logs_are_tables: true, ..small() },
            _ => small_gear(),
        };
        let mut db = stage.create(options.clone());
        let mut allowed = Allowed { states: vec![Map::new()] };
        for cycle in 0..6 {
            let kill_in_sync_after = Some(prng.below(80));
            stage.disk.set_faults(FaultPlan { kill_in_sync_after, ..FaultPlan::default() });
            let is_killed = (0..400).any(|_| write(&db, &mut allowed, &mut prng).is_err());
            was_killed_count += u64::from(is_killed);
            kill(&stage, db);

            db = stage.reopen(options.clone()).unwrap();
            let found = contents(&db);
            let at = allowed.states.iter().rposition(|state| *state == found);
            let told = format!("seed {seed}, cycle {cycle}");
            let at = at.unwrap_or_else(|| panic!("{told}: a kill took something"));
            allowed.states.truncate(at + 1);
            if prng.chance(1, 2) {
                db.sync().unwrap();
                allowed.synced();
            }
            let power_cut_after = Some(prng.below(30));
            stage.disk.set_faults(FaultPlan { power_cut_after, ..FaultPlan::default() });
            for _ in 0..prng.below(100) {
                if write(&db, &mut allowed, &mut prng).is_err() {
                    break;
                }
            }
            stage.crash(db, &mut prng);
            db = recover(&stage, &options, &mut prng);
            check_contract(&db, &mut allowed, seed, cycle);
        }
    }
    assert!(was_killed_count > 200, "{was_killed_count}");
}

/// A store without logs has nothing to commit when it is opened, so nothing was flushed.
#[test]
fn a_keyspace_that_is_found_is_durable_once_the_store_is_synced() {
    let mut found_count = 0;
    for (kill_in, seed) in (0..8).flat_map(|kill_in| (0..8).map(move |seed| (kill_in, seed))) {
        let stage = seeded(96, seed);
        stage.create(small()).close().unwrap();
        let db = stage.reopen(small()).unwrap();
        stage
            .disk
            .set_faults(FaultPlan { kill_in_sync_after: Some(kill_in), ..FaultPlan::default() });
        let made = db.create_keyspace("k", KeyspaceOptions::default()).map(drop);
        kill(&stage, db);

        let db = stage.reopen(small()).unwrap();
        let is_found = db.keyspace("k").is_ok();
        found_count += u64::from(is_found && made.is_err());
        db.sync().unwrap();
        stage.crash(db, &mut Prng::new(seed));
        let db = stage.reopen(small()).unwrap();
        assert!(db.keyspace("k").is_ok() || !is_found, "killed in sync {kill_in}, seed {seed}");
    }
    assert!(found_count > 0);
}

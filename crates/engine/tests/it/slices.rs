//! Slices: flushes that wait on a flash drive, under lazy leveling.

use crate::offload::{Map, Pair, contents, cut_either_drive};
use crate::stage::{key, small, small_keyspace};
use imbrex_clockwork::{Order, Prng};
use imbrex_engine::{
    CompactionKind, Compression, Db, EngineError, KeyspaceOptions, OpenMode, Options, Total,
    WriteOptions,
};
use imbrex_files::tiers::TieredFiles;
use imbrex_files::{Files, Tier};
use std::sync::Arc;

const VALUE_LEN_BYTES: usize = 1000;

fn options() -> Options {
    let keyspace = KeyspaceOptions {
        compaction: CompactionKind::Lazy,
        compression: Compression::None,
        table_len_bytes: 64 << 10,
        block_len_bytes: 4096,
        base_level_len_bytes: 4 << 20,
        grandparent_table_count_max: 3,
        l0_compact_run_count: 4,
        l0_slowdown_run_count: 48,
        l0_stop_run_count: 96,
        ..small_keyspace()
    };
    let flushes_to_flash = true;
    Options {
        memtable_len_bytes: 512 << 10,
        free_memtable_count_min: 1,
        flushes_to_flash,
        keyspace,
        ..small()
    }
}

fn pair(order: Order) -> Pair {
    Pair::of_len(order, (48, 4), "zone-per-stream")
}

fn put(db: &Db, map: &mut Map, prng: &mut Prng, number: u64) {
    let mut value = vec![0; VALUE_LEN_BYTES];
    prng.fill(&mut value);
    db.default_keyspace().put(key(number), &value).unwrap();
    map.insert(key(number), value);
}

/// Overwrites `count` keys of 8,000.
fn overwrite(db: &Db, map: &mut Map, prng: &mut Prng, count: u64) {
    for _ in 0..count {
        let number = prng.below(8000);
        put(db, map, prng, number);
    }
}

/// The levels of the tables on flash.
fn levels_on_flash(files: &TieredFiles) -> Vec<u8> {
    let on_flash = files.list("").into_iter().filter(|info| info.tier == Tier::Fast);
    on_flash.map(|info| info.level).collect()
}

fn check(db: &Db, map: &Map, what: &str) {
    assert!(contents(db) == *map, "{what}");
    let report = db.check().unwrap();
    assert!(report.is_sound(), "{what}: {report}");
}

#[test]
fn slices_wait_until_flash_is_full() {
    let pair = pair(Order::SmallestTime);
    let (files, db) = pair.create(options());
    let (mut prng, mut map) = (Prng::new(1), Map::new());
    // Two memtables: the first is behind all keys, the second waits.
    overwrite(&db, &mut map, &mut prng, 1100);
    db.flush().unwrap();
    db.wait_idle().unwrap();
    let stats = files.tier_stats().unwrap();
    assert!(stats.tables > 0 && levels_on_flash(&files).iter().all(|&level| level == 0));
    let destages = |db: &Db| {
        let lines = db.metrics().compactions;
        lines.iter().filter(|line| line.plan.contains("destage")).count()
    };
    assert_eq!(destages(&db), 0);
    overwrite(&db, &mut map, &mut prng, 30_000);
    db.flush().unwrap();
    db.wait_idle().unwrap();
    assert!(destages(&db) > 5);
    assert!(levels_on_flash(&files).iter().all(|&level| level == 0), "Z8");
    let stats = files.tier_stats().unwrap();
    let flushed_bytes = db.metrics().flush_out_bytes;
    let to_flash_percent = stats.written_bytes * 100 / flushed_bytes;
    assert!(to_flash_percent > 80, "{to_flash_percent} % of flushes, {stats:?}");
    // At rest, what is on flash leaves room for the next memtable.
    assert!(stats.space.free_bytes > 512 << 10, "{stats:?}");
    check(&db, &map, "overwritten");
    let totals = db.totals_of_lifetime();
    assert!(totals.get(Total::FlashWrittenBytes) > stats.written_bytes, "with its catalog");
    assert_eq!(totals.get(Total::FlashFallbacks), stats.fallbacks);
    db.default_keyspace().compact_range(None, None).unwrap();
    assert_eq!(files.tier_stats().unwrap().file_count, 0);
    check(&db, &map, "compacted");
}

#[test]
fn a_sequential_load_does_not_wear_flash() {
    let pair = pair(Order::SmallestTime);
    let (files, db) = pair.create(options());
    let (mut prng, mut map) = (Prng::new(2), Map::new());
    for number in 0..10_000 {
        put(&db, &mut map, &mut prng, number);
    }
    db.flush().unwrap();
    db.wait_idle().unwrap();
    let metrics = db.metrics();
    assert_eq!(files.tier_stats().unwrap().tables, 0);
    assert_eq!(metrics.compaction_count, metrics.move_count, "each byte is written once");
    check(&db, &map, "loaded");
}

/// No job moves data from flash meanwhile, so it fills up.
#[test]
fn a_flush_without_room_on_flash_goes_to_the_disk() {
    let pair = pair(Order::SmallestTime);
    let (files, db) = pair.create(Options { background_work: false, ..options() });
    let (mut prng, mut map) = (Prng::new(3), Map::new());
    for _ in 0..12 {
        overwrite(&db, &mut map, &mut prng, 450);
        db.flush().unwrap();
    }
    let stats = files.tier_stats().unwrap();
    assert!(stats.tables > 20 && stats.fallbacks > 5 && stats.fallback_bytes > 0, "{stats:?}");
    check(&db, &map, "flushed");
    drop((db, files));
    let (_files, db) = pair.reopen(options()).unwrap();
    check(&db, &map, "reopened");
}

#[test]
fn what_was_synced_survives_whichever_drive_loses_power_first() {
    let keyspace = KeyspaceOptions { table_len_bytes: 16 << 10, ..options().keyspace };
    let options = Options { memtable_len_bytes: 32 << 10, keyspace, ..options() };
    cut_either_drive(pair, &options);
}

/// Nothing is lost with flash that was not on it alone.
#[test]
fn the_disk_has_what_was_on_it_when_flash_is_lost() {
    let pair = pair(Order::SmallestTime);
    let (files, db) = pair.create(options());
    let (mut prng, mut map) = (Prng::new(4), Map::new());
    overwrite(&db, &mut map, &mut prng, 20_000);
    db.flush().unwrap();
    db.wait_idle().unwrap();
    let before: Map = contents(&db);
    let on_flash = files.list("").into_iter().filter(|info| info.tier == Tier::Fast);
    let mut on_flash: Vec<String> = on_flash.map(|info| info.name).collect();
    on_flash.sort();
    assert!(!on_flash.is_empty());
    db.close().unwrap();
    drop(files);

    let alone = |open_mode| {
        let files = TieredFiles::open_without_flash(Arc::clone(&pair.main) as _, &pair.runtime);
        let options = Options { open_mode, ..options() };
        Db::open(Arc::new(files.unwrap()), pair.runtime.clone(), options)
    };
    for mode in [OpenMode::ReadWrite, OpenMode::ReadOnly] {
        let refused = alone(mode).unwrap_err().to_string();
        assert!(refused.contains("flash"), "{mode:?}: {refused}");
    }
    let db = alone(OpenMode::ReadOnlyInPart).unwrap();
    let mut missing = db.recovery().missing.clone();
    missing.sort();
    assert_eq!(missing, on_flash, "it says what is missing");
    let part = contents(&db);
    let is_whole = |(key, value): &(&Vec<u8>, &Vec<u8>)| before.get(*key) == Some(*value);
    let whole_count = part.iter().filter(is_whole).count();
    assert!(part.keys().all(|key| before.contains_key(key)));
    assert!(whole_count > before.len() / 2, "{whole_count} of {}", before.len());
    assert!(whole_count < before.len(), "some were on flash alone");
    drop(db);
    let (_files, db) = pair.reopen(options()).unwrap();
    check(&db, &map, "with flash again");
}

/// New keys fill the disk and flash. Deletes make room again, though flash has data that the disk has no room for.
#[test]
fn a_full_drive_is_emptied_by_deletes() {
    let pair = Pair::of_len(Order::SmallestTime, (24, 4), "zone-per-stream");
    let (files, db) = pair.create(options());
    let (mut prng, mut map) = (Prng::new(5), Map::new());
    let ks = db.default_keyspace();
    for round in 0..3 {
        let mut order: Vec<u64> = (0..40_000).collect();
        (1..order.len()).rev().for_each(|at| order.swap(at, prng.below(at as u64 + 1) as usize));
        let mut refused = None;
        for number in order {
            let mut value = vec![0; VALUE_LEN_BYTES];
            prng.fill(&mut value);
            match ks.put(key(number), &value) {
                Ok(()) => _ = map.insert(key(number), value),
                Err(error) => {
                    refused = Some(error);
                    break;
                }
            }
        }
        let refused = refused.expect("40 MB do not fit");
        assert!(matches!(refused, EngineError::NoSpace { .. }), "{refused}");
        assert!(files.tier_stats().unwrap().file_count > 0, "round {round}");
        check(&db, &map, "full");
        // Every other key, then all: some puts must be possible after the first half.
        let keys: Vec<Vec<u8>> = map.keys().cloned().collect();
        for step in 0..2 {
            for key in keys.iter().skip(step).step_by(2) {
                ks.delete_with(key, WriteOptions { sync: false }).unwrap();
                map.remove(key);
            }
            db.flush().unwrap();
            db.wait_idle().unwrap();
            let again = ks.put("again", [step as u8; 100]);
            assert!(
                again.is_ok(),
                "{}\n{:?}\n{:?}",
                db.property("levels").unwrap(),
                db.metrics().keyspaces[0].partitions.as_ref().unwrap().base_merge,
                db.metrics().slack_bytes
            );
            map.insert(b"again".to_vec(), vec![step as u8; 100]);
            check(&db, &map, "emptied");
        }
    }
}

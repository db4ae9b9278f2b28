//! Gear compaction on zones that hold one level each: zones become empty without cleaning.

use crate::stage::{Stage, small, small_gear, with_zones};
use imbrex_clockwork::{Order, Prng};
use imbrex_engine::tuning::{GearDepth, VictimGrowth, VictimOrder};
use imbrex_engine::{CompactionKind, Compression, Db, EngineError, KeyspaceOptions, Options};
use imbrex_files::inspect::ZoneUseKind;
use imbrex_files::{FileKind, FileLayer, Files};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// LevelDB's shape, 256 times smaller: tables of 16 KiB, 64 of them in a zone of 1 MiB.
fn like_leveldb(compaction: CompactionKind) -> Options {
    let keyspace = KeyspaceOptions {
        compaction,
        table_len_bytes: 16 << 10,
        block_len_bytes: 1024,
        compression: Compression::None,
        base_level_len_bytes: 40 << 10,
        level_factor: 10,
        l0_compact_run_count: 4,
        l0_slowdown_run_count: 8,
        l0_stop_run_count: 12,
        victim_order: VictimOrder::RoundRobin,
        flushes_pass_levels: true,
        ..KeyspaceOptions::default()
    };
    Options { memtable_len_bytes: 16 << 10, keyspace, ..small() }
}

fn stage(zone_count: u64) -> Stage {
    with_zones(zone_count, 256, Order::Seeded(Prng::new(7).derive("order")))
}

struct Store {
    /// The world that runs the jobs.
    _stage: Stage,
    files: Arc<FileLayer>,
    db: Db,
}

fn create(zone_count: u64, placement: &str, options: Options) -> Store {
    let stage = stage(zone_count);
    let files = stage.format_with(placement);
    let db = Db::open(Arc::clone(&files) as _, stage.runtime.clone(), options).unwrap();
    Store { _stage: stage, files, db }
}

/// Puts keys in random order, as many times as there are keys; returns the keys that were drawn.
fn load(db: &Db, len_bytes: u64) -> BTreeSet<String> {
    let mut prng = Prng::new(7).derive("load");
    let mut value = vec![0; 500];
    let count = len_bytes / 516;
    let mut keys = BTreeSet::new();
    for _ in 0..count {
        prng.fill(&mut value);
        let key = format!("{:016}", prng.below(count));
        db.default_keyspace().put(&key, &value).unwrap();
        keys.insert(key);
    }
    db.wait_idle().unwrap();
    keys
}

/// For each zone with tables, the share of the written bytes that is live.
fn utilisation_ratios(files: &FileLayer) -> Vec<f64> {
    let map = files.zone_map().into_iter();
    let tables = map.filter(|zone| zone.kind == ZoneUseKind::Files && zone.log_bytes == 0);
    let ratios = tables.filter_map(|zone| {
        let used_bytes = zone.live_bytes + zone.dead_bytes;
        (used_bytes > 0).then(|| zone.live_bytes as f64 / used_bytes as f64)
    });
    ratios.collect()
}

/// GearDB's claim: without cleaning, zones are nearly full or nearly empty, while a log over all
/// levels has to clean. The bounds leave a wide margin to the measured values: 0.81, and 22 of 24
/// zones, with 64 zones.
#[test]
fn a_random_load_needs_no_cleaning() {
    let gear = create(64, "zone-per-level", like_leveldb(CompactionKind::Gear));
    let keys = load(&gear.db, 16 << 20);
    let stats = gear.files.stats();
    assert_eq!((stats.cleaned_zones, stats.cleaning_moved_bytes), (0, 0));
    let ratios = utilisation_ratios(&gear.files);
    let mean = ratios.iter().sum::<f64>() / ratios.len() as f64;
    let split = ratios.iter().filter(|&&ratio| !(0.25..0.75).contains(&ratio)).count();
    println!("zone utilisation {mean:.2}, {split} of {} zones full or empty", ratios.len());
    assert!(split * 5 >= ratios.len() * 4, "zones half empty: {ratios:.2?}");
    assert!(gear.db.check().unwrap().is_sound());
    let entries = gear.db.default_keyspace().range::<&[u8]>(..).unwrap();
    assert!(entries.map(|e| e.unwrap().0).eq(keys.iter().map(|key| key.as_bytes())));

    let leveled = create(64, "log-structured", like_leveldb(CompactionKind::Leveled));
    load(&leveled.db, 16 << 20);
    assert!(leveled.files.stats().cleaned_zones > 0, "the drive is too large to compare");
    let (ours, theirs) = (gear.db.metrics(), leveled.db.metrics());
    assert!(ours.compaction_out_bytes < theirs.compaction_out_bytes);
}

#[test]
fn a_sequential_load_only_moves() {
    let store = create(64, "zone-per-level", like_leveldb(CompactionKind::Gear));
    for n in 0..20_000_u64 {
        store.db.default_keyspace().put(format!("{n:016}"), [7; 500]).unwrap();
    }
    store.db.wait_idle().unwrap();
    let metrics = store.db.metrics();
    assert_eq!(metrics.compaction_out_bytes, 0, "{metrics}");
    assert_eq!(store.files.stats().cleaning_moved_bytes, 0);
}

/// The levels of the tables that begin in each zone.
fn levels_of_zones(files: &FileLayer) -> BTreeMap<u64, BTreeSet<u8>> {
    let mut levels: BTreeMap<u64, BTreeSet<u8>> = BTreeMap::new();
    for file in files.list("").into_iter().filter(|file| file.kind == FileKind::Table) {
        let zone = files.unit_at(file.extents[0].start).expect("a table is in a zone");
        levels.entry(zone.0).or_default().insert(file.level);
    }
    levels
}

/// Tables moved down one by one, so after a sequential load zones had tables of several levels.
#[test]
fn a_zone_has_tables_of_one_level_after_moves_and_overwrites() {
    for (victim_growth, gear_depth) in [
        (VictimGrowth::Single, GearDepth::Overlaps),
        (VictimGrowth::Neighbours, GearDepth::FullLevels),
    ] {
        let mut options = like_leveldb(CompactionKind::Gear);
        (options.keyspace.victim_growth, options.keyspace.gear_depth) = (victim_growth, gear_depth);
        let store = create(64, "zone-per-level", options);
        let ks = store.db.default_keyspace();
        let check = |when: &str| {
            store.db.wait_idle().unwrap();
            let zones = levels_of_zones(&store.files);
            let mixed: Vec<_> = zones.iter().filter(|(_, levels)| levels.len() > 1).collect();
            assert!(mixed.is_empty(), "{victim_growth:?} {gear_depth:?} {when}: {mixed:?}");
            zones.len()
        };
        for n in 0..20_000_u64 {
            ks.put(format!("{n:016}"), [7; 500]).unwrap();
            if n % 5000 == 0 {
                check("while it is loaded");
            }
        }
        assert!(check("loaded") > 8);
        let move_count = store.db.metrics().move_count;
        assert!(move_count > 0, "nothing moved");
        let mut prng = Prng::new(5).derive("overwrite");
        for n in 0..20_000_u64 {
            ks.put(format!("{:016}", prng.below(20_000)), [8; 500]).unwrap();
            if n % 5000 == 0 {
                check("while it is overwritten");
            }
        }
        check("overwritten");
        assert!(store.db.check().unwrap().is_sound());
        let stats = store.files.stats();
        assert_eq!(stats.cleaning_moved_bytes, 0, "{stats:?}");
    }
}

/// A turn took whole windows of all deeper levels at once. While it ran nothing else was compacted.
#[test]
fn a_turn_is_bounded() {
    let table_len_bytes = 16 << 10;
    let store = create(64, "zone-per-level", like_leveldb(CompactionKind::Gear));
    load(&store.db, 24 << 20);
    let lines = store.db.metrics().compactions;
    let longest = lines.iter().filter(|line| line.level > 0).map(|line| line.in_len_bytes).max();
    let longest = longest.unwrap() / table_len_bytes;
    assert!((50..=100).contains(&longest), "a turn of {longest} tables");
}

/// A compaction reports which tables it wrote to which level, and where.
#[test]
fn a_turn_writes_to_several_levels_and_says_where() {
    let store = create(200, "zone-per-level", small_gear());
    load(&store.db, 2 << 20);
    let lines = store.db.metrics().compactions;
    let level_count = |line: &imbrex_engine::inspect::CompactionLine| {
        (0..7).filter(|&level| line.out_len_bytes_of(level) > 0).count()
    };
    assert!(lines.iter().any(|line| level_count(line) >= 3), "no turn went through three levels");
    for line in &lines {
        let out_len_bytes: u64 = (0..7).map(|level| line.out_len_bytes_of(level)).sum();
        assert_eq!(out_len_bytes, line.out_len_bytes, "{}", line.plan);
        for table in &line.outputs {
            let blocks: u64 = table.extents.iter().map(|(_, block_count)| block_count).sum();
            assert_eq!(blocks, table.len_bytes.div_ceil(4096), "{}", line.plan);
        }
    }
}

/// A drive that fills up in the middle of a turn refuses writes. Everything stays readable, and
/// deletes with a manual compaction make room.
#[test]
fn a_full_drive_stays_readable_and_comes_back() {
    let keyspace = KeyspaceOptions {
        table_len_bytes: 64 << 10,
        base_level_len_bytes: 256 << 10,
        level_factor: 4,
        ..like_leveldb(CompactionKind::Gear).keyspace
    };
    let options = Options { memtable_len_bytes: 128 << 10, keyspace, ..small() };
    let store = create(48, "zone-per-level", options);
    let ks = store.db.default_keyspace();
    let mut prng = Prng::new(3).derive("fill");
    let mut value = vec![0; 2000];
    let mut map = BTreeMap::new();
    let refused = loop {
        prng.fill(&mut value);
        let key = prng.below(1 << 40).to_be_bytes();
        match ks.put(key, &value) {
            Ok(()) => _ = map.insert(key, value.clone()),
            Err(error) => break error,
        }
        assert!(map.len() < 40_000, "48 MiB never fill up");
    };
    assert!(matches!(refused, EngineError::NoSpace { .. }), "{refused}");
    assert!(map.len() > 5000, "only {} of 2 kB fitted on 48 MiB", map.len());
    let same = |map: &BTreeMap<[u8; 8], Vec<u8>>| {
        let entries = ks.range::<&[u8]>(..).unwrap().map(Result::unwrap);
        entries.eq(map.iter().map(|(key, value)| (key.to_vec().into(), value.clone().into())))
    };
    assert!(same(&map));
    assert!(store.db.check().unwrap().is_sound());
    let gone: Vec<_> = map.keys().copied().step_by(4).collect();
    map.retain(|key, _| gone.binary_search(key).is_ok());
    for entry in ks.range::<&[u8]>(..).unwrap() {
        let (key, _) = entry.unwrap();
        if !map.contains_key(&key[..]) {
            ks.delete(&key).unwrap();
        }
    }
    ks.compact_range(None, None).unwrap();
    for _ in 0..map.len() {
        let key = prng.below(1 << 40).to_be_bytes();
        ks.put(key, &value).unwrap();
        map.insert(key, value.clone());
    }
    assert!(same(&map));
    assert!(store.db.check().unwrap().is_sound());
}

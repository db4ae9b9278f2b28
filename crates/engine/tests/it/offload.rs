//! Write offloading: a store on a zoned drive and a flash drive, either of which may lose power
//! first.

use crate::stage::{key, small};
use imbrex_clockwork::{Order, Prng, Runtime, VirtualWorld};
use imbrex_disk::{Blocks, Disk, Geometry, GeometrySpec, Rule, ZoneSpec};
use imbrex_disk_sim::{FaultPlan, Profile, SimDisk};
use imbrex_engine::{
    Db, EngineError, KeyspaceOptions, OpenMode, Options, WriteBatch, WriteOptions,
};
use imbrex_files::tiers::{FlashOptions, TieredFiles};
use imbrex_files::{FileKind, Files, FormatOptions, PlacementKind, Tier};
use std::collections::BTreeMap;
use std::sync::Arc;

pub(crate) type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// Zones of 1 MiB, and a flash drive; both with a volatile cache.
pub(crate) struct Pair {
    pub(crate) main: Arc<SimDisk>,
    pub(crate) flash: Arc<SimDisk>,
    world: Arc<VirtualWorld>,
    pub(crate) runtime: Runtime,
    placement: &'static str,
}

impl Pair {
    fn new(order: Order) -> Pair {
        Pair::of_len(order, (400, 32), "log-structured")
    }

    /// A drive and a flash drive of so many MiB.
    pub(crate) fn of_len(
        order: Order,
        (main_mib, flash_mib): (u64, u64),
        placement: &'static str,
    ) -> Pair {
        let (runtime, world) = Runtime::virtual_time(order);
        let zones = ZoneSpec {
            zone_len: Blocks::new(256),
            zone_capacity: Blocks::new(256),
            conventional_zone_count: 2,
            open_zone_limit: Some(14),
            active_zone_limit: Some(14),
            strict_reads: true,
        };
        let drive = |len, rule, profile| {
            let geometry = Geometry::new(GeometrySpec { len: Blocks::new(len), rule }).unwrap();
            let disk = SimDisk::builder(geometry)
                .profile(Profile::by_name(profile).unwrap())
                .clock(Arc::clone(&runtime.clock))
                .write_cache(Blocks::new(256));
            Arc::new(disk.memory().unwrap())
        };
        let main = drive(main_mib * 256, Rule::AtPointer(zones), "hc620");
        let flash = drive(flash_mib * 256, Rule::Anywhere, "ssd120");
        Pair { main, flash, world, runtime, placement }
    }

    pub(crate) fn create(&self, options: Options) -> (Arc<TieredFiles>, Db) {
        let placement = PlacementKind::by_name(self.placement).unwrap();
        let files = TieredFiles::format(
            Arc::clone(&self.main) as Arc<dyn Disk>,
            Arc::clone(&self.flash) as Arc<dyn Disk>,
            &FormatOptions::new(placement),
            &FlashOptions { log_len_bytes_max: 1 << 20 },
            &self.runtime,
        );
        self.open_on(Arc::new(files.unwrap()), options).unwrap()
    }

    pub(crate) fn reopen(&self, options: Options) -> Result<(Arc<TieredFiles>, Db), EngineError> {
        let (main, flash) = (Arc::clone(&self.main), Arc::clone(&self.flash));
        let files = TieredFiles::open(main, flash, &self.runtime);
        self.open_on(Arc::new(files.unwrap()), options)
    }

    fn open_on(
        &self,
        files: Arc<TieredFiles>,
        options: Options,
    ) -> Result<(Arc<TieredFiles>, Db), EngineError> {
        self.runtime.scheduler.spawn(files.main().clean_job());
        let db = Db::open(Arc::clone(&files) as _, self.runtime.clone(), options)?;
        Ok((files, db))
    }

    /// Kills the process and cuts one drive's power; the other drive may lose its cache too.
    pub(crate) fn crash(&self, db: Db, prng: &mut Prng) {
        self.main.cut_power();
        self.flash.cut_power();
        self.world.drop_jobs();
        drop(db);
        self.main.power_cycle(prng).unwrap();
        self.flash.power_cycle(prng).unwrap();
        self.main.set_faults(FaultPlan::default());
        self.flash.set_faults(FaultPlan::default());
    }
}

fn offloading() -> Options {
    let keyspace = KeyspaceOptions {
        l0_compact_run_count: 4,
        l0_slowdown_run_count: 1000,
        l0_stop_run_count: 1000,
        ..small().keyspace
    };
    Options { logs_are_tables: true, offloads: true, keyspace, ..small() }
}

pub(crate) fn contents(db: &Db) -> Map {
    let entries = db.default_keyspace().range::<&[u8]>(..).unwrap();
    entries.map(|entry| entry.map(|(k, v)| (k.to_vec(), v.to_vec())).unwrap()).collect()
}

#[test]
fn writes_go_to_flash_while_a_compaction_runs_and_only_then() {
    let pair = Pair::new(Order::SmallestTime);
    let (files, db) = pair.create(offloading());
    let (ks, mut prng, mut map) = (db.default_keyspace(), Prng::new(1), Map::new());
    let mut put = |map: &mut Map| {
        let mut value = vec![0; 900];
        prng.fill(&mut value);
        let key = key(prng.below(3000));
        ks.put(&key, &value).unwrap();
        map.insert(key, value);
    };
    // Nothing is compacted yet.
    for _ in 0..150 {
        put(&mut map);
    }
    assert_eq!(db.metrics().offloaded_bytes, 0);
    assert_eq!(files.tier_stats().unwrap().logs, 0);
    while db.metrics().compaction_count < 4 {
        put(&mut map);
        pair.runtime.clock.advance_to_ns(pair.runtime.clock.now_ns() + 100_000);
    }
    let metrics = db.metrics();
    let stats = files.tier_stats().unwrap();
    assert!(stats.logs > 3, "{stats:?}");
    let share_percent = metrics.offloaded_bytes * 100 / metrics.user_bytes;
    assert!((10..100).contains(&share_percent), "{share_percent} % offloaded");
    assert!(contents(&db) == map);
    // Compacted data have left flash.
    db.flush().unwrap();
    ks.compact_range(None, None).unwrap();
    db.wait_idle().unwrap();
    let names: Vec<_> = files.flash().unwrap().list("").into_iter().map(|f| f.name).collect();
    assert!(names.len() <= 1, "{names:?}");
    assert_eq!(db.metrics().keyspaces[0].unsorted_len_bytes, 0);
    assert!(contents(&db) == map);
    let report = db.check().unwrap();
    assert!(report.is_sound(), "{report}");
}

/// A table that overlaps nothing was moved down without being copied, so it stayed on flash, which
/// filled up for good.
#[test]
fn bands_of_ascending_keys_leave_flash_too() {
    let pair = Pair::new(Order::SmallestTime);
    let (files, db) = pair.create(offloading());
    let (ks, mut prng, mut map) = (db.default_keyspace(), Prng::new(3), Map::new());
    for number in 0..6000 {
        let mut value = vec![0; 900];
        prng.fill(&mut value);
        ks.put(key(number), &value).unwrap();
        map.insert(key(number), value);
    }
    db.flush().unwrap();
    db.wait_idle().unwrap();
    let stats = files.tier_stats().unwrap();
    assert!(stats.logs > 10, "{stats:?}");
    let on_flash = files.list("").into_iter().filter(|info| info.tier == Tier::Fast);
    let below: Vec<_> = on_flash.filter(|info| info.level > 0).map(|info| info.name).collect();
    assert!(below.is_empty(), "{below:?}");
    // Level 0 has fewer runs than make it go down, and a log may have been started on flash.
    assert!(stats.file_count <= 4, "{stats:?}");
    assert!(contents(&db) == map);
    let report = db.check().unwrap();
    assert!(report.is_sound(), "{report}");
}

#[test]
fn writes_are_delayed_while_many_files_lie_on_flash() {
    const DELAY_NS: u64 = 10_000;
    let delayed = |offload_delay_ns, offloaded_file_count_max| {
        let pair = Pair::new(Order::SmallestTime);
        let options = Options { offload_delay_ns, offloaded_file_count_max, ..offloading() };
        let (files, db) = pair.create(options);
        let (ks, mut prng, mut file_count_max) = (db.default_keyspace(), Prng::new(1), 0);
        for _ in 0..4000 {
            let mut value = vec![0; 900];
            prng.fill(&mut value);
            let before = db.metrics().stall_offload;
            let start_ns = pair.runtime.clock.now_ns();
            ks.put(key(prng.below(3000)), &value).unwrap();
            let after = db.metrics().stall_offload;
            assert_eq!(after.total_ns, after.count * offload_delay_ns);
            if before.count < after.count {
                assert!(start_ns + offload_delay_ns <= pair.runtime.clock.now_ns());
            }
            file_count_max = file_count_max.max(files.flash_file_count());
        }
        let count = db.metrics().stall_offload.count;
        db.flush().unwrap();
        ks.compact_range(None, None).unwrap();
        db.wait_idle().unwrap();
        // No writer waits once flash is empty again.
        let rest_count = db.metrics().stall_offload.count;
        ks.put("a", "b").unwrap();
        assert_eq!(db.metrics().stall_offload.count, rest_count);
        (count, file_count_max)
    };
    let (count, file_count) = delayed(DELAY_NS, 3);
    assert!((1..4000).contains(&count) && file_count > 3, "{count} {file_count}");
    let (count, file_count) = delayed(DELAY_NS, 1000);
    assert!(count == 0 && file_count > 3, "{count} {file_count}");
    assert_eq!(delayed(0, 3).0, 0);
}

#[test]
fn what_was_synced_survives_whichever_drive_loses_power_first() {
    cut_either_drive(Pair::new, &offloading());
}

#[test]
fn what_was_synced_survives_in_logs_that_are_always_on_flash() {
    cut_either_drive(Pair::new, &Options { logs_on_flash: true, ..small() });
}

#[test]
fn all_logs_are_on_flash_and_no_table_is() {
    let pair = Pair::new(Order::SmallestTime);
    let options = Options { logs_on_flash: true, ..small() };
    let (files, db) = pair.create(options.clone());
    let (ks, mut prng, mut map) = (db.default_keyspace(), Prng::new(1), Map::new());
    let mut log_count = 0;
    for number in 0..3000 {
        let mut value = vec![0; 900];
        prng.fill(&mut value);
        let key = key(prng.below(3000));
        ks.put(&key, &value).unwrap();
        map.insert(key, value);
        if number % 50 == 0 {
            for file in files.list("") {
                let is_log = file.kind == FileKind::Log;
                assert_eq!(
                    file.tier,
                    if is_log { Tier::Fast } else { Tier::Main },
                    "{}",
                    file.name
                );
                log_count += usize::from(is_log);
            }
        }
    }
    assert!(log_count >= 60, "one at each look: {log_count}");
    let (metrics, stats) = (db.metrics(), files.tier_stats().unwrap());
    assert!(metrics.compaction_count > 3 && stats.logs > 10, "{stats:?}");
    assert_eq!((stats.tables, stats.fallbacks), (0, 0));
    assert!(metrics.user_bytes <= metrics.offloaded_bytes, "{}", metrics.offloaded_bytes);
    drop(ks);
    db.close().unwrap();
    drop(files);
    let (files, db) = pair.reopen(options).unwrap();
    assert!(contents(&db) == map);
    assert!(
        files.list("").iter().all(|file| file.tier == Tier::Main || file.kind == FileKind::Log)
    );
}

/// Cuts the power of one drive before that of the other, at any write, in many runs.
pub(crate) fn cut_either_drive(new: impl Fn(Order) -> Pair, options: &Options) {
    let mut cut_counts = [0; 2];
    for seed in 0..60 {
        let pair = new(Order::Seeded(Prng::new(seed).derive("order")));
        let mut prng = Prng::new(seed).derive("cuts");
        let (mut files, mut db) = pair.create(options.clone());
        let mut map = Map::new();
        for _ in 0..4 {
            let plan = FaultPlan { power_cut_after: Some(prng.below(300)), ..FaultPlan::default() };
            let is_flash_first = prng.chance(1, 2);
            let first = if is_flash_first { &pair.flash } else { &pair.main };
            first.set_faults(plan);
            let mut unsure = None;
            for _ in 0..1500 {
                let (key, value) = (key(prng.below(300)), vec![prng.below(256) as u8; 700]);
                let sync = WriteOptions { sync: true };
                if db.default_keyspace().put_with(&key, &value, sync).is_err() {
                    unsure = Some((key, value));
                    cut_counts[usize::from(is_flash_first)] += 1;
                    break;
                }
                map.insert(key, value);
            }
            pair.crash(db, &mut prng);
            drop(files);
            (files, db) = pair.reopen(options.clone()).unwrap();
            if let Some((key, value)) = unsure {
                let found = db.default_keyspace().get(&key).unwrap();
                if found.as_deref() == Some(&value[..]) {
                    map.insert(key, value);
                }
            }
            assert!(contents(&db) == map, "seed {seed}");
            let report = db.check().unwrap();
            assert!(report.is_sound(), "seed {seed}: {report}");
        }
    }
    assert!(cut_counts.iter().all(|&count| count > 20), "{cut_counts:?}");
}

/// Small synced writes, one block of the log each, and batches longer than the room that a log was
/// promised.
#[test]
fn no_write_is_refused_because_flash_is_full() {
    let pair = Pair::new(Order::SmallestTime);
    let (files, db) = pair.create(offloading());
    let (ks, mut map) = (db.default_keyspace(), Map::new());
    let mut prng = Prng::new(5);
    let sync = WriteOptions { sync: true };
    while files.tier_stats().unwrap().fallbacks < 10 {
        let (key, value) = (key(prng.below(3000)), vec![prng.below(256) as u8; 60]);
        ks.put_with(&key, &value, sync).unwrap();
        map.insert(key, value);
        if prng.chance(1, 50) {
            let mut batch = WriteBatch::new();
            for (key, value) in (0..700).map(|_| (self::key(prng.below(3000)), vec![3; 900])) {
                batch.put(&ks, &key, &value).unwrap();
                map.insert(key, value);
            }
            db.write(batch, WriteOptions::default()).unwrap();
        }
    }
    assert!(contents(&db) == map);
    drop((ks, db, files));
    let (_files, db) = pair.reopen(offloading()).unwrap();
    assert!(contents(&db) == map);
}

/// Logs that are always on flash go to the disk when a batch needs more than all of flash.
#[test]
fn a_batch_longer_than_flash_goes_to_the_disk() {
    let pair = Pair::of_len(Order::SmallestTime, (400, 3), "log-structured");
    let options = Options { logs_on_flash: true, ..small() };
    let (files, db) = pair.create(options.clone());
    let (ks, mut map, mut prng) = (db.default_keyspace(), Map::new(), Prng::new(5));
    for _ in 0..10 {
        let mut batch = WriteBatch::new();
        for (key, value) in (0..4_000).map(|n| (key(n), vec![prng.below(256) as u8; 900])) {
            batch.put(&ks, &key, &value).unwrap();
            map.insert(key, value);
        }
        db.write(batch, WriteOptions { sync: true }).unwrap();
        ks.put("between", "batches").unwrap();
        map.insert(b"between".to_vec(), b"batches".to_vec());
    }
    let stats = files.tier_stats().unwrap();
    assert!(stats.fallbacks >= 10 && stats.logs > 0, "{stats:?}");
    assert!(contents(&db) == map);
    drop((ks, db, files));
    let (_files, db) = pair.reopen(options).unwrap();
    assert!(contents(&db) == map);
}

#[test]
fn a_store_opened_to_be_read_changes_nothing_and_has_all_that_is_there() {
    let pair = Pair::new(Order::SmallestTime);
    let (files, db) = pair.create(offloading());
    let (mut prng, mut map) = (Prng::new(9), Map::new());
    let sync = WriteOptions { sync: true };
    // Some of the data are only on flash, and more are on the main drive.
    while files.tier_stats().unwrap().file_count < 3 || map.len() < 900 {
        let (key, value) = (key(prng.below(1000)), vec![prng.below(256) as u8; 700]);
        db.default_keyspace().put_with(&key, &value, sync).unwrap();
        map.insert(key, value);
    }
    pair.crash(db, &mut prng);
    drop(files);
    let hashes = || [&pair.main, &pair.flash].map(|disk| disk.image_hash().unwrap());
    let before = hashes();
    let refuses = |db: &Db| {
        let refused = db.default_keyspace().put("k", "v").unwrap_err();
        assert!(matches!(refused, EngineError::ReadOnly), "{refused}");
        assert!(matches!(db.create_keyspace("k", small().keyspace), Err(EngineError::ReadOnly)));
    };

    let (files, db) =
        pair.reopen(Options { open_mode: OpenMode::ReadOnly, ..offloading() }).unwrap();
    assert!(contents(&db) == map);
    assert!(db.recovery().missing.is_empty() && db.recovery().log_count > 0);
    refuses(&db);
    assert!(db.check().unwrap().is_sound());
    drop((files, db));

    let alone = || {
        let files = TieredFiles::open_without_flash(Arc::clone(&pair.main) as _, &pair.runtime);
        Arc::new(files.unwrap())
    };
    let whole = Db::open(alone(), pair.runtime.clone(), offloading()).unwrap_err();
    assert!(whole.to_string().contains("flash"), "{whole}");
    let in_part = Options { open_mode: OpenMode::ReadOnlyInPart, ..offloading() };
    let db = Db::open(alone(), pair.runtime.clone(), in_part).unwrap();
    assert!(!db.recovery().missing.is_empty());
    let part = contents(&db);
    assert!(part.len() > 100 && part != map, "{} of {}", part.len(), map.len());
    assert!(part.keys().all(|key| map.contains_key(key)));
    refuses(&db);
    // Absent files are left out, and are not damage.
    let report = db.check().unwrap();
    assert!(report.is_sound() && report.left_out == db.recovery().missing, "{report}");
    assert!(report.left_out.iter().any(|name| name.ends_with(".tbl")), "{report}");
    drop(db);
    assert_eq!(hashes(), before, "nothing was written");

    let (_files, db) = pair.reopen(offloading()).unwrap();
    assert!(contents(&db) == map);
}

/// The newest writes may be on flash even if the main drive names no file there.
#[test]
fn a_store_without_its_flash_drive_is_opened_in_part_alone() {
    let pair = Pair::new(Order::SmallestTime);
    let (files, db) = pair.create(offloading());
    db.default_keyspace().put("k", "v").unwrap();
    db.flush().unwrap();
    db.close().unwrap();
    drop(files);
    let open = |open_mode| {
        let files = TieredFiles::open_without_flash(Arc::clone(&pair.main) as _, &pair.runtime);
        let options = Options { open_mode, ..offloading() };
        Db::open(Arc::new(files.unwrap()), pair.runtime.clone(), options)
    };
    for mode in [OpenMode::ReadWrite, OpenMode::ReadOnly] {
        let refused = open(mode).unwrap_err().to_string();
        assert!(refused.contains("may hold the last writes"), "{mode:?}: {refused}");
    }
    for mode in [OpenMode::ReadOnlyInPart, OpenMode::Salvage] {
        assert!(open(mode).unwrap().recovery().missing.is_empty(), "{mode:?}");
    }
}

#[test]
fn an_idle_drive_compacts_what_is_not_due_yet() {
    let pair = Pair::new(Order::SmallestTime);
    let options = Options { eager_after_ns: 2_000_000_000, ..offloading() };
    let (_files, db) = pair.create(options);
    let ks = db.default_keyspace();
    for number in 0..200 {
        ks.put(key(number), [7; 700]).unwrap();
    }
    db.flush().unwrap();
    let level_0_runs = || -> Vec<String> {
        let levels = db.property("levels").unwrap();
        levels.lines().filter(|line| line.starts_with("L0 ")).map(str::to_owned).collect()
    };
    let runs = level_0_runs();
    assert!((1..4).contains(&runs.len()), "{runs:?}");
    let read_after_s = |seconds: u64| {
        let now_ns = pair.runtime.clock.now_ns();
        pair.runtime.clock.advance_to_ns(now_ns + seconds * 1_000_000_000);
        assert!(ks.get(key(1)).unwrap().is_some());
    };
    read_after_s(1);
    assert_eq!(level_0_runs(), runs);
    (0..4).for_each(|_| read_after_s(1));
    // A compaction ends the log, so its last put may be a new run.
    let left = level_0_runs();
    assert!(left.iter().all(|run| !runs.contains(run)), "{runs:?}, then {left:?}");
    assert!(left.len() <= 1, "{left:?}");
}

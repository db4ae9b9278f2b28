//! Every layout of the table on a small drive: format, write, reopen, and what is refused.

mod opening_cost;
mod read_only;

use super::{Drives, Layout, LayoutError, Recording, Stack, mount};
use imbrex_clockwork::{Order, Prng, Runtime};
use imbrex_disk::{
    Blocks, Disk, Geometry, GeometrySpec, NeighbourSpec, Rule, ShingleSpec, ZoneSpec,
};
use imbrex_disk_sim::{FaultPlan, SimDisk};
use imbrex_engine::{CompactionKind, Db, KeyspaceOptions, OpenMode, Options};
use imbrex_files::tiers::FlashError;
use imbrex_files::{FileLayer, Files, FilesError, FormatOptions, PlacementKind};
use std::sync::Arc;

/// Small enough to fill in a moment, large enough for every layout's smallest unit.
fn small_drive(recording: Recording) -> Arc<dyn Disk> {
    Arc::new(SimDisk::builder(small_geometry(recording)).memory().unwrap())
}

fn small_geometry(recording: Recording) -> Geometry {
    let rule = match recording {
        Recording::Zoned => return *SimDisk::tiny_zoned(64, Blocks::new(256)).geometry(),
        Recording::Conventional => Rule::Anywhere,
        Recording::Interlaced => Rule::Neighbours(NeighbourSpec {
            bottom_track_len: Blocks::new(20),
            top_track_len: Blocks::new(16),
        }),
        Recording::Shingled => {
            Rule::IsolationDistance(ShingleSpec { track_len: Blocks::new(16), overlap_tracks: 4 })
        }
    };
    Geometry::new(GeometrySpec { len: Blocks::new(16 << 10), rule }).unwrap()
}

/// The drives that `layout` stands on.
fn small_drives(layout: Layout) -> Drives {
    let drives = Drives::from(small_drive(layout.recording()));
    if layout.takes_flash() { drives.with_flash(small_flash()) } else { drives }
}

fn small_flash() -> Arc<dyn Disk> {
    Arc::new(SimDisk::tiny_conventional(Blocks::new(1024)))
}

fn runtime() -> Runtime {
    Runtime::virtual_time(Order::SmallestTime).0
}

#[test]
fn names_are_unique_and_every_part_exists() {
    let names: Vec<&str> = Layout::names().collect();
    let mut sorted = names.clone();
    sorted.sort_unstable();
    sorted.dedup();
    assert_eq!(sorted.len(), names.len());
    for layout in Layout::all() {
        assert!(PlacementKind::by_name(layout.placement()).is_some(), "{layout}");
        assert!(!layout.summary().is_empty() && layout.summary().len() <= 90, "{layout}");
        assert!(!layout.source().is_empty(), "{layout}");
        assert_eq!(Layout::by_name(layout.name()).unwrap(), layout);
    }
}

#[test]
fn every_layout_writes_reopens_and_refuses_the_others() {
    for layout in Layout::all() {
        let drives = small_drives(layout);
        let geometry = drives.main.geometry();
        layout.suits(geometry).unwrap();
        let recipe = layout.recipe(geometry).shrunk(64);
        let stack = layout.format_with(drives.clone(), &runtime(), &recipe, 7).unwrap();
        let keys = stack.db.default_keyspace();
        // Three rounds over the same keys, so that flush and compaction have something to do.
        for round in 0..3_u32 {
            for key in 0..1000_u32 {
                keys.put(key.wrapping_mul(2_654_435_761).to_be_bytes(), [round as u8; 500])
                    .unwrap();
            }
        }
        stack.db.wait_idle().unwrap();
        drop(keys);
        stack.close().unwrap();

        let other = Layout::all().find(|other| *other != layout).unwrap();
        let refused = other.open(drives.clone(), &runtime()).unwrap_err();
        assert!(matches!(refused, LayoutError::Other { .. }), "{layout}: {refused}");
        assert!(refused.to_string().contains(layout.name()), "{refused}");

        let again = mount(drives, &runtime()).unwrap();
        assert_eq!(again.layout, layout);
        let stack = again.open(&runtime()).unwrap();
        let keys = stack.db.default_keyspace();
        for key in 0..1000_u32 {
            let value = keys.get(key.wrapping_mul(2_654_435_761).to_be_bytes()).unwrap();
            assert_eq!(value.as_deref(), Some(&[2; 500][..]), "{layout}");
        }
        stack.db.check().unwrap();
        drop(keys);
        stack.close().unwrap();
    }
}

/// A layout of one drive can have its logs on a flash drive: then it needs that drive, and every opening
/// puts logs there.
#[test]
fn logs_of_a_layout_of_one_drive_can_be_on_flash() {
    for name in ["imr-m", "kvimr-cmr", "leveled-zones"] {
        let layout = Layout::by_name(name).unwrap();
        let main = small_drive(layout.recording());
        let drives = Drives::from(Arc::clone(&main)).with_flash(small_flash());
        let recipe = layout.recipe(main.geometry()).shrunk(64);
        let refused = layout.format_with(drives.clone(), &runtime(), &recipe, 7).unwrap_err();
        assert!(refused.to_string().contains("no use for a flash drive"), "{refused}");
        let recipe = recipe.with_logs_on_flash();
        let stack = layout.format_with(drives.clone(), &runtime(), &recipe, 7).unwrap();
        let logs = |stack: &Stack, key: &str| {
            stack.db.default_keyspace().put(key, [7; 500]).unwrap();
            let stats = stack.tiers.as_ref().unwrap().tier_stats().unwrap();
            assert_eq!((stats.tables, stats.fallbacks), (0, 0), "{name}");
            stats.logs
        };
        assert_eq!(logs(&stack, "a"), 1, "{name}");
        stack.close().unwrap();
        let error = mount(Arc::clone(&main), &runtime()).unwrap_err().to_string();
        assert!(error.contains("flash"), "{name}: {error}");
        // With the layout's own options.
        let stack = layout.open(drives, &runtime()).unwrap();
        assert_eq!(logs(&stack, "b"), 1, "{name}");
        let keys = stack.db.default_keyspace();
        assert!(keys.get("a").unwrap().is_some() && keys.get("b").unwrap().is_some());
        drop(keys);
        stack.close().unwrap();
    }
    let layout = Layout::by_name("leveldb-banded").unwrap();
    let main = small_drive(layout.recording());
    let recipe = layout.recipe(main.geometry()).shrunk(64).with_logs_on_flash();
    let drives = Drives::from(main).with_flash(small_flash());
    let refused = layout.format_with(drives, &runtime(), &recipe, 7).unwrap_err();
    assert!(refused.to_string().contains("fixed bands"), "{refused}");
}

/// What stands for LevelDB flushes below level 0 and sends missed tables down; what stands for RocksDB does
/// neither.
#[test]
fn layouts_have_the_habits_of_the_database_that_they_stand_for() {
    let with_both = [
        "leveldb-cmr",
        "leveldb-banded",
        "leveldb-greedy",
        "leveldb-cb",
        "leveldb-zones",
        "sealdb",
        "sealdb-paper",
        "sets-banded",
        "smrdb-leveled",
        "smrdb-offload",
    ];
    for layout in Layout::all() {
        let recipe = layout.recipe(&small_geometry(layout.recording()));
        let keyspace = recipe.options.keyspace;
        let habits = (keyspace.flushes_pass_levels, keyspace.missed_tables_go_down);
        match keyspace.compaction {
            CompactionKind::Gear => assert!(habits.0, "{layout}"),
            CompactionKind::Leveled | CompactionKind::SetAware => {
                let has_both = with_both.contains(&layout.name());
                assert_eq!(habits, (has_both, has_both), "{layout}");
            }
            // They know neither.
            _ => {}
        }
    }
}

#[test]
fn a_slip_of_the_pen_is_guessed() {
    let error = Layout::by_name("leveldb-cnr").unwrap_err().to_string();
    assert!(error.contains("did you mean leveldb-cmr?"), "{error}");
    assert!(error.contains("leveled-zones"), "{error}");
    let error = Layout::by_name("a stack of cards").unwrap_err().to_string();
    assert!(!error.contains("did you mean"), "{error}");
}

#[test]
fn a_layout_on_the_wrong_drive_says_which_would_do() {
    let drive = small_drive(Recording::Conventional);
    let layout = Layout::by_name("leveldb-greedy").unwrap();
    let error = layout.format(Arc::clone(&drive), &runtime()).unwrap_err().to_string();
    assert!(error.contains("zoned") && error.contains("conventional"), "{error}");
    assert!(error.contains("leveldb-cmr"), "{error}");
    let tracks = Layout::by_name("imr-m").unwrap();
    let error = tracks.format(Arc::clone(&drive), &runtime()).unwrap_err().to_string();
    assert!(error.contains("it is for interlaced drives and this one is conventional"), "{error}");
    let interlaced = small_drive(Recording::Interlaced);
    let error = layout.format(interlaced, &runtime()).unwrap_err().to_string();
    assert!(error.contains("there are imr-m, imr-n, imr-3phase, imr-seq"), "{error}");
    let nothing = mount(drive, &runtime()).unwrap_err();
    assert!(matches!(nothing, LayoutError::Files { .. }), "nothing was written: {nothing}");
}

#[test]
fn drives_from_before_layouts_open_by_their_placement() {
    for (name, layout) in [("", "leveled-zones"), ("zone-per-level", "leveled-zones")] {
        let drive = small_drive(Recording::Zoned);
        let placement = PlacementKind::by_name("zone-per-level").unwrap();
        let format =
            FormatOptions { layout_name: name.to_owned(), ..FormatOptions::new(placement) };
        drop(FileLayer::format(Arc::clone(&drive), &format, &runtime()).unwrap());
        assert_eq!(mount(drive, &runtime()).unwrap().layout.name(), layout);
    }
    let drive = small_drive(Recording::Zoned);
    let placement = PlacementKind::by_name("zone-per-level").unwrap();
    let format =
        FormatOptions { layout_name: "tomorrow".to_owned(), ..FormatOptions::new(placement) };
    drop(FileLayer::format(Arc::clone(&drive), &format, &runtime()).unwrap());
    let error = mount(drive, &runtime()).unwrap_err();
    assert!(matches!(error, LayoutError::Foreign { .. }), "{error}");
}

#[test]
fn the_usual_layout_of_a_drive_is_the_first_of_its_kind() {
    let rule = *small_drive(Recording::Zoned).geometry().rule();
    assert_eq!(Layout::default_for(&rule).unwrap().name(), "imbrex-zones");
    assert_eq!(Layout::default_for_database(&rule).unwrap().name(), "leveled-zones");
    let rule = *small_drive(Recording::Conventional).geometry().rule();
    assert_eq!(Layout::default_for(&rule).unwrap().name(), "leveled-first-fit");
    let rule = *small_drive(Recording::Interlaced).geometry().rule();
    assert_eq!(Layout::default_for(&rule).unwrap().name(), "imr-m");
}

#[test]
fn a_flash_drive_is_for_layouts_that_have_one() {
    let offload = Layout::by_name("smrdb-offload").unwrap();
    let drive = small_drive(Recording::Zoned);
    let error = offload.format(Arc::clone(&drive), &runtime()).unwrap_err().to_string();
    assert!(error.contains("it needs a flash drive beside the drive"), "{error}");
    let plain = Layout::by_name("smrdb").unwrap();
    let both = Drives::from(Arc::clone(&drive)).with_flash(small_flash());
    let error = plain.format(both.clone(), &runtime()).unwrap_err().to_string();
    assert!(error.contains("give none, or choose smrdb-offload"), "{error}");
    let nothing = mount(Arc::clone(&drive), &runtime()).unwrap_err();
    assert!(nothing.to_string().contains("no file layer"), "nothing was written: {nothing}");

    let recipe = offload.recipe(drive.geometry());
    let band_len_bytes = recipe.flash.unwrap().log_len_bytes_max;
    assert_eq!(band_len_bytes, 1 << 20, "a zone of the drive");
    let short = Arc::new(SimDisk::tiny_conventional(Blocks::new(256)));
    let error =
        offload.format(Drives::from(Arc::clone(&drive)).with_flash(short), &runtime()).unwrap_err();
    assert!(error.to_string().contains("the flash drive is too small"), "{error}");

    drop(offload.format(both.clone(), &runtime()).unwrap());
    let alone = mount(Arc::clone(&drive), &runtime()).unwrap_err().to_string();
    assert!(alone.contains("which was not given"), "{alone}");
    assert!(mount(both.clone(), &runtime()).unwrap().tiers.unwrap().flash().is_some());
    let read_only = mount(both.without_flash(), &runtime()).unwrap();
    assert_eq!(read_only.layout, offload);
    assert!(read_only.tiers.unwrap().flash().is_none());
}

/// Every pair had the same ids, so that the flash drive of another one was taken for the right one: its writes
/// became this store's, and what else it held was removed.
#[test]
fn the_flash_drives_of_two_pairs_are_told_apart() {
    let layout = Layout::by_name("smrdb-offload").unwrap();
    let mains = [(); 2].map(|()| small_drive(Recording::Zoned));
    let flashes = [(); 2].map(|()| small_flash());
    let pair = |main: usize, flash: usize| {
        Drives::from(Arc::clone(&mains[main])).with_flash(Arc::clone(&flashes[flash]))
    };
    for number in 0..2 {
        layout.format(pair(number, number), &runtime()).unwrap().close().unwrap();
    }
    for number in 0..2 {
        let error = mount(pair(number, 1 - number), &runtime()).unwrap_err();
        let LayoutError::Files { source: FilesError::Flash(flash), .. } = &error else {
            panic!("{error}");
        };
        assert!(matches!(flash, FlashError::Foreign { .. }), "{flash}");
        drop(mount(pair(number, number), &runtime()).unwrap());
    }
}

/// The number of the format before was lost with one that was cut short, and the next had the same id: what the first
/// had written behind the next one's catalog was read as its own.
#[test]
fn after_a_format_that_was_cut_short_another_finds_nothing_of_those_before() {
    let layout = Layout::by_name("leveled-first-fit").unwrap();
    for cut in 0..12 {
        let disk = Arc::new(SimDisk::tiny_conventional(Blocks::new(16 << 10)));
        let recipe = layout.recipe(disk.geometry());
        let drive = || Arc::clone(&disk) as Arc<dyn Disk>;
        let format = || layout.format_with(drive(), &runtime(), &recipe, 7);
        let make = |stack: Stack, names: &[&str]| {
            for name in names {
                stack.db.create_keyspace(name, KeyspaceOptions::default()).unwrap();
            }
            stack.close().unwrap();
        };
        make(format().unwrap(), &["a", "b", "c", "d", "e"]);
        disk.set_faults(FaultPlan { power_cut_after: Some(cut), ..FaultPlan::default() });
        drop(format());
        disk.power_cycle(&mut Prng::new(cut)).unwrap();
        disk.set_faults(FaultPlan::default());
        make(format().unwrap(), &["z"]);
        let stack = mount(drive(), &runtime());
        let stack = stack.unwrap_or_else(|error| panic!("cut at event {cut}: {error}"));
        let stack = stack.open_db(&runtime(), Options::default()).unwrap();
        assert_eq!(stack.db.keyspace_names(), ["default", "z"], "cut at event {cut}");
    }
}

/// The bands hide the files from who looks at the bare drive: it seemed to be unformatted, and the message
/// said to format it.
#[test]
fn a_drive_with_bands_has_no_flash_drive_beside_it() {
    let layout = Layout::by_name("leveldb-banded").unwrap();
    let drive = small_drive(layout.recording());
    let recipe = layout.recipe(drive.geometry()).shrunk(64);
    layout.format_with(Arc::clone(&drive), &runtime(), &recipe, 7).unwrap().close().unwrap();
    let drives = || Drives::from(Arc::clone(&drive));
    let before = drive.counters();
    for drives in [drives().with_flash(small_flash()), drives().without_flash()] {
        let error = mount(drives, &runtime()).unwrap_err();
        let LayoutError::Files { source: FilesError::Flash(flash), .. } = &error else {
            panic!("{error}");
        };
        assert!(matches!(flash, FlashError::NotPaired), "{flash}");
        assert!(flash.to_string().contains("open it alone"), "{flash}");
    }
    assert_eq!((drive.counters() - before).writes, 0);
    mount(drives(), &runtime()).unwrap();
}

/// Zones in which little lives, on a drive that is short of space.
#[test]
fn a_store_that_is_only_read_is_not_cleaned() {
    let layout = Layout::by_name("leveldb-greedy").unwrap();
    let drive = small_drive(layout.recording());
    let recipe = layout.recipe(drive.geometry()).shrunk(64);
    let mounted = layout.format_files(Arc::clone(&drive), &runtime(), &recipe, 7).unwrap();
    let db = Db::open(mounted.all_files(), runtime(), recipe.options.clone()).unwrap();
    let keys = db.default_keyspace();
    let capacity = mounted.files.space().capacity_bytes;
    let mut count = 0_u32;
    while capacity / 7 <= mounted.files.space().free_bytes {
        let key = count.wrapping_mul(2_654_435_761) % 90_000;
        let _ = keys.put(key.to_be_bytes(), [count as u8; 500]);
        count += 1;
        assert!(count < 1_000_000, "the drive never got short of space");
    }
    db.wait_idle().unwrap();
    drop(keys);
    db.close().unwrap();
    drop(mounted);

    let (runtime, world) = Runtime::virtual_time(Order::SmallestTime);
    let mounted = mount(Arc::clone(&drive), &runtime).unwrap();
    let options = Options { open_mode: OpenMode::ReadOnly, ..recipe.options };
    let before = drive.counters();
    let stack = mounted.open_db(&runtime, options).unwrap();
    world.run_until_idle();
    let done = drive.counters() - before;
    assert_eq!((done.writes, done.zone_resets), (0, 0));
    runtime.scheduler.spawn(stack.files.clean_job());
    world.run_until_idle();
    assert!((drive.counters() - before).writes > 0, "there was something to clean");
    stack.close().unwrap();
}

/// On so long zones a memtable as long as a table is more than a memtable can be: the drive was formatted,
/// and then the store was refused.
#[test]
fn options_are_what_the_engine_takes_before_anything_is_written() {
    for zone_len_bytes in [1_u64 << 20, 64 << 20, 8 << 30] {
        let zone_len = Blocks::holding(zone_len_bytes);
        let zones = ZoneSpec {
            zone_len,
            zone_capacity: zone_len,
            conventional_zone_count: 2,
            open_zone_limit: None,
            active_zone_limit: None,
            strict_reads: true,
        };
        let len = Blocks::new(128 * zone_len.get());
        let geometry = Geometry::new(GeometrySpec { len, rule: Rule::AtPointer(zones) }).unwrap();
        for layout in Layout::all().filter(|l| l.recording() == Recording::Zoned) {
            let checked = layout.recipe(&geometry).options.check();
            assert!(checked.is_ok(), "{layout}, {zone_len_bytes}: {checked:?}");
        }
    }
    let layout = Layout::by_name("smrdb").unwrap();
    let drive = small_drive(layout.recording());
    let mut recipe = layout.recipe(drive.geometry());
    recipe.options.memtable_len_bytes = 8 << 30;
    let before = drive.counters();
    let error = layout.format_with(Arc::clone(&drive), &runtime(), &recipe, 7).unwrap_err();
    assert!(matches!(error, LayoutError::Engine { .. }), "{error}");
    assert_eq!((drive.counters() - before).writes, 0);
}

/// Bands were made before the file layer looked at the recipe: it was refused, and what the drive had held was gone.
#[test]
fn a_recipe_that_cannot_work_over_bands_leaves_what_the_drive_holds() {
    let layout = Layout::by_name("leveldb-banded").unwrap();
    let drive = small_drive(layout.recording());
    let mut recipe = layout.recipe(drive.geometry()).shrunk(64);
    let stack = layout.format_with(Arc::clone(&drive), &runtime(), &recipe, 7).unwrap();
    stack.db.default_keyspace().put(b"key", b"value").unwrap();
    stack.close().unwrap();

    recipe.placement_options.free_percent_least = 101;
    let refused = layout.format_files(Arc::clone(&drive), &runtime(), &recipe, 8).unwrap_err();
    let is_unsuitable = |error: &LayoutError| {
        matches!(error, LayoutError::Files { source: FilesError::Unsuitable { .. }, .. })
    };
    assert!(is_unsuitable(&refused), "{refused}");
    let stack = layout.open(drive, &runtime()).unwrap();
    let value = stack.db.default_keyspace().get(b"key").unwrap();
    assert_eq!(value.as_deref(), Some(&b"value"[..]));
    stack.close().unwrap();
}

#[test]
fn write_offloading_has_the_bands_of_the_thesis() {
    let zones = ZoneSpec {
        zone_len: Blocks::new(16_384),
        zone_capacity: Blocks::new(16_384),
        conventional_zone_count: 2,
        open_zone_limit: None,
        active_zone_limit: None,
        strict_reads: true,
    };
    // 160 GB, the drive of section 5.4.1.
    let spec = GeometrySpec { len: Blocks::new(2_384 * 16_384), rule: Rule::AtPointer(zones) };
    let layout = Layout::by_name("smrdb-offload").unwrap();
    let recipe = layout.recipe(&Geometry::new(spec).unwrap());
    let keyspace = &recipe.options.keyspace;
    assert_eq!(recipe.flash.unwrap().log_len_bytes_max, 64 << 20);
    assert_eq!(recipe.options.memtable_len_bytes, 60 << 20, "its log fits a band");
    assert_eq!(keyspace.table_len_bytes, 63 << 20, "with its index it fits a band");
    assert_eq!(keyspace.base_level_len_bytes, 10 * keyspace.table_len_bytes);
    assert_eq!((keyspace.l0_compact_run_count, keyspace.level_factor), (10, 10));
    assert_eq!(keyspace.l0_stop_run_count, u32::MAX);
    assert_eq!(layout.usual_zone_len_bytes(), Some(64 << 20));
}

#[test]
fn lazy_tables_grow_with_the_drive_within_bounds() {
    let layout = Layout::by_name("imbrex").unwrap();
    let table_len_bytes = |drive_len_bytes: u64| {
        let spec = GeometrySpec { len: Blocks::new(drive_len_bytes / 4096), rule: Rule::Anywhere };
        layout.recipe(&Geometry::new(spec).unwrap()).options.keyspace.table_len_bytes
    };
    assert_eq!(table_len_bytes(64 << 20), 1 << 20, "a drive of few tables");
    assert_eq!(table_len_bytes(2 << 30), 4 << 20, "512 tables");
    assert_eq!(table_len_bytes(32 << 30), 8 << 20, "the usual length");
    assert_eq!(table_len_bytes(1 << 40), 16 << 20, "64 Ki tables");
    assert_eq!(table_len_bytes(14 << 40), 32 << 20, "a drive of many tables");
}

#[test]
fn a_drive_can_be_opened_again_as_soon_as_its_store_is_closed() {
    let dir = tempfile::tempdir().unwrap();
    // One background thread, which lives on: nothing but the close waits for its jobs.
    let runtime = Runtime::threads(1);
    let layout = Layout::by_name("leveled-first-fit").unwrap();
    let geometry = *small_drive(Recording::Conventional).geometry();
    for round in 0..50 {
        let path = dir.path().join(format!("{round}"));
        let disk = Arc::new(SimDisk::builder(geometry).create_image(&path, "", 1).unwrap());
        let stack = layout.format_with(disk, &runtime, &layout.recipe(&geometry), round).unwrap();
        stack.close().unwrap();
        let opened = SimDisk::open_image(&path, Default::default());
        assert!(opened.is_ok(), "round {round}: {}", opened.unwrap_err());
    }
}

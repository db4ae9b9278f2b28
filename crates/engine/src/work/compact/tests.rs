//! Plans that no current policy makes, carried out on a real store.

use super::*;
use crate::compaction::plan::TableFacts;
use crate::compaction::plan::{Input, Reason};
use crate::options::{Compression, KeyspaceOptions, Options};
use crate::version::RunId;
use crate::{Db, watch};
use imbrex_clockwork::{Order, Prng, Runtime, VirtualWorld};
use imbrex_disk::{Blocks, Disk, Geometry, GeometrySpec, Rule};
use imbrex_disk_sim::SimDisk;
use imbrex_files::tiers::{FlashOptions, TieredFiles};
use imbrex_files::{FileLayer, Files, FormatOptions, PlacementKind};

struct Stage {
    files: Arc<dyn Files>,
    runtime: Runtime,
    _world: Arc<VirtualWorld>,
}

fn options() -> Options {
    let keyspace =
        KeyspaceOptions { table_len_bytes: 4096, block_len_bytes: 512, ..Default::default() };
    Options {
        memtable_len_bytes: 256 << 10,
        background_work: false,
        keyspace,
        ..Options::default()
    }
}

fn drive() -> Arc<dyn Disk> {
    let spec = GeometrySpec { len: Blocks::new(4096), rule: Rule::Anywhere };
    Arc::new(SimDisk::builder(Geometry::new(spec).unwrap()).memory().unwrap())
}

fn format() -> FormatOptions {
    FormatOptions::new(PlacementKind::by_name("first-fit").unwrap())
}

fn stage() -> Stage {
    let (runtime, world) = Runtime::virtual_time(Order::SmallestTime);
    let layer = FileLayer::format(drive(), &format(), &runtime).unwrap();
    Stage { files: Arc::new(layer), runtime, _world: world }
}

/// A store with two runs in level 0: all keys with the value "old", then every third key rewritten.
fn two_runs(stage: &Stage) -> Db {
    let db = Db::open(Arc::clone(&stage.files), stage.runtime.clone(), options()).unwrap();
    let ks = db.default_keyspace();
    for n in 0..900 {
        ks.put(format!("{n:04}"), "old, and so long that there are several tables").unwrap();
    }
    db.flush().unwrap();
    for n in (0..900).step_by(3) {
        ks.put(format!("{n:04}"), "new").unwrap();
    }
    ks.delete("0001").unwrap();
    ks.delete_range("0100".."0102").unwrap();
    db.flush().unwrap();
    db
}

/// A plan that takes all tables of run `at` of level 0 to one run of level 1. The run keeps its id,
/// and so its age.
fn plan_of_run(keyspace: &KeyspaceState, at: usize) -> Plan {
    let version = Arc::clone(&keyspace.view().version);
    let run = &version.levels[0].runs[at];
    let output = Output {
        level: 1,
        run: run.id,
        is_bottom: false,
        grandparents: Vec::new(),
        staying: Vec::new(),
    };
    Plan {
        reason: Reason::Manual,
        work: Work::Merge,
        inputs: vec![Input { level: 0, tables: run.tables.clone() }],
        outputs: vec![output],
        routes: None,
        range: KeyRange::of(run.tables.iter().map(|table| &table.meta)).unwrap(),
        outputs_together: true,
        windows: None,
        stop: None,
        partitions: None,
    }
}

fn carry_out(db: &Db, keyspace: &Arc<KeyspaceState>, plan: Plan) {
    let store = db.store();
    store.plans.lock().keyspaces.entry(keyspace.id).or_default().start(&plan);
    run_here(store, keyspace, plan, &mut ManualProgress::new(&mut watch::unwatched)).unwrap();
}

fn assert_newest(db: &Db) {
    let ks = db.default_keyspace();
    let want = |n: u32| match n {
        1 | 100 | 101 => None,
        n if n.is_multiple_of(3) => Some("new"),
        _ => Some("old"),
    };
    for n in 0..900 {
        let got = ks.get(format!("{n:04}")).unwrap();
        assert_eq!(got.as_ref().map(|value| &value[..3]), want(n).map(str::as_bytes), "{n}");
    }
    let entries: Vec<_> = ks.range::<&[u8]>(..).unwrap().rev().map(Result::unwrap).collect();
    let wanted = (0..900).rev().filter_map(|n| Some((format!("{n:04}"), want(n)?)));
    assert!(
        entries
            .iter()
            .map(|(k, v)| (&k[..], &v[..3]))
            .eq(wanted.collect::<Vec<_>>().iter().map(|(k, v)| (k.as_bytes(), v.as_bytes())))
    );
}

/// Level 1 may have several runs that overlap: their ids are their ages.
#[test]
fn runs_of_level_1_are_read_newest_first() {
    let stage = stage();
    let db = two_runs(&stage);
    let keyspace = db.store().all_keyspaces().remove(0);
    // The older run first: a run of level 1 must not be newer than the runs left above it (V2).
    for at in [1, 0] {
        let plan = plan_of_run(&keyspace, at);
        carry_out(&db, &keyspace, plan);
        assert_newest(&db);
    }
    let runs = |db: &Db| -> Vec<RunId> {
        let keyspace = db.store().all_keyspaces().remove(0);
        let version = Arc::clone(&keyspace.view().version);
        version.levels[1].runs.iter().map(|run| run.id).collect()
    };
    assert_eq!(runs(&db).len(), 2);
    assert!(db.check().unwrap().is_sound());
    let before = runs(&db);
    db.close().unwrap();
    let db = Db::open(Arc::clone(&stage.files), stage.runtime.clone(), options()).unwrap();
    assert_eq!(runs(&db), before);
    assert_newest(&db);
}

/// Tables that are persisted together are stored side by side, and each records how many they are.
#[test]
fn a_group_lies_together_and_is_counted() {
    let stage = stage();
    let db = two_runs(&stage);
    let keyspace = db.store().all_keyspaces().remove(0);
    let plan = plan_of_run(&keyspace, 1);
    carry_out(&db, &keyspace, plan);
    let version = Arc::clone(&keyspace.view().version);
    let tables: Vec<_> = version.levels[1].tables().collect();
    assert!(tables.len() > 4, "{} tables", tables.len());
    assert!(tables.iter().all(|t| t.meta.group_table_count as usize == tables.len()));
    assert!(tables.iter().all(|t| t.meta.group == tables[0].meta.group));
    let extents: Vec<_> = tables.iter().flat_map(|t| t.file().unwrap().extents()).collect();
    assert!(extents.windows(2).all(|pair| pair[0].end() == pair[1].start), "{extents:?}");
}

/// How many sets of the next level a table of level 1 overlaps, in thousandths, after random puts.
fn sets_below_a_table(cuts_at_sets: bool) -> usize {
    let keyspace = KeyspaceOptions {
        compaction: CompactionKind::SetAware,
        base_level_len_bytes: 32 << 10,
        compression: Compression::None,
        cuts_at_sets,
        ..options().keyspace
    };
    let stage = stage();
    let options =
        Options { memtable_len_bytes: 32 << 10, background_work: true, keyspace, ..options() };
    let db = Db::open(Arc::clone(&stage.files), stage.runtime.clone(), options).unwrap();
    let mut prng = Prng::new(7);
    let (mut set_count, mut table_count) = (0, 0);
    for put in 0..12_000 {
        let key = format!("{:05}", prng.below(6000));
        db.default_keyspace().put(key, [b'v'; 60]).unwrap();
        if put % 1000 < 999 {
            continue;
        }
        db.flush().unwrap();
        db.wait_idle().unwrap();
        let version = Arc::clone(&db.store().all_keyspaces()[0].view().version);
        for table in version.levels[1].tables() {
            let below = version.levels[2].overlapping(&table.meta.range());
            set_count += below.iter().map(|t| t.meta.group).collect::<BTreeSet<_>>().len();
            table_count += 1;
        }
    }
    assert!(table_count > 30, "{table_count} tables");
    assert!(db.check().unwrap().is_sound());
    set_count * 1000 / table_count
}

/// A table that ends where a set below it ends overlaps fewer sets, so its victims kill whole ones.
#[test]
fn tables_end_where_sets_below_them_end() {
    let (crossing, cut) = (sets_below_a_table(false), sets_below_a_table(true));
    assert!(cut * 10 < crossing * 9, "{cut} and {crossing} thousandths of a set");
}

/// The check finds what a reader must never meet: an older write above a newer one.
#[test]
fn the_check_finds_runs_in_the_wrong_order() {
    let stage = stage();
    let db = two_runs(&stage);
    let keyspace = db.store().all_keyspaces().remove(0);
    // The newer run goes down and leaves the older run above it, which no policy may do.
    let plan = plan_of_run(&keyspace, 0);
    carry_out(&db, &keyspace, plan);
    let report = db.check().unwrap();
    assert!(report.to_string().contains("V2: write"), "{report}");
}

/// A merge of bands on flash was counted as freeing zones of the main drive, which it does not do.
#[test]
fn what_lies_on_flash_gives_no_zone_back() {
    let (runtime, _world) = Runtime::virtual_time(Order::SmallestTime);
    let flash = FlashOptions::default();
    let files = TieredFiles::format(drive(), drive(), &format(), &flash, &runtime).unwrap();
    let options = Options { logs_are_tables: true, offloads: true, ..options() };
    let db = Db::open(Arc::new(files), runtime, options).unwrap();
    let store = db.store();
    let put = |key: &str| {
        db.default_keyspace().put(key, "value").unwrap();
        db.flush().unwrap();
    };
    put("on the disk");
    store.compacting.begin(true);
    put("on flash");
    let version = Arc::clone(&store.all_keyspaces()[0].view().version);
    let facts = || -> Vec<(&[u8], bool, bool)> {
        let tables = version.levels[0].tables();
        let facts =
            tables.map(|t| (&t.meta.smallest[..], t.is_on_flash(), store.gives_no_zone_back(t)));
        facts.collect()
    };
    assert_eq!(facts(), [(&b"on flash"[..], true, true), (&b"on the disk"[..], false, false)]);
    db.checkpoint("kept").unwrap();
    assert!(facts().iter().all(|&(_, _, gives_none)| gives_none));
}

/// A move found no room in the catalog while an unrelated table was set aside. Writes were then
/// refused for good, as if that table were in the way.
#[test]
fn damage_does_not_refuse_writes_that_only_lack_room() {
    let stage = stage();
    let keyspace = KeyspaceOptions {
        l0_compact_run_count: 1,
        l0_slowdown_run_count: 1,
        l0_stop_run_count: 2,
        ..options().keyspace
    };
    let options = Options { keyspace, ..options() };
    let db = Db::open(Arc::clone(&stage.files), stage.runtime.clone(), options).unwrap();
    db.default_keyspace().put("key", "value").unwrap();
    db.flush().unwrap();
    let store = db.store();
    let keyspace = store.all_keyspaces().swap_remove(0);
    store.plans.lock().set_aside(keyspace.id, TableId(u64::MAX), "damaged".to_owned());
    store.note_blocked_write();
    assert!(next_compaction(store).is_none());
    assert!(store.is_compaction_blocked.load(Ordering::Acquire));
    assert_eq!(store.gate() & gate::WRITES_REFUSED, 0);

    // Once there is room, compaction goes on.
    store.blocked_write_at.lock().take();
    let (_, plan) = next_compaction(store).unwrap();
    assert_eq!(plan.work, Work::Move);
    end_compaction(store, &keyspace, plan);
}

/// P6: the catalog says that a table has one entry more than a merge finds. Nothing changes, and the store goes on.
#[test]
fn a_merge_that_misses_an_entry_changes_nothing() {
    let stage = stage();
    let db = two_runs(&stage);
    let store = db.store();
    let keyspace = store.keyspace(crate::batch::KeyspaceId(0)).unwrap();
    let mut plan = plan_of_run(&keyspace, 0);
    let wrong = |slot: &Arc<TableSlot>| {
        let meta = crate::version::TableMeta {
            entry_count: slot.meta.entry_count + 1,
            ..slot.meta.clone()
        };
        let name = meta.id.file_name();
        let wrong = TableSlot::new(meta);
        wrong.attach(&*stage.files, &name).unwrap();
        wrong
    };
    plan.inputs[0].tables = plan.inputs[0].tables.iter().map(wrong).collect();
    let first = plan.tables().next().unwrap().meta.id.file_name();
    for _ in 0..3 {
        store.plans.lock().keyspaces.entry(keyspace.id).or_default().start(&plan);
        let mut unwatched = watch::unwatched;
        let mut progress = ManualProgress::new(&mut unwatched);
        let refused = run_here(store, &keyspace, plan.clone(), &mut progress).unwrap_err();
        assert!(refused.to_string().contains("entries were read in"), "{refused}");
    }
    let set_aside = db.metrics().tables_set_aside;
    assert!(set_aside.len() == 1 && set_aside[0].contains(&first), "{set_aside:?}");
    assert_newest(&db);
    db.default_keyspace().put("more", "1").unwrap();
    assert!(db.check().unwrap().is_sound());
}

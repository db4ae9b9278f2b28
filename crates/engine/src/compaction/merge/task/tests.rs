use crate::compaction::merge::output::Source;
use crate::work::flush::flush_task;
use crate::{Db, Options, WriteOptions};
use imbrex_clockwork::{Order, Runtime};
use imbrex_disk::{Blocks, Disk, Geometry, GeometrySpec, Rule};
use imbrex_disk_sim::SimDisk;
use imbrex_files::{FileLayer, Files, FormatOptions, PlacementKind};
use std::sync::Arc;

const CUT_COUNT: usize = 8000;

fn key(number: usize) -> String {
    format!("q/{number:06}")
}

/// A queue that deletes its own head after every entry it takes.
fn cut_heads(db: &Db) {
    let ks = db.default_keyspace();
    for number in 1..=CUT_COUNT {
        ks.put(key(number), "entry").unwrap();
        ks.delete_range(key(0)..key(number)).unwrap();
    }
    db.default_keyspace().put_with("end", "", WriteOptions::SYNC).unwrap();
}

fn cover_len_bytes(db: &Db) -> usize {
    let keyspace = db.store().all_keyspaces().remove(0);
    let slot = Arc::clone(&keyspace.view().active);
    let task = flush_task(db.store(), &keyspace, &slot, Source::Memory, 0);
    assert!(!task.cover.is_empty());
    task.cover.len_bytes()
}

/// Ranges that all begin at one key are nested: n of them have n fragments with n, n-1, ...
/// sequence numbers. A flush used to keep all of these, 8 bytes each, and so did every open after
/// the program had been killed for its memory use. Now each fragment keeps only the numbers that
/// some reader can distinguish (J4).
#[test]
fn nested_range_deletes_are_flushed_in_memory_for_their_number() {
    let spec = GeometrySpec { len: Blocks::new(16 << 10), rule: Rule::Anywhere };
    let disk = SimDisk::builder(Geometry::new(spec).unwrap()).memory().unwrap();
    let (runtime, _world) = Runtime::virtual_time(Order::SmallestTime);
    let placement = PlacementKind::by_name("first-fit").unwrap();
    let disk = Arc::new(disk) as Arc<dyn Disk>;
    let layer = FileLayer::format(disk, &FormatOptions::new(placement), &runtime).unwrap();
    let files: Arc<dyn Files> = Arc::new(layer);
    let open = || {
        let options =
            Options { background_work: false, memtable_len_bytes: 8 << 20, ..Options::default() };
        Db::open(Arc::clone(&files), runtime.clone(), options).unwrap()
    };
    let check = |db: &Db| {
        let ks = db.default_keyspace();
        let entries: Vec<_> = ks.prefix("q/").unwrap().map(|entry| entry.unwrap().0).collect();
        assert_eq!(entries, [key(CUT_COUNT)]);
    };
    let db = open();
    cut_heads(&db);
    let len_bytes = cover_len_bytes(&db);
    assert!(len_bytes < 200 * CUT_COUNT, "{len_bytes} bytes for {CUT_COUNT} range deletes");
    let before = db.snapshot();
    db.default_keyspace().delete_range(key(0)..key(CUT_COUNT + 1)).unwrap();
    let len_bytes = cover_len_bytes(&db);
    assert!(len_bytes < 200 * CUT_COUNT, "{len_bytes} bytes with a snapshot");
    db.default_keyspace().put(key(CUT_COUNT), "entry").unwrap();
    check(&db);
    drop(before);
    db.close().unwrap();
    // The logs are replayed into one memtable, which is flushed.
    let db = open();
    assert_eq!(db.recovery().table_count, 1);
    check(&db);
    cut_heads(&db);
    db.flush().unwrap();
    check(&db);
    db.default_keyspace().compact_range(None, None).unwrap();
    check(&db);
    assert!(db.check().unwrap().is_sound());
}

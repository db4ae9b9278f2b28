//! Lazy leveling: a store that is nearly full goes on taking updates, and a base merge survives what
//! happens to it meanwhile.

use crate::stage::{Stage, key, seeded, small, small_keyspace};
use imbrex_clockwork::Prng;
use imbrex_engine::inspect::{MergeWait, store_parts};
use imbrex_engine::{CompactionKind, Compression, Db, KeyspaceOptions, Options};
use imbrex_files::Files;
use std::collections::BTreeMap;
use std::sync::Arc;

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// Tables so short that a base merge has many pieces.
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
    Options { memtable_len_bytes: 512 << 10, free_memtable_count_min: 1, keyspace, ..small() }
}

/// One partition, whose merge has many pieces.
fn long_merges() -> Options {
    let keyspace = KeyspaceOptions { base_level_len_bytes: 64 << 20, ..options().keyspace };
    Options { keyspace, ..options() }
}

fn create(stage: &Stage, options: Options) -> Db {
    let files: Arc<dyn Files> = stage.format_with("zone-per-stream");
    Db::open(files, stage.runtime.clone(), options).unwrap()
}

fn put(db: &Db, map: &mut Map, prng: &mut Prng, number: u64) {
    let mut value = vec![0; 1000];
    prng.fill(&mut value);
    db.default_keyspace().put(key(number), &value).unwrap();
    map.insert(key(number), value);
}

fn compare(db: &Db, map: &Map, what: &str) {
    let ks = db.default_keyspace();
    let entries = ks.range::<&[u8]>(..).unwrap();
    let got: Map = entries.map(|e| e.map(|(k, v)| (k.to_vec(), v.to_vec())).unwrap()).collect();
    assert!(got == *map, "{what}: {} entries, expected {}", got.len(), map.len());
    let backward = ks.range::<&[u8]>(..).unwrap().rev();
    assert_eq!(backward.count(), map.len(), "{what}, backward");
    for (key, value) in map.iter().step_by(31) {
        assert_eq!(ks.get(key).unwrap().as_deref(), Some(&value[..]), "{what}: {key:?}");
    }
    let report = db.check().unwrap();
    assert!(report.is_sound(), "{what}: {report}");
}

/// For each piece of a base merge so far: how many bytes were left before it.
fn pieces(db: &Db) -> Vec<u64> {
    let left = |plan: &str| {
        let (_, rest) = plan.split_once("base merge, ")?;
        rest.split_once(' ')?.0.parse().ok()
    };
    db.metrics().compactions.iter().filter_map(|line| left(&line.plan)).collect()
}

/// A drive of 48 MiB takes updates of 34 MB of live data for as long as they come.
#[test]
fn a_nearly_full_drive_goes_on_taking_updates() {
    const KEY_COUNT: u64 = 33_000;
    let stage = seeded(48, 1);
    let db = create(&stage, options());
    let (mut map, mut prng) = (Map::new(), Prng::new(7));
    (0..KEY_COUNT).for_each(|number| put(&db, &mut map, &mut prng, number * 37 % KEY_COUNT));
    for _ in 0..2 * KEY_COUNT {
        let number = prng.below(KEY_COUNT);
        put(&db, &mut map, &mut prng, number);
    }
    compare(&db, &map, "after two rounds");
    let metrics = db.metrics();
    assert!(pieces(&db).len() > 100, "{} pieces", pieces(&db).len());
    assert!(metrics.write_amp_ratio < 14.0, "{:.1} bytes written a byte", metrics.write_amp_ratio);
}

#[test]
fn a_sequential_load_writes_each_byte_once_behind_the_log() {
    let stage = seeded(96, 1);
    let db = create(&stage, options());
    let (mut map, mut prng) = (Map::new(), Prng::new(7));
    (0..40_000).for_each(|number| put(&db, &mut map, &mut prng, number));
    db.flush().unwrap();
    db.wait_idle().unwrap();
    let metrics = db.metrics();
    assert!(metrics.write_amp_ratio < 1.1, "{:.2} bytes written a byte", metrics.write_amp_ratio);
    compare(&db, &map, "in order");
}

/// Crashes in the midst of base merges. The next opening goes on where the merge was.
#[test]
fn a_base_merge_goes_on_after_a_crash() {
    const KEY_COUNT: u64 = 20_000;
    let (mut went_on_count, mut under_way_count) = (0, 0);
    for seed in 0..4 {
        let stage = seeded(34, seed);
        let mut prng = Prng::new(seed).derive("lazy cuts");
        let mut db = create(&stage, long_merges());
        let mut map = Map::new();
        (0..KEY_COUNT).for_each(|number| put(&db, &mut map, &mut prng, number));
        for round in 0..4 {
            for _ in 0..4000 + prng.below(4000) {
                let number = prng.below(KEY_COUNT);
                put(&db, &mut map, &mut prng, number);
            }
            db.sync().unwrap();
            let before = pieces(&db).last().copied();
            stage.crash(db, &mut prng);
            db = stage.reopen(long_merges()).unwrap();
            compare(&db, &map, &format!("seed {seed}, round {round}"));
            let metrics = db.metrics();
            let partitions = metrics.keyspaces[0].partitions.as_ref().unwrap();
            if let Some(merge) = &partitions.base_merge {
                assert!(merge.left_len_bytes > 0, "{merge:?}");
                under_way_count += 1;
            }
            db.wait_idle().unwrap();
            let after = pieces(&db).first().copied();
            went_on_count += u32::from(after.zip(before).is_some_and(|(a, b)| a < b));
        }
        let snapshot = db.snapshot();
        let seen = map.clone();
        for _ in 0..8000 {
            let number = prng.below(KEY_COUNT);
            put(&db, &mut map, &mut prng, number);
        }
        let ks = db.default_keyspace();
        for (key, value) in seen.iter().step_by(97) {
            assert_eq!(ks.get_at(&snapshot, key).unwrap().as_deref(), Some(&value[..]), "{key:?}");
        }
        drop(snapshot);
        ks.compact_range(None, None).unwrap();
        compare(&db, &map, &format!("seed {seed}, compacted"));
        db.close().unwrap();
        stage.world.drop_jobs();
    }
    assert!(went_on_count > 0, "{went_on_count} merges went on");
    assert!(under_way_count > 0, "the metrics show a merge under way");
}

/// The base merges since the store was opened.
struct Merged {
    piece_count: usize,
    /// Entries and bytes that the pieces read; what a running piece has read counts.
    entry_count: u64,
    len_bytes: u64,
    /// The longest piece.
    piece_entry_count_max: u64,
    piece_len_bytes_max: u64,
}

impl Merged {
    fn of(db: &Db) -> Merged {
        let metrics = db.metrics();
        let pieces: Vec<_> =
            metrics.compactions.iter().filter(|line| line.plan.contains("base merge")).collect();
        let running = metrics.running.iter().map(|compaction| compaction.done_len_bytes);
        Merged {
            piece_count: pieces.len(),
            entry_count: pieces.iter().map(|line| line.entry_count).sum(),
            len_bytes: pieces.iter().map(|line| line.in_len_bytes).chain(running).sum(),
            piece_entry_count_max: pieces.iter().map(|line| line.entry_count).max().unwrap_or(0),
            piece_len_bytes_max: pieces.iter().map(|line| line.in_len_bytes).max().unwrap_or(0),
        }
    }
}

/// How a store stops in the midst of a base merge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Close,
    PowerCut,
}

/// Lets background jobs make single steps until `ready`.
fn step_until(stage: &Stage, mut ready: impl FnMut() -> bool) {
    stage.runtime.scheduler.wait_until(&mut ready).unwrap();
}

const BASE_KEY_COUNT: u64 = 20_000;

/// A store whose one partition has a base of 20 MB and 6 MB above it, and in which nothing was merged.
fn before_a_base_merge(stage: &Stage, map: &mut Map) -> Db {
    let db = create(stage, Options { background_work: false, ..long_merges() });
    let mut prng = Prng::new(11);
    for n in 0..BASE_KEY_COUNT + 6000 {
        put(&db, map, &mut prng, if n < BASE_KEY_COUNT { n } else { n * 7919 % BASE_KEY_COUNT });
        if n % 250 == 249 {
            db.flush().unwrap();
        }
        if n == BASE_KEY_COUNT {
            db.default_keyspace().compact_range(None, None).unwrap();
        }
    }
    db.flush().unwrap();
    db.close().unwrap();
    stage.reopen(long_merges()).unwrap()
}

/// The partition's merge, all at once.
fn whole_merge() -> Merged {
    let stage = seeded(36, 3);
    let db = before_a_base_merge(&stage, &mut Map::new());
    db.wait_idle().unwrap();
    let whole = Merged::of(&db);
    db.close().unwrap();
    stage.world.drop_jobs();
    whole
}

/// A merge that started again would read all that it had read before once more.
#[test]
fn a_base_merge_that_is_cut_short_reads_nothing_twice_but_one_piece() {
    let whole = whole_merge();
    assert!(whole.piece_count >= 4, "{} pieces", whole.piece_count);
    for (end, quarters, steps) in
        [(End::Close, 1, 1), (End::PowerCut, 2, 5), (End::PowerCut, 3, 1), (End::Close, 3, 3)]
    {
        let piece_count = whole.piece_count * quarters / 4;
        let what = format!("{end:?} after {piece_count} pieces and {steps} steps");
        let stage = seeded(36, 3);
        let mut map = Map::new();
        let db = before_a_base_merge(&stage, &mut map);
        step_until(&stage, || Merged::of(&db).piece_count == piece_count);
        let mut steps_left = steps;
        step_until(&stage, || {
            steps_left -= 1;
            steps_left < 0
        });
        let before = Merged::of(&db);
        let merge = db.metrics().keyspaces[0].partitions.clone().unwrap().base_merge.unwrap();
        assert!(0 < merge.base_done_len_bytes, "{what}: {merge:?}");
        assert!(merge.base_done_len_bytes < merge.base_len_bytes, "{what}: {merge:?}");
        match end {
            End::Close => db.close().unwrap(),
            End::PowerCut => stage.crash(db, &mut Prng::new(5)),
        }
        let db = stage.reopen(long_merges()).unwrap();
        let resumed = db.metrics().keyspaces[0].partitions.clone().unwrap().base_merge.unwrap();
        assert_eq!(resumed.next_key, merge.next_key, "{what}");
        db.wait_idle().unwrap();
        let after = Merged::of(&db);
        assert!(before.piece_count + after.piece_count > whole.piece_count / 2, "{what}");
        let piece_entry_count = before.piece_entry_count_max.max(after.piece_entry_count_max);
        let (entries, entries_max) =
            (before.entry_count + after.entry_count, whole.entry_count + piece_entry_count);
        assert!(entries <= entries_max, "{what}: {entries} entries, at most {entries_max}");
        let piece_len_bytes = before.piece_len_bytes_max.max(after.piece_len_bytes_max);
        let (bytes, bytes_max) =
            (before.len_bytes + after.len_bytes, whole.len_bytes + piece_len_bytes);
        assert!(bytes <= bytes_max, "{what}: {bytes} bytes, at most {bytes_max}");
        compare(&db, &map, &what);
        db.close().unwrap();
        stage.world.drop_jobs();
    }
}

/// While a piece runs, the metrics show it; what is in the catalog is the same for an open store and
/// for tools that only read the catalog.
#[test]
fn the_metrics_show_a_base_merge_and_the_piece_that_runs() {
    let stage = seeded(36, 3);
    let db = before_a_base_merge(&stage, &mut Map::new());
    let (mut was_running, mut done_len_bytes) = (false, 0);
    step_until(&stage, || {
        let metrics = db.metrics();
        for running in &metrics.running {
            was_running |= running.plan.contains("base merge") && running.done_len_bytes > 0;
            assert!(running.done_len_bytes <= running.len_bytes, "{running:?}");
            done_len_bytes = done_len_bytes.max(running.done_len_bytes);
        }
        let own = metrics.keyspaces[0].partitions.clone().unwrap();
        let is_piece = metrics.running.iter().any(|running| running.plan.contains("base merge"));
        if let Some(merge) = own.base_merge.filter(|_| is_piece) {
            assert_eq!(merge.wait, Some(MergeWait::Running), "{merge:?}");
        }
        Merged::of(&db).piece_count == 2
    });
    assert!(was_running && done_len_bytes > 0, "a piece was seen running");
    let metrics = db.metrics();
    let own = metrics.keyspaces[0].partitions.clone().unwrap();
    let words = metrics.to_string();
    assert!(words.contains("  1 partitions: base ") && words.contains("; waits for "), "{words}");
    let [shape] = &own.shapes[..] else { panic!("{:?}", own.shapes) };
    let level_bytes: u64 = metrics.keyspaces[0].levels.iter().map(|l| l.len_bytes).sum();
    assert_eq!(shape.len_bytes(), level_bytes);
    assert!(shape.dead_len_bytes_max <= shape.upper_len_bytes(), "nothing was deleted: {shape:?}");
    db.close().unwrap();
    let files = stage.mount();
    let parts = store_parts(&files.app_records()).unwrap();
    let merge = parts[0].base_merge.clone().unwrap();
    assert_eq!(Some(merge.next_key), own.base_merge.map(|merge| merge.next_key));
    assert_eq!(merge.wait, None);
    assert_eq!(parts[0].partitions.as_deref(), Some(&own.shapes[..]));
    let names: Vec<_> = files.list("").into_iter().map(|file| file.name).collect();
    assert!(parts[0].tables.iter().all(|table| names.contains(&table.file_name)));
    let base_count = parts[0].tables.iter().filter(|table| table.is_base).count();
    assert_eq!(base_count, own.shapes[0].base.table_count);
}

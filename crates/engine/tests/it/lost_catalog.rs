//! A store whose catalog is not used: its tables and logs are found by their own bytes.

use crate::stage::{Stage, key, seeded, small, small_gear, small_keyspace, zoned};
use imbrex_clockwork::{Order, Prng, Runtime};
use imbrex_disk::{BLOCK_LEN_BYTES, BlockRange, Blocks, Disk, Lba, Persist};
use imbrex_disk_sim::SimDisk;
use imbrex_engine::salvage::{Doubt, Found, Traces, copy_store, doubts_of, has_entries};
use imbrex_engine::{Compression, Db, KeyspaceOptions, Options, ReadOptions, WriteOptions};
use imbrex_files::raw::RawDrive;
use imbrex_files::{FileInfo, FileLayer, Files};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::Arc;

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

const OTHER: &str = "other";

/// Every value that a key ever had, and its current value, by keyspace.
#[derive(Default)]
struct History {
    ever: BTreeMap<String, BTreeMap<Vec<u8>, BTreeSet<Vec<u8>>>>,
    now: BTreeMap<String, Map>,
}

impl History {
    /// Puts, deletes and range deletes in two keyspaces, with flushes and compactions.
    fn write(&mut self, db: &Db, prng: &mut Prng, count: u64) {
        if db.keyspace(OTHER).is_err() {
            db.create_keyspace(OTHER, small_keyspace()).unwrap();
        }
        for name in [OTHER, "default"] {
            self.now.entry(name.to_owned()).or_default();
        }
        for round in 0..count {
            let name = if prng.below(4) == 0 { OTHER } else { "default" };
            let keyspace = db.keyspace(name).unwrap();
            let now = self.now.get_mut(name).unwrap();
            let at = key(prng.below(500));
            match prng.below(40) {
                0..5 => {
                    keyspace.delete(&at).unwrap();
                    now.remove(&at);
                }
                5 => {
                    let end = key(prng.below(500));
                    let (from, upto) = (at.clone().min(end.clone()), at.max(end));
                    if from < upto {
                        keyspace.delete_range(&from[..]..&upto[..]).unwrap();
                        now.retain(|key, _| *key < from || upto <= *key);
                    }
                }
                6 if prng.below(10) == 0 => db.flush().unwrap(),
                7 if prng.below(20) == 0 => keyspace.compact_range(None, None).unwrap(),
                _ => {
                    let value = format!("{round} {}", "x".repeat(prng.below(300) as usize));
                    let value = value.into_bytes();
                    keyspace.put(&at, &value).unwrap();
                    let ever = self.ever.entry(name.to_owned()).or_default();
                    ever.entry(at.clone()).or_default().insert(value.clone());
                    now.insert(at, value);
                }
            }
        }
        db.sync().unwrap();
    }

    /// Compares the store with the history: outside of `doubts` it must be the same, within them it
    /// may have any value that the key ever had. Returns how many current entries it has.
    fn check(&self, db: &Db, doubts: &[Doubt], seed: u64) -> usize {
        let mut right_count = 0;
        for (name, now) in &self.now {
            let found = db.keyspace(name).map_or_else(|_| Map::new(), |k| all(&k));
            let is_in_doubt = |key: &Vec<u8>| {
                doubts.iter().any(|doubt| {
                    doubt.keyspace == *name
                        && doubt.from.as_ref().is_none_or(|from| from <= key)
                        && doubt.upto.as_ref().is_none_or(|upto| key <= upto)
                })
            };
            for (key, value) in &found {
                let is_right = now.get(key) == Some(value);
                right_count += usize::from(is_right);
                let shown = key.escape_ascii();
                assert!(is_right || is_in_doubt(key), "seed {seed}, {name}: {shown} is outdated");
                let ever = self.ever.get(name).and_then(|ever| ever.get(key));
                assert!(ever.is_some_and(|ever| ever.contains(value)), "{shown} never had it");
            }
            for key in now.keys() {
                let is_there = found.contains_key(key);
                let shown = key.escape_ascii();
                assert!(
                    is_there || is_in_doubt(key),
                    "seed {seed}, {name}: {shown} is missing: {doubts:?}, {:?}",
                    db.losses()
                );
            }
        }
        right_count
    }

    fn len(&self) -> usize {
        self.now.values().map(Map::len).sum()
    }
}

fn all(keyspace: &imbrex_engine::Keyspace) -> Map {
    let mut iter = keyspace.iter(ReadOptions::default()).unwrap();
    let mut map = Map::new();
    iter.seek_to_first().unwrap();
    while iter.valid() {
        map.insert(iter.key().to_vec(), iter.value().to_vec());
        iter.next().unwrap();
    }
    map
}

fn traces(disk: &Arc<SimDisk>) -> Traces {
    let drive = RawDrive::new(Arc::clone(disk) as Arc<dyn Disk>);
    Traces::read(vec![drive], &mut |_| ControlFlow::Continue(())).unwrap()
}

fn find(disk: &Arc<SimDisk>) -> Found {
    let traces = traces(disk);
    let store = traces.stores().first().expect("there is a store").id;
    traces.assemble(store).unwrap()
}

/// Opens what was found and compares it; returns the number of right entries and all doubts.
fn check(stage: &Stage, history: &History, seed: u64) -> (usize, Vec<Doubt>) {
    let image = stage.disk.image_hash().unwrap();
    let found = find(&stage.disk);
    let db = found.open(stage.runtime.clone()).unwrap();
    for name in db.keyspace_names() {
        all(&db.keyspace(&name).unwrap());
    }
    let mut doubts = found.report().doubts.clone();
    doubts.extend(doubts_of(&db).unwrap());
    let right_count = history.check(&db, &doubts, seed);
    assert_eq!(stage.disk.image_hash().unwrap(), image, "nothing is written");
    (right_count, doubts)
}

fn plain() -> Options {
    let keyspace = KeyspaceOptions { compression: Compression::None, ..small_keyspace() };
    Options { keyspace, ..small() }
}

/// A store that was opened and crashed several times.
fn stage(seed: u64, options: &Options) -> (Stage, History) {
    let stage = seeded(40, seed);
    let mut prng = Prng::new(seed).derive("salvage");
    let mut history = History::default();
    let mut db = stage.create(options.clone());
    for _ in 0..3 {
        let count = 500 + prng.below(2500);
        history.write(&db, &mut prng, count);
        stage.crash(db, &mut prng);
        db = stage.reopen(options.clone()).unwrap();
    }
    history.write(&db, &mut prng, 300);
    stage.crash(db, &mut prng);
    stage.world.drop_jobs();
    (stage, history)
}

#[test]
fn a_sound_store_is_found_whole() {
    for seed in 0..10 {
        let options = if seed % 3 == 2 { small_gear() } else { plain() };
        // Some values are apart, and cleaning moves some of them.
        let from_bytes = if seed % 2 == 1 { 100 } else { 0 };
        let keyspace = KeyspaceOptions { values_apart_from_bytes: from_bytes, ..options.keyspace };
        let options = Options { keyspace, ..options };
        let (stage, history) = stage(seed, &options);
        let (right_count, doubts) = check(&stage, &history, seed);
        assert_eq!(right_count, history.len(), "seed {seed}: {doubts:?}");
        assert!(doubts.is_empty(), "seed {seed}: {doubts:?}");
    }
}

/// The catalog's own blocks are gone as well, on a drive whose files are in free runs of any length.
#[test]
fn a_drive_without_zones_and_without_its_first_blocks_is_found() {
    for seed in 0..8 {
        let mut prng = Prng::new(seed).derive("salvage");
        let stage = Stage {
            disk: Arc::new(SimDisk::tiny_conventional(Blocks::new(1100))),
            ..zoned(40, Order::Seeded(Prng::new(seed)))
        };
        let db = Db::open(stage.format_with("first-fit"), stage.runtime.clone(), plain()).unwrap();
        let mut history = History::default();
        history.write(&db, &mut prng, 4000);
        db.close().unwrap();
        stage.world.drop_jobs();
        let zeros = vec![0; 2 * 32 * BLOCK_LEN_BYTES];
        stage.disk.write(Lba::new(0), &zeros, Persist::Cached).unwrap();
        FileLayer::open(Arc::clone(&stage.disk) as Arc<dyn Disk>, &stage.runtime).unwrap_err();
        let (right_count, doubts) = check(&stage, &history, seed);
        assert_eq!(right_count, history.len(), "seed {seed}: {doubts:?}");
    }
}

/// Tables in two or three extents, between others: `| a 0 | b | a 1 | c | a 2 | ...`.
#[test]
fn tables_in_several_extents_are_joined() {
    let mut all_split_count = 0;
    for seed in 0..12 {
        let (stage, mut history) = stage(seed, &plain());
        end_with_tables(&stage, &mut history);
        let layer = FileLayer::open(Arc::clone(&stage.disk) as Arc<dyn Disk>, &stage.runtime);
        let layer = layer.unwrap();
        let mut tables: Vec<Vec<u8>> = Vec::new();
        for file in layer.list("").iter().filter(|file| file.name.ends_with(".tbl")) {
            let (reader, mut scratch) = (layer.open(&file.name).unwrap(), Vec::new());
            let len_bytes = file.len_bytes as usize;
            let mut bytes = reader.read_at(0, len_bytes, &mut scratch).unwrap().to_vec();
            bytes.resize(len_bytes.next_multiple_of(BLOCK_LEN_BYTES), 0);
            tables.push(bytes);
        }
        let disk = Arc::new(SimDisk::tiny_conventional(Blocks::new(4000)));
        let (mut at, mut split_count) = (Lba::new(100), 0);
        let mut write = |bytes: &[u8]| {
            disk.write(at, bytes, Persist::Cached).unwrap();
            at += Blocks::holding(bytes.len() as u64);
        };
        let mut prng = Prng::new(seed).derive("cuts");
        let mut tables = tables.into_iter();
        while let Some(table) = tables.next() {
            let mut cuts: Vec<usize> = (0..1 + prng.below(2))
                .map(|_| prng.below((table.len() / BLOCK_LEN_BYTES) as u64) as usize)
                .collect();
            cuts.retain(|cut| *cut > 0);
            cuts.sort_unstable();
            cuts.dedup();
            let mut from = 0;
            for cut in cuts {
                let Some(other) = tables.next() else { break };
                write(&table[from * BLOCK_LEN_BYTES..cut * BLOCK_LEN_BYTES]);
                write(&other);
                (from, split_count) = (cut, split_count + 1);
            }
            write(&table[from * BLOCK_LEN_BYTES..]);
        }
        all_split_count += split_count;
        let found = find(&disk);
        assert_eq!(found.report().damaged_table_count, 0, "seed {seed}: {:?}", found.report());
        let db = found.open(stage.runtime.clone()).unwrap();
        assert_eq!(history.check(&db, &found.report().doubts, seed), history.len());
    }
    assert!(all_split_count > 20, "{all_split_count} cuts");
}

/// The files of a store that is not open.
fn stage_files(stage: &Stage) -> Vec<FileInfo> {
    let disk = Arc::clone(&stage.disk) as Arc<dyn Disk>;
    FileLayer::open(disk, &stage.runtime).unwrap().list("")
}

fn damage(stage: &Stage, file: &FileInfo, prng: &mut Prng) {
    for extent in &file.extents {
        match prng.below(3) {
            0 => stage.disk.damage(*extent),
            1 => {
                let at = extent.start + Blocks::new(prng.below(extent.len.get()));
                stage.disk.damage(BlockRange::new(at, Blocks::new(1)));
            }
            _ => {
                let at = extent.start + Blocks::new(prng.below(extent.len.get()));
                let bit = prng.below(8 * BLOCK_LEN_BYTES as u64) as u32;
                let _ = stage.disk.flip_bit(at, bit);
            }
        }
    }
}

/// Writes to both keyspaces after everything else, twice: from then on the loss of an older table is
/// noticed. Returns the older tables.
fn end_with_tables(stage: &Stage, history: &mut History) -> Vec<FileInfo> {
    let db = stage.reopen(plain()).unwrap();
    let mut files = Vec::new();
    for last in ["last", "very last"] {
        files = stage_files(stage);
        for (name, now) in &mut history.now {
            let (key, value) = (b"zzz".to_vec(), last.as_bytes().to_vec());
            db.keyspace(name).unwrap().put(&key, &value).unwrap();
            let ever = history.ever.entry(name.clone()).or_default();
            ever.entry(key.clone()).or_default().insert(value.clone());
            now.insert(key, value);
        }
        db.flush().unwrap();
    }
    db.close().unwrap();
    stage.world.drop_jobs();
    let kept: BTreeSet<String> = stage_files(stage).into_iter().map(|file| file.name).collect();
    files.retain(|file| file.name.ends_with(".tbl") && kept.contains(&file.name));
    files
}

#[test]
fn what_is_lost_puts_only_its_own_keys_in_doubt() {
    let (mut doubt_count, mut all_right_count, mut entry_count) = (0, 0, 0);
    for seed in 0..30 {
        let (stage, mut history) = stage(seed, &plain());
        let mut prng = Prng::new(seed).derive("damage");
        let files = end_with_tables(&stage, &mut history);
        for _ in 0..1 + seed % 4 {
            let file = &files[prng.below(files.len() as u64) as usize];
            damage(&stage, file, &mut prng);
        }
        let (right_count, doubts) = check(&stage, &history, seed);
        assert!(right_count == history.len() || !doubts.is_empty(), "seed {seed}");
        doubt_count += doubts.len();
        all_right_count += right_count;
        entry_count += history.len();
    }
    assert!(doubt_count > 20, "{doubt_count}");
    assert!(2 * all_right_count > entry_count, "{all_right_count} of {entry_count}");
}

/// All that lies in the first half comes back.
#[test]
fn half_a_drive_is_unreadable() {
    let (stage, history) = stage(3, &plain());
    let mut starts: Vec<Lba> =
        stage_files(&stage).iter().filter_map(|file| Some(file.extents.first()?.start)).collect();
    starts.sort_unstable();
    let (half, end) = (starts[starts.len() / 2], Lba::new(stage.disk.geometry().len().get()));
    stage.disk.damage(BlockRange::new(half, end - half));
    let found = find(&stage.disk);
    assert!(found.report().unreadable_bytes > 0);
    let db = found.open(stage.runtime).unwrap();
    let ever = &history.ever["default"];
    let entries = all(&db.default_keyspace());
    assert!(!entries.is_empty());
    assert!(entries.iter().all(|(key, value)| ever[key].contains(value)));
}

/// Only logs: neither the format nor the names of keyspaces are known.
#[test]
fn logs_alone_are_found() {
    let stage = seeded(40, 1);
    let db = stage.create(plain());
    let other = db.create_keyspace(OTHER, small_keyspace()).unwrap();
    db.default_keyspace().put("a", "1").unwrap();
    other.put_with("b", "2", WriteOptions::SYNC).unwrap();
    drop(other);
    stage.crash(db, &mut Prng::new(1));
    let traces = traces(&stage.disk);
    assert_eq!(traces.stores().len(), 1, "{:?}", traces.stores());
    let db = find(&stage.disk).open(stage.runtime.clone()).unwrap();
    assert_eq!(db.keyspace_names(), ["default", "keyspace-1"]);
    assert_eq!(db.default_keyspace().get("a").unwrap().as_deref(), Some(&b"1"[..]));
    assert_eq!(db.keyspace("keyspace-1").unwrap().get("b").unwrap().as_deref(), Some(&b"2"[..]));
}

/// A table of version 1 says nothing about where it belongs.
#[test]
fn a_table_of_an_old_version_is_found() {
    let hex = include_str!("../../testdata/table/golden_version_1.hex");
    let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    let mut bytes: Vec<u8> = digits.chunks_exact(2).map(byte).collect();
    bytes.resize(bytes.len().next_multiple_of(BLOCK_LEN_BYTES), 0);
    let disk = Arc::new(SimDisk::tiny_conventional(Blocks::new(64)));
    disk.write(Lba::new(17), &bytes, Persist::Cached).unwrap();
    let found = find(&disk);
    assert_eq!(found.report().table_count, 1);
    assert_eq!(found.report().doubts.len(), 1, "{:?}", found.report().doubts);
    let db = found.open(Runtime::threads(1)).unwrap();
    assert_eq!(all(&db.default_keyspace()).len(), 2);
}

/// A drive that was formatted again has traces of both stores, and they do not mix.
#[test]
fn stores_of_two_formats_are_kept_apart() {
    let disk = Arc::new(SimDisk::tiny_conventional(Blocks::new(3000)));
    let stage = Stage { disk, ..zoned(40, Order::Seeded(Prng::new(7))) };
    let mut expected = BTreeMap::new();
    for (value, count) in [("old", 3000), ("new", 100)] {
        let layer = stage.format_with("first-fit");
        expected.insert(layer.format_id(), value.as_bytes().to_vec());
        let db = Db::open(layer, stage.runtime.clone(), plain()).unwrap();
        for n in 0..count {
            db.default_keyspace().put(key(n), value).unwrap();
        }
        db.flush().unwrap();
        db.close().unwrap();
        stage.world.drop_jobs();
    }
    let traces = traces(&stage.disk);
    assert_eq!(traces.stores().len(), 2, "{:?}", traces.stores());
    for store in traces.stores() {
        let db = traces.assemble(store.id).unwrap().open(stage.runtime.clone()).unwrap();
        let values: BTreeSet<Vec<u8>> = all(&db.default_keyspace()).into_values().collect();
        assert_eq!(values, BTreeSet::from([expected[&store.id].clone()]));
    }
}

#[test]
fn a_blank_drive_has_no_traces() {
    assert!(traces(&Arc::new(SimDisk::tiny_conventional(Blocks::new(64)))).stores().is_empty());
    assert!(traces(&Arc::new(SimDisk::tiny_zoned(8, Blocks::new(256)))).stores().is_empty());
}

#[test]
fn a_store_is_copied_until_the_target_is_full() {
    let (source, history) = stage(5, &plain());
    let db = find(&source.disk).open(source.runtime.clone()).unwrap();
    let target = seeded(40, 8);
    let to = target.create(small());
    assert!(!has_entries(&to).unwrap());
    let mut copied = Vec::new();
    copy_store(&db, &to, &mut copied, &mut |_| ControlFlow::Continue(())).unwrap();
    assert!(has_entries(&to).unwrap());
    assert_eq!(history.check(&to, &[], 5), history.len());
    let count: u64 = copied.iter().map(|copy| copy.entry_count).sum();
    assert_eq!(count, history.len() as u64);
    to.close().unwrap();
    target.world.drop_jobs();

    // Each entry again under many keys, for a target that cannot hold all of them.
    let long = target.reopen(small()).unwrap();
    let small_target = seeded(12, 9);
    let to = small_target.create(small());
    let mut entry_count = 0;
    let full = loop {
        let mut copied = Vec::new();
        match copy_store(&long, &to, &mut copied, &mut |_| ControlFlow::Continue(())) {
            Err(error) => break Some(error),
            Ok(()) if entry_count > 20 => break None,
            Ok(()) => entry_count += 1,
        }
    };
    assert!(full.is_none_or(|error| error.is_no_space()));
    history.check(&to, &[], 9);
}

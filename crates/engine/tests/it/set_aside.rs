//! Tables that compactions cannot read: what they block, and what still works.

use crate::policies::policies;
use crate::stage::{Stage, key, seeded, small, small_gear};
use imbrex_clockwork::{Order, Prng, Runtime, share_of};
use imbrex_disk::{BLOCK_LEN_BYTES, Blocks, Disk, Geometry, GeometrySpec, Persist, Rule};
use imbrex_disk_sim::SimDisk;
use imbrex_engine::tuning::VictimGrowth;
use imbrex_engine::{Compression, Db, EngineError, KeyspaceOptions, Options};
use imbrex_files::{FileInfo, FileLayer, Files, FormatOptions, PlacementKind};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

const KEY_COUNT: u64 = 2000;

/// A store, with the data that were written to it.
struct Filled {
    stage: Stage,
    files: Arc<dyn Files>,
    db: Db,
    prng: Prng,
    map: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl Filled {
    fn new(options: Options, seed: u64) -> Filled {
        let stage = seeded(96, seed);
        let files = stage.format();
        let db = Db::open(Arc::clone(&files), stage.runtime.clone(), options).unwrap();
        let (prng, map) = (Prng::new(seed), BTreeMap::new());
        let mut filled = Filled { stage, files, db, prng, map };
        filled.write(3000).unwrap();
        filled.db.wait_idle().unwrap();
        filled
    }

    fn write(&mut self, count: u64) -> Result<(), EngineError> {
        self.write_to(0..KEY_COUNT, count)
    }

    fn write_to(&mut self, keys: Range<u64>, count: u64) -> Result<(), EngineError> {
        for _ in 0..count {
            let mut value = vec![0; 500];
            self.prng.fill(&mut value);
            let key = key(keys.start + self.prng.below(keys.end - keys.start));
            self.db.default_keyspace().put(&key, &value)?;
            self.map.insert(key, value);
        }
        Ok(())
    }

    fn tables(&self, is_wanted: impl Fn(&FileInfo) -> bool) -> Vec<FileInfo> {
        let mut files = self.files.list("");
        files.retain(|file| file.name.ends_with(".tbl") && is_wanted(file));
        files
    }

    /// The tables of a level, as file names and the numbers of their first and last keys.
    fn ranges(&self, level: u8) -> Vec<(String, u64, u64)> {
        let number = |key: &str| key.trim_start_matches("key").parse().unwrap();
        let levels = self.db.property("levels").unwrap();
        let lines = levels.lines().filter(|line| line.starts_with(&format!("L{level} ")));
        let tables = lines.flat_map(str::split_whitespace).filter_map(|word| word.split_once('['));
        tables
            .map(|(id, range)| {
                let (first, last) = range.trim_end_matches(']').split_once("..").unwrap();
                (format!("{id}.tbl"), number(first), number(last))
            })
            .collect()
    }

    fn last_level(&self) -> u8 {
        self.tables(|_| true).iter().map(|table| table.level).max().unwrap()
    }

    fn damage(&self, tables: &[FileInfo]) {
        let extents = tables.iter().flat_map(|table| &table.extents);
        extents.for_each(|&extent| self.stage.disk.damage(extent));
    }

    /// Checks that every key has its value or returns an error; returns the number of errors.
    fn compare(&self, what: &str) -> usize {
        let ks = self.db.default_keyspace();
        let is_unread = |(key, value): &(&Vec<u8>, &Vec<u8>)| match ks.get(key) {
            Ok(got) => {
                assert_eq!(got.as_deref(), Some(&value[..]), "{what}: {}", key.escape_ascii());
                false
            }
            Err(_) => true,
        };
        self.map.iter().filter(is_unread).count()
    }
}

/// One damaged table in a compaction made the store refuse all writes from then on.
#[test]
fn one_damaged_table_holds_up_nothing_but_what_lies_over_it() {
    let leveled = [("leveled", small()), ("gear", small_gear())];
    // Without its values, the whole last level is one table, and everything lies over it.
    let has_several =
        |(_, options): &(&str, Options)| options.keyspace.values_apart_from_bytes == 0;
    let all = policies().into_iter().chain(leveled).filter(has_several);
    for (name, options) in share_of(all) {
        let mut filled = Filled::new(options.clone(), 5);
        let last_level = filled.last_level();
        let table = filled.tables(|table| table.level == last_level).swap_remove(0);
        filled.damage(std::slice::from_ref(&table));
        filled.write(6000).unwrap_or_else(|error| panic!("{name}: {error}"));
        filled.db.wait_idle().unwrap();
        let set_aside = filled.db.metrics().tables_set_aside;
        let [why] = &set_aside[..] else { panic!("{name}: {set_aside:?}") };
        assert!(why.contains(&table.name) && why.contains("OpenMode::Salvage"), "{name}: {why}");
        let unread_count = filled.compare(name);
        assert!(unread_count < 60, "{name}: {unread_count} of {KEY_COUNT} keys");

        // A manual compaction reports it each time it is called.
        for _ in 0..2 {
            let refused = filled.db.default_keyspace().compact_range(None, None).unwrap_err();
            assert!(matches!(refused, EngineError::SetAside { .. }), "{name}: {refused}");
        }

        // It does not prevent a close, and the next opening works in the same way.
        filled.db.close().unwrap();
        filled.db = filled.stage.reopen(options).unwrap();
        filled.write(3000).unwrap_or_else(|error| panic!("{name}, opened again: {error}"));
        filled.db.wait_idle().unwrap();
        let set_aside = filled.db.metrics().tables_set_aside;
        assert!(set_aside.len() <= 1, "{name}, opened again: {set_aside:?}");
        filled.compare(name);
    }
}

/// A compaction that skips the checksums of data blocks copies the rot into a new table, with a
/// checksum that is right.
#[test]
fn a_compaction_copies_no_rotten_bit() {
    let leveled = [("leveled", small()), ("gear", small_gear())];
    for (name, options) in share_of(policies().into_iter().chain(leveled)) {
        // Without compression, only the checksum notices a bit of a value.
        let keyspace =
            KeyspaceOptions { compression: Compression::None, ..options.keyspace.clone() };
        let options = Options { keyspace, ..options };
        let mut refused_count = 0;
        for seed in 0..5 {
            let mut filled = Filled::new(options.clone(), seed);
            let tables = filled.tables(|_| true);
            let table = &tables[filled.prng.below(tables.len() as u64) as usize];
            let extent = table.extents[0];
            let block = extent.start + Blocks::new(filled.prng.below(extent.len.get()));
            let bit = filled.prng.below(8 * BLOCK_LEN_BYTES as u64) as u32;
            filled.stage.disk.flip_bit(block, bit).unwrap();
            // Over all tables, so that none is merely moved. Reads come after the merge.
            let merged = filled.write(500);
            let merged =
                merged.and_then(|()| filled.db.default_keyspace().compact_range(None, None));
            refused_count += usize::from(merged.is_err());
            filled.compare(name);
            if filled.db.close().is_ok() {
                filled.db = filled.stage.reopen(options.clone()).unwrap();
                filled.compare(name);
            }
        }
        // A merge copies no value that is apart, and does not read it.
        let reads_values = options.keyspace.values_apart_from_bytes == 0;
        assert!(refused_count > 0 || !reads_values, "{name}: no compaction met the rot");
    }
}

/// A drive that loses a write has zeros, or older bytes, where a table should be.
#[test]
fn a_block_of_zeros_is_damage_to_every_reader() {
    let mut damaged_count = 0;
    for seed in 0..8 {
        let (runtime, _) = Runtime::virtual_time(Order::SmallestTime);
        let geometry = GeometrySpec { len: Blocks::new(40 * 256), rule: Rule::Anywhere };
        let disk = SimDisk::builder(Geometry::new(geometry).unwrap()).memory().unwrap();
        let disk = Arc::new(disk);
        let placement = FormatOptions::new(PlacementKind::by_name("first-fit").unwrap());
        let as_disk = Arc::clone(&disk) as Arc<dyn Disk>;
        let files = Arc::new(FileLayer::format(as_disk, &placement, &runtime).unwrap());
        let keyspace = KeyspaceOptions { compression: Compression::None, ..small().keyspace };
        let options = Options { keyspace, block_cache_len_bytes: 0, ..small() };
        let open = || Db::open(Arc::clone(&files) as _, runtime.clone(), options.clone()).unwrap();
        let mut prng = Prng::new(seed);
        let mut db = open();
        let mut map = BTreeMap::new();
        for n in 0..200 {
            let mut value = vec![0; 100 + prng.below(300) as usize];
            prng.fill(&mut value);
            db.default_keyspace().put(key(n), &value).unwrap();
            map.insert(key(n), value);
        }
        db.default_keyspace().compact_range(None, None).unwrap();
        if seed % 2 == 1 {
            db.close().unwrap();
            db = open();
        }
        let tables = files.list("").into_iter().filter(|file| file.name.ends_with(".tbl"));
        let tables: Vec<FileInfo> = tables.collect();
        let extent = tables[prng.below(tables.len() as u64) as usize].extents[0];
        let at =
            extent.start + Blocks::new(if seed < 4 { 0 } else { prng.below(extent.len.get()) });
        disk.write(at, &[0; BLOCK_LEN_BYTES], Persist::Through).unwrap();
        let compare = |db: &Db| {
            let is_read = |(key, value): (&Vec<u8>, &Vec<u8>)| match db.default_keyspace().get(key)
            {
                Ok(got) => {
                    assert_eq!(got.as_deref(), Some(&value[..]), "seed {seed}");
                    true
                }
                Err(_) => false,
            };
            map.iter().all(is_read)
        };
        let was_whole = compare(&db);
        // Over all tables, so that none is merely moved.
        for (key, value) in map.iter().step_by(7) {
            db.default_keyspace().put(key, value).unwrap();
        }
        match db.default_keyspace().compact_range(None, None) {
            Ok(()) => assert!(was_whole && compare(&db), "seed {seed}: the zeros were merged"),
            Err(error) => {
                assert!(error.to_string().contains("checksum"), "seed {seed}: {error}");
                compare(&db);
                damaged_count += 1;
            }
        }
    }
    assert!(damaged_count > 3, "{damaged_count} merges met the zeros");
}

/// One damaged table of level 1 kept all of level 0 from going down, whatever overlapped it,
/// because level 0 as a whole spans nearly all keys. Writes were refused once level 0 had its
/// maximum of runs. Now the data that do not overlap the table go down.
#[test]
fn a_damaged_table_of_level_1_holds_up_nothing_beside_it() {
    for growth in [VictimGrowth::Neighbours, VictimGrowth::Single] {
        let keyspace = KeyspaceOptions { victim_growth: growth, ..small().keyspace };
        let mut filled = Filled::new(Options { keyspace, ..small() }, 9);
        // Data of level 0 over the table would wait, and so would everything that overlaps them.
        loop {
            filled.write(60).unwrap();
            filled.db.flush().unwrap();
            filled.db.wait_idle().unwrap();
            if filled.ranges(0).is_empty() {
                break;
            }
        }
        let tables = filled.ranges(1);
        let (name, first, last) = tables[tables.len() / 2].clone();
        assert!(first > 200 && last + 200 < KEY_COUNT, "{tables:?}");
        filled.damage(&filled.tables(|table| table.name == name));
        for _ in 0..20 {
            for beside in [0..first, last + 1..KEY_COUNT] {
                filled.write_to(beside, 100).unwrap_or_else(|e| panic!("{growth:?}: {e}"));
                filled.db.flush().unwrap();
            }
        }
        filled.db.wait_idle().unwrap();
        assert_eq!(filled.db.metrics().tables_set_aside.len(), 1, "{growth:?}");
        // Fewer runs than make level 0 go down.
        let level_0 = filled.db.property("levels").unwrap();
        let run_count = level_0.lines().filter(|line| line.starts_with("L0 ")).count();
        assert!(run_count < 3, "{growth:?}: {level_0}");
        filled.compare("afterwards");
    }
}

/// Writes that would wait for an impossible compaction are refused, with advice.
#[test]
fn writes_are_refused_when_they_would_wait_for_a_damaged_table() {
    let mut filled = Filled::new(small(), 6);
    let tables = filled.tables(|table| table.level == 1);
    assert!(!tables.is_empty());
    filled.damage(&tables);
    let refused = filled.write(20_000).unwrap_err();
    let EngineError::Poisoned { reason } = &refused else { panic!("{refused}") };
    assert!(
        reason.contains("OpenMode::Salvage") && !reason.contains("again to recover"),
        "{reason}"
    );
    assert!(tables.iter().any(|table| reason.contains(&table.name)), "{reason}");
    filled.compare("afterwards");
}

/// Such a refusal was handled like a failed flush. Nothing more became durable, so a clean close
/// lost acknowledged writes, although nothing was in doubt.
#[test]
fn a_close_keeps_what_was_acknowledged_before_writes_were_refused() {
    let mut filled = Filled::new(small(), 6);
    // The filters of tables that this run has written are in memory. They would answer for a while.
    filled.db.close().unwrap();
    filled.db = filled.stage.reopen(small()).unwrap();
    filled.damage(&filled.tables(|table| table.level == 1));
    filled.write(20_000).unwrap_err();
    let was_unread = filled.compare("refused");
    filled.db.close().unwrap();
    filled.db = filled.stage.reopen(small()).unwrap();
    assert!(filled.compare("opened again") <= was_unread);
}

/// The ways out were refused too, above all the drop of the keyspace that blocks the others.
#[test]
fn where_writes_are_refused_the_ways_out_are_open() {
    let mut filled = Filled::new(small(), 8);
    let ours = filled.tables(|_| true);
    let other = filled.db.create_keyspace("other", small().keyspace).unwrap();
    let mut prng = Prng::new(8);
    let mut write = |count| {
        (0..count).try_for_each(|_| {
            let mut value = [0; 500];
            prng.fill(&mut value);
            other.put(key(prng.below(KEY_COUNT)), value)
        })
    };
    write(3000).unwrap();
    filled.db.wait_idle().unwrap();
    filled.db.checkpoint("before").unwrap();
    let is_ours = |table: &FileInfo| ours.iter().any(|our| our.name == table.name);
    let is_linked = |table: &FileInfo| table.name.contains('/');
    filled.damage(&filled.tables(|table| table.level == 1 && !is_ours(table) && !is_linked(table)));
    let refused = write(20_000).unwrap_err();
    let EngineError::Poisoned { reason } = &refused else { panic!("{refused}") };
    assert_eq!(filled.write(1).unwrap_err().to_string(), refused.to_string());
    assert_eq!(filled.db.property("background-error").as_ref(), Some(reason));
    filled.db.wait_idle().unwrap_err();

    filled.db.sync().unwrap();
    filled.db.flush().unwrap();
    filled.db.checkpoint("after").unwrap();
    filled.db.delete_checkpoint("before").unwrap();
    filled.db.delete_checkpoint("after").unwrap();
    filled.db.create_keyspace("third", small().keyspace).unwrap();
    assert_eq!(filled.write(1).unwrap_err().to_string(), refused.to_string());
    filled.db.drop_keyspace("other").unwrap();
    assert_eq!(filled.db.property("background-error").unwrap(), "none");
    filled.write(5000).unwrap();
    filled.db.wait_idle().unwrap();
    filled.db.backup_to(&*seeded(96, 8).format()).unwrap();
    assert_eq!(filled.compare("the other keyspace"), 0);
}

/// A drive on which many tables cannot be read is failing: the store writes nothing more to it.
#[test]
fn writes_are_refused_when_many_tables_are_damaged() {
    let mut filled = Filled::new(small(), 7);
    let last_level = filled.last_level();
    let tables = filled.tables(|table| table.level == last_level);
    assert!(tables.len() > 20);
    filled.damage(&tables);
    let refused = filled.write(20_000).unwrap_err();
    assert!(refused.to_string().contains("too many tables cannot be read"), "{refused}");
    assert_eq!(filled.db.metrics().tables_set_aside.len(), 9);
}

/// The drop of a keyspace also removes the record of its damaged tables.
#[test]
fn what_was_set_aside_goes_with_its_keyspace() {
    let mut filled = Filled::new(small(), 8);
    let other = filled.db.create_keyspace("other", small().keyspace).unwrap();
    for n in 0..2000 {
        other.put(key(n), [1; 500]).unwrap();
    }
    filled.db.wait_idle().unwrap();
    let ours: Vec<_> = filled.tables(|_| true);
    for n in 0..2000 {
        other.put(key(n), [2; 500]).unwrap();
    }
    filled.db.wait_idle().unwrap();
    let table =
        filled.tables(|table| !ours.iter().any(|our| our.name == table.name)).swap_remove(0);
    filled.damage(&[table]);
    let refused = (0..5).find_map(|_| match other.compact_range(None, None) {
        Err(error @ EngineError::SetAside { .. }) => Some(error),
        _ => None,
    });
    assert!(refused.is_some());
    filled.write(2000).unwrap();
    assert_eq!(filled.db.metrics().tables_set_aside.len(), 1);
    drop(other);
    filled.db.drop_keyspace("other").unwrap();
    assert_eq!(filled.db.metrics().tables_set_aside.len(), 0);
    assert_eq!(filled.compare("the other keyspace"), 0);
}

//! A store with unreadable parts, opened to save the rest.

use crate::stage::{Stage, key, overwrite_a_checkpoint, seeded, small, small_keyspace};
use imbrex_clockwork::Prng;
use imbrex_disk::{BLOCK_LEN_BYTES, BlockRange, Blocks, Disk, Lba};
use imbrex_engine::salvage::doubts_of;
use imbrex_engine::{
    Compression, Db, EngineError, KeyspaceOptions, OpenMode, Options, ReadOptions, WriteOptions,
};
use imbrex_files::{Commit, FileInfo};
use std::collections::{BTreeMap, BTreeSet};

/// Every value that a key ever had, and its current value.
#[derive(Default)]
struct History {
    ever: BTreeMap<Vec<u8>, BTreeSet<Vec<u8>>>,
    now: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl History {
    /// Overwrites, deletes and range deletes; the last writes stay in logs.
    fn write(&mut self, db: &Db, prng: &mut Prng) {
        let ks = db.default_keyspace();
        for round in 0..3000_u64 {
            let key = key(prng.below(800));
            if prng.below(10) == 0 {
                ks.delete(&key).unwrap();
                self.now.remove(&key);
            } else {
                let value =
                    format!("{round} {}", "x".repeat(prng.below(200) as usize)).into_bytes();
                let sync = round % 8 == 0;
                ks.put_with(&key, &value, WriteOptions { sync }).unwrap();
                self.ever.entry(key.clone()).or_default().insert(value.clone());
                self.now.insert(key, value);
            }
        }
        db.sync().unwrap();
    }

    /// Every key that is missing, has an older value, or is back although it was deleted is in doubt.
    fn assert_in_doubt(&self, db: &Db, seed: u64) {
        let doubts = doubts_of(db).unwrap();
        for key in self.ever.keys() {
            // A value that cannot be read is an error, and a loss.
            let Ok(got) = db.default_keyspace().get(key) else { continue };
            let is_covered = doubts.iter().any(|doubt| {
                let is_above = doubt.from.as_ref().is_none_or(|from| from <= key);
                doubt.is_outdated && is_above && doubt.upto.as_ref().is_none_or(|upto| key <= upto)
            });
            let is_right = got.as_deref() == self.now.get(key).map(Vec::as_slice);
            assert!(is_right || is_covered, "seed {seed}: {}: {doubts:?}", key.escape_ascii());
        }
    }

    /// Counts the current values that are found; asserts that no other value is found.
    fn found(&self, db: &Db) -> usize {
        let mut iter = db.default_keyspace().iter(ReadOptions::default()).unwrap();
        let (mut right_count, mut keys) = (0, Vec::new());
        iter.seek_to_first().unwrap();
        while iter.valid() {
            let (key, value) = (iter.key().to_vec(), iter.value().to_vec());
            assert!(self.ever.get(&key).is_some_and(|values| values.contains(&value)));
            right_count += usize::from(self.now.get(&key) == Some(&value));
            keys.push(key);
            iter.next().unwrap();
        }
        let mut back = Vec::new();
        iter.seek_to_last().unwrap();
        while iter.valid() {
            back.push(iter.key().to_vec());
            iter.prev().unwrap();
        }
        back.reverse();
        assert!(back == keys, "{} keys backwards, {} forwards", back.len(), keys.len());
        right_count
    }
}

/// Tables of several blocks each.
fn plain() -> Options {
    let keyspace = KeyspaceOptions { compression: Compression::None, ..small_keyspace() };
    Options { keyspace, ..small() }
}

fn salvage(stage: &Stage) -> Result<Db, EngineError> {
    stage.reopen(Options { open_mode: OpenMode::Salvage, ..plain() })
}

/// A store with tables and logs after a power cut, with its files and its history.
fn stage(seed: u64) -> (Stage, Vec<FileInfo>, History) {
    let stage = seeded(40, seed);
    let mut prng = Prng::new(seed).derive("salvage");
    let db = stage.create(plain());
    let mut history = History::default();
    history.write(&db, &mut prng);
    stage.crash(db, &mut prng);
    let files = stage.mount().list("");
    stage.world.drop_jobs();
    (stage, files, history)
}

fn is_log(file: &FileInfo) -> bool {
    file.name.ends_with(".log")
}

/// A written block of a file.
fn block_of(stage: &Stage, file: &FileInfo, prng: &mut Prng) -> Option<Lba> {
    let blocks: Vec<Lba> = file
        .extents
        .iter()
        .flat_map(|extent| (0..extent.len.get()).map(|at| extent.start + Blocks::new(at)))
        .filter(|&at| {
            let mut block = vec![0; BLOCK_LEN_BYTES];
            stage.disk.read(at, &mut block).is_ok() && block.iter().any(|&byte| byte != 0)
        })
        .collect();
    (!blocks.is_empty()).then(|| blocks[prng.below(blocks.len() as u64) as usize])
}

#[test]
fn a_sound_store_is_salvaged_whole() {
    let (stage, _, history) = stage(1);
    let db = salvage(&stage).unwrap();
    assert_eq!(history.found(&db), history.now.len());
    assert!(db.losses().is_empty(), "{:?}", db.losses());
    let refused = db.default_keyspace().put("a", "b").unwrap_err();
    assert!(matches!(refused, EngineError::ReadOnly), "{refused}");
}

/// Damaged and unreadable blocks, in tables and in logs: most data are found, the losses are
/// reported, and nothing on the drive changes.
#[test]
fn what_is_damaged_is_told_and_the_rest_is_found() {
    let (mut log_count, mut table_count) = (0, 0);
    for seed in 0..12 {
        let (stage, files, history) = stage(seed);
        let mut prng = Prng::new(seed).derive("damage");
        let (logs, tables): (Vec<_>, Vec<_>) = files.iter().partition(|file| is_log(file));
        let hit = if seed % 3 == 0 { &logs } else { &tables };
        for _ in 0..2 {
            let Some(at) = block_of(&stage, hit[prng.below(hit.len() as u64) as usize], &mut prng)
            else {
                continue;
            };
            if seed % 2 == 0 {
                stage.disk.flip_bit(at, prng.below(8 * BLOCK_LEN_BYTES as u64) as u32).unwrap();
            } else {
                stage.disk.damage(BlockRange::new(at, Blocks::new(1)));
            }
        }
        let image = stage.disk.image_hash().unwrap();
        let db = salvage(&stage).unwrap();
        let right_count = history.found(&db);
        assert_eq!(history.found(&db), right_count);
        assert!(right_count * 3 > history.now.len(), "{right_count} of {}", history.now.len());
        history.assert_in_doubt(&db, seed);
        let losses = db.losses();
        assert!(right_count == history.now.len() || !losses.is_empty(), "seed {seed}");
        log_count += losses.iter().filter(|loss| loss.contains(".log")).count();
        table_count += losses.iter().filter(|loss| loss.contains("key")).count();
        assert_eq!(stage.disk.image_hash().unwrap(), image, "nothing is written");
        drop(db);
        stage.world.drop_jobs();
        // Without salvage the store does not open, or stops at the damage.
        let all = stage.reopen(plain()).and_then(|db| {
            for entry in db.default_keyspace().prefix("")? {
                entry?;
            }
            Ok(db)
        });
        assert!(all.is_err() || losses.is_empty(), "seed {seed}: {losses:?}");
    }
    assert!(
        log_count > 0 && table_count > 4,
        "{log_count} losses in logs, {table_count} in tables"
    );
}

/// All logs are lost. The tables of one keyspace have writes newer than any log that is no longer
/// needed, because another keyspace still needed that log. These writes are found all the same.
#[test]
fn tables_are_found_without_the_logs_that_they_are_ahead_of() {
    let stage = seeded(40, 1);
    let db = stage.create(plain());
    let [a, b] = ["a", "b"].map(|name| db.create_keyspace(name, plain().keyspace).unwrap());
    b.put("stays", "in memory").unwrap();
    for n in 0..400 {
        a.put(key(n), [7; 500]).unwrap();
    }
    db.wait_idle().unwrap();
    db.sync().unwrap();
    stage.crash(db, &mut Prng::new(1));
    let files = stage.mount().list("");
    stage.world.drop_jobs();
    for file in files.iter().filter(|file| is_log(file)) {
        file.extents.iter().for_each(|&extent| stage.disk.damage(extent));
    }
    let db = salvage(&stage).unwrap();
    assert!(!db.losses().is_empty());
    let found = db.keyspace("a").unwrap().prefix("").unwrap().count();
    assert!(found > 200, "{found} of 400");
}

/// A table that cannot be opened is damaged, and the store still refers to its file.
#[test]
fn a_check_tells_of_tables_that_are_left_out() {
    let (stage, files, _) = stage(2);
    let table = files.iter().find(|file| file.name.ends_with(".tbl")).unwrap();
    table.extents.iter().for_each(|&extent| stage.disk.damage(extent));
    let db = salvage(&stage).unwrap();
    let report = db.check().unwrap();
    let [finding] = &report.findings[..] else { panic!("{report}") };
    assert!(finding.contains(&table.name) && !finding.contains("nothing refers"), "{finding}");
}

/// A checkpoint was opened as if nothing could be damaged: if one of its tables was missing or
/// damaged, none of it could be read.
#[test]
fn a_checkpoint_is_salvaged_too() {
    let stage = seeded(60, 4);
    let db = stage.create(plain());
    overwrite_a_checkpoint(&db, 400);
    stage.crash(db, &mut Prng::new(4));
    let files = stage.mount();
    let tables = files.list("checkpoint/");
    let [gone, damaged, hurt, ..] = &tables[..] else { panic!("{} tables", tables.len()) };
    files.commit(Commit { remove: vec![gone.name.clone()], ..Commit::default() }).unwrap();
    drop(files);
    stage.world.drop_jobs();
    damaged.extents.iter().for_each(|&extent| stage.disk.damage(extent));
    stage.disk.damage(BlockRange::new(hurt.extents[0].start, Blocks::new(1)));
    let db = salvage(&stage).unwrap();
    let monday = db.open_checkpoint("monday").unwrap();
    let entries = monday.default_keyspace().prefix("").unwrap().map(Result::unwrap);
    let values: Vec<_> = entries.map(|(_, value)| value).collect();
    assert!((200..400).contains(&values.len()), "{} of 400", values.len());
    assert!(values.iter().all(|value| value[..] == [1_u8; 500]));
    for table in [gone, damaged, hurt] {
        let is_told = monday.losses().iter().any(|loss| loss.contains(&table.name));
        assert!(is_told, "{}: {:?}", table.name, monday.losses());
    }
    let findings = monday.check().unwrap().findings;
    assert!(!findings.iter().any(|text| text.contains("nothing refers")), "{findings:?}");
    assert_eq!(db.default_keyspace().prefix("").unwrap().count(), 400);
}

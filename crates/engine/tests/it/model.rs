//! Seeded operations compared with a `BTreeMap`, interleaved with background steps and reopening.

use crate::policies::policies;
use crate::stage::{Stage, key, seeded, small, small_gear, small_keyspace, with_zones};
use imbrex_clockwork::{Order, Prng, seeds};
use imbrex_engine::inspect::CompactionLine;
use imbrex_engine::{CompactionKind, Db, Options, ReadOptions, Snapshot, WriteBatch, WriteOptions};
use std::collections::BTreeMap;

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

struct Run {
    stage: Stage,
    options: Options,
    db: Option<Db>,
    map: Map,
    held: Vec<(Snapshot, Map)>,
    prng: Prng,
    key_count: u64,
    /// The numbers of the bounds of the last range delete of [`Run::delete_shaped_range`].
    range: (u64, u64),
}

impl Run {
    fn new(seed: u64) -> Run {
        Run::with(seed, small())
    }

    fn with(seed: u64, options: Options) -> Run {
        let stage = seeded(128, seed);
        let db = stage.create(options.clone());
        Run::on(stage, db, options, seed)
    }

    /// Gear compaction on zones of 512 KiB, one level each.
    fn with_gear(seed: u64) -> Run {
        let order = Order::Seeded(Prng::new(seed).derive("order"));
        let stage = with_zones(200, 128, order);
        let files = stage.format_with("zone-per-level");
        let db = Db::open(files, stage.runtime.clone(), small_gear()).unwrap();
        Run::on(stage, db, small_gear(), seed)
    }

    fn on(stage: Stage, db: Db, options: Options, seed: u64) -> Run {
        let prng = Prng::new(seed).derive("operations");
        Run {
            stage,
            options,
            db: Some(db),
            map: Map::new(),
            held: Vec::new(),
            prng,
            key_count: 50 + (seed % 3) * 1000,
            range: (10, 20),
        }
    }

    fn db(&self) -> &Db {
        self.db.as_ref().unwrap()
    }

    fn key(&mut self) -> Vec<u8> {
        key(self.prng.below(self.key_count))
    }

    fn value(&mut self) -> Vec<u8> {
        let len = match self.prng.below(50) {
            0 => self.prng.below(20_000),
            _ => self.prng.below(300),
        };
        let mut value = vec![0; len as usize];
        self.prng.fill(&mut value);
        value
    }

    fn step(&mut self) {
        match self.prng.below(100) {
            0..=44 => {
                let (key, value) = (self.key(), self.value());
                self.db().default_keyspace().put(&key, &value).unwrap();
                self.map.insert(key, value);
            }
            45..=59 => {
                let key = self.key();
                self.db().default_keyspace().delete(&key).unwrap();
                self.map.remove(&key);
            }
            60..=62 => self.delete_range(),
            63..=69 => self.batch(),
            70..=84 => {
                let key = self.key();
                let got = self.db().default_keyspace().get(&key).unwrap();
                assert_eq!(got.as_deref(), self.map.get(&key).map(Vec::as_slice), "{key:?}");
            }
            85..=89 => self.scan(),
            90..=91 => self.snapshot(),
            92..=94 => self.read_snapshot(),
            95 => self.db().flush().unwrap(),
            96 => self.db().wait_idle().unwrap(),
            97 => {
                let (a, b) = (self.key(), self.key());
                let ks = self.db().default_keyspace();
                ks.compact_range(Some(a.as_slice().min(&b)), Some(a.as_slice().max(&b))).unwrap();
            }
            98 if self.prng.chance(1, 4) => self.reopen(),
            _ => self.db().sync().unwrap(),
        }
    }

    fn delete_range(&mut self) {
        let from = self.prng.below(self.key_count);
        let to = from + self.prng.below(self.key_count / 8 + 2);
        self.delete_between(key(from), key(to));
    }

    fn delete_between(&mut self, from: Vec<u8>, to: Vec<u8>) {
        self.db().default_keyspace().delete_range(&from..&to).unwrap();
        let gone: Vec<_> = self.map.range(from..to).map(|(k, _)| k.clone()).collect();
        gone.iter().for_each(|key| _ = self.map.remove(key));
    }

    /// A step of a run that mostly deletes ranges.
    fn step_of_ranges(&mut self) {
        match self.prng.below(20) {
            0..=4 => self.batch(),
            5 => self.scan(),
            6 => self.snapshot(),
            7 => self.scan_snapshot_backward(),
            8..=9 => self.step(),
            _ => self.delete_shaped_range(),
        }
    }

    /// Deletes a range next to, around, across or equal to the last one, an empty one, or one between
    /// bounds of 64 KiB.
    fn delete_shaped_range(&mut self) {
        let (from, to) = self.range;
        let at = self.prng.below(self.key_count);
        self.range = match self.prng.below(8) {
            0 => (to, to + 2),
            1 => (from.saturating_sub(2), from),
            2 => (from.saturating_sub(1), to + 1),
            3 => (from, to),
            4 => (at, at),
            5 => (from + (to - from) / 2, to + 3),
            _ => (at, at + 1 + self.prng.below(5)),
        };
        let (mut from, mut to) = (key(self.range.0), key(self.range.1));
        if from < to && self.prng.chance(1, 40) {
            from.resize(65_536, 0);
            to.resize(65_536, b'~');
        }
        self.delete_between(from, to);
    }

    fn scan_snapshot_backward(&self) {
        for (snapshot, map) in &self.held {
            let options = ReadOptions { snapshot: Some(snapshot), ..ReadOptions::default() };
            let mut iter = self.db().default_keyspace().iter(options).unwrap();
            iter.seek_to_last().unwrap();
            for (key, value) in map.iter().rev() {
                assert_eq!((iter.key(), iter.value()), (&key[..], &value[..]));
                iter.prev().unwrap();
            }
            assert!(!iter.valid());
        }
    }

    fn batch(&mut self) {
        let mut batch = WriteBatch::new();
        let ks = self.db().default_keyspace();
        for _ in 0..=self.prng.below(20) {
            let key = self.key();
            if self.prng.chance(2, 3) {
                let value = self.value();
                batch.put(&ks, &key, &value).unwrap();
                self.map.insert(key, value);
            } else {
                batch.delete(&ks, &key).unwrap();
                self.map.remove(&key);
            }
        }
        let sync = self.prng.chance(1, 4);
        self.db().write(batch, WriteOptions { sync }).unwrap();
    }

    fn scan(&mut self) {
        let (a, b) = (self.key(), self.key());
        let (from, to) = if a <= b { (a, b) } else { (b, a) };
        let ks = self.db().default_keyspace();
        let expected: Vec<_> = self.map.range(from.clone()..to.clone()).collect();
        let entries = ks.range(from..to).unwrap();
        let mut got: Vec<_> = if self.prng.chance(1, 2) {
            let mut got: Vec<_> = entries.rev().map(Result::unwrap).collect();
            got.reverse();
            got
        } else {
            entries.map(Result::unwrap).collect()
        };
        assert_eq!(got.len(), expected.len());
        for ((key, value), (want_key, want_value)) in got.drain(..).zip(expected) {
            assert_eq!((&key[..], &value[..]), (&want_key[..], &want_value[..]));
        }
    }

    fn snapshot(&mut self) {
        if self.held.len() < 4 {
            let snapshot = self.db().snapshot();
            self.held.push((snapshot, self.map.clone()));
        } else {
            let at = self.prng.below(4) as usize;
            self.held.swap_remove(at);
        }
    }

    fn read_snapshot(&mut self) {
        if self.held.is_empty() {
            return;
        }
        let at = self.prng.below(self.held.len() as u64) as usize;
        let key = self.key();
        let (snapshot, map) = &self.held[at];
        let ks = self.db().default_keyspace();
        let got = ks.get_at(snapshot, &key).unwrap();
        assert_eq!(got.as_deref(), map.get(&key).map(Vec::as_slice), "{key:?} at a snapshot");
        let options = ReadOptions { snapshot: Some(snapshot), ..ReadOptions::default() };
        let mut iter = ks.iter(options).unwrap();
        iter.seek(&key).unwrap();
        let mut expected = map.range(key..);
        for _ in 0..20 {
            let want = expected.next();
            assert_eq!(iter.valid(), want.is_some());
            let Some((want_key, want_value)) = want else { break };
            assert_eq!((iter.key(), iter.value()), (&want_key[..], &want_value[..]));
            iter.next().unwrap();
        }
    }

    fn reopen(&mut self) {
        self.held.clear();
        self.db.take().unwrap().close().unwrap();
        self.stage.world.drop_jobs();
        self.db = Some(self.stage.reopen(self.options.clone()).unwrap());
        self.compare();
    }

    fn compare(&self) {
        let ks = self.db().default_keyspace();
        let got: Map = ks
            .range::<&[u8]>(..)
            .unwrap()
            .map(|entry| entry.map(|(key, value)| (key.to_vec(), value.to_vec())).unwrap())
            .collect();
        assert!(got == self.map, "{} entries, expected {}", got.len(), self.map.len());
    }
}

#[test]
fn a_store_is_a_map() {
    for seed in seeds(12) {
        let mut run = Run::new(seed);
        for step in 0..1500 {
            run.step();
            if step % 300 == 299 {
                run.compare();
            }
        }
        let report = run.db().check().unwrap();
        assert!(report.is_sound(), "seed {seed}: {report}");
    }
}

/// Hundreds of range tombstones of every shape, in memory, in tables of several levels, and in merges.
#[test]
fn a_store_of_range_deletes_is_a_map() {
    for seed in seeds(8) {
        let mut run = Run::new(seed);
        run.key_count = 300 + (seed % 3) * 700;
        for step in 0..1500 {
            run.step_of_ranges();
            if step % 100 == 99 {
                run.compare();
            }
        }
        run.scan_snapshot_backward();
        run.db().default_keyspace().compact_range(None, None).unwrap();
        run.compare();
        run.scan_snapshot_backward();
        let report = run.db().check().unwrap();
        assert!(report.is_sound(), "seed {seed}: {report}");
    }
}

/// Gear compaction on zones of one level. Every seed fills about five levels, so that windows below
/// the second matter. The check after every few steps includes the order of levels (V2).
#[test]
fn a_store_in_gear_is_a_map() {
    let mut turn_count = 0;
    for seed in 0..8 {
        let mut run = Run::with_gear(seed);
        run.key_count = 500 + (seed % 4) * 1500;
        for step in 0..1200 {
            // More writes between the rare commands, so that levels fill.
            if run.prng.chance(2, 3) {
                run.batch();
            } else {
                run.step();
            }
            if step % 100 == 99 {
                run.compare();
                let report = run.db().check().unwrap();
                assert!(report.is_sound(), "seed {seed}, step {step}: {report}");
            }
        }
        let several_levels = |line: &&CompactionLine| {
            let mut levels = line.outputs.iter().map(|output| output.level);
            let first = levels.next();
            levels.any(|level| Some(level) != first)
        };
        turn_count += run.db().metrics().compactions.iter().filter(several_levels).count();
    }
    assert!(turn_count > 450, "only {turn_count} turns wrote to several levels");
}

/// The same seed gives the same run: trace of the scheduler, image of the drive, metrics.
#[test]
fn the_same_seed_is_the_same_run() {
    let outcome = |seed: u64| {
        let mut run = Run::new(seed);
        (0..1000).for_each(|_| run.step());
        run.db().create_keyspace("other", small_keyspace()).unwrap();
        let image = run.stage.disk.image_hash().unwrap();
        let mut metrics = run.db().metrics();
        // The cache counts of a shared process are the run's own, and must agree as well.
        metrics.compactions.truncate(5);
        (run.stage.world.trace_hash(), image, metrics, run.prng.next_u64())
    };
    assert_eq!(outcome(5), outcome(5));
    assert_ne!(outcome(5).1, outcome(6).1);
}

/// With the papers' policies; the order of all tables is checked on the way.
#[test]
fn a_store_is_a_map_under_every_policy() {
    for (name, options) in policies() {
        for seed in seeds(6) {
            let mut run = Run::with(seed, options.clone());
            for step in 0..1200 {
                run.step();
                if step % 40 == 39 {
                    let report = run.db().check().unwrap();
                    assert!(report.is_sound(), "{name}, seed {seed}, step {step}: {report}");
                }
                if step % 300 == 299 {
                    run.compare();
                }
            }
            run.db().default_keyspace().compact_range(None, None).unwrap();
            run.compare();
            let report = run.db().check().unwrap();
            assert!(report.is_sound(), "{name}, seed {seed}: {report}");
            if options.keyspace.compaction == CompactionKind::Smrdb {
                let levels = &run.db().metrics().keyspaces[0].levels;
                let runs: Vec<_> = levels.iter().map(|l| (l.level, l.run_count)).collect();
                assert!(runs.iter().all(|run| *run == (1, 1)), "seed {seed}: {runs:?}");
            }
            run.reopen();
        }
    }
}

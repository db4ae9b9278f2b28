//! Cursors whose runs read together, against cursors whose runs read one by one.

use super::model::{Run, random_entries, random_options, random_read_options};
use super::reads::NotingFile;
use super::*;
use crate::iter::IterBounds;
use crate::losses::Losses;
use crate::read::{Iter, IterSources};
use bytes::Bytes;
use std::cmp::Reverse;

/// A source that never waits for a batch.
struct Alone<I>(I);

impl<I: InternalIter> InternalIter for Alone<I> {
    fn seek_to_first(&mut self) -> Result<(), EngineError> {
        self.0.seek_to_first()
    }
    fn seek_to_last(&mut self) -> Result<(), EngineError> {
        self.0.seek_to_last()
    }
    fn seek(&mut self, target: InternalKey<'_>) -> Result<(), EngineError> {
        self.0.seek(target)
    }
    fn seek_before(&mut self, target: InternalKey<'_>) -> Result<(), EngineError> {
        self.0.seek_before(target)
    }
    fn next(&mut self) -> Result<(), EngineError> {
        self.0.next()
    }
    fn prev(&mut self) -> Result<(), EngineError> {
        self.0.prev()
    }
    fn valid(&self) -> bool {
        self.0.valid()
    }
    fn key(&self) -> InternalKey<'_> {
        self.0.key()
    }
    fn value(&self) -> &[u8] {
        self.0.value()
    }
}

/// Entries in several runs of several tables.
struct World {
    files: Vec<Arc<NotingFile>>,
    runs: Vec<Run>,
    keys: Vec<Vec<u8>>,
}

impl World {
    fn new(prng: &mut Prng) -> World {
        let entries = random_entries(prng, 400);
        let keys = entries.keys().map(|(key, _)| key.clone()).collect();
        let mut parts = vec![Entries::new(); 1 + prng.below(5) as usize];
        for (key, entry) in entries {
            let run = prng.below(parts.len() as u64) as usize;
            parts[run].insert(key, entry);
        }
        let cache = Arc::new(BlockCache::new([0, 8 << 10, 4 << 20][prng.below(3) as usize]));
        let (mut files, mut runs) = (Vec::new(), Vec::new());
        for mut rest in parts {
            let mut tables = Vec::new();
            while !rest.is_empty() {
                let cut = rest.keys().nth(1 + prng.below(100) as usize).cloned();
                let later = cut.map_or_else(Entries::new, |cut| rest.split_off(&cut));
                let (bytes, properties) = build(&rest, &random_options(prng));
                let file = NotingFile::new(bytes);
                let table = Table::open(Arc::clone(&file) as Arc<_>, Arc::clone(&cache)).unwrap();
                files.push(file);
                tables.push((properties.largest_user_key, table, None));
                rest = later;
            }
            runs.push(Run(tables));
        }
        World { files, runs, keys }
    }

    fn iter<I: InternalIter + 'static>(
        &self,
        bounds: &IterBounds,
        losses: Option<&Arc<Losses>>,
        source: impl Fn(&Run) -> I,
    ) -> Iter {
        let entries = self.runs.iter().map(|run| Box::new(source(run)) as Box<_>).collect();
        let (losses, tombstones) = (losses.cloned(), Vec::new());
        let sources = IterSources { entries, read_apart: None, tombstones, losses, pin: None };
        Iter::new(sources, Seq(1 << 40), bounds.clone())
    }

    fn any_key(&self, prng: &mut Prng) -> Vec<u8> {
        let mut key = self.keys[prng.below(self.keys.len() as u64) as usize].clone();
        if prng.chance(1, 3) {
            key.push(0);
        }
        key
    }
}

/// Makes the same move on both and compares where they stand and what failed.
fn move_both(iters: [&mut Iter; 2], key: &[u8], prng: &mut Prng) -> String {
    let number = prng.below(12);
    let [a, b] = iters.map(|iter| {
        let moved = match number {
            0 => iter.seek_to_first(),
            1 => iter.seek_to_last(),
            2..5 => iter.seek(key),
            5..7 => iter.seek_for_prev(key),
            7..10 => iter.next(),
            _ => iter.prev(),
        };
        let outcome = moved.map_or_else(|error| error.to_string(), |()| "moved".to_owned());
        (outcome, iter.key().to_vec(), iter.value().to_vec())
    });
    assert_eq!(a, b, "move {number}");
    a.0
}

#[test]
fn runs_that_read_together_find_the_same_within_bounds() {
    for seed in 0..60 {
        let mut prng = Prng::new(seed).derive("first reads");
        let world = World::new(&mut prng);
        let bound = |prng: &mut Prng| prng.chance(1, 2).then(|| Bytes::from(world.any_key(prng)));
        let bounds = IterBounds { lower: bound(&mut prng), upper: bound(&mut prng) };
        let read = random_read_options(&mut prng);
        let mut together = world
            .iter(&bounds, None, |run| LevelIter::new(run.clone(), read.clone()).within(&bounds));
        let mut alone =
            world.iter(&bounds, None, |run| Alone(LevelIter::new(run.clone(), read.clone())));
        for _ in 0..300 {
            let key = world.any_key(&mut prng);
            move_both([&mut together, &mut alone], &key, &mut prng);
        }
    }
}

#[test]
fn damage_is_reported_as_without_batches() {
    let mut error_count = 0;
    for seed in 0..80 {
        let mut prng = Prng::new(seed).derive("damaged first reads");
        let world = World::new(&mut prng);
        let file = &world.files[prng.below(world.files.len() as u64) as usize];
        let start = prng.below(file.len_bytes());
        *file.bad.lock().unwrap() = start..start + 1 + prng.below(300);
        let both = [Arc::<Losses>::default(), Arc::default()];
        let passes = prng.chance(1, 3);
        let read = random_read_options(&mut prng);
        let losses = |at: usize| passes.then_some(&both[at]);
        let read = |at: usize| match losses(at) {
            Some(losses) => read.clone().passing(losses),
            None => read.clone(),
        };
        let bounds = IterBounds::default();
        let mut together =
            world.iter(&bounds, losses(0), |run| LevelIter::new(run.clone(), read(0)));
        let mut alone =
            world.iter(&bounds, losses(1), |run| Alone(LevelIter::new(run.clone(), read(1))));
        for _ in 0..200 {
            let key = world.any_key(&mut prng);
            let outcome = move_both([&mut together, &mut alone], &key, &mut prng);
            error_count += usize::from(outcome != "moved");
        }
        assert_eq!(both[0].sentences(), both[1].sentences());
    }
    assert!(error_count > 100, "{error_count} moves failed");
}

/// A run of three tables with the keys a000 to a099, c000 to c099 and e000 to e099.
fn three_tables() -> (Vec<Arc<NotingFile>>, Run) {
    let cache = Arc::new(BlockCache::new(0));
    let (mut files, mut tables) = (Vec::new(), Vec::new());
    for letter in ["a", "c", "e"] {
        let entry =
            |n| ((format!("{letter}{n:03}").into_bytes(), Reverse(1)), (Kind::Put, vec![n; 100]));
        let entries: Entries = (0..100).map(entry).collect();
        let (bytes, properties) = build(&entries, &TableOptions::default());
        let file = NotingFile::new(bytes);
        let table = Table::open(Arc::clone(&file) as Arc<_>, Arc::clone(&cache)).unwrap();
        file.take_reads();
        files.push(file);
        tables.push((properties.largest_user_key, table, None));
    }
    (files, Run(tables))
}

#[test]
fn a_table_outside_the_bounds_is_not_read() {
    let check = |lower: &'static str, upper: &'static str, expected: [bool; 3]| {
        let (files, run) = three_tables();
        let bounds = IterBounds { lower: Some(lower.into()), upper: Some(upper.into()) };
        let read = TableReadOptions::default();
        let source = LevelIter::new(run, read).within(&bounds);
        let (entries, tombstones) = (vec![Box::new(source) as Box<_>], Vec::new());
        let sources =
            IterSources { entries, read_apart: None, tombstones, losses: None, pin: None };
        let mut iter = Iter::new(sources, Seq(9), bounds);
        iter.seek_to_first().unwrap();
        while iter.valid() {
            iter.next().unwrap();
        }
        iter.seek_to_last().unwrap();
        while iter.valid() {
            iter.prev().unwrap();
        }
        let is_read: Vec<bool> = files.iter().map(|file| !file.take_reads().is_empty()).collect();
        assert_eq!(is_read, expected, "{lower} to {upper}");
    };
    check("b", "bz", [false; 3]);
    check("f", "g", [false; 3]);
    check("a", "c000", [true, false, false]);
    check("a0999", "d", [false, true, false]);
    check("b", "z", [false, true, true]);
}

/// Backward, a run used to read the table after the key as well.
#[test]
fn a_seek_backward_reads_no_table_that_begins_after_its_key() {
    let (files, run) = three_tables();
    let mut iter = LevelIter::new(run, TableReadOptions::default());
    iter.seek_before(InternalKey::new(b"d", Trailer(0))).unwrap();
    assert_eq!(iter.key().user_key, b"c099");
    let is_read: Vec<bool> = files.iter().map(|file| !file.take_reads().is_empty()).collect();
    assert_eq!(is_read, [false, true, false]);
}

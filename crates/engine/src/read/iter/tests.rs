use super::*;
use crate::memtable::Memtable;
use crate::merge::tests::{ListIter, sticky_key};
use crate::range_del::tests::steps;
use crate::range_del::{FragmentedTombstones, RangeTombstone, TombstoneLane};
use crate::read::{Entries, prefix_end};
use bytes::Bytes;
use imbrex_clockwork::Prng;
use std::collections::BTreeMap;
use std::ops::Bound;

type Live = BTreeMap<Vec<u8>, Vec<u8>>;
type Listed = (Vec<u8>, Trailer, Vec<u8>);

/// Writes spread over memtables and over lists that stand for tables, with the expected state after
/// each write.
struct World {
    memtables: Vec<Arc<Memtable>>,
    lists: Vec<(Vec<Listed>, Vec<RangeTombstone>)>,
    /// The live keys after write i.
    states: Vec<Live>,
}

impl World {
    fn new(prng: &mut Prng, write_count: u64) -> World {
        let mut world =
            World { memtables: Vec::new(), lists: Vec::new(), states: vec![Live::new()] };
        let mut live = Live::new();
        for seq in 1..=write_count {
            let key = sticky_key(prng);
            let value = seq.to_le_bytes().to_vec();
            match prng.below(12) {
                0 => {
                    let end = sticky_key(prng);
                    if key < end {
                        live.retain(|k, _| !(key <= *k && *k < end));
                    }
                    world.write(prng, &key, Seq(seq), Kind::RangeDelete, &end);
                }
                1..4 => {
                    live.remove(&key);
                    world.write(prng, &key, Seq(seq), Kind::Delete, &[]);
                }
                _ => {
                    live.insert(key.clone(), value.clone());
                    world.write(prng, &key, Seq(seq), Kind::Put, &value);
                }
            }
            world.states.push(live.clone());
        }
        world
    }

    /// Adds an entry to the newest memtable or list, or to a new one.
    fn write(&mut self, prng: &mut Prng, key: &[u8], seq: Seq, kind: Kind, value: &[u8]) {
        if self.memtables.is_empty() || prng.chance(1, 60) {
            self.memtables.push(Arc::new(Memtable::new(0)));
        }
        if self.lists.is_empty() || prng.chance(1, 60) {
            self.lists.push(Default::default());
        }
        let memtable = self.memtables.last().unwrap();
        let list = self.lists.last_mut().unwrap();
        match (prng.chance(1, 2), kind) {
            (true, Kind::RangeDelete) => memtable.insert_range_tombstone(key, value, seq),
            (false, Kind::RangeDelete) => list.1.push(RangeTombstone::new(key, value, seq)),
            (true, _) => memtable.insert(key, Trailer::new(seq, kind), value),
            (false, _) => list.0.push((key.to_vec(), Trailer::new(seq, kind), value.to_vec())),
        }
    }

    fn iter(&self, snapshot: usize, bounds: IterBounds) -> Iter {
        let mut sources = IterSources {
            entries: Vec::new(),
            read_apart: None,
            tombstones: Vec::new(),
            losses: None,
            pin: Some(Box::new(())),
        };
        for memtable in &self.memtables {
            sources.entries.push(Box::new(memtable.iter()));
            let views = memtable.tombstone_views(Seq(snapshot as u64));
            sources.tombstones.extend(views.into_iter().map(TombstoneView::Memtable));
        }
        let mut tables = Vec::new();
        for (entries, tombstones) in &self.lists {
            sources.entries.push(Box::new(ListIter::new(entries.clone())));
            tables.push(Arc::new(FragmentedTombstones::new(tombstones)));
        }
        let lanes = TombstoneLane::divide(tables);
        sources.tombstones.extend(lanes.into_iter().map(TombstoneView::Tables));
        Iter::new(sources, Seq(snapshot as u64), bounds)
    }
}

fn random_bounds(prng: &mut Prng) -> IterBounds {
    let mut bound = || prng.chance(1, 3).then(|| Bytes::from(sticky_key(prng)));
    IterBounds { lower: bound(), upper: bound() }
}

fn within(live: &Live, bounds: &IterBounds) -> Live {
    let is_within = |key: &[u8]| {
        bounds.lower.as_ref().is_none_or(|lower| key >= lower)
            && bounds.upper.as_ref().is_none_or(|upper| key < upper)
    };
    live.iter().filter(|(k, _)| is_within(k)).map(|(k, v)| (k.clone(), v.clone())).collect()
}

#[test]
fn a_cursor_walks_as_the_map_of_its_moment() {
    for seed in 0..80 {
        let mut prng = Prng::new(seed);
        let count = prng.below(500);
        let world = World::new(&mut prng, count);
        for memtable in &world.memtables {
            if prng.chance(1, 2) {
                memtable.freeze();
            }
        }
        for _ in 0..4 {
            let snapshot = prng.below(world.states.len() as u64) as usize;
            let bounds = random_bounds(&mut prng);
            let live = within(&world.states[snapshot], &bounds);
            let mut iter = world.iter(snapshot, bounds);
            walk(&mut iter, &live, &mut prng);
        }
    }
}

fn walk(iter: &mut Iter, live: &Live, prng: &mut Prng) {
    let mut at: Option<(&Vec<u8>, &Vec<u8>)> = None;
    for number in 0..300 {
        let key = sticky_key(prng);
        let after = |key: &Vec<u8>| {
            live.range::<Vec<u8>, _>((Bound::Excluded(key), Bound::Unbounded)).next()
        };
        match prng.below(14) {
            0 => (iter.seek_to_first().unwrap(), at = live.first_key_value()),
            1 => (iter.seek_to_last().unwrap(), at = live.last_key_value()),
            2 => (iter.seek(&key).unwrap(), at = live.range(key..).next()),
            3 => (iter.seek_for_prev(&key).unwrap(), at = live.range(..=key).next_back()),
            4..9 => (iter.next().unwrap(), at = at.and_then(|(key, _)| after(key))),
            _ => {
                let before = at.and_then(|(key, _)| live.range::<Vec<u8>, _>(..key).next_back());
                (iter.prev().unwrap(), at = before)
            }
        };
        assert_eq!(iter.valid(), at.is_some(), "move {number}");
        let (key, value) = at.map_or((&[][..], &[][..]), |(k, v)| (k, v));
        assert_eq!((iter.key(), iter.value()), (key, value), "move {number}");
    }
}

#[test]
fn a_range_is_given_out_from_both_ends_once() {
    for seed in 0..40 {
        let mut prng = Prng::new(seed);
        let world = World::new(&mut prng, 300);
        let snapshot = prng.below(301) as usize;
        let bounds = random_bounds(&mut prng);
        let live = within(&world.states[snapshot], &bounds);
        let mut model = live.into_iter();
        let mut entries = Entries::from(world.iter(snapshot, bounds));
        loop {
            let is_front = prng.chance(1, 2);
            let (got, expected) = if is_front {
                (entries.next(), model.next())
            } else {
                (entries.next_back(), model.next_back())
            };
            let got = got.map(|item| item.unwrap()).map(|(k, v)| (k.to_vec(), v.to_vec()));
            assert_eq!(got, expected);
            if expected.is_none() {
                break;
            }
        }
        assert!(entries.next().is_none());
    }
}

#[test]
fn many_versions_of_a_key_are_passed_over() {
    let memtable = Arc::new(Memtable::new(0));
    for seq in 1..=1000 {
        let key = if seq == 500 { b"b" } else { b"a" };
        memtable.insert(key, Trailer::new(Seq(seq), Kind::Put), &seq.to_le_bytes());
    }
    memtable.insert(b"c", Trailer::new(Seq(1001), Kind::Put), b"");
    for snapshot in [1, 499, 600, 1000] {
        let entries: Vec<Box<dyn InternalIter>> = vec![Box::new(memtable.iter())];
        let sources = IterSources {
            entries,
            read_apart: None,
            tombstones: Vec::new(),
            losses: None,
            pin: None,
        };
        let mut iter = Iter::new(sources, Seq(snapshot), IterBounds::default());
        iter.seek_to_first().unwrap();
        assert_eq!(iter.value(), snapshot.to_le_bytes());
        iter.next().unwrap();
        assert_eq!(iter.key(), if snapshot < 500 { &b""[..] } else { b"b" });
        iter.seek_for_prev(b"a").unwrap();
        assert_eq!(iter.value(), snapshot.to_le_bytes());
    }
}

#[test]
fn a_failed_move_leaves_the_cursor_nowhere() {
    let entry = |i: u8| (vec![i], Trailer::new(Seq(1), Kind::Put), vec![i]);
    for fails_after in 0..20 {
        let mut list = ListIter::new((0..10).map(entry).collect());
        list.fails_after = Some(fails_after);
        let sources = IterSources {
            entries: vec![Box::new(list)],
            read_apart: None,
            tombstones: Vec::new(),
            losses: None,
            pin: None,
        };
        let mut iter = Iter::new(sources, Seq(5), IterBounds::default());
        let mut moves = 0;
        let failed = loop {
            let moved = match moves {
                0 => iter.seek_to_first(),
                1..10 => iter.next(),
                10 => iter.seek_to_last(),
                _ => iter.prev(),
            };
            if let Err(error) = moved {
                break error;
            }
            moves += 1;
            assert!(moves < 40, "nothing failed");
        };
        assert!(matches!(failed, EngineError::BatchLen { .. }));
        assert!(!iter.valid());
        assert_eq!((iter.key(), iter.value()), (&[][..], &[][..]));
    }
}

/// Backward, the versions of a key come oldest first. A damaged value of an overwritten version
/// used to fail the move, or to be reported as lost if damage is skipped.
#[test]
fn only_the_newest_value_of_a_key_is_missed() {
    let entry =
        |key: u8, seq: u64, kind| (vec![key], Trailer::new(Seq(seq), kind), vec![seq as u8]);
    let writes = [(b'a', 1), (b'b', 2), (b'b', 4), (b'c', 3), (b'd', 5)];
    let values = |damaged: u64, losses: Option<Arc<Losses>>| -> Result<Vec<u8>, EngineError> {
        let mut entries: Vec<_> =
            writes.iter().map(|&(key, seq)| entry(key, seq, Kind::Put)).collect();
        entries.push(entry(b'd', 6, Kind::Delete));
        let mut list = ListIter::new(entries);
        list.damaged = Some(Seq(damaged));
        let entries: Vec<Box<dyn InternalIter>> = vec![Box::new(list)];
        let sources =
            IterSources { entries, read_apart: None, tombstones: Vec::new(), losses, pin: None };
        let mut iter = Iter::new(sources, Seq(9), IterBounds::default());
        let mut values = Vec::new();
        iter.seek_to_last()?;
        while iter.valid() {
            values.push(iter.value()[0]);
            iter.prev()?;
        }
        Ok(values)
    };
    for overwritten in [2, 5] {
        let losses = Arc::<Losses>::default();
        assert_eq!(values(overwritten, None).unwrap(), [3, 4, 1]);
        assert_eq!(values(overwritten, Some(Arc::clone(&losses))).unwrap(), [3, 4, 1]);
        assert!(losses.sentences().is_empty(), "{:?}", losses.sentences());
    }
    for (newest, others) in [(1, [3_u8, 4]), (3, [4, 1]), (4, [3, 1])] {
        let losses = Arc::<Losses>::default();
        assert!(values(newest, None).unwrap_err().is_damage());
        assert_eq!(values(newest, Some(Arc::clone(&losses))).unwrap(), others);
        assert_eq!(losses.sentences().len(), 1, "{:?}", losses.sentences());
    }
}

#[test]
fn the_end_of_a_prefix_is_the_next_prefix() {
    let check = |prefix: &[u8], end: Option<&[u8]>| {
        assert_eq!(prefix_end(prefix).as_deref(), end);
    };
    check(b"", None);
    check(b"ab", Some(b"ac"));
    check(b"a\xff\xff", Some(b"b"));
    check(b"\xff\xff", None);
}

/// A seek past 16,000 range deletes searched 125 pieces at each key: 1.1 s in all.
#[test]
fn a_scan_over_many_range_deletes_takes_few_steps_per_key() {
    let key = |n: u64| format!("k{n:08}");
    let memtable = Arc::new(Memtable::new(0));
    let mut tombstones = Vec::new();
    for n in 0..16_000 {
        memtable.insert(key(2 * n).as_bytes(), Trailer::new(Seq(n + 1), Kind::Put), b"v");
        let (start, end) = (key(2 * n), key(2 * n + 1));
        let seq = Seq(20_000 + n);
        memtable.insert_range_tombstone(start.as_bytes(), end.as_bytes(), seq);
        tombstones.push(RangeTombstone::new(start.as_bytes(), end.as_bytes(), seq));
    }
    for edge in ["a", "z"] {
        memtable.insert(edge.as_bytes(), Trailer::new(Seq(19_000), Kind::Put), b"edge");
    }
    let memory = memtable.tombstone_views(Seq::MAX);
    let memory: Vec<_> = memory.into_iter().map(TombstoneView::Memtable).collect();
    let parts = tombstones.chunks(100).map(|part| Arc::new(FragmentedTombstones::new(part)));
    let lanes = TombstoneLane::divide(parts);
    let tables: Vec<_> = lanes.into_iter().map(TombstoneView::Tables).collect();
    for tombstones in [memory, tables] {
        let entries: Vec<Box<dyn InternalIter>> = vec![Box::new(memtable.iter())];
        let sources =
            IterSources { entries, read_apart: None, tombstones, losses: None, pin: None };
        let mut iter = Iter::new(sources, Seq::MAX, IterBounds::default());
        let cost = steps(|| {
            iter.seek("b").unwrap();
            assert_eq!(iter.key(), b"z");
            iter.prev().unwrap();
            assert_eq!(iter.key(), b"a");
        });
        assert!(cost <= 2 * 16_000 * 40, "{cost} steps");
    }
}

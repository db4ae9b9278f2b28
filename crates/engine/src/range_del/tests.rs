//! Fragments, histories, lanes and the tombstones of a memtable, each against a list of all of them.

use super::*;
use imbrex_clockwork::Prng;
use std::cell::Cell;
use std::sync::Arc;

thread_local! {
    /// Comparisons of keys, and lists of numbers, that look-ups on this thread cost so far.
    pub(crate) static STEP_COUNT: Cell<u64> = const { Cell::new(0) };
}

/// The steps that `look` costs.
pub(crate) fn steps(look: impl FnOnce()) -> u64 {
    let before = STEP_COUNT.get();
    look();
    STEP_COUNT.get() - before
}

fn tombstone(text: &str) -> RangeTombstone {
    let (range, seq) = text.split_once('#').unwrap();
    let (start, end) = range.split_once('-').unwrap();
    RangeTombstone::new(start.as_bytes(), end.as_bytes(), Seq(seq.parse().unwrap()))
}

/// `a-m#9` is a tombstone, `a-c#9,4` a fragment.
fn picture(fragmented: &FragmentedTombstones) -> String {
    let lines = fragmented.fragments().map(|f| {
        let seqs: Vec<String> = f.seqs.iter().map(|s| s.0.to_string()).collect();
        format!("{}-{}#{}", f.start.escape_ascii(), f.end.escape_ascii(), seqs.join(","))
    });
    lines.collect::<Vec<_>>().join(" ")
}

fn check(written: &str, expected: &str) -> FragmentedTombstones {
    let written: Vec<_> = written.split_whitespace().map(tombstone).collect();
    let fragmented = FragmentedTombstones::new(&written);
    assert_eq!(picture(&fragmented), expected);
    fragmented
}

#[test]
fn tombstones_are_cut_where_others_begin_and_end() {
    assert_eq!(check("", "").len_bytes(), 0);
    check("a-m#9 c-t#4", "a-c#9 c-m#9,4 m-t#4");
    check("a-z#1 c-e#3 g-i#2", "a-c#1 c-e#3,1 e-g#1 g-i#2,1 i-z#1");
    check("a-c#5 e-g#5", "a-c#5 e-g#5");
    check("m-m#5 z-a#6", "");
}

#[test]
fn pieces_of_one_tombstone_become_one_again() {
    check("a-c#5 c-e#5", "a-e#5");
    check("a-d#5 c-f#5", "a-f#5");
    check("a-d#5 a-d#5 b-c#5", "a-d#5");
}

#[test]
fn the_newest_tombstone_a_reader_sees_covers() {
    let fragmented = check("a-m#9 c-t#4", "a-c#9 c-m#9,4 m-t#4");
    let ask = |key: &str, snapshot| {
        fragmented.max_seq_covering(key.as_bytes(), Seq(snapshot)).map(|seq| seq.0)
    };
    assert_eq!(ask("a", 9), Some(9));
    assert_eq!(ask("a", 8), None);
    assert_eq!(ask("d", 8), Some(4));
    assert_eq!(ask("d", 3), None);
    assert_eq!(ask("m", 100), Some(4));
    assert_eq!(ask("t", 100), None);
    assert_eq!(ask("A", 100), None);
}

#[test]
fn truncation_keeps_what_lies_between_the_bounds() {
    let fragmented = check("a-m#9 c-t#4", "a-c#9 c-m#9,4 m-t#4");
    let cut = |lower: Option<&str>, upper: Option<&str>| {
        picture(&fragmented.truncate(lower.map(str::as_bytes), upper.map(str::as_bytes)))
    };
    assert_eq!(cut(None, None), "a-c#9 c-m#9,4 m-t#4");
    assert_eq!(cut(Some("b"), Some("n")), "b-c#9 c-m#9,4 m-n#4");
    assert_eq!(cut(Some("d"), Some("e")), "d-e#9,4");
    assert_eq!(cut(Some("t"), None), "");
    assert_eq!(cut(None, Some("a")), "");
    assert!(fragmented.truncate(Some(b"d"), None).len_bytes() < fragmented.len_bytes());
}

#[test]
fn only_numbers_that_a_snapshot_can_tell_apart_are_kept() {
    let written: Vec<_> = ["a-z#2", "a-z#5", "a-z#7", "a-m#9"].map(tombstone).into();
    let kept = |snapshots: &[u64]| {
        let snapshots: Vec<Seq> = snapshots.iter().map(|&s| Seq(s)).collect();
        picture(&FragmentedTombstones::for_snapshots(&written, &snapshots))
    };
    assert_eq!(kept(&[]), "a-m#9 m-z#7");
    assert_eq!(kept(&[6]), "a-m#9,5 m-z#7,5");
    assert_eq!(kept(&[1, 3, 6, 7, 8]), "a-m#9,7,5,2 m-z#7,5,2");
}

fn random_key(prng: &mut Prng) -> Vec<u8> {
    (0..1 + prng.below(2)).map(|_| b'a' + prng.below(6) as u8).collect()
}

/// Short keys, with long ones between them that differ only at their end.
fn any_key(prng: &mut Prng) -> Vec<u8> {
    let mut key = random_key(prng);
    if prng.chance(1, 8) {
        let end = std::mem::take(&mut key);
        key.resize(65_536 - end.len(), b'c');
        key.extend(end);
    }
    key
}

/// The next range of a sequence of one shape.
fn range(shape: u64, at: u64, prng: &mut Prng) -> (Vec<u8>, Vec<u8>) {
    let number = |n: u64| format!("k{n:05}").into_bytes();
    match shape {
        0 => (random_key(prng), random_key(prng)),
        1 => (any_key(prng), any_key(prng)),
        // Nested: each covers the one before.
        2 => (number(500 - at), number(500 + at)),
        // A queue that deletes its own head.
        3 => (number(0), number(at)),
        // Adjacent, forwards and backwards.
        4 => (number(at), number(at + 1)),
        5 => (number(500 - at), number(501 - at)),
        6 => (number(7), number(9)),
        // Each overlaps the one before; some are empty.
        _ => (number(at), number(at + prng.below(5))),
    }
}

type Model = Vec<(Vec<u8>, Vec<u8>, u64)>;

fn newest(model: &Model, key: &[u8], snapshot: u64) -> Option<Seq> {
    let over = model
        .iter()
        .filter(|(start, end, seq)| &start[..] <= key && key < &end[..] && *seq <= snapshot);
    over.map(|&(_, _, seq)| Seq(seq)).max()
}

/// A key near the bounds of the model's ranges.
fn key_near(model: &Model, prng: &mut Prng) -> Vec<u8> {
    let (start, end, _) = &model[prng.below(model.len() as u64) as usize];
    let mut key = if prng.chance(1, 2) { start.clone() } else { end.clone() };
    match prng.below(4) {
        0 => key.push(0),
        1 => _ = key.pop(),
        _ => {}
    }
    key
}

#[test]
fn lookups_agree_with_a_list_of_all_tombstones() {
    for seed in 0..80 {
        let mut prng = Prng::new(seed);
        let memory = MemTombstones::default();
        let mut model = Model::new();
        for seq in 1..=1 + prng.below(400) {
            let (start, end) = range(seed % 8, seq, &mut prng);
            memory.insert(&start, &end, Seq(seq));
            model.push((start, end, seq));
            let (key, snapshot) = (key_near(&model, &mut prng), prng.below(seq + 2));
            let expected = newest(&model, &key, snapshot);
            assert_eq!(memory.max_seq_covering(&key, Seq(snapshot)), expected, "seed {seed}");
            if prng.chance(1, 8) {
                let whole = FragmentedTombstones::new(&memory.list());
                assert_eq!(whole.max_seq_covering(&key, Seq(snapshot)), expected);
                let everywhere = Cover { start: None, end: None, seq: None };
                let cover = memory
                    .views(Seq(snapshot))
                    .iter()
                    .map(|view| view.cover_around(&key, Seq(snapshot)))
                    .fold(everywhere, Cover::intersect);
                assert!(cover.contains(&key));
                assert_eq!(cover.seq, expected, "seed {seed}");
                let other = key_near(&model, &mut prng);
                if cover.contains(&other) {
                    assert_eq!(newest(&model, &other, snapshot), cover.seq, "seed {seed}");
                }
            }
        }
        assert_eq!(memory.is_empty(), memory.list().is_empty());
    }
}

/// P2: a reader that took its views early sees what it would see now.
#[test]
fn views_and_snapshots_do_not_change_while_tombstones_are_added() {
    let mut prng = Prng::new(1);
    let memory = MemTombstones::default();
    let mut model = Model::new();
    let mut readers = Vec::new();
    for seq in 1..=300 {
        let (start, end) = (random_key(&mut prng), random_key(&mut prng));
        memory.insert(&start, &end, Seq(seq));
        model.push((start, end, seq));
        readers.push((seq, memory.views(Seq(seq))));
    }
    for (snapshot, views) in readers {
        let key = random_key(&mut prng);
        let old = views.iter().filter_map(|view| view.max_seq_covering(&key, Seq(snapshot))).max();
        assert_eq!(old, newest(&model, &key, snapshot));
        assert_eq!(memory.max_seq_covering(&key, Seq(snapshot)), old);
    }
}

#[test]
fn lanes_agree_with_their_tables() {
    for seed in 0..60 {
        let mut prng = Prng::new(seed);
        let mut model = Model::new();
        let mut tables = Vec::new();
        for table in 0..prng.below(12) {
            // Narrow tables share lanes, wide ones do not.
            let width = 1 + prng.below(if seed.is_multiple_of(2) { 4 } else { 40 });
            let base = prng.below(100);
            let mut written = Vec::new();
            for seq in 1 + table * 10..1 + table * 10 + prng.below(8) {
                let key = |n: u64| format!("k{n:03}").into_bytes();
                let (from, to) = (base + prng.below(width), base + prng.below(width + 1));
                written.push(RangeTombstone::new(&key(from), &key(to), Seq(seq)));
                model.push((key(from), key(to), seq));
            }
            tables.push(Arc::new(FragmentedTombstones::new(&written)));
        }
        let table_count = tables.iter().filter(|table| !table.is_empty()).count();
        let lanes = TombstoneLane::divide(tables);
        assert!(lanes.len() <= table_count);
        for _ in 0..if model.is_empty() { 0 } else { 200 } {
            let (key, snapshot) = (key_near(&model, &mut prng), prng.below(130));
            let mut all = Cover { start: None, end: None, seq: None };
            for lane in &lanes {
                let cover = lane.cover_around(&key, Seq(snapshot));
                assert!(cover.contains(&key));
                all = all.intersect(cover);
            }
            assert_eq!(all.seq, newest(&model, &key, snapshot), "seed {seed}");
            let other = key_near(&model, &mut prng);
            if all.contains(&other) {
                assert_eq!(newest(&model, &other, snapshot), all.seq, "seed {seed}");
            }
        }
    }
}

#[test]
fn disjoint_tables_make_one_lane() {
    let table = |from: u64| {
        let key = |n: u64| format!("k{n:06}").into_bytes();
        let written: Vec<_> = (from..from + 32)
            .map(|n| RangeTombstone::new(&key(2 * n), &key(2 * n + 1), Seq(n + 1)))
            .collect();
        Arc::new(FragmentedTombstones::new(&written))
    };
    let lanes = TombstoneLane::divide((0..500).rev().map(|n| table(n * 32)));
    assert_eq!(lanes.len(), 1);
    let cost = steps(|| {
        let cover = lanes[0].cover_around(b"k031000", Seq::MAX);
        assert_eq!((cover.seq, &cover.start.unwrap()[..]), (Some(Seq(15_501)), &b"k031000"[..]));
    });
    assert!(cost <= 20, "{cost} steps");
    assert!(TombstoneLane::divide([Arc::default()]).is_empty());
}

/// 16,000 range deletes were 125 pieces, so a look-up made about 1,000 comparisons.
#[test]
fn a_lookup_takes_few_steps_however_many_tombstones_there_are() {
    let number = |n: u64| format!("k{n:08}").into_bytes();
    type Shape = fn(u64) -> (u64, u64);
    let shapes: [(&str, Shape); 4] = [
        ("disjoint", |n| (2 * n, 2 * n + 1)),
        ("nested", |n| (20_000 - n, 20_000 + n)),
        ("a queue's head", |n| (0, n + 1)),
        ("overlapping", |n| (n, n + 5_000)),
    ];
    for (name, shape) in shapes {
        let memory = MemTombstones::default();
        for n in 0..16_000 {
            let (from, to) = shape(n);
            memory.insert(&number(from), &number(to), Seq(n + 1));
        }
        for (n, snapshot) in [(10, Seq::MAX), (12_345, Seq(14_000)), (30_000, Seq(15_000))] {
            let cost = steps(|| _ = memory.max_seq_covering(&number(n), snapshot));
            assert!(cost <= 150, "{name}: {cost} steps");
        }
        let views = memory.views(Seq::MAX);
        assert!(views.len() <= 10, "{name}: {} views", views.len());
        // Fragments with all numbers would have 128 million of them for nested ranges.
        let number_count: usize = views.iter().map(|view| view.number_count()).sum();
        assert!(number_count <= 16_000 * 28, "{name}: {number_count} numbers");
    }
}

use super::tree::NODE_LEN;
use super::*;
use crate::iter::InternalIter;
use crate::merge::tests::{ListIter, compare_walks, sticky_key};
use imbrex_clockwork::Prng;
use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

type Entries = Vec<(Vec<u8>, Trailer, Vec<u8>)>;

/// Makes the i-th key of a shape.
type Shape = fn(&mut Prng, u64) -> Vec<u8>;

/// Shapes of keys that exercise different paths through the tree.
fn shapes() -> Vec<(&'static str, Shape)> {
    vec![
        ("ascending words", |_, i| i.to_be_bytes().to_vec()),
        ("descending words", |_, i| (u64::MAX - i).to_be_bytes().to_vec()),
        ("random words", |prng, _| prng.next_u64().to_be_bytes().to_vec()),
        ("counting in digits", |_, i| format!("user-key-{i}").into_bytes()),
        ("padded digits", |_, i| format!("user-key-{i:012}").into_bytes()),
        ("sticky", |prng, _| sticky_key(prng)),
        ("two keys", |prng, _| vec![b'k'; 1 + prng.below(2) as usize]),
        ("late stranger", |_, i| {
            let stranger = i == 9000 || i == 2;
            format!("{}{i:05}", if stranger { "a" } else { "shared-prefix-" }).into_bytes()
        }),
    ]
}

fn fill(memtable: &Memtable, shape: Shape, count: u64) -> Entries {
    let mut prng = Prng::new(count);
    let mut entries = Vec::new();
    for i in 0..count {
        let key = shape(&mut prng, i);
        let kind = if prng.chance(1, 8) { Kind::Delete } else { Kind::Put };
        let value = if kind == Kind::Put { i.to_le_bytes().to_vec() } else { Vec::new() };
        let trailer = Trailer::new(Seq(i + 1), kind);
        memtable.insert(&key, trailer, &value);
        entries.push((key, trailer, value));
    }
    entries
}

#[test]
fn entries_come_back_in_order_whatever_the_keys_look_like() {
    for (name, shape) in shapes() {
        let memtable = Arc::new(Memtable::new(1));
        let mut entries = fill(&memtable, shape, 12_000);
        entries.sort_by(|a, b| InternalKey::new(&a.0, a.1).cmp(&InternalKey::new(&b.0, b.1)));
        for is_frozen in [false, true] {
            let mut iter = memtable.iter();
            iter.seek_to_first().unwrap();
            for (key, trailer, value) in &entries {
                assert!(iter.valid(), "{name}, frozen {is_frozen}");
                assert_eq!(iter.key(), InternalKey::new(key, *trailer), "{name}");
                assert_eq!(iter.value(), value, "{name}");
                iter.next().unwrap();
            }
            assert!(!iter.valid());
            iter.seek_to_last().unwrap();
            for (key, trailer, _) in entries.iter().rev() {
                assert_eq!(iter.key(), InternalKey::new(key, *trailer), "{name}");
                iter.prev().unwrap();
            }
            assert!(!iter.valid());
            memtable.freeze();
        }
        assert_eq!(memtable.entry_count(), 12_000);
    }
}

#[test]
fn lookups_agree_with_a_map() {
    for (name, shape) in shapes() {
        let memtable = Memtable::new(1);
        let entries = fill(&memtable, shape, 10_000);
        let mut model: BTreeMap<&[u8], Vec<(Seq, MemState)>> = BTreeMap::new();
        for (key, trailer, value) in &entries {
            let state = match trailer.kind() {
                Some(Kind::Put) => MemState::Value(Bytes::copy_from_slice(value)),
                _ => MemState::Deleted,
            };
            model.entry(key).or_default().push((trailer.seq(), state));
        }
        let mut prng = Prng::new(5);
        for number in 0..4000 {
            if number == 2000 {
                memtable.freeze();
            }
            let i = prng.below(12_000);
            let key = shape(&mut prng, i);
            let key = if prng.chance(1, 2) { &entries[i as usize % 10_000].0 } else { &key };
            let snapshot = Seq(prng.below(11_000));
            let expected = model.get(&key[..]).and_then(|versions| {
                versions.iter().rev().find(|(seq, _)| *seq <= snapshot).cloned()
            });
            let got = memtable.get(key, snapshot).map(|found| (found.seq, found.state));
            assert_eq!(got, expected, "{name}: {}", key.escape_ascii());
        }
    }
}

#[test]
fn iterators_walk_as_a_sorted_list() {
    for seed in 0..24 {
        let memtable = Arc::new(Memtable::new(seed));
        let count = [0, 1, 5, NODE_LEN as u64, 300, 5000][seed as usize % 6];
        let mut model = ListIter::new(fill(&memtable, |prng, _| sticky_key(prng), count));
        if seed % 2 == 0 {
            memtable.freeze();
        }
        let mut prng = Prng::new(seed);
        compare_walks(&mut memtable.iter(), &mut model, &mut prng, 1500, &mut sticky_key);
    }
}

#[test]
fn an_iterator_outlives_inserts_and_the_freeze() {
    let memtable = Arc::new(Memtable::new(1));
    let put = |i: u64, seq: u64| {
        memtable.insert(&i.to_be_bytes(), Trailer::new(Seq(seq), Kind::Put), &seq.to_le_bytes());
    };
    (0..1000).for_each(|i| put(i * 2, i + 1));
    let mut iter = memtable.iter();
    iter.seek_to_first().unwrap();
    let mut seen = 0;
    while iter.valid() {
        // Later writes are between the old ones and before them. A reader at 1000 skips them.
        if iter.key().trailer.seq() <= Seq(1000) {
            assert_eq!(iter.key().user_key, (seen * 2_u64).to_be_bytes());
            seen += 1;
            if seen < 500 {
                put(seen * 2 + 1, 1000 + seen);
                put(seen * 2, 2000 + seen);
            } else {
                memtable.freeze();
            }
        }
        iter.next().unwrap();
    }
    assert_eq!(seen, 1000);
}

#[test]
fn long_keys_and_values_have_room() {
    let memtable = Arc::new(Memtable::new(1));
    let mut prng = Prng::new(1);
    let mut longest = |len: usize| {
        let mut bytes = vec![0; len];
        prng.fill(&mut bytes);
        bytes
    };
    let key = longest(crate::batch::KEY_LEN_BYTES_MAX);
    let lens = [0, 1, 32 << 10, (32 << 10) + 1, 1 << 20, 3 << 20];
    let values: Vec<Vec<u8>> = lens.map(&mut longest).into();
    for (i, value) in values.iter().enumerate() {
        memtable.insert(&key, Trailer::new(Seq(i as u64 + 1), Kind::Put), value);
    }
    let payload: usize = values.iter().map(|value| value.len() + key.len()).sum();
    assert!((payload..payload + (1 << 20)).contains(&memtable.len_bytes()));
    let mut iter = memtable.iter();
    iter.seek_to_last().unwrap();
    for (i, value) in values.iter().enumerate() {
        let found = memtable.get(&key, Seq(i as u64 + 1)).unwrap();
        assert_eq!(found.state, MemState::Value(Bytes::copy_from_slice(value)));
        assert_eq!(iter.value(), value);
        iter.prev().unwrap();
    }
}

#[test]
fn an_empty_memtable_answers_nothing() {
    let memtable = Arc::new(Memtable::new(7));
    assert!(memtable.is_empty());
    assert_eq!(memtable.len_bytes(), 0);
    assert_eq!(memtable.get(b"k", Seq::MAX), None);
    let mut iter = memtable.iter();
    iter.seek_to_first().unwrap();
    assert!(!iter.valid());
    memtable.insert_range_tombstone(b"a", b"c", Seq(3));
    assert!(!memtable.is_empty());
    assert_eq!(memtable.max_seq_covering(b"b", Seq(9)), Some(Seq(3)));
    assert_eq!(memtable.tombstone_views(Seq(3)).len(), 1);
    assert_eq!(memtable.range_tombstones().len(), 1);
    memtable.freeze();
    assert_eq!(memtable.get(b"b", Seq::MAX), None);
}

/// Readers run at the same time as one writer. A reader that sees an entry sees it whole, and sees
/// all earlier entries too.
#[test]
fn readers_never_see_half_an_entry() {
    let memtable = Arc::new(Memtable::new(1));
    let is_done = AtomicBool::new(false);
    let count = 20_000_u64;
    let key = |i: u64| i.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for i in 1..=count {
                let trailer = Trailer::new(Seq(i), Kind::Put);
                memtable.insert(&key(i), trailer, &[i as u8; 100]);
            }
            memtable.freeze();
            is_done.store(true, Ordering::Release);
        });
        scope.spawn(|| {
            while !is_done.load(Ordering::Acquire) {
                let newest = memtable.entry_count() as u64;
                for i in (1..=newest).rev().step_by(97) {
                    let found = memtable.get(&key(i), Seq(newest)).unwrap();
                    assert_eq!(found.state, MemState::Value(Bytes::from(vec![i as u8; 100])));
                }
            }
        });
        scope.spawn(|| {
            while !is_done.load(Ordering::Acquire) {
                let newest = memtable.entry_count();
                let mut iter = memtable.iter();
                iter.seek_to_first().unwrap();
                let (mut seen, mut last) = (0, Vec::new());
                while iter.valid() {
                    let found = iter.key();
                    assert!(last.is_empty() || &last[..] < found.user_key);
                    last = found.user_key.to_vec();
                    let seq = found.trailer.seq().0;
                    assert!(iter.value() == [seq as u8; 100]);
                    seen += usize::from(seq as usize <= newest);
                    iter.next().unwrap();
                }
                assert_eq!(seen, newest);
            }
        });
    });
}

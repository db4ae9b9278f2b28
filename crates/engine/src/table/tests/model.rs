//! Random tables, in every shape, against a sorted list.

use super::*;
use crate::table::histogram::HISTOGRAM_LEN_BYTES_MIN;
use bytes::Bytes;

/// Keys of many shapes: common prefixes, prefixes of each other, zeros, several versions.
pub(super) fn random_entries(prng: &mut Prng, count: usize) -> Entries {
    let prefix = [&b""[..], b"user", b"a-long-common-prefix/"][prng.below(3) as usize];
    let value_len_bytes_max = [1, 20, 300, 3000][prng.below(4) as usize];
    let spread = [50, 5_000, u64::MAX][prng.below(3) as usize];
    let mut entries = Entries::new();
    while entries.len() < count {
        let mut key = prefix.to_vec();
        let number = prng.below(spread);
        match prng.below(3) {
            0 => key.extend_from_slice(&number.to_be_bytes()),
            1 => key.extend_from_slice(number.to_string().as_bytes()),
            _ => key.extend_from_slice(&number.to_be_bytes()[prng.below(8) as usize..]),
        }
        for _ in 0..=prng.below(3) {
            let kind = if prng.below(5) == 0 { Kind::Delete } else { Kind::Put };
            let len_bytes = if kind == Kind::Put { prng.below(value_len_bytes_max) } else { 0 };
            let byte = prng.below(256) as u8;
            let value = (0..len_bytes).map(|i| byte ^ (i as u8 & 7)).collect();
            let seq = random_seq(prng);
            entries.insert((key.clone(), std::cmp::Reverse(seq)), (kind, value));
        }
    }
    entries
}

fn random_seq(prng: &mut Prng) -> u64 {
    let bits = prng.below(50);
    prng.below(1 << bits)
}

pub(super) fn random_options(prng: &mut Prng) -> TableOptions {
    TableOptions {
        table_id: prng.below(1000),
        block_len_bytes: [1, 100, 1000, 4096, 100_000][prng.below(5) as usize],
        compression: [Compression::None, Compression::Lz4, Compression::Zstd]
            [prng.below(3) as usize],
        lz4_acceleration: 1,
        filter_bits_per_key: prng.below(12) as u32,
        index_partition_len_bytes: [1, 200, 16 << 10][prng.below(3) as usize],
        histogram_len_bytes: [0, HISTOGRAM_LEN_BYTES_MIN, 4096][prng.below(3) as usize],
        log_frame_len_bytes: 0,
    }
}

type Flat<'a> = Vec<(InternalKey<'a>, &'a [u8])>;

fn flat(entries: &Entries) -> Flat<'_> {
    entries
        .iter()
        .map(|((key, seq), (kind, value))| {
            (InternalKey::new(key, trailer(seq.0, *kind)), value.as_slice())
        })
        .collect()
}

/// The index of the cursor's entry in the list. Checks that key and value match.
fn place(iter: &dyn InternalIter, list: &Flat<'_>) -> Option<usize> {
    if !iter.valid() {
        return None;
    }
    let index = list.binary_search_by(|(key, _)| key.cmp(&iter.key())).expect("a key of the list");
    assert_eq!(iter.value(), list[index].1);
    Some(index)
}

fn check_walks(iter: &mut dyn InternalIter, list: &Flat<'_>) {
    iter.seek_to_first().unwrap();
    for i in 0..list.len() {
        assert_eq!(place(iter, list), Some(i));
        iter.next().unwrap();
    }
    assert!(!iter.valid());
    iter.seek_to_last().unwrap();
    for i in (0..list.len()).rev() {
        assert_eq!(place(iter, list), Some(i));
        iter.prev().unwrap();
    }
    assert!(!iter.valid());
}

/// Random moves of a cursor over `list`, to keys near those of `targets`.
fn check_moves(iter: &mut dyn InternalIter, list: &Flat<'_>, targets: &Entries, prng: &mut Prng) {
    let mut at = None;
    let keys: Vec<_> = targets.keys().map(|(key, _)| key).collect();
    for _ in 0..300 {
        let mut target_key = keys[prng.below(keys.len() as u64) as usize].clone();
        match prng.below(4) {
            0 => target_key.push(0),
            1 => drop(target_key.pop()),
            _ => {}
        }
        let seq = Seq(random_seq(prng));
        let target = InternalKey::new(&target_key, Trailer::seek(seq));
        let split = list.partition_point(|(key, _)| *key < target);
        let op = prng.below(4);
        let before = at;
        match (op, at) {
            (0, _) => {
                iter.seek(target).unwrap();
                at = (split < list.len()).then_some(split);
            }
            (1, _) => {
                iter.seek_before(target).unwrap();
                at = split.checked_sub(1);
            }
            (2, Some(i)) => {
                iter.next().unwrap();
                at = (i + 1 < list.len()).then_some(i + 1);
            }
            (_, Some(i)) => {
                iter.prev().unwrap();
                at = i.checked_sub(1);
            }
            _ => {}
        }
        assert_eq!(place(iter, list), at, "op {op} from {before:?}, {target:?}");
    }
}

fn check_gets(table: &Table, entries: &Entries, prng: &mut Prng) {
    for (key, _) in entries.keys().step_by(3) {
        let mut key = key.clone();
        if prng.below(3) == 0 {
            key.push(b'x');
        }
        let snapshot = random_seq(prng);
        let expected = entries
            .range((key.clone(), std::cmp::Reverse(snapshot))..)
            .next()
            .filter(|((k, _), _)| *k == key);
        let got = table.get(&key, key_hash(&key), Seq(snapshot)).unwrap();
        match (expected, got) {
            (None, TableLookup::Missing) => {}
            (Some(((_, seq), (Kind::Delete, _))), TableLookup::Deleted { seq: got }) => {
                assert_eq!(seq.0, got.0);
            }
            (Some(((_, s), (Kind::Put, value))), TableLookup::Value { value: got, seq }) => {
                assert_eq!((s.0, value.as_slice()), (seq.0, &got[..]));
            }
            (expected, got) => panic!("{key:?} at {snapshot}: {expected:?}, got {got:?}"),
        }
    }
}

pub(super) fn random_read_options(prng: &mut Prng) -> TableReadOptions {
    TableReadOptions {
        activity: imbrex_files::Activity::User,
        fill_cache: prng.below(2) == 0,
        read_ahead_bytes: [0, 5_000, 1 << 20][prng.below(3) as usize],
        read_ahead_bytes_min: [0, 0, 7_000][prng.below(3) as usize],
        sequential: prng.below(3) == 0,
        until: None,
        losses: None,
    }
}

#[test]
fn a_table_reads_back_as_it_was_written() {
    for seed in 0..60 {
        let mut prng = Prng::new(seed).derive("table model");
        let count = [1, 10, 1000][prng.below(3) as usize];
        let entries = random_entries(&mut prng, count);
        let options = random_options(&mut prng);
        let (bytes, properties) = build(&entries, &options);
        assert_eq!(build(&entries, &options).0, bytes, "same entries, same bytes");
        let table = open(bytes).unwrap();
        assert_eq!(table.properties(), &properties);
        let report = table.verify(&mut |_| Ok(())).unwrap();
        assert_eq!(report.entry_count, entries.len() as u64);
        assert_eq!(report.data_block_count, properties.data_block_count);
        let list = flat(&entries);
        let mut iter = table.iter(random_read_options(&mut prng));
        check_walks(&mut iter, &list);
        check_moves(&mut iter, &list, &entries, &mut prng);
        check_gets(&table, &entries, &mut prng);
        let mut living = entries.clone();
        let front = random_front(&mut living, &mut prng);
        let list = flat(&living);
        let mut iter = table.iter(random_read_options(&mut prng)).starting_at_front(front.as_ref());
        check_walks(&mut iter, &list);
        check_moves(&mut iter, &list, &entries, &mut prng);
    }
}

/// Chooses a front, in most cases, and removes the entries before it.
fn random_front(entries: &mut Entries, prng: &mut Prng) -> Option<Bytes> {
    let at = prng.below(entries.len() as u64 + 2) as usize;
    let mut front = entries.keys().nth(at)?.0.clone();
    if prng.below(2) == 0 {
        front.push(0);
    }
    entries.retain(|(key, _), _| *key >= front);
    Some(Bytes::from(front))
}

/// The tables of a run, with their largest keys and fronts.
#[derive(Clone, Debug)]
pub(super) struct Run(pub(super) Vec<(Vec<u8>, Arc<Table>, Option<Bytes>)>);

impl SortedRun for Run {
    fn table_count(&self) -> usize {
        self.0.len()
    }

    fn smallest_user_key(&self, index: usize) -> &[u8] {
        let (_, table, front) = &self.0[index];
        front.as_ref().map_or(&table.properties().smallest_user_key, |front| front)
    }

    fn largest_user_key(&self, index: usize) -> &[u8] {
        &self.0[index].0
    }

    fn front(&self, index: usize) -> Option<&Bytes> {
        self.0[index].2.as_ref()
    }

    fn open(&self, index: usize) -> Result<Arc<Table>, EngineError> {
        Ok(Arc::clone(&self.0[index].1))
    }
}

#[test]
fn a_run_of_tables_reads_as_one() {
    for seed in 0..20 {
        let mut prng = Prng::new(seed).derive("run model");
        let entries = random_entries(&mut prng, 500);
        let (mut run, mut living) = (Vec::new(), Entries::new());
        let mut rest = entries.clone();
        while !rest.is_empty() {
            let cut = rest.keys().nth(1 + prng.below(200) as usize).cloned();
            let later = cut.map_or_else(Entries::new, |cut| rest.split_off(&cut));
            let (bytes, properties) = build(&rest, &random_options(&mut prng));
            // Rarely all of the table is dead, except for range tombstones after its last entry.
            let front = if prng.below(2) == 0 { None } else { random_front(&mut rest, &mut prng) };
            living.extend(rest);
            run.push((properties.largest_user_key, open(bytes).unwrap(), front));
            rest = later;
        }
        let list = flat(&living);
        let mut iter = LevelIter::new(Run(run), random_read_options(&mut prng));
        check_walks(&mut iter, &list);
        check_moves(&mut iter, &list, &entries, &mut prng);
    }
    let mut empty = LevelIter::new(Run(Vec::new()), TableReadOptions::default());
    empty.seek_to_first().unwrap();
    assert!(!empty.valid());
    empty.seek_to_last().unwrap();
    assert!(!empty.valid());
}

#[test]
fn sizes_grow_with_the_key() {
    let mut prng = Prng::new(1).derive("sizes");
    let entries = random_entries(&mut prng, 1000);
    let options = TableOptions { block_len_bytes: 200, ..TableOptions::default() };
    let table = open(build(&entries, &options).0).unwrap();
    let mut before = 0;
    for (key, _) in entries.keys() {
        let offset = table.approximate_offset(key).unwrap();
        assert!(before <= offset && offset <= table.len_bytes());
        before = offset;
    }
    assert!(before > table.len_bytes() / 2);
}

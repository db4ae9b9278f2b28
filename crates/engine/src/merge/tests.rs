use super::*;
use crate::key::{Kind, Seq, Trailer};
use imbrex_clockwork::Prng;

/// A cursor over a sorted list: the simplest source.
#[derive(Debug, Clone, Default)]
pub(crate) struct ListIter {
    entries: Vec<(Vec<u8>, Trailer, Vec<u8>)>,
    at: Option<usize>,
    /// The number of the move from which on moves fail.
    pub(crate) fails_after: Option<usize>,
    /// The write whose value cannot be loaded.
    pub(crate) damaged: Option<Seq>,
}

impl ListIter {
    pub(crate) fn new(mut entries: Vec<(Vec<u8>, Trailer, Vec<u8>)>) -> ListIter {
        entries.sort_by(|a, b| InternalKey::new(&a.0, a.1).cmp(&InternalKey::new(&b.0, b.1)));
        ListIter { entries, at: None, fails_after: None, damaged: None }
    }

    fn go(&mut self, at: Option<usize>) -> Result<(), EngineError> {
        self.at = at.filter(|&at| at < self.entries.len());
        if let Some(left) = &mut self.fails_after {
            if *left == 0 {
                self.at = None;
                return Err(EngineError::BatchLen { max_bytes: 0 });
            }
            *left -= 1;
        }
        Ok(())
    }

    fn rank(&self, key: InternalKey<'_>) -> usize {
        self.entries.partition_point(|e| InternalKey::new(&e.0, e.1) < key)
    }
}

impl InternalIter for ListIter {
    fn seek_to_first(&mut self) -> Result<(), EngineError> {
        self.go(Some(0))
    }
    fn seek_to_last(&mut self) -> Result<(), EngineError> {
        self.go(self.entries.len().checked_sub(1))
    }
    fn seek(&mut self, target: InternalKey<'_>) -> Result<(), EngineError> {
        self.go(Some(self.rank(target)))
    }
    fn seek_before(&mut self, target: InternalKey<'_>) -> Result<(), EngineError> {
        self.go(self.rank(target).checked_sub(1))
    }
    fn next(&mut self) -> Result<(), EngineError> {
        self.go(self.at.map(|at| at + 1))
    }
    fn prev(&mut self) -> Result<(), EngineError> {
        self.go(self.at.and_then(|at| at.checked_sub(1)))
    }
    fn valid(&self) -> bool {
        self.at.is_some()
    }
    fn key(&self) -> InternalKey<'_> {
        let entry = &self.entries[self.at.unwrap()];
        InternalKey::new(&entry.0, entry.1)
    }
    fn load_value(&mut self) -> Result<u64, EngineError> {
        if self.damaged != Some(self.key().trailer.seq()) {
            return Ok(0);
        }
        let (file, reason) = ("a list".to_owned(), "it is damaged".to_owned());
        Err(EngineError::Corrupt { structure: "value", file, offset: 0, reason })
    }
    fn value(&self) -> &[u8] {
        &self.entries[self.at.unwrap()].2
    }
}

/// Makes the same random moves on `subject` and on the list `model`, and compares after each.
pub(crate) fn compare_walks(
    subject: &mut impl InternalIter,
    model: &mut ListIter,
    prng: &mut Prng,
    moves: usize,
    key: &mut dyn FnMut(&mut Prng) -> Vec<u8>,
) {
    for number in 0..moves {
        let target = key(prng);
        let target = InternalKey::new(&target, Trailer(prng.below(1 << 16)));
        match prng.below(if model.valid() { 14 } else { 4 }) {
            0 => (subject.seek_to_first().unwrap(), model.seek_to_first().unwrap()),
            1 => (subject.seek_to_last().unwrap(), model.seek_to_last().unwrap()),
            2 => (subject.seek(target).unwrap(), model.seek(target).unwrap()),
            3 => (subject.seek_before(target).unwrap(), model.seek_before(target).unwrap()),
            4..9 => (subject.next().unwrap(), model.next().unwrap()),
            _ => (subject.prev().unwrap(), model.prev().unwrap()),
        };
        assert_eq!(subject.valid(), model.valid(), "move {number}");
        if model.valid() {
            assert_eq!(subject.key(), model.key(), "move {number}");
            assert_eq!(subject.value(), model.value(), "move {number}");
        }
    }
}

/// Keys of 1 to 12 bytes. Many share their first 8 bytes, and some are prefixes of others.
pub(crate) fn sticky_key(prng: &mut Prng) -> Vec<u8> {
    let mut key = b"user-000-"[..prng.below(10) as usize].to_vec();
    key.push(b'a' + prng.below(5) as u8);
    key.extend((0..prng.below(2)).map(|_| b'0' + prng.below(6) as u8));
    key
}

#[test]
fn a_merge_walks_as_the_sorted_list_of_all() {
    for seed in 0..60 {
        let mut prng = Prng::new(seed);
        let source_count = prng.below(7) as usize;
        let mut lists = vec![Vec::new(); source_count];
        let mut all = Vec::new();
        for seq in 1..=(prng.below(120) * u64::from(source_count > 0)) {
            let kind = if prng.chance(1, 5) { Kind::Delete } else { Kind::Put };
            let entry =
                (sticky_key(&mut prng), Trailer::new(Seq(seq), kind), seq.to_le_bytes().to_vec());
            all.push(entry.clone());
            lists[prng.below(source_count as u64) as usize].push(entry);
        }
        let sources: Vec<Box<dyn InternalIter>> =
            lists.into_iter().map(|l| Box::new(ListIter::new(l)) as _).collect();
        let mut merged = MergingIter::new(sources);
        let mut model = ListIter::new(all);
        compare_walks(&mut merged, &mut model, &mut prng, 400, &mut sticky_key);
    }
}

#[test]
fn equal_keys_come_in_the_order_of_their_sources() {
    let trailer = Trailer::new(Seq(4), Kind::Put);
    let list = |value: &[u8]| ListIter::new(vec![(b"k".to_vec(), trailer, value.to_vec())]);
    let mut merged = MergingIter::new(vec![list(b"a"), list(b"b"), list(b"c")]);
    merged.seek_to_first().unwrap();
    for expected in [b"a", b"b", b"c"] {
        assert_eq!(merged.value(), expected);
        merged.next().unwrap();
    }
    assert!(!merged.valid());
}

#[test]
fn after_a_failed_move_the_cursor_is_nowhere() {
    let entries = |n: u8| {
        (0..20).map(|i| (vec![i * 2 + n], Trailer::new(Seq(1), Kind::Put), Vec::new())).collect()
    };
    let mut bad = ListIter::new(entries(1));
    bad.fails_after = Some(5);
    let mut merged = MergingIter::new(vec![ListIter::new(entries(0)), bad]);
    merged.seek_to_first().unwrap();
    let failed = (0..40).find(|_| merged.next().is_err());
    assert!(failed.is_some_and(|moves| moves < 14));
    assert!(!merged.valid());
    assert!(merged.seek_to_first().is_err());
    assert!(!merged.valid());
}

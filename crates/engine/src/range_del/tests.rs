use super::*;
use imbrex_clockwork::Prng;

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

#[test]
fn lookups_agree_with_a_list_of_all_tombstones() {
    for seed in 0..40 {
        let mut prng = Prng::new(seed);
        let memory = MemTombstones::default();
        let mut model: Vec<(Vec<u8>, Vec<u8>, u64)> = Vec::new();
        for seq in 1..=prng.below(400) {
            let (start, end) = (random_key(&mut prng), random_key(&mut prng));
            memory.insert(&start, &end, Seq(seq));
            model.push((start, end, seq));
            let (key, snapshot) = (random_key(&mut prng), prng.below(seq + 2));
            let expected = model
                .iter()
                .filter(|(start, end, seq)| *start <= key && key < *end && *seq <= snapshot)
                .map(|&(_, _, seq)| Seq(seq))
                .max();
            assert_eq!(memory.max_seq_covering(&key, Seq(snapshot)), expected);
            if prng.chance(1, 8) {
                let whole = FragmentedTombstones::new(&memory.list());
                assert_eq!(whole.max_seq_covering(&key, Seq(snapshot)), expected);
                let everywhere = Cover { start: None, end: None, seq: None };
                let cover = memory
                    .views()
                    .iter()
                    .map(|view| view.cover_around(&key, Seq(snapshot)))
                    .fold(everywhere, Cover::intersect);
                assert!(cover.contains(&key));
                assert_eq!(cover.seq, expected);
                let other = random_key(&mut prng);
                if cover.contains(&other) {
                    assert_eq!(whole.max_seq_covering(&other, Seq(snapshot)), cover.seq);
                }
            }
        }
        assert_eq!(memory.is_empty(), memory.list().is_empty());
    }
}

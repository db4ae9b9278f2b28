use super::*;
use imbrex_clockwork::Prng;
use std::collections::BTreeMap;

const ROOM_LEN_BYTES: usize = 4096;

/// A histogram built from entries in key order.
fn build(entries: &BTreeMap<Vec<u8>, u64>, room_len_bytes: usize) -> Histogram {
    let mut builder = HistogramBuilder::new(room_len_bytes);
    let mut before: &[u8] = &[];
    for (key, &len_bytes) in entries {
        let shared = before.iter().zip(key).take_while(|(a, b)| a == b).count();
        builder.add(key, shared, false, len_bytes / 2);
        // A second version of a key never starts a share.
        builder.add(key, key.len(), true, len_bytes - len_bytes / 2);
        before = key;
    }
    builder.finish()
}

/// Checks H1, H2, and the bounds on the number of shares and on their lengths.
fn check(entries: &BTreeMap<Vec<u8>, u64>, histogram: &Histogram, room_len_bytes: usize) {
    assert!(histogram.encode().len() <= room_len_bytes, "{} bytes", histogram.encode().len());
    let mut sums = vec![0; histogram.share_count()];
    let mut at = 0;
    for (key, len_bytes) in entries {
        while histogram.start(at + 1).is_some_and(|start| start <= &key[..]) {
            at += 1;
        }
        sums[at] += len_bytes;
    }
    assert_eq!(sums, histogram.lens_bytes, "H2");
    assert_eq!(Histogram::decode(&histogram.encode()).as_ref(), Ok(histogram));
}

fn even(histogram: &Histogram) -> (u64, u64) {
    let lens = &histogram.lens_bytes[..histogram.share_count() - 1];
    (lens.iter().copied().min().unwrap(), lens.iter().copied().max().unwrap())
}

#[test]
fn shares_are_even_and_the_room_is_kept() {
    let mut prng = Prng::new(4);
    for count in [1usize, 2, 10, 1000, 100_000] {
        let entries: BTreeMap<_, _> = (0..count)
            .map(|_| (prng.next_u64().to_be_bytes().to_vec(), 100 + prng.below(100)))
            .collect();
        let histogram = build(&entries, ROOM_LEN_BYTES);
        check(&entries, &histogram, ROOM_LEN_BYTES);
        if count >= 1000 {
            let (min, max) = even(&histogram);
            assert!(max <= min + min / 2, "shares of {min} to {max} bytes");
        }
        if count == 100_000 {
            assert!(histogram.share_count() >= 120, "{} shares", histogram.share_count());
        }
    }
}

#[test]
fn long_keys_and_long_values_find_their_place() {
    let mut prng = Prng::new(5);
    let long = |prefix_len: usize, prng: &mut Prng| {
        let mut key = vec![b'p'; prefix_len];
        key.extend_from_slice(&prng.next_u64().to_be_bytes());
        key
    };
    // The common prefix of the keys is shorter than the limit, equal to it, or longer. In the
    // latter two cases there is one share.
    for (prefix_len, is_whole) in [(200, false), (240, false), (256, true), (5000, true)] {
        let entries: BTreeMap<_, _> =
            (0..5000).map(|_| (long(prefix_len, &mut prng), 300)).collect();
        for room in [HISTOGRAM_LEN_BYTES_MIN, ROOM_LEN_BYTES] {
            let histogram = build(&entries, room);
            check(&entries, &histogram, room);
            assert_eq!(histogram.share_count() == 1, is_whole, "prefix of {prefix_len}");
        }
    }
    let entries: BTreeMap<_, _> = (0..300u32)
        .map(|n| (n.to_be_bytes().to_vec(), if n % 50 == 0 { 1 << 30 } else { 9 }))
        .collect();
    check(&entries, &build(&entries, ROOM_LEN_BYTES), ROOM_LEN_BYTES);
    let none = HistogramBuilder::new(ROOM_LEN_BYTES).finish();
    assert_eq!(none.share_count(), 0);
    assert_eq!(Histogram::decode(&none.encode()), Ok(none));
}

#[test]
fn garbage_is_an_error_and_never_a_panic() {
    let entries: BTreeMap<_, _> = (0..2000u32).map(|n| (n.to_be_bytes().to_vec(), 700)).collect();
    let bytes = build(&entries, ROOM_LEN_BYTES).encode();
    for len in 0..bytes.len() {
        assert!(Histogram::decode(&bytes[..len]).is_err(), "cut to {len} bytes");
    }
    let mut prng = Prng::new(6);
    for _ in 0..3000 {
        let mut wild = bytes.clone();
        let at = prng.below(wild.len() as u64) as usize;
        wild[at] = prng.next_u64() as u8;
        if let Ok(histogram) = Histogram::decode(&wild) {
            (0..=histogram.share_count()).for_each(|at| _ = histogram.start(at));
        }
        let random: Vec<u8> = (0..prng.below(60)).map(|_| prng.next_u64() as u8).collect();
        let _ = Histogram::decode(&random);
    }
}

use super::*;
use crate::table::HistogramBuilder;
use std::collections::BTreeMap;

type Lens = BTreeMap<Vec<u8>, u64>;

fn build(entries: &Lens) -> Histogram {
    let mut builder = HistogramBuilder::new(4096);
    let mut before: &[u8] = &[];
    for (key, &len_bytes) in entries {
        let shared = before.iter().zip(key).take_while(|(a, b)| a == b).count();
        builder.add(key, shared, false, len_bytes);
        before = key;
    }
    builder.finish()
}

/// `count` keys, evenly spaced between `from` and `to`.
fn keys(from: u32, to: u32, count: u32) -> Lens {
    (0..count)
        .map(|n| from + (u64::from(to - from) * u64::from(n) / u64::from(count)) as u32)
        .map(|key| (key.to_be_bytes().to_vec(), 1000))
        .collect()
}

fn ends(entries: &Lens) -> (&[u8], &[u8]) {
    (entries.keys().next().unwrap(), entries.keys().last().unwrap())
}

fn judge(table: &Lens, others: &[&Lens]) -> Per1024 {
    let made: Vec<_> = others.iter().map(|other| build(other)).collect();
    let spread = |entries, histogram| {
        let (smallest, largest) = ends(entries);
        Spread { smallest, largest, histogram }
    };
    let others: Vec<_> = others.iter().zip(&made).map(|(o, made)| spread(o, made)).collect();
    sequentiality(spread(table, &build(table)), &others)
}

#[test]
fn sequentiality_is_the_part_that_others_leave_alone() {
    let table = keys(0, 1_000_000, 10_000);
    assert_eq!(judge(&table, &[]), 1024, "alone");
    assert_eq!(judge(&table, &[&table]), 0, "the same keys again");
    assert_eq!(judge(&table, &[&keys(2_000_000, 3_000_000, 10_000)]), 1024, "beside");
    let half = judge(&table, &[&keys(500_000, 1_500_000, 10_000)]);
    assert!((480..=544).contains(&half), "the upper half: {half}");
    let quarter = judge(&table, &[&keys(0, 125_000, 5_000), &keys(875_000, 1_000_000, 5_000)]);
    assert!((736..=800).contains(&quarter), "an eighth at both ends: {quarter}");
    // A table half as dense still inserts everywhere; one a hundred times sparser inserts next to
    // nothing.
    assert_eq!(judge(&table, &[&keys(0, 1_000_000, 5_000)]), 0);
    assert!(judge(&table, &[&keys(0, 1_000_000, 100)]) > 1000);
}

/// The thesis' example: a table that reaches from a to k, with next to nothing between d and j.
#[test]
fn a_wide_range_with_a_hole_leaves_alone_what_lies_in_the_hole() {
    let mut wide = keys(0, 300_000, 5_000);
    wide.extend(keys(1_000_000, 1_100_000, 5_000));
    wide.insert(600_000u32.to_be_bytes().to_vec(), 1000);
    assert_eq!(judge(&keys(400_000, 900_000, 10_000), &[&wide]), 1024);
    let inside = judge(&keys(100_000, 200_000, 10_000), &[&wide]);
    assert!(inside < 32, "where most of the wide one lies: {inside}");
}

#[test]
fn a_table_of_which_little_is_known_counts_as_spread_over_its_range() {
    let table = keys(0, 1_000_000, 10_000);
    let (smallest, largest) = ends(&table);
    let (made, whole) = (build(&table), Histogram::whole(10_000_000));
    let known = Spread { smallest, largest, histogram: &made };
    let unknown = Spread { smallest, largest, histogram: &whole };
    assert_eq!(sequentiality(known, &[unknown]), 0);
    assert_eq!(sequentiality(unknown, &[known]), 0);
    let empty = Histogram::default();
    let none = Spread { smallest, largest, histogram: &empty };
    assert_eq!(sequentiality(known, &[none]), 1024);
    assert_eq!(sequentiality(none, &[known]), 1024);
}

/// A table with a front has the histogram of its whole file. What is before the front inserts nowhere,
/// and is no part of the table.
#[test]
fn what_is_before_a_front_does_not_count() {
    let entries = keys(0, 1_000_000, 10_000);
    let (made, (smallest, largest)) = (build(&entries), ends(&entries));
    let whole = Spread { smallest, largest, histogram: &made };
    let cut = |front: u32| {
        let front = front.to_be_bytes().to_vec().leak();
        Spread { smallest: front, largest, histogram: &made }
    };
    for front in [1, 250_000, 500_000, 999_000, 999_900] {
        let below = keys(0, front, 10_000);
        let (below_made, (from, to)) = (build(&below), ends(&below));
        let below = Spread { smallest: from, largest: to, histogram: &below_made };
        assert_eq!(sequentiality(below, &[cut(front)]), 1024, "{front}");
        assert_eq!(sequentiality(cut(front), &[below]), 1024, "{front}");
        // The share with the front is cut, so it counts too little. A table of one share is only that.
        let judged = sequentiality(cut(front), &[whole]);
        assert!(judged < 64 || front > 500_000, "{front}: {judged}");
    }
    let half = sequentiality(whole, &[cut(500_000)]);
    assert!((480..=544).contains(&half), "the upper half: {half}");
}

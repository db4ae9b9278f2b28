use super::*;

/// How often each of `record_count` records was chosen in `DRAWS` draws.
fn counts(chooser: &mut KeyChooser, record_count: u64) -> Vec<u64> {
    counts_of(chooser, record_count, DRAWS)
}

fn counts_of(chooser: &mut KeyChooser, record_count: u64, draws: u64) -> Vec<u64> {
    let mut prng = Prng::new(11);
    let mut counts = vec![0; record_count as usize];
    for _ in 0..draws {
        counts[chooser.next(&mut prng, record_count) as usize] += 1;
    }
    counts
}

const DRAWS: u64 = 100_000;

/// Pearson's statistic against equal shares; its mean is the number of cells minus one.
fn chi_square(counts: &[u64]) -> f64 {
    let expected = counts.iter().sum::<u64>() as f64 / counts.len() as f64;
    counts.iter().map(|count| (*count as f64 - expected).powi(2) / expected).sum()
}

#[test]
fn hashes_and_keys_are_those_of_ycsb() {
    // The first records that YCSB itself loads.
    let check = |number: u64, want: &str| {
        let mut key = String::new();
        KeyNames { is_ordered: false, digit_count_min: 1 }.write(number, &mut key);
        assert_eq!(key, want);
    };
    check(0, "user6284781860667377211");
    check(1, "user8517097267634966620");
    check(2, "user1820151046732198393");
    let mut key = String::from("something longer");
    KeyNames { is_ordered: true, digit_count_min: 8 }.write(5, &mut key);
    assert_eq!(key, "user00000005");
    KeyNames { is_ordered: true, digit_count_min: 1 }.write(123, &mut key);
    assert_eq!(key, "user123");
    assert!((0..10_000).all(|number| hash(number) < 1 << 63));
}

#[test]
fn uniform_is_uniform_and_stays_in_its_range() {
    let counts = counts(&mut KeyChooser::Uniform { first: 20, count: 100 }, 120);
    assert!(counts[..20].iter().all(|count| *count == 0));
    // 99 degrees of freedom: 148 is exceeded once in a thousand seeds.
    assert!(chi_square(&counts[20..]) < 148.0, "{}", chi_square(&counts[20..]));
}

#[test]
fn sequential_goes_round() {
    let next = Arc::new(AtomicU64::new(0));
    let mut chooser = KeyChooser::Sequential { first: 3, count: 4, next };
    let mut other = chooser.clone();
    let mut prng = Prng::new(1);
    let got: Vec<u64> =
        (0..5).flat_map(|_| [chooser.next(&mut prng, 100), other.next(&mut prng, 100)]).collect();
    assert_eq!(got, [3, 4, 5, 6, 3, 4, 5, 6, 3, 4], "clients share one sequence");
}

#[test]
fn scrambled_has_the_shares_of_ten_billion_ranks() {
    let ranks = Zipfian::scrambled();
    let mut chooser = KeyChooser::Scrambled { first: 0, count: 1001, ranks };
    let counts = counts(&mut chooser, 1001);
    let hottest = hash(0) % 1001;
    let (at, most) = counts.iter().enumerate().max_by_key(|(_, count)| **count).unwrap();
    assert_eq!(at as u64, hottest);
    // Rank 0 alone has 3.78 %; other ranks may fall on its record too.
    assert!((3_700..4_300).contains(most), "{most}");
    let second = counts[(hash(1) % 1001) as usize];
    // Rank 1 has 1 / 2^0.99 of that, 1.90 %.
    assert!((1_800..2_300).contains(&second), "{second}");
    let rest = counts.iter().filter(|count| **count > 0).count();
    assert!(rest > 990, "every record has some rank of the tail: {rest}");
}

#[test]
fn records_that_are_not_there_are_never_chosen() {
    let ranks = Zipfian::scrambled();
    let mut chooser = KeyChooser::Scrambled { first: 0, count: 2000, ranks };
    // counts would be indexed out of its bounds.
    assert_eq!(counts(&mut chooser, 1000).iter().sum::<u64>(), DRAWS);
}

#[test]
fn latest_prefers_what_came_last() {
    let counts = counts(&mut KeyChooser::Latest(Zipfian::new(1000)), 1000);
    // 1 / zeta(1000) is 13 %.
    assert!((12_000..14_500).contains(&counts[999]), "{}", counts[999]);
    assert!(counts[999] > counts[998] && counts[998] > counts[990]);
}

#[test]
fn a_hotspot_is_hot() {
    let mut chooser =
        KeyChooser::Hotspot { first: 0, hot_count: 20, cold_count: 80, hot_per_million: 800_000 };
    let counts = counts(&mut chooser, 100);
    let hot: u64 = counts[..20].iter().sum();
    assert!((79_500..80_500).contains(&hot), "{hot}");
    // 19 and 79 degrees of freedom: exceeded once in a thousand seeds.
    assert!(chi_square(&counts[..20]) < 43.8);
    assert!(chi_square(&counts[20..]) < 123.6);
}

#[test]
fn hotspots_without_a_cold_or_a_hot_part_still_choose() {
    let all = KeyChooser::Hotspot { first: 0, hot_count: 9, cold_count: 0, hot_per_million: 0 };
    let none = KeyChooser::Hotspot { first: 0, hot_count: 0, cold_count: 9, hot_per_million: 9 };
    for mut chooser in [all, none] {
        assert!(counts(&mut chooser, 9).iter().all(|count| *count > 0));
    }
}

#[test]
fn exponential_reads_its_percentile_within_its_fraction() {
    // 95 % are within the newest 6/7 of the records, YCSB's default, cut off at the first record.
    let gamma = -libm::log(0.05) / (7000.0 * 0.857_142_857_1);
    let counts = counts(&mut KeyChooser::Exponential { gamma }, 7000);
    let near: u64 = counts[1000..].iter().sum();
    // Draws before the first record, 3 %, are repeated: 95 / 97 of the rest.
    assert!((97_200..98_500).contains(&near), "{near}");
    let (newest, oldest): (u64, u64) = (counts[6000..].iter().sum(), counts[..1000].iter().sum());
    assert!(newest > 10 * oldest, "{newest} {oldest}");
}

#[test]
fn an_insertion_counts_when_all_before_it_have_ended() {
    let sequence = InsertSequence::new(10);
    let numbers: Vec<u64> = (0..4).map(|_| sequence.begin()).collect();
    assert_eq!(numbers, [10, 11, 12, 13]);
    let after = |number| {
        sequence.end(number);
        sequence.record_count()
    };
    assert_eq!([11, 13, 10, 12].map(after), [10, 10, 12, 14], "K1");
}

/// With ten thousand billion expected insertions, the first read used to draw for ever.
#[test]
fn a_choice_ends_where_hardly_any_record_is_there() {
    let mut scrambled = KeyChooser::scrambled(500, 500, 1e13);
    let counts = counts_of(&mut scrambled, 1000, 100);
    assert_eq!(counts[500..].iter().sum::<u64>(), 100, "of its own records");
    let mut far = KeyChooser::Exponential { gamma: 1e-15 };
    assert_eq!(counts_of(&mut far, 10, 100).iter().sum::<u64>(), 100);
}

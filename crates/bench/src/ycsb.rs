//! YCSB's core workloads: which operation comes next, and on which record.
//!
//! ```text
//!   workload   operations                       records are chosen
//!   A          50 % read, 50 % update           scrambled zipfian
//!   B          95 % read, 5 % update            scrambled zipfian
//!   C          100 % read                       scrambled zipfian
//!   D          95 % read, 5 % insert            latest: zipfian from the newest back
//!   E          95 % scan (1 to 100), 5 % insert scrambled zipfian
//!   F          50 % read, 50 % read-modify-write scrambled zipfian
//! ```
//!
//! Records are numbered in the order of their insertion; a record's key is its number scattered over
//! the key space, so that an insert in order of number is a random insert by key.
//!
//! Sources: YCSB's `workloada` to `workloadf` and its generators; the zipfian one is Gray et al.,
//! "Quickly generating billion-record synthetic databases" (SIGMOD 1994).

use imbrex_clockwork::Prng;
use libm::pow;
use serde::Serialize;
use std::fmt;

/// YCSB's constant of skew.
const THETA: f64 = 0.99;

/// The longest scan of workload E.
const SCAN_LEN_MAX: u64 = 100;

/// One of the six core workloads, or a mix of reads and updates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum YcsbWorkload {
    /// Update heavy.
    A,
    /// Read mostly.
    B,
    /// Read only.
    C,
    /// Read latest.
    D,
    /// Short ranges.
    E,
    /// Read-modify-write.
    F,
    /// Reads and updates in another share than those; not a core workload.
    Mix {
        /// How many of a hundred are reads.
        read_percent: u8,
    },
}

impl YcsbWorkload {
    /// All six, in order.
    pub const ALL: [YcsbWorkload; 6] = [
        YcsbWorkload::A,
        YcsbWorkload::B,
        YcsbWorkload::C,
        YcsbWorkload::D,
        YcsbWorkload::E,
        YcsbWorkload::F,
    ];
}

impl fmt::Display for YcsbWorkload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            YcsbWorkload::Mix { read_percent } => {
                return write!(f, "R{read_percent}:W{}", 100 - read_percent.min(&100));
            }
            YcsbWorkload::A => "A",
            YcsbWorkload::B => "B",
            YcsbWorkload::C => "C",
            YcsbWorkload::D => "D",
            YcsbWorkload::E => "E",
            YcsbWorkload::F => "F",
        })
    }
}

/// What to do next; the number is a record's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum YcsbOp {
    Read(u64),
    Update(u64),
    /// The next record that is not there yet.
    Insert(u64),
    /// That many records from one on.
    Scan(u64, u64),
    ReadModifyWrite(u64),
}

/// The operations of one workload, from a seed.
#[derive(Clone, Debug)]
pub(crate) struct YcsbStream {
    workload: YcsbWorkload,
    prng: Prng,
    zipfian: Zipfian,
    /// Records that are there.
    record_count: u64,
}

impl YcsbStream {
    /// Operations over a store that holds `record_count` records, at least one.
    pub(crate) fn new(workload: YcsbWorkload, prng: Prng, record_count: u64) -> YcsbStream {
        let record_count = record_count.max(1);
        YcsbStream { workload, prng, zipfian: Zipfian::new(record_count), record_count }
    }

    /// How many records there are after the operations so far.
    pub(crate) fn record_count(&self) -> u64 {
        self.record_count
    }

    pub(crate) fn next_op(&mut self) -> YcsbOp {
        let percent = self.prng.below(100);
        match self.workload {
            YcsbWorkload::A if percent < 50 => YcsbOp::Read(self.scrambled()),
            YcsbWorkload::A => YcsbOp::Update(self.scrambled()),
            YcsbWorkload::B if percent < 95 => YcsbOp::Read(self.scrambled()),
            YcsbWorkload::B => YcsbOp::Update(self.scrambled()),
            YcsbWorkload::C => YcsbOp::Read(self.scrambled()),
            YcsbWorkload::D if percent < 95 => YcsbOp::Read(self.latest()),
            YcsbWorkload::D => self.insert(),
            YcsbWorkload::E if percent < 95 => {
                let first = self.scrambled();
                YcsbOp::Scan(first, 1 + self.prng.below(SCAN_LEN_MAX))
            }
            YcsbWorkload::E => self.insert(),
            YcsbWorkload::F if percent < 50 => YcsbOp::Read(self.scrambled()),
            YcsbWorkload::F => YcsbOp::ReadModifyWrite(self.scrambled()),
            YcsbWorkload::Mix { read_percent } if percent < u64::from(read_percent) => {
                YcsbOp::Read(self.scrambled())
            }
            YcsbWorkload::Mix { .. } => YcsbOp::Update(self.scrambled()),
        }
    }

    fn insert(&mut self) -> YcsbOp {
        self.record_count += 1;
        self.zipfian.grow(self.record_count);
        YcsbOp::Insert(self.record_count - 1)
    }

    /// Popular records lie anywhere: the rank is scattered over the numbers.
    fn scrambled(&mut self) -> u64 {
        let rank = self.zipfian.next(&mut self.prng);
        scatter(rank) % self.record_count
    }

    /// The newest record is the most popular.
    fn latest(&mut self) -> u64 {
        let rank = self.zipfian.next(&mut self.prng);
        self.record_count - 1 - rank.min(self.record_count - 1)
    }
}

/// Scatters numbers over all of `u64`, each to another place: SplitMix64's finalizer.
pub(crate) fn scatter(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Ranks from 0 on, rank `r` with a probability proportional to `1 / (r + 1)^0.99`.
#[derive(Clone, Debug)]
struct Zipfian {
    item_count: u64,
    zeta: f64,
    zeta_2: f64,
    alpha: f64,
}

impl Zipfian {
    fn new(item_count: u64) -> Zipfian {
        let mut zipfian = Zipfian {
            item_count: 0,
            zeta: 0.0,
            zeta_2: 1.0 + pow(0.5, THETA),
            alpha: 1.0 / (1.0 - THETA),
        };
        zipfian.grow(item_count);
        zipfian
    }

    /// Adds items up to `item_count`. Cost: one power an item.
    fn grow(&mut self, item_count: u64) {
        for item in self.item_count..item_count {
            self.zeta += 1.0 / pow((item + 1) as f64, THETA);
        }
        self.item_count = self.item_count.max(item_count);
    }

    fn next(&self, prng: &mut Prng) -> u64 {
        // 53 bits: what a double holds exactly.
        let u = (prng.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
        let uz = u * self.zeta;
        if uz < 1.0 || self.item_count < 2 {
            return 0;
        }
        if uz < self.zeta_2 {
            return 1;
        }
        let items = self.item_count as f64;
        let eta = (1.0 - pow(2.0 / items, 1.0 - THETA)) / (1.0 - self.zeta_2 / self.zeta);
        let rank = items * pow(eta * u - eta + 1.0, self.alpha);
        (rank as u64).min(self.item_count - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zipfian_ranks_follow_the_law() {
        let zipfian = Zipfian::new(1000);
        let mut prng = Prng::new(1);
        let mut counts = vec![0_u32; 1000];
        for _ in 0..100_000 {
            counts[zipfian.next(&mut prng) as usize] += 1;
        }
        // 1 / zeta(1000) is 13 %; rank 1 has half of that.
        assert!((12_000..14_500).contains(&counts[0]), "{}", counts[0]);
        assert!((5_500..7_500).contains(&counts[1]), "{}", counts[1]);
        assert!(counts[500..].iter().sum::<u32>() > 5_000);
    }

    #[test]
    fn mixes_are_as_the_workload_says() {
        let mixes = [10, 90].map(|read_percent| YcsbWorkload::Mix { read_percent });
        for workload in YcsbWorkload::ALL.into_iter().chain(mixes) {
            let mut stream = YcsbStream::new(workload, Prng::new(3), 1000);
            let ops: Vec<YcsbOp> = (0..10_000).map(|_| stream.next_op()).collect();
            let share = |wanted: fn(&YcsbOp) -> bool| ops.iter().filter(|op| wanted(op)).count();
            let reads = share(|op| matches!(op, YcsbOp::Read(_)));
            let inserts = share(|op| matches!(op, YcsbOp::Insert(_)));
            match workload {
                YcsbWorkload::A | YcsbWorkload::F => assert!((4_800..5_200).contains(&reads)),
                YcsbWorkload::B | YcsbWorkload::D => assert!((9_400..9_600).contains(&reads)),
                YcsbWorkload::C => assert_eq!(reads, 10_000),
                YcsbWorkload::E => assert_eq!(reads, 0),
                YcsbWorkload::Mix { read_percent } => {
                    assert!(reads.abs_diff(100 * usize::from(read_percent)) < 200);
                    assert_eq!(workload.to_string().len(), "R90:W10".len());
                }
            }
            assert_eq!(stream.record_count(), 1000 + inserts as u64);
            for op in ops {
                let (YcsbOp::Read(n)
                | YcsbOp::Update(n)
                | YcsbOp::Insert(n)
                | YcsbOp::Scan(n, _)
                | YcsbOp::ReadModifyWrite(n)) = op;
                assert!(n < stream.record_count());
            }
        }
    }

    #[test]
    fn latest_prefers_what_came_last() {
        let mut stream = YcsbStream::new(YcsbWorkload::D, Prng::new(5), 10_000);
        let near_the_end = (0..1000)
            .filter(|_| match stream.next_op() {
                YcsbOp::Read(n) => n + 100 >= stream.record_count(),
                _ => true,
            })
            .count();
        assert!(near_the_end > 450, "{near_the_end}");
    }
}

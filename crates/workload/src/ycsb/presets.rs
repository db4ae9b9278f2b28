//! The core workloads A to F, as the published figures use them.
//!
//! ```text
//!   workload   operations                       records are chosen
//!   A          50 % read, 50 % update           zipfian, hashed
//!   B          95 % read, 5 % update            zipfian, hashed
//!   C          100 % read                       zipfian, hashed
//!   D          95 % read, 5 % insert            latest: zipfian from the newest back
//!   E          95 % scan (1 to 100), 5 % insert zipfian, hashed
//!   F          50 % read, 50 % read-modify-write zipfian, hashed
//! ```
//!
//! Records are chosen as by YCSB's own property files: there are ten billion ranks, whatever the
//! number of records. Ranks are hashed into the number of records that a run will have at its end,
//! so that insertions do not change which records are hot.

use super::keys::{InsertSequence, KeyChooser};
use super::lengths::Lengths;
use super::stream::{Mix, OpKind, YcsbStream};
use super::zipf::Zipfian;
use imbrex_clockwork::Prng;
use serde::Serialize;
use std::fmt;
use std::sync::Arc;

/// The longest scan of workload E.
const SCAN_LEN_MAX: u64 = 100;

/// One of the six core workloads, or another mix that figures use.
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
    /// Reads and updates in another ratio; not a core workload.
    Mix {
        /// Reads per hundred operations.
        read_percent: u8,
    },
    /// Only inserts; not a core workload.
    Inserts,
    /// Scans with the lengths of workload E from uniformly chosen records; the rest is half inserts
    /// and half updates. Not a core workload.
    Scans {
        /// Scans per hundred operations.
        scan_percent: u8,
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
            YcsbWorkload::Inserts => "inserts",
            YcsbWorkload::Scans { scan_percent: 100 } => "scans",
            YcsbWorkload::Scans { scan_percent } => {
                return write!(f, "{scan_percent} % scans");
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

impl YcsbWorkload {
    /// A stream of `op_count` operations on a store with `record_count` records, from a seed.
    pub fn stream(self, prng: Prng, record_count: u64, op_count: u64) -> YcsbStream {
        let mix = self.mix();
        let count = record_count.max(1);
        let keys = match self {
            YcsbWorkload::D => KeyChooser::Latest(Zipfian::new(count)),
            YcsbWorkload::Scans { .. } => KeyChooser::Uniform { first: 0, count },
            _ => KeyChooser::scrambled(0, count, op_count as f64 * mix.share(OpKind::Insert)),
        };
        YcsbStream {
            mix,
            keys,
            scan_lengths: Lengths::Uniform { min: 1, max: SCAN_LEN_MAX },
            records: Arc::new(InsertSequence::new(match self {
                YcsbWorkload::Inserts => record_count,
                _ => record_count.max(1),
            })),
            prng,
        }
    }

    fn mix(self) -> Mix {
        let (first, percent, second) = match self {
            YcsbWorkload::A => (OpKind::Read, 50, OpKind::Update),
            YcsbWorkload::B => (OpKind::Read, 95, OpKind::Update),
            YcsbWorkload::C => (OpKind::Read, 100, OpKind::Update),
            YcsbWorkload::D => (OpKind::Read, 95, OpKind::Insert),
            YcsbWorkload::E => (OpKind::Scan, 95, OpKind::Insert),
            YcsbWorkload::F => (OpKind::Read, 50, OpKind::ReadModifyWrite),
            YcsbWorkload::Mix { read_percent } => {
                (OpKind::Read, u64::from(read_percent.min(100)), OpKind::Update)
            }
            YcsbWorkload::Inserts => (OpKind::Insert, 100, OpKind::Update),
            YcsbWorkload::Scans { scan_percent } => {
                let scan_percent = u64::from(scan_percent.min(100));
                let rest = 100 - scan_percent;
                return Mix::new(&[
                    (OpKind::Scan, 2 * scan_percent),
                    (OpKind::Insert, rest),
                    (OpKind::Update, rest),
                ]);
            }
        };
        Mix::new(&[(first, percent), (second, 100 - percent)])
    }
}

#[cfg(test)]
mod tests {
    use super::super::stream::YcsbOp;
    use super::*;

    #[test]
    fn mixes_are_as_the_workload_says() {
        let mixes = [10, 90].map(|read_percent| YcsbWorkload::Mix { read_percent });
        let scans = [70, 100].map(|scan_percent| YcsbWorkload::Scans { scan_percent });
        let mixes = mixes.into_iter().chain(scans).chain([YcsbWorkload::Inserts]);
        for workload in YcsbWorkload::ALL.into_iter().chain(mixes) {
            let mut stream = workload.stream(Prng::new(3), 1000, 10_000);
            let mut next = || {
                let op = stream.next_op();
                stream.ended(op);
                (op, stream.record_count())
            };
            let ops: Vec<(YcsbOp, u64)> = (0..10_000).map(|_| next()).collect();
            let share = |kind| ops.iter().filter(|(op, _)| op.kind() == kind).count();
            let reads = share(OpKind::Read);
            match workload {
                YcsbWorkload::A | YcsbWorkload::F => assert!((4_800..5_200).contains(&reads)),
                YcsbWorkload::B | YcsbWorkload::D => assert!((9_400..9_600).contains(&reads)),
                YcsbWorkload::C => assert_eq!(reads, 10_000),
                YcsbWorkload::E => assert_eq!(reads, 0),
                YcsbWorkload::Inserts => assert_eq!(share(OpKind::Insert), 10_000),
                YcsbWorkload::Scans { scan_percent } => {
                    assert!(share(OpKind::Scan).abs_diff(100 * usize::from(scan_percent)) < 200);
                    assert!(share(OpKind::Insert).abs_diff(share(OpKind::Update)) < 200);
                }
                YcsbWorkload::Mix { read_percent } => {
                    assert!(reads.abs_diff(100 * usize::from(read_percent)) < 200);
                    assert_eq!(workload.to_string().len(), "R90:W10".len());
                }
            }
            assert_eq!(ops[9_999].1, 1000 + share(OpKind::Insert) as u64);
            assert!(ops.iter().all(|(op, record_count)| op.record() < *record_count), "K1");
        }
    }

    #[test]
    fn latest_prefers_what_came_last() {
        let mut stream = YcsbWorkload::D.stream(Prng::new(5), 10_000, 1000);
        let near_the_end = (0..1000)
            .filter(|_| {
                let op = stream.next_op();
                stream.ended(op);
                op.record() + 100 >= stream.record_count()
            })
            .count();
        assert!(near_the_end > 450, "{near_the_end}");
    }

    /// How often operations other than inserts chose each record.
    fn counts(workload: YcsbWorkload, record_count: u64, op_count: u64) -> Vec<u64> {
        let mut stream = workload.stream(Prng::new(7), record_count, op_count);
        let mut counts = vec![0; (record_count + op_count) as usize];
        for _ in 0..op_count {
            let op = stream.next_op();
            stream.ended(op);
            if op.kind() != OpKind::Insert {
                counts[op.record() as usize] += 1;
            }
        }
        counts
    }

    #[test]
    fn insertions_change_nothing_about_which_records_are_hot() {
        // 19,000 scans. The first of YCSB's ranks has 3.78 %, and more where other ranks are drawn
        // again.
        let counts = counts(YcsbWorkload::E, 10_000, 20_000);
        let hottest = counts.iter().max().copied().unwrap_or(0);
        assert!(hottest >= 19_000 * 37 / 1000, "{hottest}");
    }

    #[test]
    fn every_record_can_be_asked_for() {
        let counts = counts(YcsbWorkload::C, 10_000, 300_000);
        let reached = counts.iter().filter(|count| **count > 0).count();
        assert!(reached > 9_000, "{reached}");
    }

    /// A change of operations changes every figure that uses a workload.
    #[test]
    fn streams_of_operations_stay_the_same() {
        let said = |workload: YcsbWorkload| {
            let mut stream = workload.stream(Prng::new(1), 1000, 5_000);
            let mut hash = 0xcbf2_9ce4_8422_2325_u64;
            for _ in 0..5_000 {
                let op = stream.next_op();
                stream.ended(op);
                for byte in format!("{op:?}").bytes() {
                    hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
                }
            }
            hash
        };
        let got = YcsbWorkload::ALL.map(said);
        assert_eq!(got, GOLDEN, "{got:#x?}");
    }

    const GOLDEN: [u64; 6] = [
        0x4c6f_008d_4cda_435d,
        0xe076_10c6_8d05_8f2f,
        0x636a_ad4e_222d_b56d,
        0x3955_20d7_6030_77e7,
        0x245d_239f_9100_20b3,
        0x2616_0c62_95ad_e0d5,
    ];
}

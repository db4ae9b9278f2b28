//! Which keys in which order with which values: decided by the seed alone.
//!
//! ```text
//!   key number 0 .. num      8 bytes big-endian, then '0' up to the key's size
//!   an absent key            a present one with one more '0' at its end: in range, never written
//!   value                    the next slice of a pool made once, so that making values costs nothing
//! ```
//!
//! Each client draws from its own stream of the seed, so that another client more does not change
//! what the others do.

use imbrex_clockwork::Prng;
use std::fmt;
use std::str::FromStr;

/// One benchmark, under db_bench's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Benchmark {
    /// Write all keys in order.
    FillSeq,
    /// Write `num` keys drawn at random, some of them more than once.
    FillRandom,
    /// Write every key once, in random order.
    FillUniqueRandom,
    /// As `FillRandom`, syncing the log at every write; a thousandth as many.
    FillSync,
    /// Write `num` random keys over what is there.
    Overwrite,
    /// Get random keys.
    ReadRandom,
    /// Get random keys, `batch_size` a call.
    MultiReadRandom,
    /// Get keys that are not there.
    ReadMissing,
    /// Iterate from the first key on.
    ReadSeq,
    /// Iterate from the last key back.
    ReadReverse,
    /// Seek to random keys, and go on for `seek_nexts`.
    SeekRandom,
    /// As `ReadRandom`, while one more client overwrites as fast as it can.
    ReadWhileWriting,
    /// Delete all keys in order.
    DeleteSeq,
    /// Delete `num` random keys.
    DeleteRandom,
    /// Flush the memtable.
    Flush,
    /// Compact everything.
    Compact,
    /// Wait until no background work is left.
    WaitForCompaction,
}

/// Each benchmark and its name; the order is that of the help text.
const NAMES: [(Benchmark, &str); 17] = [
    (Benchmark::FillSeq, "fillseq"),
    (Benchmark::FillRandom, "fillrandom"),
    (Benchmark::FillUniqueRandom, "filluniquerandom"),
    (Benchmark::FillSync, "fillsync"),
    (Benchmark::Overwrite, "overwrite"),
    (Benchmark::ReadRandom, "readrandom"),
    (Benchmark::MultiReadRandom, "multireadrandom"),
    (Benchmark::ReadMissing, "readmissing"),
    (Benchmark::ReadSeq, "readseq"),
    (Benchmark::ReadReverse, "readreverse"),
    (Benchmark::SeekRandom, "seekrandom"),
    (Benchmark::ReadWhileWriting, "readwhilewriting"),
    (Benchmark::DeleteSeq, "deleteseq"),
    (Benchmark::DeleteRandom, "deleterandom"),
    (Benchmark::Flush, "flush"),
    (Benchmark::Compact, "compact"),
    (Benchmark::WaitForCompaction, "waitforcompaction"),
];

impl Benchmark {
    /// Whether it starts with an empty store.
    pub(crate) fn is_fresh(self) -> bool {
        matches!(
            self,
            Benchmark::FillSeq
                | Benchmark::FillRandom
                | Benchmark::FillUniqueRandom
                | Benchmark::FillSync
        )
    }

    /// Whether its clients change the store, so that it leaves background work behind.
    pub(crate) fn is_write(self) -> bool {
        self.is_fresh()
            || matches!(
                self,
                Benchmark::Overwrite
                    | Benchmark::ReadWhileWriting
                    | Benchmark::DeleteSeq
                    | Benchmark::DeleteRandom
            )
    }

    /// Whether its length is `--reads` rather than `--num`.
    pub(crate) fn is_read(self) -> bool {
        matches!(
            self,
            Benchmark::ReadRandom
                | Benchmark::MultiReadRandom
                | Benchmark::ReadMissing
                | Benchmark::ReadSeq
                | Benchmark::ReadReverse
                | Benchmark::SeekRandom
                | Benchmark::ReadWhileWriting
        )
    }
}

impl fmt::Display for Benchmark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = NAMES.iter().find(|(b, _)| b == self).map_or("unnamed", |(_, name)| name);
        f.pad(name)
    }
}

impl FromStr for Benchmark {
    type Err = String;
    fn from_str(text: &str) -> Result<Benchmark, String> {
        NAMES.iter().find(|(_, name)| *name == text).map(|(b, _)| *b).ok_or_else(|| {
            let names: Vec<&str> = NAMES.iter().map(|(_, name)| *name).collect();
            format!("{text:?} is no benchmark here; there are {}", names.join(", "))
        })
    }
}

/// A benchmark to run, and how many operations a client does if not the usual number:
/// `readrandom`, `readrandom:20000`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Task {
    /// What to run.
    pub benchmark: Benchmark,
    /// Operations a client; by default `--num`, or `--reads` for one that reads.
    pub ops: Option<u64>,
}

impl FromStr for Task {
    type Err = String;
    fn from_str(text: &str) -> Result<Task, String> {
        let Some((name, ops)) = text.split_once(':') else {
            return Ok(Task { benchmark: text.parse()?, ops: None });
        };
        let ops = ops.parse().map_err(|e| format!("operations of {text:?}: {e}"))?;
        Ok(Task { benchmark: name.parse()?, ops: Some(ops) })
    }
}

/// Writes key numbers as keys into a buffer of its own.
#[derive(Clone, Debug)]
pub(crate) struct KeyMaker {
    /// One byte longer than a present key.
    buf: Vec<u8>,
}

impl KeyMaker {
    pub(crate) fn new(key_len_bytes: usize) -> KeyMaker {
        KeyMaker { buf: vec![b'0'; key_len_bytes + 1] }
    }

    /// The key of `number`.
    pub(crate) fn present(&mut self, number: u64) -> &[u8] {
        self.buf[..8].copy_from_slice(&number.to_be_bytes());
        &self.buf[..self.buf.len() - 1]
    }

    /// A key next to that of `number` which no benchmark writes.
    pub(crate) fn absent(&mut self, number: u64) -> &[u8] {
        self.buf[..8].copy_from_slice(&number.to_be_bytes());
        &self.buf
    }
}

/// Values that shrink by a given ratio, handed out as slices of one pool.
#[derive(Clone, Debug)]
pub(crate) struct ValuePool {
    pool: Vec<u8>,
    next: usize,
    value_len_bytes: usize,
}

impl ValuePool {
    /// Pieces of a hundred bytes, as in db_bench: a compressor sees the repetition inside one.
    const PIECE_LEN_BYTES: usize = 100;
    const LEN_BYTES_MIN: usize = 1 << 20;

    pub(crate) fn new(mut prng: Prng, value_len_bytes: usize, compression_ratio: f64) -> ValuePool {
        let fresh_len = (Self::PIECE_LEN_BYTES as f64 * compression_ratio).round() as usize;
        let fresh_len = fresh_len.clamp(1, Self::PIECE_LEN_BYTES);
        let mut pool = Vec::with_capacity(Self::LEN_BYTES_MIN + Self::PIECE_LEN_BYTES);
        while pool.len() < Self::LEN_BYTES_MIN.max(value_len_bytes) {
            let start = pool.len();
            pool.extend((0..fresh_len).map(|_| b' ' + prng.below(95) as u8));
            for i in fresh_len..Self::PIECE_LEN_BYTES {
                pool.push(pool[start + i - fresh_len]);
            }
        }
        ValuePool { pool, next: 0, value_len_bytes }
    }

    /// The next value.
    pub(crate) fn next_value(&mut self) -> &[u8] {
        if self.next + self.value_len_bytes > self.pool.len() {
            self.next = 0;
        }
        let start = self.next;
        self.next += self.value_len_bytes;
        &self.pool[start..start + self.value_len_bytes]
    }
}

/// A fixed permutation of `0..len`: each number exactly once, in an order that looks random.
///
/// A Feistel network over the next even power of two, walked until it lands inside the range; no
/// memory, and any position is computed on its own, so that clients can share one permutation.
#[derive(Clone, Debug)]
pub(crate) struct Permutation {
    len: u64,
    half_bits: u32,
    round_keys: [u64; 4],
}

impl Permutation {
    pub(crate) fn new(prng: &mut Prng, len: u64) -> Permutation {
        let bits = 64 - len.saturating_sub(1).leading_zeros();
        let half_bits = bits.div_ceil(2).max(1);
        Permutation { len, half_bits, round_keys: std::array::from_fn(|_| prng.next_u64()) }
    }

    /// The number at `position < len`.
    pub(crate) fn at(&self, position: u64) -> u64 {
        assert!(position < self.len, "a permutation has as many positions as members");
        let mask = (1_u64 << self.half_bits) - 1;
        let mut number = position;
        loop {
            let (mut left, mut right) = (number >> self.half_bits, number & mask);
            for key in self.round_keys {
                let mixed = (right ^ key).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                (left, right) = (right, left ^ ((mixed >> 29) & mask));
            }
            number = left << self.half_bits | right;
            // The network permutes the power of two; its cycles pass through the range again.
            if number < self.len {
                return number;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_go_there_and_back() {
        for (benchmark, name) in NAMES {
            assert_eq!(benchmark.to_string(), name);
            assert_eq!(name.parse::<Benchmark>(), Ok(benchmark));
        }
        let task = |text: &str| text.parse::<Task>().map(|t| (t.benchmark, t.ops));
        assert_eq!(task("readseq"), Ok((Benchmark::ReadSeq, None)));
        assert_eq!(task("readseq:7"), Ok((Benchmark::ReadSeq, Some(7))));
        assert!(task("readseq:-1").is_err());
        assert!(task(":7").is_err());
        let error = "fillrandon".parse::<Benchmark>().unwrap_err();
        assert!(error.contains("fillrandom"), "{error}");
    }

    #[test]
    fn a_permutation_hits_every_number_once() {
        for len in [1, 2, 3, 16, 17, 1000, 4096, 4097] {
            let permutation = Permutation::new(&mut Prng::new(7), len);
            let mut numbers: Vec<u64> = (0..len).map(|i| permutation.at(i)).collect();
            if len == 1000 {
                assert_ne!(numbers[..3], [0, 1, 2]);
            }
            numbers.sort_unstable();
            assert_eq!(numbers, (0..len).collect::<Vec<u64>>());
        }
    }

    #[test]
    fn keys_sort_as_their_numbers_and_absent_ones_lie_between() {
        let mut keys = KeyMaker::new(16);
        let one = keys.present(1).to_vec();
        let missing = keys.absent(1).to_vec();
        let two = keys.present(2).to_vec();
        assert_eq!((one.len(), two.len()), (16, 16));
        assert!(one < missing);
        assert!(missing < two);
    }

    #[test]
    fn values_follow_the_seed_and_wrap() {
        let pool = |seed| ValuePool::new(Prng::new(seed), 300_000, 0.5);
        let (mut a, mut b, mut other) = (pool(1), pool(1), pool(2));
        let first = a.next_value().to_vec();
        assert_eq!(first, b.next_value());
        assert_ne!(first, other.next_value());
        assert_eq!(first[..50], first[50..100], "half of a piece repeats the other half");
        a.next_value();
        a.next_value();
        assert_eq!(a.next_value(), first, "the pool starts over");
        assert_eq!(ValuePool::new(Prng::new(1), 3 << 20, 0.0).next_value().len(), 3 << 20);
        assert_eq!(ValuePool::new(Prng::new(1), 0, 1.0).next_value().len(), 0);
    }
}

//! Keys and values of db_bench's benchmarks, derived from the seed alone.
//!
//! ```text
//!   key number 0 .. num      8 bytes big-endian, then '0' up to the key's size
//!   an absent key            a present one with one more '0' at its end: in range, never written
//!   an overwritten key       by its skew: each equally often, or some more often
//!   value                    the next slice of a pool made once, so that making values costs nothing
//! ```
//!
//! Each client draws from its own stream of the seed, so a further client does not change what the
//! others do.

use crate::ycsb::keys::{KeyChooser, MILLION};
use imbrex_clockwork::Prng;
use std::fmt;
use std::str::FromStr;

/// Which keys are overwritten more often than others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Skew {
    /// None.
    #[default]
    Uniform,
    /// A few all over the key range, by YCSB's scrambled zipfian distribution.
    Zipfian,
    /// The first tenth of the key range takes nine tenths of the overwrites.
    HotRange,
}

impl Skew {
    const ALL: [Skew; 3] = [Skew::Uniform, Skew::Zipfian, Skew::HotRange];

    fn name(self) -> &'static str {
        match self {
            Skew::Uniform => "uniform",
            Skew::Zipfian => "zipfian",
            Skew::HotRange => "hot-range",
        }
    }
}

impl fmt::Display for Skew {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Skew {
    type Err = String;

    fn from_str(text: &str) -> Result<Skew, String> {
        let found = Skew::ALL.into_iter().find(|skew| skew.name() == text);
        found.ok_or_else(|| format!("{text:?} is none of {}", Skew::ALL.map(Skew::name).join(", ")))
    }
}

/// Draws the numbers of keys.
#[derive(Clone, Debug)]
pub struct KeyDraw {
    chooser: KeyChooser,
    count: u64,
}

impl KeyDraw {
    /// Draws below `count` (at least 1).
    pub fn new(skew: Skew, count: u64) -> KeyDraw {
        let hot_count = count / 10;
        let chooser = match skew {
            Skew::Uniform => KeyChooser::Uniform { first: 0, count },
            Skew::Zipfian => KeyChooser::scrambled(0, count, 0.0),
            Skew::HotRange => KeyChooser::Hotspot {
                first: 0,
                hot_count,
                cold_count: count - hot_count,
                hot_per_million: MILLION / 10 * 9,
            },
        };
        KeyDraw { chooser, count }
    }

    /// The number of the next key.
    pub fn next(&mut self, prng: &mut Prng) -> u64 {
        self.chooser.next(prng, self.count)
    }
}

/// Writes key numbers as keys into its own buffer.
#[derive(Clone, Debug)]
pub struct KeyMaker {
    /// One byte longer than a present key.
    buf: Vec<u8>,
}

impl KeyMaker {
    /// Makes keys of `key_len_bytes`, at least 8.
    pub fn new(key_len_bytes: usize) -> KeyMaker {
        KeyMaker { buf: vec![b'0'; key_len_bytes + 1] }
    }

    /// The key of `number`.
    pub fn present(&mut self, number: u64) -> &[u8] {
        self.buf[..8].copy_from_slice(&number.to_be_bytes());
        &self.buf[..self.buf.len() - 1]
    }

    /// A key adjacent to that of `number` that no benchmark writes.
    pub fn absent(&mut self, number: u64) -> &[u8] {
        self.buf[..8].copy_from_slice(&number.to_be_bytes());
        &self.buf
    }
}

/// Values that compress by a given ratio, as slices of one pool.
#[derive(Clone, Debug)]
pub struct ValuePool {
    pool: Vec<u8>,
    next: usize,
    value_len_bytes: usize,
}

impl ValuePool {
    /// Pieces of a hundred bytes, as in db_bench: a compressor finds the repetition within a piece.
    const PIECE_LEN_BYTES: usize = 100;
    const LEN_BYTES_MIN: usize = 1 << 20;

    /// Values of `value_len_bytes` that a compressor shrinks to `compression_ratio` of their length.
    pub fn new(mut prng: Prng, value_len_bytes: usize, compression_ratio: f64) -> ValuePool {
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
    pub fn next_value(&mut self) -> &[u8] {
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
/// A Feistel network over the next even power of two, repeated until the result is inside the
/// range. It needs no memory, and each position is computed independently, so clients can share one
/// permutation.
#[derive(Clone, Debug)]
pub struct Permutation {
    len: u64,
    half_bits: u32,
    round_keys: [u64; 4],
}

impl Permutation {
    /// A permutation of `0..len`, drawn from `prng`.
    pub fn new(prng: &mut Prng, len: u64) -> Permutation {
        let bits = 64 - len.saturating_sub(1).leading_zeros();
        let half_bits = bits.div_ceil(2).max(1);
        Permutation { len, half_bits, round_keys: std::array::from_fn(|_| prng.next_u64()) }
    }

    /// The number at `position < len`.
    pub fn at(&self, position: u64) -> u64 {
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
            // The network permutes the power of two, so each of its cycles returns to the range.
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
    fn skewed_draws_are_as_skewed_as_they_say() {
        const COUNT: u64 = 1_000;
        let draws = |skew: Skew| {
            let (mut draw, mut prng) = (KeyDraw::new(skew, COUNT), Prng::new(3));
            let mut counts = vec![0_u64; COUNT as usize];
            (0..100_000).for_each(|_| counts[draw.next(&mut prng) as usize] += 1);
            counts
        };
        let uniform = draws(Skew::Uniform);
        assert!(uniform.iter().all(|count| (50..160).contains(count)), "{uniform:?}");
        let hot: u64 = draws(Skew::HotRange)[..COUNT as usize / 10].iter().sum();
        assert!((89_000..91_000).contains(&hot), "{hot}");
        let mut zipfian = draws(Skew::Zipfian);
        let firsts: u64 = zipfian[..COUNT as usize / 10].iter().sum();
        assert!(firsts < 30_000, "the hot keys are all over the range: {firsts}");
        zipfian.sort_unstable();
        let hottest: u64 = zipfian[COUNT as usize / 10 * 9..].iter().sum();
        assert!(hottest > 25_000, "{hottest}");
    }

    #[test]
    fn skews_are_parsed_by_their_names() {
        for (skew, name) in
            [(Skew::Uniform, "uniform"), (Skew::Zipfian, "zipfian"), (Skew::HotRange, "hot-range")]
        {
            assert_eq!((name.parse(), skew.to_string()), (Ok(skew), name.to_owned()));
        }
        assert!("zipf".parse::<Skew>().unwrap_err().contains("uniform, zipfian, hot-range"));
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

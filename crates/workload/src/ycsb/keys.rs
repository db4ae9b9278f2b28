//! The record that an operation uses, and the record's key.
//!
//! ```text
//!   record number   0 ... insert_start ......... insert_start + insert_count ... newest
//!                         |  uniform, zipfian, hotspot, sequential  |              |
//!                                                exponential, latest: back from <--+
//!   key             "user" + number                     insertorder=ordered
//!                   "user" + FNV-1a hash of the number  insertorder=hashed
//! ```
//!
//! Invariants
//!   K1  No operation uses a record whose insertion has not ended, on any thread.
//!
//! Source: YCSB's CoreWorkload and its generators.

use super::zipf::{Zipfian, unit};
use imbrex_clockwork::Prng;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Numbers of records to insert, and the number below which all insertions have ended.
#[derive(Debug)]
pub struct InsertSequence {
    /// All records below this number exist (K1).
    ended_below: AtomicU64,
    state: Mutex<Inserting>,
}

#[derive(Debug)]
struct Inserting {
    next: u64,
    /// Ended while an earlier insertion has not.
    ended_early: BTreeSet<u64>,
}

impl InsertSequence {
    /// A sequence whose next record is `first`; all records below it exist.
    pub fn new(first: u64) -> InsertSequence {
        let state = Mutex::new(Inserting { next: first, ended_early: BTreeSet::new() });
        InsertSequence { ended_below: AtomicU64::new(first), state }
    }

    /// Returns the number of a record that no other client inserts.
    pub fn begin(&self) -> u64 {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.next += 1;
        state.next - 1
    }

    /// Records that the insertion of `number` has ended, successfully or not.
    pub fn end(&self, number: u64) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let mut ended_below = self.ended_below.load(Ordering::Relaxed);
        state.ended_early.insert(number);
        while state.ended_early.remove(&ended_below) {
            ended_below += 1;
        }
        self.ended_below.store(ended_below, Ordering::Release);
    }

    /// The number of records, counted from number 0.
    pub fn record_count(&self) -> u64 {
        self.ended_below.load(Ordering::Acquire)
    }
}

/// The distribution of requests over records.
#[derive(Clone, Debug)]
pub(crate) enum KeyChooser {
    /// Each record of a range equally often.
    Uniform { first: u64, count: u64 },
    /// One after another, cyclically, shared by all clients.
    Sequential { first: u64, count: u64, next: Arc<AtomicU64> },
    /// YCSB's scrambled zipfian: one of ten billion ranks, hashed into a range.
    Scrambled { first: u64, count: u64, ranks: Zipfian },
    /// Zipfian, counted back from the newest record.
    Latest(Zipfian),
    /// `hot_per_million` of a million operations go to the first records, the rest to the others.
    Hotspot { first: u64, hot_count: u64, cold_count: u64, hot_per_million: u64 },
    /// Exponential, counted back from the newest record; the mean distance is `1 / gamma`.
    Exponential { gamma: f64 },
}

/// The maximum number of draws. They all miss an existing record only if almost none of the
/// expected records exist; then any record serves.
const DRAW_COUNT_MAX: u32 = 10_000;

/// The base of `hot_per_million`.
pub(crate) const MILLION: u64 = 1_000_000;

impl KeyChooser {
    /// YCSB's `zipfian` over `count` records from `first`, to which a run is expected to add
    /// `expected_inserts`.
    pub(crate) fn scrambled(first: u64, count: u64, expected_inserts: f64) -> KeyChooser {
        // The final number of records, so that insertions do not change which records are hot; plus
        // one, and twice the insertions, as in YCSB.
        let count = count.saturating_add(1).saturating_add((2.0 * expected_inserts) as u64);
        KeyChooser::Scrambled { first, count, ranks: Zipfian::scrambled() }
    }

    /// The next record among the `record_count` (at least one) existing ones.
    pub(crate) fn next(&mut self, prng: &mut Prng, record_count: u64) -> u64 {
        let record_count = record_count.max(1);
        if let KeyChooser::Latest(ranks) = self {
            ranks.grow(record_count);
            return record_count - 1 - ranks.next(prng).min(record_count - 1);
        }
        for _ in 0..DRAW_COUNT_MAX {
            let number = self.draw(prng, record_count);
            if number < record_count {
                return number;
            }
        }
        let first = match self {
            KeyChooser::Uniform { first, .. }
            | KeyChooser::Sequential { first, .. }
            | KeyChooser::Scrambled { first, .. }
            | KeyChooser::Hotspot { first, .. } => (*first).min(record_count - 1),
            KeyChooser::Latest(_) | KeyChooser::Exponential { .. } => 0,
        };
        first + prng.below(record_count - first)
    }

    fn draw(&mut self, prng: &mut Prng, record_count: u64) -> u64 {
        match self {
            KeyChooser::Uniform { first, count } => *first + prng.below(*count),
            KeyChooser::Sequential { first, count, next } => {
                *first + next.fetch_add(1, Ordering::Relaxed) % *count
            }
            KeyChooser::Scrambled { first, count, ranks } => {
                *first + hash(ranks.next(prng)) % *count
            }
            KeyChooser::Hotspot { first, hot_count, cold_count, hot_per_million } => {
                let is_hot = prng.chance(*hot_per_million, MILLION);
                if *cold_count == 0 || (is_hot && *hot_count > 0) {
                    *first + prng.below(*hot_count)
                } else {
                    *first + *hot_count + prng.below(*cold_count)
                }
            }
            KeyChooser::Exponential { gamma } => {
                // One minus it lies above 0, where the logarithm is finite.
                let back = -libm::log(1.0 - unit(prng)) / *gamma;
                (record_count - 1).checked_sub(back as u64).unwrap_or(u64::MAX)
            }
            KeyChooser::Latest(_) => unreachable!("draws only existing records"),
        }
    }
}

/// Scatters numbers over all of `u64` without collisions: SplitMix64's finalizer.
pub fn scatter(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// YCSB's hash of a number: FNV-1a over its eight bytes, lowest first, as a signed number without
/// its sign.
pub(crate) fn hash(number: u64) -> u64 {
    let hash = number.to_le_bytes().iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    (hash as i64).unsigned_abs()
}

/// The form of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyNames {
    /// Whether keys are the numbers themselves, instead of their hashes.
    pub(crate) is_ordered: bool,
    /// The minimum number of digits.
    pub(crate) digit_count_min: usize,
}

impl KeyNames {
    /// Writes the key of record `number` into `key`.
    pub fn write(self, number: u64, key: &mut String) {
        let number = if self.is_ordered { number } else { hash(number) };
        key.clear();
        let width = self.digit_count_min;
        write!(key, "user{number:0width$}").expect("writing to a string never fails");
    }
}

#[cfg(test)]
mod tests;

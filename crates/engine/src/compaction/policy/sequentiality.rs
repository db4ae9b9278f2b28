//! Sequentiality: how much of a table is already in order, judged by where its bytes and those of
//! other tables are in the key space.
//!
//! ```text
//!   table    |  share 0  |  share 1  |  share 2  |  share 3  |      equal bytes in each
//!   others          .:::::::::::::.                    .
//!   alone     no          no          yes         yes: next to nothing is inserted
//! ```
//!
//! A share of another table is spread evenly over the shares of this table that it touches: the
//! table's own keys measure the distance between keys. The estimate errs on the safe side at the
//! table's ends, where a share counts in full although part of it is outside the table.
//!
//! Source: SMRDB (3.2.3 of the thesis), which does not define "insert"; see
//! `docs/decisions/0013-smrdb.md`.

use crate::table::Histogram;

/// Other tables do not insert into a share if they have less than 1 / `INSERT_RATIO` of its bytes
/// there: a merge would copy much to insert next to nothing.
const INSERT_RATIO: u64 = 8;

/// A fraction in units of 1/1024, because no choice depends on a float.
pub(crate) type Per1024 = u64;

/// Where in the key space the bytes of a table are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spread<'a> {
    pub(crate) smallest: &'a [u8],
    pub(crate) largest: &'a [u8],
    pub(crate) histogram: &'a Histogram,
}

impl<'a> Spread<'a> {
    fn share_count(&self) -> usize {
        self.histogram.share_count()
    }

    /// The key at which share `index` starts. A table with a front has nothing before it, and the histogram is
    /// that of the whole file.
    fn start(&self, index: usize) -> &'a [u8] {
        self.histogram.start(index).map_or(self.smallest, |start| start.max(self.smallest))
    }

    /// The length of share `index`; 0 if the front is behind it.
    fn share_len_bytes(&self, index: usize) -> u64 {
        let is_dead = index + 1 < self.share_count() && self.start(index + 1) == self.smallest;
        if is_dead { 0 } else { self.histogram.share_len_bytes(index) }
    }

    /// How many shares start before `limit`, or at it if `or_at`. The first share always counts.
    fn started(&self, limit: &[u8], or_at: bool) -> usize {
        let (mut low, mut high) = (1, self.share_count());
        while low < high {
            let middle = (low + high) / 2;
            let start = self.start(middle);
            if start < limit || (or_at && start == limit) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    fn overlaps(&self, other: &Spread<'_>) -> bool {
        self.smallest <= other.largest && other.smallest <= self.largest
    }
}

/// The fraction of `table`'s bytes in shares that none of `others` would insert into.
pub(crate) fn sequentiality(table: Spread<'_>, others: &[Spread<'_>]) -> Per1024 {
    let count = table.share_count();
    let lens = (0..count).map(|index| table.share_len_bytes(index));
    let total_len_bytes: u64 = lens.clone().sum();
    if total_len_bytes == 0 {
        return 1024;
    }
    // Differences: the bytes that begin at each share minus those that ended before it.
    let mut steps = vec![0i64; count + 1];
    for other in others.iter().filter(|other| other.share_count() > 0 && table.overlaps(other)) {
        let first = other.started(table.smallest, true) - 1;
        let shares = first..other.started(table.largest, true);
        for index in shares.filter(|index| other.share_len_bytes(*index) > 0) {
            let from = table.started(other.start(index), true) - 1;
            let to = if index + 1 < other.share_count() {
                table.started(other.start(index + 1), false)
            } else {
                table.started(other.largest, true)
            };
            let each = other.share_len_bytes(index) / (to - from) as u64;
            let each = i64::try_from(each).unwrap_or(i64::MAX);
            steps[from] = steps[from].saturating_add(each);
            steps[to] = steps[to].saturating_sub(each);
        }
    }
    let (mut inserted, mut alone_len_bytes) = (0i64, 0u64);
    for (share_len_bytes, step) in lens.zip(&steps) {
        inserted = inserted.saturating_add(*step);
        let inserted = u64::try_from(inserted).unwrap_or(0);
        if inserted.saturating_mul(INSERT_RATIO) < share_len_bytes {
            alone_len_bytes += share_len_bytes;
        }
    }
    let ratio = u128::from(alone_len_bytes) * 1024 / u128::from(total_len_bytes);
    u64::try_from(ratio).unwrap_or(1024)
}

#[cfg(test)]
mod tests;

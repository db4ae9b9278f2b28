//! Synthetic traces: of a given shape, from a seed.
//!
//! ```text
//!   the device     |..W....W..|.......W..|..W.......|   files of one length, some of them written (W)
//!   scattered, 64 KiB          writes: any file, the next block of its random order
//!   streams, 16 MiB            writes: several files at once, each from its start, in turns
//!   reads                      a part of a file: of a written one, or of any
//! ```
//!
//! Before the first request the device is full, in address order. So every read finds written data,
//! and all fragmentation comes from the trace.
//!
//! Invariants
//!   M1  The same shape and seed give the same requests.
//!   M2  Every request covers whole blocks of one file.
//!
//! Not here: the shapes that stand in for traces of a paper (the crate `imbrex-repro`).

use super::request::{TraceOp, TraceRequest};
use crate::keys::Permutation;
use imbrex_clockwork::Prng;
use imbrex_disk::BLOCK_LEN_BYTES;

const BLOCK: u64 = BLOCK_LEN_BYTES as u64;
/// In a scattered shape, 80 of 100 picks go to 20 of 100 files.
const BUSY_PICK_PERCENT: u64 = 80;
const BUSY_FILE_PERCENT: u64 = 20;

/// The distribution of request lengths: `(weight, bytes)`.
pub type Sizes = &'static [(u64, u64)];

/// The shape of a synthetic trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Shape {
    /// The name of the trace it stands in for.
    pub name: &'static str,
    /// The bytes that it may touch.
    pub footprint_bytes: u64,
    /// The length of a file, in whole blocks; no request is longer.
    pub file_len_bytes: u64,
    /// Written files per thousand files.
    pub written_permille: u64,
    /// The order of writes.
    pub order: WriteOrder,
    /// The number of requests.
    pub request_count: u64,
    /// Reads per hundred requests.
    pub read_percent: u64,
    /// Reads of written files per hundred reads; the other reads go to any file.
    pub read_written_percent: u64,
    /// The lengths of reads.
    pub read_sizes: Sizes,
    /// The lengths of writes. The end of a turn cuts a longer write.
    pub write_sizes: Sizes,
    /// The mean interval between requests; intervals are exponentially distributed.
    pub interval_ns: u64,
}

/// The order in which files are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WriteOrder {
    /// Each write goes to any file, at the next place of a random order within the file. Four of
    /// five writes go to a fifth of the files.
    Scattered,
    /// Like `Scattered`, but only `count` files are written at once. When one is complete, another
    /// takes its place, in four of five cases one of the busy fifth.
    Gathered {
        /// The number of files.
        count: u64,
    },
    /// `count` files are written at once, each from its start to its end, in turns. When one is
    /// complete, another takes its place.
    Streams {
        /// The number of files.
        count: u64,
        /// The mean length of a turn; turns have half to one and a half of it.
        turn_bytes: u64,
    },
}

impl Shape {
    /// The number of files in the footprint, at least one.
    pub fn file_count(&self) -> u64 {
        (self.footprint_bytes / self.file_len_bytes).max(1)
    }

    /// The number of written files, at least one.
    pub fn written_file_count(&self) -> u64 {
        (self.file_count() * self.written_permille / 1000).max(1)
    }

    /// The bytes that are ever written, each block counted once.
    pub fn written_footprint_bytes(&self) -> u64 {
        self.written_file_count() * self.file_len_bytes
    }

    /// The end of the device.
    pub fn end_bytes(&self) -> u64 {
        self.file_count() * self.file_len_bytes
    }
}

/// Generates the requests of a shape one by one.
#[derive(Debug)]
pub(super) struct SyntheticTrace {
    shape: Shape,
    prng: Prng,
    /// Per written file: how often it was started, and how many blocks are written.
    files: Vec<(u64, u64)>,
    /// The busiest files first.
    by_rank: Permutation,
    /// The files being written, for shapes that write several at once.
    open: Vec<usize>,
    /// Per written file: whether it is being written.
    is_open: Vec<bool>,
    turn: Turn,
    done: u64,
    at_ns: u64,
}

/// The file whose turn it is, and the blocks left in the turn.
#[derive(Clone, Copy, Debug, Default)]
struct Turn {
    stream: usize,
    left: u64,
}

impl SyntheticTrace {
    pub(super) fn new(shape: Shape, seed: u64) -> SyntheticTrace {
        let mut prng = Prng::new(seed).derive(shape.name);
        let file_count = shape.written_file_count();
        let by_rank = Permutation::new(&mut prng, file_count);
        let open = match shape.order {
            WriteOrder::Scattered => Vec::new(),
            WriteOrder::Gathered { count } | WriteOrder::Streams { count, .. } => {
                (0..count.clamp(1, file_count)).map(|at| by_rank.at(at) as usize).collect()
            }
        };
        let files = vec![(0, 0); file_count as usize];
        let mut is_open = vec![false; files.len()];
        for &file in &open {
            is_open[file] = true;
        }
        let turn = Turn::default();
        SyntheticTrace { shape, prng, files, by_rank, open, is_open, turn, done: 0, at_ns: 0 }
    }

    /// The start of a written file; written files are spread evenly over the device.
    fn start_of(&self, written: usize) -> u64 {
        let file = written as u64 * self.shape.file_count() / self.files.len() as u64;
        file * self.shape.file_len_bytes
    }

    fn file_blocks(&self) -> u64 {
        self.shape.file_len_bytes / BLOCK
    }

    fn len_of(&mut self, sizes: Sizes) -> u64 {
        let total: u64 = sizes.iter().map(|(weight, _)| weight).sum();
        let mut at = self.prng.below(total);
        for &(weight, bytes) in sizes {
            if at < weight {
                return bytes.div_ceil(BLOCK).min(self.file_blocks());
            }
            at -= weight;
        }
        1
    }

    /// Picks a written file, mostly a busy one.
    fn pick_written(&mut self) -> usize {
        let count = self.files.len() as u64;
        let busy = (count * BUSY_FILE_PERCENT / 100).max(1);
        let is_busy = self.prng.chance(BUSY_PICK_PERCENT, 100) || busy == count;
        let rank =
            if is_busy { self.prng.below(busy) } else { busy + self.prng.below(count - busy) };
        self.by_rank.at(rank) as usize
    }

    fn read(&mut self) -> (u64, u64) {
        let len = self.len_of(self.shape.read_sizes);
        let start = if self.prng.chance(self.shape.read_written_percent, 100) {
            let file = match self.shape.order {
                WriteOrder::Scattered | WriteOrder::Gathered { .. } => self.pick_written(),
                WriteOrder::Streams { .. } => self.prng.below(self.files.len() as u64) as usize,
            };
            self.start_of(file)
        } else {
            self.prng.below(self.shape.file_count()) * self.shape.file_len_bytes
        };
        let places = self.file_blocks() / len;
        (start + self.prng.below(places) * len * BLOCK, len * BLOCK)
    }

    fn scattered_write(&mut self) -> (u64, u64) {
        let len = self.len_of(self.shape.write_sizes);
        let slot = self.prng.below(self.open.len().max(1) as u64) as usize;
        let file = match self.open.get(slot) {
            Some(&open) => open,
            None => self.pick_written(),
        };
        let blocks = self.file_blocks();
        let (begun, done) = self.files[file];
        let at = self.order_of(file, begun)[done as usize];
        let place = at.min(blocks - len);
        self.files[file] = (begun, done + len);
        if blocks <= done + len {
            self.files[file] = (begun + 1, 0);
            if !self.open.is_empty() {
                let picked = self.pick_written();
                let next = if self.is_open[picked] { self.another_file(slot) } else { picked };
                self.reopen(slot, next);
            }
        }
        (self.start_of(file) + place * BLOCK, len * BLOCK)
    }

    /// The order in which the blocks of a file are written when it is started for the `begun`-th
    /// time. A [`Permutation`] would not do: with so few numbers, it leaves most neighbours
    /// adjacent.
    fn order_of(&self, file: usize, begun: u64) -> Vec<u64> {
        let mut prng = Prng::new(begun).derive(&format!("{} {file}", self.shape.name));
        let mut order: Vec<u64> = (0..self.file_blocks()).collect();
        for left in (1..order.len()).rev() {
            order.swap(left, prng.below(left as u64 + 1) as usize);
        }
        order
    }

    fn stream_write(&mut self, turn_bytes: u64) -> (u64, u64) {
        if self.turn.left == 0 {
            let turn = (turn_bytes / BLOCK).max(2);
            let others = self.open.len() as u64 - 1;
            let step = if others == 0 { 0 } else { 1 + self.prng.below(others) as usize };
            let stream = (self.turn.stream + step) % self.open.len();
            self.turn = Turn { stream, left: turn / 2 + self.prng.below(turn) };
        }
        let file = self.open[self.turn.stream];
        let (begun, done) = self.files[file];
        let blocks = self.file_blocks();
        let len = self.len_of(self.shape.write_sizes).min(self.turn.left).min(blocks - done);
        self.turn.left -= len;
        let at = self.start_of(file) + done * BLOCK;
        self.files[file] = (begun, done + len);
        if done + len == blocks {
            self.files[file] = (begun + 1, 0);
            self.turn.left = 0;
            let next = self.another_file(self.turn.stream);
            self.reopen(self.turn.stream, next);
        }
        (at, len * BLOCK)
    }

    /// A file that is not being written, or the one in `slot` if there is no other.
    fn another_file(&mut self, slot: usize) -> usize {
        let closed: Vec<usize> =
            (0..self.files.len()).filter(|&file| !self.is_open[file]).collect();
        match closed.len() {
            0 => self.open[slot],
            count => closed[self.prng.below(count as u64) as usize],
        }
    }

    /// Puts `file` into `slot`, from where it is written from now on.
    fn reopen(&mut self, slot: usize, file: usize) {
        self.is_open[self.open[slot]] = false;
        self.is_open[file] = true;
        self.open[slot] = file;
    }
}

impl Iterator for SyntheticTrace {
    type Item = TraceRequest;

    fn next(&mut self) -> Option<TraceRequest> {
        if self.done == self.shape.request_count {
            return None;
        }
        self.done += 1;
        let is_read = self.prng.chance(self.shape.read_percent, 100);
        let (offset_bytes, len_bytes) = match (is_read, self.shape.order) {
            (true, _) => self.read(),
            (false, WriteOrder::Scattered | WriteOrder::Gathered { .. }) => self.scattered_write(),
            (false, WriteOrder::Streams { turn_bytes, .. }) => self.stream_write(turn_bytes),
        };
        let op = if is_read { TraceOp::Read } else { TraceOp::Write };
        let request = TraceRequest { at_ns: self.at_ns, op, offset_bytes, len_bytes };
        self.at_ns += exponential(&mut self.prng, self.shape.interval_ns);
        Some(request)
    }
}

/// A sample of an exponential distribution with this mean, equal on any machine.
fn exponential(prng: &mut Prng, mean_ns: u64) -> u64 {
    const STEPS: u64 = 1 << 53;
    let share = (prng.below(STEPS) + 1) as f64 / STEPS as f64;
    (-libm::log(share) * mean_ns as f64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCATTERED: Shape = Shape {
        name: "scattered",
        footprint_bytes: 64 << 20,
        file_len_bytes: 64 << 10,
        written_permille: 60,
        order: WriteOrder::Scattered,
        request_count: 20_000,
        read_percent: 40,
        read_written_percent: 50,
        read_sizes: &[(60, 64 << 10), (40, 8 << 10)],
        write_sizes: &[(92, 4 << 10), (6, 8 << 10), (2, 16 << 10)],
        interval_ns: 1_000_000,
    };

    const STREAMS: Shape = Shape {
        name: "streams",
        footprint_bytes: 512 << 20,
        file_len_bytes: 16 << 20,
        written_permille: 500,
        order: WriteOrder::Streams { count: 5, turn_bytes: 500 << 10 },
        request_count: 10_000,
        read_percent: 50,
        read_written_percent: 50,
        read_sizes: &[(1, 512 << 10)],
        write_sizes: &[(1, 512 << 10)],
        interval_ns: 20_000_000,
    };

    fn requests(shape: Shape, seed: u64) -> Vec<TraceRequest> {
        SyntheticTrace::new(shape, seed).collect()
    }

    fn near(got: f64, wanted: f64, tolerance: f64, what: &str) {
        assert!((got - wanted).abs() <= tolerance * wanted, "{what}: {got}, wanted {wanted}");
    }

    /// The properties of both shapes: M1, M2, counts, shares, time, and the targets of writes.
    fn check(shape: Shape) -> Vec<TraceRequest> {
        let all = requests(shape, 1);
        assert_eq!(all, requests(shape, 1));
        assert_ne!(all, requests(shape, 2));
        assert_eq!(all.len() as u64, shape.request_count);
        let file_of = |byte: u64| byte / shape.file_len_bytes;
        for request in &all {
            assert!(request.offset_bytes % BLOCK == 0 && request.len_bytes % BLOCK == 0);
            let last = request.offset_bytes + request.len_bytes - 1;
            assert!(request.len_bytes > 0 && file_of(request.offset_bytes) == file_of(last));
            assert!(last < shape.end_bytes());
        }
        let reads = all.iter().filter(|request| request.op == TraceOp::Read);
        let share = 100.0 * reads.clone().count() as f64 / all.len() as f64;
        near(share, shape.read_percent as f64, 0.05, "reads in percent");
        let mean_ns = all[all.len() - 1].at_ns as f64 / all.len() as f64;
        near(mean_ns, shape.interval_ns as f64, 0.05, "mean interval");
        let files = |op: TraceOp| -> std::collections::BTreeSet<u64> {
            all.iter().filter(|r| r.op == op).map(|r| file_of(r.offset_bytes)).collect()
        };
        assert_eq!(files(TraceOp::Write).len() as u64, shape.written_file_count());
        assert!(files(TraceOp::Read).len() as u64 > shape.file_count() * 9 / 10);
        all
    }

    fn mean_len(all: &[TraceRequest], op: TraceOp) -> f64 {
        let lens: Vec<u64> = all.iter().filter(|r| r.op == op).map(|r| r.len_bytes).collect();
        lens.iter().sum::<u64>() as f64 / lens.len() as f64
    }

    #[test]
    fn scattered_writes_are_small_cover_their_files_and_seldom_follow_each_other() {
        let all = check(SCATTERED);
        near(mean_len(&all, TraceOp::Write), 4588.0, 0.03, "bytes a write");
        near(mean_len(&all, TraceOp::Read), 42_598.0, 0.03, "bytes a read");
        let writes: Vec<&TraceRequest> = all.iter().filter(|r| r.op == TraceOp::Write).collect();
        let follow = |pair: &&[&TraceRequest]| {
            pair[0].offset_bytes + pair[0].len_bytes == pair[1].offset_bytes
        };
        assert!(writes.windows(2).filter(follow).count() * 50 < writes.len());
        let mut blocks: Vec<u64> = writes.iter().map(|r| r.offset_bytes / BLOCK).collect();
        blocks.sort_unstable();
        blocks.dedup();
        let all_blocks = SCATTERED.written_footprint_bytes() / BLOCK;
        assert!(blocks.len() as u64 * 10 > all_blocks * 8, "{} of {all_blocks}", blocks.len());
    }

    /// In a random order of 16, one in eight pairs are neighbours. A Feistel permutation over two
    /// bits had seven of ten, and cleanings merged four times as many nodes.
    #[test]
    fn the_blocks_of_a_file_come_in_a_random_order() {
        let mut last = std::collections::BTreeMap::<u64, u64>::new();
        let (mut pair_count, mut neighbour_count) = (0_u64, 0_u64);
        let all = requests(SCATTERED, 1);
        let is_single = |r: &&TraceRequest| r.op == TraceOp::Write && r.len_bytes == BLOCK;
        for request in all.iter().filter(is_single) {
            let (file, at) =
                (request.offset_bytes / SCATTERED.file_len_bytes, request.offset_bytes / BLOCK);
            if let Some(before) = last.insert(file, at) {
                pair_count += 1;
                neighbour_count += u64::from(at.abs_diff(before) == 1);
            }
        }
        near(neighbour_count as f64 / pair_count as f64, 0.125, 0.1, "neighbours");
    }

    #[test]
    fn gathered_writes_finish_a_file_before_another_is_begun() {
        let shape = Shape { order: WriteOrder::Gathered { count: 20 }, ..SCATTERED };
        let all = check(shape);
        let mut unfinished = std::collections::BTreeMap::<u64, u64>::new();
        for request in all.iter().filter(|request| request.op == TraceOp::Write) {
            let blocks = unfinished.entry(request.offset_bytes / shape.file_len_bytes).or_default();
            *blocks += request.len_bytes / BLOCK;
            // 16 blocks; the last write may contain some that were written before.
            unfinished.retain(|_, blocks| *blocks < 16);
            assert!(unfinished.len() <= 20, "{unfinished:?}");
        }
    }

    #[test]
    fn streams_write_by_turns_each_from_the_start_of_a_file_to_its_end() {
        let all = check(STREAMS);
        near(mean_len(&all, TraceOp::Read), f64::from(512 << 10), 0.001, "bytes a read");
        let writes: Vec<&TraceRequest> = all.iter().filter(|r| r.op == TraceOp::Write).collect();
        let (mut ends, mut runs) = (std::collections::BTreeSet::new(), 1_u64);
        for (at, request) in writes.iter().enumerate() {
            let is_start = request.offset_bytes % STREAMS.file_len_bytes == 0;
            assert!(is_start || ends.remove(&request.offset_bytes), "{request:?}");
            ends.insert(request.offset_bytes + request.len_bytes);
            let before = at.checked_sub(1).map(|at| writes[at].offset_bytes + writes[at].len_bytes);
            runs += u64::from(before.is_some_and(|end| end != request.offset_bytes));
        }
        let bytes: u64 = writes.iter().map(|r| r.len_bytes).sum();
        near(bytes as f64 / runs as f64, f64::from(500 << 10), 0.05, "bytes a turn");
    }
}

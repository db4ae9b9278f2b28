//! The host's files: which blocks each has, what they hold, and where the next ones go.
//!
//! ```text
//!     | metadata | journal | data: extents of files, and free runs ............ |
//! ```
//!
//! A file system without its bytes: each operation returns the requests that a device would see. Lengths
//! of files are drawn log-normally, as those of real file systems are (Downey, "The structural cause of
//! file size distributions", 2001): half of the files have 1 MiB or less, and most bytes are in long ones.
//!
//! The allocator goes on from its last place to the next free run that is long enough (next fit).
//!
//! Invariants
//!   F1  Extents and free runs cover the data area, without overlap. Free runs do not touch.
//!   F2  What a block holds is known: its extent's write, or a later write of that block alone. Of those
//!       the host remembers one address in [`SAMPLE`].

use super::words::WriteNumber;
use imbrex_clockwork::Prng;
use imbrex_disk::{BlockRange, Blocks, Lba};
use imbrex_workload::statistics::normals;
use std::collections::BTreeMap;

/// Half of the files are longer, in blocks: 1 MiB.
const LEN_MEDIAN: f64 = 256.0;
/// The standard deviation of the logarithm: one file in a thousand has 1.2 GiB before the bound.
const LEN_SIGMA: f64 = 2.3;
/// The longest file, in blocks: 512 MiB.
const LEN_MAX: u64 = 1 << 17;
/// A free run that is shorter is passed over for a long file, in blocks: 1 MiB.
const HOLE_LEN_MIN: u64 = 256;
/// How many free runs are examined for one that is long enough.
const LOOKED_COUNT_MAX: usize = 1000;
/// Of so many addresses the host remembers one if it is written alone.
const SAMPLE: u64 = 61;
/// Metadata and journal of the file system: one block in so many of the device.
const METADATA_SHARE: u64 = 2048;
const JOURNAL_SHARE: u64 = 512;
/// The longest journal, in blocks: 1 GiB.
const JOURNAL_LEN_MAX: u64 = 1 << 18;
/// Four fifths of the writes of metadata go to one block in so many.
const HOT_SHARE: u64 = 64;

/// What the device is asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HostRequest {
    Write(BlockRange, WriteNumber),
    Trim(BlockRange),
}

impl HostRequest {
    /// How many blocks it writes.
    pub(super) fn written_len(&self) -> u64 {
        match self {
            HostRequest::Write(range, _) => range.len.get(),
            HostRequest::Trim(_) => 0,
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Extent {
    len: u64,
    number: WriteNumber,
}

/// A file system.
#[derive(Debug)]
pub(super) struct Files {
    prng: Prng,
    data_start: u64,
    len: u64,
    extents: BTreeMap<u64, Extent>,
    free: BTreeMap<u64, u64>,
    free_len: u64,
    /// Where the allocator looks next.
    next: u64,
    /// The extents of each file, by their starts.
    files: Vec<Vec<u64>>,
    /// Blocks that were written alone since their extent was, in the sample.
    single: BTreeMap<u64, WriteNumber>,
    metadata: Vec<WriteNumber>,
    journal: Vec<WriteNumber>,
    journal_at: u64,
    last_number: WriteNumber,
    /// Whether blocks were ever written alone.
    has_single: bool,
}

impl Files {
    /// No files yet, on a device of `len`.
    pub(super) fn new(len: Blocks, prng: Prng) -> Files {
        let len = len.get();
        let metadata_len = (len / METADATA_SHARE).max(HOT_SHARE);
        let journal_len = (len / JOURNAL_SHARE).clamp(64, JOURNAL_LEN_MAX);
        let data_start = metadata_len + journal_len;
        let none = |len: u64| vec![WriteNumber::NONE; len as usize];
        Files {
            prng,
            data_start,
            len,
            extents: BTreeMap::new(),
            free: BTreeMap::from([(data_start, len - data_start)]),
            free_len: len - data_start,
            next: data_start,
            files: Vec::new(),
            single: BTreeMap::new(),
            metadata: none(metadata_len),
            journal: none(journal_len),
            journal_at: 0,
            last_number: WriteNumber::NONE,
            has_single: false,
        }
    }

    /// How much of the data area is in files, in thousandths.
    pub(super) fn used_permille(&self) -> u64 {
        let data_len = self.len - self.data_start;
        (data_len - self.free_len) * 1000 / data_len
    }

    pub(super) fn file_count(&self) -> usize {
        self.files.len()
    }

    /// Writes all of the metadata and the journal once, as making a file system does.
    pub(super) fn make(&mut self) -> Vec<HostRequest> {
        let number = self.number();
        self.metadata.fill(number);
        self.journal.fill(number);
        vec![HostRequest::Write(run(0, self.data_start), number)]
    }

    /// A new file of a drawn length; shorter if the room is. Nothing if there is none.
    pub(super) fn create(&mut self) -> Vec<HostRequest> {
        let len = self.draw_len();
        let (requests, starts) = self.allocate(len);
        if !starts.is_empty() {
            self.files.push(starts);
        }
        requests
    }

    /// Makes a file longer.
    pub(super) fn append(&mut self) -> Vec<HostRequest> {
        let Some(file) = self.draw_file() else { return Vec::new() };
        let len = self.draw_len().div_ceil(4);
        let (requests, starts) = self.allocate(len);
        self.files[file].extend(starts);
        requests
    }

    /// Writes a whole file again, in its place.
    pub(super) fn rewrite(&mut self) -> Vec<HostRequest> {
        let Some(file) = self.draw_file() else { return Vec::new() };
        let number = self.number();
        let mut requests = Vec::new();
        for index in 0..self.files[file].len() {
            let start = self.files[file][index];
            let extent = self.extents.get_mut(&start).expect("F1: a file's extent is known");
            extent.number = number;
            let len = extent.len;
            self.forget_single(start, len);
            requests.push(HostRequest::Write(run(start, len), number));
        }
        requests
    }

    /// Deletes a file.
    pub(super) fn delete(&mut self) -> Vec<HostRequest> {
        let Some(file) = self.draw_file() else { return Vec::new() };
        let starts = self.files.swap_remove(file);
        let mut requests = Vec::new();
        for start in starts {
            let extent = self.extents.remove(&start).expect("F1: a file's extent is known");
            self.forget_single(start, extent.len);
            self.release(start, extent.len);
            requests.push(HostRequest::Trim(run(start, extent.len)));
        }
        requests
    }

    /// Writes one block of a file, each equally likely.
    pub(super) fn write_block(&mut self) -> Option<HostRequest> {
        if self.extents.is_empty() {
            return None;
        }
        let number = self.number();
        self.has_single = true;
        loop {
            let lba = self.data_start + self.prng.below(self.len - self.data_start);
            if self.extent_of(lba).is_some() {
                if lba.is_multiple_of(SAMPLE) {
                    self.single.insert(lba, number);
                }
                return Some(HostRequest::Write(run(lba, 1), number));
            }
        }
    }

    /// Writes a block of metadata in its place, most often a hot one.
    pub(super) fn write_metadata(&mut self) -> HostRequest {
        let len = self.metadata.len() as u64;
        let is_hot = self.prng.chance(4, 5);
        let index = if is_hot {
            self.prng.below(len / HOT_SHARE) * HOT_SHARE
        } else {
            self.prng.below(len)
        };
        let number = self.number();
        self.metadata[index as usize] = number;
        HostRequest::Write(run(index, 1), number)
    }

    /// Writes `len` blocks of the journal, round and round.
    pub(super) fn write_journal(&mut self, len: u64) -> Vec<HostRequest> {
        let (number, mut left) = (self.number(), len.min(self.journal.len() as u64));
        let mut requests = Vec::new();
        while left > 0 {
            let now = left.min(self.journal.len() as u64 - self.journal_at);
            let (from, to) = (self.journal_at as usize, (self.journal_at + now) as usize);
            self.journal[from..to].fill(number);
            let start = self.metadata.len() as u64 + self.journal_at;
            requests.push(HostRequest::Write(run(start, now), number));
            self.journal_at = (self.journal_at + now) % self.journal.len() as u64;
            left -= now;
        }
        requests
    }

    /// A block whose content is known, and the write that it holds.
    pub(super) fn draw_known(&mut self) -> (Lba, WriteNumber) {
        loop {
            let lba = self.prng.below(self.len);
            let lba = if self.data_start <= lba { lba - lba % SAMPLE } else { lba };
            if let Some(number) = self.known(lba) {
                return (Lba::new(lba), number);
            }
        }
    }

    /// A block of the sample that was written alone, and the write that it holds.
    pub(super) fn draw_single(&mut self) -> Option<(Lba, WriteNumber)> {
        let from = self.prng.below(self.len);
        let found = self.single.range(from..).next().or_else(|| self.single.iter().next());
        found.map(|(&lba, &number)| (Lba::new(lba), number))
    }

    /// What a block holds; `None` if the host does not remember (F2).
    fn known(&self, lba: u64) -> Option<WriteNumber> {
        let metadata_len = self.metadata.len() as u64;
        if lba < metadata_len {
            return Some(self.metadata[lba as usize]);
        }
        if lba < self.data_start {
            return Some(self.journal[(lba - metadata_len) as usize]);
        }
        let Some(extent) = self.extent_of(lba) else { return Some(WriteNumber::NONE) };
        if let Some(&number) = self.single.get(&lba) {
            return Some(number);
        }
        (!self.has_single || lba.is_multiple_of(SAMPLE)).then_some(extent.number)
    }

    fn extent_of(&self, lba: u64) -> Option<Extent> {
        let (&start, &extent) = self.extents.range(..=lba).next_back()?;
        (lba < start + extent.len).then_some(extent)
    }

    fn forget_single(&mut self, start: u64, len: u64) {
        while let Some((&lba, _)) = self.single.range(start..start + len).next() {
            self.single.remove(&lba);
        }
    }

    fn number(&mut self) -> WriteNumber {
        self.last_number = WriteNumber(self.last_number.0.wrapping_add(1).max(1));
        self.last_number
    }

    fn draw_file(&mut self) -> Option<usize> {
        let count = self.files.len() as u64;
        (count > 0).then(|| self.prng.below(count) as usize)
    }

    fn draw_len(&mut self) -> u64 {
        let len = LEN_MEDIAN * libm::exp(LEN_SIGMA * normals(&mut self.prng).0);
        (len as u64).clamp(1, LEN_MAX.min(self.len / 64))
    }

    /// Takes up to `len` free blocks for one write: the requests, and where the extents start.
    fn allocate(&mut self, len: u64) -> (Vec<HostRequest>, Vec<u64>) {
        let number = self.number();
        let (mut requests, mut starts, mut left) = (Vec::new(), Vec::new(), len);
        while left > 0 {
            let Some((start, hole_len)) = self.hole(left.min(HOLE_LEN_MIN)) else { break };
            let now = left.min(hole_len);
            self.free.remove(&start);
            if now < hole_len {
                self.free.insert(start + now, hole_len - now);
            }
            self.free_len -= now;
            self.extents.insert(start, Extent { len: now, number });
            requests.push(HostRequest::Write(run(start, now), number));
            starts.push(start);
            self.next = start + now;
            left -= now;
        }
        (requests, starts)
    }

    /// The next free run of at least `least` blocks; any, if none of the next ones is so long.
    fn hole(&self, least: u64) -> Option<(u64, u64)> {
        let around = self.free.range(self.next..).chain(self.free.range(..self.next));
        let mut looked =
            around.take(LOOKED_COUNT_MAX).map(|(&start, &len)| (start, len)).peekable();
        let first = looked.peek().copied();
        looked.find(|&(_, len)| least <= len).or(first)
    }

    fn release(&mut self, start: u64, len: u64) {
        self.free_len += len;
        let (mut start, mut end) = (start, start + len);
        if let Some((&before, &before_len)) = self.free.range(..start).next_back()
            && before + before_len == start
        {
            start = before;
        }
        if let Some(behind_len) = self.free.remove(&end) {
            end += behind_len;
        }
        self.free.insert(start, end - start);
    }
}

fn run(start: u64, len: u64) -> BlockRange {
    BlockRange::new(Lba::new(start), Blocks::new(len))
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Files {
        /// Checks F1.
        fn check(&self) {
            let extents = self.extents.iter().map(|(&start, extent)| (start, extent.len));
            let free = self.free.iter().map(|(&start, &len)| (start, len));
            let mut all: Vec<(u64, u64)> = extents.chain(free).collect();
            all.sort_unstable();
            let end = all.iter().fold(self.data_start, |end, &(start, len)| {
                assert_eq!(start, end, "F1");
                start + len
            });
            assert_eq!(end, self.len);
            assert_eq!(self.free.values().sum::<u64>(), self.free_len);
            let ends: Vec<u64> = self.free.iter().map(|(start, len)| start + len).collect();
            assert!(ends.iter().all(|end| !self.free.contains_key(end)), "F1: free runs touch");
            let in_files: usize = self.files.iter().map(Vec::len).sum();
            assert_eq!(in_files, self.extents.len());
        }
    }

    /// The model of the model: what each block holds, block by block.
    #[test]
    fn what_blocks_hold_is_what_was_written() {
        for seed in 0..8 {
            let mut files = Files::new(Blocks::new(1 << 15), Prng::new(seed));
            let mut held = vec![WriteNumber::NONE; 1 << 15];
            let mut prng = Prng::new(seed + 100);
            let mut requests = files.make();
            for step in 0..600 {
                match prng.below(7) {
                    0 | 1 => requests.extend(files.create()),
                    2 => requests.extend(files.append()),
                    3 => requests.extend(files.rewrite()),
                    4 => requests.extend(files.delete()),
                    5 => requests.extend(files.write_block()),
                    _ => {
                        requests.push(files.write_metadata());
                        requests.extend(files.write_journal(1 + prng.below(50)));
                    }
                }
                for request in requests.drain(..) {
                    let (range, number) = match request {
                        HostRequest::Write(range, number) => (range, number),
                        HostRequest::Trim(range) => (range, WriteNumber::NONE),
                    };
                    held[range.start.get() as usize..range.end().get() as usize].fill(number);
                }
                if step % 20 == 0 {
                    files.check();
                    for (lba, &number) in (0..).zip(&held) {
                        assert!(files.known(lba).is_none_or(|known| known == number), "{lba}");
                    }
                }
                let (lba, number) = files.draw_known();
                assert_eq!(held[lba.get() as usize], number);
                if let Some((lba, number)) = files.draw_single() {
                    assert_eq!(held[lba.get() as usize], number);
                }
            }
        }
    }

    #[test]
    fn lengths_of_files_are_log_normal() {
        let mut files = Files::new(Blocks::new(1 << 32), Prng::new(1));
        let mut lens: Vec<u64> = (0..10_000).map(|_| files.draw_len()).collect();
        lens.sort_unstable();
        assert!(lens[5000].abs_diff(256) < 30, "{}", lens[5000]);
        assert!(lens[100] < 4 && lens[9900] > 1 << 15, "{} {}", lens[100], lens[9900]);
    }
}

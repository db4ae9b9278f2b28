//! The file reads that an operation causes: one for a get, few and growing for a scan.

use super::*;
use crate::table::iter::TableIter;
use std::ops::Range;
use std::sync::Mutex;

/// A file in memory that records its reads.
#[derive(Debug)]
pub(super) struct NotingFile {
    file: MemoryFile,
    reads: Mutex<Vec<Range<u64>>>,
    /// The range that cannot be read.
    pub(super) bad: Mutex<Range<u64>>,
}

impl NotingFile {
    pub(super) fn new(bytes: Vec<u8>) -> Arc<NotingFile> {
        let file = MemoryFile(bytes);
        Arc::new(NotingFile { file, reads: Mutex::default(), bad: Mutex::new(0..0) })
    }

    pub(super) fn take_reads(&self) -> Vec<Range<u64>> {
        std::mem::take(&mut *self.reads.lock().unwrap())
    }
}

impl FileReader for NotingFile {
    fn len_bytes(&self) -> u64 {
        self.file.len_bytes()
    }

    fn name(&self) -> &str {
        self.file.name()
    }

    fn read_at<'a>(
        &self,
        offset: u64,
        len_bytes: usize,
        scratch: &'a mut Vec<u8>,
    ) -> Result<&'a [u8], FilesError> {
        let range = offset..offset + len_bytes as u64;
        self.reads.lock().unwrap().push(range.clone());
        let bad = self.bad.lock().unwrap();
        if range.start < bad.end && bad.start < range.end {
            return Err(FilesError::NotFound { name: "bad".to_owned() });
        }
        self.file.read_at(offset, len_bytes, scratch)
    }

    fn extents(&self) -> Vec<BlockRange> {
        Vec::new()
    }
}

const KEY_COUNT: u64 = 2000;

/// A table of 400 uncompressed blocks with five entries each.
fn sample() -> (Arc<NotingFile>, Arc<Table>) {
    sample_of(&TableOptions::default())
}

fn sample_of(options: &TableOptions) -> (Arc<NotingFile>, Arc<Table>) {
    let mut entries = Entries::new();
    for i in 0..KEY_COUNT {
        let key = format!("key{i:06}").into_bytes();
        entries.insert((key, std::cmp::Reverse(1)), (Kind::Put, vec![i as u8; 1000]));
    }
    let options = TableOptions { compression: Compression::None, ..options.clone() };
    let file = NotingFile::new(build(&entries, &options).0);
    let cache = Arc::new(BlockCache::new(4 << 20));
    let table = Table::open(Arc::clone(&file) as Arc<dyn FileReader>, cache).unwrap();
    (file, table)
}

fn get(table: &Table, key: &[u8]) -> TableLookup {
    table.get(key, key_hash(key), Seq::MAX).unwrap()
}

#[test]
fn a_table_opens_with_few_reads_and_a_get_reads_one_block() {
    let (file, table) = sample();
    assert!(file.take_reads().len() <= 3);
    assert!(matches!(get(&table, b"key001000"), TableLookup::Value { .. }));
    let partition_and_block = file.take_reads();
    assert!(partition_and_block.len() <= 2, "{partition_and_block:?}");
    assert!(matches!(get(&table, b"key001500"), TableLookup::Value { .. }));
    let block = file.take_reads().pop().unwrap();
    assert!(block.end - block.start < 5200, "{block:?}");
    assert!(matches!(get(&table, b"key001500"), TableLookup::Value { .. }));
    assert_eq!(file.take_reads(), [], "the block is cached");
    assert_eq!(get(&table, b"absent"), TableLookup::Missing);
    assert_eq!(file.take_reads(), [], "the filter knows");
}

#[test]
fn a_scan_reads_more_and_more_and_nothing_twice() {
    let (file, table) = sample();
    let options = TableReadOptions { fill_cache: false, ..TableReadOptions::default() };
    for backwards in [false, true] {
        file.take_reads();
        let mut iter = table.iter(options.clone());
        if backwards { iter.seek_to_last() } else { iter.seek_to_first() }.unwrap();
        let mut count = 0;
        while iter.valid() {
            count += 1;
            if backwards { iter.prev() } else { iter.next() }.unwrap();
        }
        assert_eq!(count, KEY_COUNT);
        let mut reads = file.take_reads();
        let data_len_bytes = table.properties().data_len_bytes;
        reads.retain(|read| read.start < data_len_bytes);
        let lens: Vec<u64> = reads.iter().map(|read| (read.end - read.start) >> 10).collect();
        assert_eq!(lens[..6], [4, 64, 256, 256, 256, 256], "KiB, backwards: {backwards}");
        assert!(reads.len() < 16, "{lens:?}");
        let covered: u64 = reads.iter().map(|read| read.end - read.start).sum();
        assert!(covered < data_len_bytes + (100 << 10), "{covered} of {data_len_bytes}");
    }
}

#[test]
fn a_scan_goes_on_in_the_next_table_as_far_ahead_as_before() {
    let (file, table) = sample();
    let options = TableReadOptions { fill_cache: false, ..TableReadOptions::default() };
    let first_read = |before: Option<&TableIter>| {
        let mut iter = table.iter(options.clone());
        before.into_iter().for_each(|before| iter.go_on_from(before));
        file.take_reads();
        iter.seek_to_first().unwrap();
        let data = file.take_reads().pop().unwrap();
        ((data.end - data.start) >> 10, iter)
    };
    let (alone, mut iter) = first_read(None);
    assert_eq!(alone, 4, "KiB");
    assert_eq!(first_read(Some(&iter)).0, 4, "one read is no scan");
    while iter.valid() {
        iter.next().unwrap();
    }
    let (after, mut next) = first_read(Some(&iter));
    assert_eq!(after, 256, "KiB");
    next.seek_to_first().unwrap();
    file.take_reads();
    next.seek(InternalKey::new(b"key001500", Trailer(u64::MAX))).unwrap();
    let data = file.take_reads().pop().unwrap();
    assert!(data.end - data.start < 8 << 10, "a later seek is one of its own: {data:?}");
}

#[test]
fn a_compaction_reads_far_ahead_from_the_start() {
    let short_partitions =
        TableOptions { index_partition_len_bytes: 512, ..TableOptions::default() };
    let (file, table) = sample_of(&short_partitions);
    file.take_reads();
    let options = TableReadOptions {
        fill_cache: false,
        read_ahead_bytes: 1 << 20,
        sequential: true,
        ..TableReadOptions::default()
    };
    let mut iter = table.iter(options);
    iter.seek_to_first().unwrap();
    while iter.valid() {
        iter.next().unwrap();
    }
    assert!(table.properties().index_partition_count > 1);
    let reads = file.take_reads();
    let is_data = |read: &&Range<u64>| read.start < table.properties().data_len_bytes;
    let (data, index): (Vec<_>, Vec<_>) = reads.iter().partition(is_data);
    assert_eq!(data.len(), 2, "{reads:?}");
    assert_eq!(index.len(), 1, "all partitions at once: {reads:?}");
}

/// A scan used to read ahead into a block that cannot be read, and failed up to 256 KiB before it.
#[test]
fn a_scan_yields_all_that_lies_before_a_bad_block() {
    let (file, table) = sample();
    get(&table, b"key001000");
    let block = file.take_reads().pop().unwrap();
    let (file, table) = sample();
    *file.bad.lock().unwrap() = block.clone();
    let is_bad = |n: u64| {
        let key = format!("key{n:06}").into_bytes();
        table.get(&key, key_hash(&key), Seq::MAX).is_err()
    };
    let first = (0..KEY_COUNT).find(|&n| is_bad(n)).unwrap();
    let last = (0..KEY_COUNT).rev().find(|&n| is_bad(n)).unwrap();
    assert!((first..=last).contains(&1000) && last - first < 5);

    for sequential in [false, true] {
        let (file, table) = sample();
        *file.bad.lock().unwrap() = block.clone();
        let mut iter = table.iter(TableReadOptions { sequential, ..TableReadOptions::default() });
        iter.seek_to_first().unwrap();
        file.take_reads();
        let forward = (0..).take_while(|_| iter.next().is_ok()).count() as u64;
        assert_eq!(forward, first - 1, "to the last entry before the block");
        // After the first failure, no read reaches into the bad range except that of the block
        // itself.
        let bad = file.bad.lock().unwrap().clone();
        let mut reads = file.take_reads();
        reads.retain(|read| read.start < bad.end && bad.start < read.end);
        assert_eq!(reads.len(), 2, "{reads:?}");
        iter.seek_to_last().unwrap();
        let back = (0..).take_while(|_| iter.prev().is_ok()).count() as u64;
        assert_eq!(back, KEY_COUNT - 1 - (last + 1), "to the first entry behind the block");
    }
}

/// The first read of an open may begin within the data. Unreadable data there used to prevent the
/// open.
#[test]
fn a_table_opens_whose_last_data_block_is_bad() {
    let (file, _) = sample();
    let tail = file.take_reads().swap_remove(0);
    *file.bad.lock().unwrap() = tail.start..tail.start + 1;
    let cache = Arc::new(BlockCache::new(4 << 20));
    let table = Table::open(Arc::clone(&file) as Arc<dyn FileReader>, cache).unwrap();
    assert!(matches!(get(&table, b"key001000"), TableLookup::Value { .. }));
}

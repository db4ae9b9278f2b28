//! The reads of the drive with which a cursor's seek begins: few batches, whatever the number of runs.

use crate::stage::{Stage, key, small, zoned};
use imbrex_clockwork::Order;
use imbrex_disk::{Disk, DiskError, DiskLayer, Lba, ReadRequest};
use imbrex_disk_sim::SimDisk;
use imbrex_engine::{Compression, Db, KeyspaceOptions, Options, ReadOptions};
use imbrex_files::FileLayer;
use std::sync::{Arc, Mutex};

const RUN_COUNT: usize = 6;
const KEY_COUNT: u64 = 12_000;

/// A drive that records how many reads come together.
#[derive(Debug)]
struct CountingDisk {
    disk: Arc<SimDisk>,
    batches: Mutex<Vec<usize>>,
}

impl CountingDisk {
    fn take(&self) -> Vec<usize> {
        std::mem::take(&mut *self.batches.lock().unwrap())
    }
}

impl DiskLayer for CountingDisk {
    fn below(&self) -> &dyn Disk {
        &*self.disk
    }

    fn pass_read(&self, at: Lba, buf: &mut [u8]) -> Result<(), DiskError> {
        self.batches.lock().unwrap().push(1);
        self.disk.read(at, buf)
    }

    fn pass_read_batch(&self, requests: &mut [ReadRequest<'_>]) -> Result<(), DiskError> {
        self.batches.lock().unwrap().push(requests.len());
        self.disk.read_batch(requests)
    }
}

/// Tables with several index partitions, which nothing compacts, and no cache.
fn options() -> Options {
    let keyspace = KeyspaceOptions {
        table_len_bytes: 16 << 20,
        block_len_bytes: 512,
        compression: Compression::None,
        l0_compact_run_count: 100,
        l0_slowdown_run_count: 200,
        l0_stop_run_count: 300,
        ..small().keyspace
    };
    Options {
        memtable_len_bytes: 8 << 20,
        log_len_bytes_max: 32 << 20,
        block_cache_len_bytes: 0,
        keyspace,
        ..small()
    }
}

/// Opens the store anew, so that no table is open.
fn reopen(stage: &Stage) -> (Db, Arc<CountingDisk>) {
    reopen_with(stage, options())
}

fn reopen_with(stage: &Stage, options: Options) -> (Db, Arc<CountingDisk>) {
    let disk = Arc::new(CountingDisk { disk: Arc::clone(&stage.disk), batches: Mutex::default() });
    let files = FileLayer::open(Arc::clone(&disk) as Arc<dyn Disk>, &stage.runtime).unwrap();
    let db = Db::open(Arc::new(files), stage.runtime.clone(), options).unwrap();
    disk.take();
    (db, disk)
}

#[test]
fn the_first_reads_of_all_runs_are_issued_together() {
    let stage = zoned(200, Order::SmallestTime);
    let db = stage.create(options());
    for round in 0..RUN_COUNT as u8 {
        for n in 0..KEY_COUNT {
            db.default_keyspace().put(key(n), [round; 200]).unwrap();
        }
        db.flush().unwrap();
    }
    drop(db);
    stage.world.drop_jobs();
    let (db, disk) = reopen(&stage);
    let new_iter = || db.default_keyspace().iter(ReadOptions::default()).unwrap();
    // Opens the tables. They have several index partitions; the last one of each run has one.
    for n in [7_000, 2_000, 10_000] {
        new_iter().seek(key(n)).unwrap();
    }
    for n in [7_000, 2_000, 10_000] {
        let mut iter = new_iter();
        disk.take();
        iter.seek(key(n)).unwrap();
        assert_eq!((iter.key(), iter.value()[0]), (&key(n)[..], RUN_COUNT as u8 - 1));
        assert_eq!(disk.take(), [RUN_COUNT; 2], "all partitions, then all blocks");
        iter.seek(key(n + 100)).unwrap();
        assert_eq!(disk.take(), [RUN_COUNT], "all blocks");
    }
}

/// The index and the filter of a written table are known, so that a get reads its block and nothing else.
#[test]
fn a_get_from_a_table_just_written_is_one_read() {
    let stage = zoned(200, Order::SmallestTime);
    let options = || Options { block_cache_len_bytes: 8 << 20, ..options() };
    drop(stage.create(options()));
    stage.world.drop_jobs();
    let (db, disk) = reopen_with(&stage, options());
    let keyspace = db.default_keyspace();
    for round in 0..2 {
        (0..KEY_COUNT).for_each(|n| keyspace.put(key(n), [round; 200]).unwrap());
        db.flush().unwrap();
        disk.take();
        for n in [7_000, 2_000, 11_000] {
            assert_eq!(keyspace.get(key(n)).unwrap().unwrap()[0], round);
            assert_eq!(disk.take(), [1], "round {round}, key {n}");
        }
        assert_eq!(keyspace.get(b"no such key").unwrap(), None);
        assert_eq!(disk.take(), [], "the filter knows");
        keyspace.compact_range(None, None).unwrap();
    }
}

/// An opening reads more than the index and the filter if they are short.
#[test]
fn a_flush_and_the_opening_of_its_tables_read_nothing() {
    let stage = zoned(200, Order::SmallestTime);
    drop(stage.create(options()));
    stage.world.drop_jobs();
    let (db, disk) = reopen(&stage);
    for (key_count, value_len_bytes) in [(1, 10), (500, 4000), (5000, 200)] {
        for n in 0..key_count {
            db.default_keyspace().put(key(n), vec![1; value_len_bytes]).unwrap();
        }
        db.flush().unwrap();
        assert_eq!(db.default_keyspace().get(b"no such key").unwrap(), None);
        assert_eq!(disk.take(), [], "{key_count} values of {value_len_bytes} bytes");
    }
}

/// A run that begins after the key is not read until the scan is there.
#[test]
fn a_run_is_not_read_before_the_scan_reaches_its_next_table() {
    let stage = zoned(200, Order::SmallestTime);
    let db = stage.create(options());
    let keyspace = db.default_keyspace();
    for (round, keys) in (1..).zip([0..3000, 0..500, 2500..3000]) {
        keys.for_each(|n| keyspace.put(key(n), [round; 200]).unwrap());
        db.flush().unwrap();
    }
    drop(db);
    stage.world.drop_jobs();
    let (db, disk) = reopen(&stage);
    let new_iter = || db.default_keyspace().iter(ReadOptions::default()).unwrap();
    for n in [0, 2999] {
        new_iter().seek(key(n)).unwrap();
    }
    let mut iter = new_iter();
    disk.take();
    iter.seek(key(1000)).unwrap();
    assert_eq!((iter.value()[0], &disk.take()[..]), (1, &[1, 1][..]), "a partition and a block");
    iter.seek_for_prev(key(1499)).unwrap();
    assert_eq!((iter.key(), iter.value()[0]), (&key(1499)[..], 1));
    let forward: Vec<u8> = (1500..2600)
        .map(|n| {
            iter.next().unwrap();
            assert_eq!(iter.key(), &key(n)[..]);
            iter.value()[0]
        })
        .collect();
    assert!(forward[..1000].iter().all(|&v| v == 1) && forward[1000..].iter().all(|&v| v == 3));
}

#[test]
fn runs_without_a_key_in_the_range_cost_nothing() {
    let stage = zoned(200, Order::SmallestTime);
    let db = stage.create(options());
    for run in 0..RUN_COUNT as u64 {
        for n in 0..1000 {
            db.default_keyspace().put(key(run * 10_000 + n), [9; 200]).unwrap();
        }
        db.flush().unwrap();
    }
    drop(db);
    stage.world.drop_jobs();
    let (db, disk) = reopen(&stage);
    let keyspace = db.default_keyspace();
    let count = |from: u64, to: u64| keyspace.range(key(from)..key(to)).unwrap().count();
    assert_eq!(count(5_000, 9_000), 0);
    assert_eq!(count(95_000, 99_000), 0);
    assert_eq!(disk.take(), [], "no run has a key there");
    assert_eq!(count(35_000, 45_000), 1000);
    assert!(!disk.take().is_empty());
    assert_eq!(count(40_500, 40_501), 1);
    let one_table = disk.take();
    assert!(one_table.len() <= 2 && one_table.iter().all(|&count| count == 1), "{one_table:?}");
}

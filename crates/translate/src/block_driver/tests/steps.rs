//! How long a step of work keeps the host waiting (K10, K11), and what happens between two steps.

use super::*;
use crate::block_driver::data_zones::Stream;
use imbrex_clockwork::{Clock, Order, Runtime, VirtualWorld};
use imbrex_disk_sim::Profile;
use std::sync::atomic::{AtomicU64, Ordering};

/// A clock by which everything takes long.
#[derive(Debug, Default)]
pub(super) struct SlowClock(AtomicU64);

impl Clock for SlowClock {
    fn now_ns(&self) -> u64 {
        self.0.fetch_add(30_000_000, Ordering::Relaxed)
    }

    fn advance_to_ns(&self, _at_ns: u64) {}
}

/// A device whose every second block was written again, so that no run is longer than a block, on a drive
/// with a head and a cache of 32 MiB.
fn scattered(is_timed: bool) -> (BlockDriver, Arc<VirtualWorld>) {
    let (runtime, world) = Runtime::virtual_time(Order::SmallestTime);
    let drive = SimDisk::builder(zoned(40, 4096, 0)).profile(Profile::by_name("hc620").unwrap());
    let drive = drive.clock(Arc::clone(&runtime.clock)).memory().unwrap();
    let options = DriverOptions { bypass_len: Blocks::new(64), ..options(100) };
    let driver = BlockDriver::format(Arc::new(drive) as Arc<dyn Disk>, &options).unwrap();
    let driver = if is_timed { driver.with_clock(Arc::clone(&runtime.clock)) } else { driver };
    let data = vec![1; 64 * BLOCK_LEN_BYTES];
    for at in (0..3 * 3600).step_by(64) {
        driver.write(Lba::new(at), &data, Persist::Cached).unwrap();
    }
    for at in (0..3 * 3600).step_by(2) {
        driver.write(Lba::new(at), &data[..BLOCK_LEN_BYTES], Persist::Cached).unwrap();
    }
    driver.flush().unwrap();
    (driver, world)
}

/// K10: without a clock a step reads 4 MiB, and of single blocks that takes a disk seconds.
#[test]
fn a_step_of_cleaning_reads_for_a_time() {
    let longest_ms = |is_timed| {
        let (driver, world) = scattered(is_timed);
        let mut state = driver.state();
        let (mut longest_ns, mut count) = (0, 0);
        while state.counters.cleanings < 1 {
            // The host goes on reading.
            let written = state.written.all();
            state.steps.note_read(written);
            let (from_ns, moved) = (world.now_ns(), state.counters.moved_blocks);
            assert!(state.clean_step(false, 1024).unwrap() > 0);
            if moved == state.counters.moved_blocks {
                count += 1;
                // The first steps find the speed of the drive.
                let is_counted = !is_timed || count > 10;
                longest_ns = longest_ns.max(if is_counted { world.now_ns() - from_ns } else { 0 });
            }
        }
        (longest_ns / 1_000_000, count)
    };
    let ((timed, many), (untimed, few)) = (longest_ms(true), longest_ms(false));
    assert!((5..=50).contains(&timed), "{timed} ms");
    assert!(untimed > 300, "{untimed} ms");
    assert!(10 * few < many, "{few} and {many} steps");
}

/// K11: while the host reads, the drive's cache is flushed before a flush of it takes long. A host that
/// does not read has the whole cache.
#[test]
fn the_drives_cache_is_short_while_the_host_reads() {
    let longest = |reads: bool| {
        let (driver, _world) = scattered(true);
        let (mut prng, mut longest) = (Prng::new(1), 0);
        let data = vec![2; 32 * BLOCK_LEN_BYTES];
        for number in 0..1000 {
            let at = Lba::new(prng.below(3 * 3600));
            driver.write(at, &data, Persist::Cached).unwrap();
            longest = longest.max(driver.state().written.unflushed());
            if reads && number % 20 == 0 {
                driver.read(at, &mut [0; BLOCK_LEN_BYTES]).unwrap();
            }
        }
        longest
    };
    let (alone, beside) = (longest(false), longest(true));
    assert!(alone > 2048, "{alone}");
    assert!(beside < 1024, "{beside}");
}

/// Lanes that write at the same time each flushed what one flush makes durable, and took the time in which
/// they waited for each other for that of the drive.
#[test]
fn one_request_at_a_time_empties_the_drives_cache() {
    let (driver, _world) = scattered(true);
    driver.read(Lba::new(0), &mut [0; BLOCK_LEN_BYTES]).unwrap();
    let data = vec![2; 32 * BLOCK_LEN_BYTES];
    let write = |at: u64| driver.write(Lba::new(at), &data, Persist::Cached).unwrap();
    let another = driver.early.lock().unwrap();
    let (mut at, mut longest) = (0, 0);
    while longest <= 1024 && at < 3 * 3600 {
        write(at);
        at += 32;
        longest = longest.max(driver.state().written.unflushed());
    }
    assert!(longest > 1024, "it flushed beside another: {longest}");
    drop(another);
    write(at);
    let unflushed = driver.state().written.unflushed();
    assert!(unflushed < 1024, "{unflushed}");
}

/// Between the step that reads and the step that writes, the host writes, discards and rewrites what was
/// read: cleaning moves only what is still where it was.
#[test]
fn what_the_host_changes_between_two_steps_of_cleaning_stays() {
    for map_memory_bytes in [0, u64::MAX] {
        let drive = Arc::new(SimDisk::builder(zoned(60, 64, 0)).memory().unwrap());
        let options = DriverOptions { map_memory_bytes, ..options(60) };
        let driver = BlockDriver::format(Arc::clone(&drive) as Arc<dyn Disk>, &options).unwrap();
        let driver = driver.with_clock(Arc::new(SlowClock::default()));
        let len = driver.geometry().len().get() / 2;
        let mut content = vec![1u8; len as usize];
        let put = |content: &mut Vec<u8>, at: u64, byte: u8| {
            driver.write(Lba::new(at), &[byte; BLOCK_LEN_BYTES], Persist::Cached).unwrap();
            content[at as usize] = byte;
        };
        (0..len).for_each(|at| put(&mut content, at, 1));
        (0..len).step_by(5).for_each(|at| put(&mut content, at, 2));
        driver.checkpoint().unwrap();
        let (mut prng, mut between_count) = (Prng::new(5), 0);
        while driver.driver_counters().cleanings < 6 {
            driver.change(|state| state.clean_step(false, 40).map(drop)).unwrap();
            let is_between = driver
                .state()
                .cleaning
                .as_ref()
                .and_then(|cleaning| cleaning.batch.as_ref())
                .is_some_and(|batch| batch.is_read() && !batch.is_moved());
            between_count += u64::from(is_between);
            for _ in 0..if is_between { 12 } else { 0 } {
                let (at, byte) = (prng.below(len), 3 + prng.below(200) as u8);
                put(&mut content, at, byte);
                let at = prng.below(len);
                driver.discard(range(at, 1)).unwrap();
                content[at as usize] = 0;
            }
            invariants::check(&driver.state()).unwrap();
        }
        assert!(between_count > 6, "{between_count}");
        let check = |driver: &BlockDriver| {
            for (at, &expected) in (0..).zip(&content) {
                let mut block = [0; BLOCK_LEN_BYTES];
                driver.read(Lba::new(at), &mut block).unwrap();
                assert_eq!(block, [expected; BLOCK_LEN_BYTES], "block {at}");
            }
        };
        check(&driver);
        driver.flush().unwrap();
        drop(driver);
        check(&BlockDriver::open(Arc::clone(&drive) as Arc<dyn Disk>, &options).unwrap());
    }
}

/// K10: where no zone is left, cleaning makes room in steps too, and a read waits for one of them. Whole
/// zones are cleaned of single blocks, which takes a disk many seconds.
#[test]
fn a_write_that_waits_for_a_zone_keeps_the_lock_for_a_step() {
    let (driver, world) = scattered(true);
    let len = driver.geometry().len().get();
    let data = vec![3; 1024 * BLOCK_LEN_BYTES];
    for at in (3 * 3600..len - 64).step_by(64) {
        driver.write(Lba::new(at), &data[..64 * BLOCK_LEN_BYTES], Persist::Cached).unwrap();
    }
    for at in (0..len).step_by(2) {
        driver.write(Lba::new(at), &data[..BLOCK_LEN_BYTES], Persist::Cached).unwrap();
    }
    let (mut prng, mut longest_ns, mut count) = (Prng::new(7), 0, 0);
    while count < 5 {
        // Writes that pay nothing use up the zones.
        let is_short = |state: &DriverState| {
            state.zones.pool.free() <= state.reserve() && state.zones.rest_of(Stream::Host) < 2
        };
        while !is_short(&driver.state()) {
            let at = Lba::new(prng.below(len));
            let data = &data[..BLOCK_LEN_BYTES];
            driver.change(|state| state.write(at, data).map(drop)).unwrap();
        }
        count += 1;
        for number in 0..100 {
            let at = Lba::new(prng.below(len));
            driver.read(at, &mut [0; BLOCK_LEN_BYTES]).unwrap();
            let mut from_ns = world.now_ns();
            let mut step = || {
                longest_ns = longest_ns.max(world.now_ns() - from_ns);
                from_ns = world.now_ns();
            };
            let block_count = if number % 10 == 0 { 1024 } else { 1 };
            let at = Lba::new(at.get().min(len - block_count));
            let data = &data[..block_count as usize * BLOCK_LEN_BYTES];
            driver.write_in_steps(at, data, Persist::Cached, &mut step).unwrap();
            step();
        }
    }
    let longest_ms = longest_ns / 1_000_000;
    assert!(longest_ms < 200, "{longest_ms} ms");
    invariants::check(&driver.state()).unwrap();
}

//! The time to open the block device of a 14 TB drive, by the size of its map: modelled time of the
//! drive, and real time of the program. Also for a checkpoint that is written while the host goes
//! on: the time to begin it, and the longest step after that, with the copy to an emulated drive.
//! Then the drive's time to open a device whose write buffer is full of single blocks far apart, and
//! one whose journal has an entry for each of many flushes. Last, the program's time for a write of 4 KiB to the empty write buffer.
//!
//! `cargo bench -p imbrex-translate --features micro-bench --bench recovery [-- NODES...]`
#![allow(missing_docs, reason = "a benchmark has no API")]
#![allow(clippy::disallowed_methods, reason = "a benchmark measures real time")]
#![allow(clippy::unwrap_used, reason = "a benchmark may stop at the first failure")]

mod zoned;

use imbrex_clockwork::{Order, Prng, Runtime};
use imbrex_disk::{BLOCK_LEN_BYTES, Blocks, Disk, Lba, Pba, Persist};
use imbrex_translate::model::MapRun;
use imbrex_translate::{BlockDriver, DriverOptions};
use std::sync::Arc;
use std::time::Instant;
use zoned::{ZONE_LEN, drive};

const ZONE_COUNT: u64 = 52_156;
/// Zones without data: superblocks, journal, spare.
const FIRST_ZONE: u64 = 10;

/// `count` runs, spread over the device, none next to its neighbour in LBA.
fn nodes(count: u64, len: u64) -> impl Iterator<Item = MapRun> {
    let step = len / count;
    let mut prng = Prng::new(1);
    (0..count).map(move |index| {
        let mirrored = index ^ 0x3ff;
        let slot = if mirrored < count { mirrored } else { index };
        let at = FIRST_ZONE * ZONE_LEN + slot * step;
        let room = (ZONE_LEN - at % ZONE_LEN).min(step - 1);
        let len = (1 + prng.below(20)).min(room);
        MapRun { start: Lba::new(index * step), at: Pba::new(at), len: Blocks::new(len) }
    })
}

/// The drive's time to open a device with a full write buffer, how many blocks were in the buffer,
/// and how many entries of the journal were replayed.
fn full_buffer_s(buffer_bytes: u64) -> (f64, u64, u64) {
    let (runtime, _world) = Runtime::virtual_time(Order::SmallestTime);
    let disk = drive(&runtime, ZONE_COUNT, 0);
    let buffer_len = Blocks::holding(buffer_bytes);
    let options = DriverOptions { id: 1, buffer_len, ..DriverOptions::default() };
    let driver = BlockDriver::format(Arc::clone(&disk), &options).unwrap();
    let slot_count = driver.geometry().len().get() / 2;
    let mut prng = Prng::new(1);
    // More than fit, so that the buffer is as full as it gets and the journal has gaps.
    for _ in 0..2 * buffer_len.get() {
        let at = Lba::new(2 * prng.below(slot_count));
        driver.write(at, &[7; BLOCK_LEN_BYTES], Persist::Cached).unwrap();
    }
    driver.flush().unwrap();
    drop(driver);
    let from_ns = runtime.clock.now_ns();
    let counters = BlockDriver::open(disk, &options).unwrap().driver_counters();
    let drive_s = (runtime.clock.now_ns() - from_ns) as f64 / 1e9;
    (drive_s, counters.buffered_blocks, counters.replayed_entries)
}

/// The drive's time to open a device after flushes of one block each, and how many entries of the
/// journal were replayed.
fn flushed_s(flush_count: u64) -> (f64, u64) {
    let (runtime, _world) = Runtime::virtual_time(Order::SmallestTime);
    let disk = drive(&runtime, 800, 0);
    let options = DriverOptions { id: 1, ..DriverOptions::default() };
    let driver = BlockDriver::format(Arc::clone(&disk), &options).unwrap();
    let len = driver.geometry().len().get();
    let mut prng = Prng::new(1);
    for _ in 0..flush_count {
        let at = Lba::new(prng.below(len));
        driver.write(at, &[7; BLOCK_LEN_BYTES], Persist::Through).unwrap();
    }
    drop(driver);
    let from_ns = runtime.clock.now_ns();
    let counters = BlockDriver::open(disk, &options).unwrap().driver_counters();
    ((runtime.clock.now_ns() - from_ns) as f64 / 1e9, counters.replayed_entries)
}

fn write_us() -> f64 {
    const WRITE_COUNT: u64 = 10_000;
    let (runtime, _world) = Runtime::virtual_time(Order::SmallestTime);
    let options = DriverOptions { id: 1, ..DriverOptions::default() };
    let driver = BlockDriver::format(drive(&runtime, ZONE_COUNT, 0), &options).unwrap();
    let start = Instant::now();
    for index in 0..WRITE_COUNT {
        driver.write(Lba::new(2 * index), &[7; BLOCK_LEN_BYTES], Persist::Cached).unwrap();
    }
    start.elapsed().as_secs_f64() * 1e6 / WRITE_COUNT as f64
}

fn main() {
    let asked: Vec<u64> = std::env::args().filter_map(|arg| arg.parse().ok()).collect();
    let counts = if asked.is_empty() { vec![1_000_000, 10_000_000, 30_000_000] } else { asked };
    println!("nodes       drive_s  program_s  map_mb  begin_ms  step_ms");
    for count in counts {
        let (runtime, _world) = Runtime::virtual_time(Order::SmallestTime);
        let disk = drive(&runtime, ZONE_COUNT, 0);
        let options = DriverOptions { id: 1, ..DriverOptions::default() };
        let device_len = disk.geometry().len().get() * 9 / 10;
        BlockDriver::format_with_map(Arc::clone(&disk), &options, nodes(count, device_len))
            .unwrap();
        let (drive, program) = (runtime.clock.now_ns(), Instant::now());
        let driver = BlockDriver::open(disk, &options).unwrap();
        let program_s = program.elapsed().as_secs_f64();
        let drive_s = (runtime.clock.now_ns() - drive) as f64 / 1e9;
        let counters = driver.driver_counters();
        let (found, map_mb) = (counters.mapping_nodes, counters.mapping_bytes / 1_000_000);
        let mut steps_ms = Vec::new();
        let mut last = Instant::now();
        let between = || {
            steps_ms.push(last.elapsed().as_secs_f64() * 1e3);
            last = Instant::now();
        };
        driver.checkpoint_in_steps(between).unwrap();
        let (begin_ms, step_ms) = (steps_ms[0], steps_ms[1..].iter().fold(0.0, |a, &b| b.max(a)));
        print!("{found:<10} {drive_s:>8.2} {program_s:>10.2} {map_mb:>7}");
        println!(" {begin_ms:>9.1} {step_ms:>8.1}");
    }
    println!("buffer_mib   drive_s  buffered  replayed");
    for mib in [64, 512, 1024] {
        let (drive_s, buffered, replayed) = full_buffer_s(mib << 20);
        println!("{mib:<10} {drive_s:>9.2} {buffered:>9} {replayed:>9}");
    }
    println!("flushes    drive_s  replayed");
    for count in [100, 1_000, 10_000, 18_000] {
        let (drive_s, replayed) = flushed_s(count);
        println!("{count:<10} {drive_s:>7.2} {replayed:>9}");
    }
    println!("a write of 4 KiB to the write buffer: {:.1} us", write_us());
}

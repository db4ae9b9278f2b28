//! What a bound of the map's memory costs: the same single blocks at random, with less and less
//! memory for their nodes.
//!
//! Single blocks, each far from the next, are written once in random order, so that each is a node.
//! Then such blocks are overwritten at random, as many as the write buffer holds eight times. Times are
//! those of the emulated drive, and the map's memory is that of its longest moment.
//!
//! `cargo bench -p imbrex-translate --bench map_memory [-- NODES]`
#![allow(missing_docs, reason = "a benchmark has no API")]
#![allow(clippy::unwrap_used, reason = "a benchmark may stop at the first failure")]

mod zoned;

use imbrex_clockwork::{Order, Prng, Runtime};
use imbrex_disk::{BLOCK_LEN_BYTES, Blocks, Disk, Lba, Persist};
use imbrex_translate::{BlockDriver, DriverOptions};
use std::sync::Arc;
use zoned::drive;

/// How many blocks are read one by one.
const READ_COUNT: u64 = 500;

fn run(node_count: u64, map_memory_bytes: u64) {
    let (runtime, _world) = Runtime::virtual_time(Order::SmallestTime);
    let buffer_len = Blocks::holding(64 << 20);
    let options = DriverOptions { id: 1, buffer_len, map_memory_bytes, ..DriverOptions::default() };
    let drive = drive(&runtime, 160, 2);
    let driver = BlockDriver::format(Arc::clone(&drive), &options).unwrap();
    let stride = driver.geometry().len().get() / node_count;
    let mut prng = Prng::new(1);
    let data = vec![7; BLOCK_LEN_BYTES];
    let write = |nth: u64| {
        driver.write(Lba::new(nth * stride), &data, Persist::Cached).unwrap();
    };
    let mut longest_bytes = 0;
    let mut order: Vec<u64> = (0..node_count).collect();
    for at in (1..node_count).rev() {
        order.swap(at as usize, prng.below(at + 1) as usize);
    }
    order.into_iter().for_each(write);
    let (before, before_ns) = (driver.driver_counters(), runtime.clock.now_ns());
    while driver.driver_counters().host_blocks - before.host_blocks < 8 * buffer_len.get() {
        (0..1000).for_each(|_| write(prng.below(node_count)));
        longest_bytes = longest_bytes.max(driver.driver_counters().mapping_bytes);
    }
    let (now, now_ns) = (driver.driver_counters(), runtime.clock.now_ns());
    let host = (now.host_blocks - before.host_blocks) as f64;
    let mut found = vec![0; BLOCK_LEN_BYTES];
    let read_ns = runtime.clock.now_ns();
    for _ in 0..READ_COUNT {
        driver.read(Lba::new(prng.below(node_count) * stride), &mut found).unwrap();
    }
    let read_ms = (runtime.clock.now_ns() - read_ns) as f64 / 1e6 / READ_COUNT as f64;
    driver.flush().unwrap();
    drop(driver);
    let open_ns = runtime.clock.now_ns();
    drop(BlockDriver::open(drive, &options).unwrap());
    println!(
        "{:>9} {:>9} {:>11} {:>13.1} {:>8.2} {:>9.0} {:>8.2} {:>7.1}",
        if map_memory_bytes == u64::MAX {
            "none".to_owned()
        } else {
            (map_memory_bytes >> 10).to_string()
        },
        now.mapping_nodes,
        now.mapping_nodes_on_drive,
        longest_bytes as f64 / 1e6,
        100.0 * (now.checkpoint_blocks - before.checkpoint_blocks) as f64 / host,
        host / ((now_ns - before_ns) as f64 / 1e9),
        read_ms,
        (runtime.clock.now_ns() - open_ns) as f64 / 1e9,
    );
}

fn main() {
    let asked: Option<u64> = std::env::args().find_map(|arg| arg.parse().ok());
    println!("bound_KiB     nodes    on_drive map_MB_longest checkp_% writes/s  read_ms  open_s");
    for bound in [u64::MAX, 16 << 20, 8 << 20, 4 << 20, 2 << 20] {
        run(asked.unwrap_or(500_000), bound);
    }
}

//! What the block device writes of its own for each block of the host, by the length of its map:
//! journal headers, checkpoints and summaries.
//!
//! Single blocks are written at random until the map has the nodes of the row, and then as many
//! again as the write buffer holds eight times. `whole` writes a whole checkpoint each time.
//!
//! `cargo bench -p imbrex-translate --bench metadata [-- NODES...]`
#![allow(missing_docs, reason = "a benchmark has no API")]
#![allow(clippy::unwrap_used, reason = "a benchmark may stop at the first failure")]

mod zoned;

use imbrex_clockwork::{Order, Prng, Runtime};
use imbrex_disk::{BLOCK_LEN_BYTES, Blocks, Disk, Lba, Persist};
use imbrex_translate::{BlockDriver, DriverOptions};
use zoned::drive;

fn run(node_count: u64, delta_from_bytes: u64, lens: &[u64], what: &str) {
    let (runtime, _world) = Runtime::virtual_time(Order::SmallestTime);
    let buffer_len = Blocks::holding(64 << 20);
    let options = DriverOptions { id: 1, buffer_len, delta_from_bytes, ..DriverOptions::default() };
    let driver = BlockDriver::format(drive(&runtime, 400, 2), &options).unwrap();
    let device_len = driver.geometry().len().get();
    let mut prng = Prng::new(1);
    let data = vec![7; 256 * BLOCK_LEN_BYTES];
    let write = |prng: &mut Prng| {
        let len = lens[prng.below(lens.len() as u64) as usize];
        let at = prng.below(device_len - len);
        let bytes = Blocks::new(len).bytes() as usize;
        driver.write(Lba::new(at), &data[..bytes], Persist::Cached).unwrap();
    };
    while driver.driver_counters().mapping_nodes < node_count {
        (0..1000).for_each(|_| write(&mut prng));
    }
    let before = driver.driver_counters();
    while driver.driver_counters().host_blocks - before.host_blocks < 16 * buffer_len.get() {
        (0..1000).for_each(|_| write(&mut prng));
    }
    let now = driver.driver_counters();
    let host = (now.host_blocks - before.host_blocks) as f64;
    let share = |now: u64, before: u64| 100.0 * (now - before) as f64 / host;
    let checkpoints = now.checkpoints - before.checkpoints;
    println!(
        "{:>10} {what:>9} {:>6} {:>11} {:>6} {:>12.2} {:>9.1} {:>9.2}",
        now.mapping_nodes,
        if delta_from_bytes == u64::MAX { "whole" } else { "deltas" },
        checkpoints,
        now.delta_checkpoints - before.delta_checkpoints,
        share(now.checkpoint_blocks, before.checkpoint_blocks),
        share(now.journal_blocks, before.journal_blocks),
        share(now.summary_blocks, before.summary_blocks),
    );
}

fn main() {
    let asked: Vec<u64> = std::env::args().filter_map(|arg| arg.parse().ok()).collect();
    let counts = if asked.is_empty() { vec![700_000, 1_500_000] } else { asked };
    println!("shares are of the host's blocks, in %");
    println!("     nodes    writes    way checkpoints deltas checkpoint_% journal_% summary_%");
    for count in counts {
        for delta_from_bytes in [u64::MAX, DriverOptions::default().delta_from_bytes] {
            run(count, delta_from_bytes, &[1], "4K");
            run(count, delta_from_bytes, &[1, 1, 1, 1, 1, 1, 16, 16, 16, 256], "mixed");
        }
    }
}

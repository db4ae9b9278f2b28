//! How long the block device makes its host wait when the drive is nearly full and the host never
//! pauses: modelled time of each request. Requests come one at a time, each when the last has
//! returned.
//!
//! The device is filled whole. Then a device with 1 GiB of buffer serves 70 % writes and 30 % reads
//! of 4 KiB (60 %), 64 KiB (30 %) and 1 MiB (10 %). Four fifths of them go to a fifth of the
//! device, with a flush after each thousand, until a third of the device's length has been written.
//! A third run, at 95 %, has only requests of 1 MiB.
//!
//! `written` is what the drive wrote for each block of the host's: all of it, counted at the drive. Of that
//! `moved` was moved by cleaning, `journal` went to the journal, and `metadata` is checkpoints and summaries.
//!
//! `cargo bench -p imbrex-translate --bench stalls [-- GIB [ROW]...]`, a row being `80`, `95` or `long`.
#![allow(missing_docs, reason = "a benchmark has no API")]
#![allow(clippy::unwrap_used, reason = "a benchmark may stop at the first failure")]

mod zoned;

use imbrex_clockwork::{Order, Prng, Runtime};
use imbrex_disk::{Blocks, Disk, Lba, Persist};
use imbrex_translate::{BlockDriver, DriverOptions};
use zoned::drive;

const FILL_LEN: u64 = 1024;

/// In blocks; each is as likely as the others.
const MIXED: [u64; 10] = [1, 1, 1, 1, 1, 1, 16, 16, 16, 256];
const LONG: [u64; 10] = [256; 10];

/// Modelled times of one kind of request, in ns.
#[derive(Default)]
struct Times(Vec<u64>);

impl Times {
    fn permille_ms(&mut self, permille: usize) -> f64 {
        self.0.sort_unstable();
        let last = self.0.len().saturating_sub(1);
        self.0.get(last * permille / 1000).map_or(0.0, |&ns| ns as f64 / 1e6)
    }
}

/// A device whose every block is written.
fn full_device(runtime: &Runtime, zone_count: u64, full_percent: u64) -> BlockDriver {
    let options = DriverOptions {
        id: 1,
        buffer_len: Blocks::holding(1 << 30),
        spare_percent: 100 - full_percent,
        ..DriverOptions::default()
    };
    let driver = BlockDriver::format(drive(runtime, zone_count, 2), &options).unwrap();
    let device_len = driver.geometry().len().get();
    let data = vec![7; Blocks::new(FILL_LEN).bytes() as usize];
    for at in (0..device_len - FILL_LEN).step_by(FILL_LEN as usize) {
        driver.write(Lba::new(at), &data, Persist::Cached).unwrap();
    }
    driver.flush().unwrap();
    driver
}

fn run(zone_count: u64, full_percent: u64, lens: [u64; 10]) {
    let (runtime, _world) = Runtime::virtual_time(Order::SmallestTime);
    let driver = full_device(&runtime, zone_count, full_percent);
    let device_len = driver.geometry().len().get();
    let data = vec![7; Blocks::new(FILL_LEN).bytes() as usize];
    let mut prng = Prng::new(full_percent);
    let (mut writes, mut reads, mut flushes) =
        (Times::default(), Times::default(), Times::default());
    let (mut written, mut buf) = (0, vec![0; data.len()]);
    let (before, start_ns) = (driver.driver_counters(), runtime.clock.now_ns());
    let drive_before = driver.counters();
    for number in 1.. {
        let blocks = lens[prng.below(10) as usize];
        let part = if prng.chance(4, 5) { device_len / 5 } else { device_len };
        let at = Lba::new(prng.below(part - blocks));
        let bytes = Blocks::new(blocks).bytes() as usize;
        let from_ns = runtime.clock.now_ns();
        let times = if prng.chance(7, 10) {
            driver.write(at, &data[..bytes], Persist::Cached).unwrap();
            written += blocks;
            &mut writes
        } else {
            driver.read(at, &mut buf[..bytes]).unwrap();
            &mut reads
        };
        times.0.push(runtime.clock.now_ns() - from_ns);
        if number % 1000 == 0 {
            let from_ns = runtime.clock.now_ns();
            driver.flush().unwrap();
            flushes.0.push(runtime.clock.now_ns() - from_ns);
        }
        if device_len / 3 <= written {
            break;
        }
    }
    let (now, drive) = (driver.driver_counters(), driver.counters());
    let seconds = (runtime.clock.now_ns() - start_ns) as f64 / 1e9;
    let of_host = |blocks: u64| blocks as f64 / written as f64;
    println!(
        "{full_percent:>6} {:>8} {:>9.1} {:>9.1} {:>9.1} {:>9.1} {:>9.1} {:>9.1} {:>6.1} {:>9} {:>9} {:>7.2} {:>6.2} \
         {:>7.2} {:>8.4}",
        writes.0.len(),
        writes.permille_ms(500),
        writes.permille_ms(990),
        writes.permille_ms(999),
        writes.permille_ms(1000),
        reads.permille_ms(1000),
        flushes.permille_ms(1000),
        Blocks::new(written).bytes() as f64 / 1e6 / seconds,
        now.timely_cleanings - before.timely_cleanings,
        (now.cleanings - before.cleanings)
            .saturating_sub(now.timely_cleanings - before.timely_cleanings),
        of_host(Blocks::holding(drive.written_bytes - drive_before.written_bytes).get()),
        of_host(now.moved_blocks - before.moved_blocks),
        of_host(now.journal_blocks - before.journal_blocks),
        of_host(
            now.checkpoint_blocks + now.summary_blocks
                - before.checkpoint_blocks
                - before.summary_blocks,
        ),
    );
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let zone_count = 4 * args.first().map_or(64, |gib| gib.parse().expect("the length in GiB"));
    let rows = [("80", 80, MIXED), ("95", 95, MIXED), ("long", 95, LONG)];
    for arg in args.iter().skip(1) {
        let is_row = rows.iter().any(|(row, ..)| arg == row);
        assert!(is_row, "{arg} is no row; there are 80, 95 and long");
    }
    let is_asked = |row: &str| args.len() < 2 || args[1..].iter().any(|arg| arg == row);
    println!(
        "full_%   writes    p50_ms    p99_ms  p99.9_ms    max_ms read_max  flush_max   mb_s    timely    urgent written  moved journal metadata"
    );
    for (row, full_percent, lens) in rows {
        if is_asked(row) {
            run(zone_count, full_percent, lens);
        }
    }
}

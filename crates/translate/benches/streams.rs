//! How fast a host fills the block device with writes that continue each other, beside the drive's
//! own speed: modelled time. The same length is first written to the drive zone by zone.
//!
//! A row fills the device once, with requests of one length and one or more streams in turn, each
//! over a part of the device of its own. Some rows flush after each 64 MiB.
//!
//! `cargo bench -p imbrex-translate --bench streams [-- GIB]`
#![allow(missing_docs, reason = "a benchmark has no API")]
#![allow(clippy::unwrap_used, reason = "a benchmark may stop at the first failure")]

mod zoned;

use imbrex_clockwork::{Order, Runtime};
use imbrex_disk::{Blocks, Disk, Lba, Persist};
use imbrex_translate::{BlockDriver, DriverOptions};
use zoned::{ZONE_LEN, drive};

const CONVENTIONAL_ZONE_COUNT: u32 = 2;
const JOURNAL_ZONE_COUNT: u32 = 4;
/// A flush after so many blocks, where a row asks for flushes.
const FLUSHED_LEN: u64 = (64 << 20) / 4096;

struct Row {
    request_len: u64,
    stream_count: u64,
    stream_len: Option<Blocks>,
    flushes: bool,
}

/// MB/s of the drive itself: `len` blocks from the place on where a device has its first data zone.
fn own_speed(zone_count: u64, len: Blocks) -> f64 {
    let (runtime, _world) = Runtime::virtual_time(Order::SmallestTime);
    let disk = drive(&runtime, zone_count, CONVENTIONAL_ZONE_COUNT);
    let data = vec![7; Blocks::new(1024).bytes() as usize];
    let start = u64::from(CONVENTIONAL_ZONE_COUNT + JOURNAL_ZONE_COUNT) * ZONE_LEN;
    for at in (start..start + len.get()).step_by(1024) {
        disk.write(Lba::new(at), &data, Persist::Cached).unwrap();
    }
    disk.flush().unwrap();
    len.bytes() as f64 / 1e6 / (runtime.clock.now_ns() as f64 / 1e9)
}

fn device_len(zone_count: u64) -> Blocks {
    let (runtime, _world) = Runtime::virtual_time(Order::SmallestTime);
    let options =
        DriverOptions { id: 1, journal_zone_count: JOURNAL_ZONE_COUNT, ..DriverOptions::default() };
    BlockDriver::format(drive(&runtime, zone_count, CONVENTIONAL_ZONE_COUNT), &options)
        .unwrap()
        .geometry()
        .len()
}

fn run(zone_count: u64, own: f64, row: &Row) {
    let (runtime, _world) = Runtime::virtual_time(Order::SmallestTime);
    let options = DriverOptions {
        id: 1,
        journal_zone_count: JOURNAL_ZONE_COUNT,
        stream_len: row.stream_len,
        ..DriverOptions::default()
    };
    let driver =
        BlockDriver::format(drive(&runtime, zone_count, CONVENTIONAL_ZONE_COUNT), &options)
            .unwrap();
    let part = driver.geometry().len().get() / row.stream_count;
    let data = vec![7; Blocks::new(row.request_len).bytes() as usize];
    let from_ns = runtime.clock.now_ns();
    let mut written = 0;
    for at in (0..=part - row.request_len).step_by(row.request_len as usize) {
        for stream in 0..row.stream_count {
            driver.write(Lba::new(stream * part + at), &data, Persist::Cached).unwrap();
            written += row.request_len;
            if row.flushes && written.is_multiple_of(FLUSHED_LEN) {
                driver.flush().unwrap();
            }
        }
    }
    driver.flush().unwrap();
    let seconds = (runtime.clock.now_ns() - from_ns) as f64 / 1e9;
    let speed = Blocks::new(written).bytes() as f64 / 1e6 / seconds;
    let counters = driver.driver_counters();
    let share = |blocks: u64| 100.0 * blocks as f64 / written as f64;
    println!(
        "{:>10} {:>7} {:>8} {:>7} {speed:>7.1} {:>7.1} {:>9.2} {:>12.2} {:>9.2} {:>8}",
        Blocks::new(row.request_len).bytes() / 1024,
        row.stream_count,
        if row.stream_len.is_some() { "streams" } else { "journal" },
        if row.flushes { "64 MiB" } else { "none" },
        100.0 * speed / own,
        share(counters.journal_blocks),
        share(counters.checkpoint_blocks),
        share(counters.summary_blocks),
        counters.mapping_nodes,
    );
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let zone_count = 4 * args.first().map_or(16, |gib| gib.parse().expect("the length in GiB"));
    let own = own_speed(zone_count, device_len(zone_count));
    println!("the drive itself: {own:.1} MB/s; shares are of the host's blocks");
    println!(
        "request_kb streams      way flushes    mb_s drive_% journal_% checkpoint_% summary_%    nodes"
    );
    let streams = DriverOptions::default().stream_len;
    let row = |request_len, stream_count, stream_len, flushes| Row {
        request_len,
        stream_count,
        stream_len,
        flushes,
    };
    for row in [
        row(128, 1, None, false),
        row(128, 1, streams, false),
        row(128, 1, streams, true),
        row(1, 1, streams, false),
        row(128, 8, None, false),
        row(128, 8, streams, false),
        row(128, 8, streams, true),
    ] {
        run(zone_count, own, &row);
    }
}

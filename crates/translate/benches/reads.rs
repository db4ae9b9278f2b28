//! How long random reads take beside a full load of writes, against the same reads on an idle device, in
//! modelled time.
//!
//! ```text
//!     reader   --pause--> read --pause--> read ...      one request at a time, 4 KiB at random
//!     writer   write write write flush write ...        one after the other, without a pause
//!                  | step | step | step |               the driver's lock is free between two steps
//! ```
//!
//! The device is filled whole to 80 % of its data zones, then written at random until zones are cleaned.
//! The reader reads alone, and then the same blocks beside the writer, which flushes after each thousand
//! writes. Four fifths of the writes go to a fifth of the device.
//!
//! A read that arrives during a step of the writer gets the lock when the step ends. From then on both
//! have a clock of their own. The drive serves the request that came first, and a read waits for a flush of
//! the drive, as on a SATA drive.
//!
//! Behind the figures is what the slowest hundredth of the reads waited for, in % of their time: the lock,
//! and whatever the drive did for the driver meanwhile. The rest is the read itself and what the drive
//! wrote from its cache. `ratio` is p99 for p99 alone.
//!
//! `cargo bench -p imbrex-translate --bench reads [-- GIB [READS [ROW]...]]`, a row being `mixed`, `short`
//! or `long`.
#![allow(missing_docs, reason = "a benchmark has no API")]
#![allow(clippy::unwrap_used, reason = "a benchmark may stop at the first failure")]

mod zoned;

use imbrex_clockwork::{ClientId, Clock, Order, Prng, Runtime, VirtualWorld};
use imbrex_disk::{Activity, Blocks, Disk, DiskError, DiskLayer, Lba, Persist, ReadRequest};
use imbrex_translate::{BlockDriver, DriverOptions};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use zoned::drive;

const FILL_LEN: u64 = 1024;
/// The longest pause of the reader; the mean is half of it.
const PAUSE_MAX_NS: u64 = 100_000_000;
/// How much is written without a reader: 2 GiB.
const WRITTEN_ALONE_LEN: u64 = (2 << 30) / 4096;
/// In blocks; each is as likely as the others.
const MIXED: [u64; 10] = [1, 1, 1, 1, 1, 1, 16, 16, 16, 256];
const SHORT: [u64; 10] = [1; 10];
const LONG: [u64; 10] = [128; 10];

/// A request of the writer to the drive.
#[derive(Clone, Copy)]
struct Served {
    what: (&'static str, Activity),
    from_ns: u64,
    to_ns: u64,
}

/// The drive, with a list of the writer's latest requests.
#[derive(Debug)]
struct Watched {
    below: Arc<dyn Disk>,
    activity: Activity,
    clock: Arc<dyn Clock>,
    served: Arc<Mutex<Vec<Served>>>,
}

impl std::fmt::Debug for Served {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.what)
    }
}

impl Watched {
    fn note<T>(&self, what: &'static str, request: impl FnOnce() -> T) -> T {
        let from_ns = self.clock.now_ns();
        let outcome = request();
        let (what, to_ns) = ((what, self.activity), self.clock.now_ns());
        if self.activity != Activity::User && from_ns < to_ns {
            self.served.lock().unwrap().push(Served { what, from_ns, to_ns });
        }
        outcome
    }
}

impl DiskLayer for Watched {
    fn below(&self) -> &dyn Disk {
        &*self.below
    }

    fn pass_read_batch(&self, requests: &mut [ReadRequest<'_>]) -> Result<(), DiskError> {
        self.note("read", || self.below.read_batch(requests))
    }

    fn pass_write(&self, at: Lba, data: &[u8], persist: Persist) -> Result<(), DiskError> {
        self.note("write", || self.below.write(at, data, persist))
    }

    fn pass_flush(&self) -> Result<(), DiskError> {
        self.note("flush", || self.below.flush())
    }

    fn pass_for_activity(self: Arc<Self>, activity: Activity) -> Option<Arc<dyn Disk>> {
        let below = Arc::clone(&self.below);
        let below = Arc::clone(&below).for_activity(activity).unwrap_or(below);
        let (clock, served) = (Arc::clone(&self.clock), Arc::clone(&self.served));
        Some(Arc::new(Watched { below, activity, clock, served }))
    }
}

/// One read.
struct ReadTime {
    ns: u64,
    /// How much of it passed before the reader got the lock.
    lock_ns: u64,
    waited_for: BTreeMap<(&'static str, Activity), u64>,
}

struct Reader<'a> {
    world: &'a VirtualWorld,
    client: ClientId,
    driver: &'a BlockDriver,
    served: &'a Mutex<Vec<Served>>,
    prng: Prng,
    arrival_ns: u64,
    left: usize,
    times: Vec<ReadTime>,
}

impl<'a> Reader<'a> {
    fn new(
        world: &'a VirtualWorld,
        driver: &'a BlockDriver,
        served: &'a Mutex<Vec<Served>>,
        count: usize,
    ) -> Reader<'a> {
        let client = world.client("reader");
        let mut prng = Prng::new(7);
        let arrival_ns = world.client_now_ns(client) + prng.below(PAUSE_MAX_NS);
        Reader { world, client, driver, served, prng, arrival_ns, left: count, times: Vec::new() }
    }

    /// One read that gets the lock at `lock_ns`.
    fn read(&mut self, lock_ns: u64) {
        let len = self.driver.geometry().len().get();
        let at = Lba::new(self.prng.below(len));
        let start_ns = self.arrival_ns.max(lock_ns);
        let mut buf = vec![0; 4096];
        let (world, driver) = (self.world, self.driver);
        world.as_client(self.client, || {
            world.advance_to_ns(start_ns);
            driver.read(at, &mut buf).unwrap();
        });
        let end_ns = world.client_now_ns(self.client);
        let mut waited_for = BTreeMap::new();
        let mut served = self.served.lock().unwrap();
        served.retain(|served| self.arrival_ns < served.to_ns);
        for served in served.iter() {
            let ns = served.to_ns.min(end_ns).saturating_sub(served.from_ns.max(self.arrival_ns));
            *waited_for.entry(served.what).or_default() += ns;
        }
        self.times.push(ReadTime {
            ns: end_ns - self.arrival_ns,
            lock_ns: start_ns - self.arrival_ns,
            waited_for,
        });
        self.arrival_ns = end_ns + self.prng.below(PAUSE_MAX_NS);
        self.left -= 1;
    }

    /// All reads that have arrived at `now_ns`, when the lock became free.
    fn catch_up(&mut self, now_ns: u64) {
        while self.left > 0 && self.arrival_ns <= now_ns {
            self.read(now_ns);
        }
    }

    fn report(mut self, row: &str, alone: Option<f64>, seconds: f64, written: u64) -> f64 {
        self.times.sort_by_key(|time| time.ns);
        let last = self.times.len() - 1;
        let ms = |ns: u64| ns as f64 / 1e6;
        let at = |permille: usize| ms(self.times[last * permille / 1000].ns);
        let p99 = at(990);
        let written_mb_s = Blocks::new(written).bytes() as f64 / 1e6 / seconds;
        let ratio = alone.map_or(String::new(), |alone| format!("{:.2}", p99 / alone));
        print!(
            "{row:>14} {:>6} {:>7.1} {:>7.1} {:>7.1} {:>7.1} {:>6} {:>7.1} {:>6.1}",
            self.times.len(),
            at(500),
            p99,
            at(999),
            at(1000),
            ratio,
            self.times.len() as f64 / seconds,
            written_mb_s
        );
        let slow = &self.times[last * 990 / 1000..];
        let all: u64 = slow.iter().map(|time| time.ns).sum();
        let share = |ns: u64| 100.0 * ns as f64 / all as f64;
        let mut parts: BTreeMap<(&'static str, Activity), u64> = BTreeMap::new();
        for (what, ns) in slow.iter().flat_map(|time| &time.waited_for) {
            *parts.entry(*what).or_default() += ns;
        }
        let mut parts: Vec<_> = parts.into_iter().map(|(what, ns)| (ns, what)).collect();
        parts.sort_unstable_by(|a, b| b.cmp(a));
        print!("   lock {:.0}%;", share(slow.iter().map(|time| time.lock_ns).sum()));
        for (ns, (what, activity)) in parts.into_iter().take(6) {
            print!(" {activity:?} {what} {:.0}%", share(ns));
        }
        println!();
        p99
    }
}

/// The load of writes.
struct Writer<'a> {
    driver: &'a BlockDriver,
    lens: [u64; 10],
    data: Vec<u8>,
    prng: Prng,
    count: u64,
}

impl<'a> Writer<'a> {
    fn new(driver: &'a BlockDriver, lens: [u64; 10]) -> Writer<'a> {
        let data = vec![7; Blocks::new(FILL_LEN).bytes() as usize];
        Writer { driver, lens, data, prng: Prng::new(80), count: 0 }
    }

    /// Writes every block.
    fn fill(&mut self) {
        let last = self.driver.geometry().len().get() - FILL_LEN;
        for at in (0..last).step_by(FILL_LEN as usize) {
            self.driver.write(Lba::new(at), &self.data, Persist::Cached).unwrap();
        }
        self.driver.flush().unwrap();
    }

    /// The next write, and a flush after each thousand; returns the length.
    fn write(&mut self, between: &mut dyn FnMut()) -> u64 {
        let device_len = self.driver.geometry().len().get();
        let blocks = self.lens[self.prng.below(10) as usize];
        let part = if self.prng.chance(4, 5) { device_len / 5 } else { device_len };
        let at = Lba::new(self.prng.below(part - blocks));
        let data = &self.data[..Blocks::new(blocks).bytes() as usize];
        self.driver.write_in_steps(at, data, Persist::Cached, between).unwrap();
        self.count += 1;
        if self.count.is_multiple_of(1000) {
            self.driver.flush().unwrap();
            between();
        }
        blocks
    }

    /// Writes until zones are cleaned, and then for the figure without a reader.
    fn write_alone(&mut self, row: &str, world: &VirtualWorld) {
        let (mut written, device_len) = (0, self.driver.geometry().len().get());
        while self.driver.driver_counters().cleanings < 4 && written < device_len {
            written += self.write(&mut || {});
        }
        self.driver.flush().unwrap();
        let (from_ns, mut written) = (world.now_ns(), 0);
        while written < WRITTEN_ALONE_LEN {
            written += self.write(&mut || {});
        }
        self.driver.flush().unwrap();
        let seconds = (world.now_ns() - from_ns) as f64 / 1e9;
        let written_mb_s = Blocks::new(written).bytes() as f64 / 1e6 / seconds;
        println!("{:>14} {written_mb_s:>58.1}", format!("{row}, no reads"));
    }
}

fn run(row: &str, zone_count: u64, lens: [u64; 10], read_count: usize) {
    let (runtime, world) = Runtime::virtual_time(Order::SmallestTime);
    let served = Arc::new(Mutex::new(Vec::new()));
    let disk: Arc<dyn Disk> = Arc::new(Watched {
        below: drive(&runtime, zone_count, 2),
        activity: Activity::User,
        clock: Arc::clone(&runtime.clock),
        served: Arc::clone(&served),
    });
    let options = DriverOptions {
        id: 1,
        buffer_len: Blocks::holding(256 << 20),
        spare_percent: 20,
        ..DriverOptions::default()
    };
    let driver = BlockDriver::format(disk, &options).unwrap();
    let driver = driver.with_clock(Arc::clone(&runtime.clock));
    let mut writer = Writer::new(&driver, lens);
    writer.fill();
    writer.write_alone(row, &world);
    served.lock().unwrap().clear();

    let from_ns = world.now_ns();
    let mut alone = Reader::new(&world, &driver, &served, read_count);
    while alone.left > 0 {
        alone.read(0);
    }
    world.advance_to_ns(alone.arrival_ns);
    let seconds = (world.now_ns() - from_ns) as f64 / 1e9;
    let p99 = alone.report(&format!("{row}, alone"), None, seconds, 0);

    let (before, from_ns) = (driver.driver_counters(), world.now_ns());
    let mut reader = Reader::new(&world, &driver, &served, read_count);
    let mut written = 0;
    while reader.left > 0 {
        written += writer.write(&mut || reader.catch_up(world.now_ns()));
    }
    let seconds = (world.now_ns() - from_ns) as f64 / 1e9;
    reader.report(row, Some(p99), seconds, written);
    let now = driver.driver_counters();
    println!(
        "{:>14} in {seconds:.0} s: cleanings {}, checkpoints {}; blocks evicted {}, moved {}, journaled {}",
        "",
        now.cleanings - before.cleanings,
        now.checkpoints - before.checkpoints,
        now.evicted_blocks - before.evicted_blocks,
        now.moved_blocks - before.moved_blocks,
        now.journal_blocks - before.journal_blocks,
    );
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let zone_count = 4 * args.first().map_or(32, |gib| gib.parse().expect("the length in GiB"));
    let read_count = args.get(1).map_or(4000, |count| count.parse().expect("how many reads"));
    println!(
        "{:>14} {:>6} {:>7} {:>7} {:>7} {:>7} {:>6} {:>7} {:>6}",
        "row", "reads", "p50_ms", "p99_ms", "p99.9", "max", "ratio", "reads_s", "mb_s"
    );
    for (row, lens) in [("mixed", MIXED), ("short", SHORT), ("long", LONG)] {
        if args.len() < 3 || args[2..].iter().any(|arg| arg == row) {
            run(row, zone_count, lens, read_count);
        }
    }
}

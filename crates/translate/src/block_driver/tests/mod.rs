//! The driver over an emulated zoned drive that loses unflushed data, against a model of the
//! possible contents of each block.

mod activities;
mod broken;
mod control;
mod copies;
mod dead_zones;
mod deltas;
mod failures;
mod finishes;
mod forged;
mod given_up;
mod invariants;
mod limits;
mod lost_room;
mod many_zones;
mod named;
mod paged;
mod read_only;
mod reading_only;
mod reads;
mod recycling;
mod short_journal;
mod steps;
mod unreadable;

use super::*;
use imbrex_clockwork::{Prng, share_of};
use imbrex_disk::{
    BLOCK_LEN_BYTES, BlockRange, Blocks, Disk, DiskError, DiskLayer, Geometry, GeometrySpec, Known,
    Lba, Persist, ReadRequest, Rule, ZoneAction, ZoneId, ZoneInfo, ZoneSpec,
};
use imbrex_disk_sim::{FaultPlan, SimDisk, ZoneFailure};
use journal::JournalUse;
use pool::Use;
use state::DriverState;
use std::sync::{Arc, Mutex, MutexGuard};
use step::STEP_LEN;

pub(super) fn range(start: u64, len: u64) -> BlockRange {
    BlockRange::new(Lba::new(start), Blocks::new(len))
}

/// A drive of short zones, the first of them conventional or none.
pub(super) fn zoned(zone_count: u64, zone_len: u64, conventional_zone_count: u32) -> Geometry {
    zoned_as(zone_count, zone_len, |spec| spec.conventional_zone_count = conventional_zone_count)
}

/// The same with any other settings.
fn zoned_as(zone_count: u64, zone_len: u64, set: impl FnOnce(&mut ZoneSpec)) -> Geometry {
    let mut spec = ZoneSpec {
        zone_len: Blocks::new(zone_len),
        zone_capacity: Blocks::new(zone_len - zone_len / 8),
        conventional_zone_count: 0,
        open_zone_limit: Some(8),
        active_zone_limit: None,
        strict_reads: true,
    };
    set(&mut spec);
    let rule = Rule::AtPointer(spec);
    Geometry::new(GeometrySpec { len: Blocks::new(zone_count * zone_len), rule }).unwrap()
}

pub(super) fn options(buffer_len: u64) -> DriverOptions {
    DriverOptions {
        id: 77,
        buffer_len: Blocks::new(buffer_len),
        journal_zone_count: 4,
        bypass_len: Blocks::new(40),
        stream_len: None,
        ..DriverOptions::default()
    }
}

/// For every block, all contents that a power cut may leave, as stamps; the last one is the present
/// content.
struct Model {
    may_be: Vec<Vec<u64>>,
}

impl Model {
    fn blocks(&mut self, range: BlockRange) -> &mut [Vec<u64>] {
        &mut self.may_be[range.start.get() as usize..range.end().get() as usize]
    }

    fn settle(&mut self) {
        for may_be in &mut self.may_be {
            may_be.drain(..may_be.len() - 1);
        }
    }
}

/// A drive, the device on it, and its expected contents.
struct Run {
    drive: Arc<SimDisk>,
    driver: Option<BlockDriver>,
    options: DriverOptions,
    model: Model,
    next_stamp: u64,
    next_at: u64,
    prng: Prng,
    told: String,
    /// How often the host continued in cleaning's zone.
    lent_count: u64,
    /// Whether all requests of the drive seem slow, so that steps are as short as they get.
    is_slow: bool,
}

fn has_power(result: Result<(), DiskError>, told: &str) -> bool {
    match result {
        Ok(()) => true,
        Err(DiskError::PowerLost) => false,
        Err(error) => panic!("{told}: {error:?}"),
    }
}

impl Run {
    fn new(seed: u64) -> Run {
        let prng = Prng::new(seed);
        let mut shape = prng.derive("shape");
        let zone_len = [32, 64, 200][shape.below(3) as usize];
        let geometry = zoned(40, zone_len, [0, 2, 3][shape.below(3) as usize]);
        let cache = Blocks::new([0, 9, 100, 10_000][shape.below(4) as usize]);
        let drive = SimDisk::builder(geometry).write_cache(cache).breaking_sectors();
        let drive = Arc::new(drive.memory().unwrap());
        let mut options = options([6, 30, 120][shape.below(3) as usize]);
        options.eviction = match shape.below(3) {
            0 => EvictionOrder::LeastRecentlyWritten,
            1 => EvictionOrder::LargestRegion,
            _ => EvictionOrder::LongestAndOldest,
        };
        options.stream_len = [None, Some(8), Some(30)][shape.below(3) as usize].map(Blocks::new);
        options.delta_from_bytes = [1, 4 << 20][shape.below(2) as usize];
        options.map_memory_bytes = [0, 8 << 10, u64::MAX][(seed % 3) as usize];
        if shape.chance(1, 3) {
            options.cleaning = CleaningOrder::MostGarbage { chosen_count: 2 };
        }
        let driver = BlockDriver::format(Arc::clone(&drive) as Arc<dyn Disk>, &options).unwrap();
        let len = driver.geometry().len().get() as usize;
        let mut run = Run {
            drive,
            driver: Some(driver),
            options,
            model: Model { may_be: vec![vec![0]; len] },
            next_stamp: 1,
            next_at: 0,
            prng,
            told: format!("seed {seed}, zones of {zone_len}, cache of {cache}"),
            lent_count: 0,
            is_slow: seed % 4 < 2,
        };
        run.set_clock();
        run
    }

    fn set_clock(&mut self) {
        if self.is_slow {
            let driver = self.driver.take().expect("opened");
            self.driver = Some(driver.with_clock(Arc::new(steps::SlowClock::default())));
        }
    }

    fn driver(&self) -> &BlockDriver {
        self.driver.as_ref().expect("opened")
    }

    /// One request; false if the power went.
    fn step(&mut self) -> bool {
        let before = self.driver().state().zones.open;
        let is_on = self.request();
        let now = self.driver().state().zones.open;
        self.lent_count += u64::from(before[1].is_some() && before[1] == now[0]);
        is_on
    }

    fn request(&mut self) -> bool {
        let len = self.model.may_be.len() as u64;
        let goes_on = self.prng.chance(1, 3) && self.next_at < len;
        // Mostly within a fifth of the device, so that zones become empty.
        let within = if self.prng.chance(2, 3) { len / 5 } else { len };
        let at = if goes_on { self.next_at } else { self.prng.below(within) };
        let most = [1, 4, 30, 60][self.prng.below(4) as usize];
        let range = range(at, 1 + self.prng.below((len - at).min(most)));
        self.next_at = range.end().get();
        match self.prng.below(16) {
            0 => {
                let on = has_power(self.driver().flush(), &self.told);
                if on {
                    self.model.settle();
                }
                on
            }
            1 => {
                let on = has_power(self.driver().discard(range), &self.told);
                self.model.blocks(range).iter_mut().for_each(|may_be| may_be.push(0));
                on
            }
            2 => has_power(self.driver().work().map(drop), &self.told),
            _ => {
                let first = self.next_stamp;
                self.next_stamp += range.len.get();
                let block = |stamp: u64| stamp.to_le_bytes().repeat(BLOCK_LEN_BYTES / 8);
                let data: Vec<u8> = (first..self.next_stamp).flat_map(block).collect();
                let through = self.prng.chance(1, 12);
                let persist = if through { Persist::Through } else { Persist::Cached };
                let on = has_power(self.driver().write(range.start, &data, persist), &self.told);
                for (may_be, stamp) in self.model.blocks(range).iter_mut().zip(first..) {
                    may_be.push(stamp);
                }
                if on && through {
                    self.model.settle();
                }
                on
            }
        }
    }

    fn stamps(&self, range: BlockRange) -> Vec<u64> {
        let mut buf = vec![0xEE; range.len.bytes() as usize];
        self.driver()
            .read(range.start, &mut buf)
            .unwrap_or_else(|error| panic!("{}: reading {range}: {error}", self.told));
        let stamp = |block: &[u8]| {
            assert_eq!(block[8..], block[..BLOCK_LEN_BYTES - 8], "a block is never a mixture");
            u64::from_le_bytes(block[..8].try_into().unwrap())
        };
        buf.chunks(BLOCK_LEN_BYTES).map(stamp).collect()
    }

    fn check(&mut self) {
        let at = self.prng.below(self.model.may_be.len() as u64);
        let len = 1 + self.prng.below((self.model.may_be.len() as u64 - at).min(20));
        let found = self.stamps(range(at, len));
        let now = |may_be: &Vec<u64>| *may_be.last().unwrap();
        let expected: Vec<u64> = self.model.blocks(range(at, len)).iter().map(now).collect();
        assert_eq!(found, expected, "{} at {at}", self.told);
    }

    /// Restores the power and opens the device, through further power cuts.
    fn recover(&mut self, cuts: u64) {
        self.driver = None;
        for attempt in 0.. {
            self.drive.power_cycle(&mut self.prng).unwrap();
            if attempt < cuts {
                let power_cut_after = Some(self.prng.below(8));
                self.drive.set_faults(FaultPlan { power_cut_after, ..FaultPlan::default() });
            }
            match BlockDriver::open(Arc::clone(&self.drive) as Arc<dyn Disk>, &self.options) {
                Ok(driver) => {
                    self.drive.set_faults(FaultPlan::default());
                    self.driver = Some(driver);
                    self.set_clock();
                    break;
                }
                Err(DriverError::Disk { source: DiskError::PowerLost, .. }) => {}
                Err(error) => panic!("{}: {error:?}", self.told),
            }
        }
        let all = range(0, self.model.may_be.len() as u64);
        for (at, found) in self.stamps(all).into_iter().enumerate() {
            let may_be = &mut self.model.may_be[at];
            assert!(may_be.contains(&found), "{}: block {at}: {found} of {may_be:?}", self.told);
            *may_be = vec![found];
        }
        invariants::check(&self.driver().state())
            .unwrap_or_else(|broken| panic!("{}: {broken}", self.told));
    }
}

#[test]
fn flushed_data_survives_power_cuts_anywhere() {
    let mut counters = DriverCounters::default();
    let (mut cleanings, mut ignored, mut checkpoints, mut lent_count) = (0, 0, 0, 0);
    for seed in 0..30 {
        let mut run = Run::new(seed);
        for _ in 0..8 {
            let power_cut_after = Some(run.prng.below(400));
            run.drive.set_faults(FaultPlan { power_cut_after, ..FaultPlan::default() });
            while run.step() {
                run.check();
            }
            counters = run.driver().driver_counters();
            cleanings += counters.cleanings;
            checkpoints += counters.checkpoints;
            let cuts = run.prng.below(4);
            run.recover(cuts);
            ignored += run.driver().driver_counters().ignored_records;
        }
        lent_count += run.lent_count;
    }
    assert!(cleanings > 10, "{cleanings}");
    assert!(lent_count > 0, "{lent_count}");
    assert!(ignored > 0, "{ignored}");
    assert!(checkpoints > 100, "{checkpoints}");
    assert!(counters.host_blocks > 0);
}

#[test]
fn a_device_overwritten_many_times_never_runs_out_of_room() {
    let mut lent_count = 0;
    for seed in 0..6 {
        let mut run = Run::new(seed);
        for step in 0..3_000 {
            assert!(run.step());
            if step % 50 == 0 {
                run.check();
            }
        }
        invariants::check(&run.driver().state()).unwrap();
        run.driver().flush().unwrap();
        run.model.settle();
        let counters = run.driver().driver_counters();
        assert!(counters.cleanings > 0, "{}: {counters:?}", run.told);
        run.recover(0);
        lent_count += run.lent_count;
    }
    assert!(lent_count > 10, "{lent_count}");
}

/// A device filled to its last block and written over and over: cleaning always finds room.
#[test]
fn a_full_device_goes_on() {
    for (seed, order) in [
        CleaningOrder::MostGarbage { chosen_count: 2 },
        CleaningOrder::merged(),
        CleaningOrder::of_the_paper(),
        CleaningOrder::MostMerged {
            candidate_count: 20,
            chosen_count: 3,
            budget_percent: Some(10),
        },
    ]
    .into_iter()
    .enumerate()
    {
        let drive = Arc::new(SimDisk::builder(zoned(60, 64, 2)).memory().unwrap());
        let options = DriverOptions { cleaning: order, ..options(60) };
        let driver = BlockDriver::format(Arc::clone(&drive) as Arc<dyn Disk>, &options).unwrap();
        let len = driver.geometry().len().get();
        let mut stamps = vec![0u64; len as usize];
        let mut prng = Prng::new(seed as u64);
        let mut write = |at: u64, count: u64, stamp: u64| {
            let data = stamp.to_le_bytes().repeat(count as usize * BLOCK_LEN_BYTES / 8);
            driver.write(Lba::new(at), &data, Persist::Cached).unwrap();
            stamps[at as usize..(at + count) as usize].fill(stamp);
        };
        (0..len).for_each(|at| write(at, 1, at + 1));
        for round in 0..6 * len {
            let at = prng.below(len);
            let count = 1 + prng.below((len - at).min(5));
            write(at, count, 1_000_000 + round);
        }
        driver.flush().unwrap();
        invariants::check(&driver.state()).unwrap();
        let counters = driver.driver_counters();
        assert!(counters.cleanings > 20, "{counters:?}");
        let begun = counters.urgent_cleanings + counters.timely_cleanings;
        assert!(begun - counters.cleanings <= 1, "{counters:?}");
        drop(driver);
        let driver = BlockDriver::open(drive as Arc<dyn Disk>, &options).unwrap();
        let mut buf = vec![0; len as usize * BLOCK_LEN_BYTES];
        driver.read(Lba::new(0), &mut buf).unwrap();
        let stamp = |block: &[u8]| u64::from_le_bytes(block[..8].try_into().unwrap());
        let found: Vec<u64> = buf.chunks(BLOCK_LEN_BYTES).map(stamp).collect();
        assert!(found == stamps, "{order:?}");
    }
}

#[test]
fn failed_openings_say_why() {
    let open = |drive: &Arc<SimDisk>| {
        BlockDriver::open(Arc::clone(drive) as Arc<dyn Disk>, &options(30)).unwrap_err().to_string()
    };
    let plain = Geometry::new(GeometrySpec { len: Blocks::new(64), rule: Rule::Anywhere }).unwrap();
    let plain = Arc::new(SimDisk::builder(plain).memory().unwrap());
    assert_eq!(
        open(&plain),
        "the block driver needs a host-managed zoned drive, but this one is conventional"
    );
    let blank = Arc::new(SimDisk::builder(zoned(40, 64, 2)).memory().unwrap());
    assert!(open(&blank).starts_with("no block device on this drive"), "{}", open(&blank));
    let small = Arc::new(SimDisk::builder(zoned(12, 64, 2)).memory().unwrap());
    let error = BlockDriver::format(small as Arc<dyn Disk>, &options(30)).unwrap_err().to_string();
    assert!(error.starts_with("the drive has 10 sequential zones"), "{error}");
    let none = DriverOptions { buffer_len: Blocks::ZERO, ..options(30) };
    let error = BlockDriver::format(blank as Arc<dyn Disk>, &none).unwrap_err().to_string();
    assert_eq!(
        error,
        "the write buffer's length in blocks is 0; it must be between 1 and 4294967296"
    );
}

#[test]
fn unwritten_blocks_are_known() {
    let drive = Arc::new(SimDisk::builder(zoned(40, 64, 2)).memory().unwrap());
    let driver = BlockDriver::format(drive as Arc<dyn Disk>, &options(30)).unwrap();
    let written = vec![7; 10 * BLOCK_LEN_BYTES];
    driver.write(Lba::new(100), &written, Persist::Cached).unwrap();
    // Too long for the buffer: mapped at once.
    driver.write(Lba::new(110), &vec![7; 50 * BLOCK_LEN_BYTES], Persist::Cached).unwrap();
    let runs = |driver: &BlockDriver| {
        let (mut at, mut runs) = (0, Vec::new());
        while at < 200 {
            let (known, len) = driver.known(range(at, 200 - at));
            assert!(!len.is_zero());
            runs.push((at, known));
            at += len.get();
        }
        runs
    };
    let (blank, data) = (Known::Unwritten, Known::Nothing);
    assert_eq!(runs(&driver), [(0, blank), (100, data), (110, data), (160, blank)]);
    assert!(driver.zeroes_are_cheap());
    driver.write_zeroes(range(105, 15), Persist::Through).unwrap();
    assert_eq!(runs(&driver), [(0, blank), (100, data), (105, blank), (120, data), (160, blank)]);
    let mut buf = vec![1; 60 * BLOCK_LEN_BYTES];
    driver.read(Lba::new(100), &mut buf).unwrap();
    let bytes: Vec<u8> = buf.chunks(BLOCK_LEN_BYTES).map(|block| block[0]).collect();
    assert_eq!(bytes, [vec![7; 5], vec![0; 15], vec![7; 40]].concat());
}

/// The device of `options` on a drive, filled in sequence; then every `every`-th block is written
/// again.
fn worn(drive: &Arc<SimDisk>, options: &DriverOptions, every: u64) -> BlockDriver {
    let driver = BlockDriver::format(Arc::clone(drive) as Arc<dyn Disk>, options).unwrap();
    let len = driver.geometry().len().get();
    let write = |at: u64, count: u64| {
        let data = vec![at as u8; Blocks::new(count).bytes() as usize];
        driver.write(Lba::new(at), &data, Persist::Cached).unwrap();
    };
    (0..len / 20).for_each(|at| write(20 * at, 20));
    (0..len / every).for_each(|at| write(every * at, 1));
    driver
}

#[test]
fn no_step_of_work_is_long() {
    let drive = Arc::new(SimDisk::builder(zoned(38, 2_400, 0)).memory().unwrap());
    let driver = worn(&drive, &options(3_000), 1_500);
    let len = driver.geometry().len().get();
    let mut prng = Prng::new(3);
    for _ in 0..400 {
        let at = prng.below(len - 30);
        driver.write(Lba::new(at), &vec![9; 30 * BLOCK_LEN_BYTES], Persist::Cached).unwrap();
        let mut before = driver.driver_counters();
        while driver.work().unwrap() {
            let now = driver.driver_counters();
            let moved = now.moved_blocks - before.moved_blocks;
            assert!(moved <= 1024, "{moved} blocks in a step");
            before = now;
        }
    }
    let counters = driver.driver_counters();
    assert!(counters.cleanings > 2, "{counters:?}");
}

/// Long writes to a device with hardly any garbage: none waits for the cleaning of a whole zone.
#[test]
fn no_write_waits_for_a_zone() {
    let drive = Arc::new(SimDisk::builder(zoned(34, 24_000, 0)).memory().unwrap());
    let driver = worn(&drive, &DriverOptions { spare_percent: 1, ..options(3_000) }, 1_500);
    let len = driver.geometry().len().get();
    let mut prng = Prng::new(3);
    let mut longest = 0;
    for _ in 0..5_000 {
        let at = prng.below(len - 30);
        let before = driver.driver_counters().moved_blocks;
        driver.write(Lba::new(at), &vec![9; 30 * BLOCK_LEN_BYTES], Persist::Cached).unwrap();
        longest = longest.max(driver.driver_counters().moved_blocks - before);
    }
    assert!(longest <= 2 * STEP_LEN, "{longest} blocks moved during a write");
    let cleanings = driver.driver_counters().cleanings;
    assert!(cleanings > 10, "{cleanings}");
}

#[test]
fn a_block_that_cannot_be_read_stops_neither_cleaning_nor_the_host() {
    let drive = Arc::new(SimDisk::builder(zoned(60, 64, 2)).memory().unwrap());
    let driver = worn(&drive, &options(60), 60);
    let len = driver.geometry().len().get();
    let place = driver
        .state()
        .pieces(range(31, 1))
        .unwrap()
        .into_iter()
        .next()
        .and_then(|piece| piece.at)
        .unwrap();
    drive.damage(BlockRange::new(Lba::new(place.get()), Blocks::new(1)));
    let mut prng = Prng::new(4);
    for _ in 0..4 * len {
        let at = prng.below(len);
        if at != 31 {
            driver.write(Lba::new(at), &[1; BLOCK_LEN_BYTES], Persist::Cached).unwrap();
        }
    }
    driver.flush().unwrap();
    invariants::check(&driver.state()).unwrap();
    assert_eq!(
        driver.state().zones.pool.count(pool::Use::Unreadable),
        1,
        "cleaning came across it"
    );
    let mut buf = vec![0; BLOCK_LEN_BYTES];
    let error = driver.read(Lba::new(31), &mut buf).unwrap_err();
    assert!(matches!(error, DiskError::Medium { at } if at == Lba::new(31)), "{error}");
    driver.write(Lba::new(31), &[5; BLOCK_LEN_BYTES], Persist::Through).unwrap();
    driver.read(Lba::new(31), &mut buf).unwrap();
    assert_eq!(buf, [5; BLOCK_LEN_BYTES]);
    driver.set_buffer_len(Blocks::new(1));
    while driver.work().unwrap() {}
    assert_eq!(driver.state().zones.pool.count(pool::Use::Unreadable), 0, "nothing is left in it");
}

#[test]
fn evictions_are_listed_once_and_only_if_asked_for() {
    for lists_evictions in [false, true] {
        let drive = Arc::new(SimDisk::builder(zoned(40, 64, 2)).memory().unwrap());
        let options = DriverOptions { lists_evictions, journal_zone_count: 10, ..options(30) };
        let driver = BlockDriver::format(drive, &options).unwrap();
        let data = vec![7; 50 * BLOCK_LEN_BYTES];
        let write = |at: u64, len: usize| {
            let data = &data[..len * BLOCK_LEN_BYTES];
            driver.write(Lba::new(at), data, Persist::Cached).unwrap();
        };
        write(100, 2);
        write(0, 20);
        write(200, 10);
        write(300, 35);
        let mut listed = driver.take_evictions();
        listed.sort_unstable();
        let wanted = if lists_evictions { vec![range(0, 20), range(300, 35)] } else { vec![] };
        assert_eq!(listed, wanted, "the largest region, and what bypassed the buffer");
        assert_eq!(driver.take_evictions(), []);
    }
}

/// A device that was written, with durable and known contents of its first blocks. The buffer is
/// empty if `is_evicted`.
pub(super) fn written(is_evicted: bool) -> (Arc<SimDisk>, DriverOptions, BlockDriver) {
    let drive = Arc::new(SimDisk::builder(zoned(60, 200, 2)).memory().unwrap());
    let options = DriverOptions { kept_summary_count: 1, ..options(400) };
    let driver = BlockDriver::format(Arc::clone(&drive) as Arc<dyn Disk>, &options).unwrap();
    for at in (0..320).step_by(10) {
        let data: Vec<u8> = (at..at + 10).flat_map(|at| [at as u8; BLOCK_LEN_BYTES]).collect();
        driver.write(Lba::new(at), &data, Persist::Cached).unwrap();
    }
    if is_evicted {
        driver.set_buffer_len(Blocks::new(1));
        while driver.work().unwrap() {}
    }
    driver.flush().unwrap();
    (drive, options, driver)
}

/// Reads the first 320 blocks one by one, and returns the unreadable ones; the others are right.
fn unreadable(driver: &BlockDriver) -> Vec<u64> {
    let mut buf = vec![0; BLOCK_LEN_BYTES];
    let mut found = Vec::new();
    for at in 0..320 {
        match driver.read(Lba::new(at), &mut buf) {
            Ok(()) => assert_eq!(buf, [at as u8; BLOCK_LEN_BYTES], "block {at}"),
            Err(DiskError::Medium { at: told }) if told == Lba::new(at) => found.push(at),
            Err(error) => panic!("block {at}: {error}"),
        }
    }
    found
}

/// The places of the host's block `lba` and of its summary on the drive.
pub(super) fn places(driver: &BlockDriver, lba: u64) -> (Lba, Lba) {
    let state = driver.state();
    let at =
        state.pieces(range(lba, 1)).unwrap().into_iter().next().and_then(|piece| piece.at).unwrap();
    let slot = state.zones.pool.zone_of(at).unwrap();
    (slot.place(at), slot.summary_of(at))
}

#[test]
fn rotten_data_is_never_returned() {
    for is_reopened in [false, true] {
        let (drive, options, driver) = written(true);
        let reopen = |driver: BlockDriver| {
            drop(driver);
            BlockDriver::open(Arc::clone(&drive) as Arc<dyn Disk>, &options).unwrap()
        };
        let driver = if is_reopened { reopen(driver) } else { driver };
        assert_eq!(unreadable(&driver), []);
        // A block of a stretch with a summary, and one of the last stretch, which has none yet.
        drive.flip_bit(places(&driver, 3).0, 77).unwrap();
        drive.flip_bit(places(&driver, 319).0, 8 * 4095).unwrap();
        assert_eq!(unreadable(&driver), [3, 319]);
        let counters = driver.driver_counters();
        assert_eq!((counters.wrong_blocks, counters.lost_blocks), (2, 0));
        let driver = reopen(driver);
        assert_eq!(unreadable(&driver), [3, 319]);
        for at in [3, 319] {
            driver.write(Lba::new(at), &[at as u8; BLOCK_LEN_BYTES], Persist::Through).unwrap();
        }
        assert_eq!(unreadable(&driver), []);
    }
}

/// Without its summary, nothing shows whether the data of a stretch is right.
#[test]
fn a_rotten_summary_makes_its_stretch_unreadable() {
    let (drive, _, driver) = written(true);
    let (_, summary) = places(&driver, 3);
    let stretch: Vec<u64> = (0..320).filter(|&lba| places(&driver, lba).1 == summary).collect();
    assert_eq!(stretch.len(), 127);
    // The summary in memory belongs to another stretch.
    assert_eq!(unreadable(&driver), []);
    drive.flip_bit(summary, 12).unwrap();
    assert_eq!(unreadable(&driver), stretch);
}

#[test]
fn a_misdirected_write_is_noticed_at_both_places() {
    let (drive, options, driver) = written(true);
    let landed = places(&driver, 20).0;
    let place = {
        let state = driver.state();
        let slot = state.zones.pool.get(state.zones.open[0].unwrap()).unwrap();
        slot.start + slot.pointer
    };
    // The rest of the zone takes 26 blocks and a summary; the place is chosen so that it does not
    // cross the drive's end.
    let starts = drive.geometry().len().get() - 26;
    let shift = Blocks::new(landed.get() + starts - place.get());
    let misdirect_write = Some(imbrex_disk_sim::Misdirect { after: 0, shift });
    drive.set_faults(FaultPlan { misdirect_write, ..FaultPlan::default() });
    let data: Vec<u8> = (200..240u64).flat_map(|at| [at as u8; BLOCK_LEN_BYTES]).collect();
    driver.write(Lba::new(200), &data, Persist::Through).unwrap();
    drive.set_faults(FaultPlan::default());
    let found = unreadable(&driver);
    assert!(found.contains(&20) && found.contains(&200), "{found:?}");
    assert!(found.len() < 160, "{found:?}");
    drop(driver);
    let driver = BlockDriver::open(drive as Arc<dyn Disk>, &options).unwrap();
    assert_eq!(unreadable(&driver), found);
}

/// Contents of the write buffer at a power cut that rot or become unreadable in the journal:
/// opening finds them lost, and they stay lost until they are written again.
#[test]
fn rot_in_the_journal_is_known() {
    for behind_a_checkpoint in [false, true] {
        let (drive, options, driver) = written(false);
        if behind_a_checkpoint {
            driver.checkpoint().unwrap();
        }
        let copies: Vec<(BlockRange, PbaRange)> =
            driver.state().copies.copies_of(range(0, 320)).collect();
        let place = |lba: u64| {
            let held = copies.iter().find(|(range, _)| range.contains(Lba::new(lba))).unwrap();
            Lba::new(held.1.start.get() + (lba - held.0.start.get()))
        };
        drop(driver);
        drive.flip_bit(place(100), 1).unwrap();
        drive.damage(BlockRange::new(place(250), Blocks::new(1)));
        let open = || BlockDriver::open(Arc::clone(&drive) as Arc<dyn Disk>, &options).unwrap();
        let mut lost = unreadable(&open());
        assert_eq!(lost, [100, 250], "each block has a checksum");
        let driver = open();
        assert_eq!(unreadable(&driver), lost);
        assert_eq!(driver.driver_counters().lost_blocks, lost.len() as u64);
        assert_eq!(driver.known(range(100, 1)).0, Known::Nothing);
        driver.write(Lba::new(100), &[100; BLOCK_LEN_BYTES], Persist::Through).unwrap();
        driver.discard(range(250, 1)).unwrap();
        driver.flush().unwrap();
        drop(driver);
        lost.retain(|&lba| lba != 100);
        let driver = open();
        let mut buf = [1; BLOCK_LEN_BYTES];
        driver.read(Lba::new(250), &mut buf).unwrap();
        assert_eq!(buf, [0; BLOCK_LEN_BYTES], "trimmed");
        driver.write(Lba::new(250), &[250; BLOCK_LEN_BYTES], Persist::Through).unwrap();
        lost.retain(|&lba| lba != 250);
        assert_eq!(unreadable(&driver), lost);
    }
}

/// A zone of `driver` with that role.
fn zone_of(driver: &BlockDriver, role: &str) -> ZoneId {
    let state = driver.state();
    let data = |used| state.zones.pool.iter().find(|slot| slot.used == used).unwrap().zone;
    let mut journal = state.journal.zones.iter();
    let mut journal = |used| journal.find(|zone| zone.used == used).unwrap().zone;
    match role {
        "open" => state.zones.open[0].unwrap(),
        "sealed" => data(Use::Sealed),
        "free" => data(Use::Free),
        "journal" => journal(JournalUse::Open),
        "free journal" => journal(JournalUse::Free),
        "superblocks" => ZoneId(0),
        _ => state.superblock.checkpoint.copies[0][0],
    }
}

/// A zone of each kind that the drive gives up. A read-only one costs nothing. An offline one costs
/// its content, or the whole device if it had the journal's end. Work goes on, at once or after the
/// device is opened again.
#[test]
fn zones_that_the_drive_gives_up() {
    let failures = [ZoneFailure::ReadOnly, ZoneFailure::Offline];
    let kinds = [true, false].map(|strict_reads| failures.map(|failure| (failure, strict_reads)));
    for (failure, strict_reads) in kinds.into_iter().flatten() {
        let roles =
            ["open", "sealed", "free", "journal", "free journal", "superblocks", "checkpoint"];
        for role in share_of(roles) {
            let told = format!("{role} zone, {failure:?}, strict reads: {strict_reads}");
            let geometry = zoned_as(60, 200, |spec| spec.strict_reads = strict_reads);
            let drive = Arc::new(SimDisk::builder(geometry).memory().unwrap());
            let options = options(100);
            let driver =
                BlockDriver::format(Arc::clone(&drive) as Arc<dyn Disk>, &options).unwrap();
            let write = |driver: &BlockDriver, at: u64| {
                let data: Vec<u8> =
                    (at..at + 5).flat_map(|at| [at as u8; BLOCK_LEN_BYTES]).collect();
                driver.write(Lba::new(at), &data, Persist::Cached)
            };
            let write_all = |driver: &BlockDriver, first: u64| {
                (first..1000).step_by(5).try_for_each(|at| write(driver, at))?;
                driver.checkpoint()
            };
            (0..1000).step_by(5).for_each(|at| write(&driver, at).unwrap());
            driver.flush().unwrap();
            let zone = zone_of(&driver, role);
            drive.fail_zone(zone, failure).unwrap();
            let went_on = write_all(&driver, 900);
            let is_written = matches!(role, "open" | "free" | "journal");
            assert!(went_on.is_ok() || is_written, "{told}: {went_on:?}");
            drop(driver);
            let opened = BlockDriver::open(Arc::clone(&drive) as Arc<dyn Disk>, &options);
            if (role, failure) == ("journal", ZoneFailure::Offline) {
                let error = opened.err().unwrap().to_string();
                assert_eq!(
                    error,
                    format!("journal is damaged: {zone} is offline; restore the drive from a copy")
                );
                continue;
            }
            let driver = opened.unwrap_or_else(|error| panic!("{told}: {error}"));
            let mut buf = [0; BLOCK_LEN_BYTES];
            let mut gone_count = 0;
            for at in 0..1000 {
                match driver.read(Lba::new(at), &mut buf) {
                    Ok(()) => assert!(buf == [at as u8; BLOCK_LEN_BYTES], "{told}: block {at}"),
                    Err(DiskError::Offline { zone: told }) if told == zone => gone_count += 1,
                    Err(error) => panic!("{told}: block {at}: {error}"),
                }
            }
            let may_be_gone = failure == ZoneFailure::Offline && matches!(role, "open" | "sealed");
            assert_eq!(gone_count > 0, may_be_gone, "{told}: {gone_count} blocks are gone");
            for first in (0..5).cycle().take(20) {
                write_all(&driver, first).unwrap_or_else(|error| panic!("{told}: then {error}"));
            }
        }
    }
}

/// Whether the next superblock begins a zone of superblocks anew.
fn begins_anew(driver: &BlockDriver, index: usize) -> bool {
    let state = driver.state();
    state.superblocks.begins_anew(&*state.disk, index)
}

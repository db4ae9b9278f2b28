//! Torture of the block driver: requests of a host that knows nothing of zones, checked against a
//! model of what each block may be.
//!
//! ```text
//!   format --> life: write, trim, flush, read, work --> end --> recover, compare --> life ...
//! ```
//!
//! What must hold after a recovery: every block has its content at the last acknowledged flush, or
//! one written or trimmed since.

mod damage;
mod given_up;

use crate::rig::{Ending, Rig, Weather, chain};
use imbrex_clockwork::Prng;
use imbrex_disk::{BLOCK_LEN_BYTES, BlockRange, Blocks, Disk, DiskError, Lba, Persist};
use imbrex_translate::{BlockDriver, CleaningOrder, DriverOptions, EvictionOrder};
use std::sync::Arc;

/// For every block, all stamps that a power cut may leave of it. The last one is there now.
struct Model {
    may_be: Vec<Vec<u64>>,
    next_stamp: u64,
    next_at: u64,
}

impl Model {
    fn len(&self) -> u64 {
        self.may_be.len() as u64
    }

    fn blocks(&mut self, range: BlockRange) -> &mut [Vec<u64>] {
        &mut self.may_be[range.start.get() as usize..range.end().get() as usize]
    }

    /// Everything done so far is durable.
    fn settle(&mut self) {
        for may_be in &mut self.may_be {
            may_be.drain(..may_be.len() - 1);
        }
    }

    /// A range to work on. One in three continues where the last one ended, and most lie in one
    /// part of the device.
    fn draw(&mut self, prng: &mut Prng) -> BlockRange {
        let goes_on = prng.chance(1, 3) && self.next_at < self.len();
        let within = if prng.chance(2, 3) { self.len() / 5 } else { self.len() };
        let at = if goes_on { self.next_at } else { prng.below(within) };
        let most = [1, 4, 30, 80][prng.below(4) as usize];
        let len = 1 + prng.below((self.len() - at).min(most));
        self.next_at = at + len;
        BlockRange::new(Lba::new(at), Blocks::new(len))
    }
}

/// Runs the lives of one seed.
pub(crate) fn run(rig: &mut Rig) -> Result<(), String> {
    let options = draw_options(rig);
    let driver =
        BlockDriver::format(rig.process_disk(), &options).map_err(|error| chain(&error))?;
    let len = driver.geometry().len().get();
    drop(driver);
    let mut model = Model { may_be: vec![vec![0]; len as usize], next_stamp: 1, next_at: 0 };
    for _ in 0..rig.draw_life_count() {
        let driver = recover(rig, &options, &mut model)?;
        rig.begin_life();
        live(rig, &driver, &mut model)?;
        let mut ending = rig.ending();
        if ending == Ending::Close {
            match driver.flush() {
                Ok(()) => model.settle(),
                Err(error) => {
                    rig.excuse("the last flush", &error)?;
                    ending = rig.ending();
                }
            }
        }
        rig.cleaned_zone_count += driver.driver_counters().cleaned_zones;
        rig.kill(ending);
        drop(driver);
        rig.reboot(ending)?;
    }
    recover(rig, &options, &mut model).map(drop)?;
    if !rig.has_last_act() {
        return Ok(());
    }
    match rig.prng.below(3) {
        0 => given_up::run(rig, &options, &mut model),
        _ => damage::run(rig, &options, &mut model),
    }
}

fn draw_options(rig: &mut Rig) -> DriverOptions {
    let prng = &mut rig.prng;
    DriverOptions {
        id: 7,
        buffer_len: Blocks::new([5, 30, 120, 400][prng.below(4) as usize]),
        eviction: match prng.below(3) {
            0 => EvictionOrder::LeastRecentlyWritten,
            1 => EvictionOrder::LargestRegion,
            _ => EvictionOrder::LongestAndOldest,
        },
        cleaning: match prng.below(3) {
            0 => CleaningOrder::MostGarbage { chosen_count: 2 },
            1 => CleaningOrder::of_the_paper(),
            _ => CleaningOrder::MostMerged {
                candidate_count: 20,
                chosen_count: 3,
                budget_percent: Some(10),
            },
        },
        journal_zone_count: 2 + prng.below(4) as u32,
        bypass_len: Blocks::new(20 + prng.below(80)),
        delta_from_bytes: [1, 4 << 20][prng.below(2) as usize],
        stream_len: [None, Some(8), Some(30)][prng.below(3) as usize].map(Blocks::new),
        map_memory_bytes: [0, 8 << 10, u64::MAX][prng.below(3) as usize],
        ..DriverOptions::default()
    }
}

/// Opens the device, through power cuts, and compares its content with the model.
fn recover(
    rig: &mut Rig,
    options: &DriverOptions,
    model: &mut Model,
) -> Result<BlockDriver, String> {
    for attempt in 0..3 {
        rig.begin_recovery(attempt);
        rig.say("open the device".to_string());
        match BlockDriver::open(rig.process_disk(), options) {
            Ok(driver) if !rig.is_foul() => {
                let driver = driver.with_clock(Arc::clone(&rig.runtime.clock));
                rig.set_weather(Weather::Fair);
                verify(rig, &driver, model)?;
                return Ok(driver);
            }
            Ok(driver) => {
                rig.kill(Ending::PowerCut);
                drop(driver);
            }
            Err(error) => rig.excuse("recovery", &error)?,
        }
        rig.reboot(Ending::PowerCut)?;
    }
    rig.say("open the device".to_string());
    let driver = BlockDriver::open(rig.process_disk(), options);
    let driver = driver.map_err(|error| format!("recovery: {}", chain(&error)))?;
    let driver = driver.with_clock(Arc::clone(&rig.runtime.clock));
    verify(rig, &driver, model)?;
    Ok(driver)
}

/// Reads everything. The content found is the expected content from now on.
fn verify(rig: &mut Rig, driver: &BlockDriver, model: &mut Model) -> Result<(), String> {
    rig.say("verify".to_string());
    let len = Blocks::new(model.len());
    let found = stamps(driver, BlockRange::new(Lba::new(0), len)).map_err(|error| chain(&error))?;
    for (at, (found, may_be)) in found.into_iter().zip(&mut model.may_be).enumerate() {
        match found {
            Some(found) if may_be.contains(&found) => *may_be = vec![found],
            found => return Err(format!("block {at} is {found:?}, not one of {may_be:?}")),
        }
    }
    Ok(())
}

/// The stamp of each block. None if a block is a mixture.
fn stamps(driver: &BlockDriver, range: BlockRange) -> Result<Vec<Option<u64>>, DiskError> {
    let mut buf = vec![0xEE; range.len.bytes() as usize];
    driver.read(range.start, &mut buf)?;
    let stamp = |block: &[u8]| {
        let is_whole = block[8..] == block[..BLOCK_LEN_BYTES - 8];
        let first = block.first_chunk().copied().map(u64::from_le_bytes);
        first.filter(|_| is_whole)
    };
    Ok(buf.chunks(BLOCK_LEN_BYTES).map(stamp).collect())
}

/// Works until the life is long enough, or the weather ends it.
fn live(rig: &mut Rig, driver: &BlockDriver, model: &mut Model) -> Result<(), String> {
    for _ in 0..rig.prng.below(500) {
        if let Err(error) = step(rig, driver, model)? {
            return rig.excuse("the request", &error);
        }
    }
    Ok(())
}

type Outcome = Result<(), DiskError>;

fn step(rig: &mut Rig, driver: &BlockDriver, model: &mut Model) -> Result<Outcome, String> {
    let range = model.draw(&mut rig.prng);
    match rig.prng.below(20) {
        0 => {
            rig.say("flush".to_string());
            Ok(driver.flush().inspect(|()| model.settle()))
        }
        1 => {
            rig.say(format!("trim {range}"));
            model.blocks(range).iter_mut().for_each(|may_be| may_be.push(0));
            Ok(driver.discard(range))
        }
        2 => {
            rig.say("work".to_string());
            Ok(driver.work().map(drop))
        }
        3 => {
            let len = Blocks::new([5, 60, 300][rig.prng.below(3) as usize]);
            rig.say(format!("buffer of {len}"));
            driver.set_buffer_len(len);
            Ok(Ok(()))
        }
        4..=7 => compare(rig, driver, model, range),
        _ => Ok(write(rig, driver, model, range)),
    }
}

fn write(rig: &mut Rig, driver: &BlockDriver, model: &mut Model, range: BlockRange) -> Outcome {
    let persist = if rig.prng.chance(1, 15) { Persist::Through } else { Persist::Cached };
    rig.say(format!("write {range}, {persist:?}"));
    let first = model.next_stamp;
    model.next_stamp += range.len.get();
    let block = |stamp: u64| stamp.to_le_bytes().repeat(BLOCK_LEN_BYTES / 8);
    let data: Vec<u8> = (first..model.next_stamp).flat_map(block).collect();
    for (may_be, stamp) in model.blocks(range).iter_mut().zip(first..) {
        may_be.push(stamp);
    }
    driver.write(range.start, &data, persist)?;
    if persist == Persist::Through {
        model.settle();
    }
    Ok(())
}

fn compare(
    rig: &mut Rig,
    driver: &BlockDriver,
    model: &mut Model,
    range: BlockRange,
) -> Result<Outcome, String> {
    rig.say(format!("read {range}"));
    let found = match stamps(driver, range) {
        Ok(found) => found,
        Err(error) => return Ok(Err(error)),
    };
    let expected: Vec<Option<u64>> =
        model.blocks(range).iter().map(|may_be| may_be.last().copied()).collect();
    if found == expected {
        return Ok(Ok(()));
    }
    Err(format!("{range} is {found:?}, expected {expected:?}"))
}

//! One store of a laboratory, its drive, its clients, and the book of what was written.

use super::FRAME_EVERY_NS;
use super::spec::{LabArrivals, LabSpec, LabWork};
use crate::error::BenchError;
use crate::latency::{Latencies, LatencySummary};
use crate::profile_choice::DriveShape;
use imbrex::Layout;
use imbrex::stack::{Drives, Recording, Stack, error_text, mount};
use imbrex_clockwork::{ClientId, Order, Prng, Runtime, VirtualWorld};
use imbrex_disk::{Blocks, ByteSize, Disk};
use imbrex_disk_sim::SimDisk;
use imbrex_engine::{EngineError, WriteOptions};
use imbrex_watch::{Frame, Line, OpTimes, Sampler, Subject};
use imbrex_workload::arrivals::{ArrivalEnd, ArrivalModel, ArrivalSeries};
use imbrex_workload::keys::{KeyDraw, KeyMaker, Permutation, Skew, ValuePool};
use std::collections::BTreeMap;
use std::sync::Arc;

pub(super) const KEY_LEN_BYTES: usize = 16;

/// The write cache of the drives: without one a power cut would lose nothing.
const WRITE_CACHE_BYTES: u64 = 8 << 20;

/// How many zones or bands a drive has, about: few enough to be seen one by one.
const ZONE_COUNT: u64 = 256;
const ZONE_LEN_BYTES_MIN: u64 = 1 << 20;

/// The bias of bursts, the default of `imbrex arrivals`.
const BIAS: f64 = 0.65;

/// After a power cut so many synced keys are read, besides all that were written since.
const CHECKED_COUNT: u64 = 200;

/// A store at work.
#[derive(Debug)]
pub(super) struct Stand {
    layout: Layout,
    disk: Arc<SimDisk>,
    runtime: Runtime,
    world: Arc<VirtualWorld>,
    client: ClientId,
    stack: Option<Stack>,
    sampler: Sampler,
    next_frame_ns: u64,
    /// Latencies since the last frame.
    latencies: Latencies,
    driver: Driver,
    book: Book,
    /// Why it rests (B2).
    refusal: Option<String>,
}

/// What comes next: the same for every stand.
#[derive(Debug)]
struct Driver {
    work: LabWork,
    key_count: u64,
    loaded: u64,
    load_order: Permutation,
    draw: KeyDraw,
    prng: Prng,
    keys: KeyMaker,
    values: ValuePool,
    due: Option<ArrivalSeries>,
    /// The time that the arrivals count from: when the load had ended.
    due_from_ns: u64,
    op_count: u64,
    sync_every: u64,
}

enum Op {
    Put(u64),
    Get(u64),
}

/// What was written, as the number of the write for each key.
#[derive(Debug, Default)]
struct Book {
    write_count: u64,
    /// The newest synced write of each key.
    synced: BTreeMap<u64, u64>,
    /// Key and number of each write since the last sync, in order.
    since: Vec<(u64, u64)>,
}

impl Book {
    fn wrote(&mut self, key: u64) {
        self.since.push((key, self.write_count));
    }

    fn synced(&mut self) {
        self.synced.extend(self.since.drain(..));
    }
}

impl Driver {
    fn new(spec: &LabSpec) -> Result<Driver, BenchError> {
        let seed = Prng::new(spec.seed);
        let mut order = seed.derive("order");
        let key_count = spec.key_count();
        let skew = match spec.work {
            LabWork::HotRange => Skew::HotRange,
            LabWork::Overwrite | LabWork::Mixed => Skew::Uniform,
        };
        let model = match spec.arrivals {
            LabArrivals::Closed => None,
            LabArrivals::Constant(rate) => Some((ArrivalModel::Constant, rate)),
            LabArrivals::Bursts(rate) => Some((ArrivalModel::SelfSimilar { bias: BIAS }, rate)),
        };
        let series = model.map(|(model, rate)| {
            // An hour of arrivals, or as many as a series may have.
            let end = ArrivalEnd::Operations(u64::from(rate) * 3600);
            model.series(f64::from(rate), end, seed.derive("arrivals").next_u64())
        });
        let due = series.transpose().map_err(|error| BenchError::Options(error.to_string()))?;
        Ok(Driver {
            work: spec.work,
            key_count,
            loaded: 0,
            load_order: Permutation::new(&mut order, key_count),
            draw: KeyDraw::new(skew, key_count),
            prng: seed.derive("operations"),
            keys: KeyMaker::new(KEY_LEN_BYTES),
            values: ValuePool::new(seed.derive("values"), spec.value_len_bytes as usize, 1.0),
            due,
            due_from_ns: 0,
            op_count: 0,
            sync_every: spec.sync_every,
        })
    }

    fn next(&mut self) -> Op {
        if self.loaded < self.key_count {
            self.loaded += 1;
            return Op::Put(self.load_order.at(self.loaded - 1));
        }
        self.op_count += 1;
        let key = self.draw.next(&mut self.prng);
        match self.work {
            LabWork::Mixed if self.op_count.is_multiple_of(10) => Op::Get(key),
            _ => Op::Put(key),
        }
    }

    /// When the next operation is due; the load never waits.
    fn due_ns(&mut self, now_ns: u64) -> u64 {
        if self.loaded < self.key_count {
            self.due_from_ns = now_ns;
            return now_ns;
        }
        let due = self.due.as_mut().and_then(Iterator::next);
        due.map_or(now_ns, |after_ns| self.due_from_ns.saturating_add(after_ns))
    }
}

impl Stand {
    pub(super) fn new(
        id: u32,
        layout: Layout,
        spec: &LabSpec,
        sink: &mut dyn FnMut(&Line),
    ) -> Result<Stand, BenchError> {
        let (runtime, world) = Runtime::virtual_time(Order::SmallestTime);
        let zone_len = (spec.capacity_bytes / ZONE_COUNT).next_power_of_two();
        let mut shape =
            DriveShape { capacity: Some(ByteSize(spec.capacity_bytes)), ..DriveShape::default() };
        if layout.recording() == Recording::Zoned {
            shape.zone_len = Some(ByteSize(zone_len.max(ZONE_LEN_BYTES_MIN)));
        }
        let profile = shape.profile(None, Some(layout))?;
        let name = profile.name().to_owned();
        let disk = SimDisk::builder(profile.geometry())
            .profile(profile)
            .write_cache(Blocks::holding(WRITE_CACHE_BYTES))
            .clock(Arc::clone(&runtime.clock))
            .memory()
            .map_err(|error| BenchError::Drive { drive: name, source: error.into() })?;
        let disk = Arc::new(disk);
        let drives = Drives::from(Arc::clone(&disk) as Arc<dyn Disk>);
        let geometry = *disk.geometry();
        let stack = layout
            .format_with(drives, &runtime, &layout.recipe(&geometry), spec.seed)
            .map_err(BenchError::layout)?;
        let client = world.client("client");
        let mut stand = Stand {
            layout,
            disk,
            runtime,
            world,
            client,
            stack: Some(stack),
            sampler: Sampler::new(id),
            next_frame_ns: 0,
            latencies: Latencies::new(),
            driver: Driver::new(spec)?,
            book: Book::default(),
            refusal: None,
        };
        if let Some(stack) = &stand.stack {
            let name = layout.name();
            let head = stand.sampler.head(name, name, Subject::of(stack), true);
            sink(&Line::Head(Box::new(head)));
        }
        stand.tell(0, None, sink);
        Ok(stand)
    }

    pub(super) fn now_ns(&self) -> u64 {
        self.world.client_now_ns(self.client)
    }

    pub(super) fn is_at_rest(&self) -> bool {
        self.refusal.is_some()
    }

    pub(super) fn run_until(&mut self, until_ns: u64, sink: &mut dyn FnMut(&Line)) {
        while self.refusal.is_none() && self.now_ns() < until_ns {
            let now_ns = self.now_ns();
            let due_ns = self.driver.due_ns(now_ns);
            let op = self.driver.next();
            let world = Arc::clone(&self.world);
            let done = world.as_client(self.client, || {
                if now_ns < due_ns {
                    // The store works on by itself until the operation comes.
                    self.wait_until(due_ns, sink);
                }
                self.perform(op)
            });
            // Counted from the arrival: a wait in the queue is part of it.
            let took_ns = self.now_ns().saturating_sub(due_ns.min(self.now_ns()));
            self.latencies.record(took_ns);
            if let Err(error) = done {
                let why = format!("the store refuses: {}", error_text(&error));
                self.tell(self.now_ns(), Some(why.clone()), sink);
                self.refusal = Some(why);
            } else if self.next_frame_ns <= self.now_ns() {
                self.tell(self.now_ns(), None, sink);
            }
        }
    }

    /// Waits in steps of a frame, so that a lull is seen too.
    fn wait_until(&mut self, due_ns: u64, sink: &mut dyn FnMut(&Line)) {
        let clock = Arc::clone(&self.runtime.clock);
        while clock.now_ns() < due_ns {
            clock.advance_to_ns(due_ns.min(self.next_frame_ns.max(clock.now_ns() + 1)));
            self.runtime.scheduler.yield_now();
            if self.next_frame_ns <= clock.now_ns() {
                self.tell(clock.now_ns(), None, sink);
            }
        }
    }

    fn perform(&mut self, op: Op) -> Result<(), EngineError> {
        let Some(stack) = &self.stack else { return Ok(()) };
        let keyspace = stack.db.default_keyspace();
        match op {
            Op::Get(key) => keyspace.get(self.driver.keys.present(key)).map(drop),
            Op::Put(key) => {
                self.book.write_count += 1;
                let number = self.book.write_count;
                let mut value = self.driver.values.next_value().to_vec();
                value[..8].copy_from_slice(&number.to_be_bytes());
                let sync = number.is_multiple_of(self.driver.sync_every);
                let options = WriteOptions { sync };
                keyspace.put_with(self.driver.keys.present(key), value, options)?;
                self.book.wrote(key);
                if sync {
                    self.book.synced();
                }
                Ok(())
            }
        }
    }

    /// Hands a frame at `now_ns` to `sink`.
    fn tell(&mut self, now_ns: u64, note: Option<String>, sink: &mut dyn FnMut(&Line)) {
        self.next_frame_ns = now_ns + FRAME_EVERY_NS;
        let Some(stack) = &self.stack else { return };
        let latencies = std::mem::take(&mut self.latencies);
        let LatencySummary { p50_ns, p99_ns, max_ns, .. } = latencies.summary();
        let ops = OpTimes { count: latencies.count(), p50_ns, p99_ns, max_ns };
        let frame = self.sampler.frame(now_ns, Subject::of(stack), Some(ops));
        sink(&Line::Frame(Box::new(Frame { note, ..frame })));
    }

    pub(super) fn cut_power(
        &mut self,
        seed: u64,
        sink: &mut dyn FnMut(&Line),
    ) -> Result<String, BenchError> {
        let world = Arc::clone(&self.world);
        let told = world.as_client(self.client, || self.cut_and_recover(seed))?;
        let told = format!("{}: {told}", self.layout);
        self.refusal = None;
        self.sampler.reopened();
        self.tell(self.now_ns(), Some(told.clone()), sink);
        Ok(told)
    }

    fn cut_and_recover(&mut self, seed: u64) -> Result<String, BenchError> {
        self.disk.cut_power();
        if let Some(stack) = self.stack.take() {
            stack.files.end_cleaning();
            drop(stack);
        }
        self.world.drop_jobs();
        let failed = |source| BenchError::Disk { what: "turning the power on".into(), source };
        let cycle = self.disk.power_cycle(&mut Prng::new(seed)).map_err(failed)?;
        let start_ns = self.runtime.clock.now_ns();
        let drives = Drives::from(Arc::clone(&self.disk) as Arc<dyn Disk>);
        let mounted = mount(drives, &self.runtime).map_err(BenchError::layout)?;
        let options = self.layout.recipe(self.disk.geometry()).options;
        let stack = mounted.open_db(&self.runtime, options).map_err(BenchError::layout)?;
        let recovered_ns = self.runtime.clock.now_ns() - start_ns;
        self.stack = Some(stack);
        let found = self.check_book()?;
        Ok(format!(
            "power cut: {} unflushed blocks lost; recovered in {:.2} s; {found}",
            cycle.lost.get(),
            recovered_ns as f64 / 1e9
        ))
    }

    /// Reads back what should be there (B3), in words; then the book holds what is there.
    fn check_book(&mut self) -> Result<String, BenchError> {
        let since = std::mem::take(&mut self.book.since);
        let newest: BTreeMap<u64, u64> = since.iter().copied().collect();
        let mut found = BTreeMap::new();
        for key in newest.keys() {
            found.insert(*key, self.number_of(*key)?);
        }
        // The last write that is there; all before it must be there too.
        let is_there = |(key, number): &(u64, u64)| found.get(key) == Some(&Some(*number));
        let kept = since.iter().rposition(is_there).map_or(0, |at| at + 1);
        let mut expected: BTreeMap<u64, u64> = BTreeMap::new();
        for key in newest.keys() {
            expected.extend(self.book.synced.get(key).map(|number| (*key, *number)));
        }
        expected.extend(since[..kept].iter().copied());
        let mut wrong_count =
            newest.keys().filter(|key| found[*key] != expected.get(*key).copied()).count();
        let step = (self.book.synced.len() as u64 / CHECKED_COUNT).max(1) as usize;
        let checked: Vec<(u64, u64)> =
            self.book.synced.iter().step_by(step).map(|(k, n)| (*k, *n)).collect();
        for (key, number) in checked.iter().filter(|(key, _)| !newest.contains_key(key)) {
            wrong_count += usize::from(self.number_of(*key)? != Some(*number));
        }
        self.book.synced.extend(since[..kept].iter().copied());
        let lost = since.len() - kept;
        let of = since.len();
        Ok(match wrong_count {
            0 => format!(
                "of {of} writes since the last sync the newest {lost} are lost, without a gap; all of {} synced keys that were read are right",
                checked.len()
            ),
            wrong => format!("DATA LOST: {wrong} keys read back wrong"),
        })
    }

    /// The number of the write that `key` has now.
    fn number_of(&mut self, key: u64) -> Result<Option<u64>, BenchError> {
        let Some(stack) = &self.stack else { return Ok(None) };
        let failed =
            |source| BenchError::Engine { what: "reading after a power cut".into(), source };
        let value =
            stack.db.default_keyspace().get(self.driver.keys.present(key)).map_err(failed)?;
        let number = value.and_then(|value| value.get(..8)?.try_into().ok());
        Ok(number.map(u64::from_be_bytes))
    }
}

#[cfg(test)]
impl Stand {
    /// Falsifies the book: it then says that each synced key was written once more.
    pub(super) fn claim_another_write_of_each_synced_key(&mut self) {
        self.book.synced.values_mut().for_each(|number| *number += 1_000_000);
    }
}

impl Drop for Stand {
    fn drop(&mut self) {
        // Jobs hold the runtime, which holds the jobs.
        if let Some(stack) = self.stack.take() {
            stack.files.end_cleaning();
        }
        self.world.drop_jobs();
    }
}

//! One client of a run: it does one operation per step and measures it.
//!
//! Like the clients of `imbrex bench`, it is a value that is stepped, on its own thread or in turn
//! with others by virtual time.

use super::measure::{Done, Measured, Measurements, Status};
use super::pace::{ClientSchedule, Pace, Timing};
use super::store::{RecordStore, StoreError, Traffic};
use imbrex_clockwork::Prng;
use imbrex_workload::ycsb::core::CoreWorkload;
use imbrex_workload::ycsb::keys::InsertSequence;
use imbrex_workload::ycsb::record::{Record, Wanted};
use imbrex_workload::ycsb::stream::{YcsbOp, YcsbStream};
use imbrex_workload::ycsb::values::FieldMaker;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What all clients of a run share.
pub(crate) struct Shared<'a> {
    pub(crate) workload: &'a CoreWorkload,
    pub(crate) timing: &'a Timing<'a>,
    /// Receives warnings for the user.
    pub(crate) warn: &'a (dyn Fn(&str) + Sync),
}

/// The work of a client.
pub(crate) enum Work {
    /// Inserts the next record.
    Load(Arc<InsertSequence>),
    /// Does the next operation.
    Run(YcsbStream),
}

pub(crate) struct YcsbClient<'a> {
    index: u32,
    shared: &'a Shared<'a>,
    store: Box<dyn RecordStore>,
    work: Work,
    fields: FieldMaker,
    /// Random numbers that are not part of the workload.
    prng: Prng,
    key: String,
    /// Operations to do.
    ops_left: u64,
    beat: ClientSchedule,
    measured: &'a Mutex<Measurements>,
}

impl<'a> YcsbClient<'a> {
    /// Client number `index`, which draws from its own streams of `seed`.
    pub(crate) fn new(
        index: u32,
        shared: &'a Shared<'a>,
        store: Box<dyn RecordStore>,
        work: Work,
        ops: u64,
        seed: &Prng,
        measured: &'a Mutex<Measurements>,
    ) -> YcsbClient<'a> {
        let own = |what: &str| seed.derive(&format!("ycsb {what} client {index}"));
        YcsbClient {
            index,
            shared,
            store,
            work,
            fields: shared.workload.fields(own("fields")),
            prng: own("delays"),
            key: String::new(),
            ops_left: ops,
            beat: ClientSchedule::new(0),
            measured,
        }
    }

    /// Starts the run, when all clients exist.
    pub(crate) fn begin(&mut self) {
        let timing = self.shared.timing;
        let mut began_ns = timing.began_ns();
        self.measured().begin(began_ns);
        if let Pace::Target { tick_ns } = timing.pace {
            // As in YCSB for rates up to one per millisecond, so that clients do not start
            // together.
            if tick_ns >= 1_000_000 {
                began_ns += self.prng.below(tick_ns);
            }
        }
        self.beat = ClientSchedule::new(began_ns);
    }

    /// The start of its next operation, if it is free from `free_ns`.
    pub(crate) fn starts_ns(&self, free_ns: u64) -> u64 {
        self.shared.timing.starts_ns(&self.beat, free_ns)
    }

    /// Does one operation at its time. Returns false if nothing is left to do.
    ///
    /// # Errors
    /// The store is lost. A failure of a single record is only counted.
    pub(crate) fn step(&mut self) -> Result<bool, StoreError> {
        let timing = self.shared.timing;
        if self.ops_left == 0 {
            return Ok(false);
        }
        let Some(intended_ns) = timing.next(&mut self.beat) else { return Ok(false) };
        let start_ns = timing.clock.now_ns();
        let goes_on = match &mut self.work {
            Work::Load(numbers) => {
                let number = numbers.begin();
                self.load(number, intended_ns)?
            }
            Work::Run(stream) => {
                let op = stream.next_op();
                let outcome = self.operate(op, intended_ns);
                if let Work::Run(stream) = &self.work {
                    stream.ended(op);
                }
                outcome?;
                true
            }
        };
        if !goes_on {
            return Ok(false);
        }
        let done = Done { intended_ns, start_ns, end_ns: timing.clock.now_ns() };
        self.measured().record_whole(done);
        self.ops_left -= 1;
        Ok(self.ops_left > 0)
    }

    /// Ends the client and returns its schedule and the traffic of its store.
    pub(crate) fn finish(self) -> (ClientSchedule, Traffic) {
        let traffic = self.store.traffic();
        let clock = self.shared.timing.clock;
        let start_ns = clock.now_ns();
        drop(self.store);
        let done = Done { intended_ns: start_ns, start_ns, end_ns: clock.now_ns() };
        let mut measured = self.measured.lock().unwrap_or_else(PoisonError::into_inner);
        measured.record(Measured::Cleanup, Status::Ok, done);
        drop(measured);
        (self.beat, traffic)
    }

    fn measured(&self) -> MutexGuard<'a, Measurements> {
        self.measured.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Inserts record `number`, with the retries that the properties allow. Returns false if the
    /// client gives up.
    fn load(&mut self, number: u64, intended_ns: u64) -> Result<bool, StoreError> {
        self.name(number);
        let record = self.fields.all(&self.key);
        let retry = self.shared.workload.retry;
        for attempt in 0..=retry.limit {
            let inserted = self.timed(Measured::Insert, intended_ns, |store, key| {
                store.insert(key, &record).map(|()| (Status::Ok, ()))
            });
            match inserted {
                Ok(Some(())) => return Ok(true),
                Err(error) if attempt == retry.limit => return Err(error),
                Ok(None) | Err(_) => {}
            }
            if attempt < retry.limit {
                let tenths = 8 + self.prng.below(5);
                let timing = self.shared.timing;
                let pause_ns = retry.interval_s * tenths * 100_000_000;
                if !timing.wait(timing.clock.now_ns().saturating_add(pause_ns)) {
                    return Ok(false);
                }
            }
        }
        if !retry.keeps_going {
            let (index, key) = (self.index, &self.key);
            (self.shared.warn)(&format!("client {index} ends: {key} could not be inserted"));
        }
        Ok(retry.keeps_going)
    }

    fn operate(&mut self, op: YcsbOp, intended_ns: u64) -> Result<(), StoreError> {
        match op {
            YcsbOp::Read(number) => {
                self.name(number);
                let record = self.read(intended_ns, false)?;
                self.verify(record);
            }
            YcsbOp::Update(number) => {
                self.name(number);
                let changed = self.changed();
                self.update(&changed, intended_ns)?;
            }
            YcsbOp::Insert(number) => {
                self.name(number);
                let record = self.fields.all(&self.key);
                self.timed(Measured::Insert, intended_ns, |store, key| {
                    store.insert(key, &record).map(|()| (Status::Ok, ()))
                })?;
            }
            YcsbOp::Scan(number, count) => {
                self.name(number);
                let names = self.names(true);
                self.timed(Measured::Scan, intended_ns, |store, key| {
                    let wanted = names.as_deref().map_or(Wanted::All, Wanted::Named);
                    store.scan(key, count, wanted).map(|_| (Status::Ok, ()))
                })?;
            }
            YcsbOp::ReadModifyWrite(number) => {
                self.name(number);
                let changed = self.changed();
                let start_ns = self.shared.timing.clock.now_ns();
                let record = self.read(intended_ns, true)?;
                self.update(&changed, intended_ns)?;
                let end_ns = self.shared.timing.clock.now_ns();
                self.verify(record);
                let done = Done { intended_ns, start_ns, end_ns };
                self.measured().record(Measured::ReadModifyWrite, Status::Ok, done);
            }
        }
        Ok(())
    }

    fn name(&mut self, number: u64) {
        self.shared.workload.key_names.write(number, &mut self.key);
    }

    /// New values for one field or for all fields.
    fn changed(&mut self) -> Record {
        match self.shared.workload.writes_all_fields {
            true => self.fields.all(&self.key),
            false => self.fields.one(&self.key),
        }
    }

    /// The names of the fields to request; `None` for all fields without names.
    fn names(&mut self, is_part_of_more: bool) -> Option<Arc<[Arc<str>]>> {
        let workload = self.shared.workload;
        if !workload.reads_all_fields {
            return Some(Arc::from([self.fields.any_name()]));
        }
        let by_name = workload.verifies || workload.reads_by_name;
        (by_name && !is_part_of_more).then(|| Arc::clone(&workload.field_names))
    }

    fn read(
        &mut self,
        intended_ns: u64,
        is_part_of_more: bool,
    ) -> Result<Option<Record>, StoreError> {
        let names = self.names(is_part_of_more);
        let record = self.timed(Measured::Read, intended_ns, |store, key| {
            let wanted = names.as_deref().map_or(Wanted::All, Wanted::Named);
            let record = store.read(key, wanted)?;
            let status = if record.is_some() { Status::Ok } else { Status::NotFound };
            Ok((status, record))
        })?;
        Ok(record.flatten())
    }

    fn update(&mut self, changed: &Record, intended_ns: u64) -> Result<(), StoreError> {
        self.timed(Measured::Update, intended_ns, |store, key| {
            let was_there = store.update(key, changed)?;
            Ok((if was_there { Status::Ok } else { Status::NotFound }, ()))
        })?;
        Ok(())
    }

    /// Verifies a record that was read, if the workload verifies.
    fn verify(&mut self, record: Option<Record>) {
        if !self.shared.workload.verifies {
            return;
        }
        let clock = self.shared.timing.clock;
        let start_ns = clock.now_ns();
        let status = match record {
            Some(record) if record.is_empty() => Status::Error,
            Some(record) if self.fields.recognises(&self.key, &record) => Status::Ok,
            Some(_) => Status::UnexpectedState,
            None => Status::Error,
        };
        let done = Done { intended_ns: start_ns, start_ns, end_ns: clock.now_ns() };
        self.measured().record(Measured::Verify, status, done);
    }

    /// Does `work` and measures it; returns `None` if the store refused it.
    fn timed<T>(
        &mut self,
        what: Measured,
        intended_ns: u64,
        work: impl FnOnce(&mut dyn RecordStore, &str) -> Result<(Status, T), StoreError>,
    ) -> Result<Option<T>, StoreError> {
        let clock = self.shared.timing.clock;
        let start_ns = clock.now_ns();
        let outcome = work(&mut *self.store, &self.key);
        let done = Done { intended_ns, start_ns, end_ns: clock.now_ns() };
        let status = outcome.as_ref().map_or(Status::Error, |(status, _)| *status);
        let mut measured = self.measured();
        measured.record(what, status, done);
        match outcome {
            Ok((_, value)) => Ok(Some(value)),
            Err(error) => {
                measured.failed(&error);
                match error {
                    StoreError::Refused { .. } => Ok(None),
                    error @ StoreError::Lost { .. } => Err(error),
                }
            }
        }
    }
}

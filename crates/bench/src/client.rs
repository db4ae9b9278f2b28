//! One client: it does one operation per step and keeps its measurements.
//!
//! A client is a value that is stepped, not a thread. So the same client runs on its own thread
//! (threads mode) or takes turns with others by virtual time (virtual mode).

use crate::benchmark::{Benchmark, Task};
use crate::latency::Latencies;
use crate::options::BenchOptions;
use crate::watch::Watcher;
use crate::write_turns::WriteTurns;
use imbrex_clockwork::{Clock, Prng};
use imbrex_engine::{Db, EngineError, Iter, Keyspace, ReadOptions, WriteBatch, WriteOptions};
use imbrex_workload::keys::{KeyDraw, KeyMaker, Permutation, ValuePool};
use std::sync::Arc;

/// A continuing scan grows its reads up to this multiple of the first.
const READ_AHEAD_GROWTH: usize = 8;

/// What a client has done so far.
#[derive(Debug)]
pub(crate) struct Tally {
    pub(crate) ops: u64,
    pub(crate) found: u64,
    pub(crate) written_bytes: u64,
    pub(crate) read_bytes: u64,
    pub(crate) latencies: Latencies,
}

impl Tally {
    pub(crate) fn new() -> Tally {
        Tally { ops: 0, found: 0, written_bytes: 0, read_bytes: 0, latencies: Latencies::new() }
    }

    /// Adds the tally of another client. `counts` is whether its operations are part of the
    /// benchmark.
    pub(crate) fn add(&mut self, other: &Tally, counts: bool) {
        self.written_bytes += other.written_bytes;
        self.read_bytes += other.read_bytes;
        if counts {
            self.ops += other.ops;
            self.found += other.found;
            self.latencies.add(&other.latencies);
        }
    }
}

/// A client of one benchmark.
pub(crate) struct Client {
    benchmark: Benchmark,
    db: Db,
    keyspace: Keyspace,
    num: u64,
    /// Operations to do.
    limit: u64,
    batch_size: usize,
    seek_nexts: u32,
    write: WriteOptions,
    read: ReadOptions<'static>,
    keys: KeyMaker,
    values: ValuePool,
    order: Permutation,
    overwritten: KeyDraw,
    prng: Prng,
    cursor: Option<Iter>,
    /// In virtual time, shared by all clients of a benchmark.
    turns: Option<Arc<WriteTurns>>,
    pub(crate) tally: Tally,
}

impl Client {
    /// Client number `index` of a task whose benchmark was run `round` times before. It draws from its own stream of
    /// the seed: overwrites in several parts are as uniform as in one.
    pub(crate) fn new(
        (task, round): (Task, usize),
        index: u32,
        options: &BenchOptions,
        db: &Db,
        keyspace: &Keyspace,
    ) -> Client {
        let seed = Prng::new(options.seed);
        let mut order = seed.derive("order");
        let benchmark = task.benchmark;
        let usual_limit = match benchmark {
            Benchmark::FillSync => (options.num / 1000).max(1),
            _ if benchmark.is_read() => options.reads.unwrap_or(options.num),
            _ => options.num,
        };
        let mut limit = task.ops.unwrap_or(usual_limit);
        if matches!(benchmark, Benchmark::FillSeq | Benchmark::FillUniqueRandom) {
            limit = limit.min(options.num);
        }
        let mut read = ReadOptions::default();
        if let Some(bytes) = options.readahead_size {
            read.read_ahead_bytes_min = bytes.0 as usize;
            read.read_ahead_bytes = bytes.0 as usize * READ_AHEAD_GROWTH;
        }
        let stream = match round {
            0 => format!("{benchmark} client {index}"),
            _ => format!("{benchmark} {round} client {index}"),
        };
        Client {
            benchmark,
            db: db.clone(),
            keyspace: keyspace.clone(),
            num: options.num,
            limit,
            batch_size: options.batch_size,
            seek_nexts: options.seek_nexts,
            write: WriteOptions { sync: options.sync || benchmark == Benchmark::FillSync },
            read,
            keys: KeyMaker::new(options.key_size),
            values: ValuePool::new(
                seed.derive("values"),
                options.value_size,
                options.compression_ratio,
            ),
            order: Permutation::new(&mut order, options.num),
            overwritten: KeyDraw::new(options.overwrites, options.num),
            prng: seed.derive(&stream),
            cursor: None,
            turns: None,
            tally: Tally::new(),
        }
    }

    /// Makes each write wait for the one before it, of any client.
    pub(crate) fn in_turns(mut self, turns: Option<Arc<WriteTurns>>) -> Client {
        self.turns = turns;
        self
    }

    /// Lets the client run until it is stopped, as a companion of the clients that count.
    pub(crate) fn without_limit(mut self) -> Client {
        self.limit = u64::MAX;
        self
    }

    /// Does one operation (one batch, one lookup, one step of an iterator). Returns false if
    /// nothing is left.
    pub(crate) fn step(
        &mut self,
        clock: &dyn Clock,
        watcher: &Watcher<'_>,
    ) -> Result<bool, EngineError> {
        if self.tally.ops >= self.limit {
            return Ok(false);
        }
        let start_ns = clock.now_ns();
        let more = match self.benchmark {
            Benchmark::FillSeq
            | Benchmark::FillRandom
            | Benchmark::FillUniqueRandom
            | Benchmark::FillSync
            | Benchmark::Overwrite => self.put()?,
            Benchmark::DeleteSeq | Benchmark::DeleteRandom => self.delete()?,
            Benchmark::ReadRandom | Benchmark::ReadMissing | Benchmark::ReadWhileWriting => {
                self.get()?
            }
            Benchmark::MultiReadRandom => self.multi_get()?,
            Benchmark::ReadSeq | Benchmark::ReadReverse => self.walk()?,
            Benchmark::SeekRandom => self.seek()?,
            Benchmark::Flush | Benchmark::Compact | Benchmark::WaitForCompaction => {
                self.maintain(watcher)?;
                true
            }
        };
        self.tally.latencies.record(clock.now_ns() - start_ns);
        Ok(more)
    }

    /// The key number for the operation at `position` of this client.
    fn next_number(&mut self, position: u64) -> u64 {
        match self.benchmark {
            Benchmark::FillSeq | Benchmark::DeleteSeq => position,
            Benchmark::FillUniqueRandom => self.order.at(position),
            Benchmark::Overwrite => self.overwritten.next(&mut self.prng),
            _ => self.prng.below(self.num),
        }
    }

    fn put(&mut self) -> Result<bool, EngineError> {
        if self.batch_size == 1 {
            let number = self.next_number(self.tally.ops);
            let (key, value) = (self.keys.present(number), self.values.next_value());
            self.tally.written_bytes += (key.len() + value.len()) as u64;
            self.tally.ops += 1;
            WriteTurns::maybe(self.turns.as_deref(), || {
                self.keyspace.put_with(key, value, self.write)
            })?;
            return Ok(true);
        }
        let mut batch = WriteBatch::new();
        for _ in 0..self.batch_len() {
            let number = self.next_number(self.tally.ops);
            let (key, value) = (self.keys.present(number), self.values.next_value());
            self.tally.written_bytes += (key.len() + value.len()) as u64;
            self.tally.ops += 1;
            batch.put(&self.keyspace, key, value)?;
        }
        WriteTurns::maybe(self.turns.as_deref(), || self.db.write(batch, self.write))?;
        Ok(true)
    }

    fn delete(&mut self) -> Result<bool, EngineError> {
        let mut batch = WriteBatch::new();
        for _ in 0..self.batch_len() {
            let number = self.next_number(self.tally.ops);
            let key = self.keys.present(number);
            self.tally.written_bytes += key.len() as u64;
            self.tally.ops += 1;
            batch.delete(&self.keyspace, key)?;
        }
        WriteTurns::maybe(self.turns.as_deref(), || self.db.write(batch, self.write))?;
        Ok(true)
    }

    fn get(&mut self) -> Result<bool, EngineError> {
        let number = self.prng.below(self.num);
        let key = match self.benchmark {
            Benchmark::ReadMissing => self.keys.absent(number),
            _ => self.keys.present(number),
        };
        self.tally.ops += 1;
        if let Some(value) = self.keyspace.get(key)? {
            self.tally.found += 1;
            self.tally.read_bytes += (key.len() + value.len()) as u64;
        }
        Ok(true)
    }

    fn multi_get(&mut self) -> Result<bool, EngineError> {
        let count = self.batch_len();
        let keys: Vec<Vec<u8>> = (0..count)
            .map(|_| {
                let number = self.prng.below(self.num);
                self.keys.present(number).to_vec()
            })
            .collect();
        let wanted: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        for (key, value) in keys.iter().zip(self.keyspace.multi_get(&wanted)?) {
            self.tally.ops += 1;
            if let Some(value) = value {
                self.tally.found += 1;
                self.tally.read_bytes += (key.len() + value.len()) as u64;
            }
        }
        Ok(true)
    }

    /// One step of the single iterator of a sequential read.
    fn walk(&mut self) -> Result<bool, EngineError> {
        let backwards = self.benchmark == Benchmark::ReadReverse;
        let cursor = match &mut self.cursor {
            Some(cursor) if backwards => {
                cursor.prev()?;
                cursor
            }
            Some(cursor) => {
                cursor.next()?;
                cursor
            }
            None => {
                let mut cursor = self.keyspace.iter(self.read.clone())?;
                if backwards {
                    cursor.seek_to_last()?;
                } else {
                    cursor.seek_to_first()?;
                }
                self.cursor.insert(cursor)
            }
        };
        if !cursor.valid() {
            return Ok(false);
        }
        self.tally.ops += 1;
        self.tally.found += 1;
        self.tally.read_bytes += (cursor.key().len() + cursor.value().len()) as u64;
        Ok(true)
    }

    /// One operation: a new iterator, a seek, and the steps after it.
    fn seek(&mut self) -> Result<bool, EngineError> {
        let number = self.prng.below(self.num);
        let mut cursor = self.keyspace.iter(self.read.clone())?;
        cursor.seek(self.keys.present(number))?;
        self.tally.ops += 1;
        self.tally.found += u64::from(cursor.valid());
        let mut left = self.seek_nexts;
        while cursor.valid() {
            self.tally.read_bytes += (cursor.key().len() + cursor.value().len()) as u64;
            if left == 0 {
                break;
            }
            left -= 1;
            cursor.next()?;
        }
        Ok(true)
    }

    fn maintain(&mut self, watcher: &Watcher<'_>) -> Result<(), EngineError> {
        self.limit = 1;
        self.tally.ops = 1;
        let watch = &mut |progress| watcher.background(progress);
        match self.benchmark {
            Benchmark::Flush => self.db.flush(),
            Benchmark::Compact => self.keyspace.compact_range_with(None, None, watch),
            _ => self.db.wait_idle_with(watch),
        }
    }

    /// The number of operations to do.
    pub(crate) fn limit(&self) -> u64 {
        self.limit
    }

    /// The number of operations in the next batch.
    fn batch_len(&self) -> usize {
        let left = self.limit - self.tally.ops;
        self.batch_size.min(usize::try_from(left).unwrap_or(usize::MAX))
    }
}

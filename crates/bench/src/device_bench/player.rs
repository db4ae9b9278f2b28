//! One host that sends its requests to the device at their times, and measures how long each takes.
//!
//! While the host is idle, the device works on its own, as `imbrex serve` lets it.

use super::files::HostRequest;
use super::words::WriteNumber;
use crate::error::BenchError;
use crate::latency::Latencies;
use imbrex_clockwork::{Clock, processor_ns};
use imbrex_disk::{BLOCK_LEN_BYTES, BlockRange, Blocks, Disk, DiskError, Lba, Persist};
use imbrex_translate::BlockDriver;
use std::sync::Arc;

/// The longest request that a kernel passes on, in blocks: 512 KiB.
const REQUEST_LEN_MAX: u64 = 128;

/// The times of a day's requests.
#[derive(Debug, Default)]
pub(super) struct DayTimes {
    pub(super) write: Latencies,
    pub(super) flush: Latencies,
    pub(super) read: Latencies,
    pub(super) late_ns: u64,
    pub(super) longest_call_ns: u64,
    pub(super) trimmed_blocks: u64,
}

/// A host at a device.
#[derive(Debug)]
pub(super) struct Player {
    pub(super) device: BlockDriver,
    clock: Arc<dyn Clock>,
    pub(super) times: DayTimes,
    /// A request of one write; only as much of it as the last request took is filled.
    data: Vec<u8>,
    filled: (WriteNumber, usize),
}

impl Player {
    pub(super) fn new(device: BlockDriver, clock: Arc<dyn Clock>) -> Player {
        let data = vec![0; Blocks::new(REQUEST_LEN_MAX).bytes() as usize];
        Player { device, clock, times: DayTimes::default(), data, filled: (WriteNumber::NONE, 0) }
    }

    /// The drive's time.
    pub(super) fn now_ns(&self) -> u64 {
        self.clock.now_ns()
    }

    /// Lets the device work on its own until `at_ns`.
    pub(super) fn idle_until(&mut self, at_ns: u64) -> Result<(), BenchError> {
        while self.now_ns() < at_ns {
            if !self.call("working on", |device, _| device.work())? {
                self.clock.advance_to_ns(at_ns);
            }
        }
        self.times.late_ns = self.times.late_ns.max(self.now_ns() - at_ns);
        Ok(())
    }

    /// Sends requests, each when the one before has returned.
    pub(super) fn send(&mut self, requests: &[HostRequest]) -> Result<(), BenchError> {
        for &request in requests {
            match request {
                HostRequest::Write(range, number) => self.write(range, number)?,
                HostRequest::Trim(range) => {
                    self.times.trimmed_blocks += range.len.get();
                    self.call("discarding on", |device, _| device.discard(range))?;
                }
            }
        }
        Ok(())
    }

    fn write(&mut self, range: BlockRange, number: WriteNumber) -> Result<(), BenchError> {
        let mut done = Blocks::ZERO;
        while done < range.len {
            let len = (range.len - done).min(Blocks::new(REQUEST_LEN_MAX));
            let len_bytes = len.bytes() as usize;
            if self.filled.0 != number || self.filled.1 < len_bytes {
                number.fill(&mut self.data[..len_bytes]);
                self.filled = (number, len_bytes);
            }
            let at = range.start + done;
            let from_ns = self.now_ns();
            self.call("writing to", |device, data| {
                device.write(at, &data[..len_bytes], Persist::Cached)
            })?;
            self.times.write.record(self.now_ns() - from_ns);
            done += len;
        }
        Ok(())
    }

    pub(super) fn flush(&mut self) -> Result<(), BenchError> {
        let from_ns = self.now_ns();
        self.call("flushing", |device, _| device.flush())?;
        self.times.flush.record(self.now_ns() - from_ns);
        Ok(())
    }

    /// Reads a block and compares it with what the host wrote there.
    pub(super) fn probe(&mut self, at: Lba, expected: WriteNumber) -> Result<(), BenchError> {
        let mut block = [0; BLOCK_LEN_BYTES];
        let from_ns = self.now_ns();
        self.device.read(at, &mut block).map_err(failed("reading"))?;
        self.times.read.record(self.now_ns() - from_ns);
        match WriteNumber::of(&block) {
            Some(number) if number == expected => Ok(()),
            got => Err(BenchError::WrongWrite {
                at: at.get(),
                expected: expected.0,
                got: got.map(|number| number.0),
            }),
        }
    }

    fn call<T>(
        &mut self,
        what: &'static str,
        call: impl FnOnce(&BlockDriver, &[u8]) -> Result<T, DiskError>,
    ) -> Result<T, BenchError> {
        let from_ns = processor_ns();
        let outcome = call(&self.device, &self.data);
        self.times.longest_call_ns =
            self.times.longest_call_ns.max(processor_ns().saturating_sub(from_ns));
        outcome.map_err(failed(what))
    }
}

pub(super) fn failed(what: &'static str) -> impl FnOnce(DiskError) -> BenchError {
    move |source| BenchError::Disk { what: format!("{what} the block device"), source }
}

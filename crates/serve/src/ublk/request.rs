//! A request of the kernel to a device, and its result.
//!
//! Invariants
//!   E1  A result is the length of the data read or written, 0 for a request without data, or a negative errno.
//!   E2  A refused request has changed nothing.
//!   E3  A panic of the device gives a result like any other failure, because the kernel waits for one.

use super::limits::KERNEL_SECTOR_LEN_BYTES;
use crate::counts::{Tally, add, count};
use crate::{BlockDevice, ByteRange, DeviceError, Waits};
use imbrex_disk::{DiskError, Persist};
use rustix::io::Errno;
use std::io::ErrorKind;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Discards and zeroes of at least this length may take long, so they run in a lane.
const LONG_LEN_BYTES: u64 = 1 << 20;

/// The kernel's operations: the low byte of a request's first word.
pub(crate) mod operation {
    pub(crate) const READ: u8 = 0;
    pub(crate) const WRITE: u8 = 1;
    pub(crate) const FLUSH: u8 = 2;
    pub(crate) const DISCARD: u8 = 3;
    pub(crate) const WRITE_ZEROES: u8 = 5;
}

/// The kernel's flags: the other bits of that word. Flags for retries and priorities need no action.
pub(crate) mod flag {
    /// The write is durable when it completes.
    pub(crate) const FUA: u32 = 1 << 13;
    /// Zeroes must keep their space.
    pub(crate) const NO_UNMAP: u32 = 1 << 15;
}

/// One request, as the kernel describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    operation: u8,
    flags: u32,
    range: ByteRange,
}

impl Request {
    /// Decodes the words of the kernel's description, with sectors of 512 bytes.
    pub(crate) fn new(word: u32, start_sector: u64, sector_count: u32) -> Request {
        let bytes = |sectors: u64| sectors.saturating_mul(KERNEL_SECTOR_LEN_BYTES);
        let range = ByteRange::new(bytes(start_sector), bytes(u64::from(sector_count)));
        Request { operation: word as u8, flags: word & !0xff, range }
    }

    fn has(&self, flag: u32) -> bool {
        self.flags & flag != 0
    }

    fn persist(&self) -> Persist {
        if self.has(flag::FUA) { Persist::Through } else { Persist::Cached }
    }

    /// Whether other requests should not wait for this one.
    pub(crate) fn may_wait(&self, device: &dyn BlockDevice) -> bool {
        let (waits, is_long) = (device.waits(), self.range.len_bytes > LONG_LEN_BYTES);
        match self.operation {
            operation::FLUSH => true,
            operation::DISCARD | operation::WRITE_ZEROES if is_long => true,
            _ => self.has(flag::FUA) || waits == Waits::All,
        }
    }
}

/// The device and its counters.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) device: Arc<dyn BlockDevice>,
    pub(crate) is_read_only: bool,
    pub(crate) tally: Tally,
    /// The description of the first failure, for the server's report; the kernel accepts only a number.
    first_error: Mutex<Option<String>>,
    /// The descriptions of panics, which are bugs.
    panics: Mutex<Vec<String>>,
}

impl Target {
    pub(crate) fn new(device: Arc<dyn BlockDevice>, is_read_only: bool) -> Target {
        let tally = Tally::default();
        Target {
            device,
            is_read_only,
            tally,
            first_error: Mutex::default(),
            panics: Mutex::default(),
        }
    }

    /// Executes `request` with the start of `buffer` as its data; returns the result (E1).
    pub(crate) fn answer(&self, request: &Request, buffer: &mut [u8]) -> i32 {
        let answered = catch_unwind(AssertUnwindSafe(|| self.try_answer(request, buffer)));
        let panicked = |_| {
            let story = format!("the device panicked at {request:?}");
            self.panics().push(story.clone());
            Err((Errno::IO, story))
        };
        answered.unwrap_or_else(panicked).unwrap_or_else(|(errno, story)| {
            count(&self.tally.errors);
            self.first_error().get_or_insert(story);
            -errno.raw_os_error()
        })
    }

    pub(crate) fn panics(&self) -> MutexGuard<'_, Vec<String>> {
        self.panics.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn first_error(&self) -> MutexGuard<'_, Option<String>> {
        self.first_error.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn try_answer(&self, request: &Request, buffer: &mut [u8]) -> Result<i32, (Errno, String)> {
        let Request { range, operation, .. } = *request;
        let refused = |error: DeviceError| (errno(&error), error.story());
        let (device, persist) = (&*self.device, request.persist());
        if self.is_read_only && !matches!(operation, operation::READ | operation::FLUSH) {
            return Err((Errno::IO, format!("the device is read-only: {range}")));
        }
        let carried = |buffer_len_bytes: usize| {
            usize::try_from(range.len_bytes)
                .ok()
                .filter(|len_bytes| *len_bytes <= buffer_len_bytes)
                .ok_or_else(|| (Errno::IO, format!("{range} are more than {buffer_len_bytes}")))
        };
        match operation {
            operation::READ => {
                let len_bytes = carried(buffer.len())?;
                device.read(range.start_bytes, &mut buffer[..len_bytes]).map_err(refused)?;
                count(&self.tally.reads);
                add(&self.tally.read_bytes, range.len_bytes);
                Ok(len_bytes as i32)
            }
            operation::WRITE => {
                let len_bytes = carried(buffer.len())?;
                let data = &buffer[..len_bytes];
                device.write(range.start_bytes, data, persist).map_err(refused)?;
                count(&self.tally.writes);
                add(&self.tally.written_bytes, range.len_bytes);
                Ok(len_bytes as i32)
            }
            operation::FLUSH => {
                device.flush().map_err(refused)?;
                count(&self.tally.flushes);
                Ok(0)
            }
            operation::DISCARD => {
                device.trim(range, persist).map_err(refused)?;
                count(&self.tally.trims);
                Ok(0)
            }
            operation::WRITE_ZEROES => {
                let may_trim = !request.has(flag::NO_UNMAP);
                device.write_zeroes(range, may_trim, persist).map_err(refused)?;
                count(&self.tally.zeroes);
                Ok(0)
            }
            _ => Err((Errno::OPNOTSUPP, format!("there is no operation {operation}"))),
        }
    }
}

/// The kernel's error number for a failure of the device.
fn errno(error: &DeviceError) -> Errno {
    match error {
        DeviceError::Disk { source: DiskError::Host { source, .. }, .. }
            if matches!(source.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded) =>
        {
            Errno::NOSPC
        }
        _ => Errno::IO,
    }
}

#[cfg(test)]
mod tests;

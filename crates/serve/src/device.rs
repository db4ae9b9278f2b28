//! The interface between a server and the device it serves: bytes at an offset, in whole sectors.

use imbrex_disk::{DiskError, Persist};
use std::fmt;

/// A half-open run of bytes, `start .. start + len`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ByteRange {
    /// The first byte.
    pub start_bytes: u64,
    /// The length in bytes.
    pub len_bytes: u64,
}

impl ByteRange {
    /// The run of `len_bytes` bytes from `start_bytes`.
    pub const fn new(start_bytes: u64, len_bytes: u64) -> ByteRange {
        ByteRange { start_bytes, len_bytes }
    }

    /// The first byte after the run; `u64::MAX` if that overflows.
    pub const fn end_bytes(self) -> u64 {
        self.start_bytes.saturating_add(self.len_bytes)
    }
}

impl fmt::Display for ByteRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "bytes {}..{}", self.start_bytes, self.end_bytes())
    }
}

/// The content of a run of bytes, as far as a device knows it without reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Written; the content must be read to be known.
    Data,
    /// Written, and known to be zeros.
    Zero,
    /// Not written, or discarded: it takes no space and reads as zeros.
    Hole,
}

/// The first part of a run that has one kind of content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The length of this part: positive, and at most the run's length.
    pub len_bytes: u64,
    /// The content of this part.
    pub content: Content,
}

/// The requests that may wait for the drive's mechanism. Flushes and writes through the cache always may.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Waits {
    /// None: requests only copy bytes.
    #[default]
    Nothing,
    /// All requests.
    All,
}

/// Why a device refused a request or failed at it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// The request reaches past the end of the device. It had no effect.
    #[error("{range} reach past the end of the device, which has {len_bytes} bytes")]
    OutOfRange {
        /// The request.
        range: ByteRange,
        /// The device's length.
        len_bytes: u64,
    },
    /// The request is empty, or does not start and end at sectors. It had no effect.
    #[error("{range} are not a positive number of whole sectors of {sector_len_bytes} bytes")]
    Unaligned {
        /// The request.
        range: ByteRange,
        /// The device's unit.
        sector_len_bytes: u32,
    },
    /// The disk does not take writes anywhere, so it cannot be a block device by itself.
    #[error(
        "the disk is {rule} and does not take writes anywhere; as a block device it needs a translation layer"
    )]
    Rule {
        /// The name of the disk's rule.
        rule: &'static str,
    },
    /// The disk below failed.
    #[error("{what}")]
    Disk {
        /// What was being done.
        what: String,
        /// Why it failed.
        #[source]
        source: DiskError,
    },
}

impl DeviceError {
    /// The error with its causes; a cause that its parent quotes is not repeated.
    pub(crate) fn story(&self) -> String {
        let mut story = self.to_string();
        let mut cause = std::error::Error::source(self);
        while let Some(next) = cause {
            let told = next.to_string();
            if !story.ends_with(&told) {
                story = format!("{story}: {told}");
            }
            cause = next.source();
        }
        story
    }
}

/// The device that a server serves: a run of bytes that many threads read and write in sectors.
///
/// Offsets and lengths are multiples of the sector. An implementation refuses others with
/// [`DeviceError::Unaligned`], and a request past its end with [`DeviceError::OutOfRange`].
///
/// A write is readable when it returns. It is durable after the next [`flush`] that starts after that, from
/// any thread, so several connections may share a device. Requests that overlap in time and in bytes may be
/// done in either order. Requests that share no byte never change each other's bytes.
///
/// [`flush`]: BlockDevice::flush
pub trait BlockDevice: Send + Sync + fmt::Debug {
    /// The length of the whole device, a multiple of the sector; never changes.
    fn len_bytes(&self) -> u64;

    /// The unit of every offset and length: 512 or 4096.
    fn sector_len_bytes(&self) -> u32;

    /// The unit in which requests cost least.
    fn preferred_len_bytes(&self) -> u32 {
        4096
    }

    /// Whether a far request costs more than a near one.
    fn is_rotational(&self) -> bool {
        false
    }

    /// The requests that may wait for the drive's mechanism, so that serving several of one client at a time
    /// pays.
    fn waits(&self) -> Waits {
        Waits::Nothing
    }

    /// Does a step of the device's background work; the server calls it while no request comes. Returns false if
    /// no work is due, or if it failed; the next request then reports the failure.
    fn work(&self) -> bool {
        false
    }

    /// Reads `buf.len()` bytes from `at_bytes`. Unwritten bytes read as zeros.
    ///
    /// # Errors
    /// [`DeviceError`]; the content of `buf` is then unspecified.
    fn read(&self, at_bytes: u64, buf: &mut [u8]) -> Result<(), DeviceError>;

    /// Writes `data` from `at_bytes`.
    ///
    /// # Errors
    /// [`DeviceError`]; after [`DeviceError::Disk`] a part of the data may be written.
    fn write(&self, at_bytes: u64, data: &[u8], persist: Persist) -> Result<(), DeviceError>;

    /// Makes every write that has returned durable.
    ///
    /// # Errors
    /// [`DeviceError::Disk`]: what is durable is then unknown.
    fn flush(&self) -> Result<(), DeviceError>;

    /// Discards the content of `range`. Until it is written again it may read as anything, its old content
    /// included.
    ///
    /// # Errors
    /// [`DeviceError`].
    fn trim(&self, range: ByteRange, persist: Persist) -> Result<(), DeviceError>;

    /// Makes `range` read as zeros; with `may_trim` its space may be freed.
    ///
    /// # Errors
    /// [`DeviceError`]; after [`DeviceError::Disk`] a part may be zeros.
    fn write_zeroes(
        &self,
        range: ByteRange,
        may_trim: bool,
        persist: Persist,
    ) -> Result<(), DeviceError>;

    /// Whether [`BlockDevice::write_zeroes`] of `range` costs less than writing as many zeros.
    fn zeroes_are_cheap(&self, range: ByteRange, may_trim: bool) -> bool {
        let _ = (range, may_trim);
        false
    }

    /// The first part of `range` with one kind of content, found without reading it.
    ///
    /// # Errors
    /// [`DeviceError`].
    fn status(&self, range: ByteRange) -> Result<Extent, DeviceError>;

    /// Checks that `range` is in the device and consists of whole sectors.
    ///
    /// # Errors
    /// [`DeviceError::Unaligned`], [`DeviceError::OutOfRange`].
    fn check(&self, range: ByteRange) -> Result<(), DeviceError> {
        let (sector_len_bytes, len_bytes) = (self.sector_len_bytes(), self.len_bytes());
        let sector = u64::from(sector_len_bytes);
        let is_whole =
            range.start_bytes.is_multiple_of(sector) && range.len_bytes.is_multiple_of(sector);
        if range.len_bytes == 0 || !is_whole {
            return Err(DeviceError::Unaligned { range, sector_len_bytes });
        }
        match range.start_bytes.checked_add(range.len_bytes) {
            Some(end_bytes) if end_bytes <= len_bytes => Ok(()),
            _ => Err(DeviceError::OutOfRange { range, len_bytes }),
        }
    }
}

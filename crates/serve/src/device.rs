//! The seam between a door and what lies behind it: bytes at an offset, in whole sectors.

use imbrex_disk::{DiskError, Persist};
use std::fmt;

/// A half-open run of bytes, `start .. start + len`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ByteRange {
    /// The first byte.
    pub start_bytes: u64,
    /// How many bytes.
    pub len_bytes: u64,
}

impl ByteRange {
    /// The run of `len_bytes` bytes from `start_bytes`.
    pub const fn new(start_bytes: u64, len_bytes: u64) -> ByteRange {
        ByteRange { start_bytes, len_bytes }
    }

    /// The first byte after the run, or the largest number there is.
    pub const fn end_bytes(self) -> u64 {
        self.start_bytes.saturating_add(self.len_bytes)
    }
}

impl fmt::Display for ByteRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "bytes {}..{}", self.start_bytes, self.end_bytes())
    }
}

/// What a device knows of a run of bytes without reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Written, with whatever: it must be read to be known.
    Data,
    /// Written, and known to be zeros.
    Zero,
    /// Not written, or given back: takes no room and reads as zeros.
    Hole,
}

/// The start of a run: how far it goes on as it begins, and with what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Positive, and at most the run's length.
    pub len_bytes: u64,
    /// What is in it.
    pub content: Content,
}

/// Which requests may wait for a mechanism, besides flushes and writes through the cache, which always may.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Waits {
    /// None: they only move bytes.
    #[default]
    Nothing,
    /// Reads.
    Reads,
    /// All.
    All,
}

/// Why a device refused a request or failed at it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// The request reaches past the end of the device. Nothing changed.
    #[error("{range} reach past the end of the device, which has {len_bytes} bytes")]
    OutOfRange {
        /// The request.
        range: ByteRange,
        /// The device's length.
        len_bytes: u64,
    },
    /// The request does not start or end at a sector, or is empty. Nothing changed.
    #[error("{range} are no positive number of whole sectors of {sector_len_bytes} bytes")]
    Unaligned {
        /// The request.
        range: ByteRange,
        /// The device's unit.
        sector_len_bytes: u32,
    },
    /// The disk cannot be written anywhere, so it cannot be a block device by itself.
    #[error(
        "the disk is {rule}: it takes no write just anywhere, and needs a translation layer over it \
         to be a block device"
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
    /// What failed, and why; a cause that its parent quotes is not repeated.
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

/// What a door serves: a run of bytes that can be read and written in sectors, by many at once.
///
/// Offsets and lengths are multiples of the sector; an implementation checks them and refuses others
/// with [`DeviceError::Unaligned`], and what reaches past its end with [`DeviceError::OutOfRange`].
///
/// A write is readable when it returns, and durable after the next [`flush`] that starts after that,
/// whoever calls it: so several connections may share a device. Requests that overlap in time and in
/// bytes may be done in either order; those that share no byte never touch each other's.
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

    /// Which requests may wait for a mechanism, so that it pays to have several of one client's under way.
    fn waits(&self) -> Waits {
        Waits::Nothing
    }

    /// Does a step of what the device does of its own accord, for times when nobody asks for anything; false if
    /// nothing is due, or it failed: the next request will tell.
    fn work(&self) -> bool {
        false
    }

    /// Reads `buf.len()` bytes from `at_bytes`. What was never written reads as zeros.
    ///
    /// # Errors
    /// [`DeviceError`]; the content of `buf` is then unspecified.
    fn read(&self, at_bytes: u64, buf: &mut [u8]) -> Result<(), DeviceError>;

    /// Writes `data` from `at_bytes`.
    ///
    /// # Errors
    /// [`DeviceError`]; after [`DeviceError::Disk`] a part may be written.
    fn write(&self, at_bytes: u64, data: &[u8], persist: Persist) -> Result<(), DeviceError>;

    /// Makes every write that has returned durable.
    ///
    /// # Errors
    /// [`DeviceError::Disk`]: what is durable is then unknown.
    fn flush(&self) -> Result<(), DeviceError>;

    /// Tells the device that the content of `range` is not needed any more; it may read as anything
    /// until it is written again, or as it did.
    ///
    /// # Errors
    /// [`DeviceError`].
    fn trim(&self, range: ByteRange, persist: Persist) -> Result<(), DeviceError>;

    /// Makes `range` read as zeros; with `may_trim` it need not take room any longer.
    ///
    /// # Errors
    /// [`DeviceError`]; after [`DeviceError::Disk`] a part may be zeros.
    fn write_zeroes(
        &self,
        range: ByteRange,
        may_trim: bool,
        persist: Persist,
    ) -> Result<(), DeviceError>;

    /// Whether [`BlockDevice::write_zeroes`] of `range`, with `may_trim` or without, costs less than writing as
    /// many zeros.
    fn zeroes_are_cheap(&self, range: ByteRange, may_trim: bool) -> bool {
        let _ = (range, may_trim);
        false
    }

    /// What is known of the start of `range`, and how far that goes on, without reading it.
    ///
    /// # Errors
    /// [`DeviceError`].
    fn status(&self, range: ByteRange) -> Result<Extent, DeviceError>;

    /// Checks that the device has `range`, in whole sectors.
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

//! What can go wrong between a host and its disk.

use crate::{BlockRange, Blocks, Lba, ZoneAction, ZoneId, ZoneState};

/// A geometry that no disk can have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GeometryError {
    /// A length or limit is zero.
    #[error("{what} is 0; it must be at least 1")]
    Zero {
        /// The field.
        what: &'static str,
    },
    /// A length or limit is above its bound.
    #[error("{what} is {got}; it may be at most {bound}")]
    TooLarge {
        /// The field.
        what: &'static str,
        /// Its value.
        got: u64,
        /// The largest value it may have.
        bound: u64,
    },
}

/// Why a disk refused a request or failed to serve it. Unless a variant says otherwise, nothing
/// changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DiskError {
    /// The request reaches past the end of the disk.
    #[error("blocks {range} lie past the end of the disk, which has {len}")]
    OutOfRange {
        /// The request.
        range: BlockRange,
        /// The disk's length.
        len: Blocks,
    },
    /// A buffer is empty or not a whole number of blocks.
    #[error("buffer of {len_bytes} bytes at {at}: not a positive multiple of 4096")]
    NotBlocks {
        /// Where the request starts.
        at: Lba,
        /// The buffer's length.
        len_bytes: usize,
    },
    /// The host broke the zone's sequential rule. The caller may retry at `expected`.
    #[error("{zone}: write at {got}, but its write pointer is {expected}")]
    NotAtWritePointer {
        /// The zone.
        zone: ZoneId,
        /// The zone's write pointer.
        expected: Lba,
        /// Where the host wrote.
        got: Lba,
    },
    /// A write reaches past what the zone can hold, or into the next zone.
    #[error("{zone}: write of blocks {range}, but the zone can be written only below {end}")]
    ZoneBoundary {
        /// The zone that holds the first block.
        zone: ZoneId,
        /// The request.
        range: BlockRange,
        /// The first block that the zone cannot hold.
        end: Lba,
    },
    /// A strict drive was asked for blocks of a sequential zone together with blocks of another
    /// zone. The caller may read the parts one by one.
    #[error("{zone}: read of blocks {range}, but one read reaches no further than {end}")]
    ReadBoundary {
        /// The zone that holds the first block.
        zone: ZoneId,
        /// The request.
        range: BlockRange,
        /// The first block behind the zone.
        end: Lba,
    },
    /// The zone's state does not allow the request.
    #[error("{zone} is {state}: cannot {action} it")]
    ZoneNotWritable {
        /// The zone.
        zone: ZoneId,
        /// Its state.
        state: ZoneState,
        /// The refused request: "write", "open", ...
        action: &'static str,
    },
    /// The drive's limit on open or active zones is reached.
    #[error("{zone}: cannot {action}: {limit} zones are {what} already; close or finish one first")]
    TooManyZones {
        /// The zone.
        zone: ZoneId,
        /// The refused request: "open", "write", "close".
        action: &'static str,
        /// "open" or "active".
        what: &'static str,
        /// The limit.
        limit: u32,
    },
    /// A zone command for a zone that the disk does not have, or that takes no zone commands.
    #[error("cannot {action} {zone}: {reason}")]
    NoSuchZone {
        /// The zone.
        zone: ZoneId,
        /// The refused command.
        action: ZoneAction,
        /// "the disk has no zones", "the disk has N zones", "the zone is conventional".
        reason: String,
    },
    /// A strict drive was asked for blocks that were never written.
    #[error("{zone}: read of blocks {range}, but only blocks below {write_pointer} are written")]
    ReadAbovePointer {
        /// The zone.
        zone: ZoneId,
        /// The request.
        range: BlockRange,
        /// The zone's write pointer.
        write_pointer: Lba,
    },
    /// The blocks were overwritten by a write to an overlapping track.
    #[error("blocks {range} were destroyed by {}", culprit(by))]
    Destroyed {
        /// The first run of destroyed blocks in the request.
        range: BlockRange,
        /// The write that destroyed them, if the disk still knows it.
        by: Option<BlockRange>,
    },
    /// A write that would destroy valid blocks, on a disk configured to refuse such writes.
    #[error(
        "write of blocks {write} refused: it would destroy blocks {valid}, which are written and \
         not discarded; discard them first, or keep a guard before them"
    )]
    WouldDestroy {
        /// The request.
        write: BlockRange,
        /// The first run of valid blocks that it would destroy.
        valid: BlockRange,
    },
    /// The medium cannot give back what was written (latent sector error).
    #[error("{at} cannot be read: medium error; restore the data from a copy")]
    Medium {
        /// The first unreadable block.
        at: Lba,
    },
    /// The zone is offline: neither readable nor writable.
    #[error("{zone} is offline: the drive has given it up")]
    Offline {
        /// The zone.
        zone: ZoneId,
    },
    /// The disk was opened for reading only. Nothing was written.
    #[error("refused: the disk is open for reading only")]
    ReadOnly,
    /// The disk lost power (or a test cut it). What was not flushed may be lost.
    #[error("the disk has no power; reopen it to recover")]
    PowerLost,
    /// An earlier flush or write failed, so what is durable is unknown.
    #[error("refused: a write or flush failed earlier, so what is durable is unknown; reopen")]
    Poisoned,
    /// The host's own storage (the image file, the device) failed. Part of the request may have
    /// been carried out.
    #[error("{what}: {source}")]
    Host {
        /// The operation, its file or device, and the remedy.
        what: String,
        /// The operating system's error.
        #[source]
        source: std::io::Error,
    },
}

impl DiskError {
    /// Whether the requested blocks are damaged or gone, so that a request for other blocks may
    /// still succeed.
    pub fn is_damage(&self) -> bool {
        matches!(
            self,
            DiskError::Medium { .. }
                | DiskError::Offline { .. }
                | DiskError::Destroyed { .. }
                | DiskError::ReadAbovePointer { .. }
        )
    }

    /// Whether single blocks cannot be read. A power cut during the write of a sector has the same
    /// effect.
    pub fn is_unreadable(&self) -> bool {
        matches!(self, DiskError::Medium { .. })
    }
}

fn culprit(by: &Option<BlockRange>) -> String {
    match by {
        Some(write) => format!("the write of blocks {write} to an overlapping track"),
        None => "a write to an overlapping track".to_owned(),
    }
}

//! Zones: the host's view of bands, with the states of ZBC.
//!
//! ```text
//!            write            write to the end, finish
//!   Empty ----------> Open ------------------------------> Full
//!     ^                |  ^                                 |
//!     |          close |  | write, open                     |
//!     |                v  |                                 |
//!     +--- reset ---- Closed <------- reset ----------------+
//! ```
//!
//! Source: ZBC (INCITS 536), zone conditions.

use crate::{Blocks, Lba, ZoneId};
use std::fmt;

/// Which writes a zone takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ZoneKind {
    /// Writes go anywhere in it.
    Conventional,
    /// Writes go only to the write pointer.
    SequentialRequired,
}

/// The condition of a zone. A state without a write pointer has no field to misread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ZoneState {
    /// A conventional zone: always writable, no pointer.
    NoPointer,
    /// Nothing written; the pointer stands at the zone's start.
    Empty,
    /// Being written; counts against the drive's limit of open zones.
    Open {
        /// Where the next write must go.
        write_pointer: Lba,
        /// Opened by command: the drive may not close it to make room for another.
        explicit: bool,
    },
    /// Partly written, not open; counts against the limit of active zones.
    Closed {
        /// Where the next write must go.
        write_pointer: Lba,
    },
    /// Written to its capacity, or finished.
    Full,
    /// Failing: still readable, never writable again.
    ReadOnly,
    /// Failed: neither readable nor writable.
    Offline,
}

impl ZoneState {
    /// The zone's write pointer, if the state has one. That of `Empty` is `zone_start`.
    pub fn write_pointer(self, zone_start: Lba) -> Option<Lba> {
        match self {
            ZoneState::Empty => Some(zone_start),
            ZoneState::Open { write_pointer, .. } | ZoneState::Closed { write_pointer } => {
                Some(write_pointer)
            }
            ZoneState::NoPointer | ZoneState::Full | ZoneState::ReadOnly | ZoneState::Offline => {
                None
            }
        }
    }
}

impl fmt::Display for ZoneState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ZoneState::NoPointer => "conventional",
            ZoneState::Empty => "empty",
            ZoneState::Open { .. } => "open",
            ZoneState::Closed { .. } => "closed",
            ZoneState::Full => "full",
            ZoneState::ReadOnly => "read-only",
            ZoneState::Offline => "offline",
        })
    }
}

/// One line of a zone report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZoneInfo {
    /// Which zone.
    pub zone: ZoneId,
    /// Which writes it takes.
    pub kind: ZoneKind,
    /// Its first block.
    pub start: Lba,
    /// Its length in the address space.
    pub len: Blocks,
    /// How much of it can be written; at most `len`.
    pub capacity: Blocks,
    /// Its condition.
    pub state: ZoneState,
}

/// What a host may do to a zone besides writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZoneAction {
    /// Open it explicitly: it stays open until it is closed, finished, filled or reset.
    Open,
    /// Close it: it keeps its write pointer and gives back its place among the open zones.
    Close,
    /// Make it full, wherever its write pointer is.
    Finish,
    /// Drop its data. The write pointer returns to the start.
    Reset,
}

impl fmt::Display for ZoneAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ZoneAction::Open => "open",
            ZoneAction::Close => "close",
            ZoneAction::Finish => "finish",
            ZoneAction::Reset => "reset",
        })
    }
}

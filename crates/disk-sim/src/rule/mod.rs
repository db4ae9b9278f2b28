//! The recording rule: which writes a drive accepts, and what they change besides the data.
//!
//! ```text
//!     SimDisk:   check_read / begin_write ----> move the bytes ----> commit_write
//!                 |  refused: typed error,                             |
//!                 v  nothing changed                                   v
//!     rule:      Anywhere                Zoned (`disk::ZoneTable`: pointers, open and active zones)
//!                Tracks (tracks.rs: takes any write; `backing::overlapping` destroys)
//! ```

mod tracks;

pub(crate) use tracks::{Mark, TrackTable, Tracks};

use crate::build_error::BuildError;
use imbrex_disk::{BlockRange, DiskError, Geometry, Readable, Rule, ZoneId, ZoneTable};
use std::sync::Arc;

/// The state that one rule keeps.
#[derive(Debug)]
pub(crate) enum RuleState {
    /// Conventional: no state.
    Anywhere,
    /// Host-managed zones.
    Zoned(ZoneTable),
    /// Raw shingled or interlaced tracks.
    Tracks(Arc<TrackTable>),
}

/// The largest real drives have some hundred thousand zones. More zones than this would only take
/// memory.
const ZONE_COUNT_MAX: u32 = 1 << 22;

/// Checks that `geometry` has no more zones than are supported.
pub(crate) fn check_zone_count(geometry: &Geometry) -> Result<(), BuildError> {
    match geometry.zone_count() {
        got if got > ZONE_COUNT_MAX => Err(BuildError::TooManyZones { got, bound: ZONE_COUNT_MAX }),
        _ => Ok(()),
    }
}

impl RuleState {
    /// The state of a new drive.
    pub(crate) fn new(geometry: &Geometry) -> Result<RuleState, BuildError> {
        check_zone_count(geometry)?;
        match geometry.rule() {
            Rule::Anywhere => Ok(RuleState::Anywhere),
            Rule::AtPointer(spec) => Ok(RuleState::Zoned(ZoneTable::new(*geometry, *spec))),
            Rule::IsolationDistance(_) | Rule::Neighbours(_) => {
                Ok(RuleState::Tracks(Arc::new(TrackTable::new(*geometry))))
            }
        }
    }

    /// The zones, if the rule has them.
    pub(crate) fn zones(&self) -> Option<&ZoneTable> {
        match self {
            RuleState::Zoned(table) => Some(table),
            RuleState::Anywhere | RuleState::Tracks(_) => None,
        }
    }

    /// The tracks, if they overlap.
    pub(crate) fn tracks(&self) -> Option<&Arc<TrackTable>> {
        match self {
            RuleState::Tracks(table) => Some(table),
            RuleState::Anywhere | RuleState::Zoned(_) => None,
        }
    }

    /// Whether `range` may be read.
    pub(crate) fn check_read(&self, range: BlockRange) -> Result<Readable, DiskError> {
        match self {
            // The platter checks for destroyed blocks, because the write cache may hold them again.
            RuleState::Anywhere | RuleState::Tracks(_) => Ok(Readable::Whole),
            RuleState::Zoned(table) => table.check_read(range),
        }
    }

    /// Checks that `range` may be written now, and opens its zone. `Some` for a sequential zone.
    pub(crate) fn begin_write(&self, range: BlockRange) -> Result<Option<ZoneId>, DiskError> {
        match self {
            RuleState::Anywhere | RuleState::Tracks(_) => Ok(None),
            RuleState::Zoned(table) => table.begin_write(range),
        }
    }

    /// Ends a write that failed, for the zone that [`RuleState::begin_write`] returned.
    pub(crate) fn abandon_write(&self, zone: Option<ZoneId>) {
        if let RuleState::Zoned(table) = self {
            table.abandon_write(zone);
        }
    }
}

//! Tracks in an order without regard to levels: one after the other, or in three phases.
//!
//! ```text
//!   sequential      1  2  3  4  5  6  7 ...          each bottom track lies below the top one before it
//!   three phases    bottom 2  4  6  8 ...            until no bottom track is empty
//!                   top    1     5     9 ...         then every other top track
//!                   top       3     7    11 ...      then the rest
//! ```
//!
//! Both continue after the track that was taken last, and wrap around at the end of the disk. In
//! three phases a bottom track that becomes free is taken first again, whatever lies above it by
//! then.
//!
//! Source: the baselines of KVIMR, *Seq* and *3Phase* (section 4.1); three phases: Gao and others.

use super::options::PlacementOptions;
use super::policy::{FileRequest, Planned, Rewriting};
use super::tracks::{self, TrackDraft, TrackPolicy};
use crate::space::{NoSpace, SpaceMap, TrackTier};
use imbrex_disk::Blocks;

pub(super) const SEQUENTIAL: &str = "track-sequential";
pub(super) const THREE_PHASE: &str = "track-three-phase";

/// The order of tracks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Sequential,
    ThreePhase,
}

#[derive(Debug)]
pub(super) struct TrackOrder {
    order: Order,
    unit_len: Blocks,
}

impl TrackOrder {
    pub(super) fn new(order: Order, options: &PlacementOptions) -> TrackOrder {
        TrackOrder { order, unit_len: options.unit_len() }
    }

    fn next(&self, draft: &TrackDraft<'_>) -> Option<u64> {
        let [even, odd] = draft.map().empty_tops();
        let bottoms = draft.map().empty_bottoms();
        match self.order {
            Order::Sequential if draft.may_take_tops() => {
                draft.next_of(&[bottoms, even, odd], draft.last_of_all())
            }
            Order::Sequential => draft.next_in(bottoms, draft.last_of_all()),
            Order::ThreePhase => {
                let top = |set| {
                    let may = draft.may_take_tops();
                    may.then(|| draft.next_in(set, draft.last(TrackTier::Top))).flatten()
                };
                let bottom = draft.next_in(bottoms, draft.last(TrackTier::Bottom));
                bottom.or_else(|| top(even)).or_else(|| top(odd))
            }
        }
    }
}

impl TrackPolicy for TrackOrder {
    fn name(&self) -> &'static str {
        match self.order {
            Order::Sequential => SEQUENTIAL,
            Order::ThreePhase => THREE_PHASE,
        }
    }

    fn unit_len(&self) -> Blocks {
        self.unit_len
    }

    fn rewriting(&self) -> Rewriting {
        Rewriting::Naive
    }

    fn plan(&self, space: &SpaceMap, files: &[FileRequest]) -> Result<Vec<Planned>, NoSpace> {
        tracks::plan(space, files, &|draft, _| self.next(draft))
    }
}

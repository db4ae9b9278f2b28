//! Tracks by position: tables of the same keys lie above one another, so that they become free together.
//!
//! ```text
//!   keys     a ............... h ............... p ........... z
//!   top      | a | bc |   |    | h | i |    |    | q | r |   |       upper levels, several tables in a track
//!   bottom     | a | b | d | f | h | k | l | n | p | r | t | x |     the largest level
//! ```
//!
//! A writer that merges one key range at a time gives up what it has there on both tiers. Bottom tracks
//! that become free then have nothing above them that lives, and are written again without a rewrite.
//!
//! *Tier*: a table of the largest level goes to a bottom track, one below nothing that lives if there is
//! any, and to a top track if no bottom track is empty. All other tables go to top tracks, or to bottom
//! ones if no top track is left.
//! *Track*: the empty one that is nearest to the table's position, in the part of the drive that is used;
//! without a position the one nearest to the last.
//! *Sharing*: a top track holds several tables, because a write to it moves nothing.
//!
//! Source: ours, after `track-tiers` and `zone-per-stream`.

use super::options::PlacementOptions;
use super::policy::{FileRequest, Planned, Rewriting};
use super::tracks::{self, TrackDraft, TrackPolicy};
use crate::hints::FileKind;
use crate::space::{NoSpace, SpaceMap, TrackTier};
use imbrex_disk::Blocks;

pub(super) const NAME: &str = "track-positions";

#[derive(Debug)]
pub(super) struct TrackPositions {
    unit_len: Blocks,
}

impl TrackPositions {
    pub(super) fn new(options: &PlacementOptions) -> TrackPositions {
        TrackPositions { unit_len: options.unit_len() }
    }
}

/// Whether a file is a table for the bottom.
fn is_for_bottom(file: &FileRequest, bottom_level: u8) -> bool {
    file.hints.kind == FileKind::Table && bottom_level <= file.hints.level
}

/// The track near which a file should be.
fn wanted(draft: &TrackDraft<'_>, file: &FileRequest, tier: TrackTier) -> u64 {
    file.hints.position.map_or(draft.last(tier), |position| draft.at_position(position))
}

fn next(draft: &TrackDraft<'_>, file: &FileRequest, bottom_level: u8) -> Option<u64> {
    let top = || {
        let to = wanted(draft, file, TrackTier::Top);
        let tops = draft.map().empty_tops().into_iter().filter(|_| draft.may_take_tops());
        let nearest = tops.filter_map(|set| draft.nearest_in(set, to));
        nearest.min_by_key(|track| track.abs_diff(to))
    };
    let bottom = || {
        let to = wanted(draft, file, TrackTier::Bottom);
        let quiet = draft.nearest_in(draft.map().quiet_bottoms(), to);
        quiet.or_else(|| draft.nearest_in(draft.map().empty_bottoms(), to))
    };
    if is_for_bottom(file, bottom_level) { bottom().or_else(top) } else { top().or_else(bottom) }
}

impl TrackPolicy for TrackPositions {
    fn name(&self) -> &'static str {
        NAME
    }

    fn unit_len(&self) -> Blocks {
        self.unit_len
    }

    fn rewriting(&self) -> Rewriting {
        Rewriting::Merged
    }

    fn plan(&self, space: &SpaceMap, files: &[FileRequest]) -> Result<Vec<Planned>, NoSpace> {
        let tables = files.iter().filter(|file| file.hints.kind == FileKind::Table);
        let largest = space.tracks().levels().largest;
        let bottom_level = tables.map(|file| file.hints.level).fold(largest, u8::max);
        let near = |draft: &TrackDraft<'_>, file: &FileRequest| {
            let is_table = file.hints.kind == FileKind::Table;
            let shares = is_table && !is_for_bottom(file, bottom_level);
            shares.then(|| wanted(draft, file, TrackTier::Top))
        };
        tracks::plan_sharing(space, files, &|draft, file| next(draft, file, bottom_level), &near)
    }
}

//! Compaction-aware tracks: tables of the largest level at the bottom, all others on top.
//!
//! ```text
//!   top      | L1 | L0 | L2 | L1 |    | L3 | ...     die soon, and are written without a rewrite
//!   bottom   | L4 | L4 |    | L4 | L4 | L4 | ...     live long: few bottom tracks become free again
//! ```
//!
//! *Tier*: a table of the current largest level goes to a bottom track, to a top one when no bottom track
//! is empty; every other table to a top track, to a bottom one when no top track is left. *Track*: the
//! next empty one of the tier behind the track taken last, so that the tables of one compaction lie in
//! sequence; among bottom tracks those are skipped whose write would need a rewrite, and where all
//! would, the nearest is taken.
//!
//! *Largest*: of the levels that the tables there are were written for. A table that goes down a level without being
//! rewritten stays where it is, and so does its old level's tier:
//!
//!   K1  A table that is moved to another level changes no tier; the first table written for a level does.
//!
//! *Fullest*: from the level with most tables on, larger ones with it, tables count as of the largest level.
//! That is KVIMR's rule as long as the largest level is the fullest. It differs when a level is begun:
//! its first tables would send the level before it, nearly all there is, to top tracks, whose room it does
//! not fit in; what overflows into bottom tracks dies there soon, under live top tracks.
//!
//! Source: KVIMR, section 3.2 (level based bi-tiering, relaxed-sequential allocation) and 3.1 (a level is told with
//! the write of a table, and never again: decision 48); the fullest level is ours (decision 36).

use super::options::PlacementOptions;
use super::policy::{FileRequest, Planned, Rewriting};
use super::tracks::{self, Draft, TrackPolicy};
use crate::hints::FileKind;
use crate::space::{NoSpace, SpaceMap, Tier};
use imbrex_disk::Blocks;

pub(super) const NAIVE: &str = "track-tiers-naive";
pub(super) const MERGED: &str = "track-tiers";
pub(super) const FULLEST: &str = "track-tiers-fullest";

/// From which level on tables go to the bottom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum From {
    /// The largest that a table was written for, or is (K1).
    Largest,
    /// That with most tables.
    Fullest,
}

#[derive(Debug)]
pub(super) struct TrackTiers {
    from: From,
    rewriting: Rewriting,
    unit_len: Blocks,
}

impl TrackTiers {
    pub(super) fn new(rewriting: Rewriting, options: &PlacementOptions) -> TrackTiers {
        TrackTiers { from: From::Largest, rewriting, unit_len: options.unit_len() }
    }

    pub(super) fn from_fullest(options: &PlacementOptions) -> TrackTiers {
        TrackTiers { from: From::Fullest, ..TrackTiers::new(Rewriting::Merged, options) }
    }

    /// The least level whose tables go to the bottom.
    fn bottom_level(&self, space: &SpaceMap, files: &[FileRequest]) -> u8 {
        let levels = space.tracks().levels();
        let of_tables = files.iter().filter(|file| file.hints.kind == FileKind::Table);
        match self.from {
            From::Largest => of_tables.map(|file| file.hints.level).fold(levels.largest, u8::max),
            From::Fullest => levels.fullest,
        }
    }
}

fn next(draft: &Draft<'_>, file: &FileRequest, bottom_level: u8) -> Option<u64> {
    let top = || {
        let may = draft.may_take_tops();
        may.then(|| draft.next_of(&draft.map().empty_tops(), draft.last(Tier::Top))).flatten()
    };
    let bottom = || {
        let last = draft.last(Tier::Bottom);
        let quiet = draft.next_in(draft.map().quiet_bottoms(), last);
        quiet.or_else(|| draft.nearest_in(draft.map().empty_bottoms(), last))
    };
    if file.hints.kind == FileKind::Table && bottom_level <= file.hints.level {
        bottom().or_else(top)
    } else {
        top().or_else(bottom)
    }
}

impl TrackPolicy for TrackTiers {
    fn name(&self) -> &'static str {
        match (self.from, self.rewriting) {
            (From::Fullest, _) => FULLEST,
            (From::Largest, Rewriting::Naive) => NAIVE,
            (From::Largest, Rewriting::Merged) => MERGED,
        }
    }

    fn unit_len(&self) -> Blocks {
        self.unit_len
    }

    fn rewriting(&self) -> Rewriting {
        self.rewriting
    }

    fn plan(&self, space: &SpaceMap, files: &[FileRequest]) -> Result<Vec<Planned>, NoSpace> {
        let bottom_level = self.bottom_level(space, files);
        tracks::plan(space, files, &|draft, file| next(draft, file, bottom_level))
    }
}

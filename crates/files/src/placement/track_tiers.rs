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
//! Source: KVIMR, section 3.2 (level based bi-tiering, relaxed-sequential allocation).

use super::tracks::{self, Draft};
use super::{FileRequest, Placement, PlacementOptions, Planned, Rewriting, UNITS_NEEDED};
use crate::api::{FileKind, Hints};
use crate::space::{NoSpace, SpaceMap, Tier};
use imbrex_disk::{BlockRange, Blocks, Geometry};

pub(super) const NAIVE: &str = "track-tiers-naive";
pub(super) const MERGED: &str = "track-tiers";

#[derive(Debug)]
pub(super) struct TrackTiers {
    rewriting: Rewriting,
    unit_len: Blocks,
}

impl TrackTiers {
    pub(super) fn new(rewriting: Rewriting, options: &PlacementOptions) -> TrackTiers {
        TrackTiers { rewriting, unit_len: options.unit_len() }
    }
}

fn next(draft: &Draft<'_>, file: &FileRequest, largest_level: u8) -> Option<u64> {
    let top = || {
        let may = draft.may_take_tops();
        may.then(|| draft.next_of(&draft.map().empty_tops(), draft.last(Tier::Top))).flatten()
    };
    let bottom = || {
        let last = draft.last(Tier::Bottom);
        let quiet = draft.next_in(draft.map().quiet_bottoms(), last);
        quiet.or_else(|| draft.nearest_in(draft.map().empty_bottoms(), last))
    };
    if file.hints.kind == FileKind::Table && largest_level <= file.hints.level {
        bottom().or_else(top)
    } else {
        top().or_else(bottom)
    }
}

impl Placement for TrackTiers {
    fn name(&self) -> &'static str {
        match self.rewriting {
            Rewriting::Naive => NAIVE,
            Rewriting::Merged => MERGED,
        }
    }

    fn suits(&self, geometry: &Geometry) -> Result<(), String> {
        tracks::suits(geometry)
    }

    fn room_needed(&self, geometry: &Geometry) -> Blocks {
        tracks::room_needed(geometry, UNITS_NEEDED, self.unit_len)
    }

    fn rewriting(&self) -> Rewriting {
        self.rewriting
    }

    fn plan(&self, space: &SpaceMap, files: &[FileRequest]) -> Result<Vec<Planned>, NoSpace> {
        let of_tables = files.iter().filter(|file| file.hints.kind == FileKind::Table);
        let levels = of_tables.map(|file| file.hints.level);
        let largest = levels.chain([space.tracks().largest_level()]).max().unwrap_or_default();
        tracks::plan(space, files, &|draft, file| next(draft, file, largest))
    }

    fn plan_log(
        &self,
        space: &SpaceMap,
        hints: &Hints,
        owned: Blocks,
    ) -> Result<BlockRange, NoSpace> {
        tracks::plan_log(space, hints, owned).map(|pieces| pieces[0])
    }

    fn plan_log_pieces(
        &self,
        space: &SpaceMap,
        hints: &Hints,
        owned: Blocks,
    ) -> Result<Vec<BlockRange>, NoSpace> {
        tracks::plan_log(space, hints, owned)
    }
}

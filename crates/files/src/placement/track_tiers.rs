//! Compaction-aware tracks: tables of the largest level at the bottom, all others on top.
//!
//! ```text
//!   top      | L1 | L0 | L2 | L1 |    | L3 | ...     die soon, and are written without a rewrite
//!   bottom   | L4 | L4 |    | L4 | L4 | L4 | ...     live long: few bottom tracks become free again
//! ```
//!
//! *Tier*: a table of the largest level goes to a bottom track, or to a top one if no bottom track
//! is empty. Every other table goes to a top track, or to a bottom one if no top track is left.
//! *Track*: the next empty one of the tier, after the track that was taken last, so that the tables
//! of one compaction lie in sequence. Bottom tracks whose write would need a rewrite are skipped;
//! if all would, the nearest is taken.
//!
//! *Largest* is the largest level that one of the present tables was written for. A table that goes
//! down a level without being rewritten stays where it is, and its old level keeps its tier:
//!
//!   K1  A table that is moved to another level changes no tier; the first table written for a
//!       level does.
//!   K2  Only tables of the same stream count. A keyspace has levels of its own: where one keyspace
//!       ends at level 2 and another one at level 4, level 2 of the first dies as slowly as level 4
//!       of the second.
//!
//! *Fullest*: tables of the level with the most tables, and of all larger levels, count as those of
//! the largest level. This is KVIMR's rule while the largest level is the fullest. It differs when
//! a level is begun. Its first tables would send the level before it, nearly all the data, to top
//! tracks, where it does not fit. The overflow would go to bottom tracks and die there soon, under
//! live top tracks.
//!
//! Source: KVIMR, section 3.2 (level based bi-tiering, relaxed-sequential allocation) and 3.1 (the
//! level comes with the write of a table, and never again: decision 48). The fullest level is ours
//! (decision 36).

use super::options::PlacementOptions;
use super::policy::{FileRequest, Planned, Rewriting};
use super::tracks::{self, TrackDraft, TrackPolicy};
use crate::hints::FileKind;
use crate::space::{NoSpace, SpaceMap, TrackTier};
use imbrex_disk::Blocks;
use std::collections::BTreeMap;

pub(super) const NAIVE: &str = "track-tiers-naive";
pub(super) const MERGED: &str = "track-tiers";
pub(super) const FULLEST: &str = "track-tiers-fullest";

/// The least level whose tables go to the bottom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BottomFrom {
    /// The largest that a table was, or is now, written for (K1).
    Largest,
    /// The level with the most tables.
    Fullest,
}

#[derive(Debug)]
pub(super) struct TrackTiers {
    from: BottomFrom,
    rewriting: Rewriting,
    unit_len: Blocks,
}

impl TrackTiers {
    pub(super) fn new(rewriting: Rewriting, options: &PlacementOptions) -> TrackTiers {
        TrackTiers { from: BottomFrom::Largest, rewriting, unit_len: options.unit_len() }
    }

    pub(super) fn from_fullest(options: &PlacementOptions) -> TrackTiers {
        TrackTiers { from: BottomFrom::Fullest, ..TrackTiers::new(Rewriting::Merged, options) }
    }

    /// The least level of `stream` whose tables go to the bottom (K2).
    fn bottom_level(&self, space: &SpaceMap, files: &[FileRequest], stream: u32) -> u8 {
        let levels = space.tracks().levels().of(stream);
        let is_counted =
            |file: &&FileRequest| file.hints.kind == FileKind::Table && file.hints.stream == stream;
        let of_tables = files.iter().filter(is_counted);
        match self.from {
            BottomFrom::Largest => {
                of_tables.map(|file| file.hints.level).fold(levels.largest, u8::max)
            }
            BottomFrom::Fullest => levels.fullest,
        }
    }
}

fn next(draft: &TrackDraft<'_>, file: &FileRequest, bottom_level: u8) -> Option<u64> {
    let top = || {
        let may = draft.may_take_tops();
        may.then(|| draft.next_of(&draft.map().empty_tops(), draft.last(TrackTier::Top))).flatten()
    };
    let bottom = || {
        let last = draft.last(TrackTier::Bottom);
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
            (BottomFrom::Fullest, _) => FULLEST,
            (BottomFrom::Largest, Rewriting::Naive) => NAIVE,
            (BottomFrom::Largest, Rewriting::Merged) => MERGED,
        }
    }

    fn unit_len(&self) -> Blocks {
        self.unit_len
    }

    fn rewriting(&self) -> Rewriting {
        self.rewriting
    }

    fn plan(&self, space: &SpaceMap, files: &[FileRequest]) -> Result<Vec<Planned>, NoSpace> {
        let of_stream = |file: &FileRequest| {
            (file.hints.stream, self.bottom_level(space, files, file.hints.stream))
        };
        let bottom_levels: BTreeMap<u32, u8> = files.iter().map(of_stream).collect();
        tracks::plan(space, files, &|draft, file| {
            next(draft, file, bottom_levels[&file.hints.stream])
        })
    }
}

//! Sets: the tables of one compaction lie side by side, and their space is given back as a whole.
//!
//! ```text
//!   persist [a b c | d]     | set: a b c |  free  | d |       one read serves the whole set
//!   a, c removed            | .  b  .    |  free  | d |       the space stays with the set
//!   b removed               |      free           | d |       now it comes back, as one run
//! ```
//!
//! Files of one `persist` with the same group, of level 2 and deeper, are a set: one run of blocks,
//! in order. The catalog records the run as a *span* that every member names. Tables of levels 0
//! and 1, lone files, and files that cleaning has moved are sets of one.
//!
//! A set goes to the first free run, by address, that holds it. If there is none it is cut into as
//! few sets as the runs allow, and a file that no run holds is cut into extents: full drives get
//! slower, not stuck.
//!
//! While little space is free, the background moves the living members of a set elsewhere, each into one
//! run. It does so only where more comes back than moves: the dead members, and the fragments beside the
//! set, which are free runs shorter than the mean set. So a set is moved once at most, and each byte moved
//! frees one. Where guards are, it moves islands by the same rule (`space::emptying`).
//!
//! When a write does not fit, the living members of the set with the most dead blocks go elsewhere,
//! whatever that frees, so that its space comes back. Where guards are, what goes is the set or the islands
//! after which most can be written for what moves. Part of the reserve is kept for that. If there is nothing
//! to move, the set with the most dead blocks is dissolved: its living members stay, and the gaps between
//! them are free. So whatever is dead comes back in the end.
//!
//! Source: SEALDB, section III-A. There the space of a set waits until its last member is dead;
//! moving the living members and dissolving sets is ours. The journal version (TPDS 2019) cleans by two
//! policies, of which only the effect is known to us.

use super::draft::RunDraft;
use super::growing;
use super::lanes::percent_free;
use super::options::PlacementOptions;
use super::policy::{FileRequest, Placement, Planned, UNITS_NEEDED, Urgency, admit, claim_of};
use crate::extent::{Extent, fill};
use crate::hints::{GroupId, Hints};
use crate::room::CommitKind;
use crate::space::{Claim, Fit, NoSpace, SpaceMap};
use imbrex_disk::{BlockRange, Blocks, Geometry, Rule};
use std::fmt::Debug;

pub(super) const NAME: &str = "sets";

/// Tables of the levels above overlap each other, so no compaction takes a group of them as a
/// whole.
const SET_LEVEL_MIN: u8 = 2;

/// The background moves sets while less than this share of the space is free, in percent.
const FREE_PERCENT_LEAST: u8 = 20;

/// A policy that places sets. It chooses the free run for each set.
pub(super) trait SetPolicy: Send + Sync + Debug {
    /// See [`Placement::name`].
    fn name(&self) -> &'static str;

    /// See [`Placement::suits`].
    fn suits(&self, geometry: &Geometry) -> Result<(), String>;

    /// See [`Placement::room_needed`].
    fn room_needed(&self, geometry: &Geometry) -> Blocks;

    /// The choice among the runs that are large enough.
    fn fit(&self) -> Fit;

    /// The options that it was made with.
    fn options(&self) -> &PlacementOptions;
}

/// The placement that a [`SetPolicy`] makes.
#[derive(Debug)]
pub(super) struct InSets<P>(pub(super) P);

impl<P: SetPolicy> Placement for InSets<P> {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn suits(&self, geometry: &Geometry) -> Result<(), String> {
        self.0.suits(geometry)
    }

    fn room_needed(&self, geometry: &Geometry) -> Blocks {
        self.0.room_needed(geometry)
    }

    fn moves_sets(&self) -> bool {
        true
    }

    fn plan(&self, space: &SpaceMap, files: &[FileRequest]) -> Result<Vec<Planned>, NoSpace> {
        plan(space, files, self.0.fit())
    }

    fn plan_log_pieces(
        &self,
        space: &SpaceMap,
        hints: &Hints,
        owned: Blocks,
    ) -> Result<Vec<BlockRange>, NoSpace> {
        let fit = self.0.fit();
        let planned = growing::plan_log(space, hints, owned, fit).or_else(|no_space| {
            // K5 of `space::emptying`.
            let is_lent = hints.purpose != CommitKind::Ordinary && space.span_in_need().is_none();
            let lent = || growing::plan_log_as(Claim::Cleaning, space, hints, owned, fit).ok();
            let lent = is_lent.then(lent).flatten();
            lent.filter(|run| space.lends(space.cost_of_log(*run))).ok_or(no_space)
        });
        planned.map(|run| vec![run])
    }

    /// Chooses what is emptied if a write needs room, and before that what is worth moving.
    fn plan_reclaim(&self, space: &SpaceMap, urgency: Urgency) -> Option<BlockRange> {
        match urgency {
            Urgency::NoSpace => space.span_in_need(),
            Urgency::Background => {
                let least = u64::from(self.0.options().free_percent_or(FREE_PERCENT_LEAST));
                if percent_free(space) >= least {
                    return None;
                }
                space.span_worth_moving().or_else(|| space.paying_emptying())
            }
        }
    }
}

#[derive(Debug)]
pub(super) struct Sets {
    options: PlacementOptions,
}

impl Sets {
    pub(super) fn new(options: &PlacementOptions) -> Sets {
        Sets { options: *options }
    }
}

impl SetPolicy for Sets {
    fn name(&self) -> &'static str {
        NAME
    }

    fn suits(&self, geometry: &Geometry) -> Result<(), String> {
        match geometry.rule() {
            Rule::Anywhere => Ok(()),
            Rule::IsolationDistance(_) => {
                Err("the drive is shingled, and sets are placed without guards; use dynamic-bands"
                    .to_owned())
            }
            other => Err(format!(
                "the drive is {}, and sets are placed anywhere; use a conventional drive",
                other.name()
            )),
        }
    }

    fn room_needed(&self, _geometry: &Geometry) -> Blocks {
        Blocks::new(UNITS_NEEDED * self.options.unit_len().get())
    }

    fn fit(&self) -> Fit {
        Fit::Lowest
    }

    fn options(&self) -> &PlacementOptions {
        &self.options
    }
}

/// Plans `files`: each set in one run that suits `fit`, if there is one.
fn plan(space: &SpaceMap, files: &[FileRequest], fit: Fit) -> Result<Vec<Planned>, NoSpace> {
    admit(space, files)?;
    let mut draft = RunDraft::new(space, fit);
    let claim = claim_of(files);
    if claim == Claim::Cleaning {
        draft.leave_victim(space);
    }
    let mut plan = Vec::with_capacity(files.len());
    let mut rest = files;
    while let Some(first) = rest.first() {
        let same = |file: &&FileRequest| set_of(file).is_some() && set_of(file) == set_of(first);
        let member_count = rest.iter().take_while(same).count().max(1);
        let (members, later) = rest.split_at(member_count);
        place_set(&mut draft, members, &mut plan)
            .ok_or_else(|| NoSpace { needed: blocks(members), free: space.runs().size() })?;
        rest = later;
    }
    if claim != Claim::Cleaning {
        space.admit(draft.cost(), claim)?;
    }
    Ok(plan)
}

/// The set of a file; `None` for a set of one.
fn set_of(file: &FileRequest) -> Option<GroupId> {
    file.hints.group.filter(|_| SET_LEVEL_MIN <= file.hints.level && !file.is_moved)
}

fn blocks(files: &[FileRequest]) -> Blocks {
    files.iter().map(FileRequest::blocks).sum()
}

/// Places the members of a set: in one run, or else in the longest runs there are.
fn place_set(
    draft: &mut RunDraft<'_>,
    members: &[FileRequest],
    plan: &mut Vec<Planned>,
) -> Option<()> {
    let mut rest = members;
    while let Some(first) = rest.first() {
        let fitting = match draft.whole(blocks(rest)) {
            Some(run) => Some((run, rest.len())),
            None => {
                let longest = draft.longest();
                let fits = |&count: &usize| blocks(&rest[..count]) <= longest;
                let count = (1..rest.len()).rev().find(fits);
                count.and_then(|count| Some((draft.whole(blocks(&rest[..count]))?, count)))
            }
        };
        let Some((run, count)) = fitting else {
            let ranges = draft.pieces(first.blocks())?;
            plan.push(Planned::alone(fill(&ranges, first.len_bytes)));
            rest = &rest[1..];
            continue;
        };
        let (now, later) = rest.split_at(count);
        side_by_side(run, now, plan);
        rest = later;
    }
    Some(())
}

/// Cuts `run` into the extents of `members`, which fill it.
fn side_by_side(run: BlockRange, members: &[FileRequest], plan: &mut Vec<Planned>) {
    let is_shared = members.iter().filter(|file| file.len_bytes > 0).count() > 1;
    let mut at = run.start;
    for file in members {
        let mut extents = Vec::new();
        if file.len_bytes > 0 {
            extents.push(Extent { start: at, len_bytes: file.len_bytes });
            at += file.blocks();
        }
        let span = (is_shared && file.len_bytes > 0).then_some(run);
        plan.push(Planned { extents, span });
    }
}

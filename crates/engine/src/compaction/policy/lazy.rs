//! Lazy leveling by partitions: most data in one sorted run, the *base*, and overlapping runs above it
//! that wait until space is needed.
//!
//! ```text
//!               partition 0   | partition 1      | partition 2
//!   L0          [run]         | [run]            | [run]           a flush; tables end at the cuts
//!               [run]         | [run]            | [run]
//!   L1          [run]         | [run]            |                 mid merge: all runs of a level go down
//!   L2                        | [run]            |
//!   L6, base    [=============|=====:======------|=============]   : base merge, one piece after another
//! ```
//!
//! A partition that is due is merged into the base whole: that is the only work that brings back
//! space, and the only garbage of a partition is what its upper levels hold. Partitions are at different
//! points of their cycle, so the store's garbage is about half of what one partition has before its merge.
//!
//! A base merge is a series of ordinary small merges, the *pieces*. A piece takes a stretch of base
//! tables and what the upper levels have in their key range, as of the merge's beginning. Tables that
//! reach beyond the piece get a front. So the space of the inputs comes back while the merge runs, a
//! writer never waits for more than a piece, and a merge goes on after a crash.
//!
//! The tables of a level of one partition are one stream of files (`merge::output`), so that they fill
//! zones of their own: what a merge has passed leaves whole zones behind, in the order in which they were
//! filled.
//!
//! Writers see the space: the slack is what may be written before puts are refused, without any
//! cleaning, plus what the running compaction has written so far, because it gives that back.
//!
//! Invariants
//!   Z1  A piece takes everything above the base, of runs up to `run_max`, between its first key and
//!       the key where it stops. Older data for these keys is only in the base (P4), newer data
//!       stays above.
//!   Z2  A mid merge takes all tables of a level that overlap its key range. Its output is as new as
//!       the newest of them.
//!   Z3  A partition takes no part in mid merges while its base merge goes on: the output would
//!       mix runs on both sides of `run_max`, and stay above. A merge that waits for a damaged table,
//!       or for slack for its slices, does not count.
//!   Z4  At most one base merge is under way in a keyspace, and at most one piece runs. A merge may be
//!       given up between two pieces: what it has not merged is then merged later.
//!   Z5  For want of space a base merge begins only where it may give back a thirty-second of the base
//!       that it rewrites. With less, puts are refused: on a full drive each flush would otherwise
//!       rewrite everything for a few blocks.
//!   Z6  With less slack than two pieces, writers slow down while a compaction runs, the more the less
//!       slack there is; with many runs in a partition, the more the more runs there are. None waits for
//!       a whole piece: it waits for a stretch of one.
//!   Z7  Work for scans comes last: what writers need is planned first. It never takes the slack that a
//!       base merge needs.
//!   Z8  On flash are tables of level 0 alone. Whatever goes below it is written to the disk.
//!   Z9  Slices, which are the runs on flash, wait until flash is full: they count as neither garbage nor
//!       runs of the disk. A plan that takes some needs slack for what their puts may add to the disk, so
//!       the room of merges never fills with data that no merge could bring back.
//!
//! Source: ours; the simulation behind it is described in docs/decisions.
//! Not here: what a piece takes (`lazy::pieces`), how a merge stops before the end of its inputs
//! (`work::compact`), where the state of a merge is stored (`version::partitions`).

mod mid;
mod pieces;
mod survey;
pub(crate) mod wait;

use self::mid::{IDLE_RUN_COUNT, destage, mid_merge};
use self::pieces::{output, parts_of, piece_of};
use self::survey::{Shape, Survey, UPPER_COUNT};
use crate::compaction::plan::{Input, Plan, Reason, Work};
use crate::compaction::policy::leveled;
use crate::compaction::situation::{ManualPlan, ManualRange, Policy, Pressure, Situation};
use crate::options::KeyspaceOptions;
use crate::version::partitions::{BASE_LEVEL, BaseMerge};
use crate::version::{KeyRange, RunId, TableSlot, Version};
use bytes::Bytes;
use std::cmp::Reverse;
use std::sync::Arc;

/// How many tables' worth of bytes a piece reads, about.
const PIECE_TABLE_COUNT: u64 = 6;

/// If there is more slack, a piece reads this share of it, up to so many bytes.
const SLACK_PER_PIECE: u64 = 2;
const PIECE_LEN_BYTES_MAX: u64 = 128 << 20;

/// A base merge goes on while less is free than this share of what it still has to merge, in percent.
/// The rest of the space that it needs comes back from its own pieces.
const PACE_PERCENT: u64 = 50;

/// How many pieces' worth of space the pace leaves free.
const MARGIN_PIECE_COUNT: u64 = 2;

/// How many bytes compaction should process for each byte written, while the slack is less than 1, 2, ...
/// quarters of a piece (Z6).
const SLOWDOWNS: [u64; 8] = [64, 32, 16, 8, 6, 4, 3, 2];

/// In how many steps writers slow down for runs. Each step halves their rate.
const RUN_SLOWDOWN_STEPS: usize = 4;

/// A base merge for want of space may give back at least one byte for so many of its base (Z5).
const BASE_BYTES_PER_GAIN_MAX: u64 = 32;

/// What the base merges leave above the bases of all partitions together, in percent of the bases: scans
/// suffer from more, and the drive has time for the merges unless writers use all of it (Z7).
const UPPER_PERCENT_MAX: u64 = 15;

/// Below so many pieces, what is above the bases is too short to be worth a base merge.
const CROWDED_PIECE_COUNT_MIN: u64 = 4;

/// The largest number of tables in one move. It bounds the length of the edit.
const MOVE_TABLE_COUNT_MAX: usize = 64;

/// Longer keys are not cuts, because the catalog would hold them.
const CUT_LEN_BYTES_MAX: usize = 256;

/// The lazy policy.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lazy;

impl Policy for Lazy {
    fn plan(&self, situation: &Situation<'_>) -> Option<Plan> {
        let survey = Survey::of(situation.version);
        let merge = survey.merge_under_way(situation);
        // A merge that cannot go on keeps no partition from its mid merges, and another may begin.
        let merge = merge.filter(|merge| !is_stuck(situation, merge));
        let is_urgent = situation.is_space_short || situation.slack_bytes < piece_len(situation);
        let count_least = situation.options.l0_compact_run_count.max(2) as usize;
        move_to_base(situation)
            .or_else(|| merge.filter(|_| is_urgent).and_then(|merge| go_on(situation, merge)))
            .or_else(|| destage(situation, &survey, merge))
            .or_else(|| mid_merge(situation, &survey, merge, count_least))
            .or_else(|| match merge {
                Some(merge) if is_due(situation, &survey, merge) => go_on(situation, merge),
                Some(_) => None,
                None => begin_due(situation, &survey),
            })
            .or_else(|| mid_merge(situation, &survey, merge, IDLE_RUN_COUNT))
    }

    fn plan_manual(
        &self,
        situation: &Situation<'_>,
        level: u8,
        range: &ManualRange,
        from: Option<&[u8]>,
    ) -> ManualPlan {
        let version = situation.version;
        let runs = version.levels[usize::from(level)].runs.iter();
        let mut wanted = runs
            .filter(|run| level > 0 || run.id <= range.run_max)
            .flat_map(|run| &run.tables)
            .filter(|table| range.overlaps(table));
        if level == BASE_LEVEL {
            let rest = wanted.filter(|t| from.is_none_or(|key| t.meta.smallest >= *key));
            return leveled::rewrite_last(situation, level, rest.cloned().collect());
        }
        let Some(first) = wanted.next() else { return ManualPlan::LevelDone };
        let survey = Survey::of(version);
        let merge = survey.merge_under_way(situation).cloned();
        let (merge, cuts) = match merge.filter(|merge| !is_blocked(situation, merge)) {
            Some(merge) => (merge, version.partitions.cuts.clone()),
            None => begin_at(situation, &survey, version.partitions.find(&first.meta.smallest)),
        };
        // If no piece fits, run the shortest one anyway: its error reports to the caller how much
        // space is missing.
        let piece = piece(situation, &merge, &cuts, Reason::Manual)
            .or_else(|| piece_of(situation, &merge, &cuts, 1, Reason::Manual));
        piece.map_or(ManualPlan::Wait, |plan| ManualPlan::Run(Box::new(plan)))
    }

    fn pressure(&self, version: &Version, options: &KeyspaceOptions, slack_bytes: u64) -> Pressure {
        let shapes = Survey::of(version).shapes;
        let run_count = shapes.iter().map(|shape| shape.run_counts[0]).max().unwrap_or(0);
        let has_upper = shapes.iter().any(|shape| shape.disk_len_bytes() > 0);
        let quarters = if has_upper {
            slack_bytes.saturating_mul(4) / piece_len_of(options).max(1)
        } else {
            u64::MAX
        };
        let for_space = usize::try_from(quarters).ok().and_then(|at| SLOWDOWNS.get(at));
        if run_count >= options.l0_stop_run_count as usize {
            return Pressure::Stop;
        }
        match for_space.copied().max(slowdown_for_runs(run_count, options)) {
            Some(bytes_per_byte) => Pressure::Slowdown { bytes_per_byte },
            None => Pressure::None,
        }
    }
}

/// Whether so much is above the bases that scans suffer more than a base merge costs.
fn is_crowded(survey: &Survey, options: &KeyspaceOptions) -> bool {
    let sum = |of: fn(&Shape) -> u64| survey.shapes.iter().map(of).sum::<u64>();
    let upper_len_bytes = sum(Shape::disk_len_bytes);
    let base_len_bytes = sum(|shape| shape.base_len_bytes);
    let least = piece_len_of(options).saturating_mul(CROWDED_PIECE_COUNT_MIN);
    upper_len_bytes > (base_len_bytes / 100 * UPPER_PERCENT_MAX).max(least)
}

/// How many bytes compaction should process for each byte written while a partition has so many runs in
/// level 0: the more, the nearer they are to those at which writers stop (Z6).
fn slowdown_for_runs(run_count: usize, options: &KeyspaceOptions) -> Option<u64> {
    let slow_count = options.l0_slowdown_run_count as usize;
    let step = (options.l0_stop_run_count as usize).saturating_sub(slow_count) / RUN_SLOWDOWN_STEPS;
    let steps = run_count.checked_sub(slow_count)? / step.max(1);
    Some(2 << steps.min(RUN_SLOWDOWN_STEPS))
}

/// The length of a piece.
fn piece_len(situation: &Situation<'_>) -> u64 {
    piece_len_of(situation.options)
}

fn piece_len_of(options: &KeyspaceOptions) -> u64 {
    options.table_len_bytes.saturating_mul(PIECE_TABLE_COUNT)
}

/// Whether so little is free that a base merge with `left_len_bytes` to merge should be going on.
fn is_pressing(situation: &Situation<'_>, left_len_bytes: u64) -> bool {
    situation.is_space_short || situation.slack_bytes < due_below(situation, left_len_bytes)
}

/// With less slack than this, a base merge with `left_len_bytes` to merge is due.
fn due_below(situation: &Situation<'_>, left_len_bytes: u64) -> u64 {
    margin_len(situation).saturating_add(left_len_bytes / 100 * PACE_PERCENT)
}

/// How much the pace leaves free.
fn margin_len(situation: &Situation<'_>) -> u64 {
    piece_len(situation).saturating_mul(MARGIN_PIECE_COUNT)
}

/// Whether the base merge under way should go on now.
fn is_due(situation: &Situation<'_>, survey: &Survey, merge: &BaseMerge) -> bool {
    let left = left_on_disk(situation, merge);
    let is_wanted =
        |shape: &Shape| shape.is_heavy(situation.options) || shape.is_deep(situation.options);
    is_pressing(situation, left)
        || has_full_flash(situation, survey)
        || situation.is_eager
        || is_crowded(survey, situation.options)
        || survey.of_merge(situation, merge).iter().any(is_wanted)
}

/// What `merge` still has to merge from the disk, which is what it gives back.
fn left_on_disk(situation: &Situation<'_>, merge: &BaseMerge) -> u64 {
    let left = merge.left(situation.version).map(|(_, _, slot)| slot);
    left.filter(|slot| !slot.is_on_flash()).map(|slot| slot.meta.len_bytes).sum()
}

/// Whether flash is full of slices. A base merge takes them where a destage has no room.
fn has_full_flash(situation: &Situation<'_>, survey: &Survey) -> bool {
    situation.flash_excess_bytes > 0 && survey.shapes.iter().any(|shape| shape.slice_count > 0)
}

/// Whether the base merge cannot go on: a table cannot be read, or its slices would add more to the disk than
/// there is slack for. A merge that begins now takes newer deletes as well, which may make that room.
fn is_stuck(situation: &Situation<'_>, merge: &BaseMerge) -> bool {
    is_blocked(situation, merge) || is_without_slack(situation, merge)
}

/// Whether not even the shortest piece of the base merge fits, and it has slices.
fn is_without_slack(situation: &Situation<'_>, merge: &BaseMerge) -> bool {
    let has_slices = merge.left(situation.version).any(|(_, _, slot)| slot.is_on_flash());
    has_slices && {
        let cuts = &situation.version.partitions.cuts;
        let shortest = piece_of(situation, merge, cuts, 1, Reason::Base { left_len_bytes: 0 });
        shortest.is_some_and(|plan| !situation.fits(&plan))
    }
}

/// Whether the next piece of the base merge needs a table that compactions cannot read.
fn is_blocked(situation: &Situation<'_>, merge: &BaseMerge) -> bool {
    let parts = parts_of(situation, merge, 1);
    parts.is_some_and(|parts| parts.inputs().any(|slot| situation.busy.is_set_aside(slot)))
}

fn go_on(situation: &Situation<'_>, merge: &BaseMerge) -> Option<Plan> {
    let left_len_bytes =
        merge.left(situation.version).map(|(_, _, slot)| slot.meta.len_bytes).sum();
    let cuts = &situation.version.partitions.cuts;
    piece(situation, merge, cuts, Reason::Base { left_len_bytes })
}

/// A long piece if there is much slack, because it reads each table once. Otherwise one of the usual
/// length, or the longest for which the drive has room.
fn piece(
    situation: &Situation<'_>,
    merge: &BaseMerge,
    cuts: &[Bytes],
    reason: Reason,
) -> Option<Plan> {
    let usual = piece_len(situation);
    let long = (situation.slack_bytes / SLACK_PER_PIECE).min(PIECE_LEN_BYTES_MAX);
    let long = Some(long).filter(|&long| usual < long);
    long.into_iter()
        .chain([usual, usual / 3, 1])
        .filter_map(|len_bytes| piece_of(situation, merge, cuts, len_bytes, reason))
        .find(|plan| situation.fits(plan))
}

/// Begins a base merge, if one is due. Partitions with a table that cannot be read come last.
fn begin_due(situation: &Situation<'_>, survey: &Survey) -> Option<Plan> {
    let options = situation.options;
    let mut order: Vec<usize> =
        (0..survey.shapes.len()).filter(|&at| survey.shapes[at].upper_len_bytes > 0).collect();
    let score = |at: usize| survey.shapes[at].score(survey.newest.0);
    order.sort_by_key(|&at| (is_damaged(situation, at), Reverse(score(at)), at));
    let first = &survey.shapes[*order.first()?];
    let is_any =
        is_pressing(situation, first.disk_len_bytes()) || has_full_flash(situation, survey);
    let is_crowded = is_crowded(survey, options);
    order.retain(|&at| {
        let shape = &survey.shapes[at];
        let is_early = situation.is_eager && shape.base_len_bytes <= 4 * shape.upper_len_bytes;
        is_any && is_worth(situation, survey, at)
            || is_crowded
            || is_early
            || shape.is_heavy(options)
            || shape.is_deep(options)
    });
    order.into_iter().find_map(|at| {
        let (merge, cuts) = begin_at(situation, survey, at);
        let left_len_bytes = survey.shapes[at].upper_len_bytes;
        piece(situation, &merge, &cuts, Reason::Base { left_len_bytes })
    })
}

/// Whether a base merge of the partition at `at` for want of space is worth it (Z5). It rewrites the
/// base from the first key of the upper tables to their last.
fn is_worth(situation: &Situation<'_>, survey: &Survey, at: usize) -> bool {
    let version = situation.version;
    let is_own = |slot: &&Arc<TableSlot>| version.partitions.find(&slot.meta.smallest) == at;
    let upper = version.levels[..UPPER_COUNT].iter().flat_map(|level| level.tables());
    let Some(range) = KeyRange::of(upper.filter(is_own).map(|slot| &slot.meta)) else {
        return false;
    };
    let base = version.levels[UPPER_COUNT].runs.iter().flat_map(|run| run.overlapping(&range));
    let rewritten_bytes: u64 = base.map(|slot| slot.meta.len_bytes).sum();
    rewritten_bytes / BASE_BYTES_PER_GAIN_MAX <= survey.shapes[at].gain_bytes()
}

/// Whether compactions cannot read a table of the partition at `at`.
fn is_damaged(situation: &Situation<'_>, at: usize) -> bool {
    let partitions = &situation.version.partitions;
    let mut tables = situation.version.tables();
    tables
        .any(|slot| situation.busy.is_set_aside(slot) && partitions.find(&slot.meta.smallest) == at)
}

/// A base merge of the partition at `at`, and the cuts from then on: a long partition is split, short
/// neighbours are joined. Includes each partition into which one of its tables reaches.
fn begin_at(situation: &Situation<'_>, survey: &Survey, at: usize) -> (BaseMerge, Vec<Bytes>) {
    let version = situation.version;
    let partitions = &version.partitions;
    let (mut from, mut last) = (at, at);
    loop {
        let whole = BaseMerge {
            run_max: survey.newest,
            start: partitions.start(from),
            next: partitions.start(from),
            end: partitions.end(last),
        };
        let mut wider = (from, last);
        for (_, _, slot) in whole.left(version) {
            let meta = &slot.meta;
            wider.0 = wider.0.min(partitions.find(&meta.smallest));
            let end = partitions.cuts.partition_point(|cut| !meta.ends_before(cut));
            wider.1 = wider.1.max(end);
        }
        if wider == (from, last) {
            let cuts = new_cuts(situation, survey, from, last);
            return (whole, cuts);
        }
        (from, last) = wider;
    }
}

/// The cuts when the partitions `from..=last` are merged.
fn new_cuts(situation: &Situation<'_>, survey: &Survey, from: usize, last: usize) -> Vec<Bytes> {
    let partitions = &situation.version.partitions;
    let usual = situation.options.base_level_len_bytes;
    let shapes = &survey.shapes[from..=last];
    let len_bytes: u64 = shapes.iter().map(Shape::len_bytes).sum();
    let count = (len_bytes.saturating_add(usual / 2) / usual.max(1)).max(1);
    let mut cuts = partitions.cuts.clone();
    if count > shapes.len() as u64 {
        let own = split(situation, &partitions.start(from), partitions.end(last), count);
        if own.len() >= shapes.len() {
            cuts.splice(from..last, own);
        }
    } else if let Some(next) = survey.shapes.get(last + 1)
        && len_bytes + next.len_bytes() < usual / 2
    {
        cuts.remove(last);
    }
    cuts
}

/// Keys that divide a key range into `count` parts of about equal length, where tables begin: those of
/// the base, or of the deepest level that has enough.
fn split(situation: &Situation<'_>, start: &Bytes, end: Option<Bytes>, count: u64) -> Vec<Bytes> {
    let levels = &situation.version.levels;
    let of_level = |level: usize| {
        let tables = levels[level].tables().filter(|slot| {
            start < &slot.meta.smallest && end.as_ref().is_none_or(|end| slot.meta.smallest < *end)
        });
        let mut tables: Vec<_> = tables.map(|slot| &slot.meta).collect();
        tables.sort_by(|a, b| (&a.smallest, a.id).cmp(&(&b.smallest, b.id)));
        tables
    };
    let Some(tables) =
        (0..levels.len()).rev().map(of_level).find(|tables| tables.len() as u64 >= 2 * count)
    else {
        return Vec::new();
    };
    let all_bytes: u64 = tables.iter().map(|meta| meta.len_bytes).sum();
    let mut cuts: Vec<Bytes> = Vec::new();
    let mut passed_bytes = 0;
    for meta in tables {
        let due = u128::from(all_bytes) * (cuts.len() as u128 + 1) / u128::from(count);
        let is_new = cuts.last().is_none_or(|last| *last < meta.smallest);
        if u128::from(passed_bytes) >= due
            && is_new
            && meta.smallest.len() <= CUT_LEN_BYTES_MAX
            && (cuts.len() as u64) < count - 1
        {
            cuts.push(meta.smallest.clone());
        }
        passed_bytes += meta.len_bytes;
    }
    cuts
}

/// Tables of level 0 that overlap nothing become part of the base without a rewrite, so a sequential
/// load writes each byte once.
fn move_to_base(situation: &Situation<'_>) -> Option<Plan> {
    let version = situation.version;
    let is_lonely = |slot: &&Arc<TableSlot>| {
        let range = slot.meta.range();
        let is_other = |other: &Arc<TableSlot>| other.meta.id != slot.meta.id;
        // A table that was a log stores its values in write order.
        !slot.meta.is_logged
            && !slot.is_on_flash()
            && !situation.busy.has_table(slot)
            && !situation.busy.writes_to(BASE_LEVEL, &range)
            && !version
                .levels
                .iter()
                .flat_map(|level| &level.runs)
                .any(|run| run.overlapping(&range).iter().any(is_other))
    };
    let run_counts = version.levels[0].runs.len();
    let tables: Vec<_> =
        version.levels[0].tables().filter(is_lonely).take(MOVE_TABLE_COUNT_MAX).cloned().collect();
    let range = KeyRange::of(tables.iter().map(|slot| &slot.meta))?;
    Some(Plan {
        reason: Reason::Runs { run_count: run_counts },
        work: Work::Move,
        inputs: vec![Input { level: 0, tables }],
        outputs: vec![output(BASE_LEVEL, RunId::ONLY, true, Vec::new())],
        routes: None,
        range,
        outputs_together: false,
        windows: None,
        stop: None,
        partitions: None,
    })
}

#[cfg(test)]
mod tests;

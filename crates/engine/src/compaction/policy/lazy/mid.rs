//! Mid merges: what one partition has in a level becomes one run of the next level. And destages: the same for
//! level 0, when flash is full.
//!
//! ```text
//!   L0  flash   [slice][slice][slice]   | wait, whatever their number, until flash is full
//!   L0  disk    [run][run]              | wait until there are four
//!   L1          [run]                   <- either takes all of level 0, or ages would mix (Z2)
//! ```
//!
//! Not here: what a base merge takes (`lazy::pieces`); how much flash should hold (`store::slices`).

use super::pieces::{by_run, output};
use super::survey::{Shape, Survey, UPPER_COUNT};
use super::{is_damaged, margin_len};
use crate::compaction::plan::{Plan, Reason, Work};
use crate::compaction::situation::Situation;
use crate::version::KeyRange;
use crate::version::partitions::BaseMerge;
use std::cmp::Reverse;

/// So many runs of a level are merged when nothing else is due, for scans (Z7).
pub(super) const IDLE_RUN_COUNT: usize = 2;

/// A partition has at most so many slices: a scan reads each of them.
const SLICE_COUNT_MAX: usize = 32;

/// A partition's bytes on flash count so much less, in fourths, the nearer its base merge is, which takes
/// them without a destage; but never nothing.
const WEIGHT_FOURTHS: u128 = 5;

/// Merges the runs of a level of one partition into one run of the next level (Z2).
pub(super) fn mid_merge(
    situation: &Situation<'_>,
    survey: &Survey,
    merge: Option<&BaseMerge>,
    count_least: usize,
) -> Option<Plan> {
    (0..UPPER_COUNT as u8 - 1).find_map(|level| {
        let is_full = |at: &usize| {
            survey.shapes[*at].run_counts[usize::from(level)] >= count_least
                && is_mid(situation, survey, *at)
        };
        let slack_bytes = match count_least {
            IDLE_RUN_COUNT => situation.slack_bytes.saturating_sub(margin_len(situation)),
            _ => situation.slack_bytes,
        };
        let may_run = |plan: &Plan| may_run(situation, plan, merge, slack_bytes);
        (0..survey.shapes.len()).filter(is_full).find_map(|at| {
            let reason = |run_count| Reason::PartitionRuns { level, run_count };
            level_down(situation, level, at, reason).filter(may_run)
        })
    })
}

/// Merges level 0 of one partition into level 1, because flash is full or the partition has many slices (Z9).
pub(super) fn destage(
    situation: &Situation<'_>,
    survey: &Survey,
    merge: Option<&BaseMerge>,
) -> Option<Plan> {
    let is_full = situation.flash_excess_bytes > 0;
    let disk_max_bytes = survey.shapes.iter().map(Shape::disk_len_bytes).max()?;
    let mut order: Vec<usize> = (0..survey.shapes.len())
        .filter(|&at| {
            let shape = &survey.shapes[at];
            shape.flash_len_bytes > 0 && (is_full || shape.slice_count >= SLICE_COUNT_MAX)
        })
        .filter(|&at| is_mid(situation, survey, at))
        .collect();
    order.sort_by_key(|&at| (Reverse(weight(&survey.shapes[at], disk_max_bytes)), at));
    order.into_iter().find_map(|at| {
        let flash_len_bytes = survey.shapes[at].flash_len_bytes;
        let plan = level_down(situation, 0, at, |_| Reason::Destage { flash_len_bytes })?;
        // A flush that finds no room on flash would take that slack as well, and leave an older run behind.
        let slack_bytes = situation.slack_bytes.saturating_add(margin_len(situation));
        may_run(situation, &plan, merge, slack_bytes).then_some(plan)
    })
}

/// How much a destage of the partition is worth: its bytes on flash, and less if its base merge is near. The
/// partition with the most above its base on the disk is the nearest.
fn weight(shape: &Shape, disk_max_bytes: u64) -> u128 {
    let most = u128::from(disk_max_bytes.max(1));
    let waits = most * WEIGHT_FOURTHS - 4 * u128::from(shape.disk_len_bytes());
    u128::from(shape.flash_len_bytes) * waits / most
}

/// Whether the partition at `at` takes part in mid merges. A heavy one is merged into the base instead, which
/// does the same and more, unless a table cannot be read.
fn is_mid(situation: &Situation<'_>, survey: &Survey, at: usize) -> bool {
    !survey.shapes[at].is_heavy(situation.options) || is_damaged(situation, at)
}

/// Whether `plan` may run beside `merge` (Z3), with `slack_bytes`.
fn may_run(
    situation: &Situation<'_>,
    plan: &Plan,
    merge: Option<&BaseMerge>,
    slack_bytes: u64,
) -> bool {
    let is_free = merge.is_none_or(|merge| !merge.overlaps(&plan.range));
    // A short one takes as much as it gives back at once, unless it comes from flash.
    let len_bytes = plan.len_bytes();
    let is_short = len_bytes <= situation.options.table_len_bytes
        && !plan.tables().any(|slot| slot.is_on_flash());
    let needed_bytes = len_bytes.saturating_add(margin_len(situation));
    let has_room = is_short || needed_bytes <= slack_bytes;
    is_free && has_room && situation.fits(plan)
}

/// The merge of everything that the partition at `at` has in `level`; `reason` gets the number of runs.
fn level_down(
    situation: &Situation<'_>,
    level: u8,
    at: usize,
    reason: impl Fn(usize) -> Reason,
) -> Option<Plan> {
    let version = situation.version;
    let partitions = &version.partitions;
    let runs = &version.levels[usize::from(level)].runs;
    let (start, end) = (partitions.start(at), partitions.end(at));
    let tables = runs.iter().flat_map(|run| &run.tables).filter(|slot| {
        !slot.meta.ends_before(&start) && end.as_ref().is_none_or(|end| slot.meta.smallest < *end)
    });
    let mut range = KeyRange::of(tables.map(|slot| &slot.meta))?;
    let (tables, run) = loop {
        let tables: Vec<_> = runs
            .iter()
            .flat_map(|run| run.overlapping(&range).iter().map(move |t| (level, run.id, t)))
            .collect();
        let mut wider = range.clone();
        tables.iter().for_each(|(_, _, slot)| wider.extend(&slot.meta.range()));
        if wider == range {
            let run = tables.iter().map(|(_, run, _)| *run).max()?;
            break (tables, run);
        }
        range = wider;
    };
    let busy = situation.busy;
    if tables.iter().any(|(_, _, slot)| busy.has_table(slot)) || busy.writes_to(level + 1, &range) {
        return None;
    }
    let run_count = by_run(tables.iter().copied()).len();
    let below = version.levels[usize::from(level) + 1].runs.iter().find(|r| r.id == run);
    let staying = below.map_or_else(Vec::new, |run| run.overlapping(&range).to_vec());
    // With tables that stay in the output's run the keys between them may be the bottom, but it is
    // not worth routes.
    let is_bottom = !version.has_overlap_below(level, &range);
    Some(Plan {
        reason: reason(run_count),
        work: Work::Merge,
        inputs: by_run(tables.into_iter()),
        outputs: vec![output(level + 1, run, is_bottom, staying)],
        routes: None,
        range,
        outputs_together: false,
        windows: None,
        stop: None,
        partitions: None,
    })
}

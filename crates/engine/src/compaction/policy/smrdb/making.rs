//! Plans for chosen tables: inputs, output run, and where deletes may disappear.
//!
//! Not here: which tables are chosen (`smrdb`, `manual`).

use crate::compaction::plan::{Input, Output, Plan, Reason, Work};
use crate::compaction::policy::closure::TableClosure;
use crate::compaction::routes::{Route, Routes, Segment};
use crate::compaction::situation::Situation;
use crate::version::cover::{by_key, lanes};
use crate::version::{KeyRange, RunId, TableSlot};
use bytes::Bytes;
use std::sync::Arc;

/// The plan for the chosen tables. Returns `None` if a running compaction prevents it or the drive
/// has no room for it.
pub(super) fn build(
    situation: &Situation<'_>,
    from_0: &TableClosure,
    from_1: &TableClosure,
    work: Work,
    reason: Reason,
) -> Option<Plan> {
    unless_busy(situation, from_0, from_1, work, reason).filter(|plan| situation.fits(plan))
}

/// Like `build`, but ignores how much room the drive has.
pub(super) fn unless_busy(
    situation: &Situation<'_>,
    from_0: &TableClosure,
    from_1: &TableClosure,
    work: Work,
    reason: Reason,
) -> Option<Plan> {
    let range = KeyRange::of(from_0.metas().chain(from_1.metas()))?;
    if !from_0.is_free(situation)
        || !from_1.is_free(situation)
        || situation.busy.writes_to(1, &range)
    {
        return None;
    }
    Some(make(situation, from_0, from_1, work, reason, range))
}

pub(super) fn make(
    situation: &Situation<'_>,
    from_0: &TableClosure,
    from_1: &TableClosure,
    work: Work,
    reason: Reason,
    range: KeyRange,
) -> Plan {
    let [level_0, level_1, ..] = &situation.version.levels;
    let mut inputs: Vec<_> = level_0
        .runs
        .iter()
        .map(|run| {
            let is_chosen = |table: &&Arc<TableSlot>| from_0.ids.contains(&table.meta.id);
            Input { level: 0, tables: run.tables.iter().filter(is_chosen).cloned().collect() }
        })
        .filter(|input| !input.tables.is_empty())
        .collect();
    // As few sources as possible, because each has a buffer. Their order does not matter: entries
    // carry their sequence numbers.
    let tables = from_1.tables.iter().map(|(_, table)| Arc::clone(table)).collect();
    inputs.extend(lanes(tables).into_iter().map(|tables| Input { level: 1, tables }));
    let overlapped = level_1.overlapping(&range).into_iter();
    let staying: Vec<_> = overlapped.filter(|table| !from_1.ids.contains(&table.meta.id)).collect();
    let is_bottom = staying.is_empty();
    let newest = level_1.runs.first().map_or(0, |run| run.id.0);
    // Tables that overlap nothing join the newest run, so a sequential load makes one run.
    let run = if work == Work::Move && is_bottom { newest.max(1) } else { newest + 1 };
    let routes = (work == Work::Merge && !is_bottom).then(|| routes_over(&staying));
    let output = Output {
        level: 1,
        run: RunId(run),
        is_bottom,
        grandparents: Vec::new(),
        staying: Vec::new(),
    };
    Plan {
        reason,
        work,
        inputs,
        outputs: vec![output],
        routes,
        range,
        outputs_together: false,
        windows: None,
        stop: None,
        partitions: None,
    }
}

/// Routes all entries to the one output. The bottom is wherever no `staying` table is (B3).
fn routes_over(staying: &[Arc<TableSlot>]) -> Routes {
    let mut staying: Vec<_> = staying.iter().map(|table| &table.meta).collect();
    staying.sort_by(|a, b| by_key(a, b));
    let segment =
        |start, is_bottom| Segment { start, route: Route { output: 0, is_bottom, short_to: None } };
    let mut segments = vec![segment(Bytes::new(), true)];
    let mut covered: Option<KeyRange> = None;
    for meta in staying {
        match &mut covered {
            Some(stretch) if stretch.overlaps_table(meta) => stretch.extend(&meta.range()),
            _ => {
                segments.extend(covered.take().map(|stretch| segment(stretch.end(), true)));
                if segments.last().is_some_and(|last| last.start == meta.smallest) {
                    segments.pop();
                }
                segments.push(segment(meta.smallest.clone(), false));
                covered = Some(meta.range());
            }
        }
    }
    segments.extend(covered.map(|stretch| segment(stretch.end(), true)));
    let mut routes = Routes::default();
    routes.set(0, segments.clone());
    routes.set(1, segments);
    routes
}

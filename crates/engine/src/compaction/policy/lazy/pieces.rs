//! The pieces of a base merge: each is one ordinary compaction, which stops before the end of its inputs.
//!
//! ```text
//!   upper        [----a----][------b------][---c---]
//!   base         [==][==][==][==][==][==][==][==][==]
//!   a piece      |<- merged  ->|stop                       b is read from the stop on: it gets a front
//! ```
//!
//! Not here: when a piece is due, and how long it is (`lazy`).

use crate::compaction::plan::{Input, Output, Plan, Reason, Stop, Work};
use crate::compaction::situation::Situation;
use crate::version::partitions::{BASE_LEVEL, BaseMerge, Partitions};
use crate::version::{KeyRange, RunId, TableSlot, Version};
use bytes::Bytes;
use std::sync::Arc;

/// What a piece takes.
pub(super) struct Parts<'a> {
    upper: Vec<(u8, RunId, &'a Arc<TableSlot>)>,
    base: Vec<&'a Arc<TableSlot>>,
    /// The first key that it does not take; `None` if it takes all that is left.
    until: Option<Bytes>,
    /// About how long it is.
    len_bytes: u64,
}

impl<'a> Parts<'a> {
    pub(super) fn inputs(&self) -> impl Iterator<Item = &'a Arc<TableSlot>> {
        self.upper.iter().map(|(_, _, slot)| *slot).chain(self.base.iter().copied())
    }
}

/// Chooses the next piece of `merge`, about `len_bytes` long (Z1).
pub(super) fn parts_of<'a>(
    situation: &Situation<'a>,
    merge: &'a BaseMerge,
    len_bytes: u64,
) -> Option<Parts<'a>> {
    let version: &'a Version = situation.version;
    let mut upper: Vec<_> = merge.left(version).collect();
    let first = upper.iter().map(|(_, _, slot)| &slot.meta.smallest).min()?;
    let base =
        version.levels[usize::from(BASE_LEVEL)].runs.first().map_or(&[][..], |run| &run.tables[..]);
    let from = base.partition_point(|table| table.meta.ends_before(first));
    let is_inside =
        |slot: &Arc<TableSlot>| merge.end.as_ref().is_none_or(|end| slot.meta.smallest < *end);
    let mut base: Vec<_> = base[from..].iter().take_while(|slot| is_inside(slot)).collect();
    let (until, len_bytes) = stop_of(&upper, &base, len_bytes);
    let until = until.or_else(|| merge.end.clone());
    if let Some(until) = &until {
        upper.retain(|(_, _, slot)| slot.meta.smallest < *until);
        base.retain(|slot| slot.meta.smallest < *until);
    }
    Some(Parts { upper, base, until, len_bytes })
}

/// Where a piece of about `len_bytes` stops, and about how long it is: where a base table begins, or
/// any table if much is between two base tables. No key if all of it is about that long.
fn stop_of(
    upper: &[(u8, RunId, &Arc<TableSlot>)],
    base: &[&Arc<TableSlot>],
    len_bytes: u64,
) -> (Option<Bytes>, u64) {
    let shares = upper_shares(upper, base);
    let mut taken_bytes = 0;
    for (at, share_bytes) in shares.iter().enumerate() {
        let start = base.get(at).map(|slot| &slot.meta.smallest);
        if let Some(start) = start.filter(|_| at > 0 && taken_bytes >= len_bytes) {
            return (Some(start.clone()), taken_bytes);
        }
        let end = base.get(at + 1).map(|slot| &slot.meta.smallest);
        if *share_bytes > 2 * len_bytes
            && let Some(found) = stop_between(upper, (start.filter(|_| at > 0), end), len_bytes)
        {
            return (Some(found), taken_bytes + 2 * len_bytes);
        }
        taken_bytes += share_bytes + base.get(at).map_or(0, |slot| slot.meta.len_bytes);
    }
    (None, taken_bytes)
}

/// About how much the upper tables have over each base table and up to the next one. Before the first
/// there is nothing to stop for. Without base tables there is one share.
fn upper_shares(upper: &[(u8, RunId, &Arc<TableSlot>)], base: &[&Arc<TableSlot>]) -> Vec<u64> {
    let mut shares = vec![0; base.len().max(1)];
    for (_, _, slot) in upper {
        let meta = &slot.meta;
        let first = base.partition_point(|b| b.meta.smallest <= meta.smallest).max(1) - 1;
        let end = base.partition_point(|b| !meta.ends_before(&b.meta.smallest)).max(first + 1);
        // A table with a front has about half of its entries left.
        let len_bytes = if meta.has_front { meta.len_bytes / 2 } else { meta.len_bytes };
        let share = len_bytes / (end - first) as u64;
        shares[first..end].iter_mut().for_each(|sum| *sum += share);
    }
    shares
}

/// A key inside `bounds` where an upper table begins, after about `len_bytes` of upper tables that
/// begin there.
fn stop_between(
    upper: &[(u8, RunId, &Arc<TableSlot>)],
    (start, end): (Option<&Bytes>, Option<&Bytes>),
    len_bytes: u64,
) -> Option<Bytes> {
    let is_inside =
        |key: &Bytes| start.is_none_or(|start| start <= key) && end.is_none_or(|end| key < end);
    let mut starts: Vec<_> = upper.iter().map(|(_, _, slot)| &slot.meta).collect();
    starts.retain(|meta| is_inside(&meta.smallest));
    starts.sort_by(|a, b| (&a.smallest, a.id).cmp(&(&b.smallest, b.id)));
    let first = &starts.first()?.smallest;
    let mut begun_bytes = 0;
    for meta in &starts {
        if begun_bytes >= len_bytes && *first < meta.smallest {
            return Some(meta.smallest.clone());
        }
        begun_bytes += meta.len_bytes;
    }
    None
}

/// The next piece of `merge`, about `len_bytes` long. Returns `None` if a running compaction prevents
/// it.
pub(super) fn piece_of(
    situation: &Situation<'_>,
    merge: &BaseMerge,
    cuts: &[Bytes],
    len_bytes: u64,
    reason: Reason,
) -> Option<Plan> {
    let parts = parts_of(situation, merge, len_bytes)?;
    if situation.busy.writes_level(BASE_LEVEL)
        || parts.inputs().any(|t| situation.busy.has_table(t))
    {
        return None;
    }
    let mut range = KeyRange::of(parts.inputs().map(|slot| &slot.meta))?;
    let mut rest = Vec::new();
    if let Some(until) = &parts.until {
        let base = parts.base.iter().map(|slot| (BASE_LEVEL, RunId::ONLY, *slot));
        let all = parts.upper.iter().copied().chain(base);
        rest.extend(all.filter_map(|(level, run, slot)| {
            slot.meta.with_front_at(until).map(|meta| (level, run, meta))
        }));
        if !rest.is_empty() {
            (range.largest, range.largest_excluded) = (until.clone(), true);
        }
    }
    let is_inside = |until: &Bytes| merge.end.as_ref().is_none_or(|end| until < end);
    let next = parts.until.clone().filter(is_inside).filter(|until| {
        let ends = |slot: &TableSlot| slot.meta.ends_before(until);
        merge.left(situation.version).any(|(_, _, slot)| !ends(slot))
    });
    let merge = next.map(|next| BaseMerge { next, ..merge.clone() });
    let base = parts.base.iter().map(|slot| (BASE_LEVEL, RunId::ONLY, *slot));
    let inputs = by_run(parts.upper.iter().copied().chain(base));
    let len_bytes = parts.len_bytes;
    let stop = parts.until.filter(|_| !rest.is_empty());
    let stop = stop.map(|until| Stop { until, rest, len_bytes });
    Some(Plan {
        reason,
        work: Work::Merge,
        inputs,
        outputs: vec![output(BASE_LEVEL, RunId::ONLY, true, Vec::new())],
        routes: None,
        range,
        outputs_together: false,
        windows: None,
        stop,
        partitions: Some(Partitions { cuts: cuts.to_vec(), merge }),
    })
}

pub(super) fn output(
    level: u8,
    run: RunId,
    is_bottom: bool,
    staying: Vec<Arc<TableSlot>>,
) -> Output {
    Output { level, run, is_bottom, grandparents: Vec::new(), staying }
}

/// Tables with their places as inputs, a run each.
pub(super) fn by_run<'a>(
    tables: impl Iterator<Item = (u8, RunId, &'a Arc<TableSlot>)>,
) -> Vec<Input> {
    let mut inputs: Vec<Input> = Vec::new();
    let mut last = None;
    for (level, run, slot) in tables {
        if last != Some((level, run)) {
            last = Some((level, run));
            inputs.push(Input { level, tables: Vec::new() });
        }
        inputs.last_mut().expect("one was pushed").tables.push(Arc::clone(slot));
    }
    inputs
}

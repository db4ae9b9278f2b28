//! Which files with values apart are cleaned next (`work::clean`).

use super::{Store, due, gate};
use crate::compaction::busy::Plans;
use crate::store::keyspace::KeyspaceState;
use crate::store::space::CompactionTriedAt;
use crate::version::holders::Holders;
use crate::version::{TableId, TableSlot};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// While fewer memtables than this may be written before puts are refused, files that are not half dead are cleaned
/// as well.
const SLACK_MEMTABLE_COUNT_MIN: u64 = 4;

/// A file with values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Candidate {
    file: TableId,
    len_bytes: u64,
    live_bytes: u64,
}

/// The length of a file with these live bytes, with what is beside the values, at most.
fn moved_len_bytes(live_bytes: u64) -> u64 {
    live_bytes + live_bytes / 64 + (16 << 10)
}

impl Candidate {
    fn gain_bytes(&self) -> u64 {
        self.len_bytes.saturating_sub(moved_len_bytes(self.live_bytes))
    }

    /// Benefit by cost: what is gained, times how long it probably stays so, by what is read and written.
    fn score(&self, next_id: u64) -> f64 {
        let age = next_id.saturating_sub(self.file.0) as f64;
        self.gain_bytes() as f64 * age / (self.len_bytes + self.live_bytes) as f64
    }
}

/// The files to clean together: the best one, and the next best until their live bytes are `goal_len_bytes` or what
/// `room_bytes` takes.
fn choose(
    mut candidates: Vec<Candidate>,
    next_id: u64,
    is_short: bool,
    goal_len_bytes: u64,
    room_bytes: u64,
) -> Vec<TableId> {
    candidates.retain(|one| {
        let is_half_dead = 2 * one.live_bytes <= one.len_bytes;
        one.gain_bytes() > 0 && (is_short || is_half_dead)
    });
    candidates
        .sort_by(|a, b| b.score(next_id).total_cmp(&a.score(next_id)).then(a.file.cmp(&b.file)));
    let mut live_bytes = 0;
    let mut chosen = Vec::new();
    for one in candidates {
        let with_bytes = live_bytes + one.live_bytes;
        let is_enough = !chosen.is_empty() && with_bytes > goal_len_bytes;
        if is_enough || moved_len_bytes(with_bytes) > room_bytes {
            continue;
        }
        live_bytes = with_bytes;
        chosen.push(one.file);
    }
    chosen
}

fn candidates(holders: &Holders<TableSlot>, plans: &Plans) -> Vec<Candidate> {
    let mut live: BTreeMap<TableId, u64> = BTreeMap::new();
    for (_, held) in holders.iter() {
        *live.entry(held.file).or_default() += held.live_bytes;
    }
    let alone = holders.alone().filter(|slot| !plans.unclean.contains(&slot.meta.id));
    alone
        .map(|slot| Candidate {
            file: slot.meta.id,
            len_bytes: slot.meta.len_bytes,
            live_bytes: live.get(&slot.meta.id).copied().unwrap_or(0),
        })
        .collect()
}

impl Store {
    /// Whether values are apart, or may be.
    pub(crate) fn may_have_values_apart(&self) -> bool {
        self.all_keyspaces().iter().any(|keyspace| {
            let has_holders = !keyspace.view().version.holders.is_empty();
            has_holders || keyspace.fitted.values_apart_from_bytes > 0
        })
    }

    /// The files with values that are to be cleaned now, and their keyspace.
    pub(crate) fn due_cleaning(
        &self,
        plans: &Plans,
    ) -> Option<(Arc<KeyspaceState>, Vec<Arc<TableSlot>>)> {
        // Asked often, and most stores have no such values.
        let holding: Vec<_> = due::compacted_keyspaces(self)
            .map(|keyspace| (Arc::clone(&keyspace.view().version), keyspace))
            .filter(|(version, _)| !version.holders.is_empty())
            .collect();
        if holding.is_empty() {
            return None;
        }
        let space = self.files.space();
        let is_blocked = |at: &CompactionTriedAt| !at.is_over(&space);
        if plans.cleaning.is_some()
            || self.cleaning_blocked_at.lock().as_ref().is_some_and(is_blocked)
        {
            return None;
        }
        let short_bytes = SLACK_MEMTABLE_COUNT_MIN * self.limits.memtable_len_bytes;
        let is_short = self.gate() & gate::PUTS_REFUSED != 0 || self.slack_bytes() < short_bytes;
        if !is_short && plans.is_compacting() {
            return None;
        }
        let next_id = self.next_id.load(Ordering::Relaxed);
        let room_bytes = self.room().gaining_len_bytes;
        holding.into_iter().find_map(|(version, keyspace)| {
            let all = candidates(&version.holders, plans);
            let chosen = choose(all, next_id, is_short, self.limits.memtable_len_bytes, room_bytes);
            let slots = version.holders.alone().filter(|slot| chosen.contains(&slot.meta.id));
            let slots: Vec<_> = slots.cloned().collect();
            (!slots.is_empty()).then_some((keyspace, slots))
        })
    }

    /// Records that a cleaning found no space: it is not tried again with as little (R2).
    pub(crate) fn note_cleaning_blocked(&self) {
        let space = self.files.space();
        let tried_at =
            CompactionTriedAt { free_bytes: space.free_bytes, live_bytes: space.live_bytes };
        *self.cleaning_blocked_at.lock() = Some(tried_at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(id: u64, live_bytes: u64) -> Candidate {
        Candidate { file: TableId(id), len_bytes: 64 << 20, live_bytes }
    }

    fn chosen(candidates: &[Candidate], is_short: bool, room_bytes: u64) -> Vec<u64> {
        let files = choose(candidates.to_vec(), 100, is_short, 64 << 20, room_bytes);
        files.into_iter().map(|file| file.0).collect()
    }

    #[test]
    fn files_are_taken_by_benefit_and_cost_up_to_one_file() {
        let files = [file(10, 30 << 20), file(11, 10 << 20), file(12, 50 << 20), file(90, 9 << 20)];
        assert_eq!(
            chosen(&files, false, u64::MAX),
            [11, 10, 90],
            "12 is not half dead, 90 is young"
        );
        assert_eq!(chosen(&files[2..3], false, u64::MAX), [0; 0]);
        assert_eq!(chosen(&files[2..3], true, u64::MAX), [12], "under pressure");
        assert_eq!(chosen(&files, true, 20 << 20), [11, 90], "as far as there is room");
        assert_eq!(chosen(&files, true, 10 << 20), [90], "a shorter one fits");
        assert_eq!(chosen(&[file(1, 64 << 20)], true, u64::MAX), [0; 0], "nothing to gain");
    }
}

//! Which files with values apart are cleaned next (`work::clean`), and how fast writers may go on meanwhile.
//!
//! ```text
//!   slack   | writers wait for 64, 32, 16 .. 2 bytes of cleaning a byte | the best file is cleaned | half dead ones
//!           0                                              one memtable, about
//! ```
//!
//! The later a file is cleaned, the fewer live values it has. So cleaning begins only when about one memtable may still
//! be written. Writers then go on at the rate at which cleaning gives back space, instead of waiting for a whole output.

use super::{Store, due, gate};
use crate::compaction::busy::Plans;
use crate::store::keyspace::KeyspaceState;
use crate::store::space::CompactionTriedAt;
use crate::version::holders::Holders;
use crate::version::{TableId, TableSlot};
use imbrex_files::RegionPart;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// While less may be written than so many eighths of a memtable, files that are not half dead are cleaned as well.
const SHORT_EIGHTHS: u64 = 8;

/// How many bytes cleaning should process for each byte written, while less may be written than 1, 2, ... eighths of a
/// memtable. On a drive that is 85 % full it processes about eight.
const SLOWDOWNS: [u64; 6] = [64, 32, 16, 8, 4, 2];

/// For how many outputs the tables are passed once, at most.
const OUTPUT_COUNT_MAX: u64 = 16;

/// Cleaning takes files with at most this share of the drive's length as live values at once: on a short drive, more
/// values die if the rest waits.
const CAPACITY_PER_CLEANING: u64 = 128;

/// A cleaning to begin.
#[derive(Debug)]
pub(crate) struct DueCleaning {
    pub(crate) keyspace: Arc<KeyspaceState>,
    /// The best first.
    pub(crate) files: Vec<Arc<TableSlot>>,
    /// How long a file is that gets their values, about.
    pub(crate) output_len_bytes: u64,
}

/// A file with values.
#[derive(Clone, Copy, Debug)]
struct HeldFile {
    file: TableId,
    len_bytes: u64,
    live_bytes: u64,
}

impl HeldFile {
    fn is_half_dead(&self) -> bool {
        2 * self.live_bytes <= self.len_bytes
    }
}

/// Files that give back space if they are cleaned together.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Candidate {
    files: Vec<TableId>,
    /// Whether each of them is half dead.
    are_half_dead: bool,
    /// What they give back.
    freed_bytes: u64,
    live_bytes: u64,
}

/// The length of a file with these live bytes, with what is beside the values, at most.
fn moved_len_bytes(live_bytes: u64) -> u64 {
    live_bytes + live_bytes / 64 + (16 << 10)
}

impl Candidate {
    fn gain_bytes(&self) -> u64 {
        self.freed_bytes.saturating_sub(moved_len_bytes(self.live_bytes))
    }

    /// Benefit by cost: what is gained, times how long it probably stays so, by what is read and written.
    fn score(&self, next_id: u64) -> f64 {
        let youngest = self.files.iter().map(|file| file.0).max().unwrap_or(0);
        let age = next_id.saturating_sub(youngest) as f64;
        self.gain_bytes() as f64 * age / (self.freed_bytes + self.live_bytes) as f64
    }
}

/// What may be cleaned: each file by itself where it gives back its own space. Elsewhere, for each region, the files
/// that lie in it: they give back the regions in which nothing else is live, with what was dead there before.
///
/// ```text
///   region 4   | 12 12 12 dead dead 31 31 |  region 5   | 31 31 40 40 40 ... |
///   of region 4: 12 and 31, which give back region 4. The part of 31 in region 5 comes back with 40.
/// ```
fn candidates(files: &[HeldFile], parts: &[Vec<RegionPart>]) -> Vec<Candidate> {
    let mut by_region: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
    for (at, parts) in parts.iter().enumerate() {
        parts.iter().for_each(|part| by_region.entry(part.region).or_default().push(at));
    }
    let mut sets: BTreeSet<Vec<usize>> = by_region.into_values().collect();
    sets.extend((0..files.len()).filter(|&at| parts[at].is_empty()).map(|at| vec![at]));
    let candidate = |set: Vec<usize>| {
        let mut own: BTreeMap<u64, (u64, RegionPart)> = BTreeMap::new();
        for part in set.iter().flat_map(|&at| &parts[at]) {
            own.entry(part.region).or_insert((0, *part)).0 += part.own_bytes;
        }
        let whole = own.values().filter(|(own_bytes, region)| *own_bytes == region.live_bytes);
        let regions: u64 = whole.map(|(_, region)| region.live_bytes + region.dead_bytes).sum();
        let alone = set.iter().filter(|&&at| parts[at].is_empty());
        let alone_bytes: u64 = alone.map(|&at| files[at].len_bytes).sum();
        Candidate {
            files: set.iter().map(|&at| files[at].file).collect(),
            are_half_dead: set.iter().all(|&at| files[at].is_half_dead()),
            freed_bytes: regions + alone_bytes,
            live_bytes: set.iter().map(|&at| files[at].live_bytes).sum(),
        }
    };
    sets.into_iter().map(candidate).collect()
}

/// The files to clean together: those of the best candidate, and of the next best until their live bytes are
/// `goal_len_bytes` or what `room_bytes` takes.
fn choose(
    mut candidates: Vec<Candidate>,
    next_id: u64,
    is_short: bool,
    goal_len_bytes: u64,
    room_bytes: u64,
) -> Vec<TableId> {
    candidates.retain(|one| one.gain_bytes() > 0 && (is_short || one.are_half_dead));
    candidates.sort_by(|a, b| {
        b.score(next_id).total_cmp(&a.score(next_id)).then_with(|| a.files.cmp(&b.files))
    });
    let mut live_bytes = 0;
    let mut chosen: Vec<TableId> = Vec::new();
    for one in candidates {
        let with_bytes = live_bytes + one.live_bytes;
        let is_enough = !chosen.is_empty() && with_bytes > goal_len_bytes;
        let is_taken = one.files.iter().any(|file| chosen.contains(file));
        if is_enough || is_taken || moved_len_bytes(with_bytes) > room_bytes {
            continue;
        }
        live_bytes = with_bytes;
        chosen.extend(one.files);
    }
    chosen
}

/// The files that are alone.
fn held_files(holders: &Holders<TableSlot>, plans: &Plans) -> Vec<HeldFile> {
    let mut live: BTreeMap<TableId, u64> = BTreeMap::new();
    for (_, held) in holders.iter() {
        *live.entry(held.file).or_default() += held.live_bytes;
    }
    let alone = holders.alone().filter(|slot| !plans.unclean.contains(&slot.meta.id));
    alone
        .map(|slot| HeldFile {
            file: slot.meta.id,
            len_bytes: slot.meta.len_bytes,
            live_bytes: live.get(&slot.meta.id).copied().unwrap_or(0),
        })
        .collect()
}

fn slowdown(slack_bytes: u64, memtable_len_bytes: u64) -> Option<u64> {
    let eighths = slack_bytes / (memtable_len_bytes / 8).max(1);
    usize::try_from(eighths).ok().and_then(|at| SLOWDOWNS.get(at)).copied()
}

impl Store {
    /// Whether values are apart, or may be.
    pub(crate) fn may_have_values_apart(&self) -> bool {
        self.all_keyspaces().iter().any(|keyspace| {
            let has_holders = !keyspace.view().version.holders.is_empty();
            has_holders || keyspace.fitted.values_apart_from_bytes > 0
        })
    }

    /// The cleaning that is to begin now.
    pub(crate) fn due_cleaning(&self, plans: &Plans) -> Option<DueCleaning> {
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
        let output_len_bytes = self.limits.memtable_len_bytes;
        let is_short = self.gate() & gate::PUTS_REFUSED != 0
            || self.slack_bytes() < output_len_bytes / 8 * SHORT_EIGHTHS;
        if !is_short && plans.is_compacting() {
            return None;
        }
        let next_id = self.next_id.load(Ordering::Relaxed);
        let room_bytes = self.room().gaining_len_bytes;
        let goal_len_bytes = (output_len_bytes * OUTPUT_COUNT_MAX)
            .min(space.capacity_bytes / CAPACITY_PER_CLEANING)
            .max(output_len_bytes);
        holding.into_iter().find_map(|(version, keyspace)| {
            let files = held_files(&version.holders, plans);
            let names: Vec<_> = files.iter().map(|file| file.file.file_name()).collect();
            let all = candidates(&files, &self.files.region_parts(&names));
            let chosen = choose(all, next_id, is_short, goal_len_bytes, room_bytes);
            let slot = |id: &TableId| version.holders.alone().find(|slot| slot.meta.id == *id);
            let files: Vec<_> = chosen.iter().filter_map(slot).cloned().collect();
            (!files.is_empty()).then_some(DueCleaning { keyspace, files, output_len_bytes })
        })
    }

    /// How many bytes cleaning should process for each byte written; `None` if none runs, or writers need not slow
    /// down for it.
    pub(crate) fn cleaning_slowdown(&self) -> Option<u64> {
        if !self.is_cleaning.load(Ordering::Acquire) {
            return None;
        }
        slowdown(self.slack_bytes(), self.limits.memtable_len_bytes)
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
        let (freed_bytes, are_half_dead) = (64 << 20, live_bytes <= 32 << 20);
        Candidate { files: vec![TableId(id)], are_half_dead, freed_bytes, live_bytes }
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
    /// A file of 8 MiB, and its parts: region, its own bytes, live bytes, dead bytes of that region, in MiB.
    fn in_regions(id: u64, live_bytes: u64, parts: &[[u64; 4]]) -> (HeldFile, Vec<RegionPart>) {
        let part = |[region, own, live, dead]: &[u64; 4]| RegionPart {
            region: *region,
            own_bytes: own << 20,
            live_bytes: live << 20,
            dead_bytes: dead << 20,
        };
        let file = HeldFile { file: TableId(id), len_bytes: 8 << 20, live_bytes };
        (file, parts.iter().map(part).collect())
    }

    #[test]
    fn files_that_share_a_region_are_cleaned_together() {
        let (files, parts): (Vec<_>, Vec<_>) = [
            in_regions(1, 6 << 20, &[[4, 8, 14, 2]]),
            in_regions(2, 5 << 20, &[[4, 6, 14, 2], [5, 2, 9, 0]]),
            in_regions(3, 7 << 20, &[[5, 7, 9, 0]]),
            in_regions(4, 3 << 20, &[]),
        ]
        .into_iter()
        .unzip();
        let found = candidates(&files, &parts);
        let candidate = |files: &[u64], freed: u64, live: u64| Candidate {
            files: files.iter().map(|&id| TableId(id)).collect(),
            are_half_dead: files == [4],
            freed_bytes: freed << 20,
            live_bytes: live << 20,
        };
        let wanted = [candidate(&[1, 2], 16, 11), candidate(&[2, 3], 9, 12), candidate(&[4], 8, 3)];
        assert_eq!(found, wanted, "region 5 gives back nothing that is gained");
        assert_eq!(chosen(&found, true, u64::MAX), [4, 1, 2]);
        assert_eq!(
            chosen(&found, false, u64::MAX),
            [4],
            "without pressure, those that are half dead"
        );
    }

    #[test]
    fn another_file_in_a_region_keeps_its_space() {
        let (file, parts) = in_regions(1, 1 << 20, &[[4, 8, 9, 7]]);
        assert_eq!(candidates(&[file], &[parts])[0].gain_bytes(), 0);
    }

    #[test]
    fn writers_slow_down_as_the_slack_shrinks() {
        let rates: Vec<_> = (0..8).map(|eighths| slowdown(eighths << 10, 8 << 10)).collect();
        let wanted = [Some(64), Some(32), Some(16), Some(8), Some(4), Some(2), None, None];
        assert_eq!(rates, wanted);
    }
}

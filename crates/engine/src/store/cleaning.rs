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
use crate::table::MOVED_KEY_LEN_BYTES;
use crate::version::rested::Rest;
use crate::version::{TableId, TableMeta, TableSlot, Version};
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

/// What a file that cleaning writes has for each value besides it and its key: two keys of places, and what leads to
/// their blocks.
const VALUE_EXTRA_BYTES: u64 = 36;
/// What it has besides.
const FILE_EXTRA_BYTES: u64 = 16 << 10;

/// A file with values.
#[derive(Clone, Copy, Debug)]
struct HeldFile {
    file: TableId,
    len_bytes: u64,
    live_bytes: u64,
    /// What a file that gets its values has beside them, about.
    beside_bytes: u64,
    rest: Rest,
}

impl HeldFile {
    /// What `meta` says of a file with `live_bytes` of values apart, each of `from_bytes` or more, of keys of about
    /// `key_len_bytes`.
    fn of(
        meta: &TableMeta,
        live_bytes: u64,
        from_bytes: u64,
        key_len_bytes: u64,
        rest: Rest,
    ) -> HeldFile {
        // A file that cleaning wrote has two entries for a value.
        let (entry_count, own_keys_bytes) = if meta.is_logged {
            (meta.entry_count, key_len_bytes)
        } else {
            (meta.entry_count / 2, key_len_bytes + 2 * MOVED_KEY_LEN_BYTES)
        };
        let mean_bytes = (meta.raw_len_bytes / entry_count.max(1)).saturating_sub(own_keys_bytes);
        let value_count = live_bytes / mean_bytes.max(from_bytes).max(1);
        HeldFile {
            file: meta.id,
            len_bytes: meta.len_bytes,
            live_bytes,
            beside_bytes: live_bytes / 64 + value_count * (VALUE_EXTRA_BYTES + key_len_bytes),
            rest,
        }
    }

    fn moved_bytes(&self) -> u64 {
        self.live_bytes + self.beside_bytes
    }

    fn is_half_dead(&self) -> bool {
        2 * self.moved_bytes() <= self.len_bytes
    }
}

/// Files that give back space if they are cleaned together.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Candidate {
    files: Vec<TableId>,
    /// Whether each of them is half dead.
    are_half_dead: bool,
    /// Whether none of them may be cleaned for its own sake (C5).
    are_settled: bool,
    /// What they give back.
    freed_bytes: u64,
    /// Their live values, and what is beside those in another file.
    moved_bytes: u64,
}

/// The length of a file with these values and what is beside each, on a drive where files take whole grains.
fn output_len_bytes(moved_bytes: u64, grain_bytes: u64) -> u64 {
    (moved_bytes + FILE_EXTRA_BYTES).next_multiple_of(grain_bytes.max(1))
}

/// The length of a file with the values of one that `meta` describes, of which `live_bytes` are live.
#[cfg(test)]
pub(crate) fn reckoned_len_bytes(meta: &TableMeta, live_bytes: u64, key_len_bytes: u64) -> u64 {
    let file = HeldFile::of(meta, live_bytes, 1, key_len_bytes, Rest::No);
    output_len_bytes(file.moved_bytes(), 0)
}

impl Candidate {
    fn gain_bytes(&self, grain_bytes: u64) -> u64 {
        self.freed_bytes.saturating_sub(output_len_bytes(self.moved_bytes, grain_bytes))
    }

    /// Benefit by cost: what is gained, times how long it probably stays so, by what is read and written.
    fn score(&self, next_id: u64, grain_bytes: u64) -> f64 {
        let youngest = self.files.iter().map(|file| file.0).max().unwrap_or(0);
        let age = next_id.saturating_sub(youngest) as f64;
        self.gain_bytes(grain_bytes) as f64 * age / (self.freed_bytes + self.moved_bytes) as f64
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
            are_settled: set.iter().all(|&at| match files[at].rest {
                Rest::No => false,
                // By itself it gains nothing. In a region, others may have died beside it.
                Rest::Moved => parts[at].is_empty(),
                Rest::Settled => true,
            }),
            freed_bytes: regions + alone_bytes,
            moved_bytes: set.iter().map(|&at| files[at].moved_bytes()).sum(),
        }
    };
    sets.into_iter().map(candidate).collect()
}

/// How much of what is chosen, and for which drive.
#[derive(Clone, Copy, Debug)]
struct Wanted {
    next_id: u64,
    /// Whether files that are not half dead are cleaned as well.
    is_short: bool,
    /// The length of all outputs, about.
    goal_len_bytes: u64,
    room_bytes: u64,
    grain_bytes: u64,
}

/// The files to clean together: those of the best candidate, and of the next best until their values have the goal's
/// length or take the room.
fn choose(mut candidates: Vec<Candidate>, wanted: &Wanted) -> Vec<TableId> {
    let Wanted { next_id, is_short, goal_len_bytes, room_bytes, grain_bytes } = *wanted;
    candidates.retain(|one| {
        let is_wanted = is_short || one.are_half_dead;
        one.gain_bytes(grain_bytes) > 0 && is_wanted && !one.are_settled
    });
    candidates.sort_by(|a, b| {
        let by_score = b.score(next_id, grain_bytes).total_cmp(&a.score(next_id, grain_bytes));
        by_score.then_with(|| a.files.cmp(&b.files))
    });
    let mut moved_bytes = 0;
    let mut chosen: Vec<TableId> = Vec::new();
    for one in candidates {
        let with_bytes = moved_bytes + one.moved_bytes;
        let is_enough = !chosen.is_empty() && with_bytes > goal_len_bytes;
        let is_taken = one.files.iter().any(|file| chosen.contains(file));
        if is_enough || is_taken || output_len_bytes(with_bytes, grain_bytes) > room_bytes {
            continue;
        }
        moved_bytes = with_bytes;
        chosen.extend(one.files);
    }
    chosen
}

/// The files that are alone.
fn held_files(version: &Version, from_bytes: u64, plans: &Plans) -> Vec<HeldFile> {
    let live = version.holders.live_bytes();
    let key_len_bytes = version.tables().next().map_or(0, |slot| slot.meta.largest.len() as u64);
    let alone = version.holders.alone().map(|slot| &slot.meta);
    let alone = alone.filter(|meta| !plans.unclean.contains(&meta.id));
    alone
        .map(|meta| {
            let live_bytes = live.get(&meta.id).copied().unwrap_or(0);
            let rest = plans.rested.of(meta.id, live_bytes);
            HeldFile::of(meta, live_bytes, from_bytes, key_len_bytes, rest)
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
        let wanted = Wanted {
            next_id: self.next_id.load(Ordering::Relaxed),
            is_short,
            goal_len_bytes: (output_len_bytes * OUTPUT_COUNT_MAX)
                .min(space.capacity_bytes / CAPACITY_PER_CLEANING)
                .max(output_len_bytes),
            room_bytes: self.room().gaining_len_bytes,
            grain_bytes: space.grain_bytes,
        };
        holding.into_iter().find_map(|(version, keyspace)| {
            let from_bytes = keyspace.fitted.values_apart_from_bytes.into();
            let files = held_files(&version, from_bytes, plans);
            let names: Vec<_> = files.iter().map(|file| file.file.file_name()).collect();
            let all = candidates(&files, &self.files.region_parts(&names));
            let chosen = choose(all, &wanted);
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

    fn file(id: u64, moved_bytes: u64) -> Candidate {
        let (freed_bytes, are_half_dead) = (64 << 20, moved_bytes <= 32 << 20);
        let files = vec![TableId(id)];
        Candidate { files, are_half_dead, are_settled: false, freed_bytes, moved_bytes }
    }

    fn chosen(candidates: &[Candidate], is_short: bool, room_bytes: u64) -> Vec<u64> {
        chosen_of_grains(candidates, is_short, room_bytes, 0)
    }

    fn chosen_of_grains(
        candidates: &[Candidate],
        is_short: bool,
        room_bytes: u64,
        grain_bytes: u64,
    ) -> Vec<u64> {
        let goal_len_bytes = 64 << 20;
        let wanted = Wanted { next_id: 100, is_short, goal_len_bytes, room_bytes, grain_bytes };
        choose(candidates.to_vec(), &wanted).into_iter().map(|file| file.0).collect()
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

    #[test]
    fn where_files_take_whole_grains_a_file_gains_by_the_grain() {
        let short = file(1, 33 << 20);
        let chosen = |grain_bytes| {
            chosen_of_grains(std::slice::from_ref(&short), true, u64::MAX, grain_bytes)
        };
        assert_eq!(chosen(16 << 20), [1]);
        assert_eq!(chosen(64 << 20), [0; 0]);
    }

    /// Once, cleaning took its own output again and again: tiny values took more beside them than was reckoned.
    #[test]
    fn what_cleaning_wrote_is_taken_again_once_for_the_sake_of_its_zone() {
        let with_rest = |rest, parts: &[[u64; 4]]| {
            let (file, parts) = in_regions(1, 1 << 20, parts);
            let all = candidates(&[HeldFile { rest, ..file }], &[parts]);
            chosen(&all, true, u64::MAX)
        };
        let zone = [[4, 8, 8, 2]];
        assert_eq!(with_rest(Rest::No, &[]), [1]);
        assert_eq!(with_rest(Rest::Moved, &[]), [0; 0]);
        assert_eq!(with_rest(Rest::No, &zone), [1]);
        assert_eq!(with_rest(Rest::Moved, &zone), [1]);
        assert_eq!(with_rest(Rest::Settled, &zone), [0; 0]);
    }

    /// A file of 8 MiB, and its parts: region, its own bytes, live bytes, dead bytes of that region, in MiB.
    fn in_regions(id: u64, live_bytes: u64, parts: &[[u64; 4]]) -> (HeldFile, Vec<RegionPart>) {
        let part = |[region, own, live, dead]: &[u64; 4]| RegionPart {
            region: *region,
            own_bytes: own << 20,
            live_bytes: live << 20,
            dead_bytes: dead << 20,
        };
        let file = HeldFile {
            file: TableId(id),
            len_bytes: 8 << 20,
            live_bytes,
            beside_bytes: 0,
            rest: Rest::No,
        };
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
            are_settled: false,
            freed_bytes: freed << 20,
            moved_bytes: live << 20,
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
        assert_eq!(candidates(&[file], &[parts])[0].gain_bytes(0), 0);
    }

    #[test]
    fn writers_slow_down_as_the_slack_shrinks() {
        let rates: Vec<_> = (0..8).map(|eighths| slowdown(eighths << 10, 8 << 10)).collect();
        let wanted = [Some(64), Some(32), Some(16), Some(8), Some(4), Some(2), None, None];
        assert_eq!(rates, wanted);
    }
}

//! Chooses the zones to clean: those whose valid data, put together, need the fewest mapping nodes.
//!
//! ```text
//!     zone 3   aaa.....cc......      zone 7   ...bb....      zone 9   .zz....xx..
//!     LBA      0..3    5..7                   3..5                    90..92  40..42
//!
//!     cleaned together, 3 and 7 become one run, 0..7: three nodes become one,  R(3,7) = 2
//!     3 and 9 stay four runs:                                                  R(3,9) = 0
//! ```
//!
//! The mapping nodes of a zone are runs of LBAs. Cleaning writes the runs of all chosen zones in
//! the order of their LBAs, and runs that touch become one node. R(i,j) is the number of nodes
//! saved if zones i and j are cleaned together, and R(i,i) if only i is.
//!
//! No LBA is valid in two zones, so at most one run follows a run directly, and whether two runs
//! touch depends on their two zones alone. Hence the saving of a set of zones is the sum of R(i,i)
//! and of what each pair adds. One pass over the sorted runs of all candidates finds the matrix.
//!
//! The paper takes the best pair first and then, one by one, "the zone with the largest R(k,j)" for
//! the zones j already chosen. We take the zone that reduces the union most, as its equation 3
//! asks, and R(i,i) where only one zone is wanted.
//!
//! Why not simply the most garbage? On a disk, a cleaning spends most of its time reading a zone
//! through, however much of it is valid. That holds while little of it is valid. Where writes
//! return to some files, the twenty emptiest zones range from empty to full, and those that merge
//! most are the full ones. So a choice has a budget: the valid data of the same number of the
//! emptiest zones, plus a tenth of what was written to the chosen ones (decision 49). In the paper
//! no choice costs more than eleven points of garbage. The paper's own rule has no budget, and can
//! be selected.
//!
//! Invariants
//!   H1  The same zones in any order give the same choice: ties go to the zone with less valid
//!       data, then to the lower number.
//!   H2  With a budget, the chosen zones have at most that share of what was written to them more
//!       valid data than the same number of the emptiest zones.
//!
//! Source: section II-C of the paper, tables II and III.
//! Not here: reading the valid data and writing it again. A zone without valid data needs no
//! cleaning but a reset, at once; [`candidates`] leaves it out.

use imbrex_disk::{BlockRange, Blocks, ZoneId};

/// How to choose zones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CleaningOrder {
    /// Of the `candidate_count` zones with the least valid data, those that merge the most nodes
    /// and stay within the budget of valid data.
    MostMerged {
        /// The paper's n_c, 20.
        candidate_count: usize,
        /// The paper's n_r, 2 or 3.
        chosen_count: usize,
        /// How much more valid data the chosen zones may have than the same number of the emptiest
        /// zones, in percent of what was written to them. `None` is the paper's rule: any amount.
        budget_percent: Option<u8>,
    },
    /// The zones with the least valid data: the baseline.
    MostGarbage {
        /// The paper's n_r, 2.
        chosen_count: usize,
    },
}

/// The budget of a block device's cleaning (decision 49).
const BUDGET_PERCENT: u8 = 10;

impl CleaningOrder {
    /// The order of a block device: two of twenty zones, within a budget of a tenth.
    pub fn merged() -> CleaningOrder {
        CleaningOrder::MostMerged {
            candidate_count: 20,
            chosen_count: 2,
            budget_percent: Some(BUDGET_PERCENT),
        }
    }

    /// The paper's rule: two of twenty zones, whatever has to be moved.
    pub fn of_the_paper() -> CleaningOrder {
        CleaningOrder::MostMerged { candidate_count: 20, chosen_count: 2, budget_percent: None }
    }

    /// How many zones a cleaning takes.
    pub fn chosen_count(self) -> usize {
        match self {
            CleaningOrder::MostMerged { chosen_count, .. }
            | CleaningOrder::MostGarbage { chosen_count } => chosen_count,
        }
    }

    /// How many zones [`choose`] has to see.
    pub fn candidate_count(self) -> usize {
        match self {
            CleaningOrder::MostMerged { candidate_count, chosen_count, .. } => {
                candidate_count.max(chosen_count)
            }
            CleaningOrder::MostGarbage { chosen_count } => chosen_count,
        }
    }

    /// How many of `fills`, sorted by valid data, are candidates: at most `candidate_count`, and
    /// none that breaks the budget even together with the emptiest zones.
    fn candidates_of(self, fills: &[ZoneFill]) -> usize {
        let count = self.chosen_count().min(fills.len());
        let Some(last_least) = fills[..count].last() else { return 0 };
        let can_be_chosen = |fill: &&ZoneFill| {
            self.spare(fill.written).is_none_or(|spare| {
                fill.valid <= last_least.valid + Blocks::new(count as u64 * spare)
            })
        };
        fills.iter().take(self.candidate_count()).take_while(can_be_chosen).count()
    }

    /// How much more valid data a chosen zone may have, in the mean; `None` without a bound.
    fn spare(self, written: Blocks) -> Option<u64> {
        match self {
            CleaningOrder::MostMerged { budget_percent, .. } => {
                budget_percent.map(|percent| written.get() * u64::from(percent) / 100)
            }
            CleaningOrder::MostGarbage { .. } => Some(0),
        }
    }
}

/// How full a sealed zone is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZoneFill {
    /// Which zone.
    pub zone: ZoneId,
    /// How much was written to it.
    pub written: Blocks,
    /// How much of that is valid.
    pub valid: Blocks,
}

/// The valid data of a candidate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZoneContent {
    /// Which zone.
    pub zone: ZoneId,
    /// How much was written to it.
    pub written: Blocks,
    /// The LBAs of its mapping nodes, in any order, for example by PBA. No run overlaps another, of
    /// this zone or any other.
    pub runs: Vec<BlockRange>,
}

impl ZoneContent {
    /// How much is valid.
    pub fn valid(&self) -> Blocks {
        self.runs.iter().map(|run| run.len).sum()
    }
}

/// Zones to clean together, and the effect.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CleaningChoice {
    /// The zones, in the order in which they were chosen.
    pub zones: Vec<ZoneId>,
    /// How many mapping nodes they have now.
    pub nodes: u64,
    /// How many fewer they will have (table II).
    pub merged_nodes: u64,
    /// How much was written to them.
    pub written: Blocks,
    /// How much of that has to be moved.
    pub valid: Blocks,
}

impl CleaningChoice {
    /// How much space it frees.
    pub fn garbage(&self) -> Blocks {
        self.written.saturating_sub(self.valid)
    }

    /// Garbage per thousand blocks written (table III); 0 where nothing was written.
    pub fn garbage_permille(&self) -> u64 {
        (self.garbage().get() * 1000).checked_div(self.written.get()).unwrap_or(0)
    }
}

/// The zones whose contents [`choose`] needs: those with the least valid data, but some, in that
/// order.
pub fn candidates(order: CleaningOrder, sealed: impl IntoIterator<Item = ZoneFill>) -> Vec<ZoneId> {
    let mut zones: Vec<ZoneFill> =
        sealed.into_iter().filter(|fill| !fill.valid.is_zero()).collect();
    let count = order.candidate_count();
    let key = |fill: &ZoneFill| (fill.valid, fill.zone);
    if count < zones.len() {
        if count > 0 {
            zones.select_nth_unstable_by_key(count - 1, key);
        }
        zones.truncate(count);
    }
    zones.sort_unstable_by_key(key);
    zones.truncate(order.candidates_of(&zones));
    zones.into_iter().map(|fill| fill.zone).collect()
}

/// Chooses the zones to clean from `candidates`; returns fewer than wanted if there are fewer.
///
/// Cost: the runs of all candidates are sorted once; 20 zones of 100,000 runs each took 0.1 s if they
/// came in the order of LBAs, 0.2 s if not.
pub fn choose(order: CleaningOrder, candidates: &[ZoneContent]) -> CleaningChoice {
    let mut zones: Vec<(Blocks, &ZoneContent)> =
        candidates.iter().map(|content| (content.valid(), content)).collect();
    zones.sort_unstable_by_key(|&(valid, content)| (valid, content.zone));
    let fill = |&(valid, content): &(Blocks, &ZoneContent)| {
        let &ZoneContent { zone, written, .. } = content;
        ZoneFill { zone, written, valid }
    };
    let fills: Vec<ZoneFill> = zones.iter().map(fill).collect();
    zones.truncate(order.candidates_of(&fills));
    let fits = |chosen: &[usize]| {
        let least: u64 = fills[..chosen.len()].iter().map(|fill| fill.valid.get()).sum();
        let chosen = chosen.iter().map(|&index| fills[index]);
        let spare: Option<u64> = chosen.clone().map(|fill| order.spare(fill.written)).sum();
        spare.is_none_or(|spare| chosen.map(|f| f.valid.get()).sum::<u64>() <= least + spare)
    };

    let merges = Merges::count(zones.iter().map(|&(_, content)| content.runs.as_slice()));
    let chosen = match order {
        CleaningOrder::MostGarbage { chosen_count } => (0..chosen_count.min(zones.len())).collect(),
        CleaningOrder::MostMerged { chosen_count, .. } => merges.best(chosen_count, fits),
    };
    let mut cleaning =
        CleaningChoice { merged_nodes: merges.of(&chosen), ..CleaningChoice::default() };
    for &index in &chosen {
        let (valid, content) = zones[index];
        cleaning.zones.push(content.zone);
        cleaning.nodes += content.runs.len() as u64;
        cleaning.written += content.written;
        cleaning.valid += valid;
    }
    cleaning
}

/// For each pair of zones, how many pairs of touching runs they have.
struct Merges {
    zone_count: usize,
    /// Row by row; symmetric, with each zone's own pairs on the diagonal.
    pairs: Vec<u64>,
}

impl Merges {
    fn count<'a>(zones: impl Iterator<Item = &'a [BlockRange]>) -> Merges {
        let mut zone_count = 0;
        let mut runs: Vec<(u64, u64, usize)> = Vec::new();
        for (index, zone) in zones.enumerate() {
            zone_count = index + 1;
            runs.extend(zone.iter().map(|run| (run.start.get(), run.end().get(), index)));
        }
        // The stable sort makes use of stretches that are already sorted.
        runs.sort_by_key(|&(start, ..)| start);
        let mut pairs = vec![0; zone_count * zone_count];
        for pair in runs.windows(2) {
            let ((_, end, a), (start, _, b)) = (pair[0], pair[1]);
            if end == start {
                pairs[a * zone_count + b] += 1;
                if a != b {
                    pairs[b * zone_count + a] += 1;
                }
            }
        }
        Merges { zone_count, pairs }
    }

    fn between(&self, a: usize, b: usize) -> u64 {
        self.pairs[a * self.zone_count + b]
    }

    /// How many nodes are saved if `zones` are cleaned together.
    fn of(&self, zones: &[usize]) -> u64 {
        let with_earlier = |(index, &a): (usize, &usize)| -> u64 {
            zones[..=index].iter().map(|&b| self.between(a, b)).sum()
        };
        zones.iter().enumerate().map(with_earlier).sum()
    }

    /// The best zone or the best pair that fits, then greedily; of equal ones, the lower indexes.
    /// The first remaining zone always fits next to zones that fit.
    fn best(&self, chosen_count: usize, fits: impl Fn(&[usize]) -> bool) -> Vec<usize> {
        let all = 0..self.zone_count;
        let mut chosen: Vec<usize> = Vec::new();
        if chosen_count >= 2 && self.zone_count >= 2 {
            let pairs = all.clone().flat_map(|a| (a + 1..self.zone_count).map(move |b| [a, b]));
            let pairs = pairs.filter(|pair| fits(pair));
            chosen.extend(first_of_most(pairs, |pair| self.of(pair)).into_iter().flatten());
        }
        while chosen.len() < chosen_count.min(self.zone_count) {
            let fits = |zone: usize| fits(&[chosen.as_slice(), &[zone]].concat());
            let others = all.clone().filter(|zone| !chosen.contains(zone) && fits(*zone));
            let gain = |&zone: &usize| {
                let with_chosen: u64 = chosen.iter().map(|&b| self.between(zone, b)).sum();
                self.between(zone, zone) + with_chosen
            };
            let Some(next) = first_of_most(others, gain) else { break };
            chosen.push(next);
        }
        chosen
    }
}

/// The first item with the highest value.
fn first_of_most<T>(items: impl Iterator<Item = T>, most: impl Fn(&T) -> u64) -> Option<T> {
    let mut best: Option<(u64, T)> = None;
    for item in items {
        let value = most(&item);
        if best.as_ref().is_none_or(|&(so_far, _)| so_far < value) {
            best = Some((value, item));
        }
    }
    best.map(|(_, item)| item)
}

#[cfg(test)]
mod tests;

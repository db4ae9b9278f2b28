//! A report of where space went: live data, dead data that are still in the way, and runs too short
//! to use.
//!
//! ```text
//!   no zones   | set: live, dead, live | fragment | guard | live |  hole  | live |  frontier >
//!                      dead_held                                  \___________/    free
//!   zones      | live, dead, live | unused |   dead_held: what a reset would bring back
//! ```
//!
//! It counts everything that cannot be reused: dead members of half-dead sets, the part of a band
//! that its table leaves over, holes that hold less than a set.

use crate::space::{Space, SpaceMap, ZoneRole, ZoneSpace};
use imbrex_disk::{BlockRange, Blocks};

/// The present use of a disk's space. All lengths are whole blocks.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct SpaceReport {
    /// Everything that files could ever use.
    pub capacity_bytes: u64,
    /// Held by live files, or by files that a reader still has open.
    pub valid_bytes: u64,
    /// Dead, and given back only with its zone or set: cleaning or time brings it back.
    pub dead_held_bytes: u64,
    /// Free, but in runs shorter than the threshold, so that no set fits. Zero on a disk with
    /// zones.
    pub fragment_bytes: u64,
    /// How many such runs there are.
    pub fragment_count: u64,
    /// Free, but kept blank: a write there would destroy valid data, or an open log still grows.
    /// Part of it lies in fragments.
    pub guard_bytes: u64,
    /// What can be written now.
    pub free_bytes: u64,
    /// From the first block that files may use to the end of the last one in use; on a disk with
    /// zones, the length of the zones that are not empty.
    pub address_bytes: u64,
    /// How many sets share a run of blocks.
    pub set_count: u64,
    /// Their mean length; 0 without sets.
    pub set_len_bytes_mean: u64,
    /// For every zone in use, in order of address: the live share of what is written or given up in
    /// it.
    pub zone_utilisation_ratios: Vec<f64>,
}

impl SpaceReport {
    /// Space that cannot be written until something dies or moves: valid, dead but held, and
    /// fragments.
    pub fn occupied_bytes(&self) -> u64 {
        self.valid_bytes + self.dead_held_bytes + self.fragment_bytes
    }
}

/// How the space is used. Free runs shorter than `set_len_bytes` count as fragments. Without it the
/// threshold is the mean length of a set, or of a table where there are no sets.
pub(crate) fn space_report(space: &Space, set_len_bytes: Option<u64>) -> SpaceReport {
    let mut map = space.with(|map| map.clone());
    // As if the runs that were given back were discarded already, so that they merge with their
    // neighbours.
    let back = map.begin_discard();
    map.was_discarded(&back);
    if map.zones().is_empty() { unzoned(&map, set_len_bytes) } else { zoned(&map) }
}

fn zoned(map: &SpaceMap) -> SpaceReport {
    let is_used = |zone: &&ZoneSpace| zone.role == ZoneRole::Data && !zone.handed_out().is_zero();
    let used = || map.zones().iter().filter(is_used);
    let utilisation_ratio = |zone: &ZoneSpace| {
        let spent = zone.held + zone.dead();
        zone.held.get() as f64 / spent.get().max(1) as f64
    };
    SpaceReport {
        capacity_bytes: map.capacity().bytes(),
        valid_bytes: map.held().bytes(),
        dead_held_bytes: map.dead().bytes(),
        free_bytes: map.free().bytes(),
        address_bytes: used().map(|zone| zone.capacity).sum::<Blocks>().bytes(),
        zone_utilisation_ratios: used().map(utilisation_ratio).collect(),
        ..SpaceReport::default()
    }
}

fn unzoned(map: &SpaceMap, set_len_bytes: Option<u64>) -> SpaceReport {
    let (set_count, set_len) = map.sets();
    let set_len_bytes_mean = set_len.bytes().checked_div(set_count).unwrap_or(0);
    let mean = if set_count == 0 { map.runs().class_len().bytes() } else { set_len_bytes_mean };
    let threshold_bytes = set_len_bytes.unwrap_or(mean);
    let inner = || map.runs().iter().filter(|run| !map.runs().is_frontier(*run));
    let fragments = || inner().filter(|run| run.len.bytes() < threshold_bytes);
    let guard = |run: BlockRange| map.runs().guard_of(run);
    SpaceReport {
        capacity_bytes: map.capacity().bytes(),
        valid_bytes: map.held().bytes(),
        dead_held_bytes: map.dead().bytes(),
        fragment_bytes: fragments().map(|run| run.len).sum::<Blocks>().bytes(),
        fragment_count: fragments().count() as u64,
        guard_bytes: (inner().map(guard).sum::<Blocks>() + map.guarded()).bytes(),
        free_bytes: map.free().bytes(),
        address_bytes: map.address_len().bytes(),
        set_count,
        set_len_bytes_mean,
        zone_utilisation_ratios: Vec::new(),
    }
}

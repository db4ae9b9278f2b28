//! Where the space went: what lives, what is dead and still in the way, and what is too short to use.
//!
//! ```text
//!   no zones   | set: live, dead, live | fragment | guard | live |  hole  | live |  frontier >
//!                      dead_held                                  \___________/    free
//!   zones      | live, dead, live | unused |   dead_held: what a reset would bring back
//! ```
//!
//! Everything that cannot be reused is counted: dead members of half-dead sets, what a table leaves
//! of its band, holes that hold less than a set.

use crate::space::{Space, SpaceMap, ZoneRole, ZoneSpace};
use imbrex_disk::{BlockRange, Blocks};

/// How the space of a disk is used, as of now. All lengths are whole blocks.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct SpaceReport {
    /// All that files could ever use.
    pub capacity_bytes: u64,
    /// Held by files that live, or that a reader still has open.
    pub valid_bytes: u64,
    /// Dead, and given back only when its zone or set is: cleaning or time brings it back.
    pub dead_held_bytes: u64,
    /// Free, but in runs shorter than the threshold, so that no set goes there. On a disk with zones
    /// nothing is.
    pub fragment_bytes: u64,
    /// How many such runs there are.
    pub fragment_count: u64,
    /// Free, but kept blank because a write there would destroy valid data, or because an open log
    /// still grows. Part of it lies in fragments.
    pub guard_bytes: u64,
    /// What can be written now.
    pub free_bytes: u64,
    /// From the first block that files may use to the end of the last that they do; on a disk with
    /// zones, the zones that are not empty.
    pub address_bytes: u64,
    /// Sets that share a run of blocks.
    pub set_count: u64,
    /// How long they are on average; 0 without sets.
    pub set_len_bytes_mean: u64,
    /// For every zone in use, in order of address: what lives of what is written or given up in it.
    pub zone_utilisation_ratios: Vec<f64>,
}

impl SpaceReport {
    /// What cannot be written until something dies or moves: valid, dead and held, and fragments.
    pub fn occupied_bytes(&self) -> u64 {
        self.valid_bytes + self.dead_held_bytes + self.fragment_bytes
    }
}

/// Where the space went. Free runs shorter than `set_len_bytes` are fragments; without it, those shorter
/// than the mean set, or than a table where there are no sets.
pub(crate) fn space_report(space: &Space, set_len_bytes: Option<u64>) -> SpaceReport {
    let mut map = space.with(|map| map.clone());
    // As if what was given back were discarded already, so that runs touch their neighbours.
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

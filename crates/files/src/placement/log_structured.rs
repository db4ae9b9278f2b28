//! One log over all zones, cleaned when less than a fifth of the space is free.
//!
//! ```text
//!   zone 3: a b c d | zone 4: e f g .      every table goes to the end, whatever its level
//!   cleaning: a victim is chosen; what lives in it moves to a zone of cold data
//! ```
//!
//! There are two policies, which differ only in the victim:
//!
//! - *greedy* (`log-structured`): the zone with the most dead blocks;
//! - *cost-benefit* (`log-cost-benefit`): the zone with the largest `(1 - u) * age / (1 + u)`,
//!   where `u` is its live share. `age` is the time since the youngest file in it was begun,
//!   measured in files begun. Moved files keep their age.
//!
//! Source: the baselines of GearDB (LevelDB over one log of zones, greedy and cost-benefit cleaning
//! below 20 % free); cost-benefit as in the log-structured file system of Rosenblum and Ousterhout.

use super::lanes::{self, LanePolicy};
use super::options::PlacementOptions;
use super::policy::{FileRequest, Urgency};
use crate::space::{Lane, SpaceMap, ZoneSpace};
use imbrex_disk::{BlockRange, Blocks};
use std::cmp::Reverse;

/// The name of greedy cleaning.
pub(super) const GREEDY: &str = "log-structured";
/// The name of cleaning by cost and benefit.
pub(super) const COST_BENEFIT: &str = "log-cost-benefit";

/// Cleaning starts below this share of free space, in percent. Source: GearDB's evaluation setup.
const FREE_PERCENT_LEAST: u8 = 20;

/// In the background a zone is cleaned only if this share of it is dead, in percent. Below that the
/// same blocks would move over and over for little gain.
const DEAD_PERCENT_LEAST: u64 = 5;

/// The rule for the zone that is cleaned first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Victim {
    Greedy,
    CostBenefit,
}

#[derive(Debug)]
pub(super) struct LogStructured {
    victim: Victim,
    free_percent_least: u8,
}

impl LogStructured {
    pub(super) fn new(victim: Victim, options: &PlacementOptions) -> LogStructured {
        let free_percent_least = options.free_percent_or(FREE_PERCENT_LEAST);
        LogStructured { victim, free_percent_least }
    }

    fn choose(&self, space: &SpaceMap, dead_at_least: Blocks) -> Option<BlockRange> {
        match self.victim {
            Victim::Greedy => lanes::greediest(space, dead_at_least),
            Victim::CostBenefit => most_beneficial(space, dead_at_least),
        }
    }
}

impl LanePolicy for LogStructured {
    fn name(&self) -> &'static str {
        match self.victim {
            Victim::Greedy => GREEDY,
            Victim::CostBenefit => COST_BENEFIT,
        }
    }

    fn lane(&self, file: &FileRequest, _zone: Blocks) -> Lane {
        if file.is_moved { Lane::Cold(0) } else { Lane::Fresh(0) }
    }

    fn plan_reclaim(&self, space: &SpaceMap, urgency: Urgency) -> Option<BlockRange> {
        match urgency {
            Urgency::NoSpace => self.choose(space, Blocks::new(1)),
            Urgency::Background => {
                if lanes::percent_free(space) >= u64::from(self.free_percent_least) {
                    return None;
                }
                let zone = space.zone_capacity();
                self.choose(space, Blocks::new((zone.get() * DEAD_PERCENT_LEAST / 100).max(1)))
            }
        }
    }
}

/// The zone whose cleaning gains most and longest, relative to the cost of reading and rewriting
/// it.
///
/// Ties go to the zone with more dead blocks, then to the lower one.
fn most_beneficial(space: &SpaceMap, dead_at_least: Blocks) -> Option<BlockRange> {
    // (1 - u) * age / (1 + u), with u = held / handed out, as a fraction of integers.
    let benefit = |zone: &ZoneSpace| {
        let age = u128::from(space.now().saturating_sub(zone.youngest)) + 1;
        let gain = u128::from(zone.dead().get()) * age;
        let cost = u128::from(zone.handed_out().get() + zone.held.get());
        (gain, cost)
    };
    let by_benefit = |a: &&ZoneSpace, b: &&ZoneSpace| {
        let ((gain_a, cost_a), (gain_b, cost_b)) = (benefit(a), benefit(b));
        let order = (gain_a * cost_b).cmp(&(gain_b * cost_a));
        order.then(a.dead().cmp(&b.dead())).then(Reverse(a.id).cmp(&Reverse(b.id)))
    };
    space
        .zones()
        .iter()
        .filter(|zone| lanes::is_worth(space, zone, dead_at_least))
        .max_by(by_benefit)
        .map(|zone| BlockRange::new(zone.start, zone.capacity))
}

//! Dynamic bands: sets are appended on a raw shingled drive, and inserted into the holes that dead
//! sets leave.
//!
//! ```text
//!   1  | set 1 | set 2 | set 3 |                              >  append at the frontier
//!   2  | free  | set 2 | set 3 |                                 set 1 is dead
//!   3  | set 4 |guard| set 2 | set 3 |                           inserted: it fits with its guard
//!   4  | set 4 | set 5 |guard| set 2 | set 3 |                   set 5 needs no guard from set 4
//!        \____ band ___/     \____ band ____/                    a band ends where a guard begins
//! ```
//!
//! A write destroys the tracks that follow it, so they must hold nothing valid. Appending is always
//! safe. A hole takes a set that leaves a guard before the valid data after the hole. The guard is
//! the last track written and `overlap_tracks` more, computed from the drive's geometry (SEALDB
//! allows for 4 MB). The rest of the hole stays free, and the next set goes directly after the last
//! one: only the last write before valid data has a guard.
//!
//! Holes are kept in lists by the length that fits, in classes of one table. A set takes a hole of
//! the smallest class that holds it; if there is none it is appended at the frontier. A hole that
//! is too short for anything is a *fragment*, until a neighbour dies and the two coalesce.
//!
//! A set that fits neither a hole nor the rest of the drive is cut, as in `sets`. Sets are moved as there, and
//! so is what lies between holes that are no longer than their guards.
//!
//! Invariants: U1 to U3 of `space::unzoned`; J1 and J2 of `space::islands`; K1 to K3 of `space::emptying`.
//! Source: SEALDB, sections III-B and III-C. Ours are the exact guard, the cutting, and the moving.

use super::options::PlacementOptions;
use super::policy::UNITS_NEEDED;
use super::sets::SetPolicy;
use crate::space::Fit;
use imbrex_disk::{Blocks, Geometry, Rule};

pub(super) const NAME: &str = "dynamic-bands";

#[derive(Debug)]
pub(super) struct DynamicBands {
    options: PlacementOptions,
}

impl DynamicBands {
    pub(super) fn new(options: &PlacementOptions) -> DynamicBands {
        DynamicBands { options: *options }
    }
}

impl SetPolicy for DynamicBands {
    fn name(&self) -> &'static str {
        NAME
    }

    fn suits(&self, geometry: &Geometry) -> Result<(), String> {
        match geometry.rule() {
            Rule::IsolationDistance(_) => Ok(()),
            Rule::Anywhere => Err("the drive is conventional and needs no bands; use sets or \
                 first-fit"
                .to_owned()),
            other => Err(format!(
                "the drive is {}, and bands of chosen length need a raw shingled one",
                other.name()
            )),
        }
    }

    fn room_needed(&self, geometry: &Geometry) -> Blocks {
        let guard_len = match geometry.rule() {
            Rule::IsolationDistance(shingle) => shingle.track_len + shingle.isolation_len(),
            _ => Blocks::ZERO,
        };
        Blocks::new(UNITS_NEEDED * (self.options.unit_len() + guard_len).get())
    }

    fn fit(&self) -> Fit {
        Fit::Tightest
    }

    fn options(&self) -> &PlacementOptions {
        &self.options
    }
}

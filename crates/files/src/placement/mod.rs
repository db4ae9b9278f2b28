//! Placement: the policies that choose where files lie and what to reclaim.
//!
//! ```text
//!   FileRequest {len, hints}  +  SpaceMap   -->  plan             -->  extents      (pure)
//!   Hints                     +  SpaceMap   -->  plan_log_pieces  -->  runs to own  (pure)
//!   how full                  +  SpaceMap   -->  plan_reclaim     -->  a victim     (pure)
//! ```
//!
//! Planners decide and do nothing: they see the space map and return data. `persist`, `log` and
//! `clean` perform the plan and choose nothing. All requests of one `persist` are planned together,
//! so that a policy may lay a group side by side.
//!
//! To add a policy, write one file with a type that implements [`Placement`], and one line in
//! [`TABLE`]. A policy of zones implements `lanes::LanePolicy` instead; one of interlaced tracks
//! `tracks::TrackPolicy`; one of sets `sets::SetPolicy`. A policy of single runs builds on `draft`;
//! the map computes what a drive's tracks allow.

mod band_per_table;
mod draft;
mod dynamic_bands;
mod first_fit;
mod growing;
mod lanes;
mod log_structured;
mod options;
mod policy;
mod sets;
mod track_order;
mod track_positions;
mod track_tiers;
mod tracks;
mod zone_per_level;
mod zone_per_stream;

pub use options::PlacementOptions;
pub(crate) use policy::{FileRequest, Placement, Planned, Rewriting, Urgency, claim_of};

use lanes::InLanes;
use log_structured::{LogStructured, Victim};
use sets::InSets;
use track_order::{Order, TrackOrder};
use track_positions::TrackPositions;
use track_tiers::TrackTiers;
use tracks::OnTracks;
use zone_per_level::ZonePerLevel;
use zone_per_stream::ZonePerStream;

/// A policy by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlacementKind(usize);

type Build = fn(&PlacementOptions) -> Box<dyn Placement>;

/// One line for each policy: its name and its constructor.
const TABLE: &[(&str, Build)] = &[
    (first_fit::NAME, |_| Box::new(first_fit::FirstFit)),
    (sets::NAME, |o| Box::new(InSets(sets::Sets::new(o)))),
    (dynamic_bands::NAME, |o| Box::new(InSets(dynamic_bands::DynamicBands::new(o)))),
    (band_per_table::NAME, |_| Box::new(band_per_table::BandPerTable)),
    (log_structured::GREEDY, |o| Box::new(InLanes(LogStructured::new(Victim::Greedy, o)))),
    (log_structured::COST_BENEFIT, |o| {
        Box::new(InLanes(LogStructured::new(Victim::CostBenefit, o)))
    }),
    (zone_per_level::NAME, |o| Box::new(InLanes(ZonePerLevel::new(o)))),
    (zone_per_stream::NAME, |o| Box::new(InLanes(ZonePerStream::new(o)))),
    (track_order::SEQUENTIAL, |o| Box::new(OnTracks(TrackOrder::new(Order::Sequential, o)))),
    (track_order::THREE_PHASE, |o| Box::new(OnTracks(TrackOrder::new(Order::ThreePhase, o)))),
    (track_tiers::NAIVE, |o| Box::new(OnTracks(TrackTiers::new(Rewriting::Naive, o)))),
    (track_tiers::MERGED, |o| Box::new(OnTracks(TrackTiers::new(Rewriting::Merged, o)))),
    (track_tiers::FULLEST, |o| Box::new(OnTracks(TrackTiers::from_fullest(o)))),
    (track_positions::NAME, |o| Box::new(OnTracks(TrackPositions::new(o)))),
];

impl PlacementKind {
    /// The policy called `name`.
    pub fn by_name(name: &str) -> Option<PlacementKind> {
        TABLE.iter().position(|(known, _)| *known == name).map(PlacementKind)
    }

    /// All names, in order.
    pub fn names() -> impl Iterator<Item = &'static str> {
        TABLE.iter().map(|(name, _)| *name)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        TABLE[self.0].0
    }

    /// The policy itself, with its default parameters.
    pub fn build(self) -> Box<dyn Placement> {
        self.build_with(&PlacementOptions::default())
    }

    /// The policy itself.
    pub fn build_with(self, options: &PlacementOptions) -> Box<dyn Placement> {
        TABLE[self.0].1(options)
    }
}

impl std::fmt::Display for PlacementKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod band_tests;
#[cfg(test)]
mod tests;

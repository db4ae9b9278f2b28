//! Placement: the policies that choose where files lie and what to reclaim.
//!
//! ```text
//!   FileRequest {len, hints}  +  SpaceMap   -->  plan          -->  extents      (pure)
//!   Hints                     +  SpaceMap   -->  plan_log      -->  a run to own (pure)
//!   how full                  +  SpaceMap   -->  plan_reclaim  -->  a victim     (pure)
//! ```
//!
//! Planners decide and do nothing: they see the space map and return data; `persist`, `log` and
//! `clean` do what the plan says and choose nothing. All requests of one `persist` are planned
//! together, so that a policy may lay a group side by side.
//!
//! To add a policy: one file with a type that implements [`Placement`], and one line in [`TABLE`].
//! A policy that thinks in zones builds on `lanes`; one that thinks in runs of blocks on `draft`, for
//! which the map computes what a drive's tracks allow; one that thinks in interlaced tracks on `tracks`.

mod band_per_table;
mod draft;
mod dynamic_bands;
mod first_fit;
mod growing;
mod lanes;
mod log_structured;
mod sets;
mod track_order;
mod track_tiers;
mod tracks;
mod zone_per_level;

use crate::extent::Extent;
use crate::hints::Hints;
use crate::room::CommitKind;
use crate::space::{CLASS_LEN, Claim, Lane, NoSpace, SpaceMap};
use draft::Draft;
use imbrex_disk::{BlockRange, Blocks, Geometry};
use log_structured::{LogStructured, Victim};
use std::fmt::Debug;
use track_order::{Order, TrackOrder};
use track_tiers::TrackTiers;
use zone_per_level::ZonePerLevel;

/// A file to be placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileRequest {
    /// How long it is.
    pub len_bytes: u64,
    /// What its writer knows about it.
    pub hints: Hints,
    /// Whether it is moved by cleaning rather than new.
    pub is_moved: bool,
}

impl FileRequest {
    /// How many blocks it needs.
    pub fn blocks(&self) -> Blocks {
        Blocks::holding(self.len_bytes)
    }

    /// As if it were so long: for a piece of it that goes on in another zone.
    pub(crate) fn piece(&self, len_bytes: u64) -> FileRequest {
        FileRequest { len_bytes, ..*self }
    }

    /// How deep into the reserve it may go.
    pub fn claim(&self) -> Claim {
        match (self.is_moved, self.hints.purpose) {
            (true, _) => Claim::Cleaning,
            (false, CommitKind::Ordinary) => Claim::Normal,
            (false, CommitKind::Upkeep | CommitKind::Recovery) => Claim::Reserve,
        }
    }
}

/// Where a file goes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Planned {
    /// Its extents, in order.
    pub extents: Vec<Extent>,
    /// The run that it shares with its neighbours in the plan, who name the same, and that is given
    /// back as a whole; `None` if every extent is given back by itself, or with its zone.
    pub span: Option<BlockRange>,
}

impl Planned {
    fn alone(extents: Vec<Extent>) -> Planned {
        Planned { extents, span: None }
    }
}

/// Why a policy is asked what to reclaim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Urgency {
    /// There is time: reclaim only if the policy wants more free space.
    Background,
    /// A write does not fit: reclaim whatever can be.
    NoSpace,
}

/// How a bottom track of an interlaced disk is written below live data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rewriting {
    /// Track by track.
    Naive,
    /// All tracks of a table together.
    Merged,
}

/// A policy. All calls are pure.
pub trait Placement: Send + Sync + Debug {
    /// Its name, as users write it and the catalog records it.
    fn name(&self) -> &'static str;

    /// Whether it can live on a disk of this geometry; else why not and what would do.
    ///
    /// # Errors
    /// The reason, for [`FilesError::Unsuitable`](crate::FilesError::Unsuitable).
    fn suits(&self, geometry: &Geometry) -> Result<(), String>;

    /// Whether it can have lived on a disk of this geometry, which is enough to read what it wrote; else
    /// why not.
    ///
    /// # Errors
    /// As [`Placement::suits`].
    fn reads(&self, geometry: &Geometry) -> Result<(), String> {
        self.suits(geometry)
    }

    /// How much room for files it needs at least on a disk of this geometry without zones.
    fn room_needed(&self, geometry: &Geometry) -> Blocks {
        let _ = geometry;
        Blocks::ZERO
    }

    /// How many zones for files a disk must have, if it has zones: two are the reserve, one takes a
    /// log, one takes tables.
    fn zones_needed(&self) -> usize {
        4
    }

    /// Which files share an open zone with this one, or with this piece of one, where zones hold `zone`;
    /// means nothing on a disk without zones.
    fn lane(&self, _file: &FileRequest, _zone: Blocks) -> Lane {
        Lane::Fresh(0)
    }

    /// Whether no two files may share a zone: what a file leaves of its zones stays unused.
    fn keeps_files_apart(&self) -> bool {
        false
    }

    /// Whether files share runs that are given back as a whole, and what lives in one is moved in need: that
    /// needs room.
    fn moves_sets(&self) -> bool {
        false
    }

    /// How tracks with live data above them are written; means nothing where none lie above others.
    fn rewriting(&self) -> Rewriting {
        Rewriting::Merged
    }

    /// Chooses extents for all of `files`, in order. In a zone they start at its `next` block.
    ///
    /// # Errors
    /// [`NoSpace`]: nothing is planned, not even a part.
    fn plan(&self, space: &SpaceMap, files: &[FileRequest]) -> Result<Vec<Planned>, NoSpace>;

    /// Chooses a run for a log that starts or goes on, `owned` long so far: the rest of a zone, or
    /// a piece of a free run. The log gives back what it does not use.
    ///
    /// # Errors
    /// [`NoSpace`].
    fn plan_log(
        &self,
        space: &SpaceMap,
        hints: &Hints,
        owned: Blocks,
    ) -> Result<BlockRange, NoSpace>;

    /// The same as several runs, where a single one would be too short to be worth a record of the
    /// catalog.
    ///
    /// # Errors
    /// [`NoSpace`].
    fn plan_log_pieces(
        &self,
        space: &SpaceMap,
        hints: &Hints,
        owned: Blocks,
    ) -> Result<Vec<BlockRange>, NoSpace> {
        self.plan_log(space, hints, owned).map(|run| vec![run])
    }

    /// Chooses the next run of blocks whose live extents should move elsewhere; `None` if nothing
    /// is worth it.
    fn plan_reclaim(&self, _space: &SpaceMap, _urgency: Urgency) -> Option<BlockRange> {
        None
    }
}

/// A policy by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlacementKind(usize);

/// Numbers for a policy, recorded in the catalog with its name; a zero stands for the policy's own
/// number, and what a policy has no use for it does not look at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlacementOptions {
    /// Cleaning in the background starts when less than this share of the space is free, in percent.
    pub free_percent_least: u8,
    /// The length of the unit that the policy thinks in: a table where free space is kept in lists
    /// by that length.
    pub unit_len: Blocks,
}

impl PlacementOptions {
    /// # Errors
    /// What is wrong, in words.
    pub(crate) fn check(&self) -> Result<(), String> {
        let Self { free_percent_least, unit_len } = *self;
        if free_percent_least > 100 {
            return Err(format!(
                "cleaning below {free_percent_least} % free; at most 100 % can be"
            ));
        }
        if unit_len > UNIT_LEN_MAX {
            return Err(format!("a unit of {unit_len}; at most {UNIT_LEN_MAX} can be"));
        }
        Ok(())
    }

    fn unit_len(&self) -> Blocks {
        if self.unit_len.is_zero() { CLASS_LEN } else { self.unit_len }
    }

    pub(crate) fn free_percent_or(&self, own: u8) -> u8 {
        if self.free_percent_least == 0 { own } else { self.free_percent_least }
    }
}

/// 4 GiB: longer than any table.
const UNIT_LEN_MAX: Blocks = Blocks::new(1 << 20);

type Build = fn(&PlacementOptions) -> Box<dyn Placement>;

/// One line a policy: its name, and what makes it.
const TABLE: &[(&str, Build)] = &[
    (first_fit::NAME, |_| Box::new(first_fit::FirstFit)),
    (sets::NAME, |o| Box::new(sets::Sets::new(o))),
    (dynamic_bands::NAME, |o| Box::new(dynamic_bands::DynamicBands::new(o))),
    (band_per_table::NAME, |_| Box::new(band_per_table::BandPerTable)),
    (log_structured::GREEDY, |o| Box::new(LogStructured::new(Victim::Greedy, o))),
    (log_structured::COST_BENEFIT, |o| Box::new(LogStructured::new(Victim::CostBenefit, o))),
    (zone_per_level::NAME, |o| Box::new(ZonePerLevel::new(o))),
    (track_order::SEQUENTIAL, |o| Box::new(TrackOrder::new(Order::Sequential, o))),
    (track_order::THREE_PHASE, |o| Box::new(TrackOrder::new(Order::ThreePhase, o))),
    (track_tiers::NAIVE, |o| Box::new(TrackTiers::new(Rewriting::Naive, o))),
    (track_tiers::MERGED, |o| Box::new(TrackTiers::new(Rewriting::Merged, o))),
    (track_tiers::FULLEST, |o| Box::new(TrackTiers::from_fullest(o))),
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

    /// The policy itself, with its own numbers.
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

/// What a drive must hold: a log, its successor, a set being written and one that it replaces.
const UNITS_NEEDED: u64 = 4;

/// Checks that the space for `files` is there, each by its own claim.
fn admit(space: &SpaceMap, files: &[FileRequest]) -> Result<(), NoSpace> {
    let needed: Blocks = files.iter().map(FileRequest::blocks).sum();
    space.admit(needed, claim_of(files))
}

/// How deep into the reserve files may go that are placed together.
pub(crate) fn claim_of(files: &[FileRequest]) -> Claim {
    if files.iter().all(|f| f.is_moved) {
        Claim::Cleaning
    } else if files.iter().all(|f| f.claim() != Claim::Normal) {
        Claim::Reserve
    } else {
        Claim::Normal
    }
}

#[cfg(test)]
mod band_tests;
#[cfg(test)]
mod tests;

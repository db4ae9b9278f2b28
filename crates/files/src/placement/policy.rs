//! The trait [`Placement`]: the questions that a policy answers, and the plans that it returns.

use crate::extent::Extent;
use crate::hints::Hints;
use crate::room::CommitKind;
use crate::space::{Claim, Lane, NoSpace, SpaceMap};
use imbrex_disk::{BlockRange, Blocks, Geometry};
use std::fmt::Debug;

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
    pub(super) fn alone(extents: Vec<Extent>) -> Planned {
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

    /// Chooses runs for a log that starts or goes on, `owned` long so far: the rest of a zone, or
    /// pieces of free runs, several where a single one would be too short to be worth a record of the
    /// catalog. The log gives back what it does not use.
    ///
    /// # Errors
    /// [`NoSpace`].
    fn plan_log_pieces(
        &self,
        space: &SpaceMap,
        hints: &Hints,
        owned: Blocks,
    ) -> Result<Vec<BlockRange>, NoSpace>;

    /// Chooses the next run of blocks whose live extents should move elsewhere; `None` if nothing
    /// is worth it.
    fn plan_reclaim(&self, _space: &SpaceMap, _urgency: Urgency) -> Option<BlockRange> {
        None
    }
}

/// What a drive must hold: a log, its successor, a set being written and one that it replaces.
pub(super) const UNITS_NEEDED: u64 = 4;

/// Checks that the space for `files` is there, each by its own claim.
pub(super) fn admit(space: &SpaceMap, files: &[FileRequest]) -> Result<(), NoSpace> {
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

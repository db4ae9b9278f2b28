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
    /// Its length.
    pub len_bytes: u64,
    /// What its writer knows about it.
    pub hints: Hints,
    /// Whether cleaning moves it, as opposed to a new file.
    pub is_moved: bool,
}

impl FileRequest {
    /// How many blocks it needs.
    pub fn blocks(&self) -> Blocks {
        Blocks::holding(self.len_bytes)
    }

    /// A request for a piece of the file, of that length, which goes to another zone.
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

/// The blocks chosen for a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Planned {
    /// Its extents, in order.
    pub extents: Vec<Extent>,
    /// The run that it shares with its neighbours in the plan, which name the same run. The run is
    /// given back as a whole. `None` if each extent is given back by itself, or with its zone.
    pub span: Option<BlockRange>,
}

impl Planned {
    pub(super) fn alone(extents: Vec<Extent>) -> Planned {
        Planned { extents, span: None }
    }
}

/// Why a policy is asked for a victim.
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

/// A placement policy. All calls are pure.
pub trait Placement: Send + Sync + Debug {
    /// Its name, which users write and the catalog records.
    fn name(&self) -> &'static str;

    /// Whether it suits a disk of this geometry.
    ///
    /// # Errors
    /// The reason why not, and what would suit, for
    /// [`FilesError::Unsuitable`](crate::FilesError::Unsuitable).
    fn suits(&self, geometry: &Geometry) -> Result<(), String>;

    /// Whether it can have written a disk of this geometry, which is enough to read the disk.
    ///
    /// # Errors
    /// As for [`Placement::suits`].
    fn reads(&self, geometry: &Geometry) -> Result<(), String> {
        self.suits(geometry)
    }

    /// The least room for files that it needs on a disk of this geometry without zones.
    fn room_needed(&self, geometry: &Geometry) -> Blocks {
        let _ = geometry;
        Blocks::ZERO
    }

    /// How many zones for files a zoned disk must have: two are the reserve, one takes a log, one
    /// takes tables.
    fn zones_needed(&self) -> usize {
        4
    }

    /// The lane of this file, or of this piece of one, where zones hold `zone` blocks: files of one
    /// lane share an open zone. Without meaning on a disk without zones.
    fn lane(&self, _file: &FileRequest, _zone: Blocks) -> Lane {
        Lane::Fresh(0)
    }

    /// Whether no two files may share a zone, so that the rest of a file's last zone stays unused.
    fn keeps_files_apart(&self) -> bool {
        false
    }

    /// Whether files share runs that are given back as a whole, and the live files in one are moved
    /// if need be. Moving them takes room.
    fn moves_sets(&self) -> bool {
        false
    }

    /// How tracks with live data above them are written. Without meaning where no track lies above
    /// another.
    fn rewriting(&self) -> Rewriting {
        Rewriting::Merged
    }

    /// Chooses extents for all of `files`, in order. In a zone they start at its `next` block.
    ///
    /// # Errors
    /// [`NoSpace`]: nothing is planned, not even a part.
    fn plan(&self, space: &SpaceMap, files: &[FileRequest]) -> Result<Vec<Planned>, NoSpace>;

    /// Chooses runs for a log that begins or continues, and owns `owned` blocks so far: the rest of
    /// a zone, or pieces of free runs. There are several where a single one would be too short to
    /// be worth a catalog record. The log gives back what it does not use.
    ///
    /// # Errors
    /// [`NoSpace`].
    fn plan_log_pieces(
        &self,
        space: &SpaceMap,
        hints: &Hints,
        owned: Blocks,
    ) -> Result<Vec<BlockRange>, NoSpace>;

    /// Chooses the next run of blocks whose live extents should move elsewhere; `None` if none is
    /// worth it.
    fn plan_reclaim(&self, _space: &SpaceMap, _urgency: Urgency) -> Option<BlockRange> {
        None
    }
}

/// How many units a drive must hold: a log, its successor, a set that is being written and one that
/// it replaces.
pub(super) const UNITS_NEEDED: u64 = 4;

/// Checks that there is space for `files`, under their claim.
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

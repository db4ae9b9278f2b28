//! What a writer knows about a file before it is placed.

use crate::room::CommitKind;
use imbrex_disk::Activity;

/// What a file holds: the coarsest hint about its use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FileKind {
    /// Appended in small pieces, read only at recovery, short-lived.
    Log,
    /// Written once, read at random, removed by compaction.
    Table,
    /// Small, rewritten often.
    Metadata,
    /// Anything else.
    Other,
}

/// The compaction or flush that wrote a file. Files of one group tend to be read together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupId(pub u64);

/// The drive of a pair that should hold a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tier {
    /// The drive whose catalog decides, or the only drive.
    #[default]
    Main,
    /// The flash drive, while it has room.
    Fast,
}

/// What the writer knows about a file, for the placement to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hints {
    /// What it holds.
    pub kind: FileKind,
    /// Its level in an LSM-tree, 0 the youngest; 0 for files without a level.
    pub level: u8,
    /// The compaction that wrote it.
    pub group: Option<GroupId>,
    /// Its stream: files of one stream are expected to die together.
    pub stream: u32,
    /// Where its keys are among all keys, in 65,536ths: files of near positions are read together.
    /// The catalog does not keep it.
    pub position: Option<u16>,
    /// Its final length, if it is known before the file is written.
    pub expected_len_bytes: Option<u64>,
    /// The purpose of the file, which decides how deep into the reserve it may go. The reserve lets
    /// a full drive be emptied.
    pub purpose: CommitKind,
    /// What writing it serves, for the drive's counters.
    pub activity: Activity,
    /// The drive that should hold it; only [`TieredFiles`](crate::tiers::TieredFiles) has two.
    pub tier: Tier,
}

/// What is at `position` of `len`.
pub(crate) fn position_in(len: u64, position: u16) -> u64 {
    ((u128::from(len) * u128::from(position)) >> u16::BITS) as u64
}

impl Hints {
    /// Hints for a file of `kind`, all else unknown.
    pub fn new(kind: FileKind) -> Hints {
        let activity = match kind {
            FileKind::Log => Activity::Log,
            FileKind::Metadata => Activity::Catalog,
            FileKind::Table | FileKind::Other => Activity::Other,
        };
        Hints {
            kind,
            level: 0,
            group: None,
            stream: 0,
            position: None,
            expected_len_bytes: None,
            purpose: CommitKind::Ordinary,
            activity,
            tier: Tier::Main,
        }
    }
}

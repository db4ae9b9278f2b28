//! What a writer knows about a file before it is placed.

use crate::room::CommitKind;

/// What a file holds: the coarsest hint about how it will be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FileKind {
    /// Appended in small pieces, read only at recovery, dies soon.
    Log,
    /// Written once, read at random, dies by compaction.
    Table,
    /// Small, rewritten often.
    Metadata,
    /// Anything else.
    Other,
}

/// The compaction (or flush) that wrote a file; files of one group tend to be read together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupId(pub u64);

/// Which drive of a pair a file should lie on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tier {
    /// The drive whose catalog decides; where there is only one drive, that.
    #[default]
    Main,
    /// The flash drive beside it, as long as it has room.
    Fast,
}

/// What the writer knows about a file and the placement may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hints {
    /// What it holds.
    pub kind: FileKind,
    /// Its level in an LSM-tree, 0 the youngest; 0 where that means nothing.
    pub level: u8,
    /// Which compaction wrote it.
    pub group: Option<GroupId>,
    /// Files of one stream are expected to die together.
    pub stream: u32,
    /// How long it will get, if known before it is written.
    pub expected_len_bytes: Option<u64>,
    /// What it is written for, and so how deep into the reserve it may go, which is kept so that a
    /// full drive can be emptied.
    pub purpose: CommitKind,
    /// Which drive it should lie on; only [`TieredFiles`](crate::tiers::TieredFiles) has two.
    pub tier: Tier,
}

impl Hints {
    /// Hints for a file of `kind`, all else unknown.
    pub fn new(kind: FileKind) -> Hints {
        Hints {
            kind,
            level: 0,
            group: None,
            stream: 0,
            expected_len_bytes: None,
            purpose: CommitKind::Ordinary,
            tier: Tier::Main,
        }
    }
}

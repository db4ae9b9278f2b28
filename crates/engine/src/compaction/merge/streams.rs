//! Streams: which of a merge's tables are to lie together, and where.
//!
//! ```text
//!   keys         a ........ g ............ p ........ z
//!   partitions   |    0     |      1       |    2     |     above the base: one stream each
//!   base         [==][==][==][==][==][==][==][==][==]       one stream, in key order
//!   the drive    0  .........................  65,536       a table's position: that of its keys in the base
//! ```
//!
//! The tables of one partition die together, so they are one stream. Tables of the same keys are read
//! together, by scans and by base merges, so they get the same position, and the arm moves little.
//!
//! Not here: what a placement does with either (`imbrex_files::placement`).

use crate::batch::KeyspaceId;
use crate::version::partitions::BASE_LEVEL;
use crate::version::{KeyRange, Version};
use bytes::Bytes;

/// The number of positions.
const POSITION_COUNT: usize = 1 << 16;

/// The streams of one output of a merge.
#[derive(Debug)]
pub(crate) struct Streams {
    keyspace: KeyspaceId,
    /// Ascending, without the first stream, which begins before all keys.
    starts: Vec<Bytes>,
    /// Where positions change: each counts from a key on.
    positions: Vec<(Bytes, u16)>,
}

impl Streams {
    /// One stream without a position.
    pub(crate) fn one(keyspace: KeyspaceId) -> Streams {
        Streams { keyspace, starts: Vec::new(), positions: Vec::new() }
    }

    /// A stream for each partition, at the middle of what the partition has of the base.
    pub(crate) fn of_partitions(keyspace: KeyspaceId, version: &Version) -> Streams {
        let partitions = &version.partitions;
        let positions = (0..partitions.count()).filter_map(|at| {
            let start = partitions.start(at);
            let first = base_index(version, &start);
            let end = partitions.end(at).map_or(base_len(version), |end| base_index(version, &end));
            position_of(version, (first + end) / 2).map(|position| (start, position))
        });
        Streams { keyspace, starts: partitions.cuts.clone(), positions: positions.collect() }
    }

    /// One stream for tables of the base that replace those of `range`.
    pub(crate) fn of_base(keyspace: KeyspaceId, version: &Version, range: &KeyRange) -> Streams {
        let first = base_index(version, &range.smallest);
        let replaced = version.levels[usize::from(BASE_LEVEL)].runs.iter();
        let replaced = replaced.flat_map(|run| run.overlapping(range)).enumerate();
        let mut positions: Vec<(Bytes, u16)> = replaced
            .filter_map(|(at, slot)| {
                position_of(version, first + at)
                    .map(|position| (slot.meta.smallest.clone(), position))
            })
            .collect();
        // Keys before the first table are at its place.
        if let Some((start, _)) = positions.first_mut() {
            *start = Bytes::new();
        }
        Streams { keyspace, starts: Vec::new(), positions }
    }

    /// The number of the stream of a table that begins at `user_key`. A partition keeps its stream when
    /// others are split, because only its own first key counts.
    pub(crate) fn number(&self, user_key: &[u8]) -> u32 {
        let at = self.starts.partition_point(|start| &start[..] <= user_key);
        let start = at.checked_sub(1).map(|before| &self.starts[before]);
        start.map_or(self.keyspace.0, |start| crc32c::crc32c_append(self.keyspace.0, start))
    }

    /// The position of a table that begins at `user_key`, if it has one.
    pub(crate) fn position(&self, user_key: &[u8]) -> Option<u16> {
        let at = self.positions.partition_point(|(start, _)| &start[..] <= user_key);
        at.checked_sub(1).map(|before| self.positions[before].1)
    }
}

fn base_len(version: &Version) -> usize {
    version.levels[usize::from(BASE_LEVEL)].runs.iter().map(|run| run.tables.len()).sum()
}

/// How many tables of the base end before `user_key`.
fn base_index(version: &Version, user_key: &[u8]) -> usize {
    let runs = &version.levels[usize::from(BASE_LEVEL)].runs;
    runs.iter().map(|run| run.tables.partition_point(|t| t.meta.ends_before(user_key))).sum()
}

/// The position of the table of the base at `index`. There is none after the last one: what is appended
/// goes where the drive is empty.
fn position_of(version: &Version, index: usize) -> Option<u16> {
    let len = base_len(version);
    (index < len).then(|| (index * POSITION_COUNT / len) as u16)
}

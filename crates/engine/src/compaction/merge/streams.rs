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
    positions: Vec<(Bytes, Option<u16>)>,
}

impl Streams {
    /// One stream without a position.
    pub(crate) fn one(keyspace: KeyspaceId) -> Streams {
        Streams { keyspace, starts: Vec::new(), positions: Vec::new() }
    }

    /// A stream for each partition, at the middle of what the partition has of the base.
    pub(crate) fn of_partitions(keyspace: KeyspaceId, version: &Version) -> Streams {
        let partitions = &version.partitions;
        let positions = (0..partitions.count()).map(|at| {
            let start = partitions.start(at);
            let first = base_index(version, &start);
            let end = partitions.end(at).map_or(base_len(version), |end| base_index(version, &end));
            (start, position_of(version, (first + end) / 2))
        });
        Streams { keyspace, starts: partitions.cuts.clone(), positions: positions.collect() }
    }

    /// One stream for tables of the base that replace those of `range`.
    pub(crate) fn of_base(keyspace: KeyspaceId, version: &Version, range: &KeyRange) -> Streams {
        let first = base_index(version, &range.smallest);
        let replaced = version.levels[usize::from(BASE_LEVEL)].runs.iter();
        let replaced = replaced.flat_map(|run| run.overlapping(range)).enumerate();
        let mut positions: Vec<(Bytes, Option<u16>)> = replaced
            .map(|(at, slot)| (slot.meta.smallest.clone(), position_of(version, first + at)))
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
        at.checked_sub(1).and_then(|before| self.positions[before].1)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::Seq;
    use crate::version::{RunId, TableId, TableMeta, TableSlot};
    use imbrex_files::GroupId;

    fn version(base: &[(&'static str, &'static str)], cuts: &[&'static str]) -> Version {
        let mut version = Version::default();
        for (id, (smallest, largest)) in (1..).zip(base) {
            let meta = TableMeta {
                id: TableId(id),
                len_bytes: 4096,
                smallest: Bytes::from_static(smallest.as_bytes()),
                largest: Bytes::from_static(largest.as_bytes()),
                largest_excluded: false,
                seq_min: Seq(1),
                seq_max: Seq(1),
                entry_count: 2,
                delete_count: 0,
                range_tombstone_count: 0,
                raw_len_bytes: 8192,
                group: GroupId(id),
                group_table_count: 1,
                is_logged: false,
                has_front: false,
            };
            version.insert(BASE_LEVEL, RunId::ONLY, TableSlot::new(meta));
        }
        version.partitions.cuts =
            cuts.iter().map(|cut| Bytes::from_static(cut.as_bytes())).collect();
        version
    }

    const BASE: [(&str, &str); 4] = [("b", "c"), ("e", "f"), ("h", "i"), ("k", "l")];

    #[test]
    fn a_partition_s_tables_lie_at_its_middle() {
        let streams = Streams::of_partitions(KeyspaceId(0), &version(&BASE, &["h"]));
        let at = |key: &str| streams.position(key.as_bytes());
        assert_eq!([at("a"), at("g"), at("h"), at("z")], [1, 1, 3, 3].map(|q| Some(q << 14)));
        let number = |key: &str| streams.number(key.as_bytes());
        assert!(number("a") == number("g") && number("g") != number("h"));
        let split = Streams::of_partitions(KeyspaceId(0), &version(&BASE, &["e", "h"]));
        assert_eq!(split.number(b"h"), number("h"), "another partition's split changes nothing");
        assert_ne!(Streams::one(KeyspaceId(1)).number(b"a"), number("a"));
    }

    #[test]
    fn a_table_of_the_base_lies_where_the_one_was_that_it_replaces() {
        let range =
            KeyRange::of(version(&BASE[1..3], &[]).tables().map(|slot| &slot.meta)).unwrap();
        let streams = Streams::of_base(KeyspaceId(0), &version(&BASE, &[]), &range);
        let at = |key: &str| streams.position(key.as_bytes());
        assert_eq!([at("a"), at("e"), at("g"), at("h")], [1, 1, 1, 2].map(|q| Some(q << 14)));
    }

    #[test]
    fn what_is_appended_has_no_position() {
        let version = version(&BASE, &["m"]);
        assert_eq!(Streams::of_partitions(KeyspaceId(0), &version).position(b"z"), None);
        let empty = Version::default();
        assert_eq!(Streams::of_partitions(KeyspaceId(0), &empty).position(b"a"), None);
        assert_eq!(Streams::one(KeyspaceId(0)).position(b"a"), None);
    }
}

//! The origin of a table: what it says about the store that wrote it, for a drive whose catalog is lost.
//!
//! ```text
//!   origin    store, keyspace, level, run     where the table belongs
//!             group, part, inputs, logs       what it replaces: the tables and logs that its writer read
//!             stamp                           after which commit it was written
//!   roster    all tables of the keyspace, all keyspaces, at that commit
//! ```
//!
//! The newest roster on a drive says which of the tables found there were alive. Tables that are
//! younger than it name what they replace.
//!
//! Both are in the properties, and only a salvage decodes them: a roster grows with the store, and
//! an open table must not.
//!
//! Not here: what follows from many origins (`salvage::lineage`).

use super::varint::{put_varint, read_len, read_varint};

/// The version of the form of an origin and of a roster.
const FORM: u64 = 1;
/// The version of the form of a roster with fronts.
const FORM_WITH_FRONTS: u64 = 2;

const IS_LAST: u64 = 1;
const HAS_LOGS: u64 = 2;
const LARGEST_IS_EXCLUDED: u64 = 4;
const HAS_STOP: u64 = 8;

/// A commit of a store, in the order of all its commits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Stamp {
    /// The next number for tables and logs when the store was opened.
    pub(crate) epoch: u64,
    /// The number of commits since then.
    pub(crate) commit_count: u64,
}

/// Which part of the output of a merge a table is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Part {
    /// The index of the output, of `output_count`: a merge may write to several levels.
    pub(crate) output: u64,
    pub(crate) output_count: u64,
    /// The number of tables of the output before this one.
    pub(crate) number: u64,
    /// Whether no table of the output follows. It may be false in the last one.
    pub(crate) is_last: bool,
}

/// Where a table comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Origin {
    /// Distinguishes the store from others that the drive held before.
    pub(crate) store_id: u64,
    pub(crate) keyspace: u32,
    pub(crate) level: u8,
    pub(crate) run: u64,
    /// The flush or compaction that wrote the table.
    pub(crate) group: u64,
    pub(crate) stamp: Stamp,
    pub(crate) part: Part,
    /// The tables that the compaction read; none for a flush.
    pub(crate) inputs: Vec<u64>,
    /// The first log of the flushed memtable, and the first log after it.
    pub(crate) logs: Option<(u64, u64)>,
    /// The largest key of the properties is the end of a range tombstone, and not in the table.
    pub(crate) largest_is_excluded: bool,
    /// Where the compaction stopped before the end of its inputs.
    pub(crate) stop: Option<StopMark>,
}

/// Where a compaction stopped before the end of its inputs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct StopMark {
    /// The first key that it did not read.
    pub(crate) until: Vec<u8>,
    /// The tables that it read up to there. They are not among the inputs.
    pub(crate) kept: Vec<u64>,
}

impl Origin {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let flags = if self.part.is_last { IS_LAST } else { 0 }
            | if self.logs.is_some() { HAS_LOGS } else { 0 }
            | if self.largest_is_excluded { LARGEST_IS_EXCLUDED } else { 0 }
            | if self.stop.is_some() { HAS_STOP } else { 0 };
        put_varint(&mut out, FORM);
        out.extend_from_slice(&self.store_id.to_le_bytes());
        for number in [
            flags,
            self.keyspace.into(),
            self.level.into(),
            self.run,
            self.group,
            self.stamp.epoch,
            self.stamp.commit_count,
            self.part.output,
            self.part.output_count,
            self.part.number,
        ] {
            put_varint(&mut out, number);
        }
        if let Some((first, end)) = self.logs {
            put_varint(&mut out, first);
            put_varint(&mut out, end);
        }
        put_ids(&mut out, &self.inputs);
        if let Some(StopMark { until, kept }) = &self.stop {
            put_bytes(&mut out, until);
            put_ids(&mut out, kept);
        }
        out
    }

    /// Decodes the bytes that [`Origin::encode`] returned; `None` if they are something else.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Origin> {
        let mut at = 0;
        if read_varint(bytes, &mut at)? != FORM {
            return None;
        }
        let store_id = u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?);
        at += 8;
        let mut next = || read_varint(bytes, &mut at);
        let flags = next()?;
        let mut origin = Origin {
            store_id,
            keyspace: u32::try_from(next()?).ok()?,
            level: u8::try_from(next()?).ok()?,
            run: next()?,
            group: next()?,
            stamp: Stamp { epoch: next()?, commit_count: next()? },
            part: Part {
                output: next()?,
                output_count: next()?,
                number: next()?,
                is_last: flags & IS_LAST != 0,
            },
            inputs: Vec::new(),
            logs: None,
            largest_is_excluded: flags & LARGEST_IS_EXCLUDED != 0,
            stop: None,
        };
        if flags & HAS_LOGS != 0 {
            origin.logs = Some((next()?, next()?));
        }
        origin.inputs = read_ids(bytes, &mut at)?;
        if flags & HAS_STOP != 0 {
            let until = read_bytes(bytes, &mut at)?.to_vec();
            origin.stop = Some(StopMark { until, kept: read_ids(bytes, &mut at)? });
        }
        (at == bytes.len()).then_some(origin)
    }
}

/// A keyspace in a roster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RosterKeyspace {
    pub(crate) id: u32,
    /// The first log that may hold writes of the keyspace that are in no table.
    pub(crate) log_floor: u64,
    /// The newest table of the keyspace that was finished, 0 if there is none.
    pub(crate) newest_table: u64,
    pub(crate) name: String,
}

/// A sorted run in a roster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RosterRun {
    pub(crate) level: u8,
    pub(crate) run: u64,
    /// In key order.
    pub(crate) tables: Vec<u64>,
}

/// All tables of a keyspace at one commit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Roster {
    /// All keyspaces of the store.
    pub(crate) keyspaces: Vec<RosterKeyspace>,
    /// The number that the next keyspace would get.
    pub(crate) next_keyspace: u64,
    /// The newest write in any table of the store.
    pub(crate) last_seq: u64,
    /// The runs of this keyspace, the newest first.
    pub(crate) runs: Vec<RosterRun>,
    /// The mark of each table, in the order of [`Roster::tables`]; see [`mark_of`].
    pub(crate) marks: Vec<u16>,
    /// The tables that are read from a later key on than their first, with that key.
    pub(crate) fronts: Vec<(u64, Vec<u8>)>,
}

/// A number that distinguishes a table from one that a crash left behind before its number was given
/// again. It is of the content: counts, sequence numbers and keys.
pub(crate) fn mark_of(counts: [u64; 5], smallest: &[u8], largest: &[u8]) -> u16 {
    let mut bytes: Vec<u8> = counts.iter().flat_map(|count| count.to_le_bytes()).collect();
    bytes.extend_from_slice(&(smallest.len() as u64).to_le_bytes());
    bytes.extend_from_slice(smallest);
    bytes.extend_from_slice(largest);
    crc32c::crc32c(&bytes) as u16
}

impl Roster {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        put_varint(&mut out, if self.fronts.is_empty() { FORM } else { FORM_WITH_FRONTS });
        put_varint(&mut out, self.next_keyspace);
        put_varint(&mut out, self.last_seq);
        put_varint(&mut out, self.keyspaces.len() as u64);
        for keyspace in &self.keyspaces {
            put_varint(&mut out, keyspace.id.into());
            put_varint(&mut out, keyspace.log_floor);
            put_varint(&mut out, keyspace.newest_table);
            put_varint(&mut out, keyspace.name.len() as u64);
            out.extend_from_slice(keyspace.name.as_bytes());
        }
        put_varint(&mut out, self.runs.len() as u64);
        for run in &self.runs {
            put_varint(&mut out, run.level.into());
            put_varint(&mut out, run.run);
            put_ids(&mut out, &run.tables);
        }
        if !self.fronts.is_empty() {
            put_varint(&mut out, self.fronts.len() as u64);
        }
        for (table, front) in &self.fronts {
            put_varint(&mut out, *table);
            put_bytes(&mut out, front);
        }
        for mark in &self.marks {
            out.extend_from_slice(&mark.to_le_bytes());
        }
        out
    }

    /// Decodes the bytes that [`Roster::encode`] returned; `None` if they are something else.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Roster> {
        let mut at = 0;
        let form = read_varint(bytes, &mut at)?;
        if form != FORM && form != FORM_WITH_FRONTS {
            return None;
        }
        let mut roster = Roster {
            next_keyspace: read_varint(bytes, &mut at)?,
            last_seq: read_varint(bytes, &mut at)?,
            ..Roster::default()
        };
        for _ in 0..read_varint(bytes, &mut at)? {
            let id = u32::try_from(read_varint(bytes, &mut at)?).ok()?;
            let log_floor = read_varint(bytes, &mut at)?;
            let newest_table = read_varint(bytes, &mut at)?;
            let len_bytes = read_len(bytes, &mut at)?;
            let name = bytes.get(at..at.checked_add(len_bytes)?)?;
            at += len_bytes;
            let name = std::str::from_utf8(name).ok()?.to_owned();
            roster.keyspaces.push(RosterKeyspace { id, log_floor, newest_table, name });
        }
        for _ in 0..read_varint(bytes, &mut at)? {
            let level = u8::try_from(read_varint(bytes, &mut at)?).ok()?;
            let run = read_varint(bytes, &mut at)?;
            roster.runs.push(RosterRun { level, run, tables: read_ids(bytes, &mut at)? });
        }
        if form == FORM_WITH_FRONTS {
            for _ in 0..read_varint(bytes, &mut at)? {
                let table = read_varint(bytes, &mut at)?;
                roster.fronts.push((table, read_bytes(bytes, &mut at)?.to_vec()));
            }
        }
        let marks = bytes.get(at..)?.chunks_exact(2);
        let is_whole = marks.remainder().is_empty() && marks.len() == roster.tables().count();
        roster.marks = marks.map(|mark| u16::from_le_bytes([mark[0], mark[1]])).collect();
        is_whole.then_some(roster)
    }

    /// All tables.
    pub(crate) fn tables(&self) -> impl Iterator<Item = u64> + '_ {
        self.runs.iter().flat_map(|run| run.tables.iter().copied())
    }
}

/// Appends the length of `bytes`, and them.
fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn read_bytes<'a>(bytes: &'a [u8], at: &mut usize) -> Option<&'a [u8]> {
    let len_bytes = read_len(bytes, at)?;
    let read = bytes.get(*at..at.checked_add(len_bytes)?)?;
    *at += len_bytes;
    Some(read)
}

/// Appends a list of numbers as differences, because neighbours are often written together.
fn put_ids(out: &mut Vec<u8>, ids: &[u64]) {
    put_varint(out, ids.len() as u64);
    let mut before = 0_u64;
    for &id in ids {
        let step = id.wrapping_sub(before) as i64;
        put_varint(out, ((step << 1) ^ (step >> 63)) as u64);
        before = id;
    }
}

fn read_ids(bytes: &[u8], at: &mut usize) -> Option<Vec<u64>> {
    let count = read_len(bytes, at)?;
    let mut ids = Vec::new();
    let mut before = 0_u64;
    for _ in 0..count {
        let coded = read_varint(bytes, at)?;
        let step = (coded >> 1) as i64 ^ -((coded & 1) as i64);
        before = before.wrapping_add(step as u64);
        ids.push(before);
    }
    Some(ids)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trips_and_refuses_what_is_cut() {
        let origin = Origin {
            store_id: 0xfeed,
            keyspace: 3,
            level: 2,
            run: 9,
            group: 400,
            stamp: Stamp { epoch: 17, commit_count: 5 },
            part: Part { output: 1, output_count: 2, number: 7, is_last: true },
            inputs: vec![300, 5, 301, u64::MAX, 0],
            logs: Some((12, 14)),
            largest_is_excluded: true,
            stop: Some(StopMark { until: b"m".to_vec(), kept: vec![7, 9] }),
        };
        let bytes = origin.encode();
        assert_eq!(Origin::decode(&bytes), Some(origin));
        assert!((0..bytes.len()).all(|len| Origin::decode(&bytes[..len]).is_none()));

        let keyspace = |id, name: &str| {
            let name = name.to_owned();
            RosterKeyspace { id, log_floor: 7, newest_table: 300, name }
        };
        let roster = Roster {
            keyspaces: vec![keyspace(0, "default"), keyspace(4, "\u{e4}")],
            next_keyspace: 5,
            last_seq: 1 << 40,
            runs: vec![
                RosterRun { level: 0, run: 8, tables: vec![90, 91] },
                RosterRun { level: 6, run: 0, tables: vec![70, 2, 300] },
            ],
            marks: vec![1, 2, 3, 4, 0xffff],
            fronts: vec![(91, b"key".to_vec()), (2, Vec::new())],
        };
        let bytes = roster.encode();
        assert_eq!(Roster::decode(&bytes), Some(roster));
        assert!((0..bytes.len()).all(|len| Roster::decode(&bytes[..len]).is_none()));
    }
}

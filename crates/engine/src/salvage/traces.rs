//! Traces: the stores that left tables or logs on the drives.
//!
//! A drive that was formatted again still has tables and logs of the store before. The format's id
//! is in the origin of each table, and part of the id of each log.

use super::Place;
use super::join::{Joined, join};
use super::lineage::TableFact;
use super::logs::{LogContent, LogFrames, by_log, content};
use super::scan::{FooterAt, scan};
use crate::EngineError;
use crate::table::{Origin, Roster, TableProperties};
use crate::version::edit::LogId;
use crate::watch::Watch;
use imbrex_files::FileReader;
use imbrex_files::raw::{RawDrive, RawFile};
use imbrex_record_log::BLOCK_LEN_BYTES;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Numbers of logs are below this one.
const LOG_NUMBER_END: u64 = 1 << 32;

/// The low bits of a log's id in which its number is, if the format's id is unknown.
const NUMBER_BITS: u32 = 20;

/// How many borders of found files are tried for an extent.
const NEAR_BORDER_COUNT: usize = 2048;

/// A store that left something on the drives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreTrace {
    /// The id of the drive's format. Of a store without tables it is made up.
    pub id: u64,
    /// The number of its tables, dead ones included.
    pub table_count: usize,
    /// The number of its logs, dead ones included.
    pub log_count: usize,
}

/// A table that was found, perhaps several times.
#[derive(Debug, Default)]
pub(super) struct FoundTable {
    pub(super) spots: Vec<FooterAt>,
    pub(super) fact: TableFact,
    pub(super) properties: Option<TableProperties>,
}

impl FoundTable {
    /// Adds a place of the table. A crash may give the number of a table that was not committed to
    /// another one, so the newest counts.
    fn add(&mut self, at: FooterAt, fact: TableFact, properties: Option<TableProperties>) {
        let stamp = |fact: &TableFact| fact.origin.as_ref().map(|origin| origin.stamp);
        let order = stamp(&fact).cmp(&stamp(&self.fact));
        if order == Ordering::Less {
            return;
        }
        if order == Ordering::Greater {
            self.spots.clear();
        }
        self.spots.push(at);
        if order == Ordering::Greater || self.properties.is_none() {
            (self.fact, self.properties) = (fact, properties);
        }
    }
}

/// What all stores left on the drives.
#[derive(Debug)]
pub struct Traces {
    pub(super) drives: Vec<RawDrive>,
    pub(super) read_bytes: u64,
    pub(super) unreadable_bytes: u64,
    /// By the store, if the table says which, and the number.
    tables: BTreeMap<(Option<u64>, u64), FoundTable>,
    /// By the store and the number.
    logs: BTreeMap<(u64, u64), LogFrames>,
    stores: Vec<StoreTrace>,
    /// Where found files begin or end.
    borders: Vec<Place>,
}

impl Traces {
    /// Reads all written blocks of `drives`.
    ///
    /// # Errors
    /// [`EngineError::Stopped`]; [`EngineError::Files`] if a drive fails, other than by bad blocks.
    pub fn read(drives: Vec<RawDrive>, watch: &mut Watch<'_>) -> Result<Traces, EngineError> {
        let finds = scan(&drives, watch)?;
        let frames = by_log(&finds.frames);
        let mut traces = Traces {
            borders: borders(&finds.footers, &frames),
            drives,
            read_bytes: finds.read_bytes,
            unreadable_bytes: finds.unreadable_bytes,
            tables: BTreeMap::new(),
            logs: BTreeMap::new(),
            stores: Vec::new(),
        };
        traces.note_tables(finds.footers);
        traces.note_logs(frames)?;
        traces.count_stores();
        Ok(traces)
    }

    /// The stores, the one with the most tables and logs first.
    pub fn stores(&self) -> &[StoreTrace] {
        &self.stores
    }

    fn note_tables(&mut self, mut footers: Vec<FooterAt>) {
        footers.sort_by_key(|at| (at.footer.table_id(), at.drive, at.end));
        // The copy of a footer leads to the same place.
        footers
            .dedup_by(|a, b| (a.drive, a.end) == (b.drive, b.end) && a.footer.is_like(&b.footer));
        for at in footers {
            let (mut fact, mut properties) = (TableFact::default(), None);
            if let Some((found, origin, roster)) = self.read_properties(&at) {
                let range = (found.smallest_user_key.clone(), found.largest_user_key.clone());
                fact = TableFact { origin, roster, range: Some(range) };
                properties = Some(found);
            }
            let store = fact.origin.as_ref().map(|origin| origin.store_id);
            let table = self.tables.entry((store, at.footer.table_id())).or_default();
            table.add(at, fact, properties);
        }
    }

    fn read_properties(
        &self,
        at: &FooterAt,
    ) -> Option<(TableProperties, Option<Origin>, Option<Roster>)> {
        let drive = &self.drives[at.drive];
        let handle = at.footer.properties();
        let start = (at.end.checked_sub(at.footer.len_bytes())?).checked_add(handle.offset)?;
        let block = BLOCK_LEN_BYTES as u64;
        let (first, upto) = (start / block, (start + handle.len_bytes).div_ceil(block));
        let mut bytes = vec![0; ((upto - first) * block) as usize];
        if drive.read(first, &mut bytes).is_ok() {
            let skip = (start - first * block) as usize;
            let stored = &bytes[skip..skip + handle.len_bytes as usize];
            if let Some(found) = at.footer.decode_properties(stored) {
                return Some(found);
            }
        }
        let joined = self.join(at);
        let file =
            RawFile::open(String::new(), joined.pieces, joined.shift_bytes + at.footer.len_bytes());
        let mut scratch = Vec::new();
        let offset = joined.shift_bytes + handle.offset;
        let stored = file.read_at(offset, handle.len_bytes as usize, &mut scratch).ok()?;
        at.footer.decode_properties(stored)
    }

    /// The extents of the table that ends at `at`.
    pub(super) fn join(&self, at: &FooterAt) -> Joined {
        let drive = &self.drives[at.drive];
        let ends = |near: u64| {
            let here = Place { drive: at.drive, block: near };
            let middle = self.borders.partition_point(|border| *border < here);
            let from = middle.saturating_sub(NEAR_BORDER_COUNT);
            let upto = self.borders.len().min(middle + NEAR_BORDER_COUNT);
            let found = self.borders[from..upto].iter().filter(|border| border.drive == at.drive);
            let mut ends = drive.borders(near);
            ends.extend(found.map(|border| border.block));
            ends.sort_unstable_by_key(|end| (end.abs_diff(near), *end));
            ends.dedup();
            ends
        };
        join(drive, at, &ends)
    }

    fn note_logs(&mut self, frames: BTreeMap<u64, LogFrames>) -> Result<(), EngineError> {
        let stores: BTreeSet<u64> = self.tables.keys().filter_map(|(store, _)| *store).collect();
        // Without tables, nothing separates the number of a log from the format's id.
        let mut unknown: BTreeMap<u64, Vec<(u64, LogFrames)>> = BTreeMap::new();
        for (log_id, frames) in frames {
            let number_in = |store: &u64| LogId(log_id).frame_id(*store);
            let store = stores.iter().find(|store| number_in(store) < LOG_NUMBER_END);
            match store {
                Some(store) => {
                    self.logs.insert((*store, number_in(store)), frames);
                }
                None => unknown.entry(log_id >> NUMBER_BITS).or_default().push((log_id, frames)),
            }
        }
        for logs in unknown.into_values() {
            let mut dated = Vec::new();
            for (log_id, frames) in logs {
                let content = content(&*self.log_file(log_id, &frames), log_id)?;
                let first = content.and_then(|content| Some(content.seqs.first()?.0));
                dated.extend(first.map(|first| (first, log_id, frames)));
            }
            dated.sort_by_key(|(first, log_id, _)| (*first, *log_id));
            let ids: Vec<u64> = dated.iter().map(|(_, log_id, _)| *log_id).collect();
            let Some(store) = made_up_store(&ids) else { continue };
            for (_, log_id, frames) in dated {
                self.logs.insert((store, LogId(log_id).frame_id(store)), frames);
            }
        }
        Ok(())
    }

    fn count_stores(&mut self) {
        let mut counts: BTreeMap<u64, (usize, usize)> = BTreeMap::new();
        for (store, _) in self.tables.keys() {
            counts.entry(store.unwrap_or(0)).or_default().0 += usize::from(store.is_some());
        }
        for (store, _) in self.logs.keys() {
            counts.entry(*store).or_default().1 += 1;
        }
        let nameless = self.tables.keys().filter(|(store, _)| store.is_none()).count();
        if !self.has_origins() && nameless > 0 {
            // The tables of an old store do not say which store they belong to.
            if counts.len() > 1 {
                counts.retain(|_, (_, log_count)| *log_count > 0);
            }
            counts.values_mut().for_each(|(table_count, _)| *table_count = nameless);
        } else {
            counts.retain(|_, (table_count, log_count)| *table_count + *log_count > 0);
        }
        let trace = |(id, (table_count, log_count))| StoreTrace { id, table_count, log_count };
        self.stores = counts.into_iter().map(trace).collect();
        self.stores.sort_by_key(|store| {
            (std::cmp::Reverse(store.table_count + store.log_count), store.id)
        });
    }

    /// Whether any table says which store it belongs to.
    pub(super) fn has_origins(&self) -> bool {
        self.tables.keys().any(|(store, _)| store.is_some())
    }

    /// The tables of `store`, and those that do not say whose they are, by number.
    ///
    /// A crash may leave a table that was not committed, and give its number to another one. The
    /// marks of the newest rosters show which of them counts.
    pub(super) fn tables_of(&self, store: u64) -> BTreeMap<u64, &FoundTable> {
        let own = || self.tables.iter().filter(|((of, _), _)| *of == Some(store));
        let nameless = self.tables.iter().filter(|((of, _), _)| of.is_none());
        let mut tables: BTreeMap<u64, &FoundTable> =
            nameless.map(|((_, number), table)| (*number, table)).collect();
        let mut newest: BTreeMap<u32, (&Origin, &Roster)> = BTreeMap::new();
        for (_, table) in own() {
            let fact = table.fact.origin.as_ref().zip(table.fact.roster.as_ref());
            let Some((origin, roster)) = fact else { continue };
            let place = newest.entry(origin.keyspace).or_insert((origin, roster));
            if place.0.stamp < origin.stamp {
                *place = (origin, roster);
            }
        }
        let rosters = newest.values().map(|(_, roster)| roster);
        let marks: BTreeMap<u64, u16> =
            rosters.flat_map(|roster| roster.tables().zip(roster.marks.iter().copied())).collect();
        // The mark of a table with a front is of another first key than its own.
        let fronts: BTreeSet<u64> = newest
            .values()
            .flat_map(|(_, roster)| roster.fronts.iter().map(|(table, _)| *table))
            .collect();
        for ((_, number), table) in own() {
            let mark = table.properties.as_ref().map(TableProperties::mark);
            let expected = marks.get(number).copied();
            if expected.is_none() || mark == expected || fronts.contains(number) {
                tables.insert(*number, table);
            }
        }
        tables
    }

    /// The logs of `store`, by number.
    pub(super) fn logs_of(&self, store: u64) -> impl Iterator<Item = (u64, &LogFrames)> {
        let logs = self.logs.range((store, 0)..=(store, u64::MAX));
        logs.map(|((_, number), frames)| (*number, frames))
    }

    /// The log as a file.
    pub(super) fn log_file(&self, number: u64, frames: &LogFrames) -> Arc<dyn FileReader> {
        let pieces = frames.pieces(&self.drives);
        let len_blocks: u64 = pieces.iter().map(|piece| piece.len_blocks).sum();
        RawFile::open(LogId(number).file_name(), pieces, len_blocks * BLOCK_LEN_BYTES as u64)
    }

    /// What the log `number` of `store` holds.
    pub(super) fn log_content(
        &self,
        store: u64,
        number: u64,
        file: &dyn FileReader,
    ) -> Result<Option<LogContent>, EngineError> {
        content(file, LogId(number).frame_id(store))
    }
}

/// Where found files begin or end, in order.
fn borders(footers: &[FooterAt], frames: &BTreeMap<u64, LogFrames>) -> Vec<Place> {
    let block = BLOCK_LEN_BYTES as u64;
    let mut borders: Vec<Place> = frames.values().flat_map(LogFrames::places).collect();
    for at in footers {
        let end = at.end.div_ceil(block);
        let start = at.end.saturating_sub(at.footer.len_bytes()) / block;
        borders.extend([start, end].map(|block| Place { drive: at.drive, block }));
    }
    borders.sort_unstable();
    borders.dedup();
    borders
}

/// An id of a format under which the logs `ids`, the oldest first, have ascending numbers. `None` if
/// there are none.
fn made_up_store(ids: &[u64]) -> Option<u64> {
    let first = *ids.first()?;
    let ascends = |key: u64| ids.windows(2).all(|pair| pair[0] ^ key < pair[1] ^ key);
    let mut keys = (1..1_u64 << NUMBER_BITS).map(|number| first ^ number);
    let key = keys.find(|key| ascends(*key)).unwrap_or(first ^ 1);
    Some(LogId::format_of_key(key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logs_without_tables_get_ascending_numbers() {
        for store in [0, 1, 0xdead_beef_0bad_cafe] {
            let ids: Vec<u64> = [3, 9, 10, 70].map(|n| LogId(n).frame_id(store)).to_vec();
            let made_up = made_up_store(&ids).unwrap();
            let numbers: Vec<u64> = ids.iter().map(|id| LogId(*id).frame_id(made_up)).collect();
            assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "{numbers:?}");
            assert!(numbers.iter().all(|number| *number < LOG_NUMBER_END), "{numbers:?}");
        }
        assert_eq!(made_up_store(&[]), None);
    }
}

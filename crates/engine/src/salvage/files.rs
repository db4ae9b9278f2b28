//! A store that was found, as files with one snapshot record: what a catalog would say.

use super::join::{Joined, is_whole};
use super::lineage::{Gap, KeyspacePlan, TableFact, plan, unknown_name};
use super::logs::LogContent;
use super::scan::FooterAt;
use super::traces::{FoundTable, Traces};
use crate::EngineError;
use crate::batch::KeyspaceId;
use crate::db::Db;
use crate::key::Seq;
use crate::losses::Losses;
use crate::open::recover::DEFAULT_KEYSPACE;
use crate::options::{KeyspaceOptions, OpenMode, Options};
use crate::table::cache::BlockCache;
use crate::table::{RosterRun, Table, TableProperties};
use crate::version::edit::{Counters, KeyspaceRecord, LogId, TableAdd, ValuesPlaced, VersionEdit};
use crate::version::format::{self, RecordKind};
use crate::version::holders::HOLDER_LEVEL;
use crate::version::names::check_name;
use crate::version::{LEVEL_COUNT, RunId, TableId, TableMeta};
use bytes::Bytes;
use imbrex_clockwork::Runtime;
use imbrex_files::raw::RawFile;
use imbrex_files::{
    Commit, FileBuffer, FileInfo, FileKind, FileReader, Files, FilesError, GroupId, Hints,
    LogWriter, Persisted, SpaceUse, Tier,
};
use imbrex_record_log::BLOCK_LEN_BYTES;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The keyspace of tables that do not say which keyspace they belong to.
const UNKNOWN_KEYSPACE: (u32, &str) = (u32::MAX - 1, "unknown");

/// The first number for a run that consists of one table, because its tables overlap.
const LONE_RUN: u64 = 1 << 48;

/// Keys of which something is missing or may be outdated.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Doubt {
    /// The name of the keyspace.
    pub keyspace: String,
    /// The keys begin at or after this one; `None` for the first key of the keyspace.
    pub from: Option<Vec<u8>>,
    /// The keys end at or before this one; `None` for the last key of the keyspace.
    pub upto: Option<Vec<u8>>,
    /// Whether entries of these keys may be outdated, and deleted keys may be back. Otherwise keys
    /// may only be missing.
    pub is_outdated: bool,
    /// What is missing.
    pub reason: String,
}

/// What was found of a store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct FoundReport {
    /// The id of the drive's format.
    pub store_id: u64,
    /// How much of the drives was read.
    pub read_bytes: u64,
    /// How much of the drives cannot be read.
    pub unreadable_bytes: u64,
    /// The tables that are used and have all their parts, as far as was checked.
    pub table_count: usize,
    /// The tables that are used and have damaged or missing parts.
    pub damaged_table_count: usize,
    /// The tables that were alive and are not on the drives any more.
    pub missing_table_count: usize,
    /// The tables that other tables have replaced.
    pub superseded_table_count: usize,
    /// The logs that are used.
    pub log_count: usize,
    /// The length of the tables and logs that are used: an upper bound on the space for a copy.
    pub len_bytes: u64,
    /// Keys of which something is missing or may be outdated. Reading the store finds more.
    pub doubts: Vec<Doubt>,
}

/// A store that was put together.
#[derive(Debug)]
pub struct Found {
    files: Arc<FoundFiles>,
    report: FoundReport,
}

impl Found {
    /// What was found.
    pub fn report(&self) -> &FoundReport {
        &self.report
    }

    /// Opens the store to read it. Damage is skipped ([`OpenMode::Salvage`]).
    ///
    /// # Errors
    /// As [`Db::open`].
    pub fn open(&self, runtime: Runtime) -> Result<Db, EngineError> {
        let options =
            Options { open_mode: OpenMode::Salvage, background_work: false, ..Options::default() };
        Db::open(Arc::clone(&self.files) as Arc<dyn Files>, runtime, options)
    }
}

/// The keys in doubt because of damage that opening and reading `db` have met. It was opened with
/// [`OpenMode::Salvage`]. What is lost of a log, or of a value, may be of any keyspace.
///
/// # Errors
/// [`EngineError::Files`] if the names of its files cannot be read.
pub fn doubts_of(db: &Db) -> Result<Vec<Doubt>, EngineError> {
    let (state, _) = db.store().state_and_files()?;
    let of_tables: BTreeMap<String, &String> = state
        .keyspaces
        .values()
        .flat_map(|entry| entry.version.tables().map(|slot| (slot, &entry.record.name)))
        .map(|(slot, name)| (slot.meta.id.file_name(), name))
        .collect();
    let mut doubts = Vec::new();
    for keys in db.store().losses.as_deref().map_or_else(Vec::new, Losses::keys) {
        let of_table = || of_tables.get(keys.file.as_ref()?).copied().cloned();
        let keyspace = keys.keyspace.clone().or_else(of_table);
        let reason = match &keys.file {
            Some(file) => format!("{file} is damaged there"),
            None => "a value is damaged".to_owned(),
        };
        for keyspace in keyspace.map_or_else(|| db.keyspace_names(), |keyspace| vec![keyspace]) {
            doubts.push(Doubt {
                keyspace,
                from: keys.from.clone(),
                upto: keys.upto.clone(),
                is_outdated: true,
                reason: reason.clone(),
            });
        }
    }
    Ok(doubts)
}

impl Traces {
    /// Puts together what is left of `store`, one of [`Traces::stores`].
    ///
    /// # Errors
    /// [`EngineError::Files`] if a drive fails, other than by bad blocks.
    pub fn assemble(&self, store: u64) -> Result<Found, EngineError> {
        Assembly::new(self, store).assemble()
    }
}

/// The work of [`Traces::assemble`].
struct Assembly<'a> {
    traces: &'a Traces,
    store: u64,
    tables: BTreeMap<u64, &'a FoundTable>,
    joined: BTreeMap<u64, (&'a FooterAt, Joined)>,
    report: FoundReport,
    files: BTreeMap<String, Arc<dyn FileReader>>,
    edit: VersionEdit,
}

impl<'a> Assembly<'a> {
    fn new(traces: &'a Traces, store: u64) -> Assembly<'a> {
        Assembly {
            traces,
            store,
            tables: traces.tables_of(store),
            joined: BTreeMap::new(),
            report: FoundReport {
                store_id: store,
                read_bytes: traces.read_bytes,
                unreadable_bytes: traces.unreadable_bytes,
                ..FoundReport::default()
            },
            files: BTreeMap::new(),
            edit: VersionEdit::default(),
        }
    }

    fn assemble(mut self) -> Result<Found, EngineError> {
        // Files that only hold values are no part of the history of keys.
        let of_keys = self.tables.iter().filter(|(_, table)| !is_moved(table));
        let facts: BTreeMap<u64, TableFact> =
            of_keys.map(|(number, table)| (*number, table.fact.clone())).collect();
        let mut plans = plan(&facts, &mut |table| self.is_whole(table));
        let logs = self.logs()?;
        self.add_nameless(&mut plans, &logs);
        self.add_unlisted(&mut plans, &logs);
        name_apart(&mut plans);
        for plan in &plans {
            self.add_keyspace(plan);
            self.note_doubts(plan);
        }
        let used_count = self.report.table_count + self.report.damaged_table_count;
        let listed = plans.iter().flat_map(|plan| &plan.runs).flat_map(|run| &run.tables);
        let unread_count = listed.count() - used_count;
        self.report.superseded_table_count = self.tables.len() - used_count - unread_count;
        for plan in &plans {
            self.add_holders(plan);
        }
        let flushed = self.add_logs(&plans, logs);
        let next_id = self.tables.keys().last().map_or(1, |last| last.saturating_add(1));
        let last_seq = self.edit.tables_added.iter().map(|add| add.meta.seq_max.0);
        let last_seq = last_seq.max().unwrap_or(0).max(flushed);
        self.edit.counters = Some(Counters { next_id, next_keyspace_id: u32::MAX, last_seq });
        let record = format::encode(RecordKind::Snapshot, &self.edit);
        let files = FoundFiles { files: self.files, record, format_id: self.store };
        Ok(Found { files: Arc::new(files), report: self.report })
    }

    /// The best place of a table.
    fn join(&mut self, number: u64) -> Option<&(&'a FooterAt, Joined)> {
        if !self.joined.contains_key(&number) {
            let mut best: Option<(&FooterAt, Joined)> = None;
            for spot in &self.tables.get(&number)?.spots {
                let joined = self.traces.join(spot);
                let is_better = best.as_ref().is_none_or(|(_, other)| {
                    (other.is_sound, other.known_blocks) < (joined.is_sound, joined.known_blocks)
                });
                if is_better {
                    best = Some((spot, joined));
                }
            }
            self.joined.insert(number, best?);
        }
        self.joined.get(&number)
    }

    fn is_whole(&mut self, number: u64) -> bool {
        self.join(number).is_some_and(|(spot, joined)| is_whole(spot, joined))
    }

    /// The logs, by number, with what they hold.
    fn logs(&self) -> Result<BTreeMap<u64, FoundLog>, EngineError> {
        let mut logs = BTreeMap::new();
        for (number, frames) in self.traces.logs_of(self.store) {
            let file = self.traces.log_file(number, frames);
            if let Some(content) = self.traces.log_content(self.store, number, &*file)? {
                logs.insert(number, FoundLog { file, content });
            }
        }
        Ok(logs)
    }

    /// Adds the tables of a store whose tables do not say where they belong.
    fn add_nameless(&self, plans: &mut Vec<KeyspacePlan>, logs: &BTreeMap<u64, FoundLog>) {
        if self.traces.has_origins() || self.tables.is_empty() {
            return;
        }
        let is_default_alone =
            logs.values().all(|log| log.content.keyspaces.iter().all(|keyspace| *keyspace == 0));
        let (id, name) = if is_default_alone { (0, DEFAULT_KEYSPACE) } else { UNKNOWN_KEYSPACE };
        let newest_first = self.tables.keys().rev();
        let runs = newest_first.map(|&run| RosterRun { level: 0, run, tables: vec![run] });
        let last_seq =
            self.tables.values().filter_map(|t| Some(t.properties.as_ref()?.largest_seq));
        let last_seq = last_seq.max().unwrap_or(Seq(0));
        // Older logs are in tables, as far as is known.
        let is_newer = |log: &&FoundLog| log.content.seqs.last().is_some_and(|s| last_seq.0 < s.1);
        let newer = logs.iter().filter(|(_, log)| is_newer(log)).map(|(number, _)| *number).min();
        plans.push(KeyspacePlan {
            id,
            name: name.to_owned(),
            log_floor: newer.unwrap_or(u64::MAX),
            runs: runs.collect(),
            gaps: Vec::new(),
            fronts: BTreeMap::new(),
            has_roster: false,
        });
    }

    /// Adds keyspaces of which only logs are left, and the default one.
    fn add_unlisted(&self, plans: &mut Vec<KeyspacePlan>, logs: &BTreeMap<u64, FoundLog>) {
        let old_floor = plans.iter().find(|plan| !plan.has_roster).map_or(0, |plan| plan.log_floor);
        let is_complete = plans.iter().any(|plan| plan.has_roster);
        let in_logs = logs.values().flat_map(|log| log.content.keyspaces.iter().copied());
        // A roster lists all keyspaces: what it leaves out was dropped.
        let mut ids: BTreeSet<u32> = in_logs.filter(|_| !is_complete).collect();
        ids.insert(0);
        for id in ids {
            if plans.iter().all(|plan| plan.id != id) {
                plans.push(KeyspacePlan {
                    id,
                    name: unknown_name(id),
                    log_floor: old_floor,
                    runs: Vec::new(),
                    gaps: Vec::new(),
                    fronts: BTreeMap::new(),
                    has_roster: is_complete,
                });
            }
        }
    }

    fn add_keyspace(&mut self, plan: &KeyspacePlan) {
        let keyspace = KeyspaceId(plan.id);
        let options = KeyspaceOptions::default();
        let record = KeyspaceRecord { id: keyspace, name: plan.name.clone(), options };
        self.edit.keyspaces_created.push(record);
        self.edit.log_floors.push((keyspace, LogId(plan.log_floor)));
        for run in &plan.runs {
            let mut metas: Vec<TableMeta> = Vec::new();
            for &table in &run.tables {
                match self.add_table(table, plan.fronts.get(&table)) {
                    Some(meta) => metas.push(meta),
                    None => {
                        let reason = format!("table {} cannot be read", TableId(table));
                        self.report.missing_table_count += 1;
                        self.report.doubts.push(everything(plan, &reason));
                    }
                }
            }
            metas.sort_by(|a, b| a.smallest.cmp(&b.smallest));
            let is_run = metas.windows(2).all(|pair| pair[0].ends_before(&pair[1].smallest));
            let level = run.level.min(LEVEL_COUNT as u8 - 1);
            for meta in metas {
                let run = RunId(if is_run { run.run } else { LONE_RUN + meta.id.0 });
                self.edit.tables_added.push(TableAdd { keyspace, level, run, meta });
            }
        }
    }

    /// Adds the files in which entries of the keyspace may have their values. Those that cleaning wrote come first,
    /// whole ones and the newest before others: values only die, so each has all that are live. Then come tables with
    /// logs.
    fn add_holders(&mut self, plan: &KeyspacePlan) {
        let is_own = |table: &&FoundTable| {
            table.fact.origin.as_ref().is_some_and(|origin| origin.keyspace == plan.id)
        };
        let own = self.tables.iter().filter(|(_, table)| is_own(table));
        let own: Vec<(u64, bool)> = own.map(|(&number, table)| (number, is_moved(table))).collect();
        let mut own: Vec<_> = own
            .into_iter()
            .map(|(number, is_moved)| (is_moved, self.is_whole(number), number))
            .collect();
        own.sort_by_key(|&order| std::cmp::Reverse(order));
        let in_levels: BTreeSet<u64> =
            self.edit.tables_added.iter().map(|add| add.meta.id.0).collect();
        let mut known = BTreeSet::new();
        for (is_moved, _, number) in own {
            let is_logged = self.join(number).is_some_and(|(spot, _)| spot.footer.is_logged());
            if !is_moved && (!is_logged || known.contains(&number)) {
                continue;
            }
            let is_in_level = in_levels.contains(&number);
            let report = self.report.clone();
            let Some(meta) = (!is_in_level).then(|| self.add_table(number, None)).flatten() else {
                if is_in_level && known.insert(number) {
                    self.place(plan, number, number);
                }
                continue;
            };
            let origins = match is_moved {
                true => self.origins_in(&meta),
                false => vec![number],
            };
            let new: Vec<u64> =
                origins.into_iter().filter(|origin| known.insert(*origin)).collect();
            if new.is_empty() {
                self.report = report;
                self.files.remove(&meta.id.file_name());
                continue;
            }
            let (keyspace, run) = (KeyspaceId(plan.id), RunId::ONLY);
            self.edit.tables_added.push(TableAdd { keyspace, level: HOLDER_LEVEL, run, meta });
            for origin in new {
                self.place(plan, origin, number);
            }
        }
    }

    /// The origins of values in a file that cleaning wrote; none if it cannot be read.
    fn origins_in(&self, meta: &TableMeta) -> Vec<u64> {
        let Some(file) = self.files.get(&meta.id.file_name()) else { return Vec::new() };
        let table = Table::open(Arc::clone(file), Arc::new(BlockCache::new(0)));
        table.and_then(|table| table.moved_origins()).unwrap_or_default()
    }

    /// Values of `origin` are in `file`. How many of them are live is known from no file.
    fn place(&mut self, plan: &KeyspacePlan, origin: u64, file: u64) {
        self.edit.values_placed.push(ValuesPlaced {
            keyspace: KeyspaceId(plan.id),
            origin: TableId(origin),
            file: TableId(file),
            len_bytes: 1,
        });
    }

    /// Makes a file of a table, which is read from `front` on.
    fn add_table(&mut self, number: u64, front: Option<&Vec<u8>>) -> Option<TableMeta> {
        let (spot, joined) = self.join(number)?;
        let (is_sound, shift_bytes) = (joined.is_sound, joined.shift_bytes);
        let (footer, mut pieces) = (spot.footer.clone(), joined.pieces.clone());
        let table = self.tables.get(&number)?;
        let origin = table.fact.origin.as_ref();
        let mut len_bytes = shift_bytes + footer.len_bytes();
        let is_logged = footer.is_logged();
        if is_logged {
            let log = origin.and_then(|origin| origin.logs).map(|(first, _)| first);
            let log = self.traces.logs_of(self.store).find(|(number, _)| Some(*number) == log);
            let values =
                log.map_or_else(Vec::new, |(_, frames)| frames.pieces(&self.traces.drives));
            len_bytes +=
                values.iter().map(|piece| piece.len_blocks).sum::<u64>() * BLOCK_LEN_BYTES as u64;
            pieces = values.into_iter().chain(pieces).collect();
        }
        let name = TableId(number).file_name();
        let file = RawFile::open(name.clone(), pieces, len_bytes);
        let properties = match table.properties.clone() {
            Some(properties) => properties,
            None => read_properties(Arc::clone(&file), is_logged)?,
        };
        match is_sound {
            true => self.report.table_count += 1,
            false => self.report.damaged_table_count += 1,
        }
        self.report.len_bytes += len_bytes;
        self.files.insert(name, file);
        let meta = TableMeta {
            largest_excluded: origin.is_some_and(|origin| origin.largest_is_excluded),
            group: GroupId(origin.map_or(0, |origin| origin.group)),
            is_logged,
            ..TableMeta::of(TableId(number), len_bytes, properties)
        };
        let front = front.map(|front| Bytes::copy_from_slice(&front[..]));
        Some(front.and_then(|front| meta.with_front_at(&front)).unwrap_or(meta))
    }

    /// Adds the logs that some keyspace needs. Returns the last write that is known to be in tables,
    /// or else the one before those logs.
    fn add_logs(&mut self, plans: &[KeyspacePlan], logs: BTreeMap<u64, FoundLog>) -> u64 {
        let floor = plans.iter().map(|plan| plan.log_floor).min().unwrap_or(0);
        // Logs begin at or before the first write that is in no table.
        let mut last =
            self.last_seq_in_tables().filter(|_| plans.iter().any(|plan| plan.has_roster));
        let mut flushed = last;
        for (number, log) in logs.into_iter().filter(|(number, _)| floor <= *number) {
            for &(first, upto) in &log.content.seqs {
                flushed = flushed.or(Some(first.saturating_sub(1)));
                if let Some(last) = last.filter(|last| last + 1 < first) {
                    let reason = format!(
                        "writes {} to {} were in a log and were not found",
                        last + 1,
                        first - 1
                    );
                    self.report.doubts.extend(plans.iter().map(|plan| everything(plan, &reason)));
                }
                last = last.max(Some(upto));
            }
            self.report.log_count += 1;
            self.report.len_bytes += log.file.len_bytes();
            self.files.insert(LogId(number).file_name(), log.file);
        }
        flushed.unwrap_or(0)
    }

    /// The newest write that any table, dead or alive, knows to be in tables.
    fn last_seq_in_tables(&self) -> Option<u64> {
        let of = |table: &&FoundTable| {
            let listed = table.fact.roster.as_ref().map(|roster| roster.last_seq);
            listed.max(table.properties.as_ref().map(|properties| properties.largest_seq.0))
        };
        self.tables.values().filter_map(of).max()
    }

    fn note_doubts(&mut self, plan: &KeyspacePlan) {
        if !plan.has_roster && !plan.runs.is_empty() {
            let reason = "no table says which of the tables were alive";
            self.report.doubts.push(everything(plan, reason));
        }
        self.report.missing_table_count +=
            plan.gaps.iter().filter(|gap| gap.table.is_some()).count();
        self.report.doubts.extend(plan.gaps.iter().map(|gap| doubt_of(plan, gap)));
    }
}

/// Whether cleaning wrote a table.
fn is_moved(table: &FoundTable) -> bool {
    table.fact.origin.as_ref().is_some_and(|origin| origin.level == HOLDER_LEVEL)
}

/// A log that was found.
struct FoundLog {
    file: Arc<dyn FileReader>,
    content: LogContent,
}

fn everything(plan: &KeyspacePlan, reason: &str) -> Doubt {
    let (from, upto) = (None, None);
    let (keyspace, reason) = (plan.name.clone(), reason.to_owned());
    Doubt { keyspace, from, upto, is_outdated: true, reason }
}

fn doubt_of(plan: &KeyspacePlan, gap: &Gap) -> Doubt {
    let reason = match gap.table {
        Some(table) => format!("table {} of level {} was not found", TableId(table), gap.level),
        None => format!("a compaction into level {} was found in part", gap.level),
    };
    Doubt {
        keyspace: plan.name.clone(),
        from: gap.above.clone(),
        upto: gap.below.clone(),
        is_outdated: gap.has_older,
        reason,
    }
}

/// Makes the names of keyspaces valid and distinct: one that was dropped may have been created
/// again. The newest keeps the name.
fn name_apart(plans: &mut [KeyspacePlan]) {
    let mut taken = BTreeSet::new();
    plans.sort_by_key(|plan| plan.id);
    for plan in plans.iter_mut().rev() {
        let is_default = plan.id == 0;
        if check_name("keyspace", &plan.name).is_err()
            || (plan.name == DEFAULT_KEYSPACE) != is_default
        {
            plan.name = unknown_name(plan.id);
        }
        if !taken.insert(plan.name.clone()) {
            plan.name = format!("{} ({})", plan.name, plan.id);
            taken.insert(plan.name.clone());
        }
    }
}

/// The properties of a table whose own are damaged, as far as a store needs them.
fn read_properties(file: Arc<dyn FileReader>, is_logged: bool) -> Option<TableProperties> {
    let losses = Losses::default();
    let table = Table::open_in_part(file, Arc::new(BlockCache::new(0)), is_logged, &losses).ok()?;
    let tombstones = table.range_tombstones();
    let mut properties = TableProperties {
        // Unknown, but readers need to know whether there are any.
        range_tombstone_count: tombstones.fragments().count() as u64,
        largest_user_key: table.last_separator(),
        largest_seq: Seq(0),
        ..TableProperties::default()
    };
    for fragment in tombstones.fragments() {
        if properties.largest_user_key[..] < fragment.end[..] {
            properties.largest_user_key = fragment.end.to_vec();
        }
    }
    Some(properties)
}

/// The files of a store that was found. They take no writes.
#[derive(Debug)]
struct FoundFiles {
    files: BTreeMap<String, Arc<dyn FileReader>>,
    record: Vec<u8>,
    format_id: u64,
}

fn refused<T>() -> Result<T, FilesError> {
    let name = String::new();
    Err(FilesError::BadName { name, reason: "files that were found take no writes" })
}

impl Files for FoundFiles {
    fn persist(&self, _files: Vec<FileBuffer>) -> Result<Vec<Box<dyn Persisted>>, FilesError> {
        refused()
    }

    fn open_persisted(&self, _file: &dyn Persisted) -> Result<Arc<dyn FileReader>, FilesError> {
        refused()
    }

    fn create_log(&self, _name: &str, _hints: Hints) -> Result<Arc<dyn LogWriter>, FilesError> {
        refused()
    }

    fn open(&self, name: &str) -> Result<Arc<dyn FileReader>, FilesError> {
        let file = self.files.get(name).cloned();
        file.ok_or_else(|| FilesError::NotFound { name: name.to_owned() })
    }

    fn commit(&self, _commit: Commit) -> Result<(), FilesError> {
        refused()
    }

    fn sync(&self) -> Result<(), FilesError> {
        Ok(())
    }

    fn list(&self, prefix: &str) -> Vec<FileInfo> {
        let named = self.files.iter().filter(|(name, _)| name.starts_with(prefix));
        let info = |(name, file): (&String, &Arc<dyn FileReader>)| {
            let is_log = LogId::of_file_name(name).is_some();
            FileInfo {
                name: name.clone(),
                len_bytes: file.len_bytes(),
                kind: if is_log { FileKind::Log } else { FileKind::Table },
                level: 0,
                // The end of a log may be missing, so its length is no sign that it was finished.
                group: Some(GroupId(0)),
                tier: Tier::Main,
                extents: file.extents(),
            }
        };
        named.map(info).collect()
    }

    fn app_records(&self) -> Vec<Vec<u8>> {
        vec![self.record.clone()]
    }

    fn space(&self) -> SpaceUse {
        SpaceUse::default()
    }

    fn name_count(&self, name: &str) -> usize {
        usize::from(self.files.contains_key(name))
    }

    fn format_id(&self) -> u64 {
        self.format_id
    }
}

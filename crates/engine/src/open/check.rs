//! The check of a whole store: every block, every level, every reference.

use crate::EngineError;
use crate::iter::InternalIter;
use crate::key::{Kind, Seq};
use crate::merge::MergingIter;
use crate::open::recover::{decode_records, is_on_missing_flash};
use crate::read::run::RunView;
use crate::store::Store;
use crate::table::{ApartPlace, LevelIter, Table, TableReadOptions};
use crate::version::edit::LogId;
use crate::version::names::linked_name;
use crate::version::state::{KeyspaceEntry, StoreState};
use crate::version::{TableId, TableSlot};
use crate::watch::{Progress, Watch, ask};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

/// How many bytes of entries are read between two reports to the watch.
const ASK_LEN_BYTES: u64 = 1 << 20;

/// What a check verified, and what it found wrong.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct CheckReport {
    /// Tables that were verified, including tables that only checkpoints have.
    pub table_count: usize,
    /// The number of entries in these tables.
    pub entry_count: u64,
    /// The length of these tables.
    pub table_len_bytes: u64,
    /// The number of logs.
    pub log_count: usize,
    /// Checkpoints whose references were checked.
    pub checkpoint_count: usize,
    /// Tables and logs that were not checked because they are on a flash drive that is not present
    /// ([`OpenMode::ReadOnlyInPart`](crate::OpenMode::ReadOnlyInPart)).
    pub left_out: Vec<String>,
    /// What is wrong, one sentence each; empty for a sound store.
    pub findings: Vec<String>,
}

impl CheckReport {
    /// Whether the check found nothing wrong.
    pub fn is_sound(&self) -> bool {
        self.findings.is_empty()
    }
}

impl fmt::Display for CheckReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} tables with {} entries and {} bytes, {} logs, {} checkpoints: {} findings",
            self.table_count,
            self.entry_count,
            self.table_len_bytes,
            self.log_count,
            self.checkpoint_count,
            self.findings.len()
        )?;
        if !self.left_out.is_empty() {
            writeln!(f, "  left out, on the flash drive: {}", self.left_out.join(", "))?;
        }
        self.findings.iter().try_for_each(|finding| writeln!(f, "  {finding}"))
    }
}

/// Checks all of `store` except `missing`, as of one moment. The store continues to work meanwhile.
pub(crate) fn check(
    store: &Store,
    missing: &[String],
    watch: &mut Watch<'_>,
) -> Result<CheckReport, EngineError> {
    let mut report = CheckReport { left_out: missing.to_vec(), ..CheckReport::default() };
    report.findings.extend(store.lost.values().cloned());
    store.runtime.scheduler.yield_now();
    // Read the state first: its tables stay readable, whatever is committed meanwhile (F3).
    let (state, names) = store.state_and_files()?;
    let left_out = store.lost.keys().chain(missing).cloned().collect();
    check_references(&state, left_out, store.visible(), &names, &mut report);
    check_logs(&state, &names, &mut report);
    let kept = checkpoint_tables(store, &state, &names, &mut report);
    let tables = state.keyspaces.values().flat_map(|entry| entry.version.files());
    let live_bytes: u64 = tables.map(|slot| slot.meta.len_bytes).sum();
    // Live tables are read twice, table by table and in key order. Tables that only checkpoints
    // have are read once.
    let total_bytes = 2 * live_bytes + kept.iter().map(|slot| slot.meta.len_bytes).sum::<u64>();
    for entry in state.keyspaces.values() {
        let name = &entry.record.name;
        if let Err(violation) = entry.version.check() {
            report.findings.push(format!("keyspace {name:?}: {violation}"));
        }
        for slot in entry.version.files() {
            verify_table(store, slot, total_bytes, &mut report, watch)?;
        }
    }
    // Each table, with its memory, is released before the next one.
    for slot in kept {
        verify_table(store, &slot, total_bytes, &mut report, watch)?;
    }
    // Damaged tables cannot be read in order.
    if report.is_sound() {
        let mut done_bytes = report.table_len_bytes;
        for entry in state.keyspaces.values() {
            let tables_len_bytes: u64 = entry.version.tables().map(|t| t.meta.len_bytes).sum();
            let mut ask = |read_bytes: u64| {
                let done_bytes = done_bytes + read_bytes.min(tables_len_bytes);
                ask(watch, "check", Progress { done_bytes, total_bytes })
            };
            let finding = check_order(store, entry, &mut ask)?;
            report.findings.extend(finding);
            done_bytes += tables_len_bytes;
        }
    }
    Ok(report)
}

/// Reads all of a table; its damage goes into the report.
fn verify_table(
    store: &Store,
    slot: &TableSlot,
    total_bytes: u64,
    report: &mut CheckReport,
    watch: &mut Watch<'_>,
) -> Result<(), EngineError> {
    store.runtime.scheduler.yield_now();
    let before_bytes = report.table_len_bytes;
    report.table_count += 1;
    report.table_len_bytes += slot.meta.len_bytes;
    let mut verified_until = |offset: u64| {
        let done_bytes = before_bytes + offset;
        ask(watch, "check", Progress { done_bytes, total_bytes })
    };
    verified_until(0)?;
    let verify = |table: &Arc<Table>| table.verify(&mut verified_until);
    match slot.open(&store.cache).and_then(verify) {
        Ok(verified) => {
            report.entry_count += verified.entry_count;
            let is_whole = verified.findings.is_empty();
            report.findings.extend(verified.findings);
            if is_whole && verified.entry_count != slot.meta.entry_count {
                report.findings.push(format!(
                    "table {}: {} entries, its version says {}",
                    slot.meta.id, verified.entry_count, slot.meta.entry_count
                ));
            }
        }
        Err(stopped @ EngineError::Stopped { .. }) => return Err(stopped),
        Err(error) => report.findings.push(error.to_string()),
    }
    Ok(())
}

/// The tables that checkpoints have and no keyspace has now: each once, attached. Records that
/// cannot be decoded and files that do not exist go into the report.
pub(super) fn checkpoint_tables(
    store: &Store,
    state: &StoreState,
    names: &[String],
    report: &mut CheckReport,
) -> Vec<Arc<TableSlot>> {
    let there: BTreeSet<&str> = names.iter().map(String::as_str).collect();
    let live = state.keyspaces.values().flat_map(|entry| entry.version.files());
    // Ids are never reused (V3), so a table with a known id has the same bytes.
    let mut known: BTreeSet<TableId> = live.map(|slot| slot.meta.id).collect();
    let mut tables = Vec::new();
    for (checkpoint, record) in &state.checkpoints {
        let kept = match decode_records(&[record.to_vec()]) {
            Ok(kept) => kept,
            Err(error) => {
                report.findings.push(format!("checkpoint {checkpoint:?}: {error}"));
                continue;
            }
        };
        for slot in kept.keyspaces.values().flat_map(|entry| entry.version.files()) {
            let name = linked_name(checkpoint, slot.meta.id);
            if !there.contains(name.as_str()) {
                report.findings.push(format!("{name}: referenced, but there is no such file"));
                continue;
            }
            if known.contains(&slot.meta.id) {
                continue;
            }
            match slot.attach(&*store.files, &name) {
                Ok(()) => {
                    known.insert(slot.meta.id);
                    tables.push(Arc::clone(slot));
                }
                Err(EngineError::Files { source, .. }) if is_on_missing_flash(&source) => {
                    report.left_out.push(name);
                }
                // The checkpoint was deleted meanwhile, so its table is not missing.
                Err(_) if !store.state().checkpoints.contains_key(checkpoint) => break,
                Err(error) => report.findings.push(error.to_string()),
            }
        }
    }
    tables
}

/// The first key for which an older run or a deeper level has a newer write (V2) or whose value is nowhere, or the first
/// holder whose live bytes are wrong (H1).
fn check_order(
    store: &Store,
    entry: &KeyspaceEntry,
    ask: &mut dyn FnMut(u64) -> Result<(), EngineError>,
) -> Result<Option<String>, EngineError> {
    let read = TableReadOptions {
        fill_cache: false,
        read_ahead_bytes: store.options.compaction_read_len_bytes,
        sequential: true,
        activity: imbrex_files::Activity::Other,
        ..TableReadOptions::default()
    };
    let runs = entry.version.levels.iter().flat_map(|level| &level.runs);
    let sources = runs.map(|run| {
        let cache = Arc::clone(&store.cache);
        LevelIter::new(RunView { tables: run.tables.clone(), cache }, read.clone())
    });
    let mut merged = MergingIter::new(sources.collect());
    merged.seek_to_first()?;
    let mut user_key = Vec::new();
    let mut held: BTreeMap<TableId, u64> = BTreeMap::new();
    let (mut oldest_run, mut read_bytes, mut asked_bytes) = (0, 0, 0);
    while merged.valid() {
        let key = merged.key();
        if key.user_key != &user_key[..] {
            user_key.clear();
            user_key.extend_from_slice(key.user_key);
            oldest_run = 0;
        }
        if key.trailer.kind() == Some(Kind::PutApart) {
            let holders = &entry.version.holders;
            let place = ApartPlace::decode(merged.value());
            match place.filter(|place| holders.get(TableId(place.origin)).is_some()) {
                Some(place) => *held.entry(TableId(place.origin)).or_default() += place.len_bytes(),
                None => {
                    let (name, key) = (&entry.record.name, user_key.escape_ascii());
                    return Ok(Some(format!(
                        "keyspace {name:?}: H2: the value of key {key} is in a table that is not there"
                    )));
                }
            }
        }
        // From the newest write of a key to the oldest, runs may only get older.
        let run = merged.current_source();
        if run < oldest_run {
            let (name, key, seq) =
                (&entry.record.name, user_key.escape_ascii(), key.trailer.seq().0);
            return Ok(Some(format!(
                "keyspace {name:?}: V2: write {seq} of key {key} is in a newer run than a later one"
            )));
        }
        oldest_run = run;
        read_bytes += (user_key.len() + merged.value_len()) as u64;
        if read_bytes - asked_bytes >= ASK_LEN_BYTES {
            asked_bytes = read_bytes;
            ask(read_bytes)?;
            store.runtime.scheduler.yield_now();
        }
        merged.next()?;
    }
    for (origin, values) in entry.version.holders.iter() {
        let (seen, live) = (held.get(&origin).copied().unwrap_or(0), values.live_bytes);
        if seen != live {
            let name = &entry.record.name;
            return Ok(Some(format!(
                "keyspace {name:?}: H1: entries have {seen} bytes of values of table {origin}, its version says {live}"
            )));
        }
    }
    Ok(None)
}

/// Checks that every table exists, and that every file is referenced or `left_out`. Also checks
/// that no number is beyond the counter, and no write beyond the newest.
///
/// The state's own `last_seq` is not a bound: it counts the writes that have left the logs, and a
/// table may hold writes whose log another keyspace still needs.
fn check_references(
    state: &StoreState,
    left_out: BTreeSet<String>,
    newest: Seq,
    names: &[String],
    report: &mut CheckReport,
) {
    let there: BTreeSet<&str> = names.iter().map(String::as_str).collect();
    let mut wanted = left_out;
    for entry in state.keyspaces.values() {
        for slot in entry.version.files() {
            let name = slot.meta.id.file_name();
            if slot.meta.id.0 >= state.counters.next_id {
                report.findings.push(format!("{name}: its number is beyond the counter"));
            }
            if slot.meta.seq_max > newest {
                let (got, newest) = (slot.meta.seq_max.0, newest.0);
                report.findings.push(format!("{name}: holds write {got}, the newest is {newest}"));
            }
            if !there.contains(name.as_str()) {
                report.findings.push(format!("{name}: referenced, but there is no such file"));
            }
            if !wanted.insert(name) {
                report.findings.push(format!("table {}: in two keyspaces", slot.meta.id));
            }
        }
    }
    report.checkpoint_count = state.checkpoints.len();
    for name in names {
        let is_kept = match name.strip_prefix("checkpoint/").and_then(|rest| rest.split_once('/')) {
            Some((checkpoint, _)) => state.checkpoints.contains_key(checkpoint),
            None => wanted.contains(name) || LogId::of_file_name(name).is_some(),
        };
        if !is_kept {
            report.findings.push(format!("{name}: nothing refers to this file"));
        }
    }
}

/// Checks that the numbers of logs are below the counter. Their content is not read: the store has
/// it in memory.
fn check_logs(state: &StoreState, names: &[String], report: &mut CheckReport) {
    for log in names.iter().filter_map(|name| LogId::of_file_name(name)) {
        report.log_count += 1;
        if log.0 >= state.counters.next_id {
            let name = log.file_name();
            report.findings.push(format!("{name}: its number is beyond the counter"));
        }
    }
}

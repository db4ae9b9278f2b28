//! The check of a whole store: every block, every level, every reference.

use crate::EngineError;
use crate::key::Seq;
use crate::store::Store;
use crate::table::Table;
use crate::version::edit::LogId;
use crate::version::state::StoreState;
use crate::watch::{Progress, Watch, ask};
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

/// What a check looked at, and what it found wrong.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct CheckReport {
    /// Tables that were verified.
    pub table_count: usize,
    /// Their entries.
    pub entry_count: u64,
    /// Their length.
    pub table_len_bytes: u64,
    /// Logs that are there.
    pub log_count: usize,
    /// Checkpoints whose references were followed.
    pub checkpoint_count: usize,
    /// What is wrong, a sentence each; empty for a sound store.
    pub findings: Vec<String>,
}

impl CheckReport {
    /// Whether nothing was found wrong.
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
        self.findings.iter().try_for_each(|finding| writeln!(f, "  {finding}"))
    }
}

/// Checks all of `store`, as it is at one moment; it goes on meanwhile.
pub(crate) fn check(store: &Store, watch: &mut Watch<'_>) -> Result<CheckReport, EngineError> {
    let mut report = CheckReport::default();
    store.runtime.scheduler.yield_now();
    // The state first: its tables stay readable whatever is committed meanwhile (F3).
    let (state, names) = store.state_and_files();
    check_references(&state, store.visible(), &names, &mut report);
    check_logs(&state, &names, &mut report);
    let tables = state.keyspaces.values().flat_map(|entry| entry.version.tables());
    let total_bytes = tables.map(|slot| slot.meta.len_bytes).sum();
    for entry in state.keyspaces.values() {
        let name = &entry.record.name;
        if let Err(violation) = entry.version.check() {
            report.findings.push(format!("keyspace {name:?}: {violation}"));
        }
        for slot in entry.version.tables() {
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
                    if verified.entry_count != slot.meta.entry_count {
                        report.findings.push(format!(
                            "table {}: {} entries, its version says {}",
                            slot.meta.id, verified.entry_count, slot.meta.entry_count
                        ));
                    }
                }
                Err(stopped @ EngineError::Stopped { .. }) => return Err(stopped),
                Err(error) => report.findings.push(error.to_string()),
            }
        }
    }
    Ok(report)
}

/// Every table is there and wanted, no number is beyond the counter, and no write beyond the newest.
///
/// The state's own `last_seq` is no bound: it counts what has left the logs, and a table may hold
/// writes whose log another keyspace still needs.
fn check_references(state: &StoreState, newest: Seq, names: &[String], report: &mut CheckReport) {
    let there: BTreeSet<&str> = names.iter().map(String::as_str).collect();
    let mut wanted = BTreeSet::new();
    for entry in state.keyspaces.values() {
        for slot in entry.version.tables() {
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

/// Logs have numbers below the counter; the store in memory is the judge of their content.
fn check_logs(state: &StoreState, names: &[String], report: &mut CheckReport) {
    for log in names.iter().filter_map(|name| LogId::of_file_name(name)) {
        report.log_count += 1;
        if log.0 >= state.counters.next_id {
            let name = log.file_name();
            report.findings.push(format!("{name}: its number is beyond the counter"));
        }
    }
}

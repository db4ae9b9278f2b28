//! What a new table records about the store, for a drive whose catalog is lost.
//!
//! ```text
//!   commit 1, 2, 3 ...      the stamp of a table is the last commit before it was finished
//!   log floor               the oldest log that a memtable still needs
//!   roster                  all tables of the keyspace, unless the list would be too long
//! ```
//!
//! A roster takes about four bytes for each table of the keyspace. One in every table would cost a
//! large store as many bytes as its data. So a table has one if it is short, or if enough bytes
//! were written since the last one.
//!
//! Not here: the form of a roster (`table::origin`), what a salvage does with it.

use super::Store;
use crate::batch::KeyspaceId;
use crate::compaction::merge::output::Moment;
use crate::table::{Origin, Part, Roster, RosterKeyspace, RosterRun, Stamp, mark_of};
use crate::version::edit::LogId;
use crate::version::holders::HOLDER_LEVEL;
use crate::version::state::StoreState;
use crate::version::{TableId, TableMeta};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

/// A roster of this length is in every table.
const SHORT_LEN_BYTES: u64 = 256;

/// The number of bytes written for each byte of a longer roster.
const BYTES_PER_BYTE: u64 = 1024;

/// The order of commits, over all openings of a store.
#[derive(Debug)]
pub(super) struct History {
    epoch: u64,
    commit_count: AtomicU64,
    /// The length of the tables since the last roster.
    since_roster_bytes: AtomicU64,
    /// The newest finished table of each keyspace, committed or not.
    newest_tables: Mutex<BTreeMap<KeyspaceId, TableId>>,
}

impl History {
    /// The history of an opening. `next_id` is higher than at every earlier opening that wrote a
    /// table, because a table takes a number.
    pub(super) fn new(next_id: u64) -> History {
        let (commit_count, since_roster_bytes, newest_tables) = Default::default();
        History { epoch: next_id, commit_count, since_roster_bytes, newest_tables }
    }

    /// Counts a commit. The caller holds the durable state.
    pub(super) fn note_commit(&self) {
        self.commit_count.fetch_add(1, Ordering::Relaxed);
    }

    fn stamp(&self) -> Stamp {
        Stamp { epoch: self.epoch, commit_count: self.commit_count.load(Ordering::Relaxed) }
    }

    /// Whether a table of `len_bytes` has room for a roster of `roster_len_bytes`.
    fn is_roster_due(&self, len_bytes: u64, roster_len_bytes: u64) -> bool {
        let before = self.since_roster_bytes.fetch_add(len_bytes, Ordering::Relaxed);
        let is_due = roster_len_bytes <= SHORT_LEN_BYTES
            || roster_len_bytes.saturating_mul(BYTES_PER_BYTE) <= before + len_bytes;
        if is_due {
            self.since_roster_bytes.store(0, Ordering::Relaxed);
        }
        is_due
    }
}

impl Store {
    /// What `table`, which was finished with `len_bytes`, records.
    pub(super) fn moment_of(&self, keyspace: KeyspaceId, table: TableId, len_bytes: u64) -> Moment {
        // Before the durable state: a flush that ends in between raises the floor there.
        let floors = self.memtable_floors();
        let versions = self.versions.lock();
        let stamp = self.history.stamp();
        let state = versions.state.clone();
        drop(versions);
        let mut newest_tables = self.history.newest_tables.lock();
        let roster = roster_of(&state, keyspace, &floors, &newest_tables);
        newest_tables.insert(keyspace, table);
        drop(newest_tables);
        let roster_len_bytes = roster.encode().len() as u64;
        let is_due = self.history.is_roster_due(len_bytes, roster_len_bytes);
        Moment { store_id: self.files.format_id(), stamp, roster: is_due.then_some(roster) }
    }

    /// The origin of a file that cleaning writes. A salvage finds it by this; it is in no level and replaces no table.
    pub(crate) fn origin_of_moved(&self, keyspace: KeyspaceId, table: TableId) -> Origin {
        let versions = self.versions.lock();
        let stamp = self.history.stamp();
        drop(versions);
        Origin {
            store_id: self.files.format_id(),
            keyspace: keyspace.0,
            level: HOLDER_LEVEL,
            run: 0,
            group: table.0,
            stamp,
            part: Part { output: 0, output_count: 1, number: 0, is_last: true },
            inputs: Vec::new(),
            logs: None,
            largest_is_excluded: false,
            stop: None,
        }
    }

    /// The first log that each keyspace's memtables need. A keyspace without memtables needs only
    /// the log that is being written, and those after it.
    fn memtable_floors(&self) -> Vec<(KeyspaceId, LogId)> {
        // First, because later writes go to this log or a newer one.
        let Some(newest) = self.newest_log().filter(|_| !self.are_logs_kept()) else {
            return Vec::new();
        };
        let next = match newest.end_seq {
            None => newest.id,
            Some(_) => LogId(newest.id.0 + 1),
        };
        let floor = |keyspace: &std::sync::Arc<super::KeyspaceState>| {
            let view = keyspace.view();
            let slots = view.immutables.iter().chain([&view.active]);
            let oldest = slots.filter_map(|slot| slot.first_log()).min();
            (keyspace.id, oldest.unwrap_or(next))
        };
        self.keyspaces.read().values().map(floor).collect()
    }
}

fn roster_of(
    state: &StoreState,
    keyspace: KeyspaceId,
    floors: &[(KeyspaceId, LogId)],
    finished: &BTreeMap<KeyspaceId, TableId>,
) -> Roster {
    let floor_of = |id: KeyspaceId| floors.iter().find(|(of, _)| *of == id).map(|(_, log)| *log);
    let keyspaces = state.keyspaces.iter().map(|(&id, entry)| RosterKeyspace {
        id: id.0,
        log_floor: floor_of(id).map_or(entry.log_floor, |log| log.max(entry.log_floor)).0,
        newest_table: {
            let committed = entry.version.tables().map(|slot| slot.meta.id).max();
            committed.max(finished.get(&id).copied()).map_or(0, |table| table.0)
        },
        name: entry.record.name.clone(),
    });
    let (mut runs, mut marks, mut fronts) = (Vec::new(), Vec::new(), Vec::new());
    let levels = state.keyspaces.get(&keyspace).map(|entry| &entry.version.levels);
    for (level, runs_of) in levels.into_iter().flatten().enumerate() {
        for run in &runs_of.runs {
            let tables = run.tables.iter().map(|slot| slot.meta.id.0).collect();
            runs.push(RosterRun { level: level as u8, run: run.id.0, tables });
            marks.extend(run.tables.iter().map(|slot| mark(&slot.meta)));
            let with_front = run.tables.iter().filter(|slot| slot.meta.has_front);
            fronts.extend(with_front.map(|s| (s.meta.id.0, s.meta.smallest.to_vec())));
        }
    }
    Roster {
        keyspaces: keyspaces.collect(),
        next_keyspace: state.counters.next_keyspace_id.into(),
        last_seq: state.counters.last_seq,
        runs,
        marks,
        fronts,
    }
}

fn mark(meta: &TableMeta) -> u16 {
    let (seq_min, seq_max) = (meta.seq_min.0, meta.seq_max.0);
    let counts = [meta.entry_count, meta.delete_count, meta.raw_len_bytes, seq_min, seq_max];
    mark_of(counts, &meta.smallest, &meta.largest)
}

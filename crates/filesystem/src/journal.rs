//! The journal: changes of the tree on their way to the disk, in order, many per commit.
//!
//! ```text
//!   change -> tree (in memory) -> pending ----> one commit: record, tables to add, stores to remove
//!                                   ^ next caller's       ^ every caller that waits for an earlier change
//! ```
//!
//! Invariants
//!   J1  A commit holds all changes pending when it begins, in order (V1).
//!   J2  After a failed commit nothing is written any more, because it is unknown what is durable.
//!   J3  A commit that would not fit the catalog is refused before it begins. Its changes stay
//!       pending.
//!   J4  State found on opening counts as not durable until the first commit, or a flush instead of
//!       one: a killed process may have left it in the drive's cache.
//!   J5  Pending changes are bounded. A long list is committed even if no caller asks for it, and
//!       the check for new names counts pending changes as well as committed ones.

use crate::error::FsError;
use crate::format::{RecordKind, encode, encode_body, put_change};
use crate::node::Node;
use crate::tree::{Change, NodeId, StoreId, Tree};
use imbrex_files::{AppRecord, Commit, CommitKind, Files, FilesError, Persisted};
use parking_lot::{Mutex, MutexGuard};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Records accumulate to at least this length before a snapshot replaces them, however short that
/// would be.
const RECORDS_LEN_BYTES_MIN: u64 = 64 << 10;
/// Roughly what a stored file takes in the catalog: its name, its record and an extent.
const STORE_COST_BYTES: u64 = 72;
const EXTENT_COST_BYTES: u64 = 16;
/// Catalog space that others may take between the check for room and the commit. Logs that begin or
/// grow take some hundred bytes each. A table that is moved to the smallest supported tracks takes
/// 2.5 KiB.
const MEANWHILE_LEN_BYTES: u64 = 4096;
/// This many removals, or bytes that they free, are committed even if no caller asks.
const REMOVALS_MAX: usize = 256;
const DEAD_LEN_BYTES_MAX: u64 = 64 << 20;
/// Changes of this many bytes are committed, too (J5).
const EDIT_LEN_BYTES_MAX: usize = 256 << 10;

/// The tree, and how much of it is durable.
#[derive(Debug)]
pub(crate) struct Journal {
    files: Arc<dyn Files>,
    live: Mutex<Live>,
    /// The last durable change. 0 is the state found on opening, and `None` means that even that is
    /// not durable yet (J4). Locked while a commit is under way.
    durable: Mutex<Option<u64>>,
}

/// The state under the lock of a [`Journal`].
#[derive(Debug)]
pub(crate) struct Live {
    pub(crate) tree: Tree,
    pub(crate) nodes: BTreeMap<NodeId, Arc<Node>>,
    /// Paths locked by this process.
    pub(crate) locks: BTreeSet<String>,
    pending: Pending,
    /// How many changes have been made.
    applied: u64,
    next_id: u64,
    /// The length of the records in the catalog, and the length at which a snapshot replaces them.
    records_len_bytes: u64,
    records_len_bytes_max: u64,
    /// Whether the records are more than one snapshot.
    is_piled: bool,
    poisoned: Option<String>,
}

#[derive(Debug, Default)]
struct Pending {
    /// The changes in order, in the encoding of a record.
    edit: Vec<u8>,
    /// The next record replaces those before it, however short they are.
    is_snapshot: bool,
    add: Vec<Box<dyn Persisted>>,
    remove: Vec<StoreId>,
    level: BTreeMap<StoreId, u8>,
    dead_len_bytes: u64,
}

impl Pending {
    fn is_empty(&self) -> bool {
        self.edit.is_empty() && !self.is_snapshot && self.remove.is_empty() && self.level.is_empty()
    }
}

impl Live {
    pub(crate) fn new(tree: Tree, next_id: u64, records_len_bytes: u64) -> Live {
        Live {
            tree,
            nodes: BTreeMap::new(),
            locks: BTreeSet::new(),
            pending: Pending::default(),
            applied: 0,
            next_id,
            records_len_bytes,
            records_len_bytes_max: RECORDS_LEN_BYTES_MIN,
            is_piled: true,
            poisoned: None,
        }
    }

    /// # Errors
    /// [`FsError::Poisoned`] (J2).
    pub(crate) fn check(&self) -> Result<(), FsError> {
        match &self.poisoned {
            None => Ok(()),
            Some(reason) => Err(FsError::Poisoned { reason: reason.clone() }),
        }
    }

    /// A number that nothing on the drive has ever had (V5).
    pub(crate) fn new_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id - 1
    }

    /// Makes a change, which must fit the tree. Returns its number.
    pub(crate) fn change(&mut self, change: Change) -> u64 {
        put_change(&mut self.pending.edit, &change);
        let dropped = match self.tree.apply(change) {
            Ok(dropped) => dropped,
            Err(misfit) => unreachable!("changes are checked before they are made: {}", misfit.0),
        };
        dropped.stores.into_iter().for_each(|store| self.drop_store(store));
        self.applied += 1;
        if let Some(node) = dropped.node.and_then(|id| self.nodes.remove(&id)) {
            // If the file were found again, it would lack data synced later. So a sync of it makes
            // its removal durable (V2).
            node.seq.store(self.applied, Ordering::Release);
            node.is_gone.store(true, Ordering::Release);
        }
        self.applied
    }

    /// The same with a table that the change names.
    pub(crate) fn change_adding(&mut self, change: Change, add: Box<dyn Persisted>) -> u64 {
        self.pending.add.push(add);
        self.change(change)
    }

    /// Removes a stored file with the next commit.
    pub(crate) fn drop_store(&mut self, store: StoreId) {
        let name = store.name();
        self.pending.level.remove(&store);
        match self.pending.add.iter().position(|file| file.name() == name) {
            // Never committed: it is gone once its last reader is.
            Some(at) => drop(self.pending.add.remove(at)),
            None => self.pending.remove.push(store),
        }
        self.applied += 1;
    }

    /// Records that `len_bytes` bytes become free with the next commit.
    pub(crate) fn note_dead(&mut self, len_bytes: u64) {
        self.pending.dead_len_bytes += len_bytes;
    }

    /// Whether enough is pending, or about to be freed, that a commit is due.
    pub(crate) fn is_commit_due(&self) -> bool {
        self.pending.remove.len() >= REMOVALS_MAX
            || self.pending.dead_len_bytes >= DEAD_LEN_BYTES_MAX
            || self.pending.edit.len() >= EDIT_LEN_BYTES_MAX
    }

    /// Roughly how many bytes pending changes will add to the catalog, without counting removals.
    pub(crate) fn pending_len_bytes(&self) -> u64 {
        self.added_len_bytes() + self.pending.edit.len() as u64
    }

    fn added_len_bytes(&self) -> u64 {
        let cost = |file: &dyn Persisted| {
            STORE_COST_BYTES + EXTENT_COST_BYTES * file.extents().len() as u64
        };
        self.pending.add.iter().map(|file| cost(&**file)).sum()
    }

    /// Sets another level of a stored file, with the next commit.
    pub(crate) fn set_level(&mut self, store: StoreId, level: u8) {
        self.pending.level.insert(store, level);
        self.applied += 1;
    }

    /// Makes the next commit leave a single snapshot in the catalog, unless that is already all
    /// there is.
    pub(crate) fn want_snapshot(&mut self) {
        if self.is_piled || !self.pending.edit.is_empty() {
            self.pending.is_snapshot = true;
            self.applied += 1;
        }
    }

    /// The number of the last change.
    pub(crate) fn applied(&self) -> u64 {
        self.applied
    }

    /// The record of the pending changes, which states whether it replaces those before it. Refuses
    /// a record that does not fit (J3).
    fn record(&mut self, files: &dyn Files) -> Result<AppRecord, FsError> {
        let added_bytes = self.added_len_bytes();
        let removed_bytes = STORE_COST_BYTES / 2 * self.pending.remove.len() as u64;
        let free_bytes = files.space().catalog.free_bytes(CommitKind::Upkeep);
        let free_bytes = free_bytes.saturating_sub(MEANWHILE_LEN_BYTES) + removed_bytes;
        let edit = encode_body(RecordKind::Edit, self.next_id, &self.pending.edit);
        let needed = added_bytes + 8 + edit.len() as u64;
        let piled = self.records_len_bytes + edit.len() as u64;
        let is_edit = piled <= self.records_len_bytes_max && !self.pending.is_snapshot;
        if is_edit && needed <= free_bytes {
            self.records_len_bytes = piled;
            self.is_piled = true;
            return Ok(AppRecord::Append(edit));
        }
        let snapshot = encode(RecordKind::Snapshot, self.next_id, &self.tree.snapshot());
        let needed =
            (added_bytes + 8 + snapshot.len() as u64).saturating_sub(self.records_len_bytes);
        if needed > free_bytes {
            self.pending.is_snapshot = false;
            let source = FilesError::NoSpace { needed_bytes: needed, free_bytes };
            let what = "making changes of names durable".to_owned();
            return Err(FsError::Files { what, source });
        }
        self.records_len_bytes = snapshot.len() as u64;
        self.records_len_bytes_max = RECORDS_LEN_BYTES_MIN.max(2 * self.records_len_bytes);
        self.is_piled = false;
        Ok(AppRecord::Replace(snapshot))
    }
}

impl Journal {
    pub(crate) fn new(files: Arc<dyn Files>, live: Live) -> Journal {
        Journal { files, live: Mutex::new(live), durable: Mutex::new(None) }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Live> {
        self.live.lock()
    }

    /// Makes every change up to number `upto` durable, and everything else that is pending.
    ///
    /// Cost: nothing if that has happened already. Otherwise one commit of the catalog, or one
    /// flush of the drive if nothing is pending.
    ///
    /// # Errors
    /// [`FsError::Files`]: for a lack of space, nothing changed; after any other error the file
    /// system is poisoned (J2).
    pub(crate) fn commit(&self, upto: u64) -> Result<(), FsError> {
        let mut durable = self.durable.lock();
        let mut live = self.live.lock();
        live.check()?;
        if durable.is_some_and(|durable| durable >= upto) {
            return Ok(());
        }
        let reached = live.applied;
        if live.pending.is_empty() {
            drop(live);
            if durable.is_none() {
                let what = "making durable what was found";
                self.files.sync().map_err(|source| self.poison(what, source))?;
            }
            *durable = Some(reached);
            return Ok(());
        }
        let app = Some(live.record(&*self.files)?);
        let Pending { add, remove, level, .. } = std::mem::take(&mut live.pending);
        drop(live);
        let commit = Commit {
            add,
            remove: remove.into_iter().map(StoreId::name).collect(),
            level: level.into_iter().map(|(store, level)| (store.name(), level)).collect(),
            app,
            kind: CommitKind::Upkeep,
            ..Commit::default()
        };
        let what = "making changes of names durable";
        self.files.commit(commit).map_err(|source| self.poison(what, source))?;
        *durable = Some(reached);
        Ok(())
    }

    /// Stops all further writes (J2).
    fn poison(&self, what: &str, source: FilesError) -> FsError {
        self.live.lock().poisoned = Some(source.to_string());
        FsError::Files { what: what.to_owned(), source }
    }

    /// Commits pending removals if they may free the space that a write of `len_bytes` needs (V4).
    pub(crate) fn make_room(&self, len_bytes: u64) -> Result<(), FsError> {
        let space = self.files.space();
        let free_bytes = space.free_bytes.saturating_sub(space.reserve_bytes);
        // Some placements give a table whole zones.
        if free_bytes <= 2 * len_bytes.max(space.grain_bytes) {
            self.commit_removals()?;
        }
        Ok(())
    }

    /// Commits pending removals, or waits for another caller's commit of them. Returns false if
    /// there are none.
    pub(crate) fn commit_removals(&self) -> Result<bool, FsError> {
        let live = self.live.lock();
        if !live.pending.remove.is_empty() {
            let upto = live.applied;
            drop(live);
            return self.commit(upto).map(|()| true);
        }
        drop(live);
        if self.durable.try_lock().is_some() {
            return Ok(false);
        }
        // The removed files occupy their space until that commit has ended.
        drop(self.durable.lock());
        self.live.lock().check().map(|()| true)
    }

    /// The largest number of file bytes that the tree may hold.
    pub(crate) fn inline_len_bytes_max(&self) -> u64 {
        self.files.space().catalog.capacity_bytes / 8
    }
}

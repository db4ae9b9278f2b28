//! The journal: changes of the tree on their way to the disk, in order, many to a commit.
//!
//! ```text
//!   change -> tree (in memory) -> pending ----> one commit: record, tables to add, stores to remove
//!                                   ^ next caller's       ^ whoever waits for an earlier change
//! ```
//!
//! Invariants
//!   J1  A commit holds all changes pending when it begins, in order (V1).
//!   J2  After a failed commit nothing is written any more: what is durable is unknown.
//!   J3  A commit that would not fit the catalog is refused before it begins; what is pending stays.
//!   J4  What an opening found counts as not durable until the first commit, or a flush in its stead: a process
//!       that was killed may have left it in the drive's cache.
//!   J5  What is pending is bounded: what is long is committed though nobody asked for it, and names are admitted
//!       by what is pending besides what is committed.

use crate::error::FsError;
use crate::format::{RecordKind, encode, encode_body, put_change};
use crate::node::Node;
use crate::tree::{Change, NodeId, StoreId, Tree};
use imbrex_files::{AppRecord, Commit, CommitKind, Files, FilesError, Persisted};
use parking_lot::{Mutex, MutexGuard};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Records pile up to so much before a snapshot replaces them, however short it would be.
const RECORDS_LEN_BYTES_MIN: u64 = 64 << 10;
/// What a stored file takes in the catalog, about: its name, its record and an extent.
const STORE_COST_BYTES: u64 = 72;
const EXTENT_COST_BYTES: u64 = 16;
/// What logs that begin or grow, and a file that is moved, may take in the catalog between a look at its room and
/// the commit: some hundred bytes each, 2.5 KiB for a table that is moved to the smallest tracks there are.
const MEANWHILE_LEN_BYTES: u64 = 4096;
/// So many removals, or bytes that they free, are made durable without anybody asking.
const REMOVALS_MAX: usize = 256;
const DEAD_LEN_BYTES_MAX: u64 = 64 << 20;
/// Changes of so many bytes are, too (J5).
const EDIT_LEN_BYTES_MAX: usize = 256 << 10;

/// The tree, and what of it is durable.
#[derive(Debug)]
pub(crate) struct Journal {
    files: Arc<dyn Files>,
    live: Mutex<Live>,
    /// The last change that is durable, 0 being what was found; `None` where not even that is (J4). Held while a
    /// commit is under way.
    durable: Mutex<Option<u64>>,
}

/// What the lock of a [`Journal`] guards.
#[derive(Debug)]
pub(crate) struct Live {
    pub(crate) tree: Tree,
    pub(crate) nodes: BTreeMap<NodeId, Arc<Node>>,
    /// Paths locked by this process.
    pub(crate) locks: BTreeSet<String>,
    pending: Pending,
    /// How many changes there were.
    applied: u64,
    next_id: u64,
    /// How long the records in the catalog are, and when a snapshot shall replace them.
    records_len_bytes: u64,
    records_len_bytes_max: u64,
    /// Whether there is more among them than a snapshot.
    is_piled: bool,
    poisoned: Option<String>,
}

#[derive(Debug, Default)]
struct Pending {
    /// The changes in order, as a record has them.
    edit: Vec<u8>,
    /// The next record replaces those before, however short they are.
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

    /// A number that nothing on the drive ever had (V5).
    pub(crate) fn new_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id - 1
    }

    /// Makes a change that fits the tree; returns its number.
    pub(crate) fn change(&mut self, change: Change) -> u64 {
        put_change(&mut self.pending.edit, &change);
        let dropped = match self.tree.apply(change) {
            Ok(dropped) => dropped,
            Err(misfit) => unreachable!("changes are checked before they are made: {}", misfit.0),
        };
        dropped.stores.into_iter().for_each(|store| self.drop_store(store));
        self.applied += 1;
        if let Some(node) = dropped.node.and_then(|id| self.nodes.remove(&id)) {
            // Found again it would lack what was synced later: a sync of it makes its removal durable (V2).
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
            // Never committed: it is gone as soon as nobody reads it.
            Some(at) => drop(self.pending.add.remove(at)),
            None => self.pending.remove.push(store),
        }
        self.applied += 1;
    }

    /// Says that so many bytes become free with the next commit.
    pub(crate) fn note_dead(&mut self, len_bytes: u64) {
        self.pending.dead_len_bytes += len_bytes;
    }

    /// Whether so much is to be freed, or pending, that it should be made durable.
    pub(crate) fn is_commit_due(&self) -> bool {
        self.pending.remove.len() >= REMOVALS_MAX
            || self.pending.dead_len_bytes >= DEAD_LEN_BYTES_MAX
            || self.pending.edit.len() >= EDIT_LEN_BYTES_MAX
    }

    /// What the catalog will be told besides removals, about, in bytes of it.
    pub(crate) fn pending_len_bytes(&self) -> u64 {
        self.added_len_bytes() + self.pending.edit.len() as u64
    }

    fn added_len_bytes(&self) -> u64 {
        let cost = |file: &dyn Persisted| {
            STORE_COST_BYTES + EXTENT_COST_BYTES * file.extents().len() as u64
        };
        self.pending.add.iter().map(|file| cost(&**file)).sum()
    }

    /// Tells the file layer another level of a stored file, with the next commit.
    pub(crate) fn set_level(&mut self, store: StoreId, level: u8) {
        self.pending.level.insert(store, level);
        self.applied += 1;
    }

    /// Lets the next commit leave no more in the catalog than a snapshot, unless that is all there is.
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

    /// The record of what is pending, and whether it replaces those before; refuses what does not
    /// fit (J3).
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

    /// Makes every change up to number `upto` durable, and whatever else is pending.
    ///
    /// Cost: nothing if somebody has done so; else one commit of the catalog, or for what was found one flush of
    /// the drive.
    ///
    /// # Errors
    /// [`FsError::Files`] for want of space: nothing changed. Else the file system is poisoned (J2).
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

    /// Nothing is written any more (J2).
    fn poison(&self, what: &str, source: FilesError) -> FsError {
        self.live.lock().poisoned = Some(source.to_string());
        FsError::Files { what: what.to_owned(), source }
    }

    /// Makes pending removals durable if they may give the room that a write of `len_bytes` needs
    /// (V4).
    pub(crate) fn make_room(&self, len_bytes: u64) -> Result<(), FsError> {
        let space = self.files.space();
        let free_bytes = space.free_bytes.saturating_sub(space.reserve_bytes);
        // Some placements give a table whole zones.
        if free_bytes <= 2 * len_bytes.max(space.grain_bytes) {
            self.commit_removals()?;
        }
        Ok(())
    }

    /// Makes pending removals durable, or waits until those are that somebody is committing; false if there are none.
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
        // Their room is taken until that commit has ended.
        drop(self.durable.lock());
        self.live.lock().check().map(|()| true)
    }

    /// The most bytes that may lie in the tree.
    pub(crate) fn inline_len_bytes_max(&self) -> u64 {
        self.files.space().catalog.capacity_bytes / 8
    }
}

//! The flash drive of a pair: its files, its commits, and the room that it has promised (T4, T6).

use super::format::{PairRecord, number};
use crate::api::{AppRecord, Commit, Files};
use crate::catalog::FileId;
use crate::error::FilesError;
use crate::layer::FileLayer;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};

/// The flash drive of a pair.
#[derive(Debug)]
pub(super) struct Flash {
    pub(super) files: FileLayer,
    pub(super) main_id: u64,
    pub(super) commits: Mutex<FlashCommits>,
    /// The promised lengths of logs being written (T6), and of tables until they are written.
    pub(super) promises: Mutex<BTreeMap<FileId, Promise>>,
    /// Names of logs that are being created on flash. If two had one name, the next opening would
    /// take the older.
    pub(super) creating: Mutex<BTreeSet<String>>,
    pub(super) counts: Counts,
}

/// Commits on flash, one at a time, so that their ages are in the order of their records (T4).
#[derive(Debug)]
pub(super) struct FlashCommits {
    /// How many commits flash has made.
    pub(super) age: u64,
    /// How many of them the main drive knows of, durably.
    pub(super) main_age: u64,
    /// Files that durably have no name (T2).
    pub(super) to_remove: BTreeSet<FileId>,
}

#[derive(Debug)]
pub(super) struct Promise {
    pub(super) expected_len_bytes: u64,
    /// Whether it owns blocks already, which are no longer free.
    pub(super) is_created: bool,
}

#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) logs: AtomicU64,
    pub(super) tables: AtomicU64,
    pub(super) written_bytes: AtomicU64,
    pub(super) fallbacks: AtomicU64,
    pub(super) fallback_bytes: AtomicU64,
}

impl Flash {
    /// Marks a failed write as one of the flash drive.
    pub(super) fn failed(error: FilesError) -> FilesError {
        match error {
            FilesError::Disk { what, source } => {
                FilesError::Disk { what: format!("on the flash drive: {what}"), source }
            }
            other => other,
        }
    }

    /// The name of the file on flash, if it is there.
    pub(super) fn name_of(&self, id: FileId) -> Option<String> {
        let live = self.files.inner.committer.lock();
        let prefix = number(id);
        live.namespace.list(&prefix).next().map(|(name, _)| name.to_owned())
    }

    /// Promises room for a log of `expected_len_bytes`, if the other promises leave that much.
    /// Tables are promised their total length under the id of the first one.
    pub(super) fn promise(&self, id: FileId, expected_len_bytes: u64) -> bool {
        let mut promises = self.promises.lock();
        let has_room = self.promised_bytes(&promises) + expected_len_bytes <= self.free_bytes();
        if has_room {
            promises.insert(id, Promise { expected_len_bytes, is_created: false });
        }
        has_room
    }

    /// Raises the promise of a log to `len_bytes` in all, if the other promises leave that much.
    pub(super) fn raise_promise(&self, id: FileId, len_bytes: u64) -> bool {
        let mut promises = self.promises.lock();
        let Some(promise) = promises.get_mut(&id) else { return false };
        let before_bytes = std::mem::replace(&mut promise.expected_len_bytes, len_bytes);
        let has_room = self.promised_bytes(&promises) <= self.free_bytes();
        if let Some(promise) = promises.get_mut(&id).filter(|_| !has_room) {
            promise.expected_len_bytes = before_bytes;
        }
        has_room
    }

    /// Ends a promise: the log or the tables have their room, or no longer need it.
    pub(super) fn keep_promise(&self, id: FileId) {
        self.promises.lock().remove(&id);
    }

    fn free_bytes(&self) -> u64 {
        self.files.space().free_bytes
    }

    /// What logs being written may still take, besides the blocks that they own. Tables being
    /// written count twice for a moment, as promised and as not free, rather than not at all.
    fn promised_bytes(&self, promises: &BTreeMap<FileId, Promise>) -> u64 {
        let live = self.files.inner.committer.lock();
        let left = |(&id, promise): (&FileId, &Promise)| {
            let prefix = number(id);
            let owned = live.namespace.list(&prefix).next().map(|(_, log)| log.len_bytes());
            match owned {
                Some(owned_bytes) => promise.expected_len_bytes.saturating_sub(owned_bytes),
                // A log that is removed while it is written needs no more.
                None if promise.is_created => 0,
                None => promise.expected_len_bytes,
            }
        };
        promises.iter().map(left).sum()
    }

    pub(super) fn begin_creating<'a>(&'a self, name: &'a str) -> Result<Creating<'a>, FilesError> {
        if self.creating.lock().insert(name.to_owned()) {
            return Ok(Creating { flash: self, name });
        }
        Err(FilesError::Exists { name: name.to_owned() })
    }

    pub(super) fn fall_back(&self, count: usize, len_bytes: u64) {
        self.counts.fallbacks.fetch_add(count as u64, Ordering::Relaxed);
        self.counts.fallback_bytes.fetch_add(len_bytes, Ordering::Relaxed);
    }
}

impl FlashCommits {
    /// Makes `commit` durable on flash, which is one commit older then; returns its age.
    pub(super) fn commit(&mut self, flash: &Flash, commit: Commit) -> Result<u64, FilesError> {
        let record = PairRecord {
            main_id: flash.main_id,
            flash_id: flash.files.format_id(),
            age: self.age + 1,
            main_age: self.main_age,
        };
        let app = Some(AppRecord::Replace(record.encode()));
        flash.files.commit(Commit { app, ..commit }).map_err(Flash::failed)?;
        self.age = record.age;
        Ok(self.age)
    }
}

/// A log that is being created on flash.
pub(super) struct Creating<'a> {
    flash: &'a Flash,
    name: &'a str,
}

impl Drop for Creating<'_> {
    fn drop(&mut self) {
        self.flash.creating.lock().remove(self.name);
    }
}

//! Checkpoints: the store at one moment, kept on the same drive; and the copy of it to another drive.
//!
//! ```text
//!   000042.tbl ---.                        compaction removes this name ...
//!                  >-- the same bytes
//!   checkpoint/monday/000042.tbl ---'      ... and this one keeps them
//! ```
//!
//! A checkpoint is a snapshot record of the state in the catalog, and a second name for each of its
//! tables. One commit makes both. Nothing is copied, but tables that compaction replaces keep their
//! space.

use crate::EngineError;
use crate::db::Db;
use crate::db::pin::snapshot_record;
use crate::open::recover::{LeftOut, Recovery, attach, decode_records, leave_out};
use crate::store::commit::Change;
use crate::store::durable::RecordLens;
use crate::store::{Start, Store};
use crate::version::edit::CheckpointRecord;
use crate::version::names::check_name;
use crate::version::names::{linked_name, names_prefix};
use crate::watch::unwatched;
use crate::work::flush;
use imbrex_files::{CommitKind, Files};
use std::sync::Arc;

impl Db {
    /// Creates a checkpoint called `name`, which is kept durably until it is deleted. It holds the
    /// store as it is at one moment during the call: everything written before, in all keyspaces,
    /// and nothing written later.
    ///
    /// Cost: a flush, and a name for each table.
    ///
    /// # Errors
    /// [`EngineError::CheckpointExists`], [`EngineError::BadName`], [`EngineError::Files`], and the
    /// errors of [`Db::flush`].
    pub fn checkpoint(&self, name: &str) -> Result<(), EngineError> {
        check_name("checkpoint", name)?;
        let store = self.store();
        store.check_writable()?;
        let _cut = flush::flush_to_cut(store)?;
        store.commit_with(|state| {
            if state.checkpoints.contains_key(name) {
                return Err(EngineError::CheckpointExists { name: name.to_owned() });
            }
            let mut change = Change::default();
            for entry in state.keyspaces.values() {
                for slot in entry.version.files() {
                    let id = slot.meta.id;
                    change.link.push((id.file_name(), linked_name(name, id)));
                }
            }
            let record =
                CheckpointRecord { name: name.to_owned(), snapshot: snapshot_record(state) };
            change.edit.checkpoints_created.push(record);
            Ok(change)
        })
    }

    /// The names of all checkpoints.
    pub fn checkpoints(&self) -> Vec<String> {
        self.store().state().checkpoints.into_keys().collect()
    }

    /// Opens a checkpoint for reading; writes to it are refused. If the store was opened without
    /// its missing or damaged parts ([`OpenMode`](crate::OpenMode)), its checkpoints are opened in
    /// the same way.
    ///
    /// # Errors
    /// [`EngineError::NoCheckpoint`], [`EngineError::Corrupt`], [`EngineError::Files`].
    pub fn open_checkpoint(&self, name: &str) -> Result<Db, EngineError> {
        let missing = || EngineError::NoCheckpoint { name: name.to_owned() };
        let store = self.store();
        let record = store.state().checkpoints.remove(name).ok_or_else(missing)?;
        let mut state = decode_records(&[record.to_vec()])?;
        let (files, file_name) = (&*store.files, |id| linked_name(name, id));
        let mut left_out = LeftOut::default();
        if store.options.open_mode.is_in_part() {
            let (losses, cache_len_bytes) =
                (store.losses.as_deref(), store.options.block_cache_len_bytes);
            left_out = leave_out(&mut state, files, &file_name, losses, cache_len_bytes)?;
        }
        attach(&state, files, &file_name)?;
        let recovery = Recovery { missing: left_out.missing, ..Recovery::default() };
        let start = Start {
            files: Arc::clone(&store.files),
            runtime: store.runtime.clone(),
            options: store.options.clone(),
            places_all_values: false,
            state,
            lens: RecordLens::of(&[record.to_vec()]),
            is_read_only: true,
            checkpoint: Some(name.to_owned()),
            losses: store.losses.clone(),
            lost: left_out.lost,
        };
        Db::start(Store::new(start), recovery)
    }

    /// Deletes a checkpoint. Handles that are open on it can still read.
    ///
    /// # Errors
    /// [`EngineError::NoCheckpoint`], [`EngineError::Files`].
    pub fn delete_checkpoint(&self, name: &str) -> Result<(), EngineError> {
        let store = self.store();
        store.runtime.scheduler.yield_now();
        store.check_writable()?;
        store.commit_with(|state| {
            if !state.checkpoints.contains_key(name) {
                return Err(EngineError::NoCheckpoint { name: name.to_owned() });
            }
            let mut change = Change { kind: CommitKind::Upkeep, ..Change::default() };
            change
                .remove
                .extend(store.files.list(&names_prefix(name)).into_iter().map(|file| file.name));
            change.edit.checkpoints_dropped.push(name.to_owned());
            Ok(change)
        })?;
        // A flush may have been blocked for want of this space.
        store.refresh_space();
        store.runtime.scheduler.notify();
        Ok(())
    }

    /// Copies the store to an empty file layer, where it can be opened as a store. The copy holds
    /// the store as it is at one moment during the call: everything written before, in all
    /// keyspaces, and nothing written later.
    ///
    /// Cost: a flush; reads and writes all tables once; memory for one table.
    ///
    /// # Errors
    /// [`EngineError::BackupTarget`], [`EngineError::Files`], and the errors of [`Db::flush`].
    pub fn backup_to(&self, target: &dyn Files) -> Result<(), EngineError> {
        let file_count = target.list("").len() + target.app_records().len();
        if file_count > 0 {
            return Err(EngineError::BackupTarget { file_count });
        }
        self.pin()?.write_to(target, &mut unwatched)
    }
}

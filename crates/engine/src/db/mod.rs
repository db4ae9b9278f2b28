//! The store's handle: opening, batches, snapshots, keyspaces, and what concerns the whole store.

mod checkpoint;
pub(crate) mod keyspace;
mod metrics;
pub(crate) mod pin;
pub(crate) mod replica;
pub(crate) mod shared;

use crate::EngineError;
use crate::batch::WriteBatch;
use crate::db::keyspace::Keyspace;
use crate::db::shared::Shared;
use crate::metrics::Metrics;
use crate::open::check::CheckReport;
use crate::open::parts::{KeyspaceParts, parts_of};
use crate::open::recover::{DEFAULT_KEYSPACE, Recovery, recover};
use crate::options::{KeyspaceOptions, Options, WriteOptions};
use crate::pins::Pins;
use crate::snapshot::Snapshot;
use crate::store::commit::Change;
use crate::store::due;
use crate::store::keyspace::KeyspaceState;
use crate::store::{Store, gate};
use crate::totals::Totals;
use crate::version::edit::KeyspaceRecord;
use crate::version::names::check_name;
use crate::version::state::KeyspaceEntry;
use crate::watch::{Progress, Watch, ask, unwatched};
use crate::work::clean::CleanJob;
use crate::work::compact::CompactionJob;
use crate::work::flush;
use crate::work::flush::FlushJob;
use crate::work::idle::EagerJob;
use crate::work::write;
use imbrex_clockwork::Runtime;
use imbrex_files::{CommitKind, Files};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// An open store. Cheap to clone. The store closes when the last clone, [`Keyspace`] and iterator
/// of it are dropped.
#[derive(Clone, Debug)]
pub struct Db {
    pub(crate) shared: Arc<Shared>,
}

impl Db {
    /// Opens the store in `files`. If there is none, creates an empty one, provided that the
    /// options allow it.
    ///
    /// All writes acknowledged with `sync` are there; see the crate's durability contract. Cost:
    /// reads the catalog's records and the logs, and writes the content of the logs to tables. If
    /// the drive has no room for those tables, the content stays in memory
    /// ([`Recovery::kept_log_count`]).
    ///
    /// # Errors
    /// [`EngineError::NoStore`], [`EngineError::BadOption`], [`EngineError::Version`],
    /// [`EngineError::Corrupt`], [`EngineError::Files`].
    pub fn open(
        files: Arc<dyn Files>,
        runtime: Runtime,
        options: Options,
    ) -> Result<Db, EngineError> {
        options.check()?;
        let (store, recovery) = recover(files, runtime, options)?;
        Db::start(store, recovery)
    }

    /// A handle on `store`; starts the store's jobs, if it has any.
    pub(crate) fn start(store: Store, recovery: Recovery) -> Result<Db, EngineError> {
        let store = Arc::new(store);
        let default = find(&store, DEFAULT_KEYSPACE)?;
        if store.works_in_background() {
            let scheduler = &store.runtime.scheduler;
            scheduler.spawn(Box::new(FlushJob::new(Arc::clone(&store))));
            if store.options.eager_after_ns > 0 {
                scheduler.spawn(Box::new(EagerJob::new(Arc::clone(&store))));
            }
            if store.may_have_values_apart() {
                scheduler.spawn(Box::new(CleanJob::new(Arc::clone(&store))));
            }
            for _ in 0..store.options.max_background_jobs {
                scheduler.spawn(Box::new(CompactionJob::new(Arc::clone(&store))));
            }
        }
        Ok(Db { shared: Arc::new(Shared { store, recovery, default }) })
    }

    pub(crate) fn store(&self) -> &Arc<Store> {
        &self.shared.store
    }

    /// What recovery found when the store was opened.
    pub fn recovery(&self) -> &Recovery {
        &self.shared.recovery
    }

    /// What was skipped so far because it is damaged, one sentence each. Only for a store opened
    /// with [`OpenMode::Salvage`](crate::OpenMode::Salvage). Cursors add to it when they meet
    /// damage.
    pub fn losses(&self) -> Vec<String> {
        self.store().losses.as_ref().map_or_else(Vec::new, |losses| losses.sentences())
    }

    /// The keyspace that every store has.
    pub fn default_keyspace(&self) -> Keyspace {
        Keyspace::new(Arc::clone(&self.shared), Arc::clone(&self.shared.default))
    }

    /// The keyspace called `name`.
    ///
    /// # Errors
    /// [`EngineError::NoKeyspace`].
    pub fn keyspace(&self, name: &str) -> Result<Keyspace, EngineError> {
        Ok(Keyspace::new(Arc::clone(&self.shared), find(self.store(), name)?))
    }

    /// Creates a keyspace. It is durable on return, and so is everything written before. Waits
    /// while a checkpoint or backup flushes.
    ///
    /// # Errors
    /// [`EngineError::KeyspaceExists`], [`EngineError::BadName`], [`EngineError::BadOption`],
    /// [`EngineError::Stalled`], [`EngineError::Files`].
    pub fn create_keyspace(
        &self,
        name: &str,
        options: KeyspaceOptions,
    ) -> Result<Keyspace, EngineError> {
        let store = self.store();
        store.runtime.scheduler.yield_now();
        store.check_writable()?;
        check_name("keyspace", name)?;
        options.check()?;
        let mut created = None;
        let writer = flush::writer_without_cut(store)?;
        // If the keyspace survives a crash, writes from before it must survive too.
        write::sync_wal(store, writer.wal.as_deref())?;
        store.commit_with(|state| {
            if state.keyspaces.values().any(|entry| entry.record.name == name) {
                return Err(EngineError::KeyspaceExists { name: name.to_owned() });
            }
            let id = crate::KeyspaceId(state.counters.next_keyspace_id);
            let record = KeyspaceRecord { id, name: name.to_owned(), options };
            let entry = KeyspaceEntry {
                record: record.clone(),
                log_floor: Default::default(),
                version: Arc::default(),
            };
            let keyspace = Arc::new(KeyspaceState::new(&entry, &store.limits));
            created = Some(Arc::clone(&keyspace));
            let mut change = Change { created: vec![keyspace], ..Change::default() };
            change.edit.keyspaces_created.push(record);
            Ok(change)
        })?;
        let keyspace = created.expect("the commit made the keyspace");
        Ok(Keyspace::new(Arc::clone(&self.shared), keyspace))
    }

    /// Drops a keyspace and its content, at once and durably. The default keyspace cannot be
    /// dropped. Everything written before, to any keyspace, is durable on return.
    ///
    /// Its space is freed when the last iterator over it is dropped. Waits while a checkpoint or
    /// backup flushes.
    ///
    /// # Errors
    /// [`EngineError::NoKeyspace`], [`EngineError::BadName`], [`EngineError::Stalled`],
    /// [`EngineError::Files`].
    pub fn drop_keyspace(&self, name: &str) -> Result<(), EngineError> {
        let store = self.store();
        store.runtime.scheduler.yield_now();
        store.check_writable()?;
        if name == DEFAULT_KEYSPACE {
            let rule = "the default keyspace stays";
            return Err(EngineError::BadName { what: "keyspace", name: name.to_owned(), rule });
        }
        let keyspace = find(store, name)?;
        let writer = flush::writer_without_cut(store)?;
        if keyspace.is_dropped.swap(true, Ordering::AcqRel) {
            return Err(EngineError::NoKeyspace { name: name.to_owned() });
        }
        // From here on no writer, flush or compaction starts on it; wait for those that run.
        drop(writer);
        let ends = gate::POISONED | gate::CLOSED;
        let mut ready = || store.plans.lock().is_idle_for(keyspace.id) || store.gate() & ends != 0;
        let waited = store.runtime.scheduler.wait_until(&mut ready);
        let dropped = waited
            .map_err(|_| EngineError::Stalled { what: "a compaction of the keyspace" })
            // If the drop survives a crash, writes from before it must survive too: a row may have
            // been moved to another keyspace.
            .and_then(|()| write::sync(store))
            .and_then(|()| {
                store.commit_with(|state| {
                    let mut change = Change { kind: CommitKind::Upkeep, ..Change::default() };
                    let entry = &state.keyspaces[&keyspace.id];
                    change.remove =
                        entry.version.files().map(|slot| slot.meta.id.file_name()).collect();
                    change.edit.keyspaces_dropped.push(keyspace.id);
                    Ok(change)
                })
            });
        match &dropped {
            Ok(()) => store.forget_keyspace(keyspace.id),
            Err(_) => keyspace.is_dropped.store(false, Ordering::Release),
        }
        // A caller that waits for a flush of this keyspace need not wait any longer, and there is
        // space again.
        store.refresh_space();
        store.runtime.scheduler.notify();
        dropped
    }

    /// The names of all keyspaces, in order of creation.
    pub fn keyspace_names(&self) -> Vec<String> {
        self.store().all_keyspaces().iter().map(|keyspace| keyspace.name.clone()).collect()
    }

    /// Applies all operations of `batch` in order, or none of them, even after a crash.
    ///
    /// After a no-space error ([`EngineError::is_no_space`]) nothing was applied: a sync alone never
    /// fails for want of space.
    ///
    /// # Errors
    /// [`EngineError::NoKeyspace`], [`EngineError::NoSpace`], [`EngineError::Poisoned`],
    /// [`EngineError::Closed`], [`EngineError::Files`].
    pub fn write(&self, mut batch: WriteBatch, options: WriteOptions) -> Result<(), EngineError> {
        write::write_batch(self.store(), &mut batch, options)
    }

    /// Like [`Db::write`], but leaves `batch` empty, with its memory, for further operations.
    ///
    /// # Errors
    /// The errors of [`Db::write`]; `batch` is then unchanged.
    pub fn write_and_clear(
        &self,
        batch: &mut WriteBatch,
        options: WriteOptions,
    ) -> Result<(), EngineError> {
        write::write_batch(self.store(), batch, options)?;
        batch.clear();
        Ok(())
    }

    /// A snapshot of the store now.
    pub fn snapshot(&self) -> Snapshot {
        let written_bytes = self.store().tally.user_bytes.load(Ordering::Relaxed);
        self.store().snapshots.take(written_bytes, || self.store().visible())
    }

    /// What checkpoints and snapshots keep that the newest state does not need. Cost: a walk over the names
    /// of all files if there is a checkpoint.
    pub fn pins(&self) -> Pins {
        self.store().pins()
    }

    /// Makes everything written so far durable.
    ///
    /// # Errors
    /// [`EngineError::Poisoned`], [`EngineError::Files`].
    pub fn sync(&self) -> Result<(), EngineError> {
        self.store().runtime.scheduler.yield_now();
        write::sync(self.store())
    }

    /// Writes the content of all memtables to tables, durably.
    ///
    /// # Errors
    /// [`EngineError::Poisoned`], [`EngineError::Files`], [`EngineError::Stalled`].
    pub fn flush(&self) -> Result<(), EngineError> {
        self.store().check_writable()?;
        flush::flush_all(self.store())
    }

    /// Waits until no background work is due: all frozen memtables are in tables, and the levels
    /// are in shape. A full memtable is frozen only by the next write; use [`Db::flush`] to write
    /// all memtables.
    ///
    /// # Errors
    /// [`EngineError::Poisoned`], [`EngineError::Stalled`].
    pub fn wait_idle(&self) -> Result<(), EngineError> {
        self.wait_idle_with(&mut unwatched)
    }

    /// Like [`Db::wait_idle`], with a watch. Whenever background work proceeds, `watch` gets the
    /// number of bytes it has merged. `watch` may stop the waiting, but not the work.
    ///
    /// # Errors
    /// The errors of [`Db::wait_idle`], and [`EngineError::Stopped`].
    pub fn wait_idle_with(&self, watch: &mut Watch<'_>) -> Result<(), EngineError> {
        let store = self.store();
        store.runtime.scheduler.notify();
        let background_bytes = || store.tally.background_bytes.load(Ordering::Relaxed);
        let start_bytes = background_bytes();
        let mut asked = Ok(());
        let mut ready = || {
            let done_bytes = background_bytes() - start_bytes;
            let progress = Progress { done_bytes, total_bytes: 0 };
            asked = ask(watch, "waiting for background work", progress);
            asked.is_err() || store.gate() & gate::ENDS != 0 || due::is_at_rest(store)
        };
        if store.works_in_background() {
            let waited = store.runtime.scheduler.wait_until(&mut ready);
            waited.map_err(|_| EngineError::Stalled { what: "background work" })?;
        }
        asked?;
        store.check_open()?;
        store.check_not_refused()
    }

    /// Checks whether the drive and its catalog have room for a put now, and whether the drive is
    /// long enough for a store at all.
    ///
    /// # Errors
    /// [`EngineError::NoSpace`], with how much must be free and how much is.
    pub fn check_room(&self) -> Result<(), EngineError> {
        let store = self.store();
        store.look_for_space();
        let shortage = store.refresh_space().or_else(|| store.length_shortage());
        shortage.map_or(Ok(()), |shortage| Err(store.refusal(shortage)))
    }

    /// Checks whether the drive of this empty store is long enough that puts can fill at least half of
    /// it, or a third where tables take whole zones or files have guards. A formatter refuses a shorter
    /// drive. `drive_len_bytes` is everything that can be written to the drive, including what is not
    /// for files; `guards_len_bytes` is what the guards of some files take together.
    ///
    /// # Errors
    /// [`EngineError::NoSpace`], with the length that the drive must have at least and the one that it
    /// has. A longer drive may keep more, and so need to be longer still.
    pub fn check_length(
        &self,
        drive_len_bytes: u64,
        guards_len_bytes: u64,
    ) -> Result<(), EngineError> {
        self.check_room()?;
        let store = self.store();
        store
            .new_drive_shortage(drive_len_bytes, guards_len_bytes)
            .map_or(Ok(()), |shortage| Err(store.refusal(shortage)))
    }

    /// What the store did since it was opened, and what it holds.
    pub fn metrics(&self) -> Metrics {
        metrics::metrics(self.store())
    }

    /// What was done since the store was opened. What the opening itself read before its logs does not
    /// count.
    pub fn totals_since_opening(&self) -> Totals {
        self.store().totals_since_opening()
    }

    /// What was done over the store's lifetime, on the drive that it is on now. A power cut takes away what
    /// was counted since the last commit: a flush, a compaction or a close. A store that an older program
    /// made begins at zero, and so does a copy.
    pub fn totals_of_lifetime(&self) -> Totals {
        self.store().totals_of_lifetime()
    }

    /// Which part of the store each table is, now. Cost: a walk over all tables.
    pub fn parts(&self) -> Vec<KeyspaceParts> {
        parts_of(&self.store().state())
    }

    /// The compaction that is due next, in words: its tables, their levels, and why. `None` if none
    /// is due. The drive may still lack the room for it. Cost: that of one plan.
    pub fn next_compaction(&self) -> Option<String> {
        due::next_words(self.store())
    }

    /// A property as text: `levels`, `stats`, `last-sequence`, `memtable-bytes`,
    /// `block-cache-bytes`, `write-amplification`, `snapshots`, `background-error`; `None` for
    /// other names.
    pub fn property(&self, name: &str) -> Option<String> {
        metrics::property(self.store(), name)
    }

    /// Verifies the whole store: the checksums, order and counts of every table, the levels, and
    /// the references between records and files. For checkpoints it verifies the records, and the
    /// tables that only they have.
    ///
    /// Cost: reads all data twice, and data that only checkpoints have once.
    ///
    /// # Errors
    /// Damage is not an error but part of the report. [`EngineError::Files`] if a file cannot be
    /// read, [`EngineError::NoCheckpoint`] for a checkpoint that is deleted while the check reads
    /// it.
    pub fn check(&self) -> Result<CheckReport, EngineError> {
        self.check_with(&mut unwatched)
    }

    /// Like [`Db::check`], with a watch. The check reports its progress to `watch` after every
    /// piece, and `watch` may stop it.
    ///
    /// # Errors
    /// The errors of [`Db::check`], and [`EngineError::Stopped`].
    pub fn check_with(&self, watch: &mut Watch<'_>) -> Result<CheckReport, EngineError> {
        crate::open::check::check(self.store(), &self.recovery().missing, watch)
    }

    /// Refuses all writes from now on, as after a failed flush, and ends background work. Nothing
    /// more becomes durable, not even on close. Reads still work.
    ///
    /// For a caller that caught a panic in the store, after which the state in memory may hold half
    /// of a change. The durable state is consistent. To write again, close the store and reopen it.
    pub fn abandon(&self, reason: &str) {
        let _ = self.store().poison(reason);
    }

    /// Makes everything durable and ends background work. Other handles refuse writes from then on.
    /// Closing another handle waits as well, and reports whether everything is durable.
    ///
    /// Dropping the last handle does the same, but cannot report a failure.
    ///
    /// # Errors
    /// [`EngineError::Poisoned`], [`EngineError::Files`].
    pub fn close(self) -> Result<(), EngineError> {
        self.shared.close()
    }
}

fn find(store: &Store, name: &str) -> Result<Arc<KeyspaceState>, EngineError> {
    let found = store.all_keyspaces().into_iter().find(|keyspace| keyspace.name == name);
    found.ok_or_else(|| EngineError::NoKeyspace { name: name.chars().take(64).collect() })
}

//! The store's handle: opening, batches, snapshots, keyspaces, and what concerns all of it.

mod checkpoint;
pub(crate) mod keyspace;
mod metrics;
pub(crate) mod shared;

use crate::EngineError;
use crate::batch::WriteBatch;
use crate::db::keyspace::Keyspace;
use crate::db::shared::Shared;
use crate::metrics::Metrics;
use crate::open::check::CheckReport;
use crate::open::recover::{DEFAULT_KEYSPACE, Recovery, recover};
use crate::options::{KeyspaceOptions, Options, WriteOptions};
use crate::snapshot::Snapshot;
use crate::store::commit::Change;
use crate::store::due;
use crate::store::keyspace::KeyspaceState;
use crate::store::{Store, gate};
use crate::version::edit::KeyspaceRecord;
use crate::version::names::check_name;
use crate::version::state::KeyspaceEntry;
use crate::watch::{Progress, Watch, ask, unwatched};
use crate::work::compact::CompactionJob;
use crate::work::flush;
use crate::work::flush::FlushJob;
use crate::work::idle::EagerJob;
use crate::work::write;
use imbrex_clockwork::Runtime;
use imbrex_files::{CommitKind, Files};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// An open store. Cheap to clone; the store closes when the last clone, [`Keyspace`] or iterator
/// that came from it is gone.
#[derive(Clone, Debug)]
pub struct Db {
    pub(crate) shared: Arc<Shared>,
}

impl Db {
    /// Opens the store in `files`, or makes an empty one if there is none.
    ///
    /// Whatever was acknowledged with `sync` is there; see the crate's durability contract. Cost:
    /// reads the catalog's records and the logs; what the logs hold is written to tables, or, where the drive has no
    /// room for them, stays in memory ([`Recovery::kept_log_count`]).
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

    /// A handle on `store`, with its jobs running if it has any.
    pub(crate) fn start(store: Store, recovery: Recovery) -> Result<Db, EngineError> {
        let store = Arc::new(store);
        let default = find(&store, DEFAULT_KEYSPACE)?;
        if store.works_in_background() {
            let scheduler = &store.runtime.scheduler;
            scheduler.spawn(Box::new(FlushJob::new(Arc::clone(&store))));
            if store.options.eager_after_ns > 0 {
                scheduler.spawn(Box::new(EagerJob::new(Arc::clone(&store))));
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

    /// How the opening went.
    pub fn recovery(&self) -> &Recovery {
        &self.shared.recovery
    }

    /// What was passed over so far because it is damaged, a sentence each; of a store that is opened for
    /// [`OpenMode::Salvage`](crate::OpenMode::Salvage). Cursors add to it as they meet it.
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

    /// Makes a keyspace; durable on return, as is everything written before. Waits for a checkpoint or
    /// backup that flushes.
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
        // What was written before must not be gone where the keyspace is there.
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
            let keyspace = Arc::new(KeyspaceState::new(&entry));
            created = Some(Arc::clone(&keyspace));
            let mut change = Change { created: vec![keyspace], ..Change::default() };
            change.edit.keyspaces_created.push(record);
            Ok(change)
        })?;
        let keyspace = created.expect("the commit made the keyspace");
        Ok(Keyspace::new(Arc::clone(&self.shared), keyspace))
    }

    /// Drops a keyspace with all it holds, at once and durably; the default keyspace stays. Everything
    /// written before, to whatever keyspace, is durable on return.
    ///
    /// Space comes back when the last iterator over it is gone. Waits for a checkpoint or backup that
    /// flushes.
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
            // What was written before the drop must not be gone where the keyspace is: a row may have
            // been moved out of it.
            .and_then(|()| write::sync(store))
            .and_then(|()| {
                store.commit_with(|state| {
                    let mut change = Change { kind: CommitKind::Upkeep, ..Change::default() };
                    let entry = &state.keyspaces[&keyspace.id];
                    change.remove =
                        entry.version.tables().map(|slot| slot.meta.id.file_name()).collect();
                    change.edit.keyspaces_dropped.push(keyspace.id);
                    Ok(change)
                })
            });
        match &dropped {
            Ok(()) => store.forget_keyspace(keyspace.id),
            Err(_) => keyspace.is_dropped.store(false, Ordering::Release),
        }
        // Who waits for a flush of it waits for nothing now; and there is room again.
        store.refresh_space();
        store.runtime.scheduler.notify();
        dropped
    }

    /// The names of all keyspaces, in the order they were made.
    pub fn keyspace_names(&self) -> Vec<String> {
        self.store().all_keyspaces().iter().map(|keyspace| keyspace.name.clone()).collect()
    }

    /// Applies all operations of `batch` in order, or none of them; also after a crash.
    ///
    /// With `sync` an error of no space ([`EngineError::is_no_space`]) may be of the sync alone: then the batch is
    /// applied and seen at once, and only whether it is durable is open.
    ///
    /// # Errors
    /// [`EngineError::NoKeyspace`], [`EngineError::NoSpace`], [`EngineError::Poisoned`],
    /// [`EngineError::Closed`], [`EngineError::Files`].
    pub fn write(&self, mut batch: WriteBatch, options: WriteOptions) -> Result<(), EngineError> {
        write::write_batch(self.store(), &mut batch, options)
    }

    /// As [`Db::write`], and leaves `batch` empty, with its memory, for the next operations.
    ///
    /// # Errors
    /// As [`Db::write`]; `batch` is unchanged then.
    pub fn write_and_clear(
        &self,
        batch: &mut WriteBatch,
        options: WriteOptions,
    ) -> Result<(), EngineError> {
        write::write_batch(self.store(), batch, options)?;
        batch.clear();
        Ok(())
    }

    /// A point in the order of writes to read as of.
    pub fn snapshot(&self) -> Snapshot {
        self.store().snapshots.take(|| self.store().visible())
    }

    /// Makes everything written so far durable.
    ///
    /// # Errors
    /// [`EngineError::Poisoned`], [`EngineError::Files`].
    pub fn sync(&self) -> Result<(), EngineError> {
        self.store().runtime.scheduler.yield_now();
        write::sync(self.store())
    }

    /// Writes all memtables to tables, durably.
    ///
    /// # Errors
    /// [`EngineError::Poisoned`], [`EngineError::Files`], [`EngineError::Stalled`].
    pub fn flush(&self) -> Result<(), EngineError> {
        self.store().check_writable()?;
        flush::flush_all(self.store())
    }

    /// Returns when no background work is due: memtables that were frozen are in tables, and the
    /// levels are in shape. One that is full is frozen by the next write; [`Db::flush`] takes all.
    ///
    /// # Errors
    /// [`EngineError::Poisoned`], [`EngineError::Stalled`].
    pub fn wait_idle(&self) -> Result<(), EngineError> {
        self.wait_idle_with(&mut unwatched)
    }

    /// As [`Db::wait_idle`], watched: `watch` is told whenever background work has got further how
    /// much it has read, and may stop the waiting, not the work.
    ///
    /// # Errors
    /// As [`Db::wait_idle`], and [`EngineError::Stopped`].
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

    /// Whether a put would find room now, on the drive and in its catalog.
    ///
    /// # Errors
    /// [`EngineError::NoSpace`]: how much must stay free, and how much is.
    pub fn check_room(&self) -> Result<(), EngineError> {
        let store = self.store();
        store.look_for_space();
        store.refresh_space().map_or(Ok(()), |shortage| Err(store.refusal(shortage)))
    }

    /// What the store did since it was opened, and what it holds.
    pub fn metrics(&self) -> Metrics {
        metrics::metrics(self.store())
    }

    /// A property as text: `levels`, `stats`, `last-sequence`, `memtable-bytes`,
    /// `block-cache-bytes`, `write-amplification`, `snapshots`, `background-error`; `None` for
    /// other names.
    pub fn property(&self, name: &str) -> Option<String> {
        metrics::property(self.store(), name)
    }

    /// Verifies everything: every table's checksums, order and counts, the levels, references from
    /// records to files and back; of checkpoints their records, and the tables that only they have.
    ///
    /// Cost: reads all data twice, what only checkpoints have once.
    ///
    /// # Errors
    /// None for damage, which is in the report; [`EngineError::Files`] where a file cannot be read,
    /// [`EngineError::NoCheckpoint`] for a checkpoint that was deleted while it is read.
    pub fn check(&self) -> Result<CheckReport, EngineError> {
        self.check_with(&mut unwatched)
    }

    /// As [`Db::check`], watched: `watch` is told after every piece how far it is, and may stop it.
    ///
    /// # Errors
    /// As [`Db::check`], and [`EngineError::Stopped`].
    pub fn check_with(&self, watch: &mut Watch<'_>) -> Result<CheckReport, EngineError> {
        crate::open::check::check(self.store(), &self.recovery().missing, watch)
    }

    /// Refuses all writes from now on, as after a failed flush, and ends background work: nothing more becomes
    /// durable, by a close neither. Reads go on.
    ///
    /// For a caller that met a panic below, after which the state in memory may be half of a change. What is durable
    /// is whole; to be written the store is closed and opened again.
    pub fn abandon(&self, reason: &str) {
        let _ = self.store().poison(reason);
    }

    /// Makes everything durable and ends background work. Other handles then refuse to write; to close
    /// them too waits for the same and says whether all is durable.
    ///
    /// Dropping the last handle does the same, but cannot say when it fails.
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

//! Group commit: many callers, one flush and one write of the catalog.
//!
//! ```text
//!   caller 1   apply, queue ----> leader: flush data, append all queued records ----> durable
//!   caller 2   apply, queue ....................... waits ..................... ----> durable
//!   caller 3        apply, queue .................. waits: leads the next group
//! ```
//!
//! A commit is checked against the namespace and applied to it under one lock, in the order in
//! which its record is queued. It is durable when its caller returns. Everything that it removed
//! stays held until then (F3): the removed files travel with the caller.
//!
//! Invariants
//!   G1  Records reach the catalog in the order in which they were applied.
//!   G2  A checkpoint holds exactly the records that were queued before it was taken, and replaces
//!       them.
//!   G3  After a failed write or flush, or a panic in one, nothing more is written, because it is
//!       unknown what is durable.

use crate::catalog::{CatalogStore, Edit, FileId, InvalidEdit, Namespace, encode_edits};
use crate::error::FilesError;
use crate::file::{FileBody, Placed};
use crate::rewrite::BackupFlaw;
use crate::room::{CatalogUse, CommitKind};
use crate::space::Hold;
use imbrex_disk::{BlockRange, Disk, DiskError, ZoneId, ZoneState};
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The namespace with its live files, and the queue of records on their way to the disk.
#[derive(Debug)]
pub(crate) struct Committer {
    disk: Arc<dyn Disk>,
    live: Mutex<Live>,
    store: Mutex<CatalogStore>,
    settled: Condvar,
    next_file_id: AtomicU64,
    body_len_bytes_max: u64,
    /// The blocks of the catalog's regions.
    catalog_pieces: Vec<BlockRange>,
}

/// The state that the lock of a [`Committer`] guards.
#[derive(Debug)]
pub(crate) struct Live {
    pub(crate) namespace: Namespace,
    pub(crate) bodies: BTreeMap<FileId, Arc<FileBody>>,
    /// Edits that need not be durable by themselves. They go ahead of the next record.
    pub(crate) deferred: Vec<Edit>,
    deferred_needs_flush: bool,
    queue: Vec<Vec<u8>>,
    queue_needs_flush: bool,
    queued: u64,
    /// Names that queued records have freed, each with the number of its record.
    freed: Vec<(String, u64)>,
    durable: u64,
    is_led: bool,
    /// Why nothing more is written (G3).
    poisoned: Option<String>,
    /// Why nothing may be written to the disk as it was found, if so.
    unwritable: Option<Unwritable>,
}

/// Why a disk can be read but not written.
#[derive(Debug)]
enum Unwritable {
    /// The catalog's next checkpoint would go to a zone that takes no writes.
    Zone(ZoneId, ZoneState),
    /// The backup of rewritten tracks is still needed.
    Backup(BackupFlaw),
}

/// Files and extents that a commit made unreachable. They are kept until the commit is durable,
/// then dropped.
#[derive(Debug, Default)]
pub(crate) struct PendingFrees {
    /// Files without a name.
    pub(crate) bodies: Vec<Arc<FileBody>>,
    /// The former extents of files that moved, with the holds that they gave up.
    pub(crate) left: Vec<(Arc<Placed>, Vec<Arc<Hold>>)>,
    /// Files without a name on the flash drive.
    pub(crate) beside: Vec<FileId>,
}

/// A record that is applied and queued.
#[derive(Debug)]
#[must_use = "a queued record is durable only after `Committer::settle`"]
pub(crate) struct Ticket {
    number: u64,
    frees: PendingFrees,
}

/// A caller's time as leader. It ends when this is dropped, also by a panic (G3).
struct Leadership<'a> {
    committer: &'a Committer,
    /// The number of the last durable record, or why it is unknown.
    ended: Result<u64, String>,
}

const BUG: &str = "a bug (panic) while the catalog was written";

impl Drop for Leadership<'_> {
    fn drop(&mut self) {
        let mut live = self.committer.live.lock();
        live.is_led = false;
        match &self.ended {
            Ok(upto) => live.durable = *upto,
            Err(reason) => {
                live.poisoned.get_or_insert_with(|| reason.clone());
            }
        }
        self.committer.settled.notify_all();
    }
}

impl Committer {
    pub(crate) fn new(
        disk: Arc<dyn Disk>,
        namespace: Namespace,
        bodies: BTreeMap<FileId, Arc<FileBody>>,
        store: CatalogStore,
    ) -> Committer {
        let next_file_id = store.header().next_file_id.max(namespace.next_id());
        let live = Live {
            namespace,
            bodies,
            deferred: Vec::new(),
            deferred_needs_flush: false,
            queue: Vec::new(),
            queue_needs_flush: false,
            queued: 0,
            freed: Vec::new(),
            durable: 0,
            is_led: false,
            poisoned: None,
            unwritable: store.unwritable_zone().map(|(zone, state)| Unwritable::Zone(zone, state)),
        };
        Committer {
            disk,
            live: Mutex::new(live),
            body_len_bytes_max: store.body_len_bytes_max(),
            catalog_pieces: store.pieces(),
            store: Mutex::new(store),
            settled: Condvar::new(),
            next_file_id: AtomicU64::new(next_file_id),
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Live> {
        self.live.lock()
    }

    pub(crate) fn new_id(&self) -> FileId {
        FileId(self.next_file_id.fetch_add(1, Ordering::Relaxed))
    }

    pub(crate) fn catalog_pieces(&self) -> &[BlockRange] {
        &self.catalog_pieces
    }

    /// Gives `look` the catalog store. Waits for a catalog write in progress.
    pub(crate) fn with_store<T>(&self, look: impl FnOnce(&mut CatalogStore) -> T) -> T {
        look(&mut self.store.lock())
    }

    /// Whether the namespace may grow by `more_bytes` for a commit of this kind (L1, L2).
    ///
    /// # Errors
    /// [`FilesError::NoSpace`].
    pub(crate) fn admit(
        &self,
        live: &Live,
        more_bytes: u64,
        kind: CommitKind,
    ) -> Result<(), FilesError> {
        let free_bytes = self.catalog_use_of(live).free_bytes(kind);
        if more_bytes == 0 || more_bytes <= free_bytes {
            Ok(())
        } else {
            Err(FilesError::NoSpace { needed_bytes: more_bytes, free_bytes })
        }
    }

    /// How full the catalog is.
    pub(crate) fn catalog_use(&self) -> CatalogUse {
        self.catalog_use_of(&self.live.lock())
    }

    fn catalog_use_of(&self, live: &Live) -> CatalogUse {
        CatalogUse {
            // A checkpoint begins with the count of its edits.
            capacity_bytes: self.body_len_bytes_max.saturating_sub(4),
            used_bytes: live.namespace.encoded_len_bytes(),
        }
    }

    /// Reserves the ids up to `last`, which are in use elsewhere.
    pub(crate) fn reserve_id(&self, last: FileId) {
        self.next_file_id.fetch_max(last.0 + 1, Ordering::Relaxed);
    }

    /// Waits until the record of `ticket` is durable, and writes it if there is no leader. Returns
    /// the files that the record left without a name on the flash drive.
    pub(crate) fn settle(&self, ticket: Ticket) -> Result<Vec<FileId>, FilesError> {
        // Until the record is durable the old state may be the durable one, so its blocks are not
        // given back.
        let frees = ManuallyDrop::new(ticket.frees);
        self.settle_upto(ticket.number)?;
        let PendingFrees { bodies, left, beside } = ManuallyDrop::into_inner(frees);
        bodies.iter().for_each(|body| body.set_named(false));
        left.iter().flat_map(|(_, holds)| holds).for_each(|hold| hold.set_named(false));
        Ok(beside)
    }

    /// Waits until `name` is free on the disk as well, if a queued record has freed it.
    pub(crate) fn settle_freed(&self, name: &str) -> Result<(), FilesError> {
        let live = self.live.lock();
        let last = live.freed.iter().rev().find(|(freed, _)| freed == name);
        let number = last.map_or(0, |&(_, number)| number);
        drop(live);
        self.settle_upto(number)
    }

    /// Waits until record `number` is durable, and writes it if there is no leader.
    fn settle_upto(&self, number: u64) -> Result<(), FilesError> {
        let mut live = self.live.lock();
        loop {
            if live.durable >= number {
                return Ok(());
            }
            if let Some(reason) = live.poisoned.clone() {
                return Err(FilesError::Poisoned { reason });
            }
            if live.is_led {
                self.settled.wait(&mut live);
                continue;
            }
            live.is_led = true;
            MutexGuard::unlocked(&mut live, || {
                let mut leadership = Leadership { committer: self, ended: Err(BUG.to_owned()) };
                let led = self.lead();
                leadership.ended = led.as_ref().copied().map_err(FilesError::reason);
                led.map(|_| ())
            })?;
        }
    }

    /// Writes everything queued; returns the number of the last durable record.
    fn lead(&self) -> Result<u64, FilesError> {
        let failed = |source: DiskError| FilesError::Disk {
            what: "writing the catalog; close the store and open it again".to_owned(),
            source,
        };
        let mut store = self.store.lock();
        let (records, needs_flush, upto) = {
            let mut live = self.live.lock();
            live.take_queue()
        };
        if needs_flush {
            // F2: the data that the records name must be durable first.
            self.disk.flush().map_err(failed)?;
        }
        if store.append(&records).map_err(failed)? {
            return Ok(upto);
        }
        // G2: records queued since then belong to the checkpoint too, so their data are flushed
        // first.
        let (body, upto) = {
            let mut live = self.live.lock();
            let (_, _, upto) = live.take_queue();
            live.deferred.clear();
            live.deferred_needs_flush = false;
            (encode_edits(&live.namespace.checkpoint_edits()), upto)
        };
        let (needed_bytes, free_bytes) = (body.len() as u64, store.body_len_bytes_max());
        if needed_bytes > free_bytes {
            // The writer of this disk broke L1.
            return Err(FilesError::NoSpace { needed_bytes, free_bytes });
        }
        self.disk.flush().map_err(failed)?;
        let next_file_id = self.next_file_id.load(Ordering::Relaxed);
        store.checkpoint(body, next_file_id).map_err(failed)?;
        Ok(upto)
    }
}

impl Live {
    /// # Errors
    /// [`FilesError::Poisoned`] (G3); [`FilesError::Disk`]: the catalog has nowhere to put a
    /// checkpoint; [`FilesError::Corrupt`]: a rewrite of tracks could not be completed.
    pub(crate) fn check(&self) -> Result<(), FilesError> {
        if let Some(reason) = self.poisoned.clone() {
            return Err(FilesError::Poisoned { reason });
        }
        match &self.unwritable {
            None => Ok(()),
            &Some(Unwritable::Zone(zone, state)) => Err(FilesError::Disk {
                what: "writing the catalog; the drive can only be read, copy its files to another"
                    .to_owned(),
                source: DiskError::ZoneNotWritable { zone, state, action: "write" },
            }),
            Some(Unwritable::Backup(BackupFlaw { place, reason })) => Err(FilesError::Corrupt {
                structure: "backup of rewritten tracks",
                place: place.clone(),
                reason: reason.clone(),
            }),
        }
    }

    /// Records that after `error` it is unknown what is durable: nothing more is written (G3).
    pub(crate) fn poison(&mut self, error: &FilesError) {
        self.poisoned.get_or_insert_with(|| error.reason());
    }

    /// Refuses all writes until the disk is opened again.
    pub(crate) fn refuse(&mut self, flaw: BackupFlaw) {
        self.unwritable = Some(Unwritable::Backup(flaw));
    }

    /// The damage in the backup of rewritten tracks, if any.
    pub(crate) fn flaw(&self) -> Option<&BackupFlaw> {
        match &self.unwritable {
            Some(Unwritable::Backup(flaw)) => Some(flaw),
            _ => None,
        }
    }

    /// Applies edits that fit the namespace, after the deferred ones, and queues their record.
    ///
    /// `needs_flush`: the edits name data that may not be durable yet (F2).
    pub(crate) fn enqueue(
        &mut self,
        edits: Vec<Edit>,
        mut frees: PendingFrees,
        needs_flush: bool,
    ) -> Ticket {
        self.queue_needs_flush |= needs_flush || self.deferred_needs_flush;
        self.deferred_needs_flush = false;
        let mut record = std::mem::take(&mut self.deferred);
        self.freed.retain(|&(_, number)| number > self.durable);
        for edit in &edits {
            if let Edit::Remove { name } | Edit::Rename { from: name, .. } = edit {
                self.freed.push((name.clone(), self.queued + 1));
            }
            match self.namespace.apply(edit.clone()) {
                Ok(None) => {}
                Ok(Some(gone)) if gone.is_beside => frees.beside.push(gone.id),
                Ok(Some(gone)) => frees.bodies.extend(self.bodies.remove(&gone.id)),
                Err(InvalidEdit(reason)) => unreachable!("edits are checked before: {reason}"),
            }
        }
        record.extend(edits);
        self.queue.push(encode_edits(&record));
        self.queued += 1;
        Ticket { number: self.queued, frees }
    }

    /// Applies an edit whose record may wait for the next commit; `needs_flush` as for `enqueue`.
    pub(crate) fn defer(&mut self, edit: Edit, needs_flush: bool) {
        self.deferred_needs_flush |= needs_flush;
        match self.namespace.apply(edit.clone()) {
            Ok(_) => self.deferred.push(edit),
            Err(InvalidEdit(reason)) => unreachable!("the edit was checked before: {reason}"),
        }
    }

    /// Whether every change is durable: no record is queued or deferred.
    pub(crate) fn is_settled(&self) -> bool {
        self.deferred.is_empty() && self.durable == self.queued
    }

    fn take_queue(&mut self) -> (Vec<Vec<u8>>, bool, u64) {
        let records = std::mem::take(&mut self.queue);
        (records, std::mem::take(&mut self.queue_needs_flush), self.queued)
    }
}

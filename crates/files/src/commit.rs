//! Group commit: many callers, one flush and one write of the catalog.
//!
//! ```text
//!   caller 1   apply, queue ----> leader: flush data, append all queued records ----> durable
//!   caller 2   apply, queue ....................... waits ..................... ----> durable
//!   caller 3        apply, queue .................. waits: leads the next group
//! ```
//!
//! A commit is checked against the namespace and applied to it under one lock, in the order in
//! which its record is queued; it is durable when its caller returns. What it removed stays held
//! until then (F3): the removed files travel with the caller.
//!
//! Invariants
//!   G1  Records reach the catalog in the order in which they were applied.
//!   G2  A checkpoint holds exactly the records queued before it was taken, and stands for them.
//!   G3  After a failed write or flush, or a bug (panic) in one, nothing is written any more: what is durable is
//!       unknown.

use crate::catalog::{CatalogStore, Edit, FileId, Misfit, Namespace, encode_edits};
use crate::error::FilesError;
use crate::file::{FileBody, Placed};
use crate::rewrite::Flaw;
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
    /// Where the catalog's regions lie.
    catalog_pieces: Vec<BlockRange>,
}

/// What the lock of a [`Committer`] guards.
#[derive(Debug)]
pub(crate) struct Live {
    pub(crate) namespace: Namespace,
    pub(crate) bodies: BTreeMap<FileId, Arc<FileBody>>,
    /// Edits that need not be durable by themselves: they go ahead of the next record.
    pub(crate) deferred: Vec<Edit>,
    deferred_needs_flush: bool,
    queue: Vec<Vec<u8>>,
    queue_needs_flush: bool,
    queued: u64,
    /// Names that records on their way to the disk have freed, and the record's number.
    freed: Vec<(String, u64)>,
    durable: u64,
    is_led: bool,
    /// Why nothing is written any more (G3).
    poisoned: Option<String>,
    /// Set when nothing may be written, as the disk was found.
    unwritable: Option<Unwritable>,
}

/// Why a disk can only be read.
#[derive(Debug)]
enum Unwritable {
    /// The catalog's next checkpoint goes to a zone that takes no writes.
    Zone(ZoneId, ZoneState),
    /// The backup of rewritten tracks is still needed.
    Backup(Flaw),
}

/// Kept until a commit is durable, then dropped: files and extents that it made unreachable.
#[derive(Debug, Default)]
pub(crate) struct Graves {
    /// Files without a name.
    pub(crate) bodies: Vec<Arc<FileBody>>,
    /// Where files lay before they moved, and what of that they have left.
    pub(crate) left: Vec<(Arc<Placed>, Vec<Arc<Hold>>)>,
    /// Files without a name that lie on the flash drive beside.
    pub(crate) beside: Vec<FileId>,
}

/// A record that is applied and queued.
#[derive(Debug)]
#[must_use = "a queued record is durable only after `Committer::settle`"]
pub(crate) struct Ticket {
    number: u64,
    graves: Graves,
}

/// A caller's turn at leading: over when dropped, by a bug too (G3).
struct Turn<'a> {
    committer: &'a Committer,
    /// The number of the last record that is durable, or why that is unknown.
    ended: Result<u64, String>,
}

const BUG: &str = "a bug (panic) while the catalog was written";

impl Drop for Turn<'_> {
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

    /// What the store counts; waits for a write of the catalog that is under way.
    pub(crate) fn with_store<T>(&self, look: impl FnOnce(&CatalogStore) -> T) -> T {
        look(&self.store.lock())
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

    /// No file will get an id up to `last`: somebody has it already.
    pub(crate) fn reserve_id(&self, last: FileId) {
        self.next_file_id.fetch_max(last.0 + 1, Ordering::Relaxed);
    }

    /// Waits until the record of `ticket` is durable, writing it if nobody else does. Returns the
    /// files that it has left without a name on the flash drive beside.
    pub(crate) fn settle(&self, ticket: Ticket) -> Result<Vec<FileId>, FilesError> {
        // Unless the record is durable the old state may be: its blocks are never given back.
        let graves = ManuallyDrop::new(ticket.graves);
        self.settle_upto(ticket.number)?;
        let Graves { bodies, left, beside } = ManuallyDrop::into_inner(graves);
        bodies.iter().for_each(|body| body.set_named(false));
        left.iter().flat_map(|(_, holds)| holds).for_each(|hold| hold.set_named(false));
        Ok(beside)
    }

    /// Waits until `name` is free on the disk too, if a record on its way has freed it.
    pub(crate) fn settle_freed(&self, name: &str) -> Result<(), FilesError> {
        let live = self.live.lock();
        let last = live.freed.iter().rev().find(|(freed, _)| freed == name);
        let number = last.map_or(0, |&(_, number)| number);
        drop(live);
        self.settle_upto(number)
    }

    /// Waits until record `number` is durable, writing it if nobody else does.
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
                let mut turn = Turn { committer: self, ended: Err(BUG.to_owned()) };
                let led = self.lead();
                turn.ended = led.as_ref().copied().map_err(FilesError::reason);
                led.map(|_| ())
            })?;
        }
    }

    /// Writes everything queued; returns the number of the last record that is durable.
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
            // F2: what the records name must be durable before they are.
            self.disk.flush().map_err(failed)?;
        }
        if store.append(&records).map_err(failed)? {
            return Ok(upto);
        }
        // G2: what was queued since belongs to the checkpoint too, so its data come first.
        let (body, upto) = {
            let mut live = self.live.lock();
            let (_, _, upto) = live.take_queue();
            live.deferred.clear();
            live.deferred_needs_flush = false;
            (encode_edits(&live.namespace.snapshot()), upto)
        };
        let (needed_bytes, free_bytes) = (body.len() as u64, store.body_len_bytes_max());
        if needed_bytes > free_bytes {
            // L1 was broken by whoever wrote what is on the disk.
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
    /// [`FilesError::Poisoned`] (G3); [`FilesError::Disk`]: the catalog has no place for a checkpoint;
    /// [`FilesError::Corrupt`]: a rewrite of tracks could not be completed.
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
            Some(Unwritable::Backup(Flaw { place, reason })) => Err(FilesError::Corrupt {
                structure: "backup of rewritten tracks",
                place: place.clone(),
                reason: reason.clone(),
            }),
        }
    }

    /// After `error` what is durable is unknown: nothing is written any more (G3).
    pub(crate) fn poison(&mut self, error: &FilesError) {
        self.poisoned.get_or_insert_with(|| error.reason());
    }

    /// Nothing is written to the disk until it is opened again.
    pub(crate) fn refuse(&mut self, flaw: Flaw) {
        self.unwritable = Some(Unwritable::Backup(flaw));
    }

    /// What of the backup of rewritten tracks is damaged.
    pub(crate) fn flaw(&self) -> Option<&Flaw> {
        match &self.unwritable {
            Some(Unwritable::Backup(flaw)) => Some(flaw),
            _ => None,
        }
    }

    /// Applies edits that fit the namespace, behind the deferred ones, and queues their record.
    ///
    /// `needs_flush` says that the edits name data that may not be durable yet (F2).
    pub(crate) fn enqueue(
        &mut self,
        edits: Vec<Edit>,
        mut graves: Graves,
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
                Ok(Some(gone)) if gone.is_beside => graves.beside.push(gone.id),
                Ok(Some(gone)) => graves.bodies.extend(self.bodies.remove(&gone.id)),
                Err(Misfit(reason)) => unreachable!("edits are checked before: {reason}"),
            }
        }
        record.extend(edits);
        self.queue.push(encode_edits(&record));
        self.queued += 1;
        Ticket { number: self.queued, graves }
    }

    /// Applies an edit whose record may wait for the next commit; `needs_flush` as above.
    pub(crate) fn defer(&mut self, edit: Edit, needs_flush: bool) {
        self.deferred_needs_flush |= needs_flush;
        match self.namespace.apply(edit.clone()) {
            Ok(_) => self.deferred.push(edit),
            Err(Misfit(reason)) => unreachable!("the edit was checked before: {reason}"),
        }
    }

    /// Whether all that was changed is durable: no record is on its way, and none waits for the next.
    pub(crate) fn is_settled(&self) -> bool {
        self.deferred.is_empty() && self.durable == self.queued
    }

    fn take_queue(&mut self) -> (Vec<Vec<u8>>, bool, u64) {
        let records = std::mem::take(&mut self.queue);
        (records, std::mem::take(&mut self.queue_needs_flush), self.queued)
    }
}

//! Admission: which writes are let in, by the space on the drive and in its catalog. So much stays free that the
//! content of memory finds its place, and that the store can always be opened again.
//!
//! ```text
//!   puts      while the drive has room for memtables and the catalog for their tables
//!   deletes   while both have room for what a recovery would add; they bring space back
//!   flushes, compactions   when there is more room than at the last one that failed
//! ```
//!
//! A memtable costs the drive its length, and the catalog a name, a few extents and a record for each
//! of its tables. A store that is killed is opened by one commit that adds all of them: a write
//! is refused before that commit could be.
//!
//! Where a table takes whole zones of its own (`SpaceUse::grain_bytes`), what a memtable costs has
//! little to do with its length: each that is not empty is counted as the tables that it becomes, and
//! compaction leaves that much alone. Elsewhere it costs its length, and its log's beside it: all keyspaces
//! write one log, which ends when one memtable is full or the log too long, so space is looked at while it grows.
//! Compaction may take what is left alone there, and brings it back; while there is a checkpoint, which may hold
//! its inputs, it may not.
//!
//! Invariants
//!   R1  Nothing is acknowledged whose tables the catalog could not take at the next opening, or the
//!       drive where tables take whole zones. Elsewhere a drive that has no room for them any more,
//!       because compaction had taken it when the power went, is opened all the same (O3).
//!   R2  A background write that failed for want of space is tried again when there is more of it, and
//!       not before: jobs that wake each other would never rest. A write of the foreground that was
//!       refused says nothing about those: a checkpoint is refused where a flush has room.
//!   R3  No event announces space that comes back without a commit, for example when the last reader of tables
//!       that were merged long ago goes. A refused writer therefore polls for it, and has the blocked jobs tried
//!       again. Once: an increase is compared with the space before the last try.
//!
//! Sources: the ladder of the catalog (`CommitKind` in `files`).

use super::{Store, gate};
use crate::EngineError;
use crate::compaction::situation::Room;
use crate::error::FOR_THE_LOGS;
use crate::store::due;
use crate::store::space::{
    Admission, BlockedWriteAt, CompactionTriedAt, Holds, InMemory, Limits, Place, Shortage, assess,
};
use std::sync::atomic::Ordering;

impl Store {
    /// Notes that a background write is blocked for want of space, once it has let go of all it wrote: what
    /// that gives back is no reason to try again (R2).
    pub(crate) fn note_blocked_write(&self) {
        let space = self.files.space();
        let blocked_at = BlockedWriteAt {
            free_bytes: space.free_bytes,
            catalog_used_bytes: space.catalog.used_bytes,
        };
        let was_blocked = self.blocked_write_at.lock().replace(blocked_at).is_some();
        self.set_gate(gate::PUTS_REFUSED);
        if !was_blocked {
            // A caller that waits for background work may wait for what will not be tried any more.
            self.runtime.scheduler.notify();
        }
    }

    /// Whether a background write was blocked for want of space, and nothing was committed since.
    pub(crate) fn has_blocked_write(&self) -> bool {
        self.blocked_write_at.lock().is_some()
    }

    /// Whether a background write is worth a try (R2).
    pub(crate) fn may_try_to_write(&self) -> bool {
        let blocked_at = *self.blocked_write_at.lock();
        blocked_at.is_none_or(|blocked_at| blocked_at.is_over(&self.files.space()))
    }

    /// Notes what there is when a compaction begins beside no other, or is blocked for want of room: should it fail,
    /// no other is tried with as little (R3).
    pub(crate) fn note_compaction_try(&self) {
        let space = self.files.space();
        let tried_at =
            CompactionTriedAt { free_bytes: space.free_bytes, live_bytes: space.live_bytes };
        *self.compaction_tried_at.lock() = Some(tried_at);
    }

    /// Looks whether space came back that no event announced; what is blocked is tried again then (R3).
    pub(crate) fn look_for_space(&self) {
        let space = self.files.space();
        let has_come_back = |at: &CompactionTriedAt| at.is_over(&space);
        let mut is_more = false;
        if self.is_compaction_blocked.load(Ordering::Acquire)
            && self.compaction_tried_at.lock().as_ref().is_some_and(has_come_back)
        {
            self.room_max_bytes.store(u64::MAX, Ordering::Release);
            self.is_compaction_blocked.store(false, Ordering::Release);
            is_more = true;
        }
        is_more |= self.blocked_write_at.lock().take_if(|at| at.is_over(&space)).is_some();
        if is_more {
            self.runtime.scheduler.notify();
        }
    }

    /// What may be written now, and by whom.
    fn admission(&self) -> Admission {
        let space = self.files.space();
        let limits = self.limits();
        let mut in_memory = InMemory::default();
        for keyspace in self.keyspaces.read().values() {
            let table_len_bytes = keyspace.options.table_len_bytes;
            in_memory.add_keyspace(&limits, table_len_bytes);
            let view = keyspace.view();
            let slots = view.immutables.iter().chain([&view.active]);
            for slot in slots.filter(|slot| !slot.mem.is_empty()) {
                let (len_bytes, long_keys) = (slot.mem.len_bytes(), slot.long_key_len_bytes());
                let grain_bytes = space.grain_bytes;
                in_memory.add_memtable(len_bytes as u64, long_keys, table_len_bytes, grain_bytes);
            }
        }
        let holds = Holds {
            are_logs_kept: self.are_logs_kept(),
            is_compaction_blocked: self.is_compaction_blocked.load(Ordering::Acquire),
            has_checkpoint: self.has_checkpoint(),
            room_max_bytes: self.room_max_bytes.load(Ordering::Acquire),
        };
        assess(space, in_memory, limits, holds)
    }

    fn limits(&self) -> Limits {
        Limits {
            memtable_len_bytes: self.options.memtable_len_bytes,
            free_memtable_count_min: self.options.free_memtable_count_min,
        }
    }

    /// Assesses the space on the drive and in its catalog, and opens or closes the gate for puts; `None` if there is
    /// enough for them.
    pub(crate) fn refresh_space(&self) -> Option<Shortage> {
        let shortage = self.admission().puts().err();
        match shortage {
            None => self.clear_gate(gate::PUTS_REFUSED),
            Some(_) => self.set_gate(gate::PUTS_REFUSED),
        }
        shortage
    }

    /// Whether there is room for a write that is longer than a memtable. The caller holds the writer: two such writes
    /// at a time would each be let in for the same room.
    ///
    /// # Errors
    /// [`EngineError::NoSpace`].
    pub(crate) fn check_long_write(
        &self,
        has_put: bool,
        len_bytes: u64,
    ) -> Result<(), EngineError> {
        if len_bytes <= self.options.memtable_len_bytes {
            return Ok(());
        }
        if !has_put {
            return self.check_recoverable(len_bytes, 0);
        }
        self.admission().long_put(len_bytes).map_err(|shortage| self.refusal(shortage))
    }

    /// Assesses the space after a log that keyspaces share has got `len_bytes` long; returns how long it is
    /// at the next assessment.
    pub(crate) fn look_at_growth(&self, len_bytes: u64) -> u64 {
        if self.admission().is_memory_short() {
            self.set_gate(gate::PUTS_REFUSED);
        }
        len_bytes + self.limits().look_len_bytes()
    }

    /// How much a compaction may write before its inputs are released.
    pub(crate) fn room(&self) -> Room {
        self.admission().room()
    }

    /// Whether there is still room for tables so long of a compaction.
    ///
    /// # Errors
    /// [`EngineError::NoSpace`].
    pub(crate) fn check_room_for_outputs(
        &self,
        lens_bytes: impl Iterator<Item = u64>,
        is_gaining: bool,
    ) -> Result<(), EngineError> {
        let grain_bytes = self.files.space().grain_bytes;
        if grain_bytes == 0 && !self.has_checkpoint() {
            return Ok(());
        }
        // What compactions take may be what puts and deletes are let in for.
        self.refresh_space();
        let needed_bytes = lens_bytes.map(|len| len.next_multiple_of(grain_bytes.max(1))).sum();
        let free_bytes = self.admission().room_beside_memory().of(is_gaining);
        if needed_bytes <= free_bytes {
            return Ok(());
        }
        Err(self.refusal(Shortage { place: Place::Drive, needed_bytes, free_bytes }))
    }

    /// Whether `len_bytes` more may be written, also only to delete something, with `long_keys_len_bytes` of
    /// long keys (R1).
    ///
    /// # Errors
    /// [`EngineError::NoSpace`].
    pub(crate) fn check_recoverable(
        &self,
        len_bytes: u64,
        long_keys_len_bytes: u64,
    ) -> Result<(), EngineError> {
        self.admission().deletes(len_bytes, long_keys_len_bytes).map_err(|shortage| {
            self.set_gate(gate::PUTS_REFUSED);
            self.refusal(shortage)
        })
    }

    /// Why puts are refused.
    pub(crate) fn no_space(&self) -> EngineError {
        self.refusal(self.admission().shortage())
    }

    /// The error of a write that is refused.
    pub(crate) fn refusal(&self, shortage: Shortage) -> EngineError {
        let Shortage { place, needed_bytes, free_bytes } = shortage;
        let place = match place {
            Place::Drive => "on the drive",
            Place::Catalog => "in the catalog",
            Place::KeptLogs => FOR_THE_LOGS,
            Place::Compaction => {
                if let Some(needed_bytes) = due::due_compaction_cost_bytes(self) {
                    let (place, free_bytes) = ("for a compaction", self.room().len_bytes);
                    return EngineError::NoSpace { place, needed_bytes, free_bytes };
                }
                "on the drive"
            }
        };
        EngineError::NoSpace { place, needed_bytes, free_bytes }
    }
}

//! Room: what must stay free on the drive and in its catalog, so that what is in memory finds its
//! place and a store can always be opened again.
//!
//! ```text
//!   puts      while the drive has room for memtables and the catalog for their tables
//!   deletes   while both have room for what a recovery would add; they bring space back
//!   flushes, compactions   when there is more room than at the last one that failed
//! ```
//!
//! A memtable costs the drive its length, and the catalog a name, a few extents and a record for each
//! of its tables. A store that is killed is opened by one commit that adds all of them: whoever writes
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
//!   R3  Space that comes back with no commit, as when the last reader of tables goes that were merged
//!       long ago, is told of by nobody: who is refused for want of it looks, and has what waits for
//!       space tried again. Once: an increase is compared with what was there before the last try.
//!
//! Sources: the ladder of the catalog (`CommitKind` in `files`).

use crate::EngineError;
use crate::compaction::situation::Room;
use crate::error::FOR_THE_LOGS;
use crate::store::due;
use crate::store::keyspace::KeyspaceState;
use crate::store::space::{FullAt, LONG_KEY_LEN_BYTES, TightAt};
use crate::store::view::MemSlot;
use crate::store::{Store, gate};
use imbrex_files::{CommitKind, SpaceUse};
use std::sync::atomic::Ordering;

/// What a table adds to the catalog besides its keys: a name, a record, and extents, of which a
/// table on a fragmented drive has some.
const TABLE_COST_BYTES: u64 = 300;
/// So many logs must find a place beside the tables: one that is written, and its successor.
const LOGS_KEPT: u64 = 2;
/// And so many of a compaction that merges short tables into one: deletes leave that much.
const OUTPUTS_KEPT: u64 = 1;

/// While a log grows, space is looked at whenever it has grown by that part of a memtable.
const LOOKS_PER_MEMTABLE: u64 = 8;

impl Store {
    /// Notes that a background write failed for want of space, once it has let go of all it wrote: what
    /// that gives back is no reason to try again (R2).
    pub(crate) fn note_full(&self) {
        let space = self.files.space();
        let full_at =
            FullAt { free_bytes: space.free_bytes, catalog_used_bytes: space.catalog.used_bytes };
        let was_full = self.full_at.lock().replace(full_at).is_some();
        self.set_gate(gate::LOW_SPACE);
        if !was_full {
            // Who waits for background work may wait for what will not be tried any more.
            self.runtime.scheduler.notify();
        }
    }

    /// Whether a background write has failed for want of space, and nothing was committed since.
    pub(crate) fn is_noted_full(&self) -> bool {
        self.full_at.lock().is_some()
    }

    /// Whether a background write is worth a try (R2).
    pub(crate) fn may_try_to_write(&self) -> bool {
        let full_at = *self.full_at.lock();
        full_at.is_none_or(|full_at| full_at.is_over(&self.files.space()))
    }

    /// Notes what there is when a compaction begins beside no other, or finds no room to: should it fail,
    /// no other is tried with as little (R3).
    pub(crate) fn note_tight(&self) {
        let space = self.files.space();
        let tight_at = TightAt { free_bytes: space.free_bytes, live_bytes: space.live_bytes };
        *self.tight_at.lock() = Some(tight_at);
    }

    /// Looks whether space came back of which nobody told; what waits for space is tried again then (R3).
    pub(crate) fn look_for_space(&self) {
        let space = self.files.space();
        let has_come_back =
            |at: &TightAt| at.free_bytes < space.free_bytes || space.live_bytes < at.live_bytes;
        let mut is_more = false;
        if self.is_blocked.load(Ordering::Acquire)
            && self.tight_at.lock().as_ref().is_some_and(has_come_back)
        {
            self.room_max_bytes.store(u64::MAX, Ordering::Release);
            self.is_blocked.store(false, Ordering::Release);
            is_more = true;
        }
        is_more |= self.full_at.lock().take_if(|full_at| full_at.is_over(&space)).is_some();
        if is_more {
            self.runtime.scheduler.notify();
        }
    }

    /// What must stay free so that what is in memory finds its place.
    pub(crate) fn needed_bytes(&self) -> u64 {
        let options = &self.options;
        let memtables = options.free_memtable_count_min.saturating_mul(options.memtable_len_bytes);
        // On zones, the log and each level's tables begin whole zones, however little they need:
        // the reserve's own length is the file layer's word on how coarse space is.
        let space = self.files.space();
        let in_memory = self.kept_bytes(space.grain_bytes) + space.grain_bytes;
        memtables.max(space.reserve_bytes).max(in_memory)
    }

    /// Whether there is room for a write that is longer than a memtable: for its log, and for its
    /// table beside those of what is in memory. The caller holds the writer: two such writes at a time
    /// would each be let in for the same room.
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
        let needed_bytes = self.needed_bytes().max(self.in_memory_bytes());
        let needed_bytes = needed_bytes.saturating_add(2 * len_bytes);
        let free_bytes = self.free_bytes();
        if needed_bytes <= free_bytes {
            return Ok(());
        }
        Err(EngineError::NoSpace { place: "on the drive", needed_bytes, free_bytes })
    }

    /// Looks at the space after a log that keyspaces share has got `len_bytes` long; returns how long it is
    /// at the next look.
    pub(crate) fn look_at_growth(&self, len_bytes: u64) -> u64 {
        let space = self.files.space();
        if space.free_bytes < self.memory_need_bytes(&space) {
            self.set_gate(gate::LOW_SPACE);
        }
        len_bytes + self.look_len_bytes()
    }

    /// What may be written between two looks.
    fn look_len_bytes(&self) -> u64 {
        self.options.memtable_len_bytes / LOOKS_PER_MEMTABLE
    }

    /// What the tables of all that is in memory take at the next look, and its log, where tables take their length
    /// and how much is free is told.
    fn memory_need_bytes(&self, space: &SpaceUse) -> u64 {
        if space.grain_bytes > 0 || space.catalog.is_crowded() {
            return 0;
        }
        let is_shared = self.keyspaces.read().len() > 1;
        let tables = if is_shared { self.beside_log_bytes() } else { self.in_memory_bytes() };
        tables + 2 * self.look_len_bytes()
    }

    /// What must be free for the tables of all that is in memory when the log takes another piece: that is up to a quarter
    /// of what is free.
    fn beside_log_bytes(&self) -> u64 {
        let in_memory_bytes = self.in_memory_bytes();
        in_memory_bytes + in_memory_bytes / 3
    }

    fn in_memory_bytes(&self) -> u64 {
        self.in_memory(|_, slot| slot.mem.len_bytes() as u64)
    }

    /// What user data may still use.
    pub(crate) fn free_bytes(&self) -> u64 {
        let space = self.files.space();
        space.free_bytes.saturating_sub(space.reserve_bytes)
    }

    /// How much a compaction may write before its inputs are released.
    pub(crate) fn room(&self) -> Room {
        let room_max_bytes = self.room_max_bytes.load(Ordering::Acquire);
        let room = self.room_beside_memory();
        Room {
            len_bytes: room.len_bytes.min(room_max_bytes),
            gaining_len_bytes: room.gaining_len_bytes.min(room_max_bytes),
            ..room
        }
    }

    fn room_beside_memory(&self) -> Room {
        let space = self.files.space();
        let grain_bytes = space.grain_bytes;
        if grain_bytes == 0 {
            let kept_bytes = if self.has_checkpoint() { self.memory_need_bytes(&space) } else { 0 };
            let len_bytes = space.free_bytes.saturating_sub(kept_bytes);
            return Room { len_bytes, gaining_len_bytes: len_bytes, grain_bytes };
        }
        let all_bytes = space.free_bytes.saturating_sub(self.kept_bytes(grain_bytes));
        // What is written may bring nothing back while somebody holds the inputs. So what a delete in
        // each keyspace needs is left alone.
        let deletes = self.keyspaces.read().len() as u64 + 1 + OUTPUTS_KEPT;
        let len_bytes = all_bytes.saturating_sub(deletes * grain_bytes);
        Room { len_bytes, gaining_len_bytes: all_bytes, grain_bytes }
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
        let free_bytes = self.room_beside_memory().of(is_gaining);
        if needed_bytes <= free_bytes {
            return Ok(());
        }
        Err(EngineError::NoSpace { place: "on the drive", needed_bytes, free_bytes })
    }

    /// What must stay free for the tables of all memtables and for logs, where each takes
    /// `grain_bytes` at least.
    fn kept_bytes(&self, grain_bytes: u64) -> u64 {
        if grain_bytes == 0 {
            return 0;
        }
        let tables = self.in_memory(|keyspace, slot| {
            let len_bytes = slot.mem.len_bytes() as u64;
            1 + len_bytes / keyspace.options.table_len_bytes + len_bytes / grain_bytes
        });
        (tables + LOGS_KEPT) * grain_bytes
    }

    /// Looks at the space on the drive and in its catalog: true if there is enough for puts.
    pub(crate) fn refresh_space(&self) -> bool {
        let space = self.files.space();
        let has_room = self.free_bytes() >= self.needed_bytes()
            && space.free_bytes >= self.memory_need_bytes(&space)
            && space.catalog.free_bytes(CommitKind::Upkeep) >= self.catalog_need_bytes()
            && !self.are_logs_kept()
            && !self.is_blocked.load(Ordering::Acquire);
        if has_room {
            self.clear_gate(gate::LOW_SPACE);
        } else {
            self.set_gate(gate::LOW_SPACE);
        }
        has_room
    }

    /// Whether `len_bytes` more may be written, were it only to delete something, with `long_keys_len_bytes` of
    /// long keys (R1).
    ///
    /// # Errors
    /// [`EngineError::NoSpace`].
    pub(crate) fn check_recoverable(
        &self,
        len_bytes: u64,
        long_keys_len_bytes: u64,
    ) -> Result<(), EngineError> {
        if self.are_logs_kept() {
            return Err(self.no_space());
        }
        let space = self.files.space();
        let needed_bytes = self.catalog_need_bytes() + 2 * long_keys_len_bytes;
        let free_bytes = space.catalog.free_bytes(CommitKind::Recovery);
        if needed_bytes > free_bytes {
            self.set_gate(gate::LOW_SPACE);
            return Err(EngineError::NoSpace { place: "in the catalog", needed_bytes, free_bytes });
        }
        let (needed_bytes, free_bytes) = match space.grain_bytes {
            // What is dead is as good as free for who only deletes: flushes clean.
            0 if space.catalog.is_crowded() => (0, 0),
            0 => {
                let needed_bytes = self.beside_log_bytes() + 2 * len_bytes;
                (needed_bytes, space.free_bytes + space.dead_bytes)
            }
            grain_bytes => {
                let kept_bytes = self.kept_bytes(grain_bytes) + (1 + OUTPUTS_KEPT) * grain_bytes;
                (kept_bytes, space.free_bytes)
            }
        };
        if needed_bytes > free_bytes {
            self.set_gate(gate::LOW_SPACE);
            return Err(EngineError::NoSpace { place: "on the drive", needed_bytes, free_bytes });
        }
        Ok(())
    }

    /// What keeps puts out.
    pub(crate) fn no_space(&self) -> EngineError {
        let space = self.files.space();
        let catalog = space.catalog;
        let needed_bytes = self.catalog_need_bytes();
        let free_bytes = catalog.free_bytes(CommitKind::Upkeep);
        if catalog.is_crowded() || free_bytes < needed_bytes {
            return EngineError::NoSpace { place: "in the catalog", needed_bytes, free_bytes };
        }
        if self.are_logs_kept() {
            let (needed_bytes, free_bytes) = (self.in_memory_bytes(), space.free_bytes);
            return EngineError::NoSpace { place: FOR_THE_LOGS, needed_bytes, free_bytes };
        }
        let (needed_bytes, free_bytes) = (self.needed_bytes(), self.free_bytes());
        let memory_need_bytes = self.memory_need_bytes(&space);
        if space.free_bytes < memory_need_bytes && needed_bytes <= free_bytes {
            let (needed_bytes, free_bytes) = (memory_need_bytes, space.free_bytes);
            return EngineError::NoSpace { place: "on the drive", needed_bytes, free_bytes };
        }
        if needed_bytes <= free_bytes
            && self.is_blocked.load(Ordering::Acquire)
            && let Some(needed_bytes) = due::due_compaction_cost_bytes(self)
        {
            let free_bytes = self.room().len_bytes;
            return EngineError::NoSpace { place: "for a compaction", needed_bytes, free_bytes };
        }
        EngineError::NoSpace { place: "on the drive", needed_bytes, free_bytes }
    }

    /// How much longer the catalog gets at most by the tables of what is in memory, and of one more
    /// memtable.
    fn catalog_need_bytes(&self) -> u64 {
        let table_cost_bytes = TABLE_COST_BYTES + 2 * LONG_KEY_LEN_BYTES as u64;
        let tables = |keyspace: &KeyspaceState, len_bytes: u64| {
            (1 + len_bytes / keyspace.options.table_len_bytes) * table_cost_bytes
        };
        let in_memory = self.in_memory(|keyspace, slot| {
            tables(keyspace, slot.mem.len_bytes() as u64) + 2 * slot.long_key_len_bytes()
        });
        let keyspaces = self.keyspaces.read();
        let next = keyspaces.values().map(|k| tables(k, self.options.memtable_len_bytes)).max();
        in_memory + next.unwrap_or_default()
    }

    /// What the memtables that are not empty cost together.
    fn in_memory(&self, cost: impl Fn(&KeyspaceState, &MemSlot) -> u64) -> u64 {
        let keyspaces = self.keyspaces.read();
        let costs = keyspaces.values().map(|keyspace| {
            let view = keyspace.view();
            let slots = view.immutables.iter().chain([&view.active]);
            let filled = slots.filter(|slot| !slot.mem.is_empty());
            filled.map(|slot| cost(keyspace, slot)).sum::<u64>()
        });
        costs.sum()
    }
}

//! Admission: which writes are admitted, given the space on the drive and in its catalog. Enough
//! space stays free to write the content of memory to tables, and to open the store again in any
//! case.
//!
//! ```text
//!   puts      while the drive has room for memtables and the catalog for their tables
//!   deletes   while both have room for what a recovery would add; deletes free space
//!   flushes, compactions   after a failed one, when there is more room than it had
//! ```
//!
//! A memtable costs the drive its length, and the catalog a name, a few extents and a record for
//! each of its tables. If the process is killed, the next opening adds all of those tables in one
//! commit. A write is therefore refused before that commit could be.
//!
//! If each table takes whole zones (`SpaceUse::grain_bytes`), the cost of a memtable depends little
//! on its length. Each memtable that is not empty counts as the tables that it becomes, and
//! compaction does not use that space.
//!
//! Otherwise a memtable costs the length of its tables, in addition to its log. All keyspaces write one
//! log, which ends when a memtable is full or the log itself is as long as the drive allows. Space is
//! assessed while the log grows. Compactions leave the space that memory needs, unless only they can
//! make some.
//!
//! Invariants
//!   R1  A write is acknowledged only if the drive and the catalog can take its tables, now and at
//!       the next opening. Where the file layer lends what it keeps for cleaning, half of that is
//!       promised to deletes: the tables of an opening take of it too. A merge that took the other
//!       half gives it back, and a power cut gives it back at once.
//!   R2  A background write that failed for want of space is retried only when there is more space;
//!       otherwise jobs that wake each other would never rest. A refused foreground write does not
//!       count as such a failure: a checkpoint can be refused while a flush has room.
//!   R3  No event announces space that is freed without a commit, for example when the last reader
//!       of tables that were merged long ago is dropped. A refused writer therefore polls for it,
//!       and has the blocked jobs tried again. They are tried once: an increase is measured from
//!       the space before the last try.
//!
//! Sources: the order in which the catalog refuses commits (`CommitKind` in `files`).

use super::{Store, gate};
use crate::EngineError;
use crate::compaction::plan::GivesBack;
use crate::compaction::situation::Room;
use crate::error::{FOR_THE_LOGS, IN_THE_CATALOG};
use crate::store::due;
use crate::store::space::{
    Admission, BlockedWriteAt, CompactionTriedAt, Holds, InMemory, LongKeys, Place, Shortage,
    TableShape, assess, too_short,
};
use std::sync::atomic::Ordering;

impl Store {
    /// Notes that a background write is blocked for want of space. The caller has released
    /// everything that the write had written, because space that this frees is no reason to retry
    /// (R2).
    pub(crate) fn note_blocked_write(&self) {
        let space = self.files.space();
        let blocked_at = BlockedWriteAt {
            free_bytes: space.free_bytes,
            catalog_used_bytes: space.catalog.used_bytes,
        };
        let was_blocked = self.blocked_write_at.lock().replace(blocked_at).is_some();
        self.set_gate(gate::PUTS_REFUSED);
        if !was_blocked {
            // A caller that waits for background work may wait for a write that will not be
            // retried.
            self.runtime.scheduler.notify();
        }
    }

    /// Whether a background write was blocked for want of space, without any commit since.
    pub(crate) fn has_blocked_write(&self) -> bool {
        self.blocked_write_at.lock().is_some()
    }

    /// Whether a background write is worth trying (R2).
    pub(crate) fn may_try_to_write(&self) -> bool {
        let blocked_at = *self.blocked_write_at.lock();
        blocked_at.is_none_or(|blocked_at| blocked_at.is_over(&self.files.space()))
    }

    /// Records the space when a compaction begins while no other runs, or when one is blocked for
    /// want of room. If it fails, no other is tried with as little space (R3).
    pub(crate) fn note_compaction_try(&self) {
        let space = self.files.space();
        let tried_at =
            CompactionTriedAt { free_bytes: space.free_bytes, live_bytes: space.live_bytes };
        *self.compaction_tried_at.lock() = Some(tried_at);
    }

    /// Looks for space that was freed without an event. If there is some, the blocked jobs are
    /// tried again (R3).
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

    /// Which writes are admitted now.
    fn admission(&self) -> Admission {
        let space = self.files.space();
        let mut in_memory = InMemory::default();
        for keyspace in self.keyspaces.read().values() {
            let merge_len_bytes = self.limits.merge_len_bytes(&keyspace.fitted);
            let view = keyspace.view();
            let tables = TableShape {
                len_bytes: keyspace.fitted.table_len_bytes,
                cut_count: view.version.partitions.cuts.len() as u64,
            };
            in_memory.add_keyspace(&self.limits, tables, merge_len_bytes);
            let slots = view.immutables.iter().chain([&view.active]);
            for slot in slots.filter(|slot| !slot.mem.is_empty()) {
                in_memory.add_memtable(&slot.memory_use(), tables, space.grain_bytes);
            }
        }
        let holds = Holds {
            are_logs_kept: self.are_logs_kept(),
            is_compaction_blocked: self.is_compaction_blocked.load(Ordering::Acquire),
            has_checkpoint: self.has_checkpoint(),
            room_max_bytes: self.room_max_bytes.load(Ordering::Acquire),
        };
        assess(space, in_memory, self.limits, holds)
    }

    /// Assesses the space on the drive and in its catalog, and opens or closes the gate for puts;
    /// `None` if puts have enough space.
    pub(crate) fn refresh_space(&self) -> Option<Shortage> {
        let shortage = self.admission().puts().err();
        match shortage {
            None => self.clear_gate(gate::PUTS_REFUSED),
            Some(_) => self.set_gate(gate::PUTS_REFUSED),
        }
        shortage
    }

    /// What the drive lacks to be long enough for the store; `None` if it is.
    pub(crate) fn length_shortage(&self) -> Option<Shortage> {
        too_short(&self.files.space(), self.keyspaces.read().len() as u64)
    }

    /// What a new drive of `drive_len_bytes` lacks so that puts can fill enough of it; `None` if it is
    /// long enough.
    pub(crate) fn new_drive_shortage(
        &self,
        drive_len_bytes: u64,
        guards_len_bytes: u64,
    ) -> Option<Shortage> {
        self.admission().fills_enough(drive_len_bytes, guards_len_bytes).err()
    }

    /// Checks that there is room for a write that is longer than a memtable. The caller holds the
    /// writer: two such writes at once would both be admitted for the same room.
    ///
    /// # Errors
    /// [`EngineError::NoSpace`].
    pub(crate) fn check_long_write(
        &self,
        has_put: bool,
        len_bytes: u64,
    ) -> Result<(), EngineError> {
        if len_bytes <= self.limits.memtable_len_bytes {
            return Ok(());
        }
        if !has_put {
            return self.check_recoverable(len_bytes, LongKeys::default());
        }
        self.admission().long_put(len_bytes).map_err(|shortage| self.refusal(shortage))
    }

    /// Assesses the space after a log has grown to `len_bytes`; returns the log's length at the next
    /// assessment.
    pub(crate) fn look_at_growth(&self, len_bytes: u64) -> u64 {
        self.refresh_space();
        if self.minds_slack() {
            self.refresh_gate();
            self.runtime.scheduler.notify();
        }
        len_bytes + self.limits.look_len_bytes()
    }

    /// Whether compactions and stalls of some keyspace depend on how much more may be written.
    pub(crate) fn minds_slack(&self) -> bool {
        self.keyspaces.read().values().any(|keyspace| keyspace.minds_slack())
    }

    /// How much a compaction may write before its inputs are released.
    pub(crate) fn room(&self) -> Room {
        self.admission().room()
    }

    /// How much more may be written before puts are refused, without any cleaning.
    pub(crate) fn slack_bytes(&self) -> u64 {
        self.admission().slack_bytes()
    }

    /// Checks that there is still room for a compaction's tables of these lengths.
    ///
    /// # Errors
    /// [`EngineError::NoSpace`].
    pub(crate) fn check_room_for_outputs(
        &self,
        lens_bytes: impl Iterator<Item = u64>,
        gives_back: GivesBack,
    ) -> Result<(), EngineError> {
        let grain_bytes = self.files.space().grain_bytes;
        // A compaction may take space for which puts and deletes were admitted.
        self.refresh_space();
        let needed_bytes = lens_bytes.map(|len| len.next_multiple_of(grain_bytes.max(1))).sum();
        let free_bytes = self.admission().room_beside_memory().of(gives_back);
        if needed_bytes <= free_bytes {
            self.compacting.written_bytes.fetch_add(needed_bytes, Ordering::Relaxed);
            return Ok(());
        }
        Err(self.refusal(Shortage { place: Place::Drive, needed_bytes, free_bytes }))
    }

    /// Checks that `len_bytes` more may be written, even by a delete, with `long_keys` (R1).
    ///
    /// # Errors
    /// [`EngineError::NoSpace`].
    pub(crate) fn check_recoverable(
        &self,
        len_bytes: u64,
        long_keys: LongKeys,
    ) -> Result<(), EngineError> {
        self.admission().deletes(len_bytes, long_keys).map_err(|shortage| {
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
        let (space, pins) = (Box::new(self.files.space()), Box::new(self.pins()));
        let place = match place {
            Place::Drive => "on the drive",
            Place::Catalog => IN_THE_CATALOG,
            Place::KeptLogs => FOR_THE_LOGS,
            Place::Compaction => {
                if let Some(needed_bytes) = due::due_compaction_cost_bytes(self) {
                    let (place, free_bytes) = ("for a compaction", self.room().len_bytes);
                    return EngineError::NoSpace { place, needed_bytes, free_bytes, space, pins };
                }
                "on the drive"
            }
        };
        EngineError::NoSpace { place, needed_bytes, free_bytes, space, pins }
    }
}

//! How much of a drive and of its catalog puts, deletes and compactions may take: one pure decision.
//!
//! ```text
//!   SpaceUse, InMemory, Limits, Holds --assess--> Admission { puts, deletes, long puts, room of compactions }
//! ```
//!
//! What each number stands for, and the invariants (R1 to R3), is in `admission`, which gathers the inputs and applies
//! the outcome.

use crate::compaction::situation::Room;
use crate::key::Kind;
use imbrex_files::{CommitKind, SpaceUse};

/// What a table adds to the catalog besides its keys: a name, a record, and extents, of which a
/// table on a fragmented drive has some.
const TABLE_COST_BYTES: u64 = 300;
/// Keys longer than this are counted one by one, because tables are named by their keys.
pub(crate) const LONG_KEY_LEN_BYTES: usize = 256;
/// So many logs must find a place beside the tables: one that is written, and its successor.
const LOGS_KEPT: u64 = 2;
/// And so many of a compaction that merges short tables into one: deletes leave that much.
const OUTPUTS_KEPT: u64 = 1;

/// While a log grows, space is assessed whenever it has grown by that part of a memtable.
const LOOKS_PER_MEMTABLE: u64 = 8;

/// What was free when a background write was blocked for want of space.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockedWriteAt {
    pub(super) free_bytes: u64,
    pub(super) catalog_used_bytes: u64,
}

impl BlockedWriteAt {
    /// Whether there is more now.
    pub(super) fn is_over(&self, space: &SpaceUse) -> bool {
        self.free_bytes < space.free_bytes || space.catalog.used_bytes < self.catalog_used_bytes
    }
}

/// What there was when a compaction began beside no other, or was blocked for want of room.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CompactionTriedAt {
    pub(super) free_bytes: u64,
    /// What is dead is no more free until it is cleaned, but it may be.
    pub(super) live_bytes: u64,
}

impl CompactionTriedAt {
    /// Whether there is more now.
    pub(super) fn is_over(&self, space: &SpaceUse) -> bool {
        self.free_bytes < space.free_bytes || space.live_bytes < self.live_bytes
    }
}

/// The keys of an operation that are counted one by one; a range delete has two.
pub(crate) fn long_key_len_bytes(kind: Kind, key: &[u8], value: &[u8]) -> u64 {
    let end: &[u8] = if kind == Kind::RangeDelete { value } else { &[] };
    let len_bytes = |key: &[u8]| if key.len() > LONG_KEY_LEN_BYTES { key.len() as u64 } else { 0 };
    len_bytes(key) + len_bytes(end)
}

/// What must stay free at most for the memtables to come, by the store's options.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) memtable_len_bytes: u64,
    pub(crate) free_memtable_count_min: u64,
}

impl Limits {
    /// How much a log that keyspaces share may grow between two assessments.
    pub(crate) fn look_len_bytes(&self) -> u64 {
        self.memtable_len_bytes / LOOKS_PER_MEMTABLE
    }
}

/// All memtables that are not empty, together.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct InMemory {
    keyspace_count: u64,
    len_bytes: u64,
    /// The tables that they become where each takes a whole grain; else 0.
    grain_count: u64,
    /// How much longer the catalog gets by their tables.
    catalog_len_bytes: u64,
    /// By the tables of the memtable that costs most, of those to come.
    next_catalog_len_bytes: u64,
}

impl InMemory {
    /// Counts a keyspace whose tables have this length.
    pub(crate) fn add_keyspace(&mut self, limits: &Limits, table_len_bytes: u64) {
        self.keyspace_count += 1;
        let next = catalog_len_bytes(limits.memtable_len_bytes, table_len_bytes);
        self.next_catalog_len_bytes = self.next_catalog_len_bytes.max(next);
    }

    /// Counts a memtable of such a keyspace that is not empty.
    pub(crate) fn add_memtable(
        &mut self,
        len_bytes: u64,
        long_keys_len_bytes: u64,
        table_len_bytes: u64,
        grain_bytes: u64,
    ) {
        self.len_bytes += len_bytes;
        let per_grain = len_bytes.checked_div(grain_bytes);
        self.grain_count += per_grain.map_or(0, |grains| 1 + len_bytes / table_len_bytes + grains);
        self.catalog_len_bytes +=
            catalog_len_bytes(len_bytes, table_len_bytes) + 2 * long_keys_len_bytes;
    }
}

/// How much longer the catalog gets at most by the tables of a memtable, without its long keys.
fn catalog_len_bytes(len_bytes: u64, table_len_bytes: u64) -> u64 {
    let table_cost_bytes = TABLE_COST_BYTES + 2 * LONG_KEY_LEN_BYTES as u64;
    (1 + len_bytes / table_len_bytes) * table_cost_bytes
}

/// What keeps writes out besides the numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Holds {
    /// Logs of before are left (O3).
    pub(crate) are_logs_kept: bool,
    /// Writers would stall for a compaction that the drive has no room for.
    pub(crate) is_compaction_blocked: bool,
    /// A checkpoint may hold what compactions replace.
    pub(crate) has_checkpoint: bool,
    /// How large the next compaction may be, after one failed for want of space.
    pub(crate) room_max_bytes: u64,
}

/// Where space is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Drive,
    Catalog,
    /// On the drive, for what the logs of before hold.
    KeptLogs,
    /// On the drive, for a compaction; the numbers are those of the drive.
    Compaction,
}

/// Why a write is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shortage {
    pub(crate) place: Place,
    pub(crate) needed_bytes: u64,
    pub(crate) free_bytes: u64,
}

impl Shortage {
    fn check(place: Place, needed_bytes: u64, free_bytes: u64) -> Result<(), Shortage> {
        if needed_bytes <= free_bytes {
            return Ok(());
        }
        Err(Shortage { place, needed_bytes, free_bytes })
    }
}

/// Which writes are let in, and how much compactions may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Admission {
    space: SpaceUse,
    in_memory: InMemory,
    limits: Limits,
    holds: Holds,
}

/// Decides who may write, from what there is on the drive and in memory.
pub(crate) fn assess(
    space: SpaceUse,
    in_memory: InMemory,
    limits: Limits,
    holds: Holds,
) -> Admission {
    Admission { space, in_memory, limits, holds }
}

impl Admission {
    /// Whether a put is let in that is no longer than a memtable.
    ///
    /// # Errors
    /// What is missing.
    pub(crate) fn puts(&self) -> Result<(), Shortage> {
        let (needed_bytes, free_bytes) = (self.needed_bytes(), self.user_free_bytes());
        let is_admitted = needed_bytes <= free_bytes
            && !self.is_memory_short()
            && self.catalog_need_bytes() <= self.catalog_free_bytes()
            && !self.holds.are_logs_kept
            && !self.holds.is_compaction_blocked;
        if is_admitted { Ok(()) } else { Err(self.shortage()) }
    }

    /// What keeps puts out, the most telling first.
    pub(crate) fn shortage(&self) -> Shortage {
        let catalog = Shortage {
            place: Place::Catalog,
            needed_bytes: self.catalog_need_bytes(),
            free_bytes: self.catalog_free_bytes(),
        };
        if self.space.catalog.is_crowded() || catalog.free_bytes < catalog.needed_bytes {
            return catalog;
        }
        if self.holds.are_logs_kept {
            let needed_bytes = self.in_memory.len_bytes;
            let free_bytes = self.space.free_bytes;
            return Shortage { place: Place::KeptLogs, needed_bytes, free_bytes };
        }
        let (needed_bytes, free_bytes) = (self.needed_bytes(), self.user_free_bytes());
        let drive = Shortage { place: Place::Drive, needed_bytes, free_bytes };
        if free_bytes < needed_bytes {
            return drive;
        }
        if self.is_memory_short() {
            let (needed_bytes, free_bytes) = (self.memory_need_bytes(), self.space.free_bytes);
            return Shortage { place: Place::Drive, needed_bytes, free_bytes };
        }
        if self.holds.is_compaction_blocked {
            return Shortage { place: Place::Compaction, ..drive };
        }
        drive
    }

    /// Whether `len_bytes` more may be written, also only to delete something, with `long_keys_len_bytes` of
    /// long keys (R1).
    ///
    /// # Errors
    /// What is missing.
    pub(crate) fn deletes(&self, len_bytes: u64, long_keys_len_bytes: u64) -> Result<(), Shortage> {
        if self.holds.are_logs_kept {
            return Err(self.shortage());
        }
        let space = &self.space;
        let catalog_need_bytes = self.catalog_need_bytes() + 2 * long_keys_len_bytes;
        let catalog_free_bytes = space.catalog.free_bytes(CommitKind::Recovery);
        Shortage::check(Place::Catalog, catalog_need_bytes, catalog_free_bytes)?;
        let (needed_bytes, free_bytes) = match space.grain_bytes {
            // Dead bytes are as good as free for a delete: flushes clean.
            0 if space.catalog.is_crowded() => (0, 0),
            0 => {
                let needed_bytes = self.beside_log_bytes() + 2 * len_bytes;
                (needed_bytes, space.free_bytes + space.dead_bytes)
            }
            grain_bytes => {
                let kept_bytes = self.kept_bytes() + (1 + OUTPUTS_KEPT) * grain_bytes;
                (kept_bytes, space.free_bytes)
            }
        };
        Shortage::check(Place::Drive, needed_bytes, free_bytes)
    }

    /// Whether there is room for a put that is longer than a memtable: for its log, and for its table beside those of
    /// what is in memory.
    ///
    /// # Errors
    /// What is missing.
    pub(crate) fn long_put(&self, len_bytes: u64) -> Result<(), Shortage> {
        let needed_bytes = self.needed_bytes().max(self.in_memory.len_bytes);
        let needed_bytes = needed_bytes.saturating_add(2 * len_bytes);
        Shortage::check(Place::Drive, needed_bytes, self.user_free_bytes())
    }

    /// How much a compaction that is planned may write before its inputs are released.
    pub(crate) fn room(&self) -> Room {
        let room = self.room_beside_memory();
        Room {
            len_bytes: room.len_bytes.min(self.holds.room_max_bytes),
            gaining_len_bytes: room.gaining_len_bytes.min(self.holds.room_max_bytes),
            ..room
        }
    }

    /// As [`Admission::room`], for a compaction that runs.
    pub(crate) fn room_beside_memory(&self) -> Room {
        let space = &self.space;
        let grain_bytes = space.grain_bytes;
        if grain_bytes == 0 {
            let kept_bytes = if self.holds.has_checkpoint { self.memory_need_bytes() } else { 0 };
            let len_bytes = space.free_bytes.saturating_sub(kept_bytes);
            return Room { len_bytes, gaining_len_bytes: len_bytes, grain_bytes };
        }
        let all_bytes = space.free_bytes.saturating_sub(self.kept_bytes());
        // What is written may bring nothing back while a reader holds the inputs. So what a delete in
        // each keyspace needs is left alone.
        let deletes = self.in_memory.keyspace_count + 1 + OUTPUTS_KEPT;
        let len_bytes = all_bytes.saturating_sub(deletes * grain_bytes);
        Room { len_bytes, gaining_len_bytes: all_bytes, grain_bytes }
    }

    /// Whether less is free than the tables of all that is in memory take at the next assessment.
    pub(crate) fn is_memory_short(&self) -> bool {
        self.space.free_bytes < self.memory_need_bytes()
    }

    /// What must stay free so that what is in memory finds its place.
    fn needed_bytes(&self) -> u64 {
        let limits = &self.limits;
        let memtables = limits.free_memtable_count_min.saturating_mul(limits.memtable_len_bytes);
        // On zones, the log and each level's tables begin whole zones, however little they need:
        // the reserve's own length is the file layer's word on how coarse space is.
        let in_memory = self.kept_bytes() + self.space.grain_bytes;
        memtables.max(self.space.reserve_bytes).max(in_memory)
    }

    /// What user data may still use.
    fn user_free_bytes(&self) -> u64 {
        self.space.free_bytes.saturating_sub(self.space.reserve_bytes)
    }

    fn catalog_need_bytes(&self) -> u64 {
        self.in_memory.catalog_len_bytes + self.in_memory.next_catalog_len_bytes
    }

    fn catalog_free_bytes(&self) -> u64 {
        self.space.catalog.free_bytes(CommitKind::Upkeep)
    }

    /// What the tables of all that is in memory take at the next assessment, and its log, where tables take their
    /// length and the file layer says how much is free.
    fn memory_need_bytes(&self) -> u64 {
        if self.space.grain_bytes > 0 || self.space.catalog.is_crowded() {
            return 0;
        }
        let is_shared = self.in_memory.keyspace_count > 1;
        let tables = if is_shared { self.beside_log_bytes() } else { self.in_memory.len_bytes };
        tables + 2 * self.limits.look_len_bytes()
    }

    /// What must be free for the tables of all that is in memory when the log takes another piece: that is up to a
    /// quarter of what is free.
    fn beside_log_bytes(&self) -> u64 {
        self.in_memory.len_bytes + self.in_memory.len_bytes / 3
    }

    /// What must stay free for the tables of all memtables and for logs, where each takes a whole grain.
    fn kept_bytes(&self) -> u64 {
        (self.in_memory.grain_count + LOGS_KEPT).saturating_mul(self.space.grain_bytes)
    }
}

#[cfg(test)]
mod tests;

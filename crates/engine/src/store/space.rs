//! How much of a drive and of its catalog puts, deletes and compactions may take: one pure decision.
//!
//! ```text
//!   SpaceUse, InMemory, Limits, Holds --assess--> Admission { puts, deletes, long puts, room of compactions }
//! ```
//!
//! The meaning of each number, and the invariants (R1 to R3), are in `admission`, which collects
//! the inputs and applies the outcome.

use crate::compaction::situation::Room;
use crate::key::Kind;
use imbrex_files::{CommitKind, SpaceUse};

/// What a table adds to the catalog besides its keys: a name, a record, and its extents. A table on
/// a fragmented drive has several extents.
const TABLE_COST_BYTES: u64 = 300;
/// Keys longer than this are counted one by one, because tables are named by their keys.
pub(crate) const LONG_KEY_LEN_BYTES: usize = 256;
/// The number of logs that need room in addition to the tables: the current log and its successor.
const LOGS_KEPT: u64 = 2;
/// The number of tables for which deletes leave room, so that a compaction can merge short tables
/// into one.
const OUTPUTS_KEPT: u64 = 1;

/// While a log grows, space is assessed each time it has grown by this fraction of a memtable.
const LOOKS_PER_MEMTABLE: u64 = 8;

/// What was free when a background write was blocked for want of space.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockedWriteAt {
    pub(super) free_bytes: u64,
    pub(super) catalog_used_bytes: u64,
}

impl BlockedWriteAt {
    /// Whether there is more space now.
    pub(super) fn is_over(&self, space: &SpaceUse) -> bool {
        self.free_bytes < space.free_bytes || space.catalog.used_bytes < self.catalog_used_bytes
    }
}

/// The space when a compaction began while no other ran, or was blocked for want of room.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CompactionTriedAt {
    pub(super) free_bytes: u64,
    /// Dead data count as free only once they are cleaned, but a new try may have them cleaned.
    pub(super) live_bytes: u64,
}

impl CompactionTriedAt {
    /// Whether there is more space now.
    pub(super) fn is_over(&self, space: &SpaceUse) -> bool {
        self.free_bytes < space.free_bytes || space.live_bytes < self.live_bytes
    }
}

/// The length of an operation's keys that are counted one by one; a range delete has two keys.
pub(crate) fn long_key_len_bytes(kind: Kind, key: &[u8], value: &[u8]) -> u64 {
    let end: &[u8] = if kind == Kind::RangeDelete { value } else { &[] };
    let len_bytes = |key: &[u8]| if key.len() > LONG_KEY_LEN_BYTES { key.len() as u64 } else { 0 };
    len_bytes(key) + len_bytes(end)
}

/// At most how much must stay free for future memtables, by the store's options.
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

/// All memtables that are not empty, added up.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct InMemory {
    keyspace_count: u64,
    len_bytes: u64,
    /// The grains that their tables take, if tables take whole grains; otherwise 0.
    grain_count: u64,
    /// How many bytes their tables add to the catalog.
    catalog_len_bytes: u64,
    /// How many bytes the tables of the next memtable add to the catalog, for the keyspace with the
    /// highest cost.
    next_catalog_len_bytes: u64,
}

impl InMemory {
    /// Counts a keyspace with tables of `table_len_bytes`.
    pub(crate) fn add_keyspace(&mut self, limits: &Limits, table_len_bytes: u64) {
        self.keyspace_count += 1;
        let next = catalog_len_bytes(limits.memtable_len_bytes, table_len_bytes);
        self.next_catalog_len_bytes = self.next_catalog_len_bytes.max(next);
    }

    /// Counts a memtable that is not empty, of a keyspace with tables of `table_len_bytes`.
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

/// At most how many bytes the tables of a memtable add to the catalog, without its long keys.
fn catalog_len_bytes(len_bytes: u64, table_len_bytes: u64) -> u64 {
    let table_cost_bytes = TABLE_COST_BYTES + 2 * LONG_KEY_LEN_BYTES as u64;
    (1 + len_bytes / table_len_bytes) * table_cost_bytes
}

/// Reasons to refuse writes that are not sizes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Holds {
    /// Logs from before the opening are left (O3).
    pub(crate) are_logs_kept: bool,
    /// Writers would stall for a compaction that the drive has no room for.
    pub(crate) is_compaction_blocked: bool,
    /// A checkpoint may hold the inputs of compactions.
    pub(crate) has_checkpoint: bool,
    /// How large the next compaction may be, after one failed for want of space.
    pub(crate) room_max_bytes: u64,
}

/// Where space is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Drive,
    Catalog,
    /// On the drive, for the content of logs from before the opening.
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

/// Which writes are admitted, and how much space compactions may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Admission {
    space: SpaceUse,
    in_memory: InMemory,
    limits: Limits,
    holds: Holds,
}

/// Decides which writes are admitted, from the space on the drive and the content of memory.
pub(crate) fn assess(
    space: SpaceUse,
    in_memory: InMemory,
    limits: Limits,
    holds: Holds,
) -> Admission {
    Admission { space, in_memory, limits, holds }
}

impl Admission {
    /// Whether a put no longer than a memtable is admitted.
    ///
    /// # Errors
    /// The shortage.
    pub(crate) fn puts(&self) -> Result<(), Shortage> {
        let (needed_bytes, free_bytes) = (self.needed_bytes(), self.user_free_bytes());
        let is_admitted = needed_bytes <= free_bytes
            && !self.is_memory_short()
            && self.catalog_need_bytes() <= self.catalog_free_bytes()
            && !self.holds.are_logs_kept
            && !self.holds.is_compaction_blocked;
        if is_admitted { Ok(()) } else { Err(self.shortage()) }
    }

    /// The shortage that keeps puts out; if there are several, the one that explains most.
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

    /// Whether `len_bytes` more may be written, even by a delete, with `long_keys_len_bytes` of
    /// long keys (R1).
    ///
    /// # Errors
    /// The shortage.
    pub(crate) fn deletes(&self, len_bytes: u64, long_keys_len_bytes: u64) -> Result<(), Shortage> {
        if self.holds.are_logs_kept {
            return Err(self.shortage());
        }
        let space = &self.space;
        let catalog_need_bytes = self.catalog_need_bytes() + 2 * long_keys_len_bytes;
        let catalog_free_bytes = space.catalog.free_bytes(CommitKind::Recovery);
        Shortage::check(Place::Catalog, catalog_need_bytes, catalog_free_bytes)?;
        let (needed_bytes, free_bytes) = match space.grain_bytes {
            // For a delete, dead bytes count as free, because flushes clean.
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

    /// Whether there is room for a put that is longer than a memtable: for its log, and for its
    /// table in addition to the tables of all memtables.
    ///
    /// # Errors
    /// The shortage.
    pub(crate) fn long_put(&self, len_bytes: u64) -> Result<(), Shortage> {
        let needed_bytes = self.needed_bytes().max(self.in_memory.len_bytes);
        let needed_bytes = needed_bytes.saturating_add(2 * len_bytes);
        Shortage::check(Place::Drive, needed_bytes, self.user_free_bytes())
    }

    /// How much a planned compaction may write before its inputs are released.
    pub(crate) fn room(&self) -> Room {
        let room = self.room_beside_memory();
        Room {
            len_bytes: room.len_bytes.min(self.holds.room_max_bytes),
            gaining_len_bytes: room.gaining_len_bytes.min(self.holds.room_max_bytes),
            ..room
        }
    }

    /// Like [`Admission::room`], for a compaction that already runs.
    pub(crate) fn room_beside_memory(&self) -> Room {
        let space = &self.space;
        let grain_bytes = space.grain_bytes;
        if grain_bytes == 0 {
            let kept_bytes = if self.holds.has_checkpoint { self.memory_need_bytes() } else { 0 };
            let len_bytes = space.free_bytes.saturating_sub(kept_bytes);
            return Room { len_bytes, gaining_len_bytes: len_bytes, grain_bytes };
        }
        let all_bytes = space.free_bytes.saturating_sub(self.kept_bytes());
        // A compaction may free nothing while a reader holds its inputs. So it leaves what a delete
        // in each keyspace needs.
        let deletes = self.in_memory.keyspace_count + 1 + OUTPUTS_KEPT;
        let len_bytes = all_bytes.saturating_sub(deletes * grain_bytes);
        Room { len_bytes, gaining_len_bytes: all_bytes, grain_bytes }
    }

    /// Whether less is free than the tables of all memtables will need at the next assessment.
    pub(crate) fn is_memory_short(&self) -> bool {
        self.space.free_bytes < self.memory_need_bytes()
    }

    /// What must stay free so that the content of memory finds its place.
    fn needed_bytes(&self) -> u64 {
        let limits = &self.limits;
        let memtables = limits.free_memtable_count_min.saturating_mul(limits.memtable_len_bytes);
        // On zones, the log and each level's tables begin whole zones, however short they are. The
        // length of the reserve is the file layer's measure of how coarse space is.
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

    /// What the tables of all memtables and the log will need at the next assessment. Only where a
    /// table takes its length, and the file layer knows how much is free; otherwise 0.
    fn memory_need_bytes(&self) -> u64 {
        if self.space.grain_bytes > 0 || self.space.catalog.is_crowded() {
            return 0;
        }
        let is_shared = self.in_memory.keyspace_count > 1;
        let tables = if is_shared { self.beside_log_bytes() } else { self.in_memory.len_bytes };
        tables + 2 * self.limits.look_len_bytes()
    }

    /// What must be free for the tables of all memtables when the log takes another piece, which
    /// may be up to a quarter of the free space.
    fn beside_log_bytes(&self) -> u64 {
        self.in_memory.len_bytes + self.in_memory.len_bytes / 3
    }

    /// What must stay free for the tables of all memtables and for logs, if each takes whole
    /// grains.
    fn kept_bytes(&self) -> u64 {
        (self.in_memory.grain_count + LOGS_KEPT).saturating_mul(self.space.grain_bytes)
    }
}

#[cfg(test)]
mod tests;

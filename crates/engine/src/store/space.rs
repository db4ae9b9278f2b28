//! How much of a drive and of its catalog puts, deletes and compactions may take: one pure decision.
//!
//! ```text
//!   SpaceUse, InMemory, Limits, Holds --assess--> Admission { puts, deletes, long puts, room of compactions }
//!
//!   the drive   | tables, logs: live and garbage | merge | deletes | tables of memory | reserve |
//!                               puts end here ---|       |         |                  |
//!                               compactions end here ----|         |                  |
//!                               deletes end here ------------------|                  |
//!                               flushes end here -------------------------------------|
//! ```
//!
//! What cleaning would bring back counts as free. The rules and their proof are in
//! `docs/decisions/0060-one-reckoning-of-space.md`. The meaning of each number, and the invariants (R1
//! to R3), are in `admission`, which collects the inputs and applies the outcome.
//!
//! Where tables take whole zones, the same ladder counts zones (decision 10).

use crate::compaction::merge::output::worth_len_bytes;
use crate::compaction::situation::Room;
use crate::key::Kind;
use crate::store::limits::Limits;
use imbrex_files::{CommitKind, SpaceUse};

/// What a table adds to the catalog besides its keys: a name, a record, and its extents. A table on
/// a fragmented drive has several extents.
const TABLE_COST_BYTES: u64 = 300;
/// Longer keys are counted. Shorter ones count as this long, because a table's record holds two.
pub(crate) const LONG_KEY_LEN_BYTES: usize = 256;
/// What a table takes beyond its entries: filter, index and block ends take a part, and the rest of
/// its last block and its footer a fixed length.
const TABLE_EXTRA_PER_LEN: u64 = 16;
const TABLE_EXTRA_BYTES: u64 = 16 << 10;
/// The number of logs that need room in addition to the tables: the current log and its successor.
const LOGS_KEPT: u64 = 2;
/// The number of tables for which deletes leave room, so that a compaction can merge short tables
/// into one.
const OUTPUTS_KEPT: u64 = 1;

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

/// The long keys of an operation or of a memtable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LongKeys {
    /// Their length together: a table's index holds many of them once more.
    pub(crate) len_bytes: u64,
    /// The length of the longest, which may become the bound of a table.
    pub(crate) longest_len_bytes: u64,
}

impl LongKeys {
    /// The long keys of an operation; a range delete has two keys.
    pub(crate) fn of(kind: Kind, key: &[u8], value: &[u8]) -> LongKeys {
        let end: &[u8] = if kind == Kind::RangeDelete { value } else { &[] };
        let is_long = |key: &&[u8]| key.len() > LONG_KEY_LEN_BYTES;
        [key, end].into_iter().filter(is_long).fold(LongKeys::default(), |sum, key| {
            sum.with(LongKeys { len_bytes: key.len() as u64, longest_len_bytes: key.len() as u64 })
        })
    }

    /// Both together.
    pub(crate) fn with(self, other: LongKeys) -> LongKeys {
        LongKeys {
            len_bytes: self.len_bytes + other.len_bytes,
            longest_len_bytes: self.longest_len_bytes.max(other.longest_len_bytes),
        }
    }
}

/// One memtable that is not empty.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MemoryUse {
    pub(crate) len_bytes: u64,
    pub(crate) long_keys: LongKeys,
}

/// What decides into how many tables a memtable is flushed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TableShape {
    /// The length at which a table ends.
    pub(crate) len_bytes: u64,
    /// The number of keys at which a table ends in any case.
    pub(crate) cut_count: u64,
}

impl TableShape {
    /// At most how many tables hold `len_bytes`.
    fn count(self, len_bytes: u64) -> u64 {
        1 + self.cut_count + len_bytes / self.len_bytes
    }
}

/// All memtables that are not empty, added up.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct InMemory {
    keyspace_count: u64,
    /// The length of the tables that the memtables become.
    tables_len_bytes: u64,
    /// The number of those tables.
    table_count: u64,
    /// The grains that the tables take, if tables take whole grains; otherwise 0.
    grain_count: u64,
    /// How many bytes the tables add to the catalog.
    catalog_len_bytes: u64,
    /// How many bytes the tables of the next memtable add to the catalog, for the keyspace with the
    /// highest cost.
    next_catalog_len_bytes: u64,
    /// How much the smallest useful merge takes, in the keyspace with the longest tables.
    merge_len_bytes: u64,
}

impl InMemory {
    /// Counts a keyspace whose smallest useful merge takes `merge_len_bytes`.
    pub(crate) fn add_keyspace(
        &mut self,
        limits: &Limits,
        tables: TableShape,
        merge_len_bytes: u64,
    ) {
        self.keyspace_count += 1;
        let table_count = tables.count(limits.memtable_len_bytes);
        let next = catalog_len_bytes(table_count, 0);
        self.next_catalog_len_bytes = self.next_catalog_len_bytes.max(next);
        self.merge_len_bytes = self.merge_len_bytes.max(merge_len_bytes);
    }

    /// Counts a memtable that is not empty, of a keyspace with `tables`.
    pub(crate) fn add_memtable(
        &mut self,
        memory: &MemoryUse,
        tables: TableShape,
        grain_bytes: u64,
    ) {
        let MemoryUse { len_bytes, long_keys } = *memory;
        let worth_len_bytes = worth_len_bytes(long_keys.longest_len_bytes);
        let len_bytes_min = tables.len_bytes.max(worth_len_bytes);
        let table_count = TableShape { len_bytes: len_bytes_min, ..tables }.count(len_bytes);
        self.table_count += table_count;
        self.tables_len_bytes += len_bytes
            + len_bytes / TABLE_EXTRA_PER_LEN
            + long_keys.len_bytes
            + table_count * TABLE_EXTRA_BYTES;
        let per_grain = len_bytes.checked_div(grain_bytes);
        self.grain_count += per_grain.map_or(0, |grains| table_count + grains);
        self.catalog_len_bytes += catalog_len_bytes(table_count, long_keys.longest_len_bytes);
    }
}

/// At most how many bytes so many tables add to the catalog, with keys of at most that length.
fn catalog_len_bytes(table_count: u64, key_len_bytes: u64) -> u64 {
    let key_len_bytes = key_len_bytes.max(LONG_KEY_LEN_BYTES as u64);
    table_count * (TABLE_COST_BYTES + 2 * key_len_bytes)
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

/// A drive is worth its reserve if it is so many times as long.
const DRIVE_PER_RESERVE: u64 = 2;
/// Of so many equal shares of a new drive, at most so many may be kept free. Entries that fill half of
/// the drive take an eighth more with the filters, indexes and block ends of their tables. Where tables
/// take whole zones, entries fill a third of it, and their tables leave parts of their zones unused.
const DRIVE_SHARES: u64 = 16;
const KEPT_SHARES: u64 = 7;
/// Where tables take whole zones, each keyspace needs zones for short tables of level 0 and of level 1,
/// and the store needs zones for two logs, two outputs of a merge, and the reserve.
const ZONES_PER_KEYSPACE: u64 = 4;
const ZONES_PER_STORE: u64 = 8;

/// The shortage of a drive that is too short for a store; `None` if the drive is long enough.
///
/// A drive is too short if its reserve would be most of it: on a few long zones, a log and a table take
/// the rest. It is too short as well if it has too few zones for tables that take whole zones.
pub(crate) fn too_short(space: &SpaceUse, keyspace_count: u64) -> Option<Shortage> {
    let needed_bytes = match space.grain_bytes {
        0 => space.reserve_bytes.saturating_mul(DRIVE_PER_RESERVE),
        grain_bytes => (ZONES_PER_STORE + ZONES_PER_KEYSPACE * keyspace_count) * grain_bytes,
    };
    Shortage::check(Place::Drive, needed_bytes, space.capacity_bytes).err()
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
        let is_admitted = self.needed_bytes() <= self.user_free_bytes()
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
        if catalog.free_bytes < catalog.needed_bytes {
            return catalog;
        }
        let (needed_bytes, free_bytes) = (self.needed_bytes(), self.user_free_bytes());
        let drive = Shortage { place: Place::Drive, needed_bytes, free_bytes };
        if self.holds.are_logs_kept {
            let needed_bytes = self.in_memory.tables_len_bytes;
            let free_bytes = self.space.upkeep_bytes;
            return Shortage { place: Place::KeptLogs, needed_bytes, free_bytes };
        }
        if self.holds.is_compaction_blocked && needed_bytes <= free_bytes {
            return Shortage { place: Place::Compaction, ..drive };
        }
        drive
    }

    /// Whether `len_bytes` more may be written, even by a delete, with `long_keys` (R1).
    ///
    /// # Errors
    /// The shortage.
    pub(crate) fn deletes(&self, len_bytes: u64, long_keys: LongKeys) -> Result<(), Shortage> {
        if self.holds.are_logs_kept {
            return Err(self.shortage());
        }
        let space = &self.space;
        let bounds_len_bytes = 2 * long_keys.longest_len_bytes;
        let catalog_need_bytes =
            self.catalog_need_bytes() + (1 + self.in_memory.table_count) * bounds_len_bytes;
        let catalog_free_bytes = space.catalog.free_bytes(CommitKind::Recovery);
        Shortage::check(Place::Catalog, catalog_need_bytes, catalog_free_bytes)?;
        let (needed_bytes, free_bytes) = match space.grain_bytes {
            0 => {
                let more_bytes = 2 * (len_bytes + long_keys.len_bytes);
                let more_bytes = more_bytes + self.limits.deletes_len_bytes / 2;
                (self.in_memory.tables_len_bytes + more_bytes, self.free_for_deletes())
            }
            grain_bytes => {
                let kept_bytes = self.kept_bytes() + (1 + OUTPUTS_KEPT) * grain_bytes;
                (kept_bytes, space.free_bytes)
            }
        };
        Shortage::check(Place::Drive, needed_bytes, free_bytes)
    }

    /// What deletes may use where files share runs: they leave half of what is lent to the merge that gives back
    /// what they hide.
    fn free_for_deletes(&self) -> u64 {
        let SpaceUse { upkeep_bytes, lent_bytes, .. } = self.space;
        let is_lent = upkeep_bytes < lent_bytes && !self.holds.has_checkpoint;
        if is_lent { upkeep_bytes.max(lent_bytes / 2) } else { upkeep_bytes }
    }

    /// Whether at least half of an empty drive of `drive_len_bytes` can be filled before puts are
    /// refused, or a third where tables take whole zones or files have guards of `guards_len_bytes` in
    /// all. The rest has what is not for files, the reserve, one log, the tables of a full
    /// memtable, and what puts leave free.
    ///
    /// # Errors
    /// The shortage, of the whole drive.
    pub(crate) fn fills_enough(
        &self,
        drive_len_bytes: u64,
        guards_len_bytes: u64,
    ) -> Result<(), Shortage> {
        let (space, limits) = (&self.space, &self.limits);
        let kept_bytes = match space.grain_bytes {
            0 => {
                // On zones, a log owns the rest of its zone. The reserve is at least two zones.
                let log_bytes = limits.log_len_bytes.max(space.reserve_bytes / 2);
                let len_bytes = limits.memtable_len_bytes;
                let table_bytes =
                    len_bytes + len_bytes / TABLE_EXTRA_PER_LEN + 2 * TABLE_EXTRA_BYTES;
                log_bytes + table_bytes + self.needed_bytes()
            }
            grain_bytes => {
                let grain_count = 1 + limits.memtable_len_bytes.div_ceil(grain_bytes) + LOGS_KEPT;
                self.needed_bytes().max((grain_count + OUTPUTS_KEPT) * grain_bytes)
            }
        };
        let not_files_bytes =
            drive_len_bytes.saturating_sub(space.capacity_bytes) + guards_len_bytes;
        let kept_bytes = (space.reserve_bytes + not_files_bytes).saturating_add(kept_bytes);
        let needed_bytes = DRIVE_SHARES.saturating_mul(kept_bytes).div_ceil(KEPT_SHARES);
        Shortage::check(Place::Drive, needed_bytes, drive_len_bytes)
    }

    /// Whether there is room for a put that is longer than a memtable: for its log, and for its
    /// table in addition to the tables of all memtables.
    ///
    /// # Errors
    /// The shortage.
    pub(crate) fn long_put(&self, len_bytes: u64) -> Result<(), Shortage> {
        let needed_bytes = self.needed_bytes().saturating_add(2 * len_bytes);
        Shortage::check(Place::Drive, needed_bytes, self.user_free_bytes())
    }

    /// How much a planned compaction may write before its inputs are released.
    pub(crate) fn room(&self) -> Room {
        let room = self.room_beside_memory();
        Room {
            len_bytes: room.len_bytes.min(self.holds.room_max_bytes),
            gaining_len_bytes: room.gaining_len_bytes.min(self.holds.room_max_bytes),
            hiding_len_bytes: room.hiding_len_bytes.min(self.holds.room_max_bytes),
            ..room
        }
    }

    /// Like [`Admission::room`], for a compaction that already runs.
    pub(crate) fn room_beside_memory(&self) -> Room {
        let space = &self.space;
        let grain_bytes = space.grain_bytes;
        if grain_bytes == 0 {
            let kept_bytes = self.in_memory.tables_len_bytes + self.limits.deletes_len_bytes;
            // If memory finds no room anyway, only a compaction can make some. It gives its room
            // back, unless a checkpoint holds its inputs.
            let is_free = self.is_memory_short() && !self.holds.has_checkpoint;
            let kept_bytes = if is_free { 0 } else { kept_bytes };
            let len_bytes = space.upkeep_bytes.saturating_sub(kept_bytes);
            let (gaining_len_bytes, hiding_len_bytes) = match self.holds.has_checkpoint {
                true => (len_bytes, len_bytes),
                // What gives its room back at its end may take that of memory meanwhile: a flush that
                // finds none tries again, and a crash gives it back.
                false => (space.upkeep_bytes, self.len_for_hiding(len_bytes, kept_bytes)),
            };
            return Room { len_bytes, gaining_len_bytes, hiding_len_bytes, grain_bytes };
        }
        let all_bytes = space.free_bytes.saturating_sub(self.kept_bytes());
        // A compaction may free nothing while a reader holds its inputs. So it leaves what a delete
        // in each keyspace needs.
        let deletes = self.in_memory.keyspace_count + 1 + OUTPUTS_KEPT;
        let len_bytes = all_bytes.saturating_sub(deletes * grain_bytes);
        Room { len_bytes, gaining_len_bytes: all_bytes, hiding_len_bytes: len_bytes, grain_bytes }
    }

    /// What a merge with deletes may take: `len_bytes`, or if no merge fits there, what is lent. Of that it leaves
    /// what memory and deletes need, if a merge fits there.
    fn len_for_hiding(&self, len_bytes: u64, kept_bytes: u64) -> u64 {
        let lent_bytes = self.space.lent_bytes;
        let is_enough = |len_bytes: &u64| self.in_memory.merge_len_bytes <= *len_bytes;
        if is_enough(&len_bytes) || lent_bytes <= self.space.upkeep_bytes {
            return len_bytes;
        }
        Some(lent_bytes.saturating_sub(kept_bytes)).filter(is_enough).unwrap_or(lent_bytes)
    }

    /// Whether the tables of all memtables find no room.
    fn is_memory_short(&self) -> bool {
        let is_counted = self.space.grain_bytes == 0;
        is_counted && self.space.upkeep_bytes < self.in_memory.tables_len_bytes
    }

    /// What must be free for user data when a put is admitted.
    fn needed_bytes(&self) -> u64 {
        let limits = &self.limits;
        let memtables = limits.free_memtable_count_min.saturating_mul(limits.memtable_len_bytes);
        if self.space.grain_bytes == 0 {
            let upkeep = self.in_memory.merge_len_bytes + limits.deletes_len_bytes;
            return memtables.max(upkeep).saturating_add(self.in_memory.tables_len_bytes);
        }
        // On zones, the log and each level's tables begin whole zones, however short they are. The
        // length of the reserve is the file layer's measure of how coarse space is.
        let in_memory = self.kept_bytes() + self.space.grain_bytes;
        memtables.max(self.space.reserve_bytes).max(in_memory)
    }

    /// What user data may still use.
    fn user_free_bytes(&self) -> u64 {
        match self.space.grain_bytes {
            0 => self.space.ordinary_bytes,
            _ => self.space.free_bytes.saturating_sub(self.space.reserve_bytes),
        }
    }

    /// How much more may be written before puts are refused. Data that are dead but not yet given
    /// back do not count as free.
    pub(crate) fn slack_bytes(&self) -> u64 {
        let clean_bytes = self.space.free_bytes.saturating_sub(self.space.reserve_bytes);
        self.user_free_bytes().min(clean_bytes).saturating_sub(self.needed_bytes())
    }

    fn catalog_need_bytes(&self) -> u64 {
        self.in_memory.catalog_len_bytes + self.in_memory.next_catalog_len_bytes
    }

    fn catalog_free_bytes(&self) -> u64 {
        self.space.catalog.free_bytes(CommitKind::Upkeep)
    }

    /// What must stay free for the tables of all memtables and for logs, if each takes whole
    /// grains.
    fn kept_bytes(&self) -> u64 {
        (self.in_memory.grain_count + LOGS_KEPT).saturating_mul(self.space.grain_bytes)
    }
}

#[cfg(test)]
mod tests;

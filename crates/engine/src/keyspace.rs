//! A keyspace inside the store: its memtables and its version, swapped whole.
//!
//! ```text
//!   SuperVersion { active, immutables (newest first), version }     one load gives all of it
//!        ^ swapped: a rotation moves active to immutables, a commit moves immutables to the version
//! ```
//!
//! Invariants
//!   Y1  A super version holds everything that was written to the keyspace before it was swapped in,
//!       newest source first.
//!   Y2  A reader loads the super version first and the visible sequence number second: everything
//!       at or below that number which the super version lacks is newer than everything it has.

use crate::EngineError;
use crate::band::Band;
use crate::batch::KeyspaceId;
use crate::cache::BlockCache;
use crate::compaction::{Pressure, policy};
use crate::key::{Kind, Seq, Trailer};
use crate::memtable::{MemState, Memtable};
use crate::options::{KeyspaceOptions, Options};
use crate::room::{LONG_KEY_LEN_BYTES, long_key_len_bytes};
use crate::store::gate;
use crate::table::{TableLookup, key_hash};
use crate::version::edit::LogId;
use crate::version::state::KeyspaceEntry;
use crate::version::{TableSlot, Version};
use crate::wal::Wal;
use arc_swap::{ArcSwap, Guard};
use bytes::Bytes;
use imbrex_record_log::Position;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

const NO_LOG: u64 = u64::MAX;

/// A memtable and the logs that hold the same.
#[derive(Debug)]
pub(crate) struct MemSlot {
    pub(crate) mem: Arc<Memtable>,
    /// The oldest log with a write of it.
    first_log: AtomicU64,
    /// The first log without: where the keyspace's next memtable begins.
    end_log: AtomicU64,
    /// Its long keys together: tables are named by their keys.
    long_key_len_bytes: AtomicU64,
    /// Where its values lie in its log, if that is to become a table.
    band: OnceLock<Arc<Band>>,
}

impl MemSlot {
    pub(crate) fn new() -> Arc<MemSlot> {
        Arc::new(MemSlot {
            mem: Arc::new(Memtable::new(0)),
            first_log: AtomicU64::new(NO_LOG),
            end_log: AtomicU64::new(NO_LOG),
            long_key_len_bytes: AtomicU64::new(0),
            band: OnceLock::new(),
        })
    }

    /// The log that can become a table, if there is one.
    pub(crate) fn band(&self) -> Option<&Arc<Band>> {
        self.band.get().filter(|band| band.is_sound())
    }

    /// Notes where in log `log` the value of a write begins.
    pub(crate) fn note_place(&self, log: LogId, wal: &Arc<Wal>, seq: Seq, place: Position) {
        let band = self.band.get_or_init(|| Arc::new(Band::new(log, Arc::clone(wal))));
        band.note(log, seq, place);
    }

    /// The oldest log with a write of this memtable; `None` while it is empty.
    pub(crate) fn first_log(&self) -> Option<LogId> {
        let id = self.first_log.load(Ordering::Acquire);
        (id != NO_LOG).then_some(LogId(id))
    }

    /// Notes that a write to `log` goes here; before the write becomes visible.
    #[inline]
    pub(crate) fn note_log(&self, log: LogId) {
        if self.first_log.load(Ordering::Relaxed) == NO_LOG {
            self.first_log.store(log.0, Ordering::Release);
        }
    }

    /// Keys that make the catalog's record of a table long.
    #[cold]
    fn note_long_keys(&self, kind: Kind, key: &[u8], value: &[u8]) {
        let len_bytes = long_key_len_bytes(kind, key, value);
        self.long_key_len_bytes.fetch_add(len_bytes, Ordering::Relaxed);
    }

    /// The keys that are counted one by one, together.
    pub(crate) fn long_key_len_bytes(&self) -> u64 {
        self.long_key_len_bytes.load(Ordering::Relaxed)
    }

    /// Ends the memtable: `next` is the first log with nothing of it.
    pub(crate) fn freeze(&self, next: LogId) {
        self.end_log.store(next.0, Ordering::Release);
        self.mem.freeze();
    }

    /// Where the keyspace's log begins once this memtable is in a table.
    pub(crate) fn end_log(&self) -> LogId {
        let id = self.end_log.load(Ordering::Acquire);
        LogId(if id == NO_LOG { 0 } else { id })
    }

    /// Adds one operation.
    #[inline]
    pub(crate) fn insert(&self, kind: Kind, key: &[u8], seq: Seq, value: &[u8]) {
        if key.len() > LONG_KEY_LEN_BYTES || kind == Kind::RangeDelete {
            self.note_long_keys(kind, key, value);
        }
        match kind {
            Kind::Put | Kind::Delete => self.mem.insert(key, Trailer::new(seq, kind), value),
            Kind::RangeDelete => self.mem.insert_range_tombstone(key, value, seq),
            Kind::PutAt => unreachable!("only tables say where a value lies"),
        }
    }
}

/// Everything a reader needs, at one moment (Y1).
#[derive(Clone, Debug)]
pub(crate) struct SuperVersion {
    pub(crate) active: Arc<MemSlot>,
    /// Newest first.
    pub(crate) immutables: Vec<Arc<MemSlot>>,
    pub(crate) version: Arc<Version>,
}

/// A keyspace of an open store.
#[derive(Debug)]
pub(crate) struct KeyspaceState {
    pub(crate) id: KeyspaceId,
    pub(crate) name: String,
    pub(crate) options: KeyspaceOptions,
    view: ArcSwap<SuperVersion>,
    /// Held by who swaps the view.
    swap: Mutex<()>,
    pub(crate) is_dropped: AtomicBool,
}

impl KeyspaceState {
    pub(crate) fn new(entry: &KeyspaceEntry) -> KeyspaceState {
        let view = SuperVersion {
            active: MemSlot::new(),
            immutables: Vec::new(),
            version: Arc::clone(&entry.version),
        };
        KeyspaceState {
            id: entry.record.id,
            name: entry.record.name.clone(),
            options: entry.record.options.clone(),
            view: ArcSwap::from_pointee(view),
            swap: Mutex::default(),
            is_dropped: AtomicBool::new(false),
        }
    }

    /// What a reader sees now.
    #[inline]
    pub(crate) fn view(&self) -> Guard<Arc<SuperVersion>> {
        self.view.load()
    }

    /// As [`KeyspaceState::view`], to be kept.
    pub(crate) fn view_arc(&self) -> Arc<SuperVersion> {
        self.view.load_full()
    }

    fn update(&self, change: impl FnOnce(&SuperVersion) -> SuperVersion) {
        let _guard = self.swap.lock();
        let view = change(&self.view.load());
        self.view.store(Arc::new(view));
    }

    /// Freezes the active memtable, if it holds anything, and begins a new one; `next` is the log that begins with it.
    /// The caller holds the writer.
    pub(crate) fn rotate(&self, next: LogId) {
        self.update(|view| {
            // Who drops the keyspace does not hold the writer, and nobody flushes what is dropped.
            if view.active.mem.is_empty() {
                return view.clone();
            }
            view.active.freeze(next);
            let mut immutables = Vec::with_capacity(view.immutables.len() + 1);
            immutables.push(Arc::clone(&view.active));
            immutables.extend(view.immutables.iter().cloned());
            SuperVersion { active: MemSlot::new(), immutables, version: Arc::clone(&view.version) }
        });
    }

    /// Swaps in `version`, and out the memtables that are part of it now.
    pub(crate) fn install(&self, version: &Arc<Version>, flushed: Vec<&Arc<MemSlot>>) {
        let same = Arc::ptr_eq(version, &self.view().version);
        if same && flushed.is_empty() {
            return;
        }
        self.update(|view| SuperVersion {
            active: Arc::clone(&view.active),
            immutables: view
                .immutables
                .iter()
                .filter(|slot| !flushed.iter().any(|gone| Arc::ptr_eq(slot, gone)))
                .cloned()
                .collect(),
            version: Arc::clone(version),
        });
    }

    /// Lets go of all data: the keyspace was dropped.
    pub(crate) fn drop_data(&self) {
        self.is_dropped.store(true, Ordering::Release);
        self.update(|_| SuperVersion {
            active: MemSlot::new(),
            immutables: Vec::new(),
            version: Arc::default(),
        });
    }

    /// # Errors
    /// [`EngineError::NoKeyspace`] once it was dropped.
    #[inline]
    pub(crate) fn check_exists(&self) -> Result<(), EngineError> {
        if self.is_dropped.load(Ordering::Relaxed) {
            return Err(EngineError::NoKeyspace { name: self.name.clone() });
        }
        Ok(())
    }

    /// How it holds writes up, as bits of [`gate`].
    pub(crate) fn pressure(&self, options: &Options) -> usize {
        let view = self.view();
        let is_full = view.active.mem.len_bytes() as u64 >= options.memtable_len_bytes;
        let mut bits = 0;
        if is_full && view.immutables.len() >= options.immutable_memtable_count_max {
            bits |= gate::STOP;
        }
        match policy(self.options.compaction).pressure(&view.version, &self.options) {
            Pressure::None => {}
            Pressure::Slowdown => bits |= gate::SLOWDOWN,
            Pressure::Stop => bits |= gate::STOP,
        }
        bits
    }

    /// Whether writes wait for compaction, or go no faster than it.
    pub(crate) fn is_held_up_by_compaction(&self) -> bool {
        let policy = policy(self.options.compaction);
        policy.pressure(&self.view().version, &self.options) != Pressure::None
    }
}

/// What one source says about a key: its newest entry and its newest range tombstone over it.
enum Verdict {
    Silent,
    Deleted,
    Value(Bytes),
}

impl SuperVersion {
    /// The value of `user_key` as of `snapshot`.
    ///
    /// Sources are asked from the newest to the oldest; the first that knows the key decides (V2).
    pub(crate) fn get(
        &self,
        user_key: &[u8],
        snapshot: Seq,
        cache: &Arc<BlockCache>,
    ) -> Result<Option<Bytes>, EngineError> {
        for slot in [&self.active].into_iter().chain(&self.immutables) {
            match ask_memtable(&slot.mem, user_key, snapshot) {
                Verdict::Silent => {}
                Verdict::Deleted => return Ok(None),
                Verdict::Value(value) => return Ok(Some(value)),
            }
        }
        let hash = key_hash(user_key);
        for level in &self.version.levels {
            if let Some(cover) = level.cover() {
                for slot in cover.at(user_key) {
                    match ask_table(slot, (user_key, hash), snapshot, cache)? {
                        Verdict::Silent => {}
                        Verdict::Deleted => return Ok(None),
                        Verdict::Value(value) => return Ok(Some(value)),
                    }
                }
                continue;
            }
            for run in &level.runs {
                let Some(slot) = run.find(user_key) else { continue };
                match ask_table(slot, (user_key, hash), snapshot, cache)? {
                    Verdict::Silent => {}
                    Verdict::Deleted => return Ok(None),
                    Verdict::Value(value) => return Ok(Some(value)),
                }
            }
        }
        Ok(None)
    }
}

#[inline]
fn ask_table(
    slot: &TableSlot,
    (user_key, hash): (&[u8], u64),
    snapshot: Seq,
    cache: &Arc<BlockCache>,
) -> Result<Verdict, EngineError> {
    let table = slot.open(cache)?;
    let cover = match slot.meta.range_tombstone_count {
        0 => None,
        _ => table.range_tombstones().max_seq_covering(user_key, snapshot),
    };
    Ok(match (table.get(user_key, hash, snapshot)?, cover) {
        (TableLookup::Missing, None) => Verdict::Silent,
        (TableLookup::Value { value, seq }, cover) if Some(seq) > cover => Verdict::Value(value),
        _ => Verdict::Deleted,
    })
}

#[inline]
fn ask_memtable(mem: &Memtable, user_key: &[u8], snapshot: Seq) -> Verdict {
    let cover = mem.max_seq_covering(user_key, snapshot);
    match mem.get(user_key, snapshot) {
        Some(found) if Some(found.seq) > cover => match found.state {
            MemState::Value(value) => Verdict::Value(value),
            MemState::Deleted => Verdict::Deleted,
        },
        None if cover.is_none() => Verdict::Silent,
        _ => Verdict::Deleted,
    }
}

#[cfg(test)]
mod tests {
    use super::KeyspaceState;
    use crate::batch::KeyspaceId;
    use crate::key::{Kind, Seq};
    use crate::options::KeyspaceOptions;
    use crate::version::edit::{KeyspaceRecord, LogId};
    use crate::version::state::KeyspaceEntry;
    use std::sync::Arc;

    /// A log that ended while a keyspace was dropped left a memtable behind that nobody flushes, and who flushed all
    /// keyspaces waited for it for good.
    #[test]
    fn what_is_dropped_leaves_nothing_to_flush() {
        let record = KeyspaceRecord {
            id: KeyspaceId(1),
            name: "k".to_owned(),
            options: KeyspaceOptions::default(),
        };
        let (log_floor, version) = (LogId(0), Arc::default());
        let keyspace = KeyspaceState::new(&KeyspaceEntry { record, log_floor, version });
        keyspace.view().active.insert(Kind::Put, b"key", Seq(1), b"value");
        keyspace.drop_data();
        keyspace.rotate(LogId(2));
        assert!(keyspace.view().immutables.is_empty());
    }
}

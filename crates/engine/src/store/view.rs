//! What a reader of a keyspace sees at one moment: its memtables and its version.

use crate::band::Band;
use crate::key::{Kind, Seq, Trailer};
use crate::memtable::Memtable;
use crate::store::space::{LONG_KEY_LEN_BYTES, LongKeys, MemoryUse};
use crate::version::Version;
use crate::version::edit::LogId;
use crate::wal::Wal;
use imbrex_record_log::Position;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

const NO_LOG: u64 = u64::MAX;

/// A memtable, and the logs that hold its writes.
#[derive(Debug)]
pub(crate) struct MemSlot {
    pub(crate) mem: Arc<Memtable>,
    /// The oldest log with a write of it.
    first_log: AtomicU64,
    /// The first log without its writes, where the keyspace's next memtable begins.
    end_log: AtomicU64,
    /// The length of its long keys together, and that of the longest.
    long_keys_len_bytes: AtomicU64,
    longest_key_len_bytes: AtomicU64,
    /// Where its values are in its log, if the log is to become a table.
    band: OnceLock<Arc<Band>>,
}

impl MemSlot {
    pub(crate) fn new() -> Arc<MemSlot> {
        Arc::new(MemSlot {
            mem: Arc::new(Memtable::new(0)),
            first_log: AtomicU64::new(NO_LOG),
            end_log: AtomicU64::new(NO_LOG),
            long_keys_len_bytes: AtomicU64::new(0),
            longest_key_len_bytes: AtomicU64::new(0),
            band: OnceLock::new(),
        })
    }

    /// The log, if it can become a table.
    pub(crate) fn band(&self) -> Option<&Arc<Band>> {
        self.band.get().filter(|band| band.is_sound())
    }

    /// Records where in `log` the value of a write begins.
    pub(crate) fn note_place(&self, log: LogId, wal: &Arc<Wal>, seq: Seq, place: Position) {
        let band = self.band.get_or_init(|| Arc::new(Band::new(log, Arc::clone(wal))));
        band.note(log, seq, place);
    }

    /// The oldest log with a write of this memtable; `None` if it is empty.
    pub(crate) fn first_log(&self) -> Option<LogId> {
        let id = self.first_log.load(Ordering::Acquire);
        (id != NO_LOG).then_some(LogId(id))
    }

    /// Records that a write to `log` goes to this memtable. Called before the write becomes
    /// visible.
    #[inline]
    pub(crate) fn note_log(&self, log: LogId) {
        if self.first_log.load(Ordering::Relaxed) == NO_LOG {
            self.first_log.store(log.0, Ordering::Release);
        }
    }

    /// Counts keys that make the catalog's record of a table longer.
    #[cold]
    fn note_long_keys(&self, kind: Kind, key: &[u8], value: &[u8]) {
        let keys = LongKeys::of(kind, key, value);
        self.long_keys_len_bytes.fetch_add(keys.len_bytes, Ordering::Relaxed);
        self.longest_key_len_bytes.fetch_max(keys.longest_len_bytes, Ordering::Relaxed);
    }

    /// What the memtable asks of the drive and its catalog.
    pub(crate) fn memory_use(&self) -> MemoryUse {
        let long_keys = LongKeys {
            len_bytes: self.long_keys_len_bytes.load(Ordering::Relaxed),
            longest_len_bytes: self.longest_key_len_bytes.load(Ordering::Relaxed),
        };
        MemoryUse { len_bytes: self.mem.len_bytes() as u64, long_keys }
    }

    /// Ends the memtable; `next` is the first log without its writes.
    pub(crate) fn freeze(&self, next: LogId) {
        self.end_log.store(next.0, Ordering::Release);
        self.mem.freeze();
    }

    /// Where the keyspace's logs begin once this memtable is in a table.
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
            Kind::PutAt | Kind::PutApart => {
                unreachable!("only tables say where a value lies")
            }
        }
    }
}

/// Everything that a reader needs, at one moment (Y1).
#[derive(Clone, Debug)]
pub(crate) struct SuperVersion {
    pub(crate) active: Arc<MemSlot>,
    /// Newest first.
    pub(crate) immutables: Vec<Arc<MemSlot>>,
    pub(crate) version: Arc<Version>,
}

//! A keyspace inside the store: its memtables and its version, replaced as a whole.
//!
//! ```text
//!   SuperVersion { active, immutables (newest first), version }     one load returns all of it
//!        ^ replaced: a rotation moves active to immutables, a commit moves immutables to the version
//! ```
//!
//! Invariants
//!   Y1  A super version holds everything that was written to the keyspace before it was installed,
//!       newest source first.
//!   Y2  A reader loads the super version first and the visible sequence number second. Writes at
//!       or below that number that the super version lacks are newer than all its writes.

use crate::EngineError;
use crate::batch::KeyspaceId;
use crate::compaction::policy::policy;
use crate::compaction::situation::Pressure;
use crate::options::{CompactionKind, KeyspaceOptions, Options};
use crate::store::gate;
use crate::store::limits::Limits;
use crate::store::missed::Missed;
use crate::store::view::{MemSlot, SuperVersion};
use crate::version::Version;
use crate::version::edit::LogId;
use crate::version::state::KeyspaceEntry;
use arc_swap::{ArcSwap, Guard};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A keyspace of an open store.
#[derive(Debug)]
pub(crate) struct KeyspaceState {
    pub(crate) id: KeyspaceId,
    pub(crate) name: String,
    /// The options that it was created with.
    pub(crate) options: KeyspaceOptions,
    /// The same, with tables that the drive has room for.
    pub(crate) fitted: KeyspaceOptions,
    view: ArcSwap<SuperVersion>,
    /// Held while the view is replaced.
    swap: Mutex<()>,
    pub(crate) is_dropped: AtomicBool,
    pub(crate) missed: Missed,
}

impl KeyspaceState {
    pub(crate) fn new(entry: &KeyspaceEntry, limits: &Limits) -> KeyspaceState {
        let view = SuperVersion {
            active: MemSlot::new(),
            immutables: Vec::new(),
            version: Arc::clone(&entry.version),
        };
        KeyspaceState {
            id: entry.record.id,
            name: entry.record.name.clone(),
            options: entry.record.options.clone(),
            fitted: limits.fit(&entry.record.options),
            view: ArcSwap::from_pointee(view),
            swap: Mutex::default(),
            is_dropped: AtomicBool::new(false),
            missed: Missed::default(),
        }
    }

    /// The current super version.
    #[inline]
    pub(crate) fn view(&self) -> Guard<Arc<SuperVersion>> {
        self.view.load()
    }

    /// Like [`KeyspaceState::view`], for callers that keep it.
    pub(crate) fn view_arc(&self) -> Arc<SuperVersion> {
        self.view.load_full()
    }

    fn update(&self, change: impl FnOnce(&SuperVersion) -> SuperVersion) {
        let _guard = self.swap.lock();
        let view = change(&self.view.load());
        self.view.store(Arc::new(view));
    }

    /// Freezes the active memtable, if it holds anything, and begins a new one. `next` is the first
    /// log of the new one. The caller holds the writer.
    pub(crate) fn rotate(&self, next: LogId) {
        self.update(|view| {
            // A drop of the keyspace does not hold the writer, and no flush runs for a dropped
            // keyspace.
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

    /// Installs `version`, and removes the memtables whose content it now has.
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

    /// Releases all data of a dropped keyspace.
    pub(crate) fn drop_data(&self) {
        self.is_dropped.store(true, Ordering::Release);
        self.update(|_| SuperVersion {
            active: MemSlot::new(),
            immutables: Vec::new(),
            version: Arc::default(),
        });
    }

    /// # Errors
    /// [`EngineError::NoKeyspace`] if the keyspace was dropped.
    #[inline]
    pub(crate) fn check_exists(&self) -> Result<(), EngineError> {
        if self.is_dropped.load(Ordering::Relaxed) {
            return Err(EngineError::NoKeyspace { name: self.name.clone() });
        }
        Ok(())
    }

    /// How its writers stall, as bits of [`gate`], while `slack_bytes` more may be written. If they
    /// slow down: how many bytes compaction should process for each byte written.
    pub(crate) fn pressure(
        &self,
        options: &Options,
        limits: &Limits,
        slack_bytes: u64,
    ) -> (usize, u64) {
        let view = self.view();
        let is_full = view.active.mem.len_bytes() as u64 >= limits.memtable_len_bytes;
        let (mut bits, mut ratio) = (0, 0);
        if is_full && view.immutables.len() >= options.immutable_memtable_count_max {
            bits |= gate::STOP;
        }
        match policy(self.fitted.compaction).pressure(&view.version, &self.fitted, slack_bytes) {
            Pressure::None => {}
            Pressure::Slowdown { bytes_per_byte } => {
                bits |= gate::SLOWDOWN;
                ratio = bytes_per_byte;
            }
            Pressure::Stop => bits |= gate::STOP,
        }
        (bits, ratio)
    }

    /// Whether its compactions, its cleanings or its stalls depend on how much more may be written.
    pub(crate) fn minds_slack(&self) -> bool {
        self.fitted.compaction == CompactionKind::Lazy || self.fitted.values_apart_from_bytes > 0
    }

    /// Whether writers stall until compaction has caught up, apart from the space that they wait for.
    pub(crate) fn is_stalled_by_compaction(&self) -> bool {
        let policy = policy(self.fitted.compaction);
        policy.pressure(&self.view().version, &self.fitted, u64::MAX) != Pressure::None
    }
}

#[cfg(test)]
mod tests {
    use crate::batch::KeyspaceId;
    use crate::key::{Kind, Seq};
    use crate::options::{KeyspaceOptions, Options};
    use crate::store::keyspace::KeyspaceState;
    use crate::store::limits::Limits;
    use crate::version::edit::{KeyspaceRecord, LogId};
    use crate::version::state::KeyspaceEntry;
    use imbrex_files::SpaceUse;
    use std::sync::Arc;

    /// A log that ended while a keyspace was dropped left a memtable that no flush wrote, and a
    /// flush of all keyspaces waited for it forever.
    #[test]
    fn what_is_dropped_leaves_nothing_to_flush() {
        let record = KeyspaceRecord {
            id: KeyspaceId(1),
            name: "k".to_owned(),
            options: KeyspaceOptions::default(),
        };
        let (log_floor, version) = (LogId(0), Arc::default());
        let space = SpaceUse { capacity_bytes: 1 << 30, ..SpaceUse::default() };
        let limits = Limits::new(&Options::default(), &space);
        let keyspace = KeyspaceState::new(&KeyspaceEntry { record, log_floor, version }, &limits);
        keyspace.view().active.insert(Kind::Put, b"key", Seq(1), b"value");
        keyspace.drop_data();
        keyspace.rotate(LogId(2));
        assert!(keyspace.view().immutables.is_empty());
    }
}

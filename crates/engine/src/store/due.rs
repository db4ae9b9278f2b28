//! Which flushes and compactions are due, and for which of them the drive has room. The answers
//! hold only for the moment: the jobs ask, and mark the work that they begin.

use super::{Store, gate};
use crate::compaction::busy::KeyspacePlans;
use crate::compaction::plan::{Plan, Work};
use crate::compaction::policy::{policy, set_pieces};
use crate::compaction::situation::{Room, Situation};
use crate::options::CompactionKind;
use crate::store::keyspace::KeyspaceState;
use crate::store::tables::OpenTables;
use crate::version::Version;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Whether no background work runs, and none is due that the drive has room for.
pub(crate) fn is_at_rest(store: &Store) -> bool {
    let is_due = || {
        (has_flush_due(store) && store.may_try_to_write())
            || has_compaction_due(store)
            || has_cleaning_due(store)
    };
    store.plans.lock().is_idle() && !is_due()
}

/// Whether files with values are to be cleaned.
fn has_cleaning_due(store: &Store) -> bool {
    let plans = store.plans.lock();
    store.gate() & gate::ENDS == 0 && store.due_cleaning(&plans).is_some()
}

/// Whether a memtable waits for its flush.
pub(crate) fn has_flush_due(store: &Store) -> bool {
    store.all_keyspaces().iter().any(|keyspace| !keyspace.view().immutables.is_empty())
}

/// The keyspaces in which compactions may begin, without those that are being dropped. The caller
/// holds `plans`.
pub(crate) fn compacted_keyspaces(store: &Store) -> impl Iterator<Item = Arc<KeyspaceState>> {
    let all = store.all_keyspaces().into_iter();
    all.filter(|keyspace| !keyspace.is_dropped.load(Ordering::Acquire))
}

/// The compaction that is due within `room` on the drive and may be tried.
pub(crate) fn plan(
    store: &Store,
    keyspace: &KeyspaceState,
    state: &KeyspacePlans,
    room: Room,
) -> Option<Plan> {
    // A move needs no room on the drive, but some in the catalog. It is not retried while the last
    // one has failed for want of catalog space.
    let plan = due(store, keyspace, state, room);
    plan.filter(|plan| plan.work != Work::Move || store.may_try_to_write())
}

/// The compaction that is due within `room` on the drive.
pub(crate) fn due(
    store: &Store,
    keyspace: &KeyspaceState,
    state: &KeyspacePlans,
    room: Room,
) -> Option<Plan> {
    // Loaded under the lock: a finished plan has installed its version (P2).
    let view = keyspace.view_arc();
    let present = present(store, keyspace, &view.version, state, room);
    policy(keyspace.fitted.compaction).plan(&present)
}

/// The inputs of a policy as they are.
pub(crate) fn present<'a>(
    store: &'a Store,
    keyspace: &'a KeyspaceState,
    version: &'a Version,
    state: &'a KeyspacePlans,
    room: Room,
) -> Situation<'a> {
    Situation {
        is_space_short: is_space_short(store),
        is_eager: store.compacting.is_eager(),
        missed: keyspace.missed.table(),
        ..situation(store, keyspace, version, state, room)
    }
}

/// Whether the drive or the catalog has so little room that merges should give some back.
fn is_space_short(store: &Store) -> bool {
    store.gate() & gate::PUTS_REFUSED != 0 || store.files.space().catalog.is_crowded()
}

/// The inputs of a policy, with space that is not short and without eager compaction.
pub(crate) fn situation<'a>(
    store: &'a Store,
    keyspace: &'a KeyspaceState,
    version: &'a Version,
    state: &'a KeyspacePlans,
    room: Room,
) -> Situation<'a> {
    Situation {
        version,
        options: &keyspace.fitted,
        busy: &state.busy,
        cursors: &state.cursors,
        windows: &state.windows,
        facts: store,
        missed: None,
        is_space_short: false,
        is_eager: false,
        room,
        slack_bytes: store.slack_bytes(),
        flash_excess_bytes: store.flash_excess_bytes(),
    }
}

/// Whether a compaction is due that the drive has room for.
pub(crate) fn has_compaction_due(store: &Store) -> bool {
    let mut plans = store.plans.lock();
    if store.gate() & gate::ENDS != 0 {
        return false;
    }
    let room = store.room();
    compacted_keyspaces(store).any(|keyspace| {
        let state = plans.keyspaces.entry(keyspace.id).or_default();
        plan(store, &keyspace, state, room).is_some()
    })
}

/// The compaction that is due next, regardless of the drive's room, in words.
pub(crate) fn next_words(store: &Store) -> Option<String> {
    let mut plans = store.plans.lock();
    let room = boundless_room(store);
    let facts = OpenTables(store);
    compacted_keyspaces(store).find_map(|keyspace| {
        let state = plans.keyspaces.entry(keyspace.id).or_default();
        let view = keyspace.view_arc();
        let present = present(store, &keyspace, &view.version, state, room);
        let present = Situation { facts: &facts, ..present };
        policy(keyspace.fitted.compaction).plan(&present).map(|plan| plan.to_string())
    })
}

/// How many bytes the due compaction would write, regardless of the drive's room; with sets, the
/// shortest piece of it.
pub(crate) fn due_compaction_cost_bytes(store: &Store) -> Option<u64> {
    let mut plans = store.plans.lock();
    let room = boundless_room(store);
    compacted_keyspaces(store).find_map(|keyspace| {
        let state = plans.keyspaces.entry(keyspace.id).or_default();
        let plan = plan(store, &keyspace, state, room)?;
        let is_in_pieces = keyspace.fitted.compaction == CompactionKind::SetAware;
        let table_len_bytes = keyspace.fitted.table_len_bytes;
        Some(match is_in_pieces && room.grain_bytes == 0 {
            true => set_pieces::least_len_bytes(&plan),
            false => plan.cost_bytes(room.grain_bytes, table_len_bytes),
        })
    })
}

pub(crate) fn boundless_room(store: &Store) -> Room {
    Room::unbounded(store.files.space().grain_bytes)
}

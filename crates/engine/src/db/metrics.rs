//! Collecting the metrics of a store, and its properties by name.

use crate::EngineError;
use crate::compaction::policy::lazy::wait::wait_of;
use crate::metrics::{
    KeyspaceMetrics, LevelMetrics, MergeWait, Metrics, PartitionMetrics, RunningCompaction,
};
use crate::store::keyspace::KeyspaceState;
use crate::store::{Store, due};
use crate::version::Version;
use crate::version::shape::{base_merge, partition_shapes};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Collects all metrics. Cost: a walk over all tables.
pub(crate) fn metrics(store: &Store) -> Metrics {
    let mut metrics = Metrics::default();
    // No count of a write is half there: writes count while they hold the writer.
    let writer = store.writer.lock();
    metrics.user_bytes = store.tally.user_bytes.load(Ordering::Relaxed);
    metrics.user_op_count = store.tally.user_op_count.load(Ordering::Relaxed);
    metrics.log_bytes = writer.log_bytes();
    metrics.offloaded_bytes = store.tally.offloaded_bytes.load(Ordering::Relaxed);
    drop(writer);
    metrics.flush_count = store.tally.flush_count.load(Ordering::Relaxed);
    metrics.flush_out_bytes = store.tally.flush_out_bytes.load(Ordering::Relaxed);
    metrics.compaction_read_failure_count = store.tally.read_failure_count.load(Ordering::Relaxed);
    metrics.tables_set_aside = store.plans.lock().set_aside_reasons().cloned().collect();
    metrics.flush_total_ns = store.tally.flush_ns.load(Ordering::Relaxed);
    {
        let log = store.tally.compactions.lock();
        metrics.compaction_count = log.count;
        metrics.move_count = log.move_count;
        metrics.compaction_in_bytes = log.in_len_bytes;
        metrics.compaction_out_bytes = log.out_len_bytes;
        metrics.compactions = log.lines.iter().cloned().collect();
        metrics.failed_compactions = log.failures.iter().cloned().collect();
    }
    metrics.running = running(store);
    metrics.slack_bytes = store.slack_bytes();
    let written = metrics.flush_out_bytes + metrics.compaction_out_bytes;
    if metrics.user_bytes > 0 {
        metrics.write_amp_ratio = written as f64 / metrics.user_bytes as f64;
    }
    metrics.stall_stop = store.tally.stall_stop.metrics();
    metrics.stall_slowdown = store.tally.stall_slowdown.metrics();
    metrics.stall_offload = store.tally.stall_offload.metrics();
    metrics.stalls = store.tally.waits();
    let cache = store.cache.metrics();
    metrics.cache_hit_count = cache.hit_count;
    metrics.cache_miss_count = cache.miss_count;
    metrics.cache_len_bytes = cache.used_bytes;
    metrics.snapshot_count = store.snapshots.count();
    metrics.values_moved_bytes = store.tally.values_moved_bytes.load(Ordering::Relaxed);
    metrics.last_seq = store.visible().0;
    for keyspace in store.all_keyspaces() {
        let view = keyspace.view_arc();
        for table in view.version.tables().filter_map(|slot| slot.opened()) {
            metrics.open_table_count += 1;
            metrics.table_memory_len_bytes += table.memory_len_bytes() as u64;
        }
        let slots = view.immutables.iter().chain([&view.active]);
        let memtable_len_bytes = slots.map(|slot| slot.mem.len_bytes() as u64).sum();
        metrics.memtable_len_bytes += memtable_len_bytes;
        let logged = view.version.levels[0].tables().filter(|slot| slot.meta.is_logged);
        let unsorted_len_bytes = logged.map(|slot| slot.meta.len_bytes).sum();
        let levels = view.version.levels.iter().enumerate();
        metrics.keyspaces.push(KeyspaceMetrics {
            name: keyspace.name.clone(),
            memtable_len_bytes,
            immutable_memtable_count: view.immutables.len(),
            levels: levels
                .filter(|(_, level)| !level.runs.is_empty())
                .map(|(number, level)| LevelMetrics {
                    level: number as u8,
                    run_count: level.runs.len(),
                    table_count: level.table_count(),
                    len_bytes: level.len_bytes(),
                    entry_count: level.tables().map(|slot| slot.meta.entry_count).sum(),
                })
                .collect(),
            unsorted_len_bytes,
            values_apart: view.version.values_apart(),
            partitions: keyspace.minds_slack().then(|| partitions(store, &keyspace, &view.version)),
        });
    }
    metrics
}

/// The property called `name`, as text; `None` if there is no such property.
pub(crate) fn property(store: &Store, name: &str) -> Option<String> {
    let metrics = metrics(store);
    Some(match name {
        "levels" => {
            let keyspaces = store.all_keyspaces();
            let pictures =
                keyspaces.iter().map(|k| format!("keyspace {}\n{}", k.name, k.view().version));
            pictures.collect()
        }
        "stats" => metrics.to_string(),
        "last-sequence" => metrics.last_seq.to_string(),
        "memtable-bytes" => metrics.memtable_len_bytes.to_string(),
        "block-cache-bytes" => metrics.cache_len_bytes.to_string(),
        "write-amplification" => format!("{:.3}", metrics.write_amp_ratio),
        "snapshots" => metrics.snapshot_count.to_string(),
        "background-error" => match store.check_not_refused() {
            Err(EngineError::Poisoned { reason }) => reason,
            _ => "none".to_owned(),
        },
        _ => return None,
    })
}

/// The partitions of a keyspace with lazy leveling.
fn partitions(store: &Store, keyspace: &KeyspaceState, version: &Version) -> PartitionMetrics {
    let mut base_merge = base_merge(version);
    if let Some(merge) = &mut base_merge {
        merge.wait = wait(store, keyspace, version);
    }
    PartitionMetrics { shapes: partition_shapes(version), base_merge }
}

/// What the base merge of `version` waits for.
fn wait(store: &Store, keyspace: &KeyspaceState, version: &Version) -> Option<MergeWait> {
    let mut plans = store.plans.lock();
    let state = plans.keyspaces.entry(keyspace.id).or_default();
    let room = store.room();
    let merge = version.partitions.merge.as_ref()?;
    Some(wait_of(&due::present(store, keyspace, version, state, room), merge))
}

/// The compactions that run now.
fn running(store: &Store) -> Vec<RunningCompaction> {
    let plans = store.plans.lock();
    let keyspaces = store.all_keyspaces().into_iter();
    let of = |keyspace: Arc<KeyspaceState>| {
        let state = plans.keyspaces.get(&keyspace.id);
        let plans = state.into_iter().flat_map(|state| state.busy.running());
        let described = plans.map(|plan| RunningCompaction {
            keyspace: keyspace.name.clone(),
            plan: plan.words.clone(),
            len_bytes: plan.len_bytes,
            done_len_bytes: plan.done_len_bytes,
        });
        described.collect::<Vec<_>>()
    };
    keyspaces.flat_map(of).collect()
}

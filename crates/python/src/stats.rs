//! What `Store.stats()` reports, as JSON: Python reads it into dicts.

use imbrex::Store;
use imbrex_files::Files;
use serde_json::json;

/// Space, the engine's metrics, and the drive's counters.
pub(crate) fn stats(store: &Store) -> String {
    let stack = store.stack();
    let (space, drive) = (stack.files.space(), stack.disk.counters());
    let stats = json!({
        "layout": store.layout().name(),
        "space": {
            "capacity_bytes": space.capacity_bytes,
            "live_bytes": space.live_bytes,
            "dead_bytes": space.dead_bytes,
            "free_bytes": space.free_bytes,
            "ordinary_bytes": space.ordinary_bytes,
        },
        "drive": {
            "reads": drive.reads,
            "writes": drive.writes,
            "flushes": drive.flushes,
            "seeks": drive.seeks,
            "zone_resets": drive.zone_resets,
            "read_bytes": drive.read_bytes,
            "written_bytes": drive.written_bytes,
            "added_read_bytes": drive.added_read_bytes,
            "added_written_bytes": drive.added_written_bytes,
            "busy_ns": drive.busy_ns,
            "seek_ns": drive.seek_ns,
            "turn_ns": drive.turn_ns,
            "transfer_ns": drive.transfer_ns,
        },
        "engine": store.metrics(),
    });
    stats.to_string()
}

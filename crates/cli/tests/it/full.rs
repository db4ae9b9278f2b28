//! Full drives: what a store refuses, and how it comes back.

use crate::{Drive, imbrex, imbrex_with};
use imbrex_clockwork::Prng;

/// Incompressible records in random order, more than the drive takes.
fn too_many_lines(count: usize) -> String {
    let mut prng = Prng::new(43);
    let mut line = |_| {
        let key = prng.below(1_000_000);
        let value: String = (0..250).map(|_| format!("{:016x}", prng.next_u64())).collect();
        format!("{{\"key\": \"{key:06}\", \"value\": \"{value}\"}}\n")
    };
    (0..count).map(&mut line).collect()
}

/// Guards between tables that lie alone take as much of such a drive as tables do. They were what no cleaning
/// gave back: a store that had refused a put stayed full, even when all was deleted.
#[test]
fn a_full_store_on_raw_tracks_takes_puts_again_once_data_are_deleted() {
    let drive = Drive::new();
    let path = drive.beside("raw.imbrex");
    let at = path.to_str().unwrap();
    imbrex(&["drive", "create", at, "--layout", "sealdb", "--capacity", "200MiB", "--no-timing"])
        .ok();
    let lines = too_many_lines(40_000);
    for (from, to) in [("000000", "500000"), ("0", "zzz")] {
        let refused = imbrex_with(lines.as_bytes(), &["load", at, "-"]);
        refused.fails(4, &["no space on the drive", "live", "delete data and compact"]);
        let live = |stats: &serde_json::Value| stats["space"]["live"].as_u64().unwrap();
        let full = imbrex(&["stats", at, "--format", "json"]).json();
        assert!(live(&full) > (200 << 20) * 6 / 10, "{full}");
        imbrex(&["delete", at, "--from", from, "--to", to]).ok();
        imbrex(&["compact", at]).ok();
        let left = imbrex(&["stats", at, "--format", "json"]).json();
        assert!(live(&left) * 10 < live(&full) * 6, "{left}");
        imbrex(&["put", at, "new", "value"]).ok();
        imbrex(&["check", at]).ok();
    }
}

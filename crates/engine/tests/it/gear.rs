//! Gear compaction on zones of one level each: zones empty themselves.

use crate::stage::{Stage, small, with_zones};
use imbrex::{CompactionKind, Compression, Db, KeyspaceOptions, Options, VictimOrder};
use imbrex_clockwork::{Order, Prng};
use imbrex_files::{FileLayer, ZoneUseKind};
use std::sync::Arc;

/// LevelDB's shape, 256 times smaller: tables of 16 KiB, 64 of them a zone of 1 MiB.
fn options(compaction: CompactionKind) -> Options {
    let keyspace = KeyspaceOptions {
        compaction,
        table_len_bytes: 16 << 10,
        block_len_bytes: 1024,
        compression: Compression::None,
        base_level_len_bytes: 40 << 10,
        level_factor: 10,
        l0_compact_run_count: 4,
        l0_slowdown_run_count: 8,
        l0_stop_run_count: 12,
        victim_order: VictimOrder::RoundRobin,
        ..KeyspaceOptions::default()
    };
    Options { memtable_len_bytes: 16 << 10, keyspace, ..small() }
}

struct Loaded {
    stage: Stage,
    files: Arc<FileLayer>,
    db: Db,
}

fn load(compaction: CompactionKind, placement: &str, zone_count: u64, len_bytes: u64) -> Loaded {
    let stage = with_zones(zone_count, 256, Order::Seeded(Prng::new(7).derive("order")));
    let files = stage.format_with(placement);
    let db = Db::open(Arc::clone(&files) as _, stage.runtime.clone(), options(compaction)).unwrap();
    let mut prng = Prng::new(7).derive("load");
    let mut value = vec![0; 500];
    let keyspace = db.default_keyspace();
    let count = len_bytes / 516;
    for _ in 0..count {
        prng.fill(&mut value);
        let key = format!("{:016}", prng.below(count));
        keyspace.put(key, &value).unwrap();
    }
    db.wait_idle().unwrap();
    Loaded { stage, files, db }
}

#[test]
fn experiment() {
    let mb: u64 = std::env::var("MB").map_or(16, |s| s.parse().unwrap());
    let zones: u64 = std::env::var("ZONES").map_or(64, |s| s.parse().unwrap());
    for (kind, placement) in [
        (CompactionKind::Gear, "zone-per-level"),
        (CompactionKind::Leveled, "zone-per-level"),
        (CompactionKind::Leveled, "log-structured"),
    ] {
        let loaded = load(kind, placement, zones, mb << 20);
        let stats = loaded.files.stats();
        let metrics = loaded.db.metrics();
        let map = loaded.files.zone_map();
        let (mut live, mut dead, mut hist) = (0, 0, [0; 11]);
        for zone in map.iter().filter(|z| z.kind == ZoneUseKind::Files) {
            let used = zone.live_bytes + zone.dead_bytes;
            if used > 0 && zone.log_bytes == 0 {
                live += zone.live_bytes;
                dead += zone.dead_bytes;
                hist[(zone.live_bytes * 10 / used) as usize] += 1;
            }
        }
        println!(
            "{kind:?} {placement}: wa {:.2} cleaned {} moved {} live {} dead {} util {:.3} {hist:?}",
            metrics.write_amp_ratio,
            stats.cleaned_zones,
            stats.cleaning_moved_bytes,
            live >> 10,
            dead >> 10,
            live as f64 / (live + dead) as f64
        );
        println!("{metrics}");
        let mut small = [0; 5];
        for line in loaded.db.property("levels").unwrap().lines() {
            let _ = line;
        }
        for line in &metrics.compactions {
            for o in &line.outputs {
                small[(o.len_bytes * 4 / (16 << 10)).min(4) as usize] += 1;
            }
        }
        println!("table lens by quarter {small:?}; sizes of the last turns:");
        for line in
            metrics.compactions.iter().rev().filter(|l| l.level > 0 && l.in_len_bytes > 0).take(6)
        {
            let by: Vec<_> = (0..7).map(|l| line.out_len_bytes_of(l) >> 10).collect();
            println!(
                "   L{} in {} tables {} KB out {:?}",
                line.level,
                line.input_table_count,
                line.in_len_bytes >> 10,
                by
            );
        }
        let _ = &loaded.stage;
    }
}

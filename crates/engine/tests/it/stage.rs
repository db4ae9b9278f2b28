//! A drive, a file layer on it, a virtual world that runs both, and small options.

use imbrex_clockwork::{Order, Prng, Runtime, VirtualWorld};
use imbrex_disk::{Blocks, Disk, Geometry, GeometrySpec, Rule, ZoneSpec};
use imbrex_disk_sim::SimDisk;
use imbrex_engine::{CompactionKind, Compression, Db, EngineError, KeyspaceOptions, Options};
use imbrex_files::{FileLayer, Files, FormatOptions, PlacementKind};
use std::sync::Arc;

pub(crate) struct Stage {
    pub(crate) disk: Arc<SimDisk>,
    pub(crate) world: Arc<VirtualWorld>,
    pub(crate) runtime: Runtime,
}

/// Zones of 1 MiB behind a volatile cache of 2 MiB.
pub(crate) fn zoned(zone_count: u64, order: Order) -> Stage {
    with_zones(zone_count, 256, order)
}

/// Zones of any length behind a volatile cache of 2 MiB.
pub(crate) fn with_zones(zone_count: u64, zone_len_blocks: u64, order: Order) -> Stage {
    let zones = ZoneSpec {
        zone_len: Blocks::new(zone_len_blocks),
        zone_capacity: Blocks::new(zone_len_blocks),
        conventional_zone_count: 2,
        open_zone_limit: Some(14),
        active_zone_limit: Some(14),
        strict_reads: true,
    };
    let rule = Rule::AtPointer(zones);
    let len = Blocks::new(zone_count * zone_len_blocks);
    let geometry = Geometry::new(GeometrySpec { len, rule }).unwrap();
    let builder = SimDisk::builder(geometry).write_cache(Blocks::new(512)).breaking_sectors();
    let disk = builder.memory().unwrap();
    let (runtime, world) = Runtime::virtual_time(order);
    Stage { disk: Arc::new(disk), world, runtime }
}

pub(crate) fn seeded(zone_count: u64, seed: u64) -> Stage {
    zoned(zone_count, Order::Seeded(Prng::new(seed).derive("order")))
}

impl Stage {
    pub(crate) fn format(&self) -> Arc<dyn Files> {
        self.format_with("log-structured")
    }

    pub(crate) fn format_with(&self, placement: &str) -> Arc<FileLayer> {
        let placement = PlacementKind::by_name(placement).unwrap();
        let disk = Arc::clone(&self.disk) as Arc<dyn Disk>;
        let layer = FileLayer::format(disk, &FormatOptions::new(placement), &self.runtime).unwrap();
        self.runtime.scheduler.spawn(layer.clean_job());
        Arc::new(layer)
    }

    /// Opens the drive again. The layer that had it before does nothing more: its cleaning would
    /// reset zones that the new layer has filled meanwhile.
    pub(crate) fn mount(&self) -> Arc<dyn Files> {
        self.world.drop_jobs();
        let disk = Arc::clone(&self.disk) as Arc<dyn Disk>;
        let layer = FileLayer::open(disk, &self.runtime).unwrap();
        self.runtime.scheduler.spawn(layer.clean_job());
        Arc::new(layer)
    }

    pub(crate) fn create(&self, options: Options) -> Db {
        Db::open(self.format(), self.runtime.clone(), options).unwrap()
    }

    pub(crate) fn reopen(&self, options: Options) -> Result<Db, EngineError> {
        Db::open(self.mount(), self.runtime.clone(), options)
    }

    /// Kills the process: jobs stop where they are, and a part of what was not flushed is lost.
    pub(crate) fn crash(&self, db: Db, prng: &mut Prng) {
        self.disk.cut_power();
        self.world.drop_jobs();
        drop(db);
        self.disk.power_cycle(prng).unwrap();
    }
}

/// Small limits everywhere, so that few writes make many levels.
pub(crate) fn small() -> Options {
    Options {
        memtable_len_bytes: 64 << 10,
        log_len_bytes_max: 256 << 10,
        log_frame_len_bytes: 8 << 10,
        block_cache_len_bytes: 1 << 20,
        compaction_read_len_bytes: 32 << 10,
        keyspace: small_keyspace(),
        ..Options::default()
    }
}

pub(crate) fn small_keyspace() -> KeyspaceOptions {
    KeyspaceOptions {
        table_len_bytes: 16 << 10,
        block_len_bytes: 1024,
        compression: Compression::Lz4,
        base_level_len_bytes: 64 << 10,
        level_factor: 4,
        l0_compact_run_count: 3,
        l0_slowdown_run_count: 6,
        l0_stop_run_count: 9,
        ..KeyspaceOptions::default()
    }
}

/// Gear compaction with levels so short that windows below the second one matter.
pub(crate) fn small_gear() -> Options {
    let keyspace = KeyspaceOptions {
        compaction: CompactionKind::Gear,
        table_len_bytes: 4 << 10,
        block_len_bytes: 512,
        compression: Compression::None,
        base_level_len_bytes: 12 << 10,
        level_factor: 3,
        flushes_pass_levels: true,
        ..small_keyspace()
    };
    Options { memtable_len_bytes: 12 << 10, keyspace, ..small() }
}

/// A key of the model. There are few enough keys that they are overwritten.
pub(crate) fn key(number: u64) -> Vec<u8> {
    format!("key{number:05}").into_bytes()
}

/// Puts `count` keys, keeps them as the checkpoint "monday", and overwrites them all.
pub(crate) fn overwrite_a_checkpoint(db: &Db, count: u64) {
    let ks = db.default_keyspace();
    for round in [1_u8, 2] {
        for n in 0..count {
            ks.put(key(n), [round; 500]).unwrap();
        }
        if round == 1 {
            db.checkpoint("monday").unwrap();
        }
    }
    db.wait_idle().unwrap();
    ks.compact_range(None, None).unwrap();
}

//! A drive with a file system on it.

use crate::{FileSystem, FsError, FsOptions};
use imbrex_clockwork::{Order, Prng, Runtime, VirtualWorld};
use imbrex_disk::{
    Blocks, Disk, Geometry, GeometrySpec, NeighbourSpec, Rule, ShingleSpec, ZoneSpec,
};
use imbrex_disk_sim::SimDisk;
use imbrex_files::{FileKind, FileLayer, FormatOptions, Hints, PlacementKind, PlacementOptions};
use std::sync::Arc;

/// A drive and its environment.
pub(crate) struct Stage {
    pub(crate) disk: Arc<SimDisk>,
    _world: Arc<VirtualWorld>,
    runtime: Runtime,
}

pub(crate) const NOW_S: u64 = 1_600_000_000;

pub(crate) fn zoned() -> Stage {
    let zone = ZoneSpec {
        zone_len: Blocks::new(64),
        zone_capacity: Blocks::new(64),
        conventional_zone_count: 1,
        open_zone_limit: None,
        active_zone_limit: None,
        strict_reads: true,
    };
    stage(64 * 24, Rule::AtPointer(zone), "zone-per-level")
}

/// A drive of short zones, each for one table.
pub(crate) fn bands(zone_count: u64) -> Stage {
    let zone = ZoneSpec {
        zone_len: Blocks::new(8),
        zone_capacity: Blocks::new(8),
        conventional_zone_count: 0,
        open_zone_limit: None,
        active_zone_limit: None,
        strict_reads: true,
    };
    stage(8 * zone_count, Rule::AtPointer(zone), "band-per-table")
}

pub(crate) fn conventional() -> Stage {
    stage(1536, Rule::Anywhere, "first-fit")
}

pub(crate) fn shingled() -> Stage {
    let spec = ShingleSpec { track_len: Blocks::new(8), overlap_tracks: 2 };
    stage(3000, Rule::IsolationDistance(spec), "dynamic-bands")
}

pub(crate) fn interlaced() -> Stage {
    let (bottom_track_len, top_track_len) = (Blocks::new(8), Blocks::new(6));
    let spec = NeighbourSpec { bottom_track_len, top_track_len };
    stage(2800, Rule::Neighbours(spec), "track-tiers")
}

pub(crate) fn large() -> Stage {
    stage(1 << 18, Rule::Anywhere, "first-fit")
}

fn stage(blocks: u64, rule: Rule, placement: &str) -> Stage {
    let geometry = Geometry::new(GeometrySpec { len: Blocks::new(blocks), rule }).unwrap();
    let builder = SimDisk::builder(geometry).write_cache(Blocks::new(512)).breaking_sectors();
    let disk = Arc::new(builder.refuse_destroying().memory().unwrap());
    let (runtime, world) = Runtime::virtual_time(Order::SmallestTime);
    let unit_len = Blocks::new(16);
    let options = FormatOptions {
        placement_options: PlacementOptions { unit_len, ..PlacementOptions::default() },
        ..FormatOptions::new(PlacementKind::by_name(placement).unwrap())
    };
    FileLayer::format(Arc::clone(&disk) as Arc<dyn Disk>, &options, &runtime).unwrap();
    Stage { disk, _world: world, runtime }
}

impl Stage {
    pub(crate) fn files(&self) -> FileLayer {
        FileLayer::open(Arc::clone(&self.disk) as Arc<dyn Disk>, &self.runtime).unwrap()
    }

    pub(crate) fn open(&self) -> Result<FileSystem, FsError> {
        FileSystem::open(Arc::new(self.files()), FsOptions { unix_time_s: || NOW_S })
    }

    pub(crate) fn power_cycle(&self, seed: u64) {
        self.disk.power_cycle(&mut Prng::new(seed)).unwrap();
    }

    /// Checks that nothing on the drive contradicts anything else.
    pub(crate) fn assert_sound(&self) {
        let report = self.files().check().unwrap();
        assert!(report.findings.is_empty(), "{:#?}", report.findings);
    }
}

pub(crate) fn log() -> Hints {
    Hints::new(FileKind::Log)
}

pub(crate) fn table(level: u8) -> Hints {
    Hints { level, ..Hints::new(FileKind::Table) }
}

pub(crate) fn metadata() -> Hints {
    Hints::new(FileKind::Metadata)
}

pub(crate) fn other() -> Hints {
    Hints::new(FileKind::Other)
}

/// Bytes that only a file of this tag holds at this offset.
pub(crate) fn content(tag: u64, len_bytes: usize) -> Vec<u8> {
    let mut bytes = vec![0; len_bytes];
    let base = Prng::new(11).derive(&tag.to_string());
    for (index, piece) in bytes.chunks_mut(256).enumerate() {
        base.derive(&index.to_string()).fill(piece);
    }
    bytes
}

pub(crate) fn read_all(fs: &FileSystem, path: &str) -> Result<Vec<u8>, FsError> {
    let reader = fs.open_read(path)?;
    let mut bytes = vec![0; reader.len_bytes() as usize];
    let got = reader.read_at(0, &mut bytes)?;
    assert_eq!(got, bytes.len(), "{path} is as long as it says");
    Ok(bytes)
}

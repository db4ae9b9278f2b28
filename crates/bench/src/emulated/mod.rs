//! The emulated drive of a run: in memory, under any rule, whole or restricted to its first part.

mod flash_catalog;
mod phases;
mod spec;

pub use spec::{BesideSpec, DriveRule, DriveSpec};

use crate::error::BenchError;
use flash_catalog::FlashCatalog;
use imbrex_clockwork::Runtime;
use imbrex_disk::{
    BlockRange, Blocks, Disk, DiskError, DiskLayer, Geometry, GeometrySpec, Lba, NeighbourSpec,
    Persist, ReadRequest, Rule, ShingleSpec, ZoneId, ZoneInfo, ZoneSpec,
};
use imbrex_disk_sim::{Profile, SimDisk};
use phases::PhasedTracks;
use std::sync::Arc;

/// Conventional zones at the start of a zoned drive: one for each copy of the catalog.
const CONVENTIONAL_ZONE_COUNT: u32 = 2;

/// Open zones of a host-managed drive, as real ones recommend.
const OPEN_ZONE_LIMIT: u32 = 128;

/// The length of a track of a shingled drive, about that of the modelled disk.
const TRACK_LEN_BYTES: u64 = 1 << 20;

/// An empty drive in memory, of which `unpacked_bytes` are kept uncompressed; see
/// [`SimDiskBuilder::unpacked_up_to`](imbrex_disk_sim::SimDiskBuilder::unpacked_up_to).
pub fn drive(
    spec: &DriveSpec,
    unpacked_bytes: u64,
    runtime: &Runtime,
) -> Result<Arc<dyn Disk>, BenchError> {
    drive_in_parts(spec, 1, unpacked_bytes, runtime)
}

/// Like [`drive`], with blocks of which `part_count` stand for one block of the profile. Lengths are of
/// these blocks.
pub(crate) fn drive_in_parts(
    spec: &DriveSpec,
    part_count: u64,
    unpacked_bytes: u64,
    runtime: &Runtime,
) -> Result<Arc<dyn Disk>, BenchError> {
    let failed = |source: Box<dyn std::error::Error + Send + Sync>| BenchError::Drive {
        drive: spec.profile.to_owned(),
        source,
    };
    let profile = Profile::by_name(spec.profile).map_err(|e| failed(e.into()))?;
    let mut profile = profile.with_blocks_in_parts(part_count);
    if spec.keeps_writes {
        profile = profile.keeping_what_it_writes();
    }
    let whole = geometry(spec.rule, spec.len_bytes).map_err(|e| failed(e.into()))?;
    let disk = SimDisk::builder(whole)
        .profile(profile)
        .clock(Arc::clone(&runtime.clock))
        .unpacked_up_to(unpacked_bytes)
        .memory()
        .map_err(|e| failed(e.into()))?;
    let mut drive: Arc<dyn Disk> = Arc::new(disk);
    if spec.part_bytes < spec.len_bytes {
        let geometry = geometry(spec.rule, spec.part_bytes).map_err(|e| failed(e.into()))?;
        drive = Arc::new(FirstPart { disk: drive, geometry });
    }
    if let DriveRule::Phased { track_len_bytes } = spec.rule {
        drive = Arc::new(PhasedTracks::new(drive, Blocks::holding(track_len_bytes)));
    }
    if spec.catalog_on_flash {
        drive = Arc::new(FlashCatalog::new(drive).map_err(|e| failed(e.into()))?);
    }
    Ok(drive)
}

/// The second drive of `spec`, empty and in memory; `None` if it has none.
pub fn beside(spec: &DriveSpec, runtime: &Runtime) -> Result<Option<Arc<dyn Disk>>, BenchError> {
    let Some(BesideSpec { profile, len_bytes }) = spec.beside else { return Ok(None) };
    let Some(profile) = profile else {
        let failed = |source: Box<dyn std::error::Error + Send + Sync>| BenchError::Drive {
            drive: "flash without modelled time".to_owned(),
            source,
        };
        let whole = geometry(DriveRule::Conventional, len_bytes).map_err(|e| failed(e.into()))?;
        let disk = SimDisk::builder(whole).memory().map_err(|e| failed(e.into()))?;
        return Ok(Some(Arc::new(disk)));
    };
    drive(&DriveSpec::whole(profile, DriveRule::Conventional, len_bytes), 0, runtime).map(Some)
}

/// The blocks of a drive of `len_bytes`, and the rule for them.
pub(crate) fn geometry(
    rule: DriveRule,
    len_bytes: u64,
) -> Result<Geometry, imbrex_disk::GeometryError> {
    let mut len = Blocks::holding(len_bytes);
    let rule = match rule {
        DriveRule::Conventional | DriveRule::Phased { .. } => Rule::Anywhere,
        DriveRule::Zoned { zone_len_bytes } => {
            let zone_len = Blocks::holding(zone_len_bytes);
            let zone_count = len.get().div_ceil(zone_len.get());
            len = Blocks::new((zone_count + u64::from(CONVENTIONAL_ZONE_COUNT)) * zone_len.get());
            Rule::AtPointer(ZoneSpec {
                zone_len,
                zone_capacity: zone_len,
                conventional_zone_count: CONVENTIONAL_ZONE_COUNT,
                open_zone_limit: Some(OPEN_ZONE_LIMIT),
                active_zone_limit: None,
                strict_reads: true,
            })
        }
        DriveRule::Shingled { isolation_len_bytes } => Rule::IsolationDistance(ShingleSpec {
            track_len: Blocks::holding(TRACK_LEN_BYTES),
            overlap_tracks: isolation_len_bytes.div_ceil(TRACK_LEN_BYTES) as u32,
        }),
        DriveRule::Interlaced { track_len_bytes } => {
            let track_len = Blocks::holding(track_len_bytes);
            Rule::Neighbours(NeighbourSpec {
                bottom_track_len: track_len,
                top_track_len: track_len,
            })
        }
    };
    Geometry::new(GeometrySpec { len, rule })
}

/// The first part of a drive. The rest is never used, but the arm's stroke includes it.
#[derive(Debug)]
struct FirstPart {
    disk: Arc<dyn Disk>,
    geometry: Geometry,
}

impl FirstPart {
    fn check(&self, at: Lba, len_bytes: usize) -> Result<(), DiskError> {
        self.geometry.check(BlockRange::new(at, Blocks::holding(len_bytes as u64)))
    }
}

impl DiskLayer for FirstPart {
    fn below(&self) -> &dyn Disk {
        &*self.disk
    }

    fn pass_geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn pass_read(&self, at: Lba, buf: &mut [u8]) -> Result<(), DiskError> {
        self.check(at, buf.len())?;
        self.disk.read(at, buf)
    }

    fn pass_read_batch(&self, requests: &mut [ReadRequest<'_>]) -> Result<(), DiskError> {
        requests.iter().try_for_each(|r| self.check(r.at, r.buf.len()))?;
        self.disk.read_batch(requests)
    }

    fn pass_write(&self, at: Lba, data: &[u8], persist: Persist) -> Result<(), DiskError> {
        self.check(at, data.len())?;
        self.disk.write(at, data, persist)
    }

    fn pass_discard(&self, range: BlockRange) -> Result<(), DiskError> {
        self.check(range.start, range.len.bytes() as usize)?;
        self.disk.discard(range)
    }

    fn pass_zone(&self, zone: ZoneId) -> Option<ZoneInfo> {
        if zone.0 < self.geometry.zone_count() { self.disk.zone(zone) } else { None }
    }
}

//! The emulated drive of the benchmarks of the block device.

use imbrex_clockwork::Runtime;
use imbrex_disk::{Blocks, Disk, Geometry, GeometrySpec, Rule, ZoneSpec};
use imbrex_disk_sim::{Profile, SimDisk};
use std::sync::Arc;

/// The length of a zone, in blocks: 256 MiB.
pub(crate) const ZONE_LEN: u64 = (256 << 20) / 4096;

/// An `hc620` in memory, cut to `zone_count` zones, of which the first are conventional.
pub(crate) fn drive(
    runtime: &Runtime,
    zone_count: u64,
    conventional_zone_count: u32,
) -> Arc<dyn Disk> {
    let rule = Rule::AtPointer(ZoneSpec {
        zone_len: Blocks::new(ZONE_LEN),
        zone_capacity: Blocks::new(ZONE_LEN),
        conventional_zone_count,
        open_zone_limit: Some(128),
        active_zone_limit: None,
        strict_reads: true,
    });
    let len = Blocks::new(zone_count * ZONE_LEN);
    let geometry = Geometry::new(GeometrySpec { len, rule }).unwrap();
    let disk = SimDisk::builder(geometry)
        .profile(Profile::by_name("hc620").unwrap())
        .clock(Arc::clone(&runtime.clock))
        .memory()
        .unwrap();
    Arc::new(disk)
}

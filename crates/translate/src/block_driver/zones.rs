//! The zones of the drive below: their parts in the layout, and whether the drive has given them
//! up.
//!
//! ```text
//!     | superblocks | journal | pool ................................. |
//! ```

use super::error::DriverError;
use super::format::Superblock;
use super::mapping::MapSpec;
use imbrex_disk::{
    BlockRange, Disk, DiskError, Geometry, ZoneAction, ZoneId, ZoneKind, ZoneSpec, ZoneState,
};

/// Zones for superblocks.
pub(super) const SUPERBLOCK_ZONE_COUNT: u32 = 2;

pub(super) fn zones_of(geometry: &Geometry) -> Result<&ZoneSpec, DriverError> {
    geometry.zones().ok_or(DriverError::WrongRule { got: geometry.rule().name() })
}

pub(super) fn spec(superblock: &Superblock) -> MapSpec {
    MapSpec {
        len: superblock.len,
        zone_len: superblock.zone_len,
        zone_count: superblock.zone_count,
    }
}

/// Whether the drive no longer lets a zone be written.
pub(super) fn is_given_up(disk: &dyn Disk, zone: ZoneId) -> bool {
    let found = disk.zone(zone).map(|info| info.state);
    matches!(found, Some(ZoneState::Offline | ZoneState::ReadOnly))
}

/// The journal's zones: the first sequential ones, whatever their state.
pub(super) fn journal_zones(disk: &dyn Disk, count: u32) -> Vec<(ZoneId, BlockRange)> {
    let zones = disk.report_zones().into_iter().skip(SUPERBLOCK_ZONE_COUNT as usize);
    let sequential = zones.filter(|info| info.kind == ZoneKind::SequentialRequired);
    let range =
        |info: imbrex_disk::ZoneInfo| (info.zone, BlockRange::new(info.start, info.capacity));
    sequential.map(range).take(count as usize).collect()
}

/// Finishes a zone. A zone that the drive has given up takes no writes anyway.
pub(super) fn finish_zone(disk: &dyn Disk, zone: ZoneId) -> Result<(), DiskError> {
    match disk.manage_zone(zone, ZoneAction::Finish) {
        Err(DiskError::ZoneNotWritable { .. } | DiskError::Offline { .. }) => Ok(()),
        outcome => outcome,
    }
}

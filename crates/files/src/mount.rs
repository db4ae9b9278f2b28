//! From a catalog to a space map: what every live file holds, and where zones go on.
//!
//! ```text
//!   zone report --> pointers --+
//!   namespace   --> extents ---+--> SpaceMap, FileBody of each file
//! ```
//!
//! A log that was open when the power went is ended here: in a sequential zone the write pointer
//! says where, elsewhere it keeps all that it owned. What disagrees is damage and named: an extent
//! past the disk, in the catalog's place, above a write pointer, or shared by two files.

use crate::api::{FileKind, FilesError};
use crate::catalog::{Edit, FileId, FileRecord, Misfit, Namespace, Region};
use crate::extent::Extent;
use crate::file::{FileBody, Placed};
use crate::placement::{FileRequest, Placement};
use crate::space::{Lane, Space, SpaceMap, ZoneRole, ZoneSpace};
use imbrex_disk::{BlockRange, Blocks, Disk, Lba, ZoneId, ZoneInfo, ZoneKind, ZoneState};
use std::collections::BTreeMap;
use std::sync::Arc;

type Bodies = BTreeMap<FileId, Arc<FileBody>>;

/// How many zones of the disk can hold files.
pub(crate) fn data_zone_count(disk: &dyn Disk, regions: &[Region; 2]) -> usize {
    let zones = disk.report_zones();
    zones.iter().filter(|info| zone_space(info, regions).role == ZoneRole::Data).count()
}

/// Builds the space map and the files of `namespace`; ends logs that were open.
///
/// # Errors
/// [`FilesError::Corrupt`].
pub(crate) fn mount(
    disk: &dyn Disk,
    regions: &[Region; 2],
    namespace: &mut Namespace,
    placement: &dyn Placement,
) -> Result<(Arc<Space>, Bodies), FilesError> {
    let mut zones: Vec<ZoneSpace> =
        disk.report_zones().iter().map(|info| zone_space(info, regions)).collect();
    end_logs(disk, &zones, namespace)?;
    let held = check_extents(disk, regions, &zones, namespace)?;
    let map = if zones.is_empty() {
        let end = regions.iter().flat_map(|r| r.pieces()).map(|p| p.end()).max();
        let start = end.unwrap_or_default();
        let len = Blocks::new(disk.geometry().len().get() - start.get());
        let mut map = SpaceMap::without_zones(BlockRange::new(start, len));
        held.iter().for_each(|&(range, id)| map.take(range, Lane::Fresh(0), id.0));
        map
    } else {
        hold_zones(disk, &mut zones, &held, namespace, placement);
        let limits = disk.geometry().zones();
        let budget = limits.and_then(|z| match (z.open_zone_limit, z.active_zone_limit) {
            (Some(open), Some(active)) => Some(open.min(active)),
            (open, active) => open.or(active),
        });
        let zone_len = limits.map_or(Blocks::ZERO, |z| z.zone_len);
        SpaceMap::with_zones(zone_len, zones, budget)
    };
    let space = Space::new(map);
    let body = |file: &FileRecord| {
        let hold = |e: &Extent| Arc::new(space.hold_named(e.range()));
        let placed = Placed {
            extents: file.extents.clone().into(),
            holds: file.extents.iter().map(hold).collect(),
        };
        (file.id, FileBody::new(file.id, placed, file.len_bytes()))
    };
    let bodies = namespace.files().map(body).collect();
    Ok((space, bodies))
}

/// A zone as the drive reports it, with nothing held.
fn zone_space(info: &ZoneInfo, regions: &[Region; 2]) -> ZoneSpace {
    let mut range = BlockRange::new(info.start, info.capacity);
    let is_sequential = info.kind == ZoneKind::SequentialRequired;
    if !is_sequential {
        // What the catalog leaves over of a conventional zone is used as a shorter zone.
        for piece in regions.iter().flat_map(Region::pieces) {
            if !piece.overlaps(range) {
                continue;
            }
            let start = piece.end().min(range.end());
            range = BlockRange::new(start, range.end() - start);
        }
    }
    let mut zone = ZoneSpace::empty(info.zone, info.kind, range);
    let is_catalog = regions.iter().any(|r| r.zones().contains(&info.zone));
    if is_catalog || range.len.is_zero() {
        zone.role = ZoneRole::Catalog;
        return zone;
    }
    let pointer = match info.state {
        ZoneState::ReadOnly | ZoneState::Offline => {
            zone.role = ZoneRole::Unusable;
            range.end()
        }
        ZoneState::Full => range.end(),
        state => state.write_pointer(range.start).unwrap_or(range.start).min(range.end()),
    };
    zone.next = pointer;
    zone.written = pointer;
    zone
}

fn zone_of(disk: &dyn Disk, zones: &[ZoneSpace], at: Lba) -> Option<usize> {
    let ZoneId(id) = disk.geometry().zone_of(at)?;
    ((id as usize) < zones.len()).then_some(id as usize)
}

/// Ends every open log at the first write pointer that lies inside what it owns.
fn end_logs(
    disk: &dyn Disk,
    zones: &[ZoneSpace],
    namespace: &mut Namespace,
) -> Result<(), FilesError> {
    let open: Vec<FileRecord> = namespace.files().filter(|f| f.is_open).cloned().collect();
    for file in open {
        let mut extents = Vec::with_capacity(file.extents.len());
        for extent in &file.extents {
            let zone = zone_of(disk, zones, extent.start).map(|id| &zones[id]);
            let len_bytes = match zone {
                Some(zone) if zone.kind == ZoneKind::SequentialRequired => {
                    let written = zone.next.get().saturating_sub(extent.start.get());
                    extent.len_bytes.min(Blocks::new(written).bytes())
                }
                _ => extent.len_bytes,
            };
            if len_bytes > 0 {
                extents.push(Extent { start: extent.start, len_bytes });
            }
            if len_bytes < extent.len_bytes {
                break;
            }
        }
        namespace.apply(Edit::Finish { id: file.id, extents }).map_err(|Misfit(reason)| {
            FilesError::Corrupt { structure: "catalog", place: file.id.to_string(), reason }
        })?;
    }
    Ok(())
}

/// All held ranges in order of address, checked against the disk, the pointers and each other.
fn check_extents(
    disk: &dyn Disk,
    regions: &[Region; 2],
    zones: &[ZoneSpace],
    namespace: &Namespace,
) -> Result<Vec<(BlockRange, FileId)>, FilesError> {
    let mut held = Vec::new();
    for (name, file) in namespace.list("") {
        let corrupt = |extent: &Extent, reason: String| FilesError::Corrupt {
            structure: "extent",
            place: format!("{name:?}, blocks {extent}"),
            reason,
        };
        for extent in &file.extents {
            let range = extent.range();
            if !disk.geometry().holds(range) {
                let len = disk.geometry().len();
                return Err(corrupt(extent, format!("the disk has only {len}")));
            }
            if regions.iter().flat_map(Region::pieces).any(|piece| piece.overlaps(range)) {
                return Err(corrupt(extent, "the catalog lies there".to_owned()));
            }
            let Some(zone) = zone_of(disk, zones, extent.start).map(|id| &zones[id]) else {
                held.push((range, file.id));
                continue;
            };
            let limit = match zone.kind {
                ZoneKind::SequentialRequired => zone.next,
                ZoneKind::Conventional => zone.end(),
            };
            if range.start < zone.start || limit < range.end() {
                let reason = format!("{} is written only up to block {}", zone.id, limit.get());
                return Err(corrupt(extent, reason));
            }
            held.push((range, file.id));
        }
    }
    held.sort();
    held.dedup();
    if let Some(pair) = held.windows(2).find(|pair| pair[0].0.overlaps(pair[1].0)) {
        return Err(FilesError::Corrupt {
            structure: "extent",
            place: format!("blocks {} and {}", pair[0].0, pair[1].0),
            reason: format!("{} and {} share blocks", pair[0].1, pair[1].1),
        });
    }
    Ok(held)
}

/// Counts what files hold into the zones, and finds out whose lane each zone is.
fn hold_zones(
    disk: &dyn Disk,
    zones: &mut [ZoneSpace],
    held: &[(BlockRange, FileId)],
    namespace: &Namespace,
    placement: &dyn Placement,
) {
    for (range, id) in held {
        let Some(index) = zone_of(disk, zones, range.start) else { continue };
        let zone = &mut zones[index];
        zone.held += range.len;
        zone.named += range.len;
        zone.youngest = zone.youngest.max(id.0);
        if zone.kind == ZoneKind::Conventional {
            zone.next = zone.next.max(range.end());
            zone.written = zone.next;
        }
        // The last file of a zone says what would come next.
        zone.lane = namespace.file(*id).map(|file| match file.kind {
            FileKind::Log => Lane::Log,
            _ => placement.lane(&FileRequest {
                len_bytes: file.len_bytes(),
                hints: file.hints(),
                is_moved: false,
            }),
        });
    }
}

//! Restores the space map from a catalog: the blocks that each live file holds, and where each zone
//! continues.
//!
//! ```text
//!   zone report --> pointers --+
//!   namespace   --> extents ---+--> SpaceMap, FileBody of each file
//! ```
//!
//! A log that was open when the power went ends here. In a sequential zone it ends at the write
//! pointer, and in a zone that became read-only at the first block that the drive does not read.
//! Elsewhere it keeps everything that it owned.
//!
//! A contradiction is damage, and the error names it: an extent past the disk, in the catalog's
//! region, above a write pointer, in the span of another file, or shared by two files.

use crate::catalog::{Edit, FileId, FileRecord, InvalidEdit, Namespace};
use crate::error::FilesError;
use crate::extent::Extent;
use crate::file::{FileBody, Placed};
use crate::hints::FileKind;
use crate::placement::{FileRequest, Placement, PlacementOptions};
use crate::region::Region;
use crate::rewrite::files_start;
use crate::space::{Lane, Space, SpaceMap, ZoneRole, ZoneSpace, slot_count};
use imbrex_disk::{
    BlockRange, Blocks, Disk, Geometry, Lba, ZoneId, ZoneInfo, ZoneKind, ZoneState, readable_len,
};
use std::collections::{BTreeMap, BTreeSet};
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
pub(crate) fn restore(
    disk: &dyn Disk,
    regions: &[Region; 2],
    namespace: &mut Namespace,
    placement: &dyn Placement,
    options: &PlacementOptions,
) -> Result<(Arc<Space>, Bodies), FilesError> {
    let mut zones: Vec<ZoneSpace> =
        disk.report_zones().iter().map(|info| zone_space(info, regions)).collect();
    end_logs(disk, &zones, namespace)?;
    let held = check_extents(disk, regions, &zones, namespace)?;
    let map = if zones.is_empty() {
        let usable = file_area(disk.geometry(), regions, options)?;
        check_tracks(disk.geometry(), usable, &held)?;
        let mut map = SpaceMap::without_zones(disk.geometry(), usable, options.unit_len);
        if placement.moves_sets() {
            map.keep_room_for_sets();
        }
        if disk.geometry().interlaced().is_some() && namespace.pair().is_some() {
            map.leave_logs_to_flash();
        }
        check_spans(namespace, usable, &held)?.iter().for_each(|&span| map.open_span(span));
        held.iter().for_each(|&(range, id)| map.restore(range, id.0));
        map.distrust_free_runs();
        map
    } else {
        if let Some(file) = namespace.files().find(|file| file.span.is_some()) {
            let reason = "it lies in a span, but the disk has zones".to_owned();
            return Err(FilesError::Corrupt {
                structure: "extent",
                place: file.id.to_string(),
                reason,
            });
        }
        hold_zones(disk, &mut zones, &held, namespace, placement);
        let limits = disk.geometry().zones();
        let budget = limits.and_then(slot_count);
        let zone_len = limits.map_or(Blocks::ZERO, |z| z.zone_len);
        let mut map = SpaceMap::with_zones(zone_len, zones, budget);
        if placement.keeps_files_apart() {
            map.reserve_whole_zones();
        }
        map
    };
    let space = Space::new(map);
    let body = |file: &FileRecord| {
        let hold = |e: &Extent| Arc::new(space.hold_named(e.range()));
        let placed = Placed {
            extents: file.extents.clone().into(),
            span: file.span,
            holds: file.extents.iter().map(hold).collect(),
        };
        (file.id, FileBody::new(file.id, placed, file.len_bytes()))
    };
    let bodies = namespace.files().filter(|file| !file.is_beside).map(body).collect();
    Ok((space, bodies))
}

/// The part of a disk without zones where files may lie.
fn file_area(
    geometry: &Geometry,
    regions: &[Region; 2],
    options: &PlacementOptions,
) -> Result<BlockRange, FilesError> {
    let start = files_start(geometry, regions, options.unit_len)
        .map_err(|reason| FilesError::NotFormatted { reason })?;
    Ok(BlockRange::new(start, Blocks::new(geometry.len().get().saturating_sub(start.get()))))
}

/// A zone as the drive reports it, without any holds.
fn zone_space(info: &ZoneInfo, regions: &[Region; 2]) -> ZoneSpace {
    let mut range = BlockRange::new(info.start, info.capacity);
    let is_sequential = info.kind == ZoneKind::SequentialRequired;
    if !is_sequential {
        // The part of a conventional zone that the catalog leaves over is used as a shorter zone.
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
                    let state = disk.zone(zone.id).map(|info| info.state);
                    let written = match state {
                        // A read of these blocks meets the error that was found here.
                        Some(ZoneState::ReadOnly) => {
                            readable_len(disk, extent.range()).unwrap_or(extent.range().len)
                        }
                        _ => Blocks::new(zone.next.get().saturating_sub(extent.start.get())),
                    };
                    extent.len_bytes.min(written.bytes())
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
        namespace.apply(Edit::Finish { id: file.id, extents }).map_err(|InvalidEdit(reason)| {
            FilesError::Corrupt { structure: "catalog", place: file.id.to_string(), reason }
        })?;
    }
    Ok(())
}

/// All spans in order of address, checked against the files inside and outside them.
fn check_spans(
    namespace: &Namespace,
    usable: BlockRange,
    held: &[(BlockRange, FileId)],
) -> Result<Vec<BlockRange>, FilesError> {
    let corrupt =
        |place: String, reason: String| FilesError::Corrupt { structure: "span", place, reason };
    let inside = |range: BlockRange, outer: BlockRange| {
        outer.start <= range.start && range.end() <= outer.end()
    };
    let is_nowhere = |file: &&FileRecord| file.span.is_some() && file.extents.is_empty();
    if let Some(file) = namespace.files().find(is_nowhere) {
        return Err(corrupt(file.id.to_string(), "it names a span but has no blocks".to_owned()));
    }
    let mut spans: Vec<BlockRange> = namespace.files().filter_map(|file| file.span).collect();
    spans.sort();
    spans.dedup();
    if let Some(pair) = spans.windows(2).find(|pair| pair[0].overlaps(pair[1])) {
        let place = format!("blocks {} and {}", pair[0], pair[1]);
        return Err(corrupt(place, "two spans share blocks".to_owned()));
    }
    if let Some(span) = spans.iter().find(|&&span| !inside(span, usable)) {
        let reason = format!("files may lie in {usable} only");
        return Err(corrupt(format!("blocks {span}"), reason));
    }
    for (range, id) in held {
        let named = namespace.file(*id).and_then(|file| file.span);
        let after = spans.partition_point(|span| span.start <= range.start);
        let around = after.checked_sub(1).map(|index| spans[index]);
        let around = around.filter(|span| range.start < span.end());
        let next = spans.get(after).filter(|span| range.overlaps(**span));
        let is_right = match (named, around) {
            (Some(named), _) => inside(*range, named),
            (None, None) => next.is_none(),
            (None, Some(_)) => false,
        };
        if !is_right {
            let reason = format!("{id} lies there, and the span that it names is {named:?}");
            return Err(corrupt(format!("blocks {range}"), reason));
        }
    }
    Ok(spans)
}

/// All held ranges in order of address, checked against the disk, the pointers and each other.
fn check_extents(
    disk: &dyn Disk,
    regions: &[Region; 2],
    zones: &[ZoneSpace],
    namespace: &Namespace,
) -> Result<Vec<(BlockRange, FileId)>, FilesError> {
    let mut held = Vec::new();
    let mut seen = BTreeSet::new();
    for (name, file) in namespace.list("") {
        if !seen.insert(file.id) {
            continue; // Another name of it.
        }
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
            let is_catalogs = |region: &Region| {
                region.pieces().iter().any(|piece| piece.overlaps(range))
                    || (zones.is_empty() && range.start < region.reserved_end())
            };
            if regions.iter().any(is_catalogs) {
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
    if let Some(pair) = held.windows(2).find(|pair| pair[0].0.overlaps(pair[1].0)) {
        return Err(FilesError::Corrupt {
            structure: "extent",
            place: format!("blocks {} and {}", pair[0].0, pair[1].0),
            reason: format!("{} and {} share blocks", pair[0].1, pair[1].1),
        });
    }
    Ok(held)
}

/// On interlaced tracks no extent lies in two tracks, or in those reserved for the backup.
fn check_tracks(
    geometry: &Geometry,
    usable: BlockRange,
    held: &[(BlockRange, FileId)],
) -> Result<(), FilesError> {
    if geometry.interlaced().is_none() {
        return Ok(());
    }
    for (range, id) in held {
        let corrupt = |reason| FilesError::Corrupt {
            structure: "extent",
            place: format!("blocks {range}"),
            reason,
        };
        if range.start < usable.start {
            let start = usable.start.get();
            let reason = format!("{id} lies there, but files may lie from block {start} on only");
            return Err(corrupt(reason));
        }
        if geometry.write_parts(*range).count() > 1 {
            return Err(corrupt(format!("{id} lies there, over more than one track")));
        }
    }
    Ok(())
}

/// Counts the blocks that files hold in each zone, and determines the lane of each zone.
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
        zone.sealed = placement.keeps_files_apart();
        if zone.kind == ZoneKind::Conventional {
            zone.next = zone.next.max(range.end());
            zone.written = zone.next;
        }
        // The last file of a zone decides what comes next.
        zone.lane = namespace.file(*id).map(|file| match file.kind {
            FileKind::Log => Lane::Log,
            _ => {
                let len_bytes = range.len.bytes();
                let piece = FileRequest { len_bytes, hints: file.hints(), is_moved: false };
                placement.lane(&piece, zone.capacity)
            }
        });
    }
}

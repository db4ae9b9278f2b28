//! The map of zones: how each part of the disk is used.

use crate::commit::Committer;
use crate::hints::FileKind;
use crate::space::{Space, ZoneRole, ZoneSpace};
use imbrex_disk::{BlockRange, Blocks, Disk, Lba, ZoneState};
use std::collections::BTreeMap;

/// The use of a piece of the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZoneUseKind {
    /// The catalog, and nothing else.
    Catalog,
    /// Files, or nothing yet; part of it may belong to the catalog.
    Files,
    /// Read-only or offline.
    Unusable,
}

/// One zone, or one slice of a disk without zones, for a drawing of the drive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZoneUse {
    /// The number of the zone or slice.
    pub zone: u32,
    /// Its blocks.
    pub range: BlockRange,
    /// What it is used for.
    pub kind: ZoneUseKind,
    /// How much of it is reserved for the catalog.
    pub catalog_bytes: u64,
    /// The state that the drive reports; `NoPointer` for a slice.
    pub state: ZoneState,
    /// Bytes of live files.
    pub live_bytes: u64,
    /// Bytes that are written and dead.
    pub dead_bytes: u64,
    /// Live bytes of logs.
    pub log_bytes: u64,
    /// Live bytes of other files by level, in order of level.
    pub levels: Vec<(u8, u64)>,
}

/// A run of blocks without data on a disk without zones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FreeRun {
    /// Its blocks.
    pub range: BlockRange,
    /// How many blocks at its end must stay blank, because a write there would destroy what follows: a guard.
    pub guard: Blocks,
}

/// The blocks that the catalog has for itself; on a disk without zones everything before the files, with the guards in
/// between and the backup of tracks.
pub(crate) fn reserved(space: &Space, committer: &Committer) -> Vec<BlockRange> {
    let first = Lba::new(0);
    match space.with(|map| map.unzoned().map(|unzoned| unzoned.start())) {
        Some(start) => vec![BlockRange::new(first, start - first)],
        None => committer.catalog_pieces().to_vec(),
    }
}

/// The runs without data, in order of address; none on a disk with zones, or where tracks lie on tracks.
pub(crate) fn free_runs(space: &Space) -> Vec<FreeRun> {
    let gaps = space.with(|map| map.unzoned().map_or_else(Vec::new, |unzoned| unzoned.gaps()));
    gaps.into_iter().map(|(range, guard)| FreeRun { range, guard }).collect()
}

/// How many slices a disk without zones has in the map.
const SLICE_COUNT: u64 = 64;

/// The present use of each zone, in order of address. All blocks before `files_start`, if given,
/// count as reserved for the catalog.
pub(crate) fn zone_map(
    disk: &dyn Disk,
    space: &Space,
    committer: &Committer,
    files_start: Option<Lba>,
) -> Vec<ZoneUse> {
    let mut uses = empty_uses(disk, space, committer, files_start);
    let live = committer.lock();
    let mut levels: Vec<BTreeMap<u8, u64>> = vec![BTreeMap::new(); uses.len()];
    for file in live.namespace.files() {
        for range in file.extents.iter().map(|e| e.range()) {
            let first = uses.partition_point(|u| u.range.end() <= range.start);
            let touched = uses.iter_mut().enumerate().skip(first);
            for (index, zone) in touched.take_while(|(_, u)| u.range.overlaps(range)) {
                let start = zone.range.start.max(range.start);
                let len_bytes = (zone.range.end().min(range.end()) - start).bytes();
                zone.live_bytes += len_bytes;
                if file.kind == FileKind::Log {
                    zone.log_bytes += len_bytes;
                } else {
                    *levels[index].entry(file.level).or_default() += len_bytes;
                }
            }
        }
    }
    for (zone, levels) in uses.iter_mut().zip(levels) {
        zone.levels = levels.into_iter().collect();
        zone.dead_bytes = zone.dead_bytes.saturating_sub(zone.live_bytes);
    }
    uses
}

/// The zones or slices without live data; `dead_bytes` is everything handed out.
fn empty_uses(
    disk: &dyn Disk,
    space: &Space,
    committer: &Committer,
    files_start: Option<Lba>,
) -> Vec<ZoneUse> {
    let zones: Vec<ZoneSpace> = space.with(|map| map.zones().to_vec());
    // On interlaced tracks everything before the files serves the catalog or the backup.
    let reserved = files_start.map(|start| [BlockRange::new(Lba::new(0), start - Lba::new(0))]);
    let catalog_pieces = match &reserved {
        Some(all) => &all[..],
        None => committer.catalog_pieces(),
    };
    let unused = |zone, range, kind, state, handed_out: Blocks| ZoneUse {
        zone,
        range,
        kind,
        catalog_bytes: catalog_pieces
            .iter()
            .filter(|piece| piece.overlaps(range))
            .map(|piece| piece.end().min(range.end()) - piece.start.max(range.start))
            .sum::<Blocks>()
            .bytes(),
        state,
        live_bytes: 0,
        dead_bytes: handed_out.bytes(),
        log_bytes: 0,
        levels: Vec::new(),
    };
    if zones.is_empty() {
        let len = disk.geometry().len().get();
        let slice_len = len.div_ceil(SLICE_COUNT);
        let slices = (0..len.div_ceil(slice_len)).map(|slice| {
            let start = slice * slice_len;
            let len = Blocks::new(slice_len.min(len - start));
            let range = BlockRange::new(Lba::new(start), len);
            let state = ZoneState::NoPointer;
            unused(slice as u32, range, ZoneUseKind::Files, state, len)
        });
        let mut slices: Vec<ZoneUse> = slices.collect();
        // A block that is neither free nor the catalog's is held by a file, or dead in a set that
        // still lives.
        for blank in space.with(|map| map.blank_runs()) {
            let first = slices.partition_point(|slice| slice.range.end() <= blank.start);
            let touched = slices[first..].iter_mut();
            for slice in touched.take_while(|slice| slice.range.overlaps(blank)) {
                let start = slice.range.start.max(blank.start);
                let len = slice.range.end().min(blank.end()) - start;
                slice.dead_bytes -= len.bytes();
            }
        }
        for slice in &mut slices {
            slice.dead_bytes = slice.dead_bytes.saturating_sub(slice.catalog_bytes);
        }
        return slices;
    }
    zones
        .iter()
        .map(|zone| {
            let kind = match zone.role {
                ZoneRole::Catalog => ZoneUseKind::Catalog,
                ZoneRole::Data => ZoneUseKind::Files,
                ZoneRole::Unusable => ZoneUseKind::Unusable,
            };
            let state = disk.zone(zone.id).map_or(ZoneState::Offline, |info| info.state);
            let range = disk.geometry().zone_range(zone.id).unwrap_or_default();
            unused(zone.id.0, range, kind, state, zone.next - zone.start)
        })
        .collect()
}

//! A drive's own zone report, converted to a geometry and to the records of a
//! [`ZoneTable`](imbrex_disk::ZoneTable).

use crate::ioctl::{RawZone, SECTOR_LEN_BYTES};
use crate::limits::Limits;
use imbrex_disk::{
    BLOCK_LEN_BYTES, Blocks, GeometrySpec, Rule, ZoneId, ZoneMark, ZoneRecord, ZoneSpec,
};

/// The kernel's sectors per block.
pub(crate) const SECTORS_PER_BLOCK: u64 = BLOCK_LEN_BYTES as u64 / SECTOR_LEN_BYTES;

const CONVENTIONAL: u8 = 1;
const SEQUENTIAL_REQUIRED: u8 = 2;

const EMPTY: u8 = 1;
const OPEN_IMPLICIT: u8 = 2;
const OPEN_EXPLICIT: u8 = 3;
const CLOSED: u8 = 4;
const READ_ONLY: u8 = 0xd;
const FULL: u8 = 0xe;
const OFFLINE: u8 = 0xf;

/// The geometry of a drive with these zones. An `Err` says why the drive is not supported.
pub(crate) fn geometry(zones: &[RawZone], limits: &Limits) -> Result<GeometrySpec, String> {
    let first = zones.first().ok_or("it reports no zones")?;
    let conventional_count = zones.iter().take_while(|zone| zone.kind == CONVENTIONAL).count();
    let capacity = zones.get(conventional_count).map_or(first.len, |zone| zone.capacity);
    let mut next_start = 0;
    for (index, zone) in zones.iter().enumerate() {
        let is_last = index + 1 == zones.len();
        if zone.start != next_start || zone.len > first.len || (zone.len < first.len && !is_last) {
            return Err(format!("zone {index} is not where zones of equal length would put it"));
        }
        next_start = zone.start + zone.len;
        if index < conventional_count {
            continue;
        }
        if zone.kind != SEQUENTIAL_REQUIRED {
            let kind = if zone.kind == CONVENTIONAL { "conventional" } else { "of another kind" };
            return Err(format!(
                "zone {index} is {kind}, but follows sequential zones; a supported drive has its \
                 conventional zones first"
            ));
        }
        // A drive that has given a zone up need not report its capacity.
        let is_given_up = matches!(zone.condition, READ_ONLY | OFFLINE);
        if zone.capacity != capacity.min(zone.len) && !is_given_up {
            return Err(format!(
                "the capacity of zone {index} differs from that of zone {conventional_count}"
            ));
        }
    }
    for (what, sectors) in [("length", first.len), ("capacity", capacity), ("end", next_start)] {
        if sectors % SECTORS_PER_BLOCK != 0 {
            return Err(format!(
                "the {what} of its zones is not a multiple of {BLOCK_LEN_BYTES} bytes"
            ));
        }
    }
    let blocks = |sectors: u64| Blocks::new(sectors / SECTORS_PER_BLOCK);
    let spec = ZoneSpec {
        zone_len: blocks(first.len),
        zone_capacity: blocks(capacity),
        conventional_zone_count: u32::try_from(conventional_count).unwrap_or(u32::MAX),
        open_zone_limit: open_zone_limit(limits),
        active_zone_limit: limits.active_zone_limit,
        strict_reads: false,
    };
    Ok(GeometrySpec { len: blocks(next_start), rule: Rule::AtPointer(spec) })
}

/// Drives report both limits: no more zones can be open than active.
fn open_zone_limit(limits: &Limits) -> Option<u32> {
    match (limits.open_zone_limit, limits.active_zone_limit) {
        (Some(open), Some(active)) => Some(open.min(active)),
        (open, _) => open,
    }
}

/// Whether the zone stays open until it is closed by a command.
pub(crate) fn is_left_open(zone: &RawZone) -> bool {
    zone.condition == OPEN_EXPLICIT
}

/// How the drive has given the zone up, if it has.
pub(crate) fn given_up(zone: &RawZone) -> Option<ZoneMark> {
    match zone.condition {
        OFFLINE => Some(ZoneMark::Offline),
        READ_ONLY => Some(ZoneMark::ReadOnly),
        _ => None,
    }
}

/// The sectors between the write pointer and the end of its block, if the pointer lies inside one.
pub(crate) fn torn_sectors(zone: &RawZone) -> Option<u64> {
    let has_pointer = matches!(zone.condition, OPEN_IMPLICIT | OPEN_EXPLICIT | CLOSED);
    let within = zone.write_pointer % SECTORS_PER_BLOCK;
    (has_pointer && within != 0).then(|| SECTORS_PER_BLOCK - within)
}

/// The record of a zone. An `Err` says what in the report is impossible.
pub(crate) fn record(zone: ZoneId, raw: &RawZone) -> Result<ZoneRecord, String> {
    let capacity = Blocks::new(raw.capacity / SECTORS_PER_BLOCK);
    // In a state without a write pointer the drive may report any value.
    let whole = |mark| ZoneRecord { mark, written: capacity };
    match raw.condition {
        OFFLINE => Ok(ZoneRecord { mark: ZoneMark::Offline, written: Blocks::ZERO }),
        READ_ONLY => Ok(whole(ZoneMark::ReadOnly)),
        _ if raw.kind == CONVENTIONAL => Ok(ZoneRecord::EMPTY),
        FULL => Ok(whole(ZoneMark::Full)),
        EMPTY => Ok(ZoneRecord::EMPTY),
        OPEN_IMPLICIT | OPEN_EXPLICIT | CLOSED => {
            let written =
                raw.write_pointer.checked_sub(raw.start).filter(|&len| len <= raw.capacity);
            let written = written.ok_or_else(|| {
                format!(
                    "{zone}: its write pointer, sector {}, lies outside the zone",
                    raw.write_pointer
                )
            })?;
            Ok(ZoneRecord::at_pointer(Blocks::new(written / SECTORS_PER_BLOCK), capacity))
        }
        other => Err(format!("{zone}: unknown zone condition {other:#x}")),
    }
}

#[cfg(test)]
mod tests;

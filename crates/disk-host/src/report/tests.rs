//! Reports as drives give them, and some that no drive should give.

use super::*;

fn limits() -> Limits {
    let mut limits = Limits::read(std::path::Path::new("no such device"));
    limits.open_zone_limit = Some(128);
    limits
}

fn zone(index: u64, kind: u8, condition: u8) -> RawZone {
    let start = index * 64;
    RawZone {
        start,
        len: 64,
        write_pointer: start,
        kind,
        condition,
        capacity: 64,
        ..RawZone::default()
    }
}

fn drive() -> Vec<RawZone> {
    vec![
        zone(0, CONVENTIONAL, 0),
        zone(1, CONVENTIONAL, 0),
        zone(2, SEQUENTIAL_REQUIRED, EMPTY),
        zone(3, SEQUENTIAL_REQUIRED, EMPTY),
        zone(4, SEQUENTIAL_REQUIRED, EMPTY),
    ]
}

fn refusal(zones: &[RawZone]) -> String {
    geometry(zones, &limits()).unwrap_err()
}

#[test]
fn sectors_become_blocks() {
    let mut zones = drive();
    zones[2..].iter_mut().for_each(|zone| zone.capacity = 48);
    zones[4] = RawZone { len: 32, capacity: 32, ..zones[4] };
    let spec = geometry(&zones, &limits()).unwrap();
    assert_eq!(spec.len, Blocks::new(36));
    let Rule::AtPointer(zones) = spec.rule else { panic!("it has zones") };
    assert_eq!((zones.zone_len, zones.zone_capacity), (Blocks::new(8), Blocks::new(6)));
    assert_eq!((zones.conventional_zone_count, zones.open_zone_limit), (2, Some(128)));
}

#[test]
fn the_open_limit_is_at_most_the_active_limit() {
    let mut limits = limits();
    limits.active_zone_limit = Some(14);
    let Rule::AtPointer(zones) = geometry(&drive(), &limits).unwrap().rule else { panic!() };
    assert_eq!((zones.open_zone_limit, zones.active_zone_limit), (Some(14), Some(14)));
}

#[test]
fn drives_of_another_shape_are_refused() {
    assert!(refusal(&[]).contains("no zones"));
    let mut zones = drive();
    zones[4] = zone(4, CONVENTIONAL, 0);
    assert!(refusal(&zones).contains("zone 4 is conventional, but follows"));
    let mut zones = drive();
    zones[3] = zone(3, 3, EMPTY);
    assert!(refusal(&zones).contains("zone 3 is of another kind"));
    let mut zones = drive();
    zones[3].len = 32;
    assert!(refusal(&zones).contains("zone 3 is not where"));
    let mut zones = drive();
    zones[3].capacity = 56;
    assert!(refusal(&zones).contains("the capacity of zone 3 differs from"));
    zones[3].condition = OFFLINE;
    geometry(&zones, &limits()).unwrap();
    let mut zones = drive();
    zones[2..].iter_mut().for_each(|zone| zone.capacity = 60);
    assert!(refusal(&zones).contains("the capacity of its zones is not a multiple of 4096"));
}

#[test]
fn conditions_become_records() {
    let at = |condition, write_pointer| {
        let raw = RawZone { write_pointer, ..zone(2, SEQUENTIAL_REQUIRED, condition) };
        record(ZoneId(2), &raw)
    };
    let of = |mark, written| ZoneRecord { mark, written: Blocks::new(written) };
    assert_eq!(at(EMPTY, 128), Ok(ZoneRecord::EMPTY));
    for condition in [OPEN_IMPLICIT, OPEN_EXPLICIT, CLOSED] {
        assert_eq!(at(condition, 128 + 24), Ok(of(ZoneMark::Writable, 3)));
        assert!(at(condition, 127).unwrap_err().contains("write pointer, sector 127"));
        assert!(at(condition, 200).unwrap_err().contains("zone 2"));
    }
    // The pointers of zones without one are garbage.
    assert_eq!(at(FULL, u64::MAX), Ok(of(ZoneMark::Full, 8)));
    assert_eq!(at(READ_ONLY, 3), Ok(of(ZoneMark::ReadOnly, 8)));
    assert_eq!(at(OFFLINE, u64::MAX), Ok(of(ZoneMark::Offline, 0)));
    assert!(at(7, 128).unwrap_err().contains("condition 0x7"));
    assert_eq!(record(ZoneId(0), &zone(0, CONVENTIONAL, 0)), Ok(ZoneRecord::EMPTY));
}

#[test]
fn a_pointer_within_a_block_is_torn() {
    let at = |condition, write_pointer| {
        torn_sectors(&RawZone { write_pointer, ..zone(2, SEQUENTIAL_REQUIRED, condition) })
    };
    assert_eq!(
        (at(CLOSED, 128 + 8), at(CLOSED, 128 + 9), at(CLOSED, 128 + 15)),
        (None, Some(7), Some(1))
    );
    assert_eq!((at(FULL, 128 + 9), at(OFFLINE, 129)), (None, None));
}

use super::*;

fn zoned(len: u64, edit: impl FnOnce(&mut ZoneSpec)) -> Result<Geometry, GeometryError> {
    let mut zones = ZoneSpec {
        zone_len: Blocks::new(64),
        zone_capacity: Blocks::new(64),
        conventional_zone_count: 2,
        open_zone_limit: Some(4),
        active_zone_limit: None,
        strict_reads: true,
    };
    edit(&mut zones);
    Geometry::new(GeometrySpec { len: Blocks::new(len), rule: Rule::AtPointer(zones) })
}

fn check_error(got: Result<Geometry, GeometryError>, expected: &str) {
    assert_eq!(got.expect_err("this geometry is wrong").to_string(), expected);
}

#[test]
fn zones_tile_the_disk_and_the_last_may_be_short() {
    let geometry = zoned(300, |z| z.zone_capacity = Blocks::new(60)).unwrap();
    assert_eq!(geometry.zone_count(), 5);
    assert_eq!(geometry.zone_of(Lba::new(299)), Some(ZoneId(4)));
    assert_eq!(geometry.zone_of(Lba::new(300)), None);
    assert_eq!(geometry.zone_range(ZoneId(4)).unwrap().len, Blocks::new(44));
    assert_eq!(geometry.zone_capacity(ZoneId(4)), Some(Blocks::new(44)));
    assert_eq!(geometry.zone_capacity(ZoneId(3)), Some(Blocks::new(60)));
    assert_eq!(geometry.zone_capacity(ZoneId(1)), Some(Blocks::new(64)), "conventional: whole");
    assert_eq!(geometry.zone_range(ZoneId(5)), None);
}

#[test]
fn holds_does_not_overflow() {
    let geometry = zoned(300, |_| {}).unwrap();
    assert!(geometry.holds(BlockRange::new(Lba::new(299), Blocks::new(1))));
    assert!(!geometry.holds(BlockRange::new(Lba::new(299), Blocks::new(2))));
    assert!(!geometry.holds(BlockRange::new(Lba::new(u64::MAX), Blocks::new(2))));
}

#[test]
fn wrong_geometries_name_the_field_and_the_bound() {
    check_error(zoned(0, |_| {}), "len is 0; it must be at least 1");
    check_error(zoned(300, |z| z.zone_len = Blocks::ZERO), "zone_len is 0; it must be at least 1");
    check_error(
        zoned(300, |z| z.zone_capacity = Blocks::new(65)),
        "zone_capacity is 65; it may be at most 64",
    );
    check_error(
        zoned(300, |z| z.conventional_zone_count = 6),
        "conventional_zone_count is 6; it may be at most 5",
    );
    check_error(
        zoned(300, |z| z.active_zone_limit = Some(3)),
        "open_zone_limit is 4; it may be at most 3",
    );
    let shingle = ShingleSpec { track_len: Blocks::new(100), overlap_tracks: 3 };
    check_error(
        Geometry::new(GeometrySpec {
            len: Blocks::new(300),
            rule: Rule::IsolationDistance(shingle),
        }),
        "overlap_tracks is 3; it may be at most 2",
    );
}

#[test]
fn a_shingled_write_reaches_whole_tracks() {
    let rule = |overlap_tracks| {
        let shingle = ShingleSpec { track_len: Blocks::new(10), overlap_tracks };
        let rule = Rule::IsolationDistance(shingle);
        Geometry::new(GeometrySpec { len: Blocks::new(95), rule }).unwrap()
    };
    let check = |overlap_tracks, start, end, expected: &str| {
        let write = BlockRange::new(Lba::new(start), Blocks::new(end - start));
        assert_eq!(rule(overlap_tracks).reach(write).to_string(), expected, "{write}");
    };
    check(2, 3, 5, "10..30");
    check(2, 3, 10, "10..30");
    check(2, 3, 11, "11..40");
    check(2, 10, 11, "20..40");
    check(2, 70, 71, "80..95");
    check(2, 90, 95, "95..95");
    check(2, 80, 91, "91..95");
    check(0, 3, 25, "30..30");
    check(2, 4, 4, "4..4");
}

#[test]
fn conventional_writes_reach_nothing() {
    let spec = GeometrySpec { len: Blocks::new(95), rule: Rule::Anywhere };
    let reach = Geometry::new(spec).unwrap().reach(BlockRange::new(Lba::new(3), Blocks::new(9)));
    assert_eq!(reach.to_string(), "12..12");
}

fn interlaced(len: u64, bottom: u64, top: u64) -> Geometry {
    let rule = Rule::Neighbours(NeighbourSpec {
        bottom_track_len: Blocks::new(bottom),
        top_track_len: Blocks::new(top),
    });
    Geometry::new(GeometrySpec { len: Blocks::new(len), rule }).unwrap()
}

fn range(start: u64, end: u64) -> BlockRange {
    BlockRange::new(Lba::new(start), Blocks::new(end - start))
}

#[test]
fn interlaced_tracks_tile_the_disk_bottom_first() {
    // 0..10 bottom, 10..18 top, 18..28 bottom, 28..36 top, 36..40 bottom, cut off.
    let geometry = interlaced(40, 10, 8);
    assert_eq!(geometry.track_count(), 5);
    let tracks: Vec<_> = (0..6).map(|t| geometry.track_range(TrackId(t))).collect();
    let expected =
        [range(0, 10), range(10, 18), range(18, 28), range(28, 36), range(36, 40)].map(Some);
    assert_eq!(tracks[..5], expected);
    assert_eq!(tracks[5], None);
    for at in 0..40 {
        let track = geometry.track_of(Lba::new(at)).unwrap();
        assert!(geometry.track_range(track).unwrap().contains(Lba::new(at)), "{at}");
    }
    assert_eq!(geometry.track_of(Lba::new(40)), None);
    assert_eq!(TrackId(3).to_string(), "top track 3");
    assert_eq!(zoned(300, |_| {}).unwrap().track_count(), 0);
    // The largest numbers do not overflow.
    let far = interlaced(u64::MAX, u64::MAX, u64::MAX);
    assert_eq!(far.track_range(TrackId(0)).unwrap().len.get(), u64::MAX);
    assert_eq!(far.track_range(TrackId(u64::MAX)), None);
}

#[test]
fn a_strict_drive_is_read_zone_by_zone() {
    let parts =
        |geometry: Geometry, range: BlockRange| geometry.read_parts(range).collect::<Vec<_>>();
    let strict = zoned(300, |zones| zones.zone_len = Blocks::new(100)).unwrap();
    assert_eq!(parts(strict, range(50, 250)), [range(50, 100), range(100, 200), range(200, 250)]);
    assert_eq!(parts(strict, range(100, 101)), [range(100, 101)]);
    assert_eq!(parts(strict, range(7, 7)), []);
    // Past the end, the read itself reports the error.
    assert_eq!(parts(strict, range(250, 350)), [range(250, 300), range(300, 350)]);
    let lenient = zoned(300, |zones| {
        (zones.zone_len, zones.strict_reads) = (Blocks::new(100), false);
    });
    assert_eq!(parts(lenient.unwrap(), range(50, 250)), [range(50, 250)]);
    assert_eq!(parts(interlaced(46, 10, 8), range(3, 40)), [range(3, 40)]);
}

#[test]
fn a_bottom_write_reaches_the_two_tracks_above_it_and_a_top_write_none() {
    let geometry = interlaced(46, 10, 8);
    let check = |write: BlockRange, before: Option<BlockRange>, behind: Option<BlockRange>| {
        let got = geometry.reach_around(write).map(|r| (!r.len.is_zero()).then_some(r));
        assert_eq!(got, [before, behind], "{write}");
    };
    check(range(12, 17), None, None);
    check(range(20, 21), Some(range(10, 18)), Some(range(28, 36)));
    check(range(18, 28), Some(range(10, 18)), Some(range(28, 36)));
    check(range(0, 1), None, Some(range(10, 18)));
    check(range(36, 46), Some(range(28, 36)), None);
    // Over several tracks: what lies outside of the write.
    check(range(12, 20), Some(range(10, 12)), Some(range(28, 36)));
    check(range(25, 30), Some(range(10, 18)), Some(range(30, 36)));
    check(range(3, 40), None, None);
    let parts: Vec<BlockRange> = geometry.write_parts(range(3, 40)).collect();
    assert_eq!(parts, [range(3, 10), range(10, 18), range(18, 28), range(28, 36), range(36, 40)]);
}

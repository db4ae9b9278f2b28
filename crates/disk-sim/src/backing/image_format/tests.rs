use super::*;
use imbrex_clockwork::Prng;

fn header() -> Header {
    let zones = ZoneSpec {
        zone_len: Blocks::new(65_536),
        zone_capacity: Blocks::new(60_000),
        conventional_zone_count: 2,
        open_zone_limit: Some(128),
        active_zone_limit: None,
        strict_reads: true,
    };
    let spec = GeometrySpec { len: Blocks::new(10 * 65_536), rule: Rule::AtPointer(zones) };
    Header {
        image_id: 0x1122_3344_5566_7788,
        geometry: Geometry::new(spec).unwrap(),
        write_cache: Blocks::new(256),
        profile_len_bytes: 77,
        profile_crc: 0xAABB_CCDD,
        label: "demo drive".to_owned(),
        profile_name: "hc620".to_owned(),
    }
}

#[test]
fn golden_bytes() {
    let bytes = header().encode();
    let hex: String = bytes[..96].iter().map(|b| format!("{b:02x}")).collect();
    let expected = concat!(
        "494d42524558444b", // magic
        "01000000",         // format_version
        "02000000",         // rule
        "8877665544332211", // image_id
        "00000a0000000000", // len_blocks
        "0000010000000000", // zone_len_blocks
        "60ea000000000000", // zone_capacity_blocks
        "02000000",         // conventional_zone_count
        "80000000",         // open_zone_limit
        "00000000",         // active_zone_limit
        "01000000",         // flags
        "0001000000000000", // write_cache_blocks
        "0000100000000000", // data_offset_bytes
        "4d000000",         // profile_len_bytes
        "ddccbbaa",         // profile_crc32c
        "64656d6f20647269", // label
    );
    assert_eq!(hex, expected);
    assert_eq!(bytes[88..98], *b"demo drive");
    assert_eq!(bytes[152..157], *b"hc620");
    assert!(bytes[157..4092].iter().all(|&b| b == 0), "nothing outside the fields");
    let record = ZoneRecord { mark: ZoneMark::Full, written: Blocks::new(0x0102) };
    let hex: String =
        encode_zone(ZoneId(7), record)[..28].iter().map(|b| format!("{b:02x}")).collect();
    assert_eq!(hex, "02000000070000000201000000000000000000000000000000000000");
}

#[test]
fn headers_round_trip() {
    let zoned = header();
    assert_eq!(Header::decode(&zoned.encode()), Ok(zoned.clone()));
    let spec = GeometrySpec { len: Blocks::new(5), rule: Rule::Anywhere };
    let geometry = Geometry::new(spec).unwrap();
    let plain = Header { geometry, label: "x".repeat(64), ..zoned };
    assert_eq!(Header::decode(&plain.encode()), Ok(plain));
}

#[test]
fn every_flipped_bit_is_noticed() {
    let bytes = header().encode();
    for at in 0..HEADER_LEN_BYTES {
        for bit in 0..8 {
            let mut damaged = bytes;
            damaged[at] ^= 1 << bit;
            assert!(Header::decode(&damaged).is_err(), "byte {at} bit {bit}");
            if at % 61 == 0 || !(256..HEADER_LEN_BYTES - 8).contains(&at) {
                let mut worse = damaged;
                worse[(at + 1009) % HEADER_LEN_BYTES] ^= 4;
                assert!(!correct_bit(&mut worse), "two bits are not taken for one");
                assert!(correct_bit(&mut damaged) && damaged == bytes, "byte {at} bit {bit}");
            }
        }
    }
    let record = ZoneRecord { mark: ZoneMark::Writable, written: Blocks::new(9) };
    let bytes = encode_zone(ZoneId(3), record);
    assert_eq!(decode_zone(ZoneId(3), Blocks::new(9), &bytes), Some(record));
    assert_eq!(decode_zone(ZoneId(4), Blocks::new(9), &bytes), None, "another zone's record");
    assert_eq!(decode_zone(ZoneId(3), Blocks::new(8), &bytes), None, "past the capacity");
    for bit in 0..8 * ZONE_RECORD_LEN_BYTES {
        let mut damaged = bytes;
        damaged[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(decode_zone(ZoneId(3), Blocks::new(9), &damaged), None, "bit {bit}");
        for other in (0..8 * ZONE_RECORD_LEN_BYTES).filter(|&other| other != bit) {
            let mut worse = damaged;
            worse[other / 8] ^= 1 << (other % 8);
            assert!(!correct_bit(&mut worse), "bits {bit} and {other}");
        }
        assert!(correct_bit(&mut damaged) && damaged == bytes, "bit {bit}");
    }
}

#[test]
fn a_mark_with_a_flipped_bit_is_corrected_and_with_two_it_is_not() {
    for mark in [0, 0x0F, 0x33] {
        for bit in 0..8 {
            let damaged = mark ^ 1 << bit;
            assert!(decode_mark(damaged).is_err());
            assert_eq!(correct_mark(damaged), Some(mark));
            for other in (0..8).filter(|&other| other != bit) {
                let worse = damaged ^ 1 << other;
                assert_eq!((decode_mark(worse), correct_mark(worse)), (Err(()), None));
            }
        }
    }
}

#[test]
fn garbage_with_a_good_checksum_never_panics() {
    let mut prng = Prng::new(11);
    let good = header().encode();
    for _ in 0..20_000 {
        let mut bytes = good;
        for _ in 0..1 + prng.below(6) {
            let at = 12 + prng.below(232) as usize;
            bytes[at] = prng.next_u64() as u8;
        }
        let crc = crc32c::crc32c(&bytes[..CRC]);
        put_u32(&mut bytes, CRC, crc);
        if let Ok(header) = Header::decode(&bytes) {
            assert_eq!(header.encode(), bytes, "what is accepted is what would be written");
        }
    }
    let mut noise = [0; HEADER_LEN_BYTES];
    prng.fill(&mut noise);
    assert_eq!(Header::decode(&noise), Err(HeaderFault::Magic));
    assert_eq!(Header::decode(&[0; HEADER_LEN_BYTES]), Err(HeaderFault::Magic));
}

#[test]
fn a_shingled_header_has_version_2_and_its_tracks() {
    let rule =
        Rule::IsolationDistance(ShingleSpec { track_len: Blocks::new(64), overlap_tracks: 16 });
    let spec = GeometrySpec { len: Blocks::new(3 << 20), rule };
    let header = Header { geometry: Geometry::new(spec).unwrap(), ..header() };
    let bytes = header.encode();
    let hex = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
    assert_eq!(hex(&bytes[8..16]), "0200000003000000", "version and rule");
    assert!(bytes[32..64].iter().all(|&b| b == 0), "no zones");
    assert_eq!(
        hex(&bytes[72..80]),
        "0000400000000000",
        "data_offset_bytes: a byte a block, padded"
    );
    assert_eq!(
        hex(&bytes[216..228]),
        "400000000000000010000000",
        "track_len_blocks, overlap_tracks"
    );
    assert_eq!(Header::decode(&bytes), Ok(header));
    let refused = |at: usize, byte: u8| {
        let mut bytes = bytes;
        bytes[at] = byte;
        let crc = crc32c::crc32c(&bytes[..CRC]);
        put_u32(&mut bytes, CRC, crc);
        Header::decode(&bytes).unwrap_err()
    };
    let field = |field| HeaderFault::Field { field };
    assert_eq!(refused(8, 1), field("format_version"), "version 1 had no tracks");
    assert_eq!(refused(12, 1), field("track_len_blocks"), "a conventional drive has no tracks");
    assert_eq!(refused(216, 0), field("geometry"));
    assert_eq!(refused(8, 3), field("format_version"), "version 3 came with interlaced tracks");
    assert_eq!(refused(8, 4), HeaderFault::Version { got: 4 });
    assert_eq!(refused(12, 4), field("overlap_tracks"), "an interlaced drive has no overlap");
    assert_eq!(refused(232, 1), field("top_track_len_blocks"), "a shingled one has one length");
}

#[test]
fn an_interlaced_header_has_version_3_and_both_lengths() {
    let rule = Rule::Neighbours(NeighbourSpec {
        bottom_track_len: Blocks::new(512),
        top_track_len: Blocks::new(410),
    });
    let spec = GeometrySpec { len: Blocks::new(3 << 20), rule };
    let header = Header { geometry: Geometry::new(spec).unwrap(), ..header() };
    let bytes = header.encode();
    let hex = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
    assert_eq!(hex(&bytes[8..16]), "0300000004000000", "version and rule");
    assert!(bytes[32..64].iter().all(|&b| b == 0), "no zones");
    assert_eq!(hex(&bytes[72..80]), "0000400000000000", "data_offset_bytes: as where shingled");
    assert_eq!(
        hex(&bytes[216..240]),
        "000200000000000000000000000000009a01000000000000",
        "track_len_blocks, no overlap, reserved, top_track_len_blocks"
    );
    assert!(bytes[240..4092].iter().all(|&b| b == 0), "nothing outside the fields");
    assert_eq!(Header::decode(&bytes), Ok(header));
    let refused = |at: usize, byte: u8| {
        let mut bytes = bytes;
        bytes[at] = byte;
        let crc = crc32c::crc32c(&bytes[..CRC]);
        put_u32(&mut bytes, CRC, crc);
        Header::decode(&bytes).unwrap_err()
    };
    let field = |field| HeaderFault::Field { field };
    assert_eq!(refused(8, 2), field("format_version"), "version 2 had shingled tracks only");
    assert_eq!(refused(12, 3), field("top_track_len_blocks"));
    assert_eq!(refused(224, 1), field("overlap_tracks"));
    assert_eq!(refused(228, 1), field("reserved"));
    assert_eq!(refused(240, 1), field("reserved"));
    assert_eq!(refused(217, 0), field("geometry"), "a track of no block");
}

#[test]
fn marks_round_trip_and_every_flipped_bit_is_noticed() {
    for mark in [None, Some(Mark::Valid), Some(Mark::Destroyed)] {
        let byte = encode_mark(mark);
        assert_eq!(decode_mark(byte), Ok(mark));
        for bit in 0..8 {
            assert!(decode_mark(byte ^ (1 << bit)).is_err());
        }
    }
    assert_eq!([None, Some(Mark::Valid), Some(Mark::Destroyed)].map(encode_mark), [0, 15, 51]);
}

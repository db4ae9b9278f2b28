use super::*;

fn superblock() -> Superblock {
    Superblock {
        id: 0x1122_3344_5566_7788,
        inner_len: Blocks::new(1 << 20),
        track_len: Blocks::new(64),
        overlap_tracks: 16,
        band_len: Blocks::new(10_240),
        band_count: 80,
        log_len: Blocks::new(0x0456),
        run_count_max: 0x8000,
        gather_len: Blocks::new(0x0400),
        read_back: ReadBack::WholeBand,
        staging: Staging::Journaled,
    }
}

fn run(start: u64, len: u64) -> BlockRange {
    BlockRange::new(Lba::new(start), Blocks::new(len))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

fn records() -> [Record; 6] {
    [
        Record::Valid(vec![run(1, 2), run(0x0304, 5)]),
        Record::Dead(vec![run(9, 1)]),
        Record::Rewrite(Rewrite { seq: 7, slot: 1, crc: 0xAABB_CCDD, pieces: vec![run(3, 4)] }),
        Record::Done { seq: 7 },
        Record::Synced,
        Record::CheckpointEnd { run_count: 2 },
    ]
}

#[test]
fn golden_bytes() {
    let bytes = superblock().encode();
    let expected = concat!(
        "494d42414e44530a", // magic
        "01000000",         // format_version
        "02000000",         // read_back
        "01000000",         // staging
        "10000000",         // overlap_tracks
        "8877665544332211", // id
        "0000100000000000", // inner_len_blocks
        "4000000000000000", // track_len_blocks
        "0028000000000000", // band_len_blocks
        "5000000000000000", // band_count
        "5604000000000000", // log_len_blocks
        "0080000000000000", // run_count_max
        "0004000000000000", // gather_len_blocks
    );
    assert_eq!(hex(&bytes[..88]), expected);
    assert!(bytes[88..4092].iter().all(|&b| b == 0), "nothing outside the fields");
    let header = encode_region_header(5, 6);
    let expected = "494d424c4f47310a010000000000000005000000000000000600000000000000";
    assert_eq!(hex(&header[..32]), expected);
    assert!(header[32..4092].iter().all(|&b| b == 0), "nothing outside the fields");
    let expected = [
        "0102000000010000000000000002000000000000000403000000000000\
         0500000000000000",
        "02010000000900000000000000\
         0100000000000000",
        "03070000000000000001000000ddccbbaa01000000\
         03000000000000000400000000000000",
        "040700000000000000",
        "05",
        "060200000000000000",
    ];
    assert_eq!(records().map(|record| hex(&record.encode())), expected);
}

#[test]
fn everything_round_trips() {
    assert_eq!(Superblock::decode(&superblock().encode()), Ok(superblock()));
    let header = encode_region_header(5, 6);
    assert_eq!(decode_region_header(5, &header), RegionHead::Log { epoch: 6 });
    assert_eq!(decode_region_header(4, &header), RegionHead::Absent, "another drive's");
    assert_eq!(decode_region_header(5, &[0; BLOCK_LEN_BYTES]), RegionHead::Absent);
    for record in records() {
        assert_eq!(Record::decode(&record.encode()), Some(record));
    }
}

#[test]
fn every_flipped_bit_of_a_block_is_noticed() {
    let (superblock, header) = (superblock().encode(), encode_region_header(5, 6));
    for at in 0..BLOCK_LEN_BYTES {
        for bit in 0..8 {
            let mut damaged = superblock;
            damaged[at] ^= 1 << bit;
            assert!(Superblock::decode(&damaged).is_err(), "byte {at} bit {bit}");
            let mut damaged = header;
            damaged[at] ^= 1 << bit;
            let head = decode_region_header(5, &damaged);
            assert_eq!(head, RegionHead::Rotten, "byte {at} bit {bit}");
        }
    }
}

#[test]
fn truncated_and_random_records_are_refused_or_read_and_never_panic() {
    for record in records() {
        let bytes = record.encode();
        for len in 0..bytes.len() {
            assert_eq!(Record::decode(&bytes[..len]), None, "{record:?} cut to {len}");
        }
        let long = [&bytes[..], &[0]].concat();
        assert_eq!(Record::decode(&long), None, "{record:?} with a byte too many");
    }
    let mut prng = imbrex_clockwork::Prng::new(1);
    for _ in 0..20_000 {
        let mut bytes = vec![0; prng.below(60) as usize];
        prng.fill(&mut bytes);
        if let Some(first) = bytes.first_mut() {
            *first %= 8;
        }
        if let Some(record) = Record::decode(&bytes) {
            assert_eq!(record.encode(), bytes);
        }
    }
    for at in [0, 4] {
        let mut wrapping = Record::Valid(vec![run(1, 2)]).encode();
        wrapping[5 + 2 * at..5 + 2 * at + 8].fill([0xFF, 0][at / 4]);
        assert_eq!(Record::decode(&wrapping), None, "it wraps around, or is empty");
    }
}

use super::*;
use imbrex_clockwork::Prng;

fn range(start: u64, len: u64) -> BlockRange {
    BlockRange::new(Lba::new(start), Blocks::new(len))
}

fn superblock() -> Superblock {
    Superblock {
        id: 0x1122_3344_5566_7788,
        number: 9,
        drive_len: Blocks::new(40 * 64),
        zone_len: Blocks::new(64),
        zone_count: 40,
        journal_zone_count: 4,
        len: Blocks::new(1_344),
        checkpoint: Stored { zones: vec![ZoneId(7), ZoneId(39)], len_bytes: 5_000, crc: 0xABCD },
    }
}

fn records() -> Vec<Record> {
    vec![
        Record::Evicted { range: range(100, 20), at: Pba::new(500) },
        Record::Trimmed { range: range(0, 3) },
        Record::Moved { range: range(7, 1), at: Pba::new(640) },
        Record::Emptied { zone: ZoneId(11) },
        Record::Opened { zone: ZoneId(12), generation: 0x99 },
        Record::Sum { at: Pba::new(641), sum: Sum { lba: Lba::new(8), crc: 0xBEEF } },
        Record::Data { range: range(90, 2), at: Pba::new(129), crc: 0xCAFE },
    ]
}

fn header() -> Vec<u8> {
    encode_header(77, 12, Pba::new(128), &records(), Blocks::new(2))
}

fn run(start: u64, len: u64, at: u64) -> Run {
    Run { range: range(start, len), at: Pba::new(at) }
}

fn checkpoint() -> Checkpoint {
    Checkpoint {
        seq: 13,
        next: Pba::new(131),
        mapped: vec![run(0, 5, 900), run(5, 1, 100), run(1 << 40, 70_000, 3)],
        copies: vec![run(2, 2, 64)],
        copy_crcs: vec![5, 0xFFFF_FFFF],
        lost: vec![range(7, 1), range(9, 300)],
        generations: vec![(ZoneId(12), 0x99)],
        sums: vec![
            (Pba::new(641), Sum { lba: Lba::new(8), crc: 0xBEEF }),
            (Pba::new(642), Sum::NONE),
        ],
    }
}

fn encoded_checkpoint() -> Vec<u8> {
    let checkpoint = checkpoint();
    encode_checkpoint(77, &checkpoint, (3, checkpoint.mapped.iter().copied()))
}

fn sums() -> Vec<Sum> {
    (0..STRETCH_LEN).map(|n| Sum { lba: Lba::new(1000 + n), crc: 7 * n as u32 }).collect()
}

/// Bytes as the format page has them: these never change without a new version.
#[test]
fn golden_bytes() {
    let bytes = superblock().encode();
    assert_eq!(&bytes[..8], b"IMSMRSB\n");
    assert_eq!(
        bytes[8..24],
        [2, 0, 0, 0, 2, 0, 0, 0, 0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11]
    );
    assert_eq!(bytes[80..92], [7, 0, 0, 0, 39, 0, 0, 0, 0, 0, 0, 0]);
    let header = header();
    assert_eq!(header.len(), BLOCK_LEN_BYTES);
    assert_eq!(&header[..12], b"IMSMRJE\n\x02\0\0\0");
    assert_eq!(header[32..40], [7, 0, 0, 0, 2, 0, 0, 0]);
    assert_eq!(header[48..56], [128, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(header[64..80], [2, 0, 0, 0, 0, 0, 0, 0, 100, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(header[64 + 6 * 32..][..8], [1, 0, 0, 0, 0xFE, 0xCA, 0, 0]);
    let checkpoint = encoded_checkpoint();
    assert_eq!(&checkpoint[..12], b"IMSMRCP\n\x02\0\0\0");
    // 0 blocks on, 900 blocks on (zigzag 1800), 5 long.
    assert_eq!(checkpoint[80..84], [0, 0x88, 0x0E, 5]);
    let summary = encode_summary(77, Lba::new(127), 3, &sums());
    assert_eq!(&summary[..16], b"IMSMRZS\n\x02\0\0\0\x7F\0\0\0");
    assert_eq!(
        summary[16..40],
        [[77, 0, 0, 0], [0; 4], [127, 0, 0, 0], [0; 4], [3, 0, 0, 0], [0; 4]].concat()
    );
    assert_eq!(summary[76..88], [0xE9, 3, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0]);
    // CRC-32C of eight bytes of the address, then the block.
    assert_eq!(Sum::of(Lba::new(1), &[0; BLOCK_LEN_BYTES]).crc, 0xFEF7_B879);
}

#[test]
fn what_was_written_is_read() {
    assert_eq!(Superblock::decode(&superblock().encode()[..]), Ok(superblock()));
    let bytes = header();
    assert_eq!(peek_header(77, Pba::new(128), &bytes), Some(Blocks::new(1)));
    assert_eq!(peek_header(78, Pba::new(128), &bytes), None, "another device");
    assert_eq!(peek_header(77, Pba::new(129), &bytes), None, "another place");
    let entry = decode_header(&bytes).unwrap().unwrap();
    assert_eq!((entry.seq, entry.data_len, entry.records), (12, Blocks::new(2), records()));
    assert_eq!(decode_checkpoint(77, &encoded_checkpoint()), Ok(checkpoint()));
    let summary = encode_summary(77, Lba::new(127), 3, &sums());
    assert_eq!(decode_summary(77, Lba::new(127), 3, &summary), Some(sums()));
    assert_eq!(decode_summary(78, Lba::new(127), 3, &summary), None, "another device");
    assert_eq!(decode_summary(77, Lba::new(255), 3, &summary), None, "another place");
    assert_eq!(decode_summary(77, Lba::new(127), 4, &summary), None, "another life of the zone");
}

#[test]
fn a_version_is_told_and_damage_is_none() {
    let mut bytes = superblock().encode();
    bytes[8] = 3;
    assert_eq!(Superblock::decode(&bytes[..]), Err(Fault::Version { got: 3 }));
    assert_eq!(Superblock::decode(&[0; BLOCK_LEN_BYTES]), Err(Fault::None));
}

/// Whatever is flipped, cut or random: an error or a difference, never a panic or a wrong answer.
#[test]
fn damage_is_found_and_never_a_panic() {
    let mut prng = Prng::new(5);
    let (whole_super, whole_header, whole_checkpoint) =
        (superblock().encode(), header(), encoded_checkpoint());
    let whole_summary = encode_summary(77, Lba::new(127), 3, &sums());
    for _ in 0..4_000 {
        let mut bytes = whole_super.to_vec();
        let bit = prng.below(bytes.len() as u64 * 8);
        bytes[bit as usize / 8] ^= 1 << (bit % 8);
        assert!(Superblock::decode(&bytes).is_err(), "bit {bit}");
        let mut bytes = whole_header.clone();
        bytes[bit as usize / 8] ^= 1 << (bit % 8);
        assert_eq!(decode_header(&bytes), Ok(None), "bit {bit}");
        let mut bytes = whole_summary;
        bytes[bit as usize / 8] ^= 1 << (bit % 8);
        assert_eq!(decode_summary(77, Lba::new(127), 3, &bytes), None, "bit {bit}");
        let mut bytes = whole_checkpoint.clone();
        let bit = prng.below(bytes.len() as u64 * 8);
        bytes[bit as usize / 8] ^= 1 << (bit % 8);
        // Its checksum is in the superblock: here it must only not panic.
        let _ = decode_checkpoint(77, &bytes);
        let len = prng.below(whole_checkpoint.len() as u64) as usize;
        assert!(decode_checkpoint(77, &whole_checkpoint[..len]).is_err(), "{len} bytes");
        let random: Vec<u8> = (0..BLOCK_LEN_BYTES).map(|_| prng.below(256) as u8).collect();
        assert!(Superblock::decode(&random).is_err());
        assert_eq!(peek_header(77, Pba::new(0), &random), None);
        assert_eq!(decode_summary(77, Lba::new(127), 3, &random), None);
        let mut tail = whole_checkpoint[..CHECKPOINT_FIXED].to_vec();
        tail.extend_from_slice(&random[..200]);
        let _ = decode_checkpoint(77, &tail);
    }
}

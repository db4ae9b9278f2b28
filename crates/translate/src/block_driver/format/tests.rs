use super::super::checkpoint_format::{
    CHECKPOINT_FIXED, Checkpoint, CheckpointBytes, Run, decode_checkpoint, decode_part, encode_part,
};
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
        checkpoint: Stored {
            copies: [vec![ZoneId(7), ZoneId(39)], vec![ZoneId(8)]],
            len_bytes: 5_000,
            number: 6,
            is_open_ended: false,
            deltas: Deltas::default(),
        },
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
        Record::Data { lba: Lba::new(90), at: Pba::new(130), crc: 0xCAFE },
    ]
}

fn header() -> Vec<u8> {
    encode_header(77, [12, 9], Pba::new(128), &records(), Blocks::new(1))
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
    let mapped = checkpoint.mapped.iter().copied();
    let mut bytes = CheckpointBytes::new(77, &checkpoint, Some(3), mapped);
    bytes.make(usize::MAX, &mut |_, _, _| {});
    bytes.made_from(0).to_vec()
}

fn sums() -> Vec<Sum> {
    (0..STRETCH_LEN).map(|n| Sum { lba: Lba::new(1000 + n), crc: 7 * n as u32 }).collect()
}

/// The bytes of the format page: they never change without a new version.
#[test]
fn golden_bytes() {
    let bytes = superblock().encode();
    assert_eq!(&bytes[..8], b"IMSMRSB\n");
    assert_eq!(
        bytes[8..24],
        [3, 0, 0, 0, 2, 0, 0, 0, 0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11]
    );
    assert_eq!(bytes[72..88], [1, 0, 0, 0, 0, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(bytes[88..104], [7, 0, 0, 0, 39, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0]);
    let header = header();
    assert_eq!(header.len(), 2 * BLOCK_LEN_BYTES);
    assert_eq!(header[..BLOCK_LEN_BYTES], header[BLOCK_LEN_BYTES..]);
    assert_eq!(&header[..12], b"IMSMRJE\n\x03\0\0\0");
    assert_eq!(header[32..44], [7, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(header[48..56], [128, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(header[64..80], [2, 0, 0, 0, 0, 0, 0, 0, 100, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(header[64 + 6 * 32..][..8], [1, 0, 0, 0, 0xFE, 0xCA, 0, 0]);
    let checkpoint = encoded_checkpoint();
    assert_eq!(&checkpoint[..12], b"IMSMRCP\n\x03\0\0\0");
    // 0 blocks on, 900 blocks on (zigzag 1800), 5 long.
    assert_eq!(checkpoint[80..84], [0, 0x88, 0x0E, 5]);
    let part = encode_part(77, 6, 1, &[9; 5]);
    assert_eq!(part[..8], [9, 9, 9, 9, 9, 0, 0, 0]);
    assert_eq!(part[4092..], [200, 182, 26, 132]);
    let summary = encode_summary(77, Lba::new(127), 3, &sums());
    assert_eq!(&summary[..16], b"IMSMRZS\n\x03\0\0\0\x7F\0\0\0");
    assert_eq!(
        summary[16..40],
        [[77, 0, 0, 0], [0; 4], [127, 0, 0, 0], [0; 4], [3, 0, 0, 0], [0; 4]].concat()
    );
    assert_eq!(summary[76..88], [0xE9, 3, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0]);
    // CRC-32C of eight bytes of the address, then the block.
    assert_eq!(Sum::of(Lba::new(1), &[0; BLOCK_LEN_BYTES]).crc, 0xFEF7_B879);
}

#[test]
fn written_structures_are_read_back() {
    assert_eq!(Superblock::decode(&superblock().encode()[..]), Ok(superblock()));
    let bytes = header();
    let block = |id: u64, at: u64, offset: u64| {
        let block = &bytes[offset as usize * BLOCK_LEN_BYTES..][..BLOCK_LEN_BYTES];
        decode_header_block(id, Pba::new(at), Blocks::new(offset), block)
    };
    assert_eq!(block(78, 128, 0), None, "another device");
    assert_eq!(block(77, 129, 0), None, "another place");
    let entry = block(77, 128, 0).unwrap();
    assert_eq!(block(77, 128, 1), Some(entry.clone()));
    assert_eq!((entry.seq, entry.data_len), (12, Blocks::new(1)));
    assert_eq!((entry.data_offset(), entry.records), (Blocks::new(2), records()));
    assert_eq!(decode_checkpoint(77, &encoded_checkpoint()), Ok(checkpoint()));
    let part = encode_part(77, 6, 1, &[9; 5]);
    assert_eq!(
        decode_part(77, 6, 1, &part).map(|part| part[..6].to_vec()),
        Some(vec![9, 9, 9, 9, 9, 0])
    );
    for (id, number, index) in [(78, 6, 1), (77, 5, 1), (77, 6, 2)] {
        assert_eq!(decode_part(id, number, index, &part), None, "another one");
    }
    let summary = encode_summary(77, Lba::new(127), 3, &sums());
    assert_eq!(decode_summary(77, Lba::new(127), 3, &summary), Some(sums()));
    assert_eq!(decode_summary(78, Lba::new(127), 3, &summary), None, "another device");
    assert_eq!(decode_summary(77, Lba::new(255), 3, &summary), None, "another place");
    assert_eq!(decode_summary(77, Lba::new(127), 4, &summary), None, "another life of the zone");
}

/// A header of several blocks: each block says where it belongs and how long the header is.
#[test]
fn a_long_header_is_known_by_any_of_its_blocks() {
    let records: Vec<Record> = (0..300).map(|n| Record::Emptied { zone: ZoneId(n) }).collect();
    let bytes = encode_header(77, [12, 9], Pba::new(128), &records, Blocks::ZERO);
    assert_eq!(bytes.len(), 6 * BLOCK_LEN_BYTES);
    let mut found = Vec::new();
    for (offset, block) in (0..).zip(bytes.chunks(BLOCK_LEN_BYTES)) {
        let at = |offset| decode_header_block(77, Pba::new(128), Blocks::new(offset), block);
        let part = at(offset).unwrap();
        assert_eq!((part.header_len, part.data_offset()), (Blocks::new(3), Blocks::new(6)));
        found.extend(part.records);
        assert_eq!(at(offset + 1), None, "block {offset} belongs elsewhere");
    }
    assert_eq!(found, [&records[..], &records[..]].concat());
}

#[test]
fn another_version_is_reported_and_damage_is_no_superblock() {
    let mut bytes = superblock().encode();
    bytes[8] = 2;
    assert_eq!(Superblock::decode(&bytes[..]), Err(Fault::Version { got: 2 }));
    assert_eq!(Superblock::decode(&[0; BLOCK_LEN_BYTES]), Err(Fault::None));
}

/// After any flipped bit, cut or random bytes: an error or a difference, never a panic or a wrong
/// answer.
#[test]
fn damage_is_detected_without_a_panic() {
    let mut prng = Prng::new(5);
    let (whole_super, whole_header, whole_checkpoint) =
        (superblock().encode(), header(), encoded_checkpoint());
    let whole_summary = encode_summary(77, Lba::new(127), 3, &sums());
    let whole_part = encode_part(77, 6, 1, &[9; 5]);
    for _ in 0..4_000 {
        let mut bytes = whole_super.to_vec();
        let bit = prng.below(bytes.len() as u64 * 8);
        bytes[bit as usize / 8] ^= 1 << (bit % 8);
        assert!(Superblock::decode(&bytes).is_err(), "bit {bit}");
        let header_block = |bytes: &[u8]| {
            decode_header_block(77, Pba::new(128), Blocks::ZERO, &bytes[..BLOCK_LEN_BYTES])
        };
        let mut bytes = whole_header.clone();
        bytes[bit as usize / 8] ^= 1 << (bit % 8);
        assert_eq!(header_block(&bytes), None, "bit {bit}");
        let mut bytes = whole_part;
        bytes[bit as usize / 8] ^= 1 << (bit % 8);
        assert_eq!(decode_part(77, 6, 1, &bytes), None, "bit {bit}");
        let mut bytes = whole_summary;
        bytes[bit as usize / 8] ^= 1 << (bit % 8);
        assert_eq!(decode_summary(77, Lba::new(127), 3, &bytes), None, "bit {bit}");
        let mut bytes = whole_checkpoint.clone();
        let bit = prng.below(bytes.len() as u64 * 8);
        bytes[bit as usize / 8] ^= 1 << (bit % 8);
        // Its blocks have checksums, so here it must only not panic.
        let _ = decode_checkpoint(77, &bytes);
        let len = prng.below(whole_checkpoint.len() as u64) as usize;
        assert!(decode_checkpoint(77, &whole_checkpoint[..len]).is_err(), "{len} bytes");
        let random: Vec<u8> = (0..BLOCK_LEN_BYTES).map(|_| prng.below(256) as u8).collect();
        assert!(Superblock::decode(&random).is_err());
        assert_eq!(header_block(&random), None);
        assert_eq!(decode_part(77, 6, 1, &random), None);
        assert_eq!(decode_summary(77, Lba::new(127), 3, &random), None);
        let mut tail = whole_checkpoint[..CHECKPOINT_FIXED].to_vec();
        tail.extend_from_slice(&random[..200]);
        let _ = decode_checkpoint(77, &tail);
    }
}

//! The catalog's bytes: golden bytes and decoding of garbage; and the accounts of the namespace.

use super::format::{HeaderFlaw, decode_edits, lacks_seal, seal};
use super::{Edit, FileId, FileRecord, Header, InvalidEdit, Namespace, Shape, encode_edits};
use crate::extent::Extent;
use crate::hints::{FileKind, GroupId};
use crate::placement::PlacementOptions;
use imbrex_clockwork::Prng;
use imbrex_disk::{BlockRange, Blocks, Lba};

fn header() -> Header {
    Header {
        is_paired: false,
        is_sealed: true,
        is_mirrored: true,
        shape: Shape {
            rule: 2,
            disk_len_blocks: 0x0102_0304,
            zone_len_blocks: 65_536,
            zone_capacity_blocks: 65_000,
            conventional_zone_count: 5,
        },
        sequence: 7,
        log_id: 0x1122_3344_5566_7788,
        body_len_bytes: 4242,
        body_crc32c: 0xdead_beef,
        placement: "zone-per-level".to_owned(),
        placement_options: PlacementOptions { free_percent_least: 20, unit_len: Blocks::new(1024) },
        layout: "gear".to_owned(),
        next_file_id: 99,
        format_id: 3,
        predecessor: 6,
        predecessor_end: Blocks::new(0x0109),
        is_unfinished: false,
    }
}

fn file(id: u64, extents: &[(u64, u64)]) -> FileRecord {
    FileRecord {
        id: FileId(id),
        kind: FileKind::Table,
        level: 3,
        written_level: 3,
        group: Some(GroupId(17)),
        stream: 2,
        is_open: false,
        is_beside: false,
        span: None,
        extents: extents
            .iter()
            .map(|&(start, len_bytes)| Extent { start: Lba::new(start), len_bytes })
            .collect(),
    }
}

/// A file of a set.
fn member(id: u64) -> FileRecord {
    let span = BlockRange::new(Lba::new(500), Blocks::new(20));
    FileRecord { span: Some(span), ..file(id, &[(505, 5000)]) }
}

/// A file on the flash drive.
fn beside(id: u64) -> FileRecord {
    FileRecord { is_beside: true, ..file(id, &[]) }
}

fn one_of_each() -> Vec<Edit> {
    let name = |text: &str| text.to_owned();
    let extent = Extent { start: Lba::new(300), len_bytes: 8192 };
    vec![
        Edit::Add { name: name("a"), file: file(1, &[(100, 5000)]) },
        Edit::Add {
            name: name("wal"),
            file: FileRecord { is_open: true, group: None, kind: FileKind::Log, ..file(2, &[]) },
        },
        Edit::Add { name: name("set"), file: member(3) },
        Edit::Grow { id: FileId(2), extent },
        Edit::Finish { id: FileId(2), extents: vec![extent] },
        Edit::Link { existing: name("a"), name: name("b") },
        Edit::Rename { from: name("b"), to: name("c") },
        Edit::SetLevel { name: name("c"), level: 4 },
        Edit::Move { id: FileId(1), extents: vec![Extent { start: Lba::new(7), len_bytes: 5000 }] },
        Edit::AppAppend(b"one".to_vec()),
        Edit::AppReplace(b"all".to_vec()),
        Edit::Pair { flash_id: 77, age: 3 },
        Edit::Add { name: name("fast"), file: beside(4) },
        Edit::Add { name: name("faster"), file: beside(5) },
        Edit::Remove { name: name("fast") },
        Edit::Gone { id: FileId(6) },
        Edit::Swept { id: FileId(6) },
        Edit::Pair { flash_id: 77, age: 5 },
        Edit::Remove { name: name("a") },
    ]
}

#[test]
fn the_header_is_these_bytes() {
    let block = header().encode();
    let mut golden = b"IMBXCAT\n".to_vec();
    golden.extend([4, 0, 0, 0, 2, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0]);
    golden.extend([0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11]);
    golden.extend([0x92, 0x10, 0, 0, 0, 0, 0, 0, 0xef, 0xbe, 0xad, 0xde, 14, 0, 4, 0]);
    golden.extend(b"zone-per-level");
    golden.resize(112, 0);
    golden.extend(b"gear");
    golden.resize(176, 0);
    golden.extend([4, 3, 2, 1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0]);
    golden.extend([0xe8, 0xfd, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0]);
    golden.extend([99, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0]);
    golden.extend([20, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0]);
    golden.extend([6, 0, 0, 0, 0, 0, 0, 0, 9, 1, 0, 0, 0, 0, 0, 0]);
    assert_eq!(block[..256], golden);
    golden.resize(508, 0);
    golden.extend(crc32c::crc32c(&golden).to_le_bytes());
    golden.resize(4096, 0);
    assert_eq!(block, golden);
    assert_eq!(Header::decode(&block), Ok(header()));
    let unfinished = Header { is_unfinished: true, ..header() };
    assert_eq!(unfinished.encode()[204..208], [2, 0, 0, 0]);
    assert_eq!(Header::decode(&unfinished.encode()), Ok(unfinished));
}

/// A header of an older version, before its checksum.
fn old_header(version: u8) -> (Vec<u8>, Header) {
    let old =
        Header { is_mirrored: false, predecessor: 0, predecessor_end: Blocks::ZERO, ..header() };
    let mut block = Header { is_mirrored: true, ..old.clone() }.encode();
    block[8] = version;
    (block, old)
}

/// Versions 1 and 2 are read but no longer written.
#[test]
fn headers_without_a_seal_are_read() {
    for (version, is_paired) in [(1, false), (2, true)] {
        let (mut block, old) = old_header(version);
        block[508..512].fill(0);
        let crc = crc32c::crc32c(&block[..4092]);
        block[4092..].copy_from_slice(&crc.to_le_bytes());
        let got = Header::decode(&block).unwrap();
        assert_eq!(got, Header { is_paired, is_sealed: false, ..old });
        assert_eq!(got.body_len(), Blocks::new(2));
        block[300] ^= 1;
        assert!(matches!(Header::decode(&block), Err(HeaderFlaw::Damaged(_))));
    }
}

/// Version 3 is read but no longer written: the other region has no copy.
#[test]
fn a_header_of_a_catalog_without_a_copy_is_read() {
    let (mut block, old) = old_header(3);
    let crc = crc32c::crc32c(&block[..508]);
    block[508..512].copy_from_slice(&crc.to_le_bytes());
    assert_eq!(Header::decode(&block), Ok(old));
}

/// A power cut keeps the first sector or loses it, and does the same at random for each of the
/// others.
#[test]
fn a_header_is_whole_or_blank() {
    let mut block = header().encode();
    block[512..].fill(7);
    assert_eq!(Header::decode(&block), Ok(header()));
    block[..512].fill(0);
    assert_eq!(Header::decode(&block), Err(HeaderFlaw::Blank));
}

#[test]
fn a_body_always_has_a_seal() {
    for len in [0, 1, 4094, 4095, 4096, 4097] {
        let blocks = seal(vec![0; len]);
        let header = Header { body_len_bytes: len as u64, ..header() };
        assert_eq!(blocks.len() as u64, header.body_len().bytes());
        assert!(!lacks_seal(&blocks));
        assert!(blocks[..len].iter().all(|&byte| byte == 0));
    }
    assert!(lacks_seal(&[0; 4096]));
}

#[test]
fn edits_are_these_bytes() {
    let edits = [
        Edit::Add { name: "a".to_owned(), file: file(1, &[(100, 5000)]) },
        Edit::SetLevel { name: "a".to_owned(), level: 4 },
        Edit::Add { name: "s".to_owned(), file: member(3) },
    ];
    let mut golden = vec![3, 0, 0, 0];
    golden.extend([1, 1, 0, b'a', 1, 0, 0, 0, 0, 0, 0, 0, 2, 3, 1, 17, 0, 0, 0, 0, 0, 0, 0]);
    golden.extend([2, 0, 0, 0, 1, 0, 0, 0, 100, 0, 0, 0, 0, 0, 0, 0, 0x88, 0x13]);
    golden.extend([0, 0, 0, 0, 0, 0]);
    golden.extend([5, 1, 0, b'a', 4]);
    golden.extend([1, 1, 0, b's', 3, 0, 0, 0, 0, 0, 0, 0, 2, 3, 5, 17, 0, 0, 0, 0, 0, 0, 0]);
    golden.extend([2, 0, 0, 0, 0xf4, 1, 0, 0, 0, 0, 0, 0, 20, 0, 0, 0, 0, 0, 0, 0]);
    golden.extend([1, 0, 0, 0, 0xf9, 1, 0, 0, 0, 0, 0, 0, 0x88, 0x13, 0, 0, 0, 0, 0, 0]);
    assert_eq!(encode_edits(&edits), golden);
}

#[test]
fn a_moved_file_is_these_bytes() {
    let moved = FileRecord { level: 4, ..file(1, &[]) };
    let edits = [Edit::Add { name: "a".to_owned(), file: moved }];
    let mut golden = vec![1, 0, 0, 0, 1, 1, 0, b'a', 1, 0, 0, 0, 0, 0, 0, 0, 2, 4, 17];
    golden.extend([17, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 0]);
    assert_eq!(encode_edits(&edits), golden);
    assert_eq!(decode_edits(&golden), Ok(edits.to_vec()));
    // The same file in another encoding: it was moved to another level.
    golden[17] = 3;
    assert!(decode_edits(&golden).unwrap_err().contains("moved"));
}

#[test]
fn a_pair_is_these_bytes() {
    let block = Header { is_paired: true, ..header() }.encode();
    assert_eq!((block[8], &block[204..208]), (4, &[1, 0, 0, 0][..]));
    assert!(Header::decode(&block).unwrap().is_paired);
    let edits = [
        Edit::Pair { flash_id: 0x0102, age: 9 },
        Edit::Add { name: "f".to_owned(), file: beside(3) },
        Edit::Gone { id: FileId(4) },
        Edit::Swept { id: FileId(4) },
    ];
    let mut golden = vec![4, 0, 0, 0, 11, 2, 1, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0];
    golden.extend([1, 1, 0, b'f', 3, 0, 0, 0, 0, 0, 0, 0, 2, 3, 9, 17, 0, 0, 0, 0, 0, 0, 0]);
    golden.extend([2, 0, 0, 0, 0, 0, 0, 0]);
    golden.extend([12, 4, 0, 0, 0, 0, 0, 0, 0, 13, 4, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(encode_edits(&edits), golden);
}

#[test]
fn a_file_beside_is_gone_before_it_is_swept() {
    let mut namespace = Namespace::default();
    let lone = Edit::Add { name: "f".to_owned(), file: beside(3) };
    assert!(namespace.apply(lone.clone()).is_err(), "no flash drive is named");
    namespace.apply(Edit::Pair { flash_id: 1, age: 5 }).unwrap();
    namespace.apply(Edit::Pair { flash_id: 1, age: 4 }).unwrap();
    assert!(namespace.apply(Edit::Pair { flash_id: 2, age: 6 }).is_err());
    namespace.apply(lone).unwrap();
    let extent = Extent { start: Lba::new(300), len_bytes: 8192 };
    assert!(namespace.apply(Edit::Move { id: FileId(3), extents: vec![extent] }).is_err());
    assert!(namespace.apply(Edit::Gone { id: FileId(3) }).is_err(), "it has a name");
    let link = Edit::Link { existing: "f".to_owned(), name: "g".to_owned() };
    namespace.apply(link).unwrap();
    namespace.apply(Edit::Remove { name: "f".to_owned() }).unwrap();
    assert!(namespace.apply(Edit::Swept { id: FileId(3) }).is_err(), "g is left");
    let file = namespace.file(FileId(3)).unwrap();
    let cost_bytes = file.extents_cost_bytes() + namespace.names_of(FileId(3)).cost_bytes();
    let left_bytes = file.gone_cost_bytes();
    let before_bytes = namespace.encoded_len_bytes();
    namespace.apply(Edit::Remove { name: "g".to_owned() }).unwrap();
    assert_eq!(before_bytes + left_bytes - namespace.encoded_len_bytes(), cost_bytes);
    let pair = namespace.pair().unwrap();
    assert_eq!((pair.age, pair.gone.len(), namespace.next_id()), (5, 1, 4));
    namespace.apply(Edit::Swept { id: FileId(3) }).unwrap();
    assert!(namespace.apply(Edit::Swept { id: FileId(3) }).is_err());
}

#[test]
fn edits_come_back() {
    let edits = one_of_each();
    assert_eq!(decode_edits(&encode_edits(&edits)), Ok(edits));
}

#[test]
fn garbage_never_decodes_to_a_panic() {
    let block = header().encode();
    assert_eq!(Header::decode(&[0; 4096]), Err(HeaderFlaw::Blank));
    assert_eq!(Header::decode(&[9; 4096]), Err(HeaderFlaw::Foreign));
    for bit in (0..8 * 512).step_by(7) {
        let mut flipped = block.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert!(Header::decode(&flipped).is_err(), "bit {bit}");
    }
    let bytes = encode_edits(&one_of_each());
    for len in 0..bytes.len() {
        assert!(decode_edits(&bytes[..len]).is_err(), "cut to {len}");
    }
    for bit in 0..8 * bytes.len() {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        if let Ok(edits) = decode_edits(&flipped) {
            assert_eq!(encode_edits(&edits), flipped, "one encoding an edit list");
        }
    }
    let mut prng = Prng::new(1);
    for _ in 0..2000 {
        let mut noise = vec![0; prng.below(200) as usize];
        prng.fill(&mut noise);
        let _ = decode_edits(&noise);
        // A plausible count, so that the loop is entered.
        if noise.len() > 4 {
            noise[..4].copy_from_slice(&[3, 0, 0, 0]);
            noise[4] %= 12;
            let _ = decode_edits(&noise);
        }
    }
}

#[test]
fn a_future_version_says_so() {
    let mut block = header().encode();
    block[8] = 5;
    let crc = crc32c::crc32c(&block[..508]);
    block[508..512].copy_from_slice(&crc.to_le_bytes());
    assert_eq!(Header::decode(&block), Err(HeaderFlaw::Version(5)));
}

#[test]
fn a_snapshot_makes_the_same_namespace() {
    let mut namespace = Namespace::default();
    for edit in one_of_each() {
        namespace.apply(edit).unwrap();
    }
    namespace.apply(Edit::Link { existing: "wal".into(), name: "wal-2".into() }).unwrap();
    let mut copy = Namespace::default();
    for edit in namespace.checkpoint_edits() {
        copy.apply(edit).unwrap();
    }
    assert_eq!(copy, namespace);
    // The estimate that admission relies on is never too low.
    let encoded = encode_edits(&namespace.checkpoint_edits()).len() as u64;
    assert!(encoded <= 4 + namespace.encoded_len_bytes(), "{encoded}");
}

#[test]
fn a_removed_namespace_weighs_nothing() {
    let mut namespace = Namespace::default();
    let add = |id, name: &str| Edit::Add { name: name.into(), file: file(id, &[(1, 1), (2, 2)]) };
    namespace.apply(add(1, "a")).unwrap();
    namespace.apply(add(2, "b")).unwrap();
    for (id, name) in [(3, "s"), (4, "t")] {
        namespace.apply(Edit::Add { name: name.into(), file: member(id) }).unwrap();
    }
    let extents = vec![Extent { start: Lba::new(9), len_bytes: 5000 }];
    namespace.apply(Edit::Move { id: FileId(4), extents }).unwrap();
    assert_eq!(namespace.file(FileId(4)).unwrap().span, None);
    namespace.apply(Edit::Remove { name: "s".into() }).unwrap();
    namespace.apply(Edit::Remove { name: "t".into() }).unwrap();
    namespace.apply(Edit::Link { existing: "a".into(), name: "c".into() }).unwrap();
    let gone = namespace.apply(Edit::Rename { from: "c".into(), to: "b".into() }).unwrap();
    assert_eq!(gone.map(|file| file.id), Some(FileId(2)));
    assert_eq!(namespace.apply(Edit::Remove { name: "a".into() }), Ok(None));
    let gone = namespace.apply(Edit::Remove { name: "b".into() }).unwrap();
    assert_eq!(gone.map(|file| file.id), Some(FileId(1)));
    assert_eq!(namespace, Namespace::default());
}

#[test]
fn edits_that_do_not_fit_are_errors() {
    let mut namespace = Namespace::default();
    let misfit = |namespace: &mut Namespace, edit: Edit, part: &str| {
        let Err(InvalidEdit(reason)) = namespace.apply(edit) else { panic!("{part} applied") };
        assert!(reason.contains(part), "{reason}");
    };
    misfit(&mut namespace, Edit::Remove { name: "x".into() }, "\"x\"");
    misfit(&mut namespace, Edit::Move { id: FileId(5), extents: vec![] }, "file 5");
    namespace.apply(Edit::Add { name: "a".into(), file: file(1, &[]) }).unwrap();
    misfit(&mut namespace, Edit::Add { name: "a".into(), file: file(2, &[]) }, "exists");
    misfit(&mut namespace, Edit::Add { name: "b".into(), file: file(1, &[]) }, "twice");
    let extent = Extent { start: Lba::new(1), len_bytes: 1 };
    misfit(&mut namespace, Edit::Grow { id: FileId(1), extent }, "not an open log");
}

/// A table that moves down a level without being rewritten counts for its new level, but not as
/// written there. The same holds after a checkpoint.
#[test]
fn a_moved_table_begins_no_level() {
    let mut namespace = Namespace::default();
    for (id, name) in [(1, "a"), (2, "b")] {
        namespace.apply(Edit::Add { name: name.into(), file: file(id, &[(1, 1)]) }).unwrap();
    }
    let unmoved = namespace.clone();
    for name in ["a", "b"] {
        namespace.apply(Edit::SetLevel { name: name.into(), level: 5 }).unwrap();
    }
    let mut copy = Namespace::default();
    namespace.checkpoint_edits().into_iter().for_each(|edit| drop(copy.apply(edit).unwrap()));
    assert_eq!(copy, namespace);
    assert_eq!((copy.largest_written_level(), copy.fullest_level_of(2)), (3, 5));
    assert_eq!(copy.largest_written_level_of(2), 3);
    assert_eq!(copy.file(FileId(1)).unwrap().level, 5);
    for name in ["a", "b"] {
        copy.apply(Edit::SetLevel { name: name.into(), level: 3 }).unwrap();
    }
    assert_eq!(copy, unmoved);
}

/// Names of a few files, of all lengths, are linked, moved to other levels, renamed and removed in
/// all orders. The estimate that admission relies on is never too low, and recovery arrives at the
/// same estimate.
#[test]
fn links_never_outgrow_what_they_are_charged() {
    let mut prng = Prng::new(5);
    for _ in 0..200 {
        let mut namespace = Namespace::default();
        let mut names: Vec<String> = Vec::new();
        for id in 1..60 {
            let len = if prng.below(2) == 0 { 1024 } else { 4 + prng.below(60) as usize };
            let name = format!("{:x<len$}", format!("{:03}", prng.below(1000)));
            let of = |prng: &mut Prng, names: &[String]| {
                names[prng.below(names.len() as u64) as usize].clone()
            };
            let edit = match prng.below(9) {
                _ if names.is_empty() => Edit::Add { name: name.clone(), file: file(id, &[]) },
                0 => Edit::Add { name: name.clone(), file: file(id, &[(1, 1)]) },
                1 => Edit::Remove { name: of(&mut prng, &names) },
                8 => {
                    let level = 2 + prng.below(3) as u8;
                    Edit::SetLevel { name: of(&mut prng, &names), level }
                }
                2 => Edit::Rename { from: of(&mut prng, &names), to: name.clone() },
                _ => Edit::Link { existing: of(&mut prng, &names), name: name.clone() },
            };
            if namespace.apply(edit).is_err() {
                continue; // The name is taken.
            }
            names = namespace.list("").map(|(name, _)| name.to_owned()).collect();
            let edits = namespace.checkpoint_edits();
            let (got, charged) = (encode_edits(&edits).len(), namespace.encoded_len_bytes());
            assert!(got as u64 <= 4 + charged, "{got} of {charged}");
            let mut copy = Namespace::default();
            edits.into_iter().for_each(|edit| drop(copy.apply(edit).unwrap()));
            assert_eq!(copy, namespace);
        }
    }
}

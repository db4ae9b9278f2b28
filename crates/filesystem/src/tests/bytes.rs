//! The tree's records: golden bytes, and garbage.

use crate::format::{HEADER_LEN_BYTES, Malformed, RecordKind, TreeRecord, decode, encode};
use crate::tree::{Change, NodeId, SegmentRecord, StoreId, Tree};
use imbrex_clockwork::Prng;
use imbrex_files::FileKind;

fn sample() -> Vec<Change> {
    let node = NodeId(7);
    vec![
        Change::MakeDir { path: "db".into() },
        Change::Create { path: "db/1.log".into(), node, kind: FileKind::Log, mtime_s: 9 },
        Change::SetBody {
            node,
            mtime_s: 10,
            segments: vec![
                SegmentRecord::Inline(b"hey".to_vec()),
                SegmentRecord::Table { store: StoreId(8), len_bytes: 4097 },
                SegmentRecord::Log { store: StoreId(9), len_bytes: Some(5) },
                SegmentRecord::Log { store: StoreId(10), len_bytes: None },
            ],
        },
        Change::Link { path: "db/2".into(), node },
        Change::Rename { from: "db/2".into(), to: "b".into() },
        Change::Unlink { path: "b".into() },
        Change::Unlink { path: "db/1.log".into() },
        Change::RemoveDir { path: "db".into() },
    ]
}

#[test]
fn golden_bytes() {
    let bytes = encode(RecordKind::Edit, 11, &sample()[..2]);
    let expected: &[u8] = b"IXFS\x01\0\x01\0\
        \x0b\0\0\0\0\0\0\0\x21\0\0\0\xd0\x60\x19\x8b\
        \x01\x02\0db\
        \x03\x07\0\0\0\0\0\0\0\x09\0\0\0\0\0\0\0\x01\x08\0db/1.log";
    assert_eq!(bytes[..20], expected[..20]);
    assert_eq!(bytes[HEADER_LEN_BYTES..], expected[HEADER_LEN_BYTES..]);
    assert_eq!(bytes, expected, "checksum {:02x?}", &bytes[20..24]);
    let bytes = encode(RecordKind::Snapshot, 11, &sample());
    assert_eq!((bytes.len(), crc32c::crc32c(&bytes)), (172, 3_151_425_506));
}

#[test]
fn encoded_changes_decode() {
    for kind in [RecordKind::Edit, RecordKind::Snapshot] {
        let bytes = encode(kind, 11, &sample());
        let record = TreeRecord { kind, next_id: 11, changes: sample() };
        assert_eq!(decode(&bytes), Ok(record));
    }
}

#[test]
fn damage_is_an_error_and_never_a_panic() {
    let bytes = encode(RecordKind::Edit, 11, &sample());
    for len in 0..bytes.len() {
        assert!(decode(&bytes[..len]).is_err(), "cut to {len}");
    }
    for bit in 0..bytes.len() * 8 {
        let mut damaged = bytes.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        assert!(decode(&damaged).is_err(), "bit {bit}");
    }
    let mut newer = bytes.clone();
    newer[4] = 2;
    assert_eq!(decode(&newer), Err(Malformed::Version { got: 2 }));
    assert_eq!(decode(b"IXVE"), Err(Malformed::Foreign));
    // With a repaired checksum, so that the decoder of changes sees garbage too.
    let mut prng = Prng::new(3);
    for _ in 0..20_000 {
        let mut damaged = bytes.clone();
        for _ in 0..=prng.below(4) {
            let at =
                HEADER_LEN_BYTES + prng.below((bytes.len() - HEADER_LEN_BYTES) as u64) as usize;
            damaged[at] = prng.next_u64() as u8;
        }
        let crc = crc32c::crc32c_append(crc32c::crc32c(&damaged[..20]), &damaged[24..]);
        damaged[20..24].copy_from_slice(&crc.to_le_bytes());
        if let Ok(record) = decode(&damaged) {
            let mut tree = Tree::default();
            let _ = record.changes.into_iter().try_for_each(|change| tree.apply(change).map(drop));
            let _ = tree.check();
        }
    }
}

#[test]
fn a_snapshot_makes_the_same_tree() {
    let mut tree = Tree::default();
    for change in sample().into_iter().take(5) {
        tree.apply(change).unwrap();
    }
    tree.check().unwrap();
    let mut again = Tree::default();
    for change in tree.snapshot() {
        again.apply(change).unwrap();
    }
    assert_eq!(tree, again);
}

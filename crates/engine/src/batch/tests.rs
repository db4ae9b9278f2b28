use super::*;
use imbrex_clockwork::Prng;

const KS: KeyspaceId = KeyspaceId(300);

fn sample() -> WriteBatch {
    let mut batch = WriteBatch::new();
    batch.put(KS, b"apple", b"red").unwrap();
    batch.delete(KeyspaceId(0), b"b").unwrap();
    batch.delete_range(KS, b"c", b"d").unwrap();
    batch.put(KS, [7; 200], []).unwrap();
    batch
}

#[test]
fn the_bytes_are_those_of_the_format_page() {
    let mut batch = WriteBatch::new();
    batch.put(KS, b"k", b"vw").unwrap();
    batch.delete(KeyspaceId(1), b"x").unwrap();
    batch.delete_range(KeyspaceId(1), b"a", b"bc").unwrap();
    let expected = [
        &[1, 0x42, 0, 0, 0, 0, 0, 0][..],
        &[3, 0, 0, 0],
        &[1, 0xac, 0x02, 1, b'k', 2, b'v', b'w'],
        &[2, 1, 1, b'x'],
        &[3, 1, 1, b'a', 2, b'b', b'c'],
    ]
    .concat();
    assert_eq!(batch.encode(Seq(0x42)), expected);
}

#[test]
fn operations_come_back_with_their_sequence_numbers() {
    let mut batch = sample();
    let bytes = batch.encode(Seq(10)).to_vec();
    let view = BatchView::decode(&bytes).unwrap();
    let ops: Vec<_> = view.ops().collect();
    assert_eq!(view.first_seq(), Seq(10));
    assert_eq!(view.op_count(), 4);
    assert_eq!(ops.len(), 4);
    let apple = Op { keyspace: KS, kind: Kind::Put, key: b"apple", value: b"red", ..ops[0].1 };
    assert_eq!(ops[0], (Seq(10), apple));
    let range = Op { keyspace: KS, kind: Kind::RangeDelete, key: b"c", value: b"d", ..ops[2].1 };
    assert_eq!(ops[2], (Seq(12), range));
    assert_eq!(ops[3].1.key.len(), 200);
}

#[test]
fn a_single_operation_is_a_batch_of_one() {
    for (kind, value) in [(Kind::Put, &b"value"[..]), (Kind::Put, b""), (Kind::RangeDelete, b"z")] {
        let mut batch = WriteBatch::new();
        batch.add(KS, kind, b"key", Some(value)).unwrap();
        let single = SingleOp::new(Seq(9), KS, kind, b"key", value);
        assert_eq!(single.parts().concat(), batch.encode(Seq(9)));
    }
    let mut batch = WriteBatch::new();
    batch.delete(KS, b"key").unwrap();
    let single = SingleOp::new(Seq(9), KS, Kind::Delete, b"key", b"");
    assert_eq!(single.parts().concat(), batch.encode(Seq(9)));
}

#[test]
fn bad_lengths_and_ranges_are_refused_and_add_nothing() {
    let mut batch = WriteBatch::new();
    let long = vec![0; KEY_LEN_BYTES_MAX + 1];
    assert!(matches!(batch.put(KS, b"", b"v"), Err(EngineError::KeyLen { got_bytes: 0, .. })));
    assert!(matches!(batch.delete(KS, &long), Err(EngineError::KeyLen { .. })));
    let backwards = batch.delete_range(KS, b"b", b"a");
    assert!(matches!(backwards, Err(EngineError::RangeOrder { .. })));
    batch.delete_range(KS, b"a", b"a").unwrap();
    assert!(batch.is_empty());
    batch.put(KS, &long[1..], b"v").unwrap();
    assert_eq!(batch.len(), 1);
    let longest = batch.encode(Seq(1)).to_vec();
    assert_eq!(BatchView::decode(&longest).unwrap().ops().count(), 1);
    batch.clear();
    assert_eq!(batch, WriteBatch::new());
}

#[test]
fn garbage_is_refused_without_a_panic() {
    let mut batch = sample();
    let good = batch.encode(Seq(77)).to_vec();
    for len in 0..good.len() {
        assert!(BatchView::decode(&good[..len]).is_err(), "a batch cut at {len} was accepted");
    }
    for bit in 0..good.len() * 8 {
        let mut bad = good.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        if let Ok(view) = BatchView::decode(&bad) {
            assert_eq!(view.ops().count(), view.op_count() as usize);
        }
    }
    let mut prng = Prng::new(3);
    for _ in 0..20_000 {
        let mut bad = vec![0; prng.below(64) as usize];
        prng.fill(&mut bad);
        if prng.chance(3, 4) && bad.len() >= OPS {
            bad[0] = FORMAT_VERSION;
            bad[OP_COUNT..OPS].copy_from_slice(&[1 + prng.below(4) as u8, 0, 0, 0]);
        }
        if let Ok(view) = BatchView::decode(&bad) {
            assert_eq!(view.ops().count(), view.op_count() as usize);
        }
    }
}

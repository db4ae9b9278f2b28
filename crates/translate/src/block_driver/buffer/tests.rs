use super::*;
use crate::block_driver::regions::{EvictionOrder, Regions};
use imbrex_clockwork::Prng;

fn range(start: u64, len: u64) -> BlockRange {
    BlockRange::new(Lba::new(start), Blocks::new(len))
}

fn spec() -> MapSpec {
    MapSpec { len: Blocks::new(2000), zone_len: Blocks::new(1000), zone_count: 4 }
}

fn index(copies: &[(u64, u64, u64)]) -> JournalIndex {
    let mut index = JournalIndex::new(spec()).expect("an index");
    for &(lba, len, pba) in copies {
        index.record(range(lba, len), Pba::new(pba)).expect("a free place");
    }
    index
}

fn copies(index: &JournalIndex) -> Vec<(u64, u64, u64)> {
    index.check().expect("a sound index");
    let all = index.copies_of(range(0, 2000));
    all.map(|(range, at)| (range.start.get(), range.len.get(), at.start.get())).collect()
}

/// The journal file of figure 3 (b); a PBA of -1 is an eviction.
const FIGURE_3: [(u64, i64, u64); 5] =
    [(800, 1000, 4), (520, 1004, 2), (800, -1, 4), (802, 1006, 2), (521, 1008, 1)];

#[test]
fn figure_3_the_journal_holds_the_buffers_blocks() {
    let mut index = index(&[]);
    let mut regions = Regions::new(EvictionOrder::LargestRegion);
    let mut active = Vec::new();
    for (lba, pba, len) in FIGURE_3 {
        match u64::try_from(pba) {
            Ok(pba) => {
                index.record(range(lba, len), Pba::new(pba)).expect("a free place");
                regions.insert(range(lba, len));
            }
            Err(_) => {
                index.forget(range(lba, len));
                regions.remove(range(lba, len));
            }
        }
        active.push(index.active(ZoneId(1)).get());
    }
    assert_eq!(active, [4, 6, 2, 4, 4], "the copy of 521 at 1005 is old when that at 1008 comes");
    assert_eq!(copies(&index), [(520, 1, 1004), (521, 1, 1008), (802, 2, 1006)]);
    let held: Vec<BlockRange> = regions.iter().collect();
    assert_eq!(held, [range(520, 2), range(802, 2)]);
    let in_order: Vec<BlockRange> = index.ranges_in(ZoneId(1)).collect();
    assert_eq!(in_order, [range(520, 1), range(802, 2), range(521, 1)], "by place in the zone");
}

#[test]
fn a_journal_zone_is_free_once_the_regions_that_cover_it_are_evicted() {
    let mut index = index(&[(0, 10, 1000), (100, 10, 1010), (10, 10, 2000), (300, 5, 2010)]);
    let mut regions = Regions::new(EvictionOrder::LargestRegion);
    for at in [range(0, 10), range(100, 10), range(10, 10), range(300, 5)] {
        regions.insert(at);
    }
    assert_eq!(index.least_active([ZoneId(1), ZoneId(2)]), Some(ZoneId(2)));
    let evicted = regions.covering(index.ranges_in(ZoneId(2)));
    assert_eq!(evicted, [range(0, 20), range(300, 5)], "whole regions, no more than needed");
    for region in evicted {
        index.forget(region);
        regions.remove(region);
    }
    assert!(index.active(ZoneId(2)).is_zero());
    assert_eq!(copies(&index), [(100, 10, 1010)], "what else was in the regions is free, too");
    assert_eq!(index.total().get(), 10);
}

#[test]
fn a_copy_where_another_is_active_is_refused() {
    let mut index = index(&[(0, 10, 1000)]);
    let refused = index.record(range(50, 2), Pba::new(1009));
    assert!(matches!(refused, Err(MappingError::PbaTaken { .. })), "{refused:?}");
    assert_eq!(copies(&index), [(0, 10, 1000)]);
    assert!(index.memory_bytes() > 0);
}

fn block(stamp: u64) -> Vec<u8> {
    stamp.to_le_bytes().repeat(BLOCK_LEN_BYTES / 8)
}

#[test]
fn the_buffer_agrees_with_an_array() {
    const LEN: u64 = 200;
    for seed in 0..8 {
        let mut prng = Prng::new(seed);
        let mut buffer = Buffer::new(Blocks::new(50));
        let mut model: Vec<Option<u64>> = vec![None; LEN as usize];
        for stamp in 0..200 {
            let start = prng.below(LEN);
            let at = range(start, (1 + prng.below(40)).min(LEN - start));
            let slots = start as usize..at.end().get() as usize;
            let held = model[slots.clone()].iter().flatten().count() as u64;
            if prng.chance(2, 3) {
                let data: Vec<u8> = (0..at.len.get()).flat_map(|i| block(stamp + i)).collect();
                assert_eq!(buffer.write(at.start, &data).get(), at.len.get() - held);
                for (slot, i) in slots.zip(0..) {
                    model[slot] = Some(stamp + i);
                }
            } else {
                assert_eq!(buffer.remove(at).get(), held);
                model[slots].fill(None);
            }
            buffer.check().expect("a sound buffer");
            if stamp % 20 != 0 {
                continue;
            }
            let mut bytes = block(u64::MAX).repeat(LEN as usize);
            let copied = buffer.read_over(Lba::new(0), &mut bytes);
            assert_eq!(copied, buffer.len());
            let expected = model.iter().flat_map(|stamp| block(stamp.unwrap_or(u64::MAX)));
            assert!(expected.collect::<Vec<u8>>() == bytes, "seed {seed}");
        }
    }
}

#[test]
fn a_range_is_read_out_in_order() {
    let mut buffer = Buffer::new(Blocks::new(100));
    for lba in [17, 14, 16, 15] {
        buffer.write(Lba::new(lba), &block(lba));
    }
    let mut out = vec![7];
    buffer.append_to(range(14, 3), &mut out);
    assert_eq!(out[1..], [block(14), block(15), block(16)].concat());
    assert_eq!(out[0], 7);
}

#[test]
#[should_panic(expected = "10..12 must be held, but only 1 of its blocks are")]
fn blocks_that_are_not_held_cannot_be_read_out() {
    let mut buffer = Buffer::new(Blocks::new(100));
    buffer.write(Lba::new(11), &block(1));
    buffer.append_to(range(10, 2), &mut Vec::new());
}

#[test]
fn the_capacity_changes_while_it_holds_data() {
    let mut buffer = Buffer::new(Blocks::new(20));
    assert!(buffer.is_empty());
    buffer.write(Lba::new(5), &block(1).repeat(19));
    assert_eq!((buffer.capacity().get(), buffer.excess(buffer.len(), 1000).get()), (20, 0));
    assert_eq!(buffer.excess(buffer.len(), 900).get(), 1);
    buffer.set_capacity(Blocks::new(10));
    assert_eq!((buffer.len().get(), buffer.excess(buffer.len(), 900).get()), (19, 10));
    let memory = buffer.memory_bytes();
    assert!((19 * 4096..19 * 4096 + 2000).contains(&memory), "{memory}");
    assert_eq!(buffer.remove(range(0, 100)).get(), 19);
    assert_eq!(buffer.memory_bytes(), 0);
}

#[test]
fn blocks_far_apart_cost_little_more_than_their_bytes() {
    let mut buffer = Buffer::new(Blocks::new(1000));
    for i in 0..1000 {
        buffer.write(Lba::new(i * 1_000_003), &block(i));
    }
    let overhead = buffer.memory_bytes() - 1000 * 4096;
    assert!(overhead < 1000 * 4096 / 16, "{overhead} bytes");
}

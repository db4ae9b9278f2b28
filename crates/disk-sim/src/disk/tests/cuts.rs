//! What power cuts leave: orders in which a drive was writing, and blocks that are torn.

use super::*;

const SECTOR: usize = 512;

fn short_sectors(spec: GeometrySpec) -> SimDisk {
    let builder = SimDisk::builder(Geometry::new(spec).unwrap()).write_cache(Blocks::new(64));
    builder.sectors(SECTOR).memory().unwrap()
}

/// The first byte of each sector of a block, and that the others are the same.
fn sectors(disk: &SimDisk, at: u64) -> Vec<u8> {
    let mut buf = block(0);
    disk.read(Lba::new(at), &mut buf).unwrap();
    let sectors = buf.chunks(SECTOR);
    sectors
        .inspect(|sector| assert!(sector.iter().all(|&byte| byte == sector[0])))
        .map(|s| s[0])
        .collect()
}

#[test]
fn a_block_is_a_mixture_where_sectors_are_short() {
    let (mut torn_count, mut whole_count, mut lost_count) = (0, 0, 0);
    for seed in 0..300 {
        let disk = short_sectors(anywhere(8));
        disk.write(Lba::new(2), &block(1), Persist::Through).unwrap();
        disk.write(Lba::new(2), &block(2), Persist::Cached).unwrap();
        let left = disk.power_cycle(&mut Prng::new(seed)).unwrap();
        let sectors = sectors(&disk, 2);
        match (sectors.contains(&1), sectors.contains(&2)) {
            (true, true) => torn_count += 1,
            (true, false) => lost_count += 1,
            (false, true) => whole_count += 1,
            (false, false) => panic!("{sectors:?} of seed {seed}"),
        }
        let is_whole = !sectors.contains(&1);
        assert_eq!((left.survived.get(), left.lost.get()), (is_whole.into(), (!is_whole).into()));
    }
    assert!(torn_count > 50 && whole_count > 20 && lost_count > 20);
}

#[test]
fn what_is_left_of_a_zones_last_block_is_filled_up() {
    let mut lens = std::collections::BTreeSet::new();
    for seed in 0..400 {
        let disk = short_sectors(zoned(3, 8));
        disk.write(Lba::new(8), &blocks(&[1]), Persist::Through).unwrap();
        disk.write(Lba::new(9), &blocks(&[2, 3]), Persist::Cached).unwrap();
        disk.power_cycle(&mut Prng::new(seed)).unwrap();
        let info = disk.zone(ZoneId(1)).unwrap();
        let pointer = info.state.write_pointer(info.start).unwrap().get();
        let written: Vec<u8> = (8..pointer).flat_map(|at| sectors(&disk, at)).collect();
        let len = written.iter().rposition(|&fill| fill != 0).unwrap() + 1;
        let expected = (0..written.len()).map(|at| if at < len { (at / 8 + 1) as u8 } else { 0 });
        assert!(written.iter().copied().eq(expected), "{written:?}");
        assert_eq!(written.len(), len.next_multiple_of(8));
        lens.insert(len);
    }
    assert_eq!(lens.into_iter().collect::<Vec<_>>(), (8..=24).collect::<Vec<_>>());
}

/// A drive that reorders freely keeps no long run of many writes; one that writes in order does.
#[test]
fn a_cut_may_keep_what_was_written_first_or_lies_lowest() {
    let (mut oldest_count, mut lowest_count, mut mixed_count) = (0, 0, 0);
    for seed in 0..400 {
        let disk = cached(anywhere(64), 64);
        // The order of their ages is not that of their addresses.
        let at = |age: u64| age * 37 % 64;
        (0..64).for_each(|age| disk.write(Lba::new(at(age)), &block(1), Persist::Cached).unwrap());
        let left = disk.power_cycle(&mut Prng::new(seed)).unwrap().survived.get();
        let by_address = fills(&disk, 0, 64).unwrap();
        let is_head =
            |fills: &mut dyn Iterator<Item = u8>| fills.take(left as usize).all(|fill| fill == 1);
        let is_oldest = is_head(&mut (0..64).map(|age| by_address[at(age) as usize]));
        let is_lowest = is_head(&mut by_address.iter().copied());
        match (is_oldest, is_lowest) {
            (true, false) => oldest_count += 1,
            (false, true) => lowest_count += 1,
            (false, false) => mixed_count += 1,
            (true, true) => assert!(left < 2 || left == 64, "{left} of seed {seed}"),
        }
    }
    assert!(oldest_count > 50 && lowest_count > 50 && mixed_count > 100);
}

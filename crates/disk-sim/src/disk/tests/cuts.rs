//! What power cuts leave: the orders in which a drive writes, and torn blocks.

use super::*;

const SECTOR: usize = 512;

fn short_sectors(spec: GeometrySpec) -> SimDisk {
    let builder = SimDisk::builder(Geometry::new(spec).unwrap()).write_cache(Blocks::new(64));
    builder.sectors(SECTOR).memory().unwrap()
}

/// The first byte of each sector of a block. Checks that the other bytes equal it.
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
fn the_rest_of_a_zones_torn_last_block_is_zero() {
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

/// A drive that reorders freely keeps no long run of many writes. One that writes in order does.
#[test]
fn a_cut_may_keep_the_oldest_or_the_lowest_writes() {
    let (mut oldest_count, mut lowest_count, mut mixed_count) = (0, 0, 0);
    for seed in 0..400 {
        let disk = cached(anywhere(64), 64);
        // Ages and addresses are in different orders.
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

fn breaking(spec: GeometrySpec) -> SimDisk {
    let builder = SimDisk::builder(Geometry::new(spec).unwrap()).write_cache(Blocks::new(64));
    builder.breaking_sectors().memory().unwrap()
}

/// The blocks of a range that cannot be read.
fn unreadable(disk: &SimDisk, range: std::ops::Range<u64>) -> Vec<u64> {
    let is_lost = |&at: &u64| match disk.read(Lba::new(at), &mut block(0)) {
        Ok(()) => false,
        Err(DiskError::Medium { at: told }) => {
            assert_eq!(told, Lba::new(at));
            true
        }
        Err(error) => panic!("block {at}: {error}"),
    };
    range.filter(is_lost).collect()
}

/// At most one block breaks. It is never one that was flushed or not being written, and a write
/// heals it.
#[test]
fn a_cut_breaks_one_block_of_an_unfinished_write() {
    let mut broken_blocks = std::collections::BTreeSet::new();
    for seed in 0..300 {
        let disk = breaking(anywhere(32));
        disk.write(Lba::new(0), &blocks(&[1; 16]), Persist::Cached).unwrap();
        disk.flush().unwrap();
        disk.write(Lba::new(2), &blocks(&[2; 3]), Persist::Cached).unwrap();
        disk.write(Lba::new(20), &block(2), Persist::Cached).unwrap();
        let left = disk.power_cycle(&mut Prng::new(seed)).unwrap();
        let lost = unreadable(&disk, 0..32);
        assert_eq!(lost, Vec::from_iter(left.broken.map(Lba::get)));
        assert_eq!(left.survived + left.lost, Blocks::new(4));
        broken_blocks.insert(left.broken.map(Lba::get));
        let Some(broken) = left.broken else { continue };
        // The next cut does not report it again.
        let left = disk.power_cycle(&mut Prng::new(seed)).unwrap();
        assert_eq!((left.broken, unreadable(&disk, 0..32)), (None, lost));
        disk.write(broken, &block(3), Persist::Cached).unwrap();
        assert_eq!(fills(&disk, broken.get(), 1).unwrap(), [3], "from the cache");
        disk.flush().unwrap();
        assert_eq!(unreadable(&disk, 0..32), []);
    }
    let expected = [None, Some(2), Some(3), Some(4), Some(20)];
    assert_eq!(broken_blocks, expected.into_iter().collect());
}

#[test]
fn a_block_breaks_at_the_end_of_a_zone() {
    let mut ends = std::collections::BTreeSet::new();
    for seed in 0..300 {
        let disk = breaking(zoned(3, 8));
        disk.write(Lba::new(8), &blocks(&[1; 2]), Persist::Through).unwrap();
        disk.write(Lba::new(10), &blocks(&[2; 3]), Persist::Cached).unwrap();
        disk.write(Lba::new(13), &blocks(&[2; 3]), Persist::Cached).unwrap();
        let left = disk.power_cycle(&mut Prng::new(seed)).unwrap();
        let info = disk.zone(ZoneId(1)).unwrap();
        let pointer = info.state.write_pointer(info.start).unwrap_or(Lba::new(16));
        let Some(broken) = left.broken else { continue };
        assert!(Lba::new(10) <= broken);
        assert_eq!(broken + Blocks::new(1), pointer, "it counts as written");
        assert_eq!(unreadable(&disk, 8..16), [broken.get()]);
        ends.insert(broken.get());
        disk.manage_zone(ZoneId(1), ZoneAction::Reset).unwrap();
        disk.write(Lba::new(8), &blocks(&[3; 8]), Persist::Through).unwrap();
        assert_eq!(unreadable(&disk, 8..16), []);
    }
    assert_eq!(ends, (10..16).collect());
}

/// A broken block on overlapping tracks has destroyed what it reaches, as if it had been stored.
#[test]
fn a_broken_block_destroys_what_it_reaches() {
    let shingle = ShingleSpec { track_len: Blocks::new(4), overlap_tracks: 1 };
    let spec = GeometrySpec { len: Blocks::new(32), rule: Rule::IsolationDistance(shingle) };
    let mut count = 0;
    for seed in 0..60 {
        let disk = breaking(spec);
        disk.write(Lba::new(0), &blocks(&[1; 8]), Persist::Through).unwrap();
        disk.write(Lba::new(1), &block(2), Persist::Cached).unwrap();
        let Some(broken) = disk.power_cycle(&mut Prng::new(seed)).unwrap().broken else { continue };
        assert_eq!((broken, unreadable(&disk, 0..4)), (Lba::new(1), vec![1]));
        let read = disk.read(Lba::new(5), &mut block(0));
        assert!(matches!(read, Err(DiskError::Destroyed { .. })), "{read:?}");
        count += 1;
    }
    assert!(count > 20, "{count}");
}

//! An overlay answers every request as a disk of its own would, and the disk below it does not change.

use super::*;
use imbrex_disk::{GeometrySpec, Overlay, ZoneSpec, ZoneState};
use std::sync::Arc;

const ZONE_LEN: u64 = 24;
const ZONE_COUNT: u64 = 6;

fn geometry(is_zoned: bool, strict_reads: bool) -> Geometry {
    let zones = ZoneSpec {
        zone_len: Blocks::new(ZONE_LEN),
        zone_capacity: Blocks::new(ZONE_LEN - 3),
        conventional_zone_count: 1,
        open_zone_limit: Some(2),
        active_zone_limit: Some(3),
        strict_reads,
    };
    let rule = if is_zoned { Rule::AtPointer(zones) } else { Rule::Anywhere };
    Geometry::new(GeometrySpec { len: Blocks::new(ZONE_COUNT * ZONE_LEN), rule }).unwrap()
}

/// Performs one random request, and returns what a caller sees of it.
fn step(disk: &dyn Disk, prng: &mut Prng) -> String {
    let zone = ZoneId(prng.below(ZONE_COUNT) as u32);
    let pointer = match disk.zone(zone).map(|info| info.state) {
        Some(ZoneState::Open { write_pointer, .. } | ZoneState::Closed { write_pointer }) => {
            write_pointer.get()
        }
        _ => u64::from(zone.0) * ZONE_LEN,
    };
    let anywhere = prng.below(ZONE_COUNT * ZONE_LEN);
    let at = Lba::new(if prng.chance(2, 3) { pointer } else { anywhere });
    let range = BlockRange::new(at, Blocks::new(1 + prng.below(7)));
    let mut buf = vec![prng.below(255) as u8 + 1; range.len.bytes() as usize];
    match prng.below(12) {
        0..4 => format!("{range}: {:?}", disk.write(at, &buf, Persist::Cached)),
        4..8 => {
            let read = disk.read(at, &mut buf);
            let read = read.map(|()| crc32c::crc32c(&buf));
            format!("{range}: {read:?} {:?}", disk.zone(zone))
        }
        8 => format!("{range}: {:?}", disk.write_zeroes(range, Persist::Through)),
        9 => format!("{range}: {:?}", disk.discard(range)),
        10 => format!("{:?}", disk.flush()),
        _ => {
            let actions =
                [ZoneAction::Open, ZoneAction::Close, ZoneAction::Finish, ZoneAction::Reset];
            let action = actions[prng.below(4) as usize];
            format!("{zone} {action}: {:?}", disk.manage_zone(zone, action))
        }
    }
}

#[test]
fn an_overlay_answers_as_a_disk_and_leaves_the_disk_below_as_it_is() {
    for seed in 0..60 {
        let geometry = geometry(seed % 3 != 0, seed % 3 == 1);
        let new = || Arc::new(SimDisk::builder(geometry).memory().unwrap());
        let (below, other) = (new(), new());
        let both = [&below, &other].map(|disk| {
            let mut prng = Prng::new(seed);
            (0..40).for_each(|_| _ = step(&**disk, &mut prng));
            // No zone of a disk that is opened anew is open.
            disk.power_cycle(&mut prng).unwrap();
            disk.image_hash().unwrap()
        });
        assert_eq!(both[0], both[1]);
        let overlay = Overlay::new(Arc::clone(&below) as Arc<dyn Disk>);
        let (mut prng, mut same) = (Prng::new(!seed), Prng::new(!seed));
        for number in 0..400 {
            let (got, expected) = (step(&overlay, &mut prng), step(&*other, &mut same));
            assert_eq!(got, expected, "seed {seed}, request {number}");
        }
        assert_eq!(below.image_hash().unwrap(), both[0], "V1");
        assert_ne!(other.image_hash().unwrap(), both[1], "something was written");
    }
}

/// A reader without a lock may rely on what a disk knows of its blocks.
#[test]
fn an_overlay_knows_no_more_than_is_true() {
    let below = Arc::new(SimDisk::builder(geometry(false, false)).memory().unwrap());
    let overlay = Overlay::new(Arc::clone(&below) as Arc<dyn Disk>);
    let ranges = |start, len| BlockRange::new(Lba::new(start), Blocks::new(len));
    overlay.write(Lba::new(20), &[1; 2 * BLOCK_LEN_BYTES], Persist::Cached).unwrap();
    overlay.discard(ranges(30, 10)).unwrap();
    let mut at = 0;
    while at < ZONE_COUNT * ZONE_LEN {
        let range = ranges(at, ZONE_COUNT * ZONE_LEN - at);
        let (known, len) = overlay.known(range);
        assert!(Blocks::ZERO < len && len <= range.len);
        if known != Known::Nothing {
            let mut buf = vec![1; len.bytes() as usize];
            overlay.read(range.start, &mut buf).unwrap();
            assert!(buf.iter().all(|&byte| byte == 0), "{range}");
        }
        at += len.get();
    }
}

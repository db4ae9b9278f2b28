//! Acknowledged durability over a drive that loses its power, on one connection or several.

use super::super::protocol::command_flag;
use super::*;
use crate::{SectorDevice, SectorLen};
use imbrex_clockwork::Prng;
use imbrex_disk::{Blocks, Disk, Geometry, GeometrySpec, Rule};
use imbrex_disk_sim::SimDisk;

/// A drive with a volatile cache, and its server.
fn served() -> (Arc<SimDisk>, Stand<SectorDevice>) {
    let spec = GeometrySpec { len: Blocks::new(64), rule: Rule::Anywhere };
    let builder = SimDisk::builder(Geometry::new(spec).unwrap());
    let disk = Arc::new(builder.write_cache(Blocks::new(64)).memory().unwrap());
    let below = Arc::clone(&disk) as Arc<dyn Disk>;
    let device = SectorDevice::new(below, SectorLen::Bytes512).unwrap();
    (disk, Stand::of(device, |_, _| {}))
}

#[test]
fn a_flush_covers_the_writes_of_other_connections() {
    let mut lost_count = 0;
    for seed in 0..30 {
        let (disk, stand) = served();
        let [mut one, mut other, mut third] = [(); 3].map(|()| stand.client(true));
        one.write(512, &[1; 3 * 512]).unwrap();
        other.write(5 * 4096 - 512, &[2; 2 * 4096]).unwrap();
        let zeroes = (command::WRITE_ZEROES, 0);
        one.write(20 * 4096, &[7; 4096]).unwrap();
        one.call(zeroes, 20 * 4096, 4096, &[]).unwrap();
        third.flush().unwrap();
        one.write(30 * 4096, &[3; 4096]).unwrap();
        disk.power_cycle(&mut Prng::new(seed)).unwrap();
        assert!(other.read(512, 3 * 512).unwrap() == [1; 3 * 512], "SV3: seed {seed}");
        assert!(one.read(5 * 4096 - 512, 8192).unwrap() == [2; 8192], "SV3: seed {seed}");
        assert!(one.read(20 * 4096, 4096).unwrap() == [0; 4096], "SV3: seed {seed}");
        lost_count += u32::from(one.read(30 * 4096, 512).unwrap() != [3; 512]);
    }
    assert!(
        0 < lost_count && lost_count < 30,
        "the drive loses what was not flushed: {lost_count}"
    );
}

#[test]
fn a_forced_write_is_durable_when_it_is_acknowledged() {
    let fua = command_flag::FUA;
    for seed in 0..30 {
        let (disk, stand) = served();
        let mut client = stand.client(true);
        client.write(0, &[1; 8 * 4096]).unwrap();
        client.flush().unwrap();
        client.call((command::WRITE, fua), 512, 1024, &[2; 1024]).unwrap();
        client.call((command::WRITE_ZEROES, fua), 4096 + 512, 8192, &[]).unwrap();
        let kept = fua | command_flag::NO_HOLE;
        client.call((command::WRITE_ZEROES, kept), 5 * 4096, 4096, &[]).unwrap();
        disk.power_cycle(&mut Prng::new(seed)).unwrap();
        let mut expected = vec![1; 8 * 4096];
        expected[512..512 + 1024].fill(2);
        expected[4096 + 512..4096 + 512 + 8192].fill(0);
        expected[5 * 4096..6 * 4096].fill(0);
        assert!(client.read(0, 8 * 4096).unwrap() == expected, "seed {seed}");
    }
}

//! The block driver: superblocks, journal, checkpoint and summaries on a zoned drive.

use crate::target::Target;
use imbrex_disk::{BLOCK_LEN_BYTES, Blocks, Disk, Lba, Persist};
use imbrex_disk_sim::{FaultPlan, SimDisk};
use imbrex_translate::{BlockDriver, DriverOptions};
use std::sync::Arc;

pub(crate) const TARGET: Target = Target { name: "block_driver", feed, seeds };

const ZONE_COUNT: u32 = 40;
const ZONE_LEN: Blocks = Blocks::new(16);

fn drive() -> Arc<SimDisk> {
    Arc::new(SimDisk::tiny_zoned(ZONE_COUNT, ZONE_LEN))
}

fn options() -> DriverOptions {
    DriverOptions {
        id: 7,
        buffer_len: Blocks::new(12),
        bypass_len: Blocks::new(12),
        ..DriverOptions::default()
    }
}

fn lba(zone: u32) -> Lba {
    Lba::new(u64::from(zone) * ZONE_LEN.get())
}

/// The input is one byte per zone, the number of its written blocks, followed by those blocks in
/// order. Asserts that a device that opens returns what is then written to it, also after it is
/// opened again.
fn feed(bytes: &[u8]) {
    let drive = drive();
    let (lens, mut blocks) = bytes.split_at(bytes.len().min(ZONE_COUNT as usize));
    for (zone, &len) in (0..ZONE_COUNT).zip(lens) {
        let len_bytes = (usize::from(len).min(ZONE_LEN.get() as usize)) * BLOCK_LEN_BYTES;
        let (now, later) = blocks.split_at(len_bytes.min(blocks.len()));
        blocks = later;
        let mut now = now.to_vec();
        now.resize(now.len().next_multiple_of(BLOCK_LEN_BYTES), 0);
        if !now.is_empty() {
            drive.write(lba(zone), &now, Persist::Through).expect("the drive has no faults");
        }
    }
    let open = || BlockDriver::open(Arc::clone(&drive) as Arc<dyn Disk>, &options());
    let Ok(driver) = open() else { return };
    let block = [0xA5; BLOCK_LEN_BYTES];
    let mut found = [0; BLOCK_LEN_BYTES];
    for at in 0..driver.geometry().len().get() {
        // Damage is reported.
        let _ = driver.read(Lba::new(at), &mut found);
    }
    if driver.write(Lba::new(0), &block, Persist::Through).is_err() {
        return;
    }
    drop(driver);
    let driver = open().expect("what opened once opens again");
    driver.read(Lba::new(0), &mut found).expect("it was just written");
    assert!(found == block, "the first block is as it was written");
}

fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    vec![("written", image(None)), ("cut", image(Some(12)))]
}

/// A device with scattered writes and evictions from its buffer. The power fails after
/// `power_cut_after` events.
fn image(power_cut_after: Option<u64>) -> Vec<u8> {
    let drive = drive();
    let driver = BlockDriver::format(Arc::clone(&drive) as Arc<dyn Disk>, &options())
        .expect("the drive has room for a device");
    drive.set_faults(FaultPlan { power_cut_after, ..FaultPlan::default() });
    for at in 0..14 {
        let start = Lba::new(at * 7 % 90);
        let len = 1 + at as usize % 3;
        if driver.write(start, &vec![at as u8; len * BLOCK_LEN_BYTES], Persist::Through).is_err() {
            break;
        }
    }
    drop(driver);
    drive.set_faults(FaultPlan::default());
    drive.power_cycle(&mut imbrex_clockwork::Prng::new(1)).expect("it lies in memory");
    let (mut lens, mut blocks) = (Vec::new(), Vec::new());
    let mut block = [0; BLOCK_LEN_BYTES];
    for zone in 0..ZONE_COUNT {
        let mut len = 0;
        for at in 0..ZONE_LEN.get() {
            // Nothing can be read above the write pointer.
            if drive.read(lba(zone) + Blocks::new(at), &mut block).is_err() {
                break;
            }
            blocks.extend_from_slice(&block);
            len += 1;
        }
        lens.push(len);
    }
    lens.extend(blocks);
    lens
}

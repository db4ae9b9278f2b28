//! Fixed bands: superblocks, journal and staging slots at the start of a shingled drive.

use crate::target::Target;
use imbrex_disk::{BLOCK_LEN_BYTES, BlockRange, Blocks, Disk, DiskError, Lba, Persist};
use imbrex_disk_sim::{FaultPlan, SimDisk};
use imbrex_translate::{BandOptions, FixedBands};
use std::sync::Arc;

pub(crate) const TARGET: Target = Target { name: "fixed_bands", feed, seeds };

/// A drive of this length has some bands of 16 blocks.
const DRIVE_LEN: Blocks = Blocks::new(400);

fn drive() -> Arc<SimDisk> {
    Arc::new(SimDisk::tiny_shingled(DRIVE_LEN, Blocks::new(4), 1))
}

/// Asserts that bands that open accept a write, return it, and open again.
fn feed(bytes: &[u8]) {
    let drive = drive();
    let mut head = bytes[..bytes.len().min(DRIVE_LEN.bytes() as usize)].to_vec();
    head.resize(head.len().next_multiple_of(BLOCK_LEN_BYTES), 0);
    if !head.is_empty() {
        drive.write(Lba::new(0), &head, Persist::Through).expect("the drive has no faults");
    }
    let below = || Arc::clone(&drive) as Arc<dyn Disk>;
    let Ok(bands) = FixedBands::open(below()) else { return };
    let block = [0xA5; BLOCK_LEN_BYTES];
    match bands.write(Lba::new(0), &block, Persist::Through) {
        Ok(()) => {}
        // The drive has lost blocks that the journal calls valid: this is reported, and nothing
        // changes.
        Err(DiskError::Destroyed { .. }) => return,
        Err(error) => panic!("{error}"),
    }
    drop(bands);
    let bands = FixedBands::open(below()).expect("what opened once opens again");
    let mut found = [0; BLOCK_LEN_BYTES];
    bands.read(Lba::new(0), &mut found).expect("it was just written");
    assert!(found == block, "the first block is as it was written");
}

fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    vec![("appended", head(None)), ("rewrite_cut", head(Some(3)))]
}

/// The start of a drive with bands, without the zeros at its end. The power fails after
/// `power_cut_after` events of a rewrite.
fn head(power_cut_after: Option<u64>) -> Vec<u8> {
    let drive = drive();
    let mut options = BandOptions::default();
    (options.band_len, options.id) = (Blocks::new(16), 1);
    let bands = FixedBands::format(Arc::clone(&drive) as Arc<dyn Disk>, &options)
        .expect("the drive has room for bands");
    let write = |at, len: usize| {
        bands.write(Lba::new(at), &vec![1; len * BLOCK_LEN_BYTES], Persist::Through)
    };
    write(0, 16).expect("there is room");
    write(20, 3).expect("there is room");
    bands.discard(BlockRange::new(Lba::new(2), Blocks::new(1))).expect("it was written");
    bands.flush().expect("the drive has no faults");
    drive.set_faults(FaultPlan { power_cut_after, ..FaultPlan::default() });
    assert_eq!(write(8, 2).is_err(), power_cut_after.is_some());
    drop(bands);
    drive.power_cycle(&mut imbrex_clockwork::Prng::new(1)).expect("it lies in memory");
    let mut bytes = Vec::new();
    for at in 0..DRIVE_LEN.get() {
        let mut block = [0; BLOCK_LEN_BYTES];
        // A destroyed block serves as well as a blank one.
        let _ = drive.read(Lba::new(at), &mut block);
        bytes.extend_from_slice(&block);
    }
    let len = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    bytes.truncate(len);
    bytes
}

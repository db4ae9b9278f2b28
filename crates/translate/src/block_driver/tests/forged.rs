//! Foreign structures: a host that writes what looks like a superblock, and images of no device.

use super::*;
use checkpoint_format::{Checkpoint, CheckpointBytes, Run, encode_part};
use format::{Stored, Superblock, encode_header};
use imbrex_disk::Pba;
use journal::{JournalUse, JournalZones};

/// A device whose host wrote a superblock twice. It is at the start of a data zone, and nothing
/// follows it.
fn forged(forge: impl FnOnce(&mut Superblock)) -> (Arc<SimDisk>, BlockDriver, Vec<u8>) {
    let drive = Arc::new(SimDisk::builder(zoned(60, 200, 0)).memory().unwrap());
    let driver = BlockDriver::format(Arc::clone(&drive) as Arc<dyn Disk>, &options(100)).unwrap();
    let mut superblock = driver.state().superblock.clone();
    forge(&mut superblock);
    let data = superblock.encode().repeat(2);
    driver.write(Lba::new(500), &data, Persist::Cached).unwrap();
    driver.set_buffer_len(Blocks::new(1));
    while driver.work().unwrap() {}
    driver.set_buffer_len(Blocks::new(100));
    driver.write(Lba::new(7), &[7; BLOCK_LEN_BYTES], Persist::Cached).unwrap();
    driver.flush().unwrap();
    let zone = driver.state().zones.open[0].unwrap();
    let info = drive.zone(zone).unwrap();
    assert_eq!(info.state.write_pointer(info.start), Some(info.start + Blocks::new(2)));
    (drive, driver, data)
}

fn check_forged(drive: &Arc<SimDisk>, data: &[u8], told: &str) {
    for _ in 0..3 {
        let opened = BlockDriver::open(Arc::clone(drive) as Arc<dyn Disk>, &options(100));
        let driver = opened.unwrap_or_else(|error| panic!("{told}: {error}"));
        let mut buf = vec![0; 2 * BLOCK_LEN_BYTES];
        driver.read(Lba::new(500), &mut buf).unwrap();
        assert!(buf == data, "{told}");
        driver.read(Lba::new(7), &mut buf[..BLOCK_LEN_BYTES]).unwrap();
        assert_eq!(buf[..BLOCK_LEN_BYTES], [7; BLOCK_LEN_BYTES], "{told}");
    }
}

fn another_device(superblock: &mut Superblock) {
    (superblock.id, superblock.number) = (99, 7_000);
    superblock.zone_count = 13;
}

/// It differs from the true one as little as a host can know.
fn a_newer_one(superblock: &mut Superblock) {
    (superblock.id, superblock.number) = (99, 7_000);
}

#[test]
fn a_superblock_written_by_the_host_is_no_stand_in() {
    for forge in [another_device, a_newer_one] {
        for failure in [ZoneFailure::Offline, ZoneFailure::ReadOnly] {
            for dead in 0..2 {
                let (drive, driver, data) = forged(forge);
                drop(driver);
                drive.fail_zone(ZoneId(dead), failure).unwrap();
                check_forged(&drive, &data, &format!("zone {dead} is {failure:?}"));
            }
        }
    }
}

/// The same while the last zone of superblocks is blank and a stand-in has the true one.
#[test]
fn a_true_stand_in_is_distinguished_from_a_forged_one() {
    for forge in [another_device, a_newer_one] {
        let (drive, driver, data) = forged(forge);
        let (superblock, free) = {
            let state = driver.state();
            let free = state.zones.pool.iter().filter(|slot| slot.used == pool::Use::Free);
            (state.superblock.encode(), free.last().unwrap().start)
        };
        drop(driver);
        drive.fail_zone(ZoneId(0), ZoneFailure::Offline).unwrap();
        drive.write(free, &superblock.repeat(2), Persist::Through).unwrap();
        drive.manage_zone(ZoneId(1), ZoneAction::Reset).unwrap();
        check_forged(&drive, &data, "blank");
    }
}

/// A superblock and a checkpoint of nothing, in zones 0, 2 and 3 of a drive.
fn made(drive: &Arc<SimDisk>, set: impl FnOnce(&mut Superblock, &mut Checkpoint)) -> DriverError {
    let geometry = drive.geometry();
    let mut checkpoint = Checkpoint { seq: 1, ..Checkpoint::default() };
    let mut superblock = Superblock {
        id: 77,
        number: 3,
        drive_len: geometry.len(),
        zone_len: geometry.zones().unwrap().zone_len,
        zone_count: geometry.zone_count(),
        journal_zone_count: 4,
        len: Blocks::new(500),
        checkpoint: Stored {
            copies: [vec![ZoneId(2)], vec![ZoneId(3)]],
            len_bytes: 0,
            number: 3,
            is_open_ended: false,
            deltas: format::Deltas::default(),
        },
    };
    set(&mut superblock, &mut checkpoint);
    let mut bytes = CheckpointBytes::new(77, &checkpoint, Some(0), std::iter::empty::<Run>());
    superblock.checkpoint.len_bytes = bytes.make(usize::MAX, &mut |_, _, _| {}).unwrap() as u64;
    let part = encode_part(77, superblock.checkpoint.number, 0, bytes.made_from(0));
    let start = |zone: u32| geometry.zone_range(ZoneId(zone)).unwrap().start;
    drive.write(start(0), &superblock.encode()[..], Persist::Through).unwrap();
    drive.write(start(2), &part, Persist::Through).unwrap();
    drive.write(start(3), &part, Persist::Through).unwrap();
    BlockDriver::open(Arc::clone(drive) as Arc<dyn Disk>, &options(100)).err().unwrap()
}

#[test]
fn a_drive_without_zones_for_a_journal_is_refused() {
    for conventional in [40, 38] {
        let drive = Arc::new(SimDisk::builder(zoned(40, 64, conventional)).memory().unwrap());
        let count = 40 - conventional;
        let expected = format!(
            "superblock is damaged: the drive has only {count} zones for its journal; restore the drive \
             from a copy"
        );
        assert_eq!(made(&drive, |_, _| {}).to_string(), expected);
    }
}

/// The next number would be 0, or would not exist, or would not fit a record.
#[test]
fn numbers_without_a_successor_are_refused() {
    let drive = || Arc::new(SimDisk::builder(zoned(40, 64, 5)).memory().unwrap());
    for number in [1 << 63, u64::MAX] {
        let error = made(&drive(), |superblock, _| superblock.number = number);
        assert!(matches!(error, DriverError::NotFormatted), "{error}");
    }
    // With the second number, a device opened and was written. The record of the zone that was
    // opened then was taken for none by every later opening.
    for number in [1 << 48, 1 << 50, 1 << 63, u64::MAX] {
        let error = made(&drive(), |_, checkpoint| checkpoint.seq = number);
        let expected = "checkpoint is damaged: its entry number is out of range; restore the drive \
                        from a copy";
        assert_eq!(error.to_string(), expected);
    }
}

/// Where a journal zone ends in fill, only an entry says how long the entry is. Memory of that
/// length was allocated, up to 16 TiB.
#[test]
fn an_entry_beyond_the_longest_is_damage() {
    let geometry = zoned_as(60, 200, |spec| spec.strict_reads = false);
    let drive = Arc::new(SimDisk::builder(geometry).memory().unwrap());
    let open = || BlockDriver::open(Arc::clone(&drive) as Arc<dyn Disk>, &options(100));
    let driver = BlockDriver::format(Arc::clone(&drive) as Arc<dyn Disk>, &options(100)).unwrap();
    driver.write(Lba::new(7), &[7; BLOCK_LEN_BYTES], Persist::Through).unwrap();
    let (seq, next, zone) = {
        let state = driver.state();
        let zone = state.journal.zones.iter().find(|zone| zone.used == JournalUse::Open).unwrap();
        (state.seq, state.journal.next(), zone.zone)
    };
    drop(driver);
    let header = encode_header(77, [seq, 0], next, &[], Blocks::new(u64::from(u32::MAX)));
    drive.write(Lba::new(next.get()), &header, Persist::Through).unwrap();
    drive.fail_zone(zone, ZoneFailure::ReadOnly).unwrap();
    let error = open().err().unwrap().to_string();
    let expected = format!("journal is damaged: entry {seq} is missing at block {}", next.get());
    assert!(error.contains(&expected), "{error}");
}

/// One copy at the end of a zone of 256 GiB allocated memory for checksums of all blocks before it.
#[test]
fn checksums_of_a_long_zone_of_the_journal_take_memory_as_they_are_noted() {
    let zone_len = Blocks::new(1 << 26);
    let mut journal =
        JournalZones::new(vec![(ZoneId(2), BlockRange::new(Lba::new(1000), zone_len))]);
    let end = 1000 + zone_len.get();
    for (at, crc) in [(end - 3, 5), (1000, 7)] {
        journal.note_crcs(Pba::new(at), [crc, crc + 1].into_iter());
    }
    for (at, crc) in [(end - 3, 5), (end - 2, 6), (end - 1, 0), (1000, 7), (1001, 8), (1002, 0)] {
        assert_eq!(journal.crc(Pba::new(at)), crc, "block {at}");
    }
    assert!(journal.memory_bytes() < 10_000, "{}", journal.memory_bytes());
}

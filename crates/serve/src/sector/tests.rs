use super::*;
use imbrex_clockwork::{Prng, fan_out};
use imbrex_disk::{DiskLayer, Geometry, GeometrySpec};
use imbrex_disk_sim::{FaultPlan, SimDisk};
use std::sync::Mutex;

fn device(block_count: u64, sector_len: SectorLen) -> (Arc<SimDisk>, SectorDevice) {
    let disk = Arc::new(SimDisk::tiny_conventional(Blocks::new(block_count)));
    let device = SectorDevice::new(Arc::clone(&disk) as Arc<dyn Disk>, sector_len).unwrap();
    (disk, device)
}

#[test]
fn only_a_disk_that_takes_writes_anywhere_is_accepted() {
    let disk = Arc::new(SimDisk::tiny_zoned(4, Blocks::new(16)));
    let error = SectorDevice::new(disk, SectorLen::Bytes512).unwrap_err();
    assert!(error.to_string().contains("zoned"), "{error}");
    assert!(error.to_string().contains("translation layer"), "{error}");
}

#[test]
fn requests_are_split_at_block_boundaries() {
    let check = |start, len, expected: &[(u64, u64)]| {
        let found: Vec<_> =
            parts(ByteRange::new(start, len)).map(|p| (p.start_bytes, p.end_bytes())).collect();
        assert_eq!(found, expected, "{start} {len}");
    };
    check(0, 4096, &[(0, 4096)]);
    check(512, 512, &[(512, 1024)]);
    check(0, 512, &[(0, 512)]);
    check(3584, 512, &[(3584, 4096)]);
    check(3584, 1024, &[(3584, 4096), (4096, 4608)]);
    check(512, 12288, &[(512, 4096), (4096, 12288), (12288, 12800)]);
}

#[test]
fn wrong_requests_change_nothing() {
    for (sector_len, odd) in [(SectorLen::Bytes512, 100), (SectorLen::Bytes4096, 512)] {
        let (disk, device) = device(4, sector_len);
        let before = disk.image_hash().unwrap();
        let data = [1; 8192];
        for (at_bytes, len) in
            [(odd, 4096), (0, odd as usize), (0, 0), (16384, 4096), (12288, 8192)]
        {
            device.write(at_bytes, &data[..len], Persist::Cached).unwrap_err();
            device.read(at_bytes, &mut [0; 8192][..len]).unwrap_err();
            let range = ByteRange::new(at_bytes, len as u64);
            device.trim(range, Persist::Cached).unwrap_err();
            device.write_zeroes(range, true, Persist::Cached).unwrap_err();
            device.status(range).unwrap_err();
        }
        let past = ByteRange::new(u64::MAX - 4095, 4096);
        assert!(matches!(device.check(past), Err(DeviceError::OutOfRange { .. })));
        assert_eq!(disk.image_hash().unwrap(), before);
    }
}

/// A model: the effect of every operation on an array of bytes.
fn against_a_model(seed: u64, sector_len: SectorLen) {
    let (_, device) = device(16, sector_len);
    let sector = u64::from(sector_len.bytes());
    let sector_count = device.len_bytes() / sector;
    let mut prng = Prng::new(seed);
    let mut model = vec![0_u8; device.len_bytes() as usize];
    // Trimmed bytes may read as anything.
    let mut known = vec![true; model.len()];
    for step in 0..300 {
        let first = prng.below(sector_count);
        let count = 1 + prng.below((sector_count - first).min(40));
        let range = ByteRange::new(first * sector, count * sector);
        let bytes = range.start_bytes as usize..range.end_bytes() as usize;
        let persist = if prng.below(4) == 0 { Persist::Through } else { Persist::Cached };
        match prng.below(6) {
            0 | 1 => {
                let data: Vec<u8> = bytes.clone().map(|_| prng.next_u64() as u8).collect();
                device.write(range.start_bytes, &data, persist).unwrap();
                model[bytes.clone()].copy_from_slice(&data);
                known[bytes].fill(true);
            }
            2 => {
                device.write_zeroes(range, prng.below(2) == 0, persist).unwrap();
                model[bytes.clone()].fill(0);
                known[bytes].fill(true);
            }
            3 if prng.below(2) == 0 => {
                device.trim(range, persist).unwrap();
                let (start, end) = (bytes.start.next_multiple_of(4096), bytes.end / 4096 * 4096);
                if start < end {
                    known[start..end].fill(false);
                }
            }
            4 => device.flush().unwrap(),
            _ => {
                let mut read = vec![0; bytes.len()];
                device.read(range.start_bytes, &mut read).unwrap();
                for (at, got) in bytes.clone().zip(&read) {
                    assert!(!known[at] || model[at] == *got, "seed {seed} step {step}: byte {at}");
                }
                let extent = device.status(range).unwrap();
                assert!(0 < extent.len_bytes && extent.len_bytes <= range.len_bytes);
                if extent.content != Content::Data {
                    assert!(read[..extent.len_bytes as usize].iter().all(|&byte| byte == 0));
                }
            }
        }
    }
}

#[test]
fn every_operation_matches_a_model_of_bytes() {
    for seed in 0..60 {
        against_a_model(seed, SectorLen::Bytes512);
        against_a_model(seed, SectorLen::Bytes4096);
    }
}

#[test]
fn writers_of_one_block_keep_each_others_sectors() {
    // Eight sectors per block with a writer for each: all writers write the same two blocks.
    for seed in 0..10 {
        let (_, device) = device(2, SectorLen::Bytes512);
        let writers: Vec<u64> = (0..8).collect();
        let last = fan_out(8, &writers, |&writer| {
            let mut prng = Prng::new(seed).derive(&format!("writer {writer}"));
            let mut last = [0_u8; 2];
            for _ in 0..200 {
                let block = prng.below(2);
                let at_bytes = block * 4096 + writer * 512;
                let fill = prng.below(256) as u8;
                if prng.below(8) == 0 {
                    let range = ByteRange::new(at_bytes, 512);
                    device.write_zeroes(range, true, Persist::Cached).unwrap();
                    last[block as usize] = 0;
                } else {
                    device.write(at_bytes, &[fill; 512], Persist::Cached).unwrap();
                    last[block as usize] = fill;
                }
                let mut read = [0; 512];
                device.read(at_bytes, &mut read).unwrap();
                assert_eq!(read, [last[block as usize]; 512], "B1: seed {seed}");
            }
            last
        });
        for (writer, last) in last.iter().enumerate() {
            for (block, fill) in last.iter().enumerate() {
                let mut read = [0; 512];
                device.read((block * 4096 + writer * 512) as u64, &mut read).unwrap();
                assert_eq!(read, [*fill; 512], "B1: seed {seed}");
            }
        }
    }
}

#[test]
fn an_unaligned_write_costs_one_read_batch_and_one_write() {
    let (disk, device) = device(8, SectorLen::Bytes512);
    device.write(512, &[1; 3 * 4096], Persist::Cached).unwrap();
    let counters = disk.counters();
    assert_eq!((counters.writes, counters.written_bytes), (1, 4 * 4096));
    assert_eq!(counters.read_bytes, 2 * 4096);
}

fn cached(block_count: u64, sector_len: SectorLen) -> (Arc<SimDisk>, SectorDevice) {
    let spec = GeometrySpec { len: Blocks::new(block_count), rule: Rule::Anywhere };
    let builder = SimDisk::builder(Geometry::new(spec).unwrap());
    let disk = Arc::new(builder.write_cache(Blocks::new(block_count)).memory().unwrap());
    let device = SectorDevice::new(Arc::clone(&disk) as Arc<dyn Disk>, sector_len).unwrap();
    (disk, device)
}

/// A change of sectors, and the bytes afterwards.
#[derive(Clone, Copy, Debug)]
enum Change {
    Write(u8),
    Zeroes { may_trim: bool },
}

impl Change {
    fn make(self, device: &SectorDevice, range: ByteRange, persist: Persist) -> u8 {
        match self {
            Change::Write(fill) => {
                let data = vec![fill; range.len_bytes as usize];
                device.write(range.start_bytes, &data, persist).unwrap();
                fill
            }
            Change::Zeroes { may_trim } => {
                device.write_zeroes(range, may_trim, persist).unwrap();
                0
            }
        }
    }
}

/// No test checked the drive: a device that ignored forced writes passed every test.
#[test]
fn forced_and_flushed_writes_survive_a_power_cut() {
    const LEN_BYTES: u64 = 8 * 4096;
    // Inside a block, a whole block, across the ends of several blocks, several whole blocks.
    let ranges = [(512, 1024), (4096, 4096), (3584, 2 * 4096), (4096, 3 * 4096)];
    let changes =
        [Change::Write(2), Change::Zeroes { may_trim: true }, Change::Zeroes { may_trim: false }];
    let mut lost_count = 0;
    for (start_bytes, len_bytes) in ranges {
        for (change, seed) in
            changes.into_iter().flat_map(|change| (0..12).map(move |seed| (change, seed)))
        {
            for how in ["through", "flushed", "cached"] {
                let (disk, device) = cached(LEN_BYTES / 4096, SectorLen::Bytes512);
                device.write(0, &[1; LEN_BYTES as usize], Persist::Through).unwrap();
                let range = ByteRange::new(start_bytes, len_bytes);
                let persist = if how == "through" { Persist::Through } else { Persist::Cached };
                let fill = change.make(&device, range, persist);
                if how == "flushed" {
                    device.flush().unwrap();
                }
                disk.power_cycle(&mut Prng::new(seed)).unwrap();
                let mut read = [0; LEN_BYTES as usize];
                device.read(0, &mut read).unwrap();
                let mut expected = [1; LEN_BYTES as usize];
                expected[start_bytes as usize..range.end_bytes() as usize].fill(fill);
                if how == "cached" {
                    lost_count += u32::from(read != expected);
                } else {
                    assert!(read == expected, "{change:?} of {range}, {how}, seed {seed}");
                }
            }
        }
    }
    assert!(lost_count > 40, "the drive loses what is cached: {lost_count}");
}

#[test]
fn a_trim_through_the_cache_is_flushed() {
    let (disk, device) = cached(8, SectorLen::Bytes4096);
    let flushes = |persist| {
        let before = disk.counters().flushes;
        device.trim(ByteRange::new(4096, 8192), persist).unwrap();
        disk.counters().flushes - before
    };
    assert_eq!((flushes(Persist::Cached), flushes(Persist::Through)), (0, 1));
}

#[test]
fn a_failed_flush_is_reported() {
    let (disk, device) = device(8, SectorLen::Bytes512);
    disk.set_faults(FaultPlan { power_cut_after: Some(0), ..FaultPlan::default() });
    device.write(0, &[1; 512], Persist::Cached).unwrap_err();
    let error = device.flush().unwrap_err();
    assert!(matches!(error, DeviceError::Disk { source: DiskError::PowerLost, .. }), "{error}");
}

/// A device with a callback for failures, and the reported failures.
fn heard(disk: Arc<dyn Disk>) -> (SectorDevice, Arc<Mutex<Vec<String>>>) {
    let stories = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&stories);
    let device = SectorDevice::new(disk, SectorLen::Bytes4096).unwrap();
    (device.telling(move |story| heard.lock().unwrap().push(story.to_owned())), stories)
}

/// A client learned that its write had failed, but the reason was not reported.
#[test]
fn the_first_failure_is_reported_once_and_kept() {
    let disk = Arc::new(SimDisk::tiny_conventional(Blocks::new(8)));
    let (device, stories) = heard(Arc::clone(&disk) as Arc<dyn Disk>);
    device.write(100, &[1; 4096], Persist::Cached).unwrap_err();
    device.read(8 * 4096, &mut [0; 4096]).unwrap_err();
    assert_eq!(device.failed_changes(), [""; 0], "that was the client's fault");
    disk.damage(BlockRange::new(Lba::new(3), Blocks::new(1)));
    device.read(3 * 4096, &mut [0; 4096]).unwrap_err();
    disk.set_faults(FaultPlan { power_cut_after: Some(0), ..FaultPlan::default() });
    for at_bytes in [4096, 8192] {
        device.write(at_bytes, &[1; 4096], Persist::Cached).unwrap_err();
        device.read(at_bytes, &mut [0; 4096]).unwrap_err();
        device.flush().unwrap_err();
    }
    let stories = stories.lock().unwrap();
    assert_eq!(stories.len(), 2, "{stories:?}");
    assert!(stories[0].starts_with("reading bytes 12288..16384: "), "{stories:?}");
    let lost = "writing bytes 4096..8192: the disk has no power; reopen it to recover";
    assert_eq!(stories[1], lost, "the read that failed before does not hide it");
    assert_eq!(device.failed_changes(), [lost]);
}

/// A disk whose background work fails; its changes are refused afterwards.
#[derive(Debug)]
struct Worker(SimDisk);

impl DiskLayer for Worker {
    fn below(&self) -> &dyn Disk {
        &self.0
    }

    fn pass_write(&self, _: Lba, _: &[u8], _: Persist) -> Result<(), DiskError> {
        Err(DiskError::Poisoned)
    }
    fn pass_flush(&self) -> Result<(), DiskError> {
        Err(DiskError::Poisoned)
    }
    fn pass_discard(&self, _: BlockRange) -> Result<(), DiskError> {
        Err(DiskError::Poisoned)
    }
    fn pass_work(&self) -> Result<bool, DiskError> {
        Err(DiskError::PowerLost)
    }
}

/// The error was lost; the next write was refused because of an earlier failure that no message named.
#[test]
fn failed_background_work_is_reported_even_after_a_refusal() {
    let disk = Arc::new(Worker(SimDisk::tiny_conventional(Blocks::new(8))));
    let (device, stories) = heard(disk);
    // Another thread may be refused before the thread of the background work has reported its failure.
    device.flush().unwrap_err();
    for _ in 0..2 {
        assert!(!device.work());
        device.write(0, &[1; 4096], Persist::Cached).unwrap_err();
    }
    let stories = stories.lock().unwrap();
    assert_eq!(stories.len(), 2, "{stories:?}");
    assert!(stories[0].starts_with("flushing: refused: "), "{stories:?}");
    assert!(stories[1].starts_with("doing background work: the disk has no power"));
    assert_eq!(device.failed_changes(), [&*stories[1], &stories[0]]);
}

#[test]
fn unwritten_and_trimmed_ranges_are_holes() {
    let (_, device) = device(64, SectorLen::Bytes512);
    let whole = ByteRange::new(0, device.len_bytes());
    let hole = |len_bytes| Extent { len_bytes, content: Content::Hole };
    assert_eq!(device.status(whole).unwrap(), hole(whole.len_bytes));
    // Memory is kept in chunks of 16 blocks.
    device.write(16 * 4096, &[1; 512], Persist::Cached).unwrap();
    assert_eq!(device.status(whole).unwrap(), hole(16 * 4096));
    let inside = ByteRange::new(16 * 4096 + 512, 20 * 4096);
    let expected = Extent { len_bytes: 16 * 4096 - 512, content: Content::Data };
    assert_eq!(device.status(inside).unwrap(), expected);
    device.trim(whole, Persist::Through).unwrap();
    assert_eq!(device.status(whole).unwrap(), hole(whole.len_bytes));
}

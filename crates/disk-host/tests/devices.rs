//! Real block devices and emulated drives of the same geometry: the same requests, the same
//! answers.
//!
//! ```text
//!   IMBREX_ZONED_DEVICES=/dev/nullb0:/dev/sda     host-managed devices; everything on them is lost
//!   IMBREX_PLAIN_DEVICES=/dev/vda                 conventional devices; also lost
//! ```
//!
//! `cargo xtask zoned` runs this in a virtual machine that has such devices. Without devices it
//! says so and ends.

#![expect(clippy::unwrap_used, reason = "a test, which the lint does not see without a harness")]

use imbrex_clockwork::Prng;
use imbrex_disk::{
    BLOCK_LEN_BYTES, BlockRange, Blocks, Disk, DiskError, Geometry, Lba, Persist, ReadRequest,
    ZoneAction, ZoneId, ZoneState,
};
use imbrex_disk_host::{HostDisk, HostDiskError};
use imbrex_disk_sim::SimDisk;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

mod zone_commands;

use zone_commands::Drive;

const REQUEST_COUNT: u64 = 3000;

/// The number of zones used, spread over the drive: a drive has many, and limits are small.
const ZONE_COUNT_MAX: u32 = 24;

/// How much is used of a conventional drive, and of each conventional zone.
const PLAIN_LEN: u64 = 1024;

fn main() {
    let devices = |name: &str| std::env::var(name).unwrap_or_default();
    let (zoned, plain) = (devices("IMBREX_ZONED_DEVICES"), devices("IMBREX_PLAIN_DEVICES"));
    if zoned.is_empty() && plain.is_empty() {
        println!(
            "SKIPPED: no block devices are named to be overwritten; `cargo xtask zoned` runs this in a virtual \
             machine that has some"
        );
    }
    for path in zoned.split(':').filter(|path| !path.is_empty()).map(Path::new) {
        tables(path);
        zoned_as_emulated(path);
        opened_once(path);
        torn_block(path);
        left_open(path);
        reset(path);
        println!("{}: {REQUEST_COUNT} requests as the emulated drive", path.display());
    }
    for path in plain.split(':').filter(|path| !path.is_empty()).map(Path::new) {
        plain_as_emulated(path);
        println!("{}: {REQUEST_COUNT} requests as the emulated drive", path.display());
    }
}

fn open(path: &Path) -> HostDisk {
    HostDisk::open(path)
        .unwrap_or_else(|error| panic!("{error}: {:?}", std::error::Error::source(&error)))
}

/// A device that the tables of `docs/guide/zones.md` are executed on.
struct Real {
    path: PathBuf,
    disk: Option<HostDisk>,
    /// Zones that the kernel has given up, and the file that makes it do so.
    given_up: Vec<(ZoneId, PathBuf)>,
}

impl Real {
    fn reopen(&mut self) {
        // The device has one writer.
        self.disk = None;
        self.disk = Some(open(&self.path));
    }

    /// null_blk gives a zone up when a sector of it is written to the file, and takes it back when it is written again.
    fn tell(&mut self, zone: ZoneId, file: &Path) {
        let sector = self.disk().geometry().zone_range(zone).unwrap().start.get() * 8;
        std::fs::write(file, sector.to_string()).unwrap();
        self.reopen();
    }
}

impl Drive for Real {
    fn disk(&self) -> &dyn Disk {
        self.disk.as_ref().unwrap()
    }

    fn blank(&mut self) {
        for (zone, file) in std::mem::take(&mut self.given_up) {
            self.tell(zone, &file);
        }
        self.disk().reset_zones().unwrap();
    }

    fn give_up(&mut self, zone: ZoneId, state: ZoneState) -> bool {
        let name = match state {
            ZoneState::Offline => "zone_offline",
            _ => "zone_readonly",
        };
        let device = self.path.file_name().unwrap();
        let file = Path::new("/sys/kernel/config/nullb").join(device).join(name);
        if !file.exists() {
            return false;
        }
        self.tell(zone, &file);
        self.given_up.push((zone, file));
        true
    }

    fn power_cycle(&mut self) {
        self.reopen();
    }

    fn zeros_of_given_up(&self) -> bool {
        false
    }
}

fn tables(path: &Path) {
    let mut drive = Real { path: path.to_owned(), disk: Some(open(path)), given_up: Vec::new() };
    let (done, left) = zone_commands::run(&mut drive);
    drive.blank();
    println!("{}: {done} cells of docs/guide/zones.md", path.display());
    let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
    left.iter().for_each(|(_, why)| *reasons.entry(why).or_default() += 1);
    for (why, count) in reasons {
        println!("{}: SKIPPED {count} cells: {why}", path.display());
    }
}

/// Both disks, empty.
fn blank(path: &Path) -> (HostDisk, SimDisk) {
    let host = open(path);
    let sim = SimDisk::builder(*host.geometry()).memory().unwrap();
    for zone in conventional(host.geometry()) {
        let start = host.geometry().zone_range(zone).unwrap().start;
        host.write_zeroes(BlockRange::new(start, used_of(host.geometry(), zone)), Persist::Cached)
            .unwrap();
    }
    host.reset_zones().unwrap();
    (host, sim)
}

fn conventional(geometry: &Geometry) -> impl Iterator<Item = ZoneId> {
    let count = geometry.zones().map_or(0, |zones| zones.conventional_zone_count);
    (0..count.min(2)).map(ZoneId)
}

fn used_of(geometry: &Geometry, zone: ZoneId) -> Blocks {
    geometry.zone_range(zone).unwrap().len.min(Blocks::new(PLAIN_LEN))
}

fn sequential(geometry: &Geometry) -> Vec<ZoneId> {
    let first = geometry.zones().unwrap().conventional_zone_count;
    let step = (geometry.zone_count() - first).div_ceil(ZONE_COUNT_MAX).max(1);
    let mut zones: Vec<_> =
        (first..geometry.zone_count()).step_by(step as usize).map(ZoneId).collect();
    // The last may be shorter.
    zones.extend(
        (zones.last() != Some(&ZoneId(geometry.zone_count() - 1)))
            .then(|| ZoneId(geometry.zone_count() - 1)),
    );
    zones
}

fn same<T: Debug + PartialEq>(
    what: &dyn Fn() -> String,
    host: Result<T, DiskError>,
    sim: Result<T, DiskError>,
) {
    match (host, sim) {
        (Ok(host), Ok(sim)) => assert!(host == sim, "{}: other bytes", what()),
        (host, sim) => {
            assert_eq!(format!("{:?}", host.err()), format!("{:?}", sim.err()), "{}", what());
        }
    }
}

fn both_read(host: &HostDisk, sim: &SimDisk, range: BlockRange) {
    let read = |disk: &dyn Disk| {
        let mut buf = vec![0xee; range.len.bytes() as usize];
        disk.read(range.start, &mut buf).map(|()| buf)
    };
    same(&|| format!("read of {range}"), read(host), read(sim));
}

fn both_write(host: &HostDisk, sim: &SimDisk, range: BlockRange, prng: &mut Prng) {
    let persist = if prng.chance(1, 8) { Persist::Through } else { Persist::Cached };
    let mut data = vec![0; range.len.bytes() as usize + 1];
    prng.fill(&mut data);
    // Direct I/O must also take buffers without alignment.
    let data = &data[prng.below(2) as usize..][..range.len.bytes() as usize];
    same(
        &|| format!("write of {range}"),
        host.write(range.start, data, persist),
        sim.write(range.start, data, persist),
    );
}

fn zoned_as_emulated(path: &Path) {
    let (host, sim) = blank(path);
    let geometry = *host.geometry();
    let mut prng = Prng::new(7);
    let zones = sequential(&geometry);
    for _ in 0..REQUEST_COUNT {
        let zone = zones[prng.below(zones.len() as u64) as usize];
        let range = geometry.zone_range(zone).unwrap();
        let written = match sim.zone(zone).unwrap().state {
            ZoneState::Open { write_pointer, .. } | ZoneState::Closed { write_pointer } => {
                write_pointer - range.start
            }
            ZoneState::Full => geometry.zone_capacity(zone).unwrap(),
            _ => Blocks::ZERO,
        };
        let pointer = range.start + written;
        // Some requests are longer than the kernel passes on at once.
        let len =
            Blocks::new(1 + if prng.chance(1, 16) { prng.below(700) } else { prng.below(40) });
        match prng.below(16) {
            0..8 => both_write(&host, &sim, BlockRange::new(pointer, len), &mut prng),
            8 => {
                let at = range.start + Blocks::new(prng.below(range.len.get()));
                both_write(&host, &sim, BlockRange::new(at, len), &mut prng);
            }
            9..12 => {
                let at = range.start
                    + Blocks::new(prng.below(written.get() + 4).min(range.len.get() - 1));
                both_read(&host, &sim, BlockRange::new(at, len));
            }
            12 | 13 => {
                let action = match prng.below(8) {
                    0 => ZoneAction::Open,
                    1 | 2 => ZoneAction::Close,
                    3 => ZoneAction::Finish,
                    _ => ZoneAction::Reset,
                };
                let what = || format!("{action} of {zone}");
                same(&what, host.manage_zone(zone, action), sim.manage_zone(zone, action));
            }
            14 => {
                same(&|| "flush".into(), host.flush(), sim.flush());
                same(&|| "discard".into(), host.discard(range), sim.discard(range));
            }
            _ => conventional_requests(&host, &sim, &mut prng),
        }
        assert_eq!(host.zone(zone), sim.zone(zone));
    }
    let states =
        |disk: &dyn Disk| -> Vec<_> { disk.report_zones().iter().map(|info| info.state).collect() };
    assert_eq!(states(&host), states(&sim));
    let full_after_finish = |zone: ZoneId| sim.zone(zone).unwrap().state == ZoneState::Full;
    drop(host);
    // The drive's own report, not our table of it.
    let host = open(path);
    assert_eq!(*host.geometry(), geometry);
    for info in sim.report_zones() {
        let expected = match info.state {
            ZoneState::Open { write_pointer, .. } if write_pointer == info.start => {
                ZoneState::Empty
            }
            ZoneState::Open { write_pointer, .. } => ZoneState::Closed { write_pointer },
            state => state,
        };
        assert_eq!(host.zone(info.zone).unwrap().state, expected, "{}", info.zone);
    }
    for zone in zones.into_iter().filter(|&zone| !full_after_finish(zone)) {
        both_read(&host, &sim, geometry.zone_range(zone).unwrap());
    }
    for zone in conventional(&geometry) {
        let start = geometry.zone_range(zone).unwrap().start;
        both_read(&host, &sim, BlockRange::new(start, used_of(&geometry, zone)));
    }
}

fn conventional_requests(host: &HostDisk, sim: &SimDisk, prng: &mut Prng) {
    let geometry = *host.geometry();
    for zone in conventional(&geometry) {
        let used = used_of(&geometry, zone).get();
        let len = 1 + prng.below(32.min(used));
        let at = geometry.zone_range(zone).unwrap().start + Blocks::new(prng.below(used - len + 1));
        let range = BlockRange::new(at, Blocks::new(len));
        both_write(host, sim, range, prng);
        both_read(host, sim, range);
        let what = || format!("reset of {zone}");
        same(
            &what,
            host.manage_zone(zone, ZoneAction::Reset),
            sim.manage_zone(zone, ZoneAction::Reset),
        );
    }
}

fn plain_as_emulated(path: &Path) {
    let host = open(path);
    let sim = SimDisk::builder(*host.geometry()).memory().unwrap();
    let used = BlockRange::new(Lba::new(0), Blocks::new(PLAIN_LEN));
    host.write_zeroes(used, Persist::Through).unwrap();
    let mut prng = Prng::new(7);
    for _ in 0..REQUEST_COUNT {
        let len = 1 + prng.below(64);
        let range = BlockRange::new(Lba::new(prng.below(PLAIN_LEN - len)), Blocks::new(len));
        match prng.below(8) {
            0..4 => both_write(&host, &sim, range, &mut prng),
            4 => {
                // Discarded blocks may read as anything.
                host.discard(range).unwrap();
                host.write_zeroes(range, Persist::Cached).unwrap();
                sim.write_zeroes(range, Persist::Cached).unwrap();
            }
            5 => same(&|| "flush".into(), host.flush(), sim.flush()),
            _ => both_read(&host, &sim, range),
        }
    }
    batch_read(&host, &sim, used);
    let past = BlockRange::new(Lba::new(host.geometry().len().get() - 1), Blocks::new(2));
    both_read(&host, &sim, past);
    drop(host);
    both_read(&open(path), &sim, used);
}

fn batch_read(host: &HostDisk, sim: &SimDisk, used: BlockRange) {
    let read = |disk: &dyn Disk| {
        let mut bufs = vec![vec![0; 3 * BLOCK_LEN_BYTES]; 20];
        let starts = (0..20).map(|i| Lba::new(used.start.get() + i * 37 % 500));
        let mut requests: Vec<_> =
            starts.zip(&mut bufs).map(|(at, buf)| ReadRequest { at, buf }).collect();
        disk.read_batch(&mut requests).map(|()| bufs)
    };
    same(&|| "batch".into(), read(host), read(sim));
}

fn opened_once(path: &Path) {
    let _first = open(path);
    assert!(matches!(HostDisk::open(path), Err(HostDiskError::InUse { .. })));
}

/// Writes one sector behind the last whole block, as a power cut may leave it.
fn torn_block(path: &Path) {
    let (host, _) = blank(path);
    let zone = sequential(host.geometry())[0];
    let start = host.geometry().zone_range(zone).unwrap().start;
    let whole = vec![0xaa; 2 * BLOCK_LEN_BYTES];
    host.write(start, &whole, Persist::Through).unwrap();
    drop(host);
    const O_DIRECT: i32 = 0x4000;
    let device = std::fs::OpenOptions::new().write(true).custom_flags(O_DIRECT).open(path).unwrap();
    let memory = vec![0xbb; 512 + BLOCK_LEN_BYTES];
    let from = memory.as_ptr().align_offset(BLOCK_LEN_BYTES);
    let offset = (start.get() + 2) * BLOCK_LEN_BYTES as u64;
    let torn = device.write_at(&memory[from..from + 512], offset);
    drop(device);
    let host = open(path);
    let mut block = vec![0; BLOCK_LEN_BYTES];
    let third = start + Blocks::new(2);
    match torn {
        Ok(_) => {
            assert_eq!(
                host.zone(zone).unwrap().state,
                ZoneState::Closed { write_pointer: third + Blocks::new(1) },
                "the block is filled up"
            );
            host.read(third, &mut block).unwrap();
            assert!(block[..512].iter().all(|&byte| byte == 0xbb));
            assert!(block[512..].iter().all(|&byte| byte == 0));
            host.write(third + Blocks::new(1), &block, Persist::Cached).unwrap();
        }
        // The drive's sectors are as long as a block.
        Err(_) => {
            assert_eq!(host.zone(zone).unwrap().state, ZoneState::Closed { write_pointer: third });
        }
    }
    let mut read = vec![0; whole.len()];
    host.read(start, &mut read).unwrap();
    assert!(read == whole);
}

/// Zones that a killed program had opened do not count against the limit of the next.
fn left_open(path: &Path) {
    let (host, _) = blank(path);
    let zones = sequential(host.geometry());
    let limit = host.geometry().zones().unwrap().open_zone_limit.map_or(4, |limit| limit as usize);
    let used = &zones[..limit.min(zones.len())];
    for &zone in used {
        host.manage_zone(zone, ZoneAction::Open).unwrap();
    }
    drop(host);
    let host = open(path);
    for &zone in used {
        assert_eq!(host.zone(zone).unwrap().state, ZoneState::Empty);
        host.manage_zone(zone, ZoneAction::Open).unwrap();
    }
    for &zone in used {
        host.manage_zone(zone, ZoneAction::Close).unwrap();
    }
}

/// Checks that every zone that was written is blank again.
fn reset(path: &Path) {
    let host = open(path);
    // The limits are larger than that.
    for zone in sequential(host.geometry()).into_iter().take(4) {
        let start = host.geometry().zone_range(zone).unwrap().start;
        if host.zone(zone).unwrap().state == ZoneState::Empty {
            host.write(start, &[0xcc; BLOCK_LEN_BYTES], Persist::Cached).unwrap();
        }
    }
    host.reset_zones().unwrap();
    let is_blank = |state| matches!(state, ZoneState::Empty | ZoneState::NoPointer);
    assert!(host.report_zones().iter().all(|info| is_blank(info.state)));
    drop(host);
    assert!(open(path).report_zones().iter().all(|info| is_blank(info.state)));
}

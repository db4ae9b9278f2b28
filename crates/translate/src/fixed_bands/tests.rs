use super::*;
use imbrex_clockwork::Prng;
use imbrex_disk::{GeometrySpec, Rule, ShingleSpec};
use imbrex_disk_sim::{FailAt, FaultPlan, SimDisk};
use std::fmt::Write as _;

mod bounds;
mod damage;
mod model;

fn shingled(len: u64, track_len: u64, overlap_tracks: u32) -> Geometry {
    let track_len = Blocks::new(track_len);
    let rule = Rule::IsolationDistance(ShingleSpec { track_len, overlap_tracks });
    Geometry::new(GeometrySpec { len: Blocks::new(len), rule }).unwrap()
}

fn options(band_len: u64) -> BandOptions {
    let gather_len = Blocks::ZERO;
    BandOptions { band_len: Blocks::new(band_len), id: 77, gather_len, ..BandOptions::default() }
}

fn range(start: u64, len: u64) -> BlockRange {
    BlockRange::new(Lba::new(start), Blocks::new(len))
}

fn blocks(fill: u8, len: u64) -> Vec<u8> {
    vec![fill; Blocks::new(len).bytes() as usize]
}

/// The first byte of each block of a run; `Err` as text.
fn fills(disk: &dyn Disk, at: u64, len: u64) -> Result<Vec<u8>, String> {
    let mut buf = blocks(0xEE, len);
    disk.read(Lba::new(at), &mut buf).map_err(|error| error.to_string())?;
    Ok(buf.chunks(BLOCK_LEN_BYTES).map(|block| block[0]).collect())
}

/// What one script drives.
struct Story {
    drive: Arc<SimDisk>,
    bands: Option<FixedBands>,
}

impl Story {
    fn command(slot: &mut Option<Story>, case: &datadriven::TestCase) -> String {
        let arg = |name: &str| case.args.get(name).and_then(|v| v.first()).cloned();
        let number = |name: &str| arg(name).map(|text| text.parse::<u64>().unwrap());
        let need = |name: &str| number(name).unwrap_or_else(|| panic!("it needs {name}"));
        if case.directive == "drive" {
            let geometry = shingled(
                number("len").unwrap_or(1_000),
                number("track-len").unwrap_or(4),
                number("overlap").unwrap_or(2) as u32,
            );
            let drive = Arc::new(SimDisk::builder(geometry).memory().unwrap());
            let mut options = options(number("band").unwrap_or(16));
            options.gather_len = Blocks::new(number("gather").unwrap_or(0));
            if arg("staging").as_deref() == Some("none") {
                options.staging = Staging::None;
            }
            if arg("read-back").as_deref() == Some("whole-band") {
                options.read_back = ReadBack::WholeBand;
            }
            let bands = FixedBands::format(Arc::clone(&drive) as Arc<dyn Disk>, &options);
            return match bands {
                Ok(bands) => {
                    let text = format!("{} bands\n", bands.band_count());
                    *slot = Some(Story { drive, bands: Some(bands) });
                    text
                }
                Err(error) => format!("error: {error}\n"),
            };
        }
        let story = slot.as_mut().expect("the first command is `drive`");
        match case.directive.as_str() {
            "power-goes" => {
                let power_cut_after = Some(need("after"));
                let plan = FaultPlan { power_cut_after, ..FaultPlan::default() };
                story.drive.set_faults(plan);
                "armed\n".to_owned()
            }
            "reopen" => {
                story.bands = None;
                story.drive.power_cycle(&mut Prng::new(1)).unwrap();
                match FixedBands::open(Arc::clone(&story.drive) as Arc<dyn Disk>) {
                    Ok(bands) => story.bands = Some(bands),
                    Err(error) => return format!("error: {error}\n"),
                }
                "open\n".to_owned()
            }
            "read" => match fills(story.bands(), need("at"), need("len")) {
                Ok(fills) => format!("{fills:?}\n"),
                Err(error) => format!("error: {error}\n"),
            },
            "write" => {
                let data = blocks(need("fill") as u8, need("len"));
                let at = Lba::new(need("at"));
                story.told(|bands| bands.write(at, &data, Persist::Cached))
            }
            "discard" => story.told(|bands| bands.discard(range(need("at"), need("len")))),
            "flush" => story.told(|bands| bands.flush()),
            other => panic!("no such command: {other}"),
        }
    }

    fn bands(&self) -> &FixedBands {
        self.bands.as_ref().expect("the bands are open")
    }

    /// Performs `what` and tells what the bands did for it.
    fn told(&self, what: impl FnOnce(&FixedBands) -> Result<(), DiskError>) -> String {
        let before = self.bands().band_counters();
        if let Err(error) = what(self.bands()) {
            return format!("error: {error}\n");
        }
        let after = self.bands().band_counters();
        let mut text = String::new();
        let mut tell = |what: &str, after: u64, before: u64| {
            if after > before {
                let comma = if text.is_empty() { "" } else { ", " };
                write!(text, "{comma}{what} {}", after - before).unwrap();
            }
        };
        let in_blocks = |bytes: u64| bytes / BLOCK_LEN_BYTES as u64;
        tell("direct", after.direct_writes, before.direct_writes);
        tell("rewrite", after.rewrites, before.rewrites);
        for (what, after, before) in [
            ("read back", after.read_back_bytes, before.read_back_bytes),
            ("rewritten", after.rewritten_bytes, before.rewritten_bytes),
            ("staged", after.staged_bytes, before.staged_bytes),
            ("journal", after.log_bytes, before.log_bytes),
        ] {
            tell(what, in_blocks(after), in_blocks(before));
        }
        if text.is_empty() { "done\n".to_owned() } else { text + "\n" }
    }
}

#[test]
fn band_scripts() {
    datadriven::walk(concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/fixed_bands"), |file| {
        let mut story = None;
        file.run(|case| Story::command(&mut story, case));
    });
}

#[test]
fn what_cannot_be_bands_is_refused_clearly() {
    let conventional = Arc::new(SimDisk::tiny_conventional(Blocks::new(1_000)));
    let check = |drive: Arc<SimDisk>, options: &BandOptions, expected: &str| {
        let error = FixedBands::format(drive, options).expect_err("refused").to_string();
        assert_eq!(error, expected);
    };
    let shingled = || Arc::new(SimDisk::builder(shingled(200, 4, 2)).memory().unwrap());
    let expected = "fixed bands need a shingled drive, but this one is conventional";
    check(Arc::clone(&conventional), &options(16), expected);
    let error = FixedBands::open(conventional).unwrap_err().to_string();
    assert_eq!(error, expected);
    check(
        shingled(),
        &options(16),
        "the drive has 50 tracks; one band, the journal and their guards need 54",
    );
    check(shingled(), &options(0), "band_len in blocks is 0; it must be between 1 and 20480");
    let error = FixedBands::open(shingled()).unwrap_err().to_string();
    assert_eq!(error, "no fixed bands on this drive: neither superblock is one; format it first");
}

/// Bands on a drive of 800 blocks with something in them.
fn filled() -> (Arc<SimDisk>, FixedBands) {
    let drive = Arc::new(SimDisk::builder(shingled(800, 4, 2)).memory().unwrap());
    let bands = FixedBands::format(Arc::clone(&drive) as Arc<dyn Disk>, &options(16)).unwrap();
    for at in [0, 16, 40, 64] {
        bands.write(Lba::new(at), &blocks(at as u8 + 1, 12), Persist::Cached).unwrap();
    }
    bands.write(Lba::new(3), &blocks(99, 2), Persist::Cached).unwrap();
    bands.flush().unwrap();
    (drive, bands)
}

#[test]
fn a_damaged_superblock_has_a_copy_and_a_damaged_journal_is_an_error() {
    let (drive, bands) = filled();
    let expected = fills(&bands, 0, 128).unwrap();
    let log = bands.layout.logs[bands.read_state().journal.region_index()];
    drop(bands);
    drive.flip_bit(Lba::new(0), 100).unwrap();
    let bands = FixedBands::open(Arc::clone(&drive) as Arc<dyn Disk>).unwrap();
    assert_eq!(fills(&bands, 0, 128).unwrap(), expected);
    drop(bands);
    drive.flip_bit(Lba::new(12), 100).unwrap();
    let error = FixedBands::open(Arc::clone(&drive) as Arc<dyn Disk>).unwrap_err().to_string();
    assert!(error.starts_with("no fixed bands on this drive"), "{error}");

    let (drive, bands) = filled();
    bands.write(Lba::new(80), &blocks(7, 4), Persist::Through).unwrap();
    drop(bands);
    // The first record behind the checkpoint; a later frame says that it was durable.
    drive.flip_bit(Lba::new(log.start.get() + 2), 1_000).unwrap();
    let error = FixedBands::open(drive).unwrap_err().to_string();
    assert!(error.starts_with("journal is damaged: region 0: the log is damaged"), "{error}");
}

#[test]
fn another_drive_and_another_version_are_refused() {
    let (drive, bands) = filled();
    let superblock = bands.layout.superblock;
    drop(bands);
    let other = Arc::new(SimDisk::builder(shingled(804, 4, 2)).memory().unwrap());
    other.write(Lba::new(0), &superblock.encode(), Persist::Through).unwrap();
    let error = FixedBands::open(other).unwrap_err().to_string();
    assert_eq!(
        error,
        "the superblock tells of 800 blocks in tracks of 4 blocks, 2 overlapping, but the drive is \
         804 blocks in tracks of 4 blocks, 2 overlapping; was it copied?"
    );
    let mut bytes = superblock.encode();
    bytes[8] = 9;
    for at in [0, 12] {
        drive.write(Lba::new(at), &bytes, Persist::Through).unwrap();
    }
    let error = FixedBands::open(drive).unwrap_err().to_string();
    assert!(error.starts_with("fixed bands of format version 9, but this program reads version 1"));
}

#[test]
fn a_failed_rewrite_is_finished_by_the_next_opening() {
    let (drive, bands) = filled();
    let before = fills(&bands, 0, 128).unwrap();
    let mut outcomes = std::collections::BTreeSet::new();
    drop(bands);
    for fail in 0..5 {
        let bands = FixedBands::open(Arc::clone(&drive) as Arc<dyn Disk>).unwrap();
        bands.write(Lba::new(16), &blocks(17, 12), Persist::Cached).unwrap();
        bands.flush().unwrap();
        let fail_write = Some(FailAt { after: fail, sticky: true });
        drive.set_faults(FaultPlan { fail_write, ..FaultPlan::default() });
        let result = bands.write(Lba::new(18), &blocks(50, 1), Persist::Cached);
        drive.set_faults(FaultPlan::default());
        let after = fills(&bands, 16, 16);
        let is_closed = bands.write(Lba::new(0), &blocks(1, 1), Persist::Cached).is_err();
        outcomes.insert((result.is_ok(), after.is_ok(), is_closed));
        assert_eq!(fills(&bands, 0, 16).unwrap(), before[..16], "other bands can be read");
        drop(bands);
        let bands = FixedBands::open(Arc::clone(&drive) as Arc<dyn Disk>).unwrap();
        let found = fills(&bands, 16, 12).unwrap();
        let old = vec![17; 12];
        let mut new = old.clone();
        new[2] = 50;
        assert!(found == old || found == new, "{fail}: {found:?}");
        assert!(result.is_err() || found == new);
    }
    // Staging failed; the rewrite failed; it did not.
    assert_eq!(
        outcomes.into_iter().collect::<Vec<_>>(),
        [(false, false, true), (false, true, true), (true, true, false)]
    );
}

#[test]
fn runs_are_bounded_and_what_is_too_many_counts_as_valid() {
    let drive = Arc::new(SimDisk::builder(shingled(3_000, 4, 2)).memory().unwrap());
    let mut options = options(32);
    options.run_count_max = 8;
    let bands = FixedBands::format(Arc::clone(&drive) as Arc<dyn Disk>, &options).unwrap();
    let len = bands.geometry().len().get().min(512);
    for at in (0..len.div_ceil(3)).rev().map(|third| 3 * third) {
        bands.write(Lba::new(at), &blocks(1 + (at % 200) as u8, 1), Persist::Cached).unwrap();
    }
    let band_count = len.div_ceil(32) as usize;
    assert!(bands.read_state().valid.count() <= 8 + band_count);
    for at in (0..len).step_by(6) {
        bands.discard(range(at, 1)).unwrap();
    }
    assert!(bands.read_state().valid.count() <= 8 + band_count);
    bands.flush().unwrap();
    drop(bands);
    let bands = FixedBands::open(drive).unwrap();
    let found = fills(&bands, 0, len).unwrap();
    for at in 0..len {
        let kept = at % 3 == 0 && at % 6 != 0;
        let fill = 1 + (at % 200) as u8;
        let found = found[at as usize];
        assert!(found == fill || (!kept && found == 0), "block {at}: {found}");
    }
}

#[test]
fn amplification_follows_from_the_counters() {
    let drive = Arc::new(SimDisk::builder(shingled(4_000, 4, 2)).memory().unwrap());
    let mut options = options(64);
    options.staging = Staging::None;
    let bands = FixedBands::format(Arc::clone(&drive) as Arc<dyn Disk>, &options).unwrap();
    let before = bands.counters();
    bands.write(Lba::new(0), &blocks(1, 64), Persist::Cached).unwrap();
    bands.write(Lba::new(0), &blocks(2, 16), Persist::Cached).unwrap();
    let counters = bands.counters() - before;
    let block = BLOCK_LEN_BYTES as u64;
    assert_eq!(counters.written_bytes - counters.added_written_bytes, 80 * block, "the host's");
    assert_eq!(counters.added_written_bytes, 48 * block, "the rest of the band");
    assert_eq!(counters.added_read_bytes, 48 * block);
    assert_eq!(counters.written_bytes, drive.counters().written_bytes - before.written_bytes);
}

#[test]
fn every_block_lies_where_it_is_found_and_errors_name_the_hosts_blocks() {
    let (drive, bands) = filled();
    let len = bands.geometry().len().get();
    let mut found: Vec<u64> = Vec::new();
    for at in 0..800 {
        let Some(host) = bands.layout.host_block(imbrex_disk::Pba::new(at)) else { continue };
        assert_eq!(bands.layout.locate(host).get(), at);
        found.push(host.get());
    }
    assert_eq!(found, (0..len).collect::<Vec<_>>());
    let below = Lba::new(bands.layout.locate(Lba::new(20)).get());
    drive.damage(BlockRange::new(below, Blocks::new(1)));
    let error = fills(&bands, 10, 20).unwrap_err();
    assert_eq!(error, "lba 20 cannot be read: medium error; restore the data from a copy");
    // A rewrite that cannot read everything back changes nothing.
    let error = bands.write(Lba::new(16), &blocks(9, 1), Persist::Cached).unwrap_err();
    assert!(matches!(error, DiskError::Medium { at } if at == Lba::new(20)), "{error}");
    assert_eq!(fills(&bands, 16, 4).unwrap(), [17; 4]);
    bands.discard(range(20, 1)).unwrap();
    bands.write(Lba::new(16), &blocks(9, 1), Persist::Cached).unwrap();
    assert_eq!(fills(&bands, 16, 6).unwrap(), [9, 17, 17, 17, 0, 17]);
}

#[test]
fn what_waits_and_cannot_be_done_is_told_by_the_flush_and_goes_on_waiting() {
    let (drive, bands) = filled();
    drop(bands);
    let mut options = options(16);
    options.gather_len = Blocks::new(16);
    let bands = FixedBands::format(Arc::clone(&drive) as Arc<dyn Disk>, &options).unwrap();
    bands.write(Lba::new(16), &blocks(1, 12), Persist::Through).unwrap();
    let bad = Lba::new(bands.layout.locate(Lba::new(25)).get());
    drive.damage(BlockRange::new(bad, Blocks::new(1)));
    bands.write(Lba::new(16), &blocks(2, 2), Persist::Cached).unwrap();
    for _ in 0..2 {
        let error = bands.flush().unwrap_err();
        assert!(matches!(error, DiskError::Medium { at } if at == Lba::new(25)), "{error}");
        assert_eq!(fills(&bands, 16, 3).unwrap(), [2, 2, 1]);
    }
    bands.discard(range(25, 1)).unwrap();
    bands.flush().unwrap();
    drop(bands);
    let bands = FixedBands::open(drive).unwrap();
    assert_eq!(fills(&bands, 16, 12).unwrap(), [2, 2, 1, 1, 1, 1, 1, 1, 1, 0, 1, 1]);
}

/// What cannot be done in one band keeps no other from being written and made durable, and the write that makes the
/// unreadable block needless is taken.
#[test]
fn an_unreadable_block_is_of_its_band_alone_and_can_be_written_again() {
    let repairs = [(25, 1, Persist::Cached), (25, 1, Persist::Through), (24, 4, Persist::Cached)];
    for (at, len, persist) in repairs {
        for read_back in [ReadBack::ToEndOfValid, ReadBack::WholeBand] {
            let cache = Blocks::new(1_000);
            let drive = SimDisk::builder(shingled(800, 4, 2)).write_cache(cache).memory().unwrap();
            let drive = Arc::new(drive);
            let options = BandOptions { gather_len: Blocks::new(16), read_back, ..options(16) };
            let open = || FixedBands::open(Arc::clone(&drive) as Arc<dyn Disk>).unwrap();
            let bands = FixedBands::format(Arc::clone(&drive) as Arc<dyn Disk>, &options).unwrap();
            for start in [16, 48] {
                bands.write(Lba::new(start), &blocks(1, 12), Persist::Through).unwrap();
            }
            let bad = Lba::new(bands.layout.locate(Lba::new(25)).get());
            drive.damage(BlockRange::new(bad, Blocks::new(1)));
            bands.write(Lba::new(16), &blocks(2, 2), Persist::Cached).unwrap();
            // A rewrite and a write that needs none, in other bands.
            bands.write(Lba::new(50), &blocks(3, 1), Persist::Cached).unwrap();
            bands.write(Lba::new(80), &blocks(4, 2), Persist::Cached).unwrap();
            let error = bands.flush().unwrap_err();
            assert!(matches!(error, DiskError::Medium { at } if at == Lba::new(25)), "{error}");
            drop(bands);
            drive.power_cycle(&mut Prng::new(3)).unwrap();
            let bands = open();
            assert_eq!(fills(&bands, 48, 4).unwrap(), [1, 1, 3, 1], "durable");
            assert_eq!(fills(&bands, 80, 3).unwrap(), [4, 4, 0], "durable");
            bands.write(Lba::new(16), &blocks(2, 2), Persist::Cached).unwrap();
            let error = bands.write(Lba::new(20), &blocks(9, 1), Persist::Cached).unwrap_err();
            assert!(matches!(error, DiskError::Medium { at } if at == Lba::new(25)), "{error}");
            bands.write(Lba::new(at), &blocks(5, len), persist).unwrap();
            if persist == Persist::Cached {
                bands.flush().unwrap();
            }
            drop(bands);
            drive.power_cycle(&mut Prng::new(4)).unwrap();
            let mut expected = [2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1];
            expected[at as usize - 16..(at + len) as usize - 16].fill(5);
            assert_eq!(fills(&open(), 16, 12).unwrap(), expected);
        }
    }
}

/// What waits is older than what is written over it.
#[test]
fn a_repair_over_a_part_of_what_waits_is_the_newer() {
    let drive = Arc::new(SimDisk::builder(shingled(800, 4, 2)).memory().unwrap());
    let options = BandOptions { gather_len: Blocks::new(16), ..options(16) };
    let bands = FixedBands::format(Arc::clone(&drive) as Arc<dyn Disk>, &options).unwrap();
    bands.write(Lba::new(16), &blocks(1, 12), Persist::Through).unwrap();
    let bad = Lba::new(bands.layout.locate(Lba::new(22)).get());
    drive.damage(BlockRange::new(bad, Blocks::new(1)));
    bands.write(Lba::new(17), &blocks(2, 4), Persist::Cached).unwrap();
    bands.write(Lba::new(19), &blocks(3, 4), Persist::Through).unwrap();
    let expected = [1, 2, 2, 3, 3, 3, 3, 1, 1, 1, 1, 1];
    assert_eq!(fills(&bands, 16, 12).unwrap(), expected);
    drop(bands);
    let bands = FixedBands::open(drive).unwrap();
    assert_eq!(fills(&bands, 16, 12).unwrap(), expected);
}

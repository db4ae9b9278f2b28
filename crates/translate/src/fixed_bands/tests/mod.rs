use super::*;
use imbrex_clockwork::Prng;
use imbrex_disk::{DiskLayer, GeometrySpec, Rule, ShingleSpec};
use imbrex_disk_sim::{FailAt, FaultPlan, SimDisk};
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

mod activities;
mod bounds;
mod damage;
mod killed;
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

/// The state of one script.
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

    /// Performs `what` and prints what the bands did for it.
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
fn impossible_bands_are_refused_with_a_reason() {
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
    check(
        shingled(),
        &options(0),
        "the length of a band in blocks is 0; it must be between 1 and 20480",
    );
    let error = FixedBands::open(shingled()).unwrap_err().to_string();
    assert_eq!(error, "no fixed bands on this drive: neither superblock exists; format it first");
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
    // The first record after the checkpoint; a later frame says that it was durable.
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
        "the superblock describes 800 blocks in tracks of 4 blocks, 2 overlapping, but the drive is \
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
    // Staging failed; the rewrite failed; it succeeded.
    assert_eq!(
        outcomes.into_iter().collect::<Vec<_>>(),
        [(false, false, true), (false, true, true), (true, true, false)]
    );
}

#[test]
fn runs_are_bounded_and_gaps_beyond_the_bound_count_as_valid() {
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
fn locate_and_host_block_are_inverse_and_errors_name_the_hosts_blocks() {
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
    // A block that cannot be read is left out of a rewrite, and stays unreadable until it is
    // written or discarded.
    bands.write(Lba::new(16), &blocks(9, 1), Persist::Cached).unwrap();
    assert_eq!(fills(&bands, 16, 4).unwrap(), [9, 17, 17, 17]);
    let error = fills(&bands, 20, 1).unwrap_err();
    assert!(error.starts_with("lba 20 cannot be read"), "{error}");
    bands.discard(range(20, 1)).unwrap();
    assert_eq!(fills(&bands, 16, 6).unwrap(), [9, 17, 17, 17, 0, 17]);
}

#[test]
fn a_waiting_write_that_fails_is_reported_by_the_flush_and_keeps_waiting() {
    let (drive, bands) = filled();
    drop(bands);
    let mut options = options(16);
    options.gather_len = Blocks::new(16);
    let bands = FixedBands::format(Arc::clone(&drive) as Arc<dyn Disk>, &options).unwrap();
    bands.write(Lba::new(16), &blocks(1, 12), Persist::Through).unwrap();
    bands.write(Lba::new(16), &blocks(2, 2), Persist::Cached).unwrap();
    for _ in 0..2 {
        let fail_read = Some(FailAt { after: 0, sticky: false });
        drive.set_faults(FaultPlan { fail_read, ..FaultPlan::default() });
        let error = bands.flush().unwrap_err();
        assert!(matches!(error, DiskError::Host { .. }), "{error}");
        assert_eq!(fills(&bands, 16, 3).unwrap(), [2, 2, 1]);
    }
    bands.flush().unwrap();
    drop(bands);
    let bands = FixedBands::open(drive).unwrap();
    assert_eq!(fills(&bands, 16, 12).unwrap(), [2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]);
}

/// A block that cannot be read does not keep other blocks from being written, through rewrites and
/// openings. It never reads as zeros, and can be read once it is written again.
#[test]
fn an_unreadable_block_is_lost_alone_and_can_be_written_again() {
    let repairs = [(25, 1, Persist::Cached), (25, 1, Persist::Through), (24, 4, Persist::Cached)];
    let kinds = [ReadBack::ToEndOfValid, ReadBack::WholeBand];
    for (at, len, persist) in repairs {
        for (read_back, refuses) in kinds.into_iter().flat_map(|kind| [(kind, false), (kind, true)])
        {
            let builder = SimDisk::builder(shingled(800, 4, 2)).write_cache(Blocks::new(1_000));
            let builder = if refuses { builder.refuse_destroying() } else { builder };
            let drive = Arc::new(builder.memory().unwrap());
            let options = BandOptions { gather_len: Blocks::new(16), read_back, ..options(16) };
            let open = || FixedBands::open(Arc::clone(&drive) as Arc<dyn Disk>).unwrap();
            let bands = FixedBands::format(Arc::clone(&drive) as Arc<dyn Disk>, &options).unwrap();
            for start in [16, 48] {
                bands.write(Lba::new(start), &blocks(1, 12), Persist::Through).unwrap();
            }
            let bad = Lba::new(bands.layout.locate(Lba::new(25)).get());
            drive.damage(BlockRange::new(bad, Blocks::new(1)));
            bands.write(Lba::new(50), &blocks(3, 1), Persist::Cached).unwrap();
            let mut expected = [1; 12];
            let mut bands = Some(bands);
            for (life, fill) in (3..).zip([2, 4, 5]) {
                let own = bands.take().unwrap_or_else(&open);
                own.write(Lba::new(16), &blocks(fill, 2), Persist::Cached).unwrap();
                own.flush().unwrap();
                own.write(Lba::new(21), &blocks(fill, 1), Persist::Through).unwrap();
                drop(own);
                drive.power_cycle(&mut Prng::new(life)).unwrap();
                let own = open();
                for at in [0, 1, 5] {
                    expected[at] = fill;
                }
                assert_eq!(fills(&own, 16, 9).unwrap(), expected[..9]);
                assert_eq!(fills(&own, 26, 2).unwrap(), expected[10..]);
                let error = fills(&own, 25, 1).unwrap_err();
                assert!(error.starts_with("lba 25 cannot be read"), "{error}");
                assert_eq!(fills(&own, 48, 4).unwrap(), [1, 1, 3, 1]);
            }
            let bands = open();
            bands.write(Lba::new(at), &blocks(6, len), persist).unwrap();
            if persist == Persist::Cached {
                bands.flush().unwrap();
            }
            drop(bands);
            drive.power_cycle(&mut Prng::new(7)).unwrap();
            expected[at as usize - 16..(at + len) as usize - 16].fill(6);
            assert_eq!(fills(&open(), 16, 12).unwrap(), expected);
        }
    }
}

/// A drive that cannot read one block for a while, and may drop discards.
#[derive(Debug)]
struct Flaky {
    drive: Arc<SimDisk>,
    bad: AtomicU64,
    keeps_discarded: bool,
}

impl DiskLayer for Flaky {
    fn below(&self) -> &dyn Disk {
        &*self.drive
    }

    fn pass_read(&self, at: Lba, buf: &mut [u8]) -> Result<(), DiskError> {
        let bad = Lba::new(self.bad.load(Relaxed));
        match BlockRange::new(at, Blocks::holding(buf.len() as u64)).contains(bad) {
            true => Err(DiskError::Medium { at: bad }),
            false => self.drive.read(at, buf),
        }
    }
    fn pass_discard(&self, range: BlockRange) -> Result<(), DiskError> {
        if self.keeps_discarded { Ok(()) } else { self.drive.discard(range) }
    }
}

/// The power goes at any moment of a rewrite around an unreadable block, which the rewrite destroys
/// below. From then on the block cannot be read, whatever is written around it, and never reads as
/// zeros.
#[test]
fn a_rewrite_around_an_unreadable_block_can_be_cut_anywhere() {
    let mut outcomes = std::collections::BTreeSet::new();
    for (cut, keeps_discarded) in (0..12).flat_map(|cut| [(cut, false), (cut, true)]) {
        let drive = Arc::new(SimDisk::builder(shingled(800, 4, 2)).memory().unwrap());
        let bad = AtomicU64::new(u64::MAX);
        let flaky = Arc::new(Flaky { drive: Arc::clone(&drive), bad, keeps_discarded });
        let bands = FixedBands::format(Arc::clone(&flaky) as Arc<dyn Disk>, &options(16)).unwrap();
        bands.write(Lba::new(16), &blocks(1, 12), Persist::Through).unwrap();
        flaky.bad.store(bands.layout.locate(Lba::new(25)).get(), Relaxed);
        let power_cut_after = Some(cut);
        drive.set_faults(FaultPlan { power_cut_after, ..FaultPlan::default() });
        let _ = bands.write(Lba::new(16), &blocks(2, 1), Persist::Through);
        drop(bands);
        drive.power_cycle(&mut Prng::new(cut)).unwrap();
        flaky.bad.store(u64::MAX, Relaxed);
        let mut is_lost = false;
        for fill in 3..6 {
            let bands = FixedBands::open(Arc::clone(&flaky) as Arc<dyn Disk>).unwrap();
            let found = fills(&bands, 16, 9).unwrap();
            assert!(found[0] < fill && found[1..] == [1; 8], "cut at {cut}: {found:?}");
            assert_eq!(fills(&bands, 26, 2).unwrap(), [1, 1]);
            match fills(&bands, 25, 1) {
                Ok(found) => assert!(found == [1] && !is_lost, "cut at {cut}: {found:?}"),
                Err(error) => {
                    assert!(error.starts_with("lba 25 cannot be read"), "{error}");
                    is_lost = true;
                }
            }
            bands.write(Lba::new(16), &blocks(fill, 1), Persist::Through).unwrap();
        }
        outcomes.insert(is_lost);
    }
    assert_eq!(outcomes.len(), 2, "lost by the rewrite, or not yet");
}

/// A waiting write is older than writes over it.
#[test]
fn a_repair_over_a_part_of_a_waiting_write_is_newer() {
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

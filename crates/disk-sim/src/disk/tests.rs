mod cuts;

use super::*;
use crate::{FailAt, Misdirect};
use imbrex_disk::{GeometrySpec, NeighbourSpec, Rule, ShingleSpec, ZoneSpec};
use std::fmt::Write as _;

fn block(fill: u8) -> Vec<u8> {
    vec![fill; BLOCK_LEN_BYTES]
}

fn blocks(fills: &[u8]) -> Vec<u8> {
    fills.iter().flat_map(|&fill| block(fill)).collect()
}

/// The first byte of each block of a run; `Err` as text.
fn fills(disk: &SimDisk, at: u64, len: u64) -> Result<Vec<u8>, String> {
    let mut buf = vec![0; Blocks::new(len).bytes() as usize];
    disk.read(Lba::new(at), &mut buf).map_err(|error| error.to_string())?;
    Ok(buf.chunks(BLOCK_LEN_BYTES).map(|b| b[0]).collect())
}

fn cached(spec: GeometrySpec, cache: u64) -> SimDisk {
    let geometry = Geometry::new(spec).unwrap();
    SimDisk::builder(geometry).write_cache(Blocks::new(cache)).memory().unwrap()
}

fn anywhere(len: u64) -> GeometrySpec {
    GeometrySpec { len: Blocks::new(len), rule: Rule::Anywhere }
}

fn zoned(zone_count: u64, zone_len: u64) -> GeometrySpec {
    let zones = ZoneSpec {
        zone_len: Blocks::new(zone_len),
        zone_capacity: Blocks::new(zone_len),
        conventional_zone_count: 1,
        open_zone_limit: None,
        active_zone_limit: None,
        strict_reads: false,
    };
    GeometrySpec { len: Blocks::new(zone_count * zone_len), rule: Rule::AtPointer(zones) }
}

/// Runs one script of `testdata/`: commands for one disk, answers as text.
fn run_script(path: &str) {
    datadriven::walk(path, |file| {
        let mut disk = None;
        file.run(|case| script_command(&mut disk, case));
    });
}

fn script_command(slot: &mut Option<SimDisk>, case: &datadriven::TestCase) -> String {
    let arg = |name: &str| case.args.get(name).and_then(|v| v.first()).map(|v| number(v));
    let need = |name: &str| arg(name).unwrap_or_else(|| panic!("{} needs {name}", case.directive));
    if case.directive == "disk" {
        *slot = Some(script_disk(&arg));
        return picture(slot.as_ref().unwrap());
    }
    let disk = slot.as_ref().expect("the first command is `disk`");
    let zone = ZoneId(arg("zone").unwrap_or(0) as u32);
    let action = |action| answer(disk, disk.manage_zone(zone, action));
    match case.directive.as_str() {
        "write" => {
            let data = block(arg("fill").unwrap_or(1) as u8).repeat(need("len") as usize);
            answer(disk, disk.write(Lba::new(need("at")), &data, Persist::Cached))
        }
        "read" => match fills(disk, need("at"), need("len")) {
            Ok(fills) => format!("{fills:?}\n"),
            Err(error) => format!("error: {error}\n"),
        },
        "open" => action(ZoneAction::Open),
        "close" => action(ZoneAction::Close),
        "finish" => action(ZoneAction::Finish),
        "reset" => action(ZoneAction::Reset),
        "flush" => answer(disk, disk.flush()),
        "discard" => {
            let range = BlockRange::new(Lba::new(need("at")), Blocks::new(need("len")));
            answer(disk, disk.discard(range))
        }
        "read-only" => answer(disk, disk.fail_zone(zone, ZoneFailure::ReadOnly)),
        "offline" => answer(disk, disk.fail_zone(zone, ZoneFailure::Offline)),
        "power-cycle" => answer(disk, disk.power_cycle(&mut Prng::new(1)).map(drop)),
        other => panic!("no such command: {other}"),
    }
}

fn script_disk(arg: &dyn Fn(&str) -> Option<u64>) -> SimDisk {
    if let Some(track_len) = arg("track-len") {
        let track_len = Blocks::new(track_len);
        let overlap_tracks = arg("overlap").unwrap_or(1) as u32;
        let rule = match arg("top-track-len").map(Blocks::new) {
            None => Rule::IsolationDistance(ShingleSpec { track_len, overlap_tracks }),
            Some(top_track_len) => {
                Rule::Neighbours(NeighbourSpec { bottom_track_len: track_len, top_track_len })
            }
        };
        let len = Blocks::new(arg("len").unwrap_or(8 * track_len.get()));
        let geometry = Geometry::new(GeometrySpec { len, rule }).unwrap();
        let cache = Blocks::new(arg("cache").unwrap_or(0));
        let mut builder = SimDisk::builder(geometry).write_cache(cache);
        if arg("refuse") == Some(1) {
            builder = builder.refuse_destroying();
        }
        return builder.memory().unwrap();
    }
    let zone_len = arg("zone-len").unwrap_or(8);
    let spec = ZoneSpec {
        zone_len: Blocks::new(zone_len),
        zone_capacity: Blocks::new(arg("capacity").unwrap_or(zone_len)),
        conventional_zone_count: arg("conventional").unwrap_or(1) as u32,
        open_zone_limit: arg("open-limit").map(|n| n as u32),
        active_zone_limit: arg("active-limit").map(|n| n as u32),
        strict_reads: arg("strict").unwrap_or(1) == 1,
    };
    let len = Blocks::new(arg("len").unwrap_or(4 * zone_len));
    let geometry = Geometry::new(GeometrySpec { len, rule: Rule::AtPointer(spec) }).unwrap();
    let cache = Blocks::new(arg("cache").unwrap_or(0));
    SimDisk::builder(geometry).write_cache(cache).memory().unwrap()
}

fn number(text: &str) -> u64 {
    text.parse().unwrap_or_else(|_| panic!("{text} is not a number"))
}

fn answer(disk: &SimDisk, result: Result<(), DiskError>) -> String {
    match result {
        Ok(()) => picture(disk),
        Err(error) => format!("error: {error}\n"),
    }
}

/// One character per block of the platter: `v` valid, `x` destroyed, `.` blank. Tracks are
/// separated.
fn track_picture(disk: &SimDisk, table: &crate::rule::TrackTable) -> String {
    let geometry = disk.geometry();
    let track_len = match geometry.rule() {
        Rule::IsolationDistance(shingle) => shingle.track_len,
        _ => geometry.len(),
    };
    let whole = BlockRange::new(Lba::new(0), disk.geometry().len());
    let mut blocks = vec!['.'; whole.len.get() as usize];
    for (run, mark) in table.read().runs_in(whole) {
        let range = run.start.get() as usize..run.end().get() as usize;
        blocks[range].fill(if mark == Mark::Valid { 'v' } else { 'x' });
    }
    let part = |range: BlockRange| {
        blocks[range.start.get() as usize..range.end().get() as usize].iter().collect::<String>()
    };
    let tracks: Vec<String> = geometry
        .write_parts(whole)
        .flat_map(|run| {
            let starts = (run.start.get()..run.end().get()).step_by(track_len.get() as usize);
            starts.map(move |start| {
                let len = track_len.min(run.end() - Lba::new(start));
                BlockRange::new(Lba::new(start), len)
            })
        })
        .map(part)
        .collect();
    tracks.join(" ") + "\n"
}

/// One line: every zone's state, with its write pointer if it has one, and `!` if explicitly open.
fn picture(disk: &SimDisk) -> String {
    if let Some(table) = disk.rule.tracks() {
        return track_picture(disk, table);
    }
    let mut line = String::new();
    for info in disk.report_zones() {
        let separator = if line.is_empty() { "" } else { " | " };
        write!(line, "{separator}{}", info.state).unwrap();
        if let Some(pointer) = info.state.write_pointer(info.start) {
            write!(line, " {}", pointer.get()).unwrap();
        }
        if matches!(info.state, imbrex_disk::ZoneState::Open { explicit: true, .. }) {
            line.push('!');
        }
    }
    line + "\n"
}

#[test]
fn zone_scripts() {
    run_script(concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/zoned"));
}

#[test]
fn overlapping_scripts() {
    run_script(concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/shingled"));
    run_script(concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/interlaced"));
}

#[test]
fn unsupported_geometries_are_refused_clearly() {
    let geometry = Geometry::new(zoned((1 << 22) + 1, 1)).unwrap();
    let error = SimDisk::builder(geometry).memory().expect_err("not simulated");
    assert!(error.to_string().starts_with("the drive has 4194305 zones"), "{error}");
}

#[test]
fn wrong_buffers_and_ranges_are_refused() {
    let disk = SimDisk::tiny_conventional(Blocks::new(8));
    let write = |at, len: usize| {
        disk.write(Lba::new(at), &vec![0; len], Persist::Cached).unwrap_err().to_string()
    };
    assert_eq!(write(0, 0), "buffer of 0 bytes at lba 0: not a positive multiple of 4096");
    assert_eq!(write(0, 100), "buffer of 100 bytes at lba 0: not a positive multiple of 4096");
    assert_eq!(write(7, 8192), "blocks 7..9 lie past the end of the disk, which has 8 blocks");
    assert!(matches!(
        disk.write(Lba::new(u64::MAX), &block(0), Persist::Cached),
        Err(DiskError::OutOfRange { .. })
    ));
    let zone = disk.manage_zone(ZoneId(0), ZoneAction::Open).unwrap_err();
    assert_eq!(zone.to_string(), "cannot open zone 0: the disk has no zones");
}

#[test]
fn conventional_blocks_may_be_rewritten_and_discarded() {
    let disk = SimDisk::tiny_conventional(Blocks::new(64));
    disk.write(Lba::new(3), &blocks(&[1, 2, 3, 4]), Persist::Cached).unwrap();
    disk.write(Lba::new(4), &blocks(&[9]), Persist::Through).unwrap();
    disk.discard(BlockRange::new(Lba::new(5), Blocks::new(1))).unwrap();
    assert_eq!(fills(&disk, 2, 6).unwrap(), [0, 1, 9, 0, 4, 0]);
    let counters = disk.counters();
    assert_eq!((counters.writes, counters.written_bytes), (2, 5 * 4096));
    assert_eq!((counters.reads, counters.read_bytes), (1, 6 * 4096));
}

#[test]
fn cached_writes_are_readable_and_flushed_ones_survive() {
    let disk = cached(anywhere(64), 16);
    disk.write(Lba::new(0), &blocks(&[1, 2]), Persist::Cached).unwrap();
    disk.flush().unwrap();
    disk.write(Lba::new(1), &blocks(&[7, 8]), Persist::Cached).unwrap();
    assert_eq!(fills(&disk, 0, 4).unwrap(), [1, 7, 8, 0]);
    disk.cut_power();
    assert_eq!(fills(&disk, 0, 1).unwrap_err(), "the disk has no power; reopen it to recover");
    disk.power_cycle(&mut Prng::new(3)).unwrap();
    let after = fills(&disk, 0, 4).unwrap();
    assert_eq!(after[0], 1, "flushed and not overwritten");
    assert!(after[1] == 2 || after[1] == 7, "the old or the new block, got {}", after[1]);
}

#[test]
fn a_write_through_survives_even_over_older_cached_writes() {
    for seed in 0..50 {
        let disk = cached(anywhere(64), 16);
        disk.write(Lba::new(0), &blocks(&[1, 1, 1]), Persist::Cached).unwrap();
        disk.write(Lba::new(1), &blocks(&[2]), Persist::Through).unwrap();
        disk.power_cycle(&mut Prng::new(seed)).unwrap();
        assert_eq!(fills(&disk, 1, 1).unwrap(), [2], "seed {seed}");
    }
}

#[test]
fn a_full_cache_destages_the_oldest_first() {
    let disk = cached(anywhere(64), 4);
    for at in 0..10 {
        disk.write(Lba::new(at), &block(at as u8 + 1), Persist::Cached).unwrap();
    }
    disk.power_cycle(&mut Prng::new(1)).unwrap();
    assert_eq!(fills(&disk, 0, 6).unwrap(), [1, 2, 3, 4, 5, 6], "destaged, so durable");
}

#[test]
fn every_combination_survives_in_conventional_space() {
    let mut outcomes = std::collections::BTreeSet::new();
    for seed in 0..500 {
        let disk = cached(anywhere(8), 8);
        disk.write(Lba::new(0), &blocks(&[1, 1]), Persist::Cached).unwrap();
        disk.write(Lba::new(1), &blocks(&[2, 2]), Persist::Cached).unwrap();
        disk.power_cycle(&mut Prng::new(seed)).unwrap();
        outcomes.insert(fills(&disk, 0, 3).unwrap());
    }
    // Block 0: old or 1; block 1: old, 1 or 2; block 2: old or 2.
    assert_eq!(outcomes.len(), 2 * 3 * 2, "{outcomes:?}");
}

#[test]
fn a_prefix_survives_in_a_sequential_zone() {
    let mut pointers = std::collections::BTreeSet::new();
    for seed in 0..200 {
        let disk = cached(zoned(3, 8), 64);
        disk.write(Lba::new(8), &blocks(&[1]), Persist::Through).unwrap();
        disk.write(Lba::new(9), &blocks(&[2, 3]), Persist::Cached).unwrap();
        disk.write(Lba::new(11), &blocks(&[4, 5, 6, 7, 8]), Persist::Cached).unwrap();
        assert_eq!(disk.zone(ZoneId(1)).unwrap().state, imbrex_disk::ZoneState::Full);
        disk.power_cycle(&mut Prng::new(seed)).unwrap();
        let info = disk.zone(ZoneId(1)).unwrap();
        let pointer = info.state.write_pointer(info.start).map_or(16, Lba::get);
        let expected: Vec<u8> =
            (8..16).map(|b| if b < pointer { b as u8 - 7 } else { 0 }).collect();
        assert_eq!(fills(&disk, 8, 8).unwrap(), expected, "seed {seed}");
        pointers.insert(pointer);
    }
    assert_eq!(pointers.into_iter().collect::<Vec<_>>(), (9..=16).collect::<Vec<_>>());
}

#[test]
fn a_reset_is_durable_and_drops_cached_writes() {
    let disk = cached(zoned(3, 8), 64);
    disk.write(Lba::new(8), &blocks(&[1, 2, 3]), Persist::Cached).unwrap();
    disk.manage_zone(ZoneId(1), ZoneAction::Reset).unwrap();
    disk.power_cycle(&mut Prng::new(5)).unwrap();
    assert_eq!(disk.zone(ZoneId(1)).unwrap().state, imbrex_disk::ZoneState::Empty);
    assert_eq!(fills(&disk, 8, 8).unwrap(), [0; 8]);
}

#[test]
fn power_goes_during_the_event_after_the_counted_ones() {
    let mut outcomes = std::collections::BTreeSet::new();
    for seed in 0..200 {
        let disk = SimDisk::tiny_zoned(3, Blocks::new(8));
        disk.set_faults(FaultPlan { power_cut_after: Some(1), ..FaultPlan::default() });
        disk.write(Lba::new(8), &blocks(&[1]), Persist::Cached).unwrap();
        let cut = disk.write(Lba::new(9), &blocks(&[2, 3]), Persist::Cached);
        assert!(matches!(cut, Err(DiskError::PowerLost)));
        assert!(matches!(disk.flush(), Err(DiskError::PowerLost)));
        let outcome = disk.power_cycle(&mut Prng::new(seed)).unwrap();
        assert_eq!(outcome.survived + outcome.lost, Blocks::new(2));
        let info = disk.zone(ZoneId(1)).unwrap();
        outcomes.insert(info.state.write_pointer(info.start).unwrap().get());
        disk.flush().unwrap();
    }
    assert_eq!(outcomes.into_iter().collect::<Vec<_>>(), [9, 10, 11]);
}

#[test]
fn a_reset_on_its_way_happens_or_not() {
    let mut outcomes = std::collections::BTreeSet::new();
    for seed in 0..50 {
        let disk = SimDisk::tiny_zoned(3, Blocks::new(8));
        disk.write(Lba::new(8), &blocks(&[1, 2]), Persist::Through).unwrap();
        disk.set_faults(FaultPlan { power_cut_after: Some(0), ..FaultPlan::default() });
        assert!(disk.manage_zone(ZoneId(1), ZoneAction::Reset).is_err());
        disk.power_cycle(&mut Prng::new(seed)).unwrap();
        outcomes.insert(picture(&disk));
    }
    let expected = ["conventional | closed 10 | empty 16\n", "conventional | empty 8 | empty 16\n"];
    assert_eq!(outcomes.into_iter().collect::<Vec<_>>(), expected);
}

#[test]
fn failed_requests_report_and_a_failed_flush_poisons() {
    let disk = SimDisk::tiny_conventional(Blocks::new(8));
    disk.set_faults(FaultPlan {
        fail_read: Some(FailAt { after: 1, sticky: false }),
        fail_write: Some(FailAt { after: 1, sticky: false }),
        fail_flush: Some(FailAt { after: 1, sticky: true }),
        ..FaultPlan::default()
    });
    let write = |fill| disk.write(Lba::new(0), &block(fill), Persist::Cached);
    write(1).unwrap();
    let failed = write(2).unwrap_err().to_string();
    assert!(failed.starts_with("write of blocks 0..1 (injected fault): "), "{failed}");
    assert_eq!(fills(&disk, 0, 1).unwrap(), [1], "a failed write changed nothing");
    assert!(fills(&disk, 0, 1).is_err());
    assert_eq!(fills(&disk, 0, 1).unwrap(), [1], "a transient error passes");
    write(3).unwrap();
    disk.flush().unwrap();
    assert!(matches!(disk.flush(), Err(DiskError::Host { .. })));
    assert!(matches!(disk.flush(), Err(DiskError::Poisoned)));
    assert!(matches!(write(4), Err(DiskError::Poisoned)));
    assert_eq!(fills(&disk, 0, 1).unwrap(), [3], "a poisoned disk can be read");
}

/// A failed write may leave a prefix at a write pointer, and any blocks elsewhere. No layer above
/// may assume that it wrote nothing.
#[test]
fn a_failed_write_may_have_written_a_part() {
    let mut at_pointer = std::collections::BTreeSet::new();
    let mut elsewhere = std::collections::BTreeSet::new();
    for seed in 0..60 {
        let faults = FaultPlan {
            fail_write: Some(FailAt { after: 0, sticky: false }),
            write_part: Some(seed),
            ..FaultPlan::default()
        };
        let disk = SimDisk::tiny_conventional(Blocks::new(8));
        disk.write(Lba::new(0), &blocks(&[1; 8]), Persist::Cached).unwrap();
        disk.set_faults(faults.clone());
        disk.write(Lba::new(2), &blocks(&[2; 4]), Persist::Cached).unwrap_err();
        let got = fills(&disk, 0, 8).unwrap();
        assert_eq!((&got[..2], &got[6..]), (&[1, 1][..], &[1, 1][..]));
        elsewhere.insert(got[2..6].to_vec());
        let disk = SimDisk::tiny_zoned(3, Blocks::new(8));
        let start = disk.zone(ZoneId(1)).unwrap().start;
        disk.set_faults(faults);
        disk.write(start, &blocks(&[3; 4]), Persist::Cached).unwrap_err();
        let pointer = disk.zone(ZoneId(1)).unwrap().state.write_pointer(start).unwrap_or(start);
        let len = (pointer - start).get();
        if len > 0 {
            assert_eq!(fills(&disk, start.get(), len).unwrap(), vec![3; len as usize]);
        }
        at_pointer.insert(len);
        disk.write(pointer, &block(4), Persist::Cached).unwrap();
    }
    assert_eq!(at_pointer.into_iter().collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
    assert!(elsewhere.len() > 10, "{elsewhere:?}");
}

#[test]
fn latent_errors_last_until_written() {
    let disk = SimDisk::tiny_conventional(Blocks::new(16));
    disk.write(Lba::new(0), &blocks(&[1; 16]), Persist::Cached).unwrap();
    disk.damage(BlockRange::new(Lba::new(4), Blocks::new(4)));
    assert_eq!(fills(&disk, 0, 4).unwrap(), [1; 4]);
    let error = fills(&disk, 5, 2).unwrap_err();
    assert!(error.starts_with("lba 5 cannot be read: medium error"), "{error}");
    disk.write(Lba::new(5), &blocks(&[2]), Persist::Cached).unwrap();
    assert_eq!(fills(&disk, 5, 1).unwrap(), [2]);
    disk.power_cycle(&mut Prng::new(1)).unwrap();
    assert!(fills(&disk, 4, 1).is_err(), "power does not heal");
    assert!(fills(&disk, 6, 1).is_err());
    assert_eq!(fills(&disk, 8, 1).unwrap(), [1]);
}

/// A write that is only in the cache heals nothing yet.
#[test]
fn a_lost_write_heals_no_latent_error() {
    let (mut lost, mut kept) = (0, 0);
    for seed in 0..40 {
        let disk = cached(anywhere(16), 8);
        disk.write(Lba::new(0), &blocks(&[1; 16]), Persist::Through).unwrap();
        disk.damage(BlockRange::new(Lba::new(4), Blocks::new(2)));
        disk.write(Lba::new(4), &block(2), Persist::Cached).unwrap();
        assert_eq!(fills(&disk, 3, 2).unwrap(), [1, 2], "the cache has it");
        assert!(fills(&disk, 4, 2).is_err(), "and not the other");
        disk.power_cycle(&mut Prng::new(seed)).unwrap();
        match fills(&disk, 4, 1) {
            Ok(found) => {
                assert_eq!(found, [2], "seed {seed}");
                kept += 1;
            }
            Err(error) => {
                assert!(error.starts_with("lba 4 cannot be read"), "{error}");
                lost += 1;
            }
        }
        assert!(fills(&disk, 5, 1).is_err());
        disk.write(Lba::new(4), &blocks(&[3; 2]), Persist::Cached).unwrap();
        disk.flush().unwrap();
        disk.power_cycle(&mut Prng::new(seed)).unwrap();
        assert_eq!(fills(&disk, 4, 2).unwrap(), [3; 2]);
    }
    assert!(lost > 5 && kept > 5, "{lost} and {kept}");
}

#[test]
fn a_misdirected_write_heals_where_it_lands() {
    let disk = SimDisk::tiny_conventional(Blocks::new(16));
    disk.write(Lba::new(0), &blocks(&[1; 16]), Persist::Cached).unwrap();
    disk.damage(BlockRange::new(Lba::new(2), Blocks::new(1)));
    disk.damage(BlockRange::new(Lba::new(7), Blocks::new(1)));
    let misdirect_write = Some(Misdirect { after: 0, shift: Blocks::new(5) });
    disk.set_faults(FaultPlan { misdirect_write, ..FaultPlan::default() });
    disk.write(Lba::new(2), &block(9), Persist::Cached).unwrap();
    assert!(fills(&disk, 2, 1).is_err());
    assert_eq!(fills(&disk, 7, 1).unwrap(), [9]);
}

#[test]
fn rot_and_misdirection_are_silent() {
    let disk = SimDisk::tiny_conventional(Blocks::new(16));
    disk.write(Lba::new(2), &block(1), Persist::Cached).unwrap();
    disk.flip_bit(Lba::new(2), 1).unwrap();
    assert_eq!(fills(&disk, 2, 1).unwrap(), [3]);
    let misdirect_write = Some(Misdirect { after: 0, shift: Blocks::new(5) });
    disk.set_faults(FaultPlan { misdirect_write, ..FaultPlan::default() });
    disk.write(Lba::new(2), &block(9), Persist::Cached).unwrap();
    assert_eq!(fills(&disk, 2, 1).unwrap(), [3]);
    assert_eq!(fills(&disk, 7, 1).unwrap(), [9]);
}

#[test]
fn a_short_device_refuses_its_missing_end() {
    let disk = SimDisk::tiny_conventional(Blocks::new(16));
    disk.set_faults(FaultPlan { short_len: Some(Blocks::new(10)), ..FaultPlan::default() });
    disk.write(Lba::new(9), &block(1), Persist::Cached).unwrap();
    let error = disk.write(Lba::new(9), &blocks(&[1, 1]), Persist::Cached).unwrap_err();
    let expected = "blocks 9..11 lie past the end of the disk, which has 10 blocks";
    assert_eq!(error.to_string(), expected);
}

#[test]
fn the_same_seed_gives_the_same_hashes() {
    let run = |seed: u64| {
        let builder = SimDisk::builder(Geometry::new(zoned(6, 16)).unwrap())
            .write_cache(Blocks::new(8))
            .event_log();
        let disk = builder.memory().unwrap();
        let mut prng = Prng::new(seed);
        for _ in 0..300 {
            let zone = ZoneId(1 + prng.below(5) as u32);
            let info = disk.zone(zone).unwrap();
            match info.state.write_pointer(info.start) {
                Some(at) => {
                    let data = block(prng.next_u64() as u8);
                    disk.write(at, &data, Persist::Cached).unwrap();
                }
                None => disk.manage_zone(zone, ZoneAction::Reset).unwrap(),
            }
            if prng.chance(1, 40) {
                disk.power_cycle(&mut prng).unwrap();
            }
        }
        (disk.image_hash().unwrap(), disk.event_log_hash(), prng.next_u64())
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

#[test]
fn a_disk_with_mechanics_moves_the_clock_and_repeats_exactly() {
    #[derive(Debug, Default)]
    struct TestClock(std::sync::atomic::AtomicU64);
    impl Clock for TestClock {
        fn now_ns(&self) -> u64 {
            self.0.load(Ordering::Relaxed)
        }
        fn advance_to_ns(&self, at_ns: u64) {
            self.0.fetch_max(at_ns, Ordering::Relaxed);
        }
    }
    let run = |seed| {
        let profile = crate::Profile::by_name("hc620").unwrap().scaled(4 << 30).unwrap();
        let clock = Arc::new(TestClock::default());
        let builder = SimDisk::builder(profile.geometry()).profile(profile).clock(clock.clone());
        let disk = builder.write_cache(Blocks::new(1_000)).event_log().memory().unwrap();
        let mut prng = Prng::new(seed);
        for _ in 0..500 {
            let zone = ZoneId(2 + prng.below(14) as u32);
            let info = disk.zone(zone).unwrap();
            let at = info.state.write_pointer(info.start).unwrap();
            let data = block(prng.next_u64() as u8).repeat(1 + prng.below(8) as usize);
            disk.write(at, &data, Persist::Cached).unwrap();
            let mut pair = [vec![0; BLOCK_LEN_BYTES], vec![0; BLOCK_LEN_BYTES]];
            let [first, second] = &mut pair;
            disk.read_batch(&mut [
                ReadRequest { at, buf: first },
                ReadRequest { at: Lba::new(prng.below(1_000)), buf: second },
            ])
            .unwrap();
            assert_eq!(pair[0][0], data[0]);
            if prng.chance(1, 50) {
                disk.flush().unwrap();
            }
        }
        assert!(disk.counters().busy_ns > 1_000_000_000);
        (disk.image_hash().unwrap(), disk.event_log_hash(), clock.now_ns(), disk.counters())
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1).1, run(2).1);
}

/// What the disk knows of all its blocks: runs of written and of unwritten ones.
fn known(disk: &SimDisk) -> Vec<(bool, u64)> {
    let end = Lba::new(0) + disk.geometry().len();
    let mut runs: Vec<(bool, u64)> = Vec::new();
    let mut at = Lba::new(0);
    while at < end {
        let (known, len) = disk.known(BlockRange::new(at, end - at));
        assert!(!len.is_zero() && at + len <= end);
        let is_written = known == Known::Nothing;
        match runs.last_mut() {
            Some((last, run)) if *last == is_written => *run += len.get(),
            _ => runs.push((is_written, len.get())),
        }
        at += len;
    }
    runs
}

#[test]
fn lost_blocks_of_an_image_do_not_count_as_unwritten() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("d");
    let geometry = Geometry::new(anywhere(4096)).unwrap();
    let disk = SimDisk::builder(geometry).create_image(&path, "", 7).unwrap();
    disk.write(Lba::new(64), &blocks(&[1; 64]), Persist::Cached).unwrap();
    assert_eq!(known(&disk), [(false, 64), (true, 64), (false, 3968)]);
    let whole_len = std::fs::metadata(&path).unwrap().len();
    let file = std::fs::File::options().write(true).open(&path).unwrap();
    // Half of the written data is left, and nothing behind it.
    file.set_len(whole_len - Blocks::new(4096 - 96).bytes()).unwrap();
    assert_eq!(known(&disk), [(false, 64), (true, 4032)]);
    let error = disk.read(Lba::new(2000), &mut [0; BLOCK_LEN_BYTES]).unwrap_err().to_string();
    assert!(error.contains("the image was cut"), "{error}");
}

#[test]
fn a_disk_knows_its_unwritten_blocks() {
    let dir = tempfile::tempdir().unwrap();
    let geometry = Geometry::new(anywhere(4096)).unwrap();
    let image = || SimDisk::builder(geometry).create_image(&dir.path().join("d"), "", 7).unwrap();
    for disk in [SimDisk::tiny_conventional(Blocks::new(4096)), image()] {
        assert_eq!(known(&disk), [(false, 4096)]);
        // Memory is tracked in units of 16 blocks, and an image's host may do the same.
        disk.write(Lba::new(64), &blocks(&[1; 64]), Persist::Cached).unwrap();
        disk.write(Lba::new(4080), &blocks(&[1; 16]), Persist::Cached).unwrap();
        assert_eq!(known(&disk), [(false, 64), (true, 64), (false, 3952), (true, 16)]);
        disk.discard(BlockRange::new(Lba::new(64), Blocks::new(32))).unwrap();
        assert_eq!(known(&disk), [(false, 96), (true, 32), (false, 3952), (true, 16)]);
    }
    let disk = cached(anywhere(64), 32);
    disk.write(Lba::new(20), &blocks(&[1; 2]), Persist::Cached).unwrap();
    assert_eq!(known(&disk), [(false, 20), (true, 2), (false, 42)], "in the write cache only");
    assert_eq!(known(&SimDisk::tiny_zoned(4, Blocks::new(16))), [(true, 64)], "nothing is known");
}

/// A discard does nothing on a sequential zone, so it takes no cached write out of order (W2).
#[test]
fn a_discard_leaves_the_order_of_a_sequential_zone_alone() {
    let disk = cached(zoned(3, 16), 64);
    disk.write(Lba::new(2), &blocks(&[7]), Persist::Cached).unwrap();
    disk.write(Lba::new(16), &blocks(&[1; 4]), Persist::Cached).unwrap();
    disk.write(Lba::new(20), &blocks(&[2; 4]), Persist::Cached).unwrap();
    disk.discard(BlockRange::new(Lba::new(20), Blocks::new(4))).unwrap();
    disk.discard(BlockRange::new(Lba::new(0), Blocks::new(20))).unwrap();
    disk.flush().unwrap();
    disk.power_cycle(&mut Prng::new(1)).unwrap();
    let info = disk.zone(ZoneId(1)).unwrap();
    assert_eq!(info.state.write_pointer(info.start), Some(Lba::new(24)));
    assert_eq!(fills(&disk, 16, 8).unwrap(), [1, 1, 1, 1, 2, 2, 2, 2]);
    assert_eq!(fills(&disk, 2, 1).unwrap(), [0]);
}

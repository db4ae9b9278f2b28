//! Small traces: repeatability, reads before writes, edges, stops, invalid options.

use super::*;
use imbrex_clockwork::Prng;
use imbrex_translate::EvictionOrder;
use imbrex_workload::trace::BUNDLED;
use std::fmt::Write;

fn options(dir: &tempfile::TempDir, text: &str) -> ReplayOptions {
    let path = dir.path().join("trace.csv");
    std::fs::write(&path, text).unwrap();
    ReplayOptions {
        buffer_bytes: 2 << 20,
        zone_len_bytes: 1 << 20,
        squeezes: true,
        ..ReplayOptions::new(TraceSource::File { path, format: None })
    }
}

fn random(count: u64) -> String {
    let mut prng = Prng::new(9);
    let mut text = String::new();
    for at in 0..count {
        let op = if prng.chance(1, 4) { 'r' } else { 'w' };
        let (offset, size) = (prng.below(30 << 8) << 12, (1 + prng.below(16)) << 12);
        writeln!(text, "{},{op},{offset},{size}", at * 3000).unwrap();
    }
    text
}

#[test]
fn the_same_trace_gives_the_same_report_and_an_order_another() {
    let dir = tempfile::tempdir().unwrap();
    let mut options = options(&dir, &random(3000));
    let json = |options: &ReplayOptions| {
        let report = replay(options, &mut |_, _| true).unwrap();
        assert!(report.is_complete && report.timely_cleanings > 0, "{report:?}");
        assert!(report.written.amplification() > 1.0);
        serde_json::to_string(&report).unwrap()
    };
    let first = json(&options);
    assert_eq!(first, json(&options));
    options.eviction = EvictionOrder::LeastRecentlyWritten;
    assert_ne!(first, json(&options));
    options.buffer_bytes = 0;
    json(&options);
}

#[test]
fn edges_are_read_and_blocks_read_first_are_prefilled() {
    let dir = tempfile::tempdir().unwrap();
    let text = "0,r,8192,4096\n10,w,100,50\n20,w,4000,200\n30,w,4096,4096\n";
    let report = replay(&options(&dir, text), &mut |_, _| true).unwrap();
    assert_eq!((report.prefilled_bytes, report.requests.edge_blocks), (4096, 3));
    assert_eq!(
        (report.requests.reads, report.requests.writes, report.survey.footprint_bytes),
        (1, 3, 12288)
    );
    assert!(report.requests.read_latency.max_ns > 0);
    // A partition that starts at sector 63.
    let report = replay(&options(&dir, "0,w,32256,4096\n1,w,36352,8192\n"), &mut |_, _| true);
    let report = report.unwrap();
    assert_eq!((report.survey.shift_bytes, report.requests.edge_blocks), (512, 0));
}

#[test]
fn a_stop_keeps_the_measurements_and_invalid_options_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let mut options = options(&dir, &random(2000));
    let report = replay(&options, &mut |done, _| done < 512).unwrap();
    assert!(
        !report.is_complete && report.requests.reads + report.requests.writes == 512,
        "{report:?}"
    );
    options.drive_len_bytes = Some(32 << 20);
    let error = replay(&options, &mut |_, _| true).unwrap_err().to_string();
    assert!(error.contains("--drive-size"), "{error}");
    options.drive_len_bytes = Some(8 << 20);
    let error = replay(&options, &mut |_, _| true).unwrap_err().to_string();
    assert!(error.contains("8 sequential zones"), "{error}");
    options.drive_len_bytes = None;
    for (buffer_bytes, text) in [(u64::MAX, "0,w,0,4096\n"), (0, "0,w,4611686018427387904,4096\n")]
    {
        let far = ReplayOptions { buffer_bytes, squeezes: false, ..self::options(&dir, text) };
        let error = replay(&far, &mut |_, _| true).unwrap_err().to_string();
        assert!(error.contains("zones, and 1048576 are the most"), "{error}");
    }
    options.fill_percent = 99;
    let error = replay(&options, &mut |_, _| true).unwrap_err().to_string();
    assert!(error.contains("--fill is 99"), "{error}");
    std::fs::write(dir.path().join("trace.csv"), "time_us,op,offset_bytes,size_bytes\n").unwrap();
    options.fill_percent = 80;
    let error = replay(&options, &mut |_, _| true).unwrap_err().to_string();
    assert!(error.contains("no reads and no writes"), "{error}");
}

#[test]
fn the_drive_has_space_for_all_addresses_of_the_trace() {
    let dir = tempfile::tempdir().unwrap();
    for blocks in (1..=60).map(|at| at * 1111) {
        let text = format!("0,w,0,4096\n1,w,{},4096\n", (blocks - 1) << 12);
        for fill_percent in [30, 80, 95] {
            let unsqueezed =
                ReplayOptions { squeezes: false, fill_percent, ..options(&dir, &text) };
            let report = replay(&unsqueezed, &mut |_, _| true).unwrap();
            assert!(report.device_bytes >= blocks << 12, "{blocks} at {fill_percent} %");
        }
    }
}

#[test]
fn the_longest_of_times_can_be_stretched() {
    let dir = tempfile::tempdir().unwrap();
    let text = "0,w,0,4096\n4611686018427387,w,0,4096\n";
    let stretched = ReplayOptions { time_percent: 400, ..options(&dir, text) };
    let report = replay(&stretched, &mut |_, _| true).unwrap();
    assert_eq!(report.requests.writes, 2);
    assert!(report.requests.write_latency.max_ns < 1_000_000_000, "{report:?}");
}

#[test]
fn requests_that_come_too_fast_wait_and_one_after_another_none_does() {
    let dir = tempfile::tempdir().unwrap();
    let text: String =
        (0..400).map(|at| format!("{at},r,{},4096\n", (at * 7919 % 4096) << 12)).collect();
    let open = replay(&options(&dir, &text), &mut |_, _| true).unwrap();
    let closed = ReplayOptions { is_closed_loop: true, ..options(&dir, &text) };
    let closed = replay(&closed, &mut |_, _| true).unwrap();
    assert!(open.late_percent() > 1000.0, "{}", open.late_percent());
    assert!(
        closed.requests.read_latency.mean_ns * 10 < open.requests.read_latency.mean_ns,
        "{closed:?}"
    );
    let rare: String = (0..40).map(|at| format!("{},r,4096,4096\n", at * 1_000_000)).collect();
    let open = replay(&options(&dir, &rare), &mut |_, _| true).unwrap();
    assert!(open.late_percent() < 1.0, "{}", open.late_percent());
}

#[test]
fn counts_and_footprints_of_bundled_traces_are_those_of_their_files() {
    for trace in BUNDLED {
        let found = survey(&TraceSource::Bundled(trace)).unwrap();
        let told = (trace.request_count, trace.footprint_bytes);
        assert_eq!((found.requests, found.footprint_bytes), told, "{}", trace.name);
    }
}

/// What differs is the zones' and the driver's alone: same requests, same times, same length of the drive.
#[test]
fn the_bare_drive_serves_the_same_requests() {
    let dir = tempfile::tempdir().unwrap();
    let options = options(&dir, &random(3000));
    let zoned = replay(&options, &mut |_, _| true).unwrap();
    let json = || {
        let bare = replay_bare(&options, &mut |_, _| true).unwrap();
        assert!(bare.is_complete);
        let (ours, theirs) = (&zoned.requests, &bare.requests);
        assert_eq!((ours.reads, ours.writes), (theirs.reads, theirs.writes));
        assert_eq!(
            (ours.read_bytes, ours.written_bytes),
            (theirs.read_bytes, theirs.written_bytes)
        );
        assert_eq!(zoned.drive_bytes, bare.drive_bytes);
        assert!(theirs.read_latency.mean_ns > 0 && theirs.megabytes_per_s() > 0.0);
        assert_ne!(ours.write_latency, theirs.write_latency);
        serde_json::to_string(&bare).unwrap()
    };
    assert_eq!(json(), json(), "R1");
    let stopped = replay_bare(&options, &mut |done, _| done < 512).unwrap();
    assert!(!stopped.is_complete && stopped.requests.reads + stopped.requests.writes == 512);
}

/// A journal that is long against the buffer is hardly ever the reason for an eviction.
#[test]
fn a_longer_journal_evicts_less() {
    let dir = tempfile::tempdir().unwrap();
    let of = |journal_bytes| {
        let options = ReplayOptions { journal_bytes, ..options(&dir, &random(3000)) };
        let report = replay(&options, &mut |_, _| true).unwrap();
        assert!(report.journal_evicted_bytes <= report.written.evicted_bytes);
        report.journal_evicted_bytes
    };
    let [short, long] = [of(None), of(Some(64 << 20))];
    assert!(short > 0 && long < short / 2, "{short} {long}");
}

/// Each write begins and ends in the middle of a block. As sectors nothing is widened and no edge is read.
#[test]
fn a_trace_of_sectors_is_replayed_in_sectors() {
    let dir = tempfile::tempdir().unwrap();
    let mut text = "0,r,1024,512\n".to_owned();
    for at in 1..200_u64 {
        writeln!(text, "{},w,{},4096", at * 9000, 512 + 8192 * (at * 37 % 200)).unwrap();
    }
    let of = |unit| {
        // One request of a whole block, so that no shift makes the others whole.
        let options = ReplayOptions { unit, ..options(&dir, &text) };
        let report = replay(&options, &mut |_, _| true).unwrap();
        let bare = replay_bare(&options, &mut |_, _| true).unwrap();
        assert_eq!(bare.drive_bytes, report.drive_bytes);
        assert!(bare.requests.read_latency.mean_ns < 100_000_000);
        report
    };
    let sectors = of(ReplayUnit::Sector);
    assert_eq!((sectors.requests.edge_blocks, sectors.survey.shift_bytes), (0, 0));
    assert_eq!(sectors.survey.footprint_bytes, 512 + 199 * 4096);
    assert_eq!(sectors.requests.written_bytes, 199 * 4096);
    assert_eq!(sectors.written.host_bytes, 199 * 4096);
    assert_eq!(sectors.prefilled_bytes, 512);
    let blocks = of(ReplayUnit::Block);
    assert_eq!(blocks.survey.shift_bytes, 3584, "most begin at one odd sector");
    // The same trace, moved by a sector for each request: no shift helps.
    let mixed: String = (1..200_u64)
        .map(|at| format!("{},w,{},4096\n", at * 9000, 512 * (17 * at % 3200)))
        .collect();
    let of = |unit| {
        let options = ReplayOptions { unit, ..options(&dir, &mixed) };
        replay(&options, &mut |_, _| true).unwrap()
    };
    let (blocks, sectors) = (of(ReplayUnit::Block), of(ReplayUnit::Sector));
    assert!(blocks.requests.edge_blocks > 300 && sectors.requests.edge_blocks == 0);
    assert_eq!(sectors.requests.written_bytes, 199 * 4096);
    assert!(blocks.requests.written_bytes > 360 * 4096, "{}", blocks.requests.written_bytes);
}

/// A block in eight parts takes as long as a block: reads of the same bytes are as quick.
#[test]
fn a_drive_of_sectors_has_the_same_mechanics() {
    let dir = tempfile::tempdir().unwrap();
    let text: String = (0..300_u64)
        .map(|at| format!("{},r,{},65536\n", at * 50_000, (at * 7919 % 4096) << 16))
        .collect();
    let mean = |unit| {
        let options = ReplayOptions { unit, ..options(&dir, &text) };
        replay_bare(&options, &mut |_, _| true).unwrap().requests.read_latency.mean_ns as f64
    };
    let (blocks, sectors) = (mean(ReplayUnit::Block), mean(ReplayUnit::Sector));
    assert!((0.95..1.05).contains(&(sectors / blocks)), "{blocks} {sectors}");
}

//! Benchmarks do what their names say, and in virtual time a seed determines a run.

use imbrex_bench::disk_user::{DiskUserOptions, disk_user};
use imbrex_bench::options::{CompressionType, Mode};
use imbrex_bench::report::Report;
use imbrex_bench::{BenchOptions, RunProgress, RunWatches, run, run_watched};
use imbrex_clockwork::{Clock, WallClock};
use imbrex_disk::ByteSize;
use imbrex_watch::{Line, Subject, Tap, Title};
use std::ops::ControlFlow;
use std::sync::Arc;

/// Small enough for a test, large enough for flushes and compactions.
fn small(benchmarks: &str) -> BenchOptions {
    let mut options = BenchOptions {
        benchmarks: benchmarks.split(',').map(|b| b.parse().expect("a known name")).collect(),
        num: 3000,
        value_size: 400,
        ..BenchOptions::new()
    };
    options.testbed.write_buffer_size = Some(ByteSize(128 << 10));
    options.testbed.target_file_size_base = Some(ByteSize(64 << 10));
    options.testbed.cache_size = Some(ByteSize(64 << 10));
    options
}

fn report(options: &BenchOptions) -> Report {
    run(options, &mut |_| ()).expect("a small run succeeds")
}

/// Runs in both modes; `want` is `(benchmark, operations, found)`.
fn check(benchmarks: &str, change: fn(&mut BenchOptions), want: &[(&str, u64, u64)]) {
    for mode in [Mode::Virtual, Mode::Threads] {
        let mut options = BenchOptions { mode, ..small(benchmarks) };
        change(&mut options);
        let got = report(&options);
        let got: Vec<_> = got.runs.iter().map(|r| (r.benchmark.as_str(), r.ops, r.found)).collect();
        assert_eq!(got, want, "{mode:?}");
    }
}

#[test]
fn written_keys_are_found_and_absent_ones_are_not() {
    check(
        "fillseq,readrandom:500,readmissing:500,readseq,readreverse,seekrandom:50",
        |o| o.seek_nexts = 9,
        &[
            ("fillseq", 3000, 0),
            ("readrandom", 500, 500),
            ("readmissing", 500, 0),
            ("readseq", 3000, 3000),
            ("readreverse", 3000, 3000),
            ("seekrandom", 50, 50),
        ],
    );
}

#[test]
fn a_random_fill_of_every_key_is_the_same_data() {
    check(
        "filluniquerandom,multireadrandom:500,compact,readseq,deleteseq,readrandom:500,readseq",
        |o| o.batch_size = 7,
        &[
            ("filluniquerandom", 3000, 0),
            ("multireadrandom", 500, 500),
            ("compact", 1, 0),
            ("readseq", 3000, 3000),
            ("deleteseq", 3000, 0),
            ("readrandom", 500, 0),
            ("readseq", 0, 0),
        ],
    );
}

#[test]
fn several_clients_do_their_number_each() {
    check(
        "filluniquerandom,overwrite,readwhilewriting:200",
        |o| {
            o.threads = 3;
            o.num = 1000;
        },
        &[("filluniquerandom", 3000, 0), ("overwrite", 3000, 0), ("readwhilewriting", 600, 600)],
    );
}

#[test]
fn a_fill_starts_with_an_empty_store_by_default() {
    check(
        "fillseq,fillsync:5,readseq",
        |_| (),
        &[("fillseq", 3000, 0), ("fillsync", 5, 0), ("readseq", 5, 5)],
    );
    check(
        "fillseq,fillsync:5,readseq",
        |o| o.use_existing_db = true,
        &[("fillseq", 3000, 0), ("fillsync", 5, 0), ("readseq", 3000, 3000)],
    );
}

#[test]
fn in_virtual_time_a_seed_is_a_run() {
    let json = |seed| {
        let all = "fillrandom,overwrite,readrandom,readwhilewriting:300,seekrandom:100";
        let options = BenchOptions { seed, threads: 2, num: 2000, ..small(all) };
        report(&options).to_json()
    };
    let first = json(1);
    assert_eq!(first, json(1));
    assert_ne!(first, json(2));
}

#[test]
fn figures_are_consistent() {
    let options = small("filluniquerandom,readrandom:300");
    let report = report(&options);
    let (fill, read) = (&report.runs[0], &report.runs[1]);
    assert_eq!(fill.written_bytes, 3000 * 416);
    assert!(fill.engine.log_bytes >= fill.written_bytes, "the log holds every byte written");
    assert!(fill.engine.flush_bytes > 0);
    assert!(fill.engine.write_amp_ratio > 0.3, "{}", fill.engine.write_amp_ratio);
    let engine_bytes =
        fill.engine.log_bytes + fill.engine.flush_bytes + fill.engine.compaction_out_bytes;
    assert!(fill.drive.written_bytes >= engine_bytes, "the drive wrote all that the engine did");
    assert_eq!(fill.drive.added_write_amp_ratio, 1.0);
    assert!(fill.settled_ns >= fill.elapsed_ns);
    assert!(fill.space.valid_bytes <= fill.space.occupied_bytes);
    assert_eq!(read.read_bytes, 300 * 416);
    assert!(read.drive.ops_per_disk_second > 10.0, "{}", read.drive.ops_per_disk_second);
    assert!(read.latency.p50_ns <= read.latency.max_ns);
    assert!(report.to_string().contains("ops per disk-second"));
}

/// The writer next to the readers used to wait for ever (here: for its duration) for a reader that had ended by
/// a panic, and the program with it.
#[test]
fn a_client_that_panics_ends_a_run_with_a_companion_writer() {
    let all = "filluniquerandom,readwhilewriting:100000000";
    let options = BenchOptions { mode: Mode::Threads, duration: Some(60), ..small(all) };
    let clock = WallClock::new();
    let run = || {
        let watch = |progress: &RunProgress| {
            assert!(progress.number == 1, "a bug in a reader");
            ControlFlow::Continue(())
        };
        run_watched(&options, &mut |_| (), RunWatches::new(&watch)).map(drop)
    };
    let payload = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).unwrap_err();
    assert_eq!(payload.downcast_ref(), Some(&"a bug in a reader"));
    assert!(clock.now_ns() < 30_000_000_000, "the writer did not hear of it");
}

#[test]
fn a_duration_ends_a_run() {
    let options = BenchOptions { duration: Some(1), ..small("fillseq,readrandom:100000000") };
    let report = report(&options);
    let read = &report.runs[1];
    assert!(read.ops < 100_000_000);
    assert!(1_000_000_000 <= read.elapsed_ns && read.elapsed_ns < 2_000_000_000);
}

#[test]
fn nonsense_is_refused_with_its_name() {
    let error = |change: fn(&mut BenchOptions)| {
        let mut options = small("fillseq");
        change(&mut options);
        run(&options, &mut |_| ()).unwrap_err().to_string()
    };
    assert!(error(|o| o.num = 0).contains("--num"));
    assert!(error(|o| o.testbed.drive = Some("no-such-drive".into())).contains("no-such-drive"));
    assert!(error(|o| o.testbed.layout = Some("no-such-layout".into())).contains("no-such-layout"));
}

#[test]
fn a_flash_drive_stays_with_its_drive() {
    let dir = tempfile::tempdir().unwrap();
    let (drive, flash) = (dir.path().join("drive"), dir.path().join("flash"));
    let offloaded = |change: &dyn Fn(&mut BenchOptions)| {
        let mut options = small("fillrandom");
        options.testbed.layout = Some("smrdb-offload".into());
        options.testbed.shape.capacity = Some(ByteSize(4 << 30));
        change(&mut options);
        run(&options, &mut |_| ())
    };
    let error = |change: &dyn Fn(&mut BenchOptions)| offloaded(change).unwrap_err().to_string();
    let (new, beside) = (Some(drive.clone()), Some(flash.clone()));
    assert!(error(&|o| o.testbed.image.clone_from(&new)).contains("--flash FILE"));
    assert!(error(&|o| o.testbed.flash.clone_from(&beside)).contains("in memory"));
    let other = |o: &mut BenchOptions| {
        o.testbed.layout = Some("smrdb".into());
        (o.testbed.image, o.testbed.flash) = (new.clone(), beside.clone());
    };
    assert!(error(&other).contains("no use for a flash drive"));
    std::fs::write(&flash, "somebody's").unwrap();
    let both = |o: &mut BenchOptions| {
        (o.testbed.image, o.testbed.flash) = (new.clone(), beside.clone());
    };
    error(&both);
    assert!(!drive.exists(), "nothing is left of a pair that was not made");
    assert_eq!(std::fs::read(&flash).unwrap(), b"somebody's");
    std::fs::remove_file(&flash).unwrap();
    assert_eq!(offloaded(&both).unwrap().runs.len(), 1);
    let again = |o: &mut BenchOptions| {
        *o = BenchOptions { use_existing_db: true, ..small("fillrandom") };
        o.testbed.drive = Some(drive.display().to_string());
    };
    let alone = error(&again);
    assert!(alone.contains("flash"), "{alone}");
    let paired = |o: &mut BenchOptions| {
        again(o);
        o.testbed.flash.clone_from(&beside);
    };
    assert_eq!(offloaded(&paired).unwrap().runs.len(), 1);
    let (new, other_flash) = (Some(dir.path().join("other")), Some(dir.path().join("its flash")));
    let other_seed = |o: &mut BenchOptions| {
        o.seed += 1;
        (o.testbed.image, o.testbed.flash) = (new.clone(), other_flash.clone());
    };
    offloaded(&other_seed).unwrap();
    let swapped = |o: &mut BenchOptions| {
        again(o);
        o.testbed.flash.clone_from(&other_flash);
    };
    let wrong = error(&swapped);
    assert!(wrong.contains("the wrong flash drive"), "{wrong}");
}

#[test]
fn the_disk_user_gets_a_share_of_the_heads_best() {
    let options = DiskUserOptions {
        scale: 0.0005,
        drive: "st13125nm007".into(),
        layout: None,
        readahead_size: ByteSize(128 << 10),
        seed: 1,
    };
    let report = disk_user(&options, &mut |_| ()).unwrap();
    assert_eq!(report.rows.len(), 5);
    for row in &report.rows {
        assert!(row.ops_per_disk_second > 0.0, "{}", row.name);
        assert!(row.bound_ops_per_disk_second > 0.0, "{}", row.name);
    }
}

#[test]
fn a_stopped_run_reports_its_work_so_far() {
    let mut options = small("fillrandom,readrandom");
    options.num = 10_000;
    for mode in [Mode::Virtual, Mode::Threads] {
        options.mode = mode;
        let seen = std::sync::Mutex::new(Vec::new());
        let mut finished = Vec::new();
        let watch = |at: &RunProgress| {
            seen.lock().unwrap().push(*at);
            if at.done < 1000 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        };
        let report =
            run_watched(&options, &mut |run| finished.push(run.ops), RunWatches::new(&watch))
                .unwrap();
        assert!(report.interrupted && report.runs[0].interrupted);
        assert_eq!(report.runs.len(), 1, "what comes after does not begin");
        let ops = report.runs[0].ops;
        assert!((1000..1100).contains(&ops), "{ops}");
        assert_eq!(finished, [ops]);
        assert!(report.runs[0].to_string().contains("(interrupted)"));
        let seen = seen.into_inner().unwrap();
        assert!(seen.iter().all(|at| (at.number, at.count) == (1, 2)), "{seen:?}");
        assert!(seen.iter().all(|at| at.total == Some(10_000)), "{seen:?}");
    }
    assert!(!run(&small("fillseq"), &mut |_| ()).unwrap().interrupted);
}

/// A writer that waits for a flush holds up all writers: each of four clients sees the stop, not only one.
#[test]
fn in_virtual_time_all_writers_feel_a_stall() {
    let fourth_longest = |benchmark: &str, batch_size: usize, num: u64, write_buffer_size: u64| {
        let mut options = BenchOptions { batch_size, num, threads: 4, ..small(benchmark) };
        options.settle = false;
        options.testbed.write_buffer_size = Some(ByteSize(write_buffer_size));
        let latency = report(&options).runs[0].latency;
        let fourth_ns = if batch_size == 1 { latency.p9999_ns } else { latency.p999_ns };
        assert!(latency.max_ns > 10_000_000, "some wait: {latency:?}");
        assert!(4 * fourth_ns >= 3 * latency.max_ns, "{benchmark} by {batch_size}: {latency:?}");
    };
    // Of 32,000 operations, and of 3,200 batches.
    fourth_longest("fillrandom", 1, 8000, 1 << 20);
    fourth_longest("fillrandom", 8, 6400, 1 << 20);
    fourth_longest("deleterandom", 1, 8000, 64 << 10);
}

#[test]
fn no_duration_is_too_long() {
    let options = BenchOptions { duration: Some(u64::MAX), ..small("fillseq:10") };
    assert_eq!(report(&options).runs[0].ops, 10);
}

/// The figures of `fillseq` were lost with the failure of `filluniquerandom`.
#[test]
fn a_failure_keeps_what_had_ended() {
    let benchmarks = small("fillseq:100,filluniquerandom").benchmarks;
    let mut options = BenchOptions { benchmarks, ..BenchOptions::new() };
    options.testbed.shape.capacity = Some(ByteSize(64 << 20));
    options.testbed.shape.zone_len = Some(ByteSize(4 << 20));
    options.testbed.compression_type = Some(CompressionType::None);
    options.use_existing_db = true;
    (options.num, options.value_size) = (25_000, 4_080);
    let failure = run(&options, &mut |_| ()).unwrap_err();
    let report = failure.report.as_ref().unwrap();
    assert_eq!(report.runs.len(), 1);
    assert_eq!((&report.runs[0].benchmark[..], report.runs[0].ops), ("fillseq", 100));
    assert!(failure.to_string().contains("filluniquerandom: no space on the drive"), "{failure}");
    let told = report.failure.as_ref().unwrap();
    assert!(told.starts_with("filluniquerandom: no space on the drive"), "{told}");
}

/// A recording of a run in virtual time changes none of its figures.
#[test]
fn a_run_that_is_watched_has_the_same_figures() {
    for layout in ["imbrex-zones", "gear", "smrdb"] {
        let mut options = small("fillrandom,overwrite,readrandom:100");
        options.num = 3_000;
        options.testbed.layout = Some(layout.to_owned());
        let alone = run(&options, &mut |_| ()).unwrap();
        let frames = std::sync::Mutex::new(Vec::new());
        let title = Title { name: "run".into(), layout: layout.into(), is_virtual: true };
        let lines = Arc::new(frames);
        let taken = Arc::clone(&lines);
        let sink = move |line: &Line| taken.lock().unwrap().push(line.clone());
        let tap = Tap::new(0, title, 1_000_000, None, Box::new(sink));
        let store = |now_ns: u64, subject: Subject<'_>| tap.tick(now_ns, subject);
        let progress = |_: &RunProgress| ControlFlow::Continue(());
        let watches = RunWatches { progress: &progress, store: &store };
        let watched = run_watched(&options, &mut |_| (), watches).unwrap();
        let text = |report: &imbrex_bench::report::Report| {
            let runs = report.runs.iter();
            runs.map(|run| (run.elapsed_ns, run.settled_ns, run.drive, run.latency))
                .map(|run| format!("{run:?}"))
                .collect::<Vec<_>>()
        };
        assert_eq!(text(&alone), text(&watched), "{layout}");
        assert!(lines.lock().unwrap().len() > 20, "{layout}: {}", lines.lock().unwrap().len());
    }
}

//! A small device, for minutes of the drive's time.

use super::*;

fn options() -> DeviceBenchOptions {
    DeviceBenchOptions {
        drive: ByteSize(1 << 30),
        profile: "hc620".to_owned(),
        zone_len: ByteSize(4 << 20),
        fill: vec![80, 95],
        loads: vec![DeviceLoad::Random, DeviceLoad::Files],
        days: 1,
        day: 600,
        rate: 30,
        daily: 10_000,
        probes: 600,
        buffer: ByteSize(8 << 20),
        map_memory: ByteSize(4 << 30),
        spare: 12,
        seed: 1,
    }
}

fn run(options: &DeviceBenchOptions) -> DeviceBenchReport {
    let watch = DeviceWatch { finished: &|_| {}, progress: &|_, _| ControlFlow::Continue(()) };
    device_bench(options, watch).unwrap()
}

#[test]
fn days_of_a_small_device_are_counted_and_the_same_again() {
    let report = run(&options());
    assert_eq!(report.refusal, None);
    let all: Vec<(u64, &str)> =
        report.days.iter().map(|day| (day.fill_percent, day.load)).collect();
    assert_eq!(all, [(80, "random"), (80, "files"), (95, "random"), (95, "files")]);
    for day in &report.days {
        for ((_, columns), row) in DeviceBenchReport::tables().into_iter().zip(day.rows()) {
            assert_eq!(columns.len(), row.len());
        }
        let DeviceDay { written, memory, waits, opening, .. } = day;
        let parts = written.journal + written.moved + written.checkpoint + written.summary;
        assert!(written.host_blocks > 1000 && parts <= written.all + 1e-9, "{day:?}");
        assert!(memory.nodes > 100 && memory.map_bytes > 0, "{day:?}");
        assert!(waits.writes > 1000 && waits.write.max_ns > 0 && waits.read.max_ns > 0, "{day:?}");
        assert!(opening.drive_ns > 0 && opening.written_bytes > 0, "{day:?}");
    }
    assert!(report.days.iter().any(|day| day.written.cleanings > 0), "nothing was cleaned");
    let again = run(&options());
    let same = |report: &DeviceBenchReport| -> Vec<_> {
        report.days.iter().map(|day| (day.written, day.memory, day.waits, day.opening)).collect()
    };
    assert_eq!(same(&report), same(&again), "V1");
}

#[test]
fn bad_options_are_told() {
    let told = |options: DeviceBenchOptions| {
        let watch = DeviceWatch { finished: &|_| {}, progress: &|_, _| ControlFlow::Continue(()) };
        match device_bench(&options, watch) {
            Err(BenchError::Options(told)) => told,
            other => panic!("{other:?}"),
        }
    };
    assert!(told(DeviceBenchOptions { fill: vec![101], ..options() }).contains("--fill is 101"));
    assert!(told(DeviceBenchOptions { rate: 0, ..options() }).contains("--rate is 0"));
    assert!(
        told(DeviceBenchOptions { drive: ByteSize(16 << 20), ..options() }).contains("--drive")
    );
}

#[test]
fn a_stopped_run_has_the_days_that_ended() {
    let ended = std::cell::Cell::new(0);
    let watch = DeviceWatch {
        finished: &|_| ended.set(ended.get() + 1),
        progress: &|_, _| match ended.get() {
            0 => ControlFlow::Continue(()),
            _ => ControlFlow::Break(()),
        },
    };
    let report = device_bench(&options(), watch).unwrap();
    assert!(report.interrupted);
    assert_eq!(report.days.len(), 1);
}

/// With hardly any memory for its map, the device serves the same days.
#[test]
fn a_map_on_the_drive_serves_the_same_days() {
    let report = run(&DeviceBenchOptions { map_memory: ByteSize(64 << 10), ..options() });
    assert_eq!((report.refusal.as_deref(), report.days.len()), (None, 4));
    let whole = run(&options());
    for (bounded, whole) in report.days.iter().zip(&whole.days) {
        let (bytes, whole_bytes) = (bounded.memory.map_bytes, whole.memory.map_bytes);
        assert!(bytes < whole_bytes / 2, "{bytes} of {whole_bytes} bytes");
    }
}

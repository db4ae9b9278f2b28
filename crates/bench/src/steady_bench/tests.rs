//! Small runs of the steady bench.

use super::*;
use imbrex_disk::ByteSize;
use imbrex_workload::keys::Skew;
use std::ops::ControlFlow;

fn small(layouts: &[&str], shares: &[u64]) -> GridOptions {
    GridOptions {
        layouts: layouts.iter().map(|&name| name.to_owned()).collect(),
        shares: shares.to_vec(),
        flash: 5,
        num: 6000,
        value_size: 4080,
        overwrites: Skew::Uniform,
        write_buffer_size: None,
        values_apart: None,
        seed: 1,
        jobs: 1,
    }
}

fn run(options: &GridOptions) -> SteadyBenchReport {
    let watch = GridWatch { finished: &|_| (), progress: &|_, _| ControlFlow::Continue(()) };
    steady_bench(options, watch).unwrap()
}

#[test]
fn a_roomy_drive_has_figures_and_a_full_one_its_refusal() {
    let report = run(&small(&["leveled-first-fit"], &[30, 99]));
    let [roomy, full] = &report.runs[..] else { panic!("{:?}", report.runs) };
    let figures = roomy.figures.unwrap();
    assert!(figures.ops_per_disk_second > 1.0, "{figures:?}");
    // The log and the flush, at least.
    assert!(figures.written_ratio > 1.9, "{figures:?}");
    assert!(figures.live_ratio > 0.3 && figures.live_ratio <= 1.0, "{figures:?}");
    assert!(figures.get_ns > 100_000, "a get turns the drive: {figures:?}");
    assert!(figures.scan_ns > figures.get_ns, "{figures:?}");
    assert!(figures.full_scan_bytes_per_second > 1e6, "{figures:?}");
    assert!(figures.longest_put_ns > 0, "{figures:?}");
    assert!(full.figures.is_none() && full.refusal.is_some(), "{full:?}");
    let rows = report.rows();
    assert!(rows.iter().all(|row| row.len() == SteadyBenchReport::columns().len()), "{rows:?}");
    assert_eq!(rows[1][..3], ["leveled-first-fit", "99", "refused"]);
}

/// The longest put was 1.2 s, and 20 overwrites took a second, when each key of a file was looked up by itself and
/// files were chosen without their neighbours in the zone.
#[test]
fn cleaning_of_values_apart_keeps_up_without_long_stalls() {
    let options = GridOptions {
        num: 3000,
        value_size: 64 << 10,
        values_apart: Some(ByteSize(32 << 10)),
        ..small(&["imbrex-zones"], &[80])
    };
    let report = run(&options);
    let figures = report.runs[0].figures.unwrap();
    assert!(figures.longest_put_ns < 1_000_000_000, "{figures:?}");
    assert!(figures.ops_per_disk_second > 35.0 && figures.written_ratio < 6.0, "{figures:?}");
}

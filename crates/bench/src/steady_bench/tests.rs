//! Small runs of the steady bench.

use super::*;
use imbrex_workload::keys::Skew;
use std::ops::ControlFlow;

fn run(layouts: &[&str], shares: &[u64]) -> SteadyBenchReport {
    let options = GridOptions {
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
    };
    let watch = GridWatch { finished: &|_| (), progress: &|_, _| ControlFlow::Continue(()) };
    steady_bench(&options, watch).unwrap()
}

#[test]
fn a_roomy_drive_has_figures_and_a_full_one_its_refusal() {
    let report = run(&["leveled-first-fit"], &[30, 99]);
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

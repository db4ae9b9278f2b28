//! Small runs of the shares bench.

use super::*;
use imbrex_workload::keys::Skew;
use std::ops::ControlFlow;

fn small(layouts: &[&str], shares: &[u64]) -> GridOptions {
    GridOptions {
        layouts: layouts.iter().map(|&name| name.to_owned()).collect(),
        shares: shares.to_vec(),
        flash: 5,
        num: 8000,
        value_size: 4080,
        overwrites: Skew::Uniform,
        write_buffer_size: None,
        values_apart: None,
        seed: 1,
        jobs: 1,
    }
}

fn run(options: &GridOptions) -> Result<ShareBenchReport, BenchError> {
    let watch = GridWatch { finished: &|_| (), progress: &|_, _| ControlFlow::Continue(()) };
    share_bench(options, watch)
}

#[test]
fn a_drive_with_room_sustains_overwrites_and_a_full_one_refuses_them() {
    let report = run(&small(&["leveled-first-fit", "leveldb-cmr"], &[30, 99])).unwrap();
    assert_eq!(report.runs.len(), 4);
    for runs in report.runs.chunks(2) {
        let [roomy, full] = runs else { panic!("{runs:?}") };
        assert!(roomy.last.as_ref().is_some_and(|run| run.ops == 8000), "{roomy:?}");
        let refusal = full.refusal.as_deref().unwrap_or_default();
        assert!(full.last.is_none() && refusal.contains("no space"), "{full:?}");
    }
    let rows = report.rows();
    assert_eq!(rows.len(), 2);
    assert_eq!((&rows[0][0][..], &rows[0][2][..]), ("leveled-first-fit", "refused"));
}

#[test]
fn the_error_names_the_senseless_option() {
    let check = |options: GridOptions, want: &str| {
        let error = run(&options).unwrap_err().to_string();
        assert!(error.contains(want), "{error:?} names {want:?}");
    };
    check(small(&["sealdb"], &[]), "--shares");
    check(small(&["sealdb"], &[0]), "--shares");
    check(small(&["sealdb"], &[100]), "--shares");
    check(GridOptions { flash: 0, ..small(&["imbrex-flash"], &[50]) }, "--flash");
    check(small(&["nosuch"], &[50]), "nosuch");
    check(GridOptions { num: 0, ..small(&["gear"], &[50]) }, "--num");
    check(GridOptions { jobs: 0, ..small(&["gear"], &[50]) }, "--jobs");
}

//! Figure 9: YCSB's load and core workloads A to F.

use super::{STORES, ycsb_run};
use crate::repro::chart::short;
use crate::repro::figures::{need, over};
use crate::repro::spec::Phase;
use crate::repro::{Axis, Better, Chart, Claim, Figure, Page, PhaseResult};

pub(in super::super) const FIGURE_9: Figure = Figure {
    name: "sealdb-9",
    title: "YCSB on three stores",
    paper: "SEALDB, figure 9: 25 million entries loaded, 100 thousand operations a workload",
    runs: |size| STORES.iter().map(|store| ycsb_run(size, store)).collect(),
    page: |size, results| {
        let mut page = Page::default();
        let mut groups = Vec::new();
        let mut rates: Vec<Vec<f64>> = Vec::new();
        for store in STORES {
            let Some(run) = need(&mut page, results, &ycsb_run(size, store)) else {
                rates.push(Vec::new());
                continue;
            };
            groups = run.phases.iter().map(|phase| name(&phase.phase)).collect();
            rates.push(run.phases.iter().map(PhaseResult::ops_per_second).collect());
        }
        let base = rates[0].clone();
        let times = |of: &[f64]| -> Vec<f64> {
            of.iter().zip(&base).map(|(rate, base)| over(*rate, *base)).collect()
        };
        let sealdb = times(&rates[2]);
        for (group, times) in groups.iter().zip(&sealdb) {
            let what = format!("{group}, SEALDB over LevelDB");
            // The paper draws these bars; of all of them it says that SEALDB is ahead.
            page.claims.push(Claim::new(what, Better::Larger, 1.0, *times, "x"));
        }
        let series = STORES.iter().zip(&rates).map(|(s, of)| (s.to_string(), times(of)));
        let labels = rates.iter().map(|of| of.iter().map(|v| short(*v)).collect()).collect();
        let y = Axis::linear("times LevelDB's");
        let title = "normalised to LevelDB; on top, operations per second";
        page.charts.push(Chart::bars(title, groups, y, series.collect()).labelled(labels));
        page.notes.push(
            "Requests follow YCSB's own files: zipfian over scattered ranks for A, B, C, E and F, \
             latest for D. (The paper says E has the latest distribution; in YCSB it is D.)"
                .to_owned(),
        );
        page
    },
};

fn name(phase: &Phase) -> String {
    match phase {
        Phase::Ycsb { workload, .. } => workload.to_string(),
        _ => "load".to_owned(),
    }
}

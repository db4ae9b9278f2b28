//! Figure 14: how much of the gain is the sets', and how much the dynamic bands'.

use super::{random, sequential};
use crate::repro::chart::short;
use crate::repro::figures::{need, over};
use crate::repro::{Axis, Better, Chart, Claim, Figure, Page, PhaseResult, RunResult};

const STORES: [&str; 3] = ["leveldb-banded", "sets-banded", "sealdb"];

pub(in super::super) const FIGURE_14: Figure = Figure {
    name: "sealdb-14",
    title: "LevelDB, LevelDB with sets, and SEALDB",
    paper: "SEALDB, figure 14",
    runs: |size| STORES.iter().flat_map(|s| [random(size, s), sequential(size, s)]).collect(),
    page: |size, results| {
        let mut page = Page::default();
        let rate = |phase: Option<&PhaseResult>| phase.map_or(0.0, PhaseResult::ops_per_second);
        let mut rates: Vec<[f64; 4]> = Vec::new();
        for store in STORES {
            let by_chance = need(&mut page, results, &random(size, store));
            let in_order = need(&mut page, results, &sequential(size, store));
            rates.push([
                rate(by_chance.and_then(RunResult::load)),
                rate(in_order.and_then(RunResult::load)),
                rate(by_chance.and_then(RunResult::read_sequential)),
                rate(by_chance.and_then(RunResult::read_random)),
            ]);
        }
        // Of SEALDB's lead over LevelDB, the part that sets alone bring.
        let part = |i: usize| over(rates[1][i] - rates[0][i], rates[2][i] - rates[0][i]) * 100.0;
        page.claims = vec![
            Claim::new("sets' part of the gain, random write", Better::Same, 41.0, part(0), "%"),
            Claim::new("sets' part of the gain, random read", Better::Same, 50.0, part(3), "%"),
            Claim::shown("sets' part of the gain, sequential read", part(2), "%"),
            Claim::shown(
                "sequential write, sets over LevelDB",
                over(rates[1][1], rates[0][1]),
                "x",
            ),
        ];
        let times = |of: &[f64; 4]| of.iter().zip(rates[0]).map(|(r, b)| over(*r, b)).collect();
        let series = STORES.iter().zip(&rates).map(|(s, of)| (s.to_string(), times(of)));
        let labels = rates.iter().map(|of| of.iter().map(|v| short(*v)).collect()).collect();
        let groups = ["random write", "sequential write", "sequential read", "random read"];
        let title = "normalised to LevelDB; on top, operations per second";
        let y = Axis::linear("times LevelDB's");
        let groups = groups.map(str::to_owned).to_vec();
        page.charts.push(Chart::bars(title, groups, y, series.collect()).labelled(labels));
        page
    },
};

//! Fuller drives than the paper's: what is left of a lead when hardly anything is free.
//!
//! Not a figure of the paper, whose drive ends three quarters full: one load per store, on and on, read
//! off at several shares of the drive.

use super::{
    DRIVE_BYTES, LoadOrder, NAMES, Phase, STORES, Setting, TABLE_LEN_BYTES, VALUE_LEN_BYTES,
    conditions, percent_below, rate_between, sized, spec_of,
};
use crate::repro::figures::{need, over};
use crate::repro::spec::{RunSpec, Size};
use crate::repro::{
    Axis, Better, Chart, Claim, Figure, Page, PhaseResult, RunResult, Series, Table,
};

/// 3Phase, KVIMR-M, CMR.
const RIVALS: [usize; 3] = [1, 3, 4];

/// Pairs loaded, as shares of the drive.
const FILLS: [f64; 6] = [0.50, 0.65, 0.75, 0.80, 0.85, FILL_MOST];
/// Beyond this no track is free, tables go to pieces of tracks, and each costs seconds.
const FILL_MOST: f64 = 0.88;
/// How much of the drive is loaded at the speed that a row tells.
const WINDOW: f64 = 0.10;

fn run(size: &Size, layout: &'static str) -> RunSpec {
    let bytes = (sized(size).bytes(DRIVE_BYTES) as f64 * FILL_MOST) as u64;
    let load = Phase::load(LoadOrder::Once, bytes, VALUE_LEN_BYTES);
    spec_of(size, layout, Setting::Paper, TABLE_LEN_BYTES, vec![load])
}

/// Puts a second when so much was loaded: of all, and of the last tenth of the drive.
#[derive(Clone, Copy, Debug, Default)]
struct At {
    overall: f64,
    lately: f64,
    /// Of what files may use, the valid share in percent.
    valid: f64,
}

impl At {
    fn of(load: &PhaseResult, fill: f64) -> At {
        let share = fill / FILL_MOST;
        let space = load.at_share(share).map(|m| m.space).unwrap_or_default();
        At {
            overall: rate_between(load, 0.0, share),
            lately: rate_between(load, (fill - WINDOW) / FILL_MOST, share),
            valid: 100.0 * over(space.valid_bytes as f64, space.capacity_bytes as f64),
        }
    }
}

pub(in super::super) const FILL: Figure = Figure {
    name: "kvimr-fill",
    title: "loading until hardly anything is free",
    paper: "KVIMR, sections 4.2.1 and 4.2.2, at fills that the paper does not reach",
    runs: |size| RIVALS.map(|at| run(size, STORES[at])).to_vec(),
    page: |size, results| {
        let mut page = Page::default();
        let found = RIVALS.map(|at| {
            let load = need(&mut page, results, &run(size, STORES[at])).and_then(RunResult::load);
            FILLS.map(|fill| load.map_or(At::default(), |load| At::of(load, fill)))
        });
        page.claims = claims(&found);
        let header = ["fill", "valid %", "3Phase", "KVIMR-M", "CMR", "M over 3Phase"];
        let mut overall = Table::new("puts/s from the start", &header);
        let mut lately = Table::new("puts/s of the last tenth of the drive", &header);
        for (row, fill) in FILLS.iter().enumerate() {
            let [phases, merged, cmr] = [0, 1, 2].map(|at: usize| found[at][row]);
            let name = || format!("{:.0} %", fill * 100.0);
            let add = |table: &mut Table, of: fn(&At) -> f64| {
                let values = [of(&phases), of(&merged), of(&cmr)];
                let times = over(values[1], values[0]);
                table.row(name(), &[&[merged.valid], &values[..], &[times]].concat());
            };
            add(&mut overall, |at| at.overall);
            add(&mut lately, |at| at.lately);
        }
        page.tables.extend([overall, lately]);
        let series = RIVALS.iter().zip(&found).map(|(at, of)| {
            let points = FILLS.iter().zip(of).map(|(fill, at)| (fill * 100.0, at.lately));
            Series::new(NAMES[*at], points.collect())
        });
        let title = "puts/s of the last tenth of the drive";
        let x = Axis::linear("% of the drive loaded");
        page.charts.push(Chart::lines(title, x, Axis::linear("puts/s"), series.collect()));
        page.notes.push(conditions(size));
        page.notes.push(format!(
            "One load on, to {:.0} % of the drive. What a compaction holds twice, level 0, logs and the \
             ends of tables come on top: they are several times the paper's share of the drive here, \
             because tables are.",
            FILL_MOST * 100.0
        ));
        page
    },
};

fn claims(found: &[[At; FILLS.len()]; 3]) -> Vec<Claim> {
    let [phases, merged, cmr] = found;
    let row = |fill: f64| FILLS.iter().position(|&f| f == fill).unwrap_or_default();
    let (paper, high, most) = (row(0.75), row(0.85), row(FILL_MOST));
    let lately = |at: usize| over(merged[at].lately, phases[at].lately);
    let below = |at: usize| percent_below(merged[at].overall, cmr[at].overall);
    let times = |what: &str, value, ours| Claim::new(what, Better::Larger, value, ours, "x");
    vec![
        times(
            "to 75 %, KVIMR-M over 3Phase",
            1.55,
            over(merged[paper].overall, phases[paper].overall),
        ),
        times("from 65 % to 75 %, KVIMR-M over 3Phase", 2.17, lately(paper)),
        times("from 75 % to 85 %, KVIMR-M over 3Phase", 2.17, lately(high)),
        times("from 78 % to 88 %, KVIMR-M over 3Phase", 2.17, lately(most)),
        Claim::new("to 75 %, KVIMR-M below CMR", Better::Smaller, 5.5, below(paper), "%"),
        Claim::new("to 85 %, KVIMR-M below CMR", Better::Smaller, 5.5, below(high), "%"),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::CMR;
    use super::*;

    #[test]
    fn the_stores_are_those_named() {
        assert_eq!(RIVALS.map(|at| STORES[at]), ["imr-3phase", "imr-m", CMR]);
    }
}

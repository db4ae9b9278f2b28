//! Overwriting on a full drive: the rate of each store when only dead data make room.
//!
//! The paper has no such figure: it loads every key once. Here a drive is loaded to a share of its
//! length, then as many puts go to random keys. The data that they replace stay until they are
//! merged, so a drive loaded to 60 % is nine tenths full in between.

use super::fill::{RIVALS, short_tables};
use super::{
    DRIVE_BYTES, LoadOrder, Phase, TABLE_LEN_BYTES_MIN, VALUE_LEN_BYTES, conditions_with,
    rate_between, sized,
};
use crate::chart::{Axis, Chart, Series};
use crate::figure::{Figure, Runs};
use crate::figures::measures::{need, over};
use crate::page::{Page, Table};
use crate::results::PhaseResult;
use crate::spec::{RunSpec, Size};

/// Loaded data as shares of the drive. More does not fit together with the dead data of
/// overwriting.
const FILLS: [f64; 3] = [0.50, 0.55, 0.60];

fn bytes(size: &Size, fill: f64) -> u64 {
    (sized(size).bytes(DRIVE_BYTES) as f64 * fill) as u64
}

fn run(size: &Size, store: &'static str, fill: f64) -> RunSpec {
    let load = |order| Phase::load(order, bytes(size, fill), VALUE_LEN_BYTES);
    short_tables(size, store, vec![load(LoadOrder::Once), load(LoadOrder::Again)])
}

/// The largest valid share of the space for files, in percent.
fn valid(overwriting: &PhaseResult) -> f64 {
    let share = |(valid, capacity)| 100.0 * over(valid as f64, capacity as f64);
    let states =
        overwriting.milestones.iter().map(|m| (m.space.valid_bytes, m.space.capacity_bytes));
    states.map(share).fold(0.0, f64::max)
}

pub(in super::super) const OVERWRITE: Figure = Figure {
    name: "kvimr-overwrite",
    title: "overwriting while the drive is almost full",
    paper: "KVIMR's stores, with puts that each replace a pair",
    runs: Runs::Stores(|size| {
        let fills = |(_, store)| FILLS.map(|fill| run(size, store, fill));
        RIVALS.map(fills).concat()
    }),
    page: |size, results| {
        let mut page = Page::default();
        let header = [
            "store, loaded",
            "highest valid %",
            "puts/s",
            "puts/s, second half",
            "rewritten tracks",
            "syncs of rewrites",
        ];
        let mut table = Table::new("as many further puts as were loaded", &header);
        let mut series = Vec::new();
        for (name, store) in RIVALS {
            let mut points = Vec::new();
            for fill in FILLS {
                let found = need(&mut page, results, &run(size, store, fill));
                let Some([_, overwriting]) = found.map(|run| &run.phases[..]) else { continue };
                let done = overwriting.totals_at_last_op;
                let rate = overwriting.ops_per_second();
                points.push((fill * 100.0, rate));
                let values = [
                    valid(overwriting),
                    rate,
                    rate_between(overwriting, 0.5, 1.0),
                    done.rewritten_tracks as f64,
                    done.track_syncs as f64,
                ];
                table.row(format!("{name}, {:.0} %", fill * 100.0), &values);
            }
            series.push(Series::new(name, points));
        }
        let x = Axis::linear("% of the drive loaded before");
        page.charts.push(Chart::lines("puts/s, overwriting", x, Axis::linear("puts/s"), series));
        page.tables.push(table);
        page.notes.push(conditions_with(size, bytes(size, FILLS[2]), TABLE_LEN_BYTES_MIN));
        page
    },
};

//! Fuller drives than the paper's: the lead that remains when the drive is almost full.
//!
//! The paper has no such figure: its drive ends three quarters full. Here one load per store
//! continues until the drive is full and is sampled at several fill levels.
//!
//! How full a drive can get depends on the data that a compaction holds twice. Tables have 8 MB at
//! every scale here, so this share falls as the drive grows. A table is a 250th of the drive at
//! scale 0.02, and a thousandth at 0.08, close to the paper's proportion.

use super::{
    CMR, DRIVE_BYTES, FULLEST, LoadOrder, Phase, Setting, TABLE_LEN_BYTES, TABLE_LEN_BYTES_MIN,
    VALUE_LEN_BYTES, base_level_len_bytes, conditions_with, percent_below, rate_between, sized,
    spec_of, table_len_bytes_in,
};
use crate::chart::{Axis, Chart, Series};
use crate::figure::{Figure, Runs};
use crate::figures::measures::{need, over};
use crate::page::{Better, Claim, Page, Table};
use crate::results::{PhaseResult, RunResult};
use crate::spec::{RunSpec, Size};

/// The paper's stores, and the one that places by the fullest level.
pub(super) const RIVALS: [(&str, &str); 4] =
    [("3Phase", "imr-3phase"), ("KVIMR-M", "imr-m"), ("CMR", CMR), ("fullest", FULLEST)];

/// Pairs loaded, as shares of the drive; the last share is the maximum that fits.
fn fills(size: &Size) -> [f64; 6] {
    let most = if LARGE_SCALE <= size.scale { 0.92 } else { 0.88 };
    [0.50, 0.65, 0.75, 0.80, 0.85, most]
}

/// At this scale and above, the space of a compaction and the unused ends of tracks are small.
/// Pairs then miss mostly the fiftieth of the drive that a store keeps free, and the space of table
/// metadata.
const LARGE_SCALE: f64 = 0.08;
/// The share of the drive over which a row measures its rate.
const WINDOW: f64 = 0.10;

fn load_bytes(size: &Size) -> u64 {
    (sized(size).bytes(DRIVE_BYTES) as f64 * fills(size)[5]) as u64
}

fn run(size: &Size, layout: &'static str) -> RunSpec {
    let load = Phase::load(LoadOrder::Once, load_bytes(size), VALUE_LEN_BYTES);
    short_tables(size, layout, vec![load])
}

/// A run of `phases` with tables of 8 MB, at every scale.
pub(super) fn short_tables(size: &Size, layout: &'static str, phases: Vec<Phase>) -> RunSpec {
    let spec = spec_of(size, layout, Setting::Paper, TABLE_LEN_BYTES, phases);
    let mut tune = spec.tune;
    tune.memtable_len_bytes = Some(table_len_bytes_in(TABLE_LEN_BYTES_MIN));
    tune.table_len_bytes = tune.memtable_len_bytes;
    tune.base_level_len_bytes = Some(base_level_len_bytes(size, TABLE_LEN_BYTES_MIN));
    tune.l0_run_counts = Some((4, 8, 12));
    spec.tuned(tune)
}

/// Puts per second at a fill level: since the start, and over the last tenth of the drive.
#[derive(Clone, Copy, Debug)]
struct FillPoint {
    overall: f64,
    lately: f64,
    /// The valid share of the space for files, in percent.
    valid: f64,
}

impl FillPoint {
    const NONE: FillPoint = FillPoint { overall: f64::NAN, lately: f64::NAN, valid: f64::NAN };

    fn of(load: &PhaseResult, fill: f64, most: f64) -> FillPoint {
        let share = fill / most;
        let space = load.at_share(share).map(|m| m.space).unwrap_or_default();
        FillPoint {
            overall: rate_between(load, 0.0, share),
            lately: rate_between(load, (fill - WINDOW) / most, share),
            valid: 100.0 * over(space.valid_bytes as f64, space.capacity_bytes as f64),
        }
    }
}

pub(in super::super) const FILL: Figure = Figure {
    name: "kvimr-fill",
    title: "load until the drive is almost full",
    paper: "KVIMR, sections 4.2.1 and 4.2.2, at fills that the paper does not reach",
    runs: Runs::Stores(|size| RIVALS.map(|(_, store)| run(size, store)).to_vec()),
    page: |size, results| {
        let mut page = Page::default();
        let fills = fills(size);
        let found = RIVALS.map(|(_, store)| {
            let load = need(&mut page, results, &run(size, store)).and_then(RunResult::load);
            fills.map(|fill| {
                load.map_or(FillPoint::NONE, |load| FillPoint::of(load, fill, fills[5]))
            })
        });
        page.claims = claims(&fills, &found);
        let [phases, merged, cmr, fullest] = RIVALS.map(|(name, _)| name);
        let header = ["fill", "valid %", phases, merged, cmr, fullest, "M over 3Phase"];
        let mut overall = Table::new("puts/s from the start", &header);
        let mut lately = Table::new("puts/s over the last tenth of the drive", &header);
        for (row, fill) in fills.iter().enumerate() {
            let [phases, merged, cmr, fullest] = found.map(|of| of[row]);
            let name = || format!("{:.0} %", fill * 100.0);
            let add = |table: &mut Table, of: fn(&FillPoint) -> f64| {
                let values = [of(&phases), of(&merged), of(&cmr), of(&fullest)];
                let times = over(values[1], values[0]);
                table.row(name(), &[&[merged.valid], &values[..], &[times]].concat());
            };
            add(&mut overall, |at| at.overall);
            add(&mut lately, |at| at.lately);
        }
        page.tables.extend([overall, lately]);
        let series = RIVALS.iter().zip(&found).map(|((name, _), of)| {
            let points = fills.iter().zip(of).map(|(fill, at)| (fill * 100.0, at.lately));
            Series::new(*name, points.collect())
        });
        let title = "puts/s over the last tenth of the drive";
        let x = Axis::linear("% of the drive loaded");
        page.charts.push(Chart::lines(title, x, Axis::linear("puts/s"), series.collect()));
        page.notes.push(conditions_with(size, load_bytes(size), TABLE_LEN_BYTES_MIN));
        page.notes.push(format!(
            "One load up to {:.0} % of the drive. The data that a compaction holds twice, level 0 \
             and logs need space on top. They are several times the paper's share of the drive, \
             because tables are.",
            fills[5] * 100.0
        ));
        page
    },
};

fn claims(fills: &[f64; 6], found: &[[FillPoint; 6]; 4]) -> Vec<Claim> {
    let [phases, merged, cmr, _] = found;
    let row = |fill: f64| fills.iter().position(|&f| f == fill).unwrap_or_default();
    let (paper, high, most) = (row(0.75), row(0.85), fills.len() - 1);
    let lately = |at: usize| over(merged[at].lately, phases[at].lately);
    let below = |at: usize| percent_below(merged[at].overall, cmr[at].overall);
    let times = |what: &str, value, ours| Claim::new(what, Better::Larger, value, ours, "x");
    vec![
        times(
            "up to 75 %, KVIMR-M over 3Phase",
            1.55,
            over(merged[paper].overall, phases[paper].overall),
        ),
        times("from 65 % to 75 %, KVIMR-M over 3Phase", 2.17, lately(paper)),
        times("from 75 % to 85 %, KVIMR-M over 3Phase", 2.17, lately(high)),
        times("over the last tenth that fits, KVIMR-M over 3Phase", 2.17, lately(most)),
        Claim::new("up to 75 %, KVIMR-M below CMR", Better::Smaller, 5.5, below(paper), "%"),
        Claim::new("up to 85 %, KVIMR-M below CMR", Better::Smaller, 5.5, below(high), "%"),
        Claim::new("up to the maximum, KVIMR-M below CMR", Better::Smaller, 5.5, below(most), "%"),
    ]
}

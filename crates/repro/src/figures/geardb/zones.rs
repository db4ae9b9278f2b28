//! The valid share of each zone after 20, 40, 60 and 80 GB.

use super::{DEEP, STORES, conditions, deep, many_zones, random};
use crate::chart::{Axis, Chart, Series};
use crate::figure::{Figure, Runs};
use crate::figures::measures::{need, over};
use crate::page::{Better, Claim, Page, Table};
use crate::results::RunResult;

const LOADED_GB: [u32; 4] = [20, 40, 60, 80];

pub(in super::super) const ZONES: Figure = Figure {
    name: "geardb-zones",
    title: "zone utilisation after 20, 40, 60 and 80 GB",
    paper: "GearDB, space efficiency: bars and CDF, nearly 90 %",
    runs: Runs::Stores(|size| {
        STORES
            .iter()
            .map(|store| random(size, store))
            .chain([many_zones(size), deep(size)])
            .collect()
    }),
    page: |size, results| {
        let mut page = Page::default();
        let mut table = Table::new(
            "valid share of the occupied space, % (zones occupied)",
            &["store", "20 GB", "40 GB", "60 GB", "80 GB"],
        );
        let mut bars = LOADED_GB.map(|_| Vec::new());
        let mut cdfs = LOADED_GB.map(|_| Vec::new());
        let more = need(&mut page, results, &many_zones(size)).and_then(RunResult::load);
        let deep = need(&mut page, results, &deep(size)).and_then(RunResult::load);
        for store in STORES {
            let found = need(&mut page, results, &random(size, store));
            let Some(load) = found.and_then(RunResult::load) else { continue };
            let mut cells = vec![store.to_owned()];
            for (at, gb) in LOADED_GB.iter().enumerate() {
                let Some(state) = load.at_share(f64::from(*gb) / 80.0) else { continue };
                let space = state.space;
                let full = over(space.valid_bytes as f64, space.occupied_bytes as f64) * 100.0;
                let zones = &state.zone_valid_permille;
                cells.push(format!("{full:.1} ({})", zones.len()));
                if store == "gear" {
                    let what = format!("GearDB after {gb} GB");
                    let written = (space.valid_bytes + space.dead_bytes) as f64;
                    let of_written = 100.0 * over(space.valid_bytes as f64, written);
                    let more = more.and_then(|load| load.at_share(f64::from(*gb) / 80.0));
                    let deep = deep.and_then(|load| load.at_share(f64::from(*gb) / 80.0));
                    let of_deep = deep.map_or(0.0, |state| {
                        let space = state.space;
                        over(space.valid_bytes as f64, space.occupied_bytes as f64) * 100.0
                    });
                    let of_more = more.map_or(0.0, |state| {
                        let space = state.space;
                        over(space.valid_bytes as f64, space.occupied_bytes as f64) * 100.0
                    });
                    page.claims.push(
                        Claim::new(what, Better::Larger, 90.0, full, "%")
                            .under(
                                "relative to the written part of zones, without the ends of \
                                    open zones",
                                of_written,
                            )
                            .under(DEEP, of_deep)
                            .under("four times as many zones, a quarter as long", of_more),
                    );
                }
                let points = zones.iter().enumerate();
                let points = points.map(|(zone, v)| (zone as f64, f64::from(*v) / 10.0)).collect();
                bars[at].push(Series::new(store, points));
                cdfs[at].push(Series::new(store, cdf(zones)));
            }
            table.rows.push(cells);
        }
        for (at, gb) in LOADED_GB.iter().enumerate() {
            let (x, y) = (Axis::linear("occupied zone"), Axis::linear("valid, %"));
            let series = std::mem::take(&mut bars[at]);
            page.charts.push(Chart::scatter(format!("zones after {gb} GB"), x, y, series));
        }
        for (at, gb) in LOADED_GB.iter().enumerate() {
            let (x, y) = (Axis::linear("valid, %"), Axis::linear("share of zones, %"));
            let series = std::mem::take(&mut cdfs[at]);
            page.charts.push(Chart::lines(format!("CDF after {gb} GB"), x, y, series));
        }
        page.tables.push(table);
        page.notes.push(conditions(size));
        page
    },
};

/// The share of zones, in percent, whose valid share is at most a given percentage.
pub(super) fn cdf(zones: &[u32]) -> Vec<(f64, f64)> {
    let mut sorted = zones.to_vec();
    sorted.sort_unstable();
    let count = sorted.len() as f64;
    let mut points = vec![(0.0, 0.0)];
    for (at, permille) in sorted.iter().enumerate() {
        let x = f64::from(*permille) / 10.0;
        points.push((x, at as f64 / count * 100.0));
        points.push((x, (at + 1) as f64 / count * 100.0));
    }
    points.push((100.0, 100.0));
    points
}

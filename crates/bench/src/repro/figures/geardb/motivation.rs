//! The motivation: what cleaning costs a log of zones, and how badly it fills them.

use super::{CROWDED_PART_BYTES, LOAD_BYTES, VALUE_LEN_BYTES, conditions, drive, random};
use crate::repro::figures::{need, over};
use crate::repro::spec::{LoadOrder, Phase, RunSpec, Size};
use crate::repro::{Axis, Better, Chart, Claim, Figure, Page, RunResult, Series};

const CLEANERS: [&str; 2] = ["leveldb-greedy", "leveldb-cb"];

pub(in super::super) const CLEANING_TIME: Figure = Figure {
    name: "geardb-gc-time",
    title: "time spent on cleaning as valid data grow",
    paper: "GearDB, motivation: 80 GB loaded into restricted space",
    runs: |size| CLEANERS.iter().map(|store| crowded(size, store)).collect(),
    page: |size, results| {
        let mut page = Page::default();
        let mut series = Vec::new();
        for store in CLEANERS {
            let found = need(&mut page, results, &crowded(size, store));
            let Some(load) = found.and_then(RunResult::load) else { continue };
            let points: Vec<(f64, f64)> = load
                .milestones
                .windows(2)
                .map(|pair| {
                    let interval = pair[1].totals - pair[0].totals;
                    let space = pair[1].space;
                    let valid = over(space.valid_bytes as f64, space.capacity_bytes as f64);
                    let cleaning = over(interval.cleaning_ns as f64, interval.at_ns as f64);
                    (100.0 * valid, 100.0 * cleaning)
                })
                .collect();
            let at_70 = points.iter().find(|p| p.0 >= 70.0).map_or(f64::NAN, |p| p.1);
            let what = format!("{store}: share of the time in cleaning at 70 % valid");
            if at_70.is_finite() {
                page.claims.push(Claim::new(what, Better::Same, 50.0, at_70, "%"));
            } else {
                let most = points.iter().fold(0.0_f64, |most, p| most.max(p.0));
                page.missing.push(format!("{what}: valid data reached {most:.0} % only"));
            }
            series.push(Series::new(store, points));
        }
        let x = Axis::linear("valid data, % of the space");
        let y = Axis::linear("cleaning, % of the time");
        page.charts.push(Chart::lines("cleaning while loading", x, y, series));
        page.notes.push(conditions(size));
        page.notes.push(
            "Every key once, into 1.375 times the data, so that the valid data grow with the load. Time in cleaning is the \
             cleaner's own time by the modelled clock, waiting for the head included."
                .to_owned(),
        );
        page
    },
};

pub(in super::super) const CLEANING_UTILISATION: Figure = Figure {
    name: "geardb-gc-utilisation",
    title: "how full the zones of a cleaned log are",
    paper: "GearDB, motivation: 85 % of zones are 45 to 80 % full; 60 % over all",
    runs: |size| CLEANERS.iter().map(|store| random(size, store)).collect(),
    page: |size, results| {
        let mut page = Page::default();
        let mut series = Vec::new();
        for store in CLEANERS {
            let found = need(&mut page, results, &random(size, store));
            let Some(last) = found.and_then(RunResult::load).and_then(|l| l.milestones.last())
            else {
                continue;
            };
            let zones = &last.zone_valid_permille;
            let middling = zones.iter().filter(|v| (450..=800).contains(*v)).count();
            let share = over(middling as f64, zones.len() as f64) * 100.0;
            let what = format!("{store}: zones that are 45 to 80 % valid");
            page.claims.push(Claim::new(what, Better::Same, 85.0, share, "%"));
            let all = over(last.space.valid_bytes as f64, last.space.occupied_bytes as f64) * 100.0;
            let what = format!("{store}: valid share of the occupied space");
            page.claims.push(Claim::new(what, Better::Same, 60.0, all, "%"));
            series.push(Series::new(store, super::zones::cdf(zones)));
        }
        let (x, y) = (Axis::linear("valid share of a zone, %"), Axis::linear("share of zones, %"));
        page.charts.push(Chart::lines("zones by how full they are", x, y, series));
        page.notes.push(conditions(size));
        page
    },
};

fn crowded(size: &Size, layout: &'static str) -> RunSpec {
    let size = &super::sized(size);
    let load = Phase::load(LoadOrder::Once, size.bytes(LOAD_BYTES), VALUE_LEN_BYTES);
    RunSpec::new(layout, drive(size, CROWDED_PART_BYTES), vec![load])
}

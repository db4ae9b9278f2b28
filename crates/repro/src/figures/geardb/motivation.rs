//! The motivation: the cost of cleaning a log of zones, and how full its zones are.

use super::{
    CROWDED_PART_BYTES, LOAD_BYTES, VALUE_LEN_BYTES, conditions, drive, random, roomy, setting,
};
use crate::chart::{Axis, Chart, Series};
use crate::figure::{Figure, Runs};
use crate::figures::measures::{GB, MIB, mean, megabytes, milestones, need, over, seconds};
use crate::page::{Better, Claim, Page, Table};
use crate::results::{PhaseResult, RunResult};
use crate::spec::{LoadOrder, Phase, RunSpec, Size};

const CLEANERS: [&str; 2] = ["leveldb-greedy", "leveldb-cb"];

pub(in super::super) const CLEANING_TIME: Figure = Figure {
    name: "geardb-gc-time",
    title: "time spent on cleaning, by the share of valid data",
    paper: "GearDB, motivation: 80 GB loaded into restricted space",
    runs: Runs::Stores(|size| {
        let stores = CLEANERS.iter().map(|store| crowded(size, store));
        stores.chain([large_reads(size), crowded_by_level(size)]).collect()
    }),
    page: |size, results| {
        let mut page = Page::default();
        let mut series = Vec::new();
        let mut table = Table::new(
            "the whole load, at the end of which 70 to 73 % are valid",
            &["store", "load s", "disk busy s", "in cleaning s", "MB moved", "MB/s moved"],
        );
        let mut share = |page: &mut Page, name: &str, spec: RunSpec| {
            let load = need(page, results, &spec).and_then(RunResult::load)?;
            let t = load.totals;
            let (busy, moved) = (seconds(t.cleaning_busy_ns), megabytes(t.cleaned_bytes));
            let row =
                [seconds(load.settled_ns), seconds(t.busy_ns), busy, moved, over(moved, busy)];
            table.row(name, &row);
            let points = shares(load);
            series.push(Series::new(name, points.clone()));
            Some(points)
        };
        let greedy_1m = share(&mut page, "greedy, 1 MB reads", large_reads(size));
        let by_level = share(&mut page, "level's zones", crowded_by_level(size));
        for store in CLEANERS {
            let Some(points) = share(&mut page, store, crowded(size, store)) else { continue };
            let what = format!("{store}: share of time in cleaning at 70 % valid");
            let Some(ours) = at_70(&points) else {
                let most = points.iter().fold(0.0_f64, |most, p| most.max(p.0));
                page.missing.push(format!("{what}: valid data reached only {most:.0} %"));
                continue;
            };
            let other = |points: &Option<Vec<_>>| points.as_deref().and_then(at_70).unwrap_or(0.0);
            page.claims.push(
                Claim::new(what, Better::Same, 50.0, ours, "%")
                    .under("greedy reads 1 MB at a time in compactions", other(&greedy_1m))
                    .under("each level has zones of its own", other(&by_level)),
            );
        }
        let x = Axis::linear("valid data, % of the space");
        let y = Axis::linear("cleaning, % of time");
        page.charts.push(Chart::lines("cleaning while loading", x, y, series));
        page.tables.push(table);
        page.notes.push(conditions(size));
        page.notes.push(NOTE.to_owned());
        page
    },
};

const NOTE: &str = "The slides show how long cleaning took in every ten minutes of the load, as a \
                    share of the time. Their cleaner stops the store while it works. Ours shares \
                    the head with the store. Its share is the time that the disk is busy while a \
                    piece of at most 1 MB is moved, without the waiting between pieces. A disk \
                    that is slower at other work spends a smaller share on cleaning; here \
                    compactions that read 128 KB at a time take most of the time. The load writes \
                    every key once into 1.375 times the space of the data, so that the valid data \
                    grow with the load.";

/// For each interval of a load: the valid share of the space, and the share of time in cleaning,
/// both in percent.
fn shares(load: &PhaseResult) -> Vec<(f64, f64)> {
    let milestones = milestones(load);
    let intervals = milestones.windows(2).map(|pair| {
        let interval = pair[1].totals - pair[0].totals;
        let space = pair[1].space;
        let valid = over(space.valid_bytes as f64, space.capacity_bytes as f64);
        let cleaning = over(interval.cleaning_busy_ns as f64, interval.at_ns as f64);
        (100.0 * valid, 100.0 * cleaning)
    });
    intervals.collect()
}

/// The mean share over the intervals from 68 to 72 % valid, because a single interval is too short.
fn at_70(points: &[(f64, f64)]) -> Option<f64> {
    let near = points.iter().filter(|point| (68.0..72.0).contains(&point.0));
    Some(mean(near.map(|point| point.1))).filter(|share| *share > 0.0)
}

pub(in super::super) const CLEANING_UTILISATION: Figure = Figure {
    name: "geardb-gc-utilisation",
    title: "valid share of the zones of a cleaned log",
    paper: "GearDB, motivation: 85 % of zones are 45 to 80 % full; 60 % over all",
    runs: Runs::Stores(|size| {
        let spaces = |store: &&'static str| [random(size, store), roomy(size, store)];
        CLEANERS.iter().flat_map(spaces).collect()
    }),
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
            let what = format!("{store}: share of zones that are 45 to 80 % valid");
            page.claims.push(Claim::new(what, Better::Same, 85.0, share, "%"));
            let all = over(last.space.valid_bytes as f64, last.space.occupied_bytes as f64) * 100.0;
            let what = format!("{store}: valid share of the occupied space");
            let claim = Claim::new(what, Better::Same, 60.0, all, "%");
            let there = need(&mut page, results, &roomy(size, store)).and_then(RunResult::load);
            let there = there.and_then(|load| load.milestones.last()).map_or(0.0, |state| {
                let space = state.space;
                100.0 * over(space.valid_bytes as f64, space.occupied_bytes as f64)
            });
            page.claims.push(claim.under("in 110 GB instead of 100", there));
            series.push(Series::new(store, super::zones::cdf(zones)));
        }
        let (x, y) = (Axis::linear("valid share of a zone, %"), Axis::linear("share of zones, %"));
        page.charts.push(Chart::lines("zones by valid share", x, y, series));
        page.notes.push(conditions(size));
        page
    },
};

fn crowded(size: &Size, layout: &'static str) -> RunSpec {
    crowded_by(size, layout, LOAD_BYTES)
}

fn crowded_by(size: &Size, layout: &'static str, bytes: u64) -> RunSpec {
    let size = &super::sized(size);
    let load = Phase::load(LoadOrder::Once, size.bytes(bytes), VALUE_LEN_BYTES);
    RunSpec::new(layout, drive(size, CROWDED_PART_BYTES), vec![load]).tuned(setting(layout))
}

/// The load for greedy cleaning with faster compactions. With reads of 8 MB the cleaner falls
/// behind and puts are refused. This load is a little shorter; its valid data still reach 70 % of
/// the space.
const FASTER_LOAD_BYTES: u64 = 77 * GB;

fn large_reads(size: &Size) -> RunSpec {
    crowded_by(size, "leveldb-greedy", FASTER_LOAD_BYTES)
        .tuned(setting("leveldb-greedy").compaction_reads(MIB))
}

fn crowded_by_level(size: &Size) -> RunSpec {
    crowded(size, "leveldb-zones")
}

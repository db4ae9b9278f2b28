//! Figures 2 and 11: where each compaction's tables lie.

use super::{LOAD_BYTES, PREFIX_BYTES_MIN, compressed, prefix_of, random, random_of};
use crate::chart::{Axis, Chart, Series};
use crate::figure::{Figure, Runs};
use crate::figures::measures::{GB, mean, megabytes, merges, need, output_runs};
use crate::page::{Better, Claim, Page};
use crate::results::Results;
use crate::spec::{RunSpec, Size};

pub(in super::super) const FIGURE_2: Figure = Figure {
    name: "sealdb-2",
    title: "where LevelDB's tables lie, compaction by compaction",
    paper: "SEALDB, figure 2: 10 GB random load, LevelDB on Ext4 and a conventional disk",
    runs: Runs::Stores(|size| vec![random(size, "leveldb-cmr"), own_load(size, "leveldb-cmr")]),
    page: |size, results| {
        let (mut page, ours) = scattered(size, results, random(size, "leveldb-cmr"));
        let Some(ours) = ours else { return page };
        let reach = "address space reached, as a share of the data loaded";
        let (own, there) = scattered(size, results, own_load(size, "leveldb-cmr"));
        page.missing.extend(own.missing);
        let there = there.map_or([0.0; 2], |there| [there.reach_share, there.count_per_10_gb]);
        page.claims.push(
            Claim::new(reach, Better::Same, 0.9, ours.reach_share, "x").under(OWN_LOAD, there[0]),
        );
        page.claims.push(
            Claim::new(
                "compactions per 10 GB loaded",
                Better::Same,
                600.0,
                ours.count_per_10_gb,
                "",
            )
            .under(OWN_LOAD, there[1]),
        );
        page.claims.push(Claim::shown(
            "places that a compaction into level 2 or below writes to",
            ours.runs,
            "",
        ));
        page.notes.push(
            "The paper's 600 compactions of 9.83 tables of 4 MB are 23.6 GB, a write amplification \
             of 2.4 for its 10 GB, beside the 9.83 of its figure 3: its x axis cannot be all \
             compactions of the load, or its values shrank under LevelDB's compression."
                .to_owned(),
        );
        page
    },
};

pub(in super::super) const FIGURE_11: Figure = Figure {
    name: "sealdb-11",
    title: "where SEALDB's sets lie, compaction by compaction",
    paper: "SEALDB, figure 11: 10 GB random load",
    runs: Runs::Stores(|size| {
        vec![random(size, "sealdb"), own_load(size, "sealdb"), compressed(size)]
    }),
    page: |size, results| {
        let (mut page, ours) = scattered(size, results, random(size, "sealdb"));
        let Some(ours) = ours else { return page };
        let (shrunk, there) = scattered(size, results, compressed(size));
        page.missing.extend(shrunk.missing);
        let (own, alone) = scattered(size, results, own_load(size, "sealdb"));
        page.missing.extend(own.missing);
        let there = there.map_or([0.0; 2], |there| [there.reach_share, there.valid_share]);
        let reach = "address space reached, as a share of the data loaded";
        page.claims.push(
            Claim::new(reach, Better::Smaller, 0.27, ours.reach_share, "x")
                .under(OWN_LOAD, alone.map_or(0.0, |alone| alone.reach_share))
                .under("tables compressed, values shrink to half: all that was reached", there[0])
                .under("tables compressed, values shrink to half: only what is valid", there[1]),
        );
        page.claims.push(Claim::new(
            "places that a compaction into level 2 or below writes to",
            Better::Same,
            1.0,
            ours.runs,
            "",
        ));
        page.claims.push(Claim::shown(
            "valid data, as a share of the data loaded",
            ours.valid_share,
            "x",
        ));
        page.notes.push(
            "2.7 GB for 10 GB loaded is less than the keys that a random load draws, 63 % of them. \
             db_bench's values shrink to a half; the paper says nothing about compression, and its \
             figure 2 has LevelDB spread over 9 GB. Here tables are compressed in one run only."
                .to_owned(),
        );
        page
    },
};

const OWN_LOAD: &str = "a load that ends there and draws among as many keys as it puts";

/// As much as the figures look at, and no more: the first part of a longer load has fewer duplicates.
fn own_load(size: &Size, layout: &'static str) -> RunSpec {
    let bytes = size.bytes(10 * GB).max(PREFIX_BYTES_MIN).min(size.bytes(LOAD_BYTES));
    let mut spec = random_of(size, layout, bytes);
    spec.phases.truncate(1);
    spec
}

struct Scattered {
    reach_share: f64,
    valid_share: f64,
    count_per_10_gb: f64,
    runs: f64,
}

fn scattered(size: &Size, results: &Results, spec: RunSpec) -> (Page, Option<Scattered>) {
    let mut page = Page::default();
    let share = prefix_of(spec.loaded_bytes(), size.bytes(10 * GB));
    let Some(run) = need(&mut page, results, &spec) else { return (page, None) };
    let Some(state) = run.load().and_then(|load| load.at_share(share)) else { return (page, None) };
    let lines: Vec<_> = merges(run.lines_until(share)).collect();
    let points = lines.iter().enumerate().flat_map(|(at, line)| {
        let tables = line.outputs.iter().flat_map(|table| &table.extents);
        tables.map(move |&(block, _)| (at as f64, megabytes(block * 4096)))
    });
    let series = vec![Series::new(spec.layout, points.collect())];
    let loaded = state.totals.user_bytes;
    let title =
        format!("{}: tables of each compaction, {} MB loaded", spec.layout, loaded / 1_000_000);
    let y = Axis::linear("address, MB");
    page.charts.push(Chart::scatter(title, Axis::linear("compaction"), y, series));
    if size.bytes(LOAD_BYTES) < 10 * GB * 10 {
        page.notes.push(format!("Read off the first {} MB of the load.", loaded / 1_000_000));
    }
    // Sets begin at level 2.
    let deep = lines.iter().filter(|line| line.output_level >= 2);
    let ours = Scattered {
        reach_share: state.space.reach_bytes as f64 / loaded as f64,
        valid_share: state.space.valid_bytes as f64 / loaded as f64,
        count_per_10_gb: lines.len() as f64 * 10.0 * GB as f64 / loaded as f64,
        runs: mean(deep.map(|line| output_runs(line).len() as f64)),
    };
    (page, Some(ours))
}

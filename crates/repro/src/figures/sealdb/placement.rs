//! Figures 2 and 11: where on the disk each compaction writes its tables.

use super::{LOAD_BYTES, PREFIX_BYTES_MIN, compressed, prefix_of, random, random_of};
use crate::chart::{Axis, Chart, Series};
use crate::figure::{Figure, Runs};
use crate::figures::measures::{GB, mean, megabytes, merges, need, output_runs};
use crate::page::{Better, Claim, Page};
use crate::results::Results;
use crate::spec::{RunSpec, Size};

pub(in super::super) const FIGURE_2: Figure = Figure {
    name: "sealdb-2",
    title: "where on the disk LevelDB writes its tables, compaction by compaction",
    paper: "SEALDB, figure 2: 10 GB random load, LevelDB on Ext4 and a conventional disk",
    runs: Runs::Stores(|size| vec![random(size, "leveldb-cmr"), own_load(size, "leveldb-cmr")]),
    page: |size, results| {
        let (mut page, ours) = scattered(size, results, random(size, "leveldb-cmr"));
        let Some(ours) = ours else { return page };
        let reach = "highest address reached, relative to the data loaded";
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
            "contiguous runs that a compaction into level 2 or deeper writes",
            ours.runs,
            "",
        ));
        page.notes.push(
            "The paper shows 600 compactions of 9.83 tables of 4 MB each. Together they write 23.6 \
             GB, which for a load of 10 GB is a write amplification of 2.4, but figure 3 reports \
             9.83. Either the x axis does not show all compactions of the load, or LevelDB \
             compressed the values."
                .to_owned(),
        );
        page
    },
};

pub(in super::super) const FIGURE_11: Figure = Figure {
    name: "sealdb-11",
    title: "where on the disk SEALDB writes its sets, compaction by compaction",
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
        let reach = "highest address reached, relative to the data loaded";
        page.claims.push(
            Claim::new(reach, Better::Smaller, 0.27, ours.reach_share, "x")
                .under(OWN_LOAD, alone.map_or(0.0, |alone| alone.reach_share))
                .under("tables compressed to half: highest address reached", there[0])
                .under("tables compressed to half: valid data only", there[1]),
        );
        page.claims.push(Claim::new(
            "contiguous runs that a compaction into level 2 or deeper writes",
            Better::Same,
            1.0,
            ours.runs,
            "",
        ));
        page.claims.push(Claim::shown(
            "valid data, relative to the data loaded",
            ours.valid_share,
            "x",
        ));
        page.notes.push(
            "A random load of 10 GB draws 63 % of its keys, so 2.7 GB is less than its live data. \
             The values of db_bench compress to half. The paper does not mention compression, and \
             in its figure 2 LevelDB spreads over 9 GB. Here only one run compresses its tables."
                .to_owned(),
        );
        page
    },
};

const OWN_LOAD: &str = "a load of exactly this length, which draws among as many keys as it puts";

/// A load of exactly the length that the figures show. The first part of a longer load draws from
/// more keys, so it has fewer duplicates.
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
        page.notes.push(format!("Taken from the first {} MB of the load.", loaded / 1_000_000));
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

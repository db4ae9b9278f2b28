//! The latency of each compaction.

use super::{DEEP, EQUAL_READS, STORES, compaction_s, conditions, deep, equal_reads, random};
use crate::chart::{Axis, Chart, Series};
use crate::figure::{Figure, Runs};
use crate::figures::measures::{mean, merges, most, need, over, seconds};
use crate::page::{Better, Claim, Page, Table};
use crate::spec::Size;

pub(in super::super) const COMPACTION: Figure = Figure {
    name: "geardb-compaction",
    title: "latency of each compaction",
    paper: "GearDB, compaction efficiency: over 5000 compactions fewer, 55 % of the latency",
    runs: Runs::Stores(|size| {
        STORES
            .iter()
            .map(|store| random(size, store))
            .chain([deep(size), equal_reads(size)[0].clone()])
            .collect()
    }),
    page: |size, results| {
        let mut page = Page::default();
        let mut table =
            Table::new("compactions", &["store", "count", "mean s", "total s", "GB written"]);
        let (mut series, mut totals, mut counts) = (Vec::new(), Vec::new(), Vec::new());
        let stores = STORES.map(|store| (store, random(size, store)));
        for (store, spec) in stores.into_iter().chain([("gear, deep", deep(size))]) {
            let Some(run) = need(&mut page, results, &spec) else {
                totals.push(f64::NAN);
                counts.push(f64::NAN);
                continue;
            };
            let took: Vec<f64> =
                merges(&run.lines).map(|l| seconds(l.end_ns - l.start_ns)).collect();
            let total: f64 = took.iter().sum();
            let written: u64 = merges(&run.lines).map(|l| l.out_len_bytes).sum();
            let mean_s = mean(took.iter().copied());
            table.row(store, &[took.len() as f64, mean_s, total, written as f64 / 1e9]);
            counts.push(took.len() as f64);
            totals.push(total);
            let points = took.iter().enumerate().map(|(at, s)| (at as f64, s.max(0.001)));
            series.push(Series::new(store, points.collect()));
        }
        let [gear_128k, _] = equal_reads(size);
        let equal = need(&mut page, results, &gear_128k).map_or(f64::NAN, compaction_s);
        page.claims = vec![
            Claim::new(
                "total compaction latency, GearDB over greedy",
                Better::Smaller,
                0.55,
                over(totals[0], totals[1]),
                "x",
            )
            .at_equal(EQUAL_READS, over(equal, totals[1]))
            .under(DEEP, over(totals[3], totals[1])),
            Claim::new(
                "fewer compactions than greedy, at this scale",
                Better::Larger,
                5000.0 * scale_of(size),
                most([counts[1] - counts[0], 0.0]),
                "",
            )
            .under(DEEP, most([counts[1] - counts[3], 0.0])),
        ];
        let x = Axis::linear("compaction");
        page.charts.push(Chart::scatter("latency", x, Axis::log("seconds"), series));
        page.tables.push(table);
        page.notes.push(conditions(size));
        page
    },
};

fn scale_of(size: &Size) -> f64 {
    super::sized(size).bytes(super::LOAD_BYTES) as f64 / super::LOAD_BYTES as f64
}

//! How the time of a random load is spent.

use super::{EQUAL_READS, STORES, compaction_s, conditions, equal_reads, random};
use crate::chart::{Axis, Chart};
use crate::figure::{Figure, Runs};
use crate::figures::measures::{need, over, seconds};
use crate::page::{Better, Claim, Page, Table};

pub(in super::super) const BREAKDOWN: Figure = Figure {
    name: "geardb-breakdown",
    title: "time of the random load, by operation",
    paper: "GearDB, why it performs better: load time broken down",
    runs: Runs::Stores(|size| {
        let [gear_128k, _] = equal_reads(size);
        STORES.iter().map(|store| random(size, store)).chain([gear_128k]).collect()
    }),
    page: |size, results| {
        let mut page = Page::default();
        let mut table = Table::new(
            "seconds; flush and compaction from start to end, cleaning as busy time of the disk",
            &["store", "load", "flush", "compaction", "cleaning", "writers stalled", "disk busy"],
        );
        let mut parts = [Vec::new(), Vec::new(), Vec::new()];
        for store in STORES {
            let found = need(&mut page, results, &random(size, store));
            let Some((run, load)) = found.and_then(|run| Some((run, run.load()?))) else {
                parts.iter_mut().for_each(|part| part.push(0.0));
                continue;
            };
            let t = load.totals;
            let compaction = compaction_s(run);
            let (flush, cleaning) = (seconds(t.flush_ns), seconds(t.cleaning_busy_ns));
            let (stall, busy) = (seconds(t.stall_ns), seconds(t.busy_ns));
            table.row(store, &[seconds(load.settled_ns), flush, compaction, cleaning, stall, busy]);
            for (part, value) in parts.iter_mut().zip([flush, compaction, cleaning]) {
                part.push(value);
            }
            if store == "gear" {
                page.claims.push(Claim::shown(
                    "GearDB: time spent on cleaning (the paper: none)",
                    cleaning,
                    "s",
                ));
            }
        }
        if parts[1].iter().all(|s| *s > 0.0) {
            let what = "total compaction time, GearDB over greedy";
            let ours = parts[1][0] / parts[1][1];
            let [gear_128k, _] = equal_reads(size);
            let equal = need(&mut page, results, &gear_128k).map_or(f64::NAN, compaction_s);
            page.claims.push(
                Claim::new(what, Better::Smaller, 0.55, ours, "x")
                    .at_equal(EQUAL_READS, over(equal, parts[1][1])),
            );
        }
        let [flush, compaction, cleaning] = parts;
        let series = vec![
            ("flush".to_owned(), flush),
            ("compaction".to_owned(), compaction),
            ("cleaning".to_owned(), cleaning),
        ];
        let groups = STORES.map(str::to_owned).to_vec();
        let y = Axis::linear("seconds");
        page.charts.push(Chart::bars("time by operation", groups, y, series).stacked());
        page.tables.push(table);
        page.notes.push(conditions(size));
        page.notes.push(
            "Flushes and compactions share one head and wait for each other, so their times \
             overlap and their sum exceeds the load time. The time of cleaning is the time that \
             the disk is busy with it."
                .to_owned(),
        );
        page
    },
};

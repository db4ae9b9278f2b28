//! Figure 10: how long each compaction takes, and how much it moves.

use super::{STORES, prefix, random};
use crate::repro::figures::{GB, mean, megabytes, merges, need, over, seconds};
use crate::repro::{Axis, Better, Chart, Claim, Figure, Page, Series, Table};

pub(in super::super) const FIGURE_10: Figure = Figure {
    name: "sealdb-10",
    title: "each compaction's latency, and the mean amount of data",
    paper: "SEALDB, figure 10: the first 40 GB of the random load",
    runs: |size| STORES.iter().map(|store| random(size, store)).collect(),
    page: |size, results| {
        let mut page = Page::default();
        let share = prefix(size, 40 * GB);
        let mut table = Table::new(
            "compactions",
            &["store", "count", "mean s", "total s", "mean MB written", "mean MB read"],
        );
        let (mut series, mut sizes, mut totals) = (Vec::new(), Vec::new(), Vec::new());
        let (mut set_mb, mut smrdb_s) = (0.0, 0.0);
        for store in STORES {
            let Some(run) = need(&mut page, results, &random(size, store)) else {
                totals.push(0.0);
                sizes.push(0.0);
                continue;
            };
            let lines: Vec<_> = merges(run.lines_until(share)).collect();
            let took: Vec<f64> = lines.iter().map(|l| seconds(l.end_ns - l.start_ns)).collect();
            let written = mean(lines.iter().map(|l| megabytes(l.out_len_bytes)));
            let read = mean(lines.iter().map(|l| megabytes(l.in_len_bytes)));
            let total: f64 = took.iter().sum();
            let mean_s = mean(took.iter().copied());
            table.row(store, &[lines.len() as f64, mean_s, total, written, read]);
            if store == "sealdb" {
                // A set: what one compaction wrote to one level below the first.
                let sets = lines.iter().filter(|l| l.output_level >= 2);
                set_mb = mean(sets.map(|l| l.out_len_bytes as f64 / (1 << 20) as f64));
            }
            if store == "smrdb" {
                smrdb_s = mean_s;
            }
            totals.push(total);
            sizes.push(written);
            let points = took.iter().enumerate().map(|(at, s)| (at as f64, s.max(0.001)));
            series.push(Series::new(store, points.collect()));
        }
        page.claims = vec![
            Claim::new(
                "total compaction latency, LevelDB over SEALDB",
                Better::Larger,
                4.30,
                over(totals[0], totals[2]),
                "x",
            ),
            Claim::new(
                "total compaction latency, SMRDB over SEALDB",
                Better::Larger,
                1.89,
                over(totals[1], totals[2]),
                "x",
            ),
            Claim::new("mean set of SEALDB", Better::Same, 27.48, set_mb, "MB"),
            Claim::new("mean data of an SMRDB compaction", Better::Same, 900.0, sizes[1], "MB"),
            Claim::new("mean latency of an SMRDB compaction", Better::Smaller, 701.3, smrdb_s, "s"),
        ];
        let axis = || Axis::linear("compaction");
        page.charts.push(Chart::scatter("(a) latency", axis(), Axis::log("seconds"), series));
        let groups = STORES.map(str::to_owned).to_vec();
        let bars = vec![("MB written".to_owned(), sizes)];
        page.charts.push(Chart::bars("(b) mean compaction", groups, Axis::linear("MB"), bars));
        page.tables.push(table);
        page.notes.push(
            "701 s for 900 MB is 1.3 MB/s, less than a hundredth of what the paper's disk streams: \
             its SMRDB may have read its inputs in small pieces."
                .to_owned(),
        );
        page
    },
};

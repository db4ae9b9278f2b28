//! Figures 3.9 and 3.10: sequential puts by value size and sync interval, and the cost of the log.

use super::{BAND_LEN_BYTES, drive, size, tune};
use crate::chart::{Axis, Chart};
use crate::figure::{Figure, Runs};
use crate::figures::measures::{GB, need, over};
use crate::page::{Better, Claim, Page, Table};
use crate::results::PhaseResult;
use crate::spec::{LoadOrder, Phase, RunSpec, Size, Tune};
use imbrex_bench::svg::short;

const STORES: [&str; 2] = ["leveldb-cmr", "smrdb"];
const VALUE_LENS_BYTES: [usize; 3] = [100, 4096, 100 << 10];
/// Puts per sync; 0 for no syncs.
const SYNC_EVERY: [u64; 5] = [1, 10, 100, 1000, 0];
/// More puts than this do not change the rate.
const PUT_COUNT_MAX: u64 = 50_000;

/// How much log a store buffers before it writes. In the thesis, LevelDB's log waits in the page
/// cache, up to the length of its memtable, and SMRDB has a buffer of 1 MB. Our frames are at most
/// 1 MiB.
const LEVELDB_LOG_LEN_BYTES: u64 = 1 << 20;
const SMRDB_LOG_LEN_BYTES: u64 = 64 << 10;

pub(in super::super) const FIGURE_3_9: Figure = Figure {
    name: "thesis-3.9",
    title: "sequential puts by value size and sync interval",
    paper: "thesis, figure 3.9: 10 GB, values of 100 B, 4 KB and 100 KB",
    runs: Runs::Stores(|size| {
        let all = STORES.iter().flat_map(|s| VALUE_LENS_BYTES.map(|len| (*s, len)));
        all.flat_map(|(s, len)| SYNC_EVERY.map(|every| run(size, s, len, every))).collect()
    }),
    page: |size, results| {
        let mut page = Page::default();
        let mut table = Table::new(
            "MB/s of values, by puts per sync",
            &["store, value", "1", "10", "100", "1000", "no sync"],
        );
        let mut rates = Vec::new();
        for store in STORES {
            for len in VALUE_LENS_BYTES {
                let row: Vec<f64> = SYNC_EVERY
                    .iter()
                    .map(|&every| {
                        let run = need(&mut page, results, &run(size, store, len, every));
                        let rate = run.and_then(|run| run.load()).map(PhaseResult::ops_per_second);
                        rate.unwrap_or(0.0) * len as f64 / 1e6
                    })
                    .collect();
                table.row(format!("{store}, {len} B"), &row);
                rates.push((format!("{store}, {len} B"), row));
            }
        }
        let smaller =
            (0..VALUE_LENS_BYTES.len()).map(|at| over(rates[3 + at].1[0], rates[at].1[0]));
        for (len, ratio) in VALUE_LENS_BYTES.iter().zip(smaller) {
            let what = format!("one sync per put, values of {len} B, SMRDB over LevelDB");
            page.claims.push(Claim::order(what, Better::Larger, ratio));
        }
        let groups = ["1", "10", "100", "1000", "no sync"].map(str::to_owned).to_vec();
        let labels = rates.iter().map(|(_, r)| r.iter().map(|v| short(*v)).collect()).collect();
        let y = Axis::linear("MB/s");
        page.charts.push(Chart::bars("by puts per sync", groups, y, rates).labelled(labels));
        page.tables.push(table);
        page.notes.push(
            "The thesis gives LevelDB a log buffer as long as its memtable (80 MB, in the page \
             cache) and SMRDB one of 1 MB. Here they are 1 MiB, our longest frame, and 64 KiB. A \
             store that writes its log and its tables with one head seeks at every change between \
             them, with or without syncs."
                .to_owned(),
        );
        page
    },
};

pub(in super::super) const FIGURE_3_10: Figure = Figure {
    name: "thesis-3.10",
    title: "cost of the log in a sequential load",
    paper: "thesis, figure 3.10: 100 KB values, no syncs",
    runs: Runs::Stores(|size| STORES.iter().map(|store| run(size, store, 100 << 10, 0)).collect()),
    page: |size, results| {
        let mut page = Page::default();
        let mut series = Vec::new();
        for store in STORES {
            let Some(run) = need(&mut page, results, &run(size, store, 100 << 10, 0)) else {
                continue;
            };
            let Some(load) = run.load() else { continue };
            let t = load.totals;
            let whole = t.log_bytes + t.flush_bytes + t.compaction_out_bytes;
            let mb_per_s = over(whole as f64 / 1e6, t.busy_ns as f64 / 1e9);
            let with = load.ops_per_second() * (100 << 10) as f64 / 1e6;
            let share = over(t.log_bytes as f64, whole as f64);
            page.claims.push(Claim::new(
                format!("{store}: share of the log in all bytes written"),
                Better::Same,
                0.5,
                share,
                "",
            ));
            series.push((store.to_owned(), vec![with, mb_per_s * (1.0 - share)]));
            let what = format!("{store}: MB/s of values with the log on the same head");
            page.claims.push(Claim::shown(what, with, "MB/s"));
        }
        let groups =
            vec!["values, MB/s".to_owned(), "tables, MB/s while the disk is busy".to_owned()];
        page.charts.push(Chart::bars("with the log", groups, Axis::linear("MB/s"), series));
        page.notes.push(
            "The thesis' bars without a log have no counterpart here, because this store always \
             writes a log. A sequential load writes as many log bytes as table bytes, which is why \
             the thesis' rates double without the log."
                .to_owned(),
        );
        page
    },
};

fn run(asked: &Size, layout: &'static str, value_len_bytes: usize, every: u64) -> RunSpec {
    let size = size(asked);
    let entry = (16 + value_len_bytes) as u64;
    let bytes = size.bytes(10 * GB).min(PUT_COUNT_MAX * entry);
    let load = Phase::load(LoadOrder::Sequential, bytes, value_len_bytes).synced(every);
    let log = if layout == "smrdb" { SMRDB_LOG_LEN_BYTES } else { LEVELDB_LOG_LEN_BYTES };
    let tune = Tune { log_frame_len_bytes: Some(log), ..tune(layout) };
    RunSpec::new(layout, drive(&size, layout, BAND_LEN_BYTES), vec![load]).tuned(tune)
}

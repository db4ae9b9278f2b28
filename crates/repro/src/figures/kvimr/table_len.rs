//! Figure 8: longer tables, which have more tracks each.

use super::{
    NAMES, STORES, Setting, TABLE_LEN_BYTES, conditions, load, load_phase, loaded, percent_above,
    spec_of, table_len_bytes,
};
use crate::chart::{Axis, Chart};
use crate::figure::{Figure, Runs};
use crate::figures::measures::MIB;
use crate::page::{Better, Claim, Page, Table};
use crate::spec::{RunSpec, Size};

/// The paper's lengths; ours shrink at a small scale.
const TABLE_LENS_MIB: [u64; 4] = [64, 128, 256, 512];
const PAPER_PERCENTS: [f64; 4] = [7.0, 5.9, 13.0, 16.8];
/// KVIMR-N and KVIMR-M, which the claims compare.
const RIVALS: [usize; 2] = [2, 3];

fn run(size: &Size, layout: &'static str, mib: u64) -> RunSpec {
    match mib * MIB {
        TABLE_LEN_BYTES => load(size, layout),
        bytes => spec_of(size, layout, Setting::Paper, bytes, vec![load_phase(size)]),
    }
}

pub(in super::super) const FIGURE_8: Figure = Figure {
    name: "kvimr-8",
    title: "load, by table length",
    paper: "KVIMR, figure 8",
    runs: Runs::Stores(|size| {
        let of = |at: usize| TABLE_LENS_MIB.map(|mib| run(size, STORES[at], mib));
        RIVALS.into_iter().flat_map(of).collect()
    }),
    page: |size, results| {
        let mut page = Page::default();
        let found = RIVALS.map(|at| {
            TABLE_LENS_MIB.map(|mib| loaded(&mut page, results, &run(size, STORES[at], mib)))
        });
        for (at, mib) in TABLE_LENS_MIB.iter().enumerate() {
            let [naive, merged] = [found[0][at], found[1][at]];
            page.claims.push(
                Claim::new(
                    format!("tables of {mib} MB, KVIMR-M above KVIMR-N"),
                    Better::Larger,
                    PAPER_PERCENTS[at],
                    percent_above(merged.rate, naive.rate),
                    "%",
                )
                .under(
                    "last eighth of the load",
                    percent_above(merged.rate_at_end, naive.rate_at_end),
                ),
            );
        }
        let here = |mib: u64| table_len_bytes(size, mib * MIB) / MIB;
        let mut table = Table::new(
            "loads",
            &["scheme, tables", "puts/s", "rewritten tracks", "syncs of rewrites", "commits"],
        );
        for (scheme, of) in RIVALS.iter().zip(&found) {
            for (mib, of) in TABLE_LENS_MIB.iter().zip(of) {
                let counts = [of.put.rewritten_tracks, of.put.track_syncs, of.put.commits];
                let name = format!("{}, {} MB", NAMES[*scheme], here(*mib));
                table.row(name, &[&[of.rate], &counts[..]].concat());
            }
        }
        page.tables.push(table);
        let groups = TABLE_LENS_MIB.map(|mib| format!("{mib} MB (here {})", here(mib)));
        let rates = RIVALS.iter().zip(&found).map(|(scheme, of)| {
            (NAMES[*scheme].to_owned(), of.iter().map(|loaded| loaded.rate).collect())
        });
        let y = Axis::linear("puts/s");
        page.charts.push(Chart::bars("load", groups.to_vec(), y, rates.collect()));
        page.notes.push(conditions(size));
        page.notes.push(
            "The paper also draws Seq and 3Phase. Its numbers compare KVIMR-M with KVIMR-N, so \
             only these two run here. Memtables stay as long as the shortest tables."
                .to_owned(),
        );
        page
    },
};

//! Figure 9: LevelDB and HyperLevelDB.
//!
//! Here our engine stands in for both databases, in virtual time. `cargo xtask databases` runs the
//! databases themselves, on real threads. The paper gives both databases RocksDB's lengths and
//! limits, and blocks of 2 MB because neither reads ahead. Of both, flushes pass empty levels and tables
//! go down that gets miss, which RocksDB does not do. The remaining difference is the choice of victims:
//!
//! - *LevelDB*: round-robin by key, one table at a time, as in the other figures.
//! - *HyperLevelDB*: the tables that overlap least with the next level, several at a time, which
//!   approximates its policy. Its compactions on several threads are not modelled.

use super::{
    NAMES, STORES, Setting, TABLE_LEN_BYTES, TRACK_LEN_BYTES, conditions, load_phase, loaded,
    percent_above, percent_below, spec_of, table_len_bytes_in,
};
use crate::chart::{Axis, Chart};
use crate::figure::{Figure, Runs};
use crate::figures::measures::least;
use crate::page::{Better, Claim, Page, Table};
use crate::spec::{RunSpec, Size, Tune, Victims};

/// A database, its choice of victims, and the paper's smallest lead of KVIMR over Seq and over
/// 3Phase in percent.
const DATABASES: [(&str, Victims, f64, f64); 2] = [
    ("LevelDB", Victims::RoundRobin, 55.43, 21.16),
    ("HyperLevelDB", Victims::MinOverlap, 60.41, 23.59),
];

fn run(size: &Size, layout: &'static str, victims: Victims) -> RunSpec {
    let phases = vec![load_phase(size)];
    let spec = spec_of(size, layout, Setting::Paper, TABLE_LEN_BYTES, phases);
    let tune = Tune {
        // A table consists of whole blocks, so it still ends just below a whole number of tracks.
        block_len_bytes: u32::try_from(table_len_bytes_in(TRACK_LEN_BYTES)).ok(),
        victims: Some(victims),
        has_leveldbs_habits: true,
        ..spec.tune
    };
    spec.tuned(tune)
}

pub(in super::super) const FIGURE_9: Figure = Figure {
    name: "kvimr-9",
    title: "load of LevelDB and HyperLevelDB",
    paper: "KVIMR, figure 9",
    runs: Runs::Stores(|size| {
        let all = DATABASES
            .iter()
            .flat_map(|(_, victims, ..)| STORES.iter().map(|store| run(size, store, *victims)));
        all.collect()
    }),
    page: |size, results| {
        let mut page = Page::default();
        let header = ["scheme", "puts/s", "rewritten tracks", "syncs of rewrites", "compactions"];
        let mut rates = Vec::new();
        for (name, victims, above_seq, above_phases) in DATABASES {
            let found = STORES.map(|store| loaded(&mut page, results, &run(size, store, victims)));
            let [seq, phases, naive, merged, cmr] = found.map(|of| of.rate);
            let above = |other| percent_above(least([naive, merged]), other);
            for (other, paper, ours) in
                [("Seq", above_seq, above(seq)), ("3Phase", above_phases, above(phases))]
            {
                let what = format!("{name}, smaller lead of KVIMR over {other}");
                page.claims.push(Claim::new(what, Better::Larger, paper, ours, "%"));
            }
            for (what, ours) in [
                ("KVIMR-M above KVIMR-N", percent_above(merged, naive)),
                ("KVIMR-M below CMR", percent_below(merged, cmr)),
            ] {
                page.claims.push(Claim::shown(format!("{name}, {what}"), ours, "%"));
            }
            let mut table = Table::new(format!("{name}, up to the last put"), &header);
            for (scheme, of) in NAMES.iter().zip(&found) {
                let counts = [of.put.rewritten_tracks, of.put.track_syncs, of.put.compactions];
                table.row(*scheme, &[&[of.rate], &counts[..]].concat());
            }
            page.tables.push(table);
            rates.push((name.to_owned(), found.map(|of| of.rate).to_vec()));
        }
        let groups = NAMES.map(str::to_owned).to_vec();
        page.charts.push(Chart::bars("load", groups, Axis::linear("puts/s"), rates));
        page.notes.push(conditions(size));
        page.notes.push(
            "Our engine with blocks of 2 MB and LevelDB's habits (flushes pass empty levels, tables \
             go down that gets miss): for LevelDB it takes the next victim by key, for \
             HyperLevelDB the victims that overlap least. Neither database ran; `cargo xtask \
             databases` runs them."
                .to_owned(),
        );
        page
    },
};

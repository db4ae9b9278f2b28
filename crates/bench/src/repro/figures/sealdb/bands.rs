//! Figure 3: what fixed bands make of LevelDB's scattered tables.

use super::{LOAD_BYTES, PREFIX_BYTES_MIN, VALUE_LEN_BYTES, drive};
use crate::repro::figures::{GB, MIB, mean, merges, need, output_runs};
use crate::repro::spec::{LoadOrder, Phase, RunSpec, Size, Tune};
use crate::repro::{Axis, Better, Chart, Claim, Figure, Page, Table};

const BAND_LENS_MIB: [u64; 5] = [20, 30, 40, 50, 60];

pub(in super::super) const FIGURE_3: Figure = Figure {
    name: "sealdb-3",
    title: "tables and bands a compaction writes to, and its amplification, by band length",
    paper: "SEALDB, figure 3: LevelDB on emulated drives with bands of 20 to 60 MB",
    runs: |size| {
        let lens = BAND_LENS_MIB.iter().map(|&mib| run(size, mib, Rewrite::Rest));
        lens.chain([run(size, 40, Rewrite::Whole), run(size, 40, Rewrite::Staged)]).collect()
    },
    page: |size, results| {
        let mut page = Page::default();
        let (mut groups, mut tables, mut bands) = (Vec::new(), Vec::new(), Vec::new());
        let (mut wa, mut mwa) = (Vec::new(), Vec::new());
        let mut table = Table::new(
            "40 MB bands by what a rewrite does",
            &["rewrite", "WA", "AWA", "MWA", "MB read to rewrite"],
        );
        for &mib in &BAND_LENS_MIB {
            let Some(found) = need(&mut page, results, &run(size, mib, Rewrite::Rest)) else {
                continue;
            };
            let Some(load) = found.load() else { continue };
            let band = mib * MIB;
            let lines: Vec<_> = merges(&found.lines).collect();
            groups.push(format!("{mib} MB"));
            tables.push(mean(lines.iter().map(|line| line.output_table_count as f64)));
            bands.push(mean(lines.iter().map(|line| {
                let runs = output_runs(line);
                let touched = runs.iter().flat_map(|&(at, len)| at / band..=(at + len - 1) / band);
                touched.collect::<std::collections::BTreeSet<u64>>().len() as f64
            })));
            wa.push(load.totals.write_amp_ratio());
            mwa.push(load.totals.multiplied_write_amp_ratio());
        }
        for (rewrite, name) in [
            (Rewrite::Rest, "what follows the write, in place (the paper)"),
            (Rewrite::Whole, "the whole band, in place"),
            (Rewrite::Staged, "what follows the write, safe from power cuts"),
        ] {
            let Some(found) = need(&mut page, results, &run(size, 40, rewrite)) else { continue };
            let Some(load) = found.load() else { continue };
            let t = load.totals;
            let read = t.added_read_bytes as f64 / 1e6;
            table.row(
                name,
                &[
                    t.write_amp_ratio(),
                    t.added_write_amp_ratio(),
                    t.multiplied_write_amp_ratio(),
                    read,
                ],
            );
        }
        if let Some(at) = groups.iter().position(|name| name == "40 MB") {
            let claim = |what: &str, paper, ours| Claim::new(what, Better::Same, paper, ours, "");
            page.claims.push(claim(
                "tables written by a compaction, 40 MB bands",
                9.83,
                tables[at],
            ));
            page.claims.push(claim("bands that they lie in", 6.22, bands[at]));
            page.claims.push(claim("WA", 9.83, wa[at]));
            page.claims.push(claim("MWA", 52.85, mwa[at]));
            page.claims.push(claim("AWA = MWA / WA", 5.38, mwa[at] / wa[at].max(0.01)));
        }
        let y = Axis::linear("mean of a compaction");
        let counts = vec![("tables".to_owned(), tables), ("bands".to_owned(), bands)];
        page.charts.push(Chart::bars("(a) tables and bands", groups.clone(), y, counts));
        let y = Axis::linear("times the user's bytes");
        let amps = vec![("WA".to_owned(), wa), ("MWA".to_owned(), mwa)];
        page.charts.push(Chart::bars("(b) amplification", groups, y, amps));
        page.tables.push(table);
        page.notes.push(
            "The paper does not say how much of a band its emulator rewrites; 5.38 is nearer to the rest \
             of it than to the whole. A band that must survive a power cut in the middle of a rewrite \
             writes the rest twice."
                .to_owned(),
        );
        page
    },
};

/// How a band is rewritten.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rewrite {
    Rest,
    Whole,
    Staged,
}

fn run(size: &Size, band_mib: u64, rewrite: Rewrite) -> RunSpec {
    let bytes = size.bytes(10 * GB).max(PREFIX_BYTES_MIN.min(size.bytes(LOAD_BYTES)));
    let load = Phase::load(LoadOrder::Random, bytes, VALUE_LEN_BYTES);
    let tune = Tune {
        band_len_bytes: Some(band_mib * MIB),
        reads_whole_band: rewrite == Rewrite::Whole,
        is_staged: rewrite == Rewrite::Staged,
        ..Tune::default()
    };
    RunSpec::new("leveldb-banded", drive(size, "leveldb-banded"), vec![load]).tuned(tune)
}

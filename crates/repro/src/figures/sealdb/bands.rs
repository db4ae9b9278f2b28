//! Figure 3: how many fixed bands LevelDB's scattered tables touch, and what rewriting them costs.

use super::{LOAD_BYTES, PREFIX_BYTES_MIN, VALUE_LEN_BYTES, drive};
use crate::chart::{Axis, Chart};
use crate::figure::{Figure, Runs};
use crate::figures::measures::{GB, MIB, grown, growth_to, mean, merges, need, output_runs};
use crate::page::{Better, Claim, Page, Table};
use crate::results::RunResult;
use crate::spec::{LoadOrder, Phase, RunSpec, Size, Tune};

const BAND_LENS_MIB: [u64; 5] = [20, 30, 40, 50, 60];

pub(in super::super) const FIGURE_3: Figure = Figure {
    name: "sealdb-3",
    title: "tables and bands that one compaction writes, and its amplification, by band length",
    paper: "SEALDB, figure 3: LevelDB on emulated drives with bands of 20 to 60 MB",
    runs: Runs::Stores(|size| {
        let lens = BAND_LENS_MIB.iter().map(|&mib| run(size, mib, Rewrite::Rest));
        lens.chain([run(size, 40, Rewrite::Whole), run(size, 40, Rewrite::Staged)]).collect()
    }),
    page: |size, results| {
        let mut page = Page::default();
        let (mut groups, mut tables, mut bands) = (Vec::new(), Vec::new(), Vec::new());
        let (mut wa, mut mwa) = (Vec::new(), Vec::new());
        let mut table = Table::new(
            "bands of 40 MB, by what a rewrite does",
            &["rewrite", "WA", "AWA", "MWA", "MB read to rewrite"],
        );
        for &mib in &BAND_LENS_MIB {
            let Some(found) = need(&mut page, results, &run(size, mib, Rewrite::Rest)) else {
                continue;
            };
            let Some(load) = found.load() else { continue };
            groups.push(format!("{mib} MB"));
            let counts = Spread::of(found, 1.0, mib * MIB);
            tables.push(counts.tables);
            bands.push(counts.bands);
            wa.push(load.totals.write_amp_ratio());
            mwa.push(load.totals.multiplied_write_amp_ratio());
        }
        for (rewrite, name) in [
            (Rewrite::Rest, "rewrites what follows the write, in place (as in the paper)"),
            (Rewrite::Whole, "rewrites the whole band, in place"),
            (Rewrite::Staged, "rewrites what follows the write, safe against power cuts"),
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
            let ours = [tables[at], bands[at], wa[at], mwa[at]];
            let whole = need(&mut page, results, &whole_bands(size)).and_then(RunResult::load);
            let whole = whole.map_or(0.0, |load| load.totals.added_write_amp_ratio());
            page.claims = need(&mut page, results, &run(size, 40, Rewrite::Rest))
                .map_or_else(Vec::new, |found| claims(found, ours, whole));
        }
        let y = Axis::linear("mean per compaction");
        let counts = vec![("tables".to_owned(), tables), ("bands".to_owned(), bands)];
        page.charts.push(Chart::bars("(a) tables and bands", groups.clone(), y, counts));
        let y = Axis::linear("times the user's bytes");
        let amps = vec![("WA".to_owned(), wa), ("MWA".to_owned(), mwa)];
        page.charts.push(Chart::bars("(b) amplification", groups, y, amps));
        page.tables.push(table);
        page.notes.push(
            "The paper does not say how much of a band its emulator rewrites. Its AWA of 5.38 is \
             closer to rewriting what follows the write than to rewriting the whole band. A \
             rewrite that survives a power cut writes that part twice."
                .to_owned(),
        );
        page
    },
};

/// Tables and bands that a compaction writes, on average.
#[derive(Clone, Copy)]
struct Spread {
    tables: f64,
    bands: f64,
}

impl Spread {
    /// Averages over the compactions that ended within the first `share` of the load.
    fn of(found: &RunResult, share: f64, band_len_bytes: u64) -> Spread {
        let lines: Vec<_> = merges(found.lines_until(share)).collect();
        let touched = lines.iter().map(|line| {
            let runs = output_runs(line);
            let bands = runs
                .iter()
                .flat_map(|&(at, len)| at / band_len_bytes..=(at + len - 1) / band_len_bytes);
            bands.collect::<std::collections::BTreeSet<u64>>().len() as f64
        });
        Spread {
            bands: mean(touched),
            tables: mean(lines.iter().map(|line| line.output_table_count as f64)),
        }
    }
}

/// Claims on tables, bands, WA and MWA at 40 MB, with their growth over the load extrapolated to
/// the paper's length. `whole` is the AWA with rewrites of whole bands.
fn claims(found: &RunResult, [tables, bands, wa, mwa]: [f64; 4], whole: f64) -> Vec<Claim> {
    let claim = |what: &str, paper, ours| Claim::new(what, Better::Same, paper, ours, "");
    let loaded = found.load().map_or(0, |load| load.totals.user_bytes);
    let quarter = Spread::of(found, 0.25, 40 * MIB);
    let wa_quarter = found.load().and_then(|load| load.at_share(0.25));
    let wa_quarter = wa_quarter.map_or(0.0, |state| state.totals.write_amp_ratio());
    let grows = |claim: Claim, before: f64| {
        let now = claim.ours;
        let at_paper = grown(loaded, LOADED_BYTES, before, now);
        claim.under(growth_to(LOADED_BYTES, before, now), at_paper)
    };
    let awa = mwa / wa.max(0.01);
    vec![
        grows(
            claim("tables that a compaction writes, bands of 40 MB", 9.83, tables),
            quarter.tables,
        ),
        grows(claim("bands that a compaction writes", 6.22, bands), quarter.bands),
        grows(claim("WA", 9.83, wa), wa_quarter),
        claim("MWA", 52.85, mwa)
            .under("our AWA times the paper's WA of 9.83", awa * 9.83)
            .under("the same, with rewrites of whole bands", whole * 9.83),
        claim("AWA = MWA / WA", 5.38, awa).under("rewrites of whole bands", whole),
    ]
}

/// The paper's load for this figure.
const LOADED_BYTES: u64 = 10 * GB;

/// LevelDB on bands of 40 MB; a rewrite writes the whole band.
pub(super) fn whole_bands(size: &Size) -> RunSpec {
    run(size, 40, Rewrite::Whole)
}

/// How a band is rewritten.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rewrite {
    Rest,
    Whole,
    Staged,
}

fn run(size: &Size, band_mib: u64, rewrite: Rewrite) -> RunSpec {
    let bytes = size.bytes(LOADED_BYTES).max(PREFIX_BYTES_MIN.min(size.bytes(LOAD_BYTES)));
    let load = Phase::load(LoadOrder::Random, bytes, VALUE_LEN_BYTES);
    let tune = Tune {
        band_len_bytes: Some(band_mib * MIB),
        reads_whole_band: rewrite == Rewrite::Whole,
        is_staged: rewrite == Rewrite::Staged,
        ..Tune::default()
    };
    RunSpec::new("leveldb-banded", drive(size, "leveldb-banded"), vec![load]).tuned(tune)
}

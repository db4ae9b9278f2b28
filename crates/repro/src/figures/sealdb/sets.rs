//! Not a figure of the paper: which readings of its sets make them die whole.
//!
//! The paper says that the tables of a set are "either valid or invalid at the same time", and that
//! the set with more invalid tables is compacted first. It does not say how tables come to overlap
//! one set only.

use super::{LOAD_BYTES, VALUE_LEN_BYTES, drive, random_of};
use crate::figure::{Figure, Runs};
use crate::figures::measures::{mean, merges, need, over};
use crate::page::{Better, Claim, Page, Table};
use crate::results::RunResult;
use crate::spec::{LoadOrder, Phase, RunSpec, Size, Tune};

/// Whether tables end with sets, and whether victims are taken by key. The third is the setting of the
/// other figures, the last is what the layout does by itself.
const READINGS: [(&str, bool, bool); 4] = [
    ("tables cross sets, dead sets first", false, false),
    ("tables cross sets, victims by key", false, true),
    ("tables end with sets, dead sets first", true, false),
    ("tables end with sets, victims by key", true, true),
];

/// Multiples of the load of the other figures.
const LENGTHS: [u64; 2] = [1, 2];

fn reading(size: &Size, times: u64, (_, cuts, by_key): (&str, bool, bool)) -> RunSpec {
    let mut spec = random_of(size, "sealdb", times * size.bytes(LOAD_BYTES));
    spec.phases.truncate(1);
    spec.tuned(Tune::default().sets(cuts, by_key))
}

fn leveldb(size: &Size, times: u64) -> RunSpec {
    let load = Phase::load(LoadOrder::Random, times * size.bytes(LOAD_BYTES), VALUE_LEN_BYTES);
    RunSpec::new("leveldb-cmr", drive(size, "leveldb-cmr"), vec![load])
}

pub(in super::super) const SETS: Figure = Figure {
    name: "sealdb-sets",
    title: "when the tables of a set die",
    paper: "SEALDB, III-A: the members of a set are valid or invalid at the same time",
    runs: Runs::Stores(|size| {
        let all = LENGTHS.iter().flat_map(|&times| {
            let readings = READINGS.map(|of| reading(size, times, of));
            readings.into_iter().chain([leveldb(size, times)])
        });
        all.collect()
    }),
    page: |size, results| {
        let mut page = Page::default();
        for times in LENGTHS {
            let loaded_bytes = times * size.bytes(LOAD_BYTES);
            let title = format!("random load of {} MB", loaded_bytes / 1_000_000);
            let mut table = Table::new(title, &HEADER);
            let base = need(&mut page, results, &leveldb(size, times)).and_then(RunResult::load);
            let base = base.map_or(f64::NAN, |load| load.totals.write_amp_ratio());
            let rows = READINGS.map(|of| {
                let run = need(&mut page, results, &reading(size, times, of));
                let row = run.and_then(|run| measured(run, base)).unwrap_or([f64::NAN; 7]);
                table.row(of.0, &row);
                row
            });
            let [_, _, paper, _] = rows.map(|row| row[1]);
            let what = format!(
                "sets that a compaction takes tables from, {} MB",
                loaded_bytes / 1_000_000
            );
            let claim = Claim::new(what, Better::Smaller, 1.0, paper, "");
            let others = READINGS.iter().zip(rows.map(|row| row[1]));
            let others = others.filter(|((_, cuts, by_key), _)| !cuts || *by_key);
            let claim = others.fold(claim, |claim, ((name, ..), sets)| claim.under(*name, sets));
            page.claims.push(claim);
            page.tables.push(table);
        }
        page.notes.push(
            "A set's table is dead when a compaction has replaced it. Its space waits for the last \
             table of the set. The mean over the load is that of 40 equidistant moments."
                .to_owned(),
        );
        page
    },
};

const HEADER: [&str; 8] = [
    "reading",
    "tables a compaction",
    "sets a compaction",
    "dead % of occupied, mean",
    "dead % of occupied, end",
    "WA",
    "WA over LevelDB",
    "puts/s",
];

fn measured(run: &RunResult, leveldb_write_amp: f64) -> Option<[f64; 7]> {
    let load = run.load()?;
    let into_sets = || merges(&run.lines).filter(|line| line.output_level >= 2);
    let tables = mean(into_sets().map(|line| line.output_table_count as f64));
    let sets = mean(into_sets().filter(|l| l.set_count > 0).map(|line| line.set_count as f64));
    let mut dead = load.milestones.iter().map(|state| {
        let space = state.space;
        100.0 * over(space.dead_bytes as f64, space.reach_bytes as f64)
    });
    let write_amp = load.totals.write_amp_ratio();
    Some([
        tables,
        sets,
        mean(dead.clone()),
        dead.next_back().unwrap_or(f64::NAN),
        write_amp,
        over(write_amp, leveldb_write_amp),
        load.ops_per_second(),
    ])
}

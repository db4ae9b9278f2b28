//! Figure 10: how long each compaction takes, and how much it moves.

use super::{STORES, block_reads_smrdb, file_reads_smrdb, prefix, random};
use crate::chart::{Axis, Chart, Series};
use crate::figure::{Figure, Runs};
use crate::figures::measures::{
    GB, grown, growth_to, mean, megabytes, merges, need, over, seconds,
};
use crate::page::{Better, Claim, Page, Table};
use crate::results::{Results, RunResult};
use crate::spec::{RunSpec, Size};

pub(in super::super) const FIGURE_10: Figure = Figure {
    name: "sealdb-10",
    title: "latency of each compaction, and mean amount of data",
    paper: "SEALDB, figure 10: the first 40 GB of the random load",
    runs: Runs::Stores(|size| {
        let others = [file_reads_smrdb(size), block_reads_smrdb(size)];
        STORES.iter().map(|store| random(size, store)).chain(others).collect()
    }),
    page: |size, results| {
        let mut page = Page::default();
        let mut table = Table::new(
            "compactions",
            &["store", "count", "mean s", "total s", "mean MB written", "mean MB read"],
        );
        let (mut series, mut all) = (Vec::new(), Vec::new());
        let stores = STORES.map(|store| (store.to_owned(), random(size, store)));
        let others = [
            ("smrdb, reads 128 KB at a time".to_owned(), file_reads_smrdb(size)),
            ("smrdb, reads 4 KB at a time".to_owned(), block_reads_smrdb(size)),
        ];
        for (name, spec) in stores.into_iter().chain(others) {
            let Some(found) = Compactions::of(&mut page, size, results, &spec) else {
                all.push(Compactions::default());
                continue;
            };
            let took = &found.took_s;
            let row =
                [took.len() as f64, found.mean_s(), found.total_s(), found.written, found.read];
            table.row(name, &row);
            if series.len() < STORES.len() {
                let points = took.iter().enumerate().map(|(at, s)| (at as f64, s.max(0.001)));
                series.push(Series::new(spec.layout, points.collect()));
            }
            all.push(found);
        }
        page.claims = claims(&all);
        page.claims.push(grows(
            size,
            results,
            "sealdb",
            "mean length of a SEALDB set",
            27.48,
            set_mb,
        ));
        let what = "mean data written by an SMRDB compaction";
        page.claims.push(grows(size, results, "smrdb", what, 900.0, written_mb));
        let axis = || Axis::linear("compaction");
        page.charts.push(Chart::scatter("(a) latency", axis(), Axis::log("seconds"), series));
        let groups = STORES.map(str::to_owned).to_vec();
        let sizes = all.iter().take(STORES.len()).map(|found| found.written).collect();
        let bars = vec![("MB written".to_owned(), sizes)];
        page.charts.push(Chart::bars("(b) mean compaction", groups, Axis::linear("MB"), bars));
        page.tables.push(table);
        page.notes.push(
            "The paper's 701 s for 900 MB are 1.3 MB/s, less than a hundredth of the streaming \
             rate of its disk."
                .to_owned(),
        );
        page
    },
};

/// The compactions of the first 40 GB of one run.
#[derive(Default)]
struct Compactions {
    took_s: Vec<f64>,
    written: f64,
    read: f64,
}

impl Compactions {
    fn of(page: &mut Page, size: &Size, results: &Results, spec: &RunSpec) -> Option<Compactions> {
        let run = need(page, results, spec)?;
        let lines: Vec<_> = merges(run.lines_until(prefix(size, 40 * GB))).collect();
        Some(Compactions {
            took_s: lines.iter().map(|l| seconds(l.end_ns - l.start_ns)).collect(),
            written: mean(lines.iter().map(|l| megabytes(l.out_len_bytes))),
            read: mean(lines.iter().map(|l| megabytes(l.in_len_bytes))),
        })
    }

    fn total_s(&self) -> f64 {
        self.took_s.iter().sum()
    }

    fn mean_s(&self) -> f64 {
        mean(self.took_s.iter().copied())
    }

    /// Megabytes written per second of a compaction.
    fn mb_per_s(&self) -> f64 {
        over(self.written, self.mean_s())
    }
}

fn claims(all: &[Compactions]) -> Vec<Claim> {
    let [leveldb, smrdb, sealdb, by_file, by_block] = all else { return Vec::new() };
    let longer = |a: &Compactions| over(a.total_s(), sealdb.total_s());
    let ratio = |what: &str, paper, ours| Claim::new(what, Better::Larger, paper, ours, "x");
    vec![
        ratio("total compaction latency, LevelDB over SEALDB", 4.30, longer(leveldb)),
        ratio("total compaction latency, SMRDB over SEALDB", 1.89, longer(smrdb))
            .under("SMRDB reads 128 KB at a time in compactions", longer(by_file))
            .under("SMRDB reads 4 KB at a time in compactions", longer(by_block)),
        Claim::new("MB/s of an SMRDB compaction", Better::Larger, 1.28, smrdb.mb_per_s(), "MB/s")
            .under("reads 128 KB at a time", by_file.mb_per_s())
            .under("reads 4 KB at a time", by_block.mb_per_s()),
    ]
}

/// A claim on a mean over the compactions, with its growth over the load extrapolated to the
/// paper's length.
fn grows(
    size: &Size,
    results: &Results,
    store: &'static str,
    what: &str,
    paper: f64,
    measure: fn(&RunResult, f64) -> f64,
) -> Claim {
    let share = prefix(size, 40 * GB);
    let Ok(run) = results.get(&random(size, store)) else {
        return Claim::new(what, Better::Same, paper, f64::NAN, "MB");
    };
    let (before, now) = (measure(run, share / 4.0), measure(run, share));
    let loaded = run.load().and_then(|load| load.at_share(share));
    let loaded = loaded.map_or(0, |state| state.totals.user_bytes);
    Claim::new(what, Better::Same, paper, now, "MB")
        .under(growth_to(40 * GB, before, now), grown(loaded, 40 * GB, before, now))
}

/// Mean length of a set: the output of one compaction into level 2 or deeper.
fn set_mb(run: &RunResult, share: f64) -> f64 {
    let sets = merges(run.lines_until(share)).filter(|line| line.output_level >= 2);
    mean(sets.map(|line| megabytes(line.out_len_bytes)))
}

fn written_mb(run: &RunResult, share: f64) -> f64 {
    mean(merges(run.lines_until(share)).map(|line| megabytes(line.out_len_bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_and_compactions_use_the_same_megabytes() {
        let line = crate::sample_results::compaction(27_480_000);
        let run = RunResult { phases: Vec::new(), lines: vec![line] };
        assert_eq!(set_mb(&run, 1.0), written_mb(&run, 1.0));
        assert!((set_mb(&run, 1.0) - 27.48).abs() < 1e-9);
    }
}

//! Figure 3.13: compactions delayed by a later trigger at level 0.

use super::{BAND_LEN_BYTES, random};
use crate::chart::{Axis, Chart};
use crate::figure::{Figure, Runs};
use crate::figures::measures::{need, over};
use crate::page::{Better, Claim, Page};
use crate::results::{PhaseResult, RunResult};
use crate::spec::{FILE_READ_AHEAD_LEN_BYTES, RunSpec, Size, Tune};

/// The number of runs in level 0 that triggers a compaction. Writes slow down at twice that number.
const COMPACT_RUN_COUNTS: [u32; 4] = [4, 6, 8, 12];

pub(in super::super) const FIGURE_3_13: Figure = Figure {
    name: "thesis-3.13",
    title: "random puts with delayed compaction",
    paper: "thesis, figure 3.13: level 0 triggers of SMRDB-SOC varied",
    runs: Runs::Stores(|size| COMPACT_RUN_COUNTS.iter().map(|&count| run(size, count)).collect()),
    page: |size, results| {
        let mut page = Page::default();
        let mb = |phase: Option<&PhaseResult>| {
            phase.map_or(f64::NAN, |p| p.ops_per_second() * 4096.0 / 1e6)
        };
        let (mut puts, mut gets) = (Vec::new(), Vec::new());
        for count in COMPACT_RUN_COUNTS {
            let found = need(&mut page, results, &run(size, count));
            puts.push(mb(found.and_then(RunResult::load)));
            gets.push(mb(found.and_then(|run| run.read_sequential(FILE_READ_AHEAD_LEN_BYTES))));
        }
        let last = COMPACT_RUN_COUNTS.len() - 1;
        page.claims.push(Claim::order(
            format!("random put, trigger at {} over trigger at 4", COMPACT_RUN_COUNTS[last]),
            Better::Larger,
            over(puts[last], puts[0]),
        ));
        let rising = puts.windows(2).filter(|pair| pair[1] >= pair[0] * 0.98).count();
        let is_whole = puts.iter().all(|mb_per_s| mb_per_s.is_finite());
        page.claims.push(Claim::new(
            "steps to a later trigger that do not slow puts down",
            Better::Same,
            last as f64,
            if is_whole { rising as f64 } else { f64::NAN },
            "",
        ));
        let groups = COMPACT_RUN_COUNTS.iter().map(|c| format!("{c} / {}", 2 * c)).collect();
        let series = vec![("random put".to_owned(), puts), ("sequential get".to_owned(), gets)];
        let y = Axis::linear("MB/s");
        page.charts.push(Chart::bars("by trigger / slowdown at level 0", groups, y, series));
        page
    },
};

fn run(size: &Size, count: u32) -> RunSpec {
    let spec = random(size, "smrdb", BAND_LEN_BYTES);
    if count == 4 {
        return spec; // The layout's own: shared with other figures.
    }
    let tune = Tune { l0_run_counts: Some((count, 2 * count, 3 * count)), ..spec.tune };
    spec.tuned(tune)
}

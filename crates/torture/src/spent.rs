//! What a campaign did, by scenario, so that a scenario with too few runs is noticed.

use crate::campaign::Draw;
use crate::{Report, Scenario, Sweep};
use std::collections::BTreeMap;
use std::fmt;

/// The clean runs of one scenario.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Line {
    known_count: u64,
    run_count: u64,
    sweep_count: u64,
    swept_run_count: u64,
    operation_count: u64,
    power_cut_count: u64,
    io_error_count: u64,
}

/// The work done on every scenario of a campaign.
#[derive(Clone, Debug)]
pub struct Spent {
    lines: BTreeMap<&'static str, Line>,
}

impl Spent {
    /// Nothing yet, on `scenarios`.
    pub fn new(scenarios: &[&'static Scenario]) -> Spent {
        Spent { lines: scenarios.iter().map(|s| (s.name, Line::default())).collect() }
    }

    /// Counts a clean run. `is_known` if its seed is from the file of seeds that once failed.
    pub fn note_run(&mut self, draw: &Draw, is_known: bool, report: &Report) {
        let line = self.line(draw);
        line.known_count += u64::from(is_known);
        line.run_count += u64::from(!is_known);
        line.operation_count += report.operation_count;
        line.power_cut_count += report.power_cut_count;
        line.io_error_count += report.io_error_count;
    }

    /// Counts a clean sweep.
    pub fn note_sweep(&mut self, draw: &Draw, sweep: &Sweep) {
        let line = self.line(draw);
        line.sweep_count += 1;
        line.swept_run_count += sweep.run_count;
        line.operation_count += sweep.operation_count;
        line.power_cut_count += sweep.power_cut_count;
    }

    fn line(&mut self, draw: &Draw) -> &mut Line {
        self.lines.entry(draw.scenario.name).or_default()
    }

    /// The scenarios with fewer than `runs_min` drawn runs, and their counts: the campaign was too
    /// short.
    pub fn too_few(&self, runs_min: u64) -> Vec<(&'static str, u64)> {
        let counts = self.lines.iter().map(|(&name, line)| (name, line.run_count));
        counts.filter(|&(_, count)| count < runs_min).collect()
    }

    /// The total number of runs, including those of sweeps.
    pub fn run_count(&self) -> u64 {
        let runs = |line: &Line| line.known_count + line.run_count + line.swept_run_count;
        self.lines.values().map(runs).sum()
    }
}

impl fmt::Display for Spent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:28} {:>6} {:>6} {:>6} {:>6} {:>10} {:>6} {:>6}",
            "scenario", "known", "drawn", "sweeps", "swept", "operations", "cuts", "errors"
        )?;
        for (name, line) in &self.lines {
            writeln!(
                f,
                "{name:28} {:>6} {:>6} {:>6} {:>6} {:>10} {:>6} {:>6}",
                line.known_count,
                line.run_count,
                line.sweep_count,
                line.swept_run_count,
                line.operation_count,
                line.power_cut_count,
                line.io_error_count,
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::campaign::Way;
    use crate::run_seed;

    #[test]
    fn too_few_runs_are_noticed() {
        let scenarios = ["conventional", "blocks"].map(|name| Scenario::by_name(name).unwrap());
        let mut spent = Spent::new(&scenarios);
        let draw = Draw { scenario: scenarios[0], seed: 1, way: Way::Drawn };
        let report = run_seed(draw.scenario, draw.seed).unwrap();
        spent.note_run(&draw, true, &report);
        assert_eq!(
            spent.too_few(1),
            [("blocks", 0), ("conventional", 0)],
            "known seeds are no draws"
        );
        spent.note_run(&draw, false, &report);
        assert_eq!(spent.too_few(1), [("blocks", 0)]);
        assert_eq!(spent.too_few(2), [("blocks", 0), ("conventional", 1)]);
        assert_eq!(spent.run_count(), 2);
        let shown = spent.to_string();
        assert!(shown.contains("conventional") && shown.contains("blocks"), "{shown}");
    }

    #[test]
    fn a_sweep_counts_its_runs() {
        let scenario = Scenario::by_name("conventional").unwrap();
        let mut spent = Spent::new(&[scenario]);
        let draw = Draw { scenario, seed: 1, way: Way::Swept };
        spent.note_sweep(&draw, &Sweep { run_count: 8, ..Sweep::default() });
        assert_eq!((spent.run_count(), spent.too_few(1)), (8, vec![("conventional", 0)]));
    }
}

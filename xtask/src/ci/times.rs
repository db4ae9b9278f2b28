//! How long each step takes: measured, kept under `target/`, and compared with the file in the tree.
//!
//! ```text
//!   this run  -->  target/ci/times.txt  --compared-->  xtask/ci-times.txt    NAME CPU_S WALL_S
//! ```
//!
//! What is compared is processor time: wall time says more about what else the machine did. Machines differ in
//! speed, but all steps are slower on a slower one: a step has grown if it takes a quarter more, and more than
//! 10 s more, than the file's time multiplied by the median ratio over all steps.

use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

const GROWTH_MAX: f64 = 1.25;
const GROWTH_S_MIN: f64 = 10.0;

/// What a step took.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Time {
    /// Processor time, user and system, of all its processes.
    pub(super) cpu_s: f64,
    /// By the clock on the wall.
    pub(super) wall_s: f64,
}

/// The times of steps by name, in the order in which they ended.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Times {
    lines: Vec<(String, Time)>,
}

impl Times {
    pub(super) fn note(&mut self, name: &str, time: Time) {
        self.lines.push((name.to_owned(), time));
    }

    fn parse(text: &str) -> Result<Times> {
        let mut times = Times::default();
        for line in text.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
            let words: Vec<&str> = line.split_whitespace().collect();
            let [name, cpu_s, wall_s] = words[..] else { anyhow::bail!("{line:?}: three words") };
            let time = Time { cpu_s: cpu_s.parse()?, wall_s: wall_s.parse()? };
            times.note(name, time);
        }
        Ok(times)
    }

    fn text(&self) -> String {
        let mut text = "# step  processor seconds  wall seconds\n".to_owned();
        for (name, Time { cpu_s, wall_s }) in &self.lines {
            let _ = writeln!(text, "{name:<16} {cpu_s:8.1} {wall_s:8.1}");
        }
        text
    }

    fn read(path: &Path) -> Result<Times> {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read {}", path.display()))?;
        Times::parse(&text).with_context(|| format!("in {}", path.display()))
    }

    /// Keeps them as the last run's.
    pub(super) fn keep(&self, root: &Path) -> Result<()> {
        std::fs::write(last(root), self.text()).context("cannot keep the step times")
    }

    /// Processor time of all steps.
    pub(super) fn cpu_s(&self) -> f64 {
        self.lines.iter().map(|(_, time)| time.cpu_s).sum()
    }

    /// The steps that have grown beyond `expected`, each in a line.
    fn grown(&self, expected: &Times) -> Vec<String> {
        let expected: BTreeMap<&str, Time> =
            expected.lines.iter().map(|(name, time)| (name.as_str(), *time)).collect();
        let known = |name: &str| expected.get(name).map(|time| time.cpu_s).filter(|&s| s > 1.0);
        let both = self.lines.iter().filter_map(|(name, time)| Some((name, time, known(name)?)));
        let both: Vec<_> = both.collect();
        let mut ratios: Vec<f64> = both.iter().map(|(_, time, known)| time.cpu_s / known).collect();
        ratios.sort_by(f64::total_cmp);
        let machine = ratios.get(ratios.len() / 2).copied().unwrap_or(1.0);
        let is_grown = |(_, time, known): &&(&String, &Time, f64)| {
            let due = known * machine;
            time.cpu_s > due * GROWTH_MAX && time.cpu_s > due + GROWTH_S_MIN
        };
        let line = |(name, time, known): &(&String, &Time, f64)| {
            let due = known * machine;
            format!("{name}: {:.0} s of processor time, {due:.0} s expected", time.cpu_s)
        };
        both.iter().filter(is_grown).map(line).collect()
    }
}

fn last(root: &Path) -> PathBuf {
    root.join("target/ci/times.txt")
}

fn committed(root: &Path) -> PathBuf {
    root.join("xtask/ci-times.txt")
}

/// Prints the last run's times beside those of the tree, and which steps have grown.
pub(super) fn compare(root: &Path) -> Result<()> {
    let (times, expected) = (Times::read(&last(root))?, Times::read(&committed(root))?);
    println!("{:<16} {:>10} {:>10} {:>10}", "step", "cpu s", "wall s", "kept cpu s");
    for (name, time) in &times.lines {
        let kept = expected.lines.iter().find(|(known, _)| known == name);
        let kept = kept.map_or(String::new(), |(_, time)| format!("{:.1}", time.cpu_s));
        println!("{name:<16} {:>10.1} {:>10.1} {kept:>10}", time.cpu_s, time.wall_s);
    }
    println!("{:<16} {:>10.1} {:>10} {:>10.1}", "all", times.cpu_s(), "", expected.cpu_s());
    for line in times.grown(&expected) {
        println!("SLOWER: {line}");
    }
    Ok(())
}

/// Takes the last run's times into the tree.
pub(super) fn adopt(root: &Path) -> Result<()> {
    std::fs::copy(last(root), committed(root)).context("cannot write xtask/ci-times.txt")?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(lines: &[(&str, f64)]) -> Times {
        let mut times = Times::default();
        for &(name, cpu_s) in lines {
            times.note(name, Time { cpu_s, wall_s: cpu_s });
        }
        times
    }

    #[test]
    fn what_is_kept_is_read_back() {
        let kept = times(&[("build", 312.5), ("doc-tests", 7.0)]);
        assert_eq!(Times::parse(&kept.text()).unwrap(), kept);
        assert!(Times::parse("build 1\n").is_err() && Times::parse("build a b\n").is_err());
    }

    #[test]
    fn a_slower_machine_is_no_slower_step() {
        let kept = times(&[("build", 300.0), ("tests", 100.0), ("torture", 480.0)]);
        let twice = times(&[("build", 600.0), ("tests", 200.0), ("torture", 960.0)]);
        assert!(twice.grown(&kept).is_empty());
        let one_more = times(&[("build", 600.0), ("tests", 300.0), ("torture", 960.0)]);
        assert_eq!(one_more.grown(&kept), ["tests: 300 s of processor time, 200 s expected"]);
    }

    #[test]
    fn seconds_and_new_steps_do_not_count() {
        let kept = times(&[("build", 300.0), ("tidy", 3.0), ("tests", 100.0)]);
        let now = times(&[("build", 300.0), ("tidy", 9.0), ("tests", 100.0), ("book", 50.0)]);
        assert!(now.grown(&kept).is_empty());
    }

    #[test]
    fn the_tree_s_times_are_readable() {
        let root = crate::cargo::workspace_root().unwrap();
        assert!(Times::read(&committed(&root)).unwrap().cpu_s() > 0.0);
    }
}

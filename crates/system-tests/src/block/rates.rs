//! `imbrex serve` and nbdkit's memory plugin compared: the same fio job over the same kind of socket, in turn.
//!
//! Both serve memory, all of which is written before the measurement. The servers take turns, so that other work on
//! the machine affects both.

use super::{Serving, packages};
use crate::cargo;
use crate::program::said;
use crate::report::{DataArgs, Report};
use crate::spread::Spread;
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;

const LEN: &str = "512M";
/// The jobs of fio, and their numbers of parallel requests.
const LOADS: [(&str, u32); 4] =
    [("randwrite", 1), ("randwrite", 16), ("randread", 1), ("randread", 16)];

/// Arguments of `cargo xtask block rates`.
#[derive(clap::Args, Debug)]
pub struct RatesArgs {
    /// Number of rounds
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..))]
    rounds: u64,
    /// Length of each job, in seconds
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..))]
    seconds: u64,
    #[command(flatten)]
    data: DataArgs,
}

/// The result of one server in one round.
#[derive(Clone, Copy, Debug)]
struct Turn {
    ops_per_second: f64,
    /// The server's processor time.
    us_per_op: f64,
}

/// Prints operations per second and the servers' processor time, as a table.
pub fn run(root: &Path, args: &RatesArgs) -> Result<()> {
    let mut report = Report::new(&args.data)?;
    let needs = [super::NEEDS[2], ("/usr/bin/nbdkit", "nbdkit")];
    packages::provide(&needs, "nothing was measured", false)?;
    cargo::build(root)?;
    let dir = root.join("target/block-rates");
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).context("cannot make a directory for sockets")?;
    let stand = Stand { imbrex: cargo::imbrex(root), dir, seconds: args.seconds };
    let title = format!("4 KiB at random: medians, least and most, of rounds: {}", args.rounds);
    report.table(
        &title,
        &[
            "4 KiB",
            "under way",
            "imbrex, a second",
            "nbdkit, a second",
            "imbrex / nbdkit",
            "imbrex, us of the processor",
            "nbdkit, us",
        ],
    );
    for (load, depth) in LOADS {
        let mut turns = Vec::new();
        for _ in 0..args.rounds {
            turns.push((stand.imbrex(load, depth)?, stand.nbdkit(load, depth)?));
        }
        let of = |value: fn(&(Turn, Turn)) -> f64| {
            Spread::of(&turns.iter().map(value).collect::<Vec<f64>>())
        };
        let ratio = of(|(ours, theirs)| ours.ops_per_second / theirs.ops_per_second);
        report.row(vec![
            load.to_owned(),
            depth.to_string(),
            format!("{:.0}", of(|turn| turn.0.ops_per_second)),
            format!("{:.0}", of(|turn| turn.1.ops_per_second)),
            format!("{ratio:.2}"),
            of(|turn| turn.0.us_per_op).to_string(),
            of(|turn| turn.1.us_per_op).to_string(),
        ]);
    }
    report.write(root)?;
    std::fs::remove_dir_all(&stand.dir).context("cannot remove the sockets")
}

struct Stand {
    imbrex: PathBuf,
    dir: PathBuf,
    seconds: u64,
}

impl Stand {
    fn imbrex(&self, load: &str, depth: u32) -> Result<Turn> {
        let mut command = Command::new(&self.imbrex);
        command.args(["serve", "--memory", "512MiB", "--sector-size", "512", "--socket"]);
        let serving = Serving::start(command.arg(self.dir.join("socket")))?;
        let uri = &serving.url;
        said(&mut self.fio("write", "1m", 1, uri))?;
        let ticks = ticks_of(serving.child.id())?;
        let mut fio = self.fio(load, "4k", depth, uri);
        let told = said(self.measured(&mut fio))?;
        let spent = ticks_of(serving.child.id())? - ticks;
        serving.kill()?;
        self.turn(&told, spent)
    }

    /// nbdkit starts its client, and ends with it.
    fn nbdkit(&self, load: &str, depth: u32) -> Result<Turn> {
        let pid = self.dir.join("pid");
        let line = |fio: &mut Command| {
            let words = std::iter::once(fio.get_program()).chain(fio.get_args());
            let words = words.map(|word| word.to_string_lossy().into_owned());
            words.collect::<Vec<_>>().join(" ")
        };
        let fill = line(&mut self.fio("write", "1m", 1, "\"$uri\""));
        let load = line(self.measured(&mut self.fio(load, "4k", depth, "\"$uri\"")));
        let stat = format!("cat /proc/$(cat '{}')/stat", pid.display());
        let script = format!("set -e; {fill} > /dev/null; {stat}; {load}; {stat}");
        let mut nbdkit = Command::new("nbdkit");
        nbdkit.args(["--unix", "-", "--pidfile"]).arg(&pid).args(["memory", LEN, "--run"]);
        let told = said(nbdkit.arg(&script))?;
        let (first, rest) = told.split_once('\n').context("nbdkit said nothing")?;
        let (report, last) = rest.trim_end().rsplit_once('\n').context("fio said nothing")?;
        self.turn(report, ticks_in(last)? - ticks_in(first)?)
    }

    fn fio(&self, load: &str, block: &str, depth: u32, uri: &str) -> Command {
        let mut fio = Command::new("fio");
        fio.args(["--name=rates", "--ioengine=nbd", "--randseed=1", "--norandommap"]);
        fio.arg(format!("--size={LEN}")).arg(format!("--rw={load}")).arg(format!("--bs={block}"));
        fio.arg(format!("--iodepth={depth}")).arg(format!("--uri={uri}"));
        fio.current_dir(&self.dir);
        fio
    }

    fn measured<'a>(&self, fio: &'a mut Command) -> &'a mut Command {
        fio.arg("--time_based").arg(format!("--runtime={}", self.seconds));
        fio.args(["--output-format=terse", "--terse-version=3"])
    }

    fn turn(&self, report: &str, ticks: u64) -> Result<Turn> {
        let ticks_per_second: f64 = said(Command::new("getconf").arg("CLK_TCK"))?.trim().parse()?;
        let ops_per_second = rate_of(report)?;
        let ops = ops_per_second * self.seconds as f64;
        Ok(Turn { ops_per_second, us_per_op: ticks as f64 / ticks_per_second * 1e6 / ops })
    }
}

/// Reads and writes per second, from fio's terse report, version 3: fields 8 and 49.
fn rate_of(report: &str) -> Result<f64> {
    let line = report.lines().find(|line| line.starts_with("3;"));
    let fields: Vec<&str> = line.unwrap_or_default().split(';').collect();
    let rate = |at: usize| fields.get(at).and_then(|field| field.parse::<f64>().ok());
    let rate = rate(7).unwrap_or_default() + rate(48).unwrap_or_default();
    ensure!(rate > 0.0, "fio did nothing, or said it in another way:\n{report}");
    Ok(rate)
}

fn ticks_of(pid: u32) -> Result<u64> {
    let path = format!("/proc/{pid}/stat");
    ticks_in(&std::fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?)
}

/// User and system time in a line of `/proc/PID/stat`, in ticks.
fn ticks_in(stat: &str) -> Result<u64> {
    let wrong = || format!("not of a process: {stat:?}");
    // The name, in parentheses, may contain any character.
    let (_, behind) = stat.rsplit_once(')').with_context(wrong)?;
    let words: Vec<&str> = behind.split_whitespace().collect();
    let [user, system] = [11, 12].map(|at| words.get(at).and_then(|word| word.parse::<u64>().ok()));
    Ok(user.with_context(wrong)? + system.with_context(wrong)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_and_ticks_are_read_off_what_programs_say() {
        let stat = "7 (a b) c) S 1 2 3 0 -1 64 39 0 0 0 120 34 0 0 20 0";
        assert_eq!(ticks_in(stat).unwrap(), 154);
        assert!(ticks_in("7 (a) S 1").is_err());
        let field = |at| if at == 7 { "1.5" } else { "2" };
        let fields: Vec<&str> = (1..55).map(field).collect();
        let report = format!("fio: a note\n3;{}\n", fields.join(";"));
        assert!((rate_of(&report).unwrap() - 3.5).abs() < 1e-9);
        assert!(rate_of("3;fio;rates").is_err() && rate_of("nothing").is_err());
    }
}

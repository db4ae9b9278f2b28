//! Comparison of the two runners, `imbrex ycsb` and the original YCSB, with YCSB's six property files, on an
//! Imbrex store and a Redis server. Prints Markdown.
//!
//! ```text
//!   round      store      workload     runner, the first one changes from round to round
//!   1 .. n  x  2 or 3  x  A .. F    x  imbrex, java     closed loop: operations per second, processor time
//!                                                       open loop:   intended latencies, one series for both
//!              none                                     closed loop: the cost of the runner itself
//! ```
//!
//! The Imbrex store is in an image that fits the system's page cache. On a device (`--device`) it bypasses the page
//! cache and is longer than its own cache, so most reads reach the drive, as on a disk.
//!
//! The store runs in the runner's process, so a closed loop measures both. The cost of the runner is measured
//! without a store and subtracted, in processor time, which other work on the machine disturbs least. It counts the
//! last three quarters of a run, which exclude the start of the Java virtual machine.
//!
//! Every run starts from the same content: a copy of a loaded drive, or a device or a server loaded again. A ratio
//! compares two runs of one round. The noise is the difference between the rounds of one runner.
//!
//! Not here: YCSB's files and its Redis binding, which come from an unpacked release.

use super::Server;
use super::original::Original;
use crate::packages;
use crate::program::said;
use crate::report::{DataArgs, Report};
use crate::spread::Spread;
use anyhow::{Context, Result, ensure};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The arguments of the comparison.
#[derive(clap::Args, Debug)]
pub struct CompareArgs {
    /// Directory of an unpacked release of YCSB 0.17.0, with workloads/ and redis-binding/lib/
    #[arg(long, value_name = "DIR")]
    ycsb: PathBuf,
    /// Number of rounds
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Intended length of a run, in seconds
    #[arg(long, default_value_t = 8)]
    seconds: u64,
    /// Second of a run from which both runners count as warm
    #[arg(long, default_value_t = 3, value_name = "SECOND")]
    warm: u64,
    /// Local port for the Redis server
    #[arg(long, default_value_t = 16_379)]
    port: u16,
    /// YCSB's workloads to run
    #[arg(long, default_value = "abcdef", value_name = "LETTERS")]
    workloads: String,
    /// Measure only the latencies of open loops
    #[arg(long)]
    only_open: bool,
    /// Measure only this store: imbrex, imbrex-device or redis
    #[arg(long)]
    only: Option<String>,
    /// Also measure an Imbrex store on this block device of at least 2 GiB, such as a loop device with direct I/O; its
    /// content is lost
    #[arg(long, value_name = "DEV")]
    device: Option<PathBuf>,
    #[command(flatten)]
    data: DataArgs,
}

const THREADS: &str = "4";

/// A store to compare the runners on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Store {
    /// An Imbrex store in an image.
    Imbrex,
    /// An Imbrex store on a block device.
    Device,
    Redis,
    /// No store: every operation succeeds at once.
    Basic,
}

/// A workload: the operation whose latencies are printed, and the rate of its open loop on each store.
struct Workload {
    letter: char,
    operation: &'static str,
    rate_per_s: u64,
}

impl Workload {
    /// As YCSB's papers call it.
    fn name(&self) -> String {
        self.letter.to_ascii_uppercase().to_string()
    }
}

const fn workload(letter: char, operation: &'static str, rate_per_s: u64) -> Workload {
    Workload { letter, operation, rate_per_s }
}

const WORKLOADS: [Workload; 6] = [
    workload('a', "READ", 1000),
    workload('b', "READ", 1000),
    workload('c', "READ", 1000),
    workload('d', "READ", 1000),
    // A scan of 50 records takes 51 requests to a Redis server.
    workload('e', "SCAN", 100),
    workload('f', "READ", 1000),
];

/// The printed intended latencies: percentiles of a whole run, and percentiles of the second of a status line, as the
/// median of the seconds from `--warm` on.
const PERCENTILES: [&str; 3] = ["50", "95", "99"];
const SETTLED: [&str; 2] = ["90", "99"];

/// The factor by which an open loop is longer, so that the first arrivals on a cold machine have little weight.
const OPEN_LOOP_FACTOR: u64 = 2;

/// The first part of a closed loop, whose processor time does not count because Java compiles meanwhile.
const FIRST_PART: u64 = 4;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Runner {
    Imbrex,
    Java,
}

/// The measurements of one run.
#[derive(Clone, Debug, Default)]
struct Figures {
    /// As printed.
    ops_per_s: f64,
    /// The median of its seconds from `--warm` on, without start and warm-up.
    settled_ops_per_s: f64,
    /// Processor time per operation of the closed loop, without its first quarter.
    cpu_us_per_op: f64,
    /// The intended latencies of the open loop: [`PERCENTILES`], then [`SETTLED`].
    percentiles_us: Vec<f64>,
    /// Whether the schedule was kept.
    is_kept: bool,
}

/// The directories, programs and addresses of the comparison.
struct Ground<'a> {
    args: &'a CompareArgs,
    original: Original,
    dir: PathBuf,
    /// A loaded drive to copy.
    loaded: PathBuf,
}

/// Compares the runners and prints the result.
pub fn run(root: &Path, args: &CompareArgs) -> Result<()> {
    let file = args.ycsb.join("workloads/workloada");
    ensure!(file.is_file(), "no {}: --ycsb names an unpacked release of YCSB", file.display());
    let mut report = Report::new(&args.data)?;
    packages::provide(&super::NEEDS, "", false)?;
    let original = Original::build(root, false)?.context("what is missing ends the run")?;
    let dir = tempfile::tempdir().context("cannot make a directory for drives")?;
    original.verified(&original.drive(&dir.path().join("tests"))?, false)?;
    let loaded = original.drive(&dir.path().join("loaded"))?;
    let ground = Ground { args, original, dir: dir.path().to_owned(), loaded };
    let load = ["--drive".as_ref(), ground.loaded.as_os_str()];
    said(ground.rust("load", 'a').args(load).args(["-p", "recordcount=100000"]))?;
    for store in [Store::Imbrex, Store::Device, Store::Redis] {
        let is_there = store != Store::Device || args.device.is_some();
        if !is_there || args.only.as_ref().is_some_and(|only| only != store.name()) {
            continue;
        }
        let mut rows = Vec::new();
        for workload in WORKLOADS.iter().filter(|w| args.workloads.contains(w.letter)) {
            rows.push(ground.workload(store, workload)?);
        }
        print_rows(store, args, &rows, &mut report);
    }
    report.write(root)
}

/// All rounds of a workload, of `imbrex` and of the original.
struct Row<'a> {
    workload: &'a Workload,
    operation_count: u64,
    rust: Vec<Figures>,
    java: Vec<Figures>,
    /// The cost without a store, of `imbrex` and of the original.
    rust_alone: Vec<Figures>,
    java_alone: Vec<Figures>,
}

impl Row<'_> {
    /// The processor time of one operation in each round, without the cost of the runner.
    fn store_us_per_op(on: &[Figures], alone: &[Figures]) -> Vec<f64> {
        on.iter().zip(alone).map(|(on, alone)| on.cpu_us_per_op - alone.cpu_us_per_op).collect()
    }

    /// One figure of all rounds, as cells of a table.
    fn compared(&self, of: impl Fn(&Figures) -> f64) -> [String; 5] {
        let rust: Vec<f64> = self.rust.iter().map(&of).collect();
        let java: Vec<f64> = self.java.iter().map(&of).collect();
        compared(&rust, &java)
    }
}

impl Store {
    fn name(self) -> &'static str {
        match self {
            Store::Imbrex => "imbrex",
            Store::Device => "imbrex-device",
            Store::Redis => "redis",
            Store::Basic => "basic",
        }
    }

    fn record_count(self) -> u64 {
        match self {
            Store::Imbrex => 100_000,
            // Ten times the store's cache.
            Store::Device => 600_000,
            Store::Redis | Store::Basic => 20_000,
        }
    }
}

impl Ground<'_> {
    fn file(&self, letter: char) -> PathBuf {
        self.args.ycsb.join(format!("workloads/workload{letter}"))
    }

    fn rust(&self, phase: &str, letter: char) -> Command {
        let mut rust = Command::new(&self.original.imbrex);
        rust.args(["ycsb", phase, "--mode", "threads", "-P"]).arg(self.file(letter));
        rust
    }

    fn workload<'a>(&self, store: Store, workload: &'a Workload) -> Result<Row<'a>> {
        let operation_count = match self.args.only_open {
            true => 0,
            false => self.count_for_closed(store, workload)?,
        };
        let mut row = Row {
            workload,
            operation_count,
            rust: Vec::new(),
            java: Vec::new(),
            rust_alone: Vec::new(),
            java_alone: Vec::new(),
        };
        for round in 0..self.args.rounds {
            let mut runners = [Runner::Imbrex, Runner::Java];
            if round % 2 == 1 {
                runners.reverse();
            }
            for runner in runners {
                let alone = match self.args.only_open {
                    true => Figures::default(),
                    false => self.closed(Store::Basic, workload, runner, operation_count)?,
                };
                let on_store = self.figures(store, workload, runner, operation_count)?;
                let (all, all_alone) = match runner {
                    Runner::Imbrex => (&mut row.rust, &mut row.rust_alone),
                    Runner::Java => (&mut row.java, &mut row.java_alone),
                };
                all.push(on_store);
                all_alone.push(alone);
            }
            let told = |figures: &Figures| match self.args.only_open {
                true => format!("{:.0} us", figures.percentiles_us[0]),
                false => format!("{:.0}/s", figures.ops_per_s),
            };
            eprintln!(
                "{} {} round {}: imbrex {}, java {}",
                store.name(),
                workload.letter,
                round + 1,
                told(&row.rust[round]),
                told(&row.java[round])
            );
        }
        Ok(row)
    }

    /// The number of operations for both runners: as many as `imbrex` does in the time of a run.
    fn count_for_closed(&self, store: Store, workload: &Workload) -> Result<u64> {
        let (probe, _) = self.one(store, workload, Runner::Imbrex, &["operationcount=4000"])?;
        let rate = figure_of(&probe, "[OVERALL], Throughput(ops/sec), ")?;
        Ok((rate * self.args.seconds as f64) as u64 / 1000 * 1000 + 1000)
    }

    /// Runs a closed loop, after one with a quarter of the operations, whose processor time is subtracted.
    fn closed(
        &self,
        store: Store,
        workload: &Workload,
        runner: Runner,
        operation_count: u64,
    ) -> Result<Figures> {
        let first_count = operation_count / FIRST_PART;
        let first = format!("operationcount={first_count}");
        let (_, first_us) = self.one(store, workload, runner, &[&first, "status.interval=1"])?;
        let count = format!("operationcount={operation_count}");
        let (told, cpu_us) = self.one(store, workload, runner, &[&count, "status.interval=1"])?;
        Ok(Figures {
            ops_per_s: figure_of(&told, "[OVERALL], Throughput(ops/sec), ")?,
            settled_ops_per_s: median(&of_seconds(&told, self.args.warm, |line| {
                let (_, rest) = line.split_once(" operations; ")?;
                rest.split_once(" current ops/sec")?.0.parse().ok()
            })),
            cpu_us_per_op: (cpu_us - first_us) / (operation_count - first_count) as f64,
            ..Figures::default()
        })
    }

    /// Runs a closed loop, unless only open loops are asked for, and an open loop.
    fn figures(
        &self,
        store: Store,
        workload: &Workload,
        runner: Runner,
        operation_count: u64,
    ) -> Result<Figures> {
        let closed = match self.args.only_open {
            true => Figures::default(),
            false => self.closed(store, workload, runner, operation_count)?,
        };
        let open_count = workload.rate_per_s * self.args.seconds * OPEN_LOOP_FACTOR;
        let open_count = format!("operationcount={open_count}");
        let rate = format!("arrivals.rate={}", workload.rate_per_s);
        let open = [
            open_count.as_str(),
            rate.as_str(),
            "workload=imbrex.ycsb.ArrivalWorkload",
            "arrivalgenerator=poisson",
            "measurement.interval=both",
            "hdrhistogram.percentiles=50,95,99",
            "status.interval=1",
        ];
        let (open, _) = self.one(store, workload, runner, &open)?;
        let mut percentiles_us = Vec::new();
        for name in PERCENTILES {
            let intended = format!("[Intended-{}], ", workload.operation);
            let start = format!("{intended}{name}thPercentileLatency(us), ");
            percentiles_us.push(figure_of(&open, &start)?);
        }
        for name in SETTLED {
            let before = format!("[Intended-{}: ", workload.operation);
            let of_seconds = of_seconds(&open, self.args.warm, |line| {
                let (_, rest) = line.split_once(&before)?;
                let (_, rest) = rest.split_once(&format!(" {name}="))?;
                rest.split([',', ']']).next()?.parse().ok()
            });
            percentiles_us.push(median(&of_seconds));
        }
        Ok(Figures { percentiles_us, is_kept: is_kept(&open)?, ..closed })
    }

    /// One run from the same initial content; returns its output and its processor time in us.
    fn one(
        &self,
        store: Store,
        workload: &Workload,
        runner: Runner,
        properties: &[&str],
    ) -> Result<(String, f64)> {
        let mut server = None;
        let drive = match (store, &self.args.device) {
            (Store::Device, Some(device)) => device.clone(),
            _ => self.dir.join("drive"),
        };
        let mut all = vec![format!("recordcount={}", store.record_count())];
        match store {
            Store::Imbrex => {
                let mut copy = Command::new("cp");
                said(copy.arg("--sparse=always").arg(&self.loaded).arg(&drive))?;
            }
            Store::Device => {
                let mut format = Command::new(&self.original.imbrex);
                said(format.args(["drive", "format", "--erase"]).arg(&drive))?;
                let mut load = self.rust("load", workload.letter);
                let load = load.args(["--threads", THREADS, "--drive"]).arg(&drive);
                said(with(load, &all))?;
            }
            Store::Redis => {
                server = Some(Server::on_port(&self.dir, self.args.port)?);
                all.push("redis.host=127.0.0.1".to_owned());
                all.push(format!("redis.port={}", self.args.port));
                let mut load = self.rust("load", workload.letter);
                said(with(load.args(["--db", "redis", "--threads", THREADS]), &all))?;
            }
            Store::Basic => {}
        }
        all.extend(properties.iter().map(|&property| property.to_owned()));
        let mut command = match (runner, store) {
            (Runner::Imbrex, _) => {
                let mut rust = self.rust("run", workload.letter);
                match store {
                    Store::Imbrex | Store::Device => rust.arg("--drive").arg(&drive),
                    Store::Redis | Store::Basic => rust.args(["--db", store.name()]),
                };
                rust.args(["--settle", "false", "--threads", THREADS, "-s"]);
                rust
            }
            (Runner::Java, store) => {
                let mut java = match store {
                    Store::Imbrex | Store::Device => self.original.java_on(&drive),
                    Store::Redis => {
                        let binding = self.args.ycsb.join("redis-binding/lib");
                        let mut java = self.original.java(&format!(":{}/*", binding.display()));
                        java.args(["-db", "site.ycsb.db.RedisClient"]);
                        java
                    }
                    Store::Basic => {
                        let mut java = self.original.java("");
                        java.args(["-db", "site.ycsb.BasicDB", "-p", "basicdb.verbose=false"]);
                        java
                    }
                };
                java.args(["-t", "-threads", THREADS, "-s", "-P"]).arg(self.file(workload.letter));
                java
            }
        };
        let before_us = children_cpu_us()?;
        let told = said(with(&mut command, &all));
        let cpu_us = children_cpu_us()? - before_us;
        // The server is waited for only now, so that its processor time is not included.
        drop(server);
        let told = told?;
        for bad in ["ERROR", "FAILED", "Exception"] {
            ensure!(!told.contains(bad), "{command:?}:\n{told}");
        }
        Ok((told, cpu_us))
    }
}

/// The processor time of all ended children, in us.
fn children_cpu_us() -> Result<f64> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).context("cannot ask for processor times")?;
    let times = [usage.user_time(), usage.system_time()];
    Ok(times.iter().map(|time| time.num_microseconds() as f64).sum())
}

fn with<'a>(command: &'a mut Command, properties: &[String]) -> &'a mut Command {
    for property in properties {
        command.args(["-p", property]);
    }
    command
}

/// Whether a runner reports that it kept its schedule; each runner reports one or the other.
fn is_kept(told: &str) -> Result<bool> {
    let verdict = told.lines().find_map(|line| line.strip_prefix("schedule "));
    let verdict = verdict.with_context(|| format!("no word of the schedule in:\n{told}"))?;
    let is_kept = verdict.starts_with("kept");
    ensure!(is_kept || verdict.starts_with("NOT kept"), "schedule {verdict}");
    Ok(is_kept)
}

fn figure_of(told: &str, start: &str) -> Result<f64> {
    let value = told.lines().find_map(|line| line.strip_prefix(start)?.trim().parse().ok());
    value.with_context(|| format!("no {start:?} in:\n{told}"))
}

/// The values that `of` finds in the status lines from second `warm` on, without the last line, whose second is
/// incomplete.
fn of_seconds(told: &str, warm: u64, of: impl Fn(&str) -> Option<f64>) -> Vec<f64> {
    let mut values: Vec<(u64, f64)> = told
        .lines()
        .filter_map(|line| {
            let second = line.split_once(" sec: ")?.0.rsplit(' ').next()?;
            Some((second.parse().ok()?, of(line)?))
        })
        .collect();
    values.pop();
    values.into_iter().filter(|(second, _)| *second >= warm).map(|(_, value)| value).collect()
}

fn median(values: &[f64]) -> f64 {
    Spread::of(values).median
}

/// The largest relative distance of a runner's value from its median.
fn spread(values: &[f64]) -> f64 {
    let middle = median(values).max(f64::MIN_POSITIVE);
    values.iter().map(|value| (value / middle - 1.0).abs()).fold(0.0, f64::max)
}

/// The medians of the two runners, the ratio within rounds with its minimum and maximum, the noise of both, and
/// whether the ratio differs from 1 by more than the noise.
fn compared(rust: &[f64], java: &[f64]) -> [String; 5] {
    if rust.iter().chain(java).any(|value| *value == 0.0) {
        return ["-", "-", "a run had no such second", "-", "-"].map(str::to_owned);
    }
    let ratios: Vec<f64> = rust.iter().zip(java).map(|(rust, java)| java / rust).collect();
    let ratio = Spread::of(&ratios);
    let noise = spread(rust) + spread(java);
    let is_within = (ratio.median - 1.0).abs() <= noise;
    [
        written(median(rust)),
        written(median(java)),
        format!("{ratio:.2}"),
        format!("{:.0} %", noise * 100.0),
        if is_within { "yes" } else { "no" }.to_owned(),
    ]
}

/// A figure with its significant digits.
fn written(value: f64) -> String {
    format!("{value:.*}", usize::from(value.abs() < 100.0))
}

/// The columns of [`compared`].
const COMPARED: [&str; 5] = ["imbrex", "java", "java / imbrex", "noise", "within"];

fn print_rows(store: Store, args: &CompareArgs, rows: &[Row<'_>], report: &mut Report) {
    if !args.only_open {
        print_closed(store, args.warm, rows, report);
    }
    print_open(store, args.warm, rows, report);
}

fn print_closed(store: Store, warm: u64, rows: &[Row<'_>], report: &mut Report) {
    let title = format!("{}: closed loop, operations a second", store.name());
    report.table(&title, &[&["workload", "operations", "of"], &COMPARED[..]].concat());
    for row in rows {
        let mut show = |of: String, compared: [String; 5]| {
            let names = [row.workload.name(), row.operation_count.to_string(), of];
            report.row([&names[..], &compared].concat());
        };
        show("the run".to_owned(), row.compared(|figures| figures.ops_per_s));
        let settled = row.compared(|figures| figures.settled_ops_per_s);
        show(format!("its seconds from {warm} on"), settled);
    }
    let title =
        format!("{}: closed loop, the processor's time for an operation in us", store.name());
    report.table(&title, &[&["workload", "of"], &COMPARED[..]].concat());
    for row in rows {
        let mut show = |of: &str, compared: [String; 5]| {
            report.row([&[row.workload.name(), of.to_owned()], &compared[..]].concat());
        };
        show("all but its first quarter", row.compared(|figures| figures.cpu_us_per_op));
        let cpu = |all: &[Figures]| -> Vec<f64> { all.iter().map(|f| f.cpu_us_per_op).collect() };
        show("the runner on no store", compared(&cpu(&row.rust_alone), &cpu(&row.java_alone)));
        let rust = Row::store_us_per_op(&row.rust, &row.rust_alone);
        let java = Row::store_us_per_op(&row.java, &row.java_alone);
        show("what is left for the store", compared(&rust, &java));
    }
}

fn print_open(store: Store, warm: u64, rows: &[Row<'_>], report: &mut Report) {
    let title = format!("{}: open loop, intended latency in us", store.name());
    let columns = [&["workload", "arrivals/s", "of", "percentile"], &COMPARED[..]].concat();
    report.table(&title, &columns);
    for row in rows {
        let whole = PERCENTILES.map(str::to_owned);
        let seconds = SETTLED.map(|name| format!("{name}, seconds from {warm} on"));
        for (at, percentile) in whole.into_iter().chain(seconds).enumerate() {
            let (rate, of) = (row.workload.rate_per_s.to_string(), row.workload.operation);
            let names = [row.workload.name(), rate, of.to_owned(), percentile];
            report.row([&names[..], &row.compared(|figures| figures.percentiles_us[at])].concat());
        }
    }
    let late = |all: Vec<&Figures>| {
        let late_count = all.iter().filter(|figures| !figures.is_kept).count();
        format!("{late_count} of {}", all.len())
    };
    println!(
        "\nOpen loops whose schedule was not kept to 50 us: imbrex {}, java {}.",
        late(rows.iter().flat_map(|row| &row.rust).collect()),
        late(rows.iter().flat_map(|row| &row.java).collect())
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_within_the_noise_is_told() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0]), 2.5);
        assert!((spread(&[90.0, 100.0, 105.0]) - 0.1).abs() < 1e-9);
        let told = compared(&[100.0, 102.0, 98.0], &[97.0, 99.0, 96.0]);
        assert_eq!(told, ["100", "97.0", "0.97 (0.97 to 0.98)", "4 %", "yes"]);
        assert_eq!(compared(&[100.0, 0.0], &[90.0, 90.0])[..2], ["-", "-"]);
        let told = compared(&[100.0, 100.0], &[50.0, 50.0]);
        assert_eq!(told, ["100", "50.0", "0.50 (0.50 to 0.50)", "0 %", "no"]);
    }

    #[test]
    fn what_the_runner_costs_is_taken_off_round_by_round() {
        let figures = |us: &[f64]| -> Vec<Figures> {
            us.iter()
                .map(|&cpu_us_per_op| Figures { cpu_us_per_op, ..Figures::default() })
                .collect()
        };
        let left = Row::store_us_per_op(&figures(&[10.0, 12.0]), &figures(&[4.0, 5.0]));
        assert_eq!(left, [6.0, 7.0]);
    }

    #[test]
    fn a_runner_that_says_nothing_of_its_schedule_has_not_kept_it() {
        let says = |line: &str| is_kept(&format!("[OVERALL], RunTime(ms), 9\n{line}\n"));
        assert!(says("schedule kept: of 9 operations").unwrap());
        assert!(!says("schedule NOT kept: of 9 operations").unwrap());
        assert!(!says("schedule NOT kept (p99 over 50 us): 9 ops/s asked for").unwrap());
        says("schedule: 9 ops/s asked for; 0 found a client free").unwrap_err();
        says("").unwrap_err();
    }

    #[test]
    fn a_rate_is_that_of_whole_seconds_after_the_start() {
        let line = |second, rate| {
            format!(
                "2026-11-21 10:33:09:383 {second} sec: 9 operations; {rate} current ops/sec; x\n"
            )
        };
        let told = [line(1, 5), line(2, 50), line(3, 100), line(4, 120), line(4, 7)].concat();
        let rates = of_seconds(&told, 3, |line| {
            line.split_once("operations; ")?.1.split(' ').next()?.parse().ok()
        });
        assert_eq!(rates, [100.0, 120.0]);
    }
}

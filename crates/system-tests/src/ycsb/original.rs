//! The original YCSB on an Imbrex store: builds and tests `adapters/ycsb`, and lets each runner read the records that
//! the other has loaded.
//!
//! ```text
//!   mvn verify, with a store       imbrex.ycsb.* by themselves
//!   java loads, imbrex verifies    one form of records
//!   imbrex loads, java verifies
//!   one file, both runners         equal numbers of arrivals, none before its time
//!   no drive, a drive in use       an error message
//!   java killed (-9)               imbrex finds all acknowledged records
//! ```

use crate::cargo;
use crate::packages::{self, Need};
use crate::program::said;
use anyhow::{Context, Result, bail, ensure};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const NEEDS: [Need; 2] = [("/usr/bin/mvn", "maven"), ("/usr/bin/javac", "default-jdk-headless")];

const SKIPPED: &str = "the original YCSB on our store was not tested";

/// Maven's messages about a failed download, as opposed to a failed build.
const NOT_GOT: [&str; 5] = [
    "Could not transfer artifact",
    "Could not find artifact",
    "Could not resolve",
    "could not be resolved",
    "was not found in",
];

const RECORD_COUNT: u64 = 2_000;

/// The built parts: YCSB, the adapter and the library.
pub(super) struct Original {
    pub(super) imbrex: PathBuf,
    library: PathBuf,
    adapter: PathBuf,
}

/// Builds everything and runs every test; `may_skip` decides whether missing software ends the run.
pub(super) fn run(root: &Path, may_skip: bool) -> Result<()> {
    let dir = tempfile::tempdir().context("cannot make a directory for drives")?;
    let Some(original) = Original::build(root, may_skip)? else { return Ok(()) };
    let at = |name: &str| dir.path().join(name);
    if !original.verified(&original.drive(&at("tests"))?, may_skip)? {
        return Ok(());
    }
    original.across(&at("across")).context("what one runner loaded and the other read")?;
    original.one_file(dir.path()).context("one property file for both runners")?;
    original.refusals(&at("held")).context("drives that cannot be opened")?;
    original.killed(&at("killed")).context("a Java that is killed")
}

impl Original {
    /// Builds the adapter and the library. Returns `None` after a message if packages are missing and `may_skip`.
    pub(super) fn build(root: &Path, may_skip: bool) -> Result<Option<Original>> {
        if !packages::provide(&NEEDS, SKIPPED, may_skip)? {
            return Ok(None);
        }
        cargo::build(root)?;
        let target = cargo::target(root);
        Ok(Some(Original {
            imbrex: target.join("imbrex"),
            library: target.join("libimbrex_capi.so"),
            adapter: root.join("adapters/ycsb"),
        }))
    }

    /// Builds the adapter and runs its tests, with stores on `drive`. Returns false after a message if a download of
    /// Maven failed and `may_skip`.
    pub(super) fn verified(&self, drive: &Path, may_skip: bool) -> Result<bool> {
        let mut maven = Command::new("mvn");
        maven.args(["-B", "-q", "verify"]).current_dir(&self.adapter).stdin(Stdio::null());
        maven.env("IMBREX_TEST_LIBRARY", &self.library).env("IMBREX_TEST_DRIVE", drive);
        let output = maven.output().context("cannot start mvn")?;
        let told = String::from_utf8_lossy(&output.stdout).into_owned();
        if output.status.success() {
            println!("  mvn verify: imbrex.ycsb by itself");
            return Ok(true);
        }
        let not_got = told.lines().find(|line| NOT_GOT.iter().any(|part| line.contains(part)));
        match not_got.filter(|_| may_skip) {
            Some(line) => {
                let what = format!("{SKIPPED}; Maven could not get what it needs: {}", line.trim());
                packages::skip(
                    &what,
                    "a mirror is named in Maven's own settings, ~/.m2/settings.xml",
                );
                Ok(false)
            }
            None => bail!("mvn verify in {}:\n{told}", self.adapter.display()),
        }
    }

    /// A new drive with an empty store.
    pub(super) fn drive(&self, path: &Path) -> Result<PathBuf> {
        let create = ["--capacity", "4GiB", "--rule", "conventional"];
        said(Command::new(&self.imbrex).args(["drive", "create"]).arg(path).args(create))?;
        Ok(path.to_owned())
    }

    /// YCSB's client with the adapter's classes and those in `more`, a Java class path.
    pub(super) fn java(&self, more: &str) -> Command {
        let target = self.adapter.join("target");
        let mut java = Command::new("java");
        java.arg("-cp").arg(format!(
            "{}:{}/*{more}",
            target.join("imbrex-ycsb-0.1.0.jar").display(),
            target.join("dependency").display()
        ));
        java.arg("site.ycsb.Client").stdin(Stdio::null());
        java
    }

    /// YCSB's client on the store of `drive`.
    pub(super) fn java_on(&self, drive: &Path) -> Command {
        let mut java = self.java("");
        java.args(["-db", "imbrex.ycsb.ImbrexDb", "-p"]);
        java.arg(format!("imbrex.library={}", self.library.display()));
        java.arg("-p").arg(format!("imbrex.drive={}", drive.display()));
        java
    }

    fn rust_on(&self, drive: &Path, phase: &str) -> Command {
        let mut imbrex = Command::new(&self.imbrex);
        imbrex.args(["ycsb", phase, "--mode", "threads", "--drive"]).arg(drive);
        imbrex
    }

    /// Lets `imbrex` read and verify each of `count` records.
    fn rust_verifies(&self, drive: &Path, count: u64, more: &[&str]) -> Result<()> {
        let all = reads_all(count);
        let told = said(with(&mut self.rust_on(drive, "run"), &all).args(more))?;
        is_verified(&told, count)
    }

    fn across(&self, path: &Path) -> Result<()> {
        let drive = self.drive(path)?;
        let records = format!("recordcount={RECORD_COUNT}");
        let load = [&records, "workload=site.ycsb.workloads.CoreWorkload", "dataintegrity=true"];
        let told = said(with(self.java_on(&drive).args(["-load", "-threads", "8"]), &load))?;
        ensure!(told.contains(&format!("[INSERT], Return=OK, {RECORD_COUNT}\n")), "{told}");
        self.rust_verifies(&drive, RECORD_COUNT, &[])?;
        // Java writes single fields, inserts and scans; then imbrex does.
        let mix = [
            "operationcount=4000",
            "readproportion=0.3",
            "updateproportion=0.3",
            "readmodifywriteproportion=0.2",
            "scanproportion=0.1",
            "insertproportion=0.1",
            "maxscanlength=20",
            "requestdistribution=zipfian",
        ];
        let mixed = [&load[..], &mix[..]].concat();
        let told = said(with(self.java_on(&drive).args(["-t", "-threads", "8"]), &mixed))?;
        is_clean(&told)?;
        let inserted = figure(&told, "[INSERT], Return=OK, ").context("no [INSERT]")?;
        self.rust_verifies(&drive, RECORD_COUNT + inserted, &[])?;

        let table = ["table=theirs"];
        let other = [&load[..], &table[..]].concat();
        said(with(self.rust_on(&drive, "load").args(["--threads", "4"]), &other))?;
        let mixed = [&mixed[..], &table[..]].concat();
        let told = said(with(self.rust_on(&drive, "run").args(["--threads", "4"]), &mixed))?;
        is_clean(&told)?;
        let inserted = figure(&told, "[INSERT], Return=OK, ").context("no [INSERT]")?;
        let all = [&load[1..], &table[..]].concat();
        let count = RECORD_COUNT + inserted;
        let java = &mut self.java_on(&drive);
        let told = said(with(with(java.args(["-t", "-threads", "8"]), &reads_all(count)), &all))?;
        is_verified(&told, count)?;
        println!(
            "  java loads and imbrex verifies, imbrex loads and java verifies: {count} records"
        );
        Ok(())
    }

    fn one_file(&self, dir: &Path) -> Result<()> {
        let drive = self.drive(&dir.join("both"))?;
        let file = dir.join("workload");
        let text = format!(
            "recordcount=1000\noperationcount=1500\nworkload=imbrex.ycsb.ArrivalWorkload\n\
             db=imbrex.ycsb.ImbrexDb\nimbrex.drive={}\nimbrex.library={}\nthreadcount=4\n\
             arrivalgenerator=poisson\narrivals.rate=1000\nmeasurement.interval=both\n",
            drive.display(),
            self.library.display()
        );
        std::fs::write(&file, text).context("cannot write a property file")?;
        let mut rust = Command::new(&self.imbrex);
        let told = said(rust.args(["ycsb", "load", "--mode", "threads", "-P"]).arg(&file))?;
        ensure!(told.contains("[Intended-INSERT], Operations, 1000\n"), "{told}");
        let java = said(self.java("").arg("-t").arg("-P").arg(&file))?;
        let mut rust = Command::new(&self.imbrex);
        let rust = said(rust.args(["ycsb", "run", "--mode", "threads", "-P"]).arg(&file))?;
        let mut span_ms = Vec::new();
        for told in [&java, &rust] {
            is_clean(told)?;
            let kinds = ["READ", "UPDATE"].map(|kind| {
                figure(told, &format!("[Intended-{kind}], Operations, ")).unwrap_or_default()
            });
            ensure!(kinds.iter().sum::<u64>() == 1500, "{told}");
            span_ms.push(figure(told, "[OVERALL], RunTime(ms), ").context("no RunTime")?);
        }
        ensure!(!rust.contains("warning"), "{rust}");
        // No operation starts before its arrival; the delay depends on the machine.
        let is_series = span_ms.iter().all(|&ms| ms > 1300);
        ensure!(is_series, "1500 arrivals at 1000/s: {span_ms:?} ms\n{java}\n{rust}");
        println!("  one property file, 1500 arrivals: {span_ms:?} ms");
        Ok(())
    }

    fn refusals(&self, path: &Path) -> Result<()> {
        let work = ["workload=site.ycsb.workloads.CoreWorkload", "operationcount=1"];
        let told = said(with(self.java_on(path).arg("-t"), &work))?;
        ensure!(
            told.contains("Imbrex: cannot open") && told.contains("create a drive there first"),
            "{told}"
        );
        let drive = self.drive(path)?;
        let told = said(with(self.java_on(&drive).arg("-t"), &work))?;
        ensure!(told.contains("no table \"usertable\"; load it first"), "{told}");
        Ok(())
    }

    /// With `imbrex.sync` every operation counted in YCSB's status lines survives a kill.
    fn killed(&self, path: &Path) -> Result<()> {
        let drive = self.drive(path)?;
        let load = [
            "workload=site.ycsb.workloads.CoreWorkload",
            "recordcount=10000000",
            "dataintegrity=true",
            "imbrex.sync=true",
            "status.interval=1",
        ];
        let mut java = self.java_on(&drive);
        let java = with(java.args(["-load", "-s"]), &load);
        let mut child = java
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .context("cannot start java")?;
        let stderr = child.stderr.take().context("its errors are a pipe")?;
        let counts = BufReader::new(stderr).lines().map_while(Result::ok).filter_map(|line| {
            let (_, rest) = line.split_once(" sec: ")?;
            rest.split(' ').next()?.parse::<u64>().ok()
        });
        let acknowledged = counts.filter(|count| *count > 0).nth(1);
        // While it runs, no other process may open the drive.
        let work = ["workload=site.ycsb.workloads.CoreWorkload", "operationcount=1"];
        let second = said(with(self.java_on(&drive).arg("-t"), &work));
        child.kill().context("cannot end java")?;
        child.wait().context("cannot wait for java")?;
        let second = second?;
        ensure!(second.contains("is in use by process"), "{second}");
        let count = acknowledged.context("it ended early")?;
        self.rust_verifies(&drive, count, &[])?;
        println!("  killed: all of {count} records that YCSB had counted are there");
        Ok(())
    }
}

/// Adds properties.
fn with<'a>(command: &'a mut Command, properties: &[impl AsRef<str>]) -> &'a mut Command {
    for property in properties {
        command.args(["-p", property.as_ref()]);
    }
    command
}

/// The properties of a run that reads and verifies each of `count` records once.
fn reads_all(count: u64) -> [String; 6] {
    [
        format!("recordcount={count}"),
        format!("operationcount={count}"),
        "requestdistribution=sequential".to_owned(),
        "readproportion=1".to_owned(),
        "updateproportion=0".to_owned(),
        "dataintegrity=true".to_owned(),
    ]
}

fn is_verified(told: &str, count: u64) -> Result<()> {
    is_clean(told)?;
    ensure!(told.contains(&format!("[VERIFY], Return=OK, {count}\n")), "{told}");
    Ok(())
}

fn is_clean(told: &str) -> Result<()> {
    for bad in ["ERROR", "NOT_FOUND", "UNEXPECTED_STATE", "FAILED", "Exception"] {
        ensure!(!told.contains(bad), "{told}");
    }
    Ok(())
}

/// The number after `start`.
fn figure(told: &str, start: &str) -> Option<u64> {
    told.lines().find_map(|line| line.strip_prefix(start)?.trim().parse().ok())
}

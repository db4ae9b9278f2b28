//! Swift's object servers on emulated drives (`adapters/swift`): Swift's own tests, clients that people have, and nodes
//! that fail.
//!
//! ```text
//!   target/swift/venv        Swift and its clients from PyPI; the packages `imbrex` and `imbrex-swift` of this tree
//!        |  imbrex-swift-cluster start
//!   SCRATCH/cluster          four nodes on loopback, each with a drive of its own
//!        |  suites.py, clients.py               Swift's test/functional and test/s3api; swift, s3cmd, boto3 ...
//!   SCRATCH/faults           faults.py          a cluster whose nodes are killed, wiped and damaged
//! ```
//!
//! What is a failure is decided by the programs in `adapters/swift/tests`. This module installs what they need.

use crate::cargo;
use crate::packages::{self, Need};
use crate::python;
use crate::report::{DataArgs, Report};
use crate::scratch::Scratch;
use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// For a cluster. Python's own parts are asked for as far as they are files of a name that does not change.
const NEEDS: [Need; 3] = [
    ("/usr/bin/python3", "python3"),
    ("/usr/bin/rsync", "rsync"),
    ("/usr/bin/memcached", "memcached"),
];

/// For the tests; the other clients are packages of Python.
const CLIENT_NEEDS: [Need; 2] = [("/usr/bin/rclone", "rclone"), ("/usr/bin/restic", "restic")];

/// For a file system on the block device.
const BESIDE_NEEDS: [Need; 2] =
    [("/usr/bin/nbdfuse", "libnbd-bin"), ("/usr/sbin/mkfs.xfs", "xfsprogs")];

/// Arguments of `cargo xtask swift`.
#[derive(clap::Args, Debug)]
pub struct SwiftArgs {
    /// Starts a cluster in this directory for a person to try, and tests nothing.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["only", "policy", "rounds", "seed", "data"])]
    start: Option<PathBuf>,
    /// Where objects lie.
    #[arg(long, value_enum, default_value_t = Backend::Imbrex)]
    backend: Backend,
    /// Only these tests.
    #[arg(long, value_enum)]
    only: Option<Part>,
    /// The storage policy of the containers of Swift's own tests [default: the first; another is ec21]
    #[arg(long, value_name = "NAME")]
    policy: Option<String>,
    /// How often nodes are killed, wiped and damaged.
    #[arg(long, default_value_t = 1)]
    rounds: u32,
    /// Decides what is stored, which nodes fail, and when.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    data: DataArgs,
    /// More options of `imbrex-swift-cluster start`, after `--`.
    #[arg(last = true, value_name = "OPTIONS")]
    options: Vec<String>,
}

/// Where the object servers of a cluster keep objects.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum Backend {
    /// On emulated zoned drives, by `imbrex-swift`.
    Imbrex,
    /// In directories, by Swift itself: the baseline.
    Directories,
}

/// A program in `adapters/swift/tests`.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// Swift's own tests.
    Suites,
    /// swift, s3cmd, boto3, rclone and restic.
    Clients,
    /// Nodes that are killed, wiped and damaged.
    Faults,
    /// The tests of `imbrex-swift` itself, which the gate runs too.
    Units,
    /// The same object server on XFS and on ours, which is measured only when it is named; 20 minutes, root.
    Beside,
}

impl Backend {
    fn name(self) -> &'static str {
        match self {
            Backend::Imbrex => "imbrex",
            Backend::Directories => "directories",
        }
    }
}

/// Starts a cluster, or runs the tests.
pub fn run(root: &Path, args: &SwiftArgs) -> Result<()> {
    packages::provide(&NEEDS, "", false)?;
    let mut report = Report::new(&args.data)?;
    let stand = Stand { root, python: install(root, args.backend)?, args };
    if let Some(dir) = &args.start {
        return stand.start(dir);
    }
    packages::provide(&CLIENT_NEEDS, "", false)?;
    let scratch = Scratch::new(root, "swift")?;
    let wants = |part| args.only.is_none_or(|only| only == part);
    if args.only == Some(Part::Beside) {
        stand.beside(scratch.path(), &mut report)?;
        return report.write(root);
    }
    // Every part runs, so that one failure does not hide another.
    let mut failed = Vec::new();
    if wants(Part::Units) && run_units(root, &stand.python).is_err() {
        failed.push("units");
    }
    if wants(Part::Suites) || wants(Part::Clients) {
        failed.extend(stand.on_a_cluster(scratch.path(), &wants, &mut report)?);
    }
    if wants(Part::Faults) {
        let json = scratch.path().join("faults.json");
        if stand.faults(&scratch.path().join("faults"), &json)? {
            faults_table(&json, &mut report)?;
        } else {
            failed.push("faults");
        }
    }
    report.write(root)?;
    ensure!(failed.is_empty(), "failed: {}", failed.join(", "));
    Ok(())
}

/// Runs the tests of `imbrex-swift` itself; `may_skip` decides whether what cannot be installed ends the run.
pub fn units(root: &Path, may_skip: bool) -> Result<()> {
    let what = "imbrex-swift was not tested";
    if !packages::provide(&NEEDS, what, may_skip)? {
        return Ok(());
    }
    let python = match install(root, Backend::Imbrex) {
        Err(error) if may_skip => {
            packages::skip(&format!("{what}: {error:#}"), "it needs Swift from PyPI");
            return Ok(());
        }
        installed => installed?,
    };
    run_units(root, &python)
}

fn run_units(root: &Path, python: &Path) -> Result<()> {
    let mut units = Command::new(python);
    units.args(["-W", "ignore", "-m", "unittest", "discover", "--start-directory"]);
    units.arg(root.join("adapters/swift/tests")).stdin(Stdio::null());
    units.env("PYTHONDONTWRITEBYTECODE", "1");
    ensure!(succeeds(&mut units)?, "the tests of imbrex-swift failed");
    Ok(())
}

/// Installs Swift, its clients and the packages of this tree; the interpreter that has them.
fn install(root: &Path, backend: Backend) -> Result<PathBuf> {
    let dir = root.join("target/swift");
    let venv = dir.join("venv");
    let python = venv.join("bin/python");
    std::fs::create_dir_all(&dir).context("cannot make a directory under target")?;
    let does = |command: &mut Command| {
        command.stdin(Stdio::null()).status().is_ok_and(|status| status.success())
    };
    if !python.exists() {
        let mut make = Command::new("python3");
        make.args(["-m", "venv"]).arg(&venv);
        let is_made = does(make.stdout(Stdio::null()))
            || (packages::try_install(&["python3-venv"]) && does(&mut make));
        ensure!(is_made, "cannot make a virtual environment; apt-get install python3-venv");
    }
    let requirements = root.join("adapters/swift/requirements.txt");
    let wanted = std::fs::read_to_string(&requirements)
        .with_context(|| format!("cannot read {}", requirements.display()))?;
    let installed = venv.join("requirements.txt");
    let pip = || {
        let mut pip = Command::new(&python);
        pip.args(["-m", "pip", "--disable-pip-version-check", "install", "--quiet"]);
        pip
    };
    if std::fs::read_to_string(&installed).ok().as_deref() != Some(&wanted) {
        println!("installing Swift and its clients into {}", venv.display());
        ensure!(
            does(pip().arg("--requirement").arg(&requirements)),
            "pip could not install what {} lists",
            requirements.display()
        );
        std::fs::write(&installed, &wanted).context("cannot write into the environment")?;
    }
    // pip builds a package in its directory, so it gets a copy: the tree stays clean.
    let copy = dir.join("package");
    let _ = std::fs::remove_dir_all(&copy);
    copy_package(&root.join("adapters/swift"), &copy)?;
    ensure!(
        does(pip().args(["--no-deps", "--no-build-isolation", "--force-reinstall"]).arg(&copy)),
        "pip could not install adapters/swift"
    );
    if backend == Backend::Imbrex {
        cargo::build(root)?;
        let site = site_packages(&python)?;
        let _ = std::fs::remove_dir_all(site.join("imbrex"));
        python::lay_out(root, &site)?;
    }
    Ok(python)
}

/// Where the interpreter looks for packages that are installed.
fn site_packages(python: &Path) -> Result<PathBuf> {
    let ask = "import sysconfig; print(sysconfig.get_path('platlib'))";
    let output = Command::new(python).args(["-c", ask]).output();
    let output = output.with_context(|| format!("cannot start {}", python.display()))?;
    ensure!(output.status.success(), "{} does not know its packages", python.display());
    Ok(PathBuf::from(String::from_utf8(output.stdout)?.trim()))
}

/// Copies what makes the package `imbrex-swift`.
fn copy_package(from: &Path, to: &Path) -> Result<()> {
    let module = "imbrex_swift";
    std::fs::create_dir_all(to.join(module)).context("cannot make a directory under target")?;
    let files = std::fs::read_dir(from.join(module)).context("cannot list adapters/swift")?;
    let mut names = vec![PathBuf::from("pyproject.toml"), PathBuf::from("README.md")];
    for file in files {
        let file = file?;
        if file.file_type()?.is_file() {
            names.push(Path::new(module).join(file.file_name()));
        }
    }
    for name in names {
        std::fs::copy(from.join(&name), to.join(&name))
            .with_context(|| format!("cannot copy {}", name.display()))?;
    }
    Ok(())
}

/// The environment with everything, and what is asked of it.
struct Stand<'a> {
    root: &'a Path,
    python: PathBuf,
    args: &'a SwiftArgs,
}

impl Stand<'_> {
    fn cluster(&self, command: &str, dir: &Path) -> Command {
        let mut cluster = Command::new(&self.python);
        cluster.args(["-m", "imbrex_swift.cluster", command]).arg(dir).stdin(Stdio::null());
        cluster
    }

    fn test(&self, program: &str, dir: &Path) -> Command {
        let mut test = Command::new(&self.python);
        test.arg(self.root.join("adapters/swift/tests").join(program)).arg(dir);
        test.env("PYTHONDONTWRITEBYTECODE", "1").stdin(Stdio::null());
        test
    }

    /// Starts a cluster that stays.
    fn start(&self, dir: &Path) -> Result<()> {
        let mut start = self.cluster("start", dir);
        start.args(["--backend", self.args.backend.name()]).args(&self.args.options);
        ensure!(succeeds(&mut start)?, "no cluster was started");
        Ok(())
    }

    /// Runs what needs a cluster that does not change; the names of the parts that failed.
    fn on_a_cluster(
        &self,
        scratch: &Path,
        wants: &dyn Fn(Part) -> bool,
        report: &mut Report,
    ) -> Result<Vec<&'static str>> {
        let dir = scratch.join("cluster");
        let mut start = self.cluster("start", &dir);
        start.args([
            "--backend",
            self.args.backend.name(),
            "--with-ec",
            "--background",
            "none",
            "--port",
            "18280",
        ]);
        start.args(&self.args.options).stdout(Stdio::null());
        ensure!(succeeds(&mut start)?, "no cluster was started");
        let _stops = Stops(self.cluster("stop", &dir));
        let mut failed = Vec::new();
        if wants(Part::Suites) {
            let json = scratch.join("suites.json");
            let mut suites = self.test("suites.py", &dir);
            suites.arg("--json").arg(&json);
            suites.arg("--source").arg(self.root.join("target/swift"));
            if let Some(policy) = &self.args.policy {
                suites.args(["--policy", policy]);
            }
            if !succeeds(&mut suites)? {
                failed.push("suites");
            }
            suites_table(&json, report)?;
        }
        if wants(Part::Clients) {
            let json = scratch.join("clients.json");
            let mut clients = self.test("clients.py", &dir);
            clients.arg("--json").arg(&json).args(["--seed", &self.args.seed.to_string()]);
            if !succeeds(&mut clients)? {
                failed.push("clients");
            }
            clients_table(&json, report)?;
        }
        Ok(failed)
    }

    fn beside(&self, scratch: &Path, report: &mut Report) -> Result<()> {
        packages::provide(&BESIDE_NEEDS, "", false)?;
        let json = scratch.join("beside.json");
        let mut beside = Command::new(&self.python);
        beside.arg(self.root.join("adapters/swift/tests/beside.py")).stdin(Stdio::null());
        beside.arg("--imbrex").arg(cargo::imbrex(self.root)).arg("--dir").arg(scratch);
        beside.arg("--json").arg(&json).args(&self.args.options);
        ensure!(succeeds(&mut beside)?, "the comparison failed");
        beside_tables(&json, report)
    }

    fn faults(&self, dir: &Path, json: &Path) -> Result<bool> {
        let mut faults = self.test("faults.py", dir);
        faults.args(["--backend", self.args.backend.name()]);
        faults.args(["--rounds", &self.args.rounds.to_string()]);
        faults.args(["--seed", &self.args.seed.to_string()]).arg("--json").arg(json);
        succeeds(&mut faults)
    }
}

/// Stops a cluster when it is dropped: its processes outlive this one.
struct Stops(Command);

impl Drop for Stops {
    fn drop(&mut self) {
        // The directory is removed next; what did not stop says so itself.
        let _ = self.0.stdout(Stdio::null()).status();
    }
}

fn succeeds(command: &mut Command) -> Result<bool> {
    let shown = format!("{command:?}");
    Ok(command.status().with_context(|| format!("cannot start {shown}"))?.success())
}

/// What a program wrote about its run.
fn read(json: &Path) -> Result<Value> {
    let text = std::fs::read_to_string(json);
    let text = text.with_context(|| format!("nothing was measured: no {}", json.display()))?;
    serde_json::from_str(&text).with_context(|| format!("cannot understand {}", json.display()))
}

/// A cell from a field.
fn cell(row: &Value, field: &str) -> Result<String> {
    Ok(match &row[field] {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        other => bail!("a row has {other} as its {field}"),
    })
}

fn rows<'a>(of: &'a Value, field: Option<&str>) -> Result<&'a Vec<Value>> {
    let list = field.map_or(of, |field| &of[field]);
    list.as_array().context("a program wrote no rows")
}

fn suites_table(json: &Path, report: &mut Report) -> Result<()> {
    let measured = read(json)?;
    let (backend, policy) = (cell(&measured, "backend")?, cell(&measured, "policy")?);
    let policy = if policy.is_empty() { String::new() } else { format!(", policy {policy}") };
    let columns = ["suite", "passed", "failed", "of them expected", "skipped"];
    report.table(&format!("Swift's own tests on {backend}{policy}"), &columns);
    for row in rows(&measured, Some("rows"))? {
        let fields = ["suite", "passed", "failed", "expected", "skipped"];
        report.row(fields.iter().map(|field| cell(row, field)).collect::<Result<_>>()?);
    }
    Ok(())
}

fn clients_table(json: &Path, report: &mut Report) -> Result<()> {
    let measured = read(json)?;
    report.table("Clients", &["client", "what it did", "ended"]);
    for row in rows(&measured, None)? {
        let fields = ["client", "did", "status"];
        report.row(fields.iter().map(|field| cell(row, field)).collect::<Result<_>>()?);
    }
    Ok(())
}

fn faults_table(json: &Path, report: &mut Report) -> Result<()> {
    let measured = read(json)?;
    let title = format!(
        "{} rounds of faults from seed {} on {}",
        cell(&measured, "rounds")?,
        cell(&measured, "seed")?,
        cell(&measured, "backend")?
    );
    report.table(&title, &["what", "count"]);
    for (group, prefix) in [("operations", ""), ("counts", ""), ("passes", "most passes after: ")] {
        let counts = &measured[group];
        for what in counts.as_object().context("a program wrote no counts")?.keys() {
            report.row(vec![format!("{prefix}{what}"), cell(counts, what)?]);
        }
    }
    Ok(())
}

/// What the drive did for each phase: with Swift's own files on XFS, and with ours.
fn beside_tables(json: &Path, report: &mut Report) -> Result<()> {
    let measured = read(json)?;
    let number = |kind: &str, phase: &str, field: &str| {
        let value = &measured[kind]["phases"][phase][field];
        value.as_f64().with_context(|| format!("no {field} of {phase} on {kind}"))
    };
    let phases = measured["files"]["phases"].as_object().context("no phases on XFS")?;
    // In the order in which they ran.
    let mut names: Vec<&String> = phases.keys().collect();
    names.sort_by_key(|&name| phases[name]["at"].as_u64());
    let columns = ["phase", "objects", "on XFS, ms each", "ours, ms each", "XFS / ours"];
    report.table("The drive's time", &columns);
    for name in &names {
        let count = number("files", name, "count")?;
        let ms = |kind| anyhow::Ok(number(kind, name, "busy_s")? * 1e3 / count);
        let (files, ours) = (ms("files")?, ms("imbrex")?);
        report.row(vec![
            name.to_string(),
            format!("{count}"),
            format!("{files:.3}"),
            format!("{ours:.3}"),
            format!("{:.2}", files / ours),
        ]);
    }
    let columns = [
        "phase",
        "XFS: reads each",
        "ours: reads each",
        "XFS: KiB written each",
        "ours: KiB written each",
        "XFS: directories listed",
        "ours: directories listed",
    ];
    report.table("What it read and wrote", &columns);
    for name in &names {
        let count = number("files", name, "count")?;
        let mut row = vec![name.to_string()];
        for (field, unit) in [("reads", 1.0), ("written_bytes", 1024.0)] {
            for kind in ["files", "imbrex"] {
                row.push(format!("{:.2}", number(kind, name, field)? / count / unit));
            }
        }
        for kind in ["files", "imbrex"] {
            row.push(number(kind, name, "listed").map_or(String::new(), |count| count.to_string()));
        }
        report.row(row);
    }
    report.table("Space, MiB", &["device", "data of objects", "in use", "length"]);
    for (kind, name) in [("files", "XFS on the block device"), ("imbrex", "ours")] {
        let mut row = vec![name.to_owned()];
        for field in ["data_bytes", "used_bytes", "length_bytes"] {
            let bytes = measured[kind][field].as_u64().context("no space was measured")?;
            row.push((bytes >> 20).to_string());
        }
        report.row(row);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(text: &str) -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.json");
        std::fs::write(&path, text).unwrap();
        (dir, path)
    }

    #[test]
    fn what_the_programs_write_becomes_rows_and_what_they_do_not_is_an_error() {
        let mut report = Report::new(&DataArgs::default()).unwrap();
        let row = r#"{"suite": "s3api", "passed": 1, "failed": 0, "expected": 0, "skipped": 2}"#;
        let text = format!(r#"{{"backend": "imbrex", "policy": "", "rows": [{row}]}}"#);
        let (_dir, path) = written(&text);
        suites_table(&path, &mut report).unwrap();
        let (_dir, path) = written(&text.replace("2", "null"));
        assert!(suites_table(&path, &mut report).is_err());
        assert!(clients_table(Path::new("nowhere"), &mut report).is_err());
    }

    #[test]
    fn the_package_is_copied_without_its_tests() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let to = tempfile::tempdir().unwrap();
        copy_package(&root.join("adapters/swift"), to.path()).unwrap();
        let has = |name: &str| to.path().join(name).exists();
        assert!(has("pyproject.toml") && has("imbrex_swift/cluster.py") && !has("tests"));
    }
}

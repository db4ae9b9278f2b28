//! The unit tests: every test binary of the workspace, two at a time, the longest first.
//!
//! `cargo test` runs one binary after the other, and most end with one long test while a core rests. What a
//! binary prints is shown in one piece when it ends, the line `test result: ...` included.

use super::step::now;
use crate::cargo::{self, Cargo};
use anyhow::{Context, Result, bail};
use cargo_metadata::Message;
use std::collections::VecDeque;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Mutex, PoisonError};

/// As many as there are cores on the machine that runs CI.
const WORKERS: usize = 2;

/// What takes longest, in that order: begun last it would leave a core without work.
const LONGEST: [&str; 9] = [
    "imbrex-cli it",
    "imbrex-translate",
    "imbrex-torture",
    "imbrex-files",
    "imbrex-engine it",
    "imbrex-repro",
    "imbrex-bench",
    "imbrex-disk-sim",
    "imbrex-workload",
];

/// A binary with tests.
struct Binary {
    /// Its package, and its target where that is called otherwise.
    name: String,
    path: PathBuf,
    package_dir: PathBuf,
}

/// Runs the tests of the whole workspace; the loops over seeds take the part `seeds` of them.
pub(super) fn run(root: &Path, seeds: &str) -> Result<()> {
    println!("IMBREX_SEEDS={seeds}");
    let binaries = Mutex::new(sorted(binaries(root)?));
    let failed = Mutex::new(Vec::new());
    let times = Mutex::new(Vec::new());
    let worker = || -> Result<()> {
        loop {
            let next = binaries.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
            let Some(binary) = next else { return Ok(()) };
            let start = now();
            let output = binary.run(seeds)?;
            let wall_s = start.elapsed().as_secs_f64();
            show(&binary, &output)?;
            let lock = |list: &Mutex<Vec<(f64, String)>>| {
                list.lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push((wall_s, binary.name.clone()));
            };
            lock(&times);
            if !output.status.success() {
                lock(&failed);
            }
        }
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..WORKERS).map(|_| scope.spawn(worker)).collect();
        let ends = workers.into_iter().map(|worker| worker.join());
        ends.map(|end| end.unwrap_or_else(|_| bail!("a worker panicked")))
            .collect::<Result<Vec<()>>>()
    })?;
    let mut times = times.into_inner().unwrap_or_else(PoisonError::into_inner);
    times.sort_by(|a, b| b.0.total_cmp(&a.0));
    println!("\nthe longest, in wall seconds:");
    for (wall_s, name) in times.iter().take(10) {
        println!("{wall_s:8.1}  {name}");
    }
    let failed = failed.into_inner().unwrap_or_else(PoisonError::into_inner);
    let names: Vec<&str> = failed.iter().map(|(_, name)| name.as_str()).collect();
    match names[..] {
        [] => Ok(()),
        _ => bail!("tests failed in {}", names.join(", ")),
    }
}

impl Binary {
    fn run(&self, seeds: &str) -> Result<Output> {
        let mut command = Command::new(&self.path);
        // As cargo runs it.
        command.current_dir(&self.package_dir).env("CARGO_MANIFEST_DIR", &self.package_dir);
        command.env("IMBREX_SEEDS", seeds);
        command.output().with_context(|| format!("cannot start {}", self.path.display()))
    }
}

fn show(binary: &Binary, output: &Output) -> Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "\n     Running {}", binary.name)?;
    out.write_all(&output.stdout)?;
    out.write_all(&output.stderr)?;
    out.flush().context("cannot show what tests print")
}

/// Asks cargo for them; what is not built is built.
fn binaries(root: &Path) -> Result<Vec<Binary>> {
    let format = ["--message-format", "json-render-diagnostics"];
    let text = cargo::whole_build(Cargo::new(root)).args(format).output()?;
    let mut binaries = Vec::new();
    for message in Message::parse_stream(text.as_bytes()) {
        let Message::CompilerArtifact(artifact) = message.context("cannot read cargo's JSON")?
        else {
            continue;
        };
        let Some(path) = artifact.executable.filter(|_| artifact.profile.test) else { continue };
        let package_dir =
            artifact.manifest_path.parent().context("a manifest is in a directory")?;
        let package = package_name(&artifact.package_id.repr);
        let target = artifact.target.name;
        // The unit tests of a library are called as the package is.
        let name = match target.replace('_', "-") == package {
            true => package,
            false => format!("{package} {target}"),
        };
        let package_dir = package_dir.to_owned().into_std_path_buf();
        binaries.push(Binary { name, path: path.into_std_path_buf(), package_dir });
    }
    match binaries.is_empty() {
        true => bail!("cargo named no test binary"),
        false => Ok(binaries),
    }
}

/// `imbrex-engine` of `path+file:///home/me/imbrex/crates/engine#imbrex-engine@0.1.0`; where the directory is called
/// as the package is, cargo leaves the name out.
fn package_name(id: &str) -> String {
    let (path, end) = id.rsplit_once('#').unwrap_or((id, ""));
    let of_directory = || path.rsplit('/').next().unwrap_or(path);
    end.split_once('@').map_or_else(of_directory, |(name, _)| name).to_owned()
}

fn sorted(mut binaries: Vec<Binary>) -> VecDeque<Binary> {
    let place = |binary: &Binary| LONGEST.iter().position(|&name| name == binary.name);
    binaries.sort_by_key(|binary| (place(binary).unwrap_or(LONGEST.len()), binary.name.clone()));
    binaries.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_come_first() {
        let binary = |name: &str| Binary {
            name: name.to_owned(),
            path: PathBuf::new(),
            package_dir: PathBuf::new(),
        };
        let names = ["xtask", "imbrex-files", "imbrex-disk", LONGEST[0]];
        let sorted = sorted(names.map(binary).into());
        let order: Vec<&str> = sorted.iter().map(|binary| binary.name.as_str()).collect();
        assert_eq!(order, [LONGEST[0], "imbrex-files", "imbrex-disk", "xtask"]);
    }

    #[test]
    fn packages_are_named_by_their_id() {
        let id = "path+file:///home/me/imbrex/crates/engine#imbrex-engine@0.1.0";
        assert_eq!(package_name(id), "imbrex-engine");
        assert_eq!(package_name("path+file:///home/me/imbrex/xtask#0.1.0"), "xtask");
    }
}

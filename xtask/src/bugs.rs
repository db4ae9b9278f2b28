//! Planted bugs: patches that each break one promise, and what finds them.
//!
//! ```text
//!   xtask/bugs/NAME.patch    Layer, Package, Breaks: three lines; then a diff
//!        |
//!        v
//!   target/bugs/tree         a worktree of HEAD, patched;  target/bugs/target keeps what was built
//!        |-- torture         with the gate's budget, until the first failure
//!        +-- unit tests      of the package that was changed, if torture found nothing
//! ```
//!
//! A gate that became faster by testing less would be no gain, so each bug must be found by torture within the gate's
//! budget, or by the unit tests of the package. docs/testing.md says which by which.

use crate::ci::TORTURE_BUDGET;
use anyhow::{Context, Result, bail, ensure};
use imbrex_system_tests::program::said;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// Arguments of `cargo xtask bugs`.
#[derive(clap::Args)]
pub(crate) struct BugsArgs {
    /// Only these [default: all, which takes hours]
    names: Vec<String>,
    /// The processor time of torture's workers
    #[arg(long, default_value = TORTURE_BUDGET)]
    budget: String,
    /// Torture's first seed
    #[arg(long, default_value = "0x5eed0000")]
    first_seed: String,
    /// Run the unit tests also where torture has found the bug
    #[arg(long)]
    both: bool,
    /// Print the bugs and run nothing
    #[arg(long)]
    list: bool,
}

/// One patch.
struct Bug {
    name: String,
    path: PathBuf,
    layer: String,
    package: String,
    breaks: String,
}

/// Plants each bug in turn and prints what found it.
pub(crate) fn run(root: &Path, args: &BugsArgs) -> Result<()> {
    let all = bugs(root)?;
    for name in &args.names {
        ensure!(all.iter().any(|bug| bug.name == *name), "no bug {name:?}; --list has them");
    }
    let is_asked = |bug: &&Bug| args.names.is_empty() || args.names.contains(&bug.name);
    if args.list {
        for bug in &all {
            println!("{:<28} {:<24} {}", bug.name, bug.layer, bug.breaks);
        }
        return Ok(());
    }
    let stand = Stand::new(root)?;
    let mut missed = Vec::new();
    println!("| bug | layer | torture | unit tests |\n|---|---|---|---|");
    for bug in all.iter().filter(is_asked) {
        let found = stand.plant(bug, args).with_context(|| bug.name.clone())?;
        let shown = |found: &Option<String>| found.clone().unwrap_or_else(|| "-".to_owned());
        let (torture, tests) = (shown(&found.torture), shown(&found.tests));
        println!("| {} | {} | {torture} | {tests} |", bug.name, bug.layer);
        if found.torture.is_none() && found.tests.is_none() {
            missed.push(bug.name.as_str());
        }
    }
    match missed.is_empty() {
        true => Ok(()),
        false => bail!("not found by anything: {}", missed.join(", ")),
    }
}

/// What found a bug, in words.
struct Found {
    torture: Option<String>,
    tests: Option<String>,
}

struct Stand {
    tree: PathBuf,
    target: PathBuf,
}

impl Stand {
    /// A worktree of what is checked out.
    fn new(root: &Path) -> Result<Stand> {
        let dir = root.join("target/bugs");
        let (tree, target) = (dir.join("tree"), dir.join("target"));
        if !tree.exists() {
            let add = ["worktree", "add", "--detach", "--force"];
            said(Command::new("git").current_dir(root).args(add).arg(&tree).arg("HEAD"))?;
        }
        let head = said(Command::new("git").current_dir(root).args(["rev-parse", "HEAD"]))?;
        let stand = Stand { tree, target };
        stand.git(&["reset", "--quiet", "--hard", head.trim()])?;
        Ok(stand)
    }

    fn git(&self, args: &[&str]) -> Result<String> {
        said(Command::new("git").current_dir(&self.tree).args(args))
    }

    fn plant(&self, bug: &Bug, args: &BugsArgs) -> Result<Found> {
        self.git(&["apply", &bug.path.display().to_string()])?;
        let found = self.find(bug, args);
        self.git(&["checkout", "--quiet", "."])?;
        found
    }

    fn find(&self, bug: &Bug, args: &BugsArgs) -> Result<Found> {
        said(self.cargo("build").args(["--bin", "imbrex-torture"]))?;
        let start = now();
        let torture = Command::new(self.target.join("ci/imbrex-torture"))
            .args(["--budget", &args.budget, "--first-seed", &args.first_seed])
            .stdin(Stdio::null())
            .output()
            .context("cannot start torture")?;
        let text = String::from_utf8_lossy(&torture.stderr).into_owned();
        let torture = (!torture.status.success()).then(|| {
            let replay = text.lines().rfind(|line| line.contains("--scenario"));
            let scenario = replay.and_then(|line| line.split("--scenario ").nth(1));
            format!("{}, {} s", scenario.unwrap_or("crashed"), start.elapsed().as_secs())
        });
        if torture.is_some() && !args.both {
            return Ok(Found { torture, tests: None });
        }
        let tests = self.cargo("test").args(["--package", &bug.package, "--no-fail-fast"]).output();
        let tests = tests.context("cannot start cargo")?;
        let text = String::from_utf8_lossy(&tests.stdout).into_owned();
        // As libtest names a failed test when it is quiet.
        let failed = |line: &str| line.strip_suffix(" --- FAILED").map(str::to_owned);
        let names: Vec<String> = text.lines().filter_map(failed).collect();
        let built = tests.status.success() || text.contains("test result: ");
        ensure!(built, "the tests were not built:\n{}", String::from_utf8_lossy(&tests.stderr));
        let tests = (!tests.status.success()).then(|| match names.first() {
            Some(first) => format!("{}, such as `{first}`", names.len()),
            None => "ended early".to_owned(),
        });
        Ok(Found { torture, tests })
    }

    fn cargo(&self, verb: &str) -> Command {
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.current_dir(&self.tree).args([verb, "--quiet", "--profile", "ci", "--target-dir"]);
        cargo.arg(&self.target);
        cargo
    }
}

/// The patches, by name.
fn bugs(root: &Path) -> Result<Vec<Bug>> {
    let mut bugs = Vec::new();
    for entry in std::fs::read_dir(root.join("xtask/bugs")).context("cannot list xtask/bugs")? {
        let path = entry?.path();
        if path.extension().is_none_or(|extension| extension != "patch") {
            continue;
        }
        let text = std::fs::read_to_string(&path)
            .with_context(|| format!("cannot read {}", path.display()))?;
        let field = |name: &str| {
            let found = text.lines().take(3).find_map(|line| line.strip_prefix(name));
            found.map(str::to_owned).with_context(|| format!("{}: no {name}", path.display()))
        };
        bugs.push(Bug {
            name: path.file_stem().unwrap_or_default().to_string_lossy().into_owned(),
            layer: field("Layer: ")?,
            package: field("Package: ")?,
            breaks: field("Breaks: ")?,
            path,
        });
    }
    bugs.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(bugs)
}

#[expect(clippy::disallowed_methods, reason = "how long it took until a bug was found")]
fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A patch that no longer applies finds nothing. A change of the lines around it mends it too.
    #[test]
    fn every_bug_can_still_be_planted() {
        let root = crate::cargo::workspace_root().unwrap();
        let bugs = bugs(&root).unwrap();
        assert!(bugs.len() >= 12, "{} bugs", bugs.len());
        for bug in bugs {
            let mut git = Command::new("git");
            let told = said(git.current_dir(&root).args(["apply", "--check"]).arg(&bug.path));
            assert!(told.is_ok(), "xtask/bugs/{}.patch: {}", bug.name, told.unwrap_err());
        }
    }
}

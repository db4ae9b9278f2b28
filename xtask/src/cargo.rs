//! Calls of `cargo`: shown as they could be typed, run in the workspace's root.

use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

/// Set in the environment of a chore for which everything is built already, as the gate builds it.
pub(crate) const BUILT: &str = "IMBREX_GATE_BUILT";

/// Whether this process is a step of the gate.
static IS_GATE: AtomicBool = AtomicBool::new(false);

/// From here on this process is a step of the gate: chores use what the gate has built, with the profile `ci`, and
/// build nothing.
pub(crate) fn be_gate() {
    IS_GATE.store(true, Ordering::Relaxed);
}

fn is_gate() -> bool {
    IS_GATE.load(Ordering::Relaxed) || std::env::var_os(BUILT).is_some()
}

/// Where the programs and libraries are that chores use.
pub(crate) fn target(root: &Path) -> PathBuf {
    root.join(if is_gate() { "target/ci" } else { "target/release" })
}

/// The program `imbrex` that chores use.
pub(crate) fn imbrex(root: &Path) -> PathBuf {
    target(root).join("imbrex")
}

/// The gate's one build: every library, program and test. Whatever else the gate asks of cargo chooses the same packages
/// and the same profile, because cargo builds a crate once for each choice of features and each profile.
pub(crate) fn whole_build(cargo: Cargo) -> Cargo {
    let build = ["build", "--workspace", "--lib", "--bins", "--tests", "--profile", "ci"];
    cargo.args(build).args(["--features", TESTED_FEATURES])
}

/// The directory that holds the root `Cargo.toml`.
pub(crate) fn workspace_root() -> Result<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    Ok(here.parent().context("xtask lies in the workspace's root")?.to_path_buf())
}

/// One call of `cargo`.
pub(crate) struct Cargo {
    command: Command,
    shown: String,
}

impl Cargo {
    /// `cargo` in `root`: the one that runs us, so that a chosen toolchain stays chosen.
    pub(crate) fn new(root: &Path) -> Cargo {
        let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        command.current_dir(root);
        Cargo { command, shown: "cargo".to_owned() }
    }

    /// `cargo` of another toolchain. The one that runs us knows no toolchains: rustup's does.
    fn of_toolchain(root: &Path, toolchain: &str) -> Cargo {
        let mut command = Command::new("rustup");
        command.args(["run", toolchain, "cargo"]).current_dir(root).env_remove("CARGO");
        Cargo { command, shown: format!("rustup run {toolchain} cargo") }
    }

    pub(crate) fn args<'a>(mut self, args: impl IntoIterator<Item = &'a str>) -> Cargo {
        for arg in args {
            self.shown.push(' ');
            self.shown.push_str(arg);
            self.command.arg(arg);
        }
        self
    }

    pub(crate) fn env(mut self, name: &str, value: &str) -> Cargo {
        self.shown = format!("{name}={value} {}", self.shown);
        self.command.env(name, value);
        self
    }

    /// The line that does the same in a shell.
    pub(crate) fn shown(&self) -> &str {
        &self.shown
    }

    /// Runs it to its end, its output going where ours goes.
    pub(crate) fn run(mut self) -> Result<()> {
        let status =
            self.command.status().with_context(|| format!("cannot start {}", self.shown))?;
        if !status.success() {
            bail!("`{}` failed ({status})", self.shown);
        }
        Ok(())
    }

    /// Runs it to its end and returns what it printed on standard output.
    pub(crate) fn output(mut self) -> Result<String> {
        let output = self
            .command
            .stderr(Stdio::inherit())
            .output()
            .with_context(|| format!("cannot start {}", self.shown))?;
        if !output.status.success() {
            bail!("`{}` failed ({})", self.shown, output.status);
        }
        String::from_utf8(output.stdout)
            .with_context(|| format!("`{}` printed what is not UTF-8", self.shown))
    }
}

/// Features that `cargo run` leaves out and every chore tests: other stores for `imbrex ycsb`.
pub(crate) const TESTED_FEATURES: &str = "imbrex-cli/redis,imbrex-cli/foreign";

/// Builds the program and the C API, optimized; the gate has them. Every chore takes the default members for this, and
/// never a package: cargo builds what packages share once for each choice of their features.
pub(crate) fn build(root: &Path) -> Result<()> {
    if is_gate() {
        return Ok(());
    }
    let build = ["build", "--release", "--features", TESTED_FEATURES, "--lib", "--bin", "imbrex"];
    Cargo::new(root).args(build).run()
}

/// The torture program, built as the gate builds it.
pub(crate) fn torture(root: &Path) -> Cargo {
    let run = ["run", "--profile", "ci", "--features", TESTED_FEATURES];
    Cargo::new(root).args(run).args(["--bin", "imbrex-torture", "--"])
}

/// Runs one fuzz target for a while, or lists them all.
pub(crate) fn fuzz(root: &Path, target: Option<&str>, seconds: u64) -> Result<()> {
    let Some(target) = target else {
        for target in fuzz_targets(root)? {
            println!("{target}");
        }
        return Ok(());
    };
    if !fuzz_targets(root)?.iter().any(|known| known == target) {
        bail!("no fuzz target {target:?}; `cargo xtask fuzz` lists them");
    }
    let installed = Command::new("cargo")
        .args(["fuzz", "--version"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    if !installed {
        bail!(
            "cargo-fuzz is missing, so nothing was fuzzed; install it with\n\
             \x20   rustup toolchain install nightly\n\
             \x20   cargo install cargo-fuzz\n\
             (the saved inputs run without it: cargo test --package imbrex-fuzz-corpus)"
        );
    }
    let seeds = format!("fuzz/seeds/{target}");
    let corpus = format!("fuzz/corpus/{target}");
    std::fs::create_dir_all(root.join(&corpus)).context("cannot create fuzz/corpus")?;
    let time = format!("-max_total_time={seconds}");
    Cargo::of_toolchain(root, "nightly")
        .args(["fuzz", "run", target, &corpus, &seeds, "--", &time])
        .run()
}

fn fuzz_targets(root: &Path) -> Result<Vec<String>> {
    let dir = root.join("fuzz/fuzz_targets");
    let mut names = Vec::new();
    for entry in
        std::fs::read_dir(&dir).with_context(|| format!("cannot list {}", dir.display()))?
    {
        let path = entry?.path();
        if path.extension().is_some_and(|e| e == "rs") {
            names.extend(path.file_stem().and_then(|s| s.to_str()).map(str::to_owned));
        }
    }
    names.sort();
    Ok(names)
}

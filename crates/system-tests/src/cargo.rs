//! Calls of `cargo`: shown as they could be typed, run in the workspace's root.

use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

/// Set in the environment of a command for which everything is built already, as the gate builds it.
pub const BUILT: &str = "IMBREX_GATE_BUILT";

/// Whether this process is a step of the gate.
static IS_GATE: AtomicBool = AtomicBool::new(false);

/// Makes this process a step of the gate: it uses what the gate has built with the profile `ci`, and builds nothing (T3).
pub fn be_gate() {
    IS_GATE.store(true, Ordering::Relaxed);
}

fn is_gate() -> bool {
    IS_GATE.load(Ordering::Relaxed) || std::env::var_os(BUILT).is_some()
}

/// The directory of the programs and libraries under test.
pub fn target(root: &Path) -> PathBuf {
    root.join(if is_gate() { "target/ci" } else { "target/release" })
}

/// The program `imbrex` under test.
pub fn imbrex(root: &Path) -> PathBuf {
    target(root).join("imbrex")
}

/// One call of `cargo`.
#[derive(Debug)]
pub struct Cargo {
    command: Command,
    shown: String,
}

impl Cargo {
    /// `cargo` in `root`: the one that runs this process, so that a chosen toolchain stays chosen.
    pub fn new(root: &Path) -> Cargo {
        let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        command.current_dir(root);
        Cargo { command, shown: "cargo".to_owned() }
    }

    /// `cargo` of another toolchain, by rustup.
    pub fn of_toolchain(root: &Path, toolchain: &str) -> Cargo {
        let mut command = Command::new("rustup");
        command.args(["run", toolchain, "cargo"]).current_dir(root).env_remove("CARGO");
        Cargo { command, shown: format!("rustup run {toolchain} cargo") }
    }

    /// Adds arguments.
    pub fn args<'a>(mut self, args: impl IntoIterator<Item = &'a str>) -> Cargo {
        for arg in args {
            self.shown.push(' ');
            self.shown.push_str(arg);
            self.command.arg(arg);
        }
        self
    }

    /// Sets a variable of its environment.
    pub fn env(mut self, name: &str, value: &str) -> Cargo {
        self.shown = format!("{name}={value} {}", self.shown);
        self.command.env(name, value);
        self
    }

    /// The line that does the same in a shell.
    pub fn shown(&self) -> &str {
        &self.shown
    }

    /// Runs it to its end, with our output.
    pub fn run(mut self) -> Result<()> {
        let status =
            self.command.status().with_context(|| format!("cannot start {}", self.shown))?;
        if !status.success() {
            bail!("`{}` failed ({status})", self.shown);
        }
        Ok(())
    }

    /// Runs it to its end and returns what it printed on standard output.
    pub fn output(mut self) -> Result<String> {
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

/// Features that `cargo run` leaves out, and that every test and the package for Debian use: other stores for
/// `imbrex ycsb`, TLS for `imbrex serve`.
pub const TESTED_FEATURES: &str = "imbrex-cli/redis,imbrex-cli/foreign,imbrex-cli/tls";

/// Builds the program and the C API, optimized; a step of the gate has them (T3). It always builds the default members,
/// because cargo builds shared crates once for each choice of packages and features.
pub fn build(root: &Path) -> Result<()> {
    if is_gate() {
        return Ok(());
    }
    let build = ["build", "--release", "--features", TESTED_FEATURES, "--lib", "--bin", "imbrex"];
    Cargo::new(root).args(build).run()
}

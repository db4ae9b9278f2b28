//! Subcommands of cargo that PyPI has built: installed in seconds, where their sources take minutes.
//!
//! Each is of 2023 and reads ids of packages as cargo wrote them then, so it runs with a `cargo` in front that writes
//! them so (`wheel_cargo.py`).

use anyhow::{Context, Result};
use imbrex_system_tests::packages;
use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A wheel by name and version.
pub(crate) struct Wheel {
    pub(crate) name: &'static str,
    pub(crate) version: &'static str,
}

impl Wheel {
    /// Installs it into a virtual environment under `target/`, if it is not there; the program, or `None` where pip
    /// could not.
    pub(crate) fn install(&self, root: &Path) -> Result<Option<PathBuf>> {
        let dir = root.join("target/wheels");
        let program = dir.join("bin").join(self.name);
        if program.exists() {
            return Ok(Some(program));
        }
        let does = |command: &mut Command| {
            command.stdin(Stdio::null()).stdout(Stdio::null());
            command.status().is_ok_and(|status| status.success())
        };
        let venv = || does(Command::new("python3").args(["-m", "venv"]).arg(&dir));
        let wheel = format!("{}=={}", self.name, self.version);
        let is_installed = (venv() || (packages::try_install(&["python3-venv"]) && venv()))
            && does(Command::new(dir.join("bin/pip")).args(["install", "--quiet", &wheel]));
        Ok((is_installed && program.exists()).then_some(program))
    }
}

/// Whether cargo has a subcommand of that name.
pub(crate) fn is_installed(subcommand: &str) -> bool {
    let output = Command::new(cargo()).args([subcommand, "--version"]).output();
    output.is_ok_and(|output| output.status.success())
}

/// The cargo that runs us.
pub(crate) fn cargo() -> OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

/// Runs `program`, out of a wheel, with a cargo that it understands.
pub(crate) fn command(root: &Path, program: &Path) -> Result<Command> {
    let shim = root.join("target/wheels/cargo");
    std::fs::write(&shim, include_str!("wheel_cargo.py")).context("cannot write a program")?;
    let mode = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(&shim, mode).context("cannot make a program executable")?;
    let mut command = Command::new(program);
    command.env("REAL_CARGO", cargo()).env("CARGO", shim);
    Ok(command)
}

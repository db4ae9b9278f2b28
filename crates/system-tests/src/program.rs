//! Programs of the system, and `imbrex` as a maker of drives.

use anyhow::{Context, Result, ensure};
use std::path::Path;
use std::process::{Command, Stdio};

/// Runs a program that must succeed; returns its output.
pub fn said(command: &mut Command) -> Result<String> {
    let shown = format!("{command:?}");
    let output = command.stdin(Stdio::null()).output();
    let output = output.with_context(|| format!("cannot start {shown}"))?;
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    ensure!(output.status.success(), "{shown} ended with {}:\n{text}", output.status);
    Ok(text)
}

/// Makes an image at `drive` for the files of a database, laid out by `layout`.
pub(crate) fn make_drive(
    imbrex: &Path,
    drive: &Path,
    layout: &str,
    options: &[&str],
) -> Result<()> {
    let create = ["drive", "create", "--no-store", "--layout", layout];
    let made = said(Command::new(imbrex).args(create).args(options).arg(drive));
    made.map(drop).with_context(|| format!("cannot make a drive for {layout}"))
}

//! Programs of the system.

use anyhow::{Context, Result, ensure};
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

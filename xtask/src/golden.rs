//! Expected outputs: script tests and examples, checked by their own tests and rewritten by `cargo xtask golden`.

use crate::cargo::Cargo;
use anyhow::Result;
use std::path::Path;

/// Rewrites what script tests and examples expect.
pub(crate) fn rewrite(root: &Path, package: Option<&str>) -> Result<()> {
    let which = match package {
        Some(package) => vec!["test", "--package", package],
        None => vec!["test", "--workspace"],
    };
    Cargo::new(root).env("REWRITE", "1").args(which).run()?;
    println!("rewritten; `git diff` shows what changed");
    Ok(())
}

//! The system's packages that chores need.
//!
//! What is missing is installed where that needs no question (root on Debian), else it is named and what
//! needs it is skipped, loudly: a green run that tested nothing must not look like one that did.

use anyhow::{Result, ensure};
use std::path::Path;
use std::process::{Command, Stdio};

/// A file that is there with a package, and the package's name.
pub(crate) type Need = (&'static str, &'static str);

/// Sees to it that everything is there; false, and says so, where it is not and `may_skip`.
pub(crate) fn provide(needs: &[Need], what: &str, may_skip: bool) -> Result<bool> {
    let absent = missing(needs);
    if absent.is_empty() || install(needs, &absent) {
        return Ok(true);
    }
    let list = absent.join(" ");
    ensure!(may_skip, "not installed: {list}; apt-get install {list}");
    println!("SKIPPED: {what}; not installed: {list}");
    println!("         apt-get install {list}");
    Ok(false)
}

fn missing(needs: &[Need]) -> Vec<&'static str> {
    needs.iter().filter(|(file, _)| !Path::new(file).exists()).map(|(_, name)| *name).collect()
}

/// Whether the packages could be installed without asking anybody.
fn install(needs: &[Need], packages: &[&str]) -> bool {
    println!("installing {}", packages.join(", "));
    let done = Command::new("apt-get")
        .args(["install", "-y", "-qq"])
        .args(packages)
        .env("DEBIAN_FRONTEND", "noninteractive")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status();
    done.is_ok_and(|status| status.success()) && missing(needs).is_empty()
}

//! The system's packages that chores need.
//!
//! What is missing is installed where that needs no question (root on Debian), else it is named and what
//! needs it is skipped, loudly: a green run that tested nothing must not look like one that did.

use anyhow::{Result, ensure};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

static SKIPPED: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Says that something is not tested, now and once more at the end of CI; `how` it could be is said now.
pub(crate) fn skip(what: &str, how: &str) {
    println!("SKIPPED: {what}");
    if !how.is_empty() {
        println!("         {how}");
    }
    SKIPPED.lock().unwrap_or_else(PoisonError::into_inner).push(what.to_owned());
}

/// What was not tested so far.
pub(crate) fn skipped() -> Vec<String> {
    SKIPPED.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

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
    skip(&format!("{what}; not installed: {list}"), &format!("apt-get install {list}"));
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

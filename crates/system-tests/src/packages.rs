//! The system's packages that tests and chores need.
//!
//! A missing package is installed if that needs no question (root on Debian). Otherwise it is named, and the test that
//! needs it is skipped in plain sight (T2): a green run that tested nothing must not look like one that did.

use anyhow::{Result, ensure};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Once;

/// Reports that `what` was not tested, and `how` it could be (T2). The gate repeats every such line at its end.
pub fn skip(what: &str, how: &str) {
    println!("SKIPPED: {what}");
    if !how.is_empty() {
        println!("         {how}");
    }
}

/// A file that a package installs, and the package's name.
pub type Need = (&'static str, &'static str);

/// Installs what is missing. Returns false after a report if that fails and `may_skip` is set.
pub fn provide(needs: &[Need], what: &str, may_skip: bool) -> Result<bool> {
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

/// Installs packages; returns whether nothing is missing afterwards.
fn install(needs: &[Need], packages: &[&str]) -> bool {
    try_install(packages) && missing(needs).is_empty()
}

/// Installs packages if that needs no question; returns whether it did. A new container has no list of packages, so the
/// list is fetched first.
///
/// Steps of the gate run beside each other, and `apt-get update` does not wait for the lock of another
/// one. So one process at a time installs.
pub fn try_install(packages: &[&str]) -> bool {
    println!("installing {}", packages.join(", "));
    static UPDATED: Once = Once::new();
    UPDATED.call_once(|| {
        // Without it the list of before may do.
        let _ = apt_get(&["update", "-qq"]);
    });
    apt_get(&[&["install", "-y", "-qq", "--no-install-recommends"], packages].concat())
}

fn apt_get(args: &[&str]) -> bool {
    let status = Command::new("flock")
        .arg(std::env::temp_dir().join("imbrex-apt-get.lock"))
        .arg("apt-get")
        .args(["-o", "DPkg::Lock::Timeout=300"])
        .args(args)
        .env("DEBIAN_FRONTEND", "noninteractive")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status();
    status.is_ok_and(|status| status.success())
}

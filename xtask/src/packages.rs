//! The system's packages that chores need.
//!
//! What is missing is installed where that needs no question (root on Debian), else it is named and what
//! needs it is skipped, loudly: a green run that tested nothing must not look like one that did.

use anyhow::{Result, ensure};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Once;

/// Says that something is not tested, and how it could be; CI repeats every such line at its end.
pub(crate) fn skip(what: &str, how: &str) {
    println!("SKIPPED: {what}");
    if !how.is_empty() {
        println!("         {how}");
    }
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
    try_install(packages) && missing(needs).is_empty()
}

/// Installs packages where that needs no question; whether it did. A new container has no list of packages, so the list
/// is fetched first.
pub(crate) fn try_install(packages: &[&str]) -> bool {
    println!("installing {}", packages.join(", "));
    static UPDATED: Once = Once::new();
    UPDATED.call_once(|| {
        // Without it the list of before may do.
        let _ = apt_get(&["update", "-qq"]);
    });
    apt_get(&[&["install", "-y", "-qq", "--no-install-recommends"], packages].concat())
}

fn apt_get(args: &[&str]) -> bool {
    let status = Command::new("apt-get")
        .args(["-o", "DPkg::Lock::Timeout=300"])
        .args(args)
        .env("DEBIAN_FRONTEND", "noninteractive")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status();
    status.is_ok_and(|status| status.success())
}

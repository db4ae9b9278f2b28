//! Dependencies: each has a sentence in deny.toml that says why it is worth its weight.
//!
//! A sentence is a comment line `#   name -- reason.` in deny.toml, so that one file holds the
//! reasons and the policy that `cargo deny` enforces.

use super::layering::Package;
use super::tree::{Finding, Tree, line_of};
use std::collections::BTreeMap;

const RULE: &str = "dependency";
const PAGE: &str = "deny.toml";

pub(super) fn check(tree: &Tree, packages: &[Package]) -> Vec<Finding> {
    let page = tree.text(PAGE).unwrap_or_default();
    let reasons: BTreeMap<&str, &str> = page
        .lines()
        .filter_map(|line| line.strip_prefix("#   ")?.split_once(" -- "))
        .map(|(name, reason)| (name.trim(), reason.trim()))
        .collect();
    let mut findings = Vec::new();
    for package in packages {
        for dependency in package.dependencies.iter().filter(|d| !d.is_ours) {
            if reasons.get(dependency.name.as_str()).is_none_or(|r| r.len() <= 10) {
                let manifest = tree.text(&package.manifest).unwrap_or_default();
                let what = format!("{} has no sentence in {PAGE}", dependency.name);
                let line = line_of(manifest, &dependency.name);
                findings.push(Finding::new(&package.manifest, line, RULE, what));
            }
        }
    }
    for name in reasons.keys() {
        let used = packages.iter().flat_map(|p| &p.dependencies).any(|d| d.name == *name);
        if !used {
            let what = format!("{name} is no dependency any more");
            let line = line_of(page, &format!("#   {name} -- "));
            findings.push(Finding::new(PAGE, line, RULE, what));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::layering::Dependency;
    use super::*;

    #[test]
    fn every_dependency_needs_a_reason_and_every_reason_a_dependency() {
        let package = |name: &str| Package {
            name: "a".to_owned(),
            manifest: "Cargo.toml".to_owned(),
            dependencies: vec![Dependency {
                name: name.to_owned(),
                is_ours: false,
                for_tests: false,
            }],
        };
        let page = "# Why:\n#   crc32c -- hardware CRC-32C, the checksum of every format.\n";
        let tree = Tree::of(&[(PAGE, page), ("Cargo.toml", "[dependencies]\nleft-pad = \"1\"\n")]);
        assert_eq!(check(&tree, &[package("crc32c")]), []);
        assert_eq!(
            check(&tree, &[package("left-pad")])
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>(),
            [
                "Cargo.toml:2: [dependency] left-pad has no sentence in deny.toml",
                "deny.toml:2: [dependency] crc32c is no dependency any more"
            ]
        );
    }
}

//! Layering: which of our crates may use which, as the table in ARCHITECTURE.md says.
//!
//! The table is the source: rows `| crates | may use | ... |` under the heading `| Crate |`, in
//! which "everything above" means every crate of the rows before. Tests may also use the crates
//! named in [`FOR_TESTS`].

use super::tree::{Finding, Tree, line_of};
use cargo_metadata::{DependencyKind, Metadata};
use std::collections::{BTreeMap, BTreeSet};

const RULE: &str = "layering";
const PAGE: &str = "ARCHITECTURE.md";

/// What any crate's tests may use besides its row: the drives, and seeded randomness.
const FOR_TESTS: [&str; 4] = ["clockwork", "disk", "disk-sim", "translate"];

/// One package of the workspace, as far as tidy cares.
#[derive(Debug)]
pub(super) struct Package {
    /// Without the prefix `imbrex-`; the engine is `engine`.
    pub(super) name: String,
    pub(super) manifest: String,
    pub(super) dependencies: Vec<Dependency>,
}

#[derive(Debug)]
pub(super) struct Dependency {
    /// As the manifest names it.
    pub(super) name: String,
    /// Whether it is a crate of this tree.
    pub(super) is_ours: bool,
    /// A dependency of tests, or of a feature that opens the crate to them.
    pub(super) for_tests: bool,
}

pub(super) fn packages(metadata: &Metadata) -> Vec<Package> {
    metadata
        .workspace_packages()
        .into_iter()
        .map(|package| Package {
            name: short(&package.name),
            manifest: package
                .manifest_path
                .strip_prefix(&metadata.workspace_root)
                .unwrap_or(&package.manifest_path)
                .to_string(),
            dependencies: package
                .dependencies
                .iter()
                .map(|d| Dependency {
                    name: d.name.clone(),
                    is_ours: d.path.is_some(),
                    for_tests: d.kind == DependencyKind::Development || d.optional,
                })
                .collect(),
        })
        .collect()
}

fn short(name: &str) -> String {
    name.strip_prefix("imbrex-").unwrap_or(name).to_owned()
}

pub(super) fn check(tree: &Tree, packages: &[Package]) -> Vec<Finding> {
    let table = tree.text(PAGE).map(read_table).unwrap_or_default();
    if table.is_empty() {
        return vec![Finding::new(PAGE, 1, RULE, "no table that starts with `| Crate |`")];
    }
    let mut findings = Vec::new();
    for package in packages {
        let Some(allowed) = table.get(&package.name) else {
            let what = format!("crate {} has no row in the table of crates", package.name);
            findings.push(Finding::new(PAGE, 1, RULE, what));
            continue;
        };
        for dependency in package.dependencies.iter().filter(|d| d.is_ours) {
            let target = short(&dependency.name);
            let test_only = dependency.for_tests
                && (FOR_TESTS.contains(&target.as_str()) || target == package.name);
            if !allowed.contains(&target) && !test_only {
                let manifest = tree.text(&package.manifest).unwrap_or_default();
                findings.push(Finding::new(
                    &package.manifest,
                    line_of(manifest, &dependency.name),
                    RULE,
                    format!("{} may not depend on {target}: see the table in {PAGE}", package.name),
                ));
            }
        }
    }
    findings
}

/// Crate -> the crates it may use.
fn read_table(page: &str) -> BTreeMap<String, BTreeSet<String>> {
    let mut table: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let rows = page
        .lines()
        .skip_while(|line| !line.starts_with("| Crate |"))
        .skip(2)
        .take_while(|line| line.starts_with('|'));
    for row in rows {
        let mut cells = row.split('|').skip(1).map(|cell| cell.trim().replace('`', ""));
        let (Some(crates), Some(may_use)) = (cells.next(), cells.next()) else { continue };
        let allowed: BTreeSet<String> = match may_use.as_str() {
            "nothing" => BTreeSet::new(),
            "everything above" => table.keys().cloned().collect(),
            list => list.split(", ").map(str::to_owned).collect(),
        };
        for name in crates.split(", ") {
            table.insert(name.to_owned(), allowed.clone());
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
        | Crate | May depend on (ours) | |\n|---|---|---|\n\
        | `disk`, `clockwork` | nothing | |\n| `files` | `disk` | |\n\
        | `cli` | everything above | |\n";

    fn check_one(name: &str, dependency: &str, for_tests: bool) -> Vec<String> {
        let tree =
            Tree::of(&[(PAGE, TABLE), ("Cargo.toml", &format!("[dependencies]\n{dependency}\n"))]);
        let package = Package {
            name: name.to_owned(),
            manifest: "Cargo.toml".to_owned(),
            dependencies: vec![Dependency {
                name: dependency.to_owned(),
                is_ours: true,
                for_tests,
            }],
        };
        check(&tree, &[package]).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn arrows_of_the_table_pass_and_others_are_named_with_their_line() {
        assert_eq!(check_one("files", "imbrex-disk", false), [""; 0]);
        assert_eq!(check_one("cli", "imbrex-files", false), [""; 0]);
        assert_eq!(check_one("disk", "imbrex-clockwork", true), [""; 0]);
        assert_eq!(
            check_one("disk", "imbrex-files", false),
            ["Cargo.toml:2: [layering] disk may not depend on files: see the table in \
              ARCHITECTURE.md"]
        );
        assert_eq!(
            check_one("serve", "imbrex-disk", false),
            ["ARCHITECTURE.md:1: [layering] crate serve has no row in the table of crates"]
        );
    }
}

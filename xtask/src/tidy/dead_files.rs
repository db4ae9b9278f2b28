//! Dead files: a `.rs` file that no target reaches by `mod` is compiled by nobody.

use super::tree::{Finding, Tree};
use cargo_metadata::Metadata;
use regex::Regex;
use std::collections::BTreeSet;

/// The root files of all targets, and those of `fuzz/` and of the rival stores, which are
/// workspaces of their own.
pub(super) fn roots(metadata: &Metadata, tree: &Tree) -> BTreeSet<String> {
    let ours = metadata.workspace_packages();
    let targets = ours.iter().flat_map(|package| &package.targets).filter_map(|target| {
        target.src_path.strip_prefix(&metadata.workspace_root).ok().map(ToString::to_string)
    });
    let is_root = |path: &str| {
        let is_fuzz = path.starts_with("fuzz/fuzz_targets/");
        let is_rival = path.starts_with("crates/bench/rivals/");
        is_fuzz || is_rival && (path.ends_with("src/main.rs") || path.ends_with("src/lib.rs"))
    };
    let others = tree.ending(".rs").map(|(path, _)| path.to_owned());
    targets.chain(others.filter(|path| is_root(path))).collect()
}

pub(super) fn check(tree: &Tree, roots: &BTreeSet<String>) -> Vec<Finding> {
    let declaration = Regex::new(r"(?m)^\s*(?:pub(?:\([^)]*\))?\s+)?mod\s+(\w+)\s*;")
        .expect("the pattern is a constant");
    let include = Regex::new(r#"include!\("([^"]+\.rs)"\)"#).expect("the pattern is a constant");
    let mut reached = BTreeSet::new();
    let mut waiting: Vec<String> = roots.iter().cloned().collect();
    while let Some(path) = waiting.pop() {
        let Some(text) = tree.text(&path) else { continue };
        if !reached.insert(path.clone()) {
            continue;
        }
        let (dir, name) = path.rsplit_once('/').unwrap_or(("", &path));
        let own_dir = if roots.contains(&path) || name == "mod.rs" {
            dir.to_owned()
        } else {
            path.trim_end_matches(".rs").to_owned()
        };
        for found in declaration.captures_iter(text) {
            waiting.push(format!("{own_dir}/{}.rs", &found[1]));
            waiting.push(format!("{own_dir}/{}/mod.rs", &found[1]));
        }
        for found in include.captures_iter(text) {
            waiting.push(format!("{dir}/{}", &found[1]));
        }
    }
    tree.ending(".rs")
        .filter(|(path, _)| !reached.contains(*path) && !path.contains("testdata/"))
        .map(|(path, _)| Finding::new(path, 1, "dead-file", "no `mod` reaches this file"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_reached_through_nested_modules() {
        let tree = Tree::of(&[
            ("a/src/lib.rs", "mod wal;\npub(crate) mod read;"),
            ("a/src/wal.rs", "#[cfg(test)]\nmod tests;"),
            ("a/src/wal/tests.rs", ""),
            ("a/src/read/mod.rs", "mod cache;"),
            ("a/src/read/cache.rs", ""),
            ("a/src/forgotten.rs", ""),
        ]);
        let found = check(&tree, &BTreeSet::from(["a/src/lib.rs".to_owned()]));
        assert_eq!(
            found.iter().map(ToString::to_string).collect::<Vec<_>>(),
            ["a/src/forgotten.rs:1: [dead-file] no `mod` reaches this file"]
        );
    }
}

//! Circles: files of one crate that import each other, directly or through others.
//!
//! ```text
//!   a.rs -> b.rs -> c.rs -> d.rs        a circle of three files (a, b, c); d.rs is in none
//!     ^---------------'
//! ```
//!
//! No file of a circle can be read, moved or tested without all the others, so a circle is a single module however
//! many files it has. At most [`FILES_MAX`] are one thing that a reader can hold.

use super::imports::{Arrows, Imports, imports};
use super::tree::{Finding, Tree};
use anyhow::{Context, Result};
use cargo_metadata::{Metadata, TargetKind};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

const FILES_MAX: usize = 3;

/// The imports of one crate: of its library and its programs together.
#[derive(Debug, Default)]
struct Crate {
    name: String,
    root: String,
    imports: Imports,
}

impl Crate {
    /// The circles over one file, largest first; equal ones by their first file.
    fn circles(&self) -> Vec<BTreeSet<&str>> {
        let mut circles = circles(&self.imports.arrows);
        circles.sort_by_key(|circle| (usize::MAX - circle.len(), circle.first().copied()));
        circles
    }

    fn largest(&self) -> usize {
        self.circles().first().map_or(1, BTreeSet::len)
    }
}

/// The sets of more than one file that reach each other.
fn circles(arrows: &Arrows) -> Vec<BTreeSet<&str>> {
    let mut next: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (from, to) in arrows.keys() {
        next.entry(from).or_default().push(to);
    }
    let reached: BTreeMap<&str, BTreeSet<&str>> =
        next.keys().map(|&from| (from, reached_from(from, &next))).collect();
    let mut found: Vec<BTreeSet<&str>> = Vec::new();
    for (&from, all) in &reached {
        if !all.contains(from) || found.iter().any(|circle| circle.contains(from)) {
            continue;
        }
        let both_ways = |to: &&str| reached.get(to).is_some_and(|back| back.contains(from));
        found.push(all.iter().copied().filter(both_ways).collect());
    }
    found
}

fn reached_from<'a>(from: &str, next: &BTreeMap<&'a str, Vec<&'a str>>) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut waiting: Vec<&str> = next.get(from).into_iter().flatten().copied().collect();
    while let Some(file) = waiting.pop() {
        if reached.insert(file) {
            waiting.extend(next.get(file).into_iter().flatten());
        }
    }
    reached
}

/// The crates of the workspace, in the order of its members' paths.
fn crates(tree: &Tree, metadata: &Metadata) -> Result<Vec<Crate>> {
    let mut crates = Vec::new();
    for package in metadata.workspace_packages() {
        let mut imported = Imports::default();
        let mut first_root = None;
        let kinds = |kind: &TargetKind| {
            matches!(
                kind,
                TargetKind::Lib | TargetKind::Bin | TargetKind::CDyLib | TargetKind::StaticLib
            )
        };
        for target in package.targets.iter().filter(|target| target.kind.iter().any(kinds)) {
            let root = target.src_path.strip_prefix(&metadata.workspace_root)?.to_string();
            let of_target = imports(&root, &|path| tree.text(path))
                .with_context(|| format!("cannot parse what {root} reaches"))?;
            imported.files.extend(of_target.files);
            imported.arrows.extend(of_target.arrows);
            first_root.get_or_insert(root);
        }
        let name = package.name.to_string();
        crates.extend(first_root.map(|root| Crate { name, root, imports: imported }));
    }
    Ok(crates)
}

pub(super) fn check(tree: &Tree, metadata: &Metadata) -> Result<Vec<Finding>> {
    let crates = crates(tree, metadata)?;
    Ok(crates.iter().filter_map(finding).collect())
}

fn finding(one: &Crate) -> Option<Finding> {
    let largest = one.largest();
    let what = format!(
        "a circle of {largest} files; at most {FILES_MAX}: `cargo xtask circles {}` shows the imports that close it",
        one.name
    );
    (largest > FILES_MAX).then(|| Finding::new(&one.root, 1, "circle", what))
}

/// Prints each crate's circles; of one crate, named with or without the prefix `imbrex-`, the imports inside them too.
pub(crate) fn print(root: &std::path::Path, only: Option<&str>) -> Result<()> {
    let tree = Tree::read(root)?;
    let crates = crates(&tree, &super::metadata(root)?)?;
    let is_meant = |one: &&Crate| {
        only.is_none_or(|only| one.name == only || one.name.strip_prefix("imbrex-") == Some(only))
    };
    let mut out = String::new();
    for one in crates.iter().filter(is_meant) {
        describe(one, only.is_some(), &mut out)?;
    }
    anyhow::ensure!(!out.is_empty(), "no such crate: {}", only.unwrap_or_default());
    print!("{out}");
    Ok(())
}

fn describe(one: &Crate, with_names: bool, out: &mut String) -> Result<()> {
    let dir = one.root.rsplit_once('/').map_or("", |(dir, _)| dir);
    let short =
        |file: &str| file.strip_prefix(dir).unwrap_or(file).trim_start_matches('/').to_owned();
    let circles = one.circles();
    let Imports { files, arrows } = &one.imports;
    let largest = one.largest();
    writeln!(
        out,
        "{}: {} files, {} arrows, largest circle {largest}",
        one.name,
        files.len(),
        arrows.len()
    )?;
    for circle in &circles {
        let names: Vec<String> = circle.iter().map(|file| short(file)).collect();
        writeln!(out, "  circle of {}: {}", circle.len(), names.join(" "))?;
        let inside = arrows.iter().filter(|((from, to), _)| {
            with_names && circle.contains(from.as_str()) && circle.contains(to.as_str())
        });
        for ((from, to), names) in inside {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            writeln!(out, "    {} -> {}: {}", short(from), short(to), names.join(", "))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(arrows: &[(&str, &str)]) -> Crate {
        let arrows: Arrows = arrows
            .iter()
            .map(|&(from, to)| ((from.to_owned(), to.to_owned()), BTreeSet::new()))
            .collect();
        let imports = Imports { files: BTreeSet::new(), arrows };
        Crate { name: "a".to_owned(), root: "a/src/lib.rs".to_owned(), imports }
    }

    fn ring(files: usize) -> Crate {
        let names: Vec<String> = (0..files).map(|at| format!("{at}.rs")).collect();
        let arrows: Vec<(&str, &str)> =
            (0..files).map(|at| (names[at].as_str(), names[(at + 1) % files].as_str())).collect();
        of(&arrows)
    }

    #[test]
    fn files_that_reach_each_other_are_a_circle() {
        let one = of(&[
            ("a", "b"),
            ("b", "c"),
            ("c", "a"),
            ("c", "d"),
            ("e", "f"),
            ("f", "e"),
            ("g", "a"),
        ]);
        let shown: Vec<Vec<&str>> =
            one.circles().into_iter().map(|circle| circle.into_iter().collect()).collect();
        assert_eq!(shown, [vec!["a", "b", "c"], vec!["e", "f"]]);
        assert_eq!(of(&[("a", "b"), ("b", "c"), ("a", "c")]).largest(), 1);
    }

    #[test]
    fn four_files_are_too_many() {
        assert_eq!(finding(&ring(3)).map(|found| found.what), None);
        let found = finding(&ring(4)).unwrap();
        assert!(found.what.starts_with("a circle of 4 files; at most 3"), "{}", found.what);
    }
}

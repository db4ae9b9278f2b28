//! Tidy: the rules of the house that no compiler checks, as one walk over the tree.
//!
//! Every rule reads a [`Tree`] (texts by path, so a rule's tests need no disk) and returns
//! [`Finding`]s, each with a file, a line and the rule broken.
//!
//! | rule | what it holds |
//! |---|---|
//! | `layering` | arrows between crates are those of the table in ARCHITECTURE.md |
//! | `size` | a file has at most 800 lines (functions: clippy's `too_many_lines`) |
//! | `ban` | no unfinished code, no nameless drawers, no machine's own paths |
//! | `format` | every page of docs/formats is part of the code and of the index |
//! | `dependency` | every dependency has its sentence in deny.toml |
//! | `decision` | docs/decisions is numbered without holes, and its index is complete |
//! | `dead-file` | every `.rs` file is reached by a `mod` |
//! | `circle` | at most three files of a crate import each other in a circle |
//! | `english` | phrases that read as translated, and sentences over 40 words, only become fewer |
//! | `link` | every relative link of a page leads to a file and a heading; the book lists every page |
//! | `results` | every page of docs/results is what its data file says, and short |

mod bans;
pub(crate) mod circles;
mod dead_files;
mod decisions;
mod dependencies;
pub(crate) mod english;
mod formats;
mod imports;
mod layering;
mod links;
mod prose;
mod results;
mod sizes;
#[cfg(test)]
mod tests;
mod tree;

use anyhow::{Context, Result, bail};
use cargo_metadata::Metadata;
use std::path::Path;
use tree::{Finding, Tree};

fn check(tree: &Tree, metadata: &Metadata) -> Result<Vec<Finding>> {
    let packages = layering::packages(metadata);
    let roots = dead_files::roots(metadata, tree);
    let mut findings = [
        layering::check(tree, &packages),
        sizes::check(tree),
        bans::check(tree),
        formats::check(tree),
        dependencies::check(tree, &packages),
        decisions::check(tree),
        dead_files::check(tree, &roots),
        circles::check(tree, metadata)?,
        english::check(tree),
        results::check(tree),
        links::check(tree),
    ]
    .concat();
    findings.sort();
    Ok(findings)
}

/// What cargo knows of the workspace's own packages.
fn metadata(root: &Path) -> Result<Metadata> {
    let mut command = cargo_metadata::MetadataCommand::new();
    command.current_dir(root).no_deps().exec().context("cargo metadata failed")
}

/// Checks the tree at `root` and prints what it finds.
pub(crate) fn run(root: &Path) -> Result<()> {
    let tree = Tree::read(root)?;
    let findings = check(&tree, &metadata(root)?)?;
    for finding in &findings {
        println!("{finding}");
    }
    if !findings.is_empty() {
        bail!("{} broken rules; see CONTRIBUTING.md for each rule's reason", findings.len());
    }
    println!("tidy: {} files, no broken rule", tree.files.len());
    Ok(())
}

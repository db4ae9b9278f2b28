//! Results: every page and chart of docs/results is what its data file says (`imbrex_results`).

use super::tree::{Finding, Tree};

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let paths = tree.files.iter().map(|(path, _)| path.as_str());
    imbrex_results::faults(paths, |path| tree.text(path))
        .into_iter()
        .map(|fault| Finding::new(&fault.path, 1, "results", fault.what))
        .collect()
}

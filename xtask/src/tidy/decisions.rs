//! Decisions: pages `docs/decisions/NNNN-name.md`, numbered from 0001 without holes, each in the index.

use super::tree::{Finding, Tree};

const DIR: &str = "docs/decisions/";
const INDEX: &str = "docs/decisions/README.md";

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let pages = tree
        .ending(".md")
        .filter(|(path, _)| *path != INDEX)
        .filter_map(|(path, _)| Some((path, path.strip_prefix(DIR)?)));
    let index = tree.text(INDEX).unwrap_or_default();
    for (expected, (path, name)) in (1..).zip(pages) {
        if !index.contains(&format!("({name})")) {
            findings.push(Finding::new(path, 1, "decision", format!("{INDEX} does not link it")));
        }
        if !name.starts_with(&format!("{expected:04}-")) {
            let what = format!("expected number {expected:04}, so that none is missing or twice");
            findings.push(Finding::new(path, 1, "decision", what));
            break;
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hole_and_a_double_are_found() {
        let pages = |names: &[&str]| {
            let paths: Vec<_> = names.iter().map(|n| format!("{DIR}{n}.md")).collect();
            let index: String = names.iter().map(|n| format!("[it]({n}.md)")).collect();
            let files = paths.iter().map(|p| (p.as_str(), ""));
            let files: Vec<_> = files.chain([(INDEX, index.as_str())]).collect();
            check(&Tree::of(&files)).len()
        };
        assert_eq!(pages(&["0001-a", "0002-b"]), 0);
        assert_eq!(pages(&["0001-a", "0003-b"]), 1);
        assert_eq!(pages(&["0001-a", "0001-b"]), 1);
    }

    #[test]
    fn a_page_that_the_index_leaves_out_is_found() {
        let files = [("docs/decisions/0001-a.md", ""), (INDEX, "")];
        assert_eq!(check(&Tree::of(&files)).len(), 1);
    }
}

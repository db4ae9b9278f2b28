//! Formats: a page of docs/formats is the code's own documentation, or it will lie one day.

use super::tree::{Finding, Tree};

const RULE: &str = "format";
const DIR: &str = "docs/formats/";
const INDEX: &str = "docs/formats/README.md";

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let index = tree.text(INDEX).unwrap_or_default();
    let mut findings = Vec::new();
    for (path, _) in tree.ending(".md") {
        let Some(name) = path.strip_prefix(DIR).filter(|_| path != INDEX) else { continue };
        let include = format!("{DIR}{name}\")]");
        if !tree.ending(".rs").any(|(_, text)| text.contains(&include)) {
            let what = format!("no module has #![doc = include_str!(\".../{DIR}{name}\")]");
            findings.push(Finding::new(path, 1, RULE, what));
        }
        if !index.contains(&format!("({name})")) {
            let what = format!("{INDEX} does not link it");
            findings.push(Finding::new(path, 1, RULE, what));
        }
    }
    for (path, text) in tree.ending("/format.rs") {
        if !text.contains(DIR) {
            let what = format!("includes no page of {DIR}");
            findings.push(Finding::new(path, 1, RULE, what));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_needs_its_code_and_its_link() {
        let code = "#![doc = include_str!(\"../../../docs/formats/wal.md\")]";
        let whole = [
            (INDEX, "[wal](wal.md)"),
            ("docs/formats/wal.md", ""),
            ("crates/a/src/format.rs", code),
        ];
        assert_eq!(check(&Tree::of(&whole)), []);
        assert_eq!(check(&Tree::of(&whole[1..])).len(), 1, "not linked");
        assert_eq!(check(&Tree::of(&whole[..2])).len(), 1, "not included");
        assert_eq!(check(&Tree::of(&[("crates/a/src/format.rs", "")])).len(), 1, "no page");
    }
}

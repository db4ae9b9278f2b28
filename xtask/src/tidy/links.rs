//! Links: every relative link of a Markdown page leads to a file of the tree, and to a heading of it.
//!
//! ```text
//!   [text](path#anchor) --path--> a file or a folder    --anchor--> a heading of that page
//!   docs/SUMMARY.md     --------> every page of docs, once: the table of contents of the book
//! ```
//!
//! Links to other sites are not followed. Code, in fences and between backticks, has no links.

use super::tree::{Finding, Tree};
use regex::Regex;
use std::collections::{BTreeMap, BTreeSet};

const RULE: &str = "link";
const BOOK: &str = "docs/";
const SUMMARY: &str = "docs/SUMMARY.md";

/// A link, where it stands.
struct Link {
    line: usize,
    target: String,
}

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let pattern = Regex::new(r"\]\(([^()\s]+)\)").expect("the pattern is a constant and tested");
    let mut findings = Vec::new();
    let mut anchors = BTreeMap::new();
    for (path, text) in tree.ending(".md") {
        for link in links(text, &pattern) {
            if let Err(what) = follow(tree, path, &link.target, &mut anchors) {
                findings.push(Finding::new(path, link.line, RULE, what));
            }
        }
    }
    findings.extend(check_summary(tree, &pattern));
    findings
}

/// Every page of the book is in its table of contents, once.
fn check_summary(tree: &Tree, pattern: &Regex) -> Vec<Finding> {
    let Some(summary) = tree.text(SUMMARY) else { return Vec::new() };
    let mut listed = BTreeSet::new();
    let mut findings = Vec::new();
    for link in links(summary, pattern) {
        if !listed.insert(link.target.clone()) {
            let what = format!("lists {} a second time", link.target);
            findings.push(Finding::new(SUMMARY, link.line, RULE, what));
        }
    }
    for (path, _) in tree.ending(".md") {
        let Some(name) = path.strip_prefix(BOOK).filter(|_| path != SUMMARY) else { continue };
        if !listed.contains(name) {
            findings.push(Finding::new(path, 1, RULE, format!("is not listed in {SUMMARY}")));
        }
    }
    findings
}

/// The relative links of a page.
fn links(text: &str, pattern: &Regex) -> Vec<Link> {
    let mut links = Vec::new();
    for (line, text) in prose(text) {
        for hit in pattern.captures_iter(&text) {
            let target = &hit[1];
            if !target.contains("://") && !target.starts_with("mailto:") {
                links.push(Link { line, target: target.to_owned() });
            }
        }
    }
    links
}

/// The lines outside code, each with its number and without its code spans.
fn prose(text: &str) -> impl Iterator<Item = (usize, String)> {
    let mut is_code = false;
    text.lines().enumerate().filter_map(move |(at, line)| {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
            return None;
        }
        (!is_code).then(|| (at + 1, line.split('`').step_by(2).collect()))
    })
}

/// Whether `target`, in the page at `from`, leads anywhere; else what is wrong with it.
fn follow(
    tree: &Tree,
    from: &str,
    target: &str,
    anchors: &mut BTreeMap<String, BTreeSet<String>>,
) -> Result<(), String> {
    let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
    let to = match path {
        "" => from.to_owned(),
        _ => resolved(from, path).ok_or_else(|| format!("{target} leads out of the tree"))?,
    };
    if from.starts_with(BOOK) && !to.starts_with(BOOK) {
        return Err(format!("{target} leads out of the book: name the file instead"));
    }
    if tree.pictures.contains(&to) {
        return Ok(());
    }
    let Some(text) = tree.text(&to) else {
        let folder = format!("{to}/");
        let is_folder = tree.files.iter().any(|(path, _)| path.starts_with(&folder));
        return if is_folder { Ok(()) } else { Err(format!("{target}: there is no {to}")) };
    };
    if anchor.is_empty() || !to.ends_with(".md") {
        return Ok(());
    }
    let known = anchors.entry(to).or_insert_with(|| headings(text));
    match known.contains(anchor) {
        true => Ok(()),
        false => Err(format!("{target}: no heading gives #{anchor}")),
    }
}

/// `path` as seen from the page at `from`.
fn resolved(from: &str, path: &str) -> Option<String> {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

/// The anchors of a page's headings, as GitHub and mdBook make them.
fn headings(text: &str) -> BTreeSet<String> {
    let mut anchors = BTreeSet::new();
    let mut is_code = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        }
        let heading = line.trim_start_matches('#');
        if is_code || !line.starts_with('#') || !heading.starts_with(' ') {
            continue;
        }
        let anchor: String = heading
            .trim()
            .to_lowercase()
            .chars()
            .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'))
            .map(|c| if c == ' ' { '-' } else { c })
            .collect();
        let again = (1..).map(|nth| format!("{anchor}-{nth}"));
        let free = std::iter::once(anchor.clone()).chain(again).find(|a| !anchors.contains(a));
        anchors.extend(free);
    }
    anchors
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_one(text: &str) -> Vec<String> {
        let files = [
            ("README.md", text),
            ("docs/SUMMARY.md", "[a](a.md)\n[b](b/README.md)"),
            ("docs/a.md", "# The title\n\n[up](b/README.md#two-words) and [self](#the-title)"),
            ("docs/b/README.md", "# B\n\n## Two *words*\n\n[a](../a.md)\n```sh\n[no](no.md)\n```"),
            ("docs/b/chart.svg", ""),
        ];
        check(&Tree::of(&files)).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn links_that_lead_somewhere_pass() {
        for good in [
            "[a](docs/a.md#the-title) and [folder](docs/b)",
            "[site](https://example.org/x) and `[code](no.md)`",
            "![chart](docs/b/chart.svg)",
        ] {
            assert_eq!(check_one(good), [""; 0], "{good}");
        }
    }

    #[test]
    fn links_that_lead_nowhere_are_found() {
        for bad in ["[a](docs/c.md)", "[a](docs/a.md#a-title)", "[a](../a.md)", "x\n\n[a](b)"] {
            assert_eq!(check_one(bad).len(), 1, "{bad}");
        }
    }

    #[test]
    fn a_page_of_the_book_stays_in_it_and_is_listed_once() {
        let found = |files: &[(&str, &str)]| check(&Tree::of(files)).len();
        let outside = ("README.md", "");
        assert_eq!(
            found(&[outside, (SUMMARY, "[a](a.md)"), ("docs/a.md", "[r](../README.md)")]),
            1
        );
        assert_eq!(found(&[(SUMMARY, "[a](a.md)"), ("docs/a.md", ""), ("docs/b.md", "")]), 1);
        assert_eq!(found(&[(SUMMARY, "[a](a.md)\n[a](a.md)"), ("docs/a.md", "")]), 1);
    }
}

//! The tree that tidy reads, and what it finds: the ground of every rule.

use anyhow::{Context, Result};
use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;

/// The text files of the tree, sorted by path; paths are relative to the root, with `/`.
#[derive(Debug, Default)]
pub(super) struct Tree {
    pub(super) files: Vec<(String, String)>,
    /// The files that are no text: pictures.
    pub(super) pictures: BTreeSet<String>,
}

impl Tree {
    /// Every file that git would not ignore and that is text.
    pub(super) fn read(root: &Path) -> Result<Tree> {
        let (mut files, mut pictures) = (Vec::new(), BTreeSet::new());
        let walk = ignore::WalkBuilder::new(root)
            .hidden(false)
            .filter_entry(|entry| entry.file_name() != ".git")
            .build();
        for entry in walk {
            let entry = entry.context("cannot walk the tree")?;
            if !entry.file_type().is_some_and(|t| t.is_file()) {
                continue;
            }
            let bytes = std::fs::read(entry.path())
                .with_context(|| format!("cannot read {}", entry.path().display()))?;
            let Ok(path) = entry.path().strip_prefix(root) else { continue };
            let path = path.to_string_lossy().replace('\\', "/");
            match String::from_utf8(bytes) {
                Ok(text) => files.push((path, text)),
                Err(_) => _ = pictures.insert(path),
            }
        }
        files.sort();
        Ok(Tree { files, pictures })
    }

    /// The text of one file.
    pub(super) fn text(&self, path: &str) -> Option<&str> {
        let at = self.files.binary_search_by(|(p, _)| p.as_str().cmp(path)).ok()?;
        Some(&self.files[at].1)
    }

    /// The files whose path ends in `suffix`.
    pub(super) fn ending<'a>(
        &'a self,
        suffix: &'a str,
    ) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.files
            .iter()
            .filter(move |(path, _)| path.ends_with(suffix))
            .map(|(path, text)| (path.as_str(), text.as_str()))
    }

    #[cfg(test)]
    pub(super) fn of(files: &[(&str, &str)]) -> Tree {
        let mut files: Vec<_> =
            files.iter().map(|&(path, text)| (path.to_owned(), text.to_owned())).collect();
        files.sort();
        Tree { files, pictures: BTreeSet::new() }
    }
}

/// One broken rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Finding {
    pub(super) path: String,
    pub(super) line: usize,
    pub(super) rule: &'static str,
    pub(super) what: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: [{}] {}", self.path, self.line, self.rule, self.what)
    }
}

impl Finding {
    pub(super) fn new(
        path: &str,
        line: usize,
        rule: &'static str,
        what: impl Into<String>,
    ) -> Finding {
        Finding { path: path.to_owned(), line, rule, what: what.into() }
    }
}

/// The line of `text`, counted from 1, that first holds `needle`; 1 where none does.
pub(super) fn line_of(text: &str, needle: &str) -> usize {
    text.lines().position(|line| line.contains(needle)).map_or(1, |at| at + 1)
}

//! English: phrases that mark a translated sentence, and sentences too long to read once.
//!
//! The rule reads comments and pages. What it finds today is in `english.txt`, a row for each crate
//! or folder, and those counts only go down:
//!
//! ```text
//!   count grew          a finding: rewrite the sentence
//!   count shrank        a note: `cargo xtask english --lower` writes the new count
//! ```
//!
//! A pattern cannot judge a sentence; it finds the ones that nearly always read badly. CONTRIBUTING.md
//! has the rules that need a reader.

use super::prose::{Passage, passages, pattern};
use super::tree::{Finding, Tree};
use anyhow::{Context, Result};
use regex::Regex;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::LazyLock;

const RULE: &str = "english";
const KNOWN: &str = "xtask/src/tidy/english.txt";

/// A sentence of more words than this is two.
const WORDS_MAX: usize = 40;

/// A phrase that nearly always reads as translated, and what to write instead.
struct Phrase {
    pattern: Regex,
    instead: &'static str,
}

static PHRASES: LazyLock<Vec<Phrase>> = LazyLock::new(|| {
    let name = "name the subject: the caller, the writer, a reader, the job, the drive";
    let report = "say who reports, records, returns or knows it, in the active voice";
    [
        (r"(?i)\b(for|by|of|to|with|from|as|than|at|if|and|but|or|that) who\b", name),
        (r"(?i)\bwhoever\b", name),
        (r"(?:[:;] who|^Who|[.?!] Who)\b", name),
        (r"(?i)\bwere it\b|, were (?:they|there)\b", "write a condition with \"if\""),
        (r"(?i)\b(is|are|was|were|be|been|being) told\b", report),
        (r"(?i)\btold of\b|\bof which nobody\b|\bby nobody\b", report),
        (
            r"(?i)(?:[,;]|\band|\bor) (?:(?:by|in|on|to|of) )?(?:(?:an?|the|its) )?[a-z]+ neither[.;]",
            "write \"not even X\", or \"without X\"",
        ),
        (r"(?i)\b(is|are|was|were|be) looked at\b", "write examined, checked, considered or read"),
        (r"(?i)\bto the letter\b", "write exactly, or unchanged"),
    ]
    .map(|(text, instead)| Phrase { pattern: pattern(text), instead })
    .into()
});

/// The findings of one crate or folder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Count {
    phrases: usize,
    long: usize,
}

/// What one passage breaks.
struct Hit {
    line: usize,
    is_long: bool,
    what: String,
}

/// The crate or folder whose row counts `path`.
fn area(path: &str) -> &str {
    let depth = if ["crates/", "adapters/", "docs/"].iter().any(|dir| path.starts_with(dir)) {
        2
    } else {
        1
    };
    path.match_indices('/').nth(depth - 1).map_or(path, |(at, _)| &path[..at])
}

fn hits(passage: &Passage) -> Vec<Hit> {
    let text = passage.text();
    let mut found = Vec::new();
    for Phrase { pattern, instead } in PHRASES.iter() {
        for hit in pattern.find_iter(text) {
            let what = format!("{:?}: {instead}", hit.as_str());
            found.push(Hit { line: passage.line_at(hit.start()), is_long: false, what });
        }
    }
    for (at, sentence) in sentences(text) {
        let words = sentence.split_whitespace().filter(|word| is_word(word)).count();
        if words > WORDS_MAX {
            let start: String = sentence.chars().take(40).collect();
            let what = format!("a sentence of {words} words, at most {WORDS_MAX}: {start:?}");
            found.push(Hit { line: passage.line_at(at), is_long: true, what });
        }
    }
    found
}

fn is_word(token: &str) -> bool {
    token.contains(char::is_alphabetic)
}

/// The sentences of `text`, each with the byte at which it starts.
fn sentences(text: &str) -> Vec<(usize, &str)> {
    static END: LazyLock<Regex> =
        LazyLock::new(|| pattern(r#"[.!?][)"'*_]*\s+[("'*_\[]*[\p{Lu}\p{N}]"#));
    static ABBREVIATION: LazyLock<Regex> =
        LazyLock::new(|| pattern(r"(?i)\b(e\.g|i\.e|cf|vs|no|fig|figs|sec|p|pp|al|ca)\.$"));
    let mut found = Vec::new();
    let mut start = 0;
    for end in END.find_iter(text) {
        let stop = end.start() + 1;
        if !ABBREVIATION.is_match(&text[start..stop]) {
            found.push((start, &text[start..stop]));
            start = stop;
        }
    }
    found.push((start, &text[start..]));
    found
}

fn findings(tree: &Tree) -> Vec<(Finding, bool)> {
    let mut found = Vec::new();
    for (path, text) in &tree.files {
        for hit in passages(path, text).iter().flat_map(hits) {
            found.push((Finding::new(path, hit.line, RULE, hit.what), hit.is_long));
        }
    }
    found.sort();
    found
}

fn counts(findings: &[(Finding, bool)]) -> BTreeMap<&str, Count> {
    let mut counts = BTreeMap::<_, Count>::new();
    for (finding, is_long) in findings {
        let count = counts.entry(area(&finding.path)).or_default();
        if *is_long {
            count.long += 1;
        } else {
            count.phrases += 1;
        }
    }
    counts
}

/// The rows of the table: an area, its phrases, its long sentences.
fn known(table: &str) -> BTreeMap<&str, (usize, Count)> {
    let rows = table.lines().enumerate().filter(|(_, row)| !row.starts_with('#'));
    rows.filter_map(|(at, row)| {
        let mut cells = row.split_whitespace();
        let area = cells.next()?;
        let phrases = cells.next()?.parse().ok()?;
        let long = cells.next()?.parse().ok()?;
        Some((area, (at + 1, Count { phrases, long })))
    })
    .collect()
}

/// Findings where a count grew beyond its row. One that shrank is only noted: many people rewrite at
/// once, and none of them should have to touch the table.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let Some(table) = tree.text(KNOWN) else { return Vec::new() };
    let known = known(table);
    let found = findings(tree);
    let counts = counts(&found);
    let mut grown = Vec::new();
    for (&area, &now) in &counts {
        let (line, before) = known.get(area).copied().unwrap_or((1, Count::default()));
        for (kind, now, before) in
            [("phrases", now.phrases, before.phrases), ("long sentences", now.long, before.long)]
        {
            if now > before {
                let what = format!(
                    "{area}: {now} {kind}, at most {before}: `cargo xtask english {area}` lists them"
                );
                grown.push(Finding::new(KNOWN, line, RULE, what));
            }
        }
    }
    let shrunk = known.iter().any(|(area, (_, before))| {
        let now = counts.get(area).copied().unwrap_or_default();
        now.phrases < before.phrases || now.long < before.long
    });
    if shrunk {
        println!("note: English has improved; `cargo xtask english --lower` lowers {KNOWN}");
    }
    grown
}

/// The table after this tree: rows that shrank are lower, and none is higher unless `raise`.
fn lowered(tree: &Tree, raise: bool) -> String {
    let table = tree.text(KNOWN).unwrap_or_default();
    let known = known(table);
    let found = findings(tree);
    let mut text: String =
        table.lines().filter(|row| row.starts_with('#')).map(|row| format!("{row}\n")).collect();
    for (area, now) in counts(&found) {
        let before = known.get(area).map(|(_, count)| *count).unwrap_or_default();
        let (phrases, long) = if raise {
            (now.phrases, now.long)
        } else {
            (now.phrases.min(before.phrases), now.long.min(before.long))
        };
        if phrases + long > 0 {
            let _ = writeln!(text, "{area} {phrases} {long}");
        }
    }
    text
}

/// How `cargo xtask english` is called.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only files whose path starts with this.
    #[arg(value_name = "PATH", default_value = "")]
    under: String,
    /// Lowers the known counts to those of this tree.
    #[arg(long)]
    lower: bool,
    /// Also raises them: for files that moved to another crate or folder.
    #[arg(long, requires = "lower")]
    raise: bool,
}

/// Lists the findings below a path, or lowers the known counts.
pub(crate) fn run(root: &Path, args: &Args) -> Result<()> {
    let tree = Tree::read(root)?;
    if args.lower {
        return std::fs::write(root.join(KNOWN), lowered(&tree, args.raise))
            .with_context(|| format!("cannot write {KNOWN}"));
    }
    let mut found = findings(&tree);
    found.retain(|(finding, _)| finding.path.starts_with(args.under.trim_start_matches("./")));
    for (finding, _) in &found {
        println!("{finding}");
    }
    for (area, count) in counts(&found) {
        println!("{area}: {} phrases, {} long sentences", count.phrases, count.long);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_one(text: &str) -> Vec<String> {
        let tree = Tree::of(&[("docs/a.md", text)]);
        findings(&tree).iter().map(|(finding, _)| finding.to_string()).collect()
    }

    #[test]
    fn each_phrase_is_found() {
        for bad in [
            "As `sync`, for who has the log.",
            "Whoever waits is woken.",
            "Nothing is announced: who is refused polls.",
            "It ends. Who looked before has lost.",
            "It would fail, were it read twice.",
            "The space is told by the drive.",
            "Space that is free is news of which nobody knows.",
            "Nothing more becomes durable, by a close neither.",
            "A reader does not wait, and a writer neither.",
            "Both are looked at once.",
            "It does this to the letter.",
        ] {
            assert!(!check_one(bad).is_empty(), "{bad}");
        }
    }

    #[test]
    fn plain_english_passes() {
        for good in [
            "The reader, who waits for the lock, is woken.",
            "Neither the reader nor the writer waits.",
            "The options live during the call, which keeps neither.",
            "Ask the one who holds it: `who` prints that.",
            "They were items of one list.",
        ] {
            assert_eq!(check_one(good), [""; 0]);
        }
    }

    #[test]
    fn a_sentence_ends_before_its_forty_first_word() {
        let of = |words: usize| format!("Word{}.", " word".repeat(words - 1));
        assert_eq!(check_one(&of(40)), [""; 0]);
        assert_eq!(check_one(&of(41)).len(), 1);
        assert_eq!(check_one(&format!("{} {}", of(40), of(40))), [""; 0]);
        assert_eq!(check_one(&of(41).replace("Word", "e.g. Word")).len(), 1);
        assert_eq!(check_one(&format!("`{}`", of(41))), [""; 0]);
    }

    #[test]
    fn a_count_may_shrink_but_not_grow() {
        let tree = |row: &str, text: &str| {
            Tree::of(&[(KNOWN, row), ("crates/a/src/lib.rs", text), ("README.md", "Plain.")])
        };
        let bad = "// Whoever waits.\n// Whoever reads.\n";
        assert_eq!(check(&tree("crates/a 2 0\n", bad)), []);
        assert_eq!(check(&tree("# why\ncrates/a 3 1\n", bad)), []);
        assert_eq!(lowered(&tree("# why\ncrates/a 3 1\n", bad), false), "# why\ncrates/a 2 0\n");
        assert_eq!(lowered(&tree("crates/a 1 0\n", bad), false), "crates/a 1 0\n");
        assert_eq!(lowered(&tree("", bad), true), "crates/a 2 0\n");
        let grown = check(&tree("# why\ncrates/a 1 0\n", bad));
        assert_eq!(
            grown.iter().map(ToString::to_string).collect::<Vec<_>>(),
            ["xtask/src/tidy/english.txt:2: [english] crates/a: 2 phrases, at most 1: \
              `cargo xtask english crates/a` lists them"]
        );
    }
}
